/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_ttl.c: protocol ttl: what its documents say of a lock, and what the store makes of
 * each answer to a taking, a leaving and a beat. */
#include "core/id.h"
#include "core/record.h"
#include "faults/mongo_answers.h"

#define TICKET(n) "'ticket': {'$oid': '000000" n "0000000000000000'}"
#define DATED "'updated': {'$date': {'$numberLong': '5'}}"
#define OURS "'_id': 'a', " TICKET("07") ", 'ttl_ms': 6000, " DATED
#define TAKEN "{'ok': 1, 'value': {" OURS "}}"
#define IN_THE_WAY "{'ok': 0, 'code': 11000, 'keyPattern': {'_id': 1}}"
#define LOOK(doc) "{'ok': 1, 'cursor': {'firstBatch': [" doc "]}}"
#define FOREIGN(left) "{'_id': 'a', 'acquirer': 'them', " DATED ", 'hf_left': " left "}"

#define NO_ARRAY "'$nor' : [ { 'ticket' : { '$type' : 'array' } } ]"

static mongo_store *store;
static hf_record record;
static hf_step_reply reply;

static int begin_with(const char *keys)
{
    hf_error err;
    hf_session self = {.id = id_of(1), .app = "app", .host = "here", .pid = 5};
    store = answers_open(keys);
    answers_give("listIndexes", LOOK("{'key': {'updated': 1}, 'expireAfterSeconds': 60}"));
    answers_give("find", LOOK(""));
    record = (hf_record){.limit = 0};
    return (int)store->base.ops->session_begin(&store->base, &self, &err);
}

static int begin(void **state)
{
    (void)state;
    return begin_with("&hfProtocol=ttl");
}

static int begin_fair(void **state)
{
    (void)state;
    return begin_with("&hfProtocol=ttl&hfFair=1");
}

static int end(void **state)
{
    (void)state;
    record_done(&record);
    answers_close(store);
    return 0;
}

/* ---- Reading ---- */

static hf_code read_as(const char *json, hf_error *err)
{
    bson_t *doc = pipeline_json(json);
    record_done(&record);
    record = (hf_record){.limit = 0};
    hf_code code = store->protocol->read(store, doc, &record, err);
    bson_destroy(doc);
    return code;
}

static void test_documents_of_another_shape_are_named(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "{'updated': 5}",
        "{'_id': 5, " DATED "}",
        "{'_id': '', " DATED "}",
        "{'_id': 'a', 'why': 'x'}",
        "{'_id': 'a', 'updated': 5}",
        "{'_id': 'a', 'acquirer': 'x', 'more': 1}",
    };
    hf_error err;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        if (read_as(odd[i], &err) != HF_SHAPE)
            fail_msg("%s is a lock", odd[i]);
}

static void test_names_up_to_the_longest(void **state)
{
    (void)state;
    char json[700];
    hf_error err;
    for (int more = 0; more < 2; more++) {
        snprintf(json, sizeof json, "{'_id': '%0*d'}", HF_NAME_MAX + more, 0);
        assert_int_equal(read_as(json, &err), more ? HF_SHAPE : HF_OK);
    }
}

static void test_a_bare_document_is_held(void **state)
{
    (void)state;
    static const char *const bare[] = {"{'_id': 'a'}", "{'_id': 'a', 'hf_left': null}",
                                       "{'_id': 'a', 'acquirer': 'x'}"};
    hf_error err;
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++) {
        assert_int_equal(read_as(bare[i], &err), HF_OK);
        assert_true(record.exists);
        assert_int_equal(record.holders, 1);
        assert_int_equal(record.limit, HF_LIMIT_RW);
        assert_int_equal(record.entries[0].permits, HF_LIMIT_RW);
        assert_int_equal(record.entries[0].ttl_ms, 0);
        assert_int_equal(record.lease_left_ms, 0);
        assert_string_equal(record.who, i == 2 ? "x" : "a program that does not say");
    }
}

