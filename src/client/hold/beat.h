/* SPDX-License-Identifier: Apache-2.0 */
/* beat.h: renews the session's lease, and learns from the answer which tickets are asked for (R3,
 * R9). */
#ifndef CLIENT_HOLD_BEAT_H
#define CLIENT_HOLD_BEAT_H

#include <holdfast/store.h>

hf_mono beat_tick(hf_client *client, hf_mono now);

#endif
