/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_ttl_index.c: what protocol ttl makes of the indexes that it finds: how long documents
 * of other programs last, whether one is made, and what is said of it. */
#include "faults/mongo_answers.h"

#define INDEXES(list) "{'ok': 1, 'cursor': {'firstBatch': [{'key': {'_id': 1}}" list "]}}"
#define NO_STRANGER "{'ok': 1, 'cursor': {'firstBatch': []}}"
#define ON_UPDATED "'key': {'updated': 1}"
#define EXPIRE_AT "&hfProtocol=ttl&hfShape=expire-at"

static mongo_store *store;

static int open_ttl(void **state)
{
    (void)state;
    store = answers_open("&hfProtocol=ttl&hfExpireAfterSeconds=90");
    return 0;
}

static int close_it(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

/* Nor a lock of another program. */
static void give_no_stranger(void)
{
    answers_give("find", NO_STRANGER);
    answers_give("aggregate", NO_STRANGER);
}

static void assert_logged(const char *part)
{
    if (!strstr(answers_log(), part))
        fail_msg("\"%s\" is not in:\n%s", part, answers_log());
}

/* What it makes of these indexes, in ms; whether they spare our own locks is another question. */
static int64_t read_as(const char *indexes)
{
    hf_error err;
    int64_t ms = 0;
    answers_give("listIndexes", indexes);
    hf_code code = mongo_ttl_read_index_again(store, &ms, &err);
    if (code && code != HF_INVALID)
        fail_msg("%s", err.text);
    return ms;
}

/* ---- How long documents of others last ---- */

static void test_before_the_index_is_read_they_last_for_ever(void **state)
{
    (void)state;
    assert_int_equal(mongo_ttl_foreign_ms(store), MONGO_FOR_EVER);
}

static void test_an_index_on_the_date_says_it(void **state)
{
    (void)state;
    assert_int_equal(read_as(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 60}")), 60000);
    assert_int_equal(mongo_ttl_foreign_ms(store), 60000);
    assert_int_equal(read_as(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 0}")), 0);
    assert_int_equal(mongo_ttl_foreign_ms(store), 0);
    assert_int_equal(read_as(INDEXES(", {'key': {'updated': {'$numberDecimal': '1'}},"
                                     " 'expireAfterSeconds': 60}")),
                     60000);
}

static void test_the_first_of_two_counts(void **state)
{
    (void)state;
    assert_int_equal(read_as(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 0},"
                                     " {'key': {'updated': -1}, 'expireAfterSeconds': 7}")),
                     0);
    assert_int_equal(read_as(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 5,"
                                     "   'partialFilterExpression': {}},"
                                     " {'key': {'updated': -1}, 'expireAfterSeconds': 7}")),
                     7000);
}

static void test_other_indexes_say_nothing(void **state)
{
    (void)state;
    static const char *const others[] = {
        INDEXES(""),
        INDEXES(", {" ON_UPDATED "}"),
        INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': -1}"),
        INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 'soon'}"),
        INDEXES(", {'key': {'updated': 1, 'why': 1}, 'expireAfterSeconds': 60}"),
        INDEXES(", {'key': {'created': 1}, 'expireAfterSeconds': 60}"),
        INDEXES(", {'key': 'updated', 'expireAfterSeconds': 60}"),
        INDEXES(", {'key': {'updated': 'hashed'}, 'expireAfterSeconds': 60}"),
        INDEXES(", {'key': {'updated': '2d'}, 'expireAfterSeconds': 60}"),
        INDEXES(", {'expireAfterSeconds': 60}"),
        INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 60, 'partialFilterExpression': {}}"),
        "{'ok': 1, 'cursor': {'firstBatch': 'none'}}",
        "{'ok': 1}",
        "{'ok': 0, 'code': 26}",
        "{'ok': 0, 'code': 13}",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(read_as(others[i]), MONGO_FOR_EVER);
}

static void test_an_index_that_is_gone_counts_no_longer(void **state)
{
    (void)state;
    read_as(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 60}"));
    assert_int_equal(read_as(INDEXES("")), MONGO_FOR_EVER);
}

