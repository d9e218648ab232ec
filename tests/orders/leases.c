/* SPDX-License-Identifier: Apache-2.0 */
/* leases.c: one lease, one key, and several actors that ask for it, break it, give it back or want
 * the lock for themselves, in every order of their calls to the store.
 *
 *     orders [most runs of a scene [part of its name]]
 *     orders 0 name order        what happens in an order that was printed */
#include "orders/orders.h"

#include "core/id.h"
#include "core/record.h"
#include "support/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MS 100 /* time passes when all others wait */

/* ---- What they do ---- */

static bool is_believed(const actor *self)
{
    return self->body && self->believes && client_now(self->client).ns < self->lease.ends_at_ns;
}

static bool anybody_believes(void)
{
    bool any = false;
    orders_read(THING_BELIEF);
    for (int i = 0; i < ACTORS; i++)
        any |= is_believed(&actors[i]);
    return any;
}

/* One key, one owner, which believes in no answer once it has begun to release. */
static bool is_releasing(void)
{
    bool any = false;
    orders_read(THING_BELIEF);
    for (int i = 0; i < ACTORS; i++)
        any |= actors[i].body && actors[i].is_releasing;
    return any;
}

static bool anybody_has_the_lease(void)
{
    bool any = false;
    orders_read(THING_BELIEF);
    for (int i = 0; i < ACTORS; i++)
        any |= actors[i].body && actors[i].has_acquired;
    return any;
}

static void stop_believing(void)
{
    orders_wrote(THING_BELIEF);
    for (int i = 0; i < ACTORS; i++)
        actors[i].believes = false;
}

static void believe_in_the_lock(actor *self)
{
    orders_wrote(THING_BELIEF);
    self->holds = true;
    if (anybody_believes())
        orders_fail("another has the lock, and its lease is believed");
}

static void leave_the_lock(actor *self, hf_lock *lock)
{
    orders_wrote(THING_BELIEF);
    self->holds = false;
    hf_lock_release(lock, &self->err);
    hf_lock_close(lock);
}

static void believe_in_the_lease(actor *self)
{
    orders_wrote(THING_BELIEF);
    self->has_acquired = true;
    self->believes = !is_releasing();
    for (int i = 0; i < ACTORS; i++)
        if (self->believes && actors[i].body && actors[i].holds)
            orders_fail("the lease is believed, and another has the lock");
}

static void judge_refusal(hf_code code, const actor *self)
{
    if (code == HF_INTERNAL || code == HF_KEY_REUSED)
        orders_fail(self->err.text);
    bool has_waited = code == HF_TIMEOUT || code == HF_HELD;
    if (has_waited && anybody_has_the_lease() && !is_releasing())
        orders_fail("a repeat did not find its lease");
}

static void ask(actor *self, int64_t wait_ms, hf_cancel *cancel)
{
    hf_lease_options options = on_stage->options;
    options.lock.wait_ms = wait_ms;
    options.lock.cancel = cancel;
    self->asks = true;
    self->heeds_cancel = cancel != NULL;
    self->answer = hf_lease_acquire(self->client, "x", &options, &self->lease, &self->err);
    self->heeds_cancel = false;
    if (self->answer)
        judge_refusal(self->answer, self);
    else
        believe_in_the_lease(self);
}

static void acquire(actor *self)
{
    ask(self, HF_WAIT_FOREVER, NULL);
}

static void acquire_in_time(actor *self)
{
    ask(self, HELD_MS, NULL);
}

static void try_it(actor *self)
{
    ask(self, HF_TRY, NULL);
}

static void acquire_until_cancelled(actor *self)
{
    ask(self, HF_WAIT_FOREVER, orders_cancel);
}

static void cancel_it(actor *self)
{
    (void)self;
    orders_wrote(THING_CANCEL);
    hf_cancel_fire(orders_cancel);
}

static void acquire_and_renew(actor *self)
{
    acquire(self);
    if (!self->has_acquired)
        return;
    hf_lease renewed;
    hf_code code = hf_lease_renew(self->client, self->lease.id, &renewed, &self->err);
    orders_wrote(THING_BELIEF);
    if (code)
        self->believes = false;
    else
        self->lease = renewed;
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
}

static bool keep_token(void *ctx, const hf_record *record)
{
    *(int64_t *)ctx = record->token;
    return false;
}

/* The last that was granted. */
static int64_t last_token(const actor *self)
{
    int64_t token = 0;
    const char *name = "x";
    hf_store *store = self->store->inner;
    orders_read(THING_RECORD);
    store->ops->look(store, &name, 1, (hf_stamp){0}, false, keep_token, &token, NULL);
    return token;
}

