/* SPDX-License-Identifier: Apache-2.0 */
/* file.h: which files the store opens, and with which mode it makes them. */
#ifndef STORE_SQLITE_FILE_H
#define STORE_SQLITE_FILE_H

#include <holdfast/holdfast.h>
#include <sys/stat.h>

/* The path, with the links in its folder's part resolved; to be freed. */
char *file_resolve(const char *path);

/* Whether a group may write in its folder and owns what is made there (mode 2770). */
bool file_is_shared(const char *path);

/* For whom a file is made: for this user; in a folder that a group shares, for the group too; and
 * for all who may use the file `like` (NULL: no such). */
mode_t file_mode(const char *path, const char *like);

/* Makes an empty file of that mode, unless something is there. The umask does not count. -1 with
 * errno; EEXIST: something was there, and is left as it is. */
int file_make(const char *path, const char *like);

/* HF_UNUSABLE unless nothing is there, or a regular file that has no other name: no link, no second
 * hard link, no mount of its own. Does not wait, and changes nothing. */
hf_code file_check(const char *path, hf_error *err);

/* The same of what is open already; *info is its. */
hf_code file_check_open(const char *path, int fd, struct stat *info, hf_error *err);

#endif