/* A date that says until when has passed when it has, unless a partial index spares it. */
static void test_a_date_that_says_until_when(void **state)
{
    (void)state;
    answers_close(store);
    store = answers_open(EXPIRE_AT);
    const char *field = store->uri.time_field;
    char partial[300];
    snprintf(partial, sizeof partial,
             INDEXES(", {'key': {'%s': 1}, 'expireAfterSeconds': 5,"
                     " 'partialFilterExpression': {}}"),
             field);
    assert_int_equal(read_as(INDEXES("")), 0);
    assert_int_equal(read_as(partial), MONGO_FOR_EVER);
}

static void test_what_cannot_be_read_changes_nothing(void **state)
{
    (void)state;
    hf_error err;
    int64_t ms;
    read_as(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 60}"));
    answers_give("listIndexes", NULL);
    assert_int_equal(mongo_ttl_read_index_again(store, &ms, &err), HF_UNREACHABLE);
    assert_int_equal(mongo_ttl_foreign_ms(store), 60000);
}

static void test_it_is_read_once(void **state)
{
    (void)state;
    hf_error err;
    answers_give("listIndexes", NULL);
    answers_give("listIndexes", INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 60}"));
    assert_int_equal(mongo_ttl_read_index(store, &err), HF_UNREACHABLE);
    assert_int_equal(mongo_ttl_read_index(store, &err), HF_OK);
    assert_int_equal(mongo_ttl_read_index(store, &err), HF_OK);
    assert_int_equal(answers_sent("listIndexes"), 2);
    assert_int_equal(mongo_ttl_foreign_ms(store), 60000);
}

/* ---- Making it ---- */

static hf_code try_to_settle(const char *indexes, hf_error *err)
{
    answers_give("listIndexes", indexes);
    answers_give("find", "{'ok': 1, 'cursor': {'firstBatch': []}}");
    return mongo_ttl_settle(store, err);
}

static void settle(const char *indexes)
{
    hf_error err;
    if (try_to_settle(indexes, &err))
        fail_msg("%s", err.text);
}

static void test_one_is_made_where_there_is_none(void **state)
{
    (void)state;
    give_no_stranger();
    answers_give("createIndexes", "{'ok': 1}");
    settle("{'ok': 0, 'code': 26}");
    const char *sent = answers_last("createIndexes");
    assert_non_null(strstr(sent, "'indexes' : [ { 'key' : { 'updated' : 1 }, 'name' : "
                                 "'updated_1', 'expireAfterSeconds' : 90 } ]"));
    assert_non_null(strstr(sent, "'w' : 'majority'"));
    assert_int_equal(mongo_ttl_foreign_ms(store), 90000);
    assert_string_equal(answers_log(), "");
}

static void test_how_long_after_the_date_if_nobody_says(void **state)
{
    (void)state;
    static const char *const said[][3] = {
        {"&hfProtocol=ttl", "'updated' : 1", "'expireAfterSeconds' : 600"},
        {EXPIRE_AT, "'ExpireAt' : 1", "'expireAfterSeconds' : 0"},
    };
    for (size_t i = 0; i < 2; i++) {
        answers_close(store);
        store = answers_open(said[i][0]);
        answers_give("find", NO_STRANGER);
        answers_give("createIndexes", "{'ok': 1}");
        settle(INDEXES(""));
        assert_int_equal(answers_sent("aggregate"), 0);
        assert_non_null(strstr(answers_last("createIndexes"), said[i][1]));
        assert_non_null(strstr(answers_last("createIndexes"), said[i][2]));
    }
}

static void test_it_is_settled_once(void **state)
{
    (void)state;
    hf_error err;
    give_no_stranger();
    answers_give("createIndexes", "{'ok': 1}");
    settle(INDEXES(""));
    assert_int_equal(mongo_ttl_settle(store, &err), HF_OK);
    assert_int_equal(mongo_ttl_read_index(store, &err), HF_OK);
    assert_int_equal(answers_sent("listIndexes"), 1);
}

