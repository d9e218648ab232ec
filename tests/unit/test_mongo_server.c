/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_server.c: what kind of server the driver has found, and what calls do where it finds
 * none. */
#include "core/record.h"
#include "faults/mongo_answers.h"
#include "store/mongo/driver/set.h"
#include "store/mongo/queue/batch.h"

static mongo_store *store;
static hf_error err;

/* ---- What the driver has found ---- */

static struct {
    const char *type; /* NULL: none */
    bson_t *hello;
    int asked, shown;
    bool is_for_writes;
} found;

mongoc_server_description_t *__wrap_mongoc_client_select_server(mongoc_client_t *client,
                                                                bool for_writes,
                                                                const mongoc_read_prefs_t *prefs,
                                                                bson_error_t *error);
const char *__wrap_mongoc_server_description_type(const mongoc_server_description_t *server);
const bson_t *
__wrap_mongoc_server_description_hello_response(const mongoc_server_description_t *server);
void __wrap_mongoc_server_description_destroy(mongoc_server_description_t *server);

mongoc_server_description_t *__wrap_mongoc_client_select_server(mongoc_client_t *client,
                                                                bool for_writes,
                                                                const mongoc_read_prefs_t *prefs,
                                                                bson_error_t *error)
{
    (void)client, (void)prefs;
    found.asked++;
    found.is_for_writes = for_writes;
    bson_set_error(error, MONGOC_ERROR_SERVER_SELECTION, MONGOC_ERROR_SERVER_SELECTION_FAILURE,
                   "nobody there");
    found.shown += found.type != NULL;
    return found.type ? (mongoc_server_description_t *)(void *)&found : NULL;
}

const char *__wrap_mongoc_server_description_type(const mongoc_server_description_t *server)
{
    (void)server;
    return found.type;
}

const bson_t *
__wrap_mongoc_server_description_hello_response(const mongoc_server_description_t *server)
{
    (void)server;
    return found.hello;
}

void __wrap_mongoc_server_description_destroy(mongoc_server_description_t *server)
{
    found.shown -= server != NULL;
}

static void find(const char *type, const char *hello)
{
    memset(&found, 0, sizeof found);
    found.type = type;
    found.hello = pipeline_json(hello);
    atomic_store(&store->topology, MONGO_UNSEEN);
}

