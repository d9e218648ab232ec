/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_holding.c: what a client that holds locks sends, and when: beats, looks after what it
 * holds, releases, the ends of sessions; and how it hears of a loss. Run by ctest. */
#include "client/script_bed.h"

static hf_client *a, *b;
static part x, y;

static void begin(const char *uri, hf_options options)
{
    stage_begin();
    options.log = say_log;
    a = stage_client(uri, &options);
    b = stage_client(uri, NULL);
    x = (part){.client = a, .name = "x", .options = {.on_lost = say_loss}};
    y = (part){.client = a, .name = "y"};
}

/* Has x at 0. */
static void hold(const char *uri, hf_options options)
{
    begin(uri, options);
    play(take_part, &x, 0);
    stage_forget();
}

static void end(void)
{
    hf_lock_close(x.lock);
    hf_lock_close(y.lock);
    stage_end();
}

static const hf_options defaults;

/* Each is tried again when it is due itself. */
static void test_two_releases_in_the_background(void **state)
{
    (void)state;
    hold("memory:two-releases", defaults);
    play(take_part, &y, 100);
    stage_forget();
    stage_let_fail((stage_fault){.call = FAULTY_STEP, .is = stage_is_leave, .before = HF_DENIED});
    play(close_part, &x, 10);
    stage_let_fail((stage_fault){
        .call = FAULTY_STEP, .is = stage_is_leave, .times = 3, .before = HF_UNREACHABLE});
    play(close_part, &y, 4000);
    stage_expect("100.1 a x: leave: not sent, HF_DENIED\n"
                 "110.1 a y: leave: not sent, HF_UNREACHABLE\n"
                 "114.1 a y: leave: not sent, HF_UNREACHABLE\n"
                 "119.1 a y: leave: not sent, HF_UNREACHABLE\n"
                 "136.1 a y: leave\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "3433.1 a x: leave\n");
    end();
}

/* ---- Beats, and looks ---- */

static void test_it_beats_and_looks_after_what_it_holds(void **state)
{
    (void)state;
    hold("memory:beats", defaults);
    play(check_part, &x, 7000);
    play(take_part, &y, 0);
    play(check_part, &x, 20000);
    play(close_part, &x, 0);
    stage_expect("0 x: 9975 ms left\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "7000 a y: enter\n"
                 "7000 a has y\n"
                 "7000 x: 9641 ms left\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at x since 1\n"
                 "13332 a beat, seen 4\n"
                 "16665 a beat, seen 5\n"
                 "19998 a beat, seen 6\n"
                 "19999 a look at y since 2\n"
                 "23331 a beat, seen 7\n"
                 "23332 a look at x since 1\n"
                 "26664 a beat, seen 8\n");
    play(close_part, &y, 5000);
    stage_expect("27000.1 a x: leave\n"
                 "27000.1 a y: leave\n"
                 "29997 a beat, seen 9\n");
    end();
}

/* Their sessions began at 0 and at 100. */
static void test_beats_over_a_network_go_out_together(void **state)
{
    (void)state;
    begin("memory:together", defaults);
    stage_store(a)->base.is_remote = stage_store(b)->base.is_remote = true;
    y.client = b;
    play(take_part, &x, 100);
    play(take_part, &y, 0);
    stage_forget();
    stage_run(7000);
    stage_expect("1000 a sweep\n"
                 "1100 b sweep\n"
                 "3295 a beat, seen 1\n"
                 "3295 b beat, seen 1\n"
                 "6625 a beat, seen 2\n"
                 "6625 b beat, seen 2\n");
    end();
}

static hf_code connect_far_away(hf_store *store, hf_error *err)
{
    (void)store;
    (void)err;
    stage_sleep(800);
    return HF_OK;
}

/* Each call takes 400 ms, and a new connection 800 more: nothing of that may run on the lease, or
 * the first beat comes too late for one of 3 s, of which a third is needed to stop. */
static void test_a_short_lease_outlives_the_first_connections_to_a_store_far_away(void **state)
{
    (void)state;
    static hf_store_ops far_away;
    begin("memory:far", (hf_options){.ttl_ms = 3000, .stop_margin_ms = 1000});
    far_away = *stage_store(a)->base.ops;
    far_away.connect = connect_far_away;
    stage_store(a)->base.ops = &far_away;
    stage_store(a)->base.is_remote = true;
    stage_let_fail((stage_fault){.call = FAULTY_BEGIN, .slow_ms = 400});
    stage_let_fail((stage_fault){.call = FAULTY_STEP, .slow_ms = 400});
    stage_let_fail((stage_fault){.call = FAULTY_BEAT, .late_ms = 800, .slow_ms = 400});
    stage_let_fail((stage_fault){.call = FAULTY_BEAT, .times = 10, .slow_ms = 400});
    play(take_part, &x, 0);
    stage_run(8000);
    play(check_part, &x, 0);
    stage_expect("800 a begin\n"
                 "1200 a x: enter\n"
                 "1200 a beat, seen 1, waits\n"
                 "1200 a hears a grant\n"
                 "1600 a has x\n"
                 "1800 a sweep\n"
                 "2400 a beat, seen 2\n"
                 "3250 a beat, seen 3\n"
                 "4246 a beat, seen 4\n"
                 "4800 a look at x since 1\n"
                 "5242 a beat, seen 5\n"
                 "6238 a beat, seen 6\n"
                 "7234 a beat, seen 7\n"
                 "7800 a look at x since 1\n"
                 "8000 x: 2223 ms left\n");
    end();
}

static void test_beats_are_repeated(void **state)
{
    (void)state;
    hold("memory:repeated", defaults);
    stage_let_fail((stage_fault){.call = FAULTY_BEAT, .times = 3, .before = HF_UNREACHABLE});
    stage_let_fail((stage_fault){.call = FAULTY_BEAT, .skips = 1, .times = 2, .after = HF_UNKNOWN});
    stage_run(15000);
    play(check_part, &x, 0);
    stage_expect("1000 a sweep\n"
                 "3333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "3333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "3833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "4333 a beat, seen 1\n"
                 "7666 a beat, seen 2\n"
                 "7666 a hears HF_UNKNOWN\n"
                 "7666 a beat, seen 2\n"
                 "7666 a hears HF_UNKNOWN\n"
                 "8166 a beat, seen 2\n"
                 "10000 a look at x since 1\n"
                 "11499 a beat, seen 5\n"
                 "14832 a beat, seen 6\n"
                 "15000 x: 9807 ms left\n");
    end();
}

static void test_beats_that_are_never_answered(void **state)
{
    (void)state;
    hold("memory:unanswered", defaults);
    stage_let_fail((stage_fault){.call = FAULTY_BEAT, .times = 100, .before = HF_UNREACHABLE});
    stage_run(9974);
    play(check_part, &x, 1);
    play(check_part, &x, 2000);
    stage_expect("1000 a sweep\n"
                 "3333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "3333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "3833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "4333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "4833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "5333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "5833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "6333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "6833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "7333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "7833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "8333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "8833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "9333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "9833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "9974 x: 1 ms left\n"
                 "9975 a look at 1 sessions\n"
                 "9975 a end, leaving tickets\n"
                 "9975 x is lost, 0 ms left: the lease of 10000 ms has run out: no beat was "
                 "acknowledged, the last said: injected\n"
                 "9975 x: 0 ms left: the lease of 10000 ms has run out: no beat was acknowledged, "
                 "the last said: injected\n");
    end();
    hold("memory:noticed", (hf_options){.stop_margin_ms = 2000});
    stage_let_fail((stage_fault){.call = FAULTY_BEAT, .times = 100, .before = HF_UNREACHABLE});
    stage_run(7975);
    play(check_part, &x, 1000);
    play(check_part, &x, 1000);
    stage_expect("1000 a sweep\n"
                 "3333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "3333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "3833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "4333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "4833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "5333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "5833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "6333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "6833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "7333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "7833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "7975 x is lost, 2000 ms left: the lease of 10000 ms is about to run out: no beat "
                 "was acknowledged, the last said: injected\n"
                 "7975 x: 2000 ms left: the lease of 10000 ms is about to run out: no beat was "
                 "acknowledged, the last said: injected\n"
                 "8975 x: 1000 ms left: the lease of 10000 ms is about to run out: no beat was "
                 "acknowledged, the last said: injected\n"
                 "9975 a look at 1 sessions\n"
                 "9975 a end, leaving tickets\n");
    play(take_part, &y, 5000);
    stage_expect("9975 a begin\n"
                 "9975 a y: enter\n"
                 "9975 a has y\n"
                 "10975 a sweep\n"
                 "13308 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "13308 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "13808 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "14308 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "14808 a beat, seen 1: not sent, HF_UNREACHABLE\n");
    end();
}

static void test_a_beat_that_is_answered_too_late(void **state)
{
    (void)state;
    hold("memory:late", defaults);
    stage_let_fail((stage_fault){.call = FAULTY_BEAT, .slow_ms = 6641});
    stage_run(12000);
    play(check_part, &x, 0);
    stage_expect("1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "9974 a beat, seen 2\n"
                 "10000 a look at x since 1\n"
                 "12000 x: 7949 ms left\n");
    end();
    hold("memory:later", defaults);
    stage_let_fail((stage_fault){.call = FAULTY_BEAT, .slow_ms = 6642});
    stage_run(12000);
    play(check_part, &x, 0);
    stage_expect("1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "9975 a look at 1 sessions\n"
                 "9975 a end, leaving tickets\n"
                 "9975 x is lost, 0 ms left: the lease of 10000 ms has run out: the process was "
                 "paused, or its beats were too slow\n"
                 "12000 x: 0 ms left: the lease of 10000 ms has run out: the process was paused, "
                 "or its beats were too slow\n");
    end();
}

static void test_a_session_that_somebody_marked(void **state)
{
    (void)state;
    hold("memory:marked", defaults);
    play(take_part, &y, 0);
    stage_mark_dead(a, a->session.self.id);
    stage_run(5000);
    play(check_part, &y, 0);
    play(release_part, &y, 0);
    stage_expect("0 a y: enter\n"
                 "0 a has y\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "3333 a hears HF_LOST\n"
                 "3333 a look at 1 sessions\n"
                 "3333 a end, leaving tickets\n"
                 "3333 x is lost, 0 ms left: the session is gone from the store: this session was "
                 "marked dead or removed by another\n"
                 "5000 y: 0 ms left: the session is gone from the store: this session was marked "
                 "dead or removed by another\n"
                 "5000 released y: HF_LOST: the session is gone from the store: this session was "
                 "marked dead or removed by another\n");
    end();
}

static void test_a_ticket_that_is_gone(void **state)
{
    (void)state;
    hold("memory:gone", defaults);
    play(take_part, &y, 0);
    stage_drop_record(a, "x");
    stage_run(25000);
    stage_expect("0 a y: enter\n"
                 "0 a has y\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at x y since 2\n"
                 "10000 a x: abandon\n"
                 "10000 a look at x for sure\n"
                 "10000 x is lost, 0 ms left: x is not held any more: its ticket is gone from the "
                 "store (was it taken over, or the record dropped, restored or changed by hand?)\n"
                 "13332 a beat, seen 4\n"
                 "16665 a beat, seen 5\n"
                 "19998 a beat, seen 6\n"
                 "23331 a beat, seen 7\n"
                 "23332 a look at y since 2\n");
    end();
}

/* A look without an answer is repeated soon, not a ttl later. */
static void test_a_ticket_that_is_gone_while_the_store_is_away(void **state)
{
    (void)state;
    hold("memory:gone-away", defaults);
    stage_drop_record(a, "x");
    stage_let_fail((stage_fault){.call = FAULTY_LOOK, .before = HF_UNREACHABLE, .times = 3});
    stage_run(12000);
    stage_expect(
        "1000 a sweep\n"
        "3333 a beat, seen 1\n"
        "6666 a beat, seen 2\n"
        "9999 a beat, seen 3\n"
        "10000 a look at x since 1: not sent, HF_UNREACHABLE\n"
        "10000 log: looking after locks: injected\n"
        "10500 a look at x since 1: not sent, HF_UNREACHABLE\n"
        "10500 log: looking after locks: injected\n"
        "11000 a look at x since 1: not sent, HF_UNREACHABLE\n"
        "11000 log: looking after locks: injected\n"
        "11500 a look at x since 1\n"
        "11500 a x: abandon\n"
        "11500 a look at x for sure\n"
        "11500 x is lost, 0 ms left: x is not held any more: its ticket is gone from the "
        "store (was it taken over, or the record dropped, restored or changed by hand?)\n");
    end();
}

/* ---- Breaks ---- */

static void test_an_ask_for_what_is_held(void **state)
{
    (void)state;
    hold("memory:asked", defaults);
    breaking why = {b, "x", {.reason = "maintenance"}};
    play(take_part, &y, 3000);
    stage_act(break_it, &why);
    stage_run(600);
    play(check_part, &x, 400);
    play(close_part, &x, 10000);
    stage_expect("0 a y: enter\n"
                 "0 a has y\n"
                 "1000 a sweep\n"
                 "3000 b look at x\n"
                 "3000 b look at 1 sessions\n"
                 "3000 b ask\n"
                 "3100 b look at x\n"
                 "3200 b look at x\n"
                 "3300 b look at x\n"
                 "3333 a beat, seen 1\n"
                 "3333 x is lost, 6642 ms left: x was broken by b@:1: maintenance\n"
                 "3400 b look at x\n"
                 "3500 b look at x\n"
                 "3600 b look at x\n"
                 "3600 x: 6375 ms left: x was broken by b@:1: maintenance\n"
                 "3700 b look at x\n"
                 "3800 b look at x\n"
                 "3900 b look at x\n"
                 "4000 b look at x\n"
                 "4000.1 a x: abandon(broken by b@:1: maintenance)\n"
                 "4100 b look at x\n"
                 "4100 broken x: yes\n"
                 "6666 a beat, seen 2, answered 1\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at y since 2\n"
                 "13332 a beat, seen 4\n");
    end();
    hold("memory:asked-and-kept", (hf_options){.ttl_ms = 2000, .stop_margin_ms = 500});
    stage_run(600);
    stage_act(break_it, &why);
    why.client = b;
    stage_run(5000);
    stage_expect("600 b look at x\n"
                 "600 b look at 1 sessions\n"
                 "600 b ask\n"
                 "666 a beat, seen 1\n"
                 "666 x is lost, 1325 ms left: x was broken by b@:1: maintenance\n"
                 "700 b look at x\n"
                 "800 b look at x\n"
                 "900 b look at x\n"
                 "1000 a sweep\n"
                 "1000 b look at x\n"
                 "1100 b look at x\n"
                 "1200 b look at x\n"
                 "1300 b look at x\n"
                 "1332 a beat, seen 2\n"
                 "1400 b look at x\n"
                 "1500 b look at x\n"
                 "1600 b look at x\n"
                 "1700 b look at x\n"
                 "1800 b look at x\n"
                 "1900 b look at x\n"
                 "1991 a x: abandon(broken by b@:1: maintenance)\n"
                 "1998 a beat, seen 3, answered 1\n"
                 "2000 b look at x\n"
                 "2000 broken x: yes\n"
                 "2664 a beat, seen 4\n"
                 "3330 a beat, seen 5\n"
                 "3996 a beat, seen 6\n"
                 "4662 a beat, seen 7\n"
                 "5328 a beat, seen 8\n");
    end();
}

/* ---- Releases ---- */

/* Its holder has stopped, and keeps the handle: nobody waits until the work would have to be over.
 */
static void test_a_release_of_what_was_broken(void **state)
{
    (void)state;
    hold("memory:asked-and-released", defaults);
    breaking why = {b, "x", {.reason = "maintenance"}};
    stage_run(3000);
    stage_forget();
    stage_act(break_it, &why);
    stage_run(450);
    play(release_part, &x, 300);
    play(release_part, &x, 0);
    stage_expect("3000 b look at x\n"
                 "3000 b look at 1 sessions\n"
                 "3000 b ask\n"
                 "3100 b look at x\n"
                 "3200 b look at x\n"
                 "3300 b look at x\n"
                 "3333 a beat, seen 1\n"
                 "3333 x is lost, 6642 ms left: x was broken by b@:1: maintenance\n"
                 "3400 b look at x\n"
                 "3450 released x: HF_LOST: x was broken by b@:1: maintenance\n"
                 "3450 a x: abandon(broken by b@:1: maintenance)\n"
                 "3500 b look at x\n"
                 "3500 broken x: yes\n"
                 "3750 released x: HF_LOST: x was broken by b@:1: maintenance\n");
    end();
}

static void test_a_release_that_fails(void **state)
{
    (void)state;
    stage_fault fault = {
        .call = FAULTY_STEP, .is = stage_is_leave, .before = HF_UNREACHABLE, .times = 4};
    hold("memory:release-unreached", defaults);
    stage_let_fail(fault);
    play(release_part, &x, 1000);
    play(release_part, &x, 0);
    play(check_part, &x, 0);
    stage_expect("0 a x: leave: not sent, HF_UNREACHABLE\n"
                 "3 a x: leave: not sent, HF_UNREACHABLE\n"
                 "13 a x: leave: not sent, HF_UNREACHABLE\n"
                 "29 a x: leave: not sent, HF_UNREACHABLE\n"
                 "56 a x: leave\n"
                 "56 released x: yes\n"
                 "1000 a sweep\n"
                 "1000 released x: yes\n"
                 "1000 x: 0 ms left: x was released\n");
    end();
    hold("memory:release-unknown", defaults);
    fault.before = HF_OK, fault.after = HF_UNKNOWN;
    stage_let_fail(fault);
    play(release_part, &x, 1000);
    stage_expect("0 a x: leave\n"
                 "0 a hears HF_UNKNOWN\n"
                 "3 a x: leave\n"
                 "3 a hears HF_UNKNOWN\n"
                 "13 a x: leave\n"
                 "13 a hears HF_UNKNOWN\n"
                 "29 a x: leave\n"
                 "29 a hears HF_UNKNOWN\n"
                 "56 a x: leave\n"
                 "56 a look at x for sure\n"
                 "56 released x: yes\n"
                 "1000 a sweep\n");
    end();
    hold("memory:release-denied", defaults);
    fault.after = HF_OK, fault.before = HF_DENIED, fault.times = 1;
    stage_let_fail(fault);
    play(release_part, &x, 0);
    play(release_part, &x, 5000);
    stage_expect("0 a x: leave: not sent, HF_DENIED\n"
                 "0 released x: HF_DENIED: injected\n"
                 "0 released x: HF_UNKNOWN: x: the release is not acknowledged yet; it is tried in "
                 "the background\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "3333 a x: leave\n");
    end();
    hold("memory:release-swallowed", defaults);
    fault.before = HF_OK, fault.is_swallowed = true;
    stage_let_fail(fault);
    play(release_part, &x, 1000);
    stage_expect("0 a x: leave\n"
                 "0 a look at x for sure\n"
                 "3 a x: leave\n"
                 "3 released x: yes\n"
                 "1000 a sweep\n");
    end();
    hold("memory:release-dropped", defaults);
    stage_drop_record(a, "x");
    play(release_part, &x, 1000);
    stage_expect("0 a x: leave\n"
                 "0 a look at x for sure\n"
                 "0 released x: HF_LOST: x was not held any more when it was released: somebody "
                 "took the ticket out, or the record is gone\n"
                 "1000 a sweep\n");
    end();
}

static void test_a_release_without_patience(void **state)
{
    (void)state;
    stage_fault fault = {
        .call = FAULTY_STEP, .is = stage_is_leave, .before = HF_UNREACHABLE, .times = 8};
    hold("memory:impatient", (hf_options){.patience_ms = 100});
    stage_let_fail(fault);
    play(release_part, &x, 50);
    play(release_part, &x, 1);
    play(release_part, &x, 100);
    play(release_part, &x, 3000);
    stage_expect("0 a x: leave: not sent, HF_UNREACHABLE\n"
                 "3 a x: leave: not sent, HF_UNREACHABLE\n"
                 "13 a x: leave: not sent, HF_UNREACHABLE\n"
                 "29 a x: leave: not sent, HF_UNREACHABLE\n"
                 "50 released x: HF_UNKNOWN: x: the release is not acknowledged yet; it is tried "
                 "in the background\n"
                 "51 released x: HF_UNKNOWN: x: the release is not acknowledged yet; it is tried "
                 "in the background\n"
                 "56 a x: leave: not sent, HF_UNREACHABLE\n"
                 "104 a x: leave: not sent, HF_UNREACHABLE\n"
                 "104 released x: HF_UNREACHABLE: injected\n"
                 "151 released x: HF_UNKNOWN: x: the release is not acknowledged yet; it is tried "
                 "in the background\n"
                 "193 a x: leave: not sent, HF_UNREACHABLE\n"
                 "363 a x: leave: not sent, HF_UNREACHABLE\n"
                 "624 a x: leave\n"
                 "1000 a sweep\n");
    end();
    hold("memory:release-after-the-end", defaults);
    fault.times = 14;
    stage_let_fail(fault);
    stage_let_fail((stage_fault){.call = FAULTY_BEAT, .times = 100, .before = HF_UNREACHABLE});
    stage_run(9000);
    stage_forget();
    play(release_part, &x, 3000);
    stage_expect("9000 a x: leave: not sent, HF_UNREACHABLE\n"
                 "9003 a x: leave: not sent, HF_UNREACHABLE\n"
                 "9013 a x: leave: not sent, HF_UNREACHABLE\n"
                 "9029 a x: leave: not sent, HF_UNREACHABLE\n"
                 "9056 a x: leave: not sent, HF_UNREACHABLE\n"
                 "9104 a x: leave: not sent, HF_UNREACHABLE\n"
                 "9193 a x: leave: not sent, HF_UNREACHABLE\n"
                 "9333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "9363 a x: leave: not sent, HF_UNREACHABLE\n"
                 "9624 a x: leave: not sent, HF_UNREACHABLE\n"
                 "9833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "9886 a x: leave: not sent, HF_UNREACHABLE\n"
                 "10149 a x: leave: not sent, HF_UNREACHABLE\n"
                 "10413 a x: leave: not sent, HF_UNREACHABLE\n"
                 "10678 a x: leave: not sent, HF_UNREACHABLE\n"
                 "10944 a x: leave: not sent, HF_UNREACHABLE\n"
                 "11211 a x: leave\n"
                 "11211 released x: yes\n"
                 "11211 a look at 1 sessions\n"
                 "11211 a end, leaving tickets\n");
    end();
}

static void test_a_close_that_fails(void **state)
{
    (void)state;
    stage_fault fault = {
        .call = FAULTY_STEP, .is = stage_is_leave, .before = HF_UNREACHABLE, .times = 9};
    hold("memory:close-unreached", defaults);
    stage_let_fail(fault);
    play(close_part, &x, 3000);
    stage_expect("0.1 a x: leave: not sent, HF_UNREACHABLE\n"
                 "3.1 a x: leave: not sent, HF_UNREACHABLE\n"
                 "13.1 a x: leave: not sent, HF_UNREACHABLE\n"
                 "29.1 a x: leave: not sent, HF_UNREACHABLE\n"
                 "56.1 a x: leave: not sent, HF_UNREACHABLE\n"
                 "104.1 a x: leave: not sent, HF_UNREACHABLE\n"
                 "193.1 a x: leave: not sent, HF_UNREACHABLE\n"
                 "363.1 a x: leave: not sent, HF_UNREACHABLE\n"
                 "624.1 a x: leave: not sent, HF_UNREACHABLE\n"
                 "886.1 a x: leave\n"
                 "1000 a sweep\n");
    end();
    hold("memory:close-denied", defaults);
    fault.before = HF_DENIED, fault.times = 2;
    stage_let_fail(fault);
    play(close_part, &x, 10000);
    stage_expect("0.1 a x: leave: not sent, HF_DENIED\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "3333.1 a x: leave: not sent, HF_DENIED\n"
                 "6666 a beat, seen 2\n"
                 "6666.1 a x: leave\n"
                 "9999 a beat, seen 3\n");
    end();
    hold("memory:close-swallowed", defaults);
    fault.before = HF_OK, fault.is_swallowed = true;
    stage_let_fail(fault);
    play(close_part, &x, 1000);
    stage_expect("0.1 a x: leave\n"
                 "0.1 a look at x for sure\n"
                 "3.1 a x: leave\n"
                 "3.1 a look at x for sure\n"
                 "13.1 a x: leave\n"
                 "1000 a sweep\n");
    end();
    hold("memory:close-and-take", defaults);
    stage_act(close_part, &x);
    play(take_part, &x, 10);
    stage_expect("0 a x: leave enter\n"
                 "0 a has x\n");
    end();
}

/* An enter carries them along; what it could not take is sent alone. */
static void test_a_close_that_goes_along(void **state)
{
    (void)state;
    stage_fault fault = {.call = FAULTY_STEP, .is = stage_is_enter, .before = HF_UNREACHABLE};
    hold("memory:along", defaults);
    stage_let_fail(fault);
    stage_act(close_part, &x);
    play(take_part, &x, 100);
    stage_expect("0 a x: leave enter: not sent, HF_UNREACHABLE\n"
                 "0 log: x: trying again: injected\n"
                 "0.1 a x: leave\n"
                 "10 a x: enter\n"
                 "10 a has x\n");
    end();
    hold("memory:along-unknown", defaults);
    fault.before = HF_OK, fault.after = HF_UNKNOWN;
    stage_let_fail(fault);
    stage_act(close_part, &x);
    play(take_part, &x, 100);
    play(close_part, &x, 30000);
    stage_expect("0 a x: leave enter\n"
                 "0 a hears HF_UNKNOWN\n"
                 "0 log: x: trying again: injected\n"
                 "0.1 a x: leave\n"
                 "0.1 a look at x for sure\n"
                 "10 a x: enter\n"
                 "10 a has x\n"
                 "100.1 a x: leave\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at x\n"
                 "13332 a beat, seen 4\n"
                 "16665 a beat, seen 5\n"
                 "19998 a beat, seen 6\n"
                 "20000 a look at x\n"
                 "23331 a beat, seen 7\n"
                 "26664 a beat, seen 8\n"
                 "29997 a beat, seen 9\n"
                 "30000 a look at x\n");
    end();
}

/* ---- Enters that may still land ---- */

static void test_an_enter_that_was_never_answered(void **state)
{
    (void)state;
    stage_fault fault = {
        .call = FAULTY_STEP, .is = stage_is_enter, .after = HF_UNKNOWN, .times = 100};
    hold("memory:suspect", (hf_options){.patience_ms = 50});
    stage_let_fail(fault);
    play(take_part, &y, 25000);
    stage_expect("0 a y: enter\n"
                 "0 a hears HF_UNKNOWN\n"
                 "0 log: y: trying again: injected\n"
                 "10 a y: enter\n"
                 "10 a hears HF_UNKNOWN\n"
                 "26 a y: enter\n"
                 "26 a hears HF_UNKNOWN\n"
                 "50 a y: enter\n"
                 "50 a hears HF_UNKNOWN\n"
                 "50 a is told HF_UNKNOWN: injected\n"
                 "50 a y: leave-unused\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at y\n"
                 "10000 a look at x since 1\n"
                 "13332 a beat, seen 4\n"
                 "16665 a beat, seen 5\n"
                 "19998 a beat, seen 6\n"
                 "20000 a look at y\n"
                 "23331 a beat, seen 7\n"
                 "23332 a look at x since 1\n");
    play(close_part, &x, 100);
    stage_forget();
    stage_run(3000);
    play(take_part, &y, 25000);
    stage_expect("26664 a beat, seen 8\n"
                 "28100 a begin\n"
                 "28100 a y: enter\n"
                 "28100 a hears HF_UNKNOWN\n"
                 "28100 log: y: trying again: injected\n"
                 "28100 a look at 1 sessions\n"
                 "28100 a end, leaving tickets\n"
                 "28100 a hears a grant\n"
                 "28100 a hears that it should look\n"
                 "28110 a y: enter\n"
                 "28110 a hears HF_UNKNOWN\n"
                 "28121 a y: enter\n"
                 "28121 a hears HF_UNKNOWN\n"
                 "28150 a y: enter\n"
                 "28150 a hears HF_UNKNOWN\n"
                 "28150 a is told HF_UNKNOWN: injected\n"
                 "28150 a y: leave-unused\n"
                 "29100 a sweep\n"
                 "30000 a look at y\n"
                 "31433 a beat, seen 1\n"
                 "34766 a beat, seen 2\n"
                 "38099 a beat, seen 3\n"
                 "40000 a look at y\n"
                 "41432 a beat, seen 4\n"
                 "44765 a beat, seen 5\n"
                 "48098 a beat, seen 6\n"
                 "50000 a look at y\n"
                 "51431 a beat, seen 7\n");
    end();
}

/* A look without an answer is repeated soon, not a ttl later. */
static void test_a_look_at_a_suspect_that_fails(void **state)
{
    (void)state;
    stage_fault unanswered = {
        .call = FAULTY_STEP, .is = stage_is_enter, .after = HF_UNKNOWN, .times = 1};
    hold("memory:suspect-away", (hf_options){.patience_ms = 1});
    play(close_part, &x, 100);
    stage_forget();
    stage_let_fail(unanswered);
    play(take_part, &y, 9000);
    stage_let_fail((stage_fault){.call = FAULTY_LOOK, .before = HF_UNREACHABLE, .times = 2});
    stage_run(15000);
    stage_expect("100 a y: enter\n"
                 "100 a hears HF_UNKNOWN\n"
                 "100 log: y: trying again: injected\n"
                 "101 a y: enter\n"
                 "101 a has y\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at y: not sent, HF_UNREACHABLE\n"
                 "10000 log: looking after locks: injected\n"
                 "10500 a look at y: not sent, HF_UNREACHABLE\n"
                 "10500 log: looking after locks: injected\n"
                 "11000 a look at y\n"
                 "13332 a beat, seen 4\n"
                 "13333 a look at y since 3\n"
                 "16665 a beat, seen 5\n"
                 "19998 a beat, seen 6\n"
                 "21000 a look at y\n"
                 "23331 a beat, seen 7\n");
    end();
}

/* ---- Sweeps ---- */

static int parts;

static hf_code give_overdue(faulty *f, hf_session_state *out, size_t max, size_t *n, bool *more)
{
    (void)f;
    assert_int_equal(max, 32);
    *n = parts < 2 ? 1 : 0;
    if (parts < 2)
        out[0] = (hf_session_state){.session = {.id = {{9, (uint8_t)parts}}, .ttl_ms = 2000},
                                    .presence = HF_LIVE};
    *more = parts++ < 2;
    return HF_OK;
}

static hf_code give_two_overdue(faulty *f, hf_session_state *out, size_t max, size_t *n, bool *more)
{
    (void)f, (void)max;
    *n = (size_t)parts;
    *more = false;
    for (size_t i = 0; i < *n; i++)
        out[i] = (hf_session_state){.session = {.id = {{9, (uint8_t)i}}, .ttl_ms = 2000},
                                    .presence = HF_LIVE};
    return HF_OK;
}

static void begin_overdue(void)
{
    hf_error err;
    hf_store *store = stage_store(a)->inner;
    for (uint8_t i = 0; i < 2; i++) {
        hf_session dead = {.id = {{9, i}}, .ttl_ms = 2000, .pid = 1};
        assert_int_equal(store->ops->session_begin(store, &dead, &err), HF_OK);
    }
}

/* From the second look on. */
#define TWO_ARE_WATCHED_AND_MARKED                                                                 \
    "1200 a look at 2 sessions\n"                                                                  \
    "1533 a look at 2 sessions\n"                                                                  \
    "1866 a look at 2 sessions\n"                                                                  \
    "2199 a look at 2 sessions\n"                                                                  \
    "2532 a look at 2 sessions\n"                                                                  \
    "2865 a look at 2 sessions\n"                                                                  \
    "3109 a look at 2 sessions\n"                                                                  \
    "3109 a mark\n"                                                                                \
    "3109 log: marked a session dead that is long overdue\n"                                       \
    "3109 a mark\n"                                                                                \
    "3109 log: marked a session dead that is long overdue\n"                                       \
    "3333 a beat, seen 1\n"                                                                        \
    "6666 a beat, seen 2\n"

static void test_sweeps(void **state)
{
    (void)state;
    begin("memory:swept", defaults);
    parts = 0;
    stage_store(a)->sweep = give_overdue;
    begin_overdue();
    play(take_part, &x, 8000);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "1000 a sweep\n"
                 "1020 a sweep\n"
                 "1040 a sweep\n"
                 "1100 a look at 2 sessions\n" TWO_ARE_WATCHED_AND_MARKED);
    end();
    begin("memory:swept-two", defaults);
    parts = 2;
    stage_store(a)->sweep = give_two_overdue;
    begin_overdue();
    stage_let_fail((stage_fault){
        .who = 'a', .call = FAULTY_SESSIONS_LOOK, .skips = 1, .before = HF_UNREACHABLE});
    play(take_part, &x, 8000);
    stage_expect(
        "0 a begin\n"
        "0 a x: enter\n"
        "0 a has x\n"
        "1000 a sweep\n"
        "1100 a look at 2 sessions\n"
        "1200 a look at 2 sessions: not sent, HF_UNREACHABLE\n" TWO_ARE_WATCHED_AND_MARKED);
    end();
    begin("memory:swept-hourly", defaults);
    parts = 2;
    stage_store(a)->sweep = give_overdue;
    stage_let_fail((stage_fault){.call = FAULTY_SWEEP, .skips = 1, .before = HF_UNREACHABLE});
    stage_let_fail((stage_fault){.call = FAULTY_BEAT, .times = 100, .before = HF_DENIED});
    play(take_part, &x, 3600999);
    stage_forget();
    stage_run(1);
    stage_expect("3601000 a sweep: not sent, HF_UNREACHABLE\n"
                 "3601000 log: sweeping: injected\n");
    stage_forget();
    stage_run(4000);
    stage_expect("3604004 a sweep\n");
    end();
}

/* That client may have been killed in its turn. While others go on, it comes more and more rarely.
 */
static void test_a_sweep_comes_again_after_anothers_turn(void **state)
{
    (void)state;
    begin("memory:another-sweeps", defaults);
    stage_let_fail((stage_fault){.call = FAULTY_SWEEP, .times = 4, .before = HF_HELD});
    play(take_part, &x, 25000);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "1000 a sweep: not sent, HF_HELD\n"
                 "3333 a beat, seen 1\n"
                 "4004 a sweep: not sent, HF_HELD\n"
                 "6666 a beat, seen 2\n"
                 "8009 a sweep: not sent, HF_HELD\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at x since 1\n"
                 "13332 a beat, seen 4\n"
                 "14015 a sweep: not sent, HF_HELD\n"
                 "16665 a beat, seen 5\n"
                 "19998 a beat, seen 6\n"
                 "23331 a beat, seen 7\n"
                 "23332 a look at x since 1\n"
                 "24022 a sweep\n");
    end();
}

