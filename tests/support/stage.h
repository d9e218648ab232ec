/* SPDX-License-Identifier: Apache-2.0 */
/* stage.h: clients in virtual time, and a script of what they do: whatever is due is called in
 * order, one thing at a time, and each call to a store is written down with the time at which it
 * was made. Chance is a counter, so the same play always gives the same script. */
#ifndef TESTS_SUPPORT_STAGE_H
#define TESTS_SUPPORT_STAGE_H

#include "support/faulty.h"

#include <stddef.h>
#include <stdint.h>

#define STAGE_CLIENTS 4

struct hf_client;

/* What goes wrong with calls of one client ('a': the one that was opened first; 0: any). The first
 * `skips` that fit go well, the next `times` (0: one) do not: each comes `late_ms` later to the
 * store, is answered `before` without being made, unless that is HF_OK; and else `after` in place
 * of its answer, `slow_ms` later. `meanwhile` is called before it is made. */
typedef struct stage_fault {
    char who;
    faulty_call call;
    bool (*is)(const void *arg); /* of those; NULL: any */
    int skips, times;
    hf_code before, after;
    int64_t late_ms, slow_ms;
    void (*meanwhile)(void);
    bool is_swallowed; /* a step that is answered, and changes nothing */
} stage_fault;

/* Time begins anew, at 0, and nobody is on the stage. */
void stage_begin(void);

/* A client on a memory of that name. Its threads are the stage's. NULL: defaults. */
hf_client *stage_client(const char *uri, const hf_options *options);
faulty *stage_store(const hf_client *client);

/* The next so many awaits fail. */
void stage_let_listening_fail(int times);

/* The next number that chance gives is the one after this. */
void stage_chance(uint64_t last);

void stage_tell_listening(void); /* the script shows it, too */

void stage_let_fail(stage_fault fault);

/* What that client, which is to listen, hears next. */
void stage_tell(const hf_client *client, hf_notice notice);

/* Steps. */
bool stage_is_enter(const void *arg);
bool stage_is_leave(const void *arg);
bool stage_is_change(const void *arg);
bool stage_is_pass(const void *arg);
bool stage_is_lease(const void *arg); /* the beginning of one's session */

/* Something that takes its own time: a thread of the program. Begins when time goes on. */
void stage_act(void (*body)(void *arg), void *arg);

/* Lets so much time pass. */
void stage_run(int64_t ms);

/* So much time passes for the caller; the others go on. */
void stage_sleep(int64_t ms);
int64_t stage_now_ms(void);

/* As hf_lock_acquire(), in an act; says how it ended, as "a has x", or the error's text. */
hf_code stage_acquire(hf_client *client, const char *name, const hf_lock_options *options,
                      hf_lock **out);

/* Adds a line to the script. */
void stage_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fails unless the script is this one; begins a new one. */
void stage_expect(const char *script);
void stage_forget(void); /* begins a new one */

/* By somebody's hand: the session is gone, or marked dead; the record is gone. */
void stage_drop_session(const hf_client *client, hf_id session);
void stage_mark_dead(const hf_client *client, hf_id session);
void stage_drop_record(const hf_client *client, const char *name);

/* Lets what is to be sent be sent, fails if a client still keeps anything of what is over, and
 * closes all clients. */
void stage_end(void);

#endif
