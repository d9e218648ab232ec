/* SPDX-License-Identifier: Apache-2.0 */
/* test_giving_up.c: nothing stays behind of who gave up, and what had no answer is neither taken
 * for done nor for not done (R2, R8, L4). */
#include "client/client_bed.h"

#include <unistd.h>

static void test_a_time_out_takes_its_ticket_along(void **state)
{
    (void)state;
    hf_client *waiter = open_client("memory:time-out", 10000);
    hf_client *holder = open_client("memory:time-out", 10000);
    hf_error err;
    hf_lock *lock = take(holder, "x");
    assert_int_equal(try_take(waiter, "x", 100), HF_TIMEOUT);
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    assert_int_equal(try_take(holder, "x", HF_TRY), HF_OK);
    hf_lock_close(lock);
    hf_close(waiter);
    hf_close(holder);
}

/* Before each enter another session takes the lock, and is marked dead at once. */
static hf_code die_in_its_way(faulty *f, faulty_call call, const void *arg)
{
    static uint8_t number = 10;
    hf_session_state state;
    hf_error err;
    if (!is_enter(call, arg))
        return HF_OK;
    hf_id dead = begin_dead(f->inner, ++number, 1000);
    enter_as(f->inner, "x", dead, number);
    assert_int_equal(f->inner->ops->sessions_look(f->inner, &dead, 1, -1, &state, &err), HF_OK);
    assert_int_equal(f->inner->ops->session_mark(f->inner, &state, &err), HF_OK);
    return HF_OK;
}

static void test_a_try_ends_where_others_die_in_its_way_without_end(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open("memory:they die", NULL, &client);
    f->before = die_in_its_way;
    assert_int_equal(try_take(client, "x", HF_TRY), HF_HELD);
    assert_int_equal(f->calls[FAULTY_MARK], 0);
    hf_close(client);
}

static atomic_bool is_blind;

static hf_code be_blind(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_LOOK && is_blind ? HF_UNREACHABLE : HF_OK;
}

static hf_cancel *cancel;

static void *wait_until_cancelled(void *client)
{
    const hf_lock_options options = {.cancel = cancel};
    hf_error err;
    hf_lock *never;
    return hf_lock_acquire(client, "x", &options, &never, &err) == HF_CANCELLED ? client : NULL;
}

/* Granted, and given up before it could be seen: as far as anybody knows it was never held. */
static void test_a_give_back_is_no_outcome(void **state)
{
    (void)state;
    hf_client *waiter, *holder = open_client("memory:give-back", 10000);
    hf_error err;
    pthread_t thread;
    void *gave_up;
    faulty *f = faulty_open("memory:give-back", NULL, &waiter);
    f->before = be_blind;
    f->hides_tokens = true;
    hf_lock *lock = take(holder, "x");
    int64_t token = hf_lock_token(lock);
    is_blind = true;
    assert_int_equal(hf_cancel_new(&cancel, &err), HF_OK);
    pthread_create(&thread, NULL, wait_until_cancelled, waiter);
    while (!look_at(f->inner, "x").queued)
        pause_ms(1);
    hf_lock_set_exit_status(lock, 3);
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    hf_lock_close(lock);
    hf_cancel_fire(cancel);
    pthread_join(thread, &gave_up);
    assert_non_null(gave_up);
    hf_cancel_free(cancel);
    is_blind = false;
    lock = take(holder, "x");
    hf_last last;
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
    assert_int_equal(last.token, token);
    assert_true(last.has_exit_status);
    hf_lock_close(lock);
    hf_close(waiter);
    hf_close(holder);
}

static atomic_bool swallows;

static bool swallow_one_leave(faulty *f, const struct faulty_step *step)
{
    (void)f;
    return step->step->n_leaves && atomic_exchange(&swallows, false);
}

static atomic_int lagging_looks;

static hf_code count_lagging_looks(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (call == FAULTY_LOOK && !((const struct faulty_look *)arg)->linearizable)
        lagging_looks++;
    return HF_OK;
}

/* As by a deposed primary, for which there is nothing to be done: what it shows proves nothing
 * either, unless the read is linearizable. */
static void test_a_leave_that_did_nothing_is_sent_again(void **state)
{
    (void)state;
    hf_client *holder, *next = open_client("memory:nothing", 10000);
    hf_error err;
    faulty *f = faulty_open("memory:nothing", NULL, &holder);
    f->swallows = swallow_one_leave;
    f->before = count_lagging_looks;
    hf_lock *lock = take(holder, "x");
    swallows = true;
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    assert_false(swallows);
    assert_true(f->calls[FAULTY_LOOK] > 0);
    assert_int_equal(lagging_looks, 0);
    assert_int_equal(try_take(next, "x", HF_TRY), HF_OK);
    hf_lock_close(lock);
    hf_close(holder);
    hf_close(next);
}

static atomic_bool loses;

static hf_code lose_one_answer(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    return is_enter(call, arg) && atomic_exchange(&loses, false) ? HF_UNKNOWN : HF_OK;
}

/* With a new ticket it would wait for the old one, whose session lives on for the other lock. */
static void test_an_enter_without_an_answer_is_repeated_as_it_was(void **state)
{
    (void)state;
    hf_client *client;
    faulty_open("memory:repeated", NULL, &client)->after = lose_one_answer;
    hf_lock *keep = take(client, "keep");
    loses = true;
    assert_int_equal(try_take(client, "x", SOON_MS), HF_OK);
    assert_false(loses);
    hf_lock_close(keep);
    hf_close(client);
}

static hf_enter kept;
static atomic_bool keeps;

static hf_code keep_enters_back(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (!is_enter(call, arg) || !keeps)
        return HF_OK;
    kept = *((const struct faulty_step *)arg)->step->enter;
    return HF_UNKNOWN;
}

