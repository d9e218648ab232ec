/* SPDX-License-Identifier: Apache-2.0 */
/* sharding_cases.c: what is protocol sharding's alone: what an overtake compares, what a ping
 * unlocks and what it leaves alone, and what a break takes out; run by main.c. */
#include "conformance/bed.h"

#include "core/record.h"

#include <mongoc/mongoc.h>
#include <poll.h>

#define OTHER "elsewhere:27017:1350047994:16807"
#define SESSION "0123456789abcdef01234567"
#define ALL HF_LIMIT_RW
#define APP "holdfast-sharding" /* whose commands can be made to fail */

static mongoc_client_t *driver;
static mongoc_collection_t *locks;
static const char *name;
static hf_error err;

static int set_up(void **state)
{
    (void)state;
    mongoc_uri_t *uri = mongoc_uri_new(bed.uri);
    driver = mongoc_client_new_from_uri(uri);
    locks = mongoc_client_get_collection(driver, mongoc_uri_get_database(uri), "locks");
    name = bed_name("sharding");
    mongoc_uri_destroy(uri);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bed.on_command = NULL;
    mongoc_collection_destroy(locks);
    mongoc_client_destroy(driver);
    return 0;
}

/* ---- Documents, as another program writes and reads them ---- */

static void put(const char *id, const char *process, int64_t state, const char *ts)
{
    bson_oid_t oid;
    if (ts)
        bson_oid_init_from_string(&oid, ts);
    else
        bson_oid_init(&oid, NULL);
    bson_t *filter = BCON_NEW("_id", BCON_UTF8(id));
    bson_t *doc =
        BCON_NEW("_id", BCON_UTF8(id), "state", BCON_INT64(state), "process", BCON_UTF8(process),
                 "ts", BCON_OID(&oid), "when", BCON_DATE_TIME(bed_wall_ms()), "who",
                 BCON_UTF8(OTHER ":main"), "why", BCON_UTF8("by hand"));
    bson_t *opts = BCON_NEW("upsert", BCON_BOOL(true));
    assert_true(mongoc_collection_replace_one(locks, filter, doc, opts, NULL, NULL));
    bson_destroy(opts);
    bson_destroy(doc);
    bson_destroy(filter);
}

static void set_state(const char *id, int32_t to)
{
    bson_t *filter = BCON_NEW("_id", BCON_UTF8(id));
    bson_t *update = BCON_NEW("$set", "{", "state", BCON_INT32(to), "}");
    assert_true(mongoc_collection_update_one(locks, filter, update, NULL, NULL, NULL));
    bson_destroy(update);
    bson_destroy(filter);
}

/* A field of the lock's document as text. */
static const char *get(const char *id, const char *field)
{
    static char text[512];
    const bson_t *doc;
    bson_iter_t it;
    bson_t *filter = BCON_NEW("_id", BCON_UTF8(id));
    mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(locks, filter, NULL, NULL);
    assert_true(mongoc_cursor_next(cursor, &doc) && bson_iter_init_find(&it, doc, field));
    if (BSON_ITER_HOLDS_OID(&it))
        bson_oid_to_string(bson_iter_oid(&it), text);
    else if (BSON_ITER_HOLDS_UTF8(&it))
        snprintf(text, sizeof text, "%s", bson_iter_utf8(&it, NULL));
    else
        snprintf(text, sizeof text, "%lld", (long long)bson_iter_as_int64(&it));
    mongoc_cursor_destroy(cursor);
    bson_destroy(filter);
    return text;
}

/* ---- Stores with an expiry of a second ---- */

static hf_store *open_store(const char *keys)
{
    char uri[sizeof bed.uri + 200];
    snprintf(uri, sizeof uri, "%s&hfExpiryMS=%d%s", bed.uri, BED_TTL, keys);
    return bed_store_at(uri, BED_TTL);
}

