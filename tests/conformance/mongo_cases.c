/* SPDX-License-Identifier: Apache-2.0 */
/* mongo_cases.c: what is MongoDB's alone: the guard in a document, and who vouches for a session's
 * end; run by main.c. */
#include "conformance/bed.h"

#include "core/id.h"
#include "core/record.h"
#include "core/sweep.h"

#include <mongoc/mongoc.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

static mongoc_client_t *driver;
static mongoc_collection_t *collection;

static mongoc_client_t *connect_to(const char *text, char *database, size_t size)
{
    mongoc_init();
    mongoc_uri_t *uri = mongoc_uri_new(text);
    mongoc_client_t *client = mongoc_client_new_from_uri(uri);
    snprintf(database, size, "%s", mongoc_uri_get_database(uri));
    mongoc_uri_destroy(uri);
    return client;
}

void mongo_drop(const char *uri)
{
    char database[128];
    mongoc_client_t *client = connect_to(uri, database, sizeof database);
    mongoc_database_t *own = mongoc_client_get_database(client, database);
    mongoc_database_drop(own, NULL);
    mongoc_database_destroy(own);
    mongoc_client_destroy(client);
}

void mongo_place(const char *uri, const char *name)
{
    char database[128];
    mongoc_client_t *client = connect_to(uri, database, sizeof database);
    mongoc_collection_t *documents = mongoc_client_get_collection(client, database, "locks");
    bson_t *doc = BCON_NEW("_id", BCON_UTF8(name), "lines", "[", "{", "id", BCON_INT32(0), "}", "{",
                           "id", BCON_INT32(1), "}", "]");
    bson_t *options = BCON_NEW("writeConcern", "{", "w", BCON_UTF8("majority"), "}");
    mongoc_collection_insert_one(documents, doc, options, NULL, NULL);
    bson_destroy(options);
    bson_destroy(doc);
    mongoc_collection_destroy(documents);
    mongoc_client_destroy(client);
}

static int set_up(void **state)
{
    (void)state;
    char database[128];
    driver = connect_to(bed.uri, database, sizeof database);
    collection = mongoc_client_get_collection(driver, database, bed_name("guarded"));
    bson_t *doc = BCON_NEW("_id", BCON_UTF8("a"), "value", BCON_INT32(0));
    mongoc_collection_insert_one(collection, doc, NULL, NULL, NULL);
    bson_destroy(doc);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mongoc_collection_destroy(collection);
    mongoc_client_destroy(driver);
    return 0;
}

/* Sets `value` under the guard. */
static hf_code guard(const char *id, int value, int64_t token, hf_error *err)
{
    bson_t *filter = BCON_NEW("_id", BCON_UTF8(id));
    bson_t *update = BCON_NEW("$set", "{", "value", BCON_INT32(value), "}", "$inc", "{", "writes",
                              BCON_INT32(1), "}");
    hf_code code = hf_guard_mongo(collection, filter, update, NULL, token, err);
    bson_destroy(filter);
    bson_destroy(update);
    return code;
}

static int64_t number_in(const char *field)
{
    bson_t *filter = BCON_NEW("_id", BCON_UTF8("a"));
    mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(collection, filter, NULL, NULL);
    const bson_t *doc;
    bson_iter_t at;
    assert_true(mongoc_cursor_next(cursor, &doc));
    int64_t number = bson_iter_init_find(&at, doc, field) ? bson_iter_as_int64(&at) : -1;
    mongoc_cursor_destroy(cursor);
    bson_destroy(filter);
    return number;
}

static void test_rising_and_equal_tokens_pass_lower_ones_do_not(void **state)
{
    (void)state;
    hf_error err;
    assert_code(HF_OK, guard("a", 1, 5, &err), &err);
    assert_int_equal(number_in("fence"), 5);
    assert_code(HF_OK, guard("a", 2, 5, &err), &err);
    assert_code(HF_OK, guard("a", 3, (int64_t)1 << 52, &err), &err);
    assert_code(HF_FENCED, guard("a", 4, ((int64_t)1 << 52) - 1, &err), &err);
    assert_contains(err.text, "4503599627370496");
    assert_int_equal(number_in("value"), 3);
    assert_int_equal(number_in("writes"), 3);
    assert_int_equal(number_in("fence"), (int64_t)1 << 52);
}

static void test_a_document_that_is_not_there(void **state)
{
    (void)state;
    hf_error err;
    assert_code(HF_NOT_FOUND, guard("b", 1, 5, &err), &err);
}

static void test_a_fence_of_another_name(void **state)
{
    (void)state;
    hf_error err;
    bson_t *filter = BCON_NEW("_id", BCON_UTF8("a")),
           *update = BCON_NEW("$unset", "{", "value", BCON_INT32(1), "}");
    assert_code(HF_OK, hf_guard_mongo(collection, filter, update, "my_fence", 7, &err), &err);
    assert_int_equal(number_in("my_fence"), 7);
    assert_int_equal(number_in("value"), -1);
    assert_code(HF_FENCED, hf_guard_mongo(collection, filter, update, "my_fence", 6, &err), &err);
    bson_destroy(filter);
    bson_destroy(update);
}

static void test_updates_that_cannot_be(void **state)
{
    (void)state;
    hf_error err;
    bson_t *filter = BCON_NEW("_id", BCON_UTF8("a"));
    bson_t *wrong[] = {BCON_NEW("value", BCON_INT32(1)),
                       BCON_NEW("$set", "{", "fence", BCON_INT32(1), "}"),
                       BCON_NEW("$set", BCON_INT32(1)), BCON_NEW("$nonsense", "{", "}")};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_code(HF_INVALID, hf_guard_mongo(collection, filter, wrong[i], NULL, 7, &err), &err);
        bson_destroy(wrong[i]);
    }
    assert_code(HF_INVALID, hf_guard_mongo(collection, filter, filter, "", 7, &err), &err);
    assert_code(HF_INVALID, guard("a", 1, 0, &err), &err);
    assert_code(HF_INVALID, guard("a", 1, (int64_t)1 << 53, &err), &err);
    assert_int_equal(number_in("fence"), -1);
    bson_destroy(filter);
}

static void test_a_fence_that_is_no_number_is_left_alone(void **state)
{
    (void)state;
    hf_error err;
    bson_t *filter = BCON_NEW("_id", BCON_UTF8("a"));
    bson_t *update = BCON_NEW("$set", "{", "fence", BCON_UTF8("of wood"), "}");
    assert_true(mongoc_collection_update_one(collection, filter, update, NULL, NULL, NULL));
    assert_code(HF_SHAPE, guard("a", 1, 5, &err), &err);
    assert_int_equal(number_in("value"), 0);
    bson_destroy(filter);
    bson_destroy(update);
}

static void test_the_guard_with_real_tokens(void **state)
{
    (void)state;
    hf_client *client = bed_client("guard", 5000);
    const char *name = bed_name("guarded");
    hf_error err;
    hf_lock *first = bed_acquire(client, name, NULL);
    int64_t old = hf_lock_token(first);
    bed_release(first);
    hf_lock *second = bed_acquire(client, name, NULL);
    assert_code(HF_OK, guard("a", 2, hf_lock_token(second), &err), &err);
    assert_code(HF_FENCED, guard("a", 1, old, &err), &err);
    assert_int_equal(number_in("value"), 2);
    bed_release(second);
    hf_close(client);
}

typedef void trips_fn(hf_client *client, const char *name);

/* On a slow machine a beat or the sweep may come in between, now and then. */
static void assert_trips(unsigned wanted, trips_fn *call)
{
    hf_client *client = bed_client("trips", 30000); /* beats are rare */
    char name[64];                                  /* kept: bed_name() has room for few */
    uint64_t least = UINT64_MAX;
    snprintf(name, sizeof name, "%s", bed_name("trips"));
    call(client, name);
    for (int i = 0; i <= 20 && least > wanted; i++) {
        uint64_t before = hf_round_trips(client);
        call(client, name);
        uint64_t trips = hf_round_trips(client) - before;
        least = trips < least ? trips : least;
    }
    assert_int_equal(least, wanted);
    hf_close(client);
}

