/* SPDX-License-Identifier: Apache-2.0 */
/* data.h: the counters that the campaign's clients count up while they hold a lock: one behind
 * hf_guard_*(), one that nothing but the lock protects. One data per thread. */
#ifndef TORTURE_DATA_H
#define TORTURE_DATA_H

#include <holdfast/holdfast.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct counters counters;

/* "mongodb://..." (its database, collection "torture") or "sqlite:PATH". Without is_guarded the
 * guarded counter is not guarded either: a negative control. NULL: it could not be opened. */
counters *data_open(const char *uri, bool is_guarded);
void data_close(counters *data);

/* HF_OK: *value is what holders with lower tokens left, and none of them can change it any more.
 * HF_FENCED: a later holder was here. */
hf_code data_read_guarded(counters *data, const char *name, int64_t token, int64_t *value,
                          hf_error *err);
/* HF_UNKNOWN: it may be written. */
hf_code data_write_guarded(counters *data, const char *name, int64_t token, int64_t value,
                           hf_error *err);
hf_code data_read_plain(counters *data, const char *name, int64_t *value, hf_error *err);
hf_code data_write_plain(counters *data, const char *name, int64_t value, hf_error *err);

/* What the two kinds of database fill in; see above. */
struct counters {
    bool is_guarded;
    void (*close)(counters *data);
    hf_code (*fence)(counters *data, const char *name, int64_t token, hf_error *err);
    hf_code (*read)(counters *data, const char *name, int64_t *fence, int64_t *value,
                    hf_error *err);
    hf_code (*write)(counters *data, const char *name, int64_t token, int64_t value, hf_error *err);
};

counters *data_open_mongo(const char *uri);
counters *data_open_sqlite(const char *path);

#endif
