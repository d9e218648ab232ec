/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_changing.c: what downgrades, upgrades and breaks send, and what their callers are
 * told; run by ctest. */
#include "client/script_bed.h"

static hf_client *a, *b, *c;
static part x, other;
static breaking why;

static void begin(const char *uri, hf_options options)
{
    stage_begin();
    options.log = say_log;
    a = stage_client(uri, &options);
    options.log = NULL;
    b = stage_client(uri, &options);
    c = stage_client(uri, NULL);
    x = (part){.client = a, .name = "x", .options = {.why = "audit", .on_lost = say_loss}};
    other = (part){.client = b, .name = "x", .options = {.mode = HF_SHARED, .why = "report"}};
    why = (breaking){c, "x", {.reason = "maintenance", .by = "operator"}};
}

static const hf_options defaults;

static void hold(const char *uri, hf_mode mode)
{
    begin(uri, defaults);
    x.options.mode = mode;
    play(take_part, &x, 100);
    stage_forget();
}

static void end(void)
{
    close_parts((part *const[]){&x, &other}, 2);
    stage_end();
}

/* ---- Downgrades ---- */

/* Each is tried again when it is due itself. */
static void test_two_downgrades_in_the_background(void **state)
{
    (void)state;
    part y = {.name = "y"};
    begin("memory:two-downgrades", (hf_options){.patience_ms = 1});
    y.client = a;
    play(take_part, &x, 0);
    play(take_part, &y, 100);
    stage_forget();
    stage_let_fail((stage_fault){.call = FAULTY_STEP, .is = stage_is_change, .before = HF_DENIED});
    play(downgrade_part, &x, 0);
    stage_let_fail((stage_fault){
        .call = FAULTY_STEP, .is = stage_is_change, .times = 5, .before = HF_UNREACHABLE});
    play(downgrade_part, &y, 4000);
    stage_expect("100 a x: lower to 1: not sent, HF_DENIED\n"
                 "100 downgraded x: HF_DENIED: injected\n"
                 "100 a y: lower to 1: not sent, HF_UNREACHABLE\n"
                 "101 a y: lower to 1: not sent, HF_UNREACHABLE\n"
                 "101 downgraded y: HF_UNREACHABLE: injected\n"
                 "118 a y: lower to 1: not sent, HF_UNREACHABLE\n"
                 "146 a y: lower to 1: not sent, HF_UNREACHABLE\n"
                 "195 a y: lower to 1: not sent, HF_UNREACHABLE\n"
                 "285 a y: lower to 1\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "3433 a x: lower to 1\n");
    close_part(&y);
    end();
}

/* Upkeep has something else to do meanwhile, and leaves it to its caller. */
static void test_a_downgrade_that_is_under_way_is_sent_once(void **state)
{
    (void)state;
    part y = {.name = "y"};
    hold("memory:down-slowly", HF_EXCLUSIVE);
    y.client = a;
    play(take_part, &y, 0);
    stage_forget();
    stage_let_fail((stage_fault){.call = FAULTY_STEP, .is = stage_is_change, .late_ms = 500});
    play(downgrade_part, &x, 100);
    play(close_part, &y, 900);
    stage_expect("100 a x: lower to 1\n"
                 "200.1 a y: leave\n"
                 "600 downgraded x: yes\n"
                 "1000 a sweep\n");
    end();
}

static void test_a_downgrade_and_back(void **state)
{
    (void)state;
    hold("memory:down-and-up", HF_EXCLUSIVE);
    stage_act(take_part, &other);
    stage_run(1000);
    play(downgrade_part, &x, 0);
    play(check_part, &x, 0);
    play(downgrade_part, &x, 0);
    play(upgrade_part, &x, 0);
    stage_expect("100 b begin\n"
                 "100 b x: enter 1\n"
                 "500 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1100 b sweep\n"
                 "1100 a x: lower to 1\n"
                 "1100 downgraded x: yes\n"
                 "1100 b hears a grant\n"
                 "1100 b has x\n"
                 "1100 x: 8875 ms left, shared\n"
                 "1100 downgraded x: yes\n"
                 "1100 a x: enter-or-not instead\n"
                 "1100 a look at 1 sessions, trusting\n"
                 "1100 upgraded x: HF_HELD: x was not upgraded, and is held as before: it is "
                 "shared with b@:1 (report)\n");
    play(close_part, &other, 1000);
    play(upgrade_part, &x, 0);
    play(check_part, &x, 0);
    play(upgrade_part, &x, 0);
    play(tell_previous, &x, 20000);
    play(release_part, &x, 0);
    play(upgrade_part, &x, 0);
    play(downgrade_part, &x, 0);
    stage_expect("1100.1 b x: leave\n"
                 "2100 a x: enter-or-not instead\n"
                 "2100 upgraded x: yes\n"
                 "2100 x: 7875 ms left\n"
                 "2100 upgraded x: yes\n"
                 "2100 before x: b@:1, outcome 1, ''\n"
                 "3333 a beat, seen 1\n"
                 "3433 b beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "6766 b beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at x since 5\n"
                 "10099 b beat, seen 3\n"
                 "13332 a beat, seen 4\n"
                 "13432 b beat, seen 4\n"
                 "16665 a beat, seen 5\n"
                 "16765 b beat, seen 5\n"
                 "19998 a beat, seen 6\n"
                 "20098 b beat, seen 6\n"
                 "22100 a x: leave\n"
                 "22100 released x: yes\n"
                 "22100 upgraded x: HF_LOST: x was released\n"
                 "22100 downgraded x: HF_LOST: x was released\n");
    end();
}

static void test_what_cannot_be_changed(void **state)
{
    (void)state;
    begin("memory:unchangeable", defaults);
    x.options = (hf_lock_options){.permits = 1, .limit = 3};
    play(take_part, &x, 0);
    play(downgrade_part, &x, 0);
    play(upgrade_part, &x, 0);
    close_part(&x);
    x.options = (hf_lock_options){.period_ms = 60000};
    x.name = "y";
    play(take_part, &x, 0);
    play(downgrade_part, &x, 0);
    stage_store(a)->base.can &= ~(unsigned)HF_CAN_SHARE;
    play(downgrade_part, &x, 0);
    stage_expect("0 a begin\n"
                 "0 a x: enter 1\n"
                 "0 a has x\n"
                 "0 downgraded x: HF_INVALID: x is a semaphore: only locks that are exclusive or "
                 "shared can be upgraded or downgraded\n"
                 "0 upgraded x: HF_INVALID: x is a semaphore: only locks that are exclusive or "
                 "shared can be upgraded or downgraded\n"
                 "0 a y: enter\n"
                 "0 a has y\n"
                 "0 downgraded y: HF_INVALID: y was taken for work that is done once per period: "
                 "that is for exclusive locks, and it cannot be upgraded or downgraded\n"
                 "0 downgraded y: HF_UNSUPPORTED: protocol (null) has no shared locks, so none can "
                 "be upgraded or downgraded: hfProtocol=queue has them\n");
    end();
}

static void test_downgrades_that_fail(void **state)
{
    (void)state;
    stage_fault fault = {.who = 'a',
                         .call = FAULTY_STEP,
                         .is = stage_is_change,
                         .times = 4,
                         .before = HF_UNREACHABLE};
    hold("memory:down-unreached", HF_EXCLUSIVE);
    stage_let_fail(fault);
    play(downgrade_part, &x, 1000);
    stage_expect("100 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "110 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "127 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "156 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "207 a x: lower to 1\n"
                 "207 downgraded x: yes\n"
                 "1000 a sweep\n");
    end();
    hold("memory:down-unknown", HF_EXCLUSIVE);
    fault.before = HF_OK, fault.after = HF_UNKNOWN;
    stage_let_fail(fault);
    play(downgrade_part, &x, 1000);
    stage_expect("100 a x: lower to 1\n"
                 "100 a hears HF_UNKNOWN\n"
                 "110 a x: lower to 1\n"
                 "110 a hears HF_UNKNOWN\n"
                 "127 a x: lower to 1\n"
                 "127 a hears HF_UNKNOWN\n"
                 "156 a x: lower to 1\n"
                 "156 a hears HF_UNKNOWN\n"
                 "207 a x: lower to 1\n"
                 "207 a look at x for sure\n"
                 "207 downgraded x: yes\n"
                 "1000 a sweep\n");
    end();
    hold("memory:down-denied", HF_EXCLUSIVE);
    fault.before = HF_DENIED, fault.times = 2;
    stage_let_fail(fault);
    play(downgrade_part, &x, 9000);
    stage_expect("100 a x: lower to 1: not sent, HF_DENIED\n"
                 "100 downgraded x: HF_DENIED: injected\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "3433 a x: lower to 1: not sent, HF_DENIED\n"
                 "6666 a beat, seen 2\n"
                 "6766 a x: lower to 1\n");
    end();
    hold("memory:down-swallowed", HF_EXCLUSIVE);
    fault.before = fault.after = HF_OK, fault.is_swallowed = true;
    stage_let_fail(fault);
    play(downgrade_part, &x, 1000);
    stage_expect("100 a x: lower to 1\n"
                 "100 a look at x for sure\n"
                 "110 a x: lower to 1\n"
                 "110 a look at x for sure\n"
                 "127 a x: lower to 1\n"
                 "127 downgraded x: yes\n"
                 "1000 a sweep\n");
    end();
    hold("memory:down-unseen", HF_EXCLUSIVE);
    fault.times = 1;
    stage_let_fail(fault);
    stage_let_fail((stage_fault){.who = 'a', .call = FAULTY_LOOK, .before = HF_UNREACHABLE});
    play(downgrade_part, &x, 1000);
    stage_expect("100 a x: lower to 1\n"
                 "100 a look at x for sure: not sent, HF_UNREACHABLE\n"
                 "110 a x: lower to 1\n"
                 "110 downgraded x: yes\n"
                 "1000 a sweep\n");
    end();
    hold("memory:down-gone", HF_EXCLUSIVE);
    stage_drop_record(a, "x");
    play(downgrade_part, &x, 1000);
    stage_expect("100 a x: lower to 1\n"
                 "100 a look at x for sure\n"
                 "100 downgraded x: HF_LOST: x is not held any more: its ticket was gone when it "
                 "was downgraded\n"
                 "100 a x: abandon\n"
                 "100 a look at x for sure\n"
                 "100 x is lost, 0 ms left: x is not held any more: its ticket was gone when it "
                 "was downgraded\n"
                 "1000 a sweep\n");
    end();
}

static void test_a_downgrade_without_patience(void **state)
{
    (void)state;
    stage_fault fault = {.who = 'a',
                         .call = FAULTY_STEP,
                         .is = stage_is_change,
                         .times = 14,
                         .before = HF_UNREACHABLE};
    begin("memory:down-impatient", (hf_options){.patience_ms = 100});
    play(take_part, &x, 0);
    stage_let_fail(fault);
    play(downgrade_part, &x, 6000);
    play(upgrade_part, &x, 0);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "0 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "10 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "27 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "56 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "100 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "100 downgraded x: HF_UNREACHABLE: injected\n"
                 "192 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "365 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "629 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "894 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "1000 a sweep\n"
                 "1160 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "1427 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "1695 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "1964 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "2234 a x: lower to 1: not sent, HF_UNREACHABLE\n"
                 "2505 a x: lower to 1\n"
                 "3333 a beat, seen 1\n"
                 "6000 a x: enter-or-not instead\n"
                 "6000 upgraded x: yes\n");
    end();
}

