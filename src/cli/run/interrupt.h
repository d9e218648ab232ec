/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h: signals that end a wait: for verbs that start no command of the user's. */
#ifndef HOLDFAST_CLI_INTERRUPT_H
#define HOLDFAST_CLI_INTERRUPT_H

#include <holdfast/holdfast.h>

/* From here on SIGINT, SIGTERM and SIGHUP fire *out, which stays for as long as the program. */
hf_code interrupt_begin(hf_cancel **out, hf_error *err);

/* The last of them that came; 0: none. */
int interrupt_signal(void);

/* The exit status of what came to that code, perhaps by such a signal. */
int interrupt_status(hf_code code);

#endif
