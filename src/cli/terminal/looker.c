/* SPDX-License-Identifier: Apache-2.0 */
/* looker.c: looks at the locks in a thread of its own; the screen of `holdfast watch` starts it. */
#include "looker.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "show/text.h"

struct looker {
    hf_client *client;
    const char *prefix;
    int64_t interval_ms;
    int fd;
    pthread_mutex_t mutex;
    pthread_cond_t is_to_go_on;
    bool pauses; /* guarded by the mutex, as what follows */
    bool has_fresh;
    board fresh;
    hf_error wrong;
};

static void give(looker *l, board *seen, const hf_error *wrong)
{
    pthread_mutex_lock(&l->mutex);
    board_done(&l->fresh);
    l->fresh = *seen;
    l->wrong = *wrong;
    l->has_fresh = true;
    pthread_mutex_unlock(&l->mutex);
    eventfd_write(l->fd, 1);
}

static void await_turn(looker *l)
{
    usleep((useconds_t)(l->interval_ms * 1000));
    pthread_mutex_lock(&l->mutex);
    while (l->pauses)
        pthread_cond_wait(&l->is_to_go_on, &l->mutex);
    pthread_mutex_unlock(&l->mutex);
}

static void *look_on(void *ctx)
{
    looker *l = ctx;
    for (;;) {
        board seen;
        hf_error wrong = {0};
        if (board_look(&seen, l->client, l->prefix, &wrong))
            board_done(&seen);
        give(l, &seen, &wrong);
        await_turn(l);
    }
    return NULL;
}

looker *looker_start(hf_client *client, const char *prefix, int64_t interval_ms)
{
    pthread_t thread;
    looker *l = text_alloc(sizeof *l);
    *l = (looker){.client = client, .prefix = prefix, .interval_ms = interval_ms};
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->is_to_go_on, NULL);
    if (l->fd >= 0 && pthread_create(&thread, NULL, look_on, l) == 0)
        return l;
    free(l);
    return NULL;
}

int looker_fd(const looker *l)
{
    return l->fd;
}

bool looker_take(looker *l, board *out, hf_error *wrong)
{
    eventfd_t count;
    eventfd_read(l->fd, &count);
    pthread_mutex_lock(&l->mutex);
    bool has_fresh = l->has_fresh;
    if (has_fresh) {
        *out = l->fresh;
        *wrong = l->wrong;
        l->fresh = (board){0};
        l->has_fresh = false;
    }
    pthread_mutex_unlock(&l->mutex);
    return has_fresh;
}

void looker_pause(looker *l, bool pauses)
{
    pthread_mutex_lock(&l->mutex);
    l->pauses = pauses;
    pthread_cond_signal(&l->is_to_go_on);
    pthread_mutex_unlock(&l->mutex);
}