/* ---- Upgrades ---- */

static void test_upgrades_that_fail(void **state)
{
    (void)state;
    stage_fault fault = {.who = 'a',
                         .call = FAULTY_STEP,
                         .is = stage_is_enter,
                         .times = 3,
                         .before = HF_UNREACHABLE};
    hold("memory:up-unreached", HF_SHARED);
    stage_let_fail(fault);
    play(upgrade_part, &x, 1000);
    stage_expect("100 a x: enter-or-not instead: not sent, HF_UNREACHABLE\n"
                 "110 a x: enter-or-not instead: not sent, HF_UNREACHABLE\n"
                 "126 a x: enter-or-not instead: not sent, HF_UNREACHABLE\n"
                 "153 a x: enter-or-not instead\n"
                 "153 upgraded x: yes\n"
                 "1000 a sweep\n");
    end();
    hold("memory:up-unknown", HF_SHARED);
    fault.before = HF_OK, fault.after = HF_UNKNOWN;
    stage_let_fail(fault);
    play(upgrade_part, &x, 25000);
    stage_expect("100 a x: enter-or-not instead\n"
                 "100 a hears HF_UNKNOWN\n"
                 "110 a x: enter-or-not instead\n"
                 "110 a hears HF_UNKNOWN\n"
                 "126 a x: enter-or-not instead\n"
                 "126 a hears HF_UNKNOWN\n"
                 "153 a x: enter-or-not instead\n"
                 "153 upgraded x: yes\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at x\n"
                 "10000 a look at x since 2\n"
                 "13332 a beat, seen 4\n"
                 "16665 a beat, seen 5\n"
                 "19998 a beat, seen 6\n"
                 "20000 a look at x\n"
                 "23331 a beat, seen 7\n"
                 "23332 a look at x since 2\n");
    end();
    hold("memory:up-denied", HF_SHARED);
    fault.before = HF_DENIED, fault.times = 1;
    stage_let_fail(fault);
    play(upgrade_part, &x, 1000);
    stage_expect("100 a x: enter-or-not instead: not sent, HF_DENIED\n"
                 "100 upgraded x: HF_DENIED: injected\n"
                 "1000 a sweep\n");
    end();
    hold("memory:up-swallowed", HF_SHARED);
    fault.before = fault.after = HF_OK, fault.is_swallowed = true;
    stage_let_fail(fault);
    play(upgrade_part, &x, 1000);
    stage_expect("100 a x: enter-or-not instead\n"
                 "100 upgraded x: HF_HELD: x was not upgraded, and is held as before: 0 wait for "
                 "it and would be passed\n"
                 "1000 a sweep\n");
    end();
    hold("memory:up-gone", HF_SHARED);
    stage_drop_record(a, "x");
    play(upgrade_part, &x, 1000);
    stage_expect("100 a x: enter-or-not instead\n"
                 "100 a look at x since 1\n"
                 "100 a x: abandon abandon\n"
                 "100 a look at x for sure\n"
                 "100 x is lost, 0 ms left: x is not held any more: its ticket is gone from the "
                 "store (was it taken over, or the record dropped, restored or changed by hand?)\n"
                 "110 upgraded x: HF_LOST: x is not held any more: its ticket is gone from the "
                 "store (was it taken over, or the record dropped, restored or changed by hand?)\n"
                 "1000 a sweep\n");
    end();
}

