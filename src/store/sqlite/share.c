/* SPDX-License-Identifier: Apache-2.0 */
/* share.c: in a folder that a group shares, lets the group use what one of its users makes there,
 * whatever that user's umask, as `git init --shared` does; called when a file may have been made.
 */
#include "store/sqlite/share.h"

#include <libgen.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/alloc.h"

#define SHARED                                                                                     \
    (S_ISGID | S_IWGRP) /* what is made in it has its group, and the group may write it */

static bool is_shared(const char *path)
{
    struct stat folder;
    char *copy = alloc_text(path);
    bool is_there = stat(dirname(copy), &folder) == 0;
    free(copy);
    return is_there && (folder.st_mode & SHARED) == SHARED;
}

void sqlite_share(const char *path)
{
    struct stat file;
    mode_t wanted = S_IRGRP | S_IWGRP;
    if (is_shared(path) && stat(path, &file) == 0 && (file.st_mode & wanted) != wanted)
        chmod(path, (file.st_mode & 0777) | wanted); /* fails for a file of another user */
}
