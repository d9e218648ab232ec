/* SPDX-License-Identifier: Apache-2.0 */
/* life.h: how the client's session begins and ends. */
#ifndef CLIENT_HOLD_LIFE_H
#define CLIENT_HOLD_LIFE_H

#include <holdfast/store.h>

/* A session that this client has ended. It is not marked while work under its locks may still be
 * stopping: a mark would let others in before the lease is over. */
struct ended {
    hf_id id;
    hf_mono due;
    bool leaves_any;   /* of its tickets some may still stand */
    int64_t beat_most; /* if its beat is higher, another process has it, too */
    unsigned failures;
};

/* To be marked, in the background, until the store has answered; mutex. Written by life.c. */
struct endings {
    struct ended *of;
    size_t n;
};

/* Of sessions: how many could not be begun, and the last error; mutex. Written by life.c. */
struct beginnings {
    unsigned failed;
    hf_error why;
};

/* Begins a session unless there is one. HF_OK: it is alive. HF_HELD: another thread is beginning
 * it; call again with the same `awaited` (0 at first). If that thread fails, this call fails too,
 * with the same error: callers do not begin in vain one after the other. */
hf_code life_begin(hf_client *client, unsigned *awaited, hf_error *err);
/* A session that this client has begun for somebody else is over: upkeep marks it. What it has left
 * others take out. */
void life_end_other_locked(hf_client *client, hf_id session);
void life_end_locked(hf_client *client); /* gives it up without loss: nothing is held */
/* Another process has it: nobody here marks it, and so takes what the other may believe. */
void life_abandon_locked(hf_client *client);
/* The session is given up if nobody needs it and it would have to beat before `until`. */
void life_rest_locked(hf_client *client, hf_mono until);

hf_mono life_mark_ended(hf_client *client, hf_mono now); /* those that are due; when the next is */
/* At the end: all of them, if the store answers. */
void life_close(hf_client *client, bool store_answers);

#endif