static void test_one_that_was_only_read_is_made_all_the_same(void **state)
{
    (void)state;
    read_as(INDEXES(""));
    give_no_stranger();
    answers_give("createIndexes", "{'ok': 1}");
    settle(INDEXES(""));
    assert_int_equal(mongo_ttl_foreign_ms(store), 90000);
}

static void test_the_same_one_is_left_without_a_word(void **state)
{
    (void)state;
    settle(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 90}"));
    assert_int_equal(answers_sent("createIndexes"), 0);
    assert_string_equal(answers_log(), "");
    assert_int_equal(mongo_ttl_foreign_ms(store), 90000);
}

static void test_another_one_is_left_and_told(void **state)
{
    (void)state;
    settle(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 7}"));
    assert_int_equal(answers_sent("createIndexes"), 0);
    assert_logged("the TTL index on app.locks, field updated, has expireAfterSeconds 7, not 90");
    assert_int_equal(mongo_ttl_foreign_ms(store), 7000);
}

static void test_beside_a_partial_one_none_is_made(void **state)
{
    (void)state;
    settle(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 90, 'partialFilterExpression': {}}"));
    assert_int_equal(answers_sent("createIndexes"), 0);
    assert_logged("the TTL index on app.locks, field updated, is partial");
    assert_int_equal(mongo_ttl_foreign_ms(store), MONGO_FOR_EVER);
}

static void test_who_may_not_make_one_is_told(void **state)
{
    (void)state;
    give_no_stranger();
    answers_give("createIndexes", "{'ok': 0, 'code': 13, 'errmsg': 'not you'}");
    answers_give("listIndexes", INDEXES(""));
    settle(INDEXES(""));
    assert_logged("no TTL index on app.locks could be made");
    assert_logged("not you");
    assert_logged("db.locks.createIndex({updated: 1}, {expireAfterSeconds: 90})");
    assert_int_equal(mongo_ttl_foreign_ms(store), MONGO_FOR_EVER);
}

/* Nobody knows what it would be made beside, in either shape. */
static void test_who_may_not_read_them_knows_of_nothing(void **state)
{
    (void)state;
    static const char *const shapes[] = {"&hfProtocol=ttl", EXPIRE_AT};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        answers_close(store);
        store = answers_open(shapes[i]);
        settle("{'ok': 0, 'code': 13}");
        assert_logged("the indexes of app.locks may not be read");
        assert_int_equal(mongo_ttl_foreign_ms(store), MONGO_FOR_EVER);
        assert_int_equal(answers_sent("createIndexes"), 0);
        assert_int_equal(read_as("{'ok': 0, 'code': 13}"), MONGO_FOR_EVER);
        assert_logged("the indexes of app.locks may not be read (privilege listIndexes)");
        assert_null(strchr(strchr(answers_log(), '\n') + 1, '\n')); /* said once */
    }
}

/* That is no privilege which somebody could grant. */
static void test_who_is_not_known_at_all_is_told_only_that(void **state)
{
    (void)state;
    hf_error err;
    assert_int_equal(try_to_settle("{'ok': 0, 'code': 18, 'errmsg': 'who?'}", &err),
                     HF_UNREACHABLE); /* a second refusal would judge */
    assert_string_equal(answers_log(), "");
}

static void test_one_without_a_majority_is_not_relied_on(void **state)
{
    (void)state;
    give_no_stranger();
    answers_give("createIndexes", "{'ok': 1, 'writeConcernError': {'code': 64}}");
    answers_give("listIndexes", INDEXES(""));
    settle(INDEXES(""));
    assert_logged("no TTL index on app.locks could be made");
    assert_int_equal(mongo_ttl_foreign_ms(store), MONGO_FOR_EVER);
}

static void test_a_settling_that_fails_is_done_again(void **state)
{
    (void)state;
    hf_error err;
    answers_give("listIndexes", NULL);
    assert_int_equal(mongo_ttl_settle(store, &err), HF_UNREACHABLE);
    assert_int_equal(answers_sent("createIndexes"), 0);
    give_no_stranger();
    answers_give("createIndexes", "{'ok': 1}");
    settle(INDEXES(""));
    assert_int_equal(mongo_ttl_foreign_ms(store), 90000);
}

