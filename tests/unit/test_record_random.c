/* SPDX-License-Identifier: Apache-2.0 */
/* test_record_random.c: proves that no sequence of steps breaks the record's invariants: random
 * steps, and after each what must be true of before and after; run by ctest. */
#include "unit.h"

#include "core/id.h"
#include "core/record.h"

#define ROUNDS 400
#define STEPS 250
#define SESSIONS 12
#define MOST 4 /* leaves and deaths in one step */

/* One random step and all that it points to. */
struct draw {
    hf_step step;
    hf_leave leaves[MOST];
    hf_death deaths[MOST];
    hf_change change;
    hf_enter enter;
    hf_dbtime now;
    int64_t floor;
};

static unsigned tickets; /* so many were drawn so far in this round */

static unsigned below(uint64_t *random, unsigned n)
{
    return (unsigned)(next_random(random) % n);
}

/* Mostly a ticket that is there, sometimes an old one. */
static hf_id draw_ticket(const hf_record *record, uint64_t *random)
{
    size_t n = record->holders + record->queued;
    if (!n || below(random, 8) == 0)
        return id_of(below(random, tickets + 1));
    return record->entries[below(random, (unsigned)n)].ticket;
}

static void draw_leaves(struct draw *draw, const hf_record *record, uint64_t *random)
{
    draw->step.leaves = draw->leaves;
    draw->step.n_leaves = below(random, 2) ? 0 : below(random, MOST + 1);
    for (size_t i = 0; i < draw->step.n_leaves; i++)
        draw->leaves[i] =
            (hf_leave){.ticket = draw_ticket(record, random),
                       .outcome = below(random, 5) ? HF_OUTCOME_RELEASED : HF_OUTCOME_ABANDONED,
                       .told = below(random, 4) != 0,
                       .who = "leaver"};
}

static void draw_deaths(struct draw *draw, uint64_t *random)
{
    draw->step.deaths = draw->deaths;
    draw->step.n_deaths = below(random, 6) ? 0 : below(random, MOST);
    for (size_t i = 0; i < draw->step.n_deaths; i++)
        draw->deaths[i] = (hf_death){.session = id_of(below(random, SESSIONS)), .who = "dead"};
}

static void draw_change(struct draw *draw, const hf_record *record, uint64_t *random)
{
    if (below(random, 5))
        return;
    draw->change = (hf_change){.ticket = draw_ticket(record, random),
                               .permits = (int32_t)below(random, 9) - 1};
    draw->step.change = &draw->change;
}

static void draw_enter(struct draw *draw, const hf_record *record, uint64_t *random)
{
    if (below(random, 4) == 0)
        return;
    int32_t limit = below(random, 10) ? 6 : (int32_t)below(random, 9) + 1;
    draw->enter = (hf_enter){.entry = {.ticket = id_of(++tickets),
                                       .session = id_of(below(random, SESSIONS)),
                                       .permits = (int32_t)below(random, 7) + 1,
                                       .block = (int32_t)below(random, 4)},
                             .limit = limit,
                             .queue_max = 12,
                             .try_only = below(random, 4) == 0,
                             .sets_limit = below(random, 3) == 0};
    if (below(random, 3) == 0 && !draw->enter.try_only) {
        draw->enter.number = below(random, (unsigned)record->given + 2);
        draw->enter.wants_number = !draw->enter.number;
        draw->enter.is_nested = below(random, 3) == 0;
        draw->enter.skips = below(random, 3) == 0;
        draw->enter.reached = record->reached - below(random, 2);
    }
    if (below(random, 10) == 0)
        draw->enter.entry.ticket = draw_ticket(record, random);
    if (below(random, 4) == 0) {
        draw->enter.replaces = draw_ticket(record, random);
        draw->enter.try_only = true;
        draw->enter.number = 0;
    }
    draw->step.enter = &draw->enter;
}

static int64_t draw_floor(const hf_record *record, uint64_t *random)
{
    if (below(random, 5))
        return 1;
    return record->token + below(random, 100) + (below(random, 2) ? RECORD_LAG : 0);
}

static void draw_step(struct draw *draw, const hf_record *record, uint64_t *random)
{
    *draw = (struct draw){.now = {draw->now.ms + below(random, 3)},
                          .floor = draw_floor(record, random)};
    draw_leaves(draw, record, random);
    draw_deaths(draw, random);
    draw_change(draw, record, random);
    draw_enter(draw, record, random);
}

/* ---- What must be true ---- */

/* By the entrant, which is in for it. */
static bool is_replaced(const hf_record *after, const struct draw *draw, const hf_entry *entry)
{
    return draw->step.enter && id_equal(draw->enter.replaces, entry->ticket) &&
           !record_find(after, entry->ticket) && record_find(after, draw->enter.entry.ticket);
}

