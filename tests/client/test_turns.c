/* SPDX-License-Identifier: Apache-2.0 */
/* test_turns.c: threads of one client stand in line behind one ticket, pass the lock on among them,
 * and give it up when another session waits; a lock that lingers is had again without a request. */
#include "client/client_bed.h"

#include "support/inside.h"

#include "core/id.h"

#include <unistd.h>

#define THREADS 8
#define TURNS 300

/* ---- Many threads ---- */

static atomic_int inside, worst, turns_taken;
static int counter; /* unprotected, but for the lock */
static atomic_llong last_token;

static void enter_and_leave(hf_client *client)
{
    hf_lock *lock = take(client, "x");
    if (atomic_fetch_add(&inside, 1))
        worst = 1;
    if (hf_lock_token(lock) <= last_token)
        worst = 2;
    last_token = hf_lock_token(lock);
    counter++;
    turns_taken++;
    usleep(10); /* so that the others come, and wait */
    atomic_fetch_sub(&inside, 1);
    if (counter % 2)
        assert_int_equal(hf_lock_release(lock, NULL), HF_OK);
    hf_lock_close(lock);
}

static void *take_turns(void *client)
{
    for (int i = 0; i < TURNS; i++)
        enter_and_leave(client);
    return NULL;
}

static void start_all(pthread_t threads[THREADS], void *(*work)(void *), hf_client *client)
{
    counter = 0;
    worst = 0;
    turns_taken = 0;
    last_token = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, client);
}

