/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.c: the handle that ends a wait from another thread or from a signal handler. */
#include "client/base/cancel.h"

#include "core/alloc.h"
#include "core/error.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct hf_cancel {
    int fd;
};

hf_code hf_cancel_new(hf_cancel **out, hf_error *err)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return error_set(err, HF_INTERNAL, "no file descriptor is left for a cancel: %s",
                         strerror(errno));
    *out = alloc_zeroed(sizeof **out);
    (*out)->fd = fd;
    return HF_OK;
}

void hf_cancel_fire(hf_cancel *cancel)
{
    uint64_t one = 1;
    int saved = errno;
    if (write(cancel->fd, &one, sizeof one) < 0)
        errno = saved; /* the counter is full: it is fired already */
}

void hf_cancel_free(hf_cancel *cancel)
{
    if (!cancel)
        return;
    close(cancel->fd);
    free(cancel);
}

int cancel_fd(const hf_cancel *cancel)
{
    return cancel ? cancel->fd : -1;
}

bool cancel_is_fired(const hf_cancel *cancel)
{
    struct pollfd fd = {cancel_fd(cancel), POLLIN, 0};
    return cancel && poll(&fd, 1, 0) > 0;
}

bool cancel_pause(const hf_env *env, const hf_cancel *cancel, int64_t ms)
{
    struct pollfd fd = {cancel_fd(cancel), POLLIN, 0};
    if (cancel)
        return poll(&fd, 1, (int)ms) > 0;
    env->pause(env->ctx, ms);
    return false;
}
