/* SPDX-License-Identifier: Apache-2.0 */
/* test_lease_waits.c: waits for leases that have no thread of their own: what they keep of their
 * options, what ends them, and that each ends once. Run by ctest. */
#include "client/lease_bed.h"

static hf_client *client, *other;
static faulty *store;

typedef struct outcome {
    atomic_int n;
    hf_code code;
    hf_lease lease;
} outcome;

static void keep(void *ctx, const hf_lease *lease, const hf_error *err)
{
    outcome *o = ctx;
    o->code = lease ? HF_OK : err->code;
    if (lease)
        o->lease = *lease;
    o->n++;
}

static void open_both(const char *uri)
{
    store = faulty_open(uri, NULL, &client);
    other = open_client(uri, 10000);
}

static void close_both(void)
{
    hf_close(client);
    hf_close(other);
}

static hf_lease_wait *begin(outcome *o, const hf_lease_options *options)
{
    hf_lease_wait *wait = NULL;
    hf_error err;
    *o = (outcome){.n = 0};
    assert_int_equal(hf_lease_begin(client, "x", options, keep, o, &wait, &err), HF_OK);
    assert_non_null(wait);
    return wait;
}

static void await_outcome(outcome *o)
{
    for (int64_t until = now_ms() + 60000; !o->n && now_ms() < until;)
        pause_ms(1);
    assert_int_equal(o->n, 1);
}

static bool copy_holder(void *ctx, const hf_lock_info *info)
{
    hf_entry_info *to = ctx;
    static char who[HF_TEXT_MAX + 1], actor[HF_ACTOR_MAX + 1], why[HF_TEXT_MAX + 1];
    snprintf(who, sizeof who, "%s", info->holders[0].who);
    snprintf(actor, sizeof actor, "%s", info->holders[0].actor);
    snprintf(why, sizeof why, "%s", info->holders[0].why);
    *to = (hf_entry_info){.who = who, .actor = actor, .why = why};
    return false;
}

/* The caller may free its own when the call has returned. */
static void test_what_was_asked_for_is_kept(void **state)
{
    (void)state;
    open_both("memory:kept");
    hf_lock *lock = take(other, "x");
    char owner[] = "shop", key[] = "k", why[] = "audit", actor[] = "till";
    hf_lease_options options = {.owner = owner, .key = key, .lock = {.why = why, .actor = actor}};
    outcome o;
    begin(&o, &options);
    memset(owner, '?', sizeof owner - 1);
    memset(key, '?', sizeof key - 1);
    memset(why, '?', sizeof why - 1);
    memset(actor, '?', sizeof actor - 1);
    await_queued(other->store, "x", 1);
    hf_lock_close(lock);
    await_outcome(&o);
    assert_int_equal(o.code, HF_OK);
    hf_entry_info holder;
    hf_error err;
    assert_int_equal(hf_show(other, "x", copy_holder, &holder, &err), HF_OK);
    assert_memory_equal(holder.who, "shop@", 5);
    assert_string_equal(holder.actor, "till");
    assert_string_equal(holder.why, "audit");
    hf_lease repeated;
    hf_lease_options same = {
        .key = "k", .owner = "shop", .lock = {.why = "audit", .actor = "till"}};
    assert_int_equal(acquire(other, &same, &repeated), HF_OK);
    assert_string_equal(repeated.id, o.lease.id);
    close_both();
}

static bool copy_waiter(void *ctx, const hf_lock_info *info)
{
    snprintf(ctx, HF_TEXT_MAX + 1, "%s|%s", info->queue[0].who, info->queue[0].actor);
    return false;
}

static void assert_waiter(const hf_lease_options *options, const char *expected)
{
    hf_lock *lock = take(other, "x");
    char seen[HF_TEXT_MAX + 1];
    outcome o;
    hf_error err;
    begin(&o, options);
    await_queued(other->store, "x", 1);
    assert_int_equal(hf_show(other, "x", copy_waiter, seen, &err), HF_OK);
    assert_string_equal(seen, expected);
    hf_lock_close(lock);
    await_outcome(&o);
    assert_int_equal(hf_lease_release(client, o.lease.id, &err), HF_OK);
}

/* The session that waits is the service's. */
static void test_a_service_waits_in_its_callers_name(void **state)
{
    (void)state;
    char own[HF_TEXT_MAX + 1], expected[HF_TEXT_MAX + 20];
    open_both("memory:callers");
    client_who(client, own);
    assert_waiter(&(hf_lease_options){.owner = "shop", .host = "10.0.0.7"}, "shop@10.0.0.7|");
    snprintf(expected, sizeof expected, "%s@10.0.0.7|", client->identity.app);
    assert_waiter(&(hf_lease_options){.host = "10.0.0.7"}, expected);
    snprintf(expected, sizeof expected, "%s|shop", own);
    assert_waiter(&(hf_lease_options){.owner = "shop"}, expected);
    snprintf(expected, sizeof expected, "%s|till", own);
    assert_waiter(&(hf_lease_options){.owner = "shop", .host = "h", .lock.actor = "till"},
                  expected);
    close_both();
}

