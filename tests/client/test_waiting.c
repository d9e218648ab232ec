/* SPDX-License-Identifier: Apache-2.0 */
/* test_waiting.c: nobody waits longer than it must, nothing is done more often than it must, and no
 * late request leaves anything behind (R8, L1, L2). */
#include "client/client_bed.h"

#include "support/inside.h"

#include "core/record.h"

static gate enters;

/* Its answer is still under way while the lock is granted to it. */
static hf_code delay_enters(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (is_enter(call, arg))
        gate_pass(&enters);
    return HF_OK;
}

static atomic_bool is_listening;

static bool note_listening(faulty *f, hf_notice *out)
{
    (void)f;
    (void)out;
    is_listening = true;
    return false;
}

static void await_told(hf_client *client)
{
    for (bool is_told = false; !is_told; pause_ms(1)) {
        pthread_mutex_lock(&client->mutex);
        is_told = client->hold->waiters.first && client->hold->waiters.first->is_told;
        pthread_mutex_unlock(&client->mutex);
    }
}

static void *keep_x(void *client)
{
    return take(client, "x");
}

static void *take_x(void *client)
{
    hf_lock_close(keep_x(client));
    return NULL;
}

/* The notice is newer than the enter's own answer, and is not forgotten for it. */
static void test_a_grant_that_overtakes_the_answer_to_the_enter(void **state)
{
    (void)state;
    hf_client *waiter, *holder = open_client("memory:overtakes", 10000);
    hf_error err;
    pthread_t thread;
    faulty *f = faulty_open("memory:overtakes", NULL, &waiter);
    f->after = delay_enters;
    f->notice = note_listening;
    hf_lock *x = take(holder, "x"), *w = take(holder, "w");
    while (!is_listening)
        assert_int_equal(try_take(waiter, "w", 50), HF_TIMEOUT);
    gate_shut(&enters);
    pthread_create(&thread, NULL, take_x, waiter);
    gate_await(&enters);
    assert_int_equal(hf_lock_release(x, &err), HF_OK);
    await_told(waiter);
    int looks = f->calls[FAULTY_LOOK];
    gate_open(&enters);
    pthread_join(thread, NULL);
    assert_int_equal(f->calls[FAULTY_LOOK], looks);
    hf_lock_close(x);
    hf_lock_close(w);
    hf_close(waiter);
    hf_close(holder);
}

static atomic_ullong looked_from;

static hf_code note_looks(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (call == FAULTY_LOOK)
        looked_from = ((const struct faulty_look *)arg)->after.value;
    return HF_OK;
}

/* A step that finds nothing to do says what the newest version is. */
static uint64_t newest(hf_store *store)
{
    hf_leave nobody = {.ticket = {{255}}};
    hf_step step = {.leaves = &nobody, .n_leaves = 1};
    hf_step_reply reply;
    hf_error err;
    assert_int_equal(store->ops->step(store, "x", &step, NULL, &reply, &err), HF_OK);
    return reply.stamp.value;
}

/* R1: what a member shows that lags behind the notice is not asked for. */
static void test_a_look_is_no_older_than_what_it_was_told_of(void **state)
{
    (void)state;
    hf_client *waiter, *holder = open_client("memory:looks", 10000);
    pthread_t thread;
    faulty *f = faulty_open("memory:looks", NULL, &waiter);
    f->before = note_looks;
    f->hides_tokens = true;
    hf_lock *x = take(holder, "x"), *w = take(waiter, "w");
    uint64_t before = newest(f->inner);
    pthread_create(&thread, NULL, take_x, waiter);
    while (!look_at(f->inner, "x").queued)
        pause_ms(1);
    hf_lock_close(x);
    pthread_join(thread, NULL);
    assert_true(looked_from >= before + 2); /* its enter, and the release that granted it */
    hf_lock_close(w);
    hf_close(waiter);
    hf_close(holder);
}

/* Keeps the listener from hearing anything. */
static bool say_nothing(faulty *f, hf_notice *out)
{
    (void)f;
    *out = (hf_notice){.kind = HF_NOTICE_GRANT};
    pause_ms(20);
    return true;
}

static atomic_int n_old;

