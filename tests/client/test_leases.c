/* SPDX-License-Identifier: Apache-2.0 */
/* test_leases.c: leases between two calls of the client: the same key at two clients, answers that
 * are lost or late, a break or a close while a lease is made; run by ctest. */
#include "client/client_bed.h"

#include "core/id.h"
#include "store/memory/memory_internal.h"
#include "support/inside.h"

static const hf_lease_options keyed = {.key = "order 4711", .ttl_ms = 5000};

static bool is_pass(faulty_call call, const void *arg)
{
    return call == FAULTY_STEP && ((const struct faulty_step *)arg)->step->pass != NULL;
}

static hf_code acquire(hf_client *client, const hf_lease_options *options, hf_lease *out)
{
    hf_error err = {.code = HF_OK};
    hf_code code = hf_lease_acquire(client, "x", options, out, &err);
    if (code)
        printf("%s: %s\n", hf_code_name(code), err.text);
    return code;
}

static hf_code renew(hf_client *client, const hf_lease *lease)
{
    hf_error err;
    return hf_lease_renew(client, lease->id, NULL, &err);
}

static lease_ids ids_of(const char *id)
{
    lease_ids ids;
    hf_error err;
    assert_int_equal(lease_id_read(id, &ids, &err), HF_OK);
    return ids;
}

/* Nobody holds or waits soon: what was given back in the background is out, too. */
static void assert_free_soon(hf_store *store)
{
    struct seen seen = look_at(store, "x");
    for (int i = 0; i < 2000 && seen.holders + seen.queued; i++, seen = look_at(store, "x"))
        pause_ms(5);
    assert_int_equal(seen.holders + seen.queued, 0);
}

static void assert_held_alone(hf_store *store, const hf_lease *lease)
{
    struct seen seen = look_at(store, "x");
    for (int i = 0; i < 2000 && seen.holders + seen.queued > 1; i++, seen = look_at(store, "x"))
        pause_ms(5);
    lease_ids ids = ids_of(lease->id);
    assert_int_equal(seen.holders, 1);
    assert_int_equal(seen.queued, 0);
    assert_true(id_equal(seen.holder.ticket, ids.ticket));
    assert_int_equal(seen.holder.token, lease->token);
}

/* ---- Another call at the moment before the pass ---- */

typedef struct between {
    atomic_bool is_armed;
    void (*act)(struct between *b);
    hf_client *other;
    hf_lease_options options;
    hf_lease lease;
    hf_code code;
} between;

static hf_code act_before_the_pass(faulty *f, faulty_call call, const void *arg)
{
    between *b = f->ctx;
    if (is_pass(call, arg) && atomic_exchange(&b->is_armed, false))
        b->act(b);
    return HF_OK;
}

static void repeat(between *b)
{
    b->code = acquire(b->other, &b->options, &b->lease);
}

static faulty *open_pair(const char *uri, between *b, hf_client **client)
{
    faulty *f = faulty_open(uri, NULL, client);
    f->before = act_before_the_pass;
    f->ctx = b;
    b->other = open_client(uri, 10000);
    atomic_store(&b->is_armed, true);
    return f;
}

static void check_a_repeat_before_the_pass(const char *uri, hf_lease_options options)
{
    hf_client *client;
    between b = {.act = repeat, .options = options};
    faulty *f = open_pair(uri, &b, &client);
    hf_lease lease;
    hf_error err;
    assert_int_equal(acquire(client, &options, &lease), HF_OK);
    assert_int_equal(b.code, HF_OK);
    assert_string_equal(lease.id, b.lease.id);
    assert_int_equal(lease.token, b.lease.token);
    assert_held_alone(f->inner, &lease);
    assert_int_equal(renew(client, &lease), HF_OK);
    assert_int_equal(hf_lease_release(b.other, lease.id, &err), HF_OK);
    assert_free_soon(f->inner);
    hf_close(b.other);
    hf_close(client);
}

/* Both have the lock when the first pass is sent; one lease comes of it. */
static void test_of_two_that_hold_one_becomes_the_lease(void **state)
{
    (void)state;
    hf_lease_options shared = keyed, permits = keyed;
    shared.lock.mode = HF_SHARED;
    permits.lock.permits = 1;
    permits.lock.limit = 3;
    check_a_repeat_before_the_pass("memory:pass-shared", shared);
    check_a_repeat_before_the_pass("memory:pass-permits", permits);
}

static void *break_x(void *arg)
{
    between *b = arg;
    hf_error err;
    const hf_break_options why = {.reason = "out of hand"};
    b->code = hf_break(b->other, "x", &why, &err);
    return NULL;
}

