/* SPDX-License-Identifier: Apache-2.0 */
/* test_record_blocks.c: proves what a record does for sessions that pass a lock on by themselves:
 * tokens kept for them and given back, and the recall when another ticket waits; run by ctest. */
#include "record_bed.h"

#include "core/notify.h"

static hf_enter yielder(unsigned n, int32_t block)
{
    hf_enter enter = entrant(n, ALL);
    enter.entry.yields = true;
    enter.entry.block = block;
    return enter;
}

static void leave_used(hf_record *record, unsigned ticket, int64_t used)
{
    hf_leave gone = leaver(ticket);
    gone.used_token = used;
    step(record, (hf_step){.leaves = &gone, .n_leaves = 1});
}

static void test_the_next_token_is_above_the_whole_block(void **state)
{
    hf_record *record = *state;
    enter_as(record, yielder(1, 100));
    assert_int_equal(token_of(record, 1), FLOOR);
    enter(record, 2, ALL);
    leave(record, 1);
    assert_int_equal(token_of(record, 2), FLOOR + 100);
}

static void test_a_block_is_kept_at_a_grant_from_the_queue_too(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    enter_as(record, yielder(2, 10));
    enter(record, 3, ALL);
    leave(record, 1);
    assert_int_equal(token_of(record, 2), FLOOR + 1);
    leave(record, 2);
    assert_int_equal(token_of(record, 3), FLOOR + 11);
}

static void test_what_was_not_used_is_given_back(void **state)
{
    hf_record *record = *state;
    enter_as(record, yielder(1, 100));
    leave_used(record, 1, FLOOR + 4);
    assert_int_equal(record->last.token, FLOOR + 4);
    enter(record, 2, ALL);
    assert_int_equal(token_of(record, 2), FLOOR + 5);
}

static void test_nothing_is_given_back_that_was_given_on(void **state)
{
    hf_record *record = *state;
    hf_enter first = entrant(1, 1), second = entrant(2, 1);
    first.entry.block = 100;
    enter_as(record, first);
    enter_as(record, second);
    assert_int_equal(token_of(record, 2), FLOOR + 100);
    leave_used(record, 1, FLOOR);
    assert_int_equal(record->token, FLOOR + 100);
}

static void test_no_token_is_given_back_that_was_never_had(void **state)
{
    hf_record *record = *state;
    enter_as(record, yielder(1, 10));
    leave_used(record, 1, FLOOR - 1);
    assert_int_equal(record->token, FLOOR + 9);
    enter_as(record, yielder(2, 10));
    leave_used(record, 2, FLOOR + 100);
    assert_int_equal(record->token, FLOOR + 19);
}

static void test_the_dead_keep_their_block(void **state)
{
    hf_record *record = *state;
    enter_as(record, yielder(1, 10));
    die(record, 1);
    assert_int_equal(record->token, FLOOR + 9);
}

static void test_a_block_ends_at_the_floor(void **state)
{
    hf_record *record = *state;
    floor_now = FLOOR + 4;
    enter_as(record, yielder(1, 100));
    assert_int_equal(record_find(record, id_of(1))->block, 5);
    assert_int_equal(record->token, FLOOR + 4);
    leave(record, 1);
    enter_as(record, yielder(2, 100));
    assert_int_equal(token_of(record, 2), FLOOR + 5);
    assert_int_equal(record_find(record, id_of(2))->block, 1);
    assert_int_equal(record->token, FLOOR + 5);
}

static void test_a_block_leaves_tokens_for_those_who_wait(void **state)
{
    hf_record *record = *state;
    floor_now = FLOOR + 20;
    enter(record, 1, ALL);
    enter_as(record, yielder(2, 100));
    for (unsigned reader = 3; reader < 13; reader++)
        enter(record, reader, 1);
    leave(record, 1);
    assert_int_equal(token_of(record, 2), FLOOR + 1);
    assert_int_equal(record_find(record, id_of(2))->block, 10);
    leave_used(record, 2, FLOOR + 10);
    assert_int_equal(token_of(record, 12), floor_now);
}

static void test_a_new_record_begins_at_the_floor_with_one_token(void **state)
{
    hf_record *record = *state;
    record->token = 0;
    enter_as(record, yielder(1, 100));
    assert_int_equal(token_of(record, 1), floor_now);
    assert_int_equal(record->token, floor_now);
}

static void test_a_record_that_is_older_lags_by_a_second_at_most(void **state)
{
    hf_record *record = *state;
    floor_now = 5 * RECORD_LAG;
    enter(record, 1, ALL);
    assert_int_equal(token_of(record, 1), 4 * RECORD_LAG);
}

