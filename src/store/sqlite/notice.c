/* SPDX-License-Identifier: Apache-2.0 */
/* notice.c: wakes waiters in other processes, and waits to be woken; called by steps and by the
 * client's listener.
 *
 * A process that grants sends one datagram per ticket to the waiting session's socket, which has an
 * abstract address made of the alive file's identity and the session's id. Anybody on this machine
 * can send there, so a notice only says "look". Abstract addresses belong to a network namespace: a
 * waiter in another one gets no notice, and finds out when it looks by itself, every few seconds.
 *
 * A session that ends, or whose process dies, closes a writer's description of the alive file. An
 * inotify watch reports that to every waiter. Each tests the bytes of the sessions that it waits
 * for, and sleeps on unless the byte of one that is not marked dead has become free. If that one
 * has left others behind, their pipe is watched as well, and tested now and then.
 */
#include "core/error.h"
#include "core/id.h"
#include "core/notify.h"
#include "store/kernel_time.h"
#include "store/sqlite/left.h"
#include "store/sqlite/sqlite_internal.h"
#include "sync/mutex_scope.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A receiver's queue is this long by default (net.unix.max_dgram_qlen); senders drop what does not
 * fit. So a receiver that reads that many at once may have missed some. */
#define FULL_QUEUE 10
#define DEAF_INTERVAL_MS 1000
#define NEVER INT64_MAX

hf_code notice_open(sqlite_store *store, hf_error *err)
{
    store->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    store->send_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (store->wake_fd >= 0 && store->send_fd >= 0)
        return HF_OK;
    return error_set(err, HF_UNUSABLE, "no descriptors for notices: %s: raise ulimit -n",
                     strerror(errno));
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void notice_close(sqlite_store *store)
{
    close_fd(&store->wake_fd);
    close_fd(&store->send_fd);
    close_fd(&store->inotify_fd);
}

static socklen_t address_of(const sqlite_store *store, hf_id session, struct sockaddr_un *out)
{
    char id[ID_TEXT_SIZE];
    id_write(session, id);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "holdfast/%llx:%llx/%s",
                     (unsigned long long)store->alive.device,
                     (unsigned long long)store->alive.inode, id);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int notice_bind(sqlite_store *store, hf_id session)
{
    struct sockaddr_un address;
    socklen_t size = address_of(store, session, &address);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0)
        return fd;
    sqlite_log(store, HF_LOG_WARNING, "no socket for notices (%s): waiting takes longer",
               strerror(errno));
    close_fd(&fd);
    return -1;
}

/* ---- Sending ---- */

/* A datagram may be lost, because the receiver is gone or its queue is full. The receiver finds
 * out, because it looks by itself from time to time. */
/* On the wire: a ticket that is to look, because it was granted or another session stands in its
 * way; or one that waits, and behind it the name of the lock. */
typedef struct datagram {
    hf_id ticket;
    char name[HF_NAME_MAX + 1];
} datagram;

static void send_to(const sqlite_store *store, hf_id session, const datagram *it)
{
    struct sockaddr_un address;
    socklen_t length = address_of(store, session, &address);
    size_t size = sizeof it->ticket.bytes + strlen(it->name);
    sendto(store->send_fd, it, size, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address,
           length);
}

/* but: the entrant, whose session has the step's answer. */
void notice_send(sqlite_store *store, const char *name, const char *news, const hf_id *but)
{
    notify_note note;
    while (notify_next(&news, &note)) {
        datagram it = {.ticket = note.ticket};
        if (note.kind == NOTE_RECALL)
            snprintf(it.name, sizeof it.name, "%s", name);
        if (note.kind != NOTE_GRANT || !but || !id_equal(note.ticket, *but))
            send_to(store, note.session, &it);
    }
}

/* ---- Who is waited for ---- */

static void watch_row_locked(sqlite_store *store, int64_t row)
{
    size_t i = 0;
    while (i < store->n_watched && store->watched[i] != row)
        i++;
    if (i == WATCHED_MAX) /* the oldest makes room; its waiters still look by themselves */
        i = store->next_watched = (store->next_watched + 1) % WATCHED_MAX;
    if (i == store->n_watched)
        store->n_watched++;
    store->watched[i] = row;
}

