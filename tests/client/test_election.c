/* SPDX-License-Identifier: Apache-2.0 */
/* test_election.c: one candidate leads at a time, each knows whether it does, and observers are
 * told who does. */
#include "client/client_bed.h"

#include <sys/wait.h>
#include <unistd.h>

static hf_election *candidate(hf_client *client, const char *value)
{
    hf_election *election;
    hf_error err;
    hf_election_options options = {.value = value};
    assert_int_equal(hf_election_open(client, "x", &options, &election, &err), HF_OK);
    return election;
}

static hf_code campaign(hf_election *election, int64_t wait_ms)
{
    hf_campaign_options options = {.wait_ms = wait_ms};
    hf_error err;
    return hf_election_campaign(election, &options, &err);
}

static void assert_is_no_leader(hf_election *election)
{
    int64_t left = -1;
    hf_error err;
    assert_false(hf_election_is_leader(election, &left, &err));
    assert_int_equal(err.code, HF_LOST);
    assert_true(err.text[0]);
    assert_true(left >= 0);
}

/* ---- Candidates ---- */

static void test_who_campaigns_leads_and_the_others_do_not(void **state)
{
    (void)state;
    int64_t left = 0;
    hf_client *client = open_client("memory:leads", 5000);
    hf_election *one = candidate(client, "one"), *two = candidate(client, "two");
    assert_is_no_leader(one);
    assert_int_equal(hf_election_token(one), 0);
    assert_null(hf_election_lock(one));
    assert_int_equal(campaign(one, HF_TRY), HF_OK);
    assert_true(hf_election_is_leader(one, &left, NULL));
    assert_true(left > 0 && left <= 5000);
    assert_int_equal(campaign(two, HF_TRY), HF_HELD);
    assert_int_equal(campaign(two, 20), HF_TIMEOUT);
    assert_is_no_leader(two);
    hf_election_close(two);
    hf_election_close(one);
    hf_close(client);
}

static void test_who_leads_already_does_not_wait(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:already", 5000);
    hf_election *one = candidate(client, NULL);
    assert_int_equal(campaign(one, HF_WAIT_DEFAULT), HF_OK);
    int64_t token = hf_election_token(one);
    assert_true(token > 0);
    assert_int_equal(campaign(one, HF_WAIT_DEFAULT), HF_OK);
    assert_int_equal(hf_election_token(one), token);
    hf_election_close(one);
    hf_close(client);
}

struct campaigner {
    hf_election *election;
    hf_cancel *cancel;
    pthread_t thread;
    hf_code code;
};

static void *run_campaign(void *arg)
{
    struct campaigner *c = arg;
    hf_campaign_options options = {.cancel = c->cancel};
    c->code = hf_election_campaign(c->election, &options, NULL);
    return NULL;
}

static size_t queued;

static bool count_queue(void *ctx, const hf_lock_info *info)
{
    (void)ctx;
    queued = info->n_queue;
    return true;
}

/* Campaigns in a thread; returns when it waits in line. */
static void start_campaign(struct campaigner *c, hf_client *client)
{
    hf_error err;
    pthread_create(&c->thread, NULL, run_campaign, c);
    queued = 0;
    for (; !queued; pause_ms(2))
        hf_show(client, "x", count_queue, NULL, &err);
}

static void test_resigning_lets_the_next_in_line_lead(void **state)
{
    (void)state;
    hf_error err;
    hf_client *client = open_client("memory:resign", 60000),
              *next = open_client("memory:resign", 0);
    hf_election *one = candidate(client, "one");
    struct campaigner two = {.election = candidate(next, "two")};
    assert_int_equal(hf_election_resign(one, &err), HF_OK); /* nothing to give up */
    assert_int_equal(campaign(one, HF_TRY), HF_OK);
    start_campaign(&two, client);
    hf_lock_set_exit_status(hf_election_lock(one), 7);
    assert_int_equal(hf_election_resign(one, &err), HF_OK);
    assert_is_no_leader(one);
    assert_null(hf_election_lock(one));
    pthread_join(two.thread, NULL);
    assert_int_equal(two.code, HF_OK);
    assert_true(hf_election_token(two.election) > hf_election_token(one));
    hf_last last;
    assert_int_equal(hf_lock_previous(hf_election_lock(two.election), &last, &err), HF_OK);
    assert_int_equal(last.exit_status, 7);
    hf_election_close(two.election);
    assert_int_equal(campaign(one, SOON_MS), HF_OK); /* its close has given it up */
    hf_election_close(one);
    hf_close(next);
    hf_close(client);
}

