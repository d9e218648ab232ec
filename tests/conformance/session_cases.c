/* SPDX-License-Identifier: Apache-2.0 */
/* session_cases.c: what every store must make of sessions, asks, notices and upkeep; run by main.c.
 */
#include "conformance/bed.h"

#include "core/id.h"
#include "core/record.h"

#define ALL HF_LIMIT_RW

static hf_store *store;

static int set_up(void **state)
{
    (void)state;
    store = bed_store();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store->ops->close(store);
    return 0;
}

static hf_session_state look_at(hf_id session)
{
    hf_session_state seen;
    hf_error err;
    assert_code(HF_OK, store->ops->sessions_look(store, &session, 1, -1, &seen, &err), &err);
    assert_true(id_equal(seen.session.id, session));
    return seen;
}

static hf_session_state beat(hf_id session, const hf_id *answered, size_t n)
{
    hf_session_state after;
    hf_error err;
    hf_beat says = {.answered = answered, .n_answered = n};
    assert_code(HF_OK, store->ops->session_beat(store, session, &says, &after, &err), &err);
    return after;
}

static hf_code beat_code(hf_id session)
{
    hf_session_state after;
    return store->ops->session_beat(store, session, &(hf_beat){0}, &after, NULL);
}

/* ---- Sessions ---- */

static void test_a_begun_session_lives(void **state)
{
    (void)state;
    hf_id session = bed_session(store, 5000);
    hf_session_state seen = look_at(session);
    assert_int_equal(seen.presence, HF_LIVE);
    assert_int_equal(seen.session.ttl_ms, 5000);
    assert_string_equal(seen.session.app, "conformance");
    assert_string_equal(seen.session.host, "here");
    assert_true(seen.session.pid > 0);
    assert_true(seen.session.started_at.ms > 1600000000000);
    assert_true(seen.lease_left_ms > 0 && seen.lease_left_ms <= 5000);
    assert_false(seen.is_gone);
    assert_int_equal(seen.n_asked, 0);
    store->ops->session_end(store, session, false, NULL);
}

static void test_a_beat_raises_the_beat_and_the_lease(void **state)
{
    (void)state;
    hf_id session = bed_session(store, 5000);
    int64_t first = look_at(session).beat;
    hf_session_state after = beat(session, NULL, 0);
    assert_true(after.beat > first);
    assert_true(beat(session, NULL, 0).beat > after.beat);
    assert_int_equal(look_at(session).beat, after.beat + 1);
    store->ops->session_end(store, session, false, NULL);
}

static void test_a_mark_compares_the_beat(void **state)
{
    (void)state;
    hf_id session = bed_session(store, 5000);
    hf_session_state old = look_at(session);
    hf_error err;
    beat(session, NULL, 0);
    assert_code(HF_HELD, store->ops->session_mark(store, &old, &err), &err);
    assert_int_equal(look_at(session).presence, HF_LIVE);
    hf_session_state now = look_at(session);
    assert_code(HF_OK, store->ops->session_mark(store, &now, &err), &err);
    assert_int_equal(look_at(session).presence, HF_DEAD);
    assert_code(HF_OK, store->ops->session_mark(store, &now, &err), &err);
    assert_int_equal(beat_code(session), HF_LOST);
    assert_int_equal(look_at(session).presence, HF_DEAD);
}

/* A failover may take back what one server alone has acknowledged. Stores that take nothing back
 * need not do it. */
static void test_a_beat_begins_what_was_taken_back(void **state)
{
    (void)state;
    const char *scheme = store->ops->scheme;
    bool must = strcmp(scheme, "memory") == 0 || strcmp(scheme, "mongodb") == 0;
    const hf_session self = {
        .id = bed_id(), .ttl_ms = 5000, .pid = 1, .app = "app", .host = "host"};
    const hf_beat says = {.begins = &self, .begins_at = 77};
    hf_session_state seen;
    hf_error err;
    hf_code code = store->ops->session_beat(store, self.id, &says, &seen, &err);
    assert_code(must || !code ? HF_OK : HF_LOST, code, &err);
    if (code) {
        assert_int_equal(look_at(self.id).presence, HF_MISSING);
        return;
    }
    assert_int_equal(seen.beat, 77);
    seen = look_at(self.id);
    assert_int_equal(seen.presence, HF_LIVE);
    assert_int_equal(seen.session.ttl_ms, 5000);
    assert_string_equal(seen.session.app, "app");
    assert_code(HF_OK, store->ops->session_beat(store, self.id, &says, &seen, &err), &err);
    assert_int_equal(seen.beat, 78);
    assert_code(HF_OK, store->ops->session_mark(store, &seen, &err), &err);
    assert_code(HF_LOST, store->ops->session_beat(store, self.id, &says, &seen, &err), &err);
    assert_int_equal(look_at(self.id).presence, HF_DEAD);
}

