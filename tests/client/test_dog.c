/* SPDX-License-Identifier: Apache-2.0 */
/* test_dog.c: a lock that is not fed, or is held for too long, is lost in time, and its worker has
 * the time of the notice to stop in. */
#include "client/client_bed.h"

static hf_last last_of(hf_lock *lock)
{
    hf_last last;
    hf_error err;
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
    return last;
}

#define FEED 200
#define NOTICE 400

static atomic_llong lost_at, left_ms;

static void lost(void *ctx, hf_lock *lock, const hf_error *why, int64_t left)
{
    (void)lock;
    snprintf(ctx, sizeof why->text, "%s", why->text);
    atomic_store(&left_ms, left);
    atomic_store(&lost_at, now_ms());
}

static char reason[512];

static hf_lock *take_with_dog(hf_client *client, int64_t feed_ms, int64_t max_hold_ms)
{
    hf_lock_options options = {
        .feed_ms = feed_ms, .max_hold_ms = max_hold_ms, .on_lost = lost, .lost_ctx = reason};
    hf_lock *lock;
    hf_error err;
    atomic_store(&lost_at, 0);
    assert_int_equal(hf_lock_acquire(client, "x", &options, &lock, &err), HF_OK);
    return lock;
}

static hf_client *open_with_notice(const char *uri)
{
    hf_options options = {.ttl_ms = 10000, .stop_margin_ms = NOTICE};
    hf_client *client;
    hf_error err;
    assert_int_equal(hf_open(uri, &options, &client, &err), HF_OK);
    return client;
}

static void test_who_does_not_feed_loses_the_lock_and_has_its_time_to_stop(void **state)
{
    (void)state;
    hf_client *loser = open_with_notice("memory:hungry"), *next = open_client("memory:hungry", 0);
    int64_t begun = now_ms();
    hf_error err;
    hf_lock *lock = take_with_dog(loser, FEED, 0), *had = take(next, "x");
    int64_t had_at = now_ms();
    assert_true(lost_at >= begun + FEED);
    assert_true(left_ms <= NOTICE);
    assert_true(had_at >= lost_at + left_ms - 2); /* each of the three is rounded down */
    assert_true(had_at >= begun + FEED + NOTICE - 2);
    assert_string_equal(reason, "x: it was not fed for 200 ms");
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_LOST);
    assert_string_equal(err.text, reason);
    hf_last last = last_of(had);
    assert_int_equal(last.outcome, HF_OUTCOME_ABANDONED);
    assert_string_equal(last.reason, "it was not fed for 200 ms");
    hf_lock_close(had);
    hf_lock_close(lock);
    hf_close(loser);
    hf_close(next);
}

static void test_who_feeds_keeps_the_lock(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    faulty *f = faulty_open_still("memory:fed", NULL, &client);
    hf_lock *lock = take_with_dog(client, 2 * FEED, 0);
    for (int i = 0; i < 10; i++) {
        faulty_pass(f, 2 * FEED - 1);
        belief_tick(client, client_now(client));
        assert_int_equal(hf_lock_feed(lock, &err), HF_OK);
    }
    int64_t left;
    assert_int_equal(hf_lock_check(lock, &left, &err), HF_OK);
    assert_int_equal(left, 2 * FEED);
    loss_notify_tick(client, client_now(client));
    assert_int_equal(lost_at, 0);
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    hf_lock_close(lock);
    lock = take(client, "x");
    assert_int_equal(last_of(lock).outcome, HF_OUTCOME_RELEASED);
    assert_string_equal(last_of(lock).reason, "");
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    hf_lock_close(lock);
    hf_close(client);
}

static void test_food_that_comes_too_late(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    hf_options options = {.ttl_ms = 10000, .stop_margin_ms = NOTICE};
    faulty *f = faulty_open_still("memory:late", &options, &client);
    hf_lock *lock = take_with_dog(client, FEED, 0);
    faulty_pass(f, FEED);
    assert_int_equal(hf_lock_feed(lock, &err), HF_LOST);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_LOST);
    loss_notify_tick(client, client_now(client));
    assert_int_equal(left_ms, NOTICE);
    hf_lock_close(lock);
    faulty_pass(f, NOTICE);
    upkeep_tick(client, client_now(client));
    hf_close(client);
}

static void test_held_for_too_long_though_fed(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:", 10000);
    hf_error err;
    hf_code code = HF_OK;
    int64_t begun = now_ms();
    hf_lock *lock = take_with_dog(client, 9000, 3 * FEED); /* a slow moment is no hunger */
    while (!code) {
        pause_ms(FEED / 10);
        code = hf_lock_feed(lock, &err);
    }
    assert_int_equal(code, HF_LOST);
    assert_true(now_ms() >= begun + 3 * FEED);
    assert_string_equal(err.text, "x: it was held for longer than 600 ms");
    hf_lock_close(lock);
    lock = take(client, "x");
    assert_string_equal(last_of(lock).reason, "it was held for longer than 600 ms");
    hf_lock_close(lock);
    hf_close(client);
}