void notice_watch_row(sqlite_store *store, int64_t row)
{
    MUTEX_SCOPE(&store->mutex);
    watch_row_locked(store, row);
}

/* If await() sleeps, it returns, and tests from its next call on. */
void notice_see_left(sqlite_store *store)
{
    if (!atomic_exchange(&store->sees_left, true))
        sqlite_wake(&store->base);
}

/* Moves the rows whose byte is free out of the watched ones. */
static size_t take_free(sqlite_store *store, int64_t rows[WATCHED_MAX])
{
    size_t n_free = 0, kept = 0;
    pthread_mutex_lock(&store->mutex);
    store->sees_left = false;
    for (size_t i = 0; i < store->n_watched; i++) {
        bool is_free = false;
        alive_test(store->alive_path, store->tester, store->watched[i], &is_free, NULL);
        if (is_free)
            rows[n_free++] = store->watched[i];
        else
            store->watched[kept++] = store->watched[i];
    }
    store->n_watched = kept;
    pthread_mutex_unlock(&store->mutex);
    return n_free;
}

static bool is_unmarked(sqlite_store *store, int64_t row)
{
    bool found = false;
    pthread_mutex_lock(&store->main.mutex);
    sqlite3_stmt *live;
    if (sql_ready(&store->main, SQL_SESSION_IS_LIVE, &live, NULL) == HF_OK) {
        sqlite3_bind_int64(live, 1, row);
        sql_next(&store->main, live, &found, NULL);
        sql_reset(live);
    }
    pthread_mutex_unlock(&store->main.mutex);
    return found;
}

/* Watches before it tests, so that no end is missed. After a failed test the client looks, and is
 * told why. */
static bool has_left_others(sqlite_store *store, int64_t row)
{
    bool is_left;
    if (store->inotify_fd >= 0)
        left_watch(store->path, row, store->inotify_fd);
    return left_test(store->path, row, &is_left, NULL) == HF_OK && is_left;
}

/* It will be tested again. */
static void keep_left(sqlite_store *store, int64_t row)
{
    MUTEX_SCOPE(&store->mutex);
    watch_row_locked(store, row);
    store->sees_left = true;
}

/* Whether a session that is waited for has died. A session with a clean end was marked dead first:
 * its locks were granted to others, and notices were sent. */
static bool has_death(sqlite_store *store)
{
    int64_t rows[WATCHED_MAX];
    bool any = false;
    size_t n = take_free(store, rows);
    for (size_t i = 0; i < n; i++) {
        bool is_left = has_left_others(store, rows[i]);
        if (!is_unmarked(store, rows[i]))
            continue;
        any |= !is_left;
        if (is_left)
            keep_left(store, rows[i]);
    }
    return any;
}

/* ---- Waiting ---- */

typedef struct waiting {
    sqlite_store *store;
    int notice_fd;
    hf_notice_fn each;
    void *ctx;
    int64_t deadline_ms;
    int64_t test_at_ms; /* when to test the watched bytes */
    unsigned tests;     /* how often that was done since the last event */
    bool is_over;
} waiting;

static void tell(waiting *w, hf_notice_kind kind, const datagram *it)
{
    w->each(w->ctx, &(hf_notice){.kind = kind, .ticket = it->ticket, .name = it->name});
    w->is_over = true;
}

static void tell_to_look(waiting *w)
{
    static const datagram nothing = {.name = ""};
    tell(w, HF_NOTICE_LOOK, &nothing);
}

static void read_notices(waiting *w)
{
    int n = 0;
    ssize_t size;
    datagram it = {.name = ""};
    const ssize_t bare = sizeof it.ticket, most = sizeof it - 1;
    while (w->notice_fd >= 0 && (size = recv(w->notice_fd, &it, (size_t)most, 0)) >= 0) {
        if (size >= bare) {
            it.name[size - bare] = '\0';
            tell(w, size == bare ? HF_NOTICE_GRANT : HF_NOTICE_RECALL, &it);
        }
        if (++n == FULL_QUEUE)
            break;
    }
    if (n == FULL_QUEUE)
        tell_to_look(w);
}

