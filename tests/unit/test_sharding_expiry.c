/* SPDX-License-Identifier: Apache-2.0 */
/* test_sharding_expiry.c: proves when the owner of a lock of protocol `sharding` has stopped
 * pinging, row by row of the table, with the server's clock as an argument; run by ctest. */
#include "unit.h"

#include "core/sharding.h"

#define EXPIRY 900000
#define PING 1000000 /* the date in the owner's ping, which is compared and nothing else */

typedef struct manager {
    sharding_history history;
    sharding_lock lock;
    sharding_server server;
    int64_t ping_ms;
    const char *name;
    bool went_back;
} manager;

static int begin(void **state)
{
    manager *m = calloc(1, sizeof *m);
    m->lock = (sharding_lock){.process = "host:27017:1350047994:16807", .ts = id_of(1), .state = 2};
    m->server = (sharding_server){.is_primary = true, .has_election = true, .election = id_of(9)};
    m->ping_ms = PING;
    m->name = "db.coll";
    *state = m;
    return 0;
}

static int end(void **state)
{
    manager *m = *state;
    sharding_history_done(&m->history);
    free(m);
    return 0;
}

static sharding_verdict look_at(manager *m, int64_t server_ms)
{
    m->server.local_time.ms = server_ms;
    sharding_look look = {m->name, &m->lock, m->ping_ms, &m->server};
    return sharding_judge(&m->history, &look, EXPIRY, &m->went_back);
}

/* Row: never looked at. Not expired, stored. */
static void test_a_lock_never_looked_at_is_stored(void **state)
{
    manager *m = *state;
    assert_int_equal(look_at(m, 5000), SHARDING_NOT_EXPIRED);
    assert_int_equal(m->history.n, 1);
    const sharding_memory *memory = m->history.memories;
    assert_string_equal(memory->name, "db.coll");
    assert_string_equal(memory->process, "host:27017:1350047994:16807");
    assert_memory_equal(&memory->ts, &m->lock.ts, sizeof memory->ts);
    assert_memory_equal(&memory->election, &m->server.election, sizeof memory->election);
    assert_int_equal(memory->ping_ms, PING);
    assert_int_equal(memory->server_time.ms, 5000);
    assert_false(m->went_back);
}

/* Rows: unchanged for at least the expiry: expired. Unchanged for less: not. Both: kept. */
static void test_unchanged_for_the_expiry_is_expired_and_kept(void **state)
{
    manager *m = *state;
    look_at(m, 5000);
    assert_int_equal(look_at(m, 5000), SHARDING_NOT_EXPIRED);
    assert_int_equal(look_at(m, 5000 + EXPIRY - 1), SHARDING_NOT_EXPIRED);
    assert_int_equal(look_at(m, 5000 + EXPIRY), SHARDING_EXPIRED);
    assert_int_equal(m->history.memories->server_time.ms, 5000);
    assert_int_equal(look_at(m, 5000 + EXPIRY), SHARDING_EXPIRED);
    assert_int_equal(look_at(m, 5000 + EXPIRY - 1), SHARDING_NOT_EXPIRED);
}

static void assert_renewed(manager *m)
{
    assert_int_equal(look_at(m, EXPIRY), SHARDING_NOT_EXPIRED);
    assert_int_equal(m->history.n, 1);
    assert_int_equal(m->history.memories->server_time.ms, EXPIRY);
    assert_int_equal(look_at(m, 2 * EXPIRY - 1), SHARDING_NOT_EXPIRED);
    assert_int_equal(look_at(m, 2 * EXPIRY), SHARDING_EXPIRED);
}

/* Row: ping, ts or electionId differs. Not expired, renewed. */
static void test_another_ping_renews(void **state)
{
    manager *m = *state;
    look_at(m, 0);
    m->ping_ms += 30000;
    assert_renewed(m);
}

static void test_an_earlier_ping_renews_too(void **state)
{
    manager *m = *state;
    look_at(m, 0);
    m->ping_ms -= 30000;
    assert_renewed(m);
}

static void test_another_ts_renews(void **state)
{
    manager *m = *state;
    look_at(m, 0);
    m->lock.ts = id_of(2);
    assert_renewed(m);
}

/* MongoDB 6.0 gives all its locks the same ts. */
static void test_the_same_ts_at_another_date_renews(void **state)
{
    manager *m = *state;
    look_at(m, 0);
    m->lock.when_ms += 1;
    assert_renewed(m);
}

