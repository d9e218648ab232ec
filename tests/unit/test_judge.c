/* SPDX-License-Identifier: Apache-2.0 */
/* test_judge.c: proves when a watcher may take a session for dead (R5, R9), with the watcher's
 * clock as an argument; run by ctest. */
#include "unit.h"

#include "core/judge.h"
#include "core/lease.h"

#define TTL 1000
#define MERCY 1007 /* the ttl and its allowance */

static hf_session_state seen(unsigned session, int64_t beat)
{
    return (hf_session_state){.session = {.id = id_of(session), .ttl_ms = TTL},
                              .presence = HF_LIVE,
                              .beat = beat,
                              .lease_left_ms = TTL};
}

static hf_session_state missing(unsigned session)
{
    return (hf_session_state){.session = {.id = id_of(session)}, .presence = HF_MISSING};
}

static judge_verdict judge_at(struct judge *judge, hf_session_state state, int64_t ms)
{
    return judge_session(judge, &state, at_ms(ms));
}

static void test_overdue_only_after_ttl_and_allowance_since_first_seen(void **state)
{
    (void)state;
    struct judge judge = {0};
    judge_add(&judge, id_of(1), TTL, false, at_ms(0));
    assert_int_equal(judge_at(&judge, seen(1, 4), 500), JUDGE_LIVES);
    assert_int_equal(judge_at(&judge, seen(1, 4), 500 + MERCY - 1), JUDGE_LIVES);
    assert_int_equal(judge_at(&judge, seen(1, 4), 500 + MERCY), JUDGE_OVERDUE);
    judge_done(&judge);
}

static void test_a_changed_beat_starts_over(void **state)
{
    (void)state;
    struct judge judge = {0};
    judge_add(&judge, id_of(1), TTL, false, at_ms(0));
    judge_at(&judge, seen(1, 4), 0);
    assert_false(judge_saw_life(&judge));
    assert_int_equal(judge_at(&judge, seen(1, 5), MERCY), JUDGE_LIVES);
    assert_true(judge_saw_life(&judge));
    assert_int_equal(judge_at(&judge, seen(1, 5), 2 * MERCY - 1), JUDGE_LIVES);
    assert_int_equal(judge_at(&judge, seen(1, 5), 2 * MERCY), JUDGE_OVERDUE);
    judge_done(&judge);
}

static void test_what_cannot_be_read_is_never_dead(void **state)
{
    (void)state;
    struct judge judge = {0};
    hf_session_state odd = {.session = {.id = id_of(1)}, .presence = HF_ODD};
    assert_int_equal(judge_at(&judge, odd, 0), JUDGE_LIVES); /* nor watched, where it was not */
    assert_int_equal(judge_due(&judge).ns, MONO_NEVER.ns);
    judge_add(&judge, id_of(1), TTL, false, at_ms(0));
    judge_at(&judge, seen(1, 4), 0);
    assert_int_equal(judge_at(&judge, odd, 500), JUDGE_LIVES);
    assert_int_equal(judge_due(&judge).ns, at_ms(500 + TTL / 6).ns);
    assert_int_equal(judge_at(&judge, odd, 3 * MERCY), JUDGE_LIVES);
    assert_int_equal(judge_at(&judge, seen(1, 4), 3 * MERCY), JUDGE_LIVES); /* starts over */
    assert_int_equal(judge_at(&judge, seen(1, 4), 4 * MERCY), JUDGE_OVERDUE);
    judge_done(&judge);
}

static void test_an_older_beat_starts_over_too_but_is_no_sign_of_life(void **state)
{
    (void)state;
    struct judge judge = {0};
    judge_at(&judge, seen(1, 5), 0);
    assert_int_equal(judge_at(&judge, seen(1, 4), MERCY), JUDGE_LIVES);
    assert_false(judge_saw_life(&judge));
    judge_done(&judge);
}

