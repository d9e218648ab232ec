/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_together.c: what is sent for several locks at once: how long all of them together are
 * waited for, what is held meanwhile, and what their holder is told. Run by ctest. */
#include "client/script_bed.h"

static hf_client *a, *b;
static part one, two; /* what b holds */
static hf_lock *locks[3];
static size_t n_names;
static const char *const names[] = {"c", "a", "b"};

static void begin(const char *uri, hf_options options)
{
    stage_begin();
    options.log = say_log;
    a = stage_client(uri, &options);
    b = stage_client(uri, NULL);
    one = (part){.client = b, .name = "a"};
    two = (part){.client = b, .name = "b"};
    n_names = 3;
}

static void end(void)
{
    close_parts((part *const[]){&one, &two}, 2);
    stage_end();
}

static const hf_options defaults;

static void take_all(void *options)
{
    hf_error err = {.code = HF_OK};
    hf_code code = hf_lock_acquire_all(a, names, n_names, options, locks, &err);
    say_code("acquired", "all", code, &err);
    for (size_t i = 0; i < n_names && !code; i++)
        stage_say("%s", hf_lock_name(locks[i]));
}

static void take_all_untold(void *options)
{
    hf_code code = hf_lock_acquire_all(a, names, n_names, options, locks, NULL);
    stage_say("acquired all: %s", hf_code_name(code));
}

static void close_all(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < n_names; i++)
        hf_lock_close(locks[i]);
}

static void check_all(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < n_names; i++)
        check_part(&(part){.name = names[i], .lock = locks[i]});
}

static void let_two_be_held(void)
{
    play(take_part, &one, 0);
    play(take_part, &two, 0);
    stage_expect("0 b begin\n"
                 "0 b a: enter\n"
                 "0 b has a\n"
                 "0 b b: enter\n"
                 "0 b has b\n");
}

/* All are free. */
static void hold_all(hf_lock_options *options)
{
    play(take_all, options, 100);
    stage_expect("0 a begin\n"
                 "0 a a: enter\n"
                 "0 a b: enter\n"
                 "0 a c: enter\n"
                 "0 acquired all: yes\n"
                 "0 c\n"
                 "0 a\n"
                 "0 b\n");
}

/* ---- For how long ---- */

/* The time for all of them, not for each. */
static void test_the_time_is_for_all(void **state)
{
    (void)state;
    hf_lock_options options = {.wait_ms = 1500};
    begin("memory:together-time", defaults);
    let_two_be_held();
    stage_act(take_all, &options);
    stage_run(1000);
    play(close_part, &one, 1500);
    play(take_all_untold, &options, 2000);
    stage_expect("0 a begin\n"
                 "0 a a: enter\n"
                 "360 a look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1000.1 b a: leave\n"
                 "1000.1 a hears a grant\n"
                 "1020 a b: enter\n"
                 "1380 a look at 1 sessions\n"
                 "1500 a look at 1 sessions, trusting\n"
                 "1500 a b: leave-unused\n"
                 "1500 acquired all: HF_TIMEOUT: b was not free in time: held by b@:1\n"
                 "1500.1 a a: leave-unused\n"
                 "2500 a a: enter\n"
                 "2500 a b: enter\n"
                 "2500 a hears a grant\n"
                 "2860 a look at 1 sessions\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1\n"
                 "3400 a look at 1 sessions\n"
                 "3500 a look at a b\n"
                 "3500 a who waits for what\n"
                 "3750 a look at a b\n"
                 "3750 a who waits for what\n"
                 "4000 a look at 1 sessions, trusting\n"
                 "4000 a b: leave-unused\n"
                 "4000 acquired all: HF_TIMEOUT\n"
                 "4000.1 a a: leave-unused\n");
    end();
}