static void take_and_release(hf_client *client, const char *name)
{
    bed_release(bed_acquire(client, name, NULL));
}

static void test_a_pair_takes_two_round_trips(void **state)
{
    (void)state;
    assert_trips(2, take_and_release);
}

/* Of another lock each time: the leases stay. */
static void take_lease(hf_client *client, hf_mode mode, const char *key)
{
    hf_error err;
    hf_lease lease;
    const hf_lease_options options = {.lock.mode = mode, .key = key};
    assert_code(HF_OK, hf_lease_acquire(client, bed_name("trips"), &options, &lease, &err), &err);
}

static void lease_shared(hf_client *client, const char *name)
{
    (void)name;
    take_lease(client, HF_SHARED, NULL);
}

static void lease_with_key(hf_client *client, const char *name)
{
    take_lease(client, HF_EXCLUSIVE, name);
}

static void lease_shared_with_key(hf_client *client, const char *name)
{
    take_lease(client, HF_SHARED, name);
}

/* As hf_lease_acquire() says: its lock takes one. */
static void test_round_trips_of_a_lease(void **state)
{
    (void)state;
    assert_trips(3, lease_shared);
    assert_trips(4, lease_with_key);
    assert_trips(6, lease_shared_with_key);
}

void mongo_set_expiry(hf_id id, int64_t days_ago)
{
    char database[128];
    bson_oid_t oid;
    bson_error_t error;
    mongoc_client_t *client = connect_to(bed.uri, database, sizeof database);
    mongoc_collection_t *sessions =
        mongoc_client_get_collection(client, database, "holdfast.sessions");
    bson_oid_init_from_data(&oid, id.bytes);
    bson_t *filter = BCON_NEW("_id", BCON_OID(&oid));
    bson_t *update =
        BCON_NEW("$set", "{", "expires_at",
                 BCON_DATE_TIME((int64_t)time(NULL) * 1000 - days_ago * 86400000), "}");
    assert_true(mongoc_collection_update_one(sessions, filter, update, NULL, NULL, &error));
    bson_destroy(update);
    bson_destroy(filter);
    mongoc_collection_destroy(sessions);
    mongoc_client_destroy(client);
}

/* ---- By hand ---- */

/* Changes a document of the store's; filter and update are destroyed. */
static void change(const char *in, bson_t *filter, bson_t *update)
{
    char of[128];
    bson_t reply;
    mongoc_client_t *own = connect_to(bed.uri, of, sizeof of);
    mongoc_collection_t *docs = mongoc_client_get_collection(own, of, in);
    bson_iter_t at;
    assert_true(mongoc_collection_update_one(docs, filter, update, NULL, &reply, NULL));
    assert_true(bson_iter_init_find(&at, &reply, "modifiedCount"));
    assert_int_equal(bson_iter_as_int64(&at), 1);
    bson_destroy(&reply);
    bson_destroy(update);
    bson_destroy(filter);
    mongoc_collection_destroy(docs);
    mongoc_client_destroy(own);
}

/* ---- The server's clock (R6) ---- */

static bool is_gone(hf_store *store, hf_id session, int64_t trust_ms)
{
    hf_session_state seen;
    hf_error err;
    assert_code(HF_OK, store->ops->sessions_look(store, &session, 1, trust_ms, &seen, &err), &err);
    return seen.is_gone;
}

static bson_t *by_id(const bson_oid_t *id)
{
    return BCON_NEW("_id", BCON_OID(id));
}

static bson_t *set_date(const char *field, int64_t ms_ago)
{
    return BCON_NEW("$set", "{", field, BCON_DATE_TIME(bed_wall_ms() - ms_ago), "}");
}

static void change_session(hf_id session, bson_t *update)
{
    bson_oid_t id;
    memcpy(id.bytes, session.bytes, sizeof id.bytes);
    change("holdfast.sessions", by_id(&id), update);
}

/* As if what it says of clocks were of another host. */
static void move_elsewhere(hf_id session)
{
    change_session(session, BCON_NEW("$set", "{", "clock.boot", "elsewhere", "}"));
}

#define HOUR_MS 3600000
#define DAY_MS (24 * (int64_t)HOUR_MS)
#define TRUST_MS 300000

/* Never renewed: all that is needed came with its first beat, the insert. */
static void test_a_session_is_gone_by_its_own_hosts_clock(void **state)
{
    (void)state;
    hf_store *store = bed_store();
    hf_id session = bed_session(store, 60000);
    assert_false(is_gone(store, session, TRUST_MS));
    change_session(session, set_date("expires_at", 49 * HOUR_MS));
    assert_false(is_gone(store, session, TRUST_MS)); /* the server's clock was set by two days */
    change_session(session, BCON_NEW("$inc", "{", "clock.at", BCON_INT64(-HOUR_MS), "}"));
    assert_true(is_gone(store, session, TRUST_MS));
    assert_false(is_gone(store, session, 2 * HOUR_MS));
    assert_false(is_gone(store, session, -1));
    change_session(session, set_date("expires_at", 0));
    assert_false(is_gone(store, session, TRUST_MS)); /* the server's must say it, too */
    store->ops->session_end(store, session, false, NULL);
    store->ops->close(store);
}

/* The server and the host that tries may share a clock, which was set: an hour, or two days. */
static void test_no_date_makes_a_session_gone(void **state)
{
    (void)state;
    hf_store *store = bed_store();
    hf_id session = bed_session(store, 60000);
    move_elsewhere(session);
    change_session(session, set_date("clock.wall", HOUR_MS)); /* programs of before wrote it */
    change_session(session, set_date("expires_at", HOUR_MS));
    assert_false(is_gone(store, session, TRUST_MS));
    change_session(session, set_date("expires_at", 49 * HOUR_MS));
    assert_false(is_gone(store, session, TRUST_MS));
    store->ops->session_end(store, session, false, NULL);
    store->ops->close(store);
}

/* ---- What earlier looks have left (R6) ---- */

static int64_t sightings_of(hf_id session)
{
    char of[128];
    bson_oid_t id;
    memcpy(id.bytes, session.bytes, sizeof id.bytes);
    mongoc_client_t *own = connect_to(bed.uri, of, sizeof of);
    mongoc_collection_t *docs = mongoc_client_get_collection(own, of, "holdfast.sessions");
    bson_t *one = BCON_NEW("_id", BCON_OID(&id), "sightings.0", "{", "$exists", BCON_BOOL(true),
                           "}", "sightings.1", "{", "$exists", BCON_BOOL(false), "}");
    int64_t n = mongoc_collection_count_documents(docs, one, NULL, NULL, NULL, NULL);
    bson_destroy(one);
    mongoc_collection_destroy(docs);
    mongoc_client_destroy(own);
    return n;
}

/* On a host of its own. */
static hf_id overdue_elsewhere(hf_store *store, int32_t ttl_ms)
{
    hf_id session = bed_session(store, ttl_ms);
    move_elsewhere(session);
    change_session(session, set_date("expires_at", 60000));
    return session;
}

static void test_what_was_seen_a_ttl_ago_is_gone(void **state)
{
    (void)state;
    hf_store *store = bed_store();
    hf_id session = overdue_elsewhere(store, 1000);
    int64_t start = bed_now_ms();
    assert_false(is_gone(store, session, TRUST_MS));
    assert_int_equal(sightings_of(session), 1);
    while (!is_gone(store, session, TRUST_MS))
        assert_true(bed_now_ms() - start < 60000);
    assert_true(bed_now_ms() - start >= 1000);
    assert_int_equal(sightings_of(session), 1); /* however often it was looked at */
    assert_false(is_gone(store, session, -1));
    store->ops->session_end(store, session, false, NULL);
    store->ops->close(store);
}

