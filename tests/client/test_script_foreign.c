/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_foreign.c: what clients send to stores that have no queue, as those whose locks other
 * programs share: when they come back, what a notice of a name makes them do, and claims that wait.
 * Run by ctest. */
#include "client/script_bed.h"

static hf_client *a, *b;
static part x, waits;

static void begin_on(const char *uri, unsigned can, unsigned cannot)
{
    hf_options options = {.log = say_log};
    stage_begin();
    a = stage_client(uri, NULL);
    b = stage_client(uri, &options);
    for (size_t i = 0; i < 2; i++) {
        faulty *store = stage_store(i ? b : a);
        faulty_end_queue(store);
        store->base.can |= can;
        store->base.can &= ~cannot;
    }
    x = (part){.client = a, .name = "x", .options = {.why = "audit", .on_lost = say_loss}};
    waits = (part){.client = b, .name = "x"};
}

/* a holds x. */
static void hold(const char *uri, unsigned can, unsigned cannot)
{
    begin_on(uri, can, cannot);
    play(take_part, &x, 0);
    stage_forget();
}

static void end(void)
{
    close_parts((part *const[]){&x, &waits}, 2);
    stage_end();
}

static hf_notice of_name(const char *name)
{
    return (hf_notice){.kind = HF_NOTICE_NAME, .name = name, .stamp = {9}};
}

/* ---- Coming back ---- */

static void test_it_comes_back_twice_a_second(void **state)
{
    (void)state;
    hold("memory:foreign-pace", 0, 0);
    play(take_part, &waits, 2400);
    play(close_part, &x, 600);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "257 b x: enter\n"
                 "515 b x: enter\n"
                 "774 b x: enter\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1034 b x: enter\n"
                 "1295 b x: enter\n"
                 "1557 b x: enter\n"
                 "1820 b x: enter\n"
                 "2084 b x: enter\n"
                 "2349 b x: enter\n"
                 "2400.1 a x: leave\n"
                 "2615 b x: enter\n"
                 "2615 b has x\n"
                 "2615 b hears a grant\n");
    end();
}

/* What is said to be worth less than half a second is, where a notice would come first. */
static void test_it_comes_back_when_the_store_says(void **state)
{
    (void)state;
    hold("memory:foreign-again", 0, 0);
    stage_store(b)->again_ms = 2000;
    play(take_part, &waits, 5000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1007 b x: enter\n"
                 "2015 b x: enter\n"
                 "3024 b x: enter\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1, waits\n"
                 "4034 b x: enter\n");
    stage_store(b)->again_ms = 20;
    stage_run(3000);
    stage_expect("5045 b x: enter\n"
                 "5307 b x: enter\n"
                 "5570 b x: enter\n"
                 "5834 b x: enter\n"
                 "6099 b x: enter\n"
                 "6365 b x: enter\n"
                 "6632 b x: enter\n"
                 "6666 a beat, seen 2\n"
                 "6666 b beat, seen 2, waits\n"
                 "6900 b x: enter\n"
                 "7169 b x: enter\n"
                 "7439 b x: enter\n"
                 "7710 b x: enter\n"
                 "7982 b x: enter\n");
    end();
    hold("memory:foreign-unheard", 0, HF_CAN_NOTIFY);
    stage_store(b)->again_ms = 20;
    play(take_part, &waits, 100);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "17 b x: enter\n"
                 "35 b x: enter\n"
                 "54 b x: enter\n"
                 "74 b x: enter\n"
                 "84 b x: enter\n"
                 "95 b x: enter\n");
    end();
}

static void test_a_try_does_not_come_back(void **state)
{
    (void)state;
    hold("memory:foreign-try", 0, 0);
    waits.options.wait_ms = HF_TRY;
    play(take_part, &waits, 2000);
    stage_expect("0 b begin\n"
                 "0 b x: enter-or-not\n"
                 "0 b x: leave-unused\n"
                 "0 b look at x for sure\n"
                 "0 b is told HF_HELD: x was not free: held by another session (audit)\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n");
    end();
}

