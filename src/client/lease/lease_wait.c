/* SPDX-License-Identifier: Apache-2.0 */
/* lease_wait.c: waits for leases without a thread for each. A few threads make every step that is
 * due, as acquire.c does in its caller's thread. All these waits sleep on one waker. */
#include "client/lease/lease.h"

#include "core/alloc.h"
#include "core/error.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define POOL_THREADS 8 /* each store call keeps one busy */
#define ORDER_MS 1000  /* a first step that takes longer keeps nobody waiting */

struct hf_lease_wait {
    struct hf_lease_wait *next, **link;
    lease_request request;
    hf_lease lease;
    hf_lease_options options;
    char *owner, *host, *key, *why, *actor; /* of the options */
    struct attempt attempt;
    bool is_entering;   /* the attempt is there */
    bool has_entered;   /* its first step was made: it stands in line, if it could */
    hf_mono entered_by; /* while it is made: then the next of this name may enter all the same */
    bool is_running;    /* a thread is at it */
    bool is_cancelled;
    hf_mono due;
    hf_lease_fn done;
    void *ctx;
};

struct lease_pool {
    pthread_t threads[POOL_THREADS];
    unsigned n;
    struct waker *waker;
    struct hf_lease_wait *first, **end; /* in the order in which they were begun */
    bool is_stopping;
};

/* ---- One wait ---- */

static char *copy(const char *text)
{
    return text ? alloc_text(text) : NULL;
}

static struct hf_lease_wait *new_wait(const hf_lease_options *options)
{
    struct hf_lease_wait *wait = alloc_zeroed(sizeof *wait);
    if (options)
        wait->options = *options;
    wait->options.owner = wait->owner = copy(wait->options.owner);
    wait->options.host = wait->host = copy(wait->options.host);
    wait->options.key = wait->key = copy(wait->options.key);
    wait->options.lock.why = wait->why = copy(wait->options.lock.why);
    wait->options.lock.actor = wait->actor = copy(wait->options.lock.actor);
    return wait;
}

static void free_wait(struct hf_lease_wait *wait)
{
    free(wait->owner);
    free(wait->host);
    free(wait->key);
    free(wait->why);
    free(wait->actor);
    free(wait);
}

static void link_locked(struct lease_pool *pool, struct hf_lease_wait *wait)
{
    wait->link = pool->end;
    *pool->end = wait;
    pool->end = &wait->next;
}

static void unlink_locked(struct lease_pool *pool, struct hf_lease_wait *wait)
{
    *wait->link = wait->next;
    if (wait->next)
        wait->next->link = wait->link;
    else
        pool->end = wait->link;
}

static void end(struct hf_lease_wait *wait, hf_code code, const hf_error *err)
{
    hf_client *client = wait->request.client;
    wait->done(wait->ctx, code ? NULL : &wait->lease, err);
    pthread_mutex_lock(&client->mutex);
    unlink_locked(client->pool, wait);
    pthread_mutex_unlock(&client->mutex);
    free_wait(wait);
    client_end(client);
}

/* Others find the attempt in the client's list. */
static void set_waker(struct hf_lease_wait *wait, struct waker *waker)
{
    pthread_mutex_lock(&wait->request.client->mutex);
    wait->attempt.request.waker = waker;
    pthread_mutex_unlock(&wait->request.client->mutex);
}

/* Without an actor, the request itself is the owner, not the thread that happens to make a step. */
static void enter(struct hf_lease_wait *wait)
{
    lease_request *r = &wait->request;
    lease_request_enter(r, &wait->attempt);
    wait->attempt.request.thread = client_new_thread();
    set_waker(wait, r->client->pool->waker);
    wait->is_entering = true;
    wait->due = client_now(r->client);
}

/* Returns whether it has ended. A cancel takes effect when the attempt exists. */
static bool begin(struct hf_lease_wait *wait, bool is_cancelled)
{
    lease_request *r = &wait->request;
    hf_error err = {.code = HF_OK};
    bool is_found = false;
    int64_t ms;
    hf_code code = is_cancelled ? HF_OK : lease_find(r, &is_found, &err);
    if (lease_finds_again(r, code, &ms)) {
        wait->due = mono_add_ms(client_now(r->client), ms);
        return false;
    }
    if (code || is_found)
        end(wait, code, &err);
    else
        enter(wait);
    return code || is_found;
}

static void conclude(struct hf_lease_wait *wait)
{
    hf_error err;
    set_waker(wait, NULL); /* the pool's, not to be given away */
    hf_code code = lease_request_conclude(&wait->request, &wait->attempt, &err);
    end(wait, code, &err);
}

static bool step(struct hf_lease_wait *wait, bool is_cancelled)
{
    struct attempt *attempt = &wait->attempt;
    hf_mono now = client_now(wait->request.client);
    if (!wait->is_entering)
        return begin(wait, is_cancelled);
    wait->due = is_cancelled ? attempt_cancel(attempt, now) : attempt_step(attempt, now);
    if (attempt->state != ATTEMPT_ENDED)
        return false;
    conclude(wait);
    return true;
}

/* ---- The threads ---- */

static bool is_ready(const struct hf_lease_wait *wait, hf_mono now)
{
    return wait->is_cancelled || wait->attempt.request.is_woken || mono_reached(wait->due, now);
}

/* Those whose first step is being made; no more than there are threads. */
typedef struct entering {
    const struct hf_lease_wait *of[POOL_THREADS];
    unsigned n;
} entering;