/* It was seen long ago, and has beaten since: that beat has to be watched anew. */
static void test_what_was_seen_of_an_earlier_beat_says_nothing(void **state)
{
    (void)state;
    hf_store *store = bed_store();
    hf_id session = overdue_elsewhere(store, 60000);
    hf_session_state after;
    hf_error err;
    assert_false(is_gone(store, session, TRUST_MS));
    change_session(session, BCON_NEW("$inc", "{", "sightings.0.at", BCON_INT64(-HOUR_MS), "}"));
    assert_true(is_gone(store, session, TRUST_MS));
    assert_code(HF_OK, store->ops->session_beat(store, session, &(hf_beat){0}, &after, &err), &err);
    move_elsewhere(session);
    change_session(session, set_date("expires_at", 60000));
    assert_false(is_gone(store, session, TRUST_MS));
    assert_int_equal(sightings_of(session), 1); /* the new one, in the place of the old */
    change_session(session, BCON_NEW("$set", "{", "sightings.0.boot", "elsewhere", "sightings.0.at",
                                     BCON_INT64(1), "}"));
    assert_false(is_gone(store, session, TRUST_MS)); /* another host's */
    store->ops->session_end(store, session, false, NULL);
    store->ops->close(store);
}

#define MOST 32 /* sightings */

/* As if so many other hosts had seen it, so long ago. */
static void let_others_see(hf_store *store, hf_id session, int64_t hours_ago)
{
    bson_t update = BSON_INITIALIZER, set, all, one;
    hf_session_state seen;
    char key[16];
    const char *at;
    assert_int_equal(store->ops->sessions_look(store, &session, 1, -1, &seen, NULL), HF_OK);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
    BSON_APPEND_ARRAY_BEGIN(&set, "sightings", &all);
    for (uint32_t i = 0; i < MOST; i++) {
        bson_uint32_to_string(i, &at, key, sizeof key);
        BSON_APPEND_DOCUMENT_BEGIN(&all, at, &one);
        BSON_APPEND_UTF8(&one, "boot", "another");
        BSON_APPEND_INT64(&one, "beat", seen.beat);
        BSON_APPEND_INT64(&one, "at", 1);
        BSON_APPEND_DATE_TIME(&one, "date", bed_wall_ms() - hours_ago * HOUR_MS);
        bson_append_document_end(&all, &one);
    }
    bson_append_array_end(&set, &all);
    bson_append_document_end(&update, &set);
    change_session(session, bson_copy(&update));
    bson_destroy(&update);
}

static bool is_ever_gone(hf_store *store, hf_id session, int64_t ms)
{
    int64_t start = bed_now_ms();
    bool gone = is_gone(store, session, TRUST_MS);
    while (!gone && bed_now_ms() - start < ms)
        gone = is_gone(store, session, TRUST_MS);
    return gone;
}

/* Else hosts that start once and never again would keep all others from ever having the lock. */
static void test_hosts_that_do_not_come_back_make_room(void **state)
{
    (void)state;
    hf_store *store = bed_store();
    hf_id session = overdue_elsewhere(store, 1000);
    let_others_see(store, session, 23);
    assert_false(is_ever_gone(store, session, 2000)); /* they may come yet */
    let_others_see(store, session, 25);
    assert_true(is_ever_gone(store, session, 60000));
    store->ops->session_end(store, session, false, NULL);
    store->ops->close(store);
}

/* An answer that was lost is a beat that may come late. */
static void test_a_late_beat_takes_no_time_back(void **state)
{
    (void)state;
    hf_store *store = bed_store();
    hf_id session = bed_session(store, 1000);
    hf_session_state after;
    hf_error err;
    change_session(session, BCON_NEW("$inc", "{", "clock.at", BCON_INT64(HOUR_MS), "}"));
    assert_code(HF_OK, store->ops->session_beat(store, session, &(hf_beat){0}, &after, &err), &err);
    change_session(session, set_date("expires_at", HOUR_MS));
    change_session(session, BCON_NEW("$inc", "{", "clock.at", BCON_INT64(-HOUR_MS / 2), "}"));
    assert_false(is_gone(store, session, 0)); /* half an hour more, of the one that was later */
    store->ops->session_end(store, session, false, NULL);
    store->ops->close(store);
}

/* ---- A drop ---- */

static void ignore_notice(void *ctx, const hf_notice *notice)
{
    (void)ctx;
    (void)notice;
}

static void set_failing_finds(bool fails)
{
    mongoc_client_t *own = mongoc_client_new(bed.uri);
    bson_t *command = BCON_NEW("configureFailPoint", "failCommand", "mode",
                               fails ? "alwaysOn" : "off", "data", "{", "failCommands", "[", "find",
                               "]", "appName", "hf-stream", "errorCode", BCON_INT32(13), "}");
    assert_true(mongoc_client_command_simple(own, "admin", command, NULL, NULL, NULL));
    bson_destroy(command);
    mongoc_client_destroy(own);
}

/* A store that may not read bells, and listens to a change stream. */
static hf_store *stream_store(hf_id *session)
{
    char uri[1100];
    hf_error err;
    snprintf(uri, sizeof uri, "%s%sappName=hf-stream", bed.uri, strchr(bed.uri, '?') ? "&" : "/?");
    hf_store *store = bed_store_at(uri, 10000);
    *session = bed_session(store, 10000);
    set_failing_finds(true);
    hf_code code = store->ops->await(store, *session, (hf_stamp){0}, 1, ignore_notice, NULL, &err);
    set_failing_finds(false);
    assert_code(HF_OK, code, &err); /* the stream is open now */
    return store;
}

static void drop_locks(void)
{
    char of[128];
    mongoc_client_t *own = connect_to(bed.uri, of, sizeof of);
    mongoc_collection_t *locks = mongoc_client_get_collection(own, of, "holdfast.locks");
    assert_true(mongoc_collection_drop(locks, NULL));
    mongoc_collection_destroy(locks);
    mongoc_client_destroy(own);
}

static void count_verifies(void *ctx, const hf_notice *notice)
{
    *(size_t *)ctx += notice->kind == HF_NOTICE_VERIFY;
}

static void test_a_drop_is_heard(void **state)
{
    (void)state;
    hf_id session;
    hf_store *store = stream_store(&session);
    hf_enter enter = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW);
    size_t verifies = 0;
    hf_code code;
    hf_error err;
    bed_take(store, bed_name("drop"), &enter, NULL);
    drop_locks();
    for (int i = 0; i < 5 && !verifies; i++) {
        code =
            store->ops->await(store, session, (hf_stamp){0}, 1000, count_verifies, &verifies, &err);
        assert_code(HF_OK, code, &err);
    }
    assert_int_equal(verifies, 1);
    store->ops->session_end(store, session, false, NULL);
    store->ops->close(store);
}

static bool is_lost(void *lock)
{
    hf_error err;
    return hf_lock_check(lock, NULL, &err) == HF_LOST;
}

/* Its client marks it all the same, so that the next one need not wait for a lease. */
static void test_a_session_that_somebody_has_removed(void **state)
{
    (void)state;
    const char *name = bed_name("removed");
    hf_client *client = bed_client("removed", 5000), *next = bed_client("next", 5000);
    hf_lock *lock = bed_acquire(client, name, NULL);
    poll(NULL, 0, 5000 / 3 + 500); /* it has been beaten: no beat begins it again */
    char of[128];
    mongoc_client_t *own = connect_to(bed.uri, of, sizeof of);
    mongoc_collection_t *sessions = mongoc_client_get_collection(own, of, "holdfast.sessions");
    bson_t *which = BCON_NEW("app", "removed");
    assert_true(mongoc_collection_delete_many(sessions, which, NULL, NULL, NULL));
    bson_destroy(which);
    mongoc_collection_destroy(sessions);
    mongoc_client_destroy(own);
    assert_true(bed_until(BED_SOON, is_lost, lock));
    bed_release(bed_acquire(next, name, NULL));
    hf_lock_close(lock);
    hf_close(client);
    hf_close(next);
}

