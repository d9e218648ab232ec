/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd_board.c: what counts as a change of a lock, and where those of a prefix are. Run by
 * ctest.
 */
#include "unit.h"

#include "show/board.h"

/* ---- Changes ---- */

static const hf_entry_info an_entry = {.session = "01",
                                       .who = "me",
                                       .actor = "thread",
                                       .why = "work",
                                       .token = 7,
                                       .permits = 2,
                                       .since_ms = 1000,
                                       .granted_ms = 2000,
                                       .lease_left_ms = 9000,
                                       .position = 1};

/* A lock with everything in it, and the same once more. */
typedef struct pair {
    hf_entry_info holder, waiter, same_holder, same_waiter;
    hf_lock_info one, other;
} pair;

static void make(pair *p)
{
    const hf_last last = {.outcome = HF_OUTCOME_RELEASED,
                          .who = "you",
                          .token = 6,
                          .has_exit_status = true,
                          .exit_status = 3,
                          .at_ms = 900,
                          .period_start_ms = 100,
                          .period_end_ms = 200,
                          .reason = "over",
                          .done = {"her", 5, 4, 800, 100, 200}};
    p->holder = p->waiter = p->same_holder = p->same_waiter = an_entry;
    p->one = p->other = (hf_lock_info){.name = "x",
                                       .limit = 3,
                                       .token = 7,
                                       .n_holders = 1,
                                       .n_queue = 1,
                                       .last = last,
                                       .n_outside = 8};
    p->one.holders = &p->holder;
    p->one.queue = &p->waiter;
    p->other.holders = &p->same_holder;
    p->other.queue = &p->same_waiter;
}

/* With that in the other. */
#define ASSERT_CHANGE(what, value)                                                                 \
    do {                                                                                           \
        pair p;                                                                                    \
        make(&p);                                                                                  \
        assert_true(board_is_same(&p.one, &p.other));                                              \
        p.what = value;                                                                            \
        assert_false(board_is_same(&p.one, &p.other));                                             \
    } while (0)

static void test_a_lock_that_changes(void **state)
{
    (void)state;
    ASSERT_CHANGE(other.name, "y");
    ASSERT_CHANGE(other.limit, 1);
    ASSERT_CHANGE(other.token, 8);
    ASSERT_CHANGE(other.n_holders, 0);
    ASSERT_CHANGE(one.n_holders, 0);
    ASSERT_CHANGE(other.n_queue, 0);
    ASSERT_CHANGE(one.n_queue, 0);
    ASSERT_CHANGE(other.n_outside, 9);
}

static void test_an_entry_that_changes(void **state)
{
    (void)state;
    ASSERT_CHANGE(same_holder.session, "02");
    ASSERT_CHANGE(same_holder.who, "");
    ASSERT_CHANGE(same_holder.actor, "");
    ASSERT_CHANGE(same_holder.why, "");
    ASSERT_CHANGE(same_holder.token, 8);
    ASSERT_CHANGE(same_holder.permits, 1);
    ASSERT_CHANGE(same_holder.since_ms, 1);
    ASSERT_CHANGE(same_holder.granted_ms, 1);
    ASSERT_CHANGE(same_holder.position, 2);
    ASSERT_CHANGE(same_waiter.session, "02");
}

static void test_how_the_last_one_left(void **state)
{
    (void)state;
    ASSERT_CHANGE(other.last.outcome, HF_OUTCOME_ABANDONED);
    ASSERT_CHANGE(other.last.who, "");
    ASSERT_CHANGE(other.last.token, 5);
    ASSERT_CHANGE(other.last.has_exit_status, false);
    ASSERT_CHANGE(other.last.exit_status, 0);
    ASSERT_CHANGE(other.last.at_ms, 1);
    ASSERT_CHANGE(other.last.period_start_ms, 1);
    ASSERT_CHANGE(other.last.period_end_ms, 1);
    ASSERT_CHANGE(other.last.reason, "");
    ASSERT_CHANGE(other.last.done.who, NULL);
    ASSERT_CHANGE(one.last.done.who, NULL);
    ASSERT_CHANGE(other.last.done.token, 1);
    ASSERT_CHANGE(other.last.done.exit_status, 0);
    ASSERT_CHANGE(other.last.done.at_ms, 1);
    ASSERT_CHANGE(other.last.done.period_start_ms, 1);
    ASSERT_CHANGE(other.last.done.period_end_ms, 1);
}

/* It changes all the time. */
static void test_what_is_left_of_a_lease_is_no_change(void **state)
{
    pair p;
    (void)state;
    make(&p);
    p.same_holder.lease_left_ms = p.same_waiter.lease_left_ms = 8000;
    assert_true(board_is_same(&p.one, &p.other));
}

/* ---- Those of a prefix ---- */

static void test_where_a_prefix_begins(void **state)
{
    hf_lock_info locks[] = {{.name = "a"}, {.name = "b/1"}, {.name = "b/2"}, {.name = "c"}};
    const board all = {.n = 4, .locks = locks}, none = {.n = 0};
    (void)state;
    assert_int_equal(board_begin(&all, ""), 0);
    assert_int_equal(board_begin(&all, "a"), 0);
    assert_int_equal(board_begin(&all, "b"), 1);
    assert_int_equal(board_begin(&all, "b/2"), 2);
    assert_int_equal(board_begin(&all, "b/3"), 3);
    assert_int_equal(board_begin(&all, "d"), 4);
    assert_int_equal(board_begin(&none, ""), 0);
    assert_ptr_equal(board_find(&all, "b/2"), &locks[2]);
    assert_null(board_find(&all, "b"));
    assert_null(board_find(&none, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lock_that_changes),
        cmocka_unit_test(test_an_entry_that_changes),
        cmocka_unit_test(test_how_the_last_one_left),
        cmocka_unit_test(test_what_is_left_of_a_lease_is_no_change),
        cmocka_unit_test(test_where_a_prefix_begins),
    };
    return cmocka_run_group_tests_name("httpd board", tests, NULL, NULL);
}
