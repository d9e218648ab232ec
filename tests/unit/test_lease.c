/* SPDX-License-Identifier: Apache-2.0 */
/* test_lease.c: proves the arithmetic of leases (R4, R5) with times as arguments; run by ctest. */
#include "unit.h"

#include "core/lease.h"

#define MS 1000000

static void test_holder_stops_before_others_may_judge(void **state)
{
    (void)state;
    for (int64_t ttl = LEASE_TTL_MIN_MS; ttl <= LEASE_TTL_MAX_MS; ttl *= 2) {
        hf_mono sent = at_ms(12345), seen = sent; /* the worst case: seen when it was sent */
        int64_t between = lease_watch_end(seen, ttl).ns - lease_end(sent, ttl).ns;
        assert_int_equal(between, 2 * lease_allowance_ns(ttl));
        assert_true(lease_end(sent, ttl).ns < at_ms(12345 + ttl).ns);
        assert_true(between * 250 >= ttl * MS); /* clocks may differ by 0.4 % over a ttl */
    }
}

static void test_allowance_is_ttl_over_500_and_5_ms(void **state)
{
    (void)state;
    assert_int_equal(lease_allowance_ns(1000), 7 * MS);
    assert_int_equal(lease_allowance_ns(10000), 25 * MS);
    assert_int_equal(lease_end(at_ms(100), 1000).ns, at_ms(1093).ns);
    assert_int_equal(lease_watch_end(at_ms(100), 1000).ns, at_ms(1107).ns);
}

/* R6: no process keeps an ID lease. */
static void test_the_end_of_an_id_lease_needs_the_allowance_only(void **state)
{
    (void)state;
    assert_int_equal(lease_trust_ms(true, 10000, 300000), 300000);
    assert_int_equal(lease_trust_ms(false, 10000, 300000), 26);
    assert_int_equal(lease_trust_ms(false, 10000, 25), 25);
    assert_int_equal(lease_trust_ms(false, 10000, -1), -1); /* never */
}

static void test_two_beats_fail_before_the_lease_ends(void **state)
{
    (void)state;
    hf_mono due = lease_beat_due(at_ms(0), 9000);
    assert_int_equal(due.ns, at_ms(3000).ns);
    assert_int_equal(lease_retry_due(due, 9000).ns, at_ms(3450).ns);
}

static void test_a_retry_is_never_far(void **state)
{
    (void)state;
    assert_int_equal(lease_retry_due(at_ms(1), 10000).ns, at_ms(501).ns);
    assert_int_equal(lease_retry_due(at_ms(1), 30000).ns, at_ms(501).ns);
    assert_int_equal(lease_retry_due(at_ms(1), 3600000).ns, at_ms(501).ns);
}

#define STOP_MARGIN_MS 5500 /* of `run` with a ttl of 20 s or more */

/* An outage begins when a beat is due; the next beat is answered within 4 s of its end. */
static bool outlives(int64_t ttl_ms, int64_t beat_ms, int64_t outage_ms)
{
    int64_t answered_ms = beat_ms + outage_ms + 4000;
    return lease_end(at_ms(0), ttl_ms).ns > at_ms(answered_ms + STOP_MARGIN_MS).ns;
}

static void test_a_lease_of_30_s_outlives_an_outage(void **state)
{
    (void)state;
    for (int64_t ttl_ms = 30000; ttl_ms <= 3600000; ttl_ms += 500) {
        assert_true(outlives(ttl_ms, lease_beat_ms(ttl_ms), 15000));
        assert_true(outlives(ttl_ms, lease_waiting_beat_ms(ttl_ms), 15000));
    }
}

static void test_a_lease_of_40_s_outlives_a_primary_that_hangs(void **state)
{
    (void)state;
    for (int64_t ttl_ms = 40000; ttl_ms <= 3600000; ttl_ms += 500)
        assert_true(outlives(ttl_ms, lease_beat_ms(ttl_ms), 25000));
}