static void join_all(pthread_t threads[THREADS])
{
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void test_threads_pass_the_lock_on(void **state)
{
    (void)state;
    hf_client *client;
    pthread_t threads[THREADS];
    faulty *f = faulty_open("memory:pass", NULL, &client);
    season(client, "x");
    start_all(threads, take_turns, client);
    join_all(threads);
    assert_int_equal(worst, 0);
    assert_int_equal(counter, THREADS * TURNS);
    assert_true(f->calls[FAULTY_STEP] < THREADS * TURNS / 10);
    hf_close(client);
}

static atomic_bool is_over;

static void *take_turns_until_over(void *client)
{
    while (!is_over)
        enter_and_leave(client);
    return NULL;
}

static void test_another_session_has_its_turn(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:foreign", 10000);
    hf_client *other = open_client("memory:foreign", 10000);
    season(client, "x");
    pthread_t threads[THREADS];
    is_over = false;
    start_all(threads, take_turns_until_over, client);
    for (int i = 0; i < 20; i++) {
        hf_lock *lock = take(other, "x");
        assert_int_equal(inside, 0);
        assert_true(hf_lock_token(lock) > last_token);
        last_token = hf_lock_token(lock);
        int seen = turns_taken;
        pause_ms(5); /* nobody may come */
        assert_int_equal(turns_taken, seen);
        hf_lock_close(lock);
        while (turns_taken == seen)
            pause_ms(1);
    }
    is_over = true;
    join_all(threads);
    assert_int_equal(worst, 0);
    hf_close(client);
    hf_close(other);
}

/* ---- Recalled ---- */

struct taking {
    hf_client *client;
    int64_t wait_ms, linger_ms;
    hf_cancel *cancel;
    hf_code code;
    hf_lock *lock;
    pthread_t thread;
    atomic_bool has_ended;
    bool has_had_turn;
};

static void *take_it(void *arg)
{
    struct taking *taking = arg;
    hf_lock_options options = {
        .wait_ms = taking->wait_ms, .linger_ms = taking->linger_ms, .cancel = taking->cancel};
    hf_error err;
    taking->code = hf_lock_acquire(taking->client, "x", &options, &taking->lock, &err);
    taking->has_ended = true;
    return NULL;
}

static void start(struct taking *taking)
{
    pthread_create(&taking->thread, NULL, take_it, taking);
}

static size_t n_queued(faulty *f)
{
    return look_at(f->inner, "x").queued;
}

static void await_queued(faulty *f, size_t n)
{
    while (n_queued(f) != n)
        pause_ms(1);
}

static void end_turn(struct taking *taking)
{
    pthread_join(taking->thread, NULL);
    assert_int_equal(taking->code, HF_OK);
    hf_lock_close(taking->lock);
}

static void hand_over(hf_client *holder, faulty *f, struct taking *taking)
{
    hf_lock *held = take(holder, "x");
    start(taking);
    await_queued(f, 1);
    hf_lock_close(held);
    pthread_join(taking->thread, NULL);
    assert_int_equal(taking->code, HF_OK);
}

/* A ticket asks for a block of tokens; how many it was given, the notice of its grant says. */
static void test_a_grant_by_notice_has_the_tokens_that_were_given(void **state)
{
    (void)state;
    hf_client *client, *holder = open_client("memory:given", 10000);
    faulty *f = faulty_open("memory:given", NULL, &client);
    int looks;
    f->hides_blocks = true;
    do { /* once more, if a look has shown it: the machine was slow */
        struct taking taking = {.client = client, .linger_ms = 60000};
        looks = f->calls[FAULTY_LOOK];
        hand_over(holder, f, &taking);
        looks = f->calls[FAULTY_LOOK] - looks;
        if (!looks)
            assert_false(taking.lock->turn.has_block);
        assert_int_equal(hf_lock_release(taking.lock, NULL), HF_OK);
        hf_lock_close(taking.lock);
    } while (looks);
    hf_close(client);
    hf_close(holder);
}

static const hf_lock_options lingering = {.linger_ms = 60000};

static hf_lock *take_lingering(hf_client *client, const hf_lock_options *options)
{
    hf_lock *lock;
    hf_error err;
    assert_int_equal(hf_lock_acquire(client, "x", options, &lock, &err), HF_OK);
    return lock;
}

static size_t n_in_line(hf_client *client)
{
    size_t n = 0;
    pthread_mutex_lock(&client->mutex);
    for (struct lock_request *at = client->hold->requests; at; at = at->next)
        n += at->place.in_line != NULL;
    pthread_mutex_unlock(&client->mutex);
    return n;
}

static void await_in_line(hf_client *client, size_t n)
{
    while (n_in_line(client) != n)
        pause_ms(1);
}

/* Until a thread of this client stands in line behind the one that has the lock; or, where the line
 * is not served any more, because the other session has waited for too long, in the queue. */
static bool await_behind(faulty *f, hf_client *client)
{
    while (!n_in_line(client) && n_queued(f) < 2)
        pause_ms(1);
    return n_in_line(client) > 0;
}

static void await_recall(hf_client *client)
{
    for (bool is_recalled = false; !is_recalled; pause_ms(1)) {
        pthread_mutex_lock(&client->mutex);
        is_recalled = !turns_may_be_recalled_locked(client);
        pthread_mutex_unlock(&client->mutex);
    }
}

/* Whether that one has the lock, or the other one. */
static bool is_first(struct taking *one, struct taking *other)
{
    while (!one->has_ended && !other->has_ended)
        pause_ms(1);
    return one->has_ended;
}

/* Has each that has the lock give it up, until the other session has it: how many turns that took.
 */
static int turns_before(struct taking *theirs, struct taking line[], size_t n)
{
    int turns = 0;
    while (!theirs->has_ended) {
        for (size_t i = 0; i < n; i++) {
            if (!line[i].has_ended || line[i].has_had_turn)
                continue;
            end_turn(&line[i]);
            line[i].has_had_turn = true;
            turns++;
        }
        pause_ms(0);
    }
    return turns;
}

/* With a machine so slow that the recall is long ago there are fewer. */
static void test_another_session_comes_behind_a_few_turns(void **state)
{
    (void)state;
    enum { BOUND = 2, IN_LINE = 6 };
    hf_client *client, *other = open_client("memory:bound", 60000);
    hf_options options = {.ttl_ms = 60000, .local_turns = BOUND};
    faulty_open("memory:bound", &options, &client);
    struct taking theirs = {.client = other}, line[IN_LINE];
    season(client, "x");
    hf_lock *lock = take_lingering(client, &lingering);
    assert_true(lock->turn.has_block);
    for (size_t i = 0; i < IN_LINE; i++) {
        line[i] = (struct taking){.client = client};
        start(&line[i]);
        await_in_line(client, i + 1);
    }
    start(&theirs);
    await_recall(client);
    hf_lock_close(lock);
    assert_true(turns_before(&theirs, line, IN_LINE) <= BOUND);
    end_turn(&theirs);
    for (size_t i = 0; i < IN_LINE; i++)
        if (!line[i].has_had_turn)
            end_turn(&line[i]);
    hf_close(client);
    hf_close(other);
}

/* How many steps it takes to leave the lock to another session and to wait for it again; 2, too,
 * where the machine was so slow that the other session had it sooner, or later. */
static int steps_to_yield(faulty *f, hf_client *client, hf_client *other)
{
    struct taking theirs = {.client = other}, last_turn = {.client = client};
    struct taking next = {.client = client};
    hf_lock *lock = take_lingering(client, &lingering);
    start(&theirs);
    await_queued(f, 1);
    start(&last_turn);
    await_behind(f, client);
    hf_lock_close(lock);
    if (!is_first(&last_turn, &theirs)) {
        end_turn(&theirs);
        end_turn(&last_turn);
        return 2;
    }
    pthread_join(last_turn.thread, NULL);
    start(&next);
    bool is_behind = await_behind(f, client);
    int before = f->calls[FAULTY_STEP];
    hf_lock_close(last_turn.lock);
    if (!is_first(&theirs, &next)) {
        end_turn(&next);
        end_turn(&theirs);
        return 2;
    }
    await_queued(f, 1);
    int steps = f->calls[FAULTY_STEP] - before;
    end_turn(&theirs);
    end_turn(&next);
    return is_behind ? steps : 2;
}

/* But where the machine takes a tenth of a second for that. */
static void test_a_recalled_line_leaves_and_waits_again_in_one_step(void **state)
{
    (void)state;
    hf_client *client, *other = open_client("memory:yield", 10000);
    hf_options options = {.ttl_ms = 10000, .local_turns = 1};
    faulty *f = faulty_open("memory:yield", &options, &client);
    season(client, "x");
    int steps = 2;
    for (int i = 0; i < 1000 && steps > 1; i++)
        steps = steps_to_yield(f, client, other);
    assert_int_equal(steps, 1);
    hf_close(client);
    hf_close(other);
}

static void test_a_line_does_not_wait_for_a_long_turn(void **state)
{
    (void)state;
    hf_client *client, *other = open_client("memory:long", 10000);
    faulty *f = faulty_open("memory:long", NULL, &client);
    struct taking theirs = {.client = other}, next = {.client = client};
    season(client, "x");
    hf_lock *lock = take_lingering(client, &lingering);
    start(&next);
    start(&theirs);
    int64_t began = idle_ms();
    await_queued(f, 2);
    assert_true(idle_ms() - began < 1000);
    hf_lock_close(lock);
    end_turn(&theirs);
    end_turn(&next);
    hf_close(client);
    hf_close(other);
}

static bool is_pass(faulty_call call, const void *arg)
{
    return call == FAULTY_STEP && ((const struct faulty_step *)arg)->step->pass != NULL;
}

static atomic_bool has_passed;

/* The first pass lands and is not answered; no other comes through. */
static hf_code refuse_more_passes(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    return is_pass(call, arg) && has_passed ? HF_UNREACHABLE : HF_OK;
}

static hf_code lose_the_pass(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    return is_pass(call, arg) && !atomic_exchange(&has_passed, true) ? HF_UNKNOWN : HF_OK;
}

static void *take_lease(void *arg)
{
    struct taking *taking = arg;
    hf_lease lease;
    hf_error err;
    taking->code = hf_lease_acquire(taking->client, "x", NULL, &lease, &err);
    return NULL;
}

/* The next in line behind it enters anew, and what both tickets stood for is left first. */
static void test_a_lock_that_may_have_become_a_lease_is_not_passed_on(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = 10000, .patience_ms = 300};
    faulty *f = faulty_open("memory:doubt", &options, &client);
    struct taking lease = {.client = client}, next = {.client = client};
    f->before = refuse_more_passes;
    f->after = lose_the_pass;
    season(client, "x");
    hf_lock *lock = take(client, "x");
    pthread_create(&lease.thread, NULL, take_lease, &lease);
    await_queued(f, 1);
    start(&next);
    await_in_line(client, 1);
    hf_lock_close(lock);
    pthread_join(lease.thread, NULL);
    pthread_join(next.thread, NULL);
    assert_true(has_passed);
    assert_int_not_equal(lease.code, HF_OK);
    assert_int_equal(next.code, HF_OK);
    assert_true(id_equal(look_at(f->inner, "x").holder.ticket, next.lock->grant.ticket));
    hf_lock_close(next.lock);
    hf_close(client);
}