/* What a holder is that was there before: with fewer permits, if the step says so. */
static hf_entry lowered(const struct draw *draw, const hf_entry *holder)
{
    hf_entry entry = *holder;
    const hf_change *change = draw->step.change;
    if (change && id_equal(change->ticket, entry.ticket) && change->permits > 0 &&
        change->permits < entry.permits)
        entry.permits = change->permits;
    return entry;
}

static bool is_taken_out(const struct draw *draw, const hf_entry *entry)
{
    for (size_t i = 0; i < draw->step.n_leaves; i++)
        if (id_equal(draw->leaves[i].ticket, entry->ticket))
            return true;
    for (size_t i = 0; i < draw->step.n_deaths; i++)
        if (id_equal(draw->deaths[i].session, entry->session))
            return true;
    return false;
}

static bool is_same_entry(const hf_entry *a, const hf_entry *b)
{
    return id_equal(a->ticket, b->ticket) && id_equal(a->session, b->session) &&
           a->permits == b->permits && a->token == b->token && a->since.ms == b->since.ms &&
           a->granted_at.ms == b->granted_at.ms && a->number == b->number;
}

/* I2: a waiter has no token, and holders' tokens rise; I3:
 * the head waits only because it does not fit. */
static void check_shape(const hf_record *record)
{
    int64_t sum = 0, token = 0;
    for (size_t i = 0; i < record->holders; i++) {
        sum += record->entries[i].permits;
        assert_true(record->entries[i].token > token);
        token = record->entries[i].token;
    }
    assert_true(token <= record->token);
    for (size_t i = 0; i < record->queued; i++)
        assert_int_equal(record->entries[record->holders + i].token, 0);
    for (size_t i = 1; i < record->queued; i++)
        assert_true(record->entries[record->holders + i].number >=
                    record->entries[record->holders + i - 1].number);
    assert_true(record->reached <= record->given);
    if (record->queued)
        assert_true(sum + record->entries[record->holders].permits > record->limit);
}

static void check_no_ticket_twice(const hf_record *record)
{
    size_t n = record->holders + record->queued;
    for (size_t i = 0; i < n; i++)
        assert_ptr_equal(record_find(record, record->entries[i].ticket), &record->entries[i]);
}

/* Behind those with a lower number. */
static size_t pass_entrant(const hf_record *before, const hf_record *after, const struct draw *draw,
                           size_t at)
{
    hf_id ticket = draw->enter.entry.ticket;
    bool is_new = draw->step.enter && at < after->holders + after->queued &&
                  id_equal(after->entries[at].ticket, ticket) &&
                  (!record_find(before, ticket) || is_taken_out(draw, record_find(before, ticket)));
    return is_new ? at + 1 : at;
}

/* I4: what stays keeps its order; new are only the entrant, at its place. An entry changes only by
 * being granted, and those granted were the first that waited. */
static void check_order(const hf_record *before, const hf_record *after, const struct draw *draw)
{
    size_t at = 0, n = after->holders + after->queued;
    for (size_t i = 0; i < before->holders + before->queued; i++) {
        const hf_entry *old = &before->entries[i];
        if (is_taken_out(draw, old))
            continue;
        if (is_replaced(after, draw, old)) {
            assert_int_equal(after->queued, 0); /* it passed nobody */
            continue;
        }
        at = pass_entrant(before, after, draw, at);
        assert_true(at < n);
        hf_entry kept = i < before->holders ? lowered(draw, old) : *old;
        bool was_granted = i >= before->holders && at < after->holders;
        if (was_granted)
            assert_true(after->entries[at].token > before->token);
        else
            assert_true(is_same_entry(&after->entries[at], &kept));
        assert_true(id_equal(after->entries[at++].ticket, old->ticket));
    }
    if (at < n)
        assert_true(id_equal(after->entries[at++].ticket, draw->enter.entry.ticket));
    assert_int_equal(at, n);
}

/* I5: tokens rise with every grant, by nothing else, and respect the floor. */
static void check_tokens(const hf_record *before, const hf_record *after, const struct draw *draw)
{
    int64_t token = before->token;
    for (size_t i = 0; i < after->holders; i++) {
        const hf_entry *entry = &after->entries[i];
        if (entry->token <= before->token)
            continue;
        int64_t lag = before->token ? RECORD_LAG : 0;
        assert_true(entry->token > token && entry->token >= draw->floor - lag);
        assert_true(entry->block <= 1 || entry->token + entry->block - 1 <= draw->floor);
        assert_int_equal(entry->granted_at.ms, draw->now.ms);
        token = entry->token + (entry->block > 1 ? entry->block - 1 : 0);
    }
    assert_int_equal(after->token, token);
}