/* Nobody hands it over: what came free since the last try is found by one more. */
static void test_the_last_try(void **state)
{
    (void)state;
    hold("memory:foreign-last", 0, 0);
    waits.options.wait_ms = 1100;
    play(take_part, &waits, 3000);
    stage_expect(
        "0 b begin\n"
        "0 b x: enter\n"
        "257 b x: enter\n"
        "515 b x: enter\n"
        "774 b x: enter\n"
        "1000 a sweep\n"
        "1000 b sweep\n"
        "1034 b x: enter\n"
        "1100 b x: enter\n"
        "1100 b x: leave-unused\n"
        "1100 b look at x for sure\n"
        "1100 b is told HF_TIMEOUT: x was not free in time: held by another session (audit)\n");
    stage_act(take_part, &waits);
    stage_run(900);
    play(close_part, &x, 1000);
    stage_expect("3000 b x: enter\n"
                 "3263 b x: enter\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1\n"
                 "3527 b x: enter\n"
                 "3792 b x: enter\n"
                 "3900.1 a x: leave\n"
                 "4058 b x: enter\n"
                 "4058 b has x\n"
                 "4058 b hears a grant\n");
    end();
}

static void test_a_last_try_that_fails(void **state)
{
    (void)state;
    hold("memory:foreign-last-fails", 0, 0);
    waits.options.wait_ms = 1100;
    stage_act(take_part, &waits);
    stage_run(1050);
    stage_let_fail((stage_fault){
        .who = 'b', .call = FAULTY_STEP, .is = stage_is_enter, .before = HF_UNREACHABLE});
    stage_run(1000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "257 b x: enter\n"
                 "515 b x: enter\n"
                 "774 b x: enter\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1034 b x: enter\n"
                 "1100 b x: enter: not sent, HF_UNREACHABLE\n"
                 "1100 log: x: trying again: injected\n"
                 "1100 b is told HF_UNREACHABLE: injected\n"
                 "1100 b x: leave-unused\n"
                 "1100 b look at x for sure\n");
    end();
}

static void test_a_cancelled_wait_leaves_nothing(void **state)
{
    (void)state;
    hf_error err;
    hf_cancel *cancel;
    assert_int_equal(hf_cancel_new(&cancel, &err), HF_OK);
    hold("memory:foreign-cancelled", 0, 0);
    waits.options.cancel = cancel;
    play(take_part, &waits, 700);
    hf_cancel_fire(cancel);
    stage_run(1000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "257 b x: enter\n"
                 "515 b x: enter\n"
                 "774 b is told HF_CANCELLED: x: waiting was cancelled\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n");
    end();
    hf_cancel_free(cancel);
}

/* A document outlives the session that it was taken for. */
static void test_a_try_whose_answer_comes_too_late(void **state)
{
    (void)state;
    begin_on("memory:foreign-late", 0, 0);
    answer_enter_late('b', 10000);
    waits.options.wait_ms = HF_TRY;
    play(take_part, &waits, 9900);
    stage_forget();
    stage_run(200);
    stage_expect("9975 b end, leaving tickets\n"
                 "10000 b begin\n"
                 "10000 b x: leave-unused enter-or-not\n"
                 "10000 b has x\n"
                 "10000 b hears a grant\n");
    end();
}

/* Its ticket may still come to stand there. */
static void test_an_enter_without_an_answer(void **state)
{
    (void)state;
    hold("memory:foreign-unanswered", 0, 0);
    waits.options.wait_ms = 600;
    stage_let_fail(
        (stage_fault){.who = 'b', .call = FAULTY_STEP, .is = stage_is_enter, .after = HF_UNKNOWN});
    play(take_part, &waits, 2000);
    stage_expect(
        "0 b begin\n"
        "0 b x: enter\n"
        "0 b hears HF_UNKNOWN\n"
        "0 log: x: trying again: injected\n"
        "6 b x: enter\n"
        "264 b x: enter\n"
        "523 b x: enter\n"
        "600 b x: enter\n"
        "600 b x: leave-unused\n"
        "600 b look at x for sure\n"
        "600 b is told HF_TIMEOUT: x was not free in time: held by another session (audit)\n"
        "1000 a sweep\n"
        "1000 b sweep\n");
    end();
}

