/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_watch.c: what await() asks of a change stream, and what it makes of each answer. */
#include "core/id.h"
#include "faults/mongo_answers.h"
#include "store/mongo/shared/reading.h"

#define US "000000010000000000000000"
#define NONE "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': [], 'nextBatch': []}}"
#define STAMP(seconds) ((hf_stamp){(uint64_t)(seconds) << 32 | 1})
#define AT(seconds) "{'$timestamp': {'t': " seconds ", 'i': 1}}"

static mongo_store *store;
static char heard[1000];

static int begin(void **state)
{
    (void)state;
    store = answers_open("");
    atomic_store(&store->queue->bells.are_refused, true); /* a change stream takes their place */
    heard[0] = '\0';
    return 0;
}

static int begin_ttl(void **state)
{
    (void)state;
    store = answers_open("&hfProtocol=ttl");
    heard[0] = '\0';
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

static void hear(void *ctx, const hf_notice *notice)
{
    (void)ctx;
    static const char *const kinds[] = {"grant", "recall", "look", "name", "verify"};
    char ticket[ID_TEXT_SIZE];
    size_t used = strlen(heard);
    id_write(notice->ticket, ticket);
    snprintf(heard + used, sizeof heard - used, "<%s %s %.8s %lld at %lld>", kinds[notice->kind],
             notice->name ? notice->name : "-", ticket, (long long)notice->token,
             (long long)(notice->stamp.value >> 32));
}

static hf_code await_since(hf_stamp from, int64_t timeout_ms)
{
    hf_error err;
    heard[0] = '\0';
    return store->base.ops->await(&store->base, id_of(1), from, timeout_ms, hear, NULL, &err);
}

/* For as long as one reading. */
static void await(void)
{
    assert_int_equal(await_since((hf_stamp){0}, 1), HF_OK);
}

static const char *opened_with(const char *part)
{
    return strstr(answers_last("aggregate"), part);
}

/* ---- Opening and reading ---- */

static void test_it_opens_once_and_reads_on(void **state)
{
    (void)state;
    answers_give("aggregate", NONE);
    answers_give("getMore", NONE);
    answers_give("getMore", NONE);
    await();
    await();
    assert_int_equal(answers_sent("aggregate"), 1);
    assert_int_equal(answers_sent("getMore"), 2);
    assert_non_null(opened_with(US));
    assert_non_null(opened_with("'level' : 'majority'"));
    assert_non_null(opened_with("{ '$changeStream' : {  } }"));
    assert_non_null(strstr(answers_last("getMore"),
                           "'getMore' : 5, 'collection' : 'holdfast.locks', "
                           "'maxTimeMS' : 1 }"));
    assert_string_equal(heard, "");
}

static void test_it_reads_by_slices_until_its_time_is_over(void **state)
{
    (void)state;
    answers_give("aggregate", NONE);
    for (int i = 0; i < 3; i++)
        answers_give("getMore", NONE);
    assert_int_equal(await_since((hf_stamp){0}, 2 * MONGO_AWAIT_MS + 500), HF_OK);
    assert_int_equal(answers_sent("getMore"), 3);
    assert_non_null(strstr(answers_last("getMore"), "'maxTimeMS' : 500 "));
    answers_give("getMore", NONE);
    answers_give("getMore", NONE);
    assert_int_equal(await_since((hf_stamp){0}, 2 * MONGO_AWAIT_MS), HF_OK);
    assert_int_equal(answers_sent("getMore"), 5);
    assert_non_null(strstr(answers_last("getMore"), "'maxTimeMS' : 10000 "));
}

static void test_without_time_it_reads_for_a_millisecond(void **state)
{
    (void)state;
    answers_give("aggregate", NONE);
    answers_give("getMore", NONE);
    assert_int_equal(await_since((hf_stamp){0}, 0), HF_OK);
    assert_non_null(strstr(answers_last("getMore"), "'maxTimeMS' : 1 "));
}

static void test_it_opens_at_the_stamp(void **state)
{
    (void)state;
    answers_give("aggregate", NONE);
    answers_give("getMore", NONE);
    assert_int_equal(await_since(STAMP(70), 1), HF_OK);
    assert_non_null(
        opened_with("'startAtOperationTime' : { '$timestamp' : { 't' : 70, 'i' : 1 } "));
}

static void test_another_session_listens_anew(void **state)
{
    (void)state;
    hf_error err;
    answers_give_always("aggregate", NONE);
    answers_give_always("getMore", NONE);
    answers_give("killCursors", "{'ok': 1}");
    await();
    assert_int_equal(store->base.ops->await(&store->base, id_of(2), STAMP(0), 1, hear, NULL, &err),
                     HF_OK);
    assert_non_null(strstr(answers_last("killCursors"), "'cursors' : [ 5 ]"));
    assert_non_null(opened_with("000000020000000000000000"));
    assert_string_equal(heard, "");
}

/* ---- What it brings ---- */

#define OTHER "000000020000000000000000"
#define WAITS "000000080000000000000000"

static void test_notes_for_this_session_only(void **state)
{
    (void)state;
    answers_give("aggregate", "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': [{'clusterTime': " AT(
                                  "9") ","
                                       " 'documentKey': {'_id': 'door'}, 'updateDescription': "
                                       "{'updatedFields': {'notify':"
                                       " '" OTHER ":" WAITS ":2 " US
                                       ":000000070000000000000000:3 " US ":recall:" WAITS "'}}},"
                                       " {'clusterTime': " AT(
                                           "10") ", 'documentKey': {'_id': 'gate'}, 'fullDocument':"
                                                 " {'notify': '" US ":" WAITS ":4'}}]}}");
    await();
    assert_int_equal(answers_sent("getMore"), 0);
    assert_string_equal(heard, "<grant door 00000007 3 at 9><recall door 00000008 0 at 9>"
                               "<grant gate 00000008 4 at 10>");
}

static void test_notes_for_others_only_are_no_reason_to_return(void **state)
{
    (void)state;
    answers_give("aggregate",
                 "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': [{'fullDocument': {'notify': '" OTHER
                 ":" WAITS ":2'}}]}}");
    answers_give("getMore", NONE);
    await();
    assert_string_equal(heard, "");
    assert_int_equal(answers_sent("getMore"), 1);
}

static void test_what_ends_a_stream_is_heard_once(void **state)
{
    (void)state;
    answers_give("aggregate",
                 "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': ["
                 " {'operationType': 'drop', 'clusterTime': " AT(
                     "9") "},"
                          " {'operationType': 'invalidate', 'clusterTime': " AT("9") "}]}}");
    await();
    assert_string_equal(heard, "<verify - 00000000 0 at 9>");
    assert_int_equal(answers_sent("getMore"), 0);
    answers_give("aggregate", NONE);
    await();
    assert_string_equal(heard, "<look - 00000000 0 at 0>");
    assert_int_equal(answers_sent("aggregate"), 2);
}

/* After that it begins now, whatever anybody has seen. */
static void test_a_stream_that_has_ended_begins_anew_and_everybody_looks(void **state)
{
    (void)state;
    answers_give("aggregate", "{'ok': 1, 'cursor': {'id': 0, 'firstBatch': [],"
                              " 'postBatchResumeToken': {'_data': 'here'}}}");
    await();
    assert_int_equal(answers_sent("getMore"), 0);
    answers_give("aggregate", NONE);
    assert_int_equal(await_since(STAMP(70), 1), HF_OK);
    assert_string_equal(heard, "<look - 00000000 0 at 0>");
    assert_null(opened_with("startAtOperationTime"));
    assert_null(opened_with("resumeAfter"));
    answers_give("getMore", NONE);
    await();
    assert_string_equal(heard, "");
}

static void test_a_reading_that_fails_begins_anew_and_everybody_looks(void **state)
{
    (void)state;
    static const char *const failures[] = {NULL, "{'ok': 0, 'code': 43}"};
    answers_give("aggregate", NONE);
    for (int i = 0; i < 2; i++) {
        answers_give("getMore", failures[i]);
        assert_int_not_equal(await_since((hf_stamp){0}, MONGO_AWAIT_MS + 1), HF_OK);
        assert_int_equal(answers_sent("getMore"), i + 1);
        answers_give("aggregate", NONE);
        await();
        assert_string_equal(heard, "<look - 00000000 0 at 0>");
    }
}

static void test_an_opening_that_fails_is_told(void **state)
{
    (void)state;
    answers_give("aggregate", NULL);
    assert_int_equal(await_since((hf_stamp){0}, 1), HF_UNREACHABLE);
    answers_give("aggregate", NONE);
    await();
    assert_string_equal(heard, "<look - 00000000 0 at 0>");
}

/* ---- Where there are none ---- */

static void test_a_refusal_is_for_good(void **state)
{
    (void)state;
    static const char *const refusals[] = {"{'ok': 0, 'code': 13}", "{'ok': 0, 'code': 40573}",
                                           "{'ok': 0, 'code': 73}", "{'ok': 0, 'code': 40324}"};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        answers_give("aggregate", refusals[i]);
        assert_int_equal(await_since((hf_stamp){0}, 1), HF_UNSUPPORTED);
        assert_int_equal(await_since((hf_stamp){0}, 1), HF_UNSUPPORTED);
        assert_int_equal(answers_sent("aggregate"), 1);
        answers_close(store);
        store = answers_open("");
        atomic_store(&store->queue->bells.are_refused, true);
    }
}

