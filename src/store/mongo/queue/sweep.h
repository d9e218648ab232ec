/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h: the housekeeping that all clients share. */
#ifndef STORE_MONGO_QUEUE_SWEEP_H
#define STORE_MONGO_QUEUE_SWEEP_H

#include "store/mongo/driver/store.h"

/* The parts in their order; the document keeps these numbers. */
enum {
    SWEEP_NONE,
    SWEEP_OVERDUE, /* sessions that may have to be marked */
    SWEEP_LOCKS,   /* idle records, and tickets of dead sessions */
    SWEEP_DATES,   /* dead sessions that nobody needs any more */
    SWEEP_FIRST = SWEEP_OVERDUE,
    SWEEP_LAST = SWEEP_DATES,
};

/* How far all clients have come with the sweep. Only the thread that sweeps uses this copy. */
typedef struct mongo_sweeping {
    bool has_indexes; /* made, or cannot be made */
    bool may_hint;    /* the indexes are there */
    bool is_mine;     /* the next part */
    int part;
    hf_id by;           /* names this turn in the document */
    int64_t began_ms;   /* the server's clock */
    int64_t now_ms;     /* the same, when this client's turn began */
    int64_t from_ms;    /* sessions overdue since then are still to be looked at */
    bson_value_t after; /* the last lock that was looked at */
} mongo_sweeping;

/* sweep_turn.c. Takes the next part for a moment, if one is due. HF_HELD: another client does it.
 */
hf_code mongo_sweep_take(mongo_store *store, bool *is_mine, hf_error *err);
/* Notes how far it has come after a part that took so long, and keeps the turn for the next one.
 * *more: there is one. HF_HELD: another client took over meanwhile. */
hf_code mongo_sweep_keep(mongo_store *store, int64_t took_ms, bool *more, hf_error *err);

/* Goes on behind this _id, which is a string. */
void mongo_sweep_place(mongo_sweeping *sweep, const bson_iter_t *id);

/* sweep_sessions.c: the parts that are about sessions. */
hf_code mongo_sweep_overdue(mongo_store *store, hf_session_state *overdue, size_t max, size_t *n,
                            hf_error *err);
hf_code mongo_sweep_dates(mongo_store *store, hf_error *err);
/* These sessions, which are marked, count as marked now: a ticket of theirs stays where it is. */
hf_code mongo_sweep_keep_marks(mongo_store *store, const hf_id *ids, size_t n, hf_error *err);

/* sweep_dead.c: takes tickets of dead sessions out of a page of records. */
struct sweep_page;
hf_code mongo_sweep_take_out(mongo_store *store, const struct sweep_page *in, hf_error *err);

/* sweep.c */
void mongo_sweep_done(mongo_store *store);
hf_code mongo_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                    hf_error *err);

#endif
