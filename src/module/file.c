/* SPDX-License-Identifier: Apache-2.0 */
/* file.c: finds and loads a module of the command: load.c calls it for the MongoDB store, `holdfast
 * watch` for its screen.
 *
 * A module is code that runs with our rights. So it is searched for only beside the command's own
 * place, which the kernel tells; the environment does not matter. Everyone who can change a module
 * must be able to change the command (a hard link to a setuid command may be in anybody's folder).
 * And the file that was checked is the one that is loaded. */
#include "module/file.h"

#include <holdfast/holdfast.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SELF "/proc/self/exe"
#define PLACES 2

typedef struct finding {
    const module_file *wanted;
    char path[PATH_MAX];
    char *why;
    size_t size;
} finding;

static bool fail(finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(finding *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(f->why, f->size, format, args);
    va_end(args);
    return false;
}

/* ---- Finding it ---- */

/* The folder in which the command stands. */
static bool find_home(finding *f, char home[PATH_MAX])
{
    ssize_t n = readlink(SELF, home, PATH_MAX - 1);
    if (n <= 0)
        return fail(f,
                    SELF " cannot be read (%s): mount /proc; %s is looked for beside the command",
                    strerror(errno), f->wanted->part);
    home[n] = '\0';
    *strrchr(home, '/') = '\0';
    return true;
}

/* Beside the command, as after a build; or where it is installed. */
static bool open_file(finding *f, int *fd)
{
    static const char *const places[PLACES] = {"", MODULE_PLACE "/"};
    char home[PATH_MAX];
    if (!find_home(f, home))
        return false;
    for (int i = 0; i < PLACES && *fd < 0; i++) {
        int n = snprintf(f->path, PATH_MAX, "%s/%s%s", home, places[i], f->wanted->name);
        *fd = n < PATH_MAX ? open(f->path, O_RDONLY | O_CLOEXEC) : -1;
    }
    if (*fd < 0)
        return fail(f, "%.300s: %s: %s is missing: install it there", f->path, strerror(errno),
                    f->wanted->part);
    return true;
}

/* ---- Trusting and loading it ---- */

/* Whether everyone who can change the file can also change the command. */
static bool is_as_safe(const struct stat *file, const struct stat *command)
{
    mode_t writes = file->st_mode & (S_IWGRP | S_IWOTH);
    bool is_same_group = file->st_gid == command->st_gid || !(writes & S_IWGRP);
    return (file->st_uid == 0 || file->st_uid == command->st_uid) && is_same_group &&
           !(writes & ~command->st_mode);
}

static bool check_owner(finding *f, int fd)
{
    struct stat command, file;
    if (stat(SELF, &command) || fstat(fd, &file))
        return fail(f, "%.300s: %s", f->path, strerror(errno));
    return is_as_safe(&file, &command) ||
           fail(f,
                "%.300s is not loaded, because users who cannot change the command can change it: "
                "give it the command's owner, group and mode",
                f->path);
}

/* By its descriptor: the path may lead elsewhere by now. The descriptor stays open: the linker
 * takes two files of the same name for one, and the next module could get this name. */
static const char *const *load_file(finding *f, int fd)
{
    char name[40];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    void *file = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    const char *const *table = file ? dlsym(file, f->wanted->symbol) : NULL;
    if (!file)
        fail(f, "%.200s cannot be loaded (%.200s): install %s", f->path, dlerror(),
             f->wanted->needs);
    else if (!table || strcmp(*table, HF_VERSION) != 0)
        fail(f,
             "%.300s is of holdfast %.40s, the command of " HF_VERSION ": install both from one "
             "package",
             f->path, table ? *table : "(none)");
    else
        return table;
    return NULL;
}

const void *module_load(const module_file *wanted, char *why, size_t size)
{
    finding f = {.wanted = wanted, .why = why, .size = size};
    const char *const *table = NULL;
    int fd = -1;
    if (open_file(&f, &fd) && check_owner(&f, fd))
        table = load_file(&f, fd);
    if (!table && fd >= 0)
        close(fd);
    return table;
}
