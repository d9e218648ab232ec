/* SPDX-License-Identifier: Apache-2.0 */
/* test_sharding_round.c: proves what protocol `sharding` does next in an acquire, whatever the
 * replies are; the server's clock is in the replies. Run by ctest. */
#include "unit.h"

#include "core/sharding.h"

#define EXPIRY 900000
#define NAME "db.coll"

typedef struct manager {
    sharding_history history;
    sharding_round round;
    sharding_settings settings;
    sharding_lock lock; /* what READ_LOCK shows */
    int64_t ping_ms;
    sharding_server server;
} manager;

static const sharding_reply done = {.is_found = true};
static const sharding_reply nothing = {.is_found = false};
static const sharding_reply duplicate = {.code = 11000};

static int begin(void **state)
{
    manager *m = calloc(1, sizeof *m);
    m->settings = sharding_defaults;
    m->lock = (sharding_lock){.process = "host:1:2:3", .ts = id_of(2), .state = 2};
    m->ping_ms = 77;
    m->server = (sharding_server){.is_primary = true, .has_election = true, .election = id_of(9)};
    *state = m;
    return 0;
}

static int end(void **state)
{
    manager *m = *state;
    sharding_history_done(&m->history);
    free(m);
    return 0;
}

static void start(manager *m)
{
    assert_int_equal(sharding_begin(&m->round, NAME, id_of(1), &m->settings), SHARDING_GRAB);
    assert_string_equal(m->round.name, NAME);
}

static sharding_action next(manager *m, sharding_reply reply)
{
    return sharding_next(&m->round, &m->history, &reply);
}

static sharding_action error(manager *m, int32_t code)
{
    return next(m, (sharding_reply){.code = code});
}

/* Answers commands from what the manager would see, until another one than these is wanted. */
static sharding_action see(manager *m, sharding_action todo)
{
    sharding_reply reply = done;
    for (;;) {
        if (todo == SHARDING_GRAB)
            reply = duplicate;
        else if (todo == SHARDING_READ_LOCK)
            reply = (sharding_reply){.is_found = true, .lock = m->lock};
        else if (todo == SHARDING_READ_PING)
            reply = (sharding_reply){.is_found = m->ping_ms != 0, .ping_ms = m->ping_ms};
        else if (todo == SHARDING_READ_SERVER)
            reply = (sharding_reply){.is_found = true, .server = m->server};
        else
            return todo;
        todo = next(m, reply);
    }
}

/* A whole round at a time of the server's, up to a write other than the grab, or its end. */
static sharding_action round_at(manager *m, int64_t server_ms)
{
    m->server.local_time.ms = server_ms;
    start(m);
    return see(m, m->round.action);
}

static void assert_id(hf_id id, unsigned n)
{
    hf_id wanted = id_of(n);
    assert_memory_equal(&id, &wanted, sizeof id);
}

static void assert_busy(manager *m, sharding_action action)
{
    assert_int_equal(action, SHARDING_BUSY);
    assert_int_equal(m->round.again_ms, 500);
}

/* ---- Grab ---- */

static void test_a_free_lock_is_granted_by_the_grab(void **state)
{
    manager *m = *state;
    start(m);
    assert_int_equal(next(m, done), SHARDING_GRANTED);
    assert_id(m->round.ts, 1);
    assert_false(m->round.is_takeover);
}

static void test_duplicate_key_and_no_value_both_mean_another_holds(void **state)
{
    manager *m = *state;
    start(m);
    assert_int_equal(next(m, duplicate), SHARDING_READ_LOCK);
    start(m);
    assert_int_equal(next(m, nothing), SHARDING_READ_LOCK);
}

static void test_a_retriable_error_is_tried_again_after_an_unlock_twice(void **state)
{
    manager *m = *state;
    start(m);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(error(m, 11602), SHARDING_UNLOCK);
        assert_int_equal(next(m, i ? nothing : done), SHARDING_GRAB); /* 0 or 1 unlocked */
    }
    assert_int_equal(error(m, 11602), SHARDING_QUEUE_UNLOCK_AND_FAIL);
    assert_int_equal(m->round.code, 11602);
}

