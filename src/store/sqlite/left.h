/* SPDX-License-Identifier: Apache-2.0 */
/* left.h: the pipe by which others see that the process of a session has left others at its work
 * (P15): beside the database, named after the session's row, and made when first asked for. */
#ifndef SQLITE_LEFT_H
#define SQLITE_LEFT_H

#include <holdfast/holdfast.h>

/* A new reading end of the session's pipe for a child to inherit, above the standard streams and
 * without FD_CLOEXEC; the caller closes it. *is_made: whether the pipe was made by an earlier call.
 * Only for a session of this process, one call at a time. */
hf_code left_give(const char *database, int64_t row, bool *is_made, int *out_fd, hf_error *err);

/* Whether somebody has a reading end. A failed test is an error, never "nobody". From any thread
 * and process. */
hf_code left_test(const char *database, int64_t row, bool *is_left, hf_error *err);

/* Has the inotify instance report each end that is closed; each test is by writers, and is not. If
 * that fails, or there is no pipe, nothing is reported. */
void left_watch(const char *database, int64_t row, int inotify_fd);

/* When the session is over; those who have an end keep it, to no effect. */
void left_remove(const char *database, int64_t row);

#endif
