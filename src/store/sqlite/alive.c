/* SPDX-License-Identifier: Apache-2.0 */
/* alive.c: takes, tests and frees the kernel locks that show a crash at once (R10); called by the
 * store's sessions.
 *
 * They are OFD locks: they belong to an open file description, not to a process. So a test must use
 * another description than the holder's, which would always say free. A forked child shares its
 * parent's locks until it closes them. An unlock in the child would free the parent's lock, so the
 * child only closes.
 */
#include "store/sqlite/alive.h"

#include "core/error.h"
#include "store/sqlite/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* All bytes held by this process, for the child of a fork. The mutex is held while a description is
 * opened and linked, so that a fork never comes between. */
static pthread_mutex_t holds_mutex = PTHREAD_MUTEX_INITIALIZER;
static alive_hold *holds;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&holds_mutex);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&holds_mutex);
}

static void after_fork_in_child(void)
{
    for (alive_hold *hold = holds; hold; hold = hold->next) {
        close(hold->fd);
        hold->fd = -1;
        hold->link = NULL;
    }
    holds = NULL;
    pthread_mutex_unlock(&holds_mutex);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static hf_code fail(const char *path, const char *doing, hf_error *err)
{
    int os = errno;
    hf_code code = os == EROFS || os == EACCES || os == EPERM ? HF_READONLY
                   : os == ENOSPC || os == EDQUOT             ? HF_FULL
                                                              : HF_UNUSABLE;
    return error_set(err, code,
                     "%s: cannot %s: %s: it must stand beside the database, writable, on "
                     "a file system with kernel locks",
                     path, doing, strerror(os));
}

static hf_code identify(const char *path, int fd, alive_identity *out, hf_error *err)
{
    struct stat info;
    hf_code code = file_check_open(path, fd, &info, err);
    if (code)
        return code;
    *out = (alive_identity){.device = (int64_t)info.st_dev, .inode = (int64_t)info.st_ino};
    return HF_OK;
}

/* What stands there must be a file, and not wait for a writer as a pipe would. */
static int open_there(const char *path, int access)
{
    return open(path, access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

hf_code alive_open(const char *path, const char *database, bool make, int *out_fd,
                   alive_identity *out, hf_error *err)
{
    hf_code code = file_check(path, err);
    if (code)
        return code;
    if (make && file_make(path, database) && errno != EEXIST)
        return fail(path, "make it", err);
    *out_fd = open_there(path, O_RDONLY);
    if (*out_fd < 0)
        return errno == ENOENT && !make ? HF_OK : fail(path, "open it", err);
    code = identify(path, *out_fd, out, err);
    if (code) {
        close(*out_fd);
        *out_fd = -1;
    }
    return code;
}

hf_code alive_verify(const char *path, int fd, const alive_identity *known, hf_error *err)
{
    alive_identity now = {0};
    hf_code code = identify(path, fd, &now, err);
    if (code)
        return code;
    if (now.device == known->device && now.inode == known->inode)
        return HF_OK;
    return error_set(err, HF_UNUSABLE,
                     "%s: is another file than the one that the database names, "
                     "so no program can tell which sessions are alive: use the database by the "
                     "path by which others use it, or, if it was copied here, or that file was "
                     "removed: stop every program that uses the database, then "
                     "run: sqlite3 %.*s 'DELETE FROM boots'",
                     path, (int)(strlen(path) - strlen(ALIVE_SUFFIX)), path);
}

static hf_code lock_byte(const char *path, int fd, int64_t row, hf_error *err)
{
    struct flock byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = row, .l_len = 1};
    if (fcntl(fd, F_OFD_SETLK, &byte) == 0)
        return HF_OK;
    if (errno != EAGAIN && errno != EACCES)
        return fail(path, "lock a byte of it", err);
    /* this may pass: after a failed commit, a session frees its byte a moment after SQLite has
     * freed its row */
    return error_set(
        err, HF_UNREACHABLE,
        "%s: byte %lld is locked by a session that the database does "
        "not know: an older copy was put back while it was in use, or another user locks "
        "it (lslocks): stop every program that uses it",
        path, (long long)row);
}

static void link_hold(alive_hold *hold, int fd, int64_t row)
{
    hold->fd = fd;
    hold->row = row;
    hold->next = holds;
    hold->link = &holds;
    if (holds)
        holds->link = &hold->next;
    holds = hold;
}

hf_code alive_take(const char *path, const alive_identity *known, int64_t row, alive_hold *hold,
                   hf_error *err)
{
    pthread_once(&fork_once, watch_forks);
    pthread_mutex_lock(&holds_mutex);
    int fd = open_there(path, O_RDWR);
    hf_code code = fd < 0 ? fail(path, "open it", err) : alive_verify(path, fd, known, err);
    if (!code)
        code = lock_byte(path, fd, row, err);
    if (!code)
        link_hold(hold, fd, row);
    else if (fd >= 0)
        close(fd);
    pthread_mutex_unlock(&holds_mutex);
    return code;
}

void alive_let_go(alive_hold *hold)
{
    pthread_mutex_lock(&holds_mutex);
    if (hold->link) { /* not the parent's */
        *hold->link = hold->next;
        if (hold->next)
            hold->next->link = hold->link;
        close(hold->fd);
        hold->fd = -1;
    }
    pthread_mutex_unlock(&holds_mutex);
}

hf_code alive_test(const char *path, int tester, int64_t row, bool *is_free, hf_error *err)
{
    struct flock byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = row, .l_len = 1};
    *is_free = false;
    if (fcntl(tester, F_OFD_GETLK, &byte))
        return fail(path, "test a byte of it", err);
    *is_free = byte.l_type == F_UNLCK;
    return HF_OK;
}