/* What is not in doubt is not looked at. */
static void test_a_lost_lock_has_only_itself_looked_at(void **state)
{
    (void)state;
    part y = {.name = "y"};
    hold("memory:up-beside", HF_SHARED);
    y.client = a;
    play(take_part, &y, 0);
    stage_drop_record(a, "x");
    play(upgrade_part, &x, 500);
    play(check_part, &y, 0);
    stage_expect(
        "100 a y: enter\n"
        "100 a has y\n"
        "100 a x: enter-or-not instead\n"
        "100 a look at x since 1\n"
        "100 a x: abandon abandon\n"
        "100 a look at x for sure\n"
        "100 x is lost, 0 ms left: x is not held any more: its ticket is gone from the store (was "
        "it taken over, or the record dropped, restored or changed by hand?)\n"
        "105 upgraded x: HF_LOST: x is not held any more: its ticket is gone from the store (was "
        "it taken over, or the record dropped, restored or changed by hand?)\n"
        "600 y: 9375 ms left\n");
    close_part(&y);
    end();
}

static void test_an_upgrade_without_patience(void **state)
{
    (void)state;
    stage_fault fault = {.who = 'a',
                         .call = FAULTY_STEP,
                         .is = stage_is_enter,
                         .times = 100,
                         .before = HF_UNREACHABLE};
    begin("memory:up-impatient", (hf_options){.patience_ms = 100});
    x.options.mode = HF_SHARED;
    play(take_part, &x, 0);
    stage_let_fail(fault);
    play(upgrade_part, &x, 500);
    play(check_part, &x, 0);
    stage_expect("0 a begin\n"
                 "0 a x: enter 1\n"
                 "0 a has x\n"
                 "0 a x: enter-or-not instead: not sent, HF_UNREACHABLE\n"
                 "10 a x: enter-or-not instead: not sent, HF_UNREACHABLE\n"
                 "26 a x: enter-or-not instead: not sent, HF_UNREACHABLE\n"
                 "53 a x: enter-or-not instead: not sent, HF_UNREACHABLE\n"
                 "100 a x: enter-or-not instead: not sent, HF_UNREACHABLE\n"
                 "100 upgraded x: HF_UNREACHABLE: injected\n"
                 "500 x: 9475 ms left, shared\n");
    end();
    begin("memory:up-unanswered", (hf_options){.patience_ms = 100});
    x.options.mode = HF_SHARED;
    play(take_part, &x, 0);
    fault.before = HF_OK, fault.after = HF_UNKNOWN;
    stage_let_fail(fault);
    play(upgrade_part, &x, 500);
    play(check_part, &x, 0);
    play(upgrade_part, &x, 500);
    stage_run(12000);
    stage_expect("0 a begin\n"
                 "0 a x: enter 1\n"
                 "0 a has x\n"
                 "0 a x: enter-or-not instead\n"
                 "0 a hears HF_UNKNOWN\n"
                 "10 a x: enter-or-not instead\n"
                 "10 a hears HF_UNKNOWN\n"
                 "26 a x: enter-or-not instead\n"
                 "26 a hears HF_UNKNOWN\n"
                 "53 a x: enter-or-not instead\n"
                 "53 a hears HF_UNKNOWN\n"
                 "100 a x: enter-or-not instead\n"
                 "100 a hears HF_UNKNOWN\n"
                 "100 upgraded x: HF_UNKNOWN: injected\n"
                 "500 x: 9475 ms left, shared\n"
                 "500 a x: enter-or-not instead\n"
                 "500 a hears HF_UNKNOWN\n"
                 "508 a x: enter-or-not instead\n"
                 "508 a hears HF_UNKNOWN\n"
                 "528 a x: enter-or-not instead\n"
                 "528 a hears HF_UNKNOWN\n"
                 "559 a x: enter-or-not instead\n"
                 "559 a hears HF_UNKNOWN\n"
                 "600 a x: enter-or-not instead\n"
                 "600 a hears HF_UNKNOWN\n"
                 "600 upgraded x: HF_UNKNOWN: injected\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at x\n"
                 "10000 a look at x since 1\n"
                 "10000 a x: lower to 1\n");
    end();
    begin("memory:up-unanswered-released", (hf_options){.patience_ms = 100});
    x.options.mode = HF_SHARED;
    play(take_part, &x, 0);
    stage_let_fail(fault);
    play(upgrade_part, &x, 500);
    play(release_part, &x, 500);
    stage_expect("0 a begin\n"
                 "0 a x: enter 1\n"
                 "0 a has x\n"
                 "0 a x: enter-or-not instead\n"
                 "0 a hears HF_UNKNOWN\n"
                 "10 a x: enter-or-not instead\n"
                 "10 a hears HF_UNKNOWN\n"
                 "26 a x: enter-or-not instead\n"
                 "26 a hears HF_UNKNOWN\n"
                 "53 a x: enter-or-not instead\n"
                 "53 a hears HF_UNKNOWN\n"
                 "100 a x: enter-or-not instead\n"
                 "100 a hears HF_UNKNOWN\n"
                 "100 upgraded x: HF_UNKNOWN: injected\n"
                 "500 a x: leave leave\n"
                 "500 released x: yes\n"
                 "1000 a sweep\n");
    end();
    begin("memory:up-unanswered-downgraded", (hf_options){.patience_ms = 100});
    x.options.mode = HF_SHARED;
    play(take_part, &x, 0);
    stage_let_fail(fault);
    play(upgrade_part, &x, 500);
    play(downgrade_part, &x, 500);
    stage_expect("0 a begin\n"
                 "0 a x: enter 1\n"
                 "0 a has x\n"
                 "0 a x: enter-or-not instead\n"
                 "0 a hears HF_UNKNOWN\n"
                 "10 a x: enter-or-not instead\n"
                 "10 a hears HF_UNKNOWN\n"
                 "26 a x: enter-or-not instead\n"
                 "26 a hears HF_UNKNOWN\n"
                 "53 a x: enter-or-not instead\n"
                 "53 a hears HF_UNKNOWN\n"
                 "100 a x: enter-or-not instead\n"
                 "100 a hears HF_UNKNOWN\n"
                 "100 upgraded x: HF_UNKNOWN: injected\n"
                 "500 a look at x\n"
                 "500 a x: lower to 1\n"
                 "500 downgraded x: yes\n"
                 "1000 a sweep\n");
    end();
}

