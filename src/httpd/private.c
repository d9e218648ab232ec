/* SPDX-License-Identifier: Apache-2.0 */
/* private.c: opens files with secrets in them. Everyone who can read a secret has it. */
#include "httpd/private.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "httpd/fail.h"

static hf_code check_mode(FILE *file, const char *option, const char *path, hf_error *err)
{
    struct stat state;
    if (fstat(fileno(file), &state))
        return fail(err, HF_INVALID, "%s: %.200s: %s", option, path, strerror(errno));
    if (state.st_mode & (S_IRWXO | S_IWGRP))
        return fail(err, HF_INVALID,
                    "%s: %.200s: others can read or change it: give it the mode 0600 or 0640",
                    option, path);
    return HF_OK;
}

hf_code private_open(const char *option, const char *path, FILE **out, hf_error *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return fail(err, HF_INVALID, "%s: %.200s: %s", option, path, strerror(errno));
    hf_code code = check_mode(file, option, path, err);
    if (code)
        fclose(file);
    else
        *out = file;
    return code;
}
