/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h: signals that end a wait: for verbs that start no command of the user's. */
#ifndef HOLDFAST_CLI_INTERRUPT_H
#define HOLDFAST_CLI_INTERRUPT_H

#include <holdfast/holdfast.h>

/* From here on SIGINT, SIGTERM and SIGHUP fire *out, which is never freed. */
hf_code interrupt_begin(hf_cancel **out, hf_error *err);

/* The last of them that came; 0: none. */
int interrupt_signal(void);

/* The exit status for that code, which such a signal may have caused. */
int interrupt_status(hf_code code);

#endif