/* Where several hold, more may come after the break has seen who holds. */
static void break_it(actor *self)
{
    const hf_break_options why = {.reason = "r"};
    bool is_shared = on_stage->options.lock.mode == HF_SHARED;
    self->broken = is_shared ? last_token(self) : INT64_MAX;
    hf_code code = hf_break(self->client, "x", &why, &self->err);
    self->is_done = code == HF_OK;
    if (code)
        return;
    orders_wrote(THING_BELIEF);
    for (int i = 0; i < ACTORS; i++)
        if (is_believed(&actors[i]) && actors[i].lease.token <= self->broken)
            orders_fail("a break succeeded, and its lease is believed");
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
        believe_in_the_lock(self);
        leave_the_lock(self, lock);
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
    believe_in_the_lock(self);
    self->client->env.pause(self->client->env.ctx, HELD_MS);
    leave_the_lock(self, lock);
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

static bool has_what_it_asked_for(const scene *played, const actor *self)
{
    return !self->asks || self->has_acquired || self->answer == played->may_be_told;
}

/* The lease stands, alone, and everybody who asked has it. */
static void check_that_it_stands(const scene *played, const actor *all, const hf_record *after)
{
    const hf_lease *lease = the_lease();
    const hf_entry *entry = only_entry(after);
    for (int i = 0; i < ACTORS; i++) {
        bool has_time = played->bodies[i] == acquire_and_renew;
        if (!has_what_it_asked_for(played, &all[i]) || (has_time && !all[i].has_acquired))
            orders_fail(all[i].err.text);
    }
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
        if (!has_what_it_asked_for(played, &all[i]) && all[i].answer != HF_LOST)
            orders_fail(all[i].err.text);
    }
    if (any && after->holders + after->queued)
        orders_fail("something stands in the end");
    if (any && anybody_believes())
        orders_fail("what has ended is believed in the end");
}

/* What stands in the end came later. */
static void check_that_it_was_broken(const scene *played, const actor *all, const hf_record *after)
{
    check_that_nothing_else_stands(played, all, after);
    for (int i = 0; i < ACTORS; i++) {
        if (!has_what_it_asked_for(played, &all[i]) && all[i].answer != HF_LOST)
            orders_fail(all[i].err.text);
        if (all[i].is_done && after->holders && after->entries[0].token <= all[i].broken)
            orders_fail("what was broken stands in the end");
    }
}

/* Calls of the first had no answer: it may have failed, the second one knows. */
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
#define EXCLUSIVE .options = {KEYED}
#define SHARED .options = {KEYED, .lock.mode = HF_SHARED}
#define PERMITS .options = {KEYED, .lock.permits = 1, .lock.limit = 3}
#define IN_BOTH_MODES(called, ...)                                                                 \
    {.name = called, EXCLUSIVE, __VA_ARGS__},                                                      \
    {                                                                                              \
        .name = called ", shared", SHARED, __VA_ARGS__                                             \
    }

#define STANDS .check = check_that_it_stands
#define HAS_ENDED .check = check_that_it_has_ended
#define ONE_KNOWS .check = check_that_one_knows
#define BY(...) .bodies = {__VA_ARGS__}
#define LOSES(what) .loss = what, .losses = 1
#define GIVES_UP(what) .loss = what, .losses = 9, .patience_ms = 1