static void test_a_retry_may_be_granted_or_refused(void **state)
{
    manager *m = *state;
    start(m);
    error(m, 9001);
    next(m, done);
    assert_int_equal(next(m, done), SHARDING_GRANTED);
    start(m);
    error(m, 9001);
    next(m, done);
    assert_int_equal(next(m, duplicate), SHARDING_READ_LOCK);
}

static void test_each_round_has_its_two_retries(void **state)
{
    manager *m = *state;
    for (int i = 0; i < 2; i++) {
        start(m);
        assert_int_equal(error(m, 91), SHARDING_UNLOCK);
        assert_int_equal(next(m, done), SHARDING_GRAB);
        assert_int_equal(error(m, 91), SHARDING_UNLOCK);
    }
}

static void test_an_unlock_that_fails_is_queued_and_its_error_returned(void **state)
{
    manager *m = *state;
    start(m);
    error(m, 189);
    assert_int_equal(error(m, 91), SHARDING_QUEUE_UNLOCK_AND_FAIL);
    assert_int_equal(m->round.code, 91);
}

static void test_any_other_error_queues_an_unlock_at_once(void **state)
{
    manager *m = *state;
    const int32_t codes[] = {1, 13, 50, 64, 79, 100, 112, 11601};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        start(m);
        assert_int_equal(error(m, codes[i]), SHARDING_QUEUE_UNLOCK_AND_FAIL);
        assert_int_equal(m->round.code, codes[i]);
    }
}

/* A write-concern error comes with a value; the grab was applied, and still has not succeeded. */
static void test_a_grab_without_its_write_concern_is_a_failure(void **state)
{
    manager *m = *state;
    start(m);
    assert_int_equal(next(m, (sharding_reply){.code = 64, .is_found = true}),
                     SHARDING_QUEUE_UNLOCK_AND_FAIL);
    start(m);
    assert_int_equal(next(m, (sharding_reply){.code = 91, .is_found = true}), SHARDING_UNLOCK);
}

static void test_the_number_of_retries_and_the_poll_can_be_set(void **state)
{
    manager *m = *state;
    m->settings.grab_repeats = 0;
    m->settings.poll_ms = 20;
    start(m);
    assert_int_equal(error(m, 91), SHARDING_QUEUE_UNLOCK_AND_FAIL);
    assert_int_equal(round_at(m, 0), SHARDING_BUSY);
    assert_int_equal(m->round.again_ms, 20);
}

/* ---- Reading the lock ---- */

/* Refused, and nobody holds it: it was freed meanwhile. Never told as held by others at first. */
static void grabs_again_thrice(manager *m, sharding_reply seen)
{
    start(m);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(next(m, duplicate), SHARDING_READ_LOCK);
        assert_int_equal(next(m, seen), SHARDING_GRAB);
    }
    next(m, duplicate);
    assert_busy(m, next(m, seen));
}

static void test_a_lock_that_is_not_there_is_grabbed_again(void **state)
{
    manager *m = *state;
    grabs_again_thrice(m, nothing);
}

static void test_a_lock_that_was_freed_is_grabbed_again_and_never_overtaken(void **state)
{
    manager *m = *state;
    m->lock.ts = id_of(1);
    m->lock.state = 0;
    grabs_again_thrice(m, (sharding_reply){.is_found = true, .lock = m->lock});
}

static void test_my_own_ts_is_overtaken_at_once(void **state)
{
    manager *m = *state;
    m->lock.ts = id_of(1);
    start(m);
    next(m, duplicate);
    assert_int_equal(next(m, (sharding_reply){.is_found = true, .lock = m->lock}),
                     SHARDING_OVERTAKE);
    assert_id(m->round.seen.ts, 1);
    assert_int_equal(next(m, done), SHARDING_GRANTED);
    assert_false(m->round.is_takeover);
}

static void test_states_of_old_servers_are_held(void **state)
{
    manager *m = *state;
    m->lock.state = 1;
    round_at(m, 0);
    assert_int_equal(m->history.n, 1);
    assert_int_equal(round_at(m, EXPIRY), SHARDING_OVERTAKE);
}

