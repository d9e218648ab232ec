/* SPDX-License-Identifier: Apache-2.0 */
/* test_losing.c: a holder that loses a lock has the time that its warning promised, whatever else
 * its client does meanwhile (R4, R7, R9). */
#include "client/client_bed.h"

#include "support/inside.h"

static atomic_bool is_cut, drops_enter;
static atomic_llong lost_at, left_ms;

static void lost(void *ctx, hf_lock *lock, const hf_error *why, int64_t left)
{
    (void)ctx;
    (void)lock;
    (void)why;
    atomic_store(&left_ms, left);
    atomic_store(&lost_at, now_ms());
}

static hf_lock *take_told(hf_client *client, const char *name)
{
    static const hf_lock_options options = {.on_lost = lost};
    hf_lock *lock;
    hf_error err;
    atomic_store(&lost_at, 0);
    assert_int_equal(hf_lock_acquire(client, name, &options, &lock, &err), HF_OK);
    return lock;
}

/* The next holder came no earlier than the notice had promised. */
static void assert_had_its_time(int64_t next_had_it)
{
    assert_true(lost_at > 0);
    assert_true(left_ms > 0);
    assert_true(next_had_it >= lost_at + left_ms - 2); /* each of the three is rounded down */
}

static hf_code cut_beats(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_BEAT && is_cut ? HF_UNREACHABLE : HF_OK;
}

static void test_a_lost_session_is_left_alone_until_its_notice_is_over(void **state)
{
    (void)state;
    hf_client *loser, *next = open_client("memory:notice", 2000);
    hf_options options = {.ttl_ms = 2000, .stop_margin_ms = 1000};
    faulty_open("memory:notice", &options, &loser)->before = cut_beats;
    hf_lock *lock = take_told(loser, "x");
    is_cut = true;
    hf_lock *had = take(next, "x");
    assert_had_its_time(now_ms());
    is_cut = false;
    hf_lock_close(had);
    hf_lock_close(lock);
    hf_close(loser);
    hf_close(next);
}

/* The enter lands, and its answer is lost. */
static hf_code drop_one_enter(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    return is_enter(call, arg) && atomic_exchange(&drops_enter, false) ? HF_UNKNOWN : HF_OK;
}

static void *break_x(void *client)
{
    hf_error err;
    hf_break_options options = {.reason = "why not"};
    hf_break(client, "x", &options, &err);
    return NULL;
}

static void await_loss(void)
{
    while (!lost_at)
        pause_ms(1);
}

struct wait_for_x {
    hf_client *client;
    hf_lock *lock;
    int64_t had_at;
};

static void *wait_for_x(void *arg)
{
    struct wait_for_x *wait = arg;
    wait->lock = take(wait->client, "x");
    wait->had_at = now_ms();
    return NULL;
}

/* A client with a suspect would like a new session; but the work under a broken lock still runs. */
static void test_a_session_stays_while_a_broken_lock_is_being_stopped(void **state)
{
    (void)state;
    hf_client *loser, *breaker = open_client("memory:broken", 3000);
    hf_options options = {.ttl_ms = 3000};
    faulty_open("memory:broken", &options, &loser)->after = drop_one_enter;
    struct wait_for_x wait = {.client = open_client("memory:broken", 3000)};
    pthread_t waiting, breaking;
    hf_lock *lock = take_told(loser, "x");
    drops_enter = true;
    hf_lock_close(take(loser, "y"));
    pthread_create(&waiting, NULL, wait_for_x, &wait);
    pthread_create(&breaking, NULL, break_x, breaker);
    await_loss();
    hf_lock_close(take(loser, "z"));
    pthread_join(waiting, NULL);
    pthread_join(breaking, NULL);
    assert_had_its_time(wait.had_at);
    hf_lock_close(wait.lock);
    hf_lock_close(lock);
    hf_close(loser);
    hf_close(breaker);
    hf_close(wait.client);
}

static hf_lock *asked_for;

/* The ticket leaves between the breaker's look and its ask. */
static hf_code leave_before_the_ask(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    hf_error err;
    if (call != FAULTY_ASK || !asked_for)
        return HF_OK;
    hf_lock *lock = asked_for;
    asked_for = NULL;
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    hf_lock_close(lock);
    return HF_OK;
}

static void test_asks_for_tickets_that_have_left_are_answered(void **state)
{
    (void)state;
    hf_error err;
    hf_client *breaker, *holder;
    hf_options options = {.ttl_ms = 2000};
    faulty *f = faulty_open("memory:asks", &options, &holder);
    hf_break_options how = {.reason = "why not"};
    faulty_open("memory:asks", &options, &breaker)->before = leave_before_the_ask;
    hf_lock *keep = take(holder, "keep");
    for (int i = 0; i < HF_ASKS_MAX; i++) {
        asked_for = take(holder, "x");
        assert_int_equal(hf_break(breaker, "x", &how, &err), HF_OK);
    }
    await_beat(f, holder); /* it brings the asks, and the next one answers them */
    await_beat(f, holder);
    assert_int_equal(hf_break(breaker, "keep", &how, &err), HF_OK);
    assert_int_equal(hf_lock_check(keep, NULL, &err), HF_LOST);
    hf_lock_close(keep);
    hf_close(holder);
    hf_close(breaker);
}

