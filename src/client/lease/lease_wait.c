/* SPDX-License-Identifier: Apache-2.0 */
/* lease_wait.c: waits for leases without a thread for each. A few threads make every step that is
 * due, as acquire.c does in its caller's thread. All these waits sleep on one waker. However many
 * there are, the next one is found at once. lease_order.c keeps newcomers of one name in order. */
#include "client/lease/lease_order.h"

#include "core/alloc.h"
#include "core/error.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define POOL_THREADS 8 /* each store call keeps one busy */
#define ORDER_MS 1000  /* a first step that takes longer keeps nobody waiting */

struct hf_lease_wait {
    lease_request request;
    hf_lease lease;
    hf_lease_options options;
    char *owner, *host, *key, *why, *actor; /* of the options */
    struct attempt attempt;
    bool is_entering;         /* the attempt is there */
    bool has_entered;         /* its first step was made: it stands in line, if it could */
    struct newcomer newcomer; /* its place among those of its name, until it has entered */
    bool is_running;          /* a thread is at it */
    bool is_ready;            /* a thread may take it; else it sleeps, or stands behind another */
    struct hf_lease_wait *ready_next;
    hf_mono due;      /* of its next step, own thread */
    struct slot slot; /* until when it sleeps */
    bool is_cancelled;
    hf_lease_fn done;
    void *ctx;
};

/* First come, first served. */
struct ready {
    struct hf_lease_wait *first, **end;
};

