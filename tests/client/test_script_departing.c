/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_departing.c: the release of a lease that the store does not answer in time: what is
 * sent afterwards, when, and what happens to those who come meanwhile. Run by ctest. */
#include "client/client_bed.h"

#include "support/inside.h"
#include "support/stage.h"

#define PATIENCE_MS 100 /* of releases and renewals at b, the service that is cut off */

static hf_client *a, *b;
static hf_lease lease;
static hf_lock *x;
static hf_lease_options how;

static const hf_lease_options plain = {.key = NULL}, keyed = {.key = "order 4711"};

static void acquire(void *client)
{
    hf_error err;
    hf_lease made;
    hf_code code = hf_lease_acquire(client, "x", &how, &made, &err);
    stage_say("acquired: %s", code ? err.text : "yes");
    lease = code ? lease : made;
}

static void renew(void *client)
{
    hf_error err;
    hf_code code = hf_lease_renew(client, lease.id, NULL, &err);
    stage_say("renewed: %s", code ? err.text : "yes");
}

static void release(void *client)
{
    hf_error err;
    hf_code code = hf_lease_release(client, lease.id, &err);
    stage_say("released: %s", code ? err.text : "yes");
}

static void wait_for_x(void *client)
{
    const hf_lock_options options = {.wait_ms = HF_WAIT_FOREVER};
    stage_acquire(client, "x", &options, &x);
}

static void leave_x(void *client)
{
    (void)client;
    hf_lock_close(x);
}

static void break_x(void *client)
{
    const hf_break_options by_force = {.reason = "out of hand", .force = true};
    hf_error err;
    hf_code code = hf_break(client, "x", &by_force, &err);
    stage_say("broken: %s", code ? err.text : "yes");
}

static void act(void (*body)(void *), hf_client *client, int64_t ms)
{
    stage_act(body, client);
    stage_run(ms);
}

/* A lease that is two seconds old, of a's. */
static void make_one(const char *uri, const hf_lease_options *options)
{
    const hf_options impatient = {.struct_size = sizeof impatient, .call_patience_ms = PATIENCE_MS};
    stage_begin();
    a = stage_client(uri, NULL);
    b = stage_client(uri, &impatient);
    how = *options;
    x = NULL;
    act(acquire, a, 2000);
    stage_forget();
}

/* From now on b, so many times, has no way to the sessions. */
static void cut_off(int times)
{
    stage_let_fail((stage_fault){
        .who = 'b', .call = FAULTY_SESSIONS_LOOK, .before = HF_UNREACHABLE, .times = times});
}

/* Its caller is back while it is being sent: two at once would take each other's for a loss. */
static void test_a_repeat_while_it_is_being_sent(void **state)
{
    (void)state;
    make_one("memory:departing-repeat", &plain);
    cut_off(5);
    stage_let_fail(
        (stage_fault){.who = 'b', .call = FAULTY_STEP, .is = stage_is_leave, .late_ms = 80});
    act(release, b, 130);
    act(release, b, 200);
    act(release, b, 100);
    stage_expect("2000 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2010 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2026 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2053 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 released: injected; its release is sent again as long as this client lives\n"
                 "2100 b look at 1 sessions\n"
                 "2100 b ask\n"
                 "2100 b look at 1 sessions\n"
                 "2100 b x: leave\n"
                 "2130 released: x: its release is just being sent again\n"
                 "2180 b end\n"
                 "2330 b look at 1 sessions\n"
                 "2330 b look at x for sure\n"
                 "2330 released: yes\n");
    stage_end();
}

static void test_it_is_sent_until_the_store_answers(void **state)
{
    (void)state;
    make_one("memory:departing", &plain);
    cut_off(9);
    act(release, b, 1300);
    stage_expect("2000 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2010 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2026 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2053 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 released: injected; its release is sent again as long as this client lives\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2102 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2111 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2121 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2153 b look at 1 sessions\n"
                 "2153 b ask\n"
                 "2153 b look at 1 sessions\n"
                 "2153 b x: leave\n"
                 "2153 b end\n");
    stage_end();
    make_one("memory:departing-key", &keyed);
    cut_off(9);
    act(release, b, 1300);
    stage_expect("2000 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2009 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2024 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2050 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2097 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 released: injected; its release is sent again as long as this client lives\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2102 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2111 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2121 b look at 1 sessions\n"
                 "2121 b ask\n"
                 "2121 b look at 1 sessions\n"
                 "2121 b x: leave\n"
                 "2121 b end\n");
    stage_end();
}

