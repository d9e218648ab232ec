/* SPDX-License-Identifier: Apache-2.0 */
/* client.h: a client, and what all its files ask of it. Modules in the folders above are known here
 * only by name: each defines its data in its own header (see the README).
 *
 * One mutex guards what threads share. It is never held during a store call or a callback, so the
 * thread that watches the deadline gets it at once (R7). Functions whose names end in _locked want
 * the mutex held. Beside each field stands what guards it:
 *   constant      written before anybody else can see it
 *   mutex         the client's mutex
 *   own thread    only the thread that works with it
 */
#ifndef CLIENT_BASE_CLIENT_H
#define CLIENT_BASE_CLIENT_H

#include "client/base/bound.h"
#include "client/base/cancel.h"
#include "client/base/env.h"
#include "client/base/guardian.h"
#include "client/base/session.h"
#include "client/base/ticker.h"
#include "client/base/waker.h"

#include "core/wait_estimate.h"
#include "core/waits.h"
#include "sync/mutex_scope.h"

#include <pthread.h>
#include <sys/types.h>

struct hold;       /* hold/hold.h */
struct lease_pool; /* lease/lease_wait.c */
struct departures; /* lease/lease_kept.h */

/* Who the client is; constant. */
struct identity {
    pid_t pid; /* of the process that opened it */
    char app[HF_TEXT_MAX + 1], host[HF_TEXT_MAX + 1];
    char who[HF_TEXT_MAX + 1]; /* the three as one text, for people */
};

/* Where messages go; constant, but for the mutex, which lets one thread in at a time. */
struct log_to {
    hf_log_fn fn; /* NULL: nowhere */
    void *ctx;
    pthread_mutex_t mutex;
};

/* How far hf_close() is; mutex. */
struct closing {
    bool has_begun; /* attempts end, nothing new begins */
    size_t calls;   /* public calls under way, besides attempts */
    hf_mono until;  /* releases are tried until then; each that is acknowledged puts it off */
};

struct hf_client {
    hf_store *store; /* constant */
    hf_env env;      /* constant */
    struct identity identity;
    char *name_prefix;     /* constant; "": none */
    waits_items inherited; /* constant: what is held by processes that wait for this one */
    struct log_to log;
    struct guardian guardian;
    int64_t ttl_ms, stop_margin_ms, clock_trust_ms, deadlock_ms; /* constant */
    /* How long an unreachable store is retried: by calls that may wait, by those that may not, and
     * by releases of ID leases; constant. */
    int64_t patience_ms, call_patience_ms, release_patience_ms;
    int32_t queue_max;         /* of its enters: HF_QUEUE_MAX, in tests fewer; constant */
    int64_t read_patience_ms;  /* the same for calls that only read; constant */
    atomic_bool is_unanswered; /* the last of those had no answer; any thread */
    atomic_bool is_silent;     /* the last call of an attempt or a release had none; any thread */

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* an attempt, a call or a callback ended, or a release was sent */
    struct closing closing;
    struct session session;
    struct wakers wakers;
    struct tickers tickers;
    struct wait_estimate wait_estimate; /* mutex */
    struct hold *hold;                  /* constant */
    struct lease_pool *pool;            /* mutex; NULL: nobody has waited for a lease yet */
    struct departures *departures;      /* mutex; NULL: no lease's release was without an answer */
};

hf_code client_usable(hf_client *client, hf_error *err); /* not forked, not closed */
/* Begins and ends a public call that hf_close() must wait for. HF_CLOSED once hf_close() has begun.
 */
hf_code client_begin(hf_client *client, hf_error *err);
void client_begin_locked(hf_client *client); /* where it is known that none has */
void client_end(hf_client *client);
bool client_is_closing(hf_client *client);
int64_t client_close_ms(const hf_client *client); /* how long hf_close() waits for an answer */

hf_mono client_now(hf_client *client);
hf_wall client_wall(hf_client *client);

/* The store's call, for many sessions. HF_SHAPE: what could not be read is HF_ODD, and so may all
 * be; the others are given. */
hf_code client_look_at_sessions(hf_client *client, const hf_id *ids, size_t n, int64_t trust_ms,
                                hf_session_state *states, hf_error *err);
/* Marks a session that is as it was seen, like the store's call. One that is missing is begun, as
 * nobody's, and marked, so that it cannot begin later and believe what is taken from it now.
 * HF_HELD: it lives, or has begun meanwhile. */
hf_code client_mark(hf_client *client, const hf_session_state *seen, hf_error *err);
uint64_t client_chance(hf_client *client);
hf_id client_new_id(hf_client *client);
/* The calling thread's number, which no other thread of the process has or had; a pthread_t is
 * reused when its thread has ended. And a number for something that is not a thread. */
uint64_t client_thread(void);
uint64_t client_new_thread(void);

void client_log(hf_client *client, hf_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void client_who(const hf_client *client, char who[HF_TEXT_MAX + 1]);

/* Pauses before a failed call is repeated, while the store cannot be reached and patience, counted
 * from `since`, lasts. false: do not repeat it, or the pause was cut short. */
bool client_may_retry(hf_client *client, const hf_cancel *cancel, hf_code code, unsigned *failures,
                      hf_mono since);
/* The same until that time. */
bool client_may_retry_until(hf_client *client, const hf_cancel *cancel, hf_code code,
                            unsigned *failures, hf_mono end);
/* The same, but the caller pauses, for *ms milliseconds. */
bool client_retries_until(hf_client *client, hf_code code, unsigned *failures, hf_mono end,
                          int64_t *ms);

/* Checks a name, and gives it in the form that the store's records and notices use. */
hf_code client_name(hf_client *client, const char *given, char name[HF_NAME_MAX + 1],
                    hf_error *err);
/* Reads a lock session id; NULL gives 0. HF_UNSUPPORTED: the store's locks have none. */
hf_code client_lock_session(const hf_client *client, const char *text, hf_id *out, hf_error *err);
/* The name without the client's prefix, within `name`. */
const char *client_shown_name(const hf_client *client, const char *name);

#endif
