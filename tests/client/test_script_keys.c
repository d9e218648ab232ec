/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_keys.c: what a call with a key does when the lock is not granted to it: it looks for
 * the lease that another call may have made, or it does not; held against a script. Run by ctest.
 */
#include "client/script_bed.h"

typedef struct call {
    hf_client *client;
    hf_lease_options options;
    hf_lease lease;
} call;

static const hf_options quick = {.deadlock_ms = 100};
static hf_client *a, *b, *c;
static call first, second;
static part x, y;

static void begin(const char *uri)
{
    stage_begin();
    a = stage_client(uri, &quick);
    b = stage_client(uri, &quick);
    c = stage_client(uri, &quick);
    first = (call){.client = a, .options = {.key = "order 4711"}};
    second = (call){.client = b, .options = first.options};
    x = (part){.client = c, .name = "x"};
    y = (part){.client = a, .name = "y"};
}

static void lease_x(void *arg)
{
    call *it = arg;
    hf_error err;
    hf_code code = hf_lease_acquire(it->client, "x", &it->options, &it->lease, &err);
    say_code("leased", it == &first ? "first" : "second", code, &err);
}

/* ---- What it is refused for ---- */

static void test_a_refused_limit_may_be_its_leases(void **state)
{
    (void)state;
    begin("memory:keys-limit");
    x.options = (hf_lock_options){.permits = 1, .limit = 3};
    play(take_part, &x, 100);
    stage_forget();
    first.options.lock = (hf_lock_options){.permits = 1, .limit = 2, .wait_ms = HF_TRY};
    play(lease_x, &first, 500);
    stage_expect(
        "100 a look at 1 sessions\n"
        "100 a begin\n"
        "100 a x: enter-or-not 1\n"
        "100 a look at 1 sessions, trusting\n"
        "100 a look at 1 sessions\n"
        "100 leased first: HF_LIMIT: x is in use with a limit of 3, not with a limit of "
        "2: all users of a lock must give the same limit, or set it (sets_limit, --set-limit)\n");
    play(close_part, &x, 100);
    stage_end();
}

static void test_who_was_in_a_deadlock_may_have_its_lease(void **state)
{
    (void)state;
    begin("memory:keys-deadlock");
    part y_again = {.client = c, .name = "y", .options.actor = "till"};
    x.options.actor = "till";
    first.options.lock.actor = y.options.actor = "shop";
    play(take_part, &x, 0);
    play(take_part, &y, 0);
    play(take_part, &y_again, 100);
    stage_forget();
    play(lease_x, &first, 200);
    stage_expect("100 a look at 1 sessions\n"
                 "100 a x: enter\n"
                 "100 a hears a grant\n"
                 "125 c look at x y\n"
                 "125 c who waits for what\n"
                 "125 c beat, seen 1, waits\n"
                 "150 c look at x y\n"
                 "150 c who waits for what\n"
                 "150 c beat, seen 2, waits\n"
                 "175 c look at x y\n"
                 "175 c who waits for what\n"
                 "175 c beat, seen 3, waits\n"
                 "200 c look at x y\n"
                 "200 c who waits for what\n"
                 "200 c beat, seen 4, waits\n"
                 "200 a look at y x\n"
                 "200 a who waits for what\n"
                 "200 a beat, seen 1, waits\n"
                 "225 c look at x y\n"
                 "225 c who waits for what\n"
                 "225 c beat, seen 5, waits\n"
                 "225 a look at y x\n"
                 "225 a who waits for what\n"
                 "225 a who waits for what\n"
                 "225 a beat, seen 2, waits\n"
                 "250 c look at x y\n"
                 "250 c who waits for what\n"
                 "250 c beat, seen 6, waits\n"
                 "250 a look at y x\n"
                 "250 a who waits for what\n"
                 "250 a beat, seen 3, waits\n"
                 "275 c look at x y\n"
                 "275 c who waits for what\n"
                 "275 c beat, seen 7, waits\n"
                 "275 a look at y x\n"
                 "275 a who waits for what\n"
                 "275 a x: leave-unused\n"
                 "275 a look at 1 sessions\n"
                 "275 leased first: HF_DEADLOCK: deadlock: a@:1 (shop) waits for x held by c@:1 "
                 "(till); c@:1 (till) waits for y held by a@:1 (shop): release what is held and "
                 "begin again, or take them in one order\n"
                 "275 a beat, seen 4\n"
                 "300 c look at x y\n"
                 "300 c who waits for what\n");
    play(close_part, &y, 100);
    play(close_part, &y_again, 100);
    play(close_part, &x, 100);
    stage_end();
}

