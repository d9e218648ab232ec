/* SPDX-License-Identifier: Apache-2.0 */
/* test_delays.c: from when on a time counts, where one chosen call takes long: on a clock that
 * stands still but for what the test lets pass (R4, R9, L3). */
#include "client/client_bed.h"

#include "support/inside.h"

#include <semaphore.h>

#define TTL 10000
#define ALLOWANCE 25 /* of that ttl */

static int64_t left_of(hf_lock *lock)
{
    int64_t left = 0;
    hf_error err;
    assert_int_equal(hf_lock_check(lock, &left, &err), HF_OK);
    return left;
}

static void release(hf_lock *lock)
{
    hf_error err;
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    hf_lock_close(lock);
}

/* ---- A claim, and a beat that was sent before it was answered ---- */

static sem_t claim_is_sent, claim_may_end;
static pthread_t claiming;

static hf_code hold_answers_back(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    if (call == FAULTY_CLAIM) {
        sem_post(&claim_is_sent);
        sem_wait(&claim_may_end);
    }
    return HF_OK;
}

static void *claim(void *client)
{
    hf_lock *lock;
    hf_error err;
    assert_int_equal(hf_document_claim(client, "{}", NULL, NULL, &lock, &err), HF_OK);
    return lock;
}

static hf_lock *claimed;

static hf_lock *end_claim(void)
{
    void *got;
    sem_post(&claim_may_end);
    pthread_join(claiming, &got);
    return got;
}

/* The beat is answered only when the claim was. */
static hf_code end_claim_in_beat(faulty *f, faulty_call call, const void *arg)
{
    if (call == FAULTY_BEAT)
        faulty_pass(f, 500);
    if (call == FAULTY_BEAT && !claimed)
        claimed = end_claim();
    return hold_answers_back(f, call, arg);
}

/* The claim is sent at 4 s, and answered at 6 s; a beat is sent in between. */
static hf_client *begin_claim(faulty **f)
{
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    *f = faulty_open_still("memory:claims", &options, &client);
    faulty_let_claim(*f, "job");
    (*f)->after = hold_answers_back;
    sem_init(&claim_is_sent, 0, 0);
    sem_init(&claim_may_end, 0, 0);
    claimed = NULL;
    release(take(client, "first"));
    faulty_pass(*f, 4000);
    pthread_create(&claiming, NULL, claim, client);
    sem_wait(&claim_is_sent);
    faulty_pass(*f, 2000);
    return client;
}

static void test_a_claim_counts_from_before_it_was_sent(void **state)
{
    (void)state;
    faulty *f;
    hf_client *client = begin_claim(&f);
    beat_tick(client, client_now(client));
    hf_lock *lock = end_claim();
    assert_int_equal(left_of(lock), TTL - 2000 - ALLOWANCE);
    faulty_pass(f, TTL - 2000 - ALLOWANCE);
    assert_int_equal(hf_lock_check(lock, NULL, NULL), HF_LOST);
    hf_lock_close(lock);
    hf_close(client);
}

/* It may have renewed the documents that were known when it was sent, and this was not. */
static void test_a_beat_that_was_sent_before_a_claim_does_not_renew_it(void **state)
{
    (void)state;
    faulty *f;
    hf_client *client = begin_claim(&f);
    f->after = end_claim_in_beat;
    beat_tick(client, client_now(client));
    assert_non_null(claimed);
    assert_string_equal(hf_lock_name(claimed), "job");
    assert_int_equal(left_of(claimed), TTL - 2500 - ALLOWANCE);
    faulty_pass(f, 4000);
    beat_tick(client, client_now(client));
    assert_int_equal(left_of(claimed), TTL - 500 - ALLOWANCE);
    release(claimed);
    hf_close(client);
}

/* ---- Refreshed by hand ---- */

static hf_client *refreshing;

/* The session's lease goes on meanwhile. */
static hf_code take_four_seconds(faulty *f, faulty_call call, const void *arg)
{
    (void)arg;
    if (call == FAULTY_REFRESH) {
        faulty_pass(f, 4000);
        beat_tick(refreshing, client_now(refreshing));
    }
    return HF_OK;
}