static void test_several_that_are_waited_for(void **state)
{
    (void)state;
    hf_lock_options options = {.wait_ms = 3000};
    begin("memory:several-wait", defaults);
    play(take_part, &two, 0);
    play(take_all, &options, 1000);
    play(close_part, &two, 100);
    stage_expect("0 b begin\n"
                 "0 b b: enter\n"
                 "0 b has b\n"
                 "0 a begin\n"
                 "0 a a: enter\n"
                 "0 a b: enter\n"
                 "0 a hears a grant\n"
                 "360 a look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1000 a look at a b\n"
                 "1000 a who waits for what\n"
                 "1000.1 b b: leave\n"
                 "1000.1 a hears a grant\n"
                 "1020 a c: enter\n"
                 "1020 acquired all: yes\n"
                 "1020 c\n"
                 "1020 a\n"
                 "1020 b\n");
    play(close_all, NULL, 10);
    stage_forget();
    play(take_part, &two, 0);
    play(take_all, &options, 4000);
    options.wait_ms = HF_TRY;
    play(take_all, &options, 100);
    stage_expect("1110 b b: enter\n"
                 "1110 b has b\n"
                 "1110 a a: enter\n"
                 "1110 a b: enter\n"
                 "1110 a hears a grant\n"
                 "1110 a hears a grant\n"
                 "1470 a look at 1 sessions\n"
                 "2110 a look at a b\n"
                 "2110 a who waits for what\n"
                 "2360 a look at a b\n"
                 "2360 a who waits for what\n"
                 "2610 a look at a b\n"
                 "2610 a who waits for what\n"
                 "2623 a look at b since 11\n"
                 "2860 a look at a b\n"
                 "2860 a who waits for what\n"
                 "3110 a look at a b\n"
                 "3110 a who waits for what\n"
                 "3333 a beat, seen 1, waits\n"
                 "3333 b beat, seen 1\n"
                 "3360 a look at a b\n"
                 "3360 a who waits for what\n"
                 "3400 a look at 1 sessions\n"
                 "3860 a look at a b\n"
                 "3860 a who waits for what\n"
                 "4110 a look at 1 sessions, trusting\n"
                 "4110 a b: leave-unused\n"
                 "4110 acquired all: HF_TIMEOUT: b was not free in time: held by b@:1\n"
                 "4110.1 a a: leave-unused\n"
                 "5110 a a: enter-or-not\n"
                 "5110 a b: enter-or-not\n"
                 "5110 a look at 1 sessions, trusting\n"
                 "5110 acquired all: HF_HELD: b was not free: held by b@:1\n"
                 "5110.1 a a: leave-unused\n");
    end();
}

static void test_the_store_says_how_long(void **state)
{
    (void)state;
    begin("memory:together-store", (hf_options){.deadlock_ms = -1});
    stage_store(a)->base.wait_ms = 700;
    let_two_be_held();
    stage_act(take_all, NULL);
    stage_run(300);
    play(close_part, &one, 2000);
    stage_expect("0 a begin\n"
                 "0 a a: enter\n"
                 "300.1 b a: leave\n"
                 "300.1 a hears a grant\n"
                 "320 a b: enter\n"
                 "680 a look at 1 sessions\n"
                 "700 a look at 1 sessions, trusting\n"
                 "700 a b: leave-unused\n"
                 "700 acquired all: HF_TIMEOUT: b was not free in time: held by b@:1\n"
                 "700.1 a a: leave-unused\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n");
    end();
}

/* The first takes all of the time: for the next there is none. */
static void test_no_time_is_left(void **state)
{
    (void)state;
    hf_lock_options options = {.wait_ms = 300};
    begin("memory:together-no-time", (hf_options){.deadlock_ms = -1});
    let_two_be_held();
    stage_let_fail((stage_fault){.who = 'a', .call = FAULTY_STEP, .slow_ms = 300});
    play(close_part, &one, 10);
    stage_act(take_all, &options);
    stage_run(1000);
    stage_expect("0.1 b a: leave\n"
                 "10 a begin\n"
                 "10 a a: enter\n"
                 "10 a hears a grant\n"
                 "310 a b: enter\n"
                 "311 a look at 1 sessions, trusting\n"
                 "311 a b: leave-unused\n"
                 "311 acquired all: HF_TIMEOUT: b was not free in time: held by b@:1\n"
                 "311.1 a a: leave-unused\n"
                 "1000 b sweep\n"
                 "1010 a sweep\n");
    end();
}

