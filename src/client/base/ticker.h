/* SPDX-License-Identifier: Apache-2.0 */
/* ticker.h: the client's threads. Each calls one tick when it is due, or when it was poked. A tick
 * does what is due and returns when it wants to be called again (MONO_NEVER: only after a poke).
 * Ticks know no threads: a simulator calls them itself. */
#ifndef CLIENT_BASE_TICKER_H
#define CLIENT_BASE_TICKER_H

#include <holdfast/store.h>
#include <pthread.h>

enum {
    TICK_WATCH,
    TICK_BEAT,
    TICK_UPKEEP,
    TICK_SWEEP,
    TICK_LISTEN,
    TICK_NOTIFY,
    TICK_SEND,
    TICK_DEPART,
    TICKERS
};

typedef hf_mono (*tick_fn)(hf_client *client, hf_mono now);

/* Constant once started, except for what it says. */
struct ticker {
    hf_client *client;
    tick_fn tick;
    pthread_t thread;
    int timer_fd, poke_fd, later_fd;
    bool is_started;     /* client mutex */
    bool is_poked_later; /* client mutex */
    bool is_poked;       /* own thread; for the simulator, which has no threads to wake */
};

struct tickers {
    const tick_fn *ticks; /* constant: by TICK_...; api/open.c has the table */
    bool is_threaded;     /* constant; false: the simulator calls the ticks */
    bool is_stopping;     /* client mutex: the threads end */
    struct ticker of[TICKERS];
};

/* Starts it once. HF_INTERNAL if there are too few threads or descriptors. `err` may be NULL. */
hf_code ticker_start_locked(hf_client *client, unsigned which, hf_error *err);
/* Starts all but the listener, the notifier, the second sender and that of leases' releases, which
 * start when they are needed. */
hf_code ticker_start_all_locked(hf_client *client, hf_error *err);
void ticker_poke(hf_client *client, unsigned which);
/* Pokes it within delay_ns nanoseconds, without waking it now. */
void ticker_poke_later_locked(hf_client *client, unsigned which, int64_t delay_ns);
bool ticker_is_own_thread(const hf_client *client, unsigned which); /* who asks is that ticker */
void ticker_stop_all(hf_client *client);

#endif
