/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_leases.c: what is sent to make, renew and release a lease, when, and what its caller
 * is told; answers that are lost, late, or that say that somebody else was quicker. Run by ctest.
 */
#include "client/client_bed.h"

#include "support/inside.h"
#include "support/stage.h"

typedef struct call {
    hf_client *client;
    hf_lease_options options;
    hf_lease lease;
    hf_code code;
} call;

static hf_client *a, *b;
static call first, second;
static hf_lease told;
static hf_lock *x;

static const hf_lease_options keyed = {.key = "order 4711"};

static void begin(const char *uri)
{
    stage_begin();
    a = stage_client(uri, NULL);
    b = stage_client(uri, NULL);
    first = (call){.client = a, .options = keyed};
    second = (call){.client = b, .options = keyed};
    x = NULL;
}

static void say(const char *what, hf_code code, const hf_lease *lease, const hf_error *err)
{
    if (code)
        stage_say("%s: %s: %s", what, hf_code_name(code), err->text);
    else
        stage_say("%s: token %lld, %lld ms left of %lld, waited %lld%s; before: %s", what,
                  (long long)lease->token, (long long)lease->left_ms, (long long)lease->ttl_ms,
                  (long long)lease->waited_ms, lease->was_there ? ", was there" : "",
                  lease->previous.who);
    if (!code &&
        lease->left_ms != (lease->ends_at_ns - 3600000000000 + 999999) / 1000000 - stage_now_ms())
        stage_say("its end is another");
}

static void acquire(void *arg)
{
    call *c = arg;
    hf_error err;
    c->code = hf_lease_acquire(c->client, "x", &c->options, &c->lease, &err);
    say(c == &first ? "first" : "second", c->code, &c->lease, &err);
}

static void renew(void *arg)
{
    call *c = arg;
    hf_error err;
    hf_code code = hf_lease_renew(c->client, first.lease.id, &told, &err);
    say("renewed", code, &told, &err);
}

static void release(void *arg)
{
    call *c = arg;
    hf_error err;
    hf_code code = hf_lease_release(c->client, first.lease.id, &err);
    stage_say("released: %s", code ? err.text : "yes");
}

static void take_x(void *options)
{
    stage_acquire(b, "x", options, &x);
}

static void leave_x(void *arg)
{
    (void)arg;
    hf_lock_close(x);
}

static void break_x(void *force)
{
    hf_break_options how = {.reason = "out of hand", .force = force != NULL};
    hf_error err;
    hf_code code = hf_break(b, "x", &how, &err);
    stage_say("broken: %s", code ? err.text : "yes");
}

/* ---- How one is made ---- */

static void test_one_is_made_renewed_and_released(void **state)
{
    (void)state;
    begin("memory:plain");
    first.options.key = NULL;
    stage_act(acquire, &first);
    stage_run(1000);
    stage_act(renew, &second);
    stage_run(1000);
    stage_act(release, &second);
    stage_run(1000);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 first: token 1782579200000000, 9975 ms left of 10000, waited 0; before: \n"
                 "1000 a sweep\n"
                 "1000 b beat, seen 0\n"
                 "1000 b look at x\n"
                 "1000 renewed: token 1782579200000000, 9975 ms left of 10000, waited 0; before: \n"
                 "2000 b look at 1 sessions\n"
                 "2000 b x: leave\n"
                 "2000 b end\n"
                 "2000 released: yes\n");
    stage_act(renew, &second);
    stage_act(release, &second);
    stage_run(0);
    stage_expect("3000 b beat, seen 0\n"
                 "3000 b hears HF_LOST\n"
                 "3000 b look at 1 sessions\n"
                 "3000 b look at x\n"
                 "3000 renewed: HF_LOST: the lease of x has run out, or was released\n"
                 "3000 b look at 1 sessions\n"
                 "3000 b look at x for sure\n"
                 "3000 released: yes\n");
    stage_end();
}

static void test_one_with_a_key_is_looked_for_first(void **state)
{
    (void)state;
    begin("memory:keyed");
    stage_act(acquire, &first);
    stage_run(1000);
    stage_act(acquire, &second);
    stage_run(1000);
    stage_expect("0 a look at 1 sessions\n"
                 "0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 first: token 1782579200000000, 9975 ms left of 10000, waited 0; before: \n"
                 "1000 a sweep\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b look at x\n"
                 "1000 b beat, seen 0\n"
                 "1000 b look at x\n"
                 "1000 second: token 1782579200000000, 9975 ms left of 10000, waited 0, was there; "
                 "before: \n");
    stage_act(release, &second);
    stage_act(acquire, &second);
    stage_act(acquire, &first);
    stage_run(0);
    stage_expect("2000 b look at 1 sessions\n"
                 "2000 b ask\n"
                 "2000 b x: leave\n"
                 "2000 b end\n"
                 "2000 released: yes\n"
                 "2000 b look at 1 sessions\n"
                 "2000 b beat, seen 0\n"
                 "2000 b hears HF_LOST\n"
                 "2000 b look at 1 sessions\n"
                 "2000 second: HF_LOST: the lease of x has run out, or was released; a key names "
                 "one lease: take another key\n"
                 "2000 a look at 1 sessions\n"
                 "2000 a beat, seen 0\n"
                 "2000 a hears HF_LOST\n"
                 "2000 a look at 1 sessions\n"
                 "2000 first: HF_LOST: the lease of x has run out, or was released; a key names "
                 "one lease: take another key\n");
    stage_end();
}

#define HOUR_MS (3600 * (int64_t)1000)

static hf_code repeat_after(int64_t hours)
{
    stage_run(hours * HOUR_MS);
    stage_act(acquire, &first);
    stage_run(0);
    stage_forget();
    return first.code;
}

/* A memory forgets an ended session a day after its lease, as MongoDB does; SQLite after an hour.
 * Until then nobody else's turn makes the key name a new lease. */
static void test_a_key_is_remembered_for_a_day(void **state)
{
    (void)state;
    const hf_options slow = {.ttl_ms = HOUR_MS};
    stage_begin();
    a = stage_client("memory:remembered", &slow);
    b = stage_client("memory:remembered", &slow);
    first = (call){.client = a, .options = keyed};
    stage_act(acquire, &first);
    stage_run(0);
    int64_t token = first.lease.token;
    stage_act(release, &first);
    stage_act(take_x, NULL);
    stage_act(leave_x, NULL);
    assert_int_equal(repeat_after(1), HF_LOST);
    assert_int_equal(repeat_after(23), HF_LOST);
    assert_int_equal(repeat_after(3), HF_OK);
    assert_true(first.lease.token > token);
    assert_false(first.lease.was_there);
    stage_end();
}

static hf_lock_options held;

