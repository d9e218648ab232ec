/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_bounds.c: until when a store is told that its calls are waited for: what a public
 * call may take is one time, from its beginning, whatever it asks the store. */
#include "client/script_bed.h"

#include "core/error.h"

static hf_client *a;
static part x = {.name = "x"};
static hf_store_ops bounded;

static void say_bound(hf_store *store, hf_bound *bound)
{
    (void)store;
    if (!bound)
        stage_say("waits for no call");
    else
        stage_say("waits until %lld%s%s",
                  (long long)((bound->until.ns - client_now(a).ns) / 1000000 + stage_now_ms()),
                  bound->answer_ms ? ", longer after each answer" : "",
                  bound->is_cancelled ? ", or a cancel" : "");
}

static void begin(const char *uri, hf_options options, int64_t wait_ms)
{
    stage_begin();
    a = x.client = stage_client(uri, &options);
    x.options = (hf_lock_options){.wait_ms = wait_ms};
    x.lock = NULL;
    bounded = *stage_store(a)->base.ops;
    bounded.bound = say_bound;
    stage_store(a)->base.ops = &bounded;
}

static void end(void)
{
    hf_lock_close(x.lock);
    stage_run(100);
    stage_end();
}

/* The store gives no answer from then on: each call takes so long. */
static void fall_silent(int64_t ms)
{
    stage_let_fail(
        (stage_fault){.call = FAULTY_BEGIN, .times = 100, .late_ms = ms, .before = HF_UNREACHABLE});
}

static void test_a_try_has_its_patience(void **state)
{
    (void)state;
    begin("memory:bound-try", (hf_options){.ttl_ms = 10000}, HF_TRY);
    fall_silent(1500);
    play(take_part, &x, 9000);
    stage_expect("0 waits until 4000\n"
                 "0 a begin: not sent, HF_UNREACHABLE\n"
                 "1500 waits for no call\n"
                 "1500 waits until 4000\n"
                 "1500 waits for no call\n"
                 "1507 waits until 4000\n"
                 "1507 a begin: not sent, HF_UNREACHABLE\n"
                 "3007 waits for no call\n"
                 "3007 waits until 4000\n"
                 "3007 waits for no call\n"
                 "3021 waits until 4000\n"
                 "3021 a begin: not sent, HF_UNREACHABLE\n"
                 "4521 waits for no call\n"
                 "4521 a is told HF_UNREACHABLE: injected\n");
    end();
}

static void test_a_short_wait_has_the_time_of_a_try(void **state)
{
    (void)state;
    begin("memory:bound-short", (hf_options){.ttl_ms = 10000}, 1000);
    play(take_part, &x, 100);
    stage_expect("0 waits until 4300\n"
                 "0 a begin\n"
                 "0 a x: enter\n"
                 "0 waits for no call\n"
                 "0 a has x\n");
    end();
}

static void test_a_wait_ends_with_its_time(void **state)
{
    (void)state;
    begin("memory:bound-wait", (hf_options){.ttl_ms = 10000}, 6000);
    fall_silent(2500);
    play(take_part, &x, 9000);
    stage_expect("0 waits until 6300\n"
                 "0 a begin: not sent, HF_UNREACHABLE\n"
                 "2500 waits for no call\n"
                 "2500 waits until 6300\n"
                 "2500 waits for no call\n"
                 "2507 waits until 6300\n"
                 "2507 a begin: not sent, HF_UNREACHABLE\n"
                 "5007 waits for no call\n"
                 "5007 waits until 6300\n"
                 "5007 waits for no call\n"
                 "5021 waits until 6300\n"
                 "5021 a begin: not sent, HF_UNREACHABLE\n"
                 "7521 waits for no call\n"
                 "7521 waits until 6300\n"
                 "7521 waits for no call\n"
                 "7521 a is told HF_UNREACHABLE: injected\n");
    end();
}

static void test_an_endless_wait_has_patience(void **state)
{
    (void)state;
    begin("memory:bound-patience", (hf_options){.ttl_ms = 10000, .patience_ms = 3000},
          HF_WAIT_FOREVER);
    fall_silent(1000);
    play(take_part, &x, 9000);
    stage_expect("0 waits until 3000\n"
                 "0 a begin: not sent, HF_UNREACHABLE\n"
                 "1000 waits for no call\n"
                 "1000 waits until 3000\n"
                 "1000 waits for no call\n"
                 "1007 waits until 3000\n"
                 "1007 a begin: not sent, HF_UNREACHABLE\n"
                 "2007 waits for no call\n"
                 "2007 waits until 3000\n"
                 "2007 waits for no call\n"
                 "2021 waits until 3000\n"
                 "2021 a begin: not sent, HF_UNREACHABLE\n"
                 "3021 waits for no call\n"
                 "3021 a is told HF_UNREACHABLE: injected\n");
    end();
}