static void test_other_errors_are_not(void **state)
{
    (void)state;
    answers_give("aggregate", "{'ok': 0, 'code': 189}");
    assert_int_equal(await_since((hf_stamp){0}, 1), HF_UNREACHABLE);
    answers_give("aggregate", NONE);
    await();
}

static void test_a_standalone_server_is_not_even_asked(void **state)
{
    (void)state;
    atomic_store(&store->topology, MONGO_ALONE);
    assert_int_equal(await_since((hf_stamp){0}, 1), HF_UNSUPPORTED);
    assert_int_equal(answers_sent("aggregate"), 0);
}

/* ---- Skipping ---- */

#define READ_TO(seconds)                                                                           \
    "{'ok': 1, 'operationTime': " AT(seconds) ", 'cursor': {'id': 5, 'nextBatch': [],"             \
                                              " 'postBatchResumeToken': {'_data': 'here'}}}"

static void read_to_100(void)
{
    answers_give("aggregate", NONE);
    answers_give("getMore", READ_TO("100"));
    answers_give("getMore", READ_TO("90"));
    await();
    await();
}

static void test_what_is_near_is_read(void **state)
{
    (void)state;
    read_to_100();
    answers_give("getMore", NONE);
    assert_int_equal(await_since(STAMP(102), 1), HF_OK);
    assert_int_equal(answers_sent("aggregate"), 1);
}

