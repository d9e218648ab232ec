/* SPDX-License-Identifier: Apache-2.0 */
/* bound.c: tells the store until when this thread waits for its calls; see bound.h. */
#include "client/base/bound.h"

#include "client/base/cancel.h"

#include "core/lease.h"

#include <stddef.h>

static _Thread_local hf_bound *innermost;

static bool is_cancelled(void *ctx)
{
    return cancel_is_fired(ctx);
}

static void begin(struct bound *bound, hf_store *store)
{
    if (!store->ops->bound)
        return;
    bound->store = store;
    bound->outer = innermost;
    innermost = &bound->of;
    store->ops->bound(store, innermost);
}

void bound_begin(struct bound *bound, hf_store *store, hf_mono until, hf_cancel *cancel)
{
    *bound = (struct bound){.of = {.until = until, .ctx = cancel}};
    if (cancel)
        bound->of.is_cancelled = is_cancelled;
    begin(bound, store);
}

void bound_begin_of_many(struct bound *bound, hf_store *store, hf_mono until, int64_t answer_ms)
{
    *bound = (struct bound){.of = {.until = until, .answer_ms = answer_ms}};
    begin(bound, store);
}

hf_mono bound_ends(void)
{
    return innermost ? innermost->until : MONO_NEVER;
}

void bound_end(struct bound *bound)
{
    if (!bound->store)
        return;
    innermost = bound->outer;
    bound->store->ops->bound(bound->store, innermost);
}
