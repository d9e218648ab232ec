/* SPDX-License-Identifier: Apache-2.0 */
/* wait_cases.c: what is promised to waiters: their turn, an end in time, and that nothing of
 * them stays behind; run by main.c. */
#include "conformance/two_clients.h"

#include <poll.h>

static void test_a_time_out_leaves_nothing_behind(void **state)
{
    (void)state;
    const char *name = bed_name("timeout");
    const hf_lock_options brief = {.wait_ms = 200};
    hf_lock *lock = bed_acquire(one, name, NULL), *other = NULL;
    hf_error err;
    int64_t began = bed_now_ms(), began_idle = idle_ms();
    assert_code(HF_TIMEOUT, hf_lock_acquire(two, name, &brief, &other, &err), &err);
    assert_true(bed_now_ms() - began >= brief.wait_ms);
    assert_true(idle_ms() - began_idle < 3000);
    assert_contains(err.text, name);
    assert_null(other);
    bed_wait_queued(one, name, 0);
    bed_release(lock);
    assert_int_equal(bed_try(one, name, HF_EXCLUSIVE, &lock), HF_OK);
    bed_release(lock);
}

static void test_first_come_first_served(void **state)
{
    (void)state;
    enum { MANY = 6 };
    const char *name = bed_name("fifo");
    hf_client *a = bed_client_of_tickets("a", 5000), *b = bed_client_of_tickets("b", 5000);
    hf_lock *lock = bed_acquire(one, name, NULL);
    static struct taker takers[MANY];
    int64_t token = hf_lock_token(lock);
    for (int i = 0; i < MANY; i++) {
        taker_start(&takers[i], i % 3 ? a : b, name, NULL);
        bed_wait_queued(one, name, (size_t)i + 1);
    }
    bed_release(lock);
    for (int i = 0; i < MANY; i++) {
        taker_join(&takers[i]); /* if it is not its turn, this never ends in time */
        assert_code(HF_OK, takers[i].code, &takers[i].err);
        bed_rises(token, hf_lock_token(takers[i].lock));
        token = hf_lock_token(takers[i].lock);
        assert_true(hf_lock_waited_ms(takers[i].lock) >= 0);
        bed_release(takers[i].lock);
    }
    hf_close(a);
    hf_close(b);
}

static void test_a_waiting_writer_stops_new_readers(void **state)
{
    (void)state;
    const char *name = bed_name("writer");
    const hf_lock_options shared = {.mode = HF_SHARED};
    hf_lock *reader = bed_acquire(one, name, &shared), *late = NULL;
    static struct taker writer;
    taker_start(&writer, two, name, NULL);
    bed_wait_queued(one, name, 1);
    assert_int_equal(bed_try(one, name, HF_SHARED, &late), HF_HELD);
    bed_release(reader);
    taker_join(&writer);
    assert_code(HF_OK, writer.code, &writer.err);
    bed_release(writer.lock);
}

static void test_the_next_has_it_soon(void **state)
{
    (void)state;
    const char *name = bed_name("soon");
    int64_t most = 0;
    for (int i = 0; i < 5; i++) {
        hf_lock *lock = bed_acquire(one, name, NULL);
        static struct taker taker;
        taker_start(&taker, two, name, NULL);
        bed_wait_queued(one, name, 1);
        int64_t released = idle_ms();
        bed_release(lock);
        taker_join(&taker);
        assert_code(HF_OK, taker.code, &taker.err);
        int64_t took = taker.ended_idle_ms - released;
        most = took > most ? took : most;
        bed_release(taker.lock);
    }
    assert_in_range(most, 0, 2000);
}

