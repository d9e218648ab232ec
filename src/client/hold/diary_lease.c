/* SPDX-License-Identifier: Apache-2.0 */
/* diary_lease.c: the turns of ID leases. A release names a ticket only, so what else is known of a
 * lease is remembered from its making and its renewals, or read before it is released; see diary.h.
 * Called by lease/. */
#include "client/hold/hold.h"

#include "core/alloc.h"
#include "core/id.h"

#include <stdlib.h>

/* Where the lease is remembered. Another one may have taken its place. */
static struct history_turn **place_locked(hf_client *client, hf_id ticket)
{
    struct diary *diary = &client->hold->diary;
    if (!diary->leases)
        diary->leases = alloc_zeroed(DIARY_LEASES * sizeof *diary->leases);
    return &diary->leases[id_hash(ID_HASH, ticket.bytes, sizeof ticket.bytes) % DIARY_LEASES];
}

/* The turn that was seen last, which is forgotten now; NULL: it was not seen here. */
static struct history_turn *take_locked(hf_client *client, hf_id ticket)
{
    struct history_turn **place = place_locked(client, ticket), *seen = *place;
    if (!seen || !id_equal(seen->note.ticket, ticket))
        return NULL;
    *place = NULL;
    return seen;
}

bool diary_misses_lease(hf_client *client, hf_id ticket)
{
    MUTEX_SCOPE(&client->mutex);
    if (!diary_is_kept(client))
        return false;
    const struct history_turn *seen = *place_locked(client, ticket);
    return !seen || !id_equal(seen->note.ticket, ticket);
}

void diary_saw_lease(hf_client *client, const char *name, const hf_entry *holder, int32_t limit,
                     const char *who)
{
    const hf_turn_note note = {.name = name,
                               .who = who,
                               .actor = holder->actor,
                               .why = holder->why,
                               .reason = "",
                               .ticket = holder->ticket,
                               .session = holder->session,
                               .token = holder->token,
                               .permits = holder->permits,
                               .limit = limit,
                               .granted_at = holder->granted_at};
    MUTEX_SCOPE(&client->mutex);
    if (!diary_is_kept(client))
        return;
    struct history_turn **place = place_locked(client, holder->ticket);
    if (*place && history_is_same(&(*place)->note, &note))
        return;
    free(*place);
    *place = history_copy(&note);
}

/* Notes how it ended; frees what was seen. */
static void end_locked(hf_client *client, struct history_turn *seen, const hf_turn_note *unseen,
                       hf_turn_end end, const char *reason)
{
    hf_turn_note note = seen ? seen->note : *unseen;
    note.ended_at = diary_ended_at_locked(client, note.granted_at);
    note.end = end;
    note.reason = reason;
    diary_add_locked(client, history_copy(&note));
    free(seen);
}

void diary_lease_released(hf_client *client, const hf_turn_note *unseen)
{
    MUTEX_SCOPE(&client->mutex);
    if (diary_is_kept(client))
        end_locked(client, take_locked(client, unseen->ticket), unseen, HF_TURN_RELEASED, "");
}

void diary_forget_lease(hf_client *client, hf_id ticket)
{
    MUTEX_SCOPE(&client->mutex);
    if (diary_is_kept(client))
        free(take_locked(client, ticket));
}

void diary_lease_lost(hf_client *client, hf_id ticket, hf_turn_end end, const char *reason)
{
    MUTEX_SCOPE(&client->mutex);
    struct history_turn *seen = diary_is_kept(client) ? take_locked(client, ticket) : NULL;
    if (seen)
        end_locked(client, seen, NULL, end, reason);
}