/* What is said of a ttl: `run` need not stop when a beat is answered so long after the outage. */
static void test_what_a_lease_outlives(void **state)
{
    (void)state;
    for (int64_t ttl_ms = LEASE_TTL_MIN_MS; ttl_ms <= LEASE_TTL_MAX_MS; ttl_ms += 250) {
        int64_t answered_ms = ttl_ms < 40000 ? ttl_ms / 10 : 4000;
        int64_t stops_ms = ttl_ms < 20000 ? ttl_ms / 4 : 5000;
        int64_t kills_ms = ttl_ms < 10000 ? ttl_ms / 20 : 500;
        hf_mono over = at_ms(lease_beat_ms(ttl_ms) + lease_outlives_ms(ttl_ms) + answered_ms);
        hf_mono stops = mono_add_ms(lease_end(at_ms(0), ttl_ms), -stops_ms - kills_ms);
        assert_true(lease_outlives_ms(ttl_ms) > 0);
        assert_in_range(stops.ns - over.ns, 0, MS);
    }
}

static void test_the_documents_say_what_a_lease_of_40_s_outlives(void **state)
{
    (void)state;
    assert_int_equal(lease_outlives_ms(40000) / 1000, 25);
    assert_true(outlives(40000, lease_beat_ms(40000), lease_outlives_ms(40000) - 1));
}

static void test_a_proposed_ttl_is_enough_and_no_longer(void **state)
{
    (void)state;
    for (int64_t outage_ms = 0; outage_ms <= 600000; outage_ms += 130) {
        int64_t ttl_ms = lease_that_outlives_ms(outage_ms);
        assert_true(lease_outlives_ms(ttl_ms) >= outage_ms);
        assert_true(ttl_ms == LEASE_TTL_MIN_MS || lease_outlives_ms(ttl_ms - 1000) < outage_ms);
    }
}

/* Beats cost the server something, so they are no closer than that needs. */
static void test_how_often_beats_are_sent(void **state)
{
    static const int64_t of[][3] = {
        {1000, 333, 333},      {10000, 3333, 3333},        {15000, 5000, 5000},
        {20000, 5000, 5000},   {30000, 5000, 5000},        {33000, 5000, 8000},
        {38000, 5000, 12666},  {40000, 5000, 13333},       {43000, 8000, 14333},
        {90000, 30000, 30000}, {3600000, 1200000, 1200000}};
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_int_equal(lease_beat_ms(of[i][0]), of[i][1]);
        assert_int_equal(lease_waiting_beat_ms(of[i][0]), of[i][2]);
    }
}

/* Sessions that began at any time beat at the same moments from their second beat on. */
static void test_beats_fall_into_step(void **state)
{
    (void)state;
    const int64_t every_ms = 3333, step_ms = 555;
    for (int64_t began = 0; began < 2 * every_ms; began += 7) {
        hf_mono due = at_ms(began + every_ms), now = at_ms(began + 3);
        hf_wall wall = {1700000000000 + began + 3};
        hf_mono in_step = lease_in_step(due, every_ms, now, wall);
        assert_true(in_step.ns <= due.ns && in_step.ns > due.ns - step_ms * MS);
        assert_int_equal((1700000000000 + in_step.ns / MS) % step_ms, 0);
    }
}

static void test_a_clock_without_a_date_sets_no_step(void **state)
{
    (void)state;
    assert_int_equal(lease_in_step(at_ms(333), 333, at_ms(0), (hf_wall){-400}).ns, at_ms(333).ns);
    assert_int_equal(lease_in_step(at_ms(5), 5, at_ms(0), (hf_wall){3}).ns, at_ms(5).ns);
}

static void test_adding_saturates(void **state)
{
    (void)state;
    assert_int_equal(mono_add_ms(at_ms(5), 7).ns, at_ms(12).ns);
    assert_int_equal(mono_add_ms(at_ms(5), -7).ns, at_ms(-2).ns);
    assert_int_equal(mono_add_ms(MONO_NEVER, 1).ns, MONO_NEVER.ns);
    assert_int_equal(mono_add_ms(at_ms(5), INT64_MAX).ns, MONO_NEVER.ns);
    assert_int_equal(mono_add_ms(at_ms(5), INT64_MAX / MS).ns, MONO_NEVER.ns);
}