static void test_another_election_renews(void **state)
{
    manager *m = *state;
    look_at(m, 0);
    m->server.election = id_of(10);
    assert_renewed(m);
}

/* ---- After an election ---- */

#define WATCH (EXPIRY + EXPIRY / 500 + 5) /* what two clocks may differ by is added */

/* A look at our own time; the server's clock stands still, or is far away. */
static sharding_verdict look_here_at(manager *m, int64_t mono_ms, int64_t server_ms)
{
    m->server.arrived.ns = mono_ms * 1000000;
    return look_at(m, server_ms);
}

static void test_our_own_clock_counts_on_over_elections(void **state)
{
    manager *m = *state;
    look_here_at(m, 1000, 5000);
    m->server.election = id_of(10);
    assert_int_equal(look_here_at(m, 2000, 5000 + EXPIRY), SHARDING_NOT_EXPIRED);
    m->server.election = id_of(11);
    assert_int_equal(look_here_at(m, 3000, 1), SHARDING_NOT_EXPIRED);
    assert_int_equal(look_here_at(m, 1000 + WATCH - 1, 1), SHARDING_NOT_EXPIRED);
    assert_int_equal(look_here_at(m, 1000 + WATCH, 1), SHARDING_EXPIRED);
}

/* As long as the primary stays, its clock judges, like MongoDB's manager. */
static void test_our_own_clock_does_not_count_without_an_election(void **state)
{
    manager *m = *state;
    look_here_at(m, 0, 5000);
    assert_int_equal(look_here_at(m, 2 * WATCH, 5000 + EXPIRY - 1), SHARDING_NOT_EXPIRED);
}

static void test_an_owner_that_pings_after_an_election_is_seen_anew(void **state)
{
    manager *m = *state;
    look_here_at(m, 0, 0);
    m->server.election = id_of(10);
    look_here_at(m, WATCH / 2, 0);
    m->ping_ms++;
    assert_int_equal(look_here_at(m, WATCH, 0), SHARDING_NOT_EXPIRED);
    m->server.election = id_of(11);
    assert_int_equal(look_here_at(m, 2 * WATCH - 1, 0), SHARDING_NOT_EXPIRED);
    assert_int_equal(look_here_at(m, 2 * WATCH, 0), SHARDING_EXPIRED);
}

static void test_who_holds_since_an_election_is_seen_anew(void **state)
{
    manager *m = *state;
    look_here_at(m, 0, 0);
    m->server.election = id_of(10);
    m->lock.when_ms++;
    assert_int_equal(look_here_at(m, WATCH, 0), SHARDING_NOT_EXPIRED);
    assert_int_equal(look_here_at(m, 3 * WATCH, EXPIRY - 1), SHARDING_NOT_EXPIRED);
}

/* Until there is a primary again nothing is judged, and nothing is forgotten. */
static void test_our_own_clock_counts_while_there_is_no_primary(void **state)
{
    manager *m = *state;
    look_here_at(m, 0, 5000);
    m->server.is_primary = m->server.has_election = false;
    assert_int_equal(look_here_at(m, WATCH, 5000), SHARDING_NOT_EXPIRED);
    m->server.is_primary = m->server.has_election = true;
    m->server.election = id_of(10);
    assert_int_equal(look_here_at(m, WATCH, 1), SHARDING_EXPIRED);
}

static void test_another_owner_renews(void **state)
{
    manager *m = *state;
    look_at(m, 0);
    snprintf(m->lock.process, sizeof m->lock.process, "ConfigServer");
    assert_renewed(m);
    assert_string_equal(m->history.memories->process, "ConfigServer");
}

/* Row: no ping document. As if it were the epoch. */
static void test_an_owner_without_a_ping_is_first_stored_then_expires(void **state)
{
    manager *m = *state;
    m->ping_ms = SHARDING_NO_PING;
    assert_int_equal(look_at(m, 0), SHARDING_NOT_EXPIRED);
    assert_int_equal(look_at(m, EXPIRY - 1), SHARDING_NOT_EXPIRED);
    assert_int_equal(look_at(m, EXPIRY), SHARDING_EXPIRED);
}

static void test_a_ping_that_comes_or_goes_renews(void **state)
{
    manager *m = *state;
    m->ping_ms = SHARDING_NO_PING;
    look_at(m, 0);
    m->ping_ms = PING;
    assert_renewed(m);
    m->ping_ms = SHARDING_NO_PING;
    assert_int_equal(look_at(m, 3 * EXPIRY), SHARDING_NOT_EXPIRED);
    assert_int_equal(look_at(m, 4 * EXPIRY), SHARDING_EXPIRED);
}