static void test_an_upgrade_beside_the_dead(void **state)
{
    (void)state;
    hold("memory:up-dead", HF_SHARED);
    play(take_part, &other, 0);
    stage_mark_dead(a, b->session.self.id);
    play(upgrade_part, &x, 0);
    stage_expect("100 b begin\n"
                 "100 b x: enter 1\n"
                 "100 b has x\n"
                 "100 a x: enter-or-not instead\n"
                 "100 a look at 1 sessions, trusting\n"
                 "100 a x: bury\n"
                 "100 a x: enter-or-not instead\n"
                 "100 upgraded x: yes\n");
    end();
    hold("memory:up-queued", HF_SHARED);
    other.options.mode = HF_EXCLUSIVE;
    stage_act(take_part, &other);
    stage_run(0);
    play(upgrade_part, &x, 100);
    stage_expect("100 b begin\n"
                 "100 b x: enter\n"
                 "100 a x: enter-or-not instead\n"
                 "100 a look at 1 sessions, trusting\n"
                 "100 upgraded x: HF_HELD: x was not upgraded, and is held as before: 1 wait for "
                 "it and would be passed\n");
    end();
}

/* It stands in line behind its own closed lock. */
static void test_an_upgrade_takes_along_what_was_closed(void **state)
{
    (void)state;
    part second = {.name = "x", .options.mode = HF_SHARED};
    hold("memory:up-along", HF_SHARED);
    second.client = a;
    play(take_part, &second, 0);
    stage_act(close_part, &second);
    play(upgrade_part, &x, 100);
    stage_expect("100 a x: enter 1\n"
                 "100 a has x\n"
                 "100 a x: leave enter-or-not instead\n"
                 "100 upgraded x: yes\n");
    end();
}

/* ---- Breaks ---- */

static void test_a_break_of_several(void **state)
{
    (void)state;
    begin("memory:break-several", (hf_options){.ttl_ms = 2000});
    x.options.mode = HF_SHARED;
    play(take_part, &x, 0);
    play(take_part, &other, 0);
    stage_act(break_it, &why);
    stage_run(1000);
    play(close_part, &x, 3000);
    stage_expect("0 a begin\n"
                 "0 a x: enter 1\n"
                 "0 a has x\n"
                 "0 b begin\n"
                 "0 b x: enter 1\n"
                 "0 b has x\n"
                 "0 c look at x\n"
                 "0 c look at 1 sessions\n"
                 "0 c ask\n"
                 "0 c look at 1 sessions\n"
                 "0 c ask\n"
                 "100 c look at x\n"
                 "200 c look at x\n"
                 "300 c look at x\n"
                 "400 c look at x\n"
                 "500 c look at x\n"
                 "600 c look at x\n"
                 "666 a beat, seen 1\n"
                 "666 x is lost, 1325 ms left: x was broken by operator: maintenance\n"
                 "666 b beat, seen 1\n"
                 "700 c look at x\n"
                 "800 c look at x\n"
                 "900 c look at x\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1000 c look at x\n"
                 "1000.1 a x: abandon(broken by operator: maintenance)\n"
                 "1100 c look at x\n"
                 "1200 c look at x\n"
                 "1300 c look at x\n"
                 "1332 a beat, seen 2, answered 1\n"
                 "1332 b beat, seen 2\n"
                 "1400 c look at x\n"
                 "1500 c look at x\n"
                 "1600 c look at x\n"
                 "1700 c look at x\n"
                 "1800 c look at x\n"
                 "1900 c look at x\n"
                 "1991 b x: abandon(broken by operator: maintenance)\n"
                 "1998 a beat, seen 3\n"
                 "1998 b beat, seen 3, answered 1\n"
                 "2000 c look at x\n"
                 "2000 broken x: yes\n"
                 "2664 a beat, seen 4\n"
                 "2664 b beat, seen 4\n"
                 "3330 a beat, seen 5\n"
                 "3330 b beat, seen 5\n"
                 "3996 a beat, seen 6\n"
                 "3996 b beat, seen 6\n");
    end();
}

