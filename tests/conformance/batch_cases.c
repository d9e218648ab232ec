/* SPDX-License-Identifier: Apache-2.0 */
/* batch_cases.c: steps on different locks that are sent as one command have each the outcome that
 * they would have by themselves: what is told from the look after it, a ticket that is gone, a
 * record that is gone, a document that is none of ours, an answer that no majority stands behind;
 * and many threads at once. Run by main.c on MongoDB's protocol `queue`. */
#include "conformance/bed.h"

#include "core/record.h"
#include "store/mongo/driver/store.h"
#include "store/mongo/queue/batch.h"

#define APP "holdfast-batch" /* whose commands can be made to fail */
#define MOST 8

static hf_store *store;
static hf_id self;

static int set_up(void **state)
{
    (void)state;
    char uri[sizeof bed.uri + 32];
    snprintf(uri, sizeof uri, "%s%sappName=" APP, bed.uri, strchr(bed.uri, '?') ? "&" : "?");
    store = bed_store_at(uri, 10000);
    self = bed_session(store, 10000);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store->ops->close(store);
    return 0;
}

/* ---- A batch ---- */

typedef struct fellow {
    char name[128];
    hf_enter enter;
    hf_leave leave;
    hf_step step;
    hf_record out;
    mongo_member member;
} fellow;

static fellow enters(const char *name)
{
    fellow f = {.enter = bed_enter(self, HF_LIMIT_RW, HF_LIMIT_RW)};
    snprintf(f.name, sizeof f.name, "%s", name);
    return f;
}

static fellow leaves(const char *name, hf_id ticket)
{
    fellow f = {.leave = {.ticket = ticket, .outcome = HF_OUTCOME_RELEASED, .told = true}};
    snprintf(f.name, sizeof f.name, "%s", name);
    return f;
}

/* One that holds the lock, and now leaves it. */
static fellow holds_and_leaves(const char *name)
{
    fellow f = enters(name);
    bed_take(store, name, &f.enter, &f.out);
    assert_int_equal(f.out.holders, 1);
    record_done(&f.out);
    return leaves(name, f.enter.entry.ticket);
}

/* One that enters a lock which is free, and known. */
static fellow enters_known(const char *name)
{
    fellow f = holds_and_leaves(name);
    bed_leave(store, name, f.leave.ticket, NULL);
    return enters(name);
}

static void send_all(fellow *all, size_t n)
{
    mongo_member *members[MOST];
    for (size_t i = 0; i < n; i++) {
        fellow *f = &all[i];
        bool is_enter = f->enter.limit > 0;
        f->step = is_enter ? (hf_step){.enter = &f->enter}
                           : (hf_step){.leaves = &f->leave, .n_leaves = 1};
        f->member = (mongo_member){
            .name = f->name, .step = &f->step, .out = &f->out, .state = MEMBER_IN_BATCH};
        pthread_cond_init(&f->member.changed, NULL);
        members[i] = &f->member;
    }
    mongo_batch_send((mongo_store *)store, members, n);
    for (size_t i = 0; i < n; i++)
        pthread_cond_destroy(&all[i].member.changed);
}

static void assert_done(fellow *f, hf_code code)
{
    assert_int_equal(f->member.state, MEMBER_DONE);
    assert_code(code, f->member.code, &f->member.err);
    assert_int_equal(f->member.reply.confirmed, code == HF_OK);
    if (code)
        assert_contains(f->member.err.text, "mongodb at");
}

/* How many hold, by a look; -1: there is no record. */
static int holders(const fellow *f)
{
    hf_record record;
    bed_look(store, f->name, &record);
    int n = record.exists ? (int)record.holders : -1;
    record_done(&record);
    return n;
}

/* ---- What is sent ---- */

static size_t n_batches, n_looks;

static bool has_text(const bson_t *doc, const char *path, const char *text)
{
    bson_iter_t it, found;
    return bson_iter_init(&it, doc) && bson_iter_find_descendant(&it, path, &found) &&
           BSON_ITER_HOLDS_UTF8(&found) && strcmp(bson_iter_utf8(&found, NULL), text) == 0;
}