static void test_what_is_far_is_skipped(void **state)
{
    (void)state;
    read_to_100();
    answers_give("killCursors", "{'ok': 1}");
    answers_give("aggregate", NONE);
    answers_give_always("getMore", NONE);
    assert_int_equal(await_since((hf_stamp){STAMP(102).value + 1}, 1), HF_OK);
    assert_non_null(
        opened_with("'startAtOperationTime' : { '$timestamp' : { 't' : 102, 'i' : 2 } "));
    assert_null(opened_with("resumeAfter"));
    assert_int_equal(await_since(STAMP(104), 1), HF_OK); /* no further than that */
    assert_int_equal(answers_sent("aggregate"), 2);
}

/* ---- Waking ---- */

static void test_a_wake_before_it_ends_it_at_once(void **state)
{
    (void)state;
    store->base.ops->wake(&store->base);
    await();
    assert_int_equal(answers_sent("aggregate"), 0);
    answers_give("aggregate", NONE);
    answers_give("getMore", NONE);
    await();
    assert_int_equal(answers_sent("getMore"), 1);
}

/* The cursor is killed under the reading: the next one goes on where that was. */
static void test_a_wake_under_way_keeps_the_place(void **state)
{
    (void)state;
    answers_give("aggregate", NONE);
    answers_give("getMore", READ_TO("100"));
    await();
    store->watch->reading.is_reading = true;
    answers_give("killCursors", "{'ok': 1}");
    answers_give("update", "{'ok': 1}");
    store->base.ops->wake(&store->base);
    assert_non_null(strstr(answers_last("killCursors"), "'cursors' : [ 5 ]"));
    assert_non_null(strstr(answers_last("update"), "'$oid' : '" US "'"));
    assert_true(store->watch->reading.woken);
}