/* The clock of tokens may stand for long: then it rises by one a step. */
static int64_t random_floor(uint64_t *random)
{
    return floor_now + 1 + (next_random(random) % 50 ? 0 : (int64_t)(next_random(random) % 100000));
}

/* Returns the last token that was used: of its block any, and a lost holder gives nothing back. */
static int64_t hold_once(hf_record *record, unsigned ticket, uint64_t *random)
{
    enter_as(record, yielder(ticket, 1 + (int32_t)(next_random(random) % HF_BLOCK_MAX)));
    const hf_entry *entry = record_find(record, id_of(ticket));
    int64_t used = entry->token + (int64_t)(next_random(random) % (uint64_t)entry->block);
    floor_now = random_floor(random);
    if (next_random(random) % 3)
        leave_used(record, ticket, used);
    else
        die(record, ticket);
    floor_now = random_floor(random);
    return used;
}

static void test_a_lost_record_is_followed_by_higher_tokens(void **state)
{
    hf_record *record = *state;
    uint64_t random = test_seed(__func__) * 2 + 1;
    int64_t highest = 0;
    for (unsigned ticket = 1; ticket < 20000; ticket++) {
        if (next_random(&random) % 20 == 0) {
            record_done(record);
            record_init(record, "a");
        }
        int64_t before = highest;
        highest = hold_once(record, ticket, &random);
        assert_true(highest > before);
    }
}

/* What the record tells: the n-th note. */
static notify_note told(const hf_record *record, size_t n)
{
    const char *at = record->notify;
    notify_note note;
    for (size_t i = 0; i <= n; i++)
        assert_true(notify_next(&at, &note));
    return note;
}

static size_t n_told(const hf_record *record)
{
    const char *at = record->notify;
    notify_note note;
    size_t n = 0;
    while (notify_next(&at, &note))
        n++;
    return n;
}

static void test_who_comes_to_wait_recalls(void **state)
{
    hf_record *record = *state;
    enter_as(record, yielder(1, 1));
    enter(record, 2, ALL);
    notify_note note = told(record, 0);
    assert_int_equal(n_told(record), 1);
    assert_int_equal(note.kind, NOTE_RECALL);
    assert_true(id_equal(note.session, id_of(1001)));
    assert_true(id_equal(note.ticket, id_of(2)));
    assert_int_equal(note.token, 0);
    const char *before = record->notify;
    enter(record, 3, ALL); /* it was recalled already */
    assert_ptr_equal(record->notify, before);
}

static void test_who_is_granted_is_recalled_if_more_wait(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    enter_as(record, yielder(2, 1));
    enter(record, 3, ALL);
    leave(record, 1);
    assert_int_equal(n_told(record), 2);
    assert_int_equal(told(record, 0).token, 0); /* first, so that it is heard before the grant */
    assert_true(id_equal(told(record, 0).session, id_of(1002)));
    assert_true(id_equal(told(record, 0).ticket, id_of(3)));
    assert_true(told(record, 1).token > 0);
    leave(record, 2);
    assert_int_equal(n_told(record), 1);
}

static void test_who_does_not_yield_is_not_asked_to(void **state)
{
    hf_record *record = *state;
    enter(record, 1, ALL);
    enter_as(record, yielder(2, 1));
    assert_int_equal(n_told(record), 1); /* the first one's grant, still */
    assert_true(told(record, 0).token > 0);
}

static void test_a_try_recalls_nobody(void **state)
{
    hf_record *record = *state;
    enter_as(record, yielder(1, 1));
    hf_enter try = entrant(2, ALL);
    try.try_only = true;
    enter_as(record, try);
    assert_true(told(record, 0).token > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OLDER_CASE(test_the_next_token_is_above_the_whole_block),
        OLDER_CASE(test_a_block_is_kept_at_a_grant_from_the_queue_too),
        OLDER_CASE(test_what_was_not_used_is_given_back),
        OLDER_CASE(test_nothing_is_given_back_that_was_given_on),
        OLDER_CASE(test_no_token_is_given_back_that_was_never_had),
        OLDER_CASE(test_the_dead_keep_their_block),
        OLDER_CASE(test_a_block_ends_at_the_floor),
        OLDER_CASE(test_a_block_leaves_tokens_for_those_who_wait),
        OLDER_CASE(test_a_new_record_begins_at_the_floor_with_one_token),
        OLDER_CASE(test_a_record_that_is_older_lags_by_a_second_at_most),
        OLDER_CASE(test_a_lost_record_is_followed_by_higher_tokens),
        OLDER_CASE(test_who_comes_to_wait_recalls),
        OLDER_CASE(test_who_is_granted_is_recalled_if_more_wait),
        OLDER_CASE(test_who_does_not_yield_is_not_asked_to),
        OLDER_CASE(test_a_try_recalls_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