/* The work has stopped: no need to wait for the end of the notice. */
static void test_closing_a_lost_lock_frees_it_at_once(void **state)
{
    (void)state;
    hf_options options = {.ttl_ms = 20000, .stop_margin_ms = 10000};
    hf_client *client;
    hf_error err;
    assert_int_equal(hf_open("memory:", &options, &client, &err), HF_OK);
    hf_lock *lock = take_with_dog(client, FEED, 0);
    while (!lost_at)
        pause_ms(1);
    int64_t closed_at = idle_ms();
    hf_lock_close(lock);
    lock = take(client, "x");
    assert_true(idle_ms() - closed_at < 5000);
    assert_string_equal(last_of(lock).reason, "it was not fed for 200 ms");
    hf_lock_close(lock);
    hf_close(client);
}

static gate beats;

static hf_code hang_beats(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    if (call == FAULTY_BEAT)
        gate_pass(&beats);
    return HF_OK;
}

/* The deadline is watched by the thread that calls no store (R7). */
static void test_a_beat_that_hangs_keeps_nobody_from_losing_it_in_time(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open("memory:", NULL, &client);
    f->before = hang_beats;
    gate_shut(&beats);
    int64_t begun = now_ms();
    hf_lock *lock = take_with_dog(client, 0, 500);
    send_beat(f, client);
    while (!lost_at) /* the beat hangs until it is */
        pause_ms(1);
    gate_open(&beats);
    assert_true(lost_at >= begun + 500);
    assert_string_equal(reason, "x: it was held for longer than 500 ms");
    hf_lock_close(lock);
    hf_close(client);
}

static void test_without_a_dog_feeding_does_nothing(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:", 10000);
    hf_error err;
    hf_lock *lock = take(client, "x");
    assert_int_equal(hf_lock_feed(lock, &err), HF_OK);
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    assert_int_equal(hf_lock_feed(lock, &err), HF_LOST);
    hf_lock_close(lock);
    hf_close(client);
}

static void test_times_that_cannot_be(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:", 10000);
    hf_lock_options wrong[] = {{.feed_ms = -1}, {.max_hold_ms = -1}};
    hf_lock *lock;
    hf_error err;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hf_lock_acquire(client, "x", &wrong[i], &lock, &err), HF_INVALID);
        assert_non_null(strstr(err.text, "negative"));
    }
    hf_close(client);
}

static atomic_bool has_begun, has_ended;

static void take_long(void *ctx, hf_lock *lock, const hf_error *why, int64_t left)
{
    (void)ctx, (void)lock, (void)why, (void)left;
    atomic_store(&has_begun, true);
    pause_ms(300);
    atomic_store(&has_ended, true);
}

/* Returns when the callback has begun. */
static hf_lock *lose_slowly(hf_client *client)
{
    hf_lock_options options = {.feed_ms = FEED, .on_lost = take_long};
    hf_lock *lock;
    hf_error err;
    has_begun = has_ended = false;
    assert_int_equal(hf_lock_acquire(client, "x", &options, &lock, &err), HF_OK);
    while (!has_begun)
        pause_ms(1);
    return lock;
}

/* What it uses may go when the call has returned. */
static void test_closing_a_lock_waits_for_its_callback(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:", 10000);
    hf_lock_close(lose_slowly(client));
    assert_true(has_ended);
    hf_close(client);
}

static void test_closing_a_client_waits_for_its_callbacks(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:", 10000);
    hf_lock *lock = lose_slowly(client);
    hf_close(client);
    assert_true(has_ended);
    hf_lock_close(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_does_not_feed_loses_the_lock_and_has_its_time_to_stop),
        cmocka_unit_test(test_who_feeds_keeps_the_lock),
        cmocka_unit_test(test_food_that_comes_too_late),
        cmocka_unit_test(test_held_for_too_long_though_fed),
        cmocka_unit_test(test_closing_a_lost_lock_frees_it_at_once),
        cmocka_unit_test(test_closing_a_lock_waits_for_its_callback),
        cmocka_unit_test(test_closing_a_client_waits_for_its_callbacks),
        cmocka_unit_test(test_a_beat_that_hangs_keeps_nobody_from_losing_it_in_time),
        cmocka_unit_test(test_without_a_dog_feeding_does_nothing),
        cmocka_unit_test(test_times_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
