/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_join.c: ends attempts whose lease another call has made; called by lease/, and by
 * attempts that have seen a record. */
#include "client/wait/attempt.h"

#include "client/hold/hold.h"

#include "core/id.h"

#include <string.h>

void attempt_join(struct attempt *attempt, hf_id lease)
{
    hf_client *client = attempt->request.client;
    MUTEX_SCOPE(&client->mutex);
    attempt->request.joins = lease;
    client->hold->joining++;
}

static struct lock_request *first_joining(const hf_client *client)
{
    return client->hold->joining ? client->hold->requests : NULL;
}

static bool joins(const struct lock_request *request, const hf_record *record)
{
    if (id_is_zero(request->joins) || strcmp(request->name, record->name) != 0)
        return false;
    const hf_entry *lease = record_find(record, request->joins);
    return lease && record_position(record, lease) == 0;
}

void attempt_tell_joined(hf_client *client, const hf_record *record)
{
    MUTEX_SCOPE(&client->mutex);
    for (struct lock_request *at = first_joining(client); at; at = at->next) {
        if (at->has_joined || !joins(at, record))
            continue;
        at->has_joined = true;
        lock_request_wake_locked(at);
    }
}

bool attempt_is_joined_for_locked(const struct attempt *attempt)
{
    const struct lock_request *at = first_joining(attempt->request.client);
    while (at && (id_is_zero(at->joins) || strcmp(at->name, attempt->request.name) != 0))
        at = at->next;
    return at;
}
