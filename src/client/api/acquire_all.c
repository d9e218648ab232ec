/* SPDX-License-Identifier: Apache-2.0 */
/* acquire_all.c: hf_lock_acquire_all(): several locks, all or none. Waits follow the byte order of
 * the names, and only locks with earlier names are held during a wait. So sessions that take
 * several locks this way never wait for each other. Most locks are free most of the time, so if the
 * store is on a network, all are first tried at the same time. */
#include "client/hold/handle.h"
#include "client/hold/hold.h"
#include "client/wait/acquire.h"

#include "core/alloc.h"
#include "core/error.h"

#include <stdlib.h>
#include <string.h>

#define MOST_AT_ONCE 8 /* threads that try */

typedef struct part {
    char name[HF_NAME_MAX + 1];
    size_t at; /* in the caller's arrays */
    hf_lock *lock;
    hf_code code;
    hf_error err;
} part;

typedef struct group {
    hf_client *client;
    hf_lock_options options; /* on_lost and the watchdog are for all of them together */
    hf_mono deadline;
    acquire_caller by;
    part *parts; /* in the order of their names */
    size_t n;
    _Atomic size_t next; /* to be tried */
} group;

/* ---- What is asked for ---- */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(((const part *)a)->name, ((const part *)b)->name);
}

static hf_code check_twice(const group *g, hf_error *err)
{
    for (size_t i = 1; i < g->n; i++)
        if (strcmp(g->parts[i].name, g->parts[i - 1].name) == 0)
            return error_set(err, HF_INVALID, "%.200s is named twice: a lock is taken once",
                             g->parts[i].name);
    return HF_OK;
}

static hf_code take_names(group *g, const char *const *names, hf_error *err)
{
    hf_code code = HF_OK;
    if (!g->n)
        return error_set(err, HF_INVALID, "no lock is named");
    for (size_t i = 0; i < g->n && !code; i++) {
        g->parts[i].at = i;
        code = client_name(g->client, names[i], g->parts[i].name, err);
    }
    if (code)
        return code;
    qsort(g->parts, g->n, sizeof *g->parts, by_bytes);
    return check_twice(g, err);
}

static hf_mono deadline_of(const group *g)
{
    int64_t ms = g->options.wait_ms ? g->options.wait_ms : g->client->store->wait_ms;
    return ms > 0 ? mono_add_ms(client_now(g->client), ms) : MONO_NEVER;
}

/* ---- Taking, and giving back ---- */

static hf_code take(const group *g, part *p, int64_t wait_ms, hf_wait_fn on_wait)
{
    hf_lock_options options = g->options;
    options.wait_ms = wait_ms;
    options.on_wait = on_wait;
    options.on_lost = NULL;
    options.feed_ms = options.max_hold_ms = 0;
    p->code = acquire_run(g->client, p->name, NULL, &options, g->by, &p->lock, &p->err);
    if (p->code)
        return p->code;
    MUTEX_SCOPE(&g->client->mutex);
    loss_hold_back_locked(p->lock);
    return HF_OK;
}

static void give_back(group *g, size_t from)
{
    for (size_t i = from; i < g->n; i++) {
        part *p = &g->parts[i];
        if (!p->lock)
            continue;
        lock_return(p->lock); /* its work was not begun: `last` stays as it is */
        handle_close(p->lock);
        p->lock = NULL;
    }
}

static int64_t wait_left(const group *g)
{
    if (g->deadline.ns == MONO_NEVER.ns || g->options.wait_ms < 0)
        return g->options.wait_ms;
    int64_t left = mono_ms_until(g->deadline, client_now(g->client));
    return left > 0 ? left : 1;
}

/* Gives back the locks whose names come after it: a waiter holds no later name. */
static hf_code wait_for(group *g, size_t i, hf_error *err)
{
    part *p = &g->parts[i];
    give_back(g, i + 1);
    hf_code code = take(g, p, wait_left(g), g->options.on_wait);
    if (code && err)
        *err = p->err;
    return code;
}

static hf_code take_in_order(group *g, hf_error *err)
{
    hf_code code = HF_OK;
    for (size_t i = 0; i < g->n && !code; i++)
        if (!g->parts[i].lock)
            code = wait_for(g, i, err);
    return code;
}

