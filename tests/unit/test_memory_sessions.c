/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory_sessions.c: the store in memory to the millisecond and to the last one that fits: who
 * is gone, who is forgotten, what is heard, and who shares it; with clocks that the test sets. */
#include "unit.h"

#include "core/id.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TTL_MS 10000
#define DAY_MS ((int64_t)86400000)
#define EVENTS 1024 /* that a session can miss, and still hear of each */
#define AT_ONCE 64  /* that one await gives */

static int64_t mono_ms, wall_ms;

static hf_mono read_mono(void *ctx)
{
    (void)ctx;
    return (hf_mono){mono_ms * 1000000};
}

static hf_wall read_wall(void *ctx)
{
    (void)ctx;
    return (hf_wall){wall_ms};
}

static hf_store *open_named(const char *uri)
{
    static const hf_env env = {.mono = read_mono, .wall = read_wall};
    static const hf_store_config config = {.ttl_ms = TTL_MS, .env = &env};
    hf_store *store;
    hf_error err;
    int64_t patience_ms;
    assert_int_equal(hf_store_open(uri, &config, &store, &patience_ms, &err), HF_OK);
    return store;
}

static int set_up(void **state)
{
    mono_ms = 5000;
    wall_ms = 1700000000000;
    *state = open_named("memory:");
    return 0;
}

static int tear_down(void **state)
{
    hf_store *store = *state;
    store->ops->close(store);
    return 0;
}

static hf_code begin(hf_store *store, unsigned id)
{
    hf_error err;
    hf_session self = {.id = id_of(id), .ttl_ms = TTL_MS, .pid = 3, .app = "test", .host = "here"};
    return store->ops->session_begin(store, &self, &err);
}

static void begin_all(hf_store *store, unsigned first, unsigned last)
{
    for (unsigned id = first; id <= last; id++)
        assert_int_equal(begin(store, id), HF_OK);
}

static void end(hf_store *store, unsigned id)
{
    assert_int_equal(store->ops->session_end(store, id_of(id), false, NULL), HF_OK);
}

static hf_session_state look_at(hf_store *store, unsigned id, int64_t clock_trust_ms)
{
    hf_id of = id_of(id);
    hf_session_state state;
    assert_int_equal(store->ops->sessions_look(store, &of, 1, clock_trust_ms, &state, NULL), HF_OK);
    return state;
}

static hf_code beat(hf_store *store, unsigned id, const hf_beat *says, hf_session_state *out)
{
    hf_error err;
    return store->ops->session_beat(store, id_of(id), says, out, &err);
}

/* ---- Leases ---- */

static void test_a_lease_counts_from_the_last_beat(void **state)
{
    hf_session_state seen;
    begin_all(*state, 1, 2);
    assert_int_equal(look_at(*state, 1, -1).beat, 1);
    assert_int_equal(look_at(*state, 1, -1).lease_left_ms, TTL_MS);
    mono_ms += 3000;
    assert_int_equal(look_at(*state, 1, -1).lease_left_ms, TTL_MS - 3000);
    assert_int_equal(beat(*state, 1, &(hf_beat){.waits = NULL}, &seen), HF_OK);
    assert_int_equal(seen.beat, 2);
    assert_int_equal(seen.lease_left_ms, TTL_MS);
    assert_int_equal(look_at(*state, 2, -1).lease_left_ms, TTL_MS - 3000);
}

static void test_only_one_that_lives_and_is_overdue_is_gone(void **state)
{
    begin_all(*state, 1, 2);
    end(*state, 2);
    mono_ms += TTL_MS;
    assert_false(look_at(*state, 1, 0).is_gone);
    mono_ms += 500;
    assert_true(look_at(*state, 1, 0).is_gone);
    assert_true(look_at(*state, 1, 499).is_gone);
    assert_false(look_at(*state, 1, 500).is_gone);
    assert_false(look_at(*state, 1, -1).is_gone);
    assert_false(look_at(*state, 2, 0).is_gone);
    assert_false(look_at(*state, 3, 0).is_gone);
}

