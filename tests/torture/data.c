/* SPDX-License-Identifier: Apache-2.0 */
/* data.c: what is the same for counters in MongoDB and in SQLite. A guarded reader raises the fence
 * before it reads: else a write of an earlier holder could still come between its read and its
 * write. */
#include "data.h"

#include <stdio.h>
#include <string.h>

#define TRIES 3 /* of what got no answer; the same token writes the same value again */

counters *data_open(const char *uri, bool is_guarded)
{
    bool is_file = !strncmp(uri, "sqlite:", 7);
    counters *data = is_file ? data_open_sqlite(uri + 7) : data_open_mongo(uri);
    if (data)
        data->is_guarded = is_guarded;
    return data;
}

void data_close(counters *data)
{
    if (data)
        data->close(data);
}

static hf_code stale(const char *name, hf_error *err)
{
    err->code = HF_UNREACHABLE;
    snprintf(err->text, sizeof err->text, "%s: what was read is older than the fence", name);
    return HF_UNREACHABLE;
}

hf_code data_read_guarded(counters *data, const char *name, int64_t token, int64_t *value,
                          hf_error *err)
{
    int64_t fence = 0;
    hf_code code = data->is_guarded ? data->fence(data, name, token, err) : HF_OK;
    if (!code)
        code = data->read(data, name, &fence, value, err);
    if (!code && data->is_guarded && fence != token)
        return stale(name, err);
    return code;
}

/* Once unknown, it stays unknown: the first try may have landed before what refused the second. */
hf_code data_write_guarded(counters *data, const char *name, int64_t token, int64_t value,
                           hf_error *err)
{
    bool is_unknown = false;
    hf_code code = HF_UNKNOWN;
    for (int i = 0; i < TRIES && code == HF_UNKNOWN; i++) {
        code = data->write(data, name, data->is_guarded ? token : 0, value, err);
        is_unknown |= code == HF_UNKNOWN;
    }
    return code && is_unknown ? HF_UNKNOWN : code;
}

static const char *plain(const char *name)
{
    static _Thread_local char text[100];
    snprintf(text, sizeof text, "%s plain", name);
    return text;
}

hf_code data_read_plain(counters *data, const char *name, int64_t *value, hf_error *err)
{
    int64_t fence;
    return data->read(data, plain(name), &fence, value, err);
}

hf_code data_write_plain(counters *data, const char *name, int64_t value, hf_error *err)
{
    return data->write(data, plain(name), 0, value, err);
}