static void test_a_release_has_patience(void **state)
{
    (void)state;
    begin("memory:bound-release", (hf_options){.ttl_ms = 10000}, HF_TRY);
    play(take_part, &x, 100);
    stage_forget();
    play(release_part, &x, 100);
    stage_expect("100 waits until 30100\n"
                 "100 a x: leave\n"
                 "100 waits for no call\n"
                 "100 released x: yes\n");
    end();
}

/* ---- What is bounded as a whole ---- */

#define PATIENCE_MS 3000

/* Of each look that follows, the answer takes so long, and says nothing. */
static void look_in_vain(int64_t ms)
{
    stage_let_fail(
        (stage_fault){.call = FAULTY_LOOK, .times = 100, .late_ms = ms, .before = HF_UNREACHABLE});
}

static void break_x(void *force)
{
    const hf_break_options options = {.reason = "out of hand", .force = force != NULL};
    hf_error err;
    hf_code code = hf_break(a, "x", &options, &err);
    say_code("broken", "x", code, &err);
}

static void hold_x(const char *uri)
{
    begin(uri, (hf_options){.ttl_ms = 1000, .patience_ms = PATIENCE_MS}, HF_TRY);
    play(take_part, &x, 100);
    stage_forget();
}

static void test_a_break_has_patience(void **state)
{
    (void)state;
    hold_x("memory:bound-break");
    look_in_vain(1200);
    play(break_x, NULL, 5000);
    stage_expect("100 waits until 3100\n"
                 "100 a look at x: not sent, HF_UNREACHABLE\n"
                 "333 a beat, seen 1\n"
                 "666 a beat, seen 2\n"
                 "999 a beat, seen 3\n"
                 "1000 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "1000 a sweep\n"
                 "1309 a look at x: not sent, HF_UNREACHABLE\n"
                 "1332 a beat, seen 4\n"
                 "1665 a beat, seen 5\n"
                 "1998 a beat, seen 6\n"
                 "2200 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "2331 a beat, seen 7\n"
                 "2524 a look at x: not sent, HF_UNREACHABLE\n"
                 "2664 a beat, seen 8\n"
                 "2997 a beat, seen 9\n"
                 "3330 a beat, seen 10\n"
                 "3400 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "3663 a beat, seen 11\n"
                 "3724 waits for no call\n"
                 "3724 broken x: HF_UNREACHABLE: injected\n"
                 "3996 a beat, seen 12\n"
                 "4329 a beat, seen 13\n"
                 "4600 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "4662 a beat, seen 14\n"
                 "4995 a beat, seen 15\n");
    end();
}

static hf_code take_nothing_out(hf_store *store, const char *name, const hf_step *step,
                                hf_record *out, hf_step_reply *reply, hf_error *err)
{
    (void)store, (void)name, (void)step, (void)out, (void)err;
    *reply = (hf_step_reply){.confirmed = true};
    return HF_OK;
}

static void break_in_vain(void *ctx)
{
    const hf_break_options options = {.reason = "out of hand", .force = true};
    hf_error err;
    *(hf_code *)ctx = hf_break(a, "x", &options, &err);
    assert_non_null(strstr(err.text, "x cannot be freed: its holder was taken out 10 times"));
}

/* As with a holder of another program's that the store does not find again. */
static void test_a_break_that_takes_nothing_out_ends(void **state)
{
    (void)state;
    hf_code code = HF_OK;
    hold_x("memory:bound-vain");
    const hf_store_ops whole = bounded;
    bounded.step = take_nothing_out;
    play(break_in_vain, &code, 2000);
    assert_int_equal(code, HF_UNUSABLE);
    bounded = whole;
    stage_forget();
    end();
}