/* Each option that is wrong or is not for leases. */
static void test_what_no_lease_can_be(void **state)
{
    (void)state;
    static char long_text[HF_TEXT_MAX + 2];
    memset(long_text, 'w', HF_TEXT_MAX + 1);
    const hf_lease_options wrong[] = {
        {.lock.on_lost = (hf_lost_fn)abort},
        {.lock.linger_ms = 1},
        {.lock.no_refresh = true},
        {.lock.feed_ms = 1},
        {.lock.max_hold_ms = 1},
        {.lock.period_ms = 60000},
        {.ttl_ms = 999},
        {.ttl_ms = 3600001},
        {.owner = long_text},
        {.owner = "\xff"},
        {.lock.why = long_text},
    };
    const hf_lease_options right[] = {{.ttl_ms = 1000}, {.ttl_ms = 3600000}};
    begin("memory:wrong");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        first.options = wrong[i];
        stage_act(acquire, &first);
        stage_run(0);
    }
    stage_expect("0 first: HF_INVALID: no process keeps a lease: on_lost, linger_ms, no_refresh, "
                 "feed_ms, max_hold_ms, period_ms and lock_session are for locks\n"
                 "0 first: HF_INVALID: no process keeps a lease: on_lost, linger_ms, no_refresh, "
                 "feed_ms, max_hold_ms, period_ms and lock_session are for locks\n"
                 "0 first: HF_INVALID: no process keeps a lease: on_lost, linger_ms, no_refresh, "
                 "feed_ms, max_hold_ms, period_ms and lock_session are for locks\n"
                 "0 first: HF_INVALID: no process keeps a lease: on_lost, linger_ms, no_refresh, "
                 "feed_ms, max_hold_ms, period_ms and lock_session are for locks\n"
                 "0 first: HF_INVALID: no process keeps a lease: on_lost, linger_ms, no_refresh, "
                 "feed_ms, max_hold_ms, period_ms and lock_session are for locks\n"
                 "0 first: HF_INVALID: no process keeps a lease: on_lost, linger_ms, no_refresh, "
                 "feed_ms, max_hold_ms, period_ms and lock_session are for locks\n"
                 "0 first: HF_INVALID: a ttl of 999 ms: from 1,000 to 3,600,000\n"
                 "0 first: HF_INVALID: a ttl of 3600001 ms: from 1,000 to 3,600,000\n"
                 "0 first: HF_INVALID: the owner is 257 bytes long: at most 256 are allowed "
                 "(wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww...)\n"
                 "0 first: HF_INVALID: the owner is not valid UTF-8\n"
                 "0 first: HF_INVALID: the reason (why) is 257 bytes long: at most 256 are allowed "
                 "(wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww...)\n");
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        first.options = right[i];
        stage_act(acquire, &first);
        stage_run(0);
        stage_act(release, &first);
        stage_run(0);
    }
    stage_expect(
        "0 a begin\n"
        "0 a x: enter\n"
        "0 a begin a lease\n"
        "0 a x: pass\n"
        "0 first: token 1782579200000000, 993 ms left of 1000, waited 0; before: \n"
        "0 a look at 1 sessions\n"
        "0 a x: leave\n"
        "0 a end\n"
        "0 released: yes\n"
        "0 a x: enter\n"
        "0 a begin a lease\n"
        "0 a x: pass\n"
        "0 first: token 1782579200000001, 3592795 ms left of 3600000, waited 0; before: a@\n"
        "0 a look at 1 sessions\n"
        "0 a x: leave\n"
        "0 a end\n"
        "0 released: yes\n");
    stage_end();
}

static bool say_holder(void *ctx, const hf_lock_info *info)
{
    (void)ctx;
    for (size_t i = 0; i < info->n_holders; i++)
        stage_say("held by %s: '%s' for '%s', %d of %d", info->holders[i].who,
                  info->holders[i].actor, info->holders[i].why, (int)info->holders[i].permits,
                  (int)info->limit);
    return true;
}

static void show_x(void)
{
    hf_error err;
    hf_show(b, "x", say_holder, NULL, &err);
}

/* Of the owner, the session's; of a short one, the actor's too. */
static void test_who_a_lease_is_for(void **state)
{
    (void)state;
    char owner[HF_ACTOR_MAX + 2] = "";
    memset(owner, 'o', HF_ACTOR_MAX);
    const hf_lease_options options[] = {{.owner = ""},
                                        {.owner = owner, .lock.why = "audit"},
                                        {.owner = "shop", .lock.actor = "till"},
                                        {.lock.actor = "till"}};
    begin("memory:owners");
    for (size_t i = 0; i < 5; i++) {
        first.options = options[i < 4 ? i : 1];
        if (i == 4)
            strcat(owner, "o");
        stage_act(acquire, &first);
        stage_run(0);
        show_x();
        stage_act(release, &first);
        stage_run(0);
    }
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 first: token 1782579200000000, 9975 ms left of 10000, waited 0; before: \n"
                 "0 b look at x\n"
                 "0 b look at 1 sessions\n"
                 "0 held by a@: '' for '', 1073741824 of 1073741824\n"
                 "0 a look at 1 sessions\n"
                 "0 a x: leave\n"
                 "0 a end\n"
                 "0 released: yes\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 first: token 1782579200000001, 9975 ms left of 10000, waited 0; before: a@\n"
                 "0 b look at x\n"
                 "0 b look at 1 sessions\n"
                 "0 held by oooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo@: "
                 "'oooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo' for 'audit', "
                 "1073741824 of 1073741824\n"
                 "0 a look at 1 sessions\n"
                 "0 a x: leave\n"
                 "0 a end\n"
                 "0 released: yes\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 first: token 1782579200000002, 9975 ms left of 10000, waited 0; before: "
                 "oooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo@\n"
                 "0 b look at x\n"
                 "0 b look at 1 sessions\n"
                 "0 held by shop@: 'till' for '', 1073741824 of 1073741824\n"
                 "0 a look at 1 sessions\n"
                 "0 a x: leave\n"
                 "0 a end\n"
                 "0 released: yes\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 first: token 1782579200000003, 9975 ms left of 10000, waited 0; before: shop@\n"
                 "0 b look at x\n"
                 "0 b look at 1 sessions\n"
                 "0 held by a@: 'till' for '', 1073741824 of 1073741824\n"
                 "0 a look at 1 sessions\n"
                 "0 a x: leave\n"
                 "0 a end\n"
                 "0 released: yes\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 first: token 1782579200000004, 9975 ms left of 10000, waited 0; before: a@\n"
                 "0 b look at x\n"
                 "0 b look at 1 sessions\n"
                 "0 held by ooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo@: '' "
                 "for 'audit', 1073741824 of 1073741824\n"
                 "0 a look at 1 sessions\n"
                 "0 a x: leave\n"
                 "0 a end\n"
                 "0 released: yes\n");
    stage_end();
}

