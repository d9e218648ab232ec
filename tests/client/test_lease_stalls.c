/* SPDX-License-Identifier: Apache-2.0 */
/* test_lease_stalls.c: leases of a store that stalls: answers that come after the ttl, locks that
 * are lost before their pass, calls that wait beside a pass; run by ctest. */
#include "client/lease_bed.h"

static const hf_lease_options keyed = {.key = "order 4711", .ttl_ms = 60000};

static hf_id session_of_key(hf_client *client)
{
    lease_ids ids = {.name = "x"};
    char id[HF_LEASE_ID_SIZE];
    lease_id_make(client, keyed.key, &ids, id);
    return ids.session;
}

static bool is_look_at(faulty_call call, const void *arg, hf_id session)
{
    return call == FAULTY_SESSIONS_LOOK && id_equal(*(const hf_id *)arg, session);
}

/* ---- Answers after the ttl ---- */

#define BRIEF_MS 1000

/* After `skips`, `looks` of the next looks are answered late, by the clock of the client that
 * looks. With a taker the lease dies meanwhile, and the taker has the lock. */
typedef struct stall {
    int skips, looks;
    hf_client *taker;
    hf_lock *taken;
    hf_id session;
} stall;

static hf_code answer_late(faulty *f, faulty_call call, const void *arg)
{
    stall *s = f->ctx;
    (void)arg;
    if (call != FAULTY_LOOK || s->skips-- > 0 || !s->looks)
        return HF_OK;
    s->looks--;
    faulty_pass(f, BRIEF_MS + 500);
    if (s->taker && !s->taken) {
        mark_dead(f->inner, s->session);
        s->taken = take(s->taker, "x");
    }
    return HF_OK;
}

/* A renewal, or a repeat of the call that made the lease. */
static hf_code ask_for_more(hf_client *client, bool repeats, const char *id, hf_lease *out)
{
    static const hf_lease_options brief = {.key = "k", .ttl_ms = BRIEF_MS};
    hf_error err;
    return repeats ? acquire(client, &brief, out) : hf_lease_renew(client, id, out, &err);
}

static hf_code ask_in_a_stall(const char *uri, bool repeats, int looks, bool is_taken,
                              hf_lease *out)
{
    hf_client *client, *other = open_client(uri, 10000);
    const hf_options impatient = {.patience_ms = 1};
    stall s = {.taker = is_taken ? other : NULL};
    faulty *f = faulty_open_still(uri, &impatient, &client);
    hf_lease lease;
    assert_int_equal(ask_for_more(other, true, NULL, &lease), HF_OK);
    s.session = ids_of(lease.id).session;
    s.skips = repeats; /* before it renews it compares what is asked for */
    s.looks = looks;
    f->ctx = &s;
    f->after = answer_late;
    hf_code code = ask_for_more(client, repeats, lease.id, out);
    assert_int_equal(s.looks, 0);
    if (s.taken)
        hf_lock_close(s.taken);
    hf_close(client);
    hf_close(other);
    return code;
}

static void test_a_lease_that_another_took_in_a_stall_is_lost(void **state)
{
    (void)state;
    hf_lease lease;
    assert_int_equal(ask_in_a_stall("memory:taken", false, 1, true, &lease), HF_LOST);
    assert_int_equal(ask_in_a_stall("memory:taken-key", true, 1, true, &lease), HF_LOST);
}

static void test_a_second_late_answer_leaves_it_unknown(void **state)
{
    (void)state;
    hf_lease lease;
    assert_int_equal(ask_in_a_stall("memory:twice", false, 2, false, &lease), HF_UNKNOWN);
    assert_int_equal(ask_in_a_stall("memory:twice-key", true, 2, false, &lease), HF_UNKNOWN);
}

static void test_a_lease_that_outlasts_a_stall_has_time_left(void **state)
{
    (void)state;
    for (int repeats = 0; repeats < 2; repeats++) {
        const char *uri = repeats ? "memory:outlasts-key" : "memory:outlasts";
        hf_lease lease;
        assert_int_equal(ask_in_a_stall(uri, repeats, 1, false, &lease), HF_OK);
        assert_true(lease.left_ms > 0);
    }
}

/* ---- Locks that are lost before their pass ---- */

typedef struct lost_before {
    hf_client *client, *other;
    atomic_bool is_armed;
    atomic_int passes;
    pthread_t closer;
} loss;

/* Once, when the lock is had and the lease's session is about to begin. */
static bool is_between(faulty *f, faulty_call call, const void *arg)
{
    loss *l = f->ctx;
    l->passes += is_pass(call, arg);
    return is_lease_begin(call, arg) && atomic_exchange(&l->is_armed, false);
}