/* It does not ask for each of many holders in turn. */
static void test_a_break_by_force_has_patience(void **state)
{
    (void)state;
    hold_x("memory:bound-force");
    stage_let_fail((stage_fault){
        .call = FAULTY_SESSIONS_LOOK, .times = 100, .late_ms = 1200, .before = HF_UNREACHABLE});
    play(break_x, "force", 5000);
    stage_expect("100 waits until 3100\n"
                 "100 a look at x\n"
                 "100 waits for no call\n"
                 "100 waits until 3100\n"
                 "100 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "333 a beat, seen 1\n"
                 "666 a beat, seen 2\n"
                 "999 a beat, seen 3\n"
                 "1000 a look at x since 1\n"
                 "1000 a sweep\n"
                 "1309 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "1332 a beat, seen 4\n"
                 "1665 a beat, seen 5\n"
                 "1998 a beat, seen 6\n"
                 "2331 a beat, seen 7\n"
                 "2332 a look at x since 1\n"
                 "2524 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2664 a beat, seen 8\n"
                 "2997 a beat, seen 9\n"
                 "3330 a beat, seen 10\n"
                 "3663 a beat, seen 11\n"
                 "3664 a look at x since 1\n"
                 "3724 waits for no call\n"
                 "3724 waits until 3100\n"
                 "3724 a x: abandon(broken by a@:1: out of hand)\n"
                 "3724 waits for no call\n"
                 "3724 waits until 3100\n"
                 "3724 a look at x\n"
                 "3724 waits for no call\n"
                 "3724 broken x: yes\n"
                 "3996 a beat, seen 12\n"
                 "4329 a beat, seen 13\n"
                 "4662 a beat, seen 14\n"
                 "4995 a beat, seen 15\n"
                 "4996 a look at x since 1\n"
                 "4996 a x: abandon\n"
                 "4996 a look at x for sure\n");
    end();
}

/* Once it has asked, it waits for its holders first. */
static void test_a_break_that_has_asked_has_patience_again(void **state)
{
    (void)state;
    hold_x("memory:bound-asked");
    stage_let_fail((stage_fault){.call = FAULTY_BEAT, .times = 100, .before = HF_UNREACHABLE});
    stage_let_fail((stage_fault){
        .call = FAULTY_STEP, .times = 100, .late_ms = 2000, .before = HF_UNREACHABLE});
    play(break_x, NULL, 10000);
    stage_expect("100 waits until 3100\n"
                 "100 a look at x\n"
                 "100 waits for no call\n"
                 "100 waits until 3100\n"
                 "100 a look at 1 sessions\n"
                 "100 a ask\n"
                 "100 waits for no call\n"
                 "200 waits until 4107\n"
                 "200 a look at x\n"
                 "200 waits for no call\n"
                 "300 waits until 4107\n"
                 "300 a look at x\n"
                 "300 waits for no call\n"
                 "333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "383 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "400 waits until 4107\n"
                 "400 a look at x\n"
                 "400 waits for no call\n"
                 "433 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "483 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "500 waits until 4107\n"
                 "500 a look at x\n"
                 "500 waits for no call\n"
                 "533 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "583 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "600 waits until 4107\n"
                 "600 a look at x\n"
                 "600 waits for no call\n"
                 "633 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "683 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "700 waits until 4107\n"
                 "700 a look at x\n"
                 "700 waits for no call\n"
                 "733 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "783 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "800 waits until 4107\n"
                 "800 a look at x\n"
                 "800 waits for no call\n"
                 "833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "883 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "900 waits until 4107\n"
                 "900 a look at x\n"
                 "900 waits for no call\n"
                 "933 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "983 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "993 a look at 1 sessions\n"
                 "993 a end, leaving tickets\n"
                 "1000 a sweep\n"
                 "1000 waits until 4107\n"
                 "1000 a look at x\n"
                 "1000 waits for no call\n"
                 "1100 waits until 4107\n"
                 "1100 a look at x\n"
                 "1100 waits for no call\n"
                 "1200 waits until 4107\n"
                 "1200 a look at x\n"
                 "1200 waits for no call\n"
                 "1200 waits until 4107\n"
                 "1200 a look at 1 sessions\n"
                 "1200 waits for no call\n"
                 "1200 waits until 4107\n"
                 "1200 a x: abandon(broken by a@:1: out of hand): not sent, HF_UNREACHABLE\n"
                 "3209 a x: abandon(broken by a@:1: out of hand): not sent, HF_UNREACHABLE\n"
                 "5209 waits for no call\n"
                 "5209 broken x: HF_UNREACHABLE: injected\n");
    end();
}

static bool never(void *ctx, const hf_leader *leader)
{
    (void)ctx;
    stage_say("%s leads", leader ? "somebody" : "nobody");
    return true;
}

static void observe_x(void *arg)
{
    (void)arg;
    hf_error err;
    hf_code code = hf_election_observe(a, "x", never, NULL, NULL, &err);
    say_code("observed", "x", code, &err);
}