static void test_ms_until_rounds_up(void **state)
{
    (void)state;
    assert_int_equal(mono_ms_until(at_ms(10), at_ms(10)), 0);
    assert_int_equal(mono_ms_until((hf_mono){1}, (hf_mono){0}), 1);
    assert_int_equal(mono_ms_until((hf_mono){MS}, (hf_mono){0}), 1);
    assert_int_equal(mono_ms_until((hf_mono){MS + 1}, (hf_mono){0}), 2);
    assert_int_equal(mono_ms_until(at_ms(10), at_ms(30)), -20);
}

static void test_reached_and_min(void **state)
{
    (void)state;
    assert_true(mono_reached(at_ms(5), at_ms(5)));
    assert_true(mono_reached(at_ms(5), at_ms(6)));
    assert_false(mono_reached(at_ms(5), at_ms(4)));
    assert_false(mono_reached(MONO_NEVER, at_ms(4)));
    assert_int_equal(mono_min(at_ms(5), at_ms(4)).ns, at_ms(4).ns);
    assert_int_equal(mono_min(at_ms(4), MONO_NEVER).ns, at_ms(4).ns);
}

static void test_look_comes_after_the_next_beat(void **state)
{
    (void)state;
    /* ttl 9 s: beats every 3 s; with 8 s left it has beaten 1 s ago and beats in 2 s */
    assert_int_equal(lease_look_due(at_ms(0), 9000, lease_beat_ms(9000), 8000).ns, at_ms(2100).ns);
    assert_int_equal(lease_look_due(at_ms(0), 9000, lease_beat_ms(9000), 9000).ns, at_ms(3100).ns);
    assert_int_equal(lease_look_due(at_ms(0), 9000, lease_beat_ms(9000), 2000).ns, at_ms(100).ns);
    assert_int_equal(lease_look_due(at_ms(0), 9000, lease_beat_ms(9000), -5000).ns, at_ms(100).ns);
    assert_int_equal(lease_look_due(at_ms(0), 9000, lease_beat_ms(9000), 90000).ns, at_ms(3100).ns);
    /* ttl 30 s: every 5 s */
    assert_int_equal(lease_look_due(at_ms(0), 30000, lease_beat_ms(30000), 29000).ns,
                     at_ms(4100).ns);
    assert_int_equal(lease_look_due(at_ms(0), 30000, lease_beat_ms(30000), 24000).ns,
                     at_ms(100).ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holder_stops_before_others_may_judge),
        cmocka_unit_test(test_allowance_is_ttl_over_500_and_5_ms),
        cmocka_unit_test(test_the_end_of_an_id_lease_needs_the_allowance_only),
        cmocka_unit_test(test_two_beats_fail_before_the_lease_ends),
        cmocka_unit_test(test_a_retry_is_never_far),
        cmocka_unit_test(test_a_lease_of_30_s_outlives_an_outage),
        cmocka_unit_test(test_a_lease_of_40_s_outlives_a_primary_that_hangs),
        cmocka_unit_test(test_what_a_lease_outlives),
        cmocka_unit_test(test_the_documents_say_what_a_lease_of_40_s_outlives),
        cmocka_unit_test(test_a_proposed_ttl_is_enough_and_no_longer),
        cmocka_unit_test(test_how_often_beats_are_sent),
        cmocka_unit_test(test_beats_fall_into_step),
        cmocka_unit_test(test_a_clock_without_a_date_sets_no_step),
        cmocka_unit_test(test_adding_saturates),
        cmocka_unit_test(test_ms_until_rounds_up),
        cmocka_unit_test(test_reached_and_min),
        cmocka_unit_test(test_look_comes_after_the_next_beat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