static bool is_asked(hf_store *store, hf_id session)
{
    hf_session_state state;
    hf_error err;
    return !store->ops->sessions_look(store, &session, 1, -1, &state, &err) && state.n_asked;
}

static pthread_t breaker;

static void begin_to_break(between *b)
{
    struct seen seen = look_at(b->other->store, "x");
    pthread_create(&breaker, NULL, break_x, b);
    while (!is_asked(b->other->store, seen.holder.session))
        pause_ms(1);
}

/* The ask was for the ticket before; the lease that takes its place is asked in turn. */
static void test_a_break_follows_to_the_lease(void **state)
{
    (void)state;
    hf_client *client;
    hf_lease_options brief = {.ttl_ms = 1000};
    between b = {.act = begin_to_break};
    faulty *f = open_pair("memory:break-pass", &b, &client);
    hf_lease lease;
    hf_code code = acquire(client, &brief, &lease);
    pthread_join(breaker, NULL);
    assert_int_equal(b.code, HF_OK);
    assert_free_soon(f->inner);
    if (!code)
        assert_int_equal(renew(client, &lease), HF_LOST);
    hf_close(b.other);
    hf_close(client);
}

/* ---- A break, and a repeat ---- */

/* Another program says meanwhile that there are three permits. */
static void test_a_repeat_finds_its_lease_though_the_limit_was_set_anew(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:key-limit", 10000);
    hf_lease_options two = {.key = "k", .lock = {.permits = 1, .limit = 2}};
    hf_lease lease, other, repeated;
    assert_int_equal(acquire(client, &two, &lease), HF_OK);
    hf_lease_options three = {.lock = {.permits = 1, .limit = 3, .sets_limit = true}};
    assert_int_equal(acquire(client, &three, &other), HF_OK);
    assert_int_equal(acquire(client, &two, &repeated), HF_OK);
    assert_string_equal(repeated.id, lease.id);
    two.lock = (hf_lock_options){.permits = 0};
    assert_int_equal(acquire(client, &two, &repeated), HF_KEY_REUSED);
    hf_close(client);
}

static void test_a_repeat_does_not_renew_what_is_asked_for(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:asked", 10000);
    between b = {.other = open_client("memory:asked", 10000)};
    hf_lease_options options = keyed;
    hf_lease lease;
    options.ttl_ms = 1000;
    assert_int_equal(acquire(client, &options, &lease), HF_OK);
    begin_to_break(&b);
    assert_int_equal(acquire(client, &options, &lease), HF_LOST);
    assert_int_equal(renew(client, &lease), HF_LOST);
    pthread_join(breaker, NULL);
    assert_int_equal(b.code, HF_OK);
    assert_int_equal(acquire(client, &options, &lease), HF_LOST);
    hf_close(b.other);
    hf_close(client);
}

/* ---- Answers that are lost ---- */

static atomic_bool loses;

static hf_code lose_passes(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    return loses && (is_pass(call, arg) || (call == FAULTY_LOOK)) ? HF_UNKNOWN : HF_OK;
}

static void await_releases_sent(hf_client *client)
{
    for (bool is_done = false; !is_done; pause_ms(1)) {
        pthread_mutex_lock(&client->mutex);
        is_done = !client->hold->releases.first;
        pthread_mutex_unlock(&client->mutex);
    }
}

/* It was made, and another call has been told so: the first one fails, and takes nothing out. */
static void test_a_call_that_fails_takes_no_lease_out(void **state)
{
    (void)state;
    const hf_options hasty = {.patience_ms = 300};
    hf_client *client, *other = open_client("memory:unanswered", 10000);
    faulty *f = faulty_open("memory:unanswered", &hasty, &client);
    hf_lease lease;
    f->after = lose_passes;
    loses = true;
    assert_int_equal(acquire(client, &keyed, &lease), HF_UNKNOWN);
    loses = false;
    assert_int_equal(acquire(other, &keyed, &lease), HF_OK);
    assert_true(lease.was_there);
    await_releases_sent(client);
    assert_held_alone(f->inner, &lease);
    hf_close(client);
    assert_int_equal(renew(other, &lease), HF_OK);
    assert_held_alone(other->store, &lease);
    hf_close(other);
}

static hf_code lose_the_insert(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    bool is_lease = call == FAULTY_BEGIN && ((const hf_session *)arg)->pid == 0;
    return is_lease && atomic_exchange(&loses, false) ? HF_UNKNOWN : HF_OK;
}

