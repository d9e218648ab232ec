/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_vouch.c: by which clocks a session that is overdue counts as dead at first sight (R6),
 * to the millisecond. */
#include "core/id.h"
#include "faults/mongo_answers.h"

#define TTL_MS 10000
#define TRUST_MS 300000
#define DAY_MS 86400000
#define BOOT_MS 5000000 /* this host's clock */
#define WATCH_MS 10025  /* a ttl and the allowance */

static mongo_store *store;
static mongo_primary primary;

static int begin(void **state)
{
    (void)state;
    store = answers_open("");
    snprintf(store->queue->boot, sizeof store->queue->boot, "us");
    answers_pass(BOOT_MS - 1000);
    primary = (mongo_primary){.is_asked = false};
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
    bool gone = mongo_is_gone(store, doc, &state, trust_ms, &primary);
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

#define ELECTION "{'$oid': '000000090000000000000000'}"

static const char *beaten_there(int64_t ago_ms, const char *more)
{
    static char json[400];
    snprintf(json, sizeof json,
             "{'clock': {'boot': 'them', 'wall': {'$date': {'$numberLong': '%lld'}}} %s,"
             " 'sightings': [{'boot': 'us', 'beat': 3, 'at': {'$numberLong': '%d'}}]}",
             (long long)(ANSWERS_WALL_MS - ago_ms), more, BOOT_MS);
    return json;
}

static void test_a_day_is_enough(void **state)
{
    (void)state;
    assert_true(is_gone(beaten_there(0, ""), DAY_MS + 1));
    assert_false(is_gone(beaten_there(0, ""), DAY_MS));
    assert_int_equal(answers_sent("hello"), 0);
}

static void test_dates_need_the_same_primary(void **state)
{
    (void)state;
    const char *old = beaten_there(TTL_MS + TRUST_MS + 1, ", 'election': " ELECTION);
    answers_give("hello", "{'ok': 1, 'electionId': " ELECTION "}");
    assert_true(is_gone(old, TRUST_MS + 1));
    assert_true(is_gone(old, TRUST_MS + 1));
    assert_int_equal(answers_sent("hello"), 1);
    assert_false(is_gone(old, TRUST_MS));
    assert_false(is_gone(beaten_there(TTL_MS + TRUST_MS, ", 'election': " ELECTION), TRUST_MS + 1));
    assert_false(is_gone(beaten_there(TTL_MS + TRUST_MS + 1, ""), TRUST_MS + 1));
}

static void test_another_primary_vouches_for_nothing(void **state)
{
    (void)state;
    static const char *const others[] = {
        "{'ok': 1, 'electionId': {'$oid': '0000000a0000000000000000'}}", "{'ok': 1}", NULL,
        "{'ok': 0, 'code': 13, 'electionId': " ELECTION "}"};
    const char *old = beaten_there(TTL_MS + TRUST_MS + 1, ", 'election': " ELECTION);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        primary = (mongo_primary){.is_asked = false};
        answers_give("hello", others[i]);
        assert_false(is_gone(old, TRUST_MS + 1));
        assert_false(is_gone(old, TRUST_MS + 1));
        assert_int_equal(answers_sent("hello"), i + 1);
    }
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
    assert_non_null(strstr(sent, "'boot' : 'us', 'beat' : 3, 'at' : 5000000, 'most' : 32"));
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
        TEST(test_a_day_is_enough),
        TEST(test_dates_need_the_same_primary),
        TEST(test_another_primary_vouches_for_nothing),
        TEST(test_what_was_seen_a_ttl_ago_is_gone),
        TEST(test_an_older_sighting_is_not_hidden_by_a_younger_one),
        TEST(test_sightings_by_others_or_of_earlier_beats_are_none),
        TEST(test_the_first_sighting_is_left),
        TEST(test_a_host_that_does_not_know_its_boot_leaves_none),
        TEST(test_times_that_cannot_be_are_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