static hf_code give_gone(faulty *f, hf_session_state *out, size_t max, size_t *n, bool *more)
{
    (void)f, (void)max;
    *n = parts < 2 ? 1 : 0;
    out[0] = (hf_session_state){.session = {.id = {{9, (uint8_t)parts}}, .ttl_ms = 2000},
                                .presence = HF_LIVE,
                                .is_gone = true,
                                .beat = 1};
    *more = parts++ < 2;
    return HF_OK;
}

/* A client that lives for some ms cannot watch anybody, and need not. */
static void test_a_sweep_marks_at_once_who_is_gone(void **state)
{
    (void)state;
    begin("memory:gone", defaults);
    parts = 0;
    stage_store(a)->sweep = give_gone;
    begin_overdue();
    play(take_part, &x, 3000);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "1000 a sweep\n"
                 "1000 a mark\n"
                 "1000 log: marked a session dead that is long overdue\n"
                 "1020 a sweep\n"
                 "1020 a mark\n"
                 "1020 log: marked a session dead that is long overdue\n"
                 "1040 a sweep\n");
    end();
}

static void test_a_sweep_that_fails(void **state)
{
    (void)state;
    begin("memory:unswept", defaults);
    stage_let_fail((stage_fault){.call = FAULTY_SWEEP, .before = HF_UNREACHABLE});
    stage_chance(7); /* of eight: at once */
    play(take_part, &x, 2000);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "1000 a sweep: not sent, HF_UNREACHABLE\n"
                 "1000 log: sweeping: injected\n");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_releases_in_the_background),
        cmocka_unit_test(test_it_beats_and_looks_after_what_it_holds),
        cmocka_unit_test(test_beats_over_a_network_go_out_together),
        cmocka_unit_test(test_a_short_lease_outlives_the_first_connections_to_a_store_far_away),
        cmocka_unit_test(test_beats_are_repeated),
        cmocka_unit_test(test_beats_that_are_never_answered),
        cmocka_unit_test(test_a_beat_that_is_answered_too_late),
        cmocka_unit_test(test_a_session_that_somebody_marked),
        cmocka_unit_test(test_a_ticket_that_is_gone),
        cmocka_unit_test(test_a_ticket_that_is_gone_while_the_store_is_away),
        cmocka_unit_test(test_an_ask_for_what_is_held),
        cmocka_unit_test(test_a_release_of_what_was_broken),
        cmocka_unit_test(test_a_release_that_fails),
        cmocka_unit_test(test_a_release_without_patience),
        cmocka_unit_test(test_a_close_that_fails),
        cmocka_unit_test(test_a_close_that_goes_along),
        cmocka_unit_test(test_an_enter_that_was_never_answered),
        cmocka_unit_test(test_a_look_at_a_suspect_that_fails),
        cmocka_unit_test(test_sweeps),
        cmocka_unit_test(test_a_sweep_comes_again_after_anothers_turn),
        cmocka_unit_test(test_a_sweep_marks_at_once_who_is_gone),
        cmocka_unit_test(test_a_sweep_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