static void test_without_a_limit_it_waits_on(void **state)
{
    (void)state;
    hf_lock_options options = {.on_wait = say_wait};
    begin("memory:together-for-ever", (hf_options){.deadlock_ms = -1});
    play(take_part, &two, 0);
    stage_act(take_all, &options);
    stage_run(15000);
    play(close_part, &two, 500);
    stage_expect("0 b begin\n"
                 "0 b b: enter\n"
                 "0 b has b\n"
                 "0 a begin\n"
                 "0 a a: enter\n"
                 "0 a b: enter\n"
                 "0 waits for b 0 ms, 1 of 1, held by 1: another session '', since then\n"
                 "0 a hears a grant\n"
                 "360 a look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1000 waits for b 1000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "1508 a look at b since 3\n"
                 "2000 waits for b 2000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "3000 waits for b 3000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "3017 a look at b since 3\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1\n"
                 "3397 a look at 1 sessions\n"
                 "4000 waits for b 4000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "4527 a look at b since 3\n"
                 "5000 waits for b 5000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "6000 waits for b 6000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "6038 a look at b since 3\n"
                 "6666 a beat, seen 2\n"
                 "6666 b beat, seen 2\n"
                 "6718 a look at 1 sessions\n"
                 "7000 waits for b 7000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "7559 a look at b since 3\n"
                 "8000 waits for b 8000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "9000 waits for b 9000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "9461 a look at b since 3\n"
                 "9999 a beat, seen 3\n"
                 "9999 b beat, seen 3\n"
                 "10000 a look at a since 2\n"
                 "10000 b look at b since 1\n"
                 "10000 waits for b 10000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "10060 a look at 1 sessions\n"
                 "11000 waits for b 11000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "11840 a look at b since 3\n"
                 "12000 waits for b 12000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "13000 waits for b 13000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "13332 a beat, seen 4\n"
                 "13332 b beat, seen 4\n"
                 "13400 a look at 1 sessions\n"
                 "14000 waits for b 14000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "14815 a look at b since 3\n"
                 "15000 waits for b 15000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "15000.1 b b: leave\n"
                 "15000.1 a hears a grant\n"
                 "15020 a c: enter\n"
                 "15020 acquired all: yes\n"
                 "15020 c\n"
                 "15020 a\n"
                 "15020 b\n");
    play(close_all, NULL, 100);
    end();
}

/* ---- What is lost meanwhile ---- */

static void test_one_that_is_lost_meanwhile_is_taken_again(void **state)
{
    (void)state;
    hf_lock_options options = {.on_lost = say_loss};
    begin("memory:together-lost", (hf_options){.ttl_ms = 2000, .deadlock_ms = -1});
    play(take_part, &two, 0);
    stage_act(take_all, &options);
    stage_run(500);
    stage_drop_record(a, "a");
    stage_run(2500);
    stage_forget();
    play(close_part, &two, 200);
    play(check_all, NULL, 0);
    stage_expect("3000.1 b b: leave\n"
                 "3000.1 a hears a grant\n"
                 "3008 a c: enter\n"
                 "3008 a a: enter\n"
                 "3008 a b: leave-unused enter\n"
                 "3008 a c: leave-unused enter\n"
                 "3008 acquired all: yes\n"
                 "3008 c\n"
                 "3008 a\n"
                 "3008 b\n"
                 "3200 c: 1455 ms left\n"
                 "3200 a: 1455 ms left\n"
                 "3200 b: 1455 ms left\n");
    play(close_all, NULL, 100);
    end();
}

/* ---- Afterwards ---- */

