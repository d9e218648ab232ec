/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_bells.c: protocol queue: which steps ring which bells, what a ring says, and what the
 * listener makes of it. Session 1 listens to bell 3. */
#include "core/id.h"
#include "core/record.h"
#include "faults/mongo_answers.h"

#include <string.h>

#define SESSION "000000010000000000000000"
#define TICKET "000000070000000000000000"
#define BELL "holdfast.bells.3"
#define STAMPED "'ok': 1, 'operationTime': {'$timestamp': {'t': 9, 'i': 1}}"
#define HOLDER(more)                                                                               \
    "{'ticket': {'$oid': '" TICKET "'}, 'session': {'$oid': '" SESSION "'}" more "}"
#define HELD_BY(ticket, token)                                                                     \
    "{'ticket': {'$oid': '" ticket "'}, 'session': {'$oid': '" SESSION                             \
    "'}, 'bell': 3, 'ttl_ms': 6000, 'permits': 1, 'yields': true,"                                 \
    " 'token': {'$numberLong': '" token "'}, 'since': {'$date': {'$numberLong': '5'}}}"
#define LEFT(notify, holder)                                                                       \
    "{" STAMPED ", 'value': {'_id': 'x', 'notify': '" notify "', 'holders': [" holder "]}}"
#define GRANT SESSION ":" TICKET ":5:3"
#define RECALL SESSION ":recall:000000080000000000000000"
#define LOOK SESSION ":look:" TICKET
#define BATCH(docs) "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': [" docs "]}}"
#define MORE(docs) "{'ok': 1, 'cursor': {'id': 5, 'nextBatch': [" docs "]}}"
#define RING(lock, notify)                                                                         \
    "{'lock': '" lock "', 'notify': '" notify "', 'stamp': {'$timestamp': {'t': 9, 'i': 1}}}"

static mongo_store *store;
static char heard[256];
static hf_error err;

static int begin(void **state)
{
    (void)state;
    store = answers_open("");
    return 0;
}