static void test_the_lease_left_by_the_stores_clock_decides_nothing(void **state)
{
    (void)state;
    struct judge judge = {0};
    hf_session_state overdue = seen(1, 4);
    overdue.lease_left_ms = -90000;
    assert_int_equal(judge_at(&judge, overdue, 0), JUDGE_LIVES);
    assert_int_equal(judge_at(&judge, overdue, MERCY - 1), JUDGE_LIVES);
    judge_done(&judge);
}

static void test_gone_is_overdue_and_marked_is_dead_at_first_sight(void **state)
{
    (void)state;
    struct judge judge = {0};
    hf_session_state gone = seen(1, 4), marked = seen(2, 4);
    gone.is_gone = true;
    marked.presence = HF_DEAD;
    assert_int_equal(judge_at(&judge, gone, 0), JUDGE_OVERDUE);
    assert_int_equal(judge_at(&judge, marked, 0), JUDGE_IS_DEAD);
    judge_done(&judge);
}

static void test_missing_is_dead_only_after_its_tickets_ttl(void **state)
{
    (void)state;
    struct judge judge = {0};
    judge_add(&judge, id_of(1), TTL, false, at_ms(0));
    assert_int_equal(judge_at(&judge, missing(1), 0), JUDGE_LIVES);
    assert_int_equal(judge_at(&judge, missing(1), MERCY - 1), JUDGE_LIVES);
    assert_int_equal(judge_at(&judge, missing(1), MERCY), JUDGE_OVERDUE);
    judge_done(&judge);
}

static void test_missing_and_never_added_is_not_judged(void **state)
{
    (void)state;
    struct judge judge = {0};
    assert_int_equal(judge_at(&judge, missing(1), 0), JUDGE_LIVES);
    assert_int_equal(judge_at(&judge, missing(1), MERCY), JUDGE_LIVES);
    judge_done(&judge);
}

static void test_missing_after_it_was_seen_starts_over(void **state)
{
    (void)state;
    struct judge judge = {0};
    judge_at(&judge, seen(1, 4), 0);
    assert_int_equal(judge_at(&judge, missing(1), MERCY), JUDGE_LIVES);
    assert_int_equal(judge_at(&judge, missing(1), 2 * MERCY), JUDGE_OVERDUE);
    judge_done(&judge);
}

static void test_the_sessions_own_ttl_counts_not_the_tickets(void **state)
{
    (void)state;
    struct judge judge = {0};
    judge_add(&judge, id_of(1), 100, false, at_ms(0));
    judge_at(&judge, seen(1, 4), 0);
    assert_int_equal(judge_at(&judge, seen(1, 4), MERCY - 1), JUDGE_LIVES);
    assert_int_equal(judge_at(&judge, seen(1, 4), MERCY), JUDGE_OVERDUE);
    judge_done(&judge);
}

static void test_a_refused_mark_starts_over(void **state)
{
    (void)state;
    struct judge judge = {0};
    judge_at(&judge, seen(1, 4), 0);
    assert_int_equal(judge_at(&judge, seen(1, 4), MERCY), JUDGE_OVERDUE);
    judge_lives(&judge, id_of(1), at_ms(MERCY));
    judge_lives(&judge, id_of(99), at_ms(MERCY));
    assert_true(judge_saw_life(&judge));
    assert_int_equal(judge_due(&judge).ns, at_ms(MERCY).ns);
    assert_int_equal(judge_at(&judge, seen(1, 4), MERCY), JUDGE_LIVES);
    assert_int_equal(judge_at(&judge, seen(1, 4), 2 * MERCY), JUDGE_OVERDUE);
    judge_done(&judge);
}

static void test_an_ask_ends_the_ticket_after_the_ttl(void **state)
{
    (void)state;
    struct judge judge = {0};
    assert_false(judge_ask(&judge, id_of(7), TTL, at_ms(0)));
    assert_false(judge_ask(&judge, id_of(7), TTL, at_ms(MERCY - 1)));
    assert_true(judge_ask(&judge, id_of(7), TTL, at_ms(MERCY)));
    assert_int_equal(judge_due(&judge).ns, MONO_NEVER.ns); /* asks are seen with sessions */
    judge_done(&judge);
}

