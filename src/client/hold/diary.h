/* SPDX-License-Identifier: Apache-2.0 */
/* diary.h: the turns that ended in this client lately, until they are in the store's history.
 * The code that ends a turn notes it here. The sweep thread writes what is noted, now and then, and
 * hf_close() the rest. No acquire, release or beat waits for that; what cannot be written is left
 * out. */
#ifndef CLIENT_HOLD_DIARY_H
#define CLIENT_HOLD_DIARY_H

#include "core/history.h"

struct hf_lock;

#define DIARY_BUCKETS 64
#define DIARY_LEASES 1024

/* The client's; mutex. Written by diary.c, the leases by diary_lease.c. */
struct diary {
    struct history_turn *of[DIARY_BUCKETS]; /* by their names' hashes; the newest first */
    size_t n;
    int64_t dropped;                    /* turns for which there was no room, ... */
    hf_dbtime dropped_from, dropped_to; /* ... which ended in that time */
    hf_mono due;                        /* when they are written; MONO_NEVER: there are none */
    bool is_off;                        /* the store refuses them */
    bool has_failed;                    /* the last try to write; the next one is not early */
    bool knows_time;
    hf_mono heard;                /* at this time ... */
    int64_t error_ns;             /* ... give or take this ... */
    hf_dbtime said;               /* ... the store's clock showed that */
    struct history_turn **leases; /* ID leases that stand, by their tickets' hashes; NULL: none */
};

/* The store's clock, as far as it is known, at a time of ours. */
hf_dbtime diary_time_locked(hf_client *client, hf_mono at);
/* When a turn of ours ended: now. The store's time is known but roughly; a turn that ended before
 * it was granted would be listed before the one that it followed. */
hf_dbtime diary_ended_at_locked(hf_client *client, hf_dbtime granted);
/* A step that was sent at that time, and answered now, was done at `said` by the store's clock. */
void diary_hear_locked(hf_client *client, hf_mono sent, hf_mono now, hf_dbtime said);

/* The turn of a lock that is held until now. NULL: there is none to note. The caller adds it, or
 * frees it. */
struct history_turn *diary_turn_locked(const struct hf_lock *lock, hf_turn_end end);
/* Takes the turn over; NULL: does nothing. */
void diary_add_locked(hf_client *client, struct history_turn *turn);
/* Both. */
void diary_note_locked(const struct hf_lock *lock, hf_turn_end end);
/* The same for any turn. */
void diary_note_other(hf_client *client, const hf_turn_note *note);
/* Whether notes are wanted at all; mutex held. */
bool diary_is_kept(const hf_client *client);

hf_mono diary_tick(hf_client *client, hf_mono now); /* writes what is due; when the next is */
/* At the end, when all threads have ended: writes the rest if the store answers, in one try. */
void diary_close(hf_client *client, bool store_answers);
void diary_free(struct diary *diary);

/* ---- diary_lease.c: ID leases. What a turn was is known while it lasts, not when it has ended. */

/* Whether the lease would have to be looked at, so that more is known of it than its end. */
bool diary_misses_lease(hf_client *client, hf_id ticket);
/* This client has seen that the lease stands; `who` has it. */
void diary_saw_lease(hf_client *client, const char *name, const hf_entry *holder, int32_t limit,
                     const char *who);
/* It was released. If it was never seen here, only `unseen` is known of it. */
void diary_lease_released(hf_client *client, const hf_turn_note *unseen);
/* Another client has released it, which notes that. */
void diary_forget_lease(hf_client *client, hf_id ticket);
/* It was lost, or broken. Noted only if it was seen here: the client that takes it over notes it,
 * too. */
void diary_lease_lost(hf_client *client, hf_id ticket, hf_turn_end end, const char *reason);

/* ---- diary_other.c ---- */

/* Notes the holder that was there `before` the step, and was taken out by its deaths and leaves, if
 * the record says so afterwards (last). */
void diary_note_taken(hf_client *client, const hf_record *before, const hf_step *step,
                      const hf_last_mark *last);
/* Without a queue: notes the holder from which this client took the lock over at that time. */
void diary_note_overtaken(hf_client *client, const char *name, const hf_overtaken *overtaken,
                          hf_dbtime at);

#endif
