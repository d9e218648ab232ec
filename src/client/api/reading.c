/* SPDX-License-Identifier: Apache-2.0 */
/* reading.c: repeats what public calls read, in one place for all of them; see reading.h. */
#include "client/api/reading.h"

#include "core/error.h"

#define SILENT_MS 1000 /* what takes no longer is not worth a word */

/* The first call of an outage says so; each success lets the next one say it. */
static void note(hf_client *client, hf_code code, hf_mono began, hf_mono end, const hf_error *why)
{
    bool is_missed = error_is_no_answer(code);
    if (is_missed && !mono_reached(mono_add_ms(began, SILENT_MS), client_now(client)))
        return;
    if (atomic_exchange(&client->is_unanswered, is_missed) || !is_missed)
        return;
    client_log(client, HF_LOG_WARNING, "asking again, for up to %lld s: %s",
               (long long)(mono_ms_until(end, began) + 999) / 1000, why->text);
}

hf_code reading_repeat(hf_client *client, reading_fn read, void *ctx, hf_error *err)
{
    hf_mono outer = bound_ends(), began = client_now(client);
    hf_mono end = mono_min(outer, mono_add_ms(began, client->read_patience_ms));
    bool is_part = outer.ns != MONO_NEVER.ns;
    unsigned failures = 0;
    hf_error why;
    hf_code code;
    if (!client->store->is_remote)
        return read(ctx, err);
    BOUND_SCOPE_OF_MANY(client->store, end, is_part ? 0 : client->read_patience_ms);
    do {
        code = read(ctx, &why);
        note(client, code, began, end, &why);
    } while (client_may_retry_until(client, NULL, code, &failures, end));
    if (code && err)
        *err = why;
    return code;
}