static void test_an_error_of_a_read_fails_and_queues_nothing(void **state)
{
    manager *m = *state;
    start(m);
    next(m, duplicate);
    assert_int_equal(error(m, 11602), SHARDING_FAIL);
    assert_int_equal(m->round.code, 11602);
    start(m);
    next(m, duplicate);
    next(m, (sharding_reply){.is_found = true, .lock = m->lock});
    assert_int_equal(error(m, 9001), SHARDING_FAIL);
    assert_int_equal(m->round.code, 9001);
    start(m);
    next(m, duplicate);
    next(m, (sharding_reply){.is_found = true, .lock = m->lock});
    next(m, done);
    assert_int_equal(error(m, 13), SHARDING_FAIL);
    assert_int_equal(m->round.code, 13);
}

/* ---- Judging and overtaking ---- */

static void test_an_owner_is_looked_at_by_its_process_then_the_server(void **state)
{
    manager *m = *state;
    start(m);
    next(m, duplicate);
    assert_int_equal(next(m, (sharding_reply){.is_found = true, .lock = m->lock}),
                     SHARDING_READ_PING);
    assert_string_equal(m->round.seen.process, "host:1:2:3");
    assert_int_equal(next(m, (sharding_reply){.is_found = true, .ping_ms = 5}),
                     SHARDING_READ_SERVER);
    assert_busy(m, next(m, (sharding_reply){.is_found = true, .server = m->server}));
    assert_int_equal(m->history.memories->ping_ms, 5);
}

static void test_an_owner_without_a_ping_counts_as_of_the_epoch(void **state)
{
    manager *m = *state;
    start(m);
    next(m, duplicate);
    next(m, (sharding_reply){.is_found = true, .lock = m->lock});
    next(m, (sharding_reply){.is_found = false, .ping_ms = m->ping_ms});
    assert_busy(m, next(m, (sharding_reply){.is_found = true, .server = m->server}));
    assert_int_equal(m->history.memories->ping_ms, SHARDING_NO_PING);
    m->ping_ms = 0;
    assert_int_equal(round_at(m, EXPIRY), SHARDING_OVERTAKE);
}

static void test_an_expired_lock_is_overtaken_by_the_ts_that_was_seen(void **state)
{
    manager *m = *state;
    assert_busy(m, round_at(m, 0));
    assert_busy(m, round_at(m, EXPIRY - 1));
    assert_int_equal(round_at(m, EXPIRY), SHARDING_OVERTAKE);
    assert_id(m->round.seen.ts, 2);
    assert_int_equal(next(m, done), SHARDING_GRANTED);
    assert_true(m->round.is_takeover);
    assert_int_equal(m->history.n, 0);
}

static void test_the_expiry_can_be_set(void **state)
{
    manager *m = *state;
    m->settings.expiry_ms = 2000;
    round_at(m, 0);
    assert_busy(m, round_at(m, 1999));
    assert_int_equal(round_at(m, 2000), SHARDING_OVERTAKE);
}

/* This process was stopped after it had read the ping, for longer than the expiry: the server's
 * time says expired, but the owner has pinged all the while. */
static void test_an_owner_that_pings_while_we_were_stopped_is_not_overtaken(void **state)
{
    manager *m = *state;
    round_at(m, 0);
    start(m);
    next(m, duplicate);
    next(m, (sharding_reply){.is_found = true, .lock = m->lock});
    next(m, (sharding_reply){.is_found = true, .ping_ms = m->ping_ms});
    m->server.local_time.ms = EXPIRY;
    assert_int_equal(next(m, (sharding_reply){.is_found = true, .server = m->server}),
                     SHARDING_READ_PING);
    assert_busy(m, next(m, (sharding_reply){.is_found = true, .ping_ms = m->ping_ms + 1}));
    m->ping_ms++;
    assert_busy(m, round_at(m, EXPIRY + 1));
    assert_busy(m, round_at(m, 2 * EXPIRY));
    assert_int_equal(round_at(m, 2 * EXPIRY + 1), SHARDING_OVERTAKE);
}

static void test_a_ping_that_cannot_be_read_again_fails(void **state)
{
    manager *m = *state;
    round_at(m, 0);
    m->server.local_time.ms = EXPIRY;
    start(m);
    next(m, duplicate);
    next(m, (sharding_reply){.is_found = true, .lock = m->lock});
    next(m, (sharding_reply){.is_found = true, .ping_ms = m->ping_ms});
    next(m, (sharding_reply){.is_found = true, .server = m->server});
    assert_int_equal(error(m, 89), SHARDING_FAIL);
    assert_int_equal(m->round.code, 89);
}

