/* SPDX-License-Identifier: Apache-2.0 */
/* test_lease_ends.c: what is told of a lease when it begins in another's place, is broken or is
 * released more than once; run by ctest. */
#include "client/lease_bed.h"

#include "store/memory/memory_internal.h"

static const char *const keys[] = {NULL, "order 4711"};

static void take_and_leave(hf_client *client)
{
    hf_lock_close(take(client, "x"));
    await_free(client->store);
}

/* ---- The ticket of a call that gave up ---- */

/* So many calls of this client stand in line behind the one that waits for all. */
static void await_in_line(hf_client *client, size_t n)
{
    size_t found;
    do {
        pause_ms(1);
        found = 0;
        pthread_mutex_lock(&client->mutex);
        for (const struct lock_request *at = client->hold->requests; at; at = at->next)
            found += at->place.in_line != NULL;
        pthread_mutex_unlock(&client->mutex);
    } while (found != n);
}

struct shown {
    char why[HF_TEXT_MAX + 1], actor[HF_ACTOR_MAX + 1];
};

static bool copy_holder(void *ctx, const hf_lock_info *info)
{
    struct shown *shown = ctx;
    assert_int_equal(info->n_holders, 1);
    snprintf(shown->why, sizeof shown->why, "%s", info->holders[0].why);
    snprintf(shown->actor, sizeof shown->actor, "%s", info->holders[0].actor);
    return true;
}

static void assert_shown(hf_client *client, const char *why, const char *actor)
{
    struct shown shown;
    hf_error err;
    assert_int_equal(hf_show(client, "x", copy_holder, &shown, &err), HF_OK);
    assert_string_equal(shown.why, why);
    assert_string_equal(shown.actor, actor);
}

/* The first call waits, the second stands behind it; the first is cancelled and leaves its ticket
 * to the second. */
static void inherit_the_ticket(hf_client *holder, hf_client *client,
                               const hf_lease_options *options, hf_lease *lease)
{
    hf_cancel *cancel;
    hf_error err;
    caller first, second;
    hf_lock *lock = take(holder, "x");
    assert_int_equal(hf_cancel_new(&cancel, &err), HF_OK);
    hf_lease_options one = {.owner = "shop", .lock = {.why = "one", .cancel = cancel}};
    begin_call(&first, client, "x", one);
    await_queued(holder->store, "x", 1);
    hf_id ticket = look_at(holder->store, "x").head.ticket;
    begin_call(&second, client, "x", *options);
    await_in_line(client, 1);
    hf_cancel_fire(cancel);
    assert_int_equal(end_call(&first), HF_CANCELLED);
    assert_true(id_equal(look_at(holder->store, "x").head.ticket, ticket));
    hf_lock_close(lock);
    assert_int_equal(end_call(&second), HF_OK);
    *lease = second.lease;
    hf_cancel_free(cancel);
}

static void test_a_lease_by_anothers_ticket_shows_its_own_why(void **state)
{
    (void)state;
    hf_client *holder = open_client("memory:inherit", 10000);
    hf_client *client = open_client("memory:inherit", 10000);
    const hf_lease_options two = {.owner = "bank", .lock.why = "two"};
    hf_lease lease;
    inherit_the_ticket(holder, client, &two, &lease);
    assert_held_by(holder->store, &lease);
    assert_shown(holder, "two", "bank");
    hf_close(client);
    hf_close(holder);
}

static void test_a_repeat_finds_the_lease_by_anothers_ticket(void **state)
{
    (void)state;
    hf_client *holder = open_client("memory:inherit-key", 10000);
    hf_client *client = open_client("memory:inherit-key", 10000);
    hf_lease_options two = {.key = "k", .owner = "bank", .lock.why = "two"};
    hf_lease lease, repeated;
    inherit_the_ticket(holder, client, &two, &lease);
    assert_shown(holder, "two", "bank");
    assert_int_equal(acquire(holder, &two, &repeated), HF_OK);
    assert_true(repeated.was_there);
    assert_string_equal(repeated.id, lease.id);
    two.lock.why = "one";
    assert_int_equal(acquire(holder, &two, &repeated), HF_KEY_REUSED);
    hf_close(client);
    hf_close(holder);
}

/* ---- The lock that lingers ---- */

static hf_last last_of(hf_lock *lock)
{
    hf_last last;
    hf_error err;
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
    return last;
}