static void test_nobody_is_woken_who_does_not_read(void **state)
{
    (void)state;
    answers_give("aggregate", NONE);
    answers_give("getMore", NONE);
    await();
    store->base.ops->wake(&store->base);
    assert_int_equal(answers_sent("killCursors"), 0);
    assert_true(store->watch->reading.woken);
}

static void test_without_sessions_a_read_stirs(void **state)
{
    (void)state;
    answers_give("aggregate", NONE);
    answers_give("getMore", NONE);
    await();
    store->watch->reading.is_reading = true;
    answers_give("killCursors", "{'ok': 1}");
    answers_give("find", "{'ok': 1}");
    store->base.ops->wake(&store->base);
    assert_non_null(strstr(answers_last("find"), "'level' : 'linearizable'"));
    assert_non_null(strstr(answers_last("find"), "'maxTimeMS' : 1000"));
}

/* ---- Locks by their names ---- */

#define TICKET(id) "{'$oid': '000000" id "0000000000000000'}"

static void test_a_change_says_whose_it_is_now(void **state)
{
    (void)state;
    answers_give(
        "aggregate",
        "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': ["
        " {'operationType': 'update', 'clusterTime': " AT(
            "9") ", 'documentKey': {'_id':"
                 " 'a'}, 'updateDescription': {'updatedFields': {'ticket': " TICKET(
                     "07") "}}},"
                           " {'operationType': 'replace', 'clusterTime': " AT(
                               "9") ", 'documentKey': {'_id':"
                                    " 'b'}, 'fullDocument': {'ticket': " TICKET(
                                        "08") "}},"
                                              " {'operationType': 'delete', 'clusterTime': " AT(
                                                  "9") ", 'documentKey': {'_id':"
                                                       " 'c'}},"
                                                       " {'operationType': 'delete', "
                                                       "'documentKey': {'_id': 5}}]}}");
    await();
    assert_string_equal(heard, "<name a 00000007 0 at 9><name b 00000008 0 at 9>"
                               "<name c 00000000 0 at 9>");
    assert_non_null(opened_with("'updateDescription.updatedFields.ticket' : { '$exists' : true }"));
}

static void test_names_that_are_none_are_not_heard(void **state)
{
    (void)state;
    answers_give("aggregate", "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': ["
                              " {'operationType': 'delete', 'documentKey': {'_id': 5}}]}}");
    answers_give("getMore", NONE);
    await();
    assert_string_equal(heard, "");
    assert_int_equal(answers_sent("getMore"), 1);
}

static void test_a_drop_is_of_no_document(void **state)
{
    (void)state;
    answers_give("aggregate", "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': ["
                              " {'operationType': 'drop', 'clusterTime': " AT("9") "}]}}");
    await();
    assert_string_equal(heard, "<verify - 00000000 0 at 9>");
}

static int begin_with_paths(void **state)
{
    (void)state;
    store = answers_open("&hfProtocol=document&hfCollection=things"
                         "&hfLockField=meta.lock.id&hfTimeField=meta.lock.ts");
    heard[0] = '\0';
    return 0;
}

/* An event has it under its path, or in a parent that is new. */
static void test_a_field_deep_inside_is_listened_to(void **state)
{
    (void)state;
    answers_give("aggregate",
                 "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': ["
                 " {'documentKey': {'_id': 'a'}, 'updateDescription': {'updatedFields':"
                 "  {'meta.lock.id': " TICKET(
                     "07") "}}},"
                           " {'documentKey': {'_id': 'b'}, 'updateDescription': {'updatedFields':"
                           "  {'meta': {'lock': {'id': " TICKET(
                               "08") "}}}}},"
                                     " {'documentKey': {'_id': 'c'}, 'fullDocument':"
                                     "  {'meta': {'lock': {'id': " TICKET("09") "}}}}]}}");
    await();
    assert_string_equal(heard, "<name a 00000007 0 at 0><name b 00000008 0 at 0>"
                               "<name c 00000009 0 at 0>");
    assert_non_null(opened_with("[ '$$this.k', [ 'meta', 'meta.lock', 'meta.lock.id' ] ]"));
}