/* Again and again, of a ticket that the waiter has given up. */
static bool note_old_ticket(faulty *f, hf_notice *out)
{
    (void)f;
    *out = (hf_notice){.kind = HF_NOTICE_GRANT, .ticket = {{9}}, .token = 77, .name = "x"};
    n_old++;
    pause_ms(5);
    return true;
}

static void test_a_notice_of_an_old_ticket_grants_nothing(void **state)
{
    (void)state;
    hf_client *waiter, *holder = open_client("memory:old-notice", 10000);
    faulty *f = faulty_open("memory:old-notice", NULL, &waiter);
    hf_error err;
    f->notice = note_old_ticket;
    n_old = 0;
    hf_lock *x = take(holder, "x");
    while (n_old < 20)
        assert_int_equal(try_take(waiter, "x", 50), HF_TIMEOUT);
    assert_int_equal(hf_lock_check(x, NULL, &err), HF_OK);
    hf_lock_close(x);
    hf_close(waiter);
    hf_close(holder);
}

/* Of the ticket that waits, which its record does not grant. */
static bool forge(faulty *f, const char *name, int32_t block, hf_notice *out)
{
    struct seen seen = look_at(f->inner, name);
    pause_ms(5);
    *out = (hf_notice){.kind = HF_NOTICE_GRANT,
                       .ticket = seen.head.ticket,
                       .token = 77,
                       .block = block,
                       .name = name};
    return seen.queued;
}

static bool forge_grant(faulty *f, hf_notice *out)
{
    return forge(f, "y", 0, out) || forge(f, "x", 0, out) || say_nothing(f, out);
}

static bool forge_block(faulty *f, hf_notice *out)
{
    return forge(f, "x", 1000, out) || say_nothing(f, out);
}

#define FORGED_TTL_MS 120000 /* a beat is due after 40 s */

/* Whoever may ring and knows the ticket can do that; it is found long before the lease is over. */
static void assert_lost_soon(hf_lock *forged)
{
    hf_error err;
    int64_t began = idle_ms();
    assert_int_equal(hf_lock_token(forged), 77);
    while (!hf_lock_check(forged, NULL, &err) && idle_ms() - began < 5000)
        pause_ms(5);
    assert_int_equal(hf_lock_check(forged, NULL, &err), HF_LOST);
    assert_non_null(strstr(err.text, "stands in line"));
}

static void expect_a_moment(const char *uri, faulty_notice *says)
{
    hf_client *waiter, *holder = open_client(uri, FORGED_TTL_MS);
    faulty *f = faulty_open(uri, &(hf_options){.ttl_ms = FORGED_TTL_MS}, &waiter);
    hf_error err;
    f->base.is_remote = true;
    f->notice = says;
    hf_lock *x = take(holder, "x"), *forged = take(waiter, "x");
    assert_lost_soon(forged);
    assert_int_equal(hf_lock_check(x, NULL, &err), HF_OK);
    hf_lock_close(forged);
    hf_lock_close(x);
    hf_close(waiter);
    hf_close(holder);
}

static void test_a_forged_notice_is_believed_for_a_moment(void **state)
{
    (void)state;
    expect_a_moment("memory:forged", forge_grant);
}

static void test_a_forged_block_is_believed_no_longer(void **state)
{
    (void)state;
    expect_a_moment("memory:forged-block", forge_block);
}

/* One that comes shortly before another is looked after. */
static void test_the_second_forged_notice_is_believed_no_longer(void **state)
{
    (void)state;
    hf_client *waiter, *holder = open_client("memory:forged-two", FORGED_TTL_MS);
    faulty *f = faulty_open("memory:forged-two", &(hf_options){.ttl_ms = FORGED_TTL_MS}, &waiter);
    f->base.is_remote = true;
    f->notice = forge_grant;
    hf_lock *x = take(holder, "x"), *y = take(holder, "y"), *first = take(waiter, "x");
    pause_ms(200);
    hf_lock *second = take(waiter, "y");
    assert_lost_soon(second);
    hf_lock_close(first);
    hf_lock_close(second);
    hf_lock_close(x);
    hf_lock_close(y);
    hf_close(waiter);
    hf_close(holder);
}

/* As a new primary may show it that does not know yet how far the majority is. */
static void show_as_it_was(faulty *f, hf_record *record)
{
    (void)f;
    record->queued += record->holders;
    record->holders = 0;
}

