/* SPDX-License-Identifier: Apache-2.0 */
/* own.c: keeps the sessions of this process, each with its kernel lock and its socket, and wakes
 * await(), which may still use a session that has ended; called by sessions.c and notice.c. */
#include "core/alloc.h"
#include "core/id.h"
#include "store/sqlite/left.h"
#include "store/sqlite/sqlite_internal.h"
#include "sync/mutex_scope.h"

#include <unistd.h>

static void own_free(sqlite_own *own)
{
    if (own->notice_fd >= 0)
        close(own->notice_fd);
    free(own);
}

sqlite_own *own_find(sqlite_store *store, hf_id id)
{
    sqlite_own *own = store->own;
    while (own && !id_equal(own->id, id))
        own = own->next;
    return own;
}

void sqlite_wake(hf_store *base)
{
    uint64_t one = 1;
    ssize_t n = write(store_of(base)->wake_fd, &one, sizeof one);
    (void)n; /* this fails only if it is readable already */
}

/* If await() waits for notices of an older session, it returns, and is then called for this one. */
void own_add(sqlite_store *store, sqlite_own *own)
{
    pthread_mutex_lock(&store->mutex);
    if (store->own)
        sqlite_wake(&store->base);
    own->next = store->own;
    store->own = own;
    pthread_mutex_unlock(&store->mutex);
}

static void unlink_own(sqlite_store *store, const sqlite_own *own)
{
    sqlite_own **link = &store->own;
    while (*link != own)
        link = &(*link)->next;
    *link = own->next;
}

void own_remove(sqlite_store *store, hf_id id)
{
    pthread_mutex_lock(&store->mutex);
    sqlite_own *own = own_find(store, id);
    if (own) {
        unlink_own(store, own);
        if (own->has_pipe)
            left_remove(store->path, own->hold.row);
        alive_let_go(&own->hold);
        own->is_ended = true;
        if (own->is_awaited)
            sqlite_wake(&store->base);
        else
            own_free(own);
    }
    pthread_mutex_unlock(&store->mutex);
}

void own_forget_all(sqlite_store *store)
{
    while (store->own) {
        sqlite_own *own = store->own;
        store->own = own->next;
        own_free(own);
    }
}

sqlite_own *own_borrow(sqlite_store *store, hf_id id)
{
    pthread_mutex_lock(&store->mutex);
    sqlite_own *own = own_find(store, id);
    if (own)
        own->is_awaited = true;
    pthread_mutex_unlock(&store->mutex);
    return own;
}

void own_return(sqlite_store *store, sqlite_own *own)
{
    pthread_mutex_lock(&store->mutex);
    own->is_awaited = false;
    if (own->is_ended)
        own_free(own);
    pthread_mutex_unlock(&store->mutex);
}

static hf_code give_end(sqlite_store *store, hf_id session, int *fd, hf_error *err)
{
    MUTEX_SCOPE(&store->mutex);
    sqlite_own *own = own_find(store, session);
    if (!own || own->hold.fd < 0)
        return HF_OK;
    return left_give(store->path, own->hold.row, &own->has_pipe, fd, err);
}

int sqlite_keep_fd(hf_store *base, hf_id session)
{
    sqlite_store *store = store_of(base);
    hf_error err = {.code = HF_OK};
    int fd = -1;
    if (give_end(store, session, &fd, &err))
        sqlite_log(store, HF_LOG_WARNING,
                   "%s: if this process is killed, what it leaves behind keeps no lock", err.text);
    return fd;
}