static void test_a_mark_wants_the_beat_that_was_seen(void **state)
{
    hf_store *store = *state;
    hf_error err;
    hf_session_state later;
    begin_all(store, 1, 1);
    hf_session_state seen = look_at(store, 1, -1);
    assert_int_equal(beat(store, 1, &(hf_beat){.waits = NULL}, &later), HF_OK);
    assert_int_equal(store->ops->session_mark(store, &seen, &err), HF_HELD);
    assert_int_equal(store->ops->session_mark(store, &later, &err), HF_OK);
    assert_int_equal(look_at(store, 1, -1).presence, HF_DEAD);
    assert_int_equal(store->ops->session_mark(store, &seen, &err), HF_OK);
    assert_int_equal(beat(store, 1, &(hf_beat){.waits = NULL}, &later), HF_LOST);
    assert_int_equal(begin(store, 1), HF_HELD);
    seen.session.id = id_of(9);
    assert_int_equal(store->ops->session_mark(store, &seen, &err), HF_NOT_FOUND);
}

/* ---- The sweep ---- */

static size_t sweep(hf_store *store, hf_session_state *overdue, size_t max)
{
    size_t n = 99;
    bool more = true;
    assert_int_equal(store->ops->sweep(store, overdue, max, &n, &more, NULL), HF_OK);
    assert_false(more);
    return n;
}

static void test_a_day_after_its_lease_one_is_swept(void **state)
{
    hf_session_state overdue[4];
    begin_all(*state, 1, 4);
    end(*state, 2);
    end(*state, 4);
    mono_ms += TTL_MS + DAY_MS;
    assert_int_equal(sweep(*state, overdue, 4), 0);
    assert_int_equal(look_at(*state, 2, -1).presence, HF_DEAD);
    mono_ms++;
    assert_int_equal(sweep(*state, overdue, 4), 2);
    assert_true(id_equal(overdue[0].session.id, id_of(1)));
    assert_true(id_equal(overdue[1].session.id, id_of(3)));
    assert_int_equal(overdue[0].lease_left_ms, -DAY_MS - 1);
    assert_int_equal(look_at(*state, 1, -1).presence, HF_LIVE);
    assert_int_equal(look_at(*state, 2, -1).presence, HF_MISSING);
    assert_int_equal(look_at(*state, 3, -1).presence, HF_LIVE);
    assert_int_equal(look_at(*state, 4, -1).presence, HF_MISSING);
}

static void test_the_sweep_names_no_more_than_asked_for(void **state)
{
    hf_session_state overdue[3] = {{.beat = 0}};
    begin_all(*state, 1, 3);
    mono_ms += TTL_MS + DAY_MS + 1;
    assert_int_equal(sweep(*state, overdue, 2), 2);
    assert_true(id_equal(overdue[1].session.id, id_of(2)));
    assert_int_equal(overdue[2].beat, 0);
    assert_int_equal(sweep(*state, overdue, 3), 3);
}

static void test_the_young_are_not_swept(void **state)
{
    hf_session_state overdue[2];
    begin_all(*state, 1, 1);
    mono_ms += TTL_MS + DAY_MS + 1;
    begin_all(*state, 2, 3);
    end(*state, 3);
    assert_int_equal(sweep(*state, overdue, 2), 1);
    assert_true(id_equal(overdue[0].session.id, id_of(1)));
    assert_int_equal(look_at(*state, 2, -1).presence, HF_LIVE);
    assert_int_equal(look_at(*state, 3, -1).presence, HF_DEAD);
}

/* ---- What is listed ---- */

static bool count_states(void *ctx, const hf_session_state *state)
{
    (void)state;
    return ++*(int *)ctx < 2;
}

static void test_a_list_of_sessions_stops_when_told(void **state)
{
    hf_store *store = *state;
    int n = 0;
    assert_int_equal(store->ops->list_sessions(store, count_states, &n, NULL), HF_OK);
    assert_int_equal(n, 0);
    begin_all(store, 1, 1);
    assert_int_equal(store->ops->list_sessions(store, count_states, &n, NULL), HF_OK);
    assert_int_equal(n, 1);
    begin_all(store, 2, 4);
    n = 0;
    assert_int_equal(store->ops->list_sessions(store, count_states, &n, NULL), HF_OK);
    assert_int_equal(n, 2);
}

typedef struct said {
    char text[64];
    int most;
} said;

static bool add_waits(void *ctx, const hf_waits *waits)
{
    said *to = ctx;
    size_t at = strlen(to->text);
    snprintf(to->text + at, sizeof to->text - at, "%d:%lld:%lld:%s ", waits->session.id.bytes[3],
             (long long)waits->beat, (long long)waits->seen, waits->text);
    return --to->most > 0;
}

static void expect_waits(hf_store *store, const hf_id *ids, size_t n, int most,
                         const char *expected)
{
    said to = {.most = most};
    assert_int_equal(store->ops->waits(store, ids, n, add_waits, &to, NULL), HF_OK);
    assert_string_equal(to.text, expected);
}