static void test_a_campaign_ends_by_its_cancel_only(void **state)
{
    (void)state;
    hf_error err;
    hf_client *client = open_client("memory:cancel", 60000);
    hf_election *leader = candidate(client, NULL);
    struct campaigner two = {.election = candidate(client, NULL)};
    assert_int_equal(hf_cancel_new(&two.cancel, &err), HF_OK);
    assert_int_equal(campaign(leader, HF_TRY), HF_OK);
    start_campaign(&two, client);
    assert_int_equal(campaign(two.election, HF_TRY), HF_INVALID); /* one thread at a time */
    assert_int_equal(hf_election_resign(two.election, &err), HF_OK);
    assert_is_no_leader(two.election); /* asks without waiting for the campaign */
    hf_cancel_fire(two.cancel);
    pthread_join(two.thread, NULL);
    assert_int_equal(two.code, HF_CANCELLED);
    assert_true(hf_election_is_leader(leader, NULL, &err));
    hf_election_close(two.election);
    hf_election_close(leader);
    hf_cancel_free(two.cancel);
    hf_close(client);
}

static atomic_bool is_cut;
static atomic_llong left_when_told;

static hf_code cut_beats(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_BEAT && is_cut ? HF_UNREACHABLE : HF_OK;
}

static void note_loss(void *ctx, hf_lock *lock, const hf_error *why, int64_t left)
{
    hf_election *election = *(hf_election **)ctx;
    (void)why;
    if (hf_election_lock(election) == lock && !hf_election_is_leader(election, NULL, NULL))
        left_when_told = left;
}

static void test_a_lost_leader_knows_it_and_may_campaign_again(void **state)
{
    (void)state;
    hf_error err;
    hf_client *loser, *other = open_client("memory:lost", 8000);
    hf_options options = {.ttl_ms = 8000, .stop_margin_ms = 4000};
    hf_election *one, *two = candidate(other, "two");
    hf_election_options told = {.on_lost = note_loss, .lost_ctx = &one};
    faulty_open("memory:lost", &options, &loser)->before = cut_beats;
    assert_int_equal(hf_election_open(loser, "x", &told, &one, &err), HF_OK);
    assert_int_equal(campaign(one, HF_TRY), HF_OK);
    left_when_told = 0;
    is_cut = true;
    assert_int_equal(campaign(two, SOON_MS), HF_OK);
    is_cut = false;
    assert_is_no_leader(one);
    assert_true(left_when_told > 0);
    assert_int_equal(campaign(one, HF_TRY), HF_HELD);
    assert_int_equal(hf_election_resign(two, &err), HF_OK);
    assert_int_equal(campaign(one, HF_TRY), HF_OK);
    assert_true(hf_election_token(one) > hf_election_token(two));
    hf_election_close(one);
    hf_election_close(two);
    hf_close(loser);
    hf_close(other);
}

/* The loss is said by the resignation, too: nothing of that term is left. */
static void test_resigning_after_a_loss_says_so_once(void **state)
{
    (void)state;
    hf_error err;
    hf_break_options how = {.reason = "why not", .force = true};
    hf_client *client = open_client("memory:broken", 1000),
              *breaker = open_client("memory:broken", 0);
    hf_election *one = candidate(client, NULL);
    assert_int_equal(campaign(one, HF_TRY), HF_OK);
    assert_int_equal(hf_break(breaker, "x", &how, &err), HF_OK);
    while (hf_election_is_leader(one, NULL, NULL))
        pause_ms(5);
    assert_int_equal(hf_election_resign(one, &err), HF_LOST);
    assert_int_equal(hf_election_resign(one, &err), HF_OK);
    hf_election_close(one);
    hf_close(breaker);
    hf_close(client);
}

static void test_the_handle_outlives_its_client(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:outlives", 5000);
    hf_election *one = candidate(client, NULL);
    assert_int_equal(campaign(one, HF_TRY), HF_OK);
    hf_close(client);
    assert_is_no_leader(one);
    hf_election_close(one);
    hf_election_close(NULL);
}