static void assert_stranger_refused(const char *stranger, const char *says)
{
    hf_error err;
    char json[300];
    snprintf(json, sizeof json, "{'ok': 1, 'cursor': {'firstBatch': [%s]}}", stranger);
    answers_give("find", json);
    answers_give("listIndexes", INDEXES(""));
    assert_int_equal(mongo_ttl_settle(store, &err), HF_SHAPE);
    assert_int_equal(answers_sent("createIndexes"), 0);
    if (!strstr(err.text, says) ||
        !strstr(err.text, "db.locks.createIndex({updated: 1}, {expireAfterSeconds: 90})"))
        fail_msg("%s", err.text);
}

/* It would delete somebody's data, or locks that lasted for ever until then. */
static void test_none_is_made_over_documents_that_it_would_delete(void **state)
{
    (void)state;
    assert_stranger_refused("{'_id': 'u', 'name': 'x', 'updated': {'$date': 0}}",
                            "_id \"u\" is no lock");
    assert_stranger_refused("{'_id': {'$oid': '0123456789abcdef01234567'}, 'name': 'x'}",
                            "is no lock");
    assert_stranger_refused("{'_id': 'x', 'acquirer': 'a', 'updated': {'$date': 0}}",
                            "_id \"x\" is another program's lock, and its time is over");
    answers_give("listIndexes", INDEXES(""));
    answers_give("find", NULL);
    hf_error err;
    assert_int_equal(mongo_ttl_settle(store, &err), HF_UNREACHABLE);
}

/* ---- Our own ttl, which is 6 s ---- */

static void test_a_ttl_longer_than_the_index_is_refused(void **state)
{
    (void)state;
    static const char *const shorter[] = {
        INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 5}"),
        INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 90},"
                " {'key': {'updated': -1}, 'expireAfterSeconds': 5}"),
        INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 5, 'partialFilterExpression': {}}"),
    };
    for (size_t i = 0; i < sizeof shorter / sizeof *shorter; i++) {
        hf_error err;
        assert_int_equal(try_to_settle(shorter[i], &err), HF_INVALID);
        assert_non_null(strstr(err.text, "field updated, removes documents after 5 s"));
        assert_non_null(strstr(err.text, "a ttl of at most 5 s"));
        assert_non_null(strstr(err.text, "expireAfterSeconds to 6 "));
    }
}

static void assert_refused(const char *indexes, const char *says)
{
    hf_error err;
    assert_int_equal(try_to_settle(indexes, &err), HF_INVALID);
    if (!strstr(err.text, says))
        fail_msg("%s", err.text);
}

/* Nothing renews that date: whatever its time, it removes locks that are held. */
static void test_an_index_on_the_date_of_their_beginning_is_refused(void **state)
{
    (void)state;
    static const char says[] = "field since, removes documents 86400 s after";
    static const char indexes[] = INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 90},"
                                          " {'key': {'since': 1}, 'expireAfterSeconds': 86400}");
    hf_error err;
    assert_refused(indexes, says);
    answers_give("listIndexes", indexes);
    assert_int_equal(mongo_ttl_check(store, true, &err), HF_INVALID); /* a beat ends the belief */
    answers_give("listIndexes", INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 90},"
                                        " {'key': {'since': 1}}"));
    assert_int_equal(mongo_ttl_check(store, true, &err), HF_OK);
}

/* One that removes at once, before or behind another. */
/* Names that differ would be one lock. */
static void test_a_collation_is_refused(void **state)
{
    (void)state;
    hf_error err;
    assert_int_equal(
        try_to_settle("{'ok': 1, 'cursor': {'firstBatch': [{'key': {'_id': 1}, 'collation':"
                      " {'locale': 'en', 'strength': 2}}, {" ON_UPDATED
                      ", 'expireAfterSeconds': 90}]}}",
                      &err),
        HF_INVALID);
    assert_non_null(strstr(err.text, "app.locks has a collation"));
}

static void test_the_shortest_counts_down_to_nothing(void **state)
{
    (void)state;
    static const char says[] = "removes documents after 0 s";
    assert_refused(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 0}"), says);
    assert_logged("field updated, has expireAfterSeconds 0, not 90");
    assert_refused(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 0},"
                           " {'key': {'updated': -1}, 'expireAfterSeconds': 60}"),
                   says);
    assert_refused(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 60},"
                           " {'key': {'updated': -1}, 'expireAfterSeconds': 0}"),
                   says);
}