/* Taken again it costs nothing; another session's request has it at once. */
static void test_a_lock_that_lingers_is_recalled(void **state)
{
    (void)state;
    const char *name = bed_name("lingers");
    const hf_lock_options lingering = {.linger_ms = 60000};
    int64_t token = 0;
    for (int i = 0; i < 100; i++) {
        hf_lock *lock = bed_acquire(one, name, &lingering);
        bed_rises(token, hf_lock_token(lock));
        token = hf_lock_token(lock);
        hf_lock_set_exit_status(lock, i);
        bed_release(lock);
    }
    int64_t began = idle_ms();
    hf_lock *lock = bed_acquire(two, name, NULL);
    assert_in_range(idle_ms() - began, 0, 2000);
    bed_rises(token, hf_lock_token(lock));
    assert_int_equal(bed_last(lock).token, token);
    assert_int_equal(bed_last(lock).exit_status, 99);
    bed_release(lock);
}

static void test_what_cannot_linger_says_so(void **state)
{
    (void)state;
    const hf_lock_options lingering = {.linger_ms = 1000},
                          shared = {.linger_ms = 1000, .permits = 1, .limit = 2};
    hf_lock *lock;
    hf_error err;
    const char *name = bed_name("cannot");
    if (bed.can & HF_CAN_QUEUE) {
        assert_code(HF_INVALID, hf_lock_acquire(one, name, &shared, &lock, &err), &err);
        return;
    }
    assert_code(HF_UNSUPPORTED, hf_lock_acquire(one, name, &lingering, &lock, &err), &err);
    assert_contains(err.text, "hfProtocol=queue");
}

static void test_cancel_ends_a_wait(void **state)
{
    (void)state;
    const char *name = bed_name("cancel");
    hf_cancel *cancel = NULL;
    hf_error err;
    assert_code(HF_OK, hf_cancel_new(&cancel, &err), &err);
    hf_lock *lock = bed_acquire(one, name, NULL), *other = NULL;
    const hf_lock_options options = {.cancel = cancel};
    static struct taker taker;
    taker_start(&taker, two, name, &options);
    bed_wait_queued(one, name, 1);
    int64_t fired = idle_ms();
    hf_cancel_fire(cancel);
    taker_join(&taker);
    assert_code(HF_CANCELLED, taker.code, &taker.err);
    assert_in_range(taker.ended_idle_ms - fired, 0, 3000);
    bed_wait_queued(one, name, 0);
    assert_code(HF_CANCELLED, hf_lock_acquire(two, name, &options, &other, &err), &err);
    bed_release(lock);
    hf_cancel_free(cancel);
    hf_cancel_free(NULL);
}

struct told {
    size_t n, position, queued, holders;
    char holder[HF_TEXT_MAX + 1], why[HF_TEXT_MAX + 1], name[64];
    int64_t held_since_ms;
};

static void tell(void *ctx, const hf_wait_info *info)
{
    struct told *told = ctx;
    told->n++;
    told->position = info->position;
    told->queued = info->queued;
    told->holders = info->n_holders;
    told->held_since_ms = info->held_since_ms;
    snprintf(told->holder, sizeof told->holder, "%s", info->holder);
    snprintf(told->why, sizeof told->why, "%s", info->why);
    snprintf(told->name, sizeof told->name, "%s", info->name);
}

static void test_who_waits_is_told_for_whom(void **state)
{
    (void)state;
    const char *name = bed_name("told");
    struct told told = {0};
    const hf_lock_options holding = {.why = "nightly"},
                          waiting = {.wait_ms = 1500, .on_wait = tell, .wait_ctx = &told};
    hf_lock *lock = bed_acquire(one, name, &holding), *other = NULL;
    assert_int_equal(hf_lock_acquire(two, name, &waiting, &other, NULL), HF_TIMEOUT);
    assert_in_range(told.n, 1, 5);
    assert_int_equal(told.position, 1);
    assert_int_equal(told.queued, 1);
    assert_int_equal(told.holders, 1);
    assert_string_equal(told.name, name);
    assert_contains(told.holder, "one@");
    assert_string_equal(told.why, "nightly");
    assert_true(told.held_since_ms > 1600000000000);
    bed_release(lock);
}