/* ---- What goes on from where ---- */

static void wake_at_once(const char *where, const bson_t *command, const bson_t *opts)
{
    (void)where, (void)opts;
    if (bson_has_field(command, "getMore") || bson_has_field(command, "aggregate")) {
        answers_tell(NULL);
        store->base.ops->wake(&store->base);
    }
}

/* The reading ends with its cursor, and the next one goes on from its place, without a look. */
static void test_a_killed_reading_goes_on_where_it_was(void **state)
{
    (void)state;
    answers_give("aggregate", NONE);
    answers_give("getMore", READ_TO("100"));
    await();
    answers_give("killCursors", "{'ok': 1}");
    answers_give("update", "{'ok': 1}");
    answers_give("getMore", "{'ok': 0, 'code': 237}");
    answers_tell(wake_at_once);
    assert_int_equal(await_since((hf_stamp){0}, MONGO_AWAIT_MS + 1), HF_OK);
    assert_int_equal(answers_sent("getMore"), 2);
    answers_give("aggregate", NONE);
    answers_give("getMore", NONE);
    await(); /* the wake has been heard */
    assert_string_equal(heard, "");
    assert_non_null(opened_with("'resumeAfter' : { '_data' : 'here' }"));
    assert_int_equal(answers_sent("getMore"), 3);
}

/* Though its time was over then. */
static void test_a_wake_is_heard_once(void **state)
{
    (void)state;
    answers_give("aggregate", NONE);
    answers_give("getMore", READ_TO("100"));
    await();
    answers_give("killCursors", "{'ok': 1}");
    answers_give("update", "{'ok': 1}");
    answers_give("getMore", NONE);
    answers_tell(wake_at_once);
    await();
    answers_give("getMore", NONE);
    await();
    assert_int_equal(answers_sent("getMore"), 3);
}

static void test_a_wake_is_no_excuse_for_a_dead_line(void **state)
{
    (void)state;
    answers_give("aggregate", NONE);
    answers_give("getMore", NONE);
    await();
    answers_give("killCursors", "{'ok': 1}");
    answers_give("update", "{'ok': 1}");
    answers_give("getMore", NULL);
    answers_tell(wake_at_once);
    assert_int_equal(await_since((hf_stamp){0}, MONGO_AWAIT_MS + 1), HF_UNREACHABLE);
    assert_int_equal(store->listens.n_idle, 0);
}

static void test_a_wake_while_it_opens_ends_it_before_it_reads(void **state)
{
    (void)state;
    answers_give("aggregate", NONE);
    answers_tell(wake_at_once);
    assert_int_equal(await_since((hf_stamp){0}, MONGO_AWAIT_MS + 1), HF_OK);
    assert_int_equal(answers_sent("getMore"), 0);
    assert_int_equal(answers_sent("killCursors"), 0);
    answers_give("getMore", NONE);
    await();
}

static void test_who_reads_without_a_cursor_is_not_killed(void **state)
{
    (void)state;
    store->watch->reading.is_reading = true;
    store->base.ops->wake(&store->base);
    assert_int_equal(answers_sent("killCursors"), 0);
    assert_true(store->watch->reading.woken);
}

static void test_what_was_brought_is_not_waited_beyond(void **state)
{
    (void)state;
    answers_give("aggregate", NONE);
    answers_give("getMore",
                 "{'ok': 1, 'cursor': {'id': 5, 'nextBatch': [{'operationType': 'update',"
                 " 'fullDocument': {'notify': '" US ":" WAITS ":4'}}]}}");
    assert_int_equal(await_since((hf_stamp){0}, MONGO_AWAIT_MS + 1), HF_OK);
    assert_int_equal(answers_sent("getMore"), 1);
    answers_give("getMore",
                 "{'ok': 1, 'cursor': {'id': 5, 'nextBatch': [{'operationType': 'update',"
                 " 'fullDocument': {'notify': '" US ":" WAITS ":4'}}]}}");
    assert_int_equal(await_since((hf_stamp){0}, MONGO_AWAIT_MS + 1), HF_OK);
    assert_int_equal(answers_sent("getMore"), 2);
}

