/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h: everything that the command says on stderr, and the one line that shows a wait.
 *
 * This room is how things look: table.h prints a listing, view.h draws the screen of `watch`, for
 * which refresher.h looks at the locks. It knows no settings and stands below all other rooms. */
#ifndef HOLDFAST_CLI_TERMINAL_H
#define HOLDFAST_CLI_TERMINAL_H

#include <holdfast/holdfast.h>

/* How much is said: -1 errors, 0 and warnings, 1 and notes, 2 and what the library does. */
void terminal_init(int verbosity);

/* One line "holdfast: text", what does not print in it escaped. From any thread. */
void terminal_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void terminal_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void terminal_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void terminal_log(void *ctx, hf_log_level level, const char *text); /* an hf_log_fn */

/* Shows a wait: on a terminal a line that each call writes anew, otherwise one note when it begins.
 * Called in the thread that waits. */
void terminal_wait(const hf_wait_info *info);

/* Whether terminal_wait() may have anything to show. */
bool terminal_shows_waits(void);

/* The wait is over: the line goes away. */
void terminal_wait_end(void);

#endif