/* Nobody uses it yet, so who breaks it need not wait until work is stopped. */
static void test_one_that_is_broken_meanwhile_is_given_up_at_once(void **state)
{
    (void)state;
    hf_lock_options options = {.on_lost = say_loss};
    begin("memory:together-broken", (hf_options){.deadlock_ms = -1});
    breaking why = {b, "a", {.reason = "in the way"}};
    play(take_part, &two, 0);
    stage_act(take_all, &options);
    stage_run(3000);
    stage_forget();
    play(break_it, &why, 1000);
    stage_expect("3000 b look at a\n"
                 "3000 b look at 1 sessions\n"
                 "3000 b ask\n"
                 "3017 a look at b since 3\n"
                 "3100 b look at a\n"
                 "3200 b look at a\n"
                 "3300 b look at a\n"
                 "3333 a beat, seen 1\n"
                 "3333 a a: abandon(broken by b@:1: in the way)\n"
                 "3333 b beat, seen 1\n"
                 "3397 a look at 1 sessions\n"
                 "3400 b look at a\n"
                 "3400 broken a: yes\n");
    play(close_part, &two, 500);
    stage_expect("4000.1 b b: leave\n"
                 "4000.1 a hears a grant\n"
                 "4017 a c: enter\n"
                 "4017 a a: enter\n"
                 "4017 a b: leave-unused enter\n"
                 "4017 a c: leave-unused enter\n"
                 "4017 acquired all: yes\n"
                 "4017 c\n"
                 "4017 a\n"
                 "4017 b\n");
    play(close_all, NULL, 100);
    end();
}

static void test_several_at_once(void **state)
{
    (void)state;
    hf_lock_options options = {.on_lost = say_loss, .max_hold_ms = 5000, .on_wait = say_wait};
    begin("memory:several", (hf_options){.stop_margin_ms = 1000});
    hold_all(&options);
    stage_run(6400);
    stage_expect("1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "5000 a is lost, 1000 ms left: a: it was held for longer than 5000 ms\n"
                 "6000 a a: abandon(it was held for longer than 5000 ms)\n"
                 "6000 a b: abandon\n"
                 "6000 a c: abandon\n");
    play(close_all, NULL, 100);
    end();
}

static void test_one_that_is_lost_takes_all_along(void **state)
{
    (void)state;
    hf_lock_options options = {.on_lost = say_loss};
    begin("memory:together-all-lost", (hf_options){.ttl_ms = 2000});
    hold_all(&options);
    stage_drop_record(a, "b");
    stage_run(3000);
    play(check_all, NULL, 0);
    stage_expect("666 a beat, seen 1\n"
                 "1000 a sweep\n"
                 "1332 a beat, seen 2\n"
                 "1998 a beat, seen 3\n"
                 "2000 a look at a b c since 3\n"
                 "2000 a b: abandon\n"
                 "2000 a look at b for sure\n"
                 "2000 a c: abandon\n"
                 "2000 a a: abandon\n"
                 "2000 b is lost, 0 ms left: b is not held any more: its ticket is gone from the "
                 "store (was it taken over, or the record dropped, restored or changed by hand?)\n"
                 "2664 a beat, seen 4\n"
                 "3100 c: 0 ms left: c goes with b, with which it was taken: b is not held any "
                 "more: its ticket is gone from the store (was it taken over, or the record "
                 "dropped, restored or changed by hand?)\n"
                 "3100 a: 0 ms left: a goes with b, with which it was taken: b is not held any "
                 "more: its ticket is gone from the store (was it taken over, or the record "
                 "dropped, restored or changed by hand?)\n"
                 "3100 b: 0 ms left: b is not held any more: its ticket is gone from the store "
                 "(was it taken over, or the record dropped, restored or changed by hand?)\n");
    play(close_all, NULL, 100);
    end();
}

/* One that is closed is in nobody's way any more. */
static void test_one_that_is_closed_takes_nothing_along(void **state)
{
    (void)state;
    hf_lock_options options = {.on_lost = say_loss};
    begin("memory:together-closed", (hf_options){.ttl_ms = 2000});
    hold_all(&options);
    hf_lock_close(locks[0]);
    stage_run(100);
    stage_drop_record(a, "b");
    stage_run(3000);
    check_part(&(part){.name = "a", .lock = locks[1]});
    check_part(&(part){.name = "b", .lock = locks[2]});
    stage_expect("100.1 a c: leave\n"
                 "666 a beat, seen 1\n"
                 "1000 a sweep\n"
                 "1332 a beat, seen 2\n"
                 "1998 a beat, seen 3\n"
                 "2000 a look at a b since 2\n"
                 "2000 a b: abandon\n"
                 "2000 a look at b for sure\n"
                 "2000 a a: abandon\n"
                 "2000 b is lost, 0 ms left: b is not held any more: its ticket is gone from the "
                 "store (was it taken over, or the record dropped, restored or changed by hand?)\n"
                 "2664 a beat, seen 4\n"
                 "3200 a: 0 ms left: a goes with b, with which it was taken: b is not held any "
                 "more: its ticket is gone from the store (was it taken over, or the record "
                 "dropped, restored or changed by hand?)\n"
                 "3200 b: 0 ms left: b is not held any more: its ticket is gone from the store "
                 "(was it taken over, or the record dropped, restored or changed by hand?)\n");
    hf_lock_close(locks[1]);
    hf_lock_close(locks[2]);
    end();
}