static void test_one_of_ours_says_all(void **state)
{
    (void)state;
    hf_error err;
    assert_int_equal(read_as("{" OURS ", 'session': {'$oid': '000000010000000000000000'},"
                             " 'since': {'$date': {'$numberLong': '3'}}, 'why': 'y', 'app': 'p',"
                             " 'host': 'h', 'pid': 4, 'hf_left': 77}",
                             &err),
                     HF_OK);
    assert_true(id_equal(record.entries[0].ticket, id_of(7)));
    assert_true(id_equal(record.entries[0].session, id_of(1)));
    assert_int_equal(record.entries[0].ttl_ms, 6000);
    assert_int_equal(record.entries[0].since.ms, 3);
    assert_int_equal(record.entries[0].granted_at.ms, 3);
    assert_string_equal(record.entries[0].why, "y");
    assert_string_equal(record.who, "p@h:4");
    assert_int_equal(record.lease_left_ms, 77);
}

/* It may be somebody's data. */
static void test_other_fields_need_an_owner(void **state)
{
    (void)state;
    static const char *const owned[] = {"{'_id': 'a', " DATED "}",
                                        "{'_id': 'a', " DATED ", 'name': 1, 'acquirer': 'x'}",
                                        "{'_id': 'a', " DATED ", 'name': 1, 'aqcuirer': 'x'}"};
    hf_error err;
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        assert_int_equal(read_as(owned[i], &err), HF_OK);
    assert_int_equal(read_as("{'_id': 'a', " DATED ", 'name': 1}", &err), HF_SHAPE);
    assert_non_null(strstr(err.text, "field acquirer: expected an owner's name"));
    assert_int_equal(read_as("{'_id': 'a', " DATED ", " TICKET("07") "}", &err), HF_SHAPE);
}

/* Not ours without both, whatever else it has: then it lasts as the index says. */
static void test_ours_has_a_ticket_and_a_ttl(void **state)
{
    (void)state;
    static const char *const others[] = {
        "{'_id': 'a', 'acquirer': 'x', " DATED ", " TICKET("07") "}",
        "{'_id': 'a', 'acquirer': 'x', " DATED ", " TICKET("07") ", 'ttl_ms': 0}",
        "{'_id': 'a', 'acquirer': 'x', " DATED ", " TICKET("07") ", 'ttl_ms': -1}",
        "{'_id': 'a', 'acquirer': 'x', " DATED
        ", " TICKET("07") ", 'ttl_ms': {'$numberLong': '6000'}}",
        "{'_id': 'a', 'acquirer': 'x', " DATED ", 'ticket': 7, 'ttl_ms': 6000}",
    };
    hf_error err;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(read_as(others[i], &err), HF_OK);
        assert_int_equal(record.entries[0].ttl_ms, 0);
        assert_false(id_equal(record.entries[0].ticket, id_of(7)));
        assert_true(id_equal(record.entries[0].ticket, record.entries[0].session));
    }
    assert_int_equal(read_as("{'_id': 'a', " DATED ", " TICKET("07") ", 'ttl_ms': 1}", &err),
                     HF_OK);
    assert_int_equal(record.entries[0].ttl_ms, 1);
}

static void test_others_are_told_apart_by_name_and_owner(void **state)
{
    (void)state;
    static const char *const others[] = {"{'_id': 'a', 'acquirer': 'x'}",
                                         "{'_id': 'a', 'acquirer': 'y'}", "{'_id': 'ax'}",
                                         "{'_id': 'b', 'acquirer': 'x'}", "{'_id': 'a'}"};
    hf_id seen[5];
    hf_error err;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(read_as(others[i], &err), HF_OK);
        seen[i] = record.entries[0].ticket;
        for (size_t j = 0; j < i; j++)
            assert_false(id_equal(seen[i], seen[j]));
    }
    assert_int_equal(read_as(others[0], &err), HF_OK);
    assert_true(id_equal(seen[0], record.entries[0].ticket));
}

/* ---- Taking ---- */

static hf_code enter(void)
{
    hf_error err;
    hf_enter in = {.entry = {.ticket = id_of(7), .session = id_of(1), .ttl_ms = 6000, .why = "y"}};
    record_done(&record);
    return store->base.ops->step(&store->base, "a", &(hf_step){.enter = &in}, &record, &reply,
                                 &err);
}