/* ---- One line, one ticket ---- */

static void test_a_leader_that_gives_up_leaves_its_place_to_the_next(void **state)
{
    (void)state;
    hf_client *holder = open_client("memory:heir", 10000);
    hf_client *last = open_client("memory:heir", 10000), *client;
    faulty *f = faulty_open("memory:heir", NULL, &client);
    hf_lock *lock = take(holder, "x");
    struct taking leader = {.client = client}, heir = {.client = client};
    struct taking behind = {.client = last};
    hf_error err;
    assert_int_equal(hf_cancel_new(&leader.cancel, &err), HF_OK);
    start(&leader);
    await_queued(f, 1);
    start(&heir);
    await_in_line(client, 1);
    start(&behind);
    await_queued(f, 2);
    hf_cancel_fire(leader.cancel);
    pthread_join(leader.thread, NULL);
    assert_int_equal(leader.code, HF_CANCELLED);
    hf_cancel_free(leader.cancel);
    assert_int_equal(n_queued(f), 2);
    hf_lock_close(lock);
    pthread_join(heir.thread, NULL);
    assert_int_equal(heir.code, HF_OK);
    assert_int_equal(n_queued(f), 1);
    hf_lock_close(heir.lock);
    pthread_join(behind.thread, NULL);
    assert_int_equal(behind.code, HF_OK);
    hf_lock_close(behind.lock);
    hf_close(client);
    hf_close(last);
    hf_close(holder);
}