static void check_notify(const hf_record *before, const hf_record *after, const struct draw *draw)
{
    char expected[64 * 80] = "";
    const hf_entry *replaced = record_find(before, draw->enter.replaces);
    if (replaced && record_position(before, replaced) && is_replaced(after, draw, replaced))
        return; /* its own grant in the same step is told, too */
    for (size_t i = 0; i < after->holders; i++) {
        const hf_entry *entry = &after->entries[i];
        if (entry->token <= before->token)
            continue;
        char session[ID_TEXT_SIZE], ticket[ID_TEXT_SIZE];
        id_write(entry->session, session);
        id_write(entry->ticket, ticket);
        size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s%s:%s:%lld", used ? " " : "", session,
                 ticket, (long long)entry->token);
        used = strlen(expected);
        if (entry->block > 1)
            snprintf(expected + used, sizeof expected - used, ":%d", (int)entry->block);
    }
    const char *old = before->notify ? before->notify : "";
    assert_string_equal(after->notify ? after->notify : "", *expected ? expected : old);
}

/* I6: `last` is of one that held and left in this step; abandoned gives way to higher tokens only.
 */
static void check_last(const hf_record *before, const hf_record *after, const struct draw *draw)
{
    if (memcmp(&before->last, &after->last, sizeof after->last) == 0)
        return;
    const hf_entry *left = NULL;
    for (size_t i = 0; i < before->holders; i++)
        if (before->entries[i].token == after->last.token)
            left = &before->entries[i];
    assert_non_null(left);
    assert_true(is_taken_out(draw, left));
    if (before->last.outcome == HF_OUTCOME_ABANDONED)
        assert_true(after->last.token > before->last.token);
}

static bool is_same(const hf_record *a, const hf_record *b)
{
    size_t n = a->holders + a->queued;
    bool same = a->exists == b->exists && a->limit == b->limit && a->token == b->token &&
                a->holders == b->holders && a->queued == b->queued && a->given == b->given &&
                a->reached == b->reached && memcmp(&a->last, &b->last, sizeof a->last) == 0;
    for (size_t i = 0; same && i < n; i++)
        same = is_same_entry(&a->entries[i], &b->entries[i]);
    return same;
}

/* Then a change can end where it began. */
static bool leaves_and_comes_back(const hf_record *before, const struct draw *draw)
{
    const hf_entry *entry = record_find(before, draw->enter.entry.ticket);
    return draw->step.enter && entry && is_taken_out(draw, entry);
}

static void check_entrant(const hf_record *after, const struct draw *draw)
{
    const hf_enter *enter = &draw->enter;
    record_verdict verdict = record_judge(after, enter);
    const hf_entry *entry = record_find(after, enter->entry.ticket);
    assert_int_equal(verdict == RECORD_HOLDS || verdict == RECORD_WAITS, entry != NULL);
    if (verdict == RECORD_LIMIT)
        assert_int_not_equal(after->limit, enter->limit);
    bool may_set =
        enter->sets_limit && after->limit != enter->limit; /* since one has been granted */
    if (verdict == RECORD_GONE)
        assert_true(enter->entry.permits > enter->limit || !id_is_zero(enter->replaces) || may_set);
}

static bool was_holder(const hf_record *before, hf_id ticket)
{
    for (size_t i = 0; i < before->holders; i++)
        if (id_equal(before->entries[i].ticket, ticket))
            return true;
    return false;
}

/* I1: whatever the limit was before, no grant exceeds it. I7: only one that sets it changes it in
 * use, and from one semaphore's to another's. */
static void check_limit(const hf_record *before, const hf_record *after, const struct draw *draw)
{
    int64_t sum = 0;
    bool any = false;
    for (size_t i = 0; i < after->holders; i++) {
        sum += after->entries[i].permits;
        any |= !was_holder(before, after->entries[i].ticket);
    }
    assert_true(!any || sum <= after->limit);
    bool is_used = after->holders + after->queued > 1; /* by more than the entrant */
    assert_true(after->limit == before->limit || draw->step.enter);
    assert_true(after->limit == before->limit || !is_used || draw->enter.sets_limit ||
                draw->step.n_leaves + draw->step.n_deaths > 0);
}

static void one_step(hf_record *record, struct draw *draw, uint64_t *random)
{
    hf_record before;
    record_copy(&before, record);
    draw_step(draw, record, random);
    bool changed = record_step(record, &draw->step, draw->now, draw->floor);
    check_shape(record);
    check_no_ticket_twice(record);
    check_limit(&before, record, draw);
    check_order(&before, record, draw);
    check_tokens(&before, record, draw);
    check_notify(&before, record, draw);
    check_last(&before, record, draw);
    if (!leaves_and_comes_back(&before, draw))
        assert_int_equal(changed, !is_same(&before, record));
    if (draw->step.enter)
        check_entrant(record, draw);
    record_done(&before);
}

static void test_invariants_hold_after_every_random_step(void **state)
{
    (void)state;
    uint64_t random = test_seed(__func__) * 2 + 1;
    for (int round = 0; round < ROUNDS; round++) {
        hf_record record;
        struct draw draw = {.now = {1000}};
        record_init(&record, "random");
        tickets = 0;
        for (int i = 0; i < STEPS; i++)
            one_step(&record, &draw, &random);
        record_done(&record);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_invariants_hold_after_every_random_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