static int begin_weak(void **state)
{
    (void)state;
    store = answers_open("&hfWeakWrites=yes");
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

/* ---- Ringing ---- */

static hf_code leave(const char *answer)
{
    hf_leave out = {.ticket = id_of(6), .outcome = HF_OUTCOME_RELEASED};
    hf_step step = {.leaves = &out, .n_leaves = 1};
    answers_give("findAndModify", answer);
    return store->base.ops->step(&store->base, "x", &step, NULL, NULL, &err);
}

/* The bell was made before, and may be rung. */
static void make_bell(void)
{
    mongo_bell_note_made(store, 3);
    answers_give_always("insert", "{'ok': 1, 'n': 1}");
}

static void leave_and_ring(const char *answer)
{
    make_bell();
    assert_int_equal(leave(answer), HF_OK);
}

static void assert_rang(const char *part)
{
    assert_int_equal(answers_sent("insert"), 1);
    assert_non_null(strstr(answers_last("insert"), part));
}

static void test_who_is_granted_is_rung(void **state)
{
    (void)state;
    leave_and_ring(LEFT(GRANT, HOLDER(", 'bell': 3")));
    assert_rang("'insert' : '" BELL "'");
    assert_rang("'notify' : '" GRANT "'");
    assert_rang("'session' : { '$oid' : '" SESSION "' }");
    assert_rang("'lock' : 'x'");
    assert_rang("'stamp' : { '$timestamp' : { 't' : 9, 'i' : 1 } }");
    assert_rang("'writeConcern' : { 'w' : 1 }");
}

static void test_who_is_recalled_is_rung(void **state)
{
    (void)state;
    leave_and_ring(LEFT(RECALL, HOLDER(", 'bell': 3, 'yields': true")));
    assert_rang("'notify' : '" RECALL "'");
}

static void test_who_is_not_to_be_rung(void **state)
{
    (void)state;
    make_bell();
    assert_int_equal(leave(LEFT(GRANT, HOLDER(""))), HF_OK);
    assert_int_equal(leave(LEFT(GRANT, HOLDER(", 'bell': 0"))), HF_OK);
    assert_int_equal(leave(LEFT(GRANT, "")), HF_OK); /* it has left since */
    assert_int_equal(leave(LEFT("", HOLDER(", 'bell': 3"))), HF_OK);
    assert_int_equal(leave(LEFT(RECALL, HOLDER(", 'bell': 3, 'yields': false"))), HF_OK);
    assert_int_equal(leave("{'ok': 1, 'value': null}"), HF_OK);
    assert_int_equal(answers_sent("insert"), 0);
}

/* The session holds under another ticket by now, which the ring does not concern. */
static void test_a_grant_that_has_left_is_not_rung(void **state)
{
    (void)state;
    make_bell();
    assert_int_equal(leave(LEFT(SESSION ":000000050000000000000000:4", HOLDER(", 'bell': 3"))),
                     HF_OK);
    assert_int_equal(answers_sent("insert"), 0);
}

/* Then what it shows may be undone. */
static void test_without_a_majority_nobody_is_rung(void **state)
{
    (void)state;
    make_bell();
    assert_int_equal(
        leave("{'ok': 1, 'value': {'_id': 'x', 'notify': '" GRANT
              "', 'holders': [" HOLDER(", 'bell': 3") "]},"
                                                      " 'writeConcernError': {'code': 64}}"),
        HF_UNKNOWN);
    assert_int_equal(answers_sent("insert"), 0);
}

static void test_a_weak_write_only_says_look(void **state)
{
    (void)state;
    leave_and_ring(LEFT(GRANT, HOLDER(", 'bell': 3")));
    assert_rang("'notify' : ''");
}

/* An insert would make a collection that is not capped. */
static void test_a_bell_that_nobody_made_is_not_rung(void **state)
{
    (void)state;
    answers_give_always("insert", "{'ok': 1}");
    answers_give("find", BATCH(""));
    assert_int_equal(leave(LEFT(GRANT, HOLDER(", 'bell': 3"))), HF_OK);
    assert_non_null(strstr(answers_last("find"), "'level' : 'majority'")); /* it stays made */
    answers_give("find", "{'ok': 0, 'code': 13}");
    assert_int_equal(leave(LEFT(GRANT, HOLDER(", 'bell': 3"))), HF_OK);
    assert_int_equal(answers_sent("insert"), 0);
    answers_give("find", BATCH("{'_id': 1}"));
    assert_int_equal(leave(LEFT(GRANT, HOLDER(", 'bell': 3"))), HF_OK);
    assert_int_equal(leave(LEFT(GRANT, HOLDER(", 'bell': 3"))), HF_OK);
    assert_int_equal(answers_sent("insert"), 2);
    assert_int_equal(answers_sent("find"), 3); /* it asks no more */
}

static void enter(const char *notify)
{
    char answer[1024];
    hf_record record;
    hf_enter in = {.entry = {.ticket = id_of(8), .session = id_of(2), .ttl_ms = 6000, .permits = 1},
                   .limit = 1,
                   .queue_max = HF_QUEUE_MAX};
    snprintf(answer, sizeof answer,
             "{" STAMPED ", 'value': {'_id': 'x', 'limit': 1, 'token': {'$numberLong': '5'},"
             " 'notify': '%s', 'queue': [], 'holders': [" HOLDER(
                 ", 'bell': 3, 'yields': true, 'ttl_ms': 6000, 'permits': 1,"
                 " 'token': {'$numberLong': '5'}, 'since': {'$date': {'$numberLong': '5'}}") "]}}",
             notify);
    answers_give("findAndModify", answer);
    assert_int_equal(
        store->base.ops->step(&store->base, "x", &(hf_step){.enter = &in}, &record, NULL, &err),
        HF_OK);
    record_done(&record);
}

/* `notify` stays until there is news again. */
static void test_an_enter_rings_only_for_its_own_recall(void **state)
{
    (void)state;
    make_bell();
    enter(GRANT);
    enter(SESSION ":recall:000000090000000000000000");
    assert_int_equal(answers_sent("insert"), 0);
    enter(RECALL);
    assert_rang("'notify' : '" RECALL "'");
}

/* Its note is still there: the caller's own, now or before. */
static void test_nobody_rings_for_an_own_grant(void **state)
{
    (void)state;
    hf_record record;
    hf_change change = {.ticket = id_of(7), .permits = 1};
    hf_leave left = {.ticket = id_of(6), .outcome = HF_OUTCOME_RELEASED};
    hf_enter in = {.entry = {.ticket = id_of(7), .session = id_of(2), .ttl_ms = 6000, .permits = 1},
                   .limit = 1,
                   .queue_max = HF_QUEUE_MAX};
    make_bell();
    answers_give("findAndModify", LEFT(GRANT, HOLDER(", 'bell': 3")));
    assert_int_equal(
        store->base.ops->step(&store->base, "x", &(hf_step){.change = &change}, NULL, NULL, &err),
        HF_OK);
    answers_give("findAndModify",
                 "{" STAMPED ", 'value': {'_id': 'x', 'limit': 1, 'token': {'$numberLong': '5'},"
                 " 'notify': '" GRANT "', 'queue': [], 'holders': [" HELD_BY(TICKET, "5") "]}}");
    assert_int_equal(store->base.ops->step(&store->base, "x",
                                           &(hf_step){.enter = &in, .leaves = &left, .n_leaves = 1},
                                           &record, NULL, &err),
                     HF_OK);
    record_done(&record);
    assert_int_equal(answers_sent("insert"), 0);
}

static hf_code pass_answered(const char *notify, const char *more)
{
    hf_record record;
    char answer[1024];
    hf_step step = {.pass = &(hf_pass){.ticket = id_of(9), .to = id_of(6), .session = id_of(5)}};
    snprintf(answer, sizeof answer,
             "{" STAMPED ", 'value': {'_id': 'x', 'limit': 1, 'token': {'$numberLong': '5'},"
             " 'notify': '%s', 'holders': [], 'queue': [" HOLDER(
                 ", 'bell': 3, 'ttl_ms': 6000, 'permits': 1, 'token': {'$numberLong': '0'}, "
                 "'since': {'$date': {'$numberLong': "
                 "'5'}}") "]}%s}",
             notify, more);
    answers_give("findAndModify", answer);
    hf_code code = store->base.ops->step(&store->base, "x", &step, &record, NULL, &err);
    if (!code)
        record_done(&record);
    return code;
}

static void pass(const char *notify)
{
    assert_int_equal(pass_answered(notify, ""), HF_OK);
}

/* It is to watch the session of the lease from now on. */
static void test_a_pass_rings_for_the_head_of_the_queue(void **state)
{
    (void)state;
    make_bell();
    pass(SESSION ":look:000000080000000000000000"); /* another ticket, which has left since */
    pass(GRANT);                                    /* this one does not hold */
    assert_int_equal(answers_sent("insert"), 0);
    pass(LOOK);
    assert_rang("'notify' : '" LOOK "'");
}

static void test_a_step_without_a_majority_rings_nobody(void **state)
{
    (void)state;
    make_bell();
    assert_int_equal(pass_answered(LOOK, ", 'writeConcernError': {'code': 64}"), HF_UNKNOWN);
    assert_int_equal(answers_sent("insert"), 0);
}

/* A batch that releases, and what the look after it finds. */
static void release_in_batch(const char *notify, const char *holders)
{
    char found[4096];
    hf_leave out = {.ticket = id_of(6), .outcome = HF_OUTCOME_RELEASED};
    hf_step step = {.leaves = &out, .n_leaves = 1};
    mongo_member member = {.name = "x", .step = &step, .state = MEMBER_IN_BATCH};
    mongo_member *const members[] = {&member};
    snprintf(found, sizeof found,
             BATCH("{'_id': 'x', 'limit': 20, 'token': {'$numberLong': '5'}, 'notify': '%s',"
                   " 'queue': [], 'holders': [%s]}"),
             notify, holders);
    make_bell();
    pthread_cond_init(&member.changed, NULL);
    answers_give("update", "{" STAMPED ", 'n': 1, 'nModified': 1}");
    answers_give("find", found);
    mongo_batch_send(store, members, 1);
    assert_int_equal(member.code, HF_OK);
    pthread_cond_destroy(&member.changed);
}

/* The batch's own answer does not say whom it granted; a look does. */
static void test_who_a_release_of_a_batch_grants_is_rung(void **state)
{
    (void)state;
    release_in_batch(GRANT, HELD_BY(TICKET, "5"));
    assert_rang("'notify' : '" GRANT "'");
}

/* Another step, made before the look, has put its own note there. */
static void test_who_a_batch_grants_is_rung_whatever_was_noted_since(void **state)
{
    (void)state;
    release_in_batch(RECALL, HELD_BY(TICKET, "5"));
    assert_int_equal(answers_sent("insert"), 2);
    assert_non_null(strstr(answers_last("insert"), "'notify' : '" SESSION ":" TICKET ":5'"));
    release_in_batch("", HELD_BY(TICKET, "5"));
    assert_int_equal(answers_sent("insert"), 3);
}

static void test_the_last_who_came_to_hold_are_rung(void **state)
{
    (void)state;
    char holders[4096] = HELD_BY(TICKET, "5"), one[512];
    for (int i = 10; i < 19; i++) {
        snprintf(one, sizeof one, ", " HELD_BY("0000000000000000000000%d", "%d"), i, i);
        strcat(holders, one);
    }
    release_in_batch(SESSION ":000000000000000000000018:18", holders);
    assert_int_equal(answers_sent("insert"), 8);
    assert_non_null(
        strstr(answers_last("insert"), "'notify' : '" SESSION ":000000000000000000000017:17'"));
}

static void test_entries_name_the_bell_of_their_session(void **state)
{
    (void)state;
    enter("");
    assert_non_null(strstr(answers_last("findAndModify"), "'bell' : "));
    atomic_store(&store->queue->bells.are_refused, true);
    enter("");
    assert_null(strstr(answers_last("findAndModify"), "'bell' : "));
}

/* ---- Listening ---- */

static void hear(void *ctx, const hf_notice *notice)
{
    (void)ctx;
    static const char *const kinds[] = {"grant", "recall", "look", "name", "verify"};
    char ticket[ID_TEXT_SIZE];
    size_t used = strlen(heard);
    id_write(notice->ticket, ticket);
    snprintf(heard + used, sizeof heard - used, "<%s %s %.8s %lld %d at %lld>", kinds[notice->kind],
             notice->name ? notice->name : "-", ticket, (long long)notice->token,
             (int)notice->block, (long long)(notice->stamp.value >> 32));
}

static hf_code await_for(unsigned session)
{
    heard[0] = '\0';
    return store->base.ops->await(&store->base, id_of((uint8_t)session), (hf_stamp){0}, 1, hear,
                                  NULL, &err);
}

static void await(void)
{
    assert_int_equal(await_for(1), HF_OK);
}

static void test_it_opens_once_and_reads_on(void **state)
{
    (void)state;
    answers_give("find", BATCH(""));
    answers_give("getMore", MORE(""));
    answers_give("getMore", MORE(RING("x", GRANT)));
    await();
    assert_string_equal(heard, "");
    await();
    assert_string_equal(heard, "<grant x 00000007 5 3 at 9>");
    assert_int_equal(answers_sent("find"), 1);
    assert_non_null(strstr(answers_last("find"), "'find' : '" BELL "'"));
    assert_non_null(strstr(answers_last("find"), "'tailable' : true, 'awaitData' : true"));
    assert_non_null(strstr(answers_last("getMore"), "'collection' : '" BELL "'"));
}

static void test_what_was_rung_before_it_opened_is_heard(void **state)
{
    (void)state;
    answers_give("find", BATCH(RING("x", RECALL)));
    await();
    assert_string_equal(heard, "<recall x 00000008 0 0 at 9>");
}

static void test_a_ring_for_who_waits_grants_nothing(void **state)
{
    (void)state;
    answers_give("find", BATCH(RING("x", LOOK)));
    await();
    assert_string_equal(heard, "<grant x 00000007 0 0 at 9>");
}

static void test_a_ring_without_a_note(void **state)
{
    (void)state;
    answers_give("find", BATCH(RING("x", "") ", " RING("", "") ", " RING("x", "odd")));
    await();
    assert_string_equal(heard, "<look - 00000000 0 0 at 0><look - 00000000 0 0 at 0>");
}

#define ANSWER_AT(t, docs)                                                                         \
    "{'ok': 1, 'operationTime': {'$timestamp': {'t': " t ", 'i': 9}}, 'cursor': {'id': 5,"         \
    " 'nextBatch': [" docs "]}}"
#define HIGH SESSION ":" TICKET ":10485760" /* of second 10 */
#define TO_COME "{'lock': 'x', 'notify': '" GRANT "', 'stamp': {'$timestamp': {'t': 11, 'i': 1}}}"

/* It tells of what was; a token is not beyond the cluster's time. */
static void test_a_ring_that_cannot_be_true_says_look(void **state)
{
    (void)state;
    answers_give("find", BATCH(""));
    answers_give("getMore", ANSWER_AT("10", RING("x", HIGH)));
    await();
    assert_string_equal(heard, "<grant x 00000007 10485760 0 at 9>");
    answers_give("getMore", ANSWER_AT("9", RING("x", HIGH)));
    await();
    assert_string_equal(heard, "<look - 00000000 0 0 at 0>");
    answers_give("getMore", ANSWER_AT("10", TO_COME));
    await();
    assert_string_equal(heard, "<look - 00000000 0 0 at 0>");
}

static void test_a_bell_that_is_not_there_is_made(void **state)
{
    (void)state;
    answers_give("find", "{'ok': 1, 'cursor': {'id': 0, 'firstBatch': []}}");
    answers_give("create", "{'ok': 0, 'code': 48}"); /* another has just made it */
    answers_give("insert", "{'ok': 1}");
    answers_give("find", BATCH(""));
    await();
    assert_string_equal(heard, "<look - 00000000 0 0 at 0>");
    assert_non_null(strstr(answers_last("create"), "'capped' : true"));
    assert_non_null(strstr(answers_last("create"), "'w' : 'majority'"));
    assert_non_null(strstr(answers_last("insert"), "'w' : 'majority'"));
    answers_give("getMore", MORE(""));
    await();
    assert_string_equal(heard, "");
    assert_true(mongo_bell_is_made(store, 3));
}

static void test_one_that_is_removed_again_is_an_error(void **state)
{
    (void)state;
    answers_give("find", "{'ok': 1, 'cursor': {'id': 0, 'firstBatch': []}}");
    answers_give("create", "{'ok': 1}");
    answers_give("insert", "{'ok': 1}");
    answers_give("find", "{'ok': 1, 'cursor': {'id': 0, 'firstBatch': []}}");
    assert_int_equal(await_for(1), HF_UNREACHABLE);
    answers_give("find", BATCH("")); /* the next one tells everybody to look */
    await();
    assert_string_equal(heard, "<look - 00000000 0 0 at 0>");
}

static void test_a_lost_cursor_is_opened_anew_and_everybody_looks(void **state)
{
    (void)state;
    static const char *const ends[] = {"{'ok': 0, 'code': 43}", "{'ok': 0, 'code': 136}",
                                       "{'ok': 0, 'code': 175}",
                                       "{'ok': 1, 'cursor': {'id': 0, 'nextBatch': []}}"};
    answers_give("find", BATCH(""));
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        answers_give("getMore", ends[i]);
        await();
        answers_give("find", BATCH(""));
        await();
        assert_string_equal(heard, "<look - 00000000 0 0 at 0>");
    }
}