/* ThreadSanitizer sees it when the background reads the status while it is being written. */
static void test_an_exit_status_may_be_set_while_a_lost_lock_is_left(void **state)
{
    (void)state;
    hf_error err;
    hf_client *holder = open_client("memory:status", 1000);
    hf_client *breaker = open_client("memory:status", 1000);
    pthread_t breaking;
    hf_lock *lock = take(holder, "x");
    pthread_create(&breaking, NULL, break_x, breaker);
    for (; try_take(breaker, "x", HF_TRY); pause_ms(1))
        hf_lock_set_exit_status(lock, 7);
    pthread_join(breaking, NULL);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_LOST);
    hf_lock_close(lock);
    hf_close(breaker);
    hf_close(holder);
}

static hf_id unanswered;
static atomic_bool takes_it_out;
static atomic_int n_begun;

/* Until a second session has begun no beat gets through, and enters land without an answer. */
static hf_code cut_the_first_session(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    n_begun += call == FAULTY_BEGIN;
    if (call == FAULTY_BEAT && n_begun < 2)
        return HF_UNREACHABLE;
    if (!is_enter(call, arg))
        return HF_OK;
    const hf_step *step = ((const struct faulty_step *)arg)->step;
    if (n_begun < 2) {
        unanswered = step->enter->entry.ticket;
        return HF_UNKNOWN;
    }
    for (size_t i = 0; i < step->n_leaves; i++)
        if (memcmp(&step->leaves[i].ticket, &unanswered, sizeof unanswered) == 0)
            takes_it_out = true;
    return HF_OK;
}

/* Where there are no sessions nothing else takes it out, and the try would call it another's. */
static void test_a_ticket_of_a_session_that_was_lost_is_taken_out_by_the_next_enter(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = 1000};
    faulty_open("memory:lost ticket", &options, &client)->after = cut_the_first_session;
    assert_int_equal(try_take(client, "x", HF_TRY), HF_OK);
    assert_true(takes_it_out);
    hf_close(client);
}

/* ---- What a session leaves ---- */

static int ends[2]; /* those that left nothing, those that may have left some tickets */

static hf_code note_end(hf_store *base, hf_id id, bool leaves_any, hf_error *err)
{
    hf_store *inner = ((faulty *)base)->inner;
    ends[leaves_any]++;
    return inner->ops->session_end(inner, id, leaves_any, err);
}

/* Its session is lost, and is ended when nobody believes in it any more. */
static void lose_session(faulty *f, hf_client *client)
{
    static hf_store_ops noting;
    hf_error why = {.code = HF_LOST};
    noting = *f->base.ops;
    noting.session_end = note_end;
    f->base.ops = &noting;
    ends[false] = ends[true] = 0;
    pthread_mutex_lock(&client->mutex);
    belief_lose_session_locked(client, &why, client_now(client));
    pthread_mutex_unlock(&client->mutex);
    faulty_pass(f, 60000);
    upkeep_tick(client, client_now(client));
}

static void test_a_session_that_is_lost_says_whether_it_leaves_tickets(void **state)
{
    (void)state;
    for (int leaves = 0; leaves < 2; leaves++) {
        hf_client *client;
        hf_error err;
        faulty *f = faulty_open_still("memory:leaves", NULL, &client);
        hf_lock *lock = take(client, "x");
        if (!leaves)
            assert_int_equal(hf_lock_release(lock, &err), HF_OK);
        lose_session(f, client);
        assert_int_equal(ends[leaves], 1);
        assert_int_equal(ends[!leaves], 0);
        hf_lock_close(lock);
        hf_close(client);
    }
}

/* ---- A session that is in two processes ---- */

#define BEAT_MS 3400 /* a third of the ttl, and a little */
#define RETRY_MS 600

static void beat_after(int64_t ms, faulty *f, hf_client *client)
{
    faulty_pass(f, ms);
    beat_tick(client, client_now(client));
}

/* By the copy of a machine, or by a request of the client's that arrives late. */
static void beat_elsewhere(faulty *f, hf_client *client)
{
    hf_error err;
    hf_session_state state;
    assert_int_equal(
        f->inner->ops->session_beat(f->inner, client->session.self.id, &(hf_beat){0}, &state, &err),
        HF_OK);
}