/* Whether the lock is ours after one round. */
static bool enters(hf_store *store, const hf_enter *enter)
{
    hf_record record;
    bed_take(store, name, enter, &record);
    bool has = record_find(&record, enter->entry.ticket);
    record_done(&record);
    return has;
}

static void end(hf_store *store, hf_id session)
{
    assert_code(HF_OK, store->ops->session_end(store, session, false, &err), &err);
    store->ops->close(store);
}

/* On a busy machine a beat of so short a lease may be too slow to be answered in time. */
static bool beat(hf_store *store, hf_id session)
{
    hf_session_state state;
    hf_code code = HF_UNKNOWN;
    for (int i = 0; i < 50 && (code == HF_UNKNOWN || code == HF_UNREACHABLE); i++)
        code = store->ops->session_beat(store, session, &(hf_beat){0}, &state, &err);
    assert_code(HF_OK, code, &err);
    return state.misses;
}

/* After a ping that was slow there was no time for the rest. */
static bool misses_soon(hf_store *store, hf_id session)
{
    for (int i = 0; i < 50; i++)
        if (beat(store, session))
            return true;
    return false;
}

static bool is_free_soon(hf_store *store, hf_id session, const char *id)
{
    for (int i = 0; i < 50 && strcmp(get(id, "state"), "0") != 0; i++)
        assert_false(beat(store, session));
    return strcmp(get(id, "state"), "0") == 0;
}

/* ---- Overtaking ---- */

/* Another takes the lock over just before we do. */
static void be_faster(const char *verb, const bson_t *command)
{
    bson_iter_t it, found;
    if (strcmp(verb, "findAndModify") != 0 || !bson_iter_init(&it, command) ||
        !bson_iter_find_descendant(&it, "query.$or", &found))
        return;
    bed.on_command = NULL;
    put(name, "another", 2, SESSION);
}

static void test_an_overtake_compares_what_was_seen(void **state)
{
    (void)state;
    hf_store *store = open_store("");
    hf_id session = bed_session(store, BED_TTL);
    hf_enter enter = bed_enter(session, ALL, ALL);
    put(name, OTHER, 2, NULL);
    assert_false(enters(store, &enter));
    poll(NULL, 0, BED_TTL + 200);
    bed.on_command = be_faster;
    assert_false(enters(store, &enter));
    assert_null(bed.on_command);
    assert_string_equal(get(name, "ts"), SESSION);
    assert_string_equal(get(name, "process"), "another");
    end(store, session);
}

/* ---- Undoing ---- */

static bson_t undo_filter, undo_change;

static void copy_part(const bson_t *command, const char *path, bson_t *out)
{
    bson_iter_t it, found;
    bson_t part;
    uint32_t size;
    const uint8_t *bytes;
    assert_true(bson_iter_init(&it, command) && bson_iter_find_descendant(&it, path, &found));
    bson_iter_document(&found, &size, &bytes);
    assert_true(bson_init_static(&part, bytes, size));
    bson_copy_to(&part, out);
}

static void keep_undo(const char *verb, const bson_t *command)
{
    if (strcmp(verb, "update") != 0)
        return;
    bed.on_command = NULL;
    copy_part(command, "updates.0.q", &undo_filter);
    copy_part(command, "updates.0.u", &undo_change);
}

/* A server that shuts down refuses it: whether the grab was made is not known. */
static void fail_next_grab(void)
{
    bson_t *command =
        BCON_NEW("configureFailPoint", BCON_UTF8("failCommand"), "mode", "{", "times",
                 BCON_INT32(1), "}", "data", "{", "failCommands", "[", BCON_UTF8("findAndModify"),
                 "]", "appName", BCON_UTF8(APP), "errorCode", BCON_INT32(91), "}");
    assert_true(mongoc_client_command_simple(driver, "admin", command, NULL, NULL, NULL));
    bson_destroy(command);
}