static void test_watching_begins_at_once_and_once(void **state)
{
    (void)state;
    struct judge judge = {0};
    hf_id ids[4];
    assert_int_equal(judge_due(&judge).ns, MONO_NEVER.ns);
    judge_add(&judge, id_of(1), TTL, false, at_ms(10));
    judge_add(&judge, id_of(1), TTL, false, at_ms(5));
    assert_int_equal(judge_due(&judge).ns, at_ms(10).ns);
    assert_int_equal(judge_collect(&judge, at_ms(10), ids, 4), 1);
    assert_int_equal(ids[0].bytes[3], 1);
    judge_done(&judge);
}

static void test_looks_within_50_ms_go_together(void **state)
{
    (void)state;
    struct judge judge = {0};
    hf_id ids[4];
    judge_add(&judge, id_of(1), TTL, false, at_ms(100));
    judge_add(&judge, id_of(2), TTL, false, at_ms(150));
    judge_add(&judge, id_of(3), TTL, false, at_ms(151));
    assert_int_equal(judge_collect(&judge, at_ms(49), ids, 4), 0);
    assert_int_equal(judge_collect(&judge, at_ms(100), ids, 4), 2);
    assert_int_equal(judge_collect(&judge, at_ms(200), ids, 1), 1);
    judge_done(&judge);
}

static void test_keep_ends_all_other_watches(void **state)
{
    (void)state;
    struct judge judge = {0};
    judge_at(&judge, seen(1, 4), 0);
    judge_at(&judge, seen(2, 4), 0);
    judge_at(&judge, seen(3, 4), 0);
    judge_keep(&judge, (hf_id[]){id_of(3), id_of(1)}, 2);
    assert_int_equal(judge_at(&judge, seen(1, 4), MERCY), JUDGE_OVERDUE);
    assert_int_equal(judge_at(&judge, seen(2, 4), MERCY), JUDGE_LIVES); /* seen anew */
    assert_int_equal(judge_at(&judge, seen(3, 4), MERCY), JUDGE_OVERDUE);
    judge_done(&judge);
}

static void test_one_whose_beat_is_late_is_looked_at_more_often(void **state)
{
    (void)state;
    struct judge judge = {0};
    judge_at(&judge, seen(1, 4), 0);
    assert_in_range(judge_due(&judge).ns, at_ms(TTL / 3).ns, at_ms(TTL / 3 + 150).ns);
    judge_at(&judge, seen(1, 4), 450);
    assert_in_range(judge_due(&judge).ns, at_ms(451).ns, at_ms(450 + TTL / 6).ns);
    judge_done(&judge);
}

/* L1: one that was watched before the crash is found dead a ttl and two allowances after its last
 * beat, plus the look's delay. */
static void test_following_judge_due_finds_a_crash_in_time(void **state)
{
    (void)state;
    for (int64_t crash = 0; crash < 3000; crash += 97) {
        struct judge judge = {0};
        judge_add(&judge, id_of(1), TTL, false, at_ms(0));
        int64_t now = 0, last_beat = 0;
        judge_verdict verdict = JUDGE_LIVES;
        while (verdict == JUDGE_LIVES && now < 10000) {
            last_beat = (now < crash ? now : crash) / (TTL / 3) * (TTL / 3);
            hf_session_state state_now = seen(1, last_beat);
            state_now.lease_left_ms = TTL - (now - last_beat);
            verdict = judge_at(&judge, state_now, now);
            int64_t due = judge_due(&judge).ns / 1000000;
            assert_true(due > now);
            now = due;
        }
        assert_int_equal(verdict, JUDGE_OVERDUE);
        assert_in_range(now, last_beat + MERCY, last_beat + MERCY + 7 + 100 + 100);
        judge_done(&judge);
    }
}

