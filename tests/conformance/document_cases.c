/* SPDX-License-Identifier: Apache-2.0 */
/* document_cases.c: what is protocol document's alone: whose dates its beats move, what a step may
 * carry along, and how what was never answered is found; run by main.c. */
#include "conformance/bed.h"

#include "core/id.h"
#include "core/record.h"

#include <mongoc/mongoc.h>
#include <poll.h>

#define APP "document-cases"

static hf_store *store;
static hf_id session;
static mongoc_client_t *driver;
static mongoc_collection_t *documents;

static int set_up(void **state)
{
    (void)state;
    mongoc_uri_t *uri = mongoc_uri_new(bed.uri);
    driver = mongoc_client_new_from_uri(uri);
    documents = mongoc_client_get_collection(driver, mongoc_uri_get_database(uri), "locks");
    mongoc_uri_destroy(uri);
    char with_app[sizeof bed.uri], whole[sizeof bed.uri];
    snprintf(whole, sizeof whole, "%s", bed.uri);
    snprintf(with_app, sizeof with_app, "%.900s&appName=" APP, bed.uri);
    bed_use(with_app);
    store = bed_store();
    bed_use(whole);
    session = bed_session(store, 10000);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store->ops->close(store);
    mongoc_collection_destroy(documents);
    mongoc_client_destroy(driver);
    return 0;
}

/* ---- Documents ---- */

struct fields {
    hf_id lock; /* zero: null, or none */
    int64_t time_ms;
    int64_t fence;
};

static struct fields fields_of(const char *name)
{
    struct fields out = {.time_ms = 0};
    bson_t *filter = BCON_NEW("_id", BCON_UTF8(name));
    mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(documents, filter, NULL, NULL);
    const bson_t *doc;
    bson_iter_t at;
    assert_true(mongoc_cursor_next(cursor, &doc));
    if (bson_iter_init_find(&at, doc, "lockId") && BSON_ITER_HOLDS_OID(&at))
        memcpy(out.lock.bytes, bson_iter_oid(&at)->bytes, sizeof out.lock.bytes);
    if (bson_iter_init_find(&at, doc, "lockTs") && BSON_ITER_HOLDS_DATE_TIME(&at))
        out.time_ms = bson_iter_date_time(&at);
    if (bson_iter_init_find(&at, doc, "fence"))
        out.fence = bson_iter_as_int64(&at);
    mongoc_cursor_destroy(cursor);
    bson_destroy(filter);
    return out;
}

/* As by another's program, or by a message that was long under way. */
static void set_lock(const char *name, hf_id ticket)
{
    bson_oid_t oid;
    memcpy(oid.bytes, ticket.bytes, sizeof oid.bytes);
    bson_t *filter = BCON_NEW("_id", BCON_UTF8(name));
    bson_t *change = BCON_NEW("$set", "{", "lockId", BCON_OID(&oid), "lockTs",
                              BCON_DATE_TIME(bed_wall_ms()), "}");
    assert_true(mongoc_collection_update_one(documents, filter, change, NULL, NULL, NULL));
    bson_destroy(change);
    bson_destroy(filter);
}

static void fail_next_acknowledgement(void)
{
    bson_t *command =
        BCON_NEW("configureFailPoint", BCON_UTF8("failCommand"), "mode", "{", "times",
                 BCON_INT32(1), "}", "data", "{", "failCommands", "[", BCON_UTF8("findAndModify"),
                 "]", "appName", BCON_UTF8(APP), "writeConcernError", "{", "code", BCON_INT32(64),
                 "errmsg", BCON_UTF8("waiting for replication timed out"), "}", "}");
    assert_true(mongoc_client_command_simple(driver, "admin", command, NULL, NULL, NULL));
    bson_destroy(command);
}

/* ---- Calls ---- */

static hf_enter take(const char *name)
{
    hf_record record;
    hf_enter enter = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW);
    bed_take(store, name, &enter, &record);
    assert_non_null(record_find(&record, enter.entry.ticket));
    record_done(&record);
    return enter;
}

static bool beat_misses(void)
{
    hf_session_state state;
    hf_error err;
    assert_code(HF_OK, store->ops->session_beat(store, session, &(hf_beat){0}, &state, &err), &err);
    return state.misses;
}

static bool leave(const char *name, hf_id ticket)
{
    hf_leave out = {.ticket = ticket, .outcome = HF_OUTCOME_RELEASED};
    hf_step step = {.leaves = &out, .n_leaves = 1};
    hf_step_reply reply;
    hf_error err;
    assert_code(HF_OK, store->ops->step(store, name, &step, NULL, &reply, &err), &err);
    return reply.confirmed;
}

/* ---- Renewing ---- */

static void test_a_beat_moves_our_dates_only(void **state)
{
    (void)state;
    const char *ours = bed_name("ours"), *theirs = bed_name("theirs");
    take(ours);
    take(theirs);
    set_lock(theirs, bed_id());
    struct fields ours_before = fields_of(ours), theirs_before = fields_of(theirs);
    poll(NULL, 0, 5);
    assert_true(beat_misses());
    assert_true(fields_of(ours).time_ms > ours_before.time_ms);
    assert_int_equal(fields_of(theirs).time_ms, theirs_before.time_ms);
    assert_int_equal(fields_of(ours).fence, ours_before.fence);
}

/* A lease counts from the last beat, so each beat moves the date of what has been asked for,
 * answered or not. */
static void test_a_beat_renews_a_document_taken_without_an_answer(void **state)
{
    (void)state;
    const char *name = bed_name("unanswered");
    hf_error err;
    hf_enter enter = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW);
    fail_next_acknowledgement();
    assert_code(HF_UNKNOWN,
                store->ops->step(store, name, &(hf_step){.enter = &enter}, NULL, NULL, &err), &err);
    int64_t before = fields_of(name).time_ms;
    poll(NULL, 0, 5);
    assert_false(beat_misses());
    assert_true(fields_of(name).time_ms > before);
}