static bool is_renewed(void)
{
    size_t n;
    mongo_held *all = mongo_held_copy(store, &n);
    mongo_held_free_copy(all, n);
    return n > 0;
}

static void test_what_was_taken_is_renewed(void **state)
{
    (void)state;
    answers_give("findAndModify", TAKEN);
    assert_int_equal(enter(), HF_OK);
    assert_true(reply.confirmed);
    assert_int_equal(reply.again_ms, store->uri.poll_ms);
    assert_true(record_find(&record, id_of(7)) != NULL);
    assert_true(is_renewed());
    const char *sent = answers_last("findAndModify");
    assert_non_null(strstr(sent,
                           "'query' : { '_id' : 'a', 'ticket' : { '$in' : [ { '$oid' : "
                           "'000000070000000000000000' } ] }, " NO_ARRAY " }, 'upsert' : true"));
    assert_non_null(strstr(sent, "'app@here:5/000000010000000000000000'"));
    assert_non_null(strstr(sent, "'new' : true"));
    assert_non_null(strstr(sent, "'w' : 'majority'"));
}

static void test_what_another_holds_is_shown(void **state)
{
    (void)state;
    answers_give("findAndModify", IN_THE_WAY);
    answers_give("aggregate", LOOK(FOREIGN("100")));
    assert_int_equal(enter(), HF_OK);
    assert_false(reply.confirmed);
    assert_int_equal(record.holders, 1);
    assert_string_equal(record.who, "them");
    assert_false(is_renewed());
    assert_int_equal(answers_sent("findAndModify"), 1);
}

static void test_a_time_that_is_just_over_has_not_passed(void **state)
{
    (void)state;
    answers_give("findAndModify", IN_THE_WAY);
    answers_give("aggregate", LOOK(FOREIGN("0")));
    assert_int_equal(enter(), HF_OK);
    assert_int_equal(answers_sent("findAndModify"), 1);
}

static void test_what_has_passed_is_taken_over(void **state)
{
    (void)state;
    answers_give("findAndModify", IN_THE_WAY);
    answers_give("aggregate", LOOK(FOREIGN("-1")));
    answers_give("listIndexes", LOOK("{'key': {'updated': 1}, 'expireAfterSeconds': 90}"));
    answers_give("findAndModify", TAKEN);
    assert_int_equal(enter(), HF_OK);
    assert_true(reply.confirmed);
    assert_true(is_renewed());
    assert_non_null(strstr(answers_last("findAndModify"), "'foreign_ms' : 90000"));
    assert_null(strstr(answers_last("findAndModify"), "'upsert'"));
    assert_true(id_is_zero(reply.overtaken.entry.ticket)); /* another may have come meanwhile */
}

/* One of ours says itself how long it lasts, and others' are left alone by its takeover. */
static void test_one_of_ours_is_taken_over_without_the_index(void **state)
{
    (void)state;
    answers_give("findAndModify", IN_THE_WAY);
    answers_give("aggregate", LOOK("{'_id': 'a', " TICKET(
                                  "08") ", 'ttl_ms': 6000, " DATED ", 'hf_left': -1,"
                                        " 'app': 'p', 'host': 'h', 'pid': 4, 'why': 'half done'}"));
    answers_give("findAndModify", TAKEN);
    assert_int_equal(enter(), HF_OK);
    assert_int_equal(answers_sent("listIndexes"), 1);
    assert_non_null(strstr(answers_last("findAndModify"), "'foreign_ms' : null"));
    assert_non_null(strstr(answers_last("findAndModify"),
                           "'query' : { '_id' : 'a', 'ticket' : { '$oid' : "
                           "'000000080000000000000000' }, " NO_ARRAY ", '$expr'"));
    assert_true(id_equal(reply.overtaken.entry.ticket, id_of(8)));
    assert_string_equal(reply.overtaken.who, "p@h:4");
    assert_string_equal(reply.overtaken.entry.why, "half done");
}

