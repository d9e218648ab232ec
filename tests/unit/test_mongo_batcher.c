/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_batcher.c: which steps may be sent with those of other threads, and how many are in
 * flight at once. */
#include "faults/mongo_answers.h"

static mongo_store *store;
static mongo_member other;
static hf_leave left = {.outcome = HF_OUTCOME_RELEASED};
static const hf_step other_step = {.leaves = &left, .n_leaves = 1};
static hf_record out;

/* All names have been seen, nobody may be sent at once, and another thread waits: a step that
 * may be batched waits as well, leads in the end, and takes that one along. */
static int begin(void **state)
{
    (void)state;
    store = answers_open("");
    memset(store->queue->batcher.seen, 255, sizeof store->queue->batcher.seen);
    other = (mongo_member){.name = "other", .step = &other_step, .state = MEMBER_WAITS};
    pthread_cond_init(&other.changed, NULL);
    store->queue->batcher.first = &other;
    store->queue->batcher.n_waiting = 1;
    store->queue->batcher.few = 0;
    answers_give_always("findAndModify", "{'ok': 0, 'code': 13}");
    answers_give_always("update", "{'ok': 0, 'code': 13}");
    return 0;
}

static int end(void **state)
{
    (void)state;
    pthread_cond_destroy(&other.changed);
    answers_close(store);
    return 0;
}

/* Whether it went with the other. */
static bool is_batched(const hf_step *step, bool has_out)
{
    hf_error err;
    hf_code code = mongo_batcher_step(store, "name", step, has_out ? &out : NULL, NULL, &err);
    assert_int_equal(code, HF_DENIED);
    assert_int_equal(err.code, HF_DENIED);
    return strstr(answers_last("update"), "'other'") != NULL;
}

static hf_enter plain(void)
{
    return (hf_enter){.entry = {.ticket = id_of(7), .session = id_of(1), .permits = 1},
                      .limit = 1,
                      .queue_max = HF_QUEUE_MAX};
}

static void test_a_plain_enter_is_batched(void **state)
{
    (void)state;
    hf_enter enter = plain();
    assert_true(is_batched(&(hf_step){.enter = &enter}, true));
}

static void test_a_leave_is_batched(void **state)
{
    (void)state;
    assert_true(is_batched(&(hf_step){.leaves = &left, .n_leaves = 1}, false));
}

static void test_a_try_goes_alone(void **state)
{
    (void)state;
    hf_enter enter = plain();
    enter.try_only = true;
    assert_false(is_batched(&(hf_step){.enter = &enter}, true));
}

static void test_who_comes_again_goes_alone(void **state)
{
    (void)state;
    hf_enter enter = plain();
    enter.wants_number = true;
    assert_false(is_batched(&(hf_step){.enter = &enter}, true));
}

static void test_more_than_there_is_goes_alone(void **state)
{
    (void)state;
    hf_enter enter = plain();
    enter.entry.permits = 2;
    assert_false(is_batched(&(hf_step){.enter = &enter}, true));
}

static void test_an_enter_whose_record_nobody_wants_goes_alone(void **state)
{
    (void)state;
    hf_enter enter = plain();
    assert_false(is_batched(&(hf_step){.enter = &enter}, false));
}

static void test_a_leave_whose_record_is_wanted_goes_alone(void **state)
{
    (void)state;
    assert_false(is_batched(&(hf_step){.leaves = &left, .n_leaves = 1}, true));
}

static void test_two_leaves_go_alone(void **state)
{
    (void)state;
    hf_leave two[2] = {left, left};
    assert_false(is_batched(&(hf_step){.leaves = two, .n_leaves = 2}, false));
}

static void test_an_upgrade_goes_alone(void **state)
{
    (void)state;
    hf_enter enter = plain();
    enter.replaces = id_of(6);
    assert_false(is_batched(&(hf_step){.enter = &enter}, true));
}

/* With a leave that might travel. */
static void test_what_does_more_goes_alone(void **state)
{
    (void)state;
    hf_death death = {.session = id_of(3)};
    hf_change change = {.ticket = id_of(7), .permits = 1};
    hf_pass pass = {.ticket = id_of(6), .to = id_of(7)};
    hf_step step = {.leaves = &left, .n_leaves = 1};
    hf_step dies = step, changes = step, passes = step;
    dies.deaths = &death;
    dies.n_deaths = 1;
    changes.change = &change;
    passes.pass = &pass;
    assert_false(is_batched(&dies, false));
    assert_false(is_batched(&changes, false));
    assert_false(is_batched(&passes, false));
}

static void test_a_name_that_was_not_seen_goes_alone(void **state)
{
    (void)state;
    hf_enter enter = plain();
    memset(store->queue->batcher.seen, 0, sizeof store->queue->batcher.seen);
    assert_false(is_batched(&(hf_step){.enter = &enter}, true));
}

static void test_only_on_a_set_are_steps_batched(void **state)
{
    (void)state;
    hf_enter enter = plain();
    atomic_store(&store->topology, MONGO_ROUTER);
    assert_false(is_batched(&(hf_step){.enter = &enter}, true));
}

static void test_one_on_the_same_lock_waits(void **state)
{
    (void)state;
    hf_enter enter = plain();
    other.name = "name";
    assert_false(is_batched(&(hf_step){.enter = &enter}, true));
    assert_int_equal(store->queue->batcher.n_waiting, 1);
    assert_int_equal(store->queue->batcher.n_in_flight, 0);
    assert_ptr_equal(store->queue->batcher.first, &other);
    assert_int_equal(other.state, MEMBER_LEADS); /* it is its turn */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_plain_enter_is_batched),
        TEST(test_a_leave_is_batched),
        TEST(test_a_try_goes_alone),
        TEST(test_who_comes_again_goes_alone),
        TEST(test_more_than_there_is_goes_alone),
        TEST(test_an_enter_whose_record_nobody_wants_goes_alone),
        TEST(test_a_leave_whose_record_is_wanted_goes_alone),
        TEST(test_two_leaves_go_alone),
        TEST(test_an_upgrade_goes_alone),
        TEST(test_what_does_more_goes_alone),
        TEST(test_a_name_that_was_not_seen_goes_alone),
        TEST(test_only_on_a_set_are_steps_batched),
        TEST(test_one_on_the_same_lock_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
