/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h: everything that the command prints on stderr, and the one line that shows a wait.
 *
 * This folder decides how things look: table.h prints a listing; wait_line.h writes the line of a
 * wait; view.h draws the screen of `watch`, for which refresher.h looks at the locks. It knows no
 * settings, and all other folders of the command may use it. */
#ifndef HOLDFAST_CLI_TERMINAL_H
#define HOLDFAST_CLI_TERMINAL_H

#include <stddef.h>

#include <holdfast/holdfast.h>

/* How much to print: -1 errors, 0 also warnings, 1 also notes, 2 also what the library does. */
void terminal_init(int verbosity);

/* Prints one line "holdfast: text" and escapes what cannot be printed. From any thread. */
void terminal_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void terminal_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void terminal_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void terminal_log(void *ctx, hf_log_level level, const char *text); /* an hf_log_fn */

/* How wide the terminal is that is open there: what COLUMNS says, or else the terminal. 0: it is
 * no terminal. */
size_t terminal_columns(int fd);

/* Whether it is a terminal that shows colours, and they are wanted. */
bool terminal_has_colours(int fd);

/* A few words on the store for the line of a wait, which live as long as the program; "": none. */
void terminal_name_store(const char *text);

/* Shows a wait: on a terminal in a line that each call rewrites, otherwise in one line: when it
 * begins, if notes are printed, or else when the store has been away for a second. Called in the
 * thread that waits. */
void terminal_wait(const hf_wait_info *info);

/* Whether terminal_wait() may have anything to show. */
bool terminal_shows_waits(void);

/* The wait is over: removes the line. */
void terminal_wait_end(void);

#endif