static hf_lock *take_by_hand(const char *uri, faulty **f)
{
    hf_lock *lock;
    hf_error err;
    const hf_options options = {.ttl_ms = TTL};
    const hf_lock_options by_hand = {.no_refresh = true};
    *f = faulty_open_still(uri, &options, &refreshing);
    faulty_let_claim(*f, "x");
    (*f)->after = take_four_seconds;
    assert_int_equal(hf_lock_acquire(refreshing, "x", &by_hand, &lock, &err), HF_OK);
    faulty_pass(*f, 4000);
    beat_tick(refreshing, client_now(refreshing));
    assert_int_equal(left_of(lock), TTL - 4000 - ALLOWANCE); /* no beat renews it */
    return lock;
}

static void test_a_refresh_counts_from_before_it_was_sent(void **state)
{
    (void)state;
    faulty *f;
    hf_error err;
    hf_lock *lock = take_by_hand("memory:by-hand", &f);
    assert_int_equal(hf_lock_refresh(lock, &err), HF_OK);
    assert_int_equal(left_of(lock), TTL - 4000 - ALLOWANCE);
    release(lock);
    hf_close(refreshing);
}

static void test_a_refresh_that_is_answered_too_late_revives_nothing(void **state)
{
    (void)state;
    faulty *f;
    hf_error err;
    hf_lock *lock = take_by_hand("memory:too-late", &f);
    faulty_pass(f, 5000);
    beat_tick(refreshing, client_now(refreshing));
    assert_true(left_of(lock) > 0);
    assert_int_equal(hf_lock_refresh(lock, &err), HF_LOST);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_LOST);
    assert_int_equal(hf_lock_refresh(lock, &err), HF_LOST);
    hf_lock_close(lock);
    hf_close(refreshing);
}

static void test_a_refresh_finds_out_that_the_lock_is_anothers(void **state)
{
    (void)state;
    faulty *f;
    hf_error err;
    hf_step_reply reply;
    hf_lock *lock = take_by_hand("memory:anothers", &f);
    hf_leave leave = {.ticket = lock->grant.ticket};
    hf_step step = {.leaves = &leave, .n_leaves = 1};
    assert_int_equal(f->inner->ops->step(f->inner, "x", &step, NULL, &reply, &err), HF_OK);
    assert_int_equal(hf_lock_refresh(lock, &err), HF_LOST);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_LOST);
    assert_non_null(strstr(err.text, "x is another's"));
    hf_lock_close(lock);
    hf_close(refreshing);
}

/* ---- Verifying ---- */

static hf_stamp looked_after;

static hf_code note_look(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (call == FAULTY_LOOK)
        looked_after = ((const struct faulty_look *)arg)->after;
    return HF_OK;
}

/* An older look would not show the ticket, and the lock would pass for lost. */
static void test_a_verifying_look_is_no_older_than_the_grant(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    faulty *f = faulty_open_still("memory:verifies", &options, &client);
    release(take(client, "w"));
    hf_lock *lock = take(client, "x");
    assert_true(lock->grant.stamp.value > 0);
    for (int i = 0; i < 3; i++) {
        faulty_pass(f, TTL / 3 + 100);
        beat_tick(client, client_now(client));
    }
    f->before = note_look;
    upkeep_tick(client, client_now(client));
    assert_int_equal(looked_after.value, lock->grant.stamp.value);
    release(lock);
    hf_close(client);
}

/* ---- Breaking ---- */

static int64_t asked_at, taken_out_at;

static hf_code answer_the_ask_late(faulty *f, faulty_call call, const void *arg)
{
    (void)arg;
    if (call == FAULTY_ASK) {
        faulty_pass(f, 3000);
        asked_at = f->passed_ms;
    }
    return HF_OK;
}

static hf_code note_leave(faulty *f, faulty_call call, const void *arg)
{
    if (is_leave(call, arg))
        taken_out_at = f->passed_ms;
    return HF_OK;
}

/* The ask may have come to the store just before its answer did. */
static void test_a_break_waits_from_the_answer_to_its_ask(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    hf_options options = {.ttl_ms = TTL};
    hf_break_options why = {.reason = "it hangs"};
    faulty *f = faulty_open_still("memory:breaks", &options, &client);
    f->after = answer_the_ask_late;
    f->before = note_leave;
    enter_as(f->inner, "x", begin_dead(f->inner, 7, TTL), 8);
    assert_int_equal(hf_break(client, "x", &why, &err), HF_OK);
    /* the entry's own ttl is 1 s */
    assert_in_range(taken_out_at - asked_at, 1000, 1000 + 200);
    hf_close(client);
}

