/* SPDX-License-Identifier: Apache-2.0 */
/* left.c: tells others that the process of a session has left others at its work; see left.h.
 * Called by own.c, and by what judges sessions.
 *
 * A child that inherited the session's kernel lock could free it, even without rights: an unlock is
 * allowed on any descriptor. So it inherits the reading end of a pipe with a name. Nobody can do
 * more with that than close it: nothing is ever written into the pipe, to open it anew takes the
 * rights to the file, and one who shares the end cannot close another's. Whether anybody has such
 * an end, the kernel says to those who open the pipe for writing without waiting: ENXIO, if not.
 */
#include "store/sqlite/left.h"

#include "core/alloc.h"
#include "core/error.h"
#include "store/sqlite/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define SUFFIX "-left-" /* the path is the database's, this, and the session's row */

static char *path_of(const char *database, int64_t row)
{
    size_t size = strlen(database) + sizeof SUFFIX + 20;
    char *path = alloc_array(NULL, size, 1);
    snprintf(path, size, "%s%s%lld", database, SUFFIX, (long long)row);
    return path;
}

/* What stands there may have been put there by another user of the folder. */
static int open_there(const char *path, int access)
{
    return open(path, access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
}

/* One that was just removed has no name any more. */
static bool is_pipe(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode) && info.st_nlink <= 1;
}

static hf_code fail(const char *path, const char *doing, hf_error *err)
{
    int os = errno;
    hf_code code = os == EMFILE || os == ENFILE ? HF_UNREACHABLE : HF_UNUSABLE; /* may pass */
    return error_set(err, code, "%s: cannot %s: %s", path, doing, strerror(os));
}

static hf_code refuse(const char *path, hf_error *err)
{
    return error_set(err, HF_UNUSABLE, "%s: is not the pipe that a session makes there: remove it",
                     path);
}

/* ---- For the session ---- */

/* One that is there was left by a session that a loss of power has undone: rows are used again only
 * after that. */
static hf_code make(const char *path, hf_error *err)
{
    int failed = mkfifo(path, S_IRUSR | S_IWUSR);
    if (failed && errno == EEXIST && unlink(path) == 0)
        failed = mkfifo(path, S_IRUSR | S_IWUSR);
    return failed ? fail(path, "make a pipe", err) : HF_OK;
}

/* Its mode is set through the descriptor, as a file's is. */
static hf_code open_end(const char *path, const char *database, bool is_new, int *out_fd,
                        hf_error *err)
{
    int fd = open_there(path, O_RDONLY);
    if (fd < 0)
        return fail(path, "open it", err);
    hf_code code = is_pipe(fd) ? HF_OK : refuse(path, err);
    if (!code && is_new && fchmod(fd, file_mode(path, database)))
        code = fail(path, "set its mode", err);
    if (!code && (*out_fd = fcntl(fd, F_DUPFD, STDERR_FILENO + 1)) < 0)
        code = fail(path, "copy its descriptor", err);
    close(fd);
    return code;
}

hf_code left_give(const char *database, int64_t row, bool *is_made, int *out_fd, hf_error *err)
{
    char *path = path_of(database, row);
    bool is_new = !*is_made;
    hf_code code = is_new ? make(path, err) : HF_OK;
    *is_made = !code;
    if (!code)
        code = open_end(path, database, is_new, out_fd, err);
    free(path);
    return code;
}

void left_remove(const char *database, int64_t row)
{
    char *path = path_of(database, row);
    unlink(path);
    free(path);
}

/* ---- For others ---- */

static hf_code test(const char *path, bool *is_left, hf_error *err)
{
    int fd = open_there(path, O_WRONLY);
    *is_left = fd >= 0;
    if (fd < 0)
        return errno == ENOENT || errno == ENXIO ? HF_OK : fail(path, "open it", err);
    hf_code code = is_pipe(fd) ? HF_OK : refuse(path, err);
    close(fd);
    return code;
}

void left_watch(const char *database, int64_t row, int inotify_fd)
{
    char *path = path_of(database, row);
    inotify_add_watch(inotify_fd, path, IN_CLOSE_NOWRITE | IN_DONT_FOLLOW);
    free(path);
}

hf_code left_test(const char *database, int64_t row, bool *is_left, hf_error *err)
{
    char *path = path_of(database, row);
    hf_code code = test(path, is_left, err);
    free(path);
    return code;
}