/* A lock that lingers is had again without the store: its tokens rise faster than cluster time. */
static int64_t use_tokens(const char *name)
{
    hf_client *client = bed_client("many", 5000);
    const hf_lock_options lingering = {.linger_ms = 60000};
    int64_t token = 0;
    bed_release(bed_acquire(client, name, NULL));
    poll(NULL, 0, 1100); /* a second later there is room for blocks */
    for (int i = 0; i < 3000; i++) {
        hf_lock *lock = bed_acquire(client, name, &lingering);
        bed_rises(token, hf_lock_token(lock));
        token = hf_lock_token(lock);
        bed_release(lock);
    }
    drop_locks();
    hf_close(client);
    return token;
}

static void test_tokens_begin_above_those_of_a_dropped_lock(void **state)
{
    (void)state;
    hf_client *client = bed_client("anew", 5000);
    const char *name = bed_name("anew");
    for (int i = 0; i < 3; i++) {
        int64_t used = use_tokens(name);
        hf_lock *lock = bed_acquire(client, name, NULL);
        bed_rises(used, hf_lock_token(lock));
        bed_release(lock);
    }
    hf_close(client);
}

static void test_a_key_takes_a_dropped_lease_anew(void **state)
{
    (void)state;
    hf_client *client = bed_client("anew", 5000);
    const char *name = bed_name("dropped lease");
    const hf_lease_options keyed = {.key = "order 4711"};
    hf_lease lease, again, renewed;
    hf_error err;
    assert_code(HF_OK, hf_lease_acquire(client, name, &keyed, &lease, &err), &err);
    drop_locks();
    assert_code(HF_OK, hf_lease_acquire(client, name, &keyed, &again, &err), &err);
    assert_string_equal(again.id, lease.id);
    bed_rises(lease.token, again.token);
    assert_code(HF_OK, hf_lease_renew(client, lease.id, &renewed, &err), &err);
    assert_int_equal(renewed.token, again.token);
    assert_code(HF_OK, hf_lease_release(client, lease.id, &err), &err);
    hf_close(client);
}

/* ---- Pruning ---- */

/* The record of a lock that was released so many days ago. */
static int64_t make_idle(hf_client *client, const char *name, int days, int64_t more_token,
                         int64_t period_ms)
{
    const hf_lock_options options = {.period_ms = period_ms};
    hf_lock *lock = bed_acquire(client, name, &options);
    int64_t token = hf_lock_token(lock);
    hf_lock_set_exit_status(lock, 0);
    bed_release(lock);
    int64_t at = bed_wall_ms() - days * INT64_C(86400000);
    change("holdfast.locks", BCON_NEW("_id", BCON_UTF8(name)),
           BCON_NEW("$set", "{", "last.at", BCON_DATE_TIME(at), "}", "$inc", "{", "token",
                    BCON_INT64(more_token), "}"));
    return token;
}

static bool exists(hf_store *store, const char *name)
{
    hf_record record;
    bed_look(store, name, &record);
    bool is_there = record.exists;
    record_done(&record);
    return is_there;
}

static void forget_sweeps(void)
{
    char of[128];
    mongoc_client_t *own = connect_to(bed.uri, of, sizeof of);
    mongoc_collection_t *docs = mongoc_client_get_collection(own, of, "holdfast.sessions");
    bson_t *which = BCON_NEW("sweep", BCON_BOOL(true));
    assert_true(mongoc_collection_delete_many(docs, which, NULL, NULL, NULL));
    bson_destroy(which);
    mongoc_collection_destroy(docs);
    mongoc_client_destroy(own);
}

static void let_turn_end(int64_t at_ms)
{
    bson_t *past = BCON_NEW("$set", "{", "until", BCON_DATE_TIME(at_ms), "}");
    char of[128];
    mongoc_client_t *own = connect_to(bed.uri, of, sizeof of);
    mongoc_collection_t *docs = mongoc_client_get_collection(own, of, "holdfast.sessions");
    bson_t *which = BCON_NEW("sweep", BCON_BOOL(true));
    assert_true(mongoc_collection_update_many(docs, which, past, NULL, NULL, NULL));
    bson_destroy(which);
    bson_destroy(past);
    mongoc_collection_destroy(docs);
    mongoc_client_destroy(own);
}

/* A client of the test may take the turn between two parts: then it ends at once. */
void mongo_sweep_all(hf_store *store)
{
    hf_session_state overdue[16];
    size_t n;
    bool more = true;
    hf_error err;
    forget_sweeps();
    while (more) {
        hf_code code = store->ops->sweep(store, overdue, 16, &n, &more, &err);
        if (code == HF_HELD) {
            let_turn_end(0);
            more = true;
        } else {
            assert_code(HF_OK, code, &err);
        }
    }
}

static bool old_is_pruned(void *ctx)
{
    hf_store *store = ((void **)ctx)[0];
    mongo_sweep_all(store);
    return !exists(store, ((void **)ctx)[1]);
}

/* A token is above the present floor for a second at most, unless a clock was set back. */
static void test_records_are_pruned_when_old_and_below_the_floor(void **state)
{
    (void)state;
    hf_store *store = bed_store();
    hf_client *client = bed_client("idle", 5000);
    const char *old = bed_name("old"), *young = bed_name("young"), *ahead = bed_name("ahead"),
               *over = bed_name("over"), *running = bed_name("running");
    int64_t token = make_idle(client, old, 4, 0, 0);
    make_idle(client, over, 4, 0, 1000);
    make_idle(client, young, 2, 0, 0);
    make_idle(client, ahead, 4, INT64_C(3600) << 20, 0);
    make_idle(client, running, 4, 0, INT64_C(87600) * 3600 * 1000);
    void *pruning[] = {store, (void *)(uintptr_t)old};
    assert_true(bed_until(BED_SOON, old_is_pruned, pruning));
    pruning[1] = (void *)(uintptr_t)over;
    assert_true(bed_until(BED_SOON, old_is_pruned, pruning));
    assert_true(exists(store, running));
    assert_true(exists(store, young));
    assert_true(exists(store, ahead));
    hf_lock *again = bed_acquire(client, old, NULL);
    assert_true(hf_lock_token(again) > token); /* though there is no record of it */
    bed_release(again);
    hf_close(client);
    store->ops->close(store);
}

static struct {
    const char *name;
    int64_t token;
} between;

/* What was found idle is used once more before it is deleted. */
static void use_it_first(const char *verb, const bson_t *command)
{
    (void)command;
    if (strcmp(verb, "delete") != 0)
        return;
    bed.on_command = NULL;
    hf_client *client = bed_client("between", 5000);
    hf_lock *lock = bed_acquire(client, between.name, NULL);
    between.token = hf_lock_token(lock);
    bed_release(lock);
    hf_close(client);
}

static bool was_used(void *ctx)
{
    if (bed.on_command)
        mongo_sweep_all(ctx);
    return bed.on_command == NULL;
}

static void test_pruning_deletes_only_what_it_found(void **state)
{
    (void)state;
    hf_store *store = bed_store();
    hf_record record;
    hf_client *client = bed_client("before", 5000);
    between.name = bed_name("between");
    make_idle(client, between.name, 4, 0, 0);
    hf_close(client); /* it must not be the one that sweeps: that would be in the background */
    bed.on_command = use_it_first;
    assert_true(bed_until(BED_SOON, was_used, store));
    bed_look(store, between.name, &record);
    assert_true(record.exists);
    assert_true(record.token >= between.token);
    record_done(&record);
    store->ops->close(store);
}

