/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: how long a client's turn at the sweep lasts; see sweep.h. */
#include "core/sweep.h"

#include "core/error.h"

#define KEPT_LEAST_MS 250

int64_t sweep_kept_ms(int64_t took_ms)
{
    int64_t most_ms = SWEEP_TURN_MS - KEPT_LEAST_MS;
    return KEPT_LEAST_MS + (took_ms < most_ms / 3 ? took_ms * 3 : most_ms);
}

hf_code sweep_is_anothers(hf_error *err)
{
    return error_set(err, HF_HELD, "another client does a part");
}