static void test_an_insert_without_an_answer_is_found(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open("memory:inserted", NULL, &client);
    hf_lease lease;
    f->after = lose_the_insert;
    loses = true;
    assert_int_equal(acquire(client, &keyed, &lease), HF_OK);
    assert_false(loses);
    assert_held_alone(f->inner, &lease);
    hf_close(client);
}

static hf_code refuse_passes(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    return is_pass(call, arg) ? HF_DENIED : HF_OK;
}

/* `last` speaks of those that held, and nobody did. */
static void test_what_became_no_lease_leaves_no_trace(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open("memory:denied", NULL, &client);
    hf_lease lease;
    hf_error err;
    hf_last last;
    f->before = refuse_passes;
    assert_int_equal(acquire(client, &keyed, &lease), HF_DENIED);
    assert_free_soon(f->inner);
    hf_lock *lock = take(client, "x");
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
    assert_int_equal(last.outcome, HF_OUTCOME_NONE);
    hf_lock_close(lock);
    hf_close(client);
}

/* ---- Answers that are late ---- */

#define LATE_MS 300

static faulty_call late;

static hf_code answer_late(faulty *f, faulty_call call, const void *arg)
{
    bool is_client = call == FAULTY_BEGIN && ((const hf_session *)arg)->pid;
    if (call == late && !is_client)
        faulty_pass(f, LATE_MS);
    return HF_OK;
}

static void test_a_lease_counts_from_before_its_request(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open_still("memory:late", NULL, &client);
    hf_lease lease, renewed;
    hf_error err;
    f->after = answer_late;
    late = FAULTY_BEGIN;
    assert_int_equal(acquire(client, &keyed, &lease), HF_OK);
    assert_true(lease.left_ms <= 5000 - LATE_MS);
    late = FAULTY_BEAT;
    assert_int_equal(hf_lease_renew(client, lease.id, &renewed, &err), HF_OK);
    assert_true(renewed.left_ms <= 5000 - LATE_MS);
    assert_true(renewed.ends_at_ns > lease.ends_at_ns);
    hf_close(client);
}

/* ---- Closing ---- */

typedef struct closer {
    hf_client *client;
    pthread_t thread;
} closing;

static void *close_client(void *arg)
{
    hf_close(arg);
    return NULL;
}

static atomic_bool has_left;

/* The pass goes on when what is held was given up, and its leave has landed. */
static hf_code close_at_the_pass(faulty *f, faulty_call call, const void *arg)
{
    closing *c = f->ctx;
    if (!is_pass(call, arg) || !atomic_exchange(&loses, false))
        return HF_OK;
    pthread_create(&c->thread, NULL, close_client, c->client);
    while (!has_left)
        pause_ms(1);
    return HF_OK;
}

static hf_code note_leave(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (is_leave(call, arg))
        has_left = true;
    return HF_OK;
}

static hf_code note_leave_or_close(faulty *f, faulty_call call, const void *arg)
{
    note_leave(f, call, arg);
    return close_at_the_pass(f, call, arg);
}

static void check_a_close(bool is_before, const char *uri)
{
    hf_client *other = open_client(uri, 10000);
    closing c;
    faulty *f = faulty_open(uri, NULL, &c.client);
    hf_lease lease;
    f->before = is_before ? close_at_the_pass : NULL;
    f->after = is_before ? note_leave : note_leave_or_close;
    has_left = false;
    f->ctx = &c;
    loses = true;
    hf_code code = acquire(c.client, &keyed, &lease);
    pthread_join(c.thread, NULL);
    assert_int_equal(code, is_before ? HF_CLOSED : HF_OK);
    if (code)
        assert_free_soon(other->store);
    else
        assert_held_alone(other->store, &lease);
    hf_close(other);
}

/* Either the pass comes first, or the close's leave: what the record says is what the caller hears.
 */
static void test_a_close_takes_no_lease_out(void **state)
{
    (void)state;
    check_a_close(false, "memory:close-after");
    check_a_close(true, "memory:close-before");
}

/* ---- Waiting ---- */

typedef struct caller {
    hf_client *client;
    hf_lease_options options;
    pthread_t thread;
    hf_lease lease;
    hf_code code;
} caller;

static void *call(void *arg)
{
    caller *c = arg;
    c->code = acquire(c->client, &c->options, &c->lease);
    return NULL;
}

static void begin_call(caller *c, hf_client *client, hf_lease_options options)
{
    *c = (caller){.client = client, .options = options};
    pthread_create(&c->thread, NULL, call, c);
}