/* The grab after it has the same ts. */
static void test_the_late_undo_of_a_grab_leaves_the_next_one_alone(void **state)
{
    (void)state;
    hf_store *store = open_store("&appName=" APP);
    hf_id session = bed_session(store, BED_TTL);
    hf_enter enter = bed_enter(session, ALL, ALL);
    fail_next_grab();
    bed.on_command = keep_undo;
    assert_true(enters(store, &enter));
    assert_null(bed.on_command);
    assert_true(mongoc_collection_update_one(locks, &undo_filter, &undo_change, NULL, NULL, NULL));
    assert_string_equal(get(name, "state"), "2");
    bson_destroy(&undo_filter);
    bson_destroy(&undo_change);
    end(store, session);
}

static size_t n_looks, n_looks_after; /* at the lock; those that are no older than something */

static void count_looks(const char *verb, const bson_t *command)
{
    bson_iter_t it, found;
    if (strcmp(verb, "find") != 0 || !bson_iter_init_find(&it, command, "find") ||
        strcmp(bson_iter_utf8(&it, NULL), "locks") != 0)
        return;
    n_looks++;
    n_looks_after += bson_iter_init(&it, command) &&
                     bson_iter_find_descendant(&it, "readConcern.afterClusterTime", &found);
}

/* An older one may show a lock that nobody holds, which would be told as held by others. */
static void test_the_look_after_a_refusal_is_no_older_than_it(void **state)
{
    (void)state;
    hf_store *store = open_store("");
    hf_id session = bed_session(store, BED_TTL);
    hf_enter enter = bed_enter(session, ALL, ALL);
    put(name, OTHER, 2, NULL);
    n_looks = n_looks_after = 0;
    bed.on_command = count_looks;
    assert_false(enters(store, &enter));
    bed.on_command = NULL;
    assert_int_equal(n_looks, 1);
    assert_int_equal(n_looks_after, 1);
    end(store, session);
}

static void test_an_owner_that_never_pinged_is_overtaken(void **state)
{
    (void)state;
    hf_store *store = open_store("");
    hf_id session = bed_session(store, BED_TTL);
    hf_enter enter = bed_enter(session, ALL, ALL);
    put(name, OTHER, 1, NULL); /* as a server before 3.2 wrote it */
    assert_false(enters(store, &enter));
    poll(NULL, 0, BED_TTL + 200);
    assert_true(enters(store, &enter));
    assert_string_equal(get(name, "state"), "2");
    end(store, session);
    assert_string_equal(get(name, "state"), "0");
}

static void test_a_lock_session_is_overtaken_at_once(void **state)
{
    (void)state;
    hf_store *store = open_store("&hfLockSession=" SESSION);
    hf_id session = bed_session(store, BED_TTL);
    hf_enter enter = bed_enter(session, ALL, ALL), second = bed_enter(session, ALL, ALL);
    put(name, OTHER, 2, SESSION);
    assert_true(enters(store, &enter));
    assert_string_equal(get(name, "ts"), SESSION);
    assert_string_not_equal(get(name, "process"), OTHER);
    assert_false(enters(store, &second)); /* not from another thread of ours */
    assert_false(beat(store, session));
    bed_leave(store, name, enter.entry.ticket, NULL);
    assert_true(enters(store, &second));
    end(store, session);
    assert_string_equal(get(name, "state"), "0");
}

static bool count_one(void *ctx, const hf_lock_info *info)
{
    (void)info;
    ++*(int *)ctx;
    return true;
}

static int count_of_session(hf_client *client, const char *lock_session)
{
    int n = 0;
    const hf_list_options part = {.lock_session = lock_session, .in_use = true};
    assert_code(HF_OK, hf_list_locks(client, &part, count_one, &n, &err), &err);
    return n;
}

