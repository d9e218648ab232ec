/* SPDX-License-Identifier: Apache-2.0 */
/* release.c: keeps the tickets that are to be taken out of records until the outcome is known (R8);
 * see release.h. send.c sends them. */
#include "client/hold/hold.h"

#include "core/alloc.h"
#include "core/id.h"

#include <stdlib.h>
#include <string.h>

void releases_init(struct releases *releases)
{
    *releases = (struct releases){.end = &releases->first};
}

void releases_done(struct releases *releases)
{
    table_done(&releases->by_name);
    table_done(&releases->by_ticket);
    table_done(&releases->by_upgrade);
    schedule_done(&releases->due);
}

/* ---- The list ---- */

static struct release *named(struct table_node *node)
{
    return node ? TABLE_OWNER(node, struct release, by_name) : NULL;
}

/* The one that was added last first. */
static struct release *first_named_locked(const hf_client *client, const char *name)
{
    struct release *r = named(table_first(&client->hold->releases.by_name, table_hash_text(name)));
    while (r && strcmp(r->name, name) != 0)
        r = named(table_next(&r->by_name));
    return r;
}

static struct release *next_named_locked(const struct release *release)
{
    struct release *r = named(table_next(&release->by_name));
    while (r && strcmp(r->name, release->name) != 0)
        r = named(table_next(&r->by_name));
    return r;
}

static void link_locked(hf_client *client, struct release *release)
{
    struct releases *all = &client->hold->releases;
    release->link = all->end;
    *all->end = release;
    all->end = &release->next;
    table_add(&all->by_name, &release->by_name, table_hash_text(release->name));
    table_add(&all->by_ticket, &release->by_ticket, table_hash_id(release->leave.ticket));
    schedule_set(&all->due, &release->due, client_now(client));
}

static void unlink_locked(hf_client *client, struct release *gone)
{
    struct releases *all = &client->hold->releases;
    *gone->link = gone->next;
    if (gone->next)
        gone->next->link = gone->link;
    else
        all->end = gone->link;
    table_remove(&all->by_name, &gone->by_name);
    table_remove(&all->by_ticket, &gone->by_ticket);
    table_remove(&all->by_upgrade, &gone->by_upgrade);
    schedule_remove(&all->due, &gone->due);
}

/* It starts when it is first needed. */
static bool has_second_locked(hf_client *client)
{
    return !client->tickers.is_stopping && !ticker_start_locked(client, TICK_SEND, NULL);
}

/* Upkeep sends, and while it is busy another ticker. */
static unsigned sender_locked(hf_client *client)
{
    bool is_busy = client->hold->releases.is_upkeep_busy;
    return is_busy && has_second_locked(client) ? TICK_SEND : TICK_UPKEEP;
}

void release_send_beside_locked(hf_client *client)
{
    if (has_second_locked(client))
        ticker_poke(client, TICK_SEND);
}

struct release *release_push_locked(hf_client *client, const char *name, hf_id session,
                                    const hf_leave *leave, bool is_held)
{
    struct release *release = alloc_zeroed(sizeof *release);
    release->name = alloc_text(name);
    release->session = session;
    release->leave = *leave;
    release->is_held = is_held;
    release->lease_end = MONO_NEVER;
    link_locked(client, release);
    if (client->hold->releases.is_upkeep_busy)
        ticker_poke(client, sender_locked(client));
    return release;
}

struct release *release_push_lock_locked(struct hf_lock *lock, const hf_leave *leave, bool is_held)
{
    struct release *release =
        release_push_locked(lock->client, lock->name, lock->grant.session, leave, is_held);
    release->upgrade = lock->change.upgrade;
    release->token = lock->grant.token;
    release->lease_end = lock->belief.lease_end;
    if (!id_is_zero(release->upgrade))
        table_add(&lock->client->hold->releases.by_upgrade, &release->by_upgrade,
                  table_hash_id(release->upgrade));
    return release;
}