static void test_names_and_values_that_cannot_be(void **state)
{
    (void)state;
    char value[258] = "";
    hf_error err;
    hf_election *election = NULL;
    hf_election_options options = {.value = memset(value, 'v', sizeof value - 1)};
    hf_client *client = open_client("memory:names", 5000);
    assert_int_equal(hf_election_open(client, "", NULL, &election, &err), HF_INVALID);
    assert_int_equal(hf_election_open(client, "\xff", NULL, &election, &err), HF_INVALID);
    assert_int_equal(hf_election_open(client, "x", &options, &election, &err), HF_INVALID);
    assert_null(election);
    hf_close(client);
}

static bool is_refused_here(hf_election *one)
{
    hf_error err;
    bool refused = !hf_election_is_leader(one, NULL, &err) && err.code == HF_FORKED;
    refused = refused && campaign(one, HF_TRY) == HF_FORKED;
    refused = refused && hf_election_resign(one, &err) == HF_FORKED;
    return refused && !hf_election_token(one) && !hf_election_lock(one);
}

static void test_a_forked_child_has_no_part_in_it(void **state)
{
    (void)state;
    int status;
    hf_error err;
    hf_client *client = open_client("memory:fork", 5000);
    hf_election *one = candidate(client, NULL);
    assert_int_equal(campaign(one, HF_TRY), HF_OK);
    pid_t child = fork();
    if (!child) {
        bool refused = is_refused_here(one);
        hf_election_close(one);
        hf_close(client);
        _exit(refused ? 0 : 1);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_true(hf_election_is_leader(one, NULL, &err));
    hf_election_close(one);
    hf_close(client);
}

/* ---- Observers ---- */

/* Hears in a thread of its own: "who leads" by value, "" for nobody. */
struct observer {
    hf_client *client;
    hf_cancel *cancel;
    size_t most; /* it stops after as many; 0: never */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    char heard[16][16];
    hf_leader last;
    size_t n;
    hf_code code;
};

static bool hear(void *ctx, const hf_leader *leader)
{
    struct observer *o = ctx;
    pthread_mutex_lock(&o->mutex);
    assert_true(o->n < 16);
    snprintf(o->heard[o->n++], 16, "%s", leader ? leader->value : "");
    o->last = leader ? *leader : (hf_leader){.token = 0};
    bool more = !o->most || o->n < o->most;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->mutex);
    return more;
}

static void *run_observer(void *arg)
{
    struct observer *o = arg;
    o->code = hf_election_observe(o->client, "x", hear, o, o->cancel, NULL);
    return NULL;
}

static void start_observer(struct observer *o, hf_client *client)
{
    o->client = client;
    pthread_mutex_init(&o->mutex, NULL);
    pthread_cond_init(&o->changed, NULL);
    pthread_create(&o->thread, NULL, run_observer, o);
}

static void await_heard(struct observer *o, const char *value)
{
    struct timespec end;
    int failed = 0;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += SOON_MS / 1000;
    pthread_mutex_lock(&o->mutex);
    while ((!o->n || strcmp(o->heard[o->n - 1], value)) && !failed)
        failed = pthread_cond_timedwait(&o->changed, &o->mutex, &end);
    pthread_mutex_unlock(&o->mutex);
    assert_int_equal(failed, 0);
}

static void test_observers_are_told_each_change_once(void **state)
{
    (void)state;
    hf_error err;
    hf_client *client;
    faulty *f = faulty_open("memory:observe", NULL, &client);
    hf_election *one = candidate(client, "one"), *two = candidate(client, "two");
    struct observer o = {.most = 5};
    start_observer(&o, client);
    await_heard(&o, "");
    assert_int_equal(campaign(one, HF_TRY), HF_OK);
    await_heard(&o, "one");
    assert_int_equal(o.last.token, hf_election_token(one));
    assert_true(o.last.since_ms > 0);
    for (int seen = f->calls[FAULTY_LOOK]; f->calls[FAULTY_LOOK] < seen + 2;)
        pause_ms(5); /* of which nothing is told */
    assert_int_equal(hf_election_resign(one, &err), HF_OK);
    await_heard(&o, "");
    assert_int_equal(campaign(two, HF_TRY), HF_OK);
    await_heard(&o, "two");
    assert_int_equal(hf_election_resign(two, &err), HF_OK);
    assert_int_equal(campaign(one, HF_TRY), HF_OK);
    pthread_join(o.thread, NULL);
    assert_int_equal(o.code, HF_OK);
    assert_int_equal(o.n, 5);
    hf_election_close(two);
    hf_election_close(one);
    hf_close(client);
}

