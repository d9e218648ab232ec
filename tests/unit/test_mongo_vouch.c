/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_vouch.c: when a session that is overdue counts as dead for a request that may not wait
 * (R6), to the millisecond. */
#include "core/id.h"
#include "faults/mongo_answers.h"
#include "store/host.h"

#define TTL_MS 10000
#define TRUST_MS 300000
#define DAY_MS ((int64_t)86400000)
#define BOOT_MS 5000000 /* this host's clock */
#define WATCH_MS 10025  /* a ttl and the allowance */

static mongo_store *store;

static int begin(void **state)
{
    (void)state;
    store = answers_open("");
    snprintf(store->queue->boot, sizeof store->queue->boot, "us");
    answers_pass(BOOT_MS - 1000);
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

static hf_session_state overdue_by(int64_t ms)
{
    return (hf_session_state){.session = {.id = id_of(1), .ttl_ms = TTL_MS, .pid = 4711},
                              .presence = HF_LIVE,
                              .beat = 3,
                              .lease_left_ms = -ms};
}

static bool is_gone_of(const char *json, hf_session_state state, int64_t trust_ms)
{
    bson_t *doc = pipeline_json(json);
    bool gone = mongo_is_gone(store, doc, &state, trust_ms);
    bson_destroy(doc);
    return gone;
}

static bool is_gone(const char *json, int64_t overdue_ms)
{
    return is_gone_of(json, overdue_by(overdue_ms), TRUST_MS);
}

/* Of this host, whose last beat was so long ago by its own clock; one other is noted as seen. */
static const char *beaten_here(int64_t ago_ms)
{
    static char json[200];
    snprintf(json, sizeof json,
             "{'clock': {'boot': 'us', 'at': {'$numberLong': '%lld'}}, 'sightings':"
             " [{'boot': 'us', 'beat': 3, 'at': {'$numberLong': '%d'}}]}",
             (long long)(BOOT_MS - ago_ms), BOOT_MS);
    return json;
}

static void test_on_its_host_both_clocks_must_agree(void **state)
{
    (void)state;
    int64_t longest_ms = TTL_MS + TRUST_MS;
    assert_true(is_gone(beaten_here(longest_ms + 1), TRUST_MS + 1));
    assert_false(is_gone(beaten_here(longest_ms), TRUST_MS + 1));
    assert_false(is_gone(beaten_here(longest_ms + 1), TRUST_MS));
    assert_false(is_gone(beaten_here(longest_ms), DAY_MS + 1));
}

/* A renewal that was sent from here may land behind a later one of another host, and take its
 * place: then only the server's clock would speak for the lease. */
static void test_an_id_lease_is_trusted_no_sooner(void **state)
{
    (void)state;
    int64_t longest_ms = TTL_MS + TRUST_MS;
    hf_session_state lease = overdue_by(TRUST_MS + 1);
    lease.session.pid = 0;
    assert_false(is_gone_of(beaten_here(longest_ms), lease, TRUST_MS));
    assert_true(is_gone_of(beaten_here(longest_ms + 1), lease, TRUST_MS));
    lease.lease_left_ms++;
    assert_false(is_gone_of(beaten_here(longest_ms + 1), lease, TRUST_MS));
}

static void test_who_is_not_overdue_lives(void **state)
{
    (void)state;
    const char *old = beaten_here(TTL_MS + TRUST_MS + 1);
    hf_session_state dead = overdue_by(TRUST_MS + 1);
    dead.presence = HF_DEAD;
    assert_false(is_gone_of(old, overdue_by(0), 0));
    assert_false(is_gone_of(old, overdue_by(-5), 0));
    assert_true(is_gone_of(old, overdue_by(1), 0));
    assert_false(is_gone_of(old, overdue_by(TRUST_MS + 1), -1));
    assert_false(is_gone_of(old, dead, TRUST_MS));
    assert_int_equal(answers_sent("update"), 0);
}

/* ---- Of another host ---- */

/* Programs of before wrote both, and went by them. */
static const char *beaten_there(int64_t ago_ms)
{
    static char json[400];
    snprintf(json, sizeof json,
             "{'clock': {'boot': 'them', 'wall': {'$date': {'$numberLong': '%lld'}}},"
             " 'election': {'$oid': '000000090000000000000000'},"
             " 'sightings': [{'boot': 'us', 'beat': 3, 'at': {'$numberLong': '%d'}}]}",
             (long long)(ANSWERS_WALL_MS - ago_ms), BOOT_MS);
    return json;
}

/* One clock, set ahead, may be the server's and this host's. */
static void test_no_date_makes_a_session_gone(void **state)
{
    (void)state;
    answers_give_always("hello", "{'ok': 1, 'electionId': {'$oid': '000000090000000000000000'}}");
    assert_false(is_gone(beaten_there(TTL_MS + TRUST_MS + 1), TRUST_MS + 1));
    assert_false(is_gone(beaten_there(100 * DAY_MS), 100 * DAY_MS));
    assert_int_equal(answers_sent("hello"), 0);
}

/* ---- Sightings ---- */

static const char *seen(const char *boot, int beat, int64_t ago_ms)
{
    static char json[300];
    snprintf(json, sizeof json,
             "{'sightings': [{'boot': 'them', 'beat': 3, 'at': 0},"
             " {'boot': '%s', 'beat': %d, 'at': {'$numberLong': '%lld'}}]}",
             boot, beat, (long long)(BOOT_MS - ago_ms));
    return json;
}

static void test_what_was_seen_a_ttl_ago_is_gone(void **state)
{
    (void)state;
    assert_true(is_gone(seen("us", 3, WATCH_MS + 2), 1));
    assert_false(is_gone(seen("us", 3, WATCH_MS + 1), 1));
    assert_int_equal(answers_sent("update"), 0);
}

static void test_one_that_is_not_overdue_is_not_gone_by_sight(void **state)
{
    (void)state;
    const char *old = seen("us", 3, WATCH_MS + 2);
    assert_false(is_gone_of(old, overdue_by(0), 0));
    assert_false(is_gone_of(old, overdue_by(-5), 0));
    assert_true(is_gone_of(old, overdue_by(1), 0));
}

/* A beat that is not said is none, not even the first. */
static void test_a_sighting_without_a_beat_is_none(void **state)
{
    (void)state;
    hf_session_state state_of_0 = overdue_by(1);
    state_of_0.beat = 0;
    answers_give("update", "{'ok': 1}");
    assert_false(is_gone_of("{'sightings': [{'boot': 'us', 'at': 0}]}", state_of_0, 0));
}

static void test_an_older_sighting_is_not_hidden_by_a_younger_one(void **state)
{
    (void)state;
    assert_true(is_gone("{'sightings': [{'boot': 'us', 'beat': 3, 'at': 0},"
                        " {'boot': 'us', 'beat': 3, 'at': {'$numberLong': '5000000'}}]}",
                        1));
}

static void test_sightings_by_others_or_of_earlier_beats_are_none(void **state)
{
    (void)state;
    answers_give_always("update", "{'ok': 1}");
    assert_false(is_gone(seen("them", 3, WATCH_MS + 2), 1));
    assert_false(is_gone(seen("us", 2, WATCH_MS + 2), 1));
    assert_false(is_gone("{'sightings': 'none'}", 1));
    assert_false(is_gone("{}", 1));
    assert_int_equal(answers_sent("update"), 4);
}

static void test_the_first_sighting_is_left(void **state)
{
    (void)state;
    answers_give("update", NULL); /* whatever comes of it */
    assert_false(is_gone("{}", 1));
    const char *sent = answers_last("update");
    assert_non_null(strstr(sent, "'q' : { '_id' : { '$oid' : '000000010000000000000000' }, 'beat' "
                                 ": 3, 'dead' : { '$ne' : true } }"));
    assert_non_null(strstr(sent, "'seen' : { 'boot' : 'us', 'beat' : 3, 'at' : 5000000 }, "
                                 "'most' : 32, 'kept_ms' : 86400000"));
    assert_non_null(strstr(sent, "'w' : 'majority'"));
}

static void test_a_host_that_does_not_know_its_boot_leaves_none(void **state)
{
    (void)state;
    store->queue->boot[0] = '\0';
    assert_false(is_gone("{}", 1));
    assert_false(is_gone("{'clock': {'boot': '', 'at': 0}}", TRUST_MS + 1));
    assert_false(is_gone("{'sightings': [{'boot': '', 'beat': 3, 'at': 0}]}", 1));
    assert_int_equal(answers_sent("update"), 0);
}

static void test_times_that_cannot_be_are_now(void **state)
{
    (void)state;
    assert_false(is_gone("{'clock': {'boot': 'us'}, 'sightings': [{'boot': 'us', 'beat': 3}]}",
                         TRUST_MS + 1));
    assert_false(is_gone("{'clock': {'boot': 'us', 'at': {'$numberLong': '-9223372036854775808'}},"
                         " 'sightings': [{'boot': 'us', 'beat': 3}]}",
                         TRUST_MS + 1));
}

/* ---- This host's boot ---- */

static const char *boot_text = "", *clock_text = ""; /* "": it cannot be read */

bool __wrap_host_read_line(const char *path, char *out, size_t size);
void __wrap_host_read_clock(char out[HOST_CLOCK_SIZE]);

bool __wrap_host_read_line(const char *path, char *out, size_t size)
{
    assert_string_equal(path, "/proc/sys/kernel/random/boot_id");
    snprintf(out, size, "%s", boot_text);
    return boot_text[0];
}

void __wrap_host_read_clock(char out[HOST_CLOCK_SIZE])
{
    snprintf(out, HOST_CLOCK_SIZE, "%s", clock_text);
}

static void assert_boot(const char *boot, const char *clock, const char *is)
{
    char out[MONGO_BOOT_MAX];
    memset(out, 'x', sizeof out);
    boot_text = boot;
    clock_text = clock;
    mongo_find_boot(out);
    assert_string_equal(out, is);
}

/* Without its clock, what another process of this boot counted says nothing. */
static void test_what_a_boot_is_called(void **state)
{
    (void)state;
    assert_boot("0123-abc", "boottime 0 0", "0123-abc boottime 0 0");
    assert_boot("0123-abc", "boottime", "0123-abc boottime");
    assert_boot("0123-abc", "", "");
    assert_boot("", "boottime 0 0", "");
    assert_boot("", "", "");
    assert_boot("1fa2f4a5-0000-4000-8000-000000000000", "boottime -9223372036854775808 999999999",
                "1fa2f4a5-0000-4000-8000-000000000000 boottime -9223372036854775808 999999999");
}

static void test_a_store_knows_its_boot(void **state)
{
    (void)state;
    boot_text = "this boot";
    clock_text = "its clock";
    answers_close(store);
    store = answers_open("");
    assert_string_equal(store->queue->boot, "this boot its clock");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_on_its_host_both_clocks_must_agree),
        TEST(test_an_id_lease_is_trusted_no_sooner),
        TEST(test_who_is_not_overdue_lives),
        TEST(test_no_date_makes_a_session_gone),
        TEST(test_what_was_seen_a_ttl_ago_is_gone),
        TEST(test_one_that_is_not_overdue_is_not_gone_by_sight),
        TEST(test_a_sighting_without_a_beat_is_none),
        TEST(test_an_older_sighting_is_not_hidden_by_a_younger_one),
        TEST(test_sightings_by_others_or_of_earlier_beats_are_none),
        TEST(test_the_first_sighting_is_left),
        TEST(test_a_host_that_does_not_know_its_boot_leaves_none),
        TEST(test_times_that_cannot_be_are_now),
        TEST(test_what_a_boot_is_called),
        TEST(test_a_store_knows_its_boot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