/* It was gone, or renewed, or another's, when the takeover arrived. */
static void test_what_changed_meanwhile_is_not_overtaken(void **state)
{
    (void)state;
    answers_give_always("findAndModify", IN_THE_WAY);
    answers_give("aggregate",
                 LOOK("{'_id': 'a', " TICKET("08") ", 'ttl_ms': 6000, " DATED ", 'hf_left': -1}"));
    answers_give_always("aggregate", LOOK(FOREIGN("100")));
    assert_int_equal(enter(), HF_OK);
    assert_false(reply.confirmed);
    assert_true(id_is_zero(reply.overtaken.entry.ticket));
}

static void test_an_index_that_cannot_be_read_takes_nothing_over(void **state)
{
    (void)state;
    answers_give("findAndModify", IN_THE_WAY);
    answers_give("aggregate", LOOK(FOREIGN("-1")));
    answers_give("listIndexes", NULL);
    assert_int_equal(enter(), HF_UNREACHABLE);
    assert_int_equal(answers_sent("findAndModify"), 1);
    assert_false(is_renewed());
}

static void test_one_that_vanishes_each_time_is_given_up(void **state)
{
    (void)state;
    answers_give_always("findAndModify", IN_THE_WAY);
    answers_give_always("aggregate", LOOK(""));
    assert_int_equal(enter(), HF_OK);
    assert_false(reply.confirmed);
    assert_int_equal(record.holders, 0);
    assert_int_equal(answers_sent("findAndModify"), 4);
    assert_false(is_renewed());
}

static void test_a_duplicate_of_another_index_is_an_error(void **state)
{
    (void)state;
    answers_give("findAndModify", "{'ok': 0, 'code': 11000, 'keyPattern': {'why': 1}}");
    assert_int_equal(enter(), HF_UNUSABLE);
    assert_int_equal(answers_sent("aggregate"), 0);
    answers_give("findAndModify", "{'ok': 0, 'code': 11000}");
    answers_give("aggregate", LOOK(FOREIGN("100")));
    assert_int_equal(enter(), HF_OK);
    assert_int_equal(answers_sent("aggregate"), 1);
}

static void test_a_taking_without_a_document_is_odd(void **state)
{
    (void)state;
    answers_give("findAndModify", "{'ok': 1}");
    assert_int_equal(enter(), HF_UNUSABLE);
    assert_false(reply.confirmed);
    assert_false(is_renewed());
}

static void test_a_taking_in_doubt_is_renewed(void **state)
{
    (void)state;
    answers_give("findAndModify", "{'ok': 0, 'code': 13}");
    assert_int_equal(enter(), HF_DENIED);
    assert_false(is_renewed());
    answers_give("findAndModify", NULL);
    assert_int_equal(enter(), HF_UNKNOWN);
    assert_true(is_renewed());
}

/* ---- Leaving ---- */

static hf_code leave(hf_outcome outcome, hf_id ticket, size_t n)
{
    hf_error err;
    hf_leave out[] = {{.ticket = ticket, .outcome = outcome},
                      {.ticket = id_of(8), .outcome = outcome}};
    hf_step step = {.leaves = out, .n_leaves = n};
    return store->base.ops->step(&store->base, "a", &step, NULL, &reply, &err);
}

static void test_a_leave_is_confirmed_when_all_were_there(void **state)
{
    (void)state;
    mongo_held_add(store, "a", id_of(7));
    answers_give("delete", "{'ok': 1, 'n': 2}");
    assert_int_equal(leave(HF_OUTCOME_RELEASED, id_of(7), 2), HF_OK);
    assert_true(reply.confirmed);
    assert_false(is_renewed());
    assert_non_null(strstr(answers_last("delete"),
                           "'q' : { '_id' : 'a', 'ticket' : { '$oid' : "
                           "'000000080000000000000000' }, " NO_ARRAY " }, 'limit' : 1 }"));
    answers_give("delete", "{'ok': 1, 'n': 1}");
    assert_int_equal(leave(HF_OUTCOME_RELEASED, id_of(7), 2), HF_OK);
    assert_false(reply.confirmed);
    answers_give("delete", "{'ok': 1, 'n': 1, 'writeConcernError': {'code': 64}}");
    assert_int_equal(leave(HF_OUTCOME_RELEASED, id_of(7), 1), HF_UNKNOWN);
    assert_false(reply.confirmed);
}