static bool lingers(hf_client *client)
{
    pthread_mutex_lock(&client->mutex);
    bool is_kept = client->hold->locks && client->hold->locks->turn.lingers;
    pthread_mutex_unlock(&client->mutex);
    return is_kept;
}

/* It does so once the record is old enough. Each turn before was left with another exit status,
 * which the record knows. */
static int leave_lingering(hf_client *client)
{
    const hf_lock_options options = {.linger_ms = 3600000};
    hf_lock *lock;
    hf_error err;
    int exit_status = 0;
    while (!lingers(client)) {
        pause_ms(10);
        assert_int_equal(hf_lock_acquire(client, "x", &options, &lock, &err), HF_OK);
        hf_lock_set_exit_status(lock, ++exit_status);
        hf_lock_close(lock);
    }
    return exit_status;
}

/* A repeat is told the same, at any client; and one that comes after the lease has died (P13). */
static void test_a_lease_that_follows_a_lingering_lock_tells_its_exit_status(void **state)
{
    (void)state;
    static const hf_lease_options keyed = {.key = "k"};
    hf_client *client = open_client("memory:lingers", 10000);
    hf_client *other = open_client("memory:lingers", 10000);
    hf_lease lease, repeated;
    int exit_status = leave_lingering(client);
    assert_int_equal(acquire(client, &keyed, &lease), HF_OK);
    assert_int_equal(lease.previous.outcome, HF_OUTCOME_RELEASED);
    assert_true(lease.previous.has_exit_status);
    assert_int_equal(lease.previous.exit_status, exit_status);
    assert_int_equal(acquire(other, &keyed, &repeated), HF_OK);
    assert_true(repeated.previous.has_exit_status);
    assert_int_equal(repeated.previous.exit_status, exit_status);
    assert_int_equal(repeated.previous.token, lease.previous.token);
    assert_int_equal(repeated.previous.at_ms, lease.previous.at_ms);
    mark_dead(other->store, ids_of(lease.id).session);
    hf_lock *lock = take(other, "x");
    hf_last last = last_of(lock);
    assert_int_equal(last.outcome, HF_OUTCOME_ABANDONED);
    assert_string_not_equal(last.done.who ? last.done.who : "", "");
    assert_int_equal(last.done.exit_status, exit_status);
    hf_lock_close(lock);
    hf_close(other);
    hf_close(client);
}

/* ---- Breaks ---- */

typedef struct breaker {
    hf_client *client;
    hf_break_options options;
    pthread_t thread;
    hf_code code;
} breaker;

static void *break_x(void *arg)
{
    breaker *b = arg;
    hf_error err;
    b->code = hf_break(b->client, "x", &b->options, &err);
    return NULL;
}

static void await_asked(hf_store *store, hf_id session)
{
    hf_session_state state = {.n_asked = 0};
    hf_error err;
    while (!state.n_asked) {
        pause_ms(1);
        assert_int_equal(store->ops->sessions_look(store, &session, 1, -1, &state, &err), HF_OK);
    }
}

static void check_a_break_of_no_name(const char *uri, const char *key)
{
    hf_client *client = open_client(uri, 10000);
    breaker b = {.client = open_client(uri, 10000), .options = {.reason = "stuck", .by = ""}};
    const hf_lease_options options = {.key = key, .ttl_ms = 60000};
    char who[HF_TEXT_MAX + 1], told[2 * HF_TEXT_MAX];
    hf_lease lease, renewed;
    hf_error err;
    assert_int_equal(acquire(client, &options, &lease), HF_OK);
    pthread_create(&b.thread, NULL, break_x, &b);
    await_asked(client->store, ids_of(lease.id).session);
    assert_int_equal(hf_lease_renew(client, lease.id, &renewed, &err), HF_LOST);
    client_who(b.client, who);
    snprintf(told, sizeof told, "was broken by %.100s", who);
    assert_non_null(strstr(err.text, told));
    assert_int_equal(release(client, &lease), HF_LOST);
    pthread_join(b.thread, NULL);
    assert_int_equal(b.code, HF_OK);
    hf_close(b.client);
    hf_close(client);
}

static void test_a_break_of_no_name_is_the_breakers(void **state)
{
    (void)state;
    check_a_break_of_no_name("memory:nameless", NULL);
    check_a_break_of_no_name("memory:nameless-key", "k");
}

/* ---- Releases that are repeated ---- */

static atomic_bool is_lost, is_cut_off;