/* A grant of which a look has told is as old as the enter, for all that is known of it. */
static void test_an_older_look_takes_no_lock(void **state)
{
    (void)state;
    hf_client *waiter, *holder = open_client("memory:older", 10000);
    faulty *f = faulty_open("memory:older", &(hf_options){.ttl_ms = 1000}, &waiter);
    pthread_t thread;
    hf_error err;
    f->base.is_remote = true;
    f->hides_tokens = true;
    hf_lock *x = take(holder, "x");
    pthread_create(&thread, NULL, keep_x, waiter);
    while (!look_at(f->inner, "x").queued)
        pause_ms(1);
    hf_lock_close(x);
    pthread_join(thread, (void **)&x);
    f->edits_record = show_as_it_was;
    int looks = f->calls[FAULTY_LOOK];
    while (f->calls[FAULTY_LOOK] < looks + 2 && !hf_lock_check(x, NULL, &err))
        pause_ms(5);
    assert_int_equal(hf_lock_check(x, NULL, &err), HF_OK);
    hf_lock_close(x);
    hf_close(waiter);
    hf_close(holder);
}

static void test_who_hears_nothing_looks_by_itself(void **state)
{
    (void)state;
    hf_client *waiter, *holder = open_client("memory:deaf", 10000);
    pthread_t thread;
    faulty *f = faulty_open("memory:deaf", NULL, &waiter);
    f->notice = say_nothing;
    hf_lock *x = take(holder, "x");
    pthread_create(&thread, NULL, take_x, waiter);
    while (!look_at(f->inner, "x").queued)
        pause_ms(1);
    int64_t began = idle_ms();
    hf_lock_close(x);
    while (!f->calls[FAULTY_LOOK] && idle_ms() - began < 4000)
        pause_ms(1);
    assert_true(f->calls[FAULTY_LOOK] > 0);
    pthread_join(thread, NULL);
    hf_close(waiter);
    hf_close(holder);
}

static void test_a_limit_that_disagrees_with_one_s_own_lock(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:limit", 1000);
    hf_lock *lock = take(client, "x"), *other = NULL;
    hf_lock_options options = {.permits = 1, .limit = 5, .wait_ms = SOON_MS};
    hf_error err;
    int64_t began = idle_ms();
    assert_int_equal(hf_lock_acquire(client, "x", &options, &other, &err), HF_LIMIT);
    assert_true(idle_ms() - began < 4000);
    hf_lock_close(lock);
    hf_close(client);
}

static hf_session ghost;
static atomic_int sweeps;

/* Gives a session that is alive: it will be watched for a ttl. */
static hf_code give_ghost_once(faulty *f, hf_session_state *out, size_t max, size_t *n, bool *more)
{
    (void)max;
    *more = false;
    hf_error err;
    *n = atomic_fetch_add(&sweeps, 1) == 0;
    return *n ? f->inner->ops->sessions_look(f->inner, &ghost.id, 1, -1, out, &err) : HF_OK;
}

static void test_a_sweep_does_not_look_without_end(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = 6000};
    hf_error err;
    ghost = (hf_session){.id = {{9}}, .ttl_ms = 24000};
    faulty *f = faulty_open("memory:sweep", &options, &client);
    f->sweep = give_ghost_once;
    assert_int_equal(f->inner->ops->session_begin(f->inner, &ghost, &err), HF_OK);
    hf_lock *lock = take(client, "x");
    while (!sweeps)
        pause_ms(1);
    for (int beats = f->calls[FAULTY_BEAT]; f->calls[FAULTY_BEAT] < beats + 6;) /* two ttls */
        pause_ms(5);
    assert_true(f->calls[FAULTY_SESSIONS_LOOK] <= 4);
    hf_lock_close(lock);
    hf_close(client);
}

static atomic_bool sweep_hangs, sweep_goes_on;

static hf_code hang(faulty *f, hf_session_state *out, size_t max, size_t *n, bool *more)
{
    (void)f, (void)out, (void)max;
    sweep_hangs = true;
    while (!sweep_goes_on)
        pause_ms(5);
    *n = 0;
    *more = false;
    return HF_OK;
}