/* The same candidate once more is another term. */
static void test_a_new_term_of_the_same_leader_is_told(void **state)
{
    (void)state;
    hf_error err;
    hf_client *client = open_client("memory:again", 5000);
    hf_election *one = candidate(client, "one");
    assert_int_equal(campaign(one, HF_TRY), HF_OK);
    struct observer o = {.most = 2};
    start_observer(&o, client);
    await_heard(&o, "one");
    assert_int_equal(hf_election_resign(one, &err), HF_OK);
    assert_int_equal(campaign(one, HF_TRY), HF_OK);
    pthread_join(o.thread, NULL);
    assert_int_equal(o.n, 2);
    hf_election_close(one);
    hf_close(client);
}

static void test_a_leader_that_died_is_told_as_nobody(void **state)
{
    (void)state;
    hf_client *client;
    faulty *f = faulty_open("memory:died", NULL, &client);
    enter_as(f->inner, "x", begin_dead(f->inner, 1, 1000), 1);
    struct observer o = {.most = 2};
    start_observer(&o, client);
    pthread_join(o.thread, NULL);
    assert_int_equal(o.code, HF_OK);
    assert_int_equal(o.last.token, 0);
    hf_close(client);
}

static hf_store *current, *stale;

/* Every other look is answered by one who does not know yet that another leads. */
static hf_code look_back(faulty *f, faulty_call call, const void *arg)
{
    (void)arg;
    if (call == FAULTY_LOOK)
        f->inner = f->inner == current ? stale : current;
    return HF_OK;
}

/* The observer's client, and one of each store that may answer it. */
typedef struct two_stores {
    hf_client *observing, *now, *before;
    faulty *f;
} two_stores;

static two_stores open_two(const char *now, const char *before)
{
    two_stores two = {.now = open_client(now, 5000)};
    two.f = faulty_open(now, NULL, &two.observing);
    current = two.f->inner;
    stale = faulty_open(before, NULL, &two.before)->inner;
    return two;
}

static void close_two(const two_stores *two)
{
    hf_close(two->observing);
    hf_close(two->before);
    hf_close(two->now);
}

static void test_a_look_that_is_older_is_passed_over(void **state)
{
    (void)state;
    hf_error err;
    two_stores stores = open_two("memory:now", "memory:before");
    faulty *f = stores.f;
    f->before = look_back;
    hf_election *one = candidate(stores.before, "one"), *two = candidate(stores.now, "two");
    assert_int_equal(campaign(one, HF_TRY), HF_OK);
    while (campaign(two, HF_TRY) == HF_OK && hf_election_token(two) <= hf_election_token(one))
        hf_election_resign(two, &err);
    struct observer o = {.most = 3};
    start_observer(&o, stores.observing);
    await_heard(&o, "two");
    while (f->calls[FAULTY_LOOK] < 6)
        pause_ms(5);
    assert_int_equal(hf_election_resign(two, &err), HF_OK);
    await_heard(&o, "");
    pthread_join(o.thread, NULL);
    assert_string_equal(o.heard[0], "one");
    assert_string_equal(o.heard[1], "two");
    f->inner = current;
    hf_election_close(two);
    hf_election_close(one);
    close_two(&stores);
}

static void lead_with_one_token(hf_election *a, hf_election *b)
{
    hf_error err;
    assert_int_equal(campaign(a, HF_TRY), HF_OK);
    assert_int_equal(campaign(b, HF_TRY), HF_OK);
    while (hf_election_token(a) != hf_election_token(b)) {
        hf_election *behind = hf_election_token(a) < hf_election_token(b) ? a : b;
        assert_int_equal(hf_election_resign(behind, &err), HF_OK);
        assert_int_equal(campaign(behind, HF_TRY), HF_OK);
    }
}