/* Guarded by the client's mutex. */
struct lease_pool {
    pthread_t threads[POOL_THREADS];
    unsigned n, asleep;
    struct waker *waker;
    struct woken woken; /* sleeping ones that were told something */
    struct schedule sleeping;
    struct ready goes_on, new; /* who waits already comes before who has not entered yet */
    struct newcomers newcomers;
    hf_mono alarm; /* until when a thread sleeps; the others sleep until they are woken */
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

static struct hf_lease_wait *wait_of_newcomer(struct newcomer *newcomer)
{
    return (struct hf_lease_wait *)((char *)newcomer - offsetof(struct hf_lease_wait, newcomer));
}

static struct hf_lease_wait *wait_of_request(struct lock_request *request)
{
    return (struct hf_lease_wait *)((char *)request -
                                    offsetof(struct hf_lease_wait, attempt.request));
}

/* ---- Which is next ---- */

static void make_ready_locked(struct lease_pool *pool, struct hf_lease_wait *wait)
{
    struct ready *of = wait->has_entered ? &pool->goes_on : &pool->new;
    schedule_remove(&pool->sleeping, &wait->slot);
    wait->is_ready = true;
    wait->ready_next = NULL;
    *of->end = wait;
    of->end = &wait->ready_next;
}

static struct hf_lease_wait *take_ready_locked(struct ready *from)
{
    struct hf_lease_wait *wait = from->first;
    if (!wait)
        return NULL;
    from->first = wait->ready_next;
    if (!from->first)
        from->end = &from->first;
    wait->is_ready = false;
    return wait;
}

static bool is_asleep(const struct hf_lease_wait *wait)
{
    return !wait->is_running && !wait->is_ready && !newcomer_is_behind(&wait->newcomer);
}

/* It has entered, or cannot yet: the next of its name may. */
static void let_next_enter_locked(struct lease_pool *pool, struct hf_lease_wait *wait)
{
    struct newcomer *next = newcomers_leave(&wait->newcomer);
    if (next)
        make_ready_locked(pool, wait_of_newcomer(next));
}

/* Those that were told something, and those whose time has come. */
static void wake_up_locked(struct lease_pool *pool, hf_mono now)
{
    struct lock_request *told;
    struct slot *slot;
    while ((told = lock_request_take_woken_locked(&pool->woken)))
        if (is_asleep(wait_of_request(told)))
            make_ready_locked(pool, wait_of_request(told));
    while ((slot = schedule_next_due(&pool->sleeping, now))) {
        struct hf_lease_wait *wait = SCHEDULE_OWNER(slot, struct hf_lease_wait, slot);
        newcomers_let_go(&wait->newcomer);
        make_ready_locked(pool, wait);
    }
}

static struct hf_lease_wait *next_locked(struct lease_pool *pool, hf_mono now)
{
    wake_up_locked(pool, now);
    struct hf_lease_wait *wait = take_ready_locked(&pool->goes_on);
    return wait ? wait : take_ready_locked(&pool->new);
}

/* ---- Its steps ---- */

static void end(struct hf_lease_wait *wait, hf_code code, const hf_error *err)
{
    hf_client *client = wait->request.client;
    wait->done(wait->ctx, code ? NULL : &wait->lease, err);
    pthread_mutex_lock(&client->mutex);
    let_next_enter_locked(client->pool, wait);
    pthread_mutex_unlock(&client->mutex);
    free_wait(wait);
    client_end(client);
}

/* Others find the attempt in the client's list. NULL: they cannot wake it any more. */
static void set_waker(struct hf_lease_wait *wait, struct lease_pool *pool)
{
    struct lock_request *request = &wait->attempt.request;
    pthread_mutex_lock(&request->client->mutex);
    request->waker = pool ? pool->waker : NULL;
    lock_request_list_wakes_locked(request, pool ? &pool->woken : NULL);
    pthread_mutex_unlock(&request->client->mutex);
}

/* Without an actor, the request itself is the owner, not the thread that happens to make a step. */
static void enter(struct hf_lease_wait *wait)
{
    lease_request *r = &wait->request;
    lease_request_enter(r, &wait->attempt);
    wait->attempt.request.thread = client_new_thread();
    set_waker(wait, r->client->pool);
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

/* Sleeps until it is due, unless another thread does so already. */
static void sleep_locked(hf_client *client)
{
    struct lease_pool *pool = client->pool;
    hf_mono due = schedule_due(&pool->sleeping), alarm = MONO_NEVER;
    if (due.ns < pool->alarm.ns)
        pool->alarm = alarm = due;
    int64_t ms = mono_ms_until(alarm, client_now(client));
    pool->asleep++;
    pthread_mutex_unlock(&client->mutex);
    waker_sleep(pool->waker, -1, ms > 3600000 ? 3600000 : ms > 0 ? ms : 0);
    pthread_mutex_lock(&client->mutex);
    pool->asleep--;
    if (pool->alarm.ns == alarm.ns)
        pool->alarm = MONO_NEVER;
}

/* While this thread is at work, another is to take the next, or to sleep until it is due. */
static void call_another_locked(const struct lease_pool *pool)
{
    bool is_early = schedule_due(&pool->sleeping).ns < pool->alarm.ns;
    if (pool->asleep && (pool->goes_on.first || pool->new.first || is_early))
        waker_wake(pool->waker);
}

/* Its step was made, and it has not ended. */
static void put_back_locked(struct lease_pool *pool, struct hf_lease_wait *wait, hf_mono now)
{
    bool is_due =
        wait->is_cancelled || wait->attempt.request.is_woken || mono_reached(wait->due, now);
    if (wait->has_entered || !is_due)
        let_next_enter_locked(pool, wait);
    if (is_due)
        make_ready_locked(pool, wait);
    else
        schedule_set(&pool->sleeping, &wait->slot, wait->due);
}

/* First come, first served: the next of its name does not enter beside it, or only if it takes
 * long. */
static void begin_step_locked(struct lease_pool *pool, struct hf_lease_wait *wait, hf_mono now)
{
    struct newcomer *next = newcomer_behind(&wait->newcomer);
    wait->is_running = true;
    if (next)
        schedule_set(&pool->sleeping, &wait_of_newcomer(next)->slot, mono_add_ms(now, ORDER_MS));
}

/* A cancel that comes before the attempt exists takes effect when it does. */
static void run_locked(hf_client *client, struct hf_lease_wait *wait)
{
    bool is_cancelled = wait->is_cancelled;
    bool enters = wait->is_entering;
    begin_step_locked(client->pool, wait, client_now(client));
    call_another_locked(client->pool);
    pthread_mutex_unlock(&client->mutex);
    bool has_ended = step(wait, is_cancelled);
    pthread_mutex_lock(&client->mutex);
    if (has_ended)
        return;
    wait->has_entered |= enters;
    wait->is_running = false;
    put_back_locked(client->pool, wait, client_now(client));
}

static void *serve(void *arg)
{
    hf_client *client = arg;
    struct lease_pool *pool = client->pool;
    pthread_mutex_lock(&client->mutex);
    while (!pool->is_stopping) {
        struct hf_lease_wait *wait = next_locked(pool, client_now(client));
        if (wait)
            run_locked(client, wait);
        else
            sleep_locked(client);
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
    pool->woken.end = &pool->woken.first;
    pool->goes_on.end = &pool->goes_on.first;
    pool->new.end = &pool->new.first;
    pool->alarm = MONO_NEVER;
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
    schedule_done(&pool->sleeping);
    free(pool);
}

/* ---- The calls ---- */

static void add_locked(struct lease_pool *pool, struct hf_lease_wait *wait, hf_mono now)
{
    struct newcomer *before =
        newcomers_join(&pool->newcomers, &wait->newcomer, wait->request.ids.name);
    if (!before)
        make_ready_locked(pool, wait);
    else if (wait_of_newcomer(before)->is_running)
        schedule_set(&pool->sleeping, &wait->slot, mono_add_ms(now, ORDER_MS));
}

static hf_code start(hf_client *client, struct hf_lease_wait *wait, hf_lease_wait **out,
                     hf_error *err)
{
    MUTEX_SCOPE(&client->mutex);
    make_pool_locked(client);
    if (!client->pool->n)
        return error_set(err, HF_INTERNAL, "no thread could be started to wait for a lease");
    *out = wait;
    add_locked(client->pool, wait, client_now(client));
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
    if (is_asleep(wait))
        make_ready_locked(client->pool, wait);
    waker_wake(client->pool->waker);
    pthread_mutex_unlock(&client->mutex);
}
