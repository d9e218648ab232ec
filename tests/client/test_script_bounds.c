/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_bounds.c: until when a store is told that its calls are waited for: what a public
 * call may take is one time, from its beginning, whatever it asks the store. */
#include "client/script_bed.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_try_has_its_patience),
        cmocka_unit_test(test_a_short_wait_has_the_time_of_a_try),
        cmocka_unit_test(test_a_wait_ends_with_its_time),
        cmocka_unit_test(test_an_endless_wait_has_patience),
        cmocka_unit_test(test_a_release_has_patience),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
