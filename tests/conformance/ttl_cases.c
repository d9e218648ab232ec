/* SPDX-License-Identifier: Apache-2.0 */
/* ttl_cases.c: what is protocol ttl's alone: which documents its beats renew; run by main.c. */
#include "conformance/bed.h"

#include "core/id.h"
#include "core/record.h"

#include <mongoc/mongoc.h>
#include <poll.h>

#define APP "ttl-cases"

static hf_store *store;
static mongoc_client_t *driver;
static mongoc_collection_t *locks;

static int set_up(void **state)
{
    (void)state;
    mongoc_uri_t *uri = mongoc_uri_new(bed.uri);
    driver = mongoc_client_new_from_uri(uri);
    locks = mongoc_client_get_collection(driver, mongoc_uri_get_database(uri), "locks");
    mongoc_uri_destroy(uri);
    char with_app[sizeof bed.uri], whole[sizeof bed.uri];
    snprintf(whole, sizeof whole, "%s", bed.uri);
    snprintf(with_app, sizeof with_app, "%.900s&appName=" APP, bed.uri);
    bed_use(with_app);
    store = bed_store();
    bed_use(whole);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store->ops->close(store);
    mongoc_collection_destroy(locks);
    mongoc_client_destroy(driver);
    return 0;
}

static int64_t updated_of(const char *name)
{
    bson_t *filter = BCON_NEW("_id", BCON_UTF8(name));
    mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(locks, filter, NULL, NULL);
    const bson_t *doc;
    bson_iter_t at;
    assert_true(mongoc_cursor_next(cursor, &doc));
    assert_true(bson_iter_init_find(&at, doc, "updated"));
    int64_t ms = bson_iter_date_time(&at);
    mongoc_cursor_destroy(cursor);
    bson_destroy(filter);
    return ms;
}

/* Of what this APP writes with findAndModify; `mode` is failCommand's, and is destroyed. */
static void fail_acknowledgements(bson_t *mode)
{
    bson_t *command = BCON_NEW("configureFailPoint", BCON_UTF8("failCommand"));
    bson_concat(command, mode);
    BCON_APPEND(command, "data", "{", "failCommands", "[", BCON_UTF8("findAndModify"), "]",
                "appName", BCON_UTF8(APP), "writeConcernError", "{", "code", BCON_INT32(64),
                "errmsg", BCON_UTF8("waiting for replication timed out"), "}", "}");
    assert_true(mongoc_client_command_simple(driver, "admin", command, NULL, NULL, NULL));
    bson_destroy(command);
    bson_destroy(mode);
}

static void fail_next_acknowledgement(void)
{
    fail_acknowledgements(BCON_NEW("mode", "{", "times", BCON_INT32(1), "}"));
}

/* Returns the date of what was taken so, which is past. */
static int64_t take_unanswered(const char *name, const hf_enter *enter)
{
    hf_error err;
    hf_step step = {.enter = enter};
    fail_next_acknowledgement();
    assert_code(HF_UNKNOWN, store->ops->step(store, name, &step, NULL, NULL, &err), &err);
    int64_t date = updated_of(name);
    poll(NULL, 0, 5);
    return date;
}

/* A lease counts from the last beat, so each beat moves the date of what has been asked for,
 * answered or not. */
static void test_a_beat_renews_what_was_taken_without_an_answer(void **state)
{
    (void)state;
    const char *name = bed_name("unanswered");
    hf_error err;
    hf_session_state after;
    hf_id session = bed_session(store, 10000);
    hf_enter enter = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW);
    int64_t before = take_unanswered(name, &enter);
    assert_code(HF_OK, store->ops->session_beat(store, session, &(hf_beat){0}, &after, &err), &err);
    assert_true(updated_of(name) > before);
    assert_false(after.misses);
}

/* While nobody could be reached the ticket was given up here, and no beat renewed it; the client's
 * lease counts from a beat that may be later than the first taking. */
static void test_a_repeated_taking_begins_the_time_anew(void **state)
{
    (void)state;
    const char *name = bed_name("repeated");
    hf_record record;
    hf_enter enter = bed_enter(bed_session(store, 10000), HF_LIMIT_RW, HF_LIMIT_RW);
    int64_t before = take_unanswered(name, &enter);
    bed_take(store, name, &enter, &record);
    assert_true(id_equal(record.entries[0].ticket, enter.entry.ticket));
    record_done(&record);
    assert_true(updated_of(name) > before);
}

static void test_a_beat_misses_what_is_gone(void **state)
{
    (void)state;
    const char *name = bed_name("gone");
    hf_error err;
    hf_session_state after;
    hf_record record;
    hf_id session = bed_session(store, 10000);
    hf_enter enter = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW);
    bed_take(store, name, &enter, &record);
    record_done(&record);
    bson_t *filter = BCON_NEW("_id", BCON_UTF8(name));
    assert_true(mongoc_collection_delete_one(locks, filter, NULL, NULL, NULL));
    bson_destroy(filter);
    assert_code(HF_OK, store->ops->session_beat(store, session, &(hf_beat){0}, &after, &err), &err);
    assert_true(after.misses);
}

/* ---- Who holds, as other programs call themselves ---- */

static void put_foreign(const char *acquirer)
{
    bson_t *doc = BCON_NEW("_id", BCON_UTF8(bed_name("foreign")), "acquirer", BCON_UTF8(acquirer),
                           "updated", BCON_DATE_TIME(bed_wall_ms()));
    assert_true(mongoc_collection_insert_one(locks, doc, NULL, NULL, NULL));
    bson_destroy(doc);
}

