/* SPDX-License-Identifier: Apache-2.0 */
/* refresher.c: looks at the locks in a thread of its own; the screen of `holdfast watch` starts it.
 */
#include "refresher.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "show/text.h"

struct refresher {
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

static void give(refresher *r, board *seen, const hf_error *wrong)
{
    pthread_mutex_lock(&r->mutex);
    board_done(&r->fresh);
    r->fresh = *seen;
    r->wrong = *wrong;
    r->has_fresh = true;
    pthread_mutex_unlock(&r->mutex);
    eventfd_write(r->fd, 1);
}

static void await_turn(refresher *r, int64_t pause_ms)
{
    usleep((useconds_t)(pause_ms * 1000));
    pthread_mutex_lock(&r->mutex);
    while (r->pauses)
        pthread_cond_wait(&r->is_to_go_on, &r->mutex);
    pthread_mutex_unlock(&r->mutex);
}

static void *look_on(void *ctx)
{
    refresher *r = ctx;
    board_pace pace = {0};
    for (;;) {
        board seen;
        hf_error wrong = {0};
        hf_code code = board_look_in_use(&seen, NULL, r->client, r->prefix, NULL, &wrong);
        if (code)
            board_done(&seen);
        int64_t pause_ms = board_pause_ms(&pace, code ? NULL : &seen, r->interval_ms);
        give(r, &seen, &wrong);
        await_turn(r, pause_ms);
    }
    return NULL;
}

refresher *refresher_start(hf_client *client, const char *prefix, int64_t interval_ms)
{
    pthread_t thread;
    refresher *r = text_alloc(sizeof *r);
    *r = (refresher){.client = client, .prefix = prefix, .interval_ms = interval_ms};
    r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->is_to_go_on, NULL);
    if (r->fd >= 0 && pthread_create(&thread, NULL, look_on, r) == 0)
        return r;
    free(r);
    return NULL;
}

int refresher_fd(const refresher *r)
{
    return r->fd;
}

bool refresher_take(refresher *r, board *out, hf_error *wrong)
{
    eventfd_t count;
    eventfd_read(r->fd, &count);
    pthread_mutex_lock(&r->mutex);
    bool has_fresh = r->has_fresh;
    if (has_fresh) {
        *out = r->fresh;
        *wrong = r->wrong;
        r->fresh = (board){0};
        r->has_fresh = false;
    }
    pthread_mutex_unlock(&r->mutex);
    return has_fresh;
}

void refresher_pause(refresher *r, bool pauses)
{
    pthread_mutex_lock(&r->mutex);
    r->pauses = pauses;
    pthread_cond_signal(&r->is_to_go_on);
    pthread_mutex_unlock(&r->mutex);
}