static void test_an_observer_has_patience(void **state)
{
    (void)state;
    hold_x("memory:bound-observer");
    look_in_vain(1200);
    play(observe_x, NULL, 5000);
    stage_expect("100 waits until 3100\n"
                 "100 a look at x: not sent, HF_UNREACHABLE\n"
                 "333 a beat, seen 1\n"
                 "666 a beat, seen 2\n"
                 "999 a beat, seen 3\n"
                 "1000 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "1000 a sweep\n"
                 "1309 a look at x: not sent, HF_UNREACHABLE\n"
                 "1332 a beat, seen 4\n"
                 "1665 a beat, seen 5\n"
                 "1998 a beat, seen 6\n"
                 "2200 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "2331 a beat, seen 7\n"
                 "2524 a look at x: not sent, HF_UNREACHABLE\n"
                 "2664 a beat, seen 8\n"
                 "2997 a beat, seen 9\n"
                 "3330 a beat, seen 10\n"
                 "3400 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "3663 a beat, seen 11\n"
                 "3724 waits for no call\n"
                 "3724 observed x: HF_UNREACHABLE: injected\n"
                 "3996 a beat, seen 12\n"
                 "4329 a beat, seen 13\n"
                 "4600 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "4662 a beat, seen 14\n"
                 "4995 a beat, seen 15\n");
    end();
}

/* ---- The doctor ---- */

static int64_t answers_after_ms;

static hf_code examine(hf_store *store, hf_finding_fn each, void *ctx, hf_error *err)
{
    (void)store;
    (void)each;
    (void)ctx;
    stage_say("is examined");
    stage_sleep(900);
    bool is_well = stage_now_ms() >= answers_after_ms;
    return is_well ? HF_OK : error_set(err, HF_UNREACHABLE, "nobody is there");
}

static bool tell_finding(void *ctx, const hf_finding *finding)
{
    (void)ctx;
    stage_say("found: %s: %s", finding->topic, finding->text);
    return true;
}

static void see_the_doctor(void *arg)
{
    (void)arg;
    hf_error err;
    hf_code code = hf_doctor(a, tell_finding, NULL, &err);
    say_code("seen", "doctor", code, &err);
}

static void begin_illness(const char *uri, int64_t patience_ms, int64_t ms)
{
    begin(uri, (hf_options){.ttl_ms = 10000, .patience_ms = patience_ms}, HF_TRY);
    bounded.doctor = examine;
    stage_store(a)->base.is_remote = true;
    answers_after_ms = ms;
}

/* What comes after the store's own looks has what they have left. */
static void test_the_doctor_has_one_time_for_all(void **state)
{
    (void)state;
    begin_illness("memory:bound-doctor", 0, 7000);
    play(see_the_doctor, NULL, 12000);
    stage_expect("0 waits until 10000\n"
                 "0 waits until 10000\n"
                 "0 is examined\n"
                 "906 is examined\n"
                 "1818 is examined\n"
                 "2741 is examined\n"
                 "3685 is examined\n"
                 "4670 is examined\n"
                 "5736 is examined\n"
                 "6893 is examined\n"
                 "7793 waits until 10000\n"
                 "7793 waits until 10000\n"
                 "7793 waits until 10000\n"
                 "7793 waits until 10000\n"
                 "7793 waits until 10000\n"
                 "7793 waits for no call\n"
                 "7793 seen doctor: yes\n");
    end();
}

static void test_the_doctor_gives_up(void **state)
{
    (void)state;
    begin_illness("memory:bound-hopeless", 2500, 100000);
    play(see_the_doctor, NULL, 12000);
    stage_expect("0 waits until 2500\n"
                 "0 waits until 2500\n"
                 "0 is examined\n"
                 "906 is examined\n"
                 "1818 is examined\n"
                 "2718 waits until 2500\n"
                 "2718 waits for no call\n"
                 "2718 seen doctor: HF_UNREACHABLE: nobody is there\n");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_try_has_its_patience),
        cmocka_unit_test(test_a_short_wait_has_the_time_of_a_try),
        cmocka_unit_test(test_a_wait_ends_with_its_time),
        cmocka_unit_test(test_an_endless_wait_has_patience),
        cmocka_unit_test(test_a_release_has_patience),
        cmocka_unit_test(test_a_break_has_patience),
        cmocka_unit_test(test_a_break_by_force_has_patience),
        cmocka_unit_test(test_a_break_that_takes_nothing_out_ends),
        cmocka_unit_test(test_a_break_that_has_asked_has_patience_again),
        cmocka_unit_test(test_an_observer_has_patience),
        cmocka_unit_test(test_the_doctor_has_one_time_for_all),
        cmocka_unit_test(test_the_doctor_gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
