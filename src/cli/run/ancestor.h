/* SPDX-License-Identifier: Apache-2.0 */
/* ancestor.h: a command that waits for a lock which the command that started it holds. */
#ifndef HOLDFAST_CLI_ANCESTOR_H
#define HOLDFAST_CLI_ANCESTOR_H

#include "lock_args.h"

/* Before a wait: warns if the lock is held under a token that the environment names
 * (HOLDFAST_NAME, HOLDFAST_TOKEN), and so cannot be had before that command has ended. Reads the
 * lock only if its name is there. */
void ancestor_warn(hf_client *client, const lock_args *args, const char *name);

#endif