static const scene scenes[] = {
    IN_BOTH_MODES("two repeats", BY(acquire_and_renew, acquire_and_renew), STANDS),
    {.name = "two repeats, permits", PERMITS, BY(acquire_and_renew, acquire_and_renew), STANDS},
    {.name = "three repeats, shared",
     SHARED,
     BY(acquire_and_renew, acquire_and_renew, acquire_and_renew),
     STANDS,
     .is_large = true},
    {.name = "a rival", EXCLUSIVE, BY(acquire_and_renew, rival), STANDS},
    {.name = "repeats behind a holder",
     EXCLUSIVE,
     BY(acquire_and_renew, acquire_and_renew, hold_first),
     STANDS},

    {.name = "a release beside a repeat",
     EXCLUSIVE,
     BY(acquire_and_release, acquire_and_renew, rival),
     HAS_ENDED},
    {.name = "a release beside a repeat, shared",
     SHARED,
     BY(acquire_and_release, acquire_and_renew, rival),
     HAS_ENDED,
     .is_large = true},
    {.name = "a release beside a repeat and a reader",
     SHARED,
     BY(acquire_and_release, acquire_and_renew, reader),
     HAS_ENDED,
     .is_large = true},
    {.name = "a break beside repeats",
     EXCLUSIVE,
     BY(acquire_and_renew, acquire_and_renew, break_it),
     HAS_ENDED},
    {.name = "a break beside repeats, shared",
     SHARED,
     BY(acquire_and_renew, acquire_and_renew, break_it),
     .check = check_that_it_was_broken,
     .is_large = true},
    {.name = "a forced break beside repeats",
     EXCLUSIVE,
     BY(acquire_and_renew, acquire_and_renew, break_by_force),
     .check = check_that_nothing_else_stands,
     .is_large = true},

    IN_BOTH_MODES("a try beside a repeat", BY(try_it, acquire_and_renew), STANDS),
    {.name = "a try beside a repeat that stalls",
     EXCLUSIVE,
     BY(try_it, acquire_and_renew),
     STANDS,
     .may_be_told = HF_HELD,
     .early = 4},
    IN_BOTH_MODES("a try beside a repeat and a rival", BY(try_it, acquire_and_renew, rival), STANDS,
                  .may_be_told = HF_HELD),
    IN_BOTH_MODES("a try beside a release", BY(try_it, acquire_and_release), HAS_ENDED),

    {.name = "a time-out beside a repeat",
     EXCLUSIVE,
     BY(acquire_in_time, acquire_and_renew),
     STANDS,
     .may_be_told = HF_TIMEOUT,
     .early = 2},
    IN_BOTH_MODES("a time-out beside a repeat and a holder",
                  BY(acquire_in_time, acquire_and_renew, hold_first), STANDS,
                  .may_be_told = HF_TIMEOUT),
    {.name = "a time-out beside a release",
     EXCLUSIVE,
     BY(acquire_in_time, acquire_and_release),
     HAS_ENDED,
     .may_be_told = HF_TIMEOUT,
     .early = 2},

    IN_BOTH_MODES("a cancel beside a repeat",
                  BY(acquire_until_cancelled, acquire_and_renew, cancel_it), STANDS,
                  .may_be_told = HF_CANCELLED, .early = 1),
    IN_BOTH_MODES("a cancel beside a repeat and a holder",
                  BY(acquire_until_cancelled, acquire_and_renew, cancel_it, hold_first), STANDS,
                  .may_be_told = HF_CANCELLED),

    IN_BOTH_MODES("an answer that is lost", BY(acquire, acquire_and_renew), ONE_KNOWS,
                  GIVES_UP(LOSS_OF_PASS_ANSWER)),
    IN_BOTH_MODES("an insert whose answer is lost", BY(acquire, acquire_and_renew), STANDS,
                  LOSES(LOSS_OF_INSERT_ANSWER)),
    IN_BOTH_MODES("an insert whose answers are lost", BY(acquire, acquire_and_renew), ONE_KNOWS,
                  GIVES_UP(LOSS_OF_INSERT_ANSWER)),
    IN_BOTH_MODES("an insert that is lost", BY(acquire, acquire_and_renew), STANDS,
                  LOSES(LOSS_OF_INSERT)),
    IN_BOTH_MODES("an insert that is always lost", BY(acquire, acquire_and_renew), ONE_KNOWS,
                  GIVES_UP(LOSS_OF_INSERT)),
    IN_BOTH_MODES("an insert whose answer is lost, beside a release",
                  BY(acquire, acquire_and_release), HAS_ENDED, LOSES(LOSS_OF_INSERT_ANSWER)),
    IN_BOTH_MODES("an insert that is late", BY(acquire, acquire_and_renew, orders_deliver), STANDS,
                  LOSES(LOSS_LATE_INSERT)),
    IN_BOTH_MODES("an insert that is too late", BY(acquire, acquire_and_renew, orders_deliver),
                  ONE_KNOWS, GIVES_UP(LOSS_LATE_INSERT)),
    IN_BOTH_MODES("a pass that is late", BY(acquire, acquire_and_renew, orders_deliver), STANDS,
                  LOSES(LOSS_LATE_PASS)),
    IN_BOTH_MODES("a pass that is too late", BY(acquire, acquire_and_renew, orders_deliver),
                  ONE_KNOWS, GIVES_UP(LOSS_LATE_PASS)),
    IN_BOTH_MODES("a pass that is late, beside a release",
                  BY(acquire, acquire_and_release, orders_deliver), HAS_ENDED,
                  LOSES(LOSS_LATE_PASS)),
};

#define SCENES (sizeof scenes / sizeof *scenes)

int main(int argc, char **argv)
{
    unsigned long most = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
    size_t played = 0;
    for (size_t i = 0; i < SCENES; i++) {
        const char *name = scenes[i].name;
        bool is_shown = argc > 3 && strcmp(name, argv[2]) == 0;
        bool is_run = argc < 3 || (argc == 3 && strstr(name, argv[2]));
        if (is_shown)
            orders_show(&scenes[i], argv[3]);
        else if (is_run)
            orders_run(&scenes[i], most);
        played += is_shown || is_run;
    }
    if (!played)
        printf("no scene is called %s\n", argv[2]);
    printf("%zu scenes, %lu failures\n", played, orders_failures);
    return !played || orders_failures > 0;
}