static void test_another_store_can_mark(void **state)
{
    (void)state;
    hf_store *other = bed_store();
    hf_id session = bed_session(store, 5000);
    hf_session_state seen;
    hf_error err;
    assert_code(HF_OK, other->ops->sessions_look(other, &session, 1, -1, &seen, &err), &err);
    assert_code(HF_OK, other->ops->session_mark(other, &seen, &err), &err);
    assert_int_equal(beat_code(session), HF_LOST);
    other->ops->close(other);
}

static void test_a_missing_session(void **state)
{
    (void)state;
    hf_id nobody = bed_id();
    hf_session_state seen = look_at(nobody);
    hf_error err;
    assert_int_equal(seen.presence, HF_MISSING);
    assert_code(HF_NOT_FOUND, store->ops->session_mark(store, &seen, &err), &err);
    assert_int_equal(beat_code(nobody), HF_LOST);
}

static void test_a_clean_end_is_a_mark(void **state)
{
    (void)state;
    hf_id session = bed_session(store, 5000);
    hf_session_state before = look_at(session);
    hf_error err;
    assert_code(HF_OK, store->ops->session_end(store, session, false, &err), &err);
    assert_int_equal(look_at(session).presence, HF_DEAD);
    assert_int_equal(beat_code(session), HF_LOST);
    assert_code(HF_OK, store->ops->session_mark(store, &before, &err), &err);
}

static void test_a_look_of_many_is_in_order(void **state)
{
    (void)state;
    hf_id ids[] = {bed_session(store, 1000), bed_id(), bed_session(store, 3000),
                   bed_session(store, 4000)};
    static const int ttl[] = {1000, 0, 3000, 4000};
    hf_session_state seen[4];
    hf_error err;
    store->ops->session_end(store, ids[3], false, NULL);
    assert_code(HF_OK, store->ops->sessions_look(store, ids, 4, 300000, seen, &err), &err);
    for (size_t i = 0; i < 4; i++) {
        assert_true(id_equal(seen[i].session.id, ids[i]));
        hf_presence expected = i == 1 ? HF_MISSING : i == 3 ? HF_DEAD : HF_LIVE;
        assert_int_equal(seen[i].presence, expected);
        if (expected == HF_LIVE)
            assert_int_equal(seen[i].session.ttl_ms, ttl[i]);
        assert_false(seen[i].is_gone);
    }
    store->ops->session_end(store, ids[0], false, NULL);
    store->ops->session_end(store, ids[2], false, NULL);
}

struct wanted {
    hf_id id;
    size_t found;
};

static bool find_session(void *ctx, const hf_session_state *seen)
{
    struct wanted *wanted = ctx;
    wanted->found += id_equal(seen->session.id, wanted->id) && seen->presence == HF_LIVE;
    return true;
}

static void test_sessions_are_listed(void **state)
{
    (void)state;
    struct wanted wanted = {.id = bed_session(store, 5000)};
    hf_error err;
    assert_code(HF_OK, store->ops->list_sessions(store, find_session, &wanted, &err), &err);
    assert_int_equal(wanted.found, 1);
    store->ops->session_end(store, wanted.id, false, NULL);
}

/* ---- Asks ---- */

static hf_ask ask_for(hf_id ticket)
{
    return (hf_ask){.ticket = ticket, .by = "admin@$here:1", .reason = "$$ROOT must go"};
}

static const hf_ask *ask_in(const hf_session_state *seen, hf_id ticket)
{
    for (size_t i = 0; i < seen->n_asked; i++)
        if (id_equal(seen->asked[i].ticket, ticket))
            return &seen->asked[i];
    return NULL;
}