/* A break takes out what another program holds as it was seen, and no one that came after. */
static void break_of(const char *seen, hf_id ticket)
{
    answers_give("find", seen);
    answers_give("delete", "{'ok': 1, 'n': 1}");
    assert_int_equal(leave(HF_OUTCOME_ABANDONED, ticket, 1), HF_OK);
}

static hf_id ticket_of(const char *json)
{
    hf_error err;
    assert_int_equal(read_as(json, &err), HF_OK);
    return record.entries[0].ticket;
}

static void test_a_break_takes_out_what_was_seen(void **state)
{
    (void)state;
    hf_id theirs = ticket_of("{'_id': 'a', 'acquirer': 'x'}");
    break_of(LOOK("{'_id': 'a', 'acquirer': 'x'}"), theirs);
    assert_non_null(strstr(answers_last("delete"),
                           "'q' : { '_id' : 'a', '$expr' : { '$eq' : [ '$$ROOT', { '$literal' : "
                           "{ '_id' : 'a', 'acquirer' : 'x' } } ] } }"));
}

static void test_a_break_of_what_has_changed_goes_by_the_ticket(void **state)
{
    (void)state;
    hf_id theirs = ticket_of("{'_id': 'a', 'acquirer': 'x'}");
    static const char *const others[] = {LOOK("{'_id': 'a', 'acquirer': 'y'}"), LOOK(""),
                                         LOOK("{" OURS "}"), NULL, "{'ok': 1}"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        break_of(others[i], theirs);
        assert_null(strstr(answers_last("delete"), "$expr"));
        assert_non_null(strstr(answers_last("delete"), "'q' : { '_id' : 'a', 'ticket' : "));
    }
    break_of(LOOK("{" OURS "}"), id_of(7));
    assert_null(strstr(answers_last("delete"), "$expr"));
}

/* ---- Beats ---- */

static hf_session_state beat(hf_code expected)
{
    hf_error err;
    hf_session_state out;
    memset(&out, 5, sizeof out);
    assert_int_equal(
        store->base.ops->session_beat(&store->base, id_of(1), &(hf_beat){0}, &out, &err), expected);
    assert_true(id_equal(out.session.id, id_of(1)));
    assert_int_equal(out.presence, HF_LIVE);
    assert_false(out.is_gone);
    return out;
}

static void test_a_beat_says_whether_all_was_there(void **state)
{
    (void)state;
    assert_false(beat(HF_OK).misses);
    assert_int_equal(answers_sent("update"), 0);
    mongo_held_add(store, "a", id_of(7));
    mongo_held_add(store, "b", id_of(8));
    answers_give("update", "{'ok': 1, 'n': 2}");
    assert_false(beat(HF_OK).misses);
    answers_give("update", "{'ok': 1, 'n': 1}");
    assert_true(beat(HF_OK).misses);
    answers_give("update", NULL);
    beat(HF_UNKNOWN);
    assert_non_null(strstr(answers_last("update"), "'_id' : { '$in' : [ 'b', 'a' ] }"));
    assert_non_null(strstr(answers_last("update"), "'multi' : true"));
}

#define SHORTER LOOK("{'key': {'updated': 1}, 'expireAfterSeconds': 5}")

/* After a collMod. The beat has its own connections, as all that it sends. */
static void test_a_beat_ends_what_the_index_does_not_spare(void **state)
{
    (void)state;
    mongo_held_add(store, "a", id_of(7));
    answers_give_always("update", "{'ok': 1, 'n': 1}");
    beat(HF_OK);
    answers_pass(6000);
    answers_give("listIndexes", NULL);
    beat(HF_UNREACHABLE);
    answers_give("listIndexes", SHORTER);
    beat(HF_LOST);
    assert_int_equal(answers_sent("update"), 3);
    assert_int_equal(answers_sent("listIndexes"), 3);
}