static void test_one_in_line_gives_up_without_a_request(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open("memory:quit", NULL, &client);
    hf_lock *lock = take(client, "x");
    struct taking leader = {.client = client}, in_line = {.client = client, .wait_ms = 100};
    start(&leader);
    await_queued(f, 1);
    int before = f->calls[FAULTY_STEP];
    start(&in_line);
    pthread_join(in_line.thread, NULL);
    assert_int_equal(in_line.code, HF_TIMEOUT);
    assert_int_equal(f->calls[FAULTY_STEP], before);
    hf_lock_close(lock);
    pthread_join(leader.thread, NULL);
    assert_int_equal(leader.code, HF_OK);
    hf_lock_close(leader.lock);
    hf_close(client);
}

static void assert_gives_up_because_of(hf_client *client, const char *whom)
{
    hf_lock *lock;
    hf_error err = {.code = HF_OK};
    /* a slow machine does not come to stand in line at once */
    for (int64_t ms = 50; !strstr(err.text, whom) && ms < SOON_MS; ms *= 2) {
        const hf_lock_options options = {.wait_ms = ms};
        assert_int_equal(hf_lock_acquire(client, "x", &options, &lock, &err), HF_TIMEOUT);
    }
    assert_non_null(strstr(err.text, whom));
}

static void begin_waiting(struct attempt *attempt, hf_client *client,
                          const hf_lock_options *options)
{
    attempt_init(attempt, client, "x", options);
    attempt_step(attempt, client_now(client));
}