/* ---- Patience ---- */

static hf_code refuse_enters(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    return is_enter(call, arg) ? HF_UNREACHABLE : HF_OK;
}

static void assert_ends_after(int64_t wait_ms, int64_t least_ms)
{
    hf_client *client;
    hf_options options = {.patience_ms = 2000};
    hf_lock_options how = {.wait_ms = wait_ms};
    struct attempt attempt;
    faulty *f = faulty_open_still("memory:away", &options, &client);
    f->before = refuse_enters;
    attempt_init(&attempt, client, "x", &how);
    while (attempt.state != ATTEMPT_ENDED && f->passed_ms < 60000) {
        attempt_step(&attempt, client_now(client));
        faulty_pass(f, 50);
    }
    assert_int_equal(attempt.code, HF_UNREACHABLE);
    assert_in_range(f->passed_ms, least_ms, least_ms + 1500); /* pauses between tries grow */
    attempt_done(&attempt);
    hf_close(client);
}

static void test_a_store_that_is_away_is_waited_for_with_patience(void **state)
{
    (void)state;
    assert_ends_after(0, 2000);
    assert_ends_after(HF_TRY, 2000);
    assert_ends_after(700, 700); /* its own time ends first */
}

static void test_who_says_nothing_is_patient(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:", TTL);
    assert_int_equal(client->patience_ms, 30000); /* holdfast.h says so */
    hf_close(client);
}

/* ---- Waiting ---- */

static bool keep_long_wait(void *ctx, const hf_finding *finding)
{
    if (strcmp(finding->topic, "long wait") == 0)
        snprintf(ctx, 200, "%s", finding->text);
    return true;
}

static void test_the_doctor_finds_who_waits_for_long(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    char found[200] = "";
    faulty *f = faulty_open_still("memory:long", NULL, &client);
    enter_as(f->inner, "x", begin_dead(f->inner, 1, TTL), 2);
    enter_as(f->inner, "x", begin_dead(f->inner, 3, TTL), 4);
    faulty_pass(f, 59999);
    assert_int_equal(hf_doctor(client, keep_long_wait, found, &err), HF_OK);
    assert_string_equal(found, "");
    faulty_pass(f, 2001);
    assert_int_equal(hf_doctor(client, keep_long_wait, found, &err), HF_OK);
    assert_non_null(strstr(found, "x: 1 wait, the first for 62 s"));
    hf_close(client);
}

/* ---- Sweeping ---- */

static hf_presence presence_of(hf_store *store, hf_id id)
{
    hf_session_state state;
    hf_error err;
    assert_int_equal(store->ops->sessions_look(store, &id, 1, -1, &state, &err), HF_OK);
    return state.presence;
}

/* It is watched for its ttl first, as everybody is. */
static void test_a_session_that_is_a_day_overdue_is_marked(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    faulty *f = faulty_open_still("memory:overdue", &options, &client);
    hf_id dead = begin_dead(f->inner, 9, 4000);
    faulty_pass(f, INT64_C(25) * 3600 * 1000);
    hf_lock *lock = take(client, "x");
    int ms = 0;
    for (; ms < 3 * TTL && presence_of(f->inner, dead) != HF_DEAD; ms += 500) {
        beat_tick(client, client_now(client));
        sweep_tick(client, client_now(client));
        faulty_pass(f, 500);
    }
    assert_in_range(ms, 4000, 6000);
    assert_true(left_of(lock) > 0);
    release(lock);
    hf_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_claim_counts_from_before_it_was_sent),
        cmocka_unit_test(test_a_beat_that_was_sent_before_a_claim_does_not_renew_it),
        cmocka_unit_test(test_a_refresh_counts_from_before_it_was_sent),
        cmocka_unit_test(test_a_refresh_that_is_answered_too_late_revives_nothing),
        cmocka_unit_test(test_a_refresh_finds_out_that_the_lock_is_anothers),
        cmocka_unit_test(test_a_verifying_look_is_no_older_than_the_grant),
        cmocka_unit_test(test_a_break_waits_from_the_answer_to_its_ask),
        cmocka_unit_test(test_a_store_that_is_away_is_waited_for_with_patience),
        cmocka_unit_test(test_who_says_nothing_is_patient),
        cmocka_unit_test(test_the_doctor_finds_who_waits_for_long),
        cmocka_unit_test(test_a_session_that_is_a_day_overdue_is_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