/* A session that holds nothing reads nothing, so its next acquire reads first. */
static void test_nothing_is_taken_where_the_index_would_not_spare_it(void **state)
{
    (void)state;
    answers_pass(6000);
    beat(HF_OK);
    answers_give("listIndexes", SHORTER);
    assert_int_equal(enter(), HF_INVALID);
    assert_int_equal(answers_sent("findAndModify"), 0);
    assert_false(is_renewed());
}

static void test_an_index_read_before_a_takeover_must_spare_ours(void **state)
{
    (void)state;
    answers_give("findAndModify", IN_THE_WAY);
    answers_give("aggregate", LOOK(FOREIGN("-1")));
    answers_give("listIndexes", SHORTER);
    assert_int_equal(enter(), HF_INVALID);
    assert_int_equal(answers_sent("findAndModify"), 1);
}

/* ---- hfFair ---- */

static void enter_and_take(void)
{
    record_done(&record);
    answers_give("findAndModify", TAKEN);
    assert_int_equal(enter(), HF_OK);
}

static void enter_and_see_others(void)
{
    record_done(&record);
    answers_give("findAndModify", IN_THE_WAY);
    answers_give("aggregate", LOOK(FOREIGN("100")));
    assert_int_equal(enter(), HF_OK);
}

static void test_after_a_turn_of_ours_others_that_poll_get_theirs(void **state)
{
    (void)state;
    enter_and_take();
    enter_and_take(); /* no other program is known */
    assert_string_equal(answers_paused(), "");
    enter_and_see_others();
    enter_and_take(); /* it was their turn */
    assert_string_equal(answers_paused(), "");
    enter_and_take();
    assert_string_equal(answers_paused(), "26 ");
    answers_pass(60001);
    answers_give("listIndexes", LOOK("{'key': {'updated': 1}, 'expireAfterSeconds': 60}"));
    enter_and_take(); /* they have not come for long */
    assert_string_equal(answers_paused(), "26 ");
}

static void test_unless_told_nobody_waits_for_those_who_poll(void **state)
{
    (void)state;
    enter_and_see_others();
    enter_and_take();
    enter_and_take();
    assert_string_equal(answers_paused(), "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_documents_of_another_shape_are_named),
        TEST(test_names_up_to_the_longest),
        TEST(test_a_bare_document_is_held),
        TEST(test_one_of_ours_says_all),
        TEST(test_other_fields_need_an_owner),
        TEST(test_ours_has_a_ticket_and_a_ttl),
        TEST(test_others_are_told_apart_by_name_and_owner),
        TEST(test_what_was_taken_is_renewed),
        TEST(test_what_another_holds_is_shown),
        TEST(test_a_time_that_is_just_over_has_not_passed),
        TEST(test_what_has_passed_is_taken_over),
        TEST(test_one_of_ours_is_taken_over_without_the_index),
        TEST(test_what_changed_meanwhile_is_not_overtaken),
        TEST(test_an_index_that_cannot_be_read_takes_nothing_over),
        TEST(test_one_that_vanishes_each_time_is_given_up),
        TEST(test_a_duplicate_of_another_index_is_an_error),
        TEST(test_a_taking_without_a_document_is_odd),
        TEST(test_a_taking_in_doubt_is_renewed),
        TEST(test_a_leave_is_confirmed_when_all_were_there),
        TEST(test_a_break_takes_out_what_was_seen),
        TEST(test_a_break_of_what_has_changed_goes_by_the_ticket),
        TEST(test_a_beat_says_whether_all_was_there),
        TEST(test_a_beat_ends_what_the_index_does_not_spare),
        TEST(test_nothing_is_taken_where_the_index_would_not_spare_it),
        TEST(test_an_index_read_before_a_takeover_must_spare_ours),
        cmocka_unit_test_setup_teardown(test_after_a_turn_of_ours_others_that_poll_get_theirs,
                                        begin_fair, end),
        TEST(test_unless_told_nobody_waits_for_those_who_poll),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