static void feed_first(void *unused)
{
    hf_error err;
    (void)unused;
    hf_code code = hf_lock_feed(locks[1], &err);
    say_code("fed", "a", code, &err);
}

static void test_all_are_fed_or_lost(void **state)
{
    (void)state;
    hf_lock_options options = {.on_lost = say_loss, .feed_ms = 1000};
    begin("memory:together-fed", defaults);
    hold_all(&options);
    stage_run(500);
    play(feed_first, NULL, 600);
    play(feed_first, NULL, 100);
    stage_expect("600 fed a: yes\n"
                 "1000 a b: abandon(it was not fed for 1000 ms)\n"
                 "1000 a c: abandon\n"
                 "1000 a a: abandon\n"
                 "1000 a sweep\n"
                 "1000 b is lost, 0 ms left: b: it was not fed for 1000 ms\n"
                 "1200 fed a: HF_LOST: a goes with b, with which it was taken: b: it was not fed "
                 "for 1000 ms\n");
    play(close_all, NULL, 100);
    end();
}

/* ---- What cannot be ---- */

static void test_one_that_fails_gives_the_others_back(void **state)
{
    (void)state;
    begin("memory:together-fails", defaults);
    stage_let_fail((stage_fault){
        .who = 'a', .call = FAULTY_STEP, .is = stage_is_enter, .skips = 2, .before = HF_DENIED});
    play(take_all, NULL, 100);
    stage_expect("0 a begin\n"
                 "0 a a: enter\n"
                 "0 a b: enter\n"
                 "0 a c: enter: not sent, HF_DENIED\n"
                 "0 a c: leave-unused\n"
                 "0 a look at c for sure\n"
                 "0 acquired all: HF_DENIED: injected\n"
                 "0.1 a a: leave-unused\n"
                 "0.1 a b: leave-unused\n");
    end();
}

static void test_none_and_one(void **state)
{
    (void)state;
    begin("memory:together-one", defaults);
    n_names = 0;
    play(take_all, NULL, 0);
    n_names = 1;
    play(take_all, NULL, 0);
    play(check_all, NULL, 0);
    play(close_all, NULL, 100);
    stage_expect("0 acquired all: HF_INVALID: no lock is named\n"
                 "0 a begin\n"
                 "0 a c: enter\n"
                 "0 acquired all: yes\n"
                 "0 c\n"
                 "0 c: 9975 ms left\n"
                 "0.1 a c: leave\n");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_time_is_for_all),
        cmocka_unit_test(test_several_that_are_waited_for),
        cmocka_unit_test(test_the_store_says_how_long),
        cmocka_unit_test(test_no_time_is_left),
        cmocka_unit_test(test_without_a_limit_it_waits_on),
        cmocka_unit_test(test_one_that_is_lost_meanwhile_is_taken_again),
        cmocka_unit_test(test_one_that_is_broken_meanwhile_is_given_up_at_once),
        cmocka_unit_test(test_several_at_once),
        cmocka_unit_test(test_one_that_is_lost_takes_all_along),
        cmocka_unit_test(test_one_that_is_closed_takes_nothing_along),
        cmocka_unit_test(test_all_are_fed_or_lost),
        cmocka_unit_test(test_one_that_fails_gives_the_others_back),
        cmocka_unit_test(test_none_and_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
