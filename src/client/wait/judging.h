/* SPDX-License-Identifier: Apache-2.0 */
/* judging.h: which sessions stand ahead of a request, and whether they live (L1, R5, R6, R9). */
#ifndef CLIENT_WAIT_JUDGING_H
#define CLIENT_WAIT_JUDGING_H

#include "client/hold/lock_request.h"

#include "core/judge.h"
#include "core/record.h"

#define AHEAD_SEEN 2

/* What a look has shown of a session, for messages. */
struct ahead_seen {
    hf_id session;             /* zero: nothing */
    char who[HF_TEXT_MAX + 1]; /* "": not known */
    bool is_missing;           /* it was not there: nobody knows when its lease ended */
    int64_t overdue_ms; /* how long its lease has been over by the store's clock; 0: it runs */
    int64_t ttl_ms;
};

/* What one request knows about those ahead of it; own thread. */
struct ahead {
    hf_record record;   /* as last seen; written by its owner */
    struct judge judge; /* of the sessions in there; this and what follows: judging.c */
    struct ahead_seen seen[AHEAD_SEEN]; /* the first of the record: one holds, one may be next */
};

typedef enum judging {
    JUDGING_NONE,    /* nothing to be done */
    JUDGING_CHANGED, /* tickets of dead sessions were taken out: look again */
} judging;

/* Looks at the sessions that stand in the request's way, marks the dead, takes their tickets out.
 * trusts: a session that the store reports as gone counts as dead (R6). */
hf_code judging_tick(struct lock_request *request, struct ahead *ahead, hf_mono now, bool trusts,
                     judging *out, hf_error *err);

/* What is known of the first holder; NULL: nobody has looked at its session yet. */
const struct ahead_seen *judging_seen(const struct ahead *ahead);

/* For people: the first holder. */
const char *judging_holder(const struct lock_request *request, const struct ahead *ahead);

void ahead_done(struct ahead *ahead); /* frees what it points to */

#endif
