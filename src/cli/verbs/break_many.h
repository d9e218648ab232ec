/* SPDX-License-Identifier: Apache-2.0 */
/* break_many.h: breaks locks by their holders instead of by one name. */
#ifndef HOLDFAST_CLI_BREAK_MANY_H
#define HOLDFAST_CLI_BREAK_MANY_H

#include <holdfast/holdfast.h>

#include "cli/settings/settings.h"

/* Which holders; NULL: any. All that is given must hold. */
typedef struct choice {
    const char *host, *session;
    const char *prefix; /* of the lock's name */
    bool is_sure;       /* else they are only shown */
} choice;

/* Shows them, and takes their locks from them, from all at once, if the choice is sure. Returns the
 * exit status. */
int break_many(const settings *given, hf_client *client, const choice *which,
               const hf_break_options *how);

#endif