static bool has_stamp(const bson_t *doc, const char *path)
{
    bson_iter_t it, found;
    return bson_iter_init(&it, doc) && bson_iter_find_descendant(&it, path, &found) &&
           BSON_ITER_HOLDS_TIMESTAMP(&found);
}

/* One write that a majority acknowledges (R2), then one look that is no older than it (R1). */
static void check_sent(const char *verb, const bson_t *command)
{
    if (strcmp(verb, "update") == 0) {
        assert_true(has_text(command, "writeConcern.w", "majority"));
        n_batches++;
    } else if (strcmp(verb, "find") == 0) {
        assert_int_equal(n_batches, 1);
        assert_true(has_text(command, "readConcern.level", "majority"));
        assert_true(has_stamp(command, "readConcern.afterClusterTime"));
        n_looks++;
    }
}

/* ---- The cases ---- */

static void test_each_has_its_own_outcome(void **state)
{
    (void)state;
    const char *taken = bed_name("taken");
    fellow holder = holds_and_leaves(taken);
    fellow all[] = {enters_known(bed_name("free")), holds_and_leaves(bed_name("held")),
                    enters(taken), holds_and_leaves(bed_name("held too"))};
    n_batches = n_looks = 0;
    bed.on_command = check_sent;
    send_all(all, 4);
    bed.on_command = NULL;
    assert_int_equal(n_batches, 1);
    assert_int_equal(n_looks, 1);
    for (size_t i = 0; i < 4; i++)
        assert_done(&all[i], HF_OK);
    assert_int_equal(record_judge(&all[0].out, &all[0].enter), RECORD_HOLDS);
    assert_int_equal(record_judge(&all[2].out, &all[2].enter), RECORD_WAITS);
    assert_int_equal(holders(&all[1]), 0);
    assert_int_equal(holders(&all[3]), 0);
    record_done(&all[0].out);
    record_done(&all[2].out);
    all[1] = enters(all[1].name);
    all[0] = leaves(all[0].name, all[0].enter.entry.ticket);
    hf_id waits = all[2].enter.entry.ticket;
    all[2] = holder;
    send_all(all, 3);
    for (size_t i = 0; i < 3; i++)
        assert_done(&all[i], HF_OK);
    record_done(&all[1].out);
    bed_look(store, taken, &all[3].out);
    assert_int_equal(all[3].out.holders, 1);
    assert_memory_equal(all[3].out.entries[0].ticket.bytes, waits.bytes, sizeof waits.bytes);
    record_done(&all[3].out);
}