static void await_queued(hf_store *store, size_t n)
{
    while (look_at(store, "x").queued != n)
        pause_ms(1);
}

/* Two wait at one client, in line, and one at another. */
static void test_those_who_wait_with_one_key_have_one_lease(void **state)
{
    (void)state;
    hf_client *clients[3];
    caller callers[3];
    for (int i = 0; i < 3; i++)
        clients[i] = open_client("memory:wait-key", 10000);
    hf_lock *lock = take(clients[2], "x");
    for (int i = 0; i < 3; i++)
        begin_call(&callers[i], clients[i / 2], keyed);
    await_queued(clients[2]->store, 2);
    hf_lock_close(lock);
    for (int i = 0; i < 3; i++)
        pthread_join(callers[i].thread, NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(callers[i].code, HF_OK);
        assert_string_equal(callers[i].lease.id, callers[0].lease.id);
        assert_int_equal(callers[i].lease.token, callers[0].lease.token);
    }
    assert_held_alone(clients[2]->store, &callers[0].lease);
    for (int i = 0; i < 3; i++)
        hf_close(clients[i]);
}

/* It was released at once: a wait with its key hears that it has ended, and takes nothing. */
static void test_who_waits_does_not_take_an_ended_lease_anew(void **state)
{
    (void)state;
    hf_client *maker, *waiter = open_client("memory:ended-key", 10000);
    caller waiting;
    hf_lease lease;
    hf_error err;
    faulty *f = faulty_open("memory:ended-key", NULL, &maker);
    hf_lock *lock = take(waiter, "x");
    caller making = {.client = maker};
    begin_call(&making, maker, keyed);
    await_queued(f->inner, 1);
    begin_call(&waiting, waiter, keyed);
    await_queued(f->inner, 2);
    hf_lock_close(lock);
    pthread_join(making.thread, NULL);
    assert_int_equal(hf_lease_release(maker, making.lease.id, &err), HF_OK);
    pthread_join(waiting.thread, NULL);
    assert_true(waiting.code == HF_LOST || waiting.code == HF_OK);
    assert_int_equal(acquire(waiter, &keyed, &lease), HF_LOST);
    assert_int_equal(hf_lease_release(maker, lease.id, &err), HF_OK);
    assert_free_soon(f->inner);
    hf_close(maker);
    hf_close(waiter);
}

/* Its session was there when the wait began, and was marked dead meanwhile. */
static void test_what_was_found_before_the_wait_is_looked_at_again(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:found-before", 10000);
    hf_store *store = client->store;
    lease_ids ids = {.name = "x"};
    char id[HF_LEASE_ID_SIZE];
    hf_error err;
    caller waiting;
    lease_id_make(client, keyed.key, &ids, id);
    hf_session self = {.id = ids.session, .ttl_ms = 5000};
    hf_client *holder = open_client("memory:found-before", 10000);
    hf_lock *lock = take(holder, "x");
    assert_int_equal(store->ops->session_begin(store, &self, &err), HF_OK);
    begin_call(&waiting, client, keyed);
    await_queued(store, 1);
    assert_int_equal(store->ops->session_end(store, ids.session, false, &err), HF_OK);
    hf_lock_close(lock);
    pthread_join(waiting.thread, NULL);
    assert_int_equal(waiting.code, HF_LOST);
    assert_free_soon(store);
    hf_close(client);
    hf_close(holder);
}

/* The ttl of its session, not that of a second call, which gives none. */
static void test_a_lease_lasts_as_long_as_its_session(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:lasts", 10000);
    hf_store *store = client->store;
    const hf_lease_options silent = {.key = keyed.key};
    lease_ids ids = {.name = "x"};
    char id[HF_LEASE_ID_SIZE];
    hf_error err;
    hf_lease lease;
    lease_id_make(client, keyed.key, &ids, id);
    hf_session self = {.id = ids.session, .ttl_ms = 5000};
    assert_int_equal(store->ops->session_begin(store, &self, &err), HF_OK);
    assert_int_equal(acquire(client, &silent, &lease), HF_OK);
    assert_int_equal(lease.ttl_ms, 5000);
    assert_int_equal(look_at(store, "x").holder.ttl_ms, 5000);
    hf_close(client);
}

static int looks_back;

/* Somebody drops the sessions just before the look back, whose beat finds none. */
static hf_code drop_the_session_once(faulty *f, faulty_call call, const void *arg)
{
    if (call != FAULTY_BEAT || looks_back++ > 0)
        return HF_OK;
    struct memory *memory = memory_lock(f->inner);
    struct presence *gone = memory_find_session(memory, *(const hf_id *)arg);
    assert_non_null(gone);
    free(gone->waits);
    *gone = memory->sessions[--memory->n_sessions];
    memory_unlock(memory);
    return HF_OK;
}