static void test_a_line_that_breaks_is_an_error(void **state)
{
    (void)state;
    answers_give("find", BATCH(""));
    answers_give("getMore", NULL);
    assert_int_equal(await_for(1), HF_UNREACHABLE);
    answers_give("find", BATCH(""));
    await();
    assert_string_equal(heard, "<look - 00000000 0 0 at 0>");
}

static void test_where_there_can_be_none_a_stream_tells(void **state)
{
    (void)state;
    static const char *const refusals[] = {"{'ok': 0, 'code': 13}", "{'ok': 0, 'code': 2}",
                                           "{'ok': 0, 'code': 59}", "{'ok': 0, 'code': 8000}"};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        answers_give("find", refusals[i]);
        answers_give_always("convertToCapped", refusals[i]);
        answers_give("aggregate", "{'ok': 0, 'code': 13}");
        assert_int_equal(await_for(1), HF_UNSUPPORTED);
        assert_non_null(strstr(answers_log(), "there can be no capped collection " BELL));
        assert_int_equal(await_for(1), HF_UNSUPPORTED);
        assert_int_equal(answers_sent("find"), 1);
        answers_close(store);
        store = answers_open("");
    }
}

/* Whoever rings a bell that has been dropped makes it so. */
static void test_a_bell_that_is_not_capped_becomes_so(void **state)
{
    (void)state;
    answers_give("find", "{'ok': 0, 'code': 2}");
    answers_give("convertToCapped", "{'ok': 1}");
    answers_give("find", BATCH(RING("x", GRANT)));
    await();
    assert_non_null(strstr(heard, "<grant x 00000007 5 3 at 9>"));
    assert_non_null(strstr(heard, "<look "));
    assert_non_null(
        strstr(answers_last("convertToCapped"), "'convertToCapped' : '" BELL "', 'size' : "));
}