static void test_a_part_of_a_second_counts_as_one(void **state)
{
    (void)state;
    store->config.ttl_ms = 6001;
    assert_refused(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 6}"),
                   "expireAfterSeconds to 7 ");
    settle(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 7}"));
}

/* One that removes nothing, though it is on the date and partial. */
static void test_an_index_without_a_time_is_none(void **state)
{
    (void)state;
    give_no_stranger();
    answers_give("createIndexes", "{'ok': 1}");
    settle(INDEXES(", {" ON_UPDATED ", 'partialFilterExpression': {}}"));
    assert_int_equal(answers_sent("createIndexes"), 1);
    assert_string_equal(answers_log(), "");
}

static void test_what_was_never_read_is_not_known(void **state)
{
    (void)state;
    hf_error err;
    answers_close(store);
    store = answers_open(EXPIRE_AT);
    answers_give("listIndexes", INDEXES(""));
    assert_int_equal(mongo_ttl_check(store, false, &err), HF_OK);
    assert_int_equal(answers_sent("listIndexes"), 1);
}

static void test_an_odd_id_that_is_too_long_is_told(void **state)
{
    (void)state;
    char json[700], id[HF_NAME_MAX + 1];
    memset(id, 'x', sizeof id);
    id[HF_NAME_MAX] = '\0';
    snprintf(json, sizeof json, "{'ok': 1, 'cursor': {'firstBatch': [{'_id': {'k': '%s'}}]}}", id);
    answers_give("find", json);
    settle(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 90}"));
    assert_logged("whose _id is not a string: (it cannot be shown)");
}

static void test_a_ttl_as_long_as_the_index_is_taken(void **state)
{
    (void)state;
    settle(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 6}"));
}

static void test_a_date_that_says_until_when_takes_any_ttl(void **state)
{
    (void)state;
    answers_close(store);
    store = answers_open(EXPIRE_AT);
    settle(INDEXES(", {'key': {'ExpireAt': 1}, 'expireAfterSeconds': 0}"));
}

static void test_one_that_is_made_is_long_enough(void **state)
{
    (void)state;
    answers_close(store);
    store = answers_open("&hfProtocol=ttl&hfExpireAfterSeconds=5");
    give_no_stranger();
    answers_give("createIndexes", "{'ok': 1}");
    settle(INDEXES(""));
    assert_non_null(strstr(answers_last("createIndexes"), "'expireAfterSeconds' : 30 }"));
    assert_int_equal(mongo_ttl_foreign_ms(store), 30000);
    assert_string_equal(answers_log(), "");
}

/* Of a program that renews so seldom, and one that has died: no more than the article's index. */
static void test_one_that_is_made_outlasts_three_beats_that_are_seen(void **state)
{
    (void)state;
    static const struct {
        const char *ms, *made;
    } gaps[] = {{"5000", "'expireAfterSeconds' : 90 "},
                {"40000", "'expireAfterSeconds' : 123 "},
                {"{'$numberLong': '400000'}", "'expireAfterSeconds' : 600 "}};
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        char json[120];
        answers_close(store);
        store = answers_open("&hfProtocol=ttl&hfExpireAfterSeconds=90");
        answers_give("find", NO_STRANGER);
        snprintf(json, sizeof json, "{'ok': 1, 'cursor': {'firstBatch': [{'age': %s}]}}",
                 gaps[i].ms);
        answers_give("aggregate", json);
        answers_give("createIndexes", "{'ok': 1}");
        settle(INDEXES(""));
        assert_non_null(strstr(answers_last("createIndexes"), gaps[i].made));
    }
}

static void test_beats_that_cannot_be_seen_make_no_index(void **state)
{
    (void)state;
    hf_error err;
    answers_give("listIndexes", INDEXES(""));
    answers_give("find", NO_STRANGER);
    answers_give("aggregate", NULL);
    assert_int_equal(mongo_ttl_settle(store, &err), HF_UNREACHABLE);
    assert_int_equal(answers_sent("createIndexes"), 0);
}

