/* SPDX-License-Identifier: Apache-2.0 */
/* test_releasing.c: a release is sent until it is acknowledged, and closing a client is bounded,
 * whatever the store does (R8, L4). */
#include "client/client_bed.h"

#include "support/inside.h"

#include <sys/wait.h>
#include <unistd.h>

static atomic_int refusals;

static hf_code refuse_leaves(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (!is_leave(call, arg) || refusals <= 0)
        return HF_OK;
    atomic_fetch_sub(&refusals, 1);
    return HF_READONLY;
}

static void test_a_leave_that_the_store_refused_is_tried_again(void **state)
{
    (void)state;
    hf_client *holder, *next = open_client("memory:refused", 1000);
    hf_options options = {.ttl_ms = 1000};
    hf_error err;
    faulty_open("memory:refused", &options, &holder)->before = refuse_leaves;
    hf_lock *lock = take(holder, "x");
    refusals = 2;
    assert_int_equal(hf_lock_release(lock, &err), HF_READONLY);
    hf_lock_close(lock);
    assert_int_equal(try_take(next, "x", SOON_MS), HF_OK);
    lock = take(holder, "x");
    refusals = 1;
    hf_lock_close(lock); /* in the background, with nobody to be told of the refusal */
    assert_int_equal(try_take(next, "x", SOON_MS), HF_OK);
    assert_int_equal(refusals, 0);
    hf_close(holder);
    hf_close(next);
}

static atomic_bool delays_enters, entered;

/* Until the client is being closed. */
static hf_code delay_enters(faulty *f, faulty_call call, const void *arg)
{
    if (!is_enter(call, arg) || !delays_enters)
        return HF_OK;
    entered = true;
    while (!client_is_closing(f->ctx))
        pause_ms(1);
    return HF_OK;
}

static void *take_x(void *client)
{
    hf_lock *lock = NULL;
    hf_error err;
    assert_int_equal(hf_lock_acquire(client, "x", NULL, &lock, &err), HF_CLOSED);
    assert_null(lock);
    return NULL;
}

static void test_a_grant_that_comes_while_closing_is_given_back(void **state)
{
    (void)state;
    hf_client *closing, *next = open_client("memory:closing", 10000);
    pthread_t thread;
    faulty *f = faulty_open("memory:closing", NULL, &closing);
    f->ctx = closing;
    f->after = delay_enters;
    hf_lock_close(take(closing, "w"));
    delays_enters = true;
    pthread_create(&thread, NULL, take_x, closing);
    await(&entered);
    hf_close(closing);
    pthread_join(thread, NULL);
    assert_int_equal(try_take(next, "x", HF_TRY), HF_OK);
    hf_close(next);
}

static hf_code find_another_shape(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (call != FAULTY_LOOK)
        return HF_OK;
    const struct faulty_look *look = arg;
    for (size_t i = 0; i < look->n; i++)
        if (strcmp(look->names[i], "odd") == 0)
            return HF_SHAPE;
    return HF_OK;
}

static void suspect(hf_client *client, const char *name)
{
    pthread_mutex_lock(&client->mutex);
    session_suspect_locked(client, name);
    pthread_mutex_unlock(&client->mutex);
}

/* A look at several ends at the first document of another shape. */
static void test_an_odd_document_hides_no_late_enter(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = 1000};
    faulty *f = faulty_open_still("memory:odd", &options, &client);
    hf_lock *lock = take(client, "x");
    suspect(client, "odd");
    suspect(client, "late");
    enter_as(f->inner, "late", client->session.self.id, 1);
    f->before = find_another_shape;
    faulty_pass(f, 700);
    beat_tick(client, client_now(client));
    faulty_pass(f, 400);
    upkeep_tick(client, client_now(client));
    assert_int_equal(look_at(f->inner, "late").holders, 0);
    hf_lock_close(lock);
    hf_close(client);
}

static atomic_bool is_gone;