static void test_a_bell_that_is_dropped_while_it_is_made_becomes_capped(void **state)
{
    (void)state;
    answers_give("find", "{'ok': 1, 'cursor': {'id': 0, 'firstBatch': []}}");
    answers_give("create", "{'ok': 1}");
    answers_give("insert", "{'ok': 1}"); /* it was dropped before this */
    answers_give("find", "{'ok': 0, 'code': 2}");
    answers_give("convertToCapped", "{'ok': 1}");
    answers_give("find", BATCH(""));
    answers_give_always("aggregate", "{'ok': 0, 'code': 13}"); /* of a stream: none is opened */
    await();
    assert_string_equal(heard, "<look - 00000000 0 0 at 0>");
    assert_int_equal(answers_sent("convertToCapped"), 1);
}

static void test_another_session_listens_anew(void **state)
{
    (void)state;
    answers_give("find", BATCH(""));
    answers_give("getMore", MORE(""));
    await();
    answers_give("killCursors", "{'ok': 1}");
    answers_give("find", BATCH(""));
    answers_give("getMore", MORE(""));
    assert_int_equal(await_for(2), HF_OK);
    assert_non_null(strstr(answers_last("killCursors"), "'killCursors' : '" BELL "'"));
    assert_non_null(strstr(answers_last("find"), "'000000020000000000000000'"));
}