static void test_an_ask_is_seen_until_it_is_answered(void **state)
{
    (void)state;
    hf_id session = bed_session(store, 5000), tickets[] = {bed_id(), bed_id()};
    hf_error err;
    for (size_t i = 0; i < 2; i++) {
        hf_ask ask = ask_for(tickets[i]);
        assert_code(HF_OK, store->ops->ask(store, session, &ask, &err), &err);
    }
    hf_session_state seen = look_at(session);
    assert_int_equal(seen.n_asked, 2);
    hf_session_state after = beat(session, NULL, 0);
    assert_int_equal(after.n_asked, 2);
    const hf_ask *ask = ask_in(&after, tickets[0]);
    assert_non_null(ask);
    assert_string_equal(ask->by, "admin@$here:1");
    assert_string_equal(ask->reason, "$$ROOT must go");
    after = beat(session, &tickets[0], 1);
    assert_int_equal(after.n_asked, 1);
    assert_non_null(ask_in(&after, tickets[1]));
    assert_int_equal(look_at(session).n_asked, 1);
    store->ops->session_end(store, session, false, NULL);
}

static void test_an_ask_is_not_put_twice(void **state)
{
    (void)state;
    hf_id session = bed_session(store, 5000);
    hf_ask ask = ask_for(bed_id());
    hf_error err;
    for (int i = 0; i < 3; i++)
        assert_code(HF_OK, store->ops->ask(store, session, &ask, &err), &err);
    assert_int_equal(look_at(session).n_asked, 1);
    store->ops->session_end(store, session, false, NULL);
}

static void test_more_asks_than_fit_are_refused(void **state)
{
    (void)state;
    hf_id session = bed_session(store, 5000);
    hf_ask ask;
    hf_error err;
    for (int i = 0; i < HF_ASKS_MAX; i++) {
        ask = ask_for(bed_id());
        assert_code(HF_OK, store->ops->ask(store, session, &ask, &err), &err);
    }
    ask = ask_for(bed_id());
    assert_code(HF_FULL, store->ops->ask(store, session, &ask, &err), &err);
    assert_int_equal(look_at(session).n_asked, HF_ASKS_MAX);
    store->ops->session_end(store, session, false, NULL);
}

static void test_nobody_asks_the_dead(void **state)
{
    (void)state;
    hf_id session = bed_session(store, 5000);
    hf_ask ask = ask_for(bed_id());
    hf_error err;
    store->ops->session_end(store, session, false, NULL);
    assert_code(HF_NOT_FOUND, store->ops->ask(store, session, &ask, &err), &err);
    assert_code(HF_NOT_FOUND, store->ops->ask(store, bed_id(), &ask, &err), &err);
}

/* ---- Notices ---- */

struct heard {
    hf_id ticket;
    size_t grants, looks, others;
    int64_t token;
};

static void hear(void *ctx, const hf_notice *notice)
{
    struct heard *heard = ctx;
    if (notice->kind == HF_NOTICE_GRANT && id_equal(notice->ticket, heard->ticket))
        heard->grants++, heard->token = notice->token;
    else
        heard->others++;
    heard->looks += notice->kind == HF_NOTICE_LOOK;
}

/* Awaits until the grant was heard, or BED_SOON is over; false: this database has no notices. */
static bool await_grant(hf_id session, hf_stamp from, struct heard *heard)
{
    int64_t end = bed_now_ms() + BED_SOON;
    hf_error err;
    while (!heard->grants && !heard->looks && bed_now_ms() < end) {
        hf_code code = store->ops->await(store, session, from, 1000, hear, heard, &err);
        if (code == HF_UNSUPPORTED) {
            print_message("no notices here, one polls: %s\n", err.text);
            return false;
        }
        assert_code(HF_OK, code, &err);
    }
    return true;
}

static void test_a_grant_by_another_store_is_heard(void **state)
{
    (void)state;
    const char *name = bed_name("await");
    hf_store *other = bed_store();
    hf_id mine = bed_session(store, 10000), theirs = bed_session(other, 10000);
    hf_enter holder = bed_enter(theirs, ALL, ALL), waiter = bed_enter(mine, ALL, ALL);
    struct heard heard = {.ticket = waiter.entry.ticket};
    hf_step_reply reply;
    hf_error err;
    bed_take(other, name, &holder, NULL);
    assert_code(HF_OK,
                store->ops->step(store, name, &(hf_step){.enter = &waiter}, NULL, &reply, &err),
                &err);
    bed_leave(other, name, holder.entry.ticket, NULL); /* before anybody listens */
    if (await_grant(mine, reply.stamp, &heard))
        assert_true(heard.grants == 1 || heard.looks == 1);
    store->ops->session_end(store, mine, false, NULL);
    other->ops->session_end(other, theirs, false, NULL);
    other->ops->close(other);
}