/* A network that swallows everything, as far as the store's own time-out. */
static hf_code swallow(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)call;
    (void)arg;
    if (!is_gone)
        return HF_OK;
    pause_ms(500);
    return HF_UNREACHABLE;
}

static void *wait_until_closed(void *client)
{
    assert_int_equal(try_take(client, "b", 0), HF_CLOSED);
    return NULL;
}

static void test_closing_is_bounded_with_the_store_gone(void **state)
{
    (void)state;
    hf_client *closing, *other = open_client("memory:gone", 10000);
    pthread_t thread;
    faulty *f = faulty_open("memory:gone", NULL, &closing);
    f->before = swallow;
    hf_lock *b = take(other, "b"), *x = take(closing, "x");
    pthread_create(&thread, NULL, wait_until_closed, closing);
    while (!look_at(f->inner, "b").queued)
        pause_ms(1);
    is_gone = true;
    int64_t began = idle_ms();
    hf_close(closing);
    assert_true(idle_ms() - began < 6000);
    is_gone = false;
    pthread_join(thread, NULL);
    hf_lock_close(x);
    hf_lock_close(b);
    hf_close(other);
}

#define MANY 1500

static void test_closing_with_many_locks_frees_them_all(void **state)
{
    (void)state;
    static hf_lock *all[MANY];
    char name[16];
    hf_client *closing = open_client("memory:many", 10000);
    hf_client *next = open_client("memory:many", 10000);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "l%d", i);
        all[i] = take(closing, name);
    }
    hf_close(closing);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "l%d", i);
        assert_int_equal(try_take(next, name, SOON_MS), HF_OK);
        hf_lock_close(all[i]);
    }
    hf_close(next);
}

static void test_a_child_that_closes_takes_nothing_from_its_parent(void **state)
{
    (void)state;
    int status;
    hf_error err;
    hf_client *parent = open_client("memory:fork", 10000);
    hf_client *other = open_client("memory:fork", 10000);
    hf_lock *lock = take(parent, "x");
    pid_t child = fork();
    if (!child) {
        bool refused = hf_lock_check(lock, NULL, &err) == HF_FORKED;
        hf_lock_close(lock);
        hf_close(parent);
        _exit(refused ? 0 : 1);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_OK);
    assert_int_equal(try_take(other, "x", HF_TRY), HF_HELD);
    hf_lock_close(lock);
    hf_close(parent);
    hf_close(other);
}

static void *break_until_closed(void *client)
{
    hf_error err;
    hf_break_options options = {.reason = "why not"};
    assert_int_equal(hf_break(client, "x", &options, &err), HF_CANCELLED);
    return NULL;
}

static void test_closing_ends_a_break_that_waits(void **state)
{
    (void)state;
    hf_client *holder = open_client("memory:breaker", 10000);
    hf_client *breaker;
    pthread_t thread;
    faulty *f = faulty_open("memory:breaker", NULL, &breaker);
    hf_lock *lock = take(holder, "x");
    pthread_create(&thread, NULL, break_until_closed, breaker);
    while (!f->calls[FAULTY_ASK])
        pause_ms(1);
    int64_t began = idle_ms();
    hf_close(breaker);
    pthread_join(thread, NULL);
    assert_true(idle_ms() - began < 2000);
    hf_lock_close(lock);
    hf_close(holder);
}

/* A document of another shape, or a file that is damaged: the store refuses every step. */
static hf_code refuse_steps(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_STEP ? HF_SHAPE : HF_OK;
}

static bool is_put_off(hf_client *client)
{
    pthread_mutex_lock(&client->mutex);
    const struct release *release = client->hold->releases.first;
    bool is = release && release->failures && !release->in_flight;
    pthread_mutex_unlock(&client->mutex);
    return is;
}