static void test_a_break_of_one_token(void **state)
{
    (void)state;
    begin("memory:break-token", (hf_options){.ttl_ms = 2000});
    x.options.mode = HF_SHARED;
    play(take_part, &x, 0);
    play(take_part, &other, 0);
    why.options.if_token = hf_lock_token(x.lock) + 5;
    play(break_it, &why, 0);
    stage_expect("0 a begin\n"
                 "0 a x: enter 1\n"
                 "0 a has x\n"
                 "0 b begin\n"
                 "0 b x: enter 1\n"
                 "0 b has x\n"
                 "0 c look at x\n"
                 "0 broken x: HF_NOT_FOUND: x is not held with token 1782579200000005: its token "
                 "is 1782579200000000\n");
    why.options.if_token = hf_lock_token(x.lock);
    stage_act(break_it, &why);
    stage_run(1000);
    play(close_part, &x, 1000);
    play(check_part, &other, 5000);
    stage_expect("0 c look at x\n"
                 "0 c look at 1 sessions\n"
                 "0 c ask\n"
                 "100 c look at x\n"
                 "200 c look at x\n"
                 "300 c look at x\n"
                 "400 c look at x\n"
                 "500 c look at x\n"
                 "600 c look at x\n"
                 "666 a beat, seen 1\n"
                 "666 x is lost, 1325 ms left: x was broken by operator: maintenance\n"
                 "666 b beat, seen 1\n"
                 "700 c look at x\n"
                 "800 c look at x\n"
                 "900 c look at x\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1000 c look at x\n"
                 "1000.1 a x: abandon(broken by operator: maintenance)\n"
                 "1100 c look at x\n"
                 "1100 broken x: yes\n"
                 "1332 a beat, seen 2, answered 1\n"
                 "1332 b beat, seen 2\n"
                 "1998 a beat, seen 3\n"
                 "1998 b beat, seen 3\n"
                 "2000 b look at x since 2\n"
                 "2000 x: 1989 ms left, shared\n"
                 "2664 a beat, seen 4\n"
                 "2664 b beat, seen 4\n"
                 "3330 a beat, seen 5\n"
                 "3330 b beat, seen 5\n"
                 "3996 a beat, seen 6\n"
                 "3996 b beat, seen 6\n"
                 "4662 a beat, seen 7\n"
                 "4662 b beat, seen 7\n"
                 "4664 b look at x since 2\n"
                 "5328 a beat, seen 8\n"
                 "5328 b beat, seen 8\n"
                 "5994 a beat, seen 9\n"
                 "5994 b beat, seen 9\n"
                 "6660 a beat, seen 10\n"
                 "6660 b beat, seen 10\n");
    end();
}

/* Both were granted at one time; the first has the lower token. */
static void test_a_break_of_the_second_token(void **state)
{
    (void)state;
    begin("memory:break-second", (hf_options){.ttl_ms = 2000});
    x.options.mode = HF_SHARED;
    play(take_part, &x, 0);
    play(take_part, &other, 0);
    why.options.if_token = hf_lock_token(other.lock);
    stage_act(break_it, &why);
    stage_run(1000);
    play(close_part, &other, 1000);
    play(check_part, &x, 0);
    stage_expect("0 a begin\n"
                 "0 a x: enter 1\n"
                 "0 a has x\n"
                 "0 b begin\n"
                 "0 b x: enter 1\n"
                 "0 b has x\n"
                 "0 c look at x\n"
                 "0 c look at 1 sessions\n"
                 "0 c ask\n"
                 "100 c look at x\n"
                 "200 c look at x\n"
                 "300 c look at x\n"
                 "400 c look at x\n"
                 "500 c look at x\n"
                 "600 c look at x\n"
                 "666 a beat, seen 1\n"
                 "666 b beat, seen 1\n"
                 "700 c look at x\n"
                 "800 c look at x\n"
                 "900 c look at x\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1000 c look at x\n"
                 "1000.1 b x: abandon(broken by operator: maintenance)\n"
                 "1100 c look at x\n"
                 "1100 broken x: yes\n"
                 "1332 a beat, seen 2\n"
                 "1332 b beat, seen 2, answered 1\n"
                 "1998 a beat, seen 3\n"
                 "1998 b beat, seen 3\n"
                 "2000 a look at x since 1\n"
                 "2000 x: 1989 ms left, shared\n");
    end();
}

static void test_breaks_that_cannot_be(void **state)
{
    (void)state;
    static char long_text[HF_TEXT_MAX + 2];
    memset(long_text, 'w', HF_TEXT_MAX + 1);
    begin("memory:break-nothing", defaults);
    play(break_it, &why, 0);
    const hf_break_options wrong[] = {
        {.reason = NULL}, {.reason = ""}, {.reason = long_text}, {.reason = "r", .by = long_text}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        why.options = wrong[i];
        play(break_it, &why, 0);
    }
    stage_expect("0 c look at x\n"
                 "0 broken x: HF_NOT_FOUND: nobody holds x\n"
                 "0 broken x: HF_INVALID: breaking a lock needs a reason, to be told its holder\n"
                 "0 broken x: HF_INVALID: breaking a lock needs a reason, to be told its holder\n"
                 "0 broken x: HF_INVALID: the reason is 257 bytes long: at most 256 are allowed "
                 "(wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww...)\n"
                 "0 broken x: HF_INVALID: who breaks (by) is 257 bytes long: at most 256 are "
                 "allowed (wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww...)\n");
    end();
}

