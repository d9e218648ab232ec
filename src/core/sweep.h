/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h: how long a client's turn at the sweep lasts, so that others go on when it has ended.
 * Only work that is done twice depends on it. */
#ifndef CORE_SWEEP_H
#define CORE_SWEEP_H

#include <holdfast/store.h>

/* A part takes some ms. A client that has begun one and is gone keeps nobody from it for longer. */
#define SWEEP_TURN_MS 2000

/* For how long the turn is kept after a part that took so long: until the next one ends, if its
 * client lives. Most clients of a crowd have ended by then. */
int64_t sweep_kept_ms(int64_t took_ms);

hf_code sweep_is_anothers(hf_error *err); /* HF_HELD */

#endif