static void test_closing_does_not_wait_for_a_refused_release(void **state)
{
    (void)state;
    hf_client *client;
    faulty_open("memory:shape", NULL, &client)->before = refuse_steps;
    assert_int_equal(try_take(client, "x", HF_TRY), HF_SHAPE);
    while (!is_put_off(client))
        pause_ms(1);
    int64_t began = idle_ms();
    hf_close(client);
    assert_true(idle_ms() - began < 1000);
}

/* ---- Many of them ---- */

#define PLENTY 300 /* more than two calls take */

static struct {
    char names[PLENTY][16]; /* in the order in which they are released */
    int n;
} sent;

static hf_code note_leave(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (is_leave(call, arg) && sent.n < PLENTY)
        snprintf(sent.names[sent.n++], sizeof sent.names[0], "%s",
                 ((const struct faulty_step *)arg)->name);
    return HF_OK;
}

static void take_many(hf_client *client, hf_lock **locks, int n)
{
    char name[16];
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "many-%d", i);
        locks[i] = take(client, name);
    }
}

static void close_many(faulty *f, hf_lock *const *locks, int n)
{
    for (int i = 0; i < n; i++) {
        hf_lock_close(locks[i]);
        faulty_pass(f, 1);
    }
}

static faulty *open_together(const char *uri, hf_client **client)
{
    faulty *f = faulty_open_still(uri, NULL, client);
    faulty_send_together(f);
    f->before = note_leave;
    sent.n = 0;
    return f;
}

static void test_many_releases_travel_together_and_the_oldest_first(void **state)
{
    (void)state;
    hf_client *client;
    hf_lock *locks[PLENTY];
    char name[16];
    faulty *f = open_together("memory:together", &client);
    take_many(client, locks, 100);
    close_many(f, locks, 100);
    upkeep_tick(client, client_now(client));
    assert_int_equal(sent.n, 100);
    assert_int_equal(f->together, 1);
    for (int i = 0; i < sent.n; i++) {
        snprintf(name, sizeof name, "many-%d", i);
        assert_string_equal(sent.names[i], name);
    }
    hf_close(client);
}

static void recall(hf_client *client, const char *name)
{
    MUTEX_SCOPE(&client->mutex);
    turns_recall_locked(client, name, (hf_stamp){1});
}

static void test_a_release_that_somebody_waits_for_is_sent_first(void **state)
{
    (void)state;
    hf_client *client;
    hf_lock *locks[PLENTY];
    faulty *f = open_together("memory:first", &client);
    take_many(client, locks, 100);
    close_many(f, locks, 100);
    recall(client, "many-70");
    upkeep_tick(client, client_now(client));
    assert_string_equal(sent.names[0], "many-70");
    assert_string_equal(sent.names[1], "many-0");
    hf_close(client);
}

/* Nothing is sent in the background: this client has no threads. */
static void test_a_thread_that_closes_locks_faster_than_they_are_released_is_slowed(void **state)
{
    (void)state;
    hf_client *client;
    hf_lock *locks[PLENTY];
    faulty *f = open_together("memory:slowed", &client);
    hf_lock *first = take(client, "first");
    assert_int_equal(hf_lock_release(first, NULL), HF_OK); /* the store answers */
    hf_lock_close(first);
    take_many(client, locks, PLENTY);
    close_many(f, locks, PLENTY);
    assert_true(sent.n > PLENTY / 2);
    assert_true(client->hold->releases.due.n <= HF_PARCELS_MOST);
    assert_string_equal(sent.names[1], "many-0");
    upkeep_tick(client, client_now(client));
    assert_int_equal(client->hold->releases.due.n, 0);
    hf_close(client);
}

static void test_several_holders_of_one_lock_leave_in_one_step(void **state)
{
    (void)state;
    hf_client *client;
    hf_lock_options options = {.permits = 1, .limit = 10};
    hf_lock *locks[10];
    faulty *f = open_together("memory:holders", &client);
    for (int i = 0; i < 10; i++)
        assert_int_equal(hf_lock_acquire(client, "s", &options, &locks[i], NULL), HF_OK);
    close_many(f, locks, 10);
    upkeep_tick(client, client_now(client));
    assert_int_equal(sent.n, 1);
    assert_int_equal(look_at(f->inner, "s").holders, 0);
    hf_close(client);
}