static void test_a_repeat_finds_its_lease_without_waiting(void **state)
{
    (void)state;
    open_both("memory:repeat");
    const hf_lease_options options = {.key = "k"};
    outcome first, second;
    begin(&first, &options);
    await_outcome(&first);
    int enters = store->calls[FAULTY_STEP];
    begin(&second, &options);
    await_outcome(&second);
    assert_int_equal(second.code, HF_OK);
    assert_true(second.lease.was_there);
    assert_string_equal(second.lease.id, first.lease.id);
    assert_int_equal(store->calls[FAULTY_STEP], enters);
    close_both();
}

static hf_code refuse_sessions(faulty *f, faulty_call call, const void *arg)
{
    (void)f, (void)arg;
    return call == FAULTY_SESSIONS_LOOK ? HF_DENIED : HF_OK;
}

static void test_a_look_for_it_that_is_refused_ends_it(void **state)
{
    (void)state;
    open_both("memory:refused");
    store->before = refuse_sessions;
    outcome o;
    begin(&o, &(hf_lease_options){.key = "k"});
    await_outcome(&o);
    assert_int_equal(o.code, HF_DENIED);
    close_both();
}

static atomic_int away; /* how many looks at sessions get no answer */

static hf_code miss_sessions(faulty *f, faulty_call call, const void *arg)
{
    (void)f, (void)arg;
    bool misses = call == FAULTY_SESSIONS_LOOK && atomic_load(&away) > 0;
    if (misses)
        atomic_fetch_sub(&away, 1);
    return misses ? HF_UNREACHABLE : HF_OK;
}

static void open_away(const char *uri, int looks)
{
    open_both(uri);
    atomic_store(&away, looks);
    store->before = miss_sessions;
}

/* An election while it looks for the lease of its key costs it nothing: as one without a key. */
static void test_a_look_for_it_without_an_answer_is_repeated(void **state)
{
    (void)state;
    open_away("memory:election", 5);
    outcome o;
    hf_lease lease;
    begin(&o, &(hf_lease_options){.key = "k", .lock.wait_ms = 60000});
    await_outcome(&o);
    assert_int_equal(o.code, HF_OK);
    assert_int_equal(atomic_load(&away), 0);
    assert_int_equal(hf_lease_release(other, o.lease.id, NULL), HF_OK);
    atomic_store(&away, 5);
    const hf_lease_options own = {.key = "own"};
    assert_int_equal(hf_lease_acquire(client, "x", &own, &lease, NULL), HF_OK);
    close_both();
}

static void test_its_patience_is_over_while_it_looks(void **state)
{
    (void)state;
    const hf_options brief = {.struct_size = sizeof brief, .call_patience_ms = 100};
    store = faulty_open("memory:brief", &brief, &client);
    other = open_client("memory:brief", 10000);
    atomic_store(&away, 1000000);
    store->before = miss_sessions;
    outcome o;
    begin(&o, &(hf_lease_options){.key = "k", .lock.wait_ms = HF_TRY});
    await_outcome(&o);
    assert_int_equal(o.code, HF_UNREACHABLE);
    begin(&o, &(hf_lease_options){.key = "k", .lock.wait_ms = 200});
    await_outcome(&o);
    assert_int_equal(o.code, HF_UNREACHABLE);
    close_both();
}

static void test_what_ends_it_while_it_looks(void **state)
{
    (void)state;
    open_away("memory:ended", 1000000);
    outcome o;
    hf_lease_wait *wait = begin(&o, &(hf_lease_options){.key = "k"});
    hf_lease_cancel(wait);
    await_outcome(&o);
    assert_int_equal(o.code, HF_CANCELLED);
    begin(&o, &(hf_lease_options){.key = "k"});
    int64_t began = now_ms();
    close_both();
    assert_int_equal(o.n, 1);
    assert_true(o.code == HF_UNREACHABLE || o.code == HF_CLOSED);
    assert_true(now_ms() - began < 10000);
}