/* The one that waits has the lock then, long before the lease would be over. */
static void test_the_next_one_need_not_wait_for_the_lease(void **state)
{
    (void)state;
    make_one("memory:departing-next", &plain);
    cut_off(9);
    act(wait_for_x, a, 0);
    act(release, b, 1300);
    stage_expect("2000 a x: enter\n"
                 "2000 a hears a grant\n"
                 "2000 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2006 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2024 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2053 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 released: injected; its release is sent again as long as this client lives\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2104 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2109 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2121 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2155 b look at 1 sessions\n"
                 "2155 b ask\n"
                 "2155 b look at 1 sessions\n"
                 "2155 b x: leave\n"
                 "2155 b end\n"
                 "2155 a hears a grant\n"
                 "2155 a hears that it should look\n"
                 "2155 a has x\n");
    act(leave_x, a, 0);
    stage_end();
}

static void test_a_call_that_repeats_it(void **state)
{
    (void)state;
    make_one("memory:departing-repeated", &plain);
    cut_off(6);
    act(release, b, 110);
    act(release, b, 1300);
    stage_expect("2000 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2010 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2026 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2053 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 released: injected; its release is sent again as long as this client lives\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2102 b look at 1 sessions\n"
                 "2102 b ask\n"
                 "2102 b look at 1 sessions\n"
                 "2102 b x: leave\n"
                 "2102 b end\n"
                 "2110 b look at 1 sessions\n"
                 "2110 b look at x for sure\n"
                 "2110 released: yes\n"
                 "3333 a beat, seen 1\n");
    stage_end();
    make_one("memory:departing-elsewhere", &plain);
    cut_off(9);
    act(release, b, 110);
    act(release, a, 1300);
    stage_expect("2000 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2010 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2026 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2053 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 released: injected; its release is sent again as long as this client lives\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2102 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2110 a look at 1 sessions\n"
                 "2110 a x: leave\n"
                 "2110 a end\n"
                 "2110 released: yes\n"
                 "2111 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2121 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2153 b look at 1 sessions\n"
                 "2153 b look at x for sure\n"
                 "3333 a beat, seen 1\n");
    stage_end();
}

/* Its owner has given it up, and is not told that it has it. */
static void test_it_is_not_renewed_here(void **state)
{
    (void)state;
    make_one("memory:departing-renewed", &keyed);
    stage_let_fail(
        (stage_fault){.who = 'b', .call = FAULTY_ASK, .before = HF_UNREACHABLE, .times = 9});
    act(release, b, 105);
    stage_forget();
    act(renew, b, 0);
    act(acquire, b, 1300);
    stage_expect(
        "2105 renewed: the lease of x is being released\n"
        "2105 b look at 1 sessions\n"
        "2105 b look at x\n"
        "2105 acquired: the lease of x is being released; a key names one lease: take another key\n"
        "2111 b look at 1 sessions\n"
        "2111 b ask: not sent, HF_UNREACHABLE\n"
        "2121 b look at 1 sessions\n"
        "2121 b ask\n"
        "2121 b look at 1 sessions\n"
        "2121 b x: leave\n"
        "2121 b end\n"
        "3333 a beat, seen 1\n");
    stage_end();
}

/* Its owner has renewed it elsewhere, and believes. */
static void test_one_that_is_renewed_elsewhere_stays_for_a_ttl(void **state)
{
    (void)state;
    make_one("memory:departing-believed", &plain);
    cut_off(9);
    act(wait_for_x, a, 0);
    act(release, b, 110);
    act(renew, a, 1300);
    act(renew, a, 11000);
    stage_expect("2000 a x: enter\n"
                 "2000 a hears a grant\n"
                 "2000 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2006 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2024 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2053 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 released: injected; its release is sent again as long as this client lives\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2104 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2109 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2110 a beat, seen 0\n"
                 "2110 a look at x\n"
                 "2110 renewed: yes\n"
                 "2121 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2155 b look at 1 sessions\n"
                 "2155 b ask\n"
                 "2155 b look at 1 sessions\n"
                 "2400 a look at 1 sessions\n"
                 "3333 a beat, seen 1, waits\n"
                 "3410 a beat, seen 0\n"
                 "3410 a look at x\n"
                 "3410 renewed: the lease of x was released\n"
                 "3506 a look at x since 3\n"
                 "5021 a look at x since 3\n"
                 "5543 a look at 1 sessions\n"
                 "6537 a look at x since 3\n"
                 "6666 a beat, seen 2, waits\n"
                 "6843 a look at 1 sessions\n"
                 "8054 a look at x since 3\n"
                 "8509 a look at 1 sessions\n"
                 "9585 a look at x since 3\n"
                 "9999 a beat, seen 3, waits\n"
                 "10175 a look at 1 sessions\n"
                 "11500 a look at x since 3\n"
                 "11841 a look at 1 sessions\n"
                 "12180 b look at 1 sessions\n"
                 "12180 b ask\n"
                 "12180 b x: leave\n"
                 "12180 b end\n"
                 "12180 a hears a grant\n"
                 "12180 a hears that it should look\n"
                 "12180 a has x\n"
                 "13332 a beat, seen 4\n");
    act(leave_x, a, 0);
    stage_end();
}