/* The lease may never be renewed: the head of the queue is to watch its session from now on. */
static void test_the_head_hears_that_a_lease_stands_in_its_way(void **state)
{
    (void)state;
    const char *name = bed_name("passed");
    hf_id mine = bed_session(store, 10000), holds = bed_session(store, 10000);
    hf_enter holder = bed_enter(holds, ALL, ALL), waiter = bed_enter(mine, ALL, ALL);
    struct heard heard = {.ticket = waiter.entry.ticket};
    struct heard before = {.ticket = waiter.entry.ticket};
    hf_step_reply reply;
    hf_error err;
    bed_take(store, name, &holder, NULL);
    assert_code(HF_OK,
                store->ops->step(store, name, &(hf_step){.enter = &waiter}, NULL, &reply, &err),
                &err);
    store->ops->await(store, mine, reply.stamp, 10, hear, &before, &err); /* begins to listen */
    hf_pass pass = {.ticket = holder.entry.ticket,
                    .to = bed_id(),
                    .session = bed_session(store, 10000),
                    .ttl_ms = 10000,
                    .token = 1};
    bed_step(store, name, &(hf_step){.pass = &pass}, NULL);
    if (await_grant(mine, reply.stamp, &heard)) {
        assert_int_equal(heard.grants + heard.looks, 1);
        assert_int_equal(heard.token, 0); /* it is to look */
    }
    store->ops->session_end(store, pass.session, false, NULL);
    store->ops->session_end(store, holds, false, NULL);
    store->ops->session_end(store, mine, false, NULL);
}

static void test_others_grants_are_not_heard(void **state)
{
    (void)state;
    hf_id mine = bed_session(store, 10000), theirs = bed_session(store, 10000);
    hf_enter other = bed_enter(theirs, ALL, ALL), own = bed_enter(mine, ALL, ALL);
    struct heard heard = {.ticket = other.entry.ticket};
    hf_step_reply reply;
    hf_error err;
    const char *first = bed_name("theirs"), *second = bed_name("mine");
    assert_code(HF_OK,
                store->ops->step(store, first, &(hf_step){.enter = &other}, NULL, &reply, &err),
                &err);
    bed_take(store, second, &own, NULL);
    hf_code code = store->ops->await(store, mine, reply.stamp, 200, hear, &heard, &err);
    if (code != HF_UNSUPPORTED)
        assert_code(HF_OK, code, &err);
    assert_int_equal(heard.grants, 0);
    store->ops->session_end(store, mine, false, NULL);
    store->ops->session_end(store, theirs, false, NULL);
}

static void test_await_ends_with_its_time(void **state)
{
    (void)state;
    hf_id session = bed_session(store, 10000);
    struct heard heard = {.ticket = bed_id()};
    hf_error err;
    int64_t before = bed_now_ms();
    hf_code code = store->ops->await(store, session, (hf_stamp){0}, 100, hear, &heard, &err);
    if (code != HF_UNSUPPORTED)
        assert_code(HF_OK, code, &err);
    assert_true(bed_now_ms() - before < BED_SOON);
    assert_int_equal(heard.grants, 0);
    store->ops->session_end(store, session, false, NULL);
}

struct sleeper {
    hf_id session;
    hf_code code;
    bool is_up;
    pthread_mutex_t mutex;
};

static void *sleep_on(void *arg)
{
    struct sleeper *sleeper = arg;
    struct heard heard = {0};
    sleeper->code =
        store->ops->await(store, sleeper->session, (hf_stamp){0}, 60000, hear, &heard, NULL);
    pthread_mutex_lock(&sleeper->mutex);
    sleeper->is_up = true;
    pthread_mutex_unlock(&sleeper->mutex);
    return NULL;
}

static bool wake_up(void *ctx)
{
    struct sleeper *sleeper = ctx;
    store->ops->wake(store);
    pthread_mutex_lock(&sleeper->mutex);
    bool is_up = sleeper->is_up;
    pthread_mutex_unlock(&sleeper->mutex);
    return is_up;
}

