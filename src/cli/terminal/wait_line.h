/* SPDX-License-Identifier: Apache-2.0 */
/* wait_line.h: the line that shows a wait. */
#ifndef HOLDFAST_CLI_WAIT_LINE_H
#define HOLDFAST_CLI_WAIT_LINE_H

#include <stddef.h>

#include <holdfast/holdfast.h>

/* The line in new memory, escaped, of at most so many columns; 0: of any number. store: a few words
 * on the store, or "". */
char *wait_line(const hf_wait_info *info, const char *store, size_t columns);

#endif