static void test_an_acquire_has_a_lock_session_of_its_own(void **state)
{
    (void)state;
    static const char one[] = "0000000000000000000000a1", other[] = "0000000000000000000000a2";
    const hf_lock_options first = {.lock_session = one, .wait_ms = HF_TRY},
                          second = {.lock_session = other, .wait_ms = HF_TRY};
    hf_client *client = bed_client("client", BED_TTL), *next = bed_client("next", BED_TTL);
    hf_lock *held = bed_acquire(client, name, &first), *again;
    int64_t n;
    assert_string_equal(get(name, "ts"), one);
    assert_int_equal(count_of_session(next, one), 1);
    assert_int_equal(count_of_session(next, other), 0);
    assert_code(HF_HELD, hf_lock_acquire(client, name, &first, &again, &err), &err);
    assert_code(HF_HELD, hf_lock_acquire(next, name, &second, &again, &err), &err);
    again = bed_acquire(next, name, &first); /* a later life */
    assert_code(HF_LOST, hf_lock_release(held, &err), &err);
    assert_code(HF_OK, hf_unlock_session(client, other, NULL, &n, &err), &err);
    assert_int_equal(n, 0);
    assert_code(HF_OK, hf_unlock_session(client, one, bed_name("none"), &n, &err), &err);
    assert_int_equal(n, 0);
    assert_code(HF_OK, hf_unlock_session(client, one, name, &n, &err), &err);
    assert_int_equal(n, 1);
    assert_string_equal(get(name, "state"), "0");
    assert_code(HF_LOST, hf_lock_release(again, &err), &err);
    hf_lock_close(again);
    hf_lock_close(held);
    hf_close(next);
    hf_close(client);
}

/* ---- What a ping does besides ---- */

static void test_a_grab_that_landed_late_is_unlocked_at_the_next_ping(void **state)
{
    (void)state;
    hf_store *store = open_store("");
    hf_id session = bed_session(store, BED_TTL);
    hf_enter enter = bed_enter(session, ALL, ALL);
    char late[64], foreign[64], process[512];
    snprintf(late, sizeof late, "%s-late", name);
    snprintf(foreign, sizeof foreign, "%s-foreign", name);
    assert_true(enters(store, &enter));
    snprintf(process, sizeof process, "%s", get(name, "process"));
    put(late, process, 2, NULL);
    put(foreign, OTHER, 2, NULL);
    assert_true(is_free_soon(store, session, late));
    assert_string_equal(get(foreign, "state"), "2");
    assert_string_equal(get(name, "state"), "2");
    end(store, session);
}

static void test_what_is_not_held_any_more_is_missed(void **state)
{
    (void)state;
    hf_store *store = open_store("");
    hf_id session = bed_session(store, BED_TTL);
    hf_enter enter = bed_enter(session, ALL, ALL);
    assert_true(enters(store, &enter));
    assert_false(beat(store, session));
    set_state(name, 0);
    assert_true(misses_soon(store, session));
    end(store, session);
}

/* Two programs by one name unlock what is their own. */
static void test_under_one_process_each_has_its_own(void **state)
{
    (void)state;
    const char *first_name = name;
    hf_store *first = open_store("&hfProcess=both"), *second = open_store("&hfProcess=both");
    hf_id one = bed_session(first, BED_TTL), two = bed_session(second, BED_TTL);
    hf_enter a = bed_enter(one, ALL, ALL), b = bed_enter(two, ALL, ALL);
    assert_true(enters(first, &a));
    name = bed_name("sharding");
    assert_true(enters(second, &b));
    assert_string_equal(get(name, "process"), "both");
    assert_false(beat(first, one));
    assert_false(beat(second, two));
    end(first, one);
    assert_string_equal(get(first_name, "state"), "0");
    assert_string_equal(get(name, "state"), "2");
    end(second, two);
    assert_string_equal(get(name, "state"), "0");
}

/* ---- Taking out what another holds ---- */