/* Row: not primary. Not expired, kept. */
static void test_a_server_that_is_not_primary_judges_nothing(void **state)
{
    manager *m = *state;
    m->server.is_primary = false;
    m->server.has_election = false;
    assert_int_equal(look_at(m, 0), SHARDING_NOT_EXPIRED);
    assert_int_equal(m->history.n, 0);
    m->server.is_primary = m->server.has_election = true;
    look_at(m, 1000);
    m->server.is_primary = m->server.has_election = false;
    m->ping_ms++;
    assert_int_equal(look_at(m, 1000 + EXPIRY), SHARDING_NOT_EXPIRED);
    assert_int_equal(m->history.memories->server_time.ms, 1000);
    assert_int_equal(m->history.memories->ping_ms, PING);
    m->server.is_primary = m->server.has_election = true;
    m->ping_ms--;
    assert_int_equal(look_at(m, 1000 + EXPIRY), SHARDING_EXPIRED);
}

/* Row: the server's time went back. Not expired, warning, kept. */
static void test_a_clock_that_went_back_is_told_and_kept(void **state)
{
    manager *m = *state;
    look_at(m, 5000);
    m->server.arrived.ns = 2000000;
    assert_int_equal(look_at(m, 4999), SHARDING_NOT_EXPIRED);
    assert_true(m->went_back);
    assert_int_equal(m->history.memories->server_time.ms, 5000);
    assert_int_equal(look_at(m, 5000 + EXPIRY - 1), SHARDING_NOT_EXPIRED);
    assert_false(m->went_back);
    assert_int_equal(look_at(m, 5000 + EXPIRY), SHARDING_EXPIRED);
}

static void test_a_clock_that_went_back_expires_nothing_at_any_expiry(void **state)
{
    manager *m = *state;
    look_at(m, 5000);
    m->server.local_time.ms = 4000;
    sharding_look look = {m->name, &m->lock, m->ping_ms, &m->server};
    assert_int_equal(sharding_judge(&m->history, &look, -2000, &m->went_back),
                     SHARDING_NOT_EXPIRED);
}

/* Half of the round trip is taken off the server's time, but the memory keeps the later time. */
static void test_half_of_the_round_trip_is_taken_off(void **state)
{
    manager *m = *state;
    m->server.round_trip_ms = 400;
    look_at(m, 0);
    assert_int_equal(m->history.memories->server_time.ms, 0);
    assert_int_equal(look_at(m, EXPIRY + 199), SHARDING_NOT_EXPIRED);
    assert_int_equal(look_at(m, EXPIRY + 200), SHARDING_EXPIRED);
    m->server.round_trip_ms = 401;
    assert_int_equal(look_at(m, EXPIRY + 200), SHARDING_NOT_EXPIRED);
    assert_int_equal(look_at(m, EXPIRY + 201), SHARDING_EXPIRED);
}

static void test_a_slow_reply_is_no_clock_that_went_back(void **state)
{
    manager *m = *state;
    look_at(m, 5000);
    m->server.round_trip_ms = 4000;
    assert_int_equal(look_at(m, 5001), SHARDING_NOT_EXPIRED);
    assert_false(m->went_back);
}

/* Of two threads, the one whose answer came first was asked second. */
static void test_a_late_reply_is_no_clock_that_went_back(void **state)
{
    manager *m = *state;
    m->server.arrived.ns = 1000 * 1000000LL;
    look_at(m, 5000);
    m->server.arrived.ns = 1003 * 1000000LL;
    m->server.round_trip_ms = 10;
    sharding_look look = {m->name, &m->lock, m->ping_ms, &m->server};
    m->server.local_time.ms = 4999;
    assert_int_equal(sharding_judge(&m->history, &look, -2000, &m->went_back),
                     SHARDING_NOT_EXPIRED);
    assert_false(m->went_back);
    m->server.arrived.ns = 1012 * 1000000LL;
    look_at(m, 4999);
    assert_true(m->went_back);
}

/* A standalone server: an error, and nothing remembered. */
static void test_a_primary_without_an_election_is_an_error(void **state)
{
    manager *m = *state;
    m->server.has_election = false;
    assert_int_equal(look_at(m, 0), SHARDING_NO_ELECTION);
    assert_int_equal(look_at(m, EXPIRY), SHARDING_NO_ELECTION);
    assert_int_equal(m->history.n, 0);
}

