/* SPDX-License-Identifier: Apache-2.0 */
/* scan.h: which members were asked who the primary is, what they said, and for how long the silent
 * ones are still awaited. A scan belongs to one connection and one call. */
#ifndef STORE_MONGO_DRIVER_SCAN_H
#define STORE_MONGO_DRIVER_SCAN_H

#include "store/bson.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MONGO_HOST_SIZE 280 /* "host:port" */
/* What a server says that refuses commands which name no version of the Stable API. */
#define MONGO_WANTS_API "apiVersion parameter is required"

typedef enum mongo_said {
    MONGO_SILENT,
    MONGO_ANSWERED,
    MONGO_FAILED,
    MONGO_UNTRUSTED, /* it failed, because its certificate does not verify */
} mongo_said;

typedef struct mongo_asked {
    char host[MONGO_HOST_SIZE];
    char what[160]; /* what it said, or why it cannot be asked; "" while it is silent */
    mongo_said said;
} mongo_asked;

/* Own thread. Times are those of CLOCK_MONOTONIC, in ms. */
typedef struct mongo_scan {
    mongo_asked *of;
    size_t n;
    int64_t most_ms; /* for how long nobody is awaited longer */
    int64_t began_ms;
    int64_t answered_ms; /* when the last answer came */
    bool has_answer;     /* of any member */
    bool names_primary;  /* a member has named another one */
    bool finds_set;      /* constant, as the next: a set's primary is looked for */
    const char *set;     /* NULL, or the name of that set */
    bool wants_all;      /* a primary does not end it */
    bool is_found;       /* a server that can be used has answered */
    const char *doubted; /* NULL, or a member that is asked, too, but is not what is looked for */
} mongo_scan;

/* Whether a server says that it takes writes. Older ones, and the first hello of each connection,
 * have the older word. */
bool mongo_hello_takes_writes(const bson_t *hello);

void mongo_scan_begin(mongo_scan *scan, int64_t most_ms);
void mongo_scan_done(mongo_scan *scan);

/* What the driver reports, as it happens. */
void mongo_scan_asks(mongo_scan *scan, const char *host, int64_t now_ms);
void mongo_scan_hears(mongo_scan *scan, const char *host, const bson_t *hello, int64_t now_ms);
void mongo_scan_misses(mongo_scan *scan, const char *host, const char *why);
/* The same, because its certificate does not verify. */
void mongo_scan_distrusts(mongo_scan *scan, const char *host, const char *why);

/* When those that are silent are awaited no longer. */
int64_t mongo_scan_ends_ms(const mongo_scan *scan);
/* Nobody has answered, and of at least one the certificate does not verify. */
bool mongo_scan_is_untrusted(const mongo_scan *scan);
bool mongo_scan_is_silent(const mongo_scan *scan, const char *host);
/* For how long the silent ones were awaited. */
int64_t mongo_scan_took_ms(const mongo_scan *scan);
/* What each member said, for an error text. */
void mongo_scan_tell(const mongo_scan *scan, int64_t now_ms, char *out, size_t size);

#endif
