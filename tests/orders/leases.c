/* SPDX-License-Identifier: Apache-2.0 */
/* leases.c: one lease, one key, and several actors that ask for it, break it, give it back or want
 * the lock for themselves, in every order of their calls to the store.
 *
 *     orders [most orders of a scene [part of its name]] */
#include "orders/orders.h"

#include "core/id.h"
#include "core/record.h"
#include "support/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MS 50 /* time passes when all others wait */

/* ---- What they do ---- */

static bool is_over(const actor *self)
{
    return client_now(self->client).ns >= self->lease.ends_at_ns;
}

static bool anybody_believes(void)
{
    for (int i = 0; i < ACTORS; i++)
        if (actors[i].body && actors[i].believes && !is_over(&actors[i]))
            return true;
    return false;
}

/* One key, one owner, which believes in no answer once it has begun to release. */
static bool is_releasing(void)
{
    bool any = false;
    for (int i = 0; i < ACTORS; i++)
        any |= actors[i].body && actors[i].is_releasing;
    return any;
}

static void stop_believing(void)
{
    for (int i = 0; i < ACTORS; i++)
        actors[i].believes = false;
}

static void acquire(actor *self)
{
    hf_code code =
        hf_lease_acquire(self->client, "x", &on_stage->options, &self->lease, &self->err);
    self->has_acquired = !code;
    self->believes = !code && !is_releasing();
    self->err.code = code;
    if (code == HF_INTERNAL || code == HF_KEY_REUSED)
        orders_fail(self->err.text);
}

static void acquire_and_renew(actor *self)
{
    acquire(self);
    if (!self->has_acquired)
        return;
    hf_lease renewed;
    if (hf_lease_renew(self->client, self->lease.id, &renewed, &self->err))
        self->believes = false;
    else
        self->lease = renewed;
    self->err.code = HF_OK;
}

static void acquire_and_release(actor *self)
{
    acquire(self);
    if (!self->has_acquired)
        return;
    self->is_releasing = true;
    stop_believing();
    hf_code code = hf_lease_release(self->client, self->lease.id, &self->err);
    self->is_done = code == HF_OK;
    self->err.code = HF_OK;
}

static void break_it(actor *self)
{
    const hf_break_options why = {.reason = "r"};
    hf_code code = hf_break(self->client, "x", &why, &self->err);
    self->is_done = code == HF_OK;
    if (code)
        return;
    if (anybody_believes())
        orders_fail("a break succeeded, and its lease is believed");
    stop_believing();
}

static void break_by_force(actor *self)
{
    const hf_break_options why = {.reason = "r", .force = true};
    self->is_done = hf_break(self->client, "x", &why, &self->err) == HF_OK;
    stop_believing();
}

/* Wants it for itself, twice. */
static void rival(actor *self)
{
    hf_lock *lock;
    const hf_lock_options options = {.wait_ms = HF_TRY};
    for (int i = 0; i < 2; i++) {
        if (hf_lock_acquire(self->client, "x", &options, &lock, &self->err))
            continue;
        if (anybody_believes())
            orders_fail("another has the lock, and its lease is believed");
        hf_lock_release(lock, &self->err);
        hf_lock_close(lock);
    }
}

/* Holds it beside others, and leaves last: `last` does not speak of the lease any more. */
static void reader(actor *self)
{
    hf_lock *lock;
    const hf_lock_options options = {.wait_ms = HF_TRY, .mode = HF_SHARED};
    if (hf_lock_acquire(self->client, "x", &options, &lock, &self->err))
        return;
    hf_lock_release(lock, &self->err);
    hf_lock_close(lock);
}

/* Where it comes first, the others wait. */
static void hold_first(actor *self)
{
    hf_lock *lock;
    const hf_lock_options options = {.wait_ms = HF_TRY};
    if (hf_lock_acquire(self->client, "x", &options, &lock, &self->err))
        return;
    if (anybody_believes())
        orders_fail("another has the lock, and its lease is believed");
    self->client->env.pause(self->client->env.ctx, HELD_MS);
    hf_lock_release(lock, &self->err);
    hf_lock_close(lock);
}

/* ---- What must be true in the end ---- */

static const hf_entry *only_entry(const hf_record *after)
{
    return after->holders + after->queued == 1 ? &after->entries[0] : NULL;
}

static lease_ids ids_of(const char *id)
{
    lease_ids ids;
    hf_error err;
    if (lease_id_read(id, &ids, &err))
        abort();
    return ids;
}

/* All who have it have the same. */
static const hf_lease *the_lease(void)
{
    const hf_lease *first = NULL;
    for (int i = 0; i < ACTORS; i++) {
        if (!actors[i].body || !actors[i].has_acquired)
            continue;
        if (first &&
            (strcmp(first->id, actors[i].lease.id) != 0 || first->token != actors[i].lease.token))
            orders_fail("one key has two leases");
        first = &actors[i].lease;
    }
    return first;
}

