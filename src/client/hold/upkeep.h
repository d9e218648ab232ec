/* SPDX-License-Identifier: Apache-2.0 */
/* upkeep.h: the client's background work. */
#ifndef CLIENT_HOLD_UPKEEP_H
#define CLIENT_HOLD_UPKEEP_H

#include <holdfast/store.h>

enum { JOB_SUSPECTS, JOB_VERIFY }; /* of hold->agenda */

hf_mono upkeep_tick(hf_client *client, hf_mono now);

#endif