/* ---- A stream that rested ---- */

/* Another holds and leaves: the session is told. *stamp: of its enter. */
static hf_id be_granted(hf_store *store, hf_id session, const char *name, hf_stamp *stamp)
{
    hf_enter holder = bed_enter(bed_session(store, 10000), HF_LIMIT_RW, HF_LIMIT_RW),
             waiter = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW);
    hf_step_reply reply;
    hf_error err;
    bed_take(store, name, &holder, NULL);
    assert_code(HF_OK,
                store->ops->step(store, name, &(hf_step){.enter = &waiter}, NULL, &reply, &err),
                &err);
    *stamp = reply.stamp;
    bed_leave(store, name, holder.entry.ticket, NULL);
    return waiter.entry.ticket;
}

struct told {
    hf_id tickets[4];
    size_t n;
};

static void note_told(void *ctx, const hf_notice *notice)
{
    struct told *told = ctx;
    if (told->n < 4)
        told->tickets[told->n++] = notice->ticket;
}

static void await_some(hf_store *store, hf_id session, hf_stamp from, struct told *told)
{
    hf_error err;
    told->n = 0;
    for (int i = 0; i < 5 && !told->n; i++)
        assert_code(HF_OK, store->ops->await(store, session, from, 1000, note_told, told, &err),
                    &err);
}

/* On a busy server it would read for seconds what was written while nobody listened. */
static void test_a_stream_that_is_far_behind_skips_what_nobody_waits_for(void **state)
{
    (void)state;
    hf_id session;
    hf_store *store = stream_store(&session);
    hf_stamp first, second;
    struct told told;
    hf_id ticket = be_granted(store, session, bed_name("first"), &first);
    await_some(store, session, first, &told);
    assert_true(told.n && id_equal(told.tickets[0], ticket));
    be_granted(store, session, bed_name("unheard"), &second);
    usleep(3100000);
    ticket = be_granted(store, session, bed_name("second"), &second);
    await_some(store, session, second, &told);
    assert_int_equal(told.n, 1);
    assert_true(id_equal(told.tickets[0], ticket));
    store->ops->session_end(store, session, true, NULL);
    store->ops->close(store);
}

void mongo_let_be_old(hf_id session)
{
    mongo_set_expiry(session, 1);
    change_session(session, set_date("marked_at", 2 * HOUR_MS));
}

/* ---- What a sweep reads ---- */

#define MANY 20000
#define PAGE 500

/* Locks that are held, by nobody, and sessions that have ended in order. */
static void insert_many(mongoc_collection_t *docs, bool are_locks)
{
    mongoc_bulk_operation_t *bulk = mongoc_collection_create_bulk_operation_with_opts(docs, NULL);
    int64_t now_ms = bed_wall_ms();
    for (int i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "swept %05d", i);
        bson_t *doc =
            are_locks ? BCON_NEW("_id", name, "holders", "[", "{", "}", "]", "queue", "[", "]")
                      : BCON_NEW("dead", BCON_BOOL(true), "dead_at", BCON_DATE_TIME(now_ms),
                                 "expires_at", BCON_DATE_TIME(now_ms - 7200000), "app", "swept");
        mongoc_bulk_operation_insert(bulk, doc);
        bson_destroy(doc);
    }
    assert_true(mongoc_bulk_operation_execute(bulk, NULL, NULL));
    mongoc_bulk_operation_destroy(bulk);
}

static void set_profile(mongoc_client_t *own, const char *of, int32_t level)
{
    bson_t *command = BCON_NEW("profile", BCON_INT32(level));
    assert_true(mongoc_client_command_simple(own, of, command, NULL, NULL, NULL));
    bson_destroy(command);
}

static int64_t count_profiled(mongoc_client_t *own, const char *of, bson_t *filter)
{
    mongoc_collection_t *docs = mongoc_client_get_collection(own, of, "system.profile");
    int64_t n = mongoc_collection_count_documents(docs, filter, NULL, NULL, NULL, NULL);
    bson_destroy(filter);
    mongoc_collection_destroy(docs);
    return n;
}

static void remove_many_of(mongoc_collection_t *docs, bson_t *filter)
{
    assert_true(mongoc_collection_delete_many(docs, filter, NULL, NULL, NULL));
    bson_destroy(filter);
}

/* As many records, and sessions of the day, as a busy place has: no command looks at more than a
 * page of them, and none without an index. */
static void test_a_sweep_reads_page_by_page(void **state)
{
    (void)state;
    char of[128];
    hf_store *store = bed_store();
    mongoc_client_t *own = connect_to(bed.uri, of, sizeof of);
    mongoc_collection_t *locks = mongoc_client_get_collection(own, of, "holdfast.locks");
    mongoc_collection_t *sessions = mongoc_client_get_collection(own, of, "holdfast.sessions");
    mongo_sweep_all(store); /* the indexes */
    insert_many(locks, true);
    insert_many(sessions, false);
    set_profile(own, of, 2);
    mongo_sweep_all(store);
    set_profile(own, of, 0);
    bson_t *pages = BCON_NEW("command.aggregate", "holdfast.locks");
    assert_true(count_profiled(own, of, pages) >= MANY / PAGE);
    bson_t *scans = BCON_NEW("planSummary", "{", "$regex", "COLLSCAN", "}", "ns", "{", "$regex",
                             "(locks|sessions)$", "}", "command.q.sweep", "{", "$exists",
                             BCON_BOOL(false), "}");
    assert_int_equal(count_profiled(own, of, scans), 0);
    bson_t *long_ones = BCON_NEW("docsExamined", "{", "$gt", BCON_INT32(2 * PAGE), "}",
                                 "command.q.sweep", "{", "$exists", BCON_BOOL(false), "}");
    assert_int_equal(count_profiled(own, of, long_ones), 0);
    remove_many_of(locks, BCON_NEW("_id", "{", "$regex", "^swept ", "}"));
    remove_many_of(sessions, BCON_NEW("app", "swept"));
    mongoc_collection_destroy(sessions);
    mongoc_collection_destroy(locks);
    mongoc_client_destroy(own);
    store->ops->close(store);
}

/* What one has swept, others leave alone for an hour. */
static void test_one_sweeps_for_all(void **state)
{
    (void)state;
    hf_store *store = bed_store(), *other = bed_store();
    hf_session_state overdue[16];
    size_t n;
    bool more;
    hf_error err;
    mongo_sweep_all(store);
    assert_code(HF_OK, other->ops->sweep(other, overdue, 16, &n, &more, &err), &err);
    assert_false(more);
    forget_sweeps();
    assert_code(HF_OK, other->ops->sweep(other, overdue, 16, &n, &more, &err), &err);
    assert_true(more);
    store->ops->close(store);
    other->ops->close(other);
}

static void insert_old(mongoc_collection_t *sessions, bson_t *odd)
{
    BSON_APPEND_DATE_TIME(odd, "expires_at", bed_wall_ms() - 30 * DAY_MS);
    BSON_APPEND_BOOL(odd, "old", true);
    assert_true(mongoc_collection_insert_one(sessions, odd, NULL, NULL, NULL));
    bson_destroy(odd);
}

static void insert_old_ones(mongoc_collection_t *sessions)
{
    for (int i = 0; i < 4; i++) {
        insert_old(sessions, BCON_NEW("ttl_ms", BCON_INT32(1000)));
        insert_old(sessions, BCON_NEW("beat", BCON_INT32(1), "ttl_ms", "a day"));
        insert_old(sessions, BCON_NEW("beat", "[", BCON_INT32(1), "]", "ttl_ms", BCON_INT32(1)));
        insert_old(sessions, BCON_NEW("beat", BCON_DOUBLE(-1), "ttl_ms", BCON_INT32(1)));
        insert_old(sessions, BCON_NEW("_id", BCON_INT32(i), "beat", BCON_INT32(1), "ttl_ms",
                                      BCON_INT32(1000)));
    }
}