static int begin(void **state)
{
    (void)state;
    store = answers_open("");
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

/* ---- What kind ---- */

static void assert_is(const char *type, mongo_topology topology)
{
    find(type, "{'maxWireVersion': 17}");
    assert_int_equal(mongo_ready(store, &err), HF_OK);
    assert_int_equal(mongo_topology_of(store), topology);
    assert_true(found.is_for_writes);
    assert_int_equal(found.shown, 0);
    assert_int_equal(store->work.n_idle, 1);
    assert_int_equal(mongo_ready(store, &err), HF_OK);
    assert_int_equal(found.asked, 1);
    bson_destroy(found.hello);
}

static void test_each_kind_of_server(void **state)
{
    (void)state;
    assert_is("Standalone", MONGO_ALONE);
    assert_is("RSPrimary", MONGO_SET);
    assert_is("RSSecondary", MONGO_SET);
    assert_is("Mongos", MONGO_ROUTER);
    assert_is("LoadBalancer", MONGO_ROUTER);
}

static hf_code ready_with(const char *hello)
{
    find("RSPrimary", hello);
    hf_code code = mongo_ready(store, &err);
    bson_destroy(found.hello);
    return code;
}

static void test_servers_before_4_2_are_refused(void **state)
{
    (void)state;
    assert_int_equal(ready_with("{'maxWireVersion': 7}"), HF_UNUSABLE);
    assert_non_null(strstr(err.text, "needs MongoDB 4.2 or later"));
    assert_int_equal(mongo_topology_of(store), MONGO_UNSEEN);
    assert_int_equal(store->work.n_idle, 0);
    assert_int_equal(ready_with("{'maxWireVersion': 8}"), HF_OK);
    assert_int_equal(atomic_load(&store->wire), 8);
    assert_int_equal(ready_with("{}"), HF_OK); /* nobody knows */
    assert_int_equal(atomic_load(&store->wire), 0);
}

static void test_no_server_is_asked_for_again(void **state)
{
    (void)state;
    find(NULL, "{}");
    assert_int_equal(mongo_ready(store, &err), HF_UNREACHABLE);
    assert_non_null(strstr(err.text, "connecting failed: nobody there"));
    assert_int_equal(store->work.n_idle, 0);
    assert_int_equal(mongo_ready(store, &err), HF_UNREACHABLE);
    assert_int_equal(found.asked, 2);
    bson_destroy(found.hello);
}

/* ---- Another set than the URI names ---- */

static void hear_hello(const char *text)
{
    bson_t *hello = pipeline_json(text);
    mongo_note_hello(store, hello, 1);
    bson_destroy(hello);
}

static hf_code find_nobody(void)
{
    find(NULL, "{}");
    bson_destroy(found.hello);
    return mongo_ready(store, &err);
}

static void test_another_set_is_told_of(void **state)
{
    (void)state;
    hear_hello("{'ok': 1, 'isreplicaset': true}"); /* its initiation may be under way */
    assert_int_equal(find_nobody(), HF_UNREACHABLE);
    hear_hello("{'ok': 1, 'setName': 'wrong'}");
    assert_int_equal(find_nobody(), HF_INVALID);
    assert_non_null(strstr(err.text, "replicaSet=rs0: mongodb at "));
    assert_non_null(strstr(err.text, "belongs to the set \"wrong\": name that one"));
    hear_hello("{'ok': 1}");
    assert_int_equal(find_nobody(), HF_INVALID);
    assert_non_null(strstr(err.text, "belongs to no set: leave out replicaSet"));
    hear_hello("{'ok': 1, 'setName': 'rs0'}"); /* of one host of several */
    assert_int_equal(find_nobody(), HF_UNREACHABLE);
}

static void test_any_set_will_do_where_none_is_named(void **state)
{
    (void)state;
    answers_close(store);
    store = answers_open_uri("mongodb://a,b,c/app");
    hear_hello("{'ok': 1, 'setName': 'wrong'}");
    assert_int_equal(find_nobody(), HF_UNREACHABLE);
}

/* ---- Calls where there is none ---- */

static bool never(void *ctx, const hf_record *record)
{
    (void)ctx, (void)record;
    fail();
    return false;
}

static bool never_state(void *ctx, const hf_session_state *state)
{
    (void)ctx, (void)state;
    fail();
    return false;
}

static bool never_waits(void *ctx, const hf_waits *waits)
{
    (void)ctx, (void)waits;
    fail();
    return false;
}

static bool never_finding(void *ctx, const hf_finding *finding)
{
    (void)ctx, (void)finding;
    fail();
    return false;
}

/* The code of the call of that number; -1: there is no such call. */
static int call(int number)
{
    const hf_store_ops *ops = store->base.ops;
    static const char *const name = "a";
    hf_id id = id_of(1);
    hf_session self = {.id = id};
    hf_session_state states[2] = {{.presence = HF_MISSING}};
    hf_ask ask = {.ticket = id};
    hf_enter in = {.entry = {.ticket = id_of(7), .session = id}};
    hf_step_reply reply = {.confirmed = true, .again_ms = 5};
    hf_record record;
    size_t n = 7;
    bool more = true;
    int code = -1;
    switch (number) {
    case 0: /* of protocol document it sends nothing */
        return ops->claim && mongo_topology_of(store) == MONGO_SET
                   ? -1
                   : (int)ops->session_begin(&store->base, &self, &err);
    case 1:
        return (int)ops->look(&store->base, &name, 1, (hf_stamp){0}, false, never, NULL, &err);
    case 2:
        return (int)ops->list(&store->base, &(hf_list_part){.prefix = "", .after = ""}, never, NULL,
                              &err);
    case 3:
        return (int)ops->list_sessions(&store->base, never_state, NULL, &err);
    case 4:
        return (int)ops->await(&store->base, id, (hf_stamp){0}, 1, NULL, NULL, &err);
    case 5:
        code = (int)ops->step(&store->base, name, &(hf_step){.enter = &in}, &record,
                              ops->waits ? &reply : NULL, &err);
        assert_true(!ops->waits || (!reply.confirmed && !reply.again_ms));
        assert_int_equal(
            ops->step(&store->base, name, &(hf_step){.enter = &in}, &record, NULL, &err), code);
        return code;
    case 6:
        return (int)ops->doctor(&store->base, never_finding, NULL, &err);
    case 7:
        return ops->claim ? (int)ops->claim(&store->base, &(hf_claim){NULL, NULL}, &in, &record,
                                            &reply, &err)
                          : -1;
    case 8:
        return ops->waits ? (int)ops->waits(&store->base, NULL, 0, never_waits, NULL, &err) : -1;
    case 9:
        return ops->waits ? (int)ops->session_mark(&store->base, &states[0], &err) : -1;
    case 10:
        return ops->waits ? (int)ops->ask(&store->base, id, &ask, &err) : -1;
    case 11:
        return ops->waits ? (int)ops->session_end(&store->base, id, true, &err) : -1;
    case 12:
        return ops->waits ? (int)ops->sessions_look(&store->base, &id, 1, -1, states, &err) : -1;
    case 13:
        code = (int)ops->sweep(&store->base, states, 2, &n, &more, &err);
        assert_int_equal(n, 0);
        assert_false(more);
        return code ? code : -1; /* some protocols have nothing to sweep */
    default:
        return -2;
    }
}

static bool has_connections = true;

mongoc_client_t *__real_mongoc_client_new_from_uri_with_error(const mongoc_uri_t *uri,
                                                              bson_error_t *error);
mongoc_client_t *__wrap_mongoc_client_new_from_uri_with_error(const mongoc_uri_t *uri,
                                                              bson_error_t *error);

mongoc_client_t *__wrap_mongoc_client_new_from_uri_with_error(const mongoc_uri_t *uri,
                                                              bson_error_t *error)
{
    if (has_connections)
        return __real_mongoc_client_new_from_uri_with_error(uri, error);
    bson_set_error(error, MONGOC_ERROR_POOL, 1, "none left");
    return NULL;
}

/* topology: what is known of the server before. */
static void assert_calls_fail(const char *keys, mongo_topology topology)
{
    answers_close(store);
    store = answers_open(keys);
    for (int i = 0, code = 0; code != -2; i++) {
        find(NULL, "{}");
        atomic_store(&store->topology, topology);
        code = call(i);
        bson_destroy(found.hello);
        if (code >= 0 && code != HF_UNREACHABLE)
            fail_msg("%s: call %d gives %s", keys, i, hf_code_name((hf_code)code));
        if (code >= 0)
            assert_int_equal(err.code, HF_UNREACHABLE);
    }
    atomic_store(&store->topology, MONGO_SET);
}

static void assert_all_calls_fail(mongo_topology topology)
{
    assert_calls_fail("", topology);
    assert_calls_fail("&hfProtocol=ttl", topology);
    assert_calls_fail("&hfProtocol=document&hfCollection=things", topology);
    assert_calls_fail("&hfProtocol=sharding", topology);
}

static void test_calls_say_so_and_send_nothing(void **state)
{
    (void)state;
    assert_all_calls_fail(MONGO_UNSEEN);
}

/* Several steps as one that was never sent were not done. */
static void test_a_batch_without_a_connection_was_not_done(void **state)
{
    (void)state;
    const hf_leave left = {.ticket = id_of(7)};
    const hf_step step = {.leaves = &left, .n_leaves = 1};
    mongo_member one = {.name = "a", .step = &step}, *all = &one;
    pthread_cond_init(&one.changed, NULL);
    has_connections = false;
    mongo_batch_send(store, &all, 1);
    has_connections = true;
    assert_int_equal(one.state, MEMBER_DONE);
    assert_int_equal(one.code, HF_UNREACHABLE);
    pthread_cond_destroy(&one.changed);
}

/* Neither before the server was seen nor after it. */
static void test_calls_without_a_connection_say_so(void **state)
{
    (void)state;
    has_connections = false;
    assert_all_calls_fail(MONGO_UNSEEN);
    assert_all_calls_fail(MONGO_SET);
    has_connections = true;
}

/* ---- Connections after errors ---- */

static hf_code list(const char *answer)
{
    answers_give("list", answer);
    return store->base.ops->list(&store->base, &(hf_list_part){.prefix = "", .after = ""}, never,
                                 NULL, &err);
}

static hf_code list_sessions(const char *answer)
{
    answers_give("list", answer);
    return store->base.ops->list_sessions(&store->base, never_state, NULL, &err);
}

static hf_code look(const char *answer)
{
    static const char *const name = "a";
    answers_give("find", answer);
    return store->base.ops->look(&store->base, &name, 1, (hf_stamp){0}, false, never, NULL, &err);
}

static hf_code begin_session(const char *answer)
{
    const hf_session self = {.id = id_of(1)};
    answers_give("update", answer);
    return store->base.ops->session_begin(&store->base, &self, &err);
}

/* One that did not answer, or whose server is no primary any more, is kept by nobody. */
static void test_which_are_kept(void **state)
{
    (void)state;
    assert_int_equal(list("{'ok': 1, 'docs': []}"), HF_OK);
    assert_int_equal(store->work.n_idle, 1);
    assert_int_equal(list(NULL), HF_UNREACHABLE);
    assert_int_equal(store->work.n_idle, 0);
    assert_int_equal(list_sessions("{'ok': 1, 'docs': []}"), HF_OK);
    assert_int_equal(store->work.n_idle, 1);
    assert_int_equal(list_sessions(NULL), HF_UNREACHABLE);
    assert_int_equal(store->work.n_idle, 0);
    assert_int_equal(look("{'ok': 0, 'code': 13}"), HF_DENIED);
    assert_int_equal(store->work.n_idle, 1);
    assert_int_equal(look("{'ok': 0, 'code': 10107}"), HF_UNREACHABLE);
    assert_int_equal(store->work.n_idle, 0);
    assert_int_equal(begin_session("{'ok': 1}"), HF_OK);
    assert_int_equal(store->work.n_idle, 1);
    assert_int_equal(begin_session(NULL), HF_UNKNOWN);
    assert_int_equal(store->work.n_idle, 0);
}

static void test_which_are_kept_of_pings(void **state)
{
    (void)state;
    answers_close(store);
    store = answers_open("&hfProtocol=sharding");
    assert_int_equal(list_sessions("{'ok': 1, 'docs': []}"), HF_OK);
    assert_int_equal(store->work.n_idle, 1);
    assert_int_equal(list_sessions(NULL), HF_UNREACHABLE);
    assert_int_equal(store->work.n_idle, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_kind_of_server),
        TEST(test_servers_before_4_2_are_refused),
        TEST(test_no_server_is_asked_for_again),
        TEST(test_another_set_is_told_of),
        TEST(test_any_set_will_do_where_none_is_named),
        TEST(test_calls_say_so_and_send_nothing),
        TEST(test_a_batch_without_a_connection_was_not_done),
        TEST(test_calls_without_a_connection_say_so),
        TEST(test_which_are_kept),
        TEST(test_which_are_kept_of_pings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