/* One that does not know yet that the leader has left answers every other look. */
static void test_a_leader_that_has_left_is_not_told_again(void **state)
{
    (void)state;
    hf_error err;
    two_stores stores = open_two("memory:left-now", "memory:left-before");
    faulty *f = stores.f;
    hf_election *here = candidate(stores.now, "one"), *there = candidate(stores.before, "one");
    lead_with_one_token(here, there);
    struct observer o = {.most = 0};
    assert_int_equal(hf_cancel_new(&o.cancel, &err), HF_OK);
    start_observer(&o, stores.observing);
    await_heard(&o, "one");
    assert_int_equal(hf_election_resign(here, &err), HF_OK);
    await_heard(&o, "");
    f->before = look_back;
    for (int seen = f->calls[FAULTY_LOOK]; f->calls[FAULTY_LOOK] < seen + 4;)
        pause_ms(5);
    hf_cancel_fire(o.cancel);
    pthread_join(o.thread, NULL);
    assert_int_equal(o.n, 2);
    f->inner = current;
    hf_cancel_free(o.cancel);
    hf_election_close(there);
    hf_election_close(here);
    close_two(&stores);
}

static void test_observing_ends_by_its_cancel(void **state)
{
    (void)state;
    hf_error err;
    hf_client *client = open_client("memory:end", 5000);
    struct observer o = {.most = 0};
    assert_int_equal(hf_cancel_new(&o.cancel, &err), HF_OK);
    start_observer(&o, client);
    await_heard(&o, "");
    hf_cancel_fire(o.cancel);
    pthread_join(o.thread, NULL);
    assert_int_equal(o.code, HF_CANCELLED);
    hf_cancel_free(o.cancel);
    hf_close(client);
}

static void test_closing_ends_observing(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:closing", 5000);
    struct observer o = {.most = 0};
    start_observer(&o, client);
    await_heard(&o, "");
    int64_t began = idle_ms();
    hf_close(client);
    pthread_join(o.thread, NULL);
    assert_int_equal(o.code, HF_CLOSED);
    assert_true(idle_ms() - began < 2000);
}

static atomic_int bad_looks;

static hf_code fail_looks(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_LOOK && atomic_fetch_sub(&bad_looks, 1) > 0 ? HF_UNREACHABLE : HF_OK;
}

static void test_observing_bears_a_store_that_is_away_for_a_while(void **state)
{
    (void)state;
    hf_client *client;
    faulty_open("memory:away", NULL, &client)->before = fail_looks;
    hf_election *one = candidate(client, "one");
    struct observer o = {.most = 2};
    bad_looks = 4;
    start_observer(&o, client);
    await_heard(&o, "");
    bad_looks = 4;
    assert_int_equal(campaign(one, HF_TRY), HF_OK);
    pthread_join(o.thread, NULL);
    assert_int_equal(o.code, HF_OK);
    assert_string_equal(o.heard[1], "one");
    hf_election_close(one);
    hf_close(client);
}

static void test_observing_gives_up_when_patience_is_over(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.patience_ms = 300};
    faulty_open("memory:patience", &options, &client)->before = fail_looks;
    struct observer o = {.most = 1};
    bad_looks = 1000000;
    start_observer(&o, client);
    pthread_join(o.thread, NULL);
    assert_int_equal(o.code, HF_UNREACHABLE);
    assert_int_equal(o.n, 0);
    hf_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_campaigns_leads_and_the_others_do_not),
        cmocka_unit_test(test_who_leads_already_does_not_wait),
        cmocka_unit_test(test_resigning_lets_the_next_in_line_lead),
        cmocka_unit_test(test_a_campaign_ends_by_its_cancel_only),
        cmocka_unit_test(test_a_lost_leader_knows_it_and_may_campaign_again),
        cmocka_unit_test(test_resigning_after_a_loss_says_so_once),
        cmocka_unit_test(test_the_handle_outlives_its_client),
        cmocka_unit_test(test_names_and_values_that_cannot_be),
        cmocka_unit_test(test_a_forked_child_has_no_part_in_it),
        cmocka_unit_test(test_observers_are_told_each_change_once),
        cmocka_unit_test(test_a_new_term_of_the_same_leader_is_told),
        cmocka_unit_test(test_a_leader_that_died_is_told_as_nobody),
        cmocka_unit_test(test_observing_ends_by_its_cancel),
        cmocka_unit_test(test_a_look_that_is_older_is_passed_over),
        cmocka_unit_test(test_a_leader_that_has_left_is_not_told_again),
        cmocka_unit_test(test_closing_ends_observing),
        cmocka_unit_test(test_observing_bears_a_store_that_is_away_for_a_while),
        cmocka_unit_test(test_observing_gives_up_when_patience_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
