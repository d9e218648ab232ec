/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h: signals that end a wait: for verbs that start no command of the user's. */
#ifndef HOLDFAST_CLI_INTERRUPT_H
#define HOLDFAST_CLI_INTERRUPT_H

#include <sys/types.h>

#include <holdfast/holdfast.h>

/* From here on SIGINT, SIGTERM, SIGHUP and SIGQUIT fire *out, which is never freed; not those that
 * were ignored when the program was started. */
hf_code interrupt_begin(hf_cancel **out, hf_error *err);

/* From here on they go to the process that waits instead of this one. */
void interrupt_pass_on(pid_t to);

/* The last of them that came; 0: none. */
int interrupt_signal(void);

/* Readable once one has come, for who waits with poll(); -1: it cannot be had. */
int interrupt_fd(void);

/* The exit status for that code, which such a signal may have caused. */
int interrupt_status(hf_code code);

#endif