static void test_a_break_of_the_dead(void **state)
{
    (void)state;
    hold("memory:break-dead", HF_EXCLUSIVE);
    stage_mark_dead(a, a->session.self.id);
    play(break_it, &why, 100);
    stage_expect("100 c look at x\n"
                 "100 c look at 1 sessions\n"
                 "100 c x: abandon(broken by operator: maintenance)\n"
                 "100 c look at x\n"
                 "100 broken x: yes\n");
    end();
    begin("memory:break-missing", (hf_options){.ttl_ms = 2000});
    play(take_part, &x, 700);
    stage_drop_session(a, a->session.self.id);
    play(break_it, &why, 3000);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "666 a beat, seen 1\n"
                 "700 c look at x\n"
                 "700 c look at 1 sessions\n"
                 "700 c ask\n"
                 "700 c hears HF_NOT_FOUND\n"
                 "800 c look at x\n"
                 "900 c look at x\n"
                 "1000 a sweep\n"
                 "1000 c look at x\n"
                 "1100 c look at x\n"
                 "1200 c look at x\n"
                 "1300 c look at x\n"
                 "1332 a beat, seen 2\n"
                 "1332 a hears HF_LOST\n"
                 "1332 a look at 1 sessions\n"
                 "1332 a begin a lease\n"
                 "1332 a mark\n"
                 "1332 x is lost, 0 ms left: the session is gone from the store: this session was "
                 "marked dead or removed by another\n"
                 "1400 c look at x\n"
                 "1500 c look at x\n"
                 "1600 c look at x\n"
                 "1700 c look at x\n"
                 "1800 c look at x\n"
                 "1900 c look at x\n"
                 "2000 c look at x\n"
                 "2100 c look at x\n"
                 "2200 c look at x\n"
                 "2300 c look at x\n"
                 "2400 c look at x\n"
                 "2500 c look at x\n"
                 "2600 c look at x\n"
                 "2700 c look at x\n"
                 "2800 c look at x\n"
                 "2800 c begin a lease\n"
                 "2800 c hears HF_HELD\n"
                 "2800 c look at x\n"
                 "2900 c look at 1 sessions\n"
                 "2900 c x: abandon(broken by operator: maintenance)\n"
                 "2900 c look at x\n"
                 "2900 broken x: yes\n");
    end();
}

/* Somebody removes the session with the ask in it, and its next beat begins it again. */
static void test_a_break_whose_ask_was_removed(void **state)
{
    (void)state;
    begin("memory:break-removed", (hf_options){.ttl_ms = 2000});
    play(take_part, &x, 100);
    stage_act(break_it, &why);
    stage_run(100);
    stage_drop_session(a, a->session.self.id);
    stage_run(2200);
    stage_forget();
    stage_run(4000);
    stage_expect("2500 c look at x\n"
                 "2600 c look at x\n"
                 "2664 a beat, seen 1103112293778\n"
                 "2664 x is lost, 1325 ms left: x was broken by operator: maintenance\n"
                 "2700 c look at x\n"
                 "2800 c look at x\n"
                 "2900 c look at x\n"
                 "3000 c look at x\n"
                 "3100 c look at x\n"
                 "3200 c look at x\n"
                 "3300 c look at x\n"
                 "3330 a beat, seen 1103112293779\n"
                 "3400 c look at x\n"
                 "3500 c look at x\n"
                 "3600 c look at x\n"
                 "3700 c look at x\n"
                 "3800 c look at x\n"
                 "3900 c look at x\n"
                 "3989 a x: abandon(broken by operator: maintenance)\n"
                 "3996 a beat, seen 1103112293780, answered 1\n"
                 "4000 c look at x\n"
                 "4000 broken x: yes\n"
                 "4662 a beat, seen 1103112293781\n"
                 "5328 a beat, seen 1103112293782\n"
                 "5994 a beat, seen 1103112293783\n");
    end();
}

/* Twice it does not get there, and then it is refused. */
static void break_with(const char *uri, faulty_call call, bool by_force)
{
    begin(uri, (hf_options){.ttl_ms = 1000});
    play(take_part, &x, 100);
    stage_forget();
    stage_fault fault = {.who = 'c', .call = call, .times = 2, .before = HF_UNREACHABLE};
    stage_let_fail(fault);
    why.options.force = by_force;
    play(break_it, &why, 2000);
    close_part(&x);
    play(take_part, &x, 100);
    fault.times = 1, fault.before = HF_DENIED;
    stage_let_fail(fault);
    play(break_it, &why, 2000);
}