/* Whatever the caller said itself must be the same. */
static void test_a_key_is_for_the_same_only(void **state)
{
    (void)state;
    const hf_lease_options others[] = {
        {.ttl_ms = 5000},
        {.ttl_ms = 10000},
        {.owner = "bank"},
        {.owner = ""},
        {.owner = "shop"},
        {.lock.mode = HF_SHARED},
        {.lock = {.permits = 2, .limit = 2}},
        {.lock = {.permits = 2, .limit = 3}},
        {.lock = {.permits = 1, .limit = 3}},
        {.lock = {.permits = 1, .limit = 3, .why = "audit"}},
        {.lock = {.permits = 1, .limit = 3, .why = ""}},
    };
    begin("memory:reused");
    first.options.owner = "shop";
    first.options.lock.permits = 1;
    first.options.lock.limit = 3;
    stage_act(acquire, &first);
    stage_run(0);
    stage_forget();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        second.options = others[i];
        second.options.key = keyed.key;
        stage_act(acquire, &second);
        stage_run(0);
    }
    stage_expect(
        "0 b look at 1 sessions\n"
        "0 b look at x\n"
        "0 second: HF_KEY_REUSED: x: this key was used for a lease with another ttl: a repeat asks "
        "for the same, another lease needs another key\n"
        "0 b look at 1 sessions\n"
        "0 b look at x\n"
        "0 second: HF_KEY_REUSED: x: this key was used for a lease with another mode, number of "
        "permits, or limit: a repeat asks for the same, another lease needs another key\n"
        "0 b look at 1 sessions\n"
        "0 b look at x\n"
        "0 second: HF_KEY_REUSED: x: this key was used for a lease with another owner: a repeat "
        "asks for the same, another lease needs another key\n"
        "0 b look at 1 sessions\n"
        "0 b look at x\n"
        "0 second: HF_KEY_REUSED: x: this key was used for a lease with another mode, number of "
        "permits, or limit: a repeat asks for the same, another lease needs another key\n"
        "0 b look at 1 sessions\n"
        "0 b look at x\n"
        "0 second: HF_KEY_REUSED: x: this key was used for a lease with another mode, number of "
        "permits, or limit: a repeat asks for the same, another lease needs another key\n"
        "0 b look at 1 sessions\n"
        "0 b look at x\n"
        "0 second: HF_KEY_REUSED: x: this key was used for a lease with another mode, number of "
        "permits, or limit: a repeat asks for the same, another lease needs another key\n"
        "0 b look at 1 sessions\n"
        "0 b look at x\n"
        "0 second: HF_KEY_REUSED: x: this key was used for a lease with another mode, number of "
        "permits, or limit: a repeat asks for the same, another lease needs another key\n"
        "0 b look at 1 sessions\n"
        "0 b look at x\n"
        "0 second: HF_KEY_REUSED: x: this key was used for a lease with another mode, number of "
        "permits, or limit: a repeat asks for the same, another lease needs another key\n"
        "0 b look at 1 sessions\n"
        "0 b look at x\n"
        "0 b beat, seen 0\n"
        "0 b look at x\n"
        "0 second: token 1782579200000000, 9975 ms left of 10000, waited 0, was there; before: \n"
        "0 b look at 1 sessions\n"
        "0 b look at x\n"
        "0 second: HF_KEY_REUSED: x: this key was used for a lease with another reason (why): a "
        "repeat asks for the same, another lease needs another key\n"
        "0 b look at 1 sessions\n"
        "0 b look at x\n"
        "0 b beat, seen 0\n"
        "0 b look at x\n"
        "0 second: token 1782579200000000, 9975 ms left of 10000, waited 0, was there; before: \n");
    stage_end();
}

/* ---- What goes wrong while it is made ---- */

static void run_one(const char *uri, hf_lease_options options, stage_fault fault)
{
    begin(uri);
    fault.who = 'a';
    stage_let_fail(fault);
    first.options = options;
    stage_act(acquire, &first);
    stage_run(15000);
}

static const hf_lease_options plain, brief = {.ttl_ms = 1500};