/* The lease stands, alone, and everybody who asked has it. */
static void check_that_it_stands(const scene *played, const actor *all, const hf_record *after)
{
    const hf_lease *lease = the_lease();
    const hf_entry *entry = only_entry(after);
    for (int i = 0; i < ACTORS; i++)
        if (played->bodies[i] == acquire_and_renew && !all[i].has_acquired)
            orders_fail(all[i].err.text);
    if (!lease || !entry)
        orders_fail("there is not one ticket in the end");
    else if (!id_equal(entry->ticket, ids_of(lease->id).ticket) || entry->token != lease->token)
        orders_fail("in the end it is another's ticket");
}

/* By force, the ticket of a call that was about to make the lease may have been taken out. */
static void check_that_nothing_else_stands(const scene *played, const actor *all,
                                           const hf_record *after)
{
    (void)played;
    (void)all;
    const hf_lease *lease = the_lease();
    const hf_entry *entry = only_entry(after);
    if (after->holders + after->queued &&
        (!lease || !entry || !id_equal(entry->ticket, ids_of(lease->id).ticket)))
        orders_fail("in the end it is another's ticket");
}

/* A call that did not get it was told that it has ended; nothing is left, and its key has ended. */
static void check_that_it_has_ended(const scene *played, const actor *all, const hf_record *after)
{
    bool any = false;
    the_lease();
    for (int i = 0; i < ACTORS; i++) {
        any |= all[i].is_done;
        if (played->bodies[i] == acquire_and_renew && !all[i].has_acquired &&
            all[i].err.code != HF_LOST)
            orders_fail(all[i].err.text);
    }
    if (any && after->holders + after->queued)
        orders_fail("something stands in the end");
}

/* The first had no answer to its passes: it may have failed, the second one knows. */
static void check_that_one_knows(const scene *played, const actor *all, const hf_record *after)
{
    (void)played;
    const hf_entry *entry = only_entry(after);
    the_lease();
    if (!all[1].has_acquired)
        orders_fail(all[1].err.text);
    else if (!entry || !id_equal(entry->ticket, ids_of(all[1].lease.id).ticket))
        orders_fail("in the end it is not there alone");
    if (all[0].has_acquired && all[0].lease.token != all[1].lease.token)
        orders_fail("one key has two leases");
}

/* ---- The scenes ---- */

#define KEYED .key = "k", .ttl_ms = 5000

static const scene scenes[] = {
    {"two repeats", {KEYED}, {acquire_and_renew, acquire_and_renew}, check_that_it_stands, 0},
    {"two repeats, shared",
     {KEYED, .lock.mode = HF_SHARED},
     {acquire_and_renew, acquire_and_renew},
     check_that_it_stands,
     0},
    {"two repeats, permits",
     {KEYED, .lock.permits = 1, .lock.limit = 3},
     {acquire_and_renew, acquire_and_renew},
     check_that_it_stands,
     0},
    {"three repeats, shared",
     {KEYED, .lock.mode = HF_SHARED},
     {acquire_and_renew, acquire_and_renew, acquire_and_renew},
     check_that_it_stands,
     0},
    {"a rival", {KEYED}, {acquire_and_renew, rival}, check_that_it_stands, 0},
    {"repeats behind a holder",
     {KEYED},
     {acquire_and_renew, acquire_and_renew, hold_first},
     check_that_it_stands,
     0},
    {"a release beside a repeat",
     {KEYED},
     {acquire_and_release, acquire_and_renew, rival},
     check_that_it_has_ended,
     0},
    {"a release beside a repeat, shared",
     {KEYED, .lock.mode = HF_SHARED},
     {acquire_and_release, acquire_and_renew, rival},
     check_that_it_has_ended,
     0},
    {"a release beside a repeat and a reader",
     {KEYED, .lock.mode = HF_SHARED},
     {acquire_and_release, acquire_and_renew, reader},
     check_that_it_has_ended,
     0},
    {"a break beside repeats",
     {KEYED},
     {acquire_and_renew, acquire_and_renew, break_it},
     check_that_it_has_ended,
     0},
    {"a forced break beside repeats",
     {KEYED},
     {acquire_and_renew, acquire_and_renew, break_by_force},
     check_that_nothing_else_stands,
     0},
    {"an answer that is lost", {KEYED}, {acquire, acquire_and_renew}, check_that_one_knows, 9},
    {"an answer that is lost, shared",
     {KEYED, .lock.mode = HF_SHARED},
     {acquire, acquire_and_renew},
     check_that_one_knows,
     9},
};

int main(int argc, char **argv)
{
    unsigned long most = argc > 1 ? strtoul(argv[1], NULL, 0) : 20000;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (argc < 3 || strstr(scenes[i].name, argv[2]))
            orders_run(&scenes[i], most);
    printf("%zu scenes, %lu failures\n", sizeof scenes / sizeof *scenes, orders_failures);
    return orders_failures > 0;
}
