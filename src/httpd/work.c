/* SPDX-License-Identifier: Apache-2.0 */
/* work.c: lets workers answer the requests that need the store, first come, first served but for
 * those that are urgent. Only some workers take requests that take long, and not all take such as
 * are not urgent, so that the others go on. */
#include "httpd/work.h"

#include "httpd/route.h"
#include "sync/mutex_scope.h"

static bool is_slow(const request *req)
{
    return req->route->run_by == RUN_SLOW_WORKER;
}

static bool is_urgent(const request *req)
{
    return req->route->run_by == RUN_URGENT_WORKER;
}

static void append_locked(work *w, request *req)
{
    work_line *line = is_urgent(req) ? &w->urgent : &w->other;
    req->next = NULL;
    if (line->last)
        line->last->next = req;
    else
        line->first = req;
    line->last = req;
    pthread_cond_signal(&w->changed);
}

bool work_give(work *w, request *req)
{
    MUTEX_SCOPE(&w->mutex);
    if (w->is_closing)
        return false;
    append_locked(w, req);
    return true;
}

void work_again(work *w, request *req)
{
    pthread_mutex_lock(&w->mutex);
    append_locked(w, req);
    pthread_mutex_unlock(&w->mutex);
}

static void remove_locked(work_line *line, request **at, request *before)
{
    request *found = *at;
    *at = found->next;
    if (line->last == found)
        line->last = before;
}

/* The first of the others that may be started now; NULL: none. */
static request *take_other_locked(work *w)
{
    request **at = &w->other.first, *before = NULL;
    while (*at && is_slow(*at) && w->n_slow == WORKERS_SLOW) {
        before = *at;
        at = &before->next;
    }
    request *found = *at;
    if (found)
        remove_locked(&w->other, at, before);
    return found;
}

static request *take_locked(work *w)
{
    request *found = w->urgent.first;
    if (found)
        remove_locked(&w->urgent, &w->urgent.first, NULL);
    else if (w->n_other < WORKERS_OTHER)
        found = take_other_locked(w);
    return found;
}

/* NULL: it is over. */
static request *next_locked(work *w)
{
    request *req;
    while (!(req = take_locked(w)) && !(w->is_closing && !w->urgent.first && !w->other.first))
        pthread_cond_wait(&w->changed, &w->mutex);
    return req;
}

static void *run(void *ctx)
{
    work *w = ctx;
    request *req;
    pthread_mutex_lock(&w->mutex);
    while ((req = next_locked(w))) {
        size_t slow = is_slow(req), other = !is_urgent(req);
        w->n_slow += slow;
        w->n_other += other;
        pthread_mutex_unlock(&w->mutex);
        w->serve(req);
        pthread_mutex_lock(&w->mutex);
        w->n_slow -= slow;
        w->n_other -= other;
        if (slow || w->is_closing)
            pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

bool work_open(work *w, void (*serve)(request *req))
{
    w->serve = serve;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    while (w->n_threads < WORKERS && !pthread_create(&w->threads[w->n_threads], NULL, run, w))
        w->n_threads++;
    return w->n_threads == WORKERS;
}

void work_close(work *w)
{
    pthread_mutex_lock(&w->mutex);
    w->is_closing = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    for (size_t i = 0; i < w->n_threads; i++)
        pthread_join(w->threads[i], NULL);
    w->n_threads = 0;
}