static gate looking;

static hf_code hold_up_looks(faulty *f, faulty_call call, const void *arg)
{
    (void)f, (void)arg;
    if (call == FAULTY_LOOK)
        gate_pass(&looking);
    return HF_OK;
}

static void test_a_release_does_not_wait_until_held_locks_are_verified(void **state)
{
    (void)state;
    hf_client *client, *next = open_client("memory:verifies", 10000);
    hf_options options = {.ttl_ms = 1000};
    faulty_open("memory:verifies", &options, &client)->before = hold_up_looks;
    hf_lock *held = take(client, "held"), *lock = take(client, "x");
    gate_shut(&looking);
    gate_await(&looking);
    hf_lock_close(lock);
    assert_int_equal(try_take(next, "x", SOON_MS), HF_OK);
    gate_open(&looking);
    hf_lock_close(held);
    hf_close(client);
    hf_close(next);
}

#define LEAVE_MS 900

static hf_code leave_slowly(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (is_leave(call, arg))
        pause_ms(LEAVE_MS);
    return HF_OK;
}

/* All of it takes longer than hf_close() waits for one answer. */
static void test_closing_goes_on_as_long_as_the_store_answers(void **state)
{
    (void)state;
    hf_client *client, *next = open_client("memory:slow", 10000);
    hf_lock *locks[6];
    faulty_open("memory:slow", NULL, &client)->before = leave_slowly;
    take_many(client, locks, 6);
    hf_close(client);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(look_at(next->store, hf_lock_name(locks[i])).holders, 0);
        hf_lock_close(locks[i]);
    }
    hf_close(next);
}

/* ---- A release whose first try has no answer ---- */

typedef enum fate { ARRIVES, IS_BROKEN, IS_ASKED, DIES } fate;

static struct {
    hf_client *next;
    const hf_client *client;
    fate fate;
    bool has_next;
    int tries;
} unanswered;

/* As a watcher does that has seen no beat for a ttl. */
static void mark_and_take_out(hf_store *store, hf_id session)
{
    hf_session_state state;
    hf_step_reply reply;
    hf_error err;
    const hf_death death = {.session = session, .who = "somebody"};
    const hf_step step = {.deaths = &death, .n_deaths = 1};
    assert_int_equal(store->ops->sessions_look(store, &session, 1, -1, &state, &err), HF_OK);
    assert_int_equal(store->ops->session_mark(store, &state, &err), HF_OK);
    assert_int_equal(store->ops->step(store, "x", &step, NULL, &reply, &err), HF_OK);
}

static void ask_and_abandon(hf_store *store, hf_id session, hf_id ticket)
{
    hf_error err;
    const hf_ask ask = {.ticket = ticket, .by = "somebody", .reason = "stuck"};
    assert_int_equal(store->ops->ask(store, session, &ask, &err), HF_OK);
    abandon(store, "x", ticket);
}

static void meet_fate(hf_store *store, const hf_leave *leave)
{
    hf_id session = unanswered.client->session.self.id;
    switch (unanswered.fate) {
    case ARRIVES:
        leave_by(store, "x", leave);
        return;
    case IS_BROKEN:
        abandon(store, "x", leave->ticket);
        return;
    case IS_ASKED:
        ask_and_abandon(store, session, leave->ticket);
        return;
    case DIES:
        mark_and_take_out(store, session);
        return;
    }
}