static void test_each_lock_has_a_memory_of_its_own(void **state)
{
    manager *m = *state;
    look_at(m, 0);
    m->name = "db.other";
    assert_int_equal(look_at(m, EXPIRY), SHARDING_NOT_EXPIRED);
    assert_int_equal(m->history.n, 2);
    m->name = "db.coll";
    assert_int_equal(look_at(m, EXPIRY), SHARDING_EXPIRED);
}

static void test_what_was_forgotten_is_seen_anew(void **state)
{
    manager *m = *state;
    m->name = "db.other";
    look_at(m, 0);
    m->name = "db.coll";
    look_at(m, 0);
    sharding_forget(&m->history, "db.other");
    sharding_forget(&m->history, "db.other");
    assert_int_equal(m->history.n, 1);
    assert_int_equal(look_at(m, EXPIRY), SHARDING_EXPIRED);
    m->name = "db.other";
    assert_int_equal(look_at(m, EXPIRY), SHARDING_NOT_EXPIRED);
}

static void test_memories_are_bounded_and_the_oldest_gives_way(void **state)
{
    manager *m = *state;
    char names[SHARDING_MEMORIES + 1][16];
    for (int i = 0; i <= SHARDING_MEMORIES; i++) {
        snprintf(names[i], sizeof names[i], "db.c%d", i);
        m->name = names[i];
        assert_int_equal(look_at(m, i), SHARDING_NOT_EXPIRED);
    }
    assert_int_equal(m->history.n, SHARDING_MEMORIES);
    m->name = names[1];
    assert_int_equal(look_at(m, EXPIRY + 1), SHARDING_EXPIRED);
    m->name = names[0];
    assert_int_equal(look_at(m, EXPIRY + 1), SHARDING_NOT_EXPIRED);
}

/* An owner that pings every 30 s, looked at every 500 ms for two hours by a clock that is slewed
 * by a tenth, never expires; when it stops, it does, an expiry after the look that saw its last
 * ping. */
static void test_who_pings_never_expires(void **state)
{
    manager *m = *state;
    for (int64_t now = 0; now < 7200000; now += 500) {
        m->ping_ms = PING + now / 30000;
        assert_int_equal(look_at(m, now + now / 10), SHARDING_NOT_EXPIRED);
    }
    int64_t last = m->history.memories->server_time.ms;
    for (int64_t now = 7200000; now + now / 10 < last + EXPIRY; now += 500) {
        assert_int_equal(look_at(m, now + now / 10), SHARDING_NOT_EXPIRED);
    }
    assert_int_equal(look_at(m, last + EXPIRY), SHARDING_EXPIRED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_lock_never_looked_at_is_stored),
        TEST(test_unchanged_for_the_expiry_is_expired_and_kept),
        TEST(test_another_ping_renews),
        TEST(test_an_earlier_ping_renews_too),
        TEST(test_another_ts_renews),
        TEST(test_the_same_ts_at_another_date_renews),
        TEST(test_another_election_renews),
        TEST(test_our_own_clock_counts_on_over_elections),
        TEST(test_our_own_clock_does_not_count_without_an_election),
        TEST(test_an_owner_that_pings_after_an_election_is_seen_anew),
        TEST(test_who_holds_since_an_election_is_seen_anew),
        TEST(test_our_own_clock_counts_while_there_is_no_primary),
        TEST(test_another_owner_renews),
        TEST(test_an_owner_without_a_ping_is_first_stored_then_expires),
        TEST(test_a_ping_that_comes_or_goes_renews),
        TEST(test_a_server_that_is_not_primary_judges_nothing),
        TEST(test_a_clock_that_went_back_is_told_and_kept),
        TEST(test_a_clock_that_went_back_expires_nothing_at_any_expiry),
        TEST(test_half_of_the_round_trip_is_taken_off),
        TEST(test_a_slow_reply_is_no_clock_that_went_back),
        TEST(test_a_late_reply_is_no_clock_that_went_back),
        TEST(test_a_primary_without_an_election_is_an_error),
        TEST(test_each_lock_has_a_memory_of_its_own),
        TEST(test_what_was_forgotten_is_seen_anew),
        TEST(test_memories_are_bounded_and_the_oldest_gives_way),
        TEST(test_who_pings_never_expires),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
