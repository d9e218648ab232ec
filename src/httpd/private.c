/* SPDX-License-Identifier: Apache-2.0 */
/* private.c: opens the files that options name. Everyone who can read a secret has it, and who can
 * write one gives it. Links are followed: those of certificates and mounted secrets are links. */
#include "httpd/private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "httpd/fail.h"

static hf_code fail_to_open(const char *option, const char *path, hf_error *err)
{
    return fail(err, HF_INVALID, "%s: %.200s: %s", option, path, strerror(errno));
}

static hf_code check_owner(const struct stat *state, const char *option, const char *path,
                           hf_error *err)
{
    if (state->st_mode & (S_IRWXO | S_IWGRP))
        return fail(err, HF_INVALID,
                    "%s: %.200s: others can read or change it: give it the mode 0600 or 0640",
                    option, path);
    if (state->st_uid && state->st_uid != geteuid())
        return fail(
            err, HF_INVALID,
            "%s: %.200s: user %u can change it: it is to be of root, or of the service's user",
            option, path, state->st_uid);
    return HF_OK;
}

static hf_code check(int fd, bool is_private, const char *option, const char *path, hf_error *err)
{
    struct stat state;
    if (fstat(fd, &state))
        return fail_to_open(option, path, err);
    if (!S_ISREG(state.st_mode))
        return fail(err, HF_INVALID, "%s: %.200s: this is no regular file", option, path);
    return is_private ? check_owner(&state, option, path, err) : HF_OK;
}

static hf_code open_to_read(const char *option, const char *path, bool is_private, FILE **out,
                            hf_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return fail_to_open(option, path, err);
    hf_code code = check(fd, is_private, option, path, err);
    if (!code && !(*out = fdopen(fd, "r")))
        code = fail_to_open(option, path, err);
    if (code)
        close(fd);
    return code;
}

hf_code private_open(const char *option, const char *path, FILE **out, hf_error *err)
{
    return open_to_read(option, path, true, out, err);
}

hf_code public_open(const char *option, const char *path, FILE **out, hf_error *err)
{
    return open_to_read(option, path, false, out, err);
}
