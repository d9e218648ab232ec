/* SPDX-License-Identifier: Apache-2.0 */
/* alive.h: the kernel locks of R10: one byte of the alive file per session, at its row id. */
#ifndef SQLITE_ALIVE_H
#define SQLITE_ALIVE_H

#include <holdfast/holdfast.h>

#define ALIVE_SUFFIX "-alive" /* its path is the database's, and this */

/* The identity of the file. An inode number is not reused while somebody has the file open, so it
 * identifies the file as long as a session or a tester lives. */
typedef struct alive_identity {
    int64_t device, inode;
} alive_identity;

/* A byte that is held, through an open file description of its own; in a list for forks. */
typedef struct alive_hold {
    int fd; /* -1 in a forked child */
    int64_t row;
    struct alive_hold *next, **link;
} alive_hold;

/* Opens the alive file for testing. Read-only, so that only the end of a session counts as a
 * writer's close. If `make`, makes it for all who may use the database. *out_fd is -1 when it does
 * not exist. */
hf_code alive_open(const char *path, const char *database, bool make, int *out_fd,
                   alive_identity *out, hf_error *err);

/* Whether the open file still is that one. */
hf_code alive_verify(const char *path, int fd, const alive_identity *known, hf_error *err);

/* Locks the byte at row. hold is linked into a list and must stay where it is until
 * alive_let_go(), which frees the byte. */
hf_code alive_take(const char *path, const alive_identity *known, int64_t row, alive_hold *hold,
                   hf_error *err);
void alive_let_go(alive_hold *hold);

/* Tests the byte. A failed test is an error, never "free". */
hf_code alive_test(const char *path, int tester, int64_t row, bool *is_free, hf_error *err);

#endif
