/* SPDX-License-Identifier: Apache-2.0 */
/* load.c: stands in the command for the MongoDB store, and loads it from its module when the first
 * mongodb:// URI is opened: libmongoc and what it brings take longer to load than a lock in SQLite
 * takes to be had.
 *
 * The module is code that runs with our rights. It is looked for by our own place alone, as the
 * kernel tells it, and no environment is asked; who cannot change the command must not be able to
 * change it (a hard link to a setuid command may stand in a folder of anybody's); and the very file
 * that was checked is loaded. */
#include "module/module.h"
#include "store/mongo/mongo.h"

#include "core/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SELF "/proc/self/exe"
#define PLACES 2

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const module *loaded;
static hf_error failure; /* why there is none */

/* ---- Finding it ---- */

/* The folder in which the command stands. */
static hf_code find_home(char home[PATH_MAX], hf_error *err)
{
    ssize_t n = readlink(SELF, home, PATH_MAX - 1);
    if (n <= 0)
        return error_set(err, HF_UNUSABLE,
                         SELF " cannot be read (%s): mount /proc; the store in MongoDB is looked "
                              "for beside the command",
                         strerror(errno));
    home[n] = '\0';
    *strrchr(home, '/') = '\0';
    return HF_OK;
}

/* Beside the command, as where it was built; or where it is installed. */
static hf_code open_file(char path[PATH_MAX], int *fd, hf_error *err)
{
    static const char *const places[PLACES] = {"", MODULE_PLACE "/"};
    char home[PATH_MAX];
    hf_code code = find_home(home, err);
    *fd = -1;
    for (int i = 0; i < PLACES && !code && *fd < 0; i++) {
        int n = snprintf(path, PATH_MAX, "%s/%s" MODULE_FILE, home, places[i]);
        *fd = n < PATH_MAX ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    }
    if (!code && *fd < 0)
        return error_set(err, HF_UNUSABLE,
                         "%.300s: %s: the command's part for MongoDB is missing: install it there",
                         path, strerror(errno));
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

static hf_code check_version(const char *path, hf_error *err)
{
    if (loaded && strcmp(loaded->version, HF_VERSION) == 0)
        return HF_OK;
    hf_code code = error_set(err, HF_UNUSABLE,
                             "%.300s is of holdfast %.40s, the command of " HF_VERSION
                             ": install both from one package",
                             path, loaded ? loaded->version : "(none)");
    loaded = NULL;
    return code;
}

/* By its descriptor: the path may lead elsewhere by now. libmongoc sets itself up while it is
 * loaded; it is kept from leaving a file in /dev/shm for each process that is killed, and from
 * warning on stderr when it meets one. */
static hf_code load_file(const char *path, int fd, hf_error *err)
{
    char name[40];
    bool is_set = getenv("MONGOC_DISABLE_SHM");
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    setenv("MONGOC_DISABLE_SHM", "1", 0);
    void *file = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!is_set)
        unsetenv("MONGOC_DISABLE_SHM");
    if (!file)
        return error_set(err, HF_UNUSABLE,
                         "%.200s cannot be loaded (%.200s): install libmongoc 1.0", path,
                         dlerror());
    loaded = dlsym(file, MODULE_SYMBOL);
    return check_version(path, err);
}

static void load(void)
{
    int fd;
    char path[PATH_MAX];
    hf_code code = open_file(path, &fd, &failure);
    if (!code)
        code = check_owner(path, fd, &failure);
    if (!code)
        load_file(path, fd, &failure);
    if (fd >= 0)
        close(fd);
}

hf_code mongo_open(const char *uri, const hf_store_config *config, hf_store **out,
                   int64_t *patience_ms, hf_error *err)
{
    pthread_once(&once, load);
    if (loaded)
        return loaded->open(uri, config, out, patience_ms, err);
    return error_set(err, failure.code, "%s", failure.text);
}