/* Between its time-out and its thread's next step, neither a ticket nor the lock comes to it. */
static void test_who_has_given_up_stands_in_no_line(void **state)
{
    (void)state;
    enum { BRIEF_MS = 300 };
    hf_client *client, *other = open_client("memory:ended", 10000);
    struct attempt first, second, third;
    const hf_lock_options brief = {.wait_ms = BRIEF_MS};
    faulty *f = faulty_open("memory:ended", NULL, &client);
    season(other, "x");
    hf_lock *x = take(other, "x");
    begin_waiting(&first, client, &brief);
    begin_waiting(&second, client, &brief);
    assert_int_equal(look_at(f->inner, "x").queued, 1);
    hf_mono late = mono_add_ms(client_now(client), BRIEF_MS);
    attempt_step(&second, late);
    attempt_step(&first, late); /* its ticket would be the second one's */
    assert_int_equal(first.code, HF_TIMEOUT);
    assert_int_equal(second.code, HF_TIMEOUT);
    attempt_done(&first);
    attempt_done(&second);
    assert_int_equal(look_at(f->inner, "x").queued, 0);
    hf_lock_close(x);
    hf_close(other);
    /* the same, of the lock itself, once its tokens are enough for those in line */
    hf_lock_options linger = {.linger_ms = 5000};
    hf_error err;
    assert_int_equal(hf_lock_acquire(client, "x", &linger, &x, &err), HF_OK);
    assert_true(x->turn.has_block);
    begin_waiting(&third, client, &brief);
    attempt_step(&third, mono_add_ms(client_now(client), BRIEF_MS));
    assert_int_equal(third.code, HF_TIMEOUT);
    assert_int_equal(hf_lock_release(x, &err), HF_OK);
    assert_null(third.request.lock);
    attempt_done(&third);
    hf_lock_close(x);
    assert_int_equal(try_take(client, "x", HF_TRY), HF_OK);
    hf_close(client);
}

static void test_who_is_in_line_says_who_has_it(void **state)
{
    (void)state;
    hf_client *client, *other = open_client("memory:whom", 10000);
    faulty *f = faulty_open("memory:whom", NULL, &client);
    hf_lock *lock = take(other, "x");
    struct taking leader = {.client = client};
    start(&leader);
    await_queued(f, 1);
    assert_gives_up_because_of(client, "test_turns@"); /* as the leader has seen */
    hf_lock_close(lock);
    pthread_join(leader.thread, NULL);
    struct taking next = {.client = client};
    start(&next);
    await_queued(f, 1);
    assert_gives_up_because_of(client, "this very process");
    hf_lock_close(leader.lock);
    pthread_join(next.thread, NULL);
    hf_lock_close(next.lock);
    hf_close(client);
    hf_close(other);
}

/* Which does not hold it either. */
static void test_a_try_while_another_thread_waits(void **state)
{
    (void)state;
    hf_error err;
    hf_client *client, *holder = open_client("memory:try-behind", 10000);
    hf_lock_options options = {.wait_ms = HF_TRY};
    faulty *f = faulty_open("memory:try-behind", NULL, &client);
    hf_lock *lock = take(holder, "x"), *other;
    struct taking leader = {.client = client};
    start(&leader);
    await_queued(f, 1);
    assert_int_equal(hf_lock_acquire(client, "x", &options, &other, &err), HF_HELD);
    if (!strstr(err.text, "held by test_turns@")) /* the leader has not looked yet */
        assert_non_null(strstr(err.text, "held by another session"));
    hf_lock_close(lock);
    pthread_join(leader.thread, NULL);
    hf_lock_close(leader.lock);
    hf_close(client);
    hf_close(holder);
}

static void test_a_try_while_another_thread_holds(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    hf_lock_options options = {.wait_ms = HF_TRY};
    faulty *f = faulty_open("memory:try", NULL, &client);
    hf_lock *lock = take(client, "x"), *other;
    int before = f->calls[FAULTY_STEP];
    assert_int_equal(hf_lock_acquire(client, "x", &options, &other, &err), HF_HELD);
    assert_non_null(strstr(err.text, "this very process"));
    assert_int_equal(f->calls[FAULTY_STEP], before);
    hf_lock_close(lock);
    hf_close(client);
}