static void test_a_session_that_goes_as_its_lease_is_made_begins_anew(void **state)
{
    (void)state;
    hf_client *client;
    hf_lease_options shared = keyed;
    hf_lease lease;
    faulty *f = faulty_open("memory:went", NULL, &client);
    shared.lock.mode = HF_SHARED;
    f->before = drop_the_session_once;
    looks_back = 0;
    assert_int_equal(acquire(client, &shared, &lease), HF_OK);
    assert_true(looks_back > 1);
    assert_held_alone(f->inner, &lease);
    assert_int_equal(renew(client, &lease), HF_OK);
    hf_close(client);
}

/* ---- Absence ---- */

static atomic_int linearizable_looks;

static hf_code count_looks(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    linearizable_looks += call == FAULTY_LOOK && ((const struct faulty_look *)arg)->linearizable;
    return HF_OK;
}

/* As a deposed primary shows it. */
static void test_that_a_ticket_is_gone_is_looked_at_twice(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open("memory:absent", NULL, &client);
    hf_lease lease;
    f->before = count_looks;
    assert_int_equal(acquire(client, &keyed, &lease), HF_OK);
    lease_ids ids = ids_of(lease.id);
    hf_leave leave = {.ticket = ids.ticket};
    hf_step step = {.leaves = &leave, .n_leaves = 1};
    hf_step_reply reply;
    hf_error err;
    assert_int_equal(f->inner->ops->step(f->inner, "x", &step, NULL, &reply, &err), HF_OK);
    linearizable_looks = 0;
    assert_int_equal(renew(client, &lease), HF_LOST);
    assert_int_equal(linearizable_looks, 1);
    hf_close(client);
}

/* ---- Asks ---- */

static size_t asks_of(hf_store *store, hf_id session)
{
    hf_session_state state;
    hf_error err;
    assert_int_equal(store->ops->sessions_look(store, &session, 1, -1, &state, &err), HF_OK);
    return state.n_asked;
}

/* The lock was lost, and has been left, when it is asked for: nothing is open any more. */
static void test_an_ask_for_a_lost_lock_that_was_left_is_answered(void **state)
{
    (void)state;
    hf_client *client;
    const hf_options options = {.ttl_ms = 1000};
    const hf_lock_options fed = {.feed_ms = 50};
    faulty *f = faulty_open("memory:left-ask", &options, &client);
    hf_lock *lock;
    hf_error err;
    assert_int_equal(hf_lock_acquire(client, "x", &fed, &lock, &err), HF_OK);
    hf_ask ask = {.ticket = look_at(f->inner, "x").holder.ticket, .by = "me", .reason = "r"};
    hf_id session = look_at(f->inner, "x").holder.session;
    assert_free_soon(f->inner);
    assert_int_equal(f->inner->ops->ask(f->inner, session, &ask, &err), HF_OK);
    while (asks_of(f->inner, session))
        pause_ms(5);
    hf_lock_close(lock);
    hf_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_two_that_hold_one_becomes_the_lease),
        cmocka_unit_test(test_a_break_follows_to_the_lease),
        cmocka_unit_test(test_a_repeat_finds_its_lease_though_the_limit_was_set_anew),
        cmocka_unit_test(test_a_repeat_does_not_renew_what_is_asked_for),
        cmocka_unit_test(test_a_call_that_fails_takes_no_lease_out),
        cmocka_unit_test(test_an_insert_without_an_answer_is_found),
        cmocka_unit_test(test_what_became_no_lease_leaves_no_trace),
        cmocka_unit_test(test_a_lease_counts_from_before_its_request),
        cmocka_unit_test(test_a_close_takes_no_lease_out),
        cmocka_unit_test(test_those_who_wait_with_one_key_have_one_lease),
        cmocka_unit_test(test_who_waits_does_not_take_an_ended_lease_anew),
        cmocka_unit_test(test_what_was_found_before_the_wait_is_looked_at_again),
        cmocka_unit_test(test_a_lease_lasts_as_long_as_its_session),
        cmocka_unit_test(test_a_session_that_goes_as_its_lease_is_made_begins_anew),
        cmocka_unit_test(test_that_a_ticket_is_gone_is_looked_at_twice),
        cmocka_unit_test(test_an_ask_for_a_lost_lock_that_was_left_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