/* ---- Notices ---- */

static void test_a_notice_calls_back_who_waits_for_that_name(void **state)
{
    (void)state;
    part other = {.name = "y"}, held = {.name = "y"};
    hold("memory:foreign-called", 0, 0);
    held.client = a;
    other.client = b;
    play(take_part, &held, 0);
    stage_act(take_part, &waits);
    play(take_part, &other, 0);
    stage_forget();
    play(close_part, &x, 10);
    stage_tell(b, of_name("x"));
    stage_run(100);
    stage_expect("0.1 a x: leave\n"
                 "10 b hears of a name\n"
                 "10 b x: enter\n"
                 "10 b has x\n"
                 "10 b hears a grant\n");
    stage_tell(b, of_name("z"));
    stage_run(10);
    stage_tell(b, (hf_notice){.kind = HF_NOTICE_LOOK});
    stage_run(10);
    stage_tell(b, (hf_notice){.kind = HF_NOTICE_VERIFY});
    stage_run(10);
    stage_expect("110 b hears of a name\n"
                 "120 b hears that it should look\n"
                 "120 b y: enter\n"
                 "130 b hears that it should verify\n"
                 "130 b look at x since 9\n"
                 "130 b y: enter\n");
    close_part(&held);
    end();
    close_part(&other);
}

/* Another ticket than its own is told of: it may have lost the lock. */
static void test_a_holder_verifies_at_a_notice(void **state)
{
    (void)state;
    part other = {.name = "y"};
    begin_on("memory:foreign-verified", HF_CAN_TELL_LOST, 0);
    other.client = a;
    stage_tell_listening();
    play(take_part, &x, 0);
    play(take_part, &other, 100);
    hf_notice own = of_name("x");
    own.ticket = x.lock->grant.ticket;
    stage_tell(a, own);
    stage_run(100);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "0 a listens for 1000 ms, since 1\n"
                 "0 a hears a grant\n"
                 "0 a listens for 1000 ms, since 1\n"
                 "0 a y: enter\n"
                 "0 a has y\n"
                 "0 a hears a grant\n"
                 "0 a listens for 1000 ms, since 1\n"
                 "100 a hears of a name\n"
                 "100 a listens for 1000 ms, since 1\n");
    own.ticket.bytes[0]++;
    stage_tell(a, own);
    stage_run(100);
    stage_tell(a, (hf_notice){.kind = HF_NOTICE_VERIFY});
    stage_run(100);
    stage_tell(a, (hf_notice){.kind = HF_NOTICE_LOOK});
    stage_run(100);
    stage_drop_record(a, "x");
    stage_tell(a, of_name("x"));
    stage_run(100);
    stage_expect(
        "200 a hears of a name\n"
        "200 a look at x since 1\n"
        "200 a listens for 1000 ms, since 1\n"
        "300 a hears that it should verify\n"
        "300 a look at y x since 2\n"
        "300 a listens for 1000 ms, since 1\n"
        "400 a hears that it should look\n"
        "400 a look at y x since 2\n"
        "400 a listens for 1000 ms, since 1\n"
        "500 a hears of a name\n"
        "500 a look at x since 1\n"
        "500 a x: abandon\n"
        "500 a look at x for sure\n"
        "500 a listens for 1000 ms, since 1\n"
        "500 x is lost, 0 ms left: x is not held any more: its ticket is gone from the store (was "
        "it taken over, or the record dropped, restored or changed by hand?)\n");
    close_part(&other);
    close_part(&x);
    stage_run(30000);
    stage_expect("600.1 a y: leave\n"
                 "1000 a sweep\n"
                 "1500 a listens for 1000 ms, since 1\n"
                 "2500 a listens for 1000 ms, since 1\n"
                 "3333 a beat, seen 1\n"
                 "3500 a listens for 1000 ms, since 1\n"
                 "4500 a listens for 1000 ms, since 1\n"
                 "5500 a listens for 1000 ms, since 1\n"
                 "6500 a listens for 1000 ms, since 1\n"
                 "6666 a beat, seen 2\n"
                 "7500 a listens for 1000 ms, since 1\n"
                 "8500 a listens for 1000 ms, since 1\n"
                 "9500 a listens for 1000 ms, since 1\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n"
                 "16665 a beat, seen 5\n"
                 "19998 a beat, seen 6\n"
                 "23331 a beat, seen 7\n"
                 "26664 a beat, seen 8\n"
                 "29997 a beat, seen 9\n");
    end();
}