/* First come, first served: it does not enter beside one of its name that was begun before it. */
static hf_mono turn_of(const struct hf_lease_wait *wait, const entering *before)
{
    hf_mono turn = {0};
    for (unsigned i = 0; i < before->n && !wait->has_entered; i++) {
        const struct hf_lease_wait *other = before->of[i];
        if (strcmp(other->request.ids.name, wait->request.ids.name) == 0 &&
            other->entered_by.ns > turn.ns)
            turn = other->entered_by;
    }
    return turn;
}

static struct hf_lease_wait *next_locked(struct lease_pool *pool, hf_mono now, hf_mono *due)
{
    entering before = {.n = 0};
    *due = MONO_NEVER;
    for (struct hf_lease_wait *wait = pool->first; wait; wait = wait->next) {
        if (wait->is_running && !wait->has_entered)
            before.of[before.n++] = wait;
        if (wait->is_running)
            continue;
        hf_mono turn = turn_of(wait, &before);
        if (!mono_reached(turn, now))
            *due = mono_min(*due, turn);
        else if (is_ready(wait, now))
            return wait;
        else
            *due = mono_min(*due, wait->due);
    }
    return NULL;
}

static void sleep_until(hf_client *client, hf_mono due)
{
    int64_t ms = mono_ms_until(due, client_now(client));
    waker_sleep(client->pool->waker, -1, ms > 3600000 ? 3600000 : ms > 0 ? ms : 0);
}

/* A cancel that comes before the attempt exists takes effect when it does. */
static void run_locked(hf_client *client, struct hf_lease_wait *wait)
{
    bool is_cancelled = wait->is_cancelled;
    bool enters = wait->is_entering;
    wait->entered_by = mono_add_ms(client_now(client), ORDER_MS);
    wait->is_running = true;
    pthread_mutex_unlock(&client->mutex);
    bool has_ended = step(wait, is_cancelled);
    pthread_mutex_lock(&client->mutex);
    if (has_ended)
        return;
    wait->has_entered |= enters;
    wait->is_running = false;
}

static void *serve(void *arg)
{
    hf_client *client = arg;
    struct lease_pool *pool = client->pool;
    pthread_mutex_lock(&client->mutex);
    while (!pool->is_stopping) {
        hf_mono due;
        struct hf_lease_wait *wait = next_locked(pool, client_now(client), &due);
        if (wait) {
            run_locked(client, wait);
            continue;
        }
        pthread_mutex_unlock(&client->mutex);
        sleep_until(client, due);
        pthread_mutex_lock(&client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
    return NULL;
}

/* The library's threads block all signals. */
static unsigned start_threads(hf_client *client, pthread_t threads[POOL_THREADS])
{
    unsigned n = 0;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (n < POOL_THREADS && !pthread_create(&threads[n], NULL, serve, client))
        n++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return n;
}

static void make_pool_locked(hf_client *client)
{
    if (client->pool)
        return;
    struct lease_pool *pool = client->pool = alloc_zeroed(sizeof *client->pool);
    pool->end = &pool->first;
    pool->waker = waker_take_locked(&client->wakers, false);
    pool->n = start_threads(client, pool->threads);
}

void lease_pool_stop(hf_client *client)
{
    struct lease_pool *pool = client->pool;
    if (!pool)
        return;
    pthread_mutex_lock(&client->mutex);
    pool->is_stopping = true;
    pthread_mutex_unlock(&client->mutex);
    for (unsigned i = 0; i < pool->n; i++)
        waker_wake(pool->waker);
    for (unsigned i = 0; i < pool->n; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_mutex_lock(&client->mutex);
    waker_give_locked(&client->wakers, pool->waker);
    pthread_mutex_unlock(&client->mutex);
    client->pool = NULL;
    free(pool);
}

/* ---- The calls ---- */

static hf_code start(hf_client *client, struct hf_lease_wait *wait, hf_lease_wait **out,
                     hf_error *err)
{
    MUTEX_SCOPE(&client->mutex);
    make_pool_locked(client);
    if (!client->pool->n)
        return error_set(err, HF_INTERNAL, "no thread could be started to wait for a lease");
    link_locked(client->pool, wait);
    *out = wait;
    waker_wake(client->pool->waker);
    return HF_OK;
}

hf_code lease_wait_begin(hf_client *client, const char *name, const hf_lease_options *options,
                         hf_lease_fn done, void *ctx, hf_lease_wait **out, hf_error *err)
{
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    struct hf_lease_wait *wait = new_wait(options);
    wait->done = done;
    wait->ctx = ctx;
    code = lease_request_prepare(&wait->request, client, name, &wait->options, &wait->lease, err);
    if (!code && wait->options.lock.cancel)
        code = error_set(err, HF_INVALID,
                         "lock.cancel is for hf_lease_acquire(): here "
                         "hf_lease_cancel() ends the wait");
    if (!code)
        code = start(client, wait, out, err);
    if (!code)
        return HF_OK;
    free_wait(wait);
    client_end(client);
    return code;
}

void lease_wait_cancel(hf_lease_wait *wait)
{
    hf_client *client = wait->request.client;
    pthread_mutex_lock(&client->mutex);
    wait->is_cancelled = true;
    waker_wake(client->pool->waker);
    pthread_mutex_unlock(&client->mutex);
}
