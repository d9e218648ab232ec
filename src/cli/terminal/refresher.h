/* SPDX-License-Identifier: Apache-2.0 */
/* refresher.h: a thread that looks at the locks from time to time, so that keys work meanwhile. */
#ifndef HOLDFAST_CLI_REFRESHER_H
#define HOLDFAST_CLI_REFRESHER_H

#include "show/board.h"

typedef struct refresher refresher;

/* Looks at once and then every interval_ms. NULL: no thread could be started. It runs until the
 * program ends. */
refresher *refresher_start(hf_client *client, const char *prefix, int64_t interval_ms);

/* Becomes readable when there is a look to take. */
int refresher_fd(const refresher *r);

/* Takes the last look, once. True: *out belongs to the caller, or *wrong says why the look failed.
 */
bool refresher_take(refresher *r, board *out, hf_error *wrong);

void refresher_pause(refresher *r, bool pauses);

#endif