static void test_breaks_whose_calls_fail(void **state)
{
    (void)state;
    break_with("memory:break-look", FAULTY_LOOK, true);
    stage_expect("100 c look at x: not sent, HF_UNREACHABLE\n"
                 "109 c look at x: not sent, HF_UNREACHABLE\n"
                 "124 c look at x\n"
                 "124 c look at 1 sessions\n"
                 "124 c ask\n"
                 "124 c x: abandon(broken by operator: maintenance)\n"
                 "124 c look at x\n"
                 "124 broken x: yes\n"
                 "333 a beat, seen 1\n"
                 "333 x is lost, 660 ms left: x was broken by operator: maintenance\n"
                 "666 a beat, seen 2\n"
                 "993 a x: abandon(broken by operator: maintenance)\n"
                 "993 a look at x for sure\n"
                 "999 a beat, seen 3, answered 1\n"
                 "1000 a sweep\n"
                 "1332 a beat, seen 4\n"
                 "1665 a beat, seen 5\n"
                 "1998 a beat, seen 6\n"
                 "2100 a x: enter\n"
                 "2100 a has x\n"
                 "2200 c look at x: not sent, HF_DENIED\n"
                 "2200 broken x: HF_DENIED: injected\n"
                 "2331 a beat, seen 7\n"
                 "2664 a beat, seen 8\n"
                 "2997 a beat, seen 9\n"
                 "3330 a beat, seen 10\n"
                 "3331 a look at x since 3\n"
                 "3663 a beat, seen 11\n"
                 "3996 a beat, seen 12\n");
    end();
    break_with("memory:break-sessions", FAULTY_SESSIONS_LOOK, true);
    stage_expect("100 c look at x\n"
                 "100 c look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "109 c look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "124 c look at 1 sessions\n"
                 "124 c ask\n"
                 "124 c x: abandon(broken by operator: maintenance)\n"
                 "124 c look at x\n"
                 "124 broken x: yes\n"
                 "333 a beat, seen 1\n"
                 "333 x is lost, 660 ms left: x was broken by operator: maintenance\n"
                 "666 a beat, seen 2\n"
                 "993 a x: abandon(broken by operator: maintenance)\n"
                 "993 a look at x for sure\n"
                 "999 a beat, seen 3, answered 1\n"
                 "1000 a sweep\n"
                 "1332 a beat, seen 4\n"
                 "1665 a beat, seen 5\n"
                 "1998 a beat, seen 6\n"
                 "2100 a x: enter\n"
                 "2100 a has x\n"
                 "2200 c look at x\n"
                 "2200 c look at 1 sessions: not sent, HF_DENIED\n"
                 "2200 c x: abandon(broken by operator: maintenance)\n"
                 "2200 c look at x\n"
                 "2200 broken x: yes\n"
                 "2331 a beat, seen 7\n"
                 "2664 a beat, seen 8\n"
                 "2997 a beat, seen 9\n"
                 "3330 a beat, seen 10\n"
                 "3331 a look at x since 3\n"
                 "3331 a x: abandon\n"
                 "3331 a look at x for sure\n"
                 "3331 x is lost, 0 ms left: x is not held any more: its ticket is gone from the "
                 "store (was it taken over, or the record dropped, restored or changed by hand?)\n"
                 "3663 a beat, seen 11\n"
                 "3996 a beat, seen 12\n");
    end();
    break_with("memory:break-ask", FAULTY_ASK, true);
    stage_expect("100 c look at x\n"
                 "100 c look at 1 sessions\n"
                 "100 c ask: not sent, HF_UNREACHABLE\n"
                 "109 c look at 1 sessions\n"
                 "109 c ask: not sent, HF_UNREACHABLE\n"
                 "124 c look at 1 sessions\n"
                 "124 c ask\n"
                 "124 c x: abandon(broken by operator: maintenance)\n"
                 "124 c look at x\n"
                 "124 broken x: yes\n"
                 "333 a beat, seen 1\n"
                 "333 x is lost, 660 ms left: x was broken by operator: maintenance\n"
                 "666 a beat, seen 2\n"
                 "993 a x: abandon(broken by operator: maintenance)\n"
                 "993 a look at x for sure\n"
                 "999 a beat, seen 3, answered 1\n"
                 "1000 a sweep\n"
                 "1332 a beat, seen 4\n"
                 "1665 a beat, seen 5\n"
                 "1998 a beat, seen 6\n"
                 "2100 a x: enter\n"
                 "2100 a has x\n"
                 "2200 c look at x\n"
                 "2200 c look at 1 sessions\n"
                 "2200 c ask: not sent, HF_DENIED\n"
                 "2200 c x: abandon(broken by operator: maintenance)\n"
                 "2200 c look at x\n"
                 "2200 broken x: yes\n"
                 "2331 a beat, seen 7\n"
                 "2664 a beat, seen 8\n"
                 "2997 a beat, seen 9\n"
                 "3330 a beat, seen 10\n"
                 "3331 a look at x since 3\n"
                 "3331 a x: abandon\n"
                 "3331 a look at x for sure\n"
                 "3331 x is lost, 0 ms left: x is not held any more: its ticket is gone from the "
                 "store (was it taken over, or the record dropped, restored or changed by hand?)\n"
                 "3663 a beat, seen 11\n"
                 "3996 a beat, seen 12\n");
    end();
    break_with("memory:break-step", FAULTY_STEP, true);
    stage_expect("100 c look at x\n"
                 "100 c look at 1 sessions\n"
                 "100 c ask\n"
                 "100 c x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "109 c x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "124 c x: abandon(broken by operator: maintenance)\n"
                 "124 c look at x\n"
                 "124 broken x: yes\n"
                 "333 a beat, seen 1\n"
                 "333 x is lost, 660 ms left: x was broken by operator: maintenance\n"
                 "666 a beat, seen 2\n"
                 "993 a x: abandon(broken by operator: maintenance)\n"
                 "993 a look at x for sure\n"
                 "999 a beat, seen 3, answered 1\n"
                 "1000 a sweep\n"
                 "1332 a beat, seen 4\n"
                 "1665 a beat, seen 5\n"
                 "1998 a beat, seen 6\n"
                 "2100 a x: enter\n"
                 "2100 a has x\n"
                 "2200 c look at x\n"
                 "2200 c look at 1 sessions\n"
                 "2200 c ask\n"
                 "2200 c x: abandon(broken by operator: maintenance): not sent, HF_DENIED\n"
                 "2200 broken x: HF_DENIED: injected\n"
                 "2331 a beat, seen 7\n"
                 "2331 x is lost, 660 ms left: x was broken by operator: maintenance\n"
                 "2664 a beat, seen 8\n"
                 "2991 a x: abandon(broken by operator: maintenance)\n"
                 "2997 a beat, seen 9, answered 1\n"
                 "3330 a beat, seen 10\n"
                 "3663 a beat, seen 11\n"
                 "3996 a beat, seen 12\n");
    end();
    break_with("memory:break-asking", FAULTY_ASK, false);
    stage_expect("100 c look at x\n"
                 "100 c look at 1 sessions\n"
                 "100 c ask: not sent, HF_UNREACHABLE\n"
                 "109 c look at 1 sessions\n"
                 "109 c ask: not sent, HF_UNREACHABLE\n"
                 "124 c look at 1 sessions\n"
                 "124 c ask\n"
                 "224 c look at x\n"
                 "324 c look at x\n"
                 "333 a beat, seen 1\n"
                 "333 x is lost, 660 ms left: x was broken by operator: maintenance\n"
                 "424 c look at x\n"
                 "524 c look at x\n"
                 "624 c look at x\n"
                 "666 a beat, seen 2\n"
                 "724 c look at x\n"
                 "824 c look at x\n"
                 "924 c look at x\n"
                 "993 a x: abandon(broken by operator: maintenance)\n"
                 "999 a beat, seen 3, answered 1\n"
                 "1000 a sweep\n"
                 "1024 c look at x\n"
                 "1024 broken x: yes\n"
                 "1332 a beat, seen 4\n"
                 "1665 a beat, seen 5\n"
                 "1998 a beat, seen 6\n"
                 "2100 a x: enter\n"
                 "2100 a has x\n"
                 "2200 c look at x\n"
                 "2200 c look at 1 sessions\n"
                 "2200 c ask: not sent, HF_DENIED\n"
                 "2200 broken x: HF_DENIED: injected\n"
                 "2331 a beat, seen 7\n"
                 "2664 a beat, seen 8\n"
                 "2997 a beat, seen 9\n"
                 "3330 a beat, seen 10\n"
                 "3331 a look at x since 3\n"
                 "3663 a beat, seen 11\n"
                 "3996 a beat, seen 12\n");
    end();
    break_with("memory:break-asking-sessions", FAULTY_SESSIONS_LOOK, false);
    stage_expect("100 c look at x\n"
                 "100 c look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "109 c look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "124 c look at 1 sessions\n"
                 "124 c ask\n"
                 "224 c look at x\n"
                 "324 c look at x\n"
                 "333 a beat, seen 1\n"
                 "333 x is lost, 660 ms left: x was broken by operator: maintenance\n"
                 "424 c look at x\n"
                 "524 c look at x\n"
                 "624 c look at x\n"
                 "666 a beat, seen 2\n"
                 "724 c look at x\n"
                 "824 c look at x\n"
                 "924 c look at x\n"
                 "993 a x: abandon(broken by operator: maintenance)\n"
                 "999 a beat, seen 3, answered 1\n"
                 "1000 a sweep\n"
                 "1024 c look at x\n"
                 "1024 broken x: yes\n"
                 "1332 a beat, seen 4\n"
                 "1665 a beat, seen 5\n"
                 "1998 a beat, seen 6\n"
                 "2100 a x: enter\n"
                 "2100 a has x\n"
                 "2200 c look at x\n"
                 "2200 c look at 1 sessions: not sent, HF_DENIED\n"
                 "2200 broken x: HF_DENIED: injected\n"
                 "2331 a beat, seen 7\n"
                 "2664 a beat, seen 8\n"
                 "2997 a beat, seen 9\n"
                 "3330 a beat, seen 10\n"
                 "3331 a look at x since 3\n"
                 "3663 a beat, seen 11\n"
                 "3996 a beat, seen 12\n");
    end();
}