/* A release whose ticket somebody took out is told so, and the others are as they would be. */
static void test_a_ticket_that_is_gone_stops_the_batch(void **state)
{
    (void)state;
    fellow all[] = {holds_and_leaves(bed_name("stays")), holds_and_leaves(bed_name("gone")),
                    enters_known(bed_name("enters"))};
    bed_leave(store, all[1].name, all[1].leave.ticket, NULL);
    send_all(all, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(all[i].member.state, MEMBER_ALONE);
    assert_int_equal(holders(&all[0]), 1);
    assert_int_equal(holders(&all[2]), 0);
}

/* The sum of what was changed does not say who it was. */
static void test_an_enter_that_changes_nothing_leaves_the_releases_unknown(void **state)
{
    (void)state;
    fellow all[] = {holds_and_leaves(bed_name("left")), enters_known(bed_name("twice"))};
    bed_take(store, all[1].name, &all[1].enter, &all[1].out);
    record_done(&all[1].out);
    send_all(all, 2);
    assert_done(&all[0], HF_UNKNOWN);
    assert_done(&all[1], HF_OK);
    assert_int_equal(record_judge(&all[1].out, &all[1].enter), RECORD_HOLDS);
    record_done(&all[1].out);
    assert_int_equal(holders(&all[0]), 0);
}

static void test_an_enter_without_a_record_goes_again(void **state)
{
    (void)state;
    fellow all[] = {enters(bed_name("new")), enters_known(bed_name("known"))};
    send_all(all, 2);
    assert_int_equal(all[0].member.state, MEMBER_AGAIN);
    assert_int_equal(holders(&all[0]), -1);
    assert_done(&all[1], HF_OK);
    record_done(&all[1].out);
}

static void change_document(const char *name, const bson_t *update)
{
    bson_error_t error;
    mongoc_uri_t *uri = mongoc_uri_new(bed.uri);
    mongoc_client_t *client = mongoc_client_new_from_uri(uri);
    mongoc_collection_t *locks =
        mongoc_client_get_collection(client, mongoc_uri_get_database(uri), "holdfast.locks");
    bson_t *filter = BCON_NEW("_id", BCON_UTF8(name)), *opts = BCON_NEW("upsert", BCON_BOOL(true));
    if (!mongoc_collection_update_one(locks, filter, update, opts, NULL, &error))
        fail_msg("%s", error.message);
    bson_destroy(opts);
    bson_destroy(filter);
    mongoc_collection_destroy(locks);
    mongoc_client_destroy(client);
    mongoc_uri_destroy(uri);
}

static void place_foreign(const char *name)
{
    bson_t *doc = BCON_NEW("$set", "{", "limit", BCON_INT32(1), "token", BCON_INT32(1), "notify",
                           BCON_INT32(7), "holders", "[", "]", "queue", "[", "]", "}");
    change_document(name, doc);
    bson_destroy(doc);
}

static void unset(const char *name, const char *field)
{
    bson_t *update = BCON_NEW("$unset", "{", field, BCON_INT32(1), "}");
    change_document(name, update);
    bson_destroy(update);
}

/* It stops the command in its midst: what came before was done, or not. */
static void test_a_foreign_document_stops_the_others_only(void **state)
{
    (void)state;
    fellow all[] = {holds_and_leaves(bed_name("left")), enters_known(bed_name("a")),
                    enters(bed_name("foreign")), enters_known(bed_name("z"))};
    hf_step_reply reply;
    hf_error err;
    place_foreign(all[2].name);
    send_all(all, 4);
    assert_done(&all[0], HF_UNKNOWN);
    for (size_t i = 1; i < 4; i++) {
        assert_int_equal(all[i].member.state, MEMBER_AGAIN);
        assert_code(i == 2 ? HF_SHAPE : HF_OK,
                    store->ops->step(store, all[i].name, &all[i].step, &all[i].out, &reply, &err),
                    &err);
        if (i != 2)
            record_done(&all[i].out);
    }
}

/* What has no effect on the document must not be told as done. */
static void test_nothing_is_confirmed_on_an_odd_document(void **state)
{
    (void)state;
    static const char *const fields[] = {"limit", "token", "notify", "queue"};
    hf_step_reply reply;
    hf_error err;
    for (size_t i = 0; i < 2 * (sizeof fields / sizeof *fields); i++) {
        char name[64];
        snprintf(name, sizeof name, "odd-%zu", i);
        fellow f = holds_and_leaves(bed_name(name));
        hf_change change = {.ticket = f.leave.ticket, .permits = 1};
        hf_step step = {.change = &change};
        if (i % 2)
            step = (hf_step){.leaves = &f.leave, .n_leaves = 1};
        unset(f.name, fields[i / 2]);
        hf_code code = store->ops->step(store, f.name, &step, NULL, &reply, &err);
        assert_code(HF_SHAPE, code, &err);
        assert_false(reply.confirmed);
        assert_contains(err.text, fields[i / 2]);
    }
}

/* `how` is failCommand's, and is destroyed. */
static void fail_next_update(bson_t *how)
{
    bson_error_t error;
    bson_t data = BSON_INITIALIZER;
    mongoc_client_t *client = mongoc_client_new(bed.uri);
    BCON_APPEND(&data, "failCommands", "[", BCON_UTF8("update"), "]", "appName", BCON_UTF8(APP));
    bson_concat(&data, how);
    bson_t *command = BCON_NEW("configureFailPoint", BCON_UTF8("failCommand"), "mode", "{", "times",
                               BCON_INT32(1), "}", "data", BCON_DOCUMENT(&data));
    if (!mongoc_client_command_simple(client, "admin", command, NULL, NULL, &error))
        fail_msg("%s", error.message);
    bson_destroy(command);
    bson_destroy(&data);
    bson_destroy(how);
    mongoc_client_destroy(client);
}

static void assert_all_unknown(bson_t *how)
{
    fellow all[] = {holds_and_leaves(bed_name("left")), enters_known(bed_name("entered"))};
    fail_next_update(how);
    send_all(all, 2);
    assert_done(&all[0], HF_UNKNOWN);
    assert_done(&all[1], HF_UNKNOWN);
}

static void test_without_a_majority_all_is_unknown(void **state)
{
    (void)state;
    assert_all_unknown(BCON_NEW("writeConcernError", "{", "code", BCON_INT32(64), "errmsg",
                                BCON_UTF8("waiting for replication timed out"), "}"));
    assert_all_unknown(BCON_NEW("closeConnection", BCON_BOOL(true)));
}

/* ---- Many threads ---- */

#define CREW 24
#define TURNS 12

static atomic_int inside[CREW / 2];

/* Two threads to a lock. */
static void *take_turns(void *arg)
{
    size_t number = *(size_t *)arg % (CREW / 2);
    char name[128];
    hf_client *client = *(hf_client **)((size_t *)arg + 1);
    snprintf(name, sizeof name, "crew %zu", number);
    for (int i = 0; i < TURNS; i++) {
        hf_lock *lock = bed_acquire(client, name, NULL);
        if (atomic_fetch_add(&inside[number], 1) != 0)
            fail_msg("%s is held twice", name);
        atomic_fetch_sub(&inside[number], 1);
        bed_release(lock);
    }
    return NULL;
}

static atomic_int together; /* commands that carried several steps */

static void note_command(const char *verb, const bson_t *command)
{
    bson_iter_t it, found;
    if (strcmp(verb, "update") == 0 && bson_iter_init(&it, command) &&
        bson_iter_find_descendant(&it, "updates.0.multi", &found))
        atomic_fetch_add(&together, 1);
}

/* By tickets of two clients: what is held excludes, whichever client's batch carries it. */
static void test_many_threads_are_batched_and_exclude_each_other(void **state)
{
    (void)state;
    static struct {
        size_t number;
        hf_client *client;
        pthread_t thread;
    } crew[CREW];
    hf_client *clients[] = {bed_client_of_tickets("one", 10000),
                            bed_client_of_tickets("other", 10000)};
    bed.on_command = note_command;
    for (size_t i = 0; i < CREW; i++) {
        crew[i].number = i;
        crew[i].client = clients[i * 2 / CREW];
        pthread_create(&crew[i].thread, NULL, take_turns, &crew[i]);
    }
    for (size_t i = 0; i < CREW; i++)
        pthread_join(crew[i].thread, NULL);
    bed.on_command = NULL;
    hf_close(clients[0]);
    hf_close(clients[1]);
    assert_int_not_equal(atomic_load(&together), 0);
}

int run_batch_cases(void)
{
    const struct bed_case batch_cases[] = {
        CASE(test_each_has_its_own_outcome),
        CASE(test_a_ticket_that_is_gone_stops_the_batch),
        CASE(test_an_enter_that_changes_nothing_leaves_the_releases_unknown),
        CASE(test_an_enter_without_a_record_goes_again),
        CASE(test_a_foreign_document_stops_the_others_only),
        CASE(test_nothing_is_confirmed_on_an_odd_document),
        CASE(test_without_a_majority_all_is_unknown),
        CASE(test_many_threads_are_batched_and_exclude_each_other),
    };
    return CASES(batch_cases);
}