static bool finds_overdue(hf_store *store, hf_id session)
{
    hf_session_state overdue[16];
    size_t n;
    bool more, is_there = false;
    hf_error err;
    forget_sweeps();
    assert_code(HF_OK, store->ops->sweep(store, overdue, 16, &n, &more, &err), &err);
    for (size_t i = 0; i < n; i++)
        is_there |= id_equal(overdue[i].session.id, session);
    return is_there;
}

static void test_a_sweep_finds_the_overdue_beside_what_is_not_ours(void **state)
{
    (void)state;
    char of[128];
    hf_store *store = bed_store();
    mongoc_client_t *own = connect_to(bed.uri, of, sizeof of);
    mongoc_collection_t *sessions = mongoc_client_get_collection(own, of, "holdfast.sessions");
    hf_id session = overdue_elsewhere(store, 1000);
    change_session(session, set_date("expires_at", 2 * DAY_MS));
    insert_old_ones(sessions);
    bool is_found = finds_overdue(store, session);
    remove_many_of(sessions, BCON_NEW("old", BCON_BOOL(true)));
    assert_true(is_found);
    store->ops->session_end(store, session, false, NULL);
    mongoc_collection_destroy(sessions);
    mongoc_client_destroy(own);
    store->ops->close(store);
}

/* ---- Listings beside what is not ours ---- */

static char warned[2000];

static void note_warning(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx;
    size_t used = strlen(warned);
    if (level == HF_LOG_WARNING)
        snprintf(warned + used, sizeof warned - used, "%s\n", text);
}

static bool count_session(void *ctx, const hf_session_info *info)
{
    *(size_t *)ctx += strcmp(info->app, "lister") == 0;
    return true;
}

static bool count_lock(void *ctx, const hf_lock_info *info)
{
    *(size_t *)ctx += info->n_holders == 1;
    return true;
}

/* Neither one without a date, nor with a date that is none, nor one of which nothing is as it
 * should be, and of which a ticket stands. */
static void test_one_odd_session_hides_no_other(void **state)
{
    (void)state;
    const char *name = bed_name("odd");
    hf_options options = {.app = "lister", .log = note_warning};
    hf_client *client;
    hf_error err;
    hf_store *store = bed_store();
    hf_id session = bed_session(store, 10000);
    bson_oid_t id;
    hf_lock *lock;
    size_t sessions = 0, locks = 0;
    memcpy(id.bytes, session.bytes, sizeof id.bytes);
    hf_enter enter = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW);
    bed_take(store, name, &enter, NULL);
    assert_code(HF_OK, hf_open(bed.uri, &options, &client, &err), &err);
    assert_code(HF_OK, hf_lock_acquire(client, bed_name("good"), NULL, &lock, &err), &err);
    change("holdfast.sessions", by_id(&id),
           BCON_NEW("$set", "{", "ttl_ms", "long", "expires_at", "tomorrow", "}"));
    warned[0] = '\0';
    assert_code(HF_OK, hf_sessions(client, count_session, &sessions, &err), &err);
    assert_int_equal(sessions, 1);
    assert_contains(warned, "ttl_ms");
    warned[0] = '\0';
    assert_code(HF_OK, hf_list(client, name, count_lock, &locks, &err), &err);
    assert_int_equal(locks, 1);
    assert_contains(warned, "ttl_ms");
    change("holdfast.sessions", by_id(&id), BCON_NEW("$set", "{", "ttl_ms", BCON_INT32(1000), "}"));
    hf_lock_close(lock);
    hf_close(client);
    store->ops->session_end(store, session, true, NULL);
    store->ops->close(store);
}

static void set_failing_deletes(bool fails)
{
    mongoc_client_t *own = mongoc_client_new(bed.uri);
    bson_t *command =
        BCON_NEW("configureFailPoint", "failCommand", "mode", fails ? "alwaysOn" : "off", "data",
                 "{", "failCommands", "[", "delete", "]", "appName", "hf-doctor", "errorCode",
                 BCON_INT32(13), "}");
    assert_true(mongoc_client_command_simple(own, "admin", command, NULL, NULL, NULL));
    bson_destroy(command);
    mongoc_client_destroy(own);
}

static bool count_trial(void *ctx, const hf_session_info *info)
{
    *(size_t *)ctx += strcmp(info->app, "holdfast doctor") == 0 && info->dead;
    return true;
}

static bool ignore_finding(void *ctx, const hf_finding *finding)
{
    (void)ctx;
    (void)finding;
    return true;
}

/* It stays for a day: as a session that has ended. */
static void test_a_trial_that_the_doctor_cannot_delete_is_a_session(void **state)
{
    (void)state;
    char uri[1100];
    hf_options options = {.log = note_warning};
    hf_client *client;
    hf_error err;
    size_t n = 0;
    snprintf(uri, sizeof uri, "%s%sappName=hf-doctor", bed.uri, strchr(bed.uri, '?') ? "&" : "/?");
    assert_code(HF_OK, hf_open(uri, &options, &client, &err), &err);
    set_failing_deletes(true);
    hf_code code = hf_doctor(client, ignore_finding, NULL, &err);
    set_failing_deletes(false);
    assert_code(HF_OK, code, &err);
    warned[0] = '\0';
    assert_code(HF_OK, hf_sessions(client, count_trial, &n, &err), &err);
    assert_int_equal(n, 1);
    assert_string_equal(warned, "");
    hf_close(client);
}

/* ---- Marks (R5, R6) ---- */

static mongoc_collection_t *open_own(const char *name, mongoc_client_t **own)
{
    char of[128];
    *own = connect_to(bed.uri, of, sizeof of);
    return mongoc_client_get_collection(*own, of, name);
}

static bool has_date(hf_id session)
{
    mongoc_client_t *own;
    bson_oid_t id;
    memcpy(id.bytes, session.bytes, sizeof id.bytes);
    mongoc_collection_t *docs = open_own("holdfast.sessions", &own);
    bson_t *filter = BCON_NEW("_id", BCON_OID(&id), "dead", BCON_BOOL(true), "dead_at", "{",
                              "$exists", BCON_BOOL(true), "}");
    int64_t n = mongoc_collection_count_documents(docs, filter, NULL, NULL, NULL, NULL);
    bson_destroy(filter);
    mongoc_collection_destroy(docs);
    mongoc_client_destroy(own);
    return n == 1;
}

static void mark_and_let_be_old(hf_store *store, hf_id session)
{
    hf_session_state seen;
    hf_error err;
    assert_code(HF_OK, store->ops->sessions_look(store, &session, 1, -1, &seen, &err), &err);
    assert_code(HF_OK, store->ops->session_mark(store, &seen, &err), &err);
    mongo_let_be_old(session);
}

static bool is_dated(void *ctx)
{
    void **of = ctx;
    mongo_sweep_all(of[0]);
    return has_date(*(hf_id *)of[1]);
}

/* More dead sessions than a sweep takes at once, of each of which a ticket stands; before all
 * others. */