/* A wait of a thread that holds something shows in the store, for the search for deadlocks. */
static void test_who_holds_something_waits_with_a_ticket_of_its_own(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open("memory:own", NULL, &client);
    hf_lock *lock = take(client, "x"), *y = take(client, "y");
    struct taking leader = {.client = client};
    start(&leader);
    await_queued(f, 1);
    assert_int_equal(n_queued(f), 1);
    int before = f->calls[FAULTY_STEP]; /* a slow machine does not come to it at once */
    for (int64_t ms = 100; f->calls[FAULTY_STEP] == before && ms < SOON_MS; ms *= 2)
        assert_int_equal(try_take(client, "x", ms), HF_TIMEOUT);
    assert_true(f->calls[FAULTY_STEP] > before);
    hf_lock_close(lock);
    pthread_join(leader.thread, NULL);
    hf_lock_close(leader.lock);
    hf_lock_close(y);
    hf_close(client);
}

/* Shared, it is not passed on as an exclusive one, and does not linger. */
static void test_a_lock_that_was_downgraded_is_not_passed_on(void **state)
{
    (void)state;
    hf_client *client, *other = open_client("memory:downgraded", 10000);
    hf_error err;
    faulty *f = faulty_open("memory:downgraded", NULL, &client);
    const hf_lock_options shared = {.mode = HF_SHARED};
    hf_lock *reader;
    season(client, "x");
    hf_lock *lock = take_lingering(client, &lingering);
    struct taking writer = {.client = client};
    start(&writer);
    await_in_line(client, 1);
    assert_int_equal(n_queued(f), 0);
    assert_int_equal(hf_lock_acquire(other, "y", NULL, &reader, &err), HF_OK);
    hf_lock_close(reader);
    assert_int_equal(hf_lock_downgrade(lock, &err), HF_OK);
    await_queued(f, 1);
    hf_lock_close(lock);
    pthread_join(writer.thread, NULL);
    assert_int_equal(writer.code, HF_OK);
    hf_lock_close(writer.lock);
    assert_int_equal(hf_lock_acquire(other, "x", &shared, &reader, &err), HF_OK);
    hf_lock_close(reader);
    hf_close(client);
    hf_close(other);
}

/* What stood in line has entered with nothing; the upgrade must know its session all the same. */
static void test_a_lock_that_was_passed_on_can_be_upgraded(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    faulty *f = faulty_open("memory:passed", NULL, &client);
    season(client, "x");
    hf_lock *lock = take_lingering(client, &lingering);
    hf_id session = look_at(f->inner, "x").holder.session;
    struct taking next = {.client = client};
    start(&next);
    await_in_line(client, 1);
    int before = f->calls[FAULTY_STEP];
    hf_lock_close(lock);
    pthread_join(next.thread, NULL);
    assert_int_equal(f->calls[FAULTY_STEP], before);
    assert_int_equal(hf_lock_downgrade(next.lock, &err), HF_OK);
    assert_int_equal(hf_lock_upgrade(next.lock, &err), HF_OK);
    assert_true(id_equal(look_at(f->inner, "x").holder.session, session));
    hf_lock_close(next.lock);
    hf_close(client);
}

/* ---- Linger ---- */

static void test_a_lingering_lock_is_had_again_without_a_request(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    hf_options rarely = {.ttl_ms = 3600000}; /* looks after it by itself */
    faulty *f = faulty_open("memory:linger", &rarely, &client);
    season(client, "x");
    int before = f->calls[FAULTY_STEP];
    int64_t token = 0;
    for (int i = 0; i < 1000; i++) {
        hf_lock *lock = take_lingering(client, &lingering);
        assert_true(hf_lock_token(lock) > token);
        token = hf_lock_token(lock);
        hf_last last;
        assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
        if (i) {
            assert_int_equal(last.exit_status, i - 1);
            assert_int_equal(last.token, token - 1);
        }
        hf_lock_set_exit_status(lock, i);
        assert_int_equal(hf_lock_release(lock, &err), HF_OK);
        assert_int_equal(hf_lock_check(lock, NULL, &err), HF_LOST);
        hf_lock_close(lock);
    }
    assert_int_equal(f->calls[FAULTY_STEP], before + 1);
    assert_int_equal(f->calls[FAULTY_LOOK], 0);
    hf_close(client);
}