static hf_presence presence_of(faulty *f, hf_id session)
{
    hf_error err;
    hf_session_state state;
    assert_int_equal(f->inner->ops->sessions_look(f->inner, &session, 1, -1, &state, &err), HF_OK);
    return state.presence;
}

/* It neither marks the session nor takes its tickets out: the other may still believe. */
static void test_a_session_that_another_process_beats_is_lost(void **state)
{
    (void)state;
    hf_client *client, *next;
    hf_error err;
    faulty *f = faulty_open_still("memory:copied", NULL, &client);
    faulty *other = faulty_open_still("memory:copied", NULL, &next);
    hf_lock *lock = take(client, "x");
    hf_id session = client->session.self.id;
    beat_after(BEAT_MS, f, client);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_OK);
    beat_elsewhere(f, client);
    beat_after(BEAT_MS, f, client);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_LOST);
    assert_non_null(strstr(err.text, "another process beats this session"));
    hf_lock_close(lock);
    upkeep_tick(client, client_now(client));
    hf_close(client);
    assert_int_equal(presence_of(other, session), HF_LIVE);
    assert_int_equal(try_take(next, "x", HF_TRY), HF_HELD);
    hf_close(next);
}

static atomic_bool drops_beats, drops_answers;

static hf_code drop_beats(faulty *f, faulty_call call, const void *arg)
{
    (void)f, (void)arg;
    return call == FAULTY_BEAT && drops_beats ? HF_UNREACHABLE : HF_OK;
}

static hf_code drop_answers(faulty *f, faulty_call call, const void *arg)
{
    (void)f, (void)arg;
    return call == FAULTY_BEAT && drops_answers ? HF_UNKNOWN : HF_OK;
}

/* The other may hold locks in it. */
static void test_a_session_without_locks_that_another_process_beats(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open_still("memory:copied, idle", NULL, &client);
    hf_lock_close(take(client, "x"));
    faulty_pass(f, 1000); /* a release waits for others that are sent with it */
    upkeep_tick(client, client_now(client));
    assert_null(client->hold->releases.first);
    hf_id session = client->session.self.id;
    beat_after(BEAT_MS, f, client);
    beat_elsewhere(f, client);
    beat_after(BEAT_MS, f, client);
    assert_int_equal(client->session.state, SESSION_NONE);
    upkeep_tick(client, client_now(client));
    assert_int_equal(presence_of(f, session), HF_LIVE);
    hf_close(client);
}

/* Its network is cut, as that of a copy is, until its lease has run out. */
static void test_a_lease_that_ran_out_while_another_process_beats(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    faulty *f = faulty_open_still("memory:copied and cut off", NULL, &client);
    hf_lock *lock = take(client, "x");
    hf_id session = client->session.self.id;
    beat_after(BEAT_MS, f, client);
    f->before = drop_beats;
    drops_beats = true;
    for (int i = 0; i < 8; i++)
        beat_elsewhere(f, client);
    for (int i = 0; i < 3; i++)
        beat_after(BEAT_MS, f, client);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_LOST);
    hf_lock_close(lock);
    upkeep_tick(client, client_now(client));
    assert_int_equal(presence_of(f, session), HF_LIVE);
    drops_beats = false;
    hf_close(client);
}

/* Of two that got no answer, one has arrived and the other arrives late. */
static void test_beats_without_an_answer_are_no_others(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    faulty *f = faulty_open_still("memory:late beats", NULL, &client);
    f->before = drop_beats;
    f->after = drop_answers;
    hf_lock *lock = take(client, "x");
    beat_after(BEAT_MS, f, client);
    drops_answers = true;
    beat_after(BEAT_MS, f, client);
    drops_answers = false;
    drops_beats = true;
    beat_after(RETRY_MS, f, client);
    drops_beats = false;
    beat_after(RETRY_MS, f, client);
    beat_elsewhere(f, client);
    beat_after(BEAT_MS, f, client);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_OK);
    hf_lock_close(lock);
    hf_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lost_session_is_left_alone_until_its_notice_is_over),
        cmocka_unit_test(test_a_session_stays_while_a_broken_lock_is_being_stopped),
        cmocka_unit_test(test_asks_for_tickets_that_have_left_are_answered),
        cmocka_unit_test(test_an_exit_status_may_be_set_while_a_lost_lock_is_left),
        cmocka_unit_test(test_a_ticket_of_a_session_that_was_lost_is_taken_out_by_the_next_enter),
        cmocka_unit_test(test_a_session_that_is_lost_says_whether_it_leaves_tickets),
        cmocka_unit_test(test_a_session_that_another_process_beats_is_lost),
        cmocka_unit_test(test_a_session_without_locks_that_another_process_beats),
        cmocka_unit_test(test_a_lease_that_ran_out_while_another_process_beats),
        cmocka_unit_test(test_beats_without_an_answer_are_no_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
