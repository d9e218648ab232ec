/* SPDX-License-Identifier: Apache-2.0 */
/* test_believing.c: what a holder may believe, and until when, while answers are late, lost or
 * wrong (R4, R7, R9, L2). */
#include "client/client_bed.h"

#define TTL 10000

/* ---- The lease ---- */

#define LATE_MS 300

static hf_code answer_late(faulty *f, faulty_call call, const void *arg)
{
    (void)arg;
    if (call == FAULTY_BEAT || call == FAULTY_BEGIN)
        faulty_pass(f, LATE_MS);
    return HF_OK;
}

static int64_t left_of(hf_lock *lock)
{
    int64_t left = 0;
    hf_error err;
    assert_int_equal(hf_lock_check(lock, &left, &err), HF_OK);
    return left;
}

/* It has no thread that would release the lock in the background. */
static void close_still(hf_client *client, hf_lock *lock)
{
    hf_error err;
    hf_lock_release(lock, &err);
    hf_lock_close(lock);
    upkeep_tick(client, client_now(client));
    hf_close(client);
}

static void test_the_first_lease_counts_from_before_it_was_asked_for(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    faulty_open_still("memory:first", &options, &client)->after = answer_late;
    hf_lock *lock = take(client, "x");
    assert_true(left_of(lock) < TTL - LATE_MS);
    close_still(client, lock);
}

static void test_a_lease_counts_from_before_its_beat_was_sent(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    faulty *f = faulty_open_still("memory:request", &options, &client);
    hf_lock *lock = take(client, "x");
    f->after = answer_late;
    faulty_pass(f, TTL / 2);
    beat_tick(client, client_now(client));
    assert_int_equal(f->calls[FAULTY_BEAT], 1);
    assert_in_range(left_of(lock), TTL / 2, TTL - LATE_MS - 1);
    close_still(client, lock);
}

static gate beats;

static hf_code hang_beats(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    if (call == FAULTY_BEAT)
        gate_pass(&beats);
    return HF_OK;
}

static void test_a_beat_that_hangs_does_not_keep_the_deadline(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = 1000};
    faulty_open("memory:hangs", &options, &client)->before = hang_beats;
    gate_shut(&beats);
    hf_lock *lock = take(client, "x");
    struct pollfd lost = {hf_lock_fd(lock), POLLIN, 0};
    assert_int_equal(poll(&lost, 1, SOON_MS), 1);
    gate_open(&beats);
    hf_lock_close(lock);
    hf_close(client);
}

static hf_lock *warm;
static atomic_bool is_late;

/* The enter is answered when the lease is over. */
static hf_code outlast_the_lease(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    hf_error err;
    if (!is_enter(call, arg) || !is_late)
        return HF_OK;
    while (hf_lock_check(warm, NULL, &err) == HF_OK)
        pause_ms(5);
    is_late = false;
    return HF_OK;
}

static hf_code cut_while_late(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_BEAT && is_late ? HF_UNREACHABLE : HF_OK;
}

static void test_a_grant_that_comes_after_the_lease_is_had_anew(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = 6000};
    hf_error err;
    faulty *f = faulty_open("memory:outlasts", &options, &client);
    f->after = outlast_the_lease;
    f->before = cut_while_late;
    warm = take(client, "w");
    is_late = true;
    hf_lock *lock = take(client, "x");
    assert_int_equal(hf_lock_check(warm, NULL, &err), HF_LOST);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_OK);
    hf_lock_close(lock);
    hf_lock_close(warm);
    hf_close(client);
}

static hf_lock *leaving;
static hf_code believed;

static hf_code ask_while_leaving(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    hf_error err;
    if (is_leave(call, arg) && leaving)
        believed = hf_lock_check(leaving, NULL, &err);
    return HF_OK;
}

static void test_belief_ends_before_the_leave_is_sent(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    faulty_open("memory:leaving", NULL, &client)->before = ask_while_leaving;
    leaving = take(client, "x");
    believed = HF_OK;
    hf_lock_release(leaving, &err);
    assert_int_equal(believed, HF_LOST);
    hf_lock_close(leaving);
    leaving = NULL;
    hf_close(client);
}

/* ---- Notices ---- */

static atomic_bool is_told;

/* Says, once, that the head of the queue was granted. */
static bool say_granted(faulty *f, hf_notice *out)
{
    struct seen x = look_at(f->inner, "x");
    if (!x.queued || atomic_exchange(&is_told, true))
        return false;
    *out = (hf_notice){.kind = HF_NOTICE_GRANT, .ticket = x.head.ticket, .stamp = {1}};
    return true;
}

static atomic_bool has_taken;

static void *note_take(void *client)
{
    hf_lock *lock = take(client, "x");
    has_taken = true;
    return lock;
}

static void test_a_notice_without_a_token_is_no_grant(void **state)
{
    (void)state;
    hf_client *waiter, *holder = open_client("memory:notices", 10000);
    faulty *f = faulty_open("memory:notices", NULL, &waiter);
    pthread_t thread;
    void *got;
    f->notice = say_granted;
    hf_lock *lock = take(holder, "x");
    pthread_create(&thread, NULL, note_take, waiter);
    await(&is_told);
    for (int seen = f->calls[FAULTY_LOOK]; f->calls[FAULTY_LOOK] < seen + 2 && !has_taken;)
        pause_ms(1);
    assert_false(has_taken);
    hf_lock_close(lock);
    pthread_join(thread, &got);
    hf_lock_close(got);
    hf_close(waiter);
    hf_close(holder);
}

