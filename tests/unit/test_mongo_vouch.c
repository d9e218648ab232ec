/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_vouch.c: when a session that is overdue counts as dead for a request that may not wait
 * (R6), to the millisecond. */
#include "core/id.h"
#include "faults/mongo_answers.h"

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
    return (hf_session_state){.session = {.id = id_of(1), .ttl_ms = TTL_MS},
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_on_its_host_both_clocks_must_agree),
        TEST(test_who_is_not_overdue_lives),
        TEST(test_no_date_makes_a_session_gone),
        TEST(test_what_was_seen_a_ttl_ago_is_gone),
        TEST(test_an_older_sighting_is_not_hidden_by_a_younger_one),
        TEST(test_sightings_by_others_or_of_earlier_beats_are_none),
        TEST(test_the_first_sighting_is_left),
        TEST(test_a_host_that_does_not_know_its_boot_leaves_none),
        TEST(test_times_that_cannot_be_are_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
