/* SPDX-License-Identifier: Apache-2.0 */
/* taking.c: takes the locks of run and elect in a thread of its own, so that the main thread can
 * look for signals meanwhile. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "document.h"
#include "health.h"
#include "once.h"
#include "run.h"
#include "terminal.h"

typedef struct taking {
    const plan *plan;
    hf_client *client;
    hf_cancel *cancel;
    hf_lock **locks;
    int64_t deadline_ms; /* of all together, when there is one */
    int done_fd;         /* readable when the thread has ended; then: */
    hf_code code;
    hf_error err;
} taking;

int64_t run_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- In the thread ---- */

static void show_wait(void *ctx, const hf_wait_info *info)
{
    taking *t = ctx;
    terminal_wait(info);
    health_feed(t->plan->health, t->locks, t->plan->n_names);
}

/* Where nobody is shown anything, and nothing is to be fed, the wait is not woken up for it. */
static hf_wait_fn wait_fn(const taking *t)
{
    return terminal_shows_waits() || health_feed_ms(t->plan->health) ? show_wait : NULL;
}

static bool has_deadline(const plan *p)
{
    return p->wait_ms != HF_WAIT_DEFAULT && p->wait_ms != HF_WAIT_FOREVER && p->wait_ms != HF_TRY;
}

static int64_t wait_left(const taking *t)
{
    if (!has_deadline(t->plan))
        return t->plan->wait_ms;
    int64_t left = t->deadline_ms - run_now_ms();
    return left > 0 ? left : HF_TRY;
}

static hf_code take_one(taking *t, size_t i)
{
    hf_lock_options options = {
        .struct_size = sizeof options,
        .mode = t->plan->mode,
        .permits = t->plan->permits,
        .limit = t->plan->limit,
        .wait_ms = wait_left(t),
        .why = t->plan->why,
        .period_ms = t->plan->once ? t->plan->once->period_ms : 0,
        .cancel = t->cancel,
        .on_wait = wait_fn(t),
        .wait_ctx = t,
        .feed_ms = health_feed_ms(t->plan->health),
        .max_hold_ms = t->plan->health->max_hold_ms,
    };
    hf_code code =
        t->plan->document
            ? document_take(t->plan, t->client, &options, &t->locks[i], &t->err)
            : hf_lock_acquire(t->client, t->plan->names[i], &options, &t->locks[i], &t->err);
    terminal_wait_end();
    return code;
}

static void give_back(taking *t)
{
    for (size_t i = 0; i < t->plan->n_names; i++) {
        hf_lock_close(t->locks[i]);
        t->locks[i] = NULL;
    }
}

static hf_code take_each(taking *t)
{
    hf_code code = HF_OK;
    for (size_t i = 0; i < t->plan->n_names && !code; i++)
        code = take_one(t, i);
    if (code)
        give_back(t);
    return code;
}

/* A lock can be lost while the next one is waited for. */
static bool some_is_lost(taking *t)
{
    hf_error err = {0};
    for (size_t i = 0; i < t->plan->n_names; i++)
        if (hf_lock_check(t->locks[i], NULL, &err)) {
            terminal_warn("\"%s\" was lost before all were taken, beginning again: %s",
                          hf_lock_name(t->locks[i]), err.text);
            return true;
        }
    return false;
}

static void *take_all(void *ctx)
{
    taking *t = ctx;
    uint64_t one = 1;
    t->code = take_each(t);
    while (!t->code && some_is_lost(t)) {
        give_back(t);
        t->code = take_each(t);
    }
    if (write(t->done_fd, &one, sizeof one) < 0)
        perror("holdfast: eventfd"); /* a counter that is 0 can be raised */
    return NULL;
}

/* ---- In the main thread ---- */

static void heed(taking *t, int arrived, int *signal)
{
    if (arrived == SIGTSTP)
        signals_stop_job();
    if (!signals_is_end(arrived) || *signal)
        return;
    *signal = arrived;
    hf_cancel_fire(t->cancel);
}

static void await_done(taking *t, const signals *events, int *signal)
{
    struct pollfd fds[] = {{t->done_fd, POLLIN, 0}, {events->fd, POLLIN, 0}};
    while (!(fds[0].revents & POLLIN)) {
        if (poll(fds, 2, -1) < 0)
            continue;
        for (int arrived; (arrived = signals_next(events));)
            heed(t, arrived, signal);
    }
}

static hf_code internal(hf_error *err, const char *what, int number)
{
    *err = (hf_error){.code = HF_INTERNAL};
    snprintf(err->text, sizeof err->text, "%s: %s", what, strerror(number));
    return HF_INTERNAL;
}

static hf_code take_in_thread(taking *t, const signals *events, int *signal)
{
    pthread_t thread;
    t->done_fd = eventfd(0, EFD_CLOEXEC);
    if (t->done_fd < 0)
        return internal(&t->err, "eventfd", errno);
    int failed = pthread_create(&thread, NULL, take_all, t);
    if (failed) {
        close(t->done_fd);
        return internal(&t->err, "cannot start a thread", failed);
    }
    await_done(t, events, signal);
    pthread_join(thread, NULL);
    close(t->done_fd);
    return t->code;
}

hf_code taking_run(const plan *p, hf_client *client, signals *events, hf_lock **locks, int *signal,
                   hf_error *err)
{
    taking t = {.plan = p, .client = client, .locks = locks};
    if (has_deadline(p))
        t.deadline_ms = run_now_ms() + p->wait_ms;
    hf_code code = hf_cancel_new(&t.cancel, err);
    if (code)
        return code;
    code = take_in_thread(&t, events, signal);
    *err = t.err;
    if (!code && *signal) { /* it was granted all the same */
        give_back(&t);
        code = HF_CANCELLED;
    }
    hf_cancel_free(t.cancel);
    return code;
}