static void give_it_to_another(faulty *f)
{
    loss *l = f->ctx;
    mark_dead(f->inner, look_at(f->inner, "x").holder.session);
    hf_lock_close(take(l->other, "x"));
    await_free(f->inner);
}

static hf_code lose_the_ticket(faulty *f, faulty_call call, const void *arg)
{
    if (is_between(f, call, arg))
        give_it_to_another(f);
    return HF_OK;
}

static bool believes(hf_client *client)
{
    pthread_mutex_lock(&client->mutex);
    bool is_held = client->hold->locks->state == LOCK_HELD;
    session_hurry_locked(client, 0);
    pthread_mutex_unlock(&client->mutex);
    return is_held;
}

/* It knows so when the begin is tried again. */
static hf_code lose_the_lock(faulty *f, faulty_call call, const void *arg)
{
    if (!is_between(f, call, arg))
        return HF_OK;
    give_it_to_another(f);
    while (believes(((loss *)f->ctx)->client))
        pause_ms(1);
    return HF_UNREACHABLE;
}

static void *close_client(void *arg)
{
    hf_close(arg);
    return NULL;
}

static hf_code close_it(faulty *f, faulty_call call, const void *arg)
{
    loss *l = f->ctx;
    if (!is_between(f, call, arg))
        return HF_OK;
    pthread_create(&l->closer, NULL, close_client, l->client);
    await_free(f->inner);
    return HF_OK;
}

static hf_code acquire_in_a_loss(const char *uri, faulty_hook *hook, loss *l)
{
    hf_lease lease;
    *l = (loss){.other = open_client(uri, 10000)};
    faulty *f = faulty_open(uri, NULL, &l->client);
    f->ctx = l;
    f->before = hook;
    l->is_armed = true;
    return acquire(l->client, &keyed, &lease);
}

static void assert_the_key_gets_it(loss *l)
{
    hf_lease lease;
    assert_int_equal(acquire(l->other, &keyed, &lease), HF_OK);
    assert_held_by(l->other->store, &lease);
    hf_close(l->other);
}

static void test_a_ticket_that_is_lost_before_the_pass_is_no_lost_lease(void **state)
{
    (void)state;
    loss l;
    assert_int_equal(acquire_in_a_loss("memory:ticket", lose_the_ticket, &l), HF_UNKNOWN);
    assert_int_equal(l.passes, 1);
    hf_close(l.client);
    assert_the_key_gets_it(&l);
}

static void test_a_lock_that_is_lost_before_the_pass_is_no_lost_lease(void **state)
{
    (void)state;
    loss l;
    assert_int_equal(acquire_in_a_loss("memory:lock", lose_the_lock, &l), HF_UNKNOWN);
    assert_int_equal(l.passes, 0);
    hf_close(l.client);
    assert_the_key_gets_it(&l);
}

static void test_a_lock_that_a_close_gives_up_before_the_pass_is_closed(void **state)
{
    (void)state;
    loss l;
    assert_int_equal(acquire_in_a_loss("memory:closed", close_it, &l), HF_CLOSED);
    pthread_join(l.closer, NULL);
    assert_the_key_gets_it(&l);
}

/* ---- A try beside the first call of its key ---- */

/* The first call stays at its pass until the try looks for the lease the second time after it was
 * refused: its first such look was answered before. */
typedef struct beside {
    caller first;
    hf_id session;
    int looks;
    atomic_bool is_at_pass, may_pass;
} beside;

static hf_code stay_at_the_pass(faulty *f, faulty_call call, const void *arg)
{
    beside *b = f->ctx;
    if (!is_pass(call, arg))
        return HF_OK;
    b->is_at_pass = true;
    await(&b->may_pass);
    return HF_OK;
}

static hf_code let_it_pass(faulty *f, faulty_call call, const void *arg)
{
    beside *b = f->ctx;
    if (!is_look_at(call, arg, b->session) || ++b->looks != 3)
        return HF_OK;
    b->may_pass = true;
    await(&b->first.is_over);
    return HF_OK;
}