static void test_an_answer_to_a_pass_that_is_lost(void **state)
{
    (void)state;
    stage_fault lost = {.call = FAULTY_STEP, .is = stage_is_pass, .after = HF_UNKNOWN};
    run_one("memory:lost-pass", keyed, lost);
    stage_expect("0 a look at 1 sessions\n"
                 "0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 a hears HF_UNKNOWN\n"
                 "9 a x: pass\n"
                 "9 first: token 1782579200000000, 9966 ms left of 10000, waited 0; before: \n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
    lost.after = HF_OK, lost.before = HF_UNREACHABLE, lost.times = 3;
    run_one("memory:unsent-pass", plain, lost);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass: not sent, HF_UNREACHABLE\n"
                 "10 a x: pass: not sent, HF_UNREACHABLE\n"
                 "26 a x: pass: not sent, HF_UNREACHABLE\n"
                 "53 a x: pass\n"
                 "53 first: token 1782579200000000, 9922 ms left of 10000, waited 0; before: \n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
}

static void test_a_pass_that_did_nothing(void **state)
{
    (void)state;
    stage_fault swallowed = {
        .call = FAULTY_STEP, .is = stage_is_pass, .is_swallowed = true, .times = 12};
    run_one("memory:swallowed-pass", plain, swallowed);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 a look at x for sure\n"
                 "10 a x: pass\n"
                 "10 a look at x for sure\n"
                 "26 a x: pass\n"
                 "26 a look at x for sure\n"
                 "53 a x: pass\n"
                 "53 a look at x for sure\n"
                 "101 a x: pass\n"
                 "101 a look at x for sure\n"
                 "190 a x: pass\n"
                 "190 a look at x for sure\n"
                 "360 a x: pass\n"
                 "360 a look at x for sure\n"
                 "621 a x: pass\n"
                 "621 a look at x for sure\n"
                 "883 a x: pass\n"
                 "883 a look at x for sure\n"
                 "1000 a sweep\n"
                 "1146 a x: pass\n"
                 "1146 a look at x for sure\n"
                 "1410 a x: pass\n"
                 "1410 a look at x for sure\n"
                 "1675 a x: pass\n"
                 "1675 a look at x for sure\n"
                 "1941 a x: pass\n"
                 "1941 first: token 1782579200000000, 8034 ms left of 10000, waited 0; before: \n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
}

static void test_a_pass_that_is_refused(void **state)
{
    (void)state;
    const stage_fault refused = {.call = FAULTY_STEP, .is = stage_is_pass, .before = HF_DENIED};
    run_one("memory:refused-pass", plain, refused);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass: not sent, HF_DENIED\n"
                 "0 a end, leaving tickets\n"
                 "0 first: HF_DENIED: injected\n"
                 "0.1 a x: leave-unused\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
    run_one("memory:refused-keyed", keyed, refused);
    stage_expect("0 a look at 1 sessions\n"
                 "0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass: not sent, HF_DENIED\n"
                 "0 first: HF_DENIED: injected\n"
                 "0.1 a x: leave-unused\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
}

static void break_by_force(void)
{
    break_x("force");
}

static void test_a_lock_that_is_taken_out_before_its_pass(void **state)
{
    (void)state;
    const stage_fault broken = {
        .call = FAULTY_STEP, .is = stage_is_pass, .meanwhile = break_by_force};
    run_one("memory:broken-pass", keyed, broken);
    stage_expect("0 a look at 1 sessions\n"
                 "0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 b look at x\n"
                 "0 b look at 1 sessions\n"
                 "0 b ask\n"
                 "0 b x: abandon(broken by b@:1: out of hand)\n"
                 "0 b look at x\n"
                 "0 broken: yes\n"
                 "0 a look at x for sure\n"
                 "0 first: HF_UNKNOWN: x was lost before it was made a lease: ask again\n"
                 "0.1 a x: leave-unused\n"
                 "0.1 a look at x for sure\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2, answered 1\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
}

static void drop_the_record(void)
{
    stage_drop_record(a, "x");
}

static void test_a_record_that_is_dropped_before_the_pass(void **state)
{
    (void)state;
    const stage_fault dropped = {
        .call = FAULTY_STEP, .is = stage_is_pass, .meanwhile = drop_the_record};
    run_one("memory:dropped-pass", plain, dropped);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 a look at x for sure\n"
                 "0 first: HF_UNKNOWN: x was lost before it was made a lease: ask again\n"
                 "0 a look at 1 sessions\n"
                 "0 a end, leaving tickets\n"
                 "0.1 a x: leave-unused\n"
                 "0.1 a look at x for sure\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
}

static void test_a_session_that_begins_slowly(void **state)
{
    (void)state;
    stage_fault slow = {.call = FAULTY_BEGIN, .is = stage_is_lease, .slow_ms = 3000};
    run_one("memory:slow", plain, slow);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "1000 a sweep\n"
                 "3000 a x: pass\n"
                 "3000 first: token 1782579200000000, 6975 ms left of 10000, waited 0; before: \n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
    slow.slow_ms = 3500;
    run_one("memory:slower", plain, slow);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "3500 a x: pass\n"
                 "3500 first: token 1782579200000000, 6475 ms left of 10000, waited 0; before: \n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
    slow.after = HF_UNKNOWN;
    run_one("memory:slow-unknown", keyed, slow);
    stage_expect("0 a look at 1 sessions\n"
                 "0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "3500 a hears HF_UNKNOWN\n"
                 "3509 a begin a lease\n"
                 "3509 a hears HF_HELD\n"
                 "3509 a look at 1 sessions\n"
                 "3509 a look at x\n"
                 "3509 a beat, seen 0\n"
                 "3509 a look at x\n"
                 "3509 a look at x for sure\n"
                 "3509 a x: pass\n"
                 "3509 first: token 1782579200000000, 9975 ms left of 10000, waited 0; before: \n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
}

static void test_a_pass_that_is_answered_slowly(void **state)
{
    (void)state;
    stage_fault slow = {.call = FAULTY_STEP, .is = stage_is_pass, .slow_ms = 9974};
    run_one("memory:slow-pass", plain, slow);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9974 first: token 1782579200000000, 1 ms left of 10000, waited 0; before: \n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
    slow.slow_ms = 9975;
    run_one("memory:slower-pass", plain, slow);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9985 a beat, seen 0\n"
                 "9985 a look at x\n"
                 "9985 a x: pass\n"
                 "9985 first: token 1782579200000000, 9975 ms left of 10000, waited 0; before: \n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
}

/* The lock itself is over meanwhile; what was made of it is not. */
static void test_a_pass_whose_answer_outlasts_the_lock(void **state)
{
    (void)state;
    const hf_lease_options slow_one = {.ttl_ms = 60000};
    stage_fault lost = {
        .call = FAULTY_STEP, .is = stage_is_pass, .slow_ms = 12000, .after = HF_UNKNOWN};
    begin("memory:outlasting-pass");
    stage_let_fail((stage_fault){.call = FAULTY_BEAT, .before = HF_UNREACHABLE, .times = 100});
    stage_let_fail(lost);
    first.options = slow_one;
    stage_act(acquire, &first);
    stage_run(15000);
    stage_expect(
        "0 a begin\n"
        "0 a x: enter\n"
        "0 a begin a lease\n"
        "0 a x: pass\n"
        "1000 a sweep\n"
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
        "9975 a look at 1 sessions\n"
        "9975 a end, leaving tickets\n"
        "12000 a hears HF_UNKNOWN\n"
        "12010 a x: pass\n"
        "12010 first: token 1782579200000000, 47865 ms left of 60000, waited 0; before: \n");
    stage_end();
}

static hf_id lease_session(void)
{
    lease_ids ids;
    hf_error err;
    if (lease_id_read(first.lease.id, &ids, &err))
        abort();
    return ids.session;
}

static void drop_the_session(void)
{
    stage_drop_session(a, lease_session());
}

static void mark_the_session(void)
{
    stage_mark_dead(a, lease_session());
}

static void release_it(void)
{
    release(&second);
}

/* Of those that may stand beside others it is looked at once more whether they have ended. */
static void test_what_is_looked_back_at(void **state)
{
    (void)state;
    hf_lease_options both = {.key = "k", .lock.mode = HF_SHARED};
    stage_fault between = {.call = FAULTY_STEP, .is = stage_is_pass, .meanwhile = drop_the_session};
    run_one("memory:back-dropped", both, between);
    stage_expect("0 a look at 1 sessions\n"
                 "0 a begin\n"
                 "0 a x: enter 1\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 a beat, seen 0\n"
                 "0 a hears HF_LOST\n"
                 "0 a look at 1 sessions\n"
                 "9 a begin a lease\n"
                 "9 a beat, seen 0\n"
                 "9 a look at x\n"
                 "9 a x: pass\n"
                 "9 a beat, seen 0\n"
                 "9 a look at x\n"
                 "9 first: token 1782579200000000, 9975 ms left of 10000, waited 0; before: \n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
    between.meanwhile = mark_the_session;
    run_one("memory:back-marked", both, between);
    stage_expect("0 a look at 1 sessions\n"
                 "0 a begin\n"
                 "0 a x: enter 1\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 a beat, seen 0\n"
                 "0 a hears HF_LOST\n"
                 "0 a look at 1 sessions\n"
                 "0 a x: leave\n"
                 "0 first: HF_LOST: the lease of x has run out, or was released; a key names one "
                 "lease: take another key\n"
                 "0.1 a x: leave-unused\n"
                 "0.1 a look at x for sure\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
    between.meanwhile = release_it;
    run_one("memory:back-released", both, between);
    stage_expect("0 a look at 1 sessions\n"
                 "0 a begin\n"
                 "0 a x: enter 1\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 b look at 1 sessions\n"
                 "0 b ask\n"
                 "0 b x: leave\n"
                 "0 b look at x for sure\n"
                 "0 b look at 1 sessions\n"
                 "0 b end\n"
                 "0 released: yes\n"
                 "0 a beat, seen 0\n"
                 "0 a hears HF_LOST\n"
                 "0 a look at 1 sessions\n"
                 "0 a x: leave\n"
                 "0 first: HF_LOST: the lease of x has run out, or was released; a key names one "
                 "lease: take another key\n"
                 "0.1 a x: leave-unused\n"
                 "0.1 a look at x for sure\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
    both.key = NULL;
    run_one("memory:back-plain", both, between);
    stage_expect("0 a begin\n"
                 "0 a x: enter 1\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 b look at 1 sessions\n"
                 "0 b x: leave\n"
                 "0 b look at x for sure\n"
                 "0 b look at 1 sessions\n"
                 "0 b end\n"
                 "0 released: yes\n"
                 "0 first: token 1782579200000000, 9975 ms left of 10000, waited 0; before: \n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    stage_end();
}

/* ---- Waiting ---- */

static void wait_for_x(const char *uri, const hf_lease_options *options)
{
    begin(uri);
    stage_act(take_x, NULL);
    stage_run(0);
    stage_forget();
    first.options = *options;
    stage_act(acquire, &first);
    stage_run(2500);
    hf_lock_close(x);
}

static void test_it_waits_as_long_as_it_may(void **state)
{
    (void)state;
    wait_for_x("memory:waits", &(hf_lease_options){.lock.wait_ms = 2000});
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "360 a look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1508 a look at x since 2\n"
                 "2000 a look at 1 sessions, trusting\n"
                 "2000 a x: leave-unused\n"
                 "2000 first: HF_TIMEOUT: x was not free in time: held by b@:1\n");
    stage_end();
    wait_for_x("memory:waits-key", &(hf_lease_options){.key = "k", .lock.wait_ms = 2000});
    stage_expect("0 a look at 1 sessions\n"
                 "0 a begin\n"
                 "0 a x: enter\n"
                 "360 a look at 1 sessions\n"
                 "507 a look at x since 2\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1015 a look at x since 2\n"
                 "1524 a look at x since 2\n"
                 "2000 a look at 1 sessions, trusting\n"
                 "2000 a x: leave-unused\n"
                 "2000 a look at 1 sessions\n"
                 "2000 first: HF_TIMEOUT: x was not free in time: held by b@:1\n");
    stage_end();
    wait_for_x("memory:tries-key", &(hf_lease_options){.key = "k", .lock.wait_ms = HF_TRY});
    stage_expect("0 a look at 1 sessions\n"
                 "0 a begin\n"
                 "0 a x: enter-or-not\n"
                 "0 a look at 1 sessions, trusting\n"
                 "0 a look at 1 sessions\n"
                 "0 a look at 1 sessions\n"
                 "6 a look at 1 sessions\n"
                 "24 a look at 1 sessions\n"
                 "53 a look at 1 sessions\n"
                 "103 a look at 1 sessions\n"
                 "194 a look at 1 sessions\n"
                 "306 a look at 1 sessions\n"
                 "306 first: HF_HELD: x was not free: held by b@:1\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n");
    stage_end();
    wait_for_x("memory:tries", &(hf_lease_options){.lock.wait_ms = HF_TRY});
    stage_expect("0 a begin\n"
                 "0 a x: enter-or-not\n"
                 "0 a look at 1 sessions, trusting\n"
                 "0 first: HF_HELD: x was not free: held by b@:1\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n");
    stage_end();
}

static void test_two_that_wait_with_one_key(void **state)
{
    (void)state;
    begin("memory:two");
    hf_client *c = stage_client("memory:two", NULL);
    b = c;
    stage_act(take_x, &held);
    stage_run(0);
    stage_act(acquire, &first);
    stage_run(100);
    stage_act(acquire, &second);
    stage_run(2000);
    stage_expect("0 c begin\n"
                 "0 c x: enter\n"
                 "0 c has x\n"
                 "0 a look at 1 sessions\n"
                 "0 a begin\n"
                 "0 a x: enter\n"
                 "100 b look at 1 sessions\n"
                 "100 b begin\n"
                 "100 b x: enter\n"
                 "360 a look at 1 sessions\n"
                 "460 b look at 2 sessions\n"
                 "507 a look at x since 2\n"
                 "611 b look at x since 3\n"
                 "1000 a sweep\n"
                 "1000 c sweep\n"
                 "1019 a look at x since 2\n"
                 "1100 b sweep\n"
                 "1124 b look at x since 3\n"
                 "1533 a look at x since 2\n"
                 "1639 b look at x since 3\n"
                 "2049 a look at x since 2\n");
    stage_act(leave_x, NULL);
    stage_run(2000);
    stage_expect(
        "2100.1 c x: leave\n"
        "2100.1 a hears a grant\n"
        "2109 a begin a lease\n"
        "2109 a x: pass\n"
        "2109 first: token 1782579201153433, 9975 ms left of 10000, waited 2109; before: c@:1\n"
        "2109 b hears a grant\n"
        "2119 b look at x since 5\n"
        "2119 b x: leave-unused\n"
        "2119 b look at 1 sessions\n"
        "2119 b look at 1 sessions\n"
        "2119 b look at x\n"
        "2119 b beat, seen 0\n"
        "2119 b look at x\n"
        "2119 second: token 1782579201153433, 9975 ms left of 10000, waited 2019, was there; "
        "before: c@:1\n"
        "3333 a beat, seen 1\n"
        "3333 c beat, seen 1\n"
        "3433 b beat, seen 1\n");
    stage_end();
}

/* As SQLite is: where a crash shows at once, a waiter seldom looks by itself. The lease is never
 * renewed, and b has waited since before it was made. */
static void test_who_waits_before_the_lease_waits_a_ttl(void **state)
{
    (void)state;
    begin("memory:unrenewed");
    stage_store(b)->base.can |= HF_CAN_SEE_CRASH;
    stage_let_fail((stage_fault){.call = FAULTY_STEP, .is = stage_is_pass, .late_ms = 300});
    first.options = (hf_lease_options){.ttl_ms = 1000};
    stage_act(acquire, &first);
    stage_run(100);
    stage_act(take_x, NULL);
    stage_run(1300);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "100 b begin\n"
                 "100 b x: enter\n"
                 "100 b look at 1 sessions\n"
                 "300 first: token 1782579200000000, 693 ms left of 1000, waited 0; before: \n"
                 "300 b hears a grant\n"
                 "300 b look at x since 3\n"
                 "300 b look at 1 sessions\n"
                 "433 b look at 1 sessions\n"
                 "599 b look at 1 sessions\n"
                 "765 b look at 1 sessions\n"
                 "931 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1097 b look at 1 sessions\n"
                 "1100 b sweep\n"
                 "1263 b look at 1 sessions\n"
                 "1307 b look at 1 sessions\n"
                 "1307 b mark\n"
                 "1307 b x: bury\n"
                 "1307 b hears that it should look\n"
                 "1307 b hears a grant\n"
                 "1307 b has x\n");
    stage_act(leave_x, NULL);
    stage_end();
}

static void try_beside(const char *uri, int64_t late_ms)
{
    begin(uri);
    stage_let_fail((stage_fault){.call = FAULTY_STEP, .is = stage_is_pass, .late_ms = late_ms});
    second.options.lock.wait_ms = HF_TRY;
    stage_act(acquire, &first);
    stage_act(acquire, &second);
    stage_run(1000);
}

static void test_a_try_beside_the_pass_of_its_key(void **state)
{
    (void)state;
    try_beside("memory:beside", 60);
    stage_expect(
        "0 a look at 1 sessions\n"
        "0 a begin\n"
        "0 a x: enter\n"
        "0 a begin a lease\n"
        "0 a x: pass\n"
        "0 b look at 1 sessions\n"
        "0 b look at x\n"
        "0 b beat, seen 0\n"
        "0 b look at x\n"
        "0 b look at x for sure\n"
        "0 b begin\n"
        "0 b x: enter-or-not\n"
        "0 b look at 1 sessions, trusting\n"
        "0 b look at 1 sessions\n"
        "0 b look at 1 sessions\n"
        "0 b look at x\n"
        "0 b beat, seen 0\n"
        "0 b look at x\n"
        "0 b look at x for sure\n"
        "6 b look at 1 sessions\n"
        "6 b look at x\n"
        "6 b beat, seen 0\n"
        "6 b look at x\n"
        "6 b look at x for sure\n"
        "24 b look at 1 sessions\n"
        "24 b look at x\n"
        "24 b beat, seen 0\n"
        "24 b look at x\n"
        "24 b look at x for sure\n"
        "53 b look at 1 sessions\n"
        "53 b look at x\n"
        "53 b beat, seen 0\n"
        "53 b look at x\n"
        "53 b look at x for sure\n"
        "60 first: token 1782579200000000, 9915 ms left of 10000, waited 0; before: \n"
        "103 b look at 1 sessions\n"
        "103 b look at x\n"
        "103 b beat, seen 0\n"
        "103 b look at x\n"
        "103 second: token 1782579200000000, 9975 ms left of 10000, waited 0, was there; before: \n"
        "1000 a sweep\n"
        "1000 b sweep\n");
    stage_end();
    try_beside("memory:beside-late", 400);
    stage_expect("0 a look at 1 sessions\n"
                 "0 a begin\n"
                 "0 a x: enter\n"
                 "0 a begin a lease\n"
                 "0 a x: pass\n"
                 "0 b look at 1 sessions\n"
                 "0 b look at x\n"
                 "0 b beat, seen 0\n"
                 "0 b look at x\n"
                 "0 b look at x for sure\n"
                 "0 b begin\n"
                 "0 b x: enter-or-not\n"
                 "0 b look at 1 sessions, trusting\n"
                 "0 b look at 1 sessions\n"
                 "0 b look at 1 sessions\n"
                 "0 b look at x\n"
                 "0 b beat, seen 0\n"
                 "0 b look at x\n"
                 "0 b look at x for sure\n"
                 "6 b look at 1 sessions\n"
                 "6 b look at x\n"
                 "6 b beat, seen 0\n"
                 "6 b look at x\n"
                 "6 b look at x for sure\n"
                 "24 b look at 1 sessions\n"
                 "24 b look at x\n"
                 "24 b beat, seen 0\n"
                 "24 b look at x\n"
                 "24 b look at x for sure\n"
                 "53 b look at 1 sessions\n"
                 "53 b look at x\n"
                 "53 b beat, seen 0\n"
                 "53 b look at x\n"
                 "53 b look at x for sure\n"
                 "103 b look at 1 sessions\n"
                 "103 b look at x\n"
                 "103 b beat, seen 0\n"
                 "103 b look at x\n"
                 "103 b look at x for sure\n"
                 "194 b look at 1 sessions\n"
                 "194 b look at x\n"
                 "194 b beat, seen 0\n"
                 "194 b look at x\n"
                 "194 b look at x for sure\n"
                 "306 b look at 1 sessions\n"
                 "306 b look at x\n"
                 "306 b beat, seen 0\n"
                 "306 b look at x\n"
                 "306 b look at x for sure\n"
                 "306 second: HF_HELD: x was not free: held by a@:1\n"
                 "400 first: token 1782579200000000, 9575 ms left of 10000, waited 0; before: \n"
                 "1000 a sweep\n"
                 "1000 b sweep\n");
    stage_end();
}

/* Each differs in one thing from a lock that may become the lease. */
static void try_beside_another(const char *uri, hf_lock_options other, int64_t age_ms)
{
    begin(uri);
    stage_act(take_x, &other);
    stage_run(age_ms);
    stage_forget();
    first.options.lock.wait_ms = HF_TRY;
    stage_act(acquire, &first);
    stage_run(500);
    hf_lock_close(x);
}

static void test_a_try_beside_what_becomes_no_lease(void **state)
{
    (void)state;
    try_beside_another("memory:beside-why", (hf_lock_options){.why = "audit"}, 100);
    stage_expect("100 a look at 1 sessions\n"
                 "100 a begin\n"
                 "100 a x: enter-or-not\n"
                 "100 a look at 1 sessions, trusting\n"
                 "100 a look at 1 sessions\n"
                 "100 first: HF_HELD: x was not free: held by b@:1 (audit)\n");
    stage_end();
    try_beside_another("memory:beside-actor", (hf_lock_options){.actor = "till"}, 100);
    stage_expect("100 a look at 1 sessions\n"
                 "100 a begin\n"
                 "100 a x: enter-or-not\n"
                 "100 a look at 1 sessions, trusting\n"
                 "100 a look at 1 sessions\n"
                 "100 first: HF_HELD: x was not free: held by b@:1\n");
    stage_end();
    try_beside_another("memory:beside-shared", (hf_lock_options){.mode = HF_SHARED}, 100);
    stage_expect("100 a look at 1 sessions\n"
                 "100 a begin\n"
                 "100 a x: enter-or-not\n"
                 "100 a look at 1 sessions, trusting\n"
                 "100 a look at 1 sessions\n"
                 "100 first: HF_HELD: x was not free: held by b@:1\n");
    stage_end();
    try_beside_another("memory:beside-young", (hf_lock_options){.mode = HF_EXCLUSIVE}, 1999);
    stage_expect("1999 a look at 1 sessions\n"
                 "1999 a begin\n"
                 "1999 a x: enter-or-not\n"
                 "1999 a look at 1 sessions, trusting\n"
                 "1999 a look at 1 sessions\n"
                 "1999 a look at 1 sessions\n"
                 "2005 a look at 1 sessions\n"
                 "2023 a look at 1 sessions\n"
                 "2052 a look at 1 sessions\n"
                 "2102 a look at 1 sessions\n"
                 "2193 a look at 1 sessions\n"
                 "2305 a look at 1 sessions\n"
                 "2305 first: HF_HELD: x was not free: held by b@:1\n");
    stage_end();
    try_beside_another("memory:beside-old", (hf_lock_options){.mode = HF_EXCLUSIVE}, 2000);
    stage_expect("2000 a look at 1 sessions\n"
                 "2000 a begin\n"
                 "2000 a x: enter-or-not\n"
                 "2000 a look at 1 sessions, trusting\n"
                 "2000 a look at 1 sessions\n"
                 "2000 first: HF_HELD: x was not free: held by b@:1\n");
    stage_end();
}

/* ---- Renewing ---- */

static void make_one(const char *uri, const hf_lease_options *options)
{
    begin(uri);
    first.options = *options;
    stage_act(acquire, &first);
    stage_run(1000);
    stage_forget();
}

static void run_act(void (*body)(void *), int64_t ms)
{
    stage_act(body, &second);
    stage_run(ms);
}

static void test_a_renewal_of_what_is_over(void **state)
{
    (void)state;
    make_one("memory:renew-broken", &brief);
    stage_act(break_x, NULL);
    stage_run(500);
    run_act(renew, 0);
    stage_run(2000);
    run_act(renew, 0);
    stage_expect("1000 b look at x\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b ask\n"
                 "1100 b look at x\n"
                 "1200 b look at x\n"
                 "1300 b look at x\n"
                 "1400 b look at x\n"
                 "1500 b look at x\n"
                 "1500 b beat, seen 0\n"
                 "1500 renewed: HF_LOST: x was broken by b@:1: out of hand\n"
                 "1600 b look at x\n"
                 "1700 b look at x\n"
                 "1800 b look at x\n"
                 "1900 b look at x\n"
                 "2000 b look at x\n"
                 "2100 b look at x\n"
                 "2200 b look at x\n"
                 "2300 b look at x\n"
                 "2400 b look at x\n"
                 "2500 b look at x\n"
                 "2600 b look at x\n"
                 "2600 b look at 1 sessions\n"
                 "2600 b x: abandon(broken by b@:1: out of hand)\n"
                 "2600 b look at x\n"
                 "2600 broken: yes\n"
                 "3333 a beat, seen 1\n"
                 "3500 b beat, seen 0\n"
                 "3500 renewed: HF_LOST: x was broken by b@:1: out of hand\n");
    stage_end();
    make_one("memory:renew-forced", &plain);
    stage_act(break_x, "force");
    stage_run(0);
    run_act(renew, 0);
    run_act(renew, 0);
    stage_expect("1000 b look at x\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b ask\n"
                 "1000 b x: abandon(broken by b@:1: out of hand)\n"
                 "1000 b look at x\n"
                 "1000 broken: yes\n"
                 "1000 b beat, seen 0\n"
                 "1000 renewed: HF_LOST: x was broken by b@:1: out of hand\n"
                 "1000 b beat, seen 0\n"
                 "1000 renewed: HF_LOST: x was broken by b@:1: out of hand\n");
    stage_end();
    make_one("memory:renew-unasked", &plain);
    stage_let_fail((stage_fault){.who = 'b', .call = FAULTY_ASK, .before = HF_DENIED});
    stage_act(break_x, "force");
    stage_run(0);
    run_act(renew, 0);
    stage_expect("1000 b look at x\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b ask: not sent, HF_DENIED\n"
                 "1000 b x: abandon(broken by b@:1: out of hand)\n"
                 "1000 b look at x\n"
                 "1000 broken: yes\n"
                 "1000 b beat, seen 0\n"
                 "1000 b look at x\n"
                 "1000 b look at x for sure\n"
                 "1000 renewed: HF_LOST: the lease of x has ended: its ticket was taken out\n");
    stage_end();
    make_one("memory:renew-dropped", &plain);
    drop_the_record();
    run_act(renew, 0);
    run_act(renew, 0);
    stage_expect("1000 b beat, seen 0\n"
                 "1000 b look at x\n"
                 "1000 b look at x for sure\n"
                 "1000 b end, leaving tickets\n"
                 "1000 renewed: HF_LOST: the lease of x is over: somebody took its ticket out, or "
                 "the record is gone\n"
                 "1000 b beat, seen 0\n"
                 "1000 b hears HF_LOST\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b look at x\n"
                 "1000 renewed: HF_LOST: the lease of x has run out, or was released\n");
    stage_end();
    make_one("memory:renew-marked", &plain);
    mark_the_session();
    run_act(renew, 0);
    drop_the_session();
    run_act(renew, 0);
    stage_expect("1000 b beat, seen 0\n"
                 "1000 b hears HF_LOST\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b look at x\n"
                 "1000 renewed: HF_LOST: the lease of x has run out, or was released\n"
                 "1000 b beat, seen 0\n"
                 "1000 b hears HF_LOST\n"
                 "1000 b look at 1 sessions\n"
                 "1000 renewed: HF_LOST: the lease of x has run out, or was released\n");
    stage_end();
}

static void test_a_renewal_that_stalls(void **state)
{
    (void)state;
    stage_fault slow = {.call = FAULTY_BEAT, .who = 'b', .slow_ms = 9974};
    make_one("memory:renew-slowly", &plain);
    stage_let_fail(slow);
    run_act(renew, 20000);
    stage_expect("1000 b beat, seen 0\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "10974 b look at x\n"
                 "10974 renewed: token 1782579200000000, 1 ms left of 10000, waited 0; before: \n"
                 "13332 a beat, seen 4\n"
                 "16665 a beat, seen 5\n"
                 "19998 a beat, seen 6\n");
    stage_end();
    make_one("memory:renew-slower", &plain);
    slow.slow_ms = 9975;
    stage_let_fail(slow);
    run_act(renew, 20000);
    stage_expect(
        "1000 b beat, seen 0\n"
        "3333 a beat, seen 1\n"
        "6666 a beat, seen 2\n"
        "9999 a beat, seen 3\n"
        "10975 b look at x\n"
        "10975 b beat, seen 0\n"
        "10975 b look at x\n"
        "10975 renewed: token 1782579200000000, 9975 ms left of 10000, waited 0; before: \n"
        "13332 a beat, seen 4\n"
        "16665 a beat, seen 5\n"
        "19998 a beat, seen 6\n");
    stage_end();
    make_one("memory:renew-slowly-twice", &plain);
    slow.times = 2;
    stage_let_fail(slow);
    run_act(renew, 25000);
    stage_expect("1000 b beat, seen 0\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "10975 b look at x\n"
                 "10975 b beat, seen 0\n"
                 "13332 a beat, seen 4\n"
                 "16665 a beat, seen 5\n"
                 "19998 a beat, seen 6\n"
                 "20950 b look at x\n"
                 "20950 renewed: HF_UNKNOWN: x: the store took longer than the lease's ttl\n"
                 "23331 a beat, seen 7\n");
    stage_end();
    make_one("memory:renew-refused", &plain);
    stage_let_fail((stage_fault){.call = FAULTY_BEAT, .who = 'b', .before = HF_DENIED});
    stage_let_fail((stage_fault){.call = FAULTY_LOOK, .who = 'b', .before = HF_UNREACHABLE});
    run_act(renew, 0);
    run_act(renew, 100);
    stage_expect(
        "1000 b beat, seen 0: not sent, HF_DENIED\n"
        "1000 renewed: HF_DENIED: injected\n"
        "1000 b beat, seen 0\n"
        "1000 b look at x: not sent, HF_UNREACHABLE\n"
        "1010 b beat, seen 0\n"
        "1010 b look at x\n"
        "1010 renewed: token 1782579200000000, 9975 ms left of 10000, waited 0; before: \n");
    stage_end();
}

/* ---- Releasing ---- */

static void test_a_release_without_an_answer(void **state)
{
    (void)state;
    stage_fault lost = {.who = 'b', .call = FAULTY_STEP, .is = stage_is_leave, .after = HF_UNKNOWN};
    make_one("memory:release-lost", &plain);
    stage_let_fail(lost);
    run_act(release, 1000);
    stage_expect("1000 b look at 1 sessions\n"
                 "1000 b x: leave\n"
                 "1000 b hears HF_UNKNOWN\n"
                 "1010 b x: leave\n"
                 "1010 b look at x for sure\n"
                 "1010 b look at 1 sessions\n"
                 "1010 b end\n"
                 "1010 released: yes\n");
    stage_end();
    make_one("memory:release-swallowed", &keyed);
    lost.after = HF_OK, lost.is_swallowed = true;
    stage_let_fail(lost);
    run_act(release, 1000);
    stage_expect("1000 b look at 1 sessions\n"
                 "1000 b ask\n"
                 "1000 b x: leave\n"
                 "1000 b look at x for sure\n"
                 "1000 b look at 1 sessions\n"
                 "1009 b x: leave\n"
                 "1009 b end\n"
                 "1009 released: yes\n");
    stage_end();
    make_one("memory:release-unsaid", &keyed);
    stage_let_fail((stage_fault){.who = 'b', .call = FAULTY_ASK, .before = HF_UNREACHABLE});
    run_act(release, 1000);
    stage_expect("1000 b look at 1 sessions\n"
                 "1000 b ask: not sent, HF_UNREACHABLE\n"
                 "1009 b ask\n"
                 "1009 b x: leave\n"
                 "1009 b end\n"
                 "1009 released: yes\n");
    stage_end();
    make_one("memory:release-refused", &keyed);
    stage_let_fail((stage_fault){.who = 'b', .call = FAULTY_SESSIONS_LOOK, .before = HF_DENIED});
    stage_let_fail((stage_fault){.who = 'b', .call = FAULTY_ASK, .before = HF_DENIED});
    run_act(release, 0);
    run_act(release, 0);
    run_act(release, 0);
    stage_expect("1000 b look at 1 sessions: not sent, HF_DENIED\n"
                 "1000 released: injected\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b ask: not sent, HF_DENIED\n"
                 "1000 released: injected\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b ask\n"
                 "1000 b x: leave\n"
                 "1000 b end\n"
                 "1000 released: yes\n");
    stage_end();
}

static void break_first(void)
{
    break_x(NULL);
}

static void test_a_release_of_what_is_over(void **state)
{
    (void)state;
    stage_fault between = {
        .who = 'b', .call = FAULTY_STEP, .is = stage_is_leave, .meanwhile = break_by_force};
    make_one("memory:release-forced", &plain);
    stage_let_fail(between);
    run_act(release, 1000);
    stage_expect("1000 b look at 1 sessions\n"
                 "1000 b x: leave\n"
                 "1000 b look at x\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b ask\n"
                 "1000 b x: abandon(broken by b@:1: out of hand)\n"
                 "1000 b look at x\n"
                 "1000 broken: yes\n"
                 "1000 b look at x for sure\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b end\n"
                 "1000 released: the lease of x was lost before it was released\n");
    stage_end();
    make_one("memory:release-forced-key", &keyed);
    stage_let_fail(between);
    run_act(release, 1000);
    stage_expect("1000 b look at 1 sessions\n"
                 "1000 b ask\n"
                 "1000 b x: leave\n"
                 "1000 b look at x\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b ask\n"
                 "1000 b x: abandon(broken by b@:1: out of hand)\n"
                 "1000 b look at x\n"
                 "1000 broken: yes\n"
                 "1000 b look at x for sure\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b end\n"
                 "1000 released: yes\n");
    stage_end();
    make_one("memory:release-broken", &brief);
    break_first();
    stage_run(1000);
    run_act(release, 1000);
    stage_expect("1000 b look at x\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b ask\n"
                 "1100 b look at x\n"
                 "1200 b look at x\n"
                 "1300 b look at x\n"
                 "1400 b look at x\n"
                 "1500 b look at x\n"
                 "1600 b look at x\n"
                 "1700 b look at x\n"
                 "1800 b look at x\n"
                 "1900 b look at x\n"
                 "2000 b look at x\n"
                 "2100 b look at x\n"
                 "2200 b look at x\n"
                 "2300 b look at x\n"
                 "2400 b look at x\n"
                 "2500 b look at x\n"
                 "2600 b look at x\n"
                 "2600 b look at 1 sessions\n"
                 "2600 b x: abandon(broken by b@:1: out of hand)\n"
                 "2600 b look at x\n"
                 "2600 broken: yes\n"
                 "3333 a beat, seen 1\n"
                 "3600 b look at 1 sessions\n"
                 "3600 b x: abandon(broken by b@:1: out of hand)\n"
                 "3600 b look at x for sure\n"
                 "3600 b look at 1 sessions\n"
                 "3600 b end\n"
                 "3600 released: the lease of x was lost before it was released\n");
    stage_end();
    make_one("memory:release-marked", &keyed);
    mark_the_session();
    run_act(release, 1000);
    run_act(release, 1000);
    stage_expect("1000 b look at 1 sessions\n"
                 "1000 b look at x for sure\n"
                 "1000 b x: abandon\n"
                 "1000 released: the lease of x had run out before it was released\n"
                 "2000 b look at 1 sessions\n"
                 "2000 b look at x for sure\n"
                 "2000 released: the lease of x had run out before it was released\n");
    stage_end();
    make_one("memory:release-marked-refused", &keyed);
    mark_the_session();
    stage_let_fail((stage_fault){.who = 'b', .call = FAULTY_LOOK, .before = HF_DENIED});
    stage_let_fail(
        (stage_fault){.who = 'b', .call = FAULTY_STEP, .is = stage_is_leave, .before = HF_DENIED});
    run_act(release, 0);
    run_act(release, 0);
    stage_expect("1000 b look at 1 sessions\n"
                 "1000 b look at x for sure: not sent, HF_DENIED\n"
                 "1000 released: injected\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b look at x for sure\n"
                 "1000 b x: abandon: not sent, HF_DENIED\n"
                 "1000 released: injected\n");
    stage_end();
    make_one("memory:release-dropped", &keyed);
    drop_the_session();
    run_act(release, 1000);
    stage_expect("1000 b look at 1 sessions\n"
                 "1000 b look at x for sure\n"
                 "1000 b x: abandon\n"
                 "1000 released: the lease of x had run out before it was released\n");
    stage_end();
    make_one("memory:release-gone-meanwhile", &keyed);
    stage_let_fail((stage_fault){.who = 'b', .call = FAULTY_ASK, .meanwhile = mark_the_session});
    run_act(release, 1000);
    stage_expect("1000 b look at 1 sessions\n"
                 "1000 b ask\n"
                 "1000 b hears HF_NOT_FOUND\n"
                 "1000 b look at x for sure\n"
                 "1000 b x: abandon\n"
                 "1000 released: the lease of x had run out before it was released\n");
    stage_end();
    make_one("memory:release-no-record", &plain);
    drop_the_record();
    run_act(release, 1000);
    stage_expect("1000 b look at 1 sessions\n"
                 "1000 b x: leave\n"
                 "1000 b look at x for sure\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b end\n"
                 "1000 released: the lease of x was lost before it was released\n");
    stage_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_is_made_renewed_and_released),
        cmocka_unit_test(test_one_with_a_key_is_looked_for_first),
        cmocka_unit_test(test_a_key_is_remembered_for_a_day),
        cmocka_unit_test(test_what_no_lease_can_be),
        cmocka_unit_test(test_who_a_lease_is_for),
        cmocka_unit_test(test_a_key_is_for_the_same_only),
        cmocka_unit_test(test_an_answer_to_a_pass_that_is_lost),
        cmocka_unit_test(test_a_pass_that_did_nothing),
        cmocka_unit_test(test_a_pass_that_is_refused),
        cmocka_unit_test(test_a_lock_that_is_taken_out_before_its_pass),
        cmocka_unit_test(test_a_record_that_is_dropped_before_the_pass),
        cmocka_unit_test(test_a_session_that_begins_slowly),
        cmocka_unit_test(test_a_pass_that_is_answered_slowly),
        cmocka_unit_test(test_a_pass_whose_answer_outlasts_the_lock),
        cmocka_unit_test(test_what_is_looked_back_at),
        cmocka_unit_test(test_it_waits_as_long_as_it_may),
        cmocka_unit_test(test_two_that_wait_with_one_key),
        cmocka_unit_test(test_who_waits_before_the_lease_waits_a_ttl),
        cmocka_unit_test(test_a_try_beside_the_pass_of_its_key),
        cmocka_unit_test(test_a_try_beside_what_becomes_no_lease),
        cmocka_unit_test(test_a_renewal_of_what_is_over),
        cmocka_unit_test(test_a_renewal_that_stalls),
        cmocka_unit_test(test_a_release_without_an_answer),
        cmocka_unit_test(test_a_release_of_what_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