/* L4: a time-out that races with the grant ends as held or as given back. */
static void test_a_time_out_that_races_with_the_grant(void **state)
{
    (void)state;
    const char *name = bed_name("race");
    for (int i = 0; i < 15; i++) {
        hf_lock *lock = bed_acquire(one, name, NULL);
        static struct taker taker;
        taker_start(&taker, two, name, &(hf_lock_options){.wait_ms = 10 + i});
        poll(NULL, 0, 10);
        hf_code released = hf_lock_release(lock, NULL);
        assert_int_equal(released, HF_OK);
        hf_lock_close(lock);
        taker_join(&taker);
        if (taker.code == HF_OK)
            bed_release(taker.lock);
        else
            assert_code(HF_TIMEOUT, taker.code, &taker.err);
        bed_release(bed_acquire(one, name, NULL));
    }
}

/* ---- Threads ---- */

static int counter; /* nothing but the lock protects it */

struct counting {
    pthread_t thread;
    hf_client *client;
    const char *name;
    hf_code code;
};

static void *count(void *arg)
{
    struct counting *counting = arg;
    hf_lock_options options = {.wait_ms = 30000};
    for (int i = 0; i < 15 && !counting->code; i++) {
        hf_lock *lock;
        counting->code = hf_lock_acquire(counting->client, counting->name, &options, &lock, NULL);
        if (counting->code)
            break;
        volatile int *shared = &counter;
        int seen = *shared;
        sched_yield();
        *shared = seen + 1;
        if (i % 2)
            counting->code = hf_lock_release(lock, NULL);
        hf_lock_close(lock);
    }
    return NULL;
}

static void test_eight_threads_over_a_counter(void **state)
{
    (void)state;
    struct counting threads[8];
    const char *name = bed_name("counter");
    counter = 0;
    for (int i = 0; i < 8; i++) {
        threads[i] = (struct counting){.client = i % 2 ? one : two, .name = name};
        pthread_create(&threads[i].thread, NULL, count, &threads[i]);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i].thread, NULL);
    for (int i = 0; i < 8; i++)
        assert_code(HF_OK, threads[i].code, NULL);
    assert_int_equal(counter, 8 * 15);
}

/* A waiter behind others does not listen until its turn may have come; its turn must not come later
 * for that. */
static void test_a_round_of_waiters_is_quick(void **state)
{
    (void)state;
    enum { CLIENTS = 5 };
    struct counting threads[CLIENTS];
    const char *name = bed_name("round");
    int64_t began = idle_ms();
    counter = 0;
    for (int i = 0; i < CLIENTS; i++) {
        threads[i] = (struct counting){.client = bed_client("round", 5000), .name = name};
        pthread_create(&threads[i].thread, NULL, count, &threads[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i].thread, NULL);
        assert_code(HF_OK, threads[i].code, NULL);
        hf_close(threads[i].client);
    }
    assert_int_equal(counter, CLIENTS * 15);
    assert_in_range(idle_ms() - began, 0, 20000);
}

/* ---- Closing ---- */

static void test_close_ends_waits_in_bounded_time(void **state)
{
    (void)state;
    enum { MANY = 3 };
    const char *name = bed_name("closing");
    hf_client *third = bed_client_of_tickets("third", 5000);
    hf_lock *lock = bed_acquire(one, name, NULL);
    static struct taker takers[MANY];
    for (int i = 0; i < MANY; i++)
        taker_start(&takers[i], third, name, NULL);
    bed_wait_queued(one, name, MANY);
    int64_t began = idle_ms();
    hf_close(third);
    assert_in_range(idle_ms() - began, 0, 6000);
    for (int i = 0; i < MANY; i++) {
        taker_join(&takers[i]);
        assert_code(HF_CLOSED, takers[i].code, &takers[i].err);
    }
    bed_release(lock);
    assert_int_equal(bed_try(two, name, HF_EXCLUSIVE, &lock), HF_OK);
    bed_release(lock);
}