static void *take_x(void *client)
{
    return take(client, "x");
}

/* A grant that a notice tells of with its token is as good as one that a look shows: no look. */
static void test_a_notice_with_its_token_is_a_grant(void **state)
{
    (void)state;
    hf_client *waiter, *holder = open_client("memory:tokens", 10000);
    faulty *f = faulty_open("memory:tokens", NULL, &waiter);
    pthread_t thread;
    hf_lock *lock = take(holder, "x");
    hf_lock_set_exit_status(lock, 7);
    pthread_create(&thread, NULL, take_x, waiter);
    while (!look_at(f->inner, "x").queued)
        pause_ms(1);
    int64_t token = hf_lock_token(lock);
    hf_lock_close(lock);
    void *got;
    pthread_join(thread, &got);
    lock = got;
    assert_true(hf_lock_token(lock) > token);
    assert_int_equal(f->calls[FAULTY_LOOK], 0);
    hf_last last;
    hf_error err;
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK); /* looks, once */
    assert_int_equal(last.exit_status, 7);
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
    assert_int_equal(f->calls[FAULTY_LOOK], 1);
    hf_lock_close(lock);
    hf_close(waiter);
    hf_close(holder);
}

/* ---- Asks (R9) ---- */

static atomic_llong left_ms;

static void lost(void *ctx, hf_lock *lock, const hf_error *why, int64_t left)
{
    (void)ctx;
    (void)lock;
    (void)why;
    atomic_store(&left_ms, left);
}

static hf_entry ask_for(faulty *f, const char *name)
{
    hf_entry holder = look_at(f->inner, name).holder;
    hf_ask ask = {.ticket = holder.ticket, .by = "somebody", .reason = "why not"};
    hf_error err;
    assert_int_equal(f->inner->ops->ask(f->inner, holder.session, &ask, &err), HF_OK);
    return holder;
}

/* The beat that brings the ask renews the session, and not the ticket: a ttl after the ask the
 * breaker takes it out. */
static void test_an_asked_ticket_has_no_more_than_the_ttl_from_the_ask(void **state)
{
    (void)state;
    static const hf_lock_options options = {.on_lost = lost};
    const hf_options own = {.ttl_ms = TTL};
    hf_client *holder;
    hf_lock *lock;
    hf_error err;
    faulty *f = faulty_open_still("memory:asked", &own, &holder);
    assert_int_equal(hf_lock_acquire(holder, "x", &options, &lock, &err), HF_OK);
    ask_for(f, "x");
    faulty_pass(f, TTL / 2);
    beat_tick(holder, client_now(holder));
    loss_notify_tick(holder, client_now(holder));
    assert_in_range(left_ms, 1, TTL / 2 - 1);
    close_still(holder, lock);
}

/* A breaker that was interrupted has nothing but the ask. */
static void test_an_ask_stays_until_its_ticket_has_left(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    hf_session_state seen;
    hf_error err;
    faulty *f = faulty_open("memory:stays", &options, &client);
    hf_lock *lock = take(client, "x");
    hf_entry holder = ask_for(f, "x");
    await_beat(f, client);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_LOST);
    await_beat(f, client);
    assert_int_equal(look_at(f->inner, "x").holders, 1);
    assert_int_equal(f->inner->ops->sessions_look(f->inner, &holder.session, 1, -1, &seen, &err),
                     HF_OK);
    assert_int_equal(seen.n_asked, 1);
    hf_lock_close(lock);
    hf_close(client);
}

static gate enters;

static hf_code answer_enters_late(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (is_enter(call, arg))
        gate_pass(&enters);
    return HF_OK;
}

static void *be_refused(void *client)
{
    hf_error err = {.code = HF_OK};
    hf_lock *lock = NULL;
    hf_code code = hf_lock_acquire(client, "x", NULL, &lock, &err);
    hf_lock_close(lock);
    return code == HF_LOST && strstr(err.text, "why not") ? client : NULL;
}

static void test_a_grant_that_was_asked_for_before_it_came_is_not_had(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    hf_error err;
    pthread_t thread;
    void *was_refused;
    faulty *f = faulty_open("memory:late-grant", &options, &client);
    f->after = answer_enters_late;
    warm = take(client, "w");
    gate_shut(&enters);
    pthread_create(&thread, NULL, be_refused, client);
    gate_await(&enters);
    ask_for(f, "x");
    await_beat(f, client);
    gate_open(&enters);
    pthread_join(thread, &was_refused);
    assert_non_null(was_refused);
    assert_int_equal(hf_lock_check(warm, NULL, &err), HF_OK);
    hf_lock_close(warm);
    hf_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_lease_counts_from_before_it_was_asked_for),
        cmocka_unit_test(test_a_lease_counts_from_before_its_beat_was_sent),
        cmocka_unit_test(test_a_beat_that_hangs_does_not_keep_the_deadline),
        cmocka_unit_test(test_a_grant_that_comes_after_the_lease_is_had_anew),
        cmocka_unit_test(test_belief_ends_before_the_leave_is_sent),
        cmocka_unit_test(test_a_notice_without_a_token_is_no_grant),
        cmocka_unit_test(test_a_notice_with_its_token_is_a_grant),
        cmocka_unit_test(test_an_asked_ticket_has_no_more_than_the_ttl_from_the_ask),
        cmocka_unit_test(test_an_ask_stays_until_its_ticket_has_left),
        cmocka_unit_test(test_a_grant_that_was_asked_for_before_it_came_is_not_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