/* ---- All at once ---- */

/* Several threads must not call on_wait. */
static void *try_some(void *arg)
{
    group *g = arg;
    for (size_t i; (i = g->next++) < g->n;)
        take(g, &g->parts[i], HF_TRY, NULL);
    return NULL;
}

static hf_code begin(const group *g, hf_error *err)
{
    hf_client *client = g->client;
    unsigned awaited = 0;
    BOUND_SCOPE(client->store, mono_add_ms(g->by.asked, client->call_patience_ms),
                g->options.cancel);
    return life_begin(client, &awaited, err);
}

/* Starts as many threads as it can; the caller's is one of them. */
static void try_all(group *g)
{
    pthread_t threads[MOST_AT_ONCE];
    size_t n = 0, most = g->n < MOST_AT_ONCE ? g->n : MOST_AT_ONCE;
    hf_error err;
    if (begin(g, &err)) /* not by each of them */
        return;
    while (n + 1 < most && !pthread_create(&threads[n], NULL, try_some, g))
        n++;
    try_some(g);
    while (n)
        pthread_join(threads[--n], NULL);
}

static bool tries_all(const group *g)
{
    return g->client->store->is_remote && g->client->tickers.is_threaded && g->n > 1;
}

/* Whether a wait may bring what its try did not. */
static bool may_pass(hf_code code)
{
    return code == HF_HELD || error_is_no_answer(code);
}

static hf_code first_failure(const group *g, hf_error *err)
{
    for (size_t i = 0; i < g->n; i++) {
        const part *p = &g->parts[i];
        bool may_wait = may_pass(p->code) && g->options.wait_ms >= 0;
        if (p->lock || may_wait || !p->code)
            continue;
        if (err)
            *err = p->err;
        return p->code;
    }
    return HF_OK;
}

/* ---- Together ---- */

/* One can be lost while the next is waited for. It is given up at once, as nobody has begun to use
 * it. */
static bool is_whole_locked(const group *g)
{
    hf_mono now = client_now(g->client);
    int64_t left_ms;
    for (size_t i = 0; i < g->n; i++)
        if (belief_check_locked(g->parts[i].lock, &left_ms, now, NULL))
            return false;
    return true;
}

static void tie_locked(const group *g)
{
    hf_mono now = client_now(g->client);
    for (size_t i = 0; i < g->n; i++) {
        struct hf_lock *lock = g->parts[i].lock;
        loss_tie_locked(lock, g->parts[(i + 1) % g->n].lock);
        loss_tell_locked(lock, g->options.on_lost, g->options.lost_ctx);
        watchdog_begin(&lock->belief.watchdog, &g->options, now);
        belief_watch_locked(lock);
    }
    ticker_poke(g->client, TICK_WATCH);
}

static bool tie(const group *g)
{
    MUTEX_SCOPE(&g->client->mutex);
    if (!is_whole_locked(g))
        return false;
    tie_locked(g);
    return true;
}

static hf_code take_all(group *g, hf_error *err)
{
    hf_code code = HF_OK;
    do {
        give_back(g, 0);
        if (tries_all(g)) {
            g->next = 0;
            try_all(g);
            code = first_failure(g, err);
        }
        if (!code)
            code = take_in_order(g, err);
    } while (!code && !tie(g));
    if (code)
        give_back(g, 0);
    return code;
}

hf_code hf_lock_acquire_all(hf_client *client, const char *const *names, size_t n,
                            const hf_lock_options *options, hf_lock **out, hf_error *err)
{
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    group g = {.client = client, .by = acquire_caller_now(client), .n = n};
    if (options)
        g.options = *options;
    g.parts = alloc_zeroed(n * sizeof *g.parts + 1);
    g.deadline = deadline_of(&g);
    code = take_names(&g, names, err);
    if (!code)
        code = acquire_check(client, &g.options, err);
    if (!code)
        code = take_all(&g, err);
    for (size_t i = 0; i < n && !code; i++)
        out[g.parts[i].at] = g.parts[i].lock;
    free(g.parts);
    client_end(client);
    return code;
}
