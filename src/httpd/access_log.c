/* SPDX-License-Identifier: Apache-2.0 */
/* access_log.c: logs the requests; request.c calls it when one has ended. No secret is in a line:
 * no access token, no lease's id, and no query, which may have anything in it. */
#include "httpd/access_log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "httpd/address.h"
#include "httpd/clock.h"
#include "httpd/fail.h"
#include "httpd/route.h"
#include "show/json.h"
#include "show/text.h"

#define MODE 0640
#define FLAGS (O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK)
#define NAME_MOST 512
#define SECRET_DIGITS 32 /* at the beginning of a lease's id; then comes '-' */

/* What others have put there in place of the log would be written to; only root makes a device,
 * such as /dev/null. */
static hf_code check(int fd, const char *path, hf_error *err)
{
    struct stat state;
    if (!fstat(fd, &state) &&
        (S_ISCHR(state.st_mode) || (S_ISREG(state.st_mode) && state.st_nlink == 1)))
        return HF_OK;
    return fail(err, HF_INVALID, "--access-log: %.200s: this is no regular file with one name only",
                path);
}

hf_code access_log_open(access_log *log, const char *path, hf_error *err)
{
    *log = (access_log){.is_open = path != NULL, .fd = STDERR_FILENO};
    if (!path || strcmp(path, "-") == 0)
        return HF_OK;
    log->fd = open(path, FLAGS, MODE);
    log->is_open = log->is_file = log->fd >= 0;
    return log->is_open ? check(log->fd, path, err)
                        : fail(err, HF_INVALID, "--access-log: %.200s: %s", path,
                               errno == ELOOP ? "this is a symbolic link (- is standard error)"
                                              : strerror(errno));
}

void access_log_close(access_log *log)
{
    if (log->is_file)
        close(log->fd);
    *log = (access_log){.is_open = false};
}

/* ---- What a line says ---- */

static bool is_lease_id(const char *name)
{
    size_t n = 0;
    while (n < SECRET_DIGITS && isxdigit((unsigned char)name[n]))
        n++;
    return n == SECRET_DIGITS && name[n] == '-';
}

/* Without what may be a secret: a lease's id, also in the place of a lock's name, and anything in a
 * path that means no call. */
static char *path_of(const request *req)
{
    if (!req->route)
        return text_copy("?");
    const char *path = req->route->path, *open = strchr(path, '{');
    if (!open || !req->name || strcmp(open, "{lease}") == 0 || is_lease_id(req->name))
        return text_copy(path);
    return text_print("%.*s%.*s", (int)(open - path), path, NAME_MOST, req->name);
}

static json_t *line_of(const access_log *log, const request *req)
{
    char host[NI_MAXHOST], *path = path_of(req), *at = text_iso(text_now_ms());
    json_t *line = json_object_new();
    address_of_client(req->mhd, host, sizeof host);
    json_put_text(line, "at", at);
    json_put_text(line, "method", req->method);
    json_put_text(line, "path", path);
    json_put_number(line, "status", req->status);
    json_put(line, "ms", json_real((double)((clock_now_us() - req->began_us) / 100) / 10));
    json_put_text(line, "caller", *req->caller.name ? req->caller.name : host);
    json_put_number(line, "bytes", strcmp(req->method, "HEAD") ? (int64_t)req->n_bytes : 0);
    if (log->n_dropped)
        json_put_number(line, "dropped", (int64_t)log->n_dropped);
    free(at);
    free(path);
    return line;
}

/* ---- Writing it ---- */

/* What poll() calls ready takes PIPE_BUF bytes at once, if it is a pipe. */
static bool put(const access_log *log, const char *text, size_t size)
{
    struct pollfd out = {log->fd, POLLOUT, 0};
    return size <= PIPE_BUF && poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) &&
           write(log->fd, text, size) == (ssize_t)size;
}

void access_log_write(access_log *log, const request *req)
{
    if (!log->is_open)
        return;
    json_t *line = line_of(log, req);
    char *json = json_text(line, JSON_COMPACT | JSON_REAL_PRECISION(6));
    char *text = text_print("%s\n", json);
    log->n_dropped = put(log, text, strlen(text)) ? 0 : log->n_dropped + 1;
    free(text);
    free(json);
    json_decref(line);
}
