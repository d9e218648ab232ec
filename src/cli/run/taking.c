/* SPDX-License-Identifier: Apache-2.0 */
/* taking.c: takes the locks of run and elect in a thread of its own, so that the main thread can
 * look for signals meanwhile. */
#include "taking.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ancestor.h"
#include "cli/terminal/terminal.h"
#include "document.h"
#include "health.h"
#include "once.h"
#include "show/text.h"

typedef struct taking {
    const plan *plan;
    hf_client *client;
    hf_cancel *cancel;
    hf_lock **locks;
    char *shown; /* the lock whose wait is shown */
    int done_fd; /* readable when the thread has ended; then: */
    hf_code code;
    hf_error err;
} taking;

/* ---- In the thread ---- */

/* With several locks, each wait is shown by itself. */
static void show_wait(void *ctx, const hf_wait_info *info)
{
    taking *t = ctx;
    if (t->shown && strcmp(t->shown, info->name) != 0)
        terminal_wait_end();
    free(t->shown);
    t->shown = text_copy(info->name);
    terminal_wait(info);
}

static hf_code take(taking *t)
{
    const plan *p = t->plan;
    hf_lock_options options = {
        .struct_size = sizeof options,
        .mode = p->lock_args.mode,
        .permits = p->lock_args.permits,
        .limit = p->lock_args.limit,
        .sets_limit = p->lock_args.sets_limit,
        .wait_ms = p->lock_args.wait_ms,
        .why = p->why,
        .lock_session = p->lock_session,
        .period_ms = p->once ? p->once->period_ms : 0,
        .cancel = t->cancel,
        .wait_ctx = t,
        .on_wait = terminal_shows_waits() ? show_wait : NULL,
        .feed_ms = health_feed_ms(p->health),
        .max_hold_ms = p->health->max_hold_ms,
    };
    for (size_t i = 0; i < p->n_names && !p->document; i++)
        ancestor_warn(t->client, &p->lock_args, p->names[i]);
    hf_code code = p->document ? document_take(p, t->client, &options, &t->locks[0], &t->err)
                               : hf_lock_acquire_all(t->client, (const char *const *)p->names,
                                                     p->n_names, &options, t->locks, &t->err);
    terminal_wait_end();
    free(t->shown);
    t->shown = NULL;
    return code;
}

static void *take_in_here(void *ctx)
{
    taking *t = ctx;
    uint64_t one = 1;
    t->code = take(t);
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
    int failed = pthread_create(&thread, NULL, take_in_here, t);
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
    hf_code code = hf_cancel_new(&t.cancel, err);
    if (code)
        return code;
    code = take_in_thread(&t, events, signal);
    *err = t.err;
    for (size_t i = 0; !code && *signal && i < p->n_names; i++)
        hf_lock_close(locks[i]); /* the lock was granted all the same */
    if (!code && *signal)
        code = HF_CANCELLED;
    hf_cancel_free(t.cancel);
    return code;
}