static void test_what_is_denied_is_not_looked_for(void **state)
{
    (void)state;
    begin("memory:keys-denied");
    stage_let_fail((stage_fault){.call = FAULTY_STEP, .is = stage_is_enter, .before = HF_DENIED});
    play(lease_x, &first, 500);
    stage_expect("0 a look at 1 sessions\n"
                 "0 a begin\n"
                 "0 a x: enter: not sent, HF_DENIED\n"
                 "0 a x: leave-unused\n"
                 "0 a look at x for sure\n"
                 "0 leased first: HF_DENIED: injected\n");
    stage_end();
}

/* ---- What stood, and stands no more ---- */

/* Both wait for x with one key; the first makes its lease, and the second sees that. */
static void wait_with_one_key(const char *uri, stage_fault of_second)
{
    begin(uri);
    play(take_part, &x, 0);
    play(lease_x, &first, 100);
    play(lease_x, &second, 100);
    of_second.who = 'b';
    of_second.call = FAULTY_SESSIONS_LOOK;
    stage_let_fail(of_second);
    stage_forget();
    play(close_part, &x, 500);
}

static void drop_the_lease(void)
{
    lease_ids ids;
    hf_error err;
    assert_int_equal(lease_id_read(first.lease.id, &ids, &err), HF_OK);
    stage_drop_session(a, ids.session);
}

static void test_a_lease_that_stood_and_is_gone_has_ended(void **state)
{
    (void)state;
    wait_with_one_key("memory:keys-gone", (stage_fault){.meanwhile = drop_the_lease});
    stage_expect("200.1 c x: leave\n"
                 "200.1 a hears a grant\n"
                 "220 a begin a lease\n"
                 "220 a x: pass\n"
                 "220 leased first: yes\n"
                 "220 b hears a grant\n"
                 "220 b look at x since 5\n"
                 "220 b x: leave-unused\n"
                 "220 b look at 1 sessions\n"
                 "220 b look at 1 sessions\n"
                 "220 leased second: HF_LOST: the lease of x has ended\n");
    stage_end();
}

static void test_a_lease_that_cannot_be_looked_at_is_not_known_to_have_ended(void **state)
{
    (void)state;
    wait_with_one_key("memory:keys-unseen", (stage_fault){.skips = 1, .before = HF_UNREACHABLE});
    stage_expect("200.1 c x: leave\n"
                 "200.1 a hears a grant\n"
                 "220 a begin a lease\n"
                 "220 a x: pass\n"
                 "220 leased first: yes\n"
                 "220 b hears a grant\n"
                 "220 b look at x since 5\n"
                 "220 b x: leave-unused\n"
                 "220 b look at 1 sessions\n"
                 "220 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "220 leased second: HF_UNREACHABLE: injected\n");
    stage_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refused_limit_may_be_its_leases),
        cmocka_unit_test(test_who_was_in_a_deadlock_may_have_its_lease),
        cmocka_unit_test(test_what_is_denied_is_not_looked_for),
        cmocka_unit_test(test_a_lease_that_stood_and_is_gone_has_ended),
        cmocka_unit_test(test_a_lease_that_cannot_be_looked_at_is_not_known_to_have_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