static void test_a_wake_rings(void **state)
{
    (void)state;
    store->base.ops->wake(&store->base); /* nobody reads: the next await ends at once */
    await();
    answers_give("find", BATCH(""));
    answers_give("getMore", MORE(""));
    await();
    store->queue->listener.reading.is_reading = true;
    answers_give("insert", "{'ok': 1}");
    store->base.ops->wake(&store->base);
    assert_rang("'lock' : '', 'notify' : ''");
    await();
    assert_int_equal(answers_sent("getMore"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_who_is_granted_is_rung),
        TEST(test_who_is_recalled_is_rung),
        TEST(test_who_is_not_to_be_rung),
        TEST(test_a_grant_that_has_left_is_not_rung),
        TEST(test_without_a_majority_nobody_is_rung),
        cmocka_unit_test_setup_teardown(test_a_weak_write_only_says_look, begin_weak, end),
        TEST(test_a_bell_that_nobody_made_is_not_rung),
        TEST(test_an_enter_rings_only_for_its_own_recall),
        TEST(test_nobody_rings_for_an_own_grant),
        TEST(test_a_pass_rings_for_the_head_of_the_queue),
        TEST(test_a_step_without_a_majority_rings_nobody),
        TEST(test_who_a_release_of_a_batch_grants_is_rung),
        TEST(test_who_a_batch_grants_is_rung_whatever_was_noted_since),
        TEST(test_the_last_who_came_to_hold_are_rung),
        TEST(test_entries_name_the_bell_of_their_session),
        TEST(test_it_opens_once_and_reads_on),
        TEST(test_what_was_rung_before_it_opened_is_heard),
        TEST(test_a_ring_for_who_waits_grants_nothing),
        TEST(test_a_ring_without_a_note),
        TEST(test_a_ring_that_cannot_be_true_says_look),
        TEST(test_a_bell_that_is_not_there_is_made),
        TEST(test_one_that_is_removed_again_is_an_error),
        TEST(test_a_lost_cursor_is_opened_anew_and_everybody_looks),
        TEST(test_a_line_that_breaks_is_an_error),
        TEST(test_where_there_can_be_none_a_stream_tells),
        TEST(test_a_bell_that_is_not_capped_becomes_so),
        TEST(test_a_bell_that_is_dropped_while_it_is_made_becomes_capped),
        TEST(test_another_session_listens_anew),
        TEST(test_a_wake_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