struct release *release_begin_locked(struct hf_lock *lock)
{
    hf_leave leave = lock_leave(lock);
    bool ends_turn = lock->state == LOCK_HELD;
    struct history_turn *turn = ends_turn ? diary_turn_locked(lock, HF_TURN_RELEASED) : NULL;
    lock_end_locked(lock, LOCK_RELEASED);
    line_left_locked(lock);
    struct release *release = release_push_lock_locked(lock, &leave, true);
    release->turn = turn;
    return release;
}

void release_free(struct release *release)
{
    free(release->turn);
    free(release->name);
    free(release);
}

bool release_takes_out(const struct release *release, hf_id ticket)
{
    return id_equal(release->leave.ticket, ticket) || id_equal(release->upgrade, ticket);
}

size_t release_leaves(const struct release *release, hf_leave out[RELEASE_LEAVES])
{
    out[0] = out[1] = release->leave;
    out[1].ticket = release->upgrade;
    return id_is_zero(release->upgrade) ? 1 : 2;
}

static bool is_ticket_locked(const struct releases *all, hf_id ticket)
{
    const struct table_node *node = table_first(&all->by_ticket, table_hash_id(ticket));
    while (node && !id_equal(TABLE_OWNER(node, struct release, by_ticket)->leave.ticket, ticket))
        node = table_next(node);
    return node;
}

static bool is_upgrade_locked(const struct releases *all, hf_id ticket)
{
    const struct table_node *node = table_first(&all->by_upgrade, table_hash_id(ticket));
    while (node && !id_equal(TABLE_OWNER(node, struct release, by_upgrade)->upgrade, ticket))
        node = table_next(node);
    return node;
}

bool release_is_pending_locked(hf_client *client, hf_id ticket)
{
    const struct releases *all = &client->hold->releases;
    return is_ticket_locked(all, ticket) || is_upgrade_locked(all, ticket);
}

bool release_is_any_of_locked(const hf_client *client, hf_id session)
{
    for (const struct release *r = client->hold->releases.first; r; r = r->next)
        if (id_equal(r->session, session))
            return true;
    return false;
}

/* It is no longer due: somebody sends it. */
static void take_locked(hf_client *client, struct release *release)
{
    release->in_flight = true;
    schedule_remove(&client->hold->releases.due, &release->due);
}

struct release *release_take_locked(hf_client *client, const char *name, bool *is_busy)
{
    struct release *taken = NULL;
    *is_busy = false;
    for (struct release *r = first_named_locked(client, name); r; r = next_named_locked(r))
        *is_busy |= r->in_flight;
    client->hold->releases.is_awaited |= *is_busy;
    for (struct release *r = first_named_locked(client, name); r && !*is_busy;
         r = next_named_locked(r)) {
        take_locked(client, r);
        r->carried_next = taken;
        taken = r;
    }
    return taken;
}

/* One that its own thread sends may still stand among what is due. */
static struct release *next_due_locked(hf_client *client, hf_mono now)
{
    struct schedule *due = &client->hold->releases.due;
    struct slot *slot;
    while ((slot = schedule_next_due(due, now))) {
        struct release *release = SCHEDULE_OWNER(slot, struct release, due);
        if (!release->in_flight)
            return release;
        schedule_remove(due, slot);
    }
    return NULL;
}

/* What a claim has left has no name, and each stands in another record. */
struct release *release_take_due_locked(hf_client *client, hf_mono now)
{
    struct release *taken = next_due_locked(client, now);
    if (!taken)
        return NULL;
    take_locked(client, taken);
    taken->carried_next = NULL;
    struct release *r = *taken->name ? first_named_locked(client, taken->name) : NULL;
    for (size_t n = 1; r && n < RELEASE_TOGETHER; r = next_named_locked(r)) {
        if (r->in_flight)
            continue;
        take_locked(client, r);
        r->carried_next = taken->carried_next;
        taken->carried_next = r;
        n++;
    }
    return taken;
}