static void test_a_break_that_is_cancelled(void **state)
{
    (void)state;
    hf_error err;
    hold("memory:break-cancelled", HF_EXCLUSIVE);
    assert_int_equal(hf_cancel_new(&why.options.cancel, &err), HF_OK);
    hf_cancel_fire(why.options.cancel);
    play(break_it, &why, 0);
    stage_expect("100 c look at x\n"
                 "100 c look at 1 sessions\n"
                 "100 c ask\n"
                 "100 broken x: HF_CANCELLED: x: the wait was cancelled; its holders were asked to "
                 "leave, and the next waiter takes them out\n");
    hf_cancel_free(why.options.cancel);
    end();
}

static void upgrade_x(void)
{
    upgrade_part(&x);
}

/* Between the look and the ask. The ask reaches the holder, which has a ticket that the break has
 * not seen: it is not done before that one has left. */
static void test_a_break_follows_an_upgrade(void **state)
{
    (void)state;
    begin("memory:break-upgraded", (hf_options){.ttl_ms = 1000});
    x.options.mode = HF_SHARED;
    play(take_part, &x, 0);
    stage_forget();
    stage_let_fail((stage_fault){.who = 'c', .call = FAULTY_ASK, .meanwhile = upgrade_x});
    stage_act(break_it, &why);
    stage_run(400);
    play(close_part, &x, 500);
    stage_expect("0 c look at x\n"
                 "0 c look at 1 sessions\n"
                 "0 c ask\n"
                 "0 a x: enter-or-not instead\n"
                 "0 upgraded x: yes\n"
                 "100 c look at x\n"
                 "100 c look at 1 sessions\n"
                 "100 c ask\n"
                 "200 c look at x\n"
                 "300 c look at x\n"
                 "333 a beat, seen 1\n"
                 "333 x is lost, 660 ms left: x was broken by operator: maintenance\n"
                 "400 c look at x\n"
                 "400.1 a x: abandon(broken by operator: maintenance)\n"
                 "500 c look at x\n"
                 "500 broken x: yes\n"
                 "666 a beat, seen 2, answered 2\n");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_downgrade_that_is_under_way_is_sent_once),
        cmocka_unit_test(test_a_downgrade_and_back),
        cmocka_unit_test(test_two_downgrades_in_the_background),
        cmocka_unit_test(test_what_cannot_be_changed),
        cmocka_unit_test(test_downgrades_that_fail),
        cmocka_unit_test(test_a_downgrade_without_patience),
        cmocka_unit_test(test_upgrades_that_fail),
        cmocka_unit_test(test_a_lost_lock_has_only_itself_looked_at),
        cmocka_unit_test(test_an_upgrade_without_patience),
        cmocka_unit_test(test_an_upgrade_beside_the_dead),
        cmocka_unit_test(test_an_upgrade_takes_along_what_was_closed),
        cmocka_unit_test(test_a_break_of_several),
        cmocka_unit_test(test_a_break_of_one_token),
        cmocka_unit_test(test_a_break_of_the_second_token),
        cmocka_unit_test(test_breaks_that_cannot_be),
        cmocka_unit_test(test_a_break_of_the_dead),
        cmocka_unit_test(test_a_break_whose_ask_was_removed),
        cmocka_unit_test(test_breaks_whose_calls_fail),
        cmocka_unit_test(test_a_break_that_is_cancelled),
        cmocka_unit_test(test_a_break_follows_an_upgrade),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
