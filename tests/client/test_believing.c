/* SPDX-License-Identifier: Apache-2.0 */
/* test_believing.c: what a holder may believe, and until when, while answers are late, lost or
 * wrong (R4, R7, R9, L2). */
#include "client/client_bed.h"

#define TTL 1500

static atomic_bool is_slow;

/* ---- The lease ---- */

static hf_code answer_late(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    if (call == FAULTY_BEAT || (call == FAULTY_BEGIN && is_slow))
        pause_ms(300);
    return HF_OK;
}

static int64_t left_of(hf_lock *lock)
{
    int64_t left = 0;
    hf_error err;
    assert_int_equal(hf_lock_check(lock, &left, &err), HF_OK);
    return left;
}

static void test_the_first_lease_counts_from_before_it_was_asked_for(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    faulty_open("memory:first", &options, &client)->after = answer_late;
    is_slow = true;
    hf_lock *lock = take(client, "x");
    is_slow = false;
    assert_true(left_of(lock) < TTL - 300);
    hf_lock_close(lock);
    hf_close(client);
}

static void test_a_lease_counts_from_before_its_beat_was_sent(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    faulty *f = faulty_open("memory:request", &options, &client);
    f->after = answer_late;
    hf_lock *lock = take(client, "x");
    while (f->calls[FAULTY_BEAT] == 0)
        pause_ms(5);
    for (int i = 0; i < 80; i++) { /* its answer comes while this goes on */
        assert_true(left_of(lock) < TTL - 300);
        pause_ms(5);
    }
    hf_lock_close(lock);
    hf_close(client);
}

static hf_code hang_beats(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    if (call == FAULTY_BEAT)
        pause_ms(2500);
    return HF_OK;
}

static void test_a_beat_that_hangs_does_not_keep_the_deadline(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = 1000};
    faulty_open("memory:hangs", &options, &client)->before = hang_beats;
    hf_lock *lock = take(client, "x");
    struct pollfd lost = {hf_lock_fd(lock), POLLIN, 0};
    int64_t began = idle_ms();
    assert_int_equal(poll(&lost, 1, 10000), 1);
    assert_true(idle_ms() - began < 1800);
    hf_lock_close(lock);
    hf_close(client);
}

/* The enter is answered when the lease is over. */
static hf_code outlast_the_lease(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (is_enter(call, arg) && atomic_load(&is_slow)) {
        pause_ms(1200);
        atomic_store(&is_slow, false);
    }
    return HF_OK;
}

static hf_code cut_while_slow(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_BEAT && is_slow ? HF_UNREACHABLE : HF_OK;
}

static void test_a_grant_that_comes_after_the_lease_is_had_anew(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = 1000};
    hf_error err;
    faulty *f = faulty_open("memory:outlasts", &options, &client);
    f->after = outlast_the_lease;
    f->before = cut_while_slow;
    hf_lock *warm = take(client, "w");
    is_slow = true;
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

static atomic_bool says, is_told;

/* Says, once, that the head of the queue was granted. */
static bool say_granted(faulty *f, hf_notice *out)
{
    struct seen x = look_at(f->inner, "x");
    if (!says || !x.queued || atomic_exchange(&is_told, true))
        return false;
    *out = (hf_notice){.kind = HF_NOTICE_GRANT, .ticket = x.head.ticket, .stamp = {1}};
    return true;
}

static void test_a_notice_without_a_token_is_no_grant(void **state)
{
    (void)state;
    hf_client *waiter, *holder = open_client("memory:notices", 10000);
    faulty_open("memory:notices", NULL, &waiter)->notice = say_granted;
    hf_lock *lock = take(holder, "x");
    assert_int_equal(try_take(waiter, "x", 50), HF_TIMEOUT); /* its listener is there now */
    says = true;
    assert_int_equal(try_take(waiter, "x", 1500), HF_TIMEOUT);
    assert_true(is_told);
    hf_lock_close(lock);
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

static atomic_llong told_at, left_ms;

static void lost(void *ctx, hf_lock *lock, const hf_error *why, int64_t left)
{
    (void)ctx;
    (void)lock;
    (void)why;
    atomic_store(&left_ms, left);
    atomic_store(&told_at, now_ms());
}

static void *break_x(void *client)
{
    hf_error err;
    hf_break_options options = {.reason = "why not"};
    hf_break(client, "x", &options, &err);
    return NULL;
}

/* The beat that brings the ask renews the session, and not the ticket: a ttl after the ask the
 * breaker takes it out. */
static void test_an_asked_ticket_has_no_more_than_the_ttl_from_the_ask(void **state)
{
    (void)state;
    static const hf_lock_options options = {.on_lost = lost};
    hf_client *holder = open_client("memory:asked", TTL);
    hf_client *breaker = open_client("memory:asked", TTL);
    hf_lock *lock;
    hf_error err;
    pthread_t thread;
    assert_int_equal(hf_lock_acquire(holder, "x", &options, &lock, &err), HF_OK);
    pthread_create(&thread, NULL, break_x, breaker);
    int64_t asked = now_ms() + 150; /* by then it is surely asked */
    while (!told_at)
        pause_ms(5);
    assert_true(told_at + left_ms < asked + TTL);
    hf_lock_close(lock);
    pthread_join(thread, NULL);
    hf_close(holder);
    hf_close(breaker);
}

/* A breaker that was interrupted has nothing but the ask. */
static void test_an_ask_stays_until_its_ticket_has_left(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    hf_ask ask = {.by = "somebody", .reason = "why not"};
    hf_session_state seen;
    hf_error err;
    faulty *f = faulty_open("memory:stays", &options, &client);
    hf_lock *lock = take(client, "x");
    hf_entry holder = look_at(f->inner, "x").holder;
    ask.ticket = holder.ticket;
    assert_int_equal(f->inner->ops->ask(f->inner, holder.session, &ask, &err), HF_OK);
    while (hf_lock_check(lock, NULL, &err) == HF_OK)
        pause_ms(5);
    for (int beats = f->calls[FAULTY_BEAT]; f->calls[FAULTY_BEAT] == beats;)
        pause_ms(5);
    pause_ms(100);
    assert_int_equal(look_at(f->inner, "x").holders, 1);
    assert_int_equal(f->inner->ops->sessions_look(f->inner, &holder.session, 1, -1, &seen, &err),
                     HF_OK);
    assert_int_equal(seen.n_asked, 1);
    hf_lock_close(lock);
    hf_close(client);
}

static atomic_bool has_entered;

static hf_code answer_enters_late(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (!is_enter(call, arg) || !is_slow)
        return HF_OK;
    has_entered = true;
    pause_ms(900); /* more than a third of the ttl, so that a beat comes between */
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
    hf_ask ask = {.by = "somebody", .reason = "why not"};
    hf_error err;
    pthread_t thread;
    void *was_refused;
    faulty *f = faulty_open("memory:late-grant", &options, &client);
    f->after = answer_enters_late;
    hf_lock *warm = take(client, "w");
    is_slow = true;
    pthread_create(&thread, NULL, be_refused, client);
    while (!has_entered)
        pause_ms(1);
    hf_entry holder = look_at(f->inner, "x").holder;
    ask.ticket = holder.ticket;
    assert_int_equal(f->inner->ops->ask(f->inner, holder.session, &ask, &err), HF_OK);
    pthread_join(thread, &was_refused);
    is_slow = false;
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