/* Its ticket was used before it was taken again: by the work whose end is told here. */
static void test_a_lingering_lock_that_is_given_back_tells_of_its_last_work(void **state)
{
    (void)state;
    hf_client *client, *other;
    hf_error err;
    hf_last last;
    const char *both[] = {"x", "y"};
    hf_lock *locks[2];
    const hf_lock_options at_once = {.wait_ms = HF_TRY};
    faulty_open("memory:return", NULL, &client);
    assert_int_equal(hf_open("memory:return", NULL, &other, &err), HF_OK);
    season(client, "x");
    hf_lock *held = take(other, "y"), *lock = take_lingering(client, &lingering);
    int64_t token = hf_lock_token(lock);
    hf_lock_set_exit_status(lock, 7);
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    hf_lock_close(lock);
    assert_int_equal(hf_lock_acquire_all(client, both, 2, &at_once, locks, &err), HF_HELD);
    lock = take(other, "x");
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
    assert_int_equal(last.token, token);
    assert_int_equal(last.outcome, HF_OUTCOME_RELEASED);
    assert_true(last.has_exit_status);
    assert_int_equal(last.exit_status, 7);
    hf_lock_close(lock);
    hf_lock_close(held);
    hf_close(other);
    hf_close(client);
}

static void test_a_lingering_lock_is_recalled(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:recall", 60000); /* looks after it by itself rarely */
    hf_client *other = open_client("memory:recall", 60000);
    const hf_lock_options options = {.linger_ms = 20000};
    season(client, "x");
    for (int i = 0; i < 10; i++) {
        hf_lock *lock = take_lingering(client, &options);
        int64_t token = hf_lock_token(lock);
        hf_lock_set_exit_status(lock, 5);
        hf_lock_close(lock);
        int64_t began = idle_ms();
        lock = take(other, "x");
        assert_true(idle_ms() - began < 500);
        assert_true(hf_lock_token(lock) > token);
        hf_last last;
        hf_error err;
        assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
        assert_int_equal(last.exit_status, 5);
        assert_int_equal(last.token, token);
        hf_lock_close(lock);
    }
    hf_close(client);
    hf_close(other);
}

static bool say_nothing(faulty *f, hf_notice *out)
{
    (void)f;
    *out = (hf_notice){.kind = HF_NOTICE_GRANT};
    pause_ms(20);
    return true;
}

/* A holder looks after its ticket, and sees the waiters. */
static void test_a_lost_recall_costs_a_third_of_the_ttl(void **state)
{
    (void)state;
    hf_client *client, *other = open_client("memory:deaf", 3000);
    hf_options options = {.ttl_ms = 3000};
    faulty *f = faulty_open("memory:deaf", &options, &client);
    f->notice = say_nothing;
    season(client, "x");
    hf_lock_close(take_lingering(client, &lingering));
    int64_t began = idle_ms();
    assert_int_equal(try_take(other, "x", SOON_MS), HF_OK);
    assert_true(idle_ms() - began < 2500);
    hf_close(client);
    hf_close(other);
}

static void test_lingering_ends(void **state)
{
    (void)state;
    hf_client *client;
    hf_lock_options options = {.linger_ms = 300};
    faulty *f = faulty_open("memory:ends", NULL, &client);
    season(client, "x");
    int64_t began = now_ms();
    hf_lock_close(take_lingering(client, &options));
    while (look_at(f->inner, "x").holders)
        pause_ms(1);
    assert_true(now_ms() - began >= options.linger_ms);
    hf_lock_close(take_lingering(client, &options));
    hf_close(client); /* gives it up, too */
    hf_client *next = open_client("memory:ends", 10000);
    assert_int_equal(try_take(next, "x", HF_TRY), HF_OK);
    hf_close(next);
}

static atomic_bool refuses_beats;

static hf_code refuse_beats(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_BEAT && refuses_beats ? HF_UNREACHABLE : HF_OK;
}

static void await_session_lost(hf_client *client)
{
    for (bool is_alive = true; is_alive; pause_ms(5)) {
        pthread_mutex_lock(&client->mutex);
        is_alive = client->session.state == SESSION_ALIVE;
        pthread_mutex_unlock(&client->mutex);
    }
}