static void test_one_that_another_client_made_meanwhile_is_looked_at(void **state)
{
    (void)state;
    hf_error err;
    answers_give("listIndexes", INDEXES(""));
    give_no_stranger();
    answers_give("createIndexes", "{'ok': 0, 'code': 85}");
    assert_int_equal(try_to_settle(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 5}"), &err),
                     HF_INVALID);
}

static void test_a_mended_index_is_seen_at_once(void **state)
{
    (void)state;
    hf_error err;
    assert_int_equal(try_to_settle(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 5}"), &err),
                     HF_INVALID);
    settle(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 6}"));
}

static void test_it_is_read_again_when_a_ttl_has_passed(void **state)
{
    (void)state;
    hf_error err;
    settle(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 90}"));
    answers_pass(5999);
    assert_int_equal(mongo_ttl_check(store, false, &err), HF_OK);
    assert_int_equal(answers_sent("listIndexes"), 1);
    answers_pass(1);
    answers_give("listIndexes", NULL);
    assert_int_equal(mongo_ttl_check(store, false, &err), HF_UNREACHABLE);
    answers_give("listIndexes", INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 5}"));
    assert_int_equal(mongo_ttl_check(store, false, &err), HF_INVALID);
}

static void test_an_odd_id_is_told_when_it_is_settled(void **state)
{
    (void)state;
    answers_give("find", "{'ok': 1, 'cursor': {'firstBatch': [{'_id': 5}]}}");
    settle(INDEXES(", {" ON_UPDATED ", 'expireAfterSeconds': 90}"));
    assert_logged("locks has a document whose _id is not a string: 5");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_ttl, close_it)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_before_the_index_is_read_they_last_for_ever),
        TEST(test_an_index_on_the_date_says_it),
        TEST(test_the_first_of_two_counts),
        TEST(test_other_indexes_say_nothing),
        TEST(test_an_index_that_is_gone_counts_no_longer),
        TEST(test_a_date_that_says_until_when),
        TEST(test_what_cannot_be_read_changes_nothing),
        TEST(test_it_is_read_once),
        TEST(test_one_is_made_where_there_is_none),
        TEST(test_how_long_after_the_date_if_nobody_says),
        TEST(test_it_is_settled_once),
        TEST(test_one_that_was_only_read_is_made_all_the_same),
        TEST(test_the_same_one_is_left_without_a_word),
        TEST(test_another_one_is_left_and_told),
        TEST(test_beside_a_partial_one_none_is_made),
        TEST(test_who_may_not_make_one_is_told),
        TEST(test_who_may_not_read_them_knows_of_nothing),
        TEST(test_who_is_not_known_at_all_is_told_only_that),
        TEST(test_one_without_a_majority_is_not_relied_on),
        TEST(test_none_is_made_over_documents_that_it_would_delete),
        TEST(test_a_settling_that_fails_is_done_again),
        TEST(test_an_odd_id_is_told_when_it_is_settled),
        TEST(test_a_ttl_longer_than_the_index_is_refused),
        TEST(test_an_index_on_the_date_of_their_beginning_is_refused),
        TEST(test_a_collation_is_refused),
        TEST(test_the_shortest_counts_down_to_nothing),
        TEST(test_a_part_of_a_second_counts_as_one),
        TEST(test_an_index_without_a_time_is_none),
        TEST(test_what_was_never_read_is_not_known),
        TEST(test_an_odd_id_that_is_too_long_is_told),
        TEST(test_a_ttl_as_long_as_the_index_is_taken),
        TEST(test_a_date_that_says_until_when_takes_any_ttl),
        TEST(test_one_that_is_made_is_long_enough),
        TEST(test_one_that_is_made_outlasts_three_beats_that_are_seen),
        TEST(test_beats_that_cannot_be_seen_make_no_index),
        TEST(test_one_that_another_client_made_meanwhile_is_looked_at),
        TEST(test_a_mended_index_is_seen_at_once),
        TEST(test_it_is_read_again_when_a_ttl_has_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