static void test_what_is_held_by_hand_is_renewed_by_hand(void **state)
{
    (void)state;
    const char *name = bed_name("hand");
    hf_record record;
    hf_error err;
    hf_enter enter = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW);
    enter.by_hand = true;
    bed_take(store, name, &enter, &record);
    record_done(&record);
    int64_t before = fields_of(name).time_ms;
    poll(NULL, 0, 5);
    assert_false(beat_misses());
    assert_int_equal(fields_of(name).time_ms, before);
    assert_code(HF_OK, store->ops->refresh(store, name, enter.entry.ticket, &err), &err);
    assert_true(fields_of(name).time_ms > before);
    set_lock(name, bed_id());
    assert_code(HF_LOST, store->ops->refresh(store, name, enter.entry.ticket, &err), &err);
}

/* ---- Steps ---- */

static void test_a_leave_and_an_enter_are_one_step(void **state)
{
    (void)state;
    const char *name = bed_name("cargo");
    hf_error err;
    hf_record record;
    hf_step_reply reply;
    hf_leave left = {.ticket = take(name).entry.ticket, .outcome = HF_OUTCOME_RELEASED};
    hf_enter enter = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW);
    hf_step step = {.leaves = &left, .n_leaves = 1, .enter = &enter};
    assert_code(HF_OK, store->ops->step(store, name, &step, &record, &reply, &err), &err);
    assert_true(reply.confirmed);
    assert_non_null(record_find(&record, enter.entry.ticket));
    assert_non_null(record.document);
    record_done(&record);
    assert_true(id_equal(fields_of(name).lock, enter.entry.ticket));
    assert_false(beat_misses());
}

static void test_only_its_own_ticket_is_left(void **state)
{
    (void)state;
    const char *name = bed_name("other");
    hf_id other = bed_id(), ours = take(name).entry.ticket;
    set_lock(name, other);
    assert_false(leave(name, ours));
    assert_true(id_equal(fields_of(name).lock, other));
    assert_true(leave(name, other));
    assert_true(id_is_zero(fields_of(name).lock));
}

static void test_an_enter_again_keeps_the_ticket_and_raises_the_token(void **state)
{
    (void)state;
    const char *name = bed_name("again");
    hf_record record;
    hf_enter enter = take(name);
    int64_t token = fields_of(name).fence;
    assert_true(token > 0);
    bed_take(store, name, &enter, &record);
    assert_int_equal(record.entries[0].token, token + 1);
    record_done(&record);
    assert_true(id_equal(fields_of(name).lock, enter.entry.ticket));
}

/* ---- What was never answered (R8) ---- */

static bool count_ours(void *ctx, const hf_record *record)
{
    for (size_t i = 0; i < record->holders; i++)
        *(size_t *)ctx += id_equal(record->entries[i].session, session);
    return true;
}

static size_t ours_at(const char *name)
{
    size_t n = 0;
    hf_error err;
    assert_code(
        HF_OK, store->ops->look(store, &name, 1, (hf_stamp){0}, false, count_ours, &n, &err), &err);
    return n;
}

static bool is_found(void *ctx)
{
    (void)ctx;
    return ours_at("") == 1;
}

static void test_a_ticket_that_lands_after_its_leave_is_known(void **state)
{
    (void)state;
    const char *name = bed_name("late");
    hf_error err;
    hf_enter enter = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW);
    fail_next_acknowledgement();
    assert_code(HF_UNKNOWN,
                store->ops->step(store, name, &(hf_step){.enter = &enter}, NULL, NULL, &err), &err);
    assert_true(leave(name, enter.entry.ticket));
    assert_int_equal(ours_at(name), 0);
    set_lock(name, enter.entry.ticket);
    assert_int_equal(ours_at(name), 1);
    int64_t before = fields_of(name).time_ms;
    poll(NULL, 0, 5);
    assert_false(beat_misses());
    assert_int_equal(fields_of(name).time_ms, before);
}

static void test_a_claim_without_an_answer_is_found_by_its_ticket(void **state)
{
    (void)state;
    const char *name = bed_name("claimed");
    char filter[120];
    hf_error err;
    hf_record record;
    hf_step_reply reply;
    hf_enter enter = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW);
    snprintf(filter, sizeof filter, "{\"_id\": \"%s\"}", name);
    fail_next_acknowledgement();
    assert_code(
        HF_UNKNOWN,
        store->ops->claim(store, &(hf_claim){.filter = filter}, &enter, &record, &reply, &err),
        &err);
    assert_true(id_equal(fields_of(name).lock, enter.entry.ticket));
    assert_true(bed_until(BED_SOON, is_found, NULL)); /* once a majority has it */
    assert_true(leave("", enter.entry.ticket));
    assert_true(id_is_zero(fields_of(name).lock));
    assert_int_equal(ours_at(""), 0);
}

int run_document_cases(void)
{
    const struct bed_case document_cases[] = {
        CASE(test_a_beat_moves_our_dates_only),
        CASE(test_a_beat_renews_a_document_taken_without_an_answer),
        CASE(test_what_is_held_by_hand_is_renewed_by_hand),
        CASE(test_a_leave_and_an_enter_are_one_step),
        CASE(test_only_its_own_ticket_is_left),
        CASE(test_an_enter_again_keeps_the_ticket_and_raises_the_token),
        CASE(test_a_ticket_that_lands_after_its_leave_is_known),
        CASE(test_a_claim_without_an_answer_is_found_by_its_ticket),
    };
    return CASES(document_cases);
}