/* ---- Odd records ---- */

static part y, z;

static void hold_three(const char *uri)
{
    begin_on(uri, 0, 0);
    y = (part){.client = a, .name = "y", .options.on_lost = say_loss};
    z = (part){.client = a, .name = "z", .options.on_lost = say_loss};
    play(take_part, &x, 0);
    play(take_part, &y, 0);
    play(take_part, &z, 0);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "0 a y: enter\n"
                 "0 a has y\n"
                 "0 a z: enter\n"
                 "0 a has z\n");
}

static void end_three(void)
{
    close_part(&y);
    close_part(&z);
    end();
}

static void test_an_odd_record_is_lost_alone(void **state)
{
    (void)state;
    hold_three("memory:foreign-odd");
    stage_let_fail((stage_fault){.call = FAULTY_LOOK, .times = 1, .before = HF_SHAPE});
    stage_let_fail((stage_fault){.call = FAULTY_LOOK, .skips = 1, .before = HF_SHAPE});
    stage_run(11000);
    stage_expect("1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at x y z since 3: not sent, HF_SHAPE\n"
                 "10000 a look at x since 3\n"
                 "10000 a look at y since 3: not sent, HF_SHAPE\n"
                 "10000 a look at z since 3\n"
                 "10000 a y: abandon\n"
                 "10000 y is lost, 0 ms left: y is not held any more: injected\n");
    stage_run(14000);
    stage_expect("13332 a beat, seen 4\n"
                 "16665 a beat, seen 5\n"
                 "19998 a beat, seen 6\n"
                 "23331 a beat, seen 7\n"
                 "23332 a look at x z since 3\n");
    end_three();
}

/* What was taken later was not looked for: it has its own time to be verified. */
static void test_an_odd_record_loses_only_what_is_verified(void **state)
{
    (void)state;
    part later = {.name = "x", .options = {.mode = HF_SHARED, .on_lost = say_loss}};
    begin_on("memory:foreign-odd-later", 0, 0);
    later.client = a;
    x.options.mode = HF_SHARED;
    play(take_part, &x, 5000);
    play(take_part, &later, 4900);
    stage_forget();
    stage_let_fail((stage_fault){.call = FAULTY_LOOK, .before = HF_SHAPE, .times = 2});
    stage_run(200);
    stage_expect("9999 a beat, seen 3\n"
                 "10000 a look at x since 1: not sent, HF_SHAPE\n"
                 "10000 a look at x since 1: not sent, HF_SHAPE\n"
                 "10000 a x: abandon\n"
                 "10000 x is lost, 0 ms left: x is not held any more: injected\n");
    close_part(&later);
    close_part(&x);
    end();
}

static void test_a_look_that_fails_ends_a_look_one_by_one(void **state)
{
    (void)state;
    hold_three("memory:foreign-odd-fails");
    stage_let_fail((stage_fault){.call = FAULTY_LOOK, .before = HF_SHAPE});
    stage_let_fail((stage_fault){.call = FAULTY_LOOK, .skips = 1, .before = HF_UNREACHABLE});
    stage_run(11000);
    stage_expect("1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at x y z since 3: not sent, HF_SHAPE\n"
                 "10000 a look at x since 3\n"
                 "10000 a look at y since 3: not sent, HF_UNREACHABLE\n"
                 "10500 a look at x y z since 3\n");
    end_three();
}

/* ---- Claims ---- */

static hf_lock *claimed;

static void claim(void *options)
{
    hf_error err;
    hf_code code = hf_document_claim(b, "{}", NULL, options, &claimed, &err);
    say_code("claimed", code ? "" : hf_lock_name(claimed), code, &err);
}