static void test_somebody_who_was_faster_counts_as_busy(void **state)
{
    manager *m = *state;
    round_at(m, 0);
    assert_int_equal(round_at(m, EXPIRY), SHARDING_OVERTAKE);
    assert_busy(m, next(m, nothing));
    assert_int_equal(round_at(m, EXPIRY), SHARDING_OVERTAKE);
    assert_busy(m, next(m, duplicate));
}

static void test_an_overtake_that_fails_queues_an_unlock(void **state)
{
    manager *m = *state;
    const int32_t codes[] = {64, 91, 10107, 9001, 13};
    round_at(m, 0);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        assert_int_equal(round_at(m, EXPIRY), SHARDING_OVERTAKE);
        assert_int_equal(error(m, codes[i]), SHARDING_QUEUE_UNLOCK_AND_FAIL);
        assert_int_equal(m->round.code, codes[i]);
    }
}

static void test_a_server_that_is_not_primary_means_busy(void **state)
{
    manager *m = *state;
    const int32_t codes[] = {10107, 13435, 13436};
    m->server.is_primary = m->server.has_election = false;
    assert_busy(m, round_at(m, 0));
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        start(m);
        next(m, duplicate);
        next(m, (sharding_reply){.is_found = true, .lock = m->lock});
        next(m, done);
        assert_busy(m, error(m, codes[i]));
    }
    assert_int_equal(m->history.n, 0);
}

static void test_a_clock_that_went_back_is_told(void **state)
{
    manager *m = *state;
    round_at(m, 1000);
    assert_false(m->round.clock_went_back);
    m->server.arrived.ns = 2000000;
    assert_busy(m, round_at(m, 999));
    assert_true(m->round.clock_went_back);
    assert_busy(m, round_at(m, 1000));
    assert_false(m->round.clock_went_back);
}

static void test_a_contended_lock_on_a_standalone_server_is_an_error(void **state)
{
    manager *m = *state;
    m->server.has_election = false;
    assert_int_equal(round_at(m, 0), SHARDING_FAIL_FOR_WANT_OF_A_SET);
    start(m);
    assert_int_equal(next(m, done), SHARDING_GRANTED); /* one that is free is had there */
}

static void test_a_lock_that_was_had_is_seen_anew(void **state)
{
    manager *m = *state;
    round_at(m, 0);
    start(m);
    next(m, done);
    assert_int_equal(m->history.n, 0);
    assert_busy(m, round_at(m, EXPIRY));
}

static void test_commands_want_a_reply_and_ends_do_not(void **state)
{
    (void)state;
    for (int i = SHARDING_GRAB; i <= SHARDING_OVERTAKE; i++)
        assert_true(sharding_is_command((sharding_action)i));
    for (int i = SHARDING_GRANTED; i <= SHARDING_FAIL_FOR_WANT_OF_A_SET; i++)
        assert_false(sharding_is_command((sharding_action)i));
}

/* Whatever comes back: a round ends within a few commands, grants only after a write that had its
 * value and no error, grabs again only right after an unlock without error, or a look that shows
 * that nobody holds, overtakes only its own ts or what was twice seen with the same ping, and fails
 * unsure only after a write's error. */