static void test_it_reads_to_the_last_millisecond(void **state)
{
    (void)state;
    answers_give("aggregate", NONE);
    answers_give("getMore", NONE);
    answers_give("getMore", NONE);
    assert_int_equal(await_since((hf_stamp){0}, MONGO_AWAIT_MS + 1), HF_OK);
    assert_int_equal(answers_sent("getMore"), 2);
    assert_non_null(strstr(answers_last("getMore"), "'maxTimeMS' : 1 }"));
}

static void test_a_reply_without_a_cursor_ends_the_stream(void **state)
{
    (void)state;
    answers_give("aggregate", NONE);
    answers_give("getMore", "{'ok': 1}");
    await();
    assert_int_equal(store->listens.n_idle, 1);
    answers_give("aggregate", NONE);
    await();
    assert_string_equal(heard, "<look - 00000000 0 at 0>");
}

/* The second one is read on from, though the first had ended in the same call. */
static void test_it_goes_on_after_a_stream_that_ended_at_once(void **state)
{
    (void)state;
    answers_give("aggregate", "{'ok': 1, 'cursor': {'id': 0, 'firstBatch': []}}");
    answers_give("aggregate", NONE);
    assert_int_equal(await_since((hf_stamp){0}, MONGO_AWAIT_MS + 1), HF_OK);
    assert_string_equal(heard, "<look - 00000000 0 at 0>");
    answers_give("getMore", NONE);
    await();
    assert_int_equal(answers_sent("aggregate"), 2);
}

static void test_everybody_looks_once(void **state)
{
    (void)state;
    answers_give("aggregate", NULL);
    assert_int_equal(await_since((hf_stamp){0}, 1), HF_UNREACHABLE);
    assert_int_equal(store->listens.n_idle, 0);
    answers_give("aggregate", NULL);
    assert_int_equal(await_since((hf_stamp){0}, 1), HF_UNREACHABLE);
    assert_string_equal(heard, "");
    answers_give_always("aggregate", NONE);
    answers_give_always("getMore", NONE);
    await();
    assert_string_equal(heard, "<look - 00000000 0 at 0>");
    store->watch->reading.cursor = 0; /* as after a wake */
    await();
    assert_string_equal(heard, "");
}

static void test_what_another_session_missed_is_nobodys_business(void **state)
{
    (void)state;
    hf_error err;
    answers_give("aggregate", NULL);
    assert_int_equal(await_since((hf_stamp){0}, 1), HF_UNREACHABLE);
    answers_give("aggregate", NONE);
    answers_give("getMore", NONE);
    assert_int_equal(store->base.ops->await(&store->base, id_of(2), STAMP(0), 1, hear, NULL, &err),
                     HF_OK);
    assert_string_equal(heard, "");
}

static void keep_one(void)
{
    hf_error err;
    mongo_connection *connection;
    const mongo_call call = {.what = "trying"};
    assert_int_equal(mongo_pool_take(store, &store->listens, &call, &connection, &err), HF_OK);
    mongo_pool_give(store, &store->listens, &call, connection, false);
}

static void test_another_session_listens_on_the_same_connection(void **state)
{
    (void)state;
    hf_error err;
    answers_give_always("aggregate", NONE);
    answers_give_always("getMore", NONE);
    answers_give_always("killCursors", "{'ok': 1}");
    await();
    keep_one();
    assert_int_equal(store->listens.n_idle, 1);
    assert_int_equal(store->base.ops->await(&store->base, id_of(2), STAMP(0), 1, hear, NULL, &err),
                     HF_OK);
    assert_int_equal(store->listens.n_idle, 1);
}

/* ---- What is skipped of what is not open ---- */