static hf_code lose_the_answer_to_a_leave(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (!is_leave(call, arg) || !atomic_exchange(&is_lost, false))
        return HF_OK;
    is_cut_off = true;
    return HF_UNKNOWN;
}

static hf_code reach_nothing(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)call;
    (void)arg;
    return is_cut_off ? HF_UNREACHABLE : HF_OK;
}

static void check_a_release_that_gave_up(const char *uri, const char *key)
{
    const hf_options hasty = {.patience_ms = 50};
    const hf_lease_options options = {.key = key, .ttl_ms = 60000};
    hf_client *client, *other = open_client(uri, 10000);
    faulty *f = faulty_open(uri, &hasty, &client);
    hf_lease lease;
    f->after = lose_the_answer_to_a_leave;
    f->before = reach_nothing;
    assert_int_equal(acquire(other, &options, &lease), HF_OK);
    is_lost = true;
    assert_int_not_equal(release(client, &lease), HF_OK);
    is_cut_off = false;
    take_and_leave(other);
    assert_int_equal(release(other, &lease), HF_OK);
    hf_close(client);
    hf_close(other);
}

static void test_a_release_that_gave_up_is_done_when_it_is_repeated(void **state)
{
    (void)state;
    check_a_release_that_gave_up("memory:gave-up", NULL);
    check_a_release_that_gave_up("memory:gave-up-key", "k");
}

static hf_code fail_ends(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_END ? HF_UNREACHABLE : HF_OK;
}

static void check_a_release_without_an_end(const char *uri, const char *key)
{
    const hf_lease_options options = {.key = key, .ttl_ms = 60000};
    hf_client *client, *other = open_client(uri, 10000);
    faulty *f = faulty_open(uri, NULL, &client);
    hf_lease lease;
    f->before = fail_ends;
    assert_int_equal(acquire(other, &options, &lease), HF_OK);
    assert_int_equal(release(client, &lease), HF_OK);
    take_and_leave(other);
    assert_int_equal(release(other, &lease), HF_OK);
    hf_close(client);
    hf_close(other);
}

static void test_a_release_whose_session_goes_on_is_done_when_it_is_repeated(void **state)
{
    (void)state;
    check_a_release_without_an_end("memory:endless", NULL);
    check_a_release_without_an_end("memory:endless-key", "k");
}

/* ---- A release beside a repeat ---- */

/* The owner makes the lease when the repeat is at its pass, and has said there that it is released
 * when the pass is made; its leave is sent when the repeat is over. */
typedef struct beside {
    hf_client *owner;
    hf_lease_options options;
    hf_lease lease;
    pthread_t thread;
    hf_code made, released;
    atomic_bool is_armed, is_said, is_over;
} beside;

static void *release_it(void *arg)
{
    beside *b = arg;
    b->released = release(b->owner, &b->lease);
    return NULL;
}

static hf_code stop_when_it_is_said(faulty *f, faulty_call call, const void *arg)
{
    beside *b = f->ctx;
    (void)arg;
    if (call != FAULTY_ASK)
        return HF_OK;
    b->is_said = true;
    await(&b->is_over);
    return HF_OK;
}

static hf_code make_and_release_before_the_pass(faulty *f, faulty_call call, const void *arg)
{
    beside *b = f->ctx;
    if (!is_pass(call, arg) || !atomic_exchange(&b->is_armed, false))
        return HF_OK;
    b->made = acquire(b->owner, &b->options, &b->lease);
    pthread_create(&b->thread, NULL, release_it, b);
    await(&b->is_said);
    return HF_OK;
}

static void repeat_beside(beside *b, hf_client *client)
{
    hf_lease lease;
    b->is_armed = true;
    assert_int_equal(acquire(client, &b->options, &lease), HF_LOST);
    assert_int_equal(look_at(client->store, "x").holders, 0);
    b->is_over = true;
    pthread_join(b->thread, NULL);
    assert_int_equal(b->made, HF_OK);
}

static void test_a_repeat_that_takes_out_what_is_released_leaves_its_mark(void **state)
{
    (void)state;
    hf_client *client;
    beside b = {.options = {.key = "k", .ttl_ms = 60000, .owner = "shop", .lock.mode = HF_SHARED}};
    faulty *f = faulty_open("memory:beside", NULL, &client);
    faulty *owners = faulty_open("memory:beside", NULL, &b.owner);
    hf_last last;
    hf_error err;
    f->before = make_and_release_before_the_pass;
    owners->after = stop_when_it_is_said;
    f->ctx = owners->ctx = &b;
    repeat_beside(&b, client);
    assert_int_equal(b.released, HF_OK);
    assert_int_equal(release(client, &b.lease), HF_OK);
    hf_lock *lock = take(client, "x");
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
    assert_int_equal(last.outcome, HF_OUTCOME_RELEASED);
    assert_memory_equal(last.who, "shop@", 5);
    hf_lock_close(lock);
    hf_close(client);
    hf_close(b.owner);
}