static void test_wake_ends_an_await(void **state)
{
    (void)state;
    struct sleeper sleeper = {.session = bed_session(store, 10000),
                              .mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread;
    pthread_create(&thread, NULL, sleep_on, &sleeper);
    assert_true(bed_until(BED_SOON, wake_up, &sleeper));
    pthread_join(thread, NULL);
    if (sleeper.code != HF_UNSUPPORTED)
        assert_int_equal(sleeper.code, HF_OK);
    store->ops->session_end(store, sleeper.session, false, NULL);
}

/* ---- Upkeep ---- */

static void test_sweep_leaves_the_young_alone(void **state)
{
    (void)state;
    const char *name = bed_name("sweep");
    hf_id session = bed_session(store, 10000);
    hf_enter mine = bed_enter(session, ALL, ALL);
    hf_session_state overdue[4];
    size_t n = 99;
    bool more;
    hf_error err;
    hf_record record;
    bed_take(store, name, &mine, NULL);
    bed_leave(store, name, mine.entry.ticket, NULL);
    hf_code code = store->ops->sweep(store, overdue, 4, &n, &more, &err);
    if (code == HF_HELD) /* a client of another case has the turn */
        n = 0;
    else
        assert_code(HF_OK, code, &err);
    for (size_t i = 0; i < n; i++) /* others may be there: crashed ones of other cases */
        assert_false(id_equal(overdue[i].session.id, session));
    bed_look(store, name, &record);
    assert_true(record.exists);
    record_done(&record);
    assert_int_equal(look_at(session).presence, HF_LIVE);
    store->ops->session_end(store, session, false, NULL);
}

static bool count_findings(void *ctx, const hf_finding *finding)
{
    assert_true(finding->topic[0] && finding->text[0]);
    ++*(size_t *)ctx;
    return true;
}

static void test_the_doctor_finds_something_to_say(void **state)
{
    (void)state;
    size_t n = 0;
    hf_error err;
    assert_code(HF_OK, store->ops->doctor(store, count_findings, &n, &err), &err);
    assert_true(n > 0);
}

static void test_the_table_is_whole(void **state)
{
    (void)state;
    const hf_store_ops *ops = store->ops;
    assert_non_null(ops->scheme);
    assert_int_equal(strncmp(bed.uri, ops->scheme, strlen(ops->scheme)), 0);
    assert_true(store->can & HF_CAN_SHARE);
    assert_true(store->can & HF_CAN_QUEUE);
    assert_true(store->can & HF_CAN_TOKENS);
    if (ops->keep_fd)
        assert_int_equal(ops->keep_fd(store, bed_id()), -1); /* no such session */
}

int run_session_cases(void)
{
    const struct bed_case session_cases[] = {
        CASE_IF(HF_CAN_QUEUE, test_a_begun_session_lives),
        CASE_IF(HF_CAN_QUEUE, test_a_beat_raises_the_beat_and_the_lease),
        CASE_IF(HF_CAN_QUEUE, test_a_mark_compares_the_beat),
        CASE_IF(HF_CAN_QUEUE, test_a_beat_begins_what_was_taken_back),
        CASE_IF(HF_CAN_QUEUE, test_another_store_can_mark),
        CASE_IF(HF_CAN_QUEUE, test_a_missing_session),
        CASE_IF(HF_CAN_QUEUE, test_a_clean_end_is_a_mark),
        CASE_IF(HF_CAN_QUEUE, test_a_look_of_many_is_in_order),
        CASE_IF(HF_CAN_QUEUE, test_sessions_are_listed),
        CASE_IF(HF_CAN_QUEUE, test_an_ask_is_seen_until_it_is_answered),
        CASE_IF(HF_CAN_QUEUE, test_an_ask_is_not_put_twice),
        CASE_IF(HF_CAN_QUEUE, test_more_asks_than_fit_are_refused),
        CASE_IF(HF_CAN_QUEUE, test_nobody_asks_the_dead),
        CASE_IF(HF_CAN_QUEUE, test_a_grant_by_another_store_is_heard),
        CASE_IF(HF_CAN_QUEUE, test_the_head_hears_that_a_lease_stands_in_its_way),
        CASE_IF(HF_CAN_QUEUE, test_others_grants_are_not_heard),
        CASE_IF(HF_CAN_QUEUE, test_await_ends_with_its_time),
        CASE_IF(HF_CAN_QUEUE, test_wake_ends_an_await),
        CASE_IF(HF_CAN_QUEUE, test_sweep_leaves_the_young_alone),
        CASE_IF(HF_CAN_QUEUE, test_the_doctor_finds_something_to_say),
        CASE_IF(HF_CAN_QUEUE, test_the_table_is_whole),
    };
    return CASES(session_cases);
}
