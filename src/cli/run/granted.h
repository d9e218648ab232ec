/* SPDX-License-Identifier: Apache-2.0 */
/* granted.h: what -v prints when a lock was granted. */
#ifndef HOLDFAST_CLI_GRANTED_H
#define HOLDFAST_CLI_GRANTED_H

#include <stdint.h>

#include <holdfast/holdfast.h>

/* before: how the last holder left it. */
void granted_note(const char *name, int64_t waited_ms, int64_t token, const hf_last *before);

#endif