static void read_wake(waiting *w)
{
    uint64_t count;
    if (read(w->store->wake_fd, &count, sizeof count) == (ssize_t)sizeof count)
        w->is_over = true;
}

/* The kernel reports the close before it frees the byte, so test again a little later. */
static void read_closes(waiting *w)
{
    char events[4096];
    bool any = false;
    while (w->store->inotify_fd >= 0 && read(w->store->inotify_fd, events, sizeof events) > 0)
        any = true;
    if (!any)
        return;
    w->tests = 0;
    w->test_at_ms = kernel_ms(CLOCK_BOOTTIME);
}

static void test_watched(waiting *w)
{
    static const int64_t pauses_ms[] = {1, 4, 20, NEVER};
    int64_t now = kernel_ms(CLOCK_BOOTTIME);
    if (now < w->test_at_ms)
        return;
    int64_t pause = w->store->is_deaf ? DEAF_INTERVAL_MS : pauses_ms[w->tests];
    w->test_at_ms = pause == NEVER ? NEVER : now + pause;
    w->tests += w->tests < 3;
    if (has_death(w->store))
        tell_to_look(w);
    if (w->store->sees_left && w->test_at_ms == NEVER)
        w->test_at_ms = now + DEAF_INTERVAL_MS;
}

/* Starts with the first wait. The bytes are tested right after that, in case a session died before
 * the watch stood. A user has 128 inotify instances by default. */
static void listen_to_closes(waiting *w)
{
    sqlite_store *store = w->store;
    if (store->inotify_fd >= 0 || store->is_deaf)
        return;
    store->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (store->inotify_fd < 0 ||
        inotify_add_watch(store->inotify_fd, store->alive_path, IN_CLOSE_WRITE) < 0) {
        sqlite_log(store, HF_LOG_INFO, "%s: no inotify (%s): a crash is seen a second later",
                   store->alive_path, strerror(errno));
        close_fd(&store->inotify_fd);
        store->is_deaf = true;
    }
    w->test_at_ms = kernel_ms(CLOCK_BOOTTIME);
}

static hf_code sleep_once(waiting *w, hf_error *err)
{
    int64_t until = w->test_at_ms < w->deadline_ms ? w->test_at_ms : w->deadline_ms;
    int64_t left = until - kernel_ms(CLOCK_BOOTTIME);
    struct pollfd fds[] = {{.fd = w->store->wake_fd, .events = POLLIN},
                           {.fd = w->notice_fd, .events = POLLIN},
                           {.fd = w->store->inotify_fd, .events = POLLIN}};
    int timeout = left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
    if (poll(fds, 3, timeout) >= 0 || errno == EINTR)
        return HF_OK;
    w->store->has_failed = true;
    return error_set(err, HF_INTERNAL, "poll: %s", strerror(errno));
}

static hf_code wait_for_notices(waiting *w, hf_error *err)
{
    hf_code code = HF_OK;
    listen_to_closes(w);
    for (;;) {
        read_notices(w);
        read_wake(w);
        read_closes(w);
        test_watched(w);
        if (code || w->is_over || kernel_ms(CLOCK_BOOTTIME) >= w->deadline_ms)
            return code;
        code = sleep_once(w, err);
    }
}

hf_code sqlite_await(hf_store *base, hf_id session, hf_stamp from, int64_t timeout_ms,
                     hf_notice_fn each, void *ctx, hf_error *err)
{
    (void)from; /* the socket was bound before the first enter */
    sqlite_store *store = store_of(base);
    sqlite_own *own = own_borrow(store, session);
    if (!own)
        return error_set(err, HF_NOT_FOUND, "that session is none of this store's");
    waiting w = {.store = store, .notice_fd = own->notice_fd, .each = each, .ctx = ctx};
    w.deadline_ms = kernel_ms(CLOCK_BOOTTIME) + (timeout_ms > 0 ? timeout_ms : 0);
    w.test_at_ms = store->is_deaf || store->sees_left ? kernel_ms(CLOCK_BOOTTIME) : NEVER;
    if (store->has_failed)
        tell_to_look(&w);
    store->has_failed = false;
    hf_code code = wait_for_notices(&w, err);
    own_return(store, own);
    return code;
}