static void test_waits_are_what_the_living_said_last(void **state)
{
    hf_store *store = *state;
    hf_session_state seen;
    const hf_id three[] = {id_of(1), id_of(4), id_of(9)};
    expect_waits(store, NULL, 0, 9, "");
    begin_all(store, 1, 4);
    for (unsigned id = 1; id <= 4; id++)
        assert_int_equal(beat(store, id, &(hf_beat){.waits = "a", .seen = 1}, &seen), HF_OK);
    end(store, 3);
    expect_waits(store, NULL, 0, 9, "1:2:1:a 2:2:1:a 4:2:1:a ");
    expect_waits(store, NULL, 0, 2, "1:2:1:a 2:2:1:a ");
    expect_waits(store, three, 3, 9, "1:2:1:a 4:2:1:a ");
    expect_waits(store, three, 0, 9, "");
    assert_int_equal(beat(store, 1, &(hf_beat){.waits = "b", .seen = 2}, &seen), HF_OK);
    assert_int_equal(beat(store, 4, &(hf_beat){.waits = NULL}, &seen), HF_OK);
    expect_waits(store, three, 3, 9, "1:3:2:b ");
}

/* ---- Asks ---- */

static hf_code ask(hf_store *store, unsigned session, unsigned ticket)
{
    hf_error err;
    hf_ask what = {.ticket = id_of(ticket), .by = "me", .reason = "because"};
    return store->ops->ask(store, id_of(session), &what, &err);
}

static void test_asks_stay_until_they_are_answered(void **state)
{
    hf_session_state seen;
    const hf_id answered[] = {id_of(102), id_of(104), id_of(199)};
    begin_all(*state, 1, 2);
    for (unsigned i = 1; i <= HF_ASKS_MAX; i++)
        assert_int_equal(ask(*state, 1, 100 + i), HF_OK);
    assert_int_equal(ask(*state, 1, 101), HF_OK);
    assert_int_equal(ask(*state, 1, 199), HF_FULL);
    assert_int_equal(beat(*state, 1, &(hf_beat){.answered = answered, .n_answered = 3}, &seen),
                     HF_OK);
    assert_int_equal(seen.n_asked, HF_ASKS_MAX - 2);
    assert_true(id_equal(seen.asked[0].ticket, id_of(101)));
    assert_true(id_equal(seen.asked[1].ticket, id_of(103)));
    assert_true(id_equal(seen.asked[2].ticket, id_of(105)));
    assert_int_equal(ask(*state, 1, 199), HF_OK);
    end(*state, 2);
    assert_int_equal(ask(*state, 2, 101), HF_NOT_FOUND);
    assert_int_equal(ask(*state, 3, 101), HF_NOT_FOUND);
}

/* ---- What is heard ---- */

typedef struct heard {
    int looks, others;
} heard;

static void note_notice(void *ctx, const hf_notice *notice)
{
    heard *to = ctx;
    *(notice->kind == HF_NOTICE_LOOK ? &to->looks : &to->others) += 1;
}

static heard await(hf_store *store, unsigned session, int64_t timeout_ms)
{
    heard to = {.looks = 0};
    assert_int_equal(
        store->ops->await(store, id_of(session), (hf_stamp){0}, timeout_ms, note_notice, &to, NULL),
        HF_OK);
    return to;
}

/* Each end of a session tells all others to look. */
static void have_ends(hf_store *store, unsigned n)
{
    static unsigned last = 1000;
    for (unsigned i = 0; i < n; i++) {
        last++;
        assert_int_equal(begin(store, last), HF_OK);
        end(store, last);
    }
}

static void test_notices_come_a_batch_at_a_time_and_all_of_them(void **state)
{
    begin_all(*state, 1, 1);
    have_ends(*state, AT_ONCE + 3);
    begin_all(*state, 2, 2);
    assert_int_equal(await(*state, 1, 1).looks, AT_ONCE);
    assert_int_equal(await(*state, 1, 1).looks, 3);
    assert_int_equal(await(*state, 1, 1).looks, 0);
    assert_int_equal(await(*state, 2, 1).looks, 0);
    assert_int_equal(await(*state, 3, 1).looks, 0);
}

static void test_nobody_hears_of_its_own_end(void **state)
{
    begin_all(*state, 1, 2);
    end(*state, 1);
    assert_int_equal(await(*state, 1, 0).looks, 0);
    assert_int_equal(await(*state, 2, 0).looks, 1);
}

