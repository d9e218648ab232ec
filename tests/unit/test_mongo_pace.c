/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_pace.c: how many writes reach the server, by the times in its replies, and that a
 * store looks from time to time where a change stream would read too many. */
#include "faults/mongo_answers.h"
#include "store/mongo/shared/pace.h"

#include <pthread.h>

#define NONE "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': [], 'nextBatch': []}}"

static mongo_store *store;
static char heard[200];

static hf_stamp at(uint32_t second, uint32_t ordinal)
{
    return (hf_stamp){(uint64_t)second << 32 | ordinal};
}

static void hear(void *ctx, const hf_notice *notice)
{
    (void)ctx;
    static const char *const kinds[] = {"grant", "recall", "look", "name", "verify"};
    strcat(strcat(heard, kinds[notice->kind]), " ");
}

static void open_with(const char *keys)
{
    store = answers_open(keys);
    answers_give_always("aggregate", NONE);
    answers_give_always("getMore", NONE);
    answers_give_always("killCursors", "{'ok': 1}");
}

static int begin(void **state)
{
    (void)state;
    open_with("&hfProtocol=ttl");
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

/* Awaits for a millisecond, after a reply with that stamp. */
static void await_after(uint32_t second, uint32_t ordinal)
{
    hf_error err;
    heard[0] = '\0';
    atomic_store(&store->latest, at(second, ordinal).value);
    assert_int_equal(
        store->base.ops->await(&store->base, id_of(1), (hf_stamp){0}, 1, hear, NULL, &err), HF_OK);
}

/* ---- The estimate ---- */

static void test_it_is_twice_the_median_of_eight_seconds(void **state)
{
    (void)state;
    static const uint32_t ordinals[] = {300, 9000, 2, 400, 350, 9000, 420, 9000};
    mongo_pace pace = {.n = 0};
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(mongo_pace_writes(&pace), 0);
        mongo_pace_note(&pace, at(10 + i, ordinals[i]));
    }
    assert_int_equal(mongo_pace_writes(&pace), 840);
}

static void test_two_quiet_seconds_of_three_are_believed(void **state)
{
    (void)state;
    mongo_pace pace = {.n = 0};
    uint32_t second = 1;
    for (; second <= 20; second++)
        mongo_pace_note(&pace, at(second, 500));
    mongo_pace_note(&pace, at(second++, 1));
    assert_int_equal(mongo_pace_writes(&pace), 1000);
    mongo_pace_note(&pace, at(second++, 1));
    assert_int_equal(mongo_pace_writes(&pace), 2);
    for (int i = 0; i < 2; i++)
        mongo_pace_note(&pace, at(second++, 700));
    assert_int_equal(mongo_pace_writes(&pace), 1000);
}

static void test_the_highest_of_a_second_counts(void **state)
{
    (void)state;
    mongo_pace pace = {.n = 0};
    for (uint32_t i = 1; i <= 8; i++) {
        mongo_pace_note(&pace, at(i, 5));
        mongo_pace_note(&pace, at(i, 70));
        mongo_pace_note(&pace, at(i, 6));
        mongo_pace_note(&pace, at(i - 1, 900)); /* late, or no time at all */
    }
    assert_int_equal(mongo_pace_writes(&pace), 140);
}

static void test_only_the_last_seconds_count(void **state)
{
    (void)state;
    mongo_pace pace = {.n = 0};
    uint32_t second = 1;
    for (; second <= 20; second++)
        mongo_pace_note(&pace, at(second, 1));
    for (; second <= 20 + MONGO_PACE_SECONDS / 2 - 1; second++)
        mongo_pace_note(&pace, at(second, 500));
    assert_int_equal(mongo_pace_writes(&pace), 2);
    mongo_pace_note(&pace, at(second++, 500));
    assert_int_equal(mongo_pace_writes(&pace), 1000);
}

/* ---- What follows ---- */

static void become_busy(uint32_t ordinal)
{
    for (uint32_t second = 1; second <= 8; second++)
        await_after(second, ordinal);
}

static void test_a_stream_is_left_where_others_write_much(void **state)
{
    (void)state;
    for (uint32_t second = 1; second <= 7; second++)
        await_after(second, 251);
    assert_int_equal(answers_sent("getMore"), 7);
    assert_string_equal(heard, "");
    await_after(8, 251);
    assert_int_equal(answers_sent("killCursors"), 1);
    assert_int_equal(answers_sent("getMore"), 7);
    assert_string_equal(heard, "verify ");
    assert_non_null(strstr(answers_log(), "about 502 writes a second"));
    await_after(9, 251);
    assert_string_equal(heard, "verify ");
    assert_int_equal(answers_sent("aggregate"), 1);
    assert_int_equal(answers_sent("killCursors"), 1);
}