/* It arrives, or others are there first; then perhaps somebody else has the lock. */
static hf_code lose_first_answer(faulty *f, faulty_call call, const void *arg)
{
    if (!is_leave(call, arg) || unanswered.tries++)
        return HF_OK;
    const struct faulty_step *taken = arg;
    meet_fate(f->inner, taken->step->leaves);
    if (unanswered.has_next) {
        hf_lock *lock = take(unanswered.next, "x");
        assert_int_equal(hf_lock_release(lock, NULL), HF_OK);
        hf_lock_close(lock);
    }
    return HF_UNKNOWN;
}

static hf_code release_once(int64_t period_ms, fate what, bool has_next)
{
    hf_client *client;
    hf_lock_options options = {.wait_ms = HF_TRY, .period_ms = period_ms};
    hf_lock *lock;
    unanswered.next = open_client("memory:unanswered", 10000);
    faulty *f = faulty_open("memory:unanswered", NULL, &client);
    assert_int_equal(hf_lock_acquire(client, "x", &options, &lock, NULL), HF_OK);
    hf_lock_set_exit_status(lock, 0);
    unanswered.client = client;
    unanswered.fate = what;
    unanswered.has_next = has_next;
    unanswered.tries = 0;
    f->before = lose_first_answer;
    hf_code code = hf_lock_release(lock, NULL);
    assert_int_equal(unanswered.tries, 2);
    hf_lock_close(lock);
    hf_close(client);
    hf_close(unanswered.next);
    return code;
}

static void test_a_release_that_came_after_a_break_is_a_loss(void **state)
{
    (void)state;
    assert_int_equal(release_once(0, IS_BROKEN, false), HF_LOST);
    assert_int_equal(release_once(0, ARRIVES, false), HF_OK);
    assert_int_equal(release_once(0, ARRIVES, true), HF_OK);
}

/* The record does not say any more who took its ticket out (R8). */
static void test_a_release_that_may_have_come_too_late_is_a_loss(void **state)
{
    (void)state;
    assert_int_equal(release_once(0, DIES, false), HF_LOST);
    assert_int_equal(release_once(0, DIES, true), HF_LOST);
    assert_int_equal(release_once(0, IS_ASKED, true), HF_LOST);
}

/* The mark of the break is gone by then; that of the work never was there (P17). */
static void test_work_of_a_period_that_is_not_noted_was_not_released(void **state)
{
    (void)state;
    assert_int_equal(release_once(3600000, IS_BROKEN, false), HF_LOST);
    assert_int_equal(release_once(3600000, IS_BROKEN, true), HF_LOST);
    assert_int_equal(release_once(3600000, ARRIVES, true), HF_OK);
    assert_int_equal(release_once(3600000, DIES, true), HF_LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_leave_that_the_store_refused_is_tried_again),
        cmocka_unit_test(test_an_odd_document_hides_no_late_enter),
        cmocka_unit_test(test_a_grant_that_comes_while_closing_is_given_back),
        cmocka_unit_test(test_closing_is_bounded_with_the_store_gone),
        cmocka_unit_test(test_closing_with_many_locks_frees_them_all),
        cmocka_unit_test(test_a_child_that_closes_takes_nothing_from_its_parent),
        cmocka_unit_test(test_closing_ends_a_break_that_waits),
        cmocka_unit_test(test_many_releases_travel_together_and_the_oldest_first),
        cmocka_unit_test(test_a_release_that_somebody_waits_for_is_sent_first),
        cmocka_unit_test(test_a_thread_that_closes_locks_faster_than_they_are_released_is_slowed),
        cmocka_unit_test(test_several_holders_of_one_lock_leave_in_one_step),
        cmocka_unit_test(test_a_release_does_not_wait_until_held_locks_are_verified),
        cmocka_unit_test(test_closing_goes_on_as_long_as_the_store_answers),
        cmocka_unit_test(test_closing_does_not_wait_for_a_refused_release),
        cmocka_unit_test(test_a_release_that_came_after_a_break_is_a_loss),
        cmocka_unit_test(test_a_release_that_may_have_come_too_late_is_a_loss),
        cmocka_unit_test(test_work_of_a_period_that_is_not_noted_was_not_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
