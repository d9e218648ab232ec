/* SPDX-License-Identifier: Apache-2.0 */
/* lease_kept.c: keeps the releases of ID leases that got no answer; see lease_kept.h. Calls add
 * them, lease_depart.c sends them. Their callers were told that it is not known, and may come back
 * with a repeat of their own. */
#include "client/lease/lease_kept.h"

#include "client/base/client.h"

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/error.h"
#include "core/id.h"

#include <stdlib.h>

#define RETRY_FIRST_MS 5
#define RETRY_MOST_MS 500
#define KEPT_MOST 10000 /* the locks of more are free when their leases are over */
/* A key may be forgotten after an hour, and then name another lease. */
#define KEPT_MOST_MS 1800000

static struct departures *list_locked(hf_client *client)
{
    if (!client->departures)
        client->departures = alloc_zeroed(sizeof *client->departures);
    return client->departures;
}

static struct departing *find_locked(const hf_client *client, hf_id ticket)
{
    if (!client->departures)
        return NULL;
    struct table_node *node = table_first(&client->departures->by_ticket, table_hash_id(ticket));
    while (node && !id_equal(TABLE_OWNER(node, struct departing, by_ticket)->ids.ticket, ticket))
        node = table_next(node);
    return node ? TABLE_OWNER(node, struct departing, by_ticket) : NULL;
}

static struct departing *add_locked(hf_client *client, const lease_ids *ids)
{
    struct departures *all = list_locked(client);
    if (all->by_ticket.n >= KEPT_MOST)
        return NULL;
    struct departing *one = alloc_zeroed(sizeof *one);
    one->ids = *ids;
    table_add(&all->by_ticket, &one->by_ticket, table_hash_id(ids->ticket));
    schedule_set(&all->due, &one->due, client_now(client));
    return one;
}

static void drop_locked(hf_client *client, struct departing *one)
{
    schedule_remove(&client->departures->due, &one->due);
    table_remove(&client->departures->by_ticket, &one->by_ticket);
    free(one);
}

/* ---- What calls ask ---- */

bool lease_keep(hf_client *client, const lease_ids *ids, hf_mono since)
{
    MUTEX_SCOPE(&client->mutex);
    if (client->closing.has_begun || ticker_start_locked(client, TICK_DEPART, NULL))
        return false;
    struct departing *one = find_locked(client, ids->ticket);
    if (!one)
        one = add_locked(client, ids);
    if (!one)
        return false;
    one->of = (lease_farewell){.since = since, .over_at = MONO_NEVER};
    one->is_over = false;
    ticker_poke(client, TICK_DEPART);
    return true;
}

void lease_forget(hf_client *client, const lease_ids *ids)
{
    MUTEX_SCOPE(&client->mutex);
    struct departing *one = find_locked(client, ids->ticket);
    if (one && one->due.at)
        drop_locked(client, one);
    else if (one)
        one->is_over = true;
}

bool lease_withdraw(hf_client *client, const lease_ids *ids, bool *was_kept)
{
    MUTEX_SCOPE(&client->mutex);
    struct departing *one = find_locked(client, ids->ticket);
    *was_kept = one;
    if (one && !one->due.at)
        return false;
    if (one)
        drop_locked(client, one);
    return true;
}

bool lease_is_kept(hf_client *client, const lease_ids *ids)
{
    MUTEX_SCOPE(&client->mutex);
    return find_locked(client, ids->ticket);
}

/* ---- What their sender asks ---- */

struct departing *lease_kept_take(hf_client *client, hf_mono now, lease_farewell *of)
{
    MUTEX_SCOPE(&client->mutex);
    struct departures *all = client->departures;
    bool rests = !all || client->closing.has_begun || !mono_reached(all->silent_until, now);
    struct slot *slot = rests ? NULL : schedule_next_due(&all->due, now);
    if (!slot)
        return NULL;
    struct departing *one = SCHEDULE_OWNER(slot, struct departing, due);
    if (mono_ms_until(one->of.since, now) > KEPT_MOST_MS) {
        drop_locked(client, one);
        return NULL;
    }
    schedule_remove(&all->due, slot);
    *of = one->of;
    return one;
}

/* It may have been released anew while it was in flight: then that counts. */
static void put_off_locked(hf_client *client, struct departing *one, const lease_farewell *tried,
                           bool is_answered)
{
    struct departures *all = client->departures;
    hf_mono now = client_now(client);
    if (one->of.since.ns == tried->since.ns)
        one->of = *tried;
    bool rests = one->of.over_at.ns != MONO_NEVER.ns;
    schedule_set(&all->due, &one->due, rests ? one->of.over_at : now);
    if (is_answered)
        return;
    int64_t ms = backoff_ms(++all->failures, RETRY_FIRST_MS, RETRY_MOST_MS, client_chance(client));
    all->silent_until = mono_add_ms(now, ms);
}

void lease_kept_settle(hf_client *client, struct departing *one, const lease_farewell *tried,
                       hf_code code)
{
    bool is_answered = !error_is_no_answer(code);
    MUTEX_SCOPE(&client->mutex);
    if (is_answered)
        client->departures->failures = 0;
    if (one->is_over || (is_answered && code != HF_HELD))
        drop_locked(client, one);
    else
        put_off_locked(client, one, tried, is_answered);
}

hf_mono lease_kept_due(hf_client *client)
{
    MUTEX_SCOPE(&client->mutex);
    const struct departures *all = client->departures;
    if (!all || client->closing.has_begun || !all->due.n)
        return MONO_NEVER;
    return mono_max(schedule_due(&all->due), all->silent_until);
}

/* ---- At the end ---- */

struct departing *lease_kept_first(const hf_client *client)
{
    struct slot *slot = client->departures ? schedule_first(&client->departures->due) : NULL;
    return slot ? SCHEDULE_OWNER(slot, struct departing, due) : NULL;
}

void lease_kept_drop(hf_client *client, struct departing *one)
{
    drop_locked(client, one);
}

size_t lease_kept_free(hf_client *client)
{
    struct departing *one;
    size_t n = 0;
    for (; (one = lease_kept_first(client)); n++)
        drop_locked(client, one);
    if (!client->departures)
        return 0;
    schedule_done(&client->departures->due);
    table_done(&client->departures->by_ticket);
    free(client->departures);
    client->departures = NULL;
    return n;
}