static void test_five_hundred_are_not_too_many(void **state)
{
    (void)state;
    for (uint32_t second = 1; second <= 20; second++)
        await_after(second, 250);
    assert_int_equal(answers_sent("getMore"), 20);
}

static void test_it_comes_back_at_half_as_many(void **state)
{
    (void)state;
    uint32_t second = 9;
    become_busy(1000);
    for (; second <= 20; second++)
        await_after(second, 126);
    assert_int_equal(answers_sent("aggregate"), 1);
    for (; second <= 22; second++)
        await_after(second, 125);
    assert_int_equal(answers_sent("aggregate"), 2);
    assert_null(strstr(answers_last("aggregate"), "startAtOperationTime"));
}

/* What was missed meanwhile may have been news. */
static void test_everybody_looks_when_it_comes_back(void **state)
{
    (void)state;
    uint32_t second = 9;
    become_busy(1000);
    while (answers_sent("aggregate") < 2 && second < 100)
        await_after(second++, 1);
    assert_string_equal(heard, "look ");
}

static void test_what_the_stream_replies_counts(void **state)
{
    (void)state;
    char reply[200];
    answers_close(store);
    store = answers_open("&hfProtocol=ttl");
    answers_give("aggregate", NONE);
    answers_give("killCursors", "{'ok': 1}");
    for (int second = 1; second <= 8; second++) {
        snprintf(reply, sizeof reply,
                 "{'ok': 1, 'operationTime': {'$timestamp': {'t': %d, 'i': 1000}},"
                 " 'cursor': {'id': 5, 'nextBatch': []}}",
                 second);
        answers_give("getMore", reply);
        await_after(0, 0);
    }
    await_after(0, 0);
    assert_string_equal(heard, "verify ");
}

static void test_the_user_says_how_many(void **state)
{
    (void)state;
    answers_close(store);
    open_with("&hfProtocol=ttl&hfStreamWrites=20");
    become_busy(11);
    assert_string_equal(heard, "verify ");
}

/* Where bells are refused: recalls were missed, too. */
static void test_the_queue_looks(void **state)
{
    (void)state;
    answers_close(store);
    open_with("");
    atomic_store(&store->queue->bells.are_refused, true);
    become_busy(1000);
    assert_string_equal(heard, "look ");
}

/* ---- Waking ---- */

static void test_a_wake_before_it_ends_it_at_once(void **state)
{
    (void)state;
    become_busy(1000);
    store->base.ops->wake(&store->base);
    await_after(9, 1000);
    assert_string_equal(heard, "");
    await_after(10, 1000);
    assert_string_equal(heard, "verify ");
}

static void *wake_again_and_again(void *is_over)
{
    while (!atomic_load((atomic_bool *)is_over)) {
        store->base.ops->wake(&store->base);
        sched_yield();
    }
    return NULL;
}

static void test_a_wake_meanwhile_ends_it(void **state)
{
    (void)state;
    pthread_t waker;
    atomic_bool is_over = false;
    hf_error err;
    become_busy(1000);
    heard[0] = '\0';
    assert_int_equal(pthread_create(&waker, NULL, wake_again_and_again, &is_over), 0);
    hf_code code =
        store->base.ops->await(&store->base, id_of(1), (hf_stamp){0}, 60000, hear, NULL, &err);
    atomic_store(&is_over, true);
    pthread_join(waker, NULL);
    assert_int_equal(code, HF_OK);
    assert_string_equal(heard, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_twice_the_median_of_eight_seconds),
        cmocka_unit_test(test_two_quiet_seconds_of_three_are_believed),
        cmocka_unit_test(test_the_highest_of_a_second_counts),
        cmocka_unit_test(test_only_the_last_seconds_count),
        TEST(test_a_stream_is_left_where_others_write_much),
        TEST(test_five_hundred_are_not_too_many),
        TEST(test_it_comes_back_at_half_as_many),
        TEST(test_everybody_looks_when_it_comes_back),
        TEST(test_what_the_stream_replies_counts),
        TEST(test_the_user_says_how_many),
        TEST(test_the_queue_looks),
        TEST(test_a_wake_before_it_ends_it_at_once),
        TEST(test_a_wake_meanwhile_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