static void test_who_missed_too_much_looks_once(void **state)
{
    heard all = {.looks = 0};
    begin_all(*state, 1, 2);
    have_ends(*state, EVENTS);
    for (int i = 0; i < EVENTS / AT_ONCE; i++)
        all.looks += await(*state, 1, 0).looks;
    assert_int_equal(all.looks, EVENTS);
    have_ends(*state, 1);
    assert_int_equal(await(*state, 2, 0).looks, 1);
    assert_int_equal(await(*state, 2, 0).looks, 0);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Whatever the part of a second is in which it begins. */
static void test_an_await_lasts_as_long_as_it_should(void **state)
{
    static const int64_t timeouts_ms[] = {990, 1, 1400};
    begin_all(*state, 1, 1);
    for (int i = 0; i < 3; i++) {
        int64_t before = now_ms();
        await(*state, 1, timeouts_ms[i]);
        assert_true(now_ms() - before >= timeouts_ms[i]);
    }
}

static void test_a_wake_ends_one_await(void **state)
{
    hf_store *store = *state;
    begin_all(store, 1, 1);
    store->ops->wake(store);
    await(store, 1, INT32_MAX);
    int64_t before = now_ms();
    await(store, 1, 100);
    assert_true(now_ms() - before >= 100);
    await(store, 1, -1);
}

/* ---- Who shares it ---- */

static void test_those_of_one_name_share_it(void **state)
{
    (void)state;
    hf_store *a = open_named("memory:a"), *b = open_named("memory:b"), *c = open_named("memory:c");
    hf_store *also_a = open_named("memory:a"), *also_b = open_named("memory:b"),
             *none = open_named("memory:");
    begin_all(a, 1, 1);
    begin_all(b, 2, 2);
    assert_int_equal(look_at(also_a, 1, -1).presence, HF_LIVE);
    assert_int_equal(look_at(also_b, 2, -1).presence, HF_LIVE);
    assert_int_equal(look_at(also_b, 1, -1).presence, HF_MISSING);
    assert_int_equal(look_at(c, 1, -1).presence, HF_MISSING);
    assert_int_equal(look_at(none, 1, -1).presence, HF_MISSING);
    b->ops->close(b);
    assert_int_equal(look_at(also_b, 2, -1).presence, HF_LIVE);
    also_b->ops->close(also_b);
    b = open_named("memory:b");
    assert_int_equal(look_at(b, 2, -1).presence, HF_MISSING);
    hf_store *third_a = open_named("memory:a");
    assert_int_equal(look_at(third_a, 1, -1).presence, HF_LIVE);
    hf_store *const all[] = {none, a, also_a, c, third_a, b};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        all[i]->ops->close(all[i]);
}

/* A fork may have come while another thread of the parent held the mutex. */
static void test_a_forked_child_leaves_the_shared_part_alone(void **state)
{
    (void)state;
    int status;
    hf_store *one = open_named("memory:forked"), *two = open_named("memory:forked");
    begin_all(one, 1, 1);
    pid_t child = fork();
    if (child == 0) {
        one->ops->close(one);
        two->ops->close(two);
        hf_store *again = open_named("memory:forked");
        _exit(look_at(again, 1, -1).presence == HF_LIVE ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    one->ops->close(one);
    two->ops->close(two);
}

static void test_closing_none_does_nothing(void **state)
{
    hf_store *store = *state;
    store->ops->close(NULL);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_lease_counts_from_the_last_beat),
        TEST(test_only_one_that_lives_and_is_overdue_is_gone),
        TEST(test_a_mark_wants_the_beat_that_was_seen),
        TEST(test_a_day_after_its_lease_one_is_swept),
        TEST(test_the_sweep_names_no_more_than_asked_for),
        TEST(test_the_young_are_not_swept),
        TEST(test_a_list_of_sessions_stops_when_told),
        TEST(test_waits_are_what_the_living_said_last),
        TEST(test_asks_stay_until_they_are_answered),
        TEST(test_notices_come_a_batch_at_a_time_and_all_of_them),
        TEST(test_nobody_hears_of_its_own_end),
        TEST(test_who_missed_too_much_looks_once),
        TEST(test_an_await_lasts_as_long_as_it_should),
        TEST(test_a_wake_ends_one_await),
        TEST(test_those_of_one_name_share_it),
        TEST(test_a_forked_child_leaves_the_shared_part_alone),
        TEST(test_closing_none_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
