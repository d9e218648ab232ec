/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_look.c: looks at the record for which an attempt waits, and at the sessions ahead of it;
 * called by attempt.c and attempt_outside.c. */
#include "client/wait/attempt_internal.h"

#include "client/hold/hold.h"

static bool keep_record(void *ctx, const hf_record *record)
{
    struct attempt *attempt = ctx;
    record_done(&attempt->ahead.record);
    record_copy(&attempt->ahead.record, record);
    return false;
}

hf_code attempt_look(struct attempt *attempt, hf_stamp after)
{
    hf_store *store = attempt->request.client->store;
    return store->ops->look(store, &attempt->request.name, 1, after, false, keep_record, attempt,
                            &attempt->err);
}

static void tell_line(struct attempt *attempt)
{
    struct lock_request *request = &attempt->request;
    MUTEX_SCOPE(&request->client->mutex);
    line_tell_holder_locked(request, judging_holder(request, &attempt->ahead));
}

hf_mono attempt_watch_ahead(struct attempt *attempt, hf_mono now, hf_mono otherwise)
{
    judging result;
    hf_code code =
        judging_tick(&attempt->request, &attempt->ahead, now, false, &result, &attempt->err);
    if (code)
        return attempt_failed(attempt, code, client_now(attempt->request.client));
    if (result == JUDGING_CHANGED) {
        attempt->look_due = attempt->enter_due = now;
        return now;
    }
    tell_line(attempt);
    hf_mono due = mono_min(otherwise, judge_due(&attempt->ahead.judge));
    return mono_min(due, attempt->deadline);
}