static bool add_app(void *ctx, const hf_session_state *state)
{
    char *all = ctx;
    size_t used = strlen(all);
    snprintf(all + used, 500 - used, "<%s|%s|%lld>", state->session.app, state->session.host,
             (long long)state->session.pid);
    return true;
}

static void test_any_text_may_say_who_holds(void **state)
{
    (void)state;
    hf_error err;
    char all[500] = "";
    static const char *const acquirers[] = {"worker", "worker:7", "job@night", "a:1@b",
                                            "app@host:9"};
    static const char *const said[] = {"<worker||0>", "<worker:7||0>", "<job@night||0>",
                                       "<a:1@b||0>", "<app|host|9>"};
    for (size_t i = 0; i < sizeof acquirers / sizeof *acquirers; i++)
        put_foreign(acquirers[i]);
    hf_enter own = bed_enter(bed_session(store, 10000), HF_LIMIT_RW, HF_LIMIT_RW);
    hf_record record;
    bed_take(store, bed_name("own"), &own, &record);
    record_done(&record);
    assert_code(HF_OK, store->ops->list_sessions(store, add_app, all, &err), &err);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        assert_contains(all, said[i]);
    assert_contains(all, "<conformance|here|");
    assert_true(mongoc_collection_delete_many(locks, &(bson_t)BSON_INITIALIZER, NULL, NULL, NULL));
}

static hf_client *impatient(void)
{
    char uri[sizeof bed.uri + 100];
    hf_client *client;
    hf_error err;
    snprintf(uri, sizeof uri, "%s&appName=" APP "&serverSelectionTimeoutMS=200", bed.uri);
    assert_code(HF_OK, hf_open(uri, &(hf_options){.ttl_ms = 5000}, &client, &err), &err);
    return client;
}

/* Another call with the same key may have been told of it. */
static void test_a_call_that_fails_leaves_a_keyed_lease(void **state)
{
    (void)state;
    const char *name = bed_name("fails");
    const hf_lease_options keyed = {.key = "order 1"}, plain = {.lock.wait_ms = HF_TRY};
    hf_client *failing = impatient(), *other = bed_client("other", 5000);
    hf_lease lease;
    hf_error err;
    fail_acknowledgements(BCON_NEW("mode", BCON_UTF8("alwaysOn")));
    hf_code code = hf_lease_acquire(failing, name, &keyed, &lease, &err);
    fail_acknowledgements(BCON_NEW("mode", BCON_UTF8("off")));
    assert_code(HF_UNKNOWN, code, &err);
    assert_code(HF_HELD, hf_lease_acquire(other, name, &plain, &lease, &err), &err);
    assert_code(HF_OK, hf_lease_acquire(other, name, &keyed, &lease, &err), &err);
    assert_true(lease.was_there);
    assert_code(HF_OK, hf_lease_release(other, lease.id, &err), &err);
    hf_close(failing);
    hf_close(other);
}

/* ---- A lease that another call with its key has made ---- */

static bool keep_left(void *ctx, const hf_record *record)
{
    ((hf_record *)ctx)->lease_left_ms = record->lease_left_ms;
    return false;
}

static void enter_lease(hf_store *at, const char *name, hf_id ticket, int32_t ttl_ms,
                        hf_record *out)
{
    const hf_session lease = {.id = ticket, .ttl_ms = ttl_ms, .app = "app", .host = "here"};
    hf_enter enter = bed_enter(lease.id, HF_LIMIT_RW, HF_LIMIT_RW);
    enter.entry.ticket = ticket;
    enter.entry.ttl_ms = ttl_ms;
    enter.lease = &lease;
    bed_take(at, name, &enter, out);
}

static void assert_longer_ttl_stays(hf_store *at, const char *name)
{
    hf_record first, again;
    hf_error err;
    const hf_id ticket = bed_enter((hf_id){{1}}, HF_LIMIT_RW, HF_LIMIT_RW).entry.ticket;
    enter_lease(at, name, ticket, 30000, &first);
    record_done(&first);
    enter_lease(at, name, ticket, 2000, &again);
    assert_int_equal(again.entries[0].ttl_ms, 30000);
    record_done(&again);
    assert_code(HF_OK, at->ops->lease_renew(at, name, ticket, ticket, &again, &err), &err);
    assert_int_equal(again.entries[0].ttl_ms, 30000);
    record_done(&again);
    assert_int_equal(at->ops->look(at, &name, 1, (hf_stamp){0}, false, keep_left, &again, &err),
                     HF_OK);
    assert_true(again.lease_left_ms > 20000);
    enter_lease(at, name, ticket, 40000, &again);
    assert_int_equal(again.entries[0].ttl_ms, 40000);
    record_done(&again);
}

static void test_a_repeat_with_its_key_shortens_no_lease(void **state)
{
    (void)state;
    char until[sizeof bed.uri];
    assert_longer_ttl_stays(store, bed_name("repeat"));
    snprintf(until, sizeof until, "%.900s&hfShape=expire-at&hfCollection=until", bed.uri);
    hf_store *other = bed_store_at(until, 10000);
    bed_session(other, 10000);
    assert_longer_ttl_stays(other, bed_name("repeat until"));
    other->ops->close(other);
}

int run_ttl_cases(void)
{
    const struct bed_case ttl_cases[] = {
        CASE(test_a_beat_renews_what_was_taken_without_an_answer),
        CASE(test_a_repeated_taking_begins_the_time_anew),
        CASE(test_a_beat_misses_what_is_gone),
        CASE(test_any_text_may_say_who_holds),
        CASE(test_a_call_that_fails_leaves_a_keyed_lease),
        CASE(test_a_repeat_with_its_key_shortens_no_lease),
    };
    return CASES(ttl_cases);
}