/* Here of a lock that is closed, which the background releases. */
static void test_nothing_waits_behind_a_sweep(void **state)
{
    (void)state;
    hf_client *client, *other;
    hf_options options = {.ttl_ms = 60000};
    hf_error err;
    faulty *f = faulty_open("memory:hang", &options, &client);
    f->sweep = hang;
    hf_lock *lock = take(client, "x");
    await(&sweep_hangs);
    hf_lock_close(lock);
    assert_int_equal(hf_open("memory:hang", &options, &other, &err), HF_OK);
    hf_lock_options waits = {.wait_ms = SOON_MS};
    assert_int_equal(hf_lock_acquire(other, "x", &waits, &lock, &err), HF_OK);
    sweep_goes_on = true;
    hf_lock_close(lock);
    hf_close(other);
    hf_close(client);
}

static atomic_int parts;

static hf_code never_done(faulty *f, hf_session_state *out, size_t max, size_t *n, bool *more)
{
    (void)f, (void)out, (void)max;
    parts++;
    *n = 0;
    *more = true;
    return HF_OK;
}

/* Closing ends it at the next part. */
static void test_a_sweep_goes_on_part_by_part(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = 60000};
    faulty *f = faulty_open("memory:parts", &options, &client);
    f->sweep = never_done;
    hf_lock *lock = take(client, "x");
    while (parts < 3)
        pause_ms(1);
    hf_lock_close(lock);
    hf_close(client);
}

#define LATE 560

static struct {
    char name[16];
    hf_enter enter;
} lates[LATE];
static atomic_int n_lates;
static atomic_bool swallows;

/* Each first enter is kept back, its sender hears that the outcome is unknown. */
static hf_code keep_back(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    const struct faulty_step *taken = arg;
    if (!is_enter(call, arg) || !swallows)
        return HF_OK;
    int i = n_lates;
    if (i && strcmp(lates[i - 1].name, taken->name) == 0)
        return HF_UNKNOWN;
    lates[i].enter = *taken->step->enter;
    snprintf(lates[i].name, sizeof lates[i].name, "%s", taken->name);
    n_lates = i + 1;
    return HF_UNKNOWN;
}

static void land_late(const faulty *f)
{
    hf_error err;
    hf_step_reply reply;
    for (int i = 0; i < n_lates; i++) {
        hf_step step = {.enter = &lates[i].enter};
        assert_int_equal(f->inner->ops->step(f->inner, lates[i].name, &step, NULL, &reply, &err),
                         HF_OK);
    }
}

static void test_late_enters_of_a_session_that_lives_on(void **state)
{
    (void)state;
    hf_client *client, *next = open_client("memory:late", 10000);
    hf_options options = {.ttl_ms = 10000, .patience_ms = 1};
    char name[16];
    faulty *f = faulty_open("memory:late", &options, &client);
    f->before = keep_back;
    hf_lock *keep = take(client, "keep"); /* the session cannot be given up */
    swallows = true;
    for (int i = 0; i < LATE; i++) {
        snprintf(name, sizeof name, "s%03d", i);
        assert_int_not_equal(try_take(client, name, 0), HF_OK);
    }
    swallows = false;
    assert_int_equal(n_lates, LATE);
    land_late(f);
    for (int i = 0; i < LATE; i++)
        assert_int_equal(try_take(next, lates[i].name, SOON_MS), HF_OK);
    hf_error err;
    assert_int_equal(hf_lock_check(keep, NULL, &err), HF_OK);
    hf_lock_close(keep);
    hf_close(client);
    hf_close(next);
}

/* Its looks come often then. */
static void test_without_notices_it_polls(void **state)
{
    (void)state;
    hf_client *waiter, *holder = open_client("memory:deaf", 10000);
    faulty *f = faulty_open("memory:deaf", NULL, &waiter);
    pthread_t thread;
    void *got;
    f->is_deaf = true;
    hf_lock *lock = take(holder, "x");
    pthread_create(&thread, NULL, take_x, waiter);
    while (f->calls[FAULTY_LOOK] < 2)
        pause_ms(1);
    pthread_mutex_lock(&waiter->mutex);
    bool is_polling = waiter->hold->listener.is_polling;
    pthread_mutex_unlock(&waiter->mutex);
    assert_true(is_polling);
    hf_lock_close(lock);
    pthread_join(thread, &got);
    hf_lock_close(got);
    hf_close(waiter);
    hf_close(holder);
}

