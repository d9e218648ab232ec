/* SPDX-License-Identifier: Apache-2.0 */
/* bound.h: until when the calling thread waits for its calls; see hf_store_ops.bound. */
#ifndef STORE_MONGO_DRIVER_BOUND_H
#define STORE_MONGO_DRIVER_BOUND_H

#include <holdfast/store.h>
#include <stdbool.h>
#include <stdint.h>

/* For all stores of this thread. */
void mongo_bound(hf_store *store, hf_bound *bound);
hf_bound *mongo_bound_now(void); /* NULL: there is none */

/* What is left of it for a call that begins now; INT64_MAX: as long as it takes. */
int64_t mongo_bound_left_ms(const hf_bound *bound, hf_mono now);

/* The server has answered. */
void mongo_bound_put_off(hf_mono now);

/* Whether nobody waits any longer, though there is time left. */
static inline bool mongo_bound_is_cancelled(const hf_bound *bound)
{
    return bound && bound->is_cancelled && bound->is_cancelled(bound->ctx);
}

#endif