/* Each with a ticket of its own, though they have no threads of their own. */
static void test_many_wait_each_for_itself(void **state)
{
    (void)state;
    open_both("memory:many");
    hf_lock *lock = take(other, "x");
    outcome o[3];
    hf_lease_wait *waits[3];
    for (int i = 0; i < 3; i++)
        waits[i] = begin(&o[i], NULL);
    await_queued(other->store, "x", 1);
    hf_lease_cancel(waits[1]);
    await_outcome(&o[1]);
    assert_int_equal(o[1].code, HF_CANCELLED);
    hf_lock_close(lock);
    while (!o[0].n && !o[2].n)
        pause_ms(1);
    int first = o[0].n ? 0 : 2;
    assert_int_equal(o[first].code, HF_OK);
    assert_int_equal(o[2 - first].n, 0);
    assert_held_by(other->store, &o[first].lease);
    assert_int_equal(release(other, &o[first].lease), HF_OK);
    await_outcome(&o[2 - first]);
    assert_int_equal(o[2 - first].code, HF_OK);
    assert_held_by(other->store, &o[2 - first].lease);
    close_both();
}

static atomic_bool is_held_back, may_go_on;

static hf_code hold_back_the_look(faulty *f, faulty_call call, const void *arg)
{
    (void)f, (void)arg;
    if (call != FAULTY_SESSIONS_LOOK || is_held_back)
        return HF_OK;
    is_held_back = true;
    await(&may_go_on);
    return HF_OK;
}

static void test_a_cancel_that_comes_before_its_attempt(void **state)
{
    (void)state;
    open_both("memory:early");
    hf_lock *lock = take(other, "x");
    is_held_back = may_go_on = false;
    store->before = hold_back_the_look;
    outcome o;
    hf_lease_wait *wait = begin(&o, &(hf_lease_options){.key = "k"});
    await(&is_held_back);
    hf_lease_cancel(wait);
    may_go_on = true;
    await_outcome(&o);
    assert_int_equal(o.code, HF_CANCELLED);
    assert_int_equal(look_at(other->store, "x").queued, 0);
    hf_lock_close(lock);
    close_both();
}

static atomic_int readings;

static hf_mono count_reading(void *ctx)
{
    readings++;
    return env_linux.mono(ctx);
}

/* Each look at what is due reads the clock. */
static void test_while_one_waits_nothing_goes_round(void **state)
{
    (void)state;
    hf_env env = env_linux;
    hf_options options = {.env = &env, .ttl_ms = 60000};
    hf_error err;
    env.mono = count_reading;
    assert_int_equal(hf_open("memory:idle", &options, &client, &err), HF_OK);
    other = open_client("memory:idle", 10000);
    hf_lock *lock = take(other, "x");
    outcome o;
    begin(&o, NULL);
    await_queued(other->store, "x", 1);
    pause_ms(100);
    readings = 0;
    pause_ms(100);
    assert_true(readings < 1000);
    hf_lock_close(lock);
    await_outcome(&o);
    close_both();
}

static void test_its_time_is_over(void **state)
{
    (void)state;
    open_both("memory:over");
    hf_lock *lock = take(other, "x");
    outcome o;
    int64_t from = now_ms();
    begin(&o, &(hf_lease_options){.lock.wait_ms = 300});
    await_outcome(&o);
    assert_int_equal(o.code, HF_TIMEOUT);
    assert_true(now_ms() - from >= 300);
    hf_lock_close(lock);
    close_both();
}

static void test_what_cannot_begin(void **state)
{
    (void)state;
    open_both("memory:cannot");
    hf_cancel *cancel;
    hf_error err;
    hf_lease_wait *wait = NULL;
    outcome o = {.n = 0};
    assert_int_equal(hf_cancel_new(&cancel, &err), HF_OK);
    const hf_lease_options with_cancel = {.lock.cancel = cancel}, brief = {.ttl_ms = 1};
    assert_int_equal(hf_lease_begin(client, "x", &with_cancel, keep, &o, &wait, &err), HF_INVALID);
    assert_int_equal(hf_lease_begin(client, "x", &brief, keep, &o, &wait, NULL), HF_INVALID);
    assert_int_equal(hf_lease_begin(client, "", NULL, keep, &o, &wait, &err), HF_INVALID);
    assert_null(wait);
    close_both(); /* waits for nothing */
    assert_int_equal(o.n, 0);
    hf_cancel_free(cancel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_asked_for_is_kept),
        cmocka_unit_test(test_a_service_waits_in_its_callers_name),
        cmocka_unit_test(test_a_repeat_finds_its_lease_without_waiting),
        cmocka_unit_test(test_a_look_for_it_that_is_refused_ends_it),
        cmocka_unit_test(test_a_look_for_it_without_an_answer_is_repeated),
        cmocka_unit_test(test_its_patience_is_over_while_it_looks),
        cmocka_unit_test(test_what_ends_it_while_it_looks),
        cmocka_unit_test(test_many_wait_each_for_itself),
        cmocka_unit_test(test_a_cancel_that_comes_before_its_attempt),
        cmocka_unit_test(test_while_one_waits_nothing_goes_round),
        cmocka_unit_test(test_its_time_is_over),
        cmocka_unit_test(test_what_cannot_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