static void test_a_lingering_lock_ends_with_the_lease(void **state)
{
    (void)state;
    hf_client *client, *other = open_client("memory:lease", 2000);
    hf_options options = {.ttl_ms = 2000};
    faulty *f = faulty_open("memory:lease", &options, &client);
    f->before = refuse_beats;
    season(client, "x");
    hf_lock *lock = take_lingering(client, &lingering);
    int64_t token = hf_lock_token(lock);
    hf_lock_close(lock);
    refuses_beats = true;
    await_session_lost(client);
    refuses_beats = false;
    lock = take_lingering(client, &lingering); /* in a new session */
    assert_true(hf_lock_token(lock) > token);
    hf_lock_close(lock);
    assert_int_equal(try_take(other, "x", SOON_MS), HF_OK);
    hf_close(client);
    hf_close(other);
}

static void test_a_lingering_lock_can_be_broken(void **state)
{
    (void)state;
    hf_client *client, *other = open_client("memory:break", 2000);
    hf_options own = {.ttl_ms = 2000};
    faulty *f = faulty_open("memory:break", &own, &client);
    hf_break_options options = {.reason = "why not"};
    hf_error err;
    season(client, "x");
    hf_lock_close(take_lingering(client, &lingering));
    assert_int_equal(hf_break(other, "x", &options, &err), HF_OK);
    hf_lock *lock = take(other, "x");
    hf_last last;
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
    assert_int_equal(last.outcome, HF_OUTCOME_RELEASED); /* nobody was at work */
    await_beat(f, client);
    assert_int_equal(try_take(client, "x", HF_TRY), HF_HELD);
    hf_lock_close(lock);
    hf_close(client);
    hf_close(other);
}

static void test_what_cannot_linger(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:cannot", 1000);
    hf_lock *lock;
    hf_error err;
    const hf_lock_options wrong[] = {{.linger_ms = -1},
                                     {.linger_ms = 3600001},
                                     {.linger_ms = 1, .mode = HF_SHARED},
                                     {.linger_ms = 1, .permits = 1, .limit = 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(hf_lock_acquire(client, "x", &wrong[i], &lock, &err), HF_INVALID);
    hf_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_recalled_line_leaves_and_waits_again_in_one_step),
        cmocka_unit_test(test_a_line_does_not_wait_for_a_long_turn),
        cmocka_unit_test(test_a_lock_that_may_have_become_a_lease_is_not_passed_on),
        cmocka_unit_test(test_threads_pass_the_lock_on),
        cmocka_unit_test(test_another_session_has_its_turn),
        cmocka_unit_test(test_another_session_comes_behind_a_few_turns),
        cmocka_unit_test(test_a_leader_that_gives_up_leaves_its_place_to_the_next),
        cmocka_unit_test(test_a_grant_by_notice_has_the_tokens_that_were_given),
        cmocka_unit_test(test_one_in_line_gives_up_without_a_request),
        cmocka_unit_test(test_who_has_given_up_stands_in_no_line),
        cmocka_unit_test(test_who_is_in_line_says_who_has_it),
        cmocka_unit_test(test_a_try_while_another_thread_waits),
        cmocka_unit_test(test_a_try_while_another_thread_holds),
        cmocka_unit_test(test_who_holds_something_waits_with_a_ticket_of_its_own),
        cmocka_unit_test(test_a_lock_that_was_downgraded_is_not_passed_on),
        cmocka_unit_test(test_a_lock_that_was_passed_on_can_be_upgraded),
        cmocka_unit_test(test_a_lingering_lock_is_had_again_without_a_request),
        cmocka_unit_test(test_a_lingering_lock_that_is_given_back_tells_of_its_last_work),
        cmocka_unit_test(test_a_lingering_lock_is_recalled),
        cmocka_unit_test(test_a_lost_recall_costs_a_third_of_the_ttl),
        cmocka_unit_test(test_lingering_ends),
        cmocka_unit_test(test_a_lingering_lock_ends_with_the_lease),
        cmocka_unit_test(test_a_lingering_lock_can_be_broken),
        cmocka_unit_test(test_what_cannot_linger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