static void leave_many(void)
{
    mongoc_client_t *own;
    mongoc_collection_t *sessions = open_own("holdfast.sessions", &own);
    mongoc_collection_t *locks = mongoc_client_get_collection(
        own, mongoc_uri_get_database(mongoc_client_get_uri(own)), "holdfast.locks");
    mongoc_bulk_operation_t *bulk =
        mongoc_collection_create_bulk_operation_with_opts(sessions, NULL);
    bson_t lock = BSON_INITIALIZER, holders;
    BSON_APPEND_UTF8(&lock, "_id", "many");
    BSON_APPEND_ARRAY_BEGIN(&lock, "holders", &holders);
    for (int i = 0; i < 700; i++) {
        bson_oid_t id = {{0}};
        id.bytes[10] = (uint8_t)(i >> 8);
        id.bytes[11] = (uint8_t)i;
        bson_t *session = BCON_NEW("_id", BCON_OID(&id), "dead", BCON_BOOL(true), "expires_at",
                                   BCON_DATE_TIME(0));
        bson_t *holder = BCON_NEW("session", BCON_OID(&id));
        mongoc_bulk_operation_insert(bulk, session);
        BSON_APPEND_DOCUMENT(&holders, "0", holder);
        bson_destroy(session);
        bson_destroy(holder);
    }
    bson_append_array_end(&lock, &holders);
    assert_true(mongoc_bulk_operation_execute(bulk, NULL, NULL));
    assert_true(mongoc_collection_insert_one(locks, &lock, NULL, NULL, NULL));
    bson_destroy(&lock);
    mongoc_bulk_operation_destroy(bulk);
    mongoc_collection_destroy(locks);
    mongoc_collection_destroy(sessions);
    mongoc_client_destroy(own);
}

/* How many of those have a date; they are removed. */
static int64_t remove_many(void)
{
    mongoc_client_t *own;
    mongoc_collection_t *sessions = open_own("holdfast.sessions", &own);
    mongoc_collection_t *locks = mongoc_client_get_collection(
        own, mongoc_uri_get_database(mongoc_client_get_uri(own)), "holdfast.locks");
    bson_t *old = BCON_NEW("expires_at", BCON_DATE_TIME(0)),
           *dated = BCON_NEW("expires_at", BCON_DATE_TIME(0), "dead_at", "{", "$exists",
                             BCON_BOOL(true), "}"),
           *lock = BCON_NEW("_id", "many");
    int64_t n = mongoc_collection_count_documents(sessions, dated, NULL, NULL, NULL, NULL);
    assert_true(mongoc_collection_delete_many(sessions, old, NULL, NULL, NULL));
    assert_true(mongoc_collection_delete_one(locks, lock, NULL, NULL, NULL));
    bson_destroy(old);
    bson_destroy(dated);
    bson_destroy(lock);
    mongoc_collection_destroy(locks);
    mongoc_collection_destroy(sessions);
    mongoc_client_destroy(own);
    return n;
}

static void test_a_sweep_gets_past_the_marks_that_stay(void **state)
{
    (void)state;
    hf_store *store = bed_store();
    hf_id idle = bed_session(store, 1000);
    mark_and_let_be_old(store, idle);
    leave_many();
    bool dated = bed_until(BED_SOON, is_dated, (void *[]){store, &idle});
    assert_int_equal(remove_many(), 0);
    assert_true(dated);
    store->ops->close(store);
}

static hf_presence seen_from(hf_store *store, hf_id session)
{
    hf_session_state seen;
    hf_error err;
    assert_code(HF_OK, store->ops->sessions_look(store, &session, 1, -1, &seen, &err), &err);
    return seen.presence;
}

static void test_another_name_has_sessions_of_its_own(void **state)
{
    (void)state;
    char uri[1200];
    snprintf(uri, sizeof uri, "%s%shfCollection=it%%27s+another", bed.uri,
             strchr(bed.uri, '?') ? "&" : "/?");
    hf_store *store = bed_store(), *another = bed_store_at(uri, 10000);
    hf_id here = bed_session(store, 1000), there = bed_session(another, 1000);
    assert_int_equal(seen_from(store, here), HF_LIVE);
    assert_int_equal(seen_from(store, there), HF_MISSING);
    assert_int_equal(seen_from(another, here), HF_MISSING);
    assert_int_equal(seen_from(another, there), HF_LIVE);
    another->ops->close(another);
    store->ops->close(store);
}

/* ---- What dead sessions have left ---- */

static size_t n_entries(hf_store *store, const char *name)
{
    hf_record record;
    bed_look(store, name, &record);
    size_t n = record.holders + record.queued;
    record_done(&record);
    return n;
}

/* What has a date is forgotten a day later; a request that only tries the lock would then find it
 * held for ever. */
static void test_a_mark_stays_while_a_ticket_of_it_stands(void **state)
{
    (void)state;
    hf_store *store = bed_store();
    const char *name = bed_name("left");
    hf_error err;
    hf_id idle = bed_session(store, 1000), ended = bed_session(store, 1000),
          unsure = bed_session(store, 1000);
    hf_enter holder = bed_enter(bed_session(store, 1000), HF_LIMIT_RW, HF_LIMIT_RW),
             waiter = bed_enter(bed_session(store, 1000), HF_LIMIT_RW, HF_LIMIT_RW);
    bed_take(store, name, &holder, NULL);
    bed_take(store, name, &waiter, NULL);
    assert_code(HF_OK, store->ops->session_end(store, ended, false, &err), &err);
    assert_code(HF_OK, store->ops->session_end(store, unsure, true, &err), &err);
    assert_true(has_date(ended));
    assert_false(has_date(unsure));
    mark_and_let_be_old(store, holder.entry.session);
    mark_and_let_be_old(store, waiter.entry.session);
    mark_and_let_be_old(store, idle);
    assert_false(has_date(idle));
    assert_int_equal(n_entries(store, name), 2);
    assert_true(bed_until(BED_SOON, is_dated, (void *[]){store, &idle}));
    assert_int_equal(n_entries(store, name), 0);
    assert_true(has_date(holder.entry.session));
    assert_true(has_date(waiter.entry.session));
    assert_false(has_date(unsure)); /* not an hour ago: a request of it may still arrive */
    store->ops->close(store);
}

static bool is_out(void *ctx)
{
    void **of = ctx;
    mongo_sweep_all(of[0]);
    return n_entries(of[0], of[1]) == 0;
}

/* Killed, and nobody asks for what they held: by this host's clock, and by what it noted before. */
static void test_a_sweep_takes_out_what_killed_processes_have_taken(void **state)
{
    (void)state;
    hf_store *store = bed_store();
    const char *here = bed_name("here"), *there = bed_name("there"), *lives = bed_name("lives");
    hf_enter of_here = bed_enter(bed_session(store, 1000), HF_LIMIT_RW, HF_LIMIT_RW),
             of_there = bed_enter(overdue_elsewhere(store, 1000), HF_LIMIT_RW, HF_LIMIT_RW),
             stands_still = bed_enter(bed_session(store, 1000), HF_LIMIT_RW, HF_LIMIT_RW);
    bed_take(store, here, &of_here, NULL);
    bed_take(store, there, &of_there, NULL);
    bed_take(store, lives, &stands_still, NULL);
    change_session(of_here.entry.session, set_date("expires_at", 2 * HOUR_MS));
    change_session(of_here.entry.session,
                   BCON_NEW("$inc", "{", "clock.at", BCON_INT64(-2 * (int64_t)HOUR_MS), "}"));
    change_session(of_there.entry.session, set_date("expires_at", 2 * HOUR_MS));
    change_session(stands_still.entry.session, set_date("expires_at", HOUR_MS - 60000));
    assert_true(bed_until(BED_SOON, is_out, (void *[]){store, (void *)(uintptr_t)here}));
    assert_int_equal(n_entries(store, there), 1);
    change_session(of_there.entry.session,
                   BCON_NEW("$inc", "{", "sightings.0.at", BCON_INT64(-HOUR_MS), "}"));
    assert_true(bed_until(BED_SOON, is_out, (void *[]){store, (void *)(uintptr_t)there}));
    assert_int_equal(n_entries(store, lives), 1);
    store->ops->session_end(store, stands_still.entry.session, false, NULL);
    store->ops->close(store);
}