/* What is given up is taken out in the background. */
static void await_leaves(hf_client *client)
{
    for (bool any = true; any; pause_ms(1)) {
        MUTEX_SCOPE(&client->mutex);
        any = client->hold->releases.first;
    }
}

/* The session lives on, for it holds another lock: nobody else may take the ticket out. */
static void test_an_enter_that_lands_late_is_found(void **state)
{
    (void)state;
    hf_client *client, *next = open_client("memory:lands", 8000);
    hf_options options = {.ttl_ms = 8000, .patience_ms = 1};
    hf_step late = {.enter = &kept};
    hf_step_reply reply;
    hf_error err;
    faulty *f = faulty_open("memory:lands", &options, &client);
    f->before = keep_enters_back;
    hf_lock *keep = take(client, "keep");
    keeps = true;
    assert_int_not_equal(try_take(client, "x", 0), HF_OK);
    keeps = false;
    await_leaves(client);
    assert_int_equal(f->inner->ops->step(f->inner, "x", &late, NULL, &reply, &err), HF_OK);
    assert_int_equal(try_take(next, "x", HF_TRY), HF_HELD);
    assert_int_equal(try_take(next, "x", SOON_MS), HF_OK);
    assert_int_equal(hf_lock_check(keep, NULL, &err), HF_OK);
    hf_lock_close(keep);
    hf_close(client);
    hf_close(next);
}

static atomic_bool has_taken;
static hf_lock *three[3];

static void *take_three(void *client)
{
    static const char *const names[] = {"a", "b", "c"};
    hf_error err;
    if (hf_lock_acquire_all(client, names, 3, NULL, three, &err))
        memset(three, 0, sizeof three);
    has_taken = true;
    return NULL;
}

/* The client is gone for a call that it does not wait for: ASan sees that. */
static void test_close_waits_for_those_who_take_several(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        hf_client *client;
        faulty *f = faulty_open("memory:several", NULL, &client);
        pthread_t thread;
        has_taken = false;
        pthread_create(&thread, NULL, take_three, client);
        while (!look_at(f->inner, "a").holders && !has_taken)
            pause_ms(0);
        hf_close(client);
        pthread_join(thread, NULL);
        for (int j = 0; j < 3 && three[0]; j++)
            hf_lock_close(three[j]);
    }
}

static atomic_llong ended_at;
static atomic_int waiter;

static void *wait_for_x(void *client)
{
    hf_error err;
    hf_lock *never;
    waiter = gettid();
    assert_int_equal(hf_lock_acquire(client, "x", NULL, &never, &err), HF_CLOSED);
    ended_at = idle_ms();
    return NULL;
}

/* Returns when the kernel says that this thread sleeps. */
static void await_asleep(int thread)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    for (; state != 'S'; pause_ms(1)) {
        FILE *stat = fopen(path, "re");
        assert_non_null(stat);
        assert_int_equal(fscanf(stat, "%*d %*s %c", &state), 1);
        fclose(stat);
    }
}

/* Its next look is due a second later. */
static void test_a_close_wakes_those_who_wait(void **state)
{
    (void)state;
    hf_client *client, *holder = open_client("memory:wakes", 10000);
    pthread_t thread;
    faulty *f = faulty_open("memory:wakes", NULL, &client);
    hf_lock *lock = take(holder, "x");
    pthread_create(&thread, NULL, wait_for_x, client);
    while (!f->calls[FAULTY_SESSIONS_LOOK])
        pause_ms(1);
    await_asleep(waiter);
    int64_t began_at = idle_ms();
    hf_close(client);
    pthread_join(thread, NULL);
    assert_true(ended_at - began_at < 500);
    hf_lock_close(lock);
    hf_close(holder);
}

static hf_id first_ticket, last_ticket;

static hf_code lose_the_first_claim(faulty *f, faulty_call call, const void *arg)
{
    if (call != FAULTY_CLAIM)
        return HF_OK;
    last_ticket = ((const hf_enter *)arg)->entry.ticket;
    if (f->calls[FAULTY_CLAIM] > 1)
        return HF_OK;
    first_ticket = last_ticket;
    return HF_UNKNOWN;
}

/* With the same ticket it could come to stand in two documents. */
static void test_a_claim_without_an_answer_is_made_anew(void **state)
{
    (void)state;
    hf_client *client;
    hf_lock *lock;
    hf_error err;
    faulty *f = faulty_open("memory:claims", NULL, &client);
    faulty_let_claim(f, "job");
    f->after = lose_the_first_claim;
    assert_int_equal(hf_document_claim(client, "{}", NULL, NULL, &lock, &err), HF_OK);
    assert_true(f->calls[FAULTY_CLAIM] > 1);
    assert_memory_not_equal(&first_ticket, &last_ticket, sizeof first_ticket);
    struct seen job = look_at(f->inner, "job");
    assert_memory_equal(&job.holder.ticket, &last_ticket, sizeof last_ticket);
    hf_lock_close(lock);
    hf_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_time_out_takes_its_ticket_along),
        cmocka_unit_test(test_a_try_ends_where_others_die_in_its_way_without_end),
        cmocka_unit_test(test_a_give_back_is_no_outcome),
        cmocka_unit_test(test_a_leave_that_did_nothing_is_sent_again),
        cmocka_unit_test(test_an_enter_without_an_answer_is_repeated_as_it_was),
        cmocka_unit_test(test_an_enter_that_lands_late_is_found),
        cmocka_unit_test(test_close_waits_for_those_who_take_several),
        cmocka_unit_test(test_a_close_wakes_those_who_wait),
        cmocka_unit_test(test_a_claim_without_an_answer_is_made_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
