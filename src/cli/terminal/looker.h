/* SPDX-License-Identifier: Apache-2.0 */
/* looker.h: a thread that looks at the locks from time to time, so that keys are heard meanwhile.
 */
#ifndef HOLDFAST_CLI_LOOKER_H
#define HOLDFAST_CLI_LOOKER_H

#include "show/board.h"

typedef struct looker looker;

/* Looks at once and then every interval_ms. NULL: there is no thread to be had. It never ends: the
 * program does. */
looker *looker_start(hf_client *client, const char *prefix, int64_t interval_ms);

/* Becomes readable when there is something to be taken. */
int looker_fd(const looker *l);

/* The last look, once: true, and *out is the caller's, or *wrong says why it came to nothing. */
bool looker_take(looker *l, board *out, hf_error *wrong);

void looker_pause(looker *l, bool pauses);

#endif