static void test_a_claim_waits(void **state)
{
    (void)state;
    hf_lock_options options = {.wait_ms = 2000};
    hold("memory:foreign-claim", 0, 0);
    faulty_let_claim(stage_store(b), "x");
    play(claim, &options, 3000);
    options.wait_ms = HF_TRY;
    play(claim, &options, 100);
    options.wait_ms = 2000;
    stage_act(claim, &options);
    stage_run(700);
    play(close_part, &x, 0);
    stage_tell(b, of_name("another"));
    stage_run(2000);
    stage_expect("0 b begin\n"
                 "0 b claim\n"
                 "257 b claim\n"
                 "515 b claim\n"
                 "774 b claim\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1034 b claim\n"
                 "1295 b claim\n"
                 "1557 b claim\n"
                 "1820 b claim\n"
                 "2000 b claim\n"
                 "2000 b : leave-unused\n"
                 "2000 b look at  for sure\n"
                 "2000 claimed : HF_TIMEOUT: no document that matches {} became free in time\n"
                 "3000 b claim\n"
                 "3000 b : leave-unused\n"
                 "3000 b look at  for sure\n"
                 "3000 claimed : HF_NOT_FOUND: no document that matches {} is free\n"
                 "3100 b claim\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1\n"
                 "3367 b claim\n"
                 "3635 b claim\n"
                 "3800 b hears of a name\n"
                 "3800.1 a x: leave\n"
                 "3815 b claim\n"
                 "3815 claimed x: yes\n"
                 "3815 b hears a grant\n");
    hf_lock_close(claimed);
    end();
}

static void test_a_claim_that_finds_nothing(void **state)
{
    (void)state;
    begin_on("memory:foreign-claim-none", 0, 0);
    faulty_let_claim(stage_store(b), "x");
    stage_let_fail((stage_fault){.call = FAULTY_CLAIM, .before = HF_NOT_FOUND});
    stage_let_fail((stage_fault){.call = FAULTY_CLAIM, .skips = 1, .after = HF_UNKNOWN});
    stage_let_fail((stage_fault){.call = FAULTY_CLAIM, .skips = 1, .before = HF_NOT_FOUND});
    play(claim, NULL, 3000);
    play(claim, NULL, 3000);
    stage_expect("0 b begin\n"
                 "0 b claim: not sent, HF_NOT_FOUND\n"
                 "0 claimed : HF_NOT_FOUND: injected\n"
                 "1000 b sweep\n"
                 "3000 b claim\n"
                 "3000 claimed x: yes\n"
                 "3333 b beat, seen 1\n");
    hf_lock_close(claimed);
    end();
}

static void test_a_claim_brings_its_document(void **state)
{
    (void)state;
    begin_on("memory:foreign-claim-document", 0, 0);
    faulty_let_claim(stage_store(b), "x");
    stage_store(b)->document = "{\"_id\": 1}";
    play(claim, NULL, 100);
    assert_string_equal(hf_lock_document(claimed), "{\"_id\": 1}");
    hf_lock_close(claimed);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_comes_back_twice_a_second),
        cmocka_unit_test(test_it_comes_back_when_the_store_says),
        cmocka_unit_test(test_a_try_does_not_come_back),
        cmocka_unit_test(test_the_last_try),
        cmocka_unit_test(test_a_last_try_that_fails),
        cmocka_unit_test(test_a_cancelled_wait_leaves_nothing),
        cmocka_unit_test(test_a_try_whose_answer_comes_too_late),
        cmocka_unit_test(test_an_enter_without_an_answer),
        cmocka_unit_test(test_a_notice_calls_back_who_waits_for_that_name),
        cmocka_unit_test(test_a_holder_verifies_at_a_notice),
        cmocka_unit_test(test_an_odd_record_is_lost_alone),
        cmocka_unit_test(test_an_odd_record_loses_only_what_is_verified),
        cmocka_unit_test(test_a_look_that_fails_ends_a_look_one_by_one),
        cmocka_unit_test(test_a_claim_waits),
        cmocka_unit_test(test_a_claim_that_finds_nothing),
        cmocka_unit_test(test_a_claim_brings_its_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