/* ---- Releases of what was lost ---- */

static void check_a_release_after_a_break(const char *uri, const char *key)
{
    hf_client *client = open_client(uri, 10000);
    const hf_break_options by_force = {.reason = "stuck", .force = true};
    const hf_lease_options options = {.key = key, .ttl_ms = 1000};
    hf_lease lease;
    hf_error err;
    assert_int_equal(acquire(client, &options, &lease), HF_OK);
    assert_int_equal(hf_break(client, "x", &by_force, &err), HF_OK);
    assert_int_equal(look_at(client->store, "x").holders, 0);
    assert_int_equal(release(client, &lease), HF_LOST);
    hf_close(client);
}

static void test_a_release_of_what_was_broken_is_lost(void **state)
{
    (void)state;
    check_a_release_after_a_break("memory:broken", NULL);
    check_a_release_after_a_break("memory:broken-key", "k");
}

/* The only one that there is. */
static void drop_the_record(hf_store *store)
{
    struct memory *memory = memory_lock(store);
    assert_int_equal(memory->n_records, 1);
    memory_free_record(memory->records[0]);
    memory->n_records = 0;
    memory_unlock(memory);
}

static void test_a_release_of_what_was_dropped_is_lost(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:dropped", 10000);
    hf_lease lease;
    for (size_t i = 0; i < 2; i++) {
        const hf_lease_options options = {.key = keys[i], .ttl_ms = 60000};
        assert_int_equal(acquire(client, &options, &lease), HF_OK);
        drop_the_record(client->store);
        assert_int_equal(release(client, &lease), HF_LOST);
    }
    hf_close(client);
}

/* While the leave was under way the lease died, and another has the lock. */
typedef struct late {
    hf_client *other;
    hf_id session;
    hf_lock *taken;
} late;

static hf_code lose_it_before_the_leave(faulty *f, faulty_call call, const void *arg)
{
    late *l = f->ctx;
    if (!is_leave(call, arg) || l->taken)
        return HF_OK;
    mark_dead(f->inner, l->session);
    l->taken = take(l->other, "x");
    return HF_OK;
}

static void check_a_release_in_a_stall(const char *uri, const char *key)
{
    const hf_lease_options options = {.key = key, .ttl_ms = 1000};
    hf_client *client;
    late l = {.other = open_client(uri, 10000)};
    faulty *f = faulty_open(uri, NULL, &client);
    hf_lease lease;
    f->ctx = &l;
    f->before = lose_it_before_the_leave;
    assert_int_equal(acquire(l.other, &options, &lease), HF_OK);
    l.session = ids_of(lease.id).session;
    assert_int_equal(release(client, &lease), HF_LOST);
    hf_lock_close(l.taken);
    hf_close(client);
    hf_close(l.other);
}

static void test_a_release_that_stalled_until_its_lease_was_lost_is_lost(void **state)
{
    (void)state;
    check_a_release_in_a_stall("memory:stalled", NULL);
    check_a_release_in_a_stall("memory:stalled-key", "k");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lease_by_anothers_ticket_shows_its_own_why),
        cmocka_unit_test(test_a_repeat_finds_the_lease_by_anothers_ticket),
        cmocka_unit_test(test_a_lease_that_follows_a_lingering_lock_tells_its_exit_status),
        cmocka_unit_test(test_a_break_of_no_name_is_the_breakers),
        cmocka_unit_test(test_a_release_that_gave_up_is_done_when_it_is_repeated),
        cmocka_unit_test(test_a_release_whose_session_goes_on_is_done_when_it_is_repeated),
        cmocka_unit_test(test_a_repeat_that_takes_out_what_is_released_leaves_its_mark),
        cmocka_unit_test(test_a_release_of_what_was_broken_is_lost),
        cmocka_unit_test(test_a_release_of_what_was_dropped_is_lost),
        cmocka_unit_test(test_a_release_that_stalled_until_its_lease_was_lost_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
