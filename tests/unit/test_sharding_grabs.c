/* SPDX-License-Identifier: Apache-2.0 */
/* test_sharding_grabs.c: which locks of protocol sharding a store remembers as its own. */
#include "core/id.h"
#include "faults/mongo_answers.h"
#include "store/mongo/sharding/document.h"
#include "store/mongo/sharding/grabs.h"
#include "store/mongo/sharding/sharding.h"
#include "store/mongo/sharding/waits.h"

static mongo_store *store;

static int begin(void **state)
{
    (void)state;
    store = answers_open("&hfProtocol=sharding");
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

/* Ticket and ts differ, as they do with hfLockSession. */
static void add(unsigned ticket, unsigned ts, unsigned session, int64_t when_ms, char *name)
{
    sharding_grab grab = {.name = name,
                          .ticket = id_of(ticket),
                          .ts = id_of(ts),
                          .session = id_of(session),
                          .when_ms = when_ms};
    sharding_grab other;
    assert_true(sharding_grab_add(store, &grab, &other));
}

static void hold(unsigned ticket, unsigned ts, unsigned session, int64_t when_ms, char *name)
{
    add(ticket, ts, session, when_ms, name);
    sharding_grab_set_stage(store, id_of(ticket), SHARDING_HELD);
}

static sharding_lock lock_of(unsigned ts, int64_t when_ms)
{
    return (sharding_lock){.ts = id_of(ts), .when_ms = when_ms, .state = 2};
}

static bool is_known(unsigned ticket)
{
    return sharding_grab_find(store, id_of(ticket), NULL);
}

static void test_dates_rise_while_the_clock_stands_still(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(sharding_date(store), ANSWERS_WALL_MS + i);
    store->sharding->last_date_ms = ANSWERS_WALL_MS + 100;
    assert_int_equal(sharding_date(store), ANSWERS_WALL_MS + 101);
    store->sharding->last_date_ms = ANSWERS_WALL_MS - 1;
    assert_int_equal(sharding_date(store), ANSWERS_WALL_MS);
}

static void test_what_is_found_is_a_copy_without_its_name(void **state)
{
    (void)state;
    sharding_grab found;
    add(1, 11, 21, 1000, "a");
    add(2, 12, 21, 2000, "b");
    assert_true(sharding_grab_find(store, id_of(1), &found));
    assert_int_equal(found.when_ms, 1000);
    assert_true(id_equal(found.ts, id_of(11)));
    assert_null(found.name);
    assert_null(found.next);
    assert_false(is_known(11));
}

static void test_one_ticket_stands_there_once(void **state)
{
    (void)state;
    sharding_grab found;
    add(1, 11, 21, 1000, "a");
    add(1, 11, 21, 2000, "a");
    assert_true(sharding_grab_find(store, id_of(1), &found));
    assert_int_equal(found.when_ms, 2000);
    assert_null(store->sharding->grabs->next);
    sharding_grab_drop(store, id_of(1));
    assert_false(is_known(1));
}

static void test_a_drop_takes_one_and_an_end_takes_all_of_a_session(void **state)
{
    (void)state;
    add(1, 11, 21, 1, "a");
    add(2, 12, 22, 1, "b");
    add(3, 13, 21, 1, "c");
    add(4, 14, 22, 1, "d");
    sharding_grab_drop(store, id_of(4));
    assert_true(is_known(1) && is_known(2) && is_known(3) && !is_known(4));
    assert_true(sharding_grabs_any_of(store, id_of(21)));
    sharding_grabs_drop_of(store, id_of(21));
    assert_true(!is_known(1) && is_known(2) && !is_known(3));
    assert_false(sharding_grabs_any_of(store, id_of(21)));
    assert_true(sharding_grabs_any_of(store, id_of(22)));
}

static void test_a_date_and_a_stage_are_of_one_ticket(void **state)
{
    (void)state;
    sharding_grab one, other;
    add(1, 11, 21, 1, "a");
    add(2, 12, 21, 1, "b");
    sharding_grab_set_date(store, id_of(1), 7);
    sharding_grab_set_stage(store, id_of(1), SHARDING_LEAVING);
    sharding_grab_set_date(store, id_of(9), 8);
    sharding_grab_set_stage(store, id_of(9), SHARDING_HELD);
    assert_true(sharding_grab_find(store, id_of(1), &one));
    assert_true(sharding_grab_find(store, id_of(2), &other));
    assert_int_equal(one.when_ms, 7);
    assert_int_equal(one.stage, SHARDING_LEAVING);
    assert_int_equal(other.when_ms, 1);
    assert_int_equal(other.stage, SHARDING_ASKED);
}

static bool may_ask(unsigned ticket, unsigned ts, const char *name, sharding_grab *other)
{
    sharding_grab grab = {
        .name = (char *)(uintptr_t)name, .ticket = id_of(ticket), .ts = id_of(ts)};
    return sharding_grab_add(store, &grab, other);
}

/* It could overtake what has its ts, also while the first still asks or is leaving. */
static void test_of_two_with_one_ts_the_second_does_not_ask(void **state)
{
    (void)state;
    sharding_grab other;
    add(1, 11, 21, 5, "a");
    for (int stage = SHARDING_ASKED; stage <= SHARDING_LEAVING; stage++) {
        sharding_grab_set_stage(store, id_of(1), (sharding_stage)stage);
        assert_false(may_ask(2, 11, "a", &other));
        assert_true(id_equal(other.ticket, id_of(1)));
        assert_int_equal(other.when_ms, 5);
        assert_null(other.name);
        assert_false(is_known(2));
    }
    assert_true(may_ask(2, 12, "a", &other));
    assert_true(may_ask(3, 11, "b", &other));
    assert_true(may_ask(1, 11, "a", &other));
    sharding_grab_drop(store, id_of(1));
    assert_true(may_ask(4, 11, "a", &other));
}

static void test_a_lock_is_found_by_ts_date_and_name(void **state)
{
    (void)state;
    sharding_grab found;
    sharding_lock lock = lock_of(11, 5), other_ts = lock_of(12, 5), other_date = lock_of(11, 6);
    add(1, 11, 21, 5, "a");
    assert_true(sharding_grab_of_lock(store, "a", &lock, &found));
    assert_true(id_equal(found.ticket, id_of(1)));
    assert_false(sharding_grab_of_lock(store, "b", &lock, &found));
    assert_false(sharding_grab_of_lock(store, "a", &other_ts, &found));
    assert_false(sharding_grab_of_lock(store, "a", &other_date, &found));
}

static void test_an_older_one_is_held_with_the_same_ts_since_another_date(void **state)
{
    (void)state;
    sharding_lock same = lock_of(11, 5), later = lock_of(11, 6), other = lock_of(12, 6);
    add(1, 11, 21, 5, "a");
    assert_false(sharding_grab_is_older(store, &later)); /* asked for only */
    sharding_grab_set_stage(store, id_of(1), SHARDING_HELD);
    assert_true(sharding_grab_is_older(store, &later));
    assert_false(sharding_grab_is_older(store, &same));
    assert_false(sharding_grab_is_older(store, &other));
}

static void test_what_is_asked_for_accounts_for_any_date(void **state)
{
    (void)state;
    sharding_lock same = lock_of(11, 5), later = lock_of(11, 6), other = lock_of(12, 5);
    add(1, 11, 21, 5, "a");
    assert_true(sharding_grab_accounts_for(store, "a", &later));
    assert_false(sharding_grab_accounts_for(store, "b", &later));
    assert_false(sharding_grab_accounts_for(store, "a", &other));
    sharding_grab_set_stage(store, id_of(1), SHARDING_HELD);
    assert_true(sharding_grab_accounts_for(store, "a", &same));
    assert_false(sharding_grab_accounts_for(store, "a", &later));
    sharding_grab_set_stage(store, id_of(1), SHARDING_LEAVING);
    assert_true(sharding_grab_accounts_for(store, "a", &same));
    assert_false(sharding_grab_accounts_for(store, "a", &later));
}

static void test_marks_are_what_a_session_holds_by_date_and_ts(void **state)
{
    (void)state;
    static const unsigned expected[] = {14, 11, 12, 13};
    size_t n;
    hold(1, 11, 21, 5, "a");
    hold(4, 14, 21, 2, "d");
    hold(3, 13, 21, 5, "c");
    hold(2, 12, 21, 5, "b");
    add(5, 15, 21, 5, "asked");
    hold(6, 16, 22, 5, "other");
    add(7, 17, 21, 5, "leaving");
    sharding_grab_set_stage(store, id_of(7), SHARDING_LEAVING);
    sharding_mark *marks = sharding_grabs_marks(store, id_of(21), &n);
    assert_int_equal(n, 4);
    for (size_t i = 0; i < n; i++) {
        sharding_mark same = {id_of(expected[i]), i ? 5 : 2};
        assert_int_equal(sharding_mark_compare(&marks[i], &same), 0);
    }
    free(marks);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_dates_rise_while_the_clock_stands_still),
        TEST(test_what_is_found_is_a_copy_without_its_name),
        TEST(test_one_ticket_stands_there_once),
        TEST(test_a_drop_takes_one_and_an_end_takes_all_of_a_session),
        TEST(test_a_date_and_a_stage_are_of_one_ticket),
        TEST(test_of_two_with_one_ts_the_second_does_not_ask),
        TEST(test_a_lock_is_found_by_ts_date_and_name),
        TEST(test_an_older_one_is_held_with_the_same_ts_since_another_date),
        TEST(test_what_is_asked_for_accounts_for_any_date),
        TEST(test_marks_are_what_a_session_holds_by_date_and_ts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