static void test_close_of_the_holder_hands_over(void **state)
{
    (void)state;
    const char *name = bed_name("handover");
    hf_client *third = bed_client("third", 30000);
    hf_lock *lock = bed_acquire(third, name, NULL);
    static struct taker taker;
    taker_start(&taker, two, name, NULL);
    bed_wait_queued(one, name, 1);
    int64_t began = idle_ms();
    hf_close(third);
    hf_lock_close(lock);
    taker_join(&taker);
    assert_code(HF_OK, taker.code, &taker.err);
    assert_in_range(taker.ended_idle_ms - began, 0, 8000); /* long before its ttl */
    bed_release(taker.lock);
}

/* ---- Elections ---- */

struct seen_leader {
    bool is_led;
    char who[96], value[96];
    int64_t token;
};

static bool see_leader(void *ctx, const hf_leader *leader)
{
    struct seen_leader *seen = ctx;
    *seen = (struct seen_leader){.is_led = leader != NULL};
    if (leader) {
        snprintf(seen->who, sizeof seen->who, "%s", leader->who);
        snprintf(seen->value, sizeof seen->value, "%s", leader->value);
        seen->token = leader->token;
    }
    return false;
}

static struct seen_leader leader_now(const char *name)
{
    struct seen_leader seen;
    hf_error err;
    hf_code code = hf_election_observe(two, name, see_leader, &seen, NULL, &err);
    assert_code(HF_OK, code, &err);
    return seen;
}

static void assert_leads(hf_election *election, const char *name)
{
    struct seen_leader seen = leader_now(name);
    assert_true(hf_election_is_leader(election, NULL, NULL));
    assert_true(seen.is_led);
    assert_true(seen.who[0]);
    assert_int_equal(seen.token, hf_election_token(election));
    if (bed.can & HF_CAN_QUEUE)
        assert_string_equal(seen.value, "here");
}

static void test_candidates_lead_one_after_the_other(void **state)
{
    (void)state;
    const char *name = bed_name("election");
    hf_election_options options = {.value = "here"};
    hf_campaign_options soon = {.wait_ms = BED_SOON}, now = {.wait_ms = HF_TRY};
    hf_election *first = NULL, *second = NULL;
    hf_error err;
    assert_code(HF_OK, hf_election_open(one, name, &options, &first, &err), &err);
    assert_code(HF_OK, hf_election_open(two, name, &options, &second, &err), &err);
    assert_false(leader_now(name).is_led);
    assert_code(HF_OK, hf_election_campaign(first, &now, &err), &err);
    assert_leads(first, name);
    assert_code(HF_HELD, hf_election_campaign(second, &now, &err), &err);
    assert_code(HF_OK, hf_election_resign(first, &err), &err);
    assert_code(HF_OK, hf_election_campaign(second, &soon, &err), &err);
    assert_leads(second, name);
    bed_rises(hf_election_token(first), hf_election_token(second));
    assert_false(hf_election_is_leader(first, NULL, NULL));
    assert_code(HF_OK, hf_election_resign(second, &err), &err);
    assert_false(leader_now(name).is_led);
    hf_election_close(first);
    hf_election_close(second);
}

int run_wait_cases(void)
{
    const struct bed_case wait_cases[] = {
        CASE(test_a_time_out_leaves_nothing_behind),
        CASE_IF(HF_CAN_QUEUE, test_first_come_first_served),
        CASE_IF(HF_CAN_SHARE, test_a_waiting_writer_stops_new_readers),
        CASE(test_the_next_has_it_soon),
        CASE_IF(HF_CAN_QUEUE | HF_CAN_NOTIFY, test_a_lock_that_lingers_is_recalled),
        CASE(test_what_cannot_linger_says_so),
        CASE(test_cancel_ends_a_wait),
        CASE_IF(HF_CAN_QUEUE, test_who_waits_is_told_for_whom),
        CASE(test_a_time_out_that_races_with_the_grant),
        CASE(test_eight_threads_over_a_counter),
        CASE_IF(HF_CAN_QUEUE, test_a_round_of_waiters_is_quick),
        CASE(test_close_ends_waits_in_bounded_time),
        CASE(test_close_of_the_holder_hands_over),
        CASE(test_candidates_lead_one_after_the_other),
    };
    return CASES(wait_cases);
}
