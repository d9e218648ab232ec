/* SPDX-License-Identifier: Apache-2.0 */
/* work.c: lets workers answer the requests that need the store, first come, first served. Only some
 * workers take requests that take long, so that the others go on. */
#include "httpd/work.h"

#include "httpd/route.h"
#include "sync/mutex_scope.h"

static bool is_slow(const request *req)
{
    return req->route->run_by == RUN_SLOW_WORKER;
}

static void append_locked(work *w, request *req)
{
    req->next = NULL;
    if (w->last)
        w->last->next = req;
    else
        w->first = req;
    w->last = req;
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

/* The first in line that may be started now; NULL: none. */
static request *take_locked(work *w)
{
    request **at = &w->first, *before = NULL;
    while (*at && is_slow(*at) && w->n_slow == WORKERS_SLOW) {
        before = *at;
        at = &before->next;
    }
    request *found = *at;
    if (!found)
        return NULL;
    *at = found->next;
    if (w->last == found)
        w->last = before;
    return found;
}

/* NULL: it is over. */
static request *next_locked(work *w)
{
    request *req;
    while (!(req = take_locked(w)) && !(w->is_closing && !w->first))
        pthread_cond_wait(&w->changed, &w->mutex);
    return req;
}

static void *run(void *ctx)
{
    work *w = ctx;
    request *req;
    pthread_mutex_lock(&w->mutex);
    while ((req = next_locked(w))) {
        size_t slow = is_slow(req);
        w->n_slow += slow;
        pthread_mutex_unlock(&w->mutex);
        w->serve(req);
        pthread_mutex_lock(&w->mutex);
        w->n_slow -= slow;
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