static void test_rounds_keep_the_rules_on_random_replies(void **state)
{
    manager *m = *state;
    static const int32_t codes[] = {0, 0, 0, 0, 11000, 11602, 91, 10107, 64, 13};
    uint64_t seed = test_seed(__func__) | 1;
    int ends[SHARDING_FAIL_FOR_WANT_OF_A_SET + 1] = {0};
    int64_t now = 0;
    for (int i = 0; i < 200000; i++) {
        start(m);
        sharding_action was = SHARDING_UNLOCK, todo = SHARDING_GRAB;
        sharding_reply reply = done;
        int pings = 0, commands = 0;
        int64_t ping = 0;
        for (;; commands++) {
            bool is_unsure = reply.code && reply.code != 11000;
            bool is_free = !reply.is_found || !reply.lock.state;
            assert_in_range(commands, 0, 16);
            if (todo == SHARDING_GRAB)
                assert_true((was == SHARDING_UNLOCK || (was == SHARDING_READ_LOCK && is_free)) &&
                            !reply.code);
            if (todo == SHARDING_OVERTAKE)
                assert_true(pings == 2 || memcmp(&m->round.seen.ts, &m->round.ts, 12) == 0);
            if (todo == SHARDING_GRANTED)
                assert_true((was == SHARDING_GRAB || was == SHARDING_OVERTAKE) && !reply.code &&
                            reply.is_found);
            if (todo == SHARDING_QUEUE_UNLOCK_AND_FAIL)
                assert_true(reply.code != 0 && (was == SHARDING_GRAB || was == SHARDING_UNLOCK ||
                                                was == SHARDING_OVERTAKE));
            if (todo == SHARDING_FAIL)
                assert_true(was >= SHARDING_READ_LOCK && was <= SHARDING_READ_SERVER);
            if (todo == SHARDING_BUSY && (was == SHARDING_GRAB || was == SHARDING_OVERTAKE))
                assert_false(is_unsure);
            if (!sharding_is_command(todo))
                break;
            now += (int64_t)(next_random(&seed) % EXPIRY);
            reply = (sharding_reply){
                .code = codes[next_random(&seed) % (sizeof codes / sizeof *codes)],
                .is_found = next_random(&seed) % 4 > 0,
                .ping_ms = (int64_t)(next_random(&seed) % 2),
                .lock = {.ts = id_of((unsigned)(next_random(&seed) % 3)),
                         .state = (int64_t)(next_random(&seed) % 3)},
                .server = {.local_time = {now},
                           .is_primary = next_random(&seed) % 8 > 0,
                           .has_election = next_random(&seed) % 8 > 0},
            };
            if (todo == SHARDING_READ_PING) {
                int64_t shown = reply.is_found ? reply.ping_ms : 0;
                pings = pings && shown != ping ? 0 : pings + 1;
                ping = shown;
            }
            was = todo;
            todo = next(m, reply);
        }
        ends[todo]++;
    }
    for (int i = SHARDING_GRANTED; i <= SHARDING_FAIL_FOR_WANT_OF_A_SET; i++)
        assert_true(ends[i] > 20); /* the rarest comes about 100 times */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_free_lock_is_granted_by_the_grab),
        TEST(test_duplicate_key_and_no_value_both_mean_another_holds),
        TEST(test_a_retriable_error_is_tried_again_after_an_unlock_twice),
        TEST(test_a_retry_may_be_granted_or_refused),
        TEST(test_each_round_has_its_two_retries),
        TEST(test_an_unlock_that_fails_is_queued_and_its_error_returned),
        TEST(test_any_other_error_queues_an_unlock_at_once),
        TEST(test_a_grab_without_its_write_concern_is_a_failure),
        TEST(test_the_number_of_retries_and_the_poll_can_be_set),
        TEST(test_a_lock_that_is_not_there_is_grabbed_again),
        TEST(test_a_lock_that_was_freed_is_grabbed_again_and_never_overtaken),
        TEST(test_my_own_ts_is_overtaken_at_once),
        TEST(test_states_of_old_servers_are_held),
        TEST(test_an_error_of_a_read_fails_and_queues_nothing),
        TEST(test_an_owner_is_looked_at_by_its_process_then_the_server),
        TEST(test_an_owner_without_a_ping_counts_as_of_the_epoch),
        TEST(test_an_expired_lock_is_overtaken_by_the_ts_that_was_seen),
        TEST(test_the_expiry_can_be_set),
        TEST(test_an_owner_that_pings_while_we_were_stopped_is_not_overtaken),
        TEST(test_a_ping_that_cannot_be_read_again_fails),
        TEST(test_somebody_who_was_faster_counts_as_busy),
        TEST(test_an_overtake_that_fails_queues_an_unlock),
        TEST(test_a_server_that_is_not_primary_means_busy),
        TEST(test_a_clock_that_went_back_is_told),
        TEST(test_a_contended_lock_on_a_standalone_server_is_an_error),
        TEST(test_a_lock_that_was_had_is_seen_anew),
        TEST(test_commands_want_a_reply_and_ends_do_not),
        TEST(test_rounds_keep_the_rules_on_random_replies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