/* Notes the turn that its holder has ended. */
static void note_turn_locked(hf_client *client, struct release *release)
{
    diary_add_locked(client, release->turn);
    release->turn = NULL;
}

/* Others will take its ticket out, or have done so. */
void release_note_lost_locked(hf_client *client, struct release *release)
{
    if (!release->turn)
        return;
    release->turn->note.end = HF_TURN_LOST;
    release->turn->note.reason = "it was lost before its release was acknowledged";
    note_turn_locked(client, release);
}

/* hf_close() goes on for as long as this happens. */
static void go_on_closing_locked(hf_client *client)
{
    if (client->closing.has_begun)
        client->closing.until = mono_add_ms(client_now(client), client_close_ms(client));
    pthread_cond_broadcast(&client->changed);
}

/* If there was an ask for it, the next beat takes that out (R9). The end of a session waits for its
 * releases. */
void release_over_locked(hf_client *client, struct release *release)
{
    session_answer_locked(client, release->leave.ticket);
    session_answer_locked(client, release->upgrade);
    note_turn_locked(client, release);
    unlink_locked(client, release);
    release_free(release);
    go_on_closing_locked(client);
    if (client->hold->endings.n)
        ticker_poke(client, TICK_UPKEEP);
}

static void put_off_locked(hf_client *client, struct release *release, hf_mono due)
{
    release->in_flight = false;
    schedule_set(&client->hold->releases.due, &release->due, due);
}

void release_hand_over_locked(hf_client *client, struct release *release, int64_t pause_ms)
{
    put_off_locked(client, release, mono_add_ms(client_now(client), pause_ms));
    ticker_poke(client, sender_locked(client));
}

void release_put_back_locked(hf_client *client, struct release *carried, bool was_sent)
{
    for (; carried; carried = carried->carried_next) {
        carried->was_sent |= was_sent;
        put_off_locked(client, carried, carried->due.due);
    }
    ticker_poke(client, sender_locked(client));
}

void release_tell_guardian(hf_client *client, const struct release *release)
{
    guardian_out(client, release->leave.ticket);
    guardian_out(client, release->upgrade);
}

void release_done_locked(hf_client *client, struct release *carried)
{
    while (carried) {
        struct release *next = carried->carried_next;
        release_tell_guardian(client, carried);
        release_over_locked(client, carried);
        carried = next;
    }
}

/* ---- When ---- */

void release_later_locked(hf_client *client, struct release *release, int64_t delay_ns)
{
    put_off_locked(client, release, (hf_mono){client_now(client).ns + delay_ns});
    ticker_poke_later_locked(client, sender_locked(client), delay_ns);
}

void release_hurry_locked(hf_client *client)
{
    struct schedule *due = &client->hold->releases.due;
    hf_mono now = client_now(client);
    for (struct release *r = client->hold->releases.first; r; r = r->next)
        if (r->due.at && !mono_reached(r->due.due, now))
            schedule_set(due, &r->due, now);
}

void release_first_locked(hf_client *client, const char *name)
{
    bool any = false;
    for (struct release *r = first_named_locked(client, name); r; r = next_named_locked(r)) {
        if (!r->due.at)
            continue;
        schedule_set(&client->hold->releases.due, &r->due, (hf_mono){0});
        any = true;
    }
    if (any)
        ticker_poke(client, sender_locked(client));
}

/* ---- At the end ---- */

void release_free_all(hf_client *client)
{
    while (client->hold->releases.first) {
        struct release *release = client->hold->releases.first;
        unlink_locked(client, release);
        release_free(release);
    }
}

void release_bequeath(hf_client *client)
{
    for (struct release *r = client->hold->releases.first; r; r = r->next) {
        client_log(client, HF_LOG_WARNING,
                   "%s: its release was not acknowledged: unless a guardian sends it, it may stand "
                   "until its lease is over",
                   *r->name ? r->name : "a document");
        guardian_leave(client, r->name, &r->leave, r->upgrade, r->token);
    }
}