static void test_a_break_takes_out_only_what_was_seen(void **state)
{
    (void)state;
    hf_store *store = open_store("");
    hf_record record;
    hf_step_reply reply;
    put(name, OTHER, 2, SESSION);
    bed_look(store, name, &record);
    assert_int_equal(record.holders, 1);
    assert_string_equal(record.who, OTHER ":main");
    hf_leave leave = {.ticket = record.entries[0].ticket, .outcome = HF_OUTCOME_ABANDONED};
    hf_step step = {.leaves = &leave, .n_leaves = 1};
    poll(NULL, 0, 5);
    put(name, OTHER, 2, SESSION); /* the same ts at another date: taken anew */
    assert_code(HF_OK, store->ops->step(store, name, &step, NULL, &reply, &err), &err);
    assert_false(reply.confirmed);
    assert_string_equal(get(name, "state"), "2");
    record_done(&record);
    bed_look(store, name, &record);
    leave.ticket = record.entries[0].ticket;
    assert_code(HF_OK, store->ops->step(store, name, &step, NULL, &reply, &err), &err);
    assert_true(reply.confirmed);
    assert_string_equal(get(name, "state"), "0");
    record_done(&record);
    store->ops->close(store);
}

static void test_a_lock_of_another_shape_is_named_and_left_alone(void **state)
{
    (void)state;
    hf_store *store = open_store("");
    hf_id session = bed_session(store, BED_TTL);
    hf_enter enter = bed_enter(session, ALL, ALL);
    hf_step step = {.enter = &enter};
    hf_step_reply reply;
    put(name, OTHER, 7, NULL);
    assert_code(HF_SHAPE, store->ops->step(store, name, &step, NULL, &reply, &err), &err);
    assert_contains(err.text, "locks, _id");
    assert_contains(err.text, "field state");
    assert_string_equal(get(name, "state"), "7");
    end(store, session);
}

static void test_a_ttl_longer_than_the_expiry_is_refused(void **state)
{
    (void)state;
    char uri[sizeof bed.uri + 32];
    hf_options options = {.ttl_ms = 5000};
    hf_client *client = NULL;
    snprintf(uri, sizeof uri, "%s&hfExpiryMS=4999", bed.uri);
    assert_code(HF_INVALID, hf_open(uri, &options, &client, &err), &err);
    assert_contains(err.text, "longer than hfExpiryMS=4999");
}

/* Whoever saw no ping of it for the expiry may be about to take its lock over. */
static void test_a_late_ping_revives_no_lease(void **state)
{
    (void)state;
    const char *late = bed_name("late");
    hf_client *client = bed_client("client", 10000); /* so that a lease lasts five seconds */
    hf_lease lease;
    assert_code(HF_OK, hf_lease_acquire(client, late, NULL, &lease, &err), &err);
    assert_int_equal(lease.ttl_ms, 5000);
    assert_code(HF_OK, hf_lease_renew(client, lease.id, NULL, &err), &err);
    poll(NULL, 0, 5100);
    assert_string_equal(get(late, "state"), "2");
    assert_code(HF_LOST, hf_lease_renew(client, lease.id, NULL, &err), &err);
    hf_close(client);
}

int run_sharding_cases(void)
{
    const struct bed_case sharding_cases[] = {
        CASE(test_a_late_ping_revives_no_lease),
        CASE(test_an_overtake_compares_what_was_seen),
        CASE(test_the_late_undo_of_a_grab_leaves_the_next_one_alone),
        CASE(test_the_look_after_a_refusal_is_no_older_than_it),
        CASE(test_an_owner_that_never_pinged_is_overtaken),
        CASE(test_a_lock_session_is_overtaken_at_once),
        CASE(test_an_acquire_has_a_lock_session_of_its_own),
        CASE(test_a_grab_that_landed_late_is_unlocked_at_the_next_ping),
        CASE(test_what_is_not_held_any_more_is_missed),
        CASE(test_under_one_process_each_has_its_own),
        CASE(test_a_break_takes_out_only_what_was_seen),
        CASE(test_a_lock_of_another_shape_is_named_and_left_alone),
        CASE(test_a_ttl_longer_than_the_expiry_is_refused),
    };
    return CASES(sharding_cases);
}