static bool is_poked(const struct ticker *ticker)
{
    struct pollfd fd = {ticker->poke_fd, POLLIN, 0};
    return poll(&fd, 1, 0) == 1;
}

/* It would go round and round otherwise. */
static void test_a_thread_that_was_poked_sleeps_again(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:poked", 10000);
    hf_lock *lock = take(client, "x");
    const struct ticker *ticker = &client->tickers.of[TICK_BEAT];
    assert_true(ticker->is_started);
    ticker_poke(client, TICK_BEAT);
    while (is_poked(ticker))
        pause_ms(1);
    hf_lock_close(lock);
    hf_close(client);
}

/* What it entered with, once it waits outside the queue. */
static hf_enter await_outside(hf_client *client)
{
    hf_enter enter = {.number = 0};
    for (; !enter.number; pause_ms(1)) {
        pthread_mutex_lock(&client->mutex);
        const struct lock_request *request = client->hold->requests;
        if (request && request->outside)
            enter = request->enter;
        pthread_mutex_unlock(&client->mutex);
    }
    return enter;
}

/* NULL: it had it soon. */
static void *take_x_soon(void *client)
{
    return try_take(client, "x", SOON_MS) ? client : NULL;
}

static atomic_bool is_swallowed;

static hf_code swallow_one(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (!is_enter(call, arg) || is_swallowed)
        return HF_OK;
    is_swallowed = true;
    return HF_UNKNOWN;
}

/* An earlier enter, which got no answer, arrives, is granted, and the queue is full. */
static void test_late_enters_of_one_that_waits_outside(void **state)
{
    (void)state;
    hf_client *waiter;
    faulty_open("memory:outside", &(hf_options){.ttl_ms = 10000}, &waiter)->before = swallow_one;
    hf_client *holder = open_client("memory:outside", 10000);
    pthread_t thread;
    void *failed;
    hf_step_reply reply;
    hf_error err;
    hf_lock *x = take(holder, "x");
    hf_id crowd = begin_dead(holder->store, 1, 3600000);
    waiter->queue_max = 1;
    enter_as(holder->store, "x", crowd, 1);
    pthread_create(&thread, NULL, take_x_soon, waiter);
    hf_enter late = await_outside(waiter);
    late.queue_max = HF_QUEUE_MAX;
    hf_step step = {.enter = &late};
    assert_int_equal(holder->store->ops->step(holder->store, "x", &step, NULL, &reply, &err),
                     HF_OK);
    enter_as(holder->store, "x", crowd, 2);
    leave_by(holder->store, "x", &(hf_leave){.ticket = {{0, 1}}});
    hf_lock_close(x);
    pthread_join(thread, &failed);
    assert_null(failed);
    hf_close(waiter);
    hf_close(holder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_grant_that_overtakes_the_answer_to_the_enter),
        cmocka_unit_test(test_a_look_is_no_older_than_what_it_was_told_of),
        cmocka_unit_test(test_who_hears_nothing_looks_by_itself),
        cmocka_unit_test(test_without_notices_it_polls),
        cmocka_unit_test(test_a_notice_of_an_old_ticket_grants_nothing),
        cmocka_unit_test(test_a_forged_notice_is_believed_for_a_moment),
        cmocka_unit_test(test_a_forged_block_is_believed_no_longer),
        cmocka_unit_test(test_the_second_forged_notice_is_believed_no_longer),
        cmocka_unit_test(test_an_older_look_takes_no_lock),
        cmocka_unit_test(test_a_limit_that_disagrees_with_one_s_own_lock),
        cmocka_unit_test(test_a_sweep_does_not_look_without_end),
        cmocka_unit_test(test_nothing_waits_behind_a_sweep),
        cmocka_unit_test(test_a_sweep_goes_on_part_by_part),
        cmocka_unit_test(test_late_enters_of_a_session_that_lives_on),
        cmocka_unit_test(test_late_enters_of_one_that_waits_outside),
        cmocka_unit_test(test_a_thread_that_was_poked_sleeps_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