/* Another one has it when the store answers again. */
static void test_one_that_is_over(void **state)
{
    (void)state;
    make_one("memory:departing-over", &plain);
    cut_off(60);
    act(release, b, 110);
    act(wait_for_x, a, 12000);
    stage_forget();
    stage_run(6000);
    stage_expect("14114 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "14428 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "14743 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "15059 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "15376 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "15694 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "16013 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "16333 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "16654 b look at 1 sessions\n"
                 "16654 b look at x for sure\n"
                 "16665 a beat, seen 5\n"
                 "19998 a beat, seen 6\n");
    act(leave_x, a, 0);
    stage_end();
}

static void test_one_that_was_broken(void **state)
{
    (void)state;
    make_one("memory:departing-broken", &plain);
    cut_off(9);
    act(release, b, 110);
    act(break_x, a, 0);
    act(wait_for_x, a, 1300);
    stage_expect("2000 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2010 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2026 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2053 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 released: injected; its release is sent again as long as this client lives\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2102 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2110 a look at x\n"
                 "2110 a look at 1 sessions\n"
                 "2110 a ask\n"
                 "2110 a x: abandon(broken by a@:1: out of hand)\n"
                 "2110 a look at x\n"
                 "2110 broken: yes\n"
                 "2110 a x: enter\n"
                 "2110 a has x\n"
                 "2111 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2122 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2155 b look at 1 sessions\n"
                 "2155 b look at 1 sessions\n"
                 "2155 b x: abandon(broken by a@:1: out of hand)\n"
                 "2155 b look at x for sure\n"
                 "2155 b look at 1 sessions\n"
                 "2155 b end\n"
                 "3333 a beat, seen 1\n");
    act(leave_x, a, 0);
    stage_end();
}

/* Whichever answer is missing, it is sent again. */
static void test_answers_that_are_lost(void **state)
{
    (void)state;
    make_one("memory:departing-unsure", &plain);
    cut_off(6);
    stage_let_fail((stage_fault){.who = 'b', .call = FAULTY_ASK, .after = HF_UNKNOWN});
    stage_let_fail(
        (stage_fault){.who = 'b', .call = FAULTY_STEP, .is = stage_is_leave, .after = HF_UNKNOWN});
    act(release, b, 1300);
    stage_expect("2000 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2010 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2026 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2053 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 released: injected; its release is sent again as long as this client lives\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2102 b look at 1 sessions\n"
                 "2102 b ask\n"
                 "2102 b hears HF_UNKNOWN\n"
                 "2111 b look at 1 sessions\n"
                 "2111 b ask\n"
                 "2111 b look at 1 sessions\n"
                 "2111 b x: leave\n"
                 "2111 b hears HF_UNKNOWN\n"
                 "2121 b look at 1 sessions\n"
                 "2121 b ask\n"
                 "2121 b look at 1 sessions\n"
                 "2121 b x: leave\n"
                 "2121 b look at x for sure\n"
                 "2121 b look at 1 sessions\n"
                 "2121 b end\n");
    stage_end();
    make_one("memory:departing-refused", &plain);
    cut_off(6);
    stage_let_fail((stage_fault){.who = 'b', .call = FAULTY_ASK, .before = HF_DENIED});
    act(release, b, 1300);
    stage_expect("2000 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2010 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2026 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2053 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2100 released: injected; its release is sent again as long as this client lives\n"
                 "2100 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "2102 b look at 1 sessions\n"
                 "2102 b ask: not sent, HF_DENIED\n");
    stage_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_sent_until_the_store_answers),
        cmocka_unit_test(test_a_repeat_while_it_is_being_sent),
        cmocka_unit_test(test_the_next_one_need_not_wait_for_the_lease),
        cmocka_unit_test(test_a_call_that_repeats_it),
        cmocka_unit_test(test_it_is_not_renewed_here),
        cmocka_unit_test(test_one_that_is_renewed_elsewhere_stays_for_a_ttl),
        cmocka_unit_test(test_one_that_is_over),
        cmocka_unit_test(test_one_that_was_broken),
        cmocka_unit_test(test_answers_that_are_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