/* More than one part marks: beats come together, and so the leases of all ended in one moment. */
static void test_a_sweep_marks_all_that_ended_at_once(void **state)
{
    (void)state;
    enum { DEAD = 130, TTL_MS = 1234 };
    hf_store *store = bed_store();
    mongoc_client_t *own;
    mongoc_collection_t *sessions = open_own("holdfast.sessions", &own);
    for (int i = 0; i < DEAD; i++)
        bed_session(store, TTL_MS);
    bson_t *ours = BCON_NEW("ttl_ms", BCON_INT32(TTL_MS)),
           *dead = BCON_NEW("ttl_ms", BCON_INT32(TTL_MS), "dead", BCON_BOOL(true)),
           *old = BCON_NEW("$set", "{", "expires_at",
                           BCON_DATE_TIME(bed_wall_ms() - 2 * (int64_t)HOUR_MS), "}", "$inc", "{",
                           "clock.at", BCON_INT64(-2 * (int64_t)HOUR_MS), "}");
    assert_true(mongoc_collection_update_many(sessions, ours, old, NULL, NULL, NULL));
    mongo_sweep_all(store);
    int64_t n = mongoc_collection_count_documents(sessions, dead, NULL, NULL, NULL, NULL);
    assert_true(mongoc_collection_delete_many(sessions, ours, NULL, NULL, NULL));
    assert_int_equal(n, DEAD);
    bson_destroy(ours);
    bson_destroy(dead);
    bson_destroy(old);
    mongoc_collection_destroy(sessions);
    mongoc_client_destroy(own);
    store->ops->close(store);
}

/* Who waits behind the dead, and would have taken them out itself, is granted and told. */
static void test_a_sweep_grants_who_waits_behind_the_dead(void **state)
{
    (void)state;
    hf_store *store = bed_store();
    const char *name = bed_name("line");
    hf_record record;
    hf_enter dead = bed_enter(bed_session(store, 1000), HF_LIMIT_RW, HF_LIMIT_RW),
             waits = bed_enter(bed_session(store, 60000), HF_LIMIT_RW, HF_LIMIT_RW);
    bed_take(store, name, &dead, NULL);
    bed_take(store, name, &waits, NULL);
    mark_and_let_be_old(store, dead.entry.session);
    assert_true(bed_until(BED_SOON, is_dated, (void *[]){store, &dead.entry.session}));
    bed_look(store, name, &record);
    assert_int_equal(record.holders, 1);
    assert_true(id_equal(record.entries[0].ticket, waits.entry.ticket));
    assert_int_equal(record.last.outcome, HF_OUTCOME_ABANDONED);
    record_done(&record);
    store->ops->session_end(store, waits.entry.session, false, NULL);
    store->ops->close(store);
}

/* More than one part takes out, by clients of which each does one part only. */
static void test_clients_share_a_sweep(void **state)
{
    (void)state;
    hf_store *store = bed_store();
    char name[40];
    hf_session_state overdue[16];
    size_t n;
    bool more = true, other;
    hf_error err;
    hf_id session = bed_session(store, 1000);
    for (int i = 0; i < 230; i++) {
        hf_enter enter = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW);
        snprintf(name, sizeof name, "shared-sweep %03d", i);
        bed_take(store, name, &enter, NULL);
    }
    mark_and_let_be_old(store, session);
    forget_sweeps();
    int parts = 0;
    for (; more; parts++) {
        hf_store *one = bed_store(), *two = bed_store();
        assert_code(HF_OK, one->ops->sweep(one, overdue, 16, &n, &more, &err), &err);
        if (more)
            let_turn_end(bed_wall_ms() + SWEEP_TURN_MS - 250); /* not sooner, on a slow machine */
        assert_int_equal(two->ops->sweep(two, overdue, 16, &n, &other, &err),
                         more ? HF_HELD : HF_OK);
        assert_false(other); /* it is the other's turn, or all is done */
        two->ops->close(two);
        one->ops->close(one);
        let_turn_end(0);
    }
    assert_true(parts >= 5);
    for (int i = 0; i < 230; i++) {
        snprintf(name, sizeof name, "shared-sweep %03d", i);
        assert_int_equal(n_entries(store, name), 0);
    }
    store->ops->close(store);
}

int run_mongo_cases(void)
{
    const struct bed_case mongo_cases[] = {
        CASE_IF(HF_CAN_QUEUE, test_rising_and_equal_tokens_pass_lower_ones_do_not),
        CASE_IF(HF_CAN_QUEUE, test_a_document_that_is_not_there),
        CASE_IF(HF_CAN_QUEUE, test_a_fence_of_another_name),
        CASE_IF(HF_CAN_QUEUE, test_updates_that_cannot_be),
        CASE_IF(HF_CAN_QUEUE, test_a_fence_that_is_no_number_is_left_alone),
        CASE_IF(HF_CAN_QUEUE, test_the_guard_with_real_tokens),
        CASE_IF(HF_CAN_QUEUE, test_a_pair_takes_two_round_trips),
        CASE_IF(HF_CAN_QUEUE, test_round_trips_of_a_lease),
        CASE_IF(HF_CAN_QUEUE, test_hosts_that_do_not_come_back_make_room),
        CASE_IF(HF_CAN_QUEUE, test_a_session_is_gone_by_its_own_hosts_clock),
        CASE_IF(HF_CAN_QUEUE, test_no_date_makes_a_session_gone),
        CASE_IF(HF_CAN_QUEUE, test_what_was_seen_a_ttl_ago_is_gone),
        CASE_IF(HF_CAN_QUEUE, test_what_was_seen_of_an_earlier_beat_says_nothing),
        CASE_IF(HF_CAN_QUEUE, test_a_late_beat_takes_no_time_back),
        CASE_IF(HF_CAN_QUEUE, test_one_odd_session_hides_no_other),
        CASE_IF(HF_CAN_QUEUE, test_a_trial_that_the_doctor_cannot_delete_is_a_session),
        CASE_IF(HF_CAN_QUEUE, test_a_sweep_reads_page_by_page),
        CASE_IF(HF_CAN_QUEUE, test_one_sweeps_for_all),
        CASE_IF(HF_CAN_QUEUE, test_a_sweep_finds_the_overdue_beside_what_is_not_ours),
        CASE_IF(HF_CAN_QUEUE, test_a_session_that_somebody_has_removed),
        CASE_IF(HF_CAN_QUEUE, test_a_drop_is_heard),
        CASE_IF(HF_CAN_QUEUE, test_tokens_begin_above_those_of_a_dropped_lock),
        CASE_IF(HF_CAN_QUEUE, test_a_key_takes_a_dropped_lease_anew),
        CASE_IF(HF_CAN_QUEUE, test_records_are_pruned_when_old_and_below_the_floor),
        CASE_IF(HF_CAN_QUEUE, test_pruning_deletes_only_what_it_found),
        CASE_IF(HF_CAN_QUEUE, test_a_stream_that_is_far_behind_skips_what_nobody_waits_for),
        CASE_IF(HF_CAN_QUEUE, test_a_mark_stays_while_a_ticket_of_it_stands),
        CASE_IF(HF_CAN_QUEUE, test_another_name_has_sessions_of_its_own),
        CASE_IF(HF_CAN_QUEUE, test_a_sweep_takes_out_what_killed_processes_have_taken),
        CASE_IF(HF_CAN_QUEUE, test_a_sweep_marks_all_that_ended_at_once),
        CASE_IF(HF_CAN_QUEUE, test_a_sweep_grants_who_waits_behind_the_dead),
        CASE_IF(HF_CAN_QUEUE, test_clients_share_a_sweep),
        CASE_IF(HF_CAN_QUEUE, test_a_sweep_gets_past_the_marks_that_stay),
    };
    return CASES(mongo_cases);
}
