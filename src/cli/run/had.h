/* SPDX-License-Identifier: Apache-2.0 */
/* had.h: what -v says when a lock is had. */
#ifndef HOLDFAST_CLI_HAD_H
#define HOLDFAST_CLI_HAD_H

#include <stdint.h>

#include <holdfast/holdfast.h>

/* before: how the last holder left it. */
void had_note(const char *name, int64_t waited_ms, int64_t token, const hf_last *before);

#endif
