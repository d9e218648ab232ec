/* SPDX-License-Identifier: Apache-2.0 */
/* file.c: looks at each file before it is opened, and makes those that are missing; called when a
 * store is opened.
 *
 * A database under two names has two logs and two alive files, and programs that use one name see
 * neither the locks nor the deaths of those that use the other. And whoever may write in the folder
 * could put a link there, to have root open or change another file. */
#include "store/sqlite/file.h"

#include "core/alloc.h"
#include "core/error.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define SHARED                                                                                     \
    (S_ISGID | S_IWGRP) /* what is made in it has its group, and the group may write it */

/* ---- Paths ---- */

static char *folder_of(const char *path)
{
    char *copy = alloc_text(path);
    char *folder = alloc_text(dirname(copy));
    free(copy);
    return folder;
}

static char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = alloc_array(NULL, size, 1);
    snprintf(path, size, "%s%s%s", folder, strcmp(folder, "/") == 0 ? "" : "/", name);
    return path;
}

char *file_resolve(const char *path)
{
    char resolved[PATH_MAX];
    char *folder = folder_of(path), *copy = alloc_text(path);
    bool is_folder = path[strlen(path) - 1] == '/';
    bool is_there = !is_folder && realpath(folder, resolved) != NULL;
    char *out = is_there ? join(resolved, basename(copy)) : alloc_text(path);
    free(copy);
    free(folder);
    return out;
}

/* ---- Making ---- */

bool file_is_shared(const char *path)
{
    struct stat info;
    char *folder = folder_of(path);
    bool is_there = stat(folder, &info) == 0;
    free(folder);
    return is_there && (info.st_mode & SHARED) == SHARED;
}

mode_t file_mode(const char *path, const char *like)
{
    struct stat info;
    mode_t mode = S_IRUSR | S_IWUSR;
    if (file_is_shared(path))
        mode |= S_IRGRP | S_IWGRP;
    if (like && lstat(like, &info) == 0)
        mode |= info.st_mode & 0666;
    return mode;
}

/* Closing a database drops the locks of all connections that this process has to it. So no thread
 * may open it between its making and this closing; each comes through here first. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static int make(const char *path, mode_t mode)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0)
        return -1;
    int failed = mode == (S_IRUSR | S_IWUSR) ? 0 : fchmod(fd, mode);
    int os = errno;
    close(fd);
    errno = os;
    return failed;
}

int file_make(const char *path, const char *like)
{
    mode_t mode = file_mode(path, like);
    pthread_mutex_lock(&making);
    int failed = make(path, mode);
    pthread_mutex_unlock(&making);
    return failed;
}

/* ---- Looking ---- */

static hf_code refuse_kind(const char *path, mode_t mode, hf_error *err)
{
    if (S_ISLNK(mode))
        return error_set(err, HF_UNUSABLE,
                         "%s: is a symbolic link, which is not followed: name the file itself",
                         path);
    return error_set(err, HF_UNUSABLE, "%s: is %s, not a file: name another path", path,
                     S_ISDIR(mode) ? "a folder" : "a pipe, a socket or a device");
}

static hf_code refuse_names(const char *path, const struct stat *info, hf_error *err)
{
    return error_set(err, HF_UNUSABLE,
                     "%s: has %llu names (hard links), and programs that use one of them do not "
                     "see the locks of those that use another: end them all, find the names with "
                     "'find / -xdev -inum %llu', and remove all but one",
                     path, (unsigned long long)info->st_nlink, (unsigned long long)info->st_ino);
}

/* Before Linux 5.8, or if a sandbox keeps statx() away, the devices are compared. */
static bool is_same_mount(int fd, const struct stat *file, const char *folder)
{
    struct statx one, other;
    struct stat info;
    unsigned mount = STATX_MNT_ID;
    if (statx(fd, "", AT_EMPTY_PATH, mount, &one) == 0 &&
        statx(AT_FDCWD, folder, 0, mount, &other) == 0 &&
        (one.stx_mask & other.stx_mask & mount) != 0)
        return one.stx_mnt_id == other.stx_mnt_id;
    return stat(folder, &info) != 0 || info.st_dev == file->st_dev;
}

static hf_code check_mount(const char *path, int fd, const struct stat *info, hf_error *err)
{
    char *folder = folder_of(path);
    hf_code code = HF_OK;
    if (!is_same_mount(fd, info, folder))
        code = error_set(err, HF_UNUSABLE,
                         "%s: is mounted alone, without its folder, and programs elsewhere do not "
                         "see the locks in it: mount the folder that it is in, not the file",
                         path);
    free(folder);
    return code;
}

hf_code file_check_open(const char *path, int fd, struct stat *info, hf_error *err)
{
    if (fstat(fd, info))
        return error_set(err, HF_UNUSABLE, "%s: cannot stat it: %s: check the file system", path,
                         strerror(errno));
    if (!S_ISREG(info->st_mode))
        return refuse_kind(path, info->st_mode, err);
    if (info->st_nlink > 1)
        return refuse_names(path, info, err);
    return check_mount(path, fd, info, err);
}

/* A path descriptor opens nothing, so it does not wait, and its close drops no locks. */
hf_code file_check(const char *path, hf_error *err)
{
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return HF_OK; /* nothing is there, or the one who opens it will tell more */
    struct stat info;
    hf_code code = file_check_open(path, fd, &info, err);
    close(fd);
    return code;
}