static void test_one_that_is_far_is_looked_at_once_a_ttl(void **state)
{
    (void)state;
    struct judge judge = {0};
    hf_id due[1];
    int64_t at = 500;
    judge_add_far(&judge, id_of(1), TTL, at_ms(at));
    for (int64_t look = 0; look < 3; look++, at += MERCY) {
        assert_int_equal(judge_collect(&judge, at_ms(at - 60), due, 1), 0);
        assert_int_equal(judge_collect(&judge, at_ms(at), due, 1), 1);
        assert_int_equal(judge_at(&judge, seen(1, look), at), JUDGE_LIVES);
    }
    assert_int_equal(judge_at(&judge, seen(1, 2), at), JUDGE_OVERDUE);
    assert_int_equal(judge_due(&judge).ns, MONO_NEVER.ns); /* nobody is woken for it */
    judge_done(&judge);
}

static void test_one_that_is_far_no_more_is_looked_at_at_once_and_often(void **state)
{
    (void)state;
    struct judge judge = {0};
    judge_add_far(&judge, id_of(1), TTL, at_ms(0));
    judge_at(&judge, seen(1, 4), 0);
    judge_add(&judge, id_of(1), TTL, false, at_ms(500));
    assert_true(judge_due(&judge).ns <= at_ms(500).ns);
    judge_add_far(&judge, id_of(1), TTL, at_ms(500)); /* another ticket of the same session */
    judge_at(&judge, seen(1, 4), 500);
    assert_in_range(judge_due(&judge).ns, at_ms(501).ns, at_ms(500 + TTL / 6).ns);
    assert_int_equal(judge_at(&judge, seen(1, 4), MERCY), JUDGE_OVERDUE); /* seen since 0 */
    judge_done(&judge);
}

static void test_slack_is_for_looks_not_for_verdicts(void **state)
{
    (void)state;
    struct judge judge = {.slack_ms = 300};
    hf_id ids[2];
    judge_verdict verdict = JUDGE_LIVES;
    int64_t ms = 0;
    unsigned looks = 0;
    judge_add(&judge, id_of(1), TTL, false, at_ms(0));
    judge_at(&judge, seen(1, 4), 0);
    for (; verdict == JUDGE_LIVES && looks < 9; looks++) {
        ms = judge_due(&judge).ns / 1000000;
        assert_int_equal(judge_collect(&judge, at_ms(ms - 51), ids, 2), 0);
        assert_int_equal(judge_collect(&judge, at_ms(ms), ids, 2), 1);
        verdict = judge_at(&judge, seen(1, 4), ms);
    }
    assert_int_equal(verdict, JUDGE_OVERDUE);
    assert_int_equal(ms, MERCY);
    assert_in_range(looks, 2, 3);
    judge_done(&judge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overdue_only_after_ttl_and_allowance_since_first_seen),
        cmocka_unit_test(test_a_changed_beat_starts_over),
        cmocka_unit_test(test_what_cannot_be_read_is_never_dead),
        cmocka_unit_test(test_an_older_beat_starts_over_too_but_is_no_sign_of_life),
        cmocka_unit_test(test_the_lease_left_by_the_stores_clock_decides_nothing),
        cmocka_unit_test(test_gone_is_overdue_and_marked_is_dead_at_first_sight),
        cmocka_unit_test(test_missing_is_dead_only_after_its_tickets_ttl),
        cmocka_unit_test(test_missing_and_never_added_is_not_judged),
        cmocka_unit_test(test_missing_after_it_was_seen_starts_over),
        cmocka_unit_test(test_the_sessions_own_ttl_counts_not_the_tickets),
        cmocka_unit_test(test_a_refused_mark_starts_over),
        cmocka_unit_test(test_an_ask_ends_the_ticket_after_the_ttl),
        cmocka_unit_test(test_watching_begins_at_once_and_once),
        cmocka_unit_test(test_looks_within_50_ms_go_together),
        cmocka_unit_test(test_keep_ends_all_other_watches),
        cmocka_unit_test(test_one_whose_beat_is_late_is_looked_at_more_often),
        cmocka_unit_test(test_following_judge_due_finds_a_crash_in_time),
        cmocka_unit_test(test_slack_is_for_looks_not_for_verdicts),
        cmocka_unit_test(test_one_that_is_far_is_looked_at_once_a_ttl),
        cmocka_unit_test(test_one_that_is_far_no_more_is_looked_at_at_once_and_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
