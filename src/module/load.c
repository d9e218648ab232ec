/* SPDX-License-Identifier: Apache-2.0 */
/* load.c: loads a module of the command, a file of its own beside it, when it is first wanted: what
 * most runs do without would take longer to load than a lock in SQLite takes to be had.
 *
 * A module is code that runs with our rights. It is looked for by our own place alone, as the
 * kernel tells it, and no environment is asked; who cannot change the command must not be able to
 * change it (a hard link to a setuid command may stand in a folder of anybody's); and the very file
 * that was checked is loaded. */
#include "module/load.h"

#include "core/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SELF "/proc/self/exe"
#define PLACES 2

/* ---- Finding it ---- */

/* The folder in which the command stands. */
static hf_code find_home(char home[PATH_MAX], hf_error *err)
{
    ssize_t n = readlink(SELF, home, PATH_MAX - 1);
    if (n <= 0)
        return error_set(err, HF_UNUSABLE,
                         SELF " cannot be read (%s): mount /proc; parts of the command are looked "
                              "for beside it",
                         strerror(errno));
    home[n] = '\0';
    *strrchr(home, '/') = '\0';
    return HF_OK;
}

/* Beside the command, as where it was built; or where it is installed. */
static hf_code open_file(const module_wanted *wanted, char path[PATH_MAX], int *fd, hf_error *err)
{
    static const char *const places[PLACES] = {"", MODULE_PLACE "/"};
    char home[PATH_MAX];
    hf_code code = find_home(home, err);
    *fd = -1;
    for (int i = 0; i < PLACES && !code && *fd < 0; i++) {
        int n = snprintf(path, PATH_MAX, "%s/%s%s", home, places[i], wanted->file);
        *fd = n < PATH_MAX ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    }
    if (!code && *fd < 0)
        return error_set(err, HF_UNUSABLE,
                         "%.300s: %s: the command's part for %s is missing: install it there", path,
                         strerror(errno), wanted->what);
    return code;
}

/* ---- Trusting and loading it ---- */

/* Whoever can change the file could change the command as well. */
static bool is_as_safe(const struct stat *file, const struct stat *command)
{
    mode_t writes = file->st_mode & (S_IWGRP | S_IWOTH);
    bool is_same_group = file->st_gid == command->st_gid || !(writes & S_IWGRP);
    return (file->st_uid == 0 || file->st_uid == command->st_uid) && is_same_group &&
           !(writes & ~command->st_mode);
}

static hf_code check_owner(const char *path, int fd, hf_error *err)
{
    struct stat command, file;
    if (stat(SELF, &command) || fstat(fd, &file))
        return error_set(err, HF_UNUSABLE, "%.300s: %s", path, strerror(errno));
    if (is_as_safe(&file, &command))
        return HF_OK;
    return error_set(err, HF_UNUSABLE,
                     "%.300s is not loaded, as others than those who can change the command can "
                     "change it: give it the command's owner, group and mode",
                     path);
}

static hf_code check_version(const char *path, const char *const *table, hf_error *err)
{
    if (table && strcmp(*table, HF_VERSION) == 0)
        return HF_OK;
    return error_set(err, HF_UNUSABLE,
                     "%.300s is of holdfast %.40s, the command of " HF_VERSION
                     ": install both from one package",
                     path, table ? *table : "(none)");
}

/* By its descriptor: the path may lead elsewhere by now. It stays open once that is done: the
 * linker takes a file of the same name, that of the next module, for the one that it has. */
static hf_code load_file(const module_wanted *wanted, const char *path, int fd, const void **table,
                         hf_error *err)
{
    char name[40];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    void *file = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!file)
        return error_set(err, HF_UNUSABLE, "%.200s cannot be loaded (%.200s): install %s", path,
                         dlerror(), wanted->needs);
    *table = dlsym(file, wanted->symbol);
    return check_version(path, *table, err);
}

hf_code module_load(const module_wanted *wanted, const void **table, hf_error *err)
{
    int fd;
    char path[PATH_MAX];
    hf_code code = open_file(wanted, path, &fd, err);
    if (!code)
        code = check_owner(path, fd, err);
    if (!code)
        code = load_file(wanted, path, fd, table, err);
    if (code && fd >= 0)
        close(fd);
    return code;
}
