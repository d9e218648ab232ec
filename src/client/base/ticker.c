/* SPDX-License-Identifier: Apache-2.0 */
/* ticker.c: the client's threads: each sleeps on a timer and calls one tick when it is due. */
#include "client/base/client.h"

#include "core/error.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static void sleep_until(struct ticker *ticker, hf_mono due)
{
    struct itimerspec at = {.it_value = {0, 0}};
    if (due.ns != MONO_NEVER.ns) {
        at.it_value.tv_sec = due.ns / 1000000000;
        at.it_value.tv_nsec = (long)(due.ns % 1000000000);
        if (due.ns <= 0)
            at.it_value.tv_nsec = 1;
    }
    timerfd_settime(ticker->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    struct pollfd fds[] = {
        {ticker->timer_fd, POLLIN, 0}, {ticker->poke_fd, POLLIN, 0}, {ticker->later_fd, POLLIN, 0}};
    while (poll(fds, 3, -1) < 0 && errno == EINTR)
        ;
    for (int i = 1; i < 3; i++) {
        uint64_t count;
        if (fds[i].revents && read(fds[i].fd, &count, sizeof count) < 0)
            continue; /* non-blocking: if it is poked already, that is enough */
    }
}

/* What pokes from now on is not seen by the tick that begins now. */
static bool begin_tick(struct ticker *ticker)
{
    hf_client *client = ticker->client;
    MUTEX_SCOPE(&client->mutex);
    ticker->is_poked_later = false;
    return !client->tickers.is_stopping;
}

static void *run(void *arg)
{
    struct ticker *ticker = arg;
    hf_client *client = ticker->client;
    while (begin_tick(ticker)) {
        hf_mono due = ticker->tick(client, client_now(client));
        if (!mono_reached(due, client_now(client)))
            sleep_until(ticker, due);
    }
    return NULL;
}

static void close_descriptors(struct ticker *ticker)
{
    int fds[] = {ticker->timer_fd, ticker->poke_fd, ticker->later_fd};
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* The errno of what failed, or 0. */
static int open_descriptors(struct ticker *ticker)
{
    ticker->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    ticker->poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ticker->later_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    bool are_open = ticker->timer_fd >= 0 && ticker->poke_fd >= 0 && ticker->later_fd >= 0;
    return are_open ? 0 : errno;
}

/* The library's threads block all signals: they are the program's business. */
static int create_thread(struct ticker *ticker)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failure = pthread_create(&ticker->thread, NULL, run, ticker);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failure;
}

hf_code ticker_start_locked(hf_client *client, unsigned which, hf_error *err)
{
    struct ticker *ticker = &client->tickers.of[which];
    if (!client->tickers.is_threaded || ticker->is_started)
        return HF_OK;
    ticker->client = client;
    ticker->tick = client->tickers.ticks[which];
    int failure = open_descriptors(ticker);
    if (!failure)
        failure = create_thread(ticker);
    if (!failure) {
        ticker->is_started = true;
        return HF_OK;
    }
    close_descriptors(ticker);
    return error_set(err, HF_INTERNAL,
                     "a thread of the library, which keeps the leases, could not be started (%s): "
                     "raise the limits of processes and open files",
                     strerror(failure));
}

hf_code ticker_start_all_locked(hf_client *client, hf_error *err)
{
    static const unsigned needed[] = {TICK_WATCH, TICK_BEAT, TICK_UPKEEP, TICK_SWEEP};
    hf_code code = HF_OK;
    for (size_t i = 0; i < sizeof needed / sizeof *needed && !code; i++)
        code = ticker_start_locked(client, needed[i], err);
    return code;
}

void ticker_poke(hf_client *client, unsigned which)
{
    struct ticker *ticker = &client->tickers.of[which];
    uint64_t one = 1;
    if (!client->tickers.is_threaded)
        ticker->is_poked = true;
    else if (ticker->is_started && write(ticker->poke_fd, &one, sizeof one) < 0)
        return; /* the counter is full: it is poked already */
}

void ticker_poke_later_locked(hf_client *client, unsigned which, int64_t delay_ns)
{
    struct ticker *ticker = &client->tickers.of[which];
    struct itimerspec after = {.it_value = {0, (long)delay_ns}};
    if (!client->tickers.is_threaded)
        ticker->is_poked = true;
    if (!ticker->is_started || ticker->is_poked_later)
        return;
    ticker->is_poked_later = true;
    timerfd_settime(ticker->later_fd, 0, &after, NULL);
}

bool ticker_is_own_thread(const hf_client *client, unsigned which)
{
    const struct ticker *ticker = &client->tickers.of[which];
    return ticker->is_started && pthread_equal(pthread_self(), ticker->thread);
}

/* A wake can come just before the await that it is meant for: it is repeated. If the store is
 * silent, that is not waited for: the store is being closed, and its await ends soon. */
static void join_listener(struct ticker *ticker)
{
    hf_client *client = ticker->client;
    hf_store *store = client->store;
    struct timespec until;
    BOUND_SCOPE(store, client_now(client), NULL);
    do {
        store->ops->wake(store);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += (until.tv_nsec + 50000000) / 1000000000;
        until.tv_nsec = (until.tv_nsec + 50000000) % 1000000000;
    } while (pthread_timedjoin_np(ticker->thread, NULL, &until) == ETIMEDOUT);
}

static void join(struct ticker *ticker, bool awaits)
{
    if (!ticker->is_started)
        return;
    if (awaits)
        join_listener(ticker);
    else
        pthread_join(ticker->thread, NULL);
}

/* Threads poke each other, so descriptors are closed when all threads have ended. */
void ticker_stop_all(hf_client *client)
{
    pthread_mutex_lock(&client->mutex);
    client->tickers.is_stopping = true;
    pthread_mutex_unlock(&client->mutex);
    for (unsigned i = 0; i < TICKERS; i++)
        ticker_poke(client, i);
    for (unsigned i = 0; i < TICKERS; i++)
        join(&client->tickers.of[i], i == TICK_LISTEN);
    for (unsigned i = 0; i < TICKERS; i++) {
        if (!client->tickers.of[i].is_started)
            continue;
        close_descriptors(&client->tickers.of[i]);
        client->tickers.of[i].is_started = false;
    }
}