/* Both clocks stand still: the moment that the try waits is not over before the pass. */
static void test_a_try_beside_the_pass_of_its_key_gets_the_lease(void **state)
{
    (void)state;
    hf_client *first, *second;
    beside b = {.looks = 0};
    faulty *f = faulty_open_still("memory:beside-pass", NULL, &first);
    faulty *g = faulty_open_still("memory:beside-pass", NULL, &second);
    hf_lease_options try_keyed = keyed;
    hf_lease lease;
    b.session = session_of_key(first);
    f->ctx = g->ctx = &b;
    f->before = stay_at_the_pass;
    g->before = let_it_pass;
    begin_call(&b.first, first, "x", keyed);
    await(&b.is_at_pass);
    try_keyed.lock.wait_ms = HF_TRY;
    hf_code code = acquire(second, &try_keyed, &lease);
    b.may_pass = true;
    assert_int_equal(end_call(&b.first), HF_OK);
    assert_int_equal(code, HF_OK);
    assert_true(lease.was_there);
    assert_string_equal(lease.id, b.first.lease.id);
    hf_close(first);
    hf_close(second);
}

/* ---- A repeat that timed out ---- */

typedef struct gone {
    hf_client *maker;
    hf_lock *lock;
    hf_id session;
    int looks;
} gone;

/* The lease is made and released when the repeat has given up, before it looks the last time. */
static hf_code come_and_go(faulty *f, faulty_call call, const void *arg)
{
    gone *g = f->ctx;
    hf_lease lease;
    if (!is_look_at(call, arg, g->session) || ++g->looks != 2)
        return HF_OK;
    await_queued(f->inner, "x", 0);
    hf_lock_close(g->lock);
    assert_int_equal(acquire(g->maker, &keyed, &lease), HF_OK);
    assert_int_equal(release(g->maker, &lease), HF_OK);
    return HF_OK;
}

static void test_a_repeat_that_timed_out_hears_that_its_lease_has_ended(void **state)
{
    (void)state;
    hf_client *client;
    gone g = {.maker = open_client("memory:timed-out", 10000)};
    faulty *f = faulty_open("memory:timed-out", NULL, &client);
    hf_lease_options brief = keyed;
    hf_lease lease;
    brief.lock.wait_ms = 20;
    g.session = session_of_key(client);
    g.lock = take(g.maker, "x");
    f->ctx = &g;
    f->before = come_and_go;
    assert_int_equal(acquire(client, &brief, &lease), HF_LOST);
    hf_close(client);
    hf_close(g.maker);
}

/* ---- Deadlocks ---- */

static const hf_options quick = {.deadlock_ms = 10};
static const hf_lease_options of_shop = {.ttl_ms = 60000, .owner = "shop"};
static atomic_bool may_pass;
static atomic_int at_pass;

static hf_code hold_the_pass(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (!is_pass(call, arg) || may_pass)
        return HF_OK;
    at_pass++;
    await(&may_pass);
    return HF_OK;
}

static void end_and_release(caller *c)
{
    assert_int_equal(end_call(c), HF_OK);
    assert_int_equal(release(c->client, &c->lease), HF_OK);
}

/* One owner has x and y, at their passes, and waits for y and x: the holder of the leases then
 * need not wait for anything. */
static void test_locks_at_their_pass_are_in_no_deadlock(void **state)
{
    (void)state;
    hf_client *one, *two;
    caller callers[4];
    faulty *f = faulty_open("memory:passing", &quick, &one);
    faulty *g = faulty_open("memory:passing", &quick, &two);
    f->before = g->before = hold_the_pass;
    begin_call(&callers[0], one, "x", of_shop);
    begin_call(&callers[1], two, "y", of_shop);
    while (at_pass < 2)
        pause_ms(1);
    begin_call(&callers[2], one, "y", of_shop);
    await_queued(f->inner, "y", 1);
    begin_call(&callers[3], two, "x", of_shop);
    await_queued(f->inner, "x", 1);
    for (int i = 0; i < 40; i++) { /* a deadlock is told after a few */
        pause_ms(10);
        send_beat(f, one);
        send_beat(g, two);
    }
    may_pass = true;
    for (int i = 0; i < 4; i++)
        end_and_release(&callers[i]);
    hf_close(one);
    hf_close(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lease_that_another_took_in_a_stall_is_lost),
        cmocka_unit_test(test_a_second_late_answer_leaves_it_unknown),
        cmocka_unit_test(test_a_lease_that_outlasts_a_stall_has_time_left),
        cmocka_unit_test(test_a_ticket_that_is_lost_before_the_pass_is_no_lost_lease),
        cmocka_unit_test(test_a_lock_that_is_lost_before_the_pass_is_no_lost_lease),
        cmocka_unit_test(test_a_lock_that_a_close_gives_up_before_the_pass_is_closed),
        cmocka_unit_test(test_a_try_beside_the_pass_of_its_key_gets_the_lease),
        cmocka_unit_test(test_a_repeat_that_timed_out_hears_that_its_lease_has_ended),
        cmocka_unit_test(test_locks_at_their_pass_are_in_no_deadlock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