static void test_a_place_without_a_cursor_is_left_as_well(void **state)
{
    (void)state;
    read_to_100();
    store->watch->reading.cursor = 0; /* as after a wake */
    answers_give("aggregate", NONE);
    answers_give("getMore", NONE);
    assert_int_equal(await_since(STAMP(200), 1), HF_OK);
    assert_null(opened_with("resumeAfter"));
    assert_non_null(opened_with("'t' : 200"));
    assert_int_equal(answers_sent("killCursors"), 0);
}

static void test_a_cursor_without_a_place_is_left_as_well(void **state)
{
    (void)state;
    answers_give_always("aggregate", NONE);
    answers_give_always("getMore", NONE);
    answers_give_always("killCursors", "{'ok': 1}");
    assert_int_equal(await_since(STAMP(70), 1), HF_OK); /* the first opens, and skips nothing */
    assert_int_equal(answers_sent("killCursors"), 0);
    assert_int_equal(await_since(STAMP(71), 1), HF_OK);
    assert_int_equal(answers_sent("killCursors"), 1);
    assert_non_null(opened_with("'t' : 71"));
}

static void test_the_longest_name(void **state)
{
    (void)state;
    char json[900], name[HF_NAME_MAX + 1];
    memset(name, 'x', sizeof name);
    name[HF_NAME_MAX] = '\0';
    snprintf(json, sizeof json,
             "{'ok': 1, 'cursor': {'id': 5, 'firstBatch': [{'operationType': 'delete',"
             " 'documentKey': {'_id': '%s'}}]}}",
             name);
    answers_give("aggregate", json);
    await();
    assert_non_null(strstr(heard, name));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define TEST_TTL(name) cmocka_unit_test_setup_teardown(name, begin_ttl, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_it_opens_once_and_reads_on),
        TEST(test_it_reads_by_slices_until_its_time_is_over),
        TEST(test_without_time_it_reads_for_a_millisecond),
        TEST(test_it_opens_at_the_stamp),
        TEST(test_another_session_listens_anew),
        TEST(test_notes_for_this_session_only),
        TEST(test_notes_for_others_only_are_no_reason_to_return),
        TEST(test_what_ends_a_stream_is_heard_once),
        TEST(test_a_stream_that_has_ended_begins_anew_and_everybody_looks),
        TEST(test_a_reading_that_fails_begins_anew_and_everybody_looks),
        TEST(test_an_opening_that_fails_is_told),
        TEST(test_a_refusal_is_for_good),
        TEST(test_other_errors_are_not),
        TEST(test_a_standalone_server_is_not_even_asked),
        TEST(test_what_is_near_is_read),
        TEST(test_what_is_far_is_skipped),
        TEST(test_a_wake_before_it_ends_it_at_once),
        TEST(test_a_wake_under_way_keeps_the_place),
        TEST(test_nobody_is_woken_who_does_not_read),
        TEST(test_a_killed_reading_goes_on_where_it_was),
        TEST(test_a_wake_is_heard_once),
        TEST(test_a_wake_is_no_excuse_for_a_dead_line),
        TEST(test_a_wake_while_it_opens_ends_it_before_it_reads),
        TEST(test_who_reads_without_a_cursor_is_not_killed),
        TEST(test_what_was_brought_is_not_waited_beyond),
        TEST(test_it_reads_to_the_last_millisecond),
        TEST(test_a_reply_without_a_cursor_ends_the_stream),
        TEST(test_it_goes_on_after_a_stream_that_ended_at_once),
        TEST(test_everybody_looks_once),
        TEST(test_what_another_session_missed_is_nobodys_business),
        TEST(test_another_session_listens_on_the_same_connection),
        TEST(test_a_place_without_a_cursor_is_left_as_well),
        TEST(test_a_cursor_without_a_place_is_left_as_well),
        TEST_TTL(test_the_longest_name),
        TEST_TTL(test_without_sessions_a_read_stirs),
        TEST_TTL(test_a_change_says_whose_it_is_now),
        TEST_TTL(test_names_that_are_none_are_not_heard),
        TEST_TTL(test_a_drop_is_of_no_document),
        cmocka_unit_test_setup_teardown(test_a_field_deep_inside_is_listened_to, begin_with_paths,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
