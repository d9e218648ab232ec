/* SPDX-License-Identifier: Apache-2.0 */
/* test_sent_doctor.c: what the doctor sends in each protocol, word for word, and what it says of
 * each answer. */
#include "faults/mongo_transcript.h"

#define WELL "{'ok': 1}"
#define HELLO(ms) "{'ok': 1, 'localTime': {'$date': {'$numberLong': '" ms "'}}}"
#define MEMBERS(one, other)                                                                        \
    "{'ok': 1, 'members': [{'name': 'a:1', 'stateStr': 'PRIMARY', 'health': " one                  \
    "}, {'name': 'b:1', 'stateStr': 'SECONDARY', 'health': " other "}]}"
#define ODD_ID "{'ok': 1, 'cursor': {'firstBatch': [{'_id': 5}]}}"
#define NO_ID "{'ok': 1, 'cursor': {'firstBatch': []}}"
#define DENIED "{'ok': 0, 'code': 13, 'errmsg': 'not authorized'}"

static mongo_store *store;

/* The doctor makes one to write by. */
void __wrap_bson_oid_init(bson_oid_t *oid, bson_context_t *context);
void __wrap_bson_oid_init(bson_oid_t *oid, bson_context_t *context)
{
    (void)context;
    memset(oid->bytes, 0xab, sizeof oid->bytes);
}

static void open_uri(const char *uri)
{
    store = answers_open_uri(uri);
    transcript_begin();
}

static void open_with(const char *keys)
{
    store = answers_open(keys);
    transcript_begin();
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

static bool show(void *ctx, const hf_finding *finding)
{
    transcript_say("   %s%s%s: %s", finding->is_danger ? "DANGER " : "",
                   finding->wants_care ? "CARE " : "", finding->topic, finding->text);
    return --*(int *)ctx > 0;
}

/* What a healthy set says, where the test has not said anything else before. */
static void give_the_rest(void)
{
    answers_give_always("buildInfo", "{'ok': 1, 'version': '7.0.5'}");
    answers_give_always("replSetGetConfig",
                        "{'ok': 1, 'config': {'settings': {'electionTimeoutMillis': 1000}}}");
    answers_give_always("replSetGetStatus", MEMBERS("1", "1"));
    answers_give_always("aggregate",
                        "{'ok': 1, 'cursor': {'id': {'$numberLong': '4711'}, 'firstBatch': []}}");
    answers_give_always("killCursors", WELL);
    answers_give_always("ping", WELL);
    answers_give_always("findAndModify", WELL);
    answers_give_always("delete", WELL);
    answers_give_always("update", WELL);
    answers_give_always("find", NO_ID);
    answers_give_always("create", WELL);
    answers_give_always("createIndexes", WELL);
    answers_give_always("insert", WELL);
    answers_give_always("serverStatus", WELL);
    answers_give_always("listCollections", NO_ID);
    answers_give_always("listIndexes", "{'ok': 0, 'code': 26}");
    answers_give_always("hello", HELLO("1700000000000"));
}

static void look_for(int most)
{
    hf_error err;
    give_the_rest();
    transcript_code(store->base.ops->doctor(&store->base, show, &most, &err), &err);
    transcript_say("   %zu connections are kept", store->work.n_idle);
}

static void look(void)
{
    look_for(100);
}

/* ---- Each protocol ---- */

static void test_queue(void **state)
{
    (void)state;
    open_with("");
    look();
    transcript_end("doctor-queue");
}

/* The trial lock, taken and renewed. */
static void give_trial(void)
{
    for (int i = 0; i < 2; i++)
        answers_give("findAndModify",
                     "{'ok': 1, 'value': {'_id': 'holdfast doctor abababababababababababab',"
                     " 'acquirer': 'doctor@:0/abababababababababababab', 'ttl_ms': 1000,"
                     " 'ticket': {'$oid': 'abababababababababababab'},"
                     " 'updated': {'$date': {'$numberLong': '1700000000000'}}}}");
}

static void test_ttl(void **state)
{
    (void)state;
    open_with("&hfProtocol=ttl");
    give_trial();
    look();
    answers_close(store);
    store = answers_open("&hfProtocol=ttl");
    give_trial();
    answers_give("find", NO_ID); /* of the history */
    answers_give("find", ODD_ID);
    look();
    transcript_end("doctor-ttl");
}

static void test_document(void **state)
{
    (void)state;
    open_with("&hfProtocol=document&hfCollection=things");
    look();
    transcript_end("doctor-document");
}

static void test_sharding(void **state)
{
    (void)state;
    open_with("&hfProtocol=sharding");
    answers_give("serverStatus", DENIED);
    look();
    transcript_end("doctor-sharding");
}

/* ---- Other answers ---- */

static void test_servers_that_are_no_set(void **state)
{
    (void)state;
    open_with("");
    atomic_store(&store->topology, MONGO_ALONE);
    look();
    atomic_store(&store->topology, MONGO_ROUTER);
    look();
    transcript_end("doctor-other-servers");
}

/* What was answered always is forgotten. */
static void anew(void)
{
    answers_close(store);
    store = answers_open("");
}

static void test_a_set_that_is_not_well(void **state)
{
    (void)state;
    open_with("");
    answers_give("replSetGetStatus", "{'ok': 1, 'members': [{}, {'name': 'b:1', 'health': 1}]}");
    look();
    anew();
    answers_give("replSetGetStatus", MEMBERS("1", "0"));
    answers_give("create", "{'ok': 0, 'code': 13, 'errmsg': 'none of yours'}");
    answers_give("aggregate", "{'ok': 0, 'code': 40573, 'errmsg': 'none'}");
    answers_give("findAndModify", "{'ok': 0, 'code': 13, 'errmsg': 'no'}");
    answers_give("hello", NULL);
    look();
    anew();
    answers_give("replSetGetStatus", "{'ok': 0, 'code': 13}");
    answers_give("findAndModify", WELL);
    answers_give("delete", NULL);
    look();
    anew();
    answers_give("replSetGetStatus", NULL);
    look();
    anew();
    answers_give("replSetGetStatus", WELL);
    look();
    anew();
    answers_give("insert", NULL);
    answers_give("aggregate", WELL);
    look();
    anew();
    answers_give("buildInfo", NULL);
    look();
    transcript_end("doctor-unwell");
}

static void test_weak_writes(void **state)
{
    (void)state;
    open_with("&hfWeakWrites=yes");
    look();
    transcript_end("doctor-weak");
}

#define TURN                                                                                       \
    "{'ok': 1, 'cursor': {'firstBatch': [{'_id': {'ticket': {'$oid': "                             \
    "'000000070000000000000000'}}}]}}"

static void look_at_the_history(const char *keys, const char *found, const char *written)
{
    store = answers_open(keys);
    transcript_say("\n%s", keys);
    if (found)
        answers_give("find", found);
    if (written)
        answers_give(found ? "insert" : "create", written);
    look();
    answers_close(store);
}

/* Whether one is kept, and which right is missing. */
static void test_the_history(void **state)
{
    (void)state;
    static const char keys[] = "&hfProtocol=document&hfCollection=c";
    open_with(keys);
    answers_close(store);
    look_at_the_history(keys, TURN, "{'ok': 0, 'code': 53, 'errmsg': 'bad _id'}");
    look_at_the_history(keys, DENIED, NULL);
    look_at_the_history(keys, TURN, DENIED);
    look_at_the_history(keys, NULL, NULL);
    look_at_the_history(keys, NULL, DENIED);
    look_at_the_history("&hfProtocol=document&hfCollection=c&hfHistory=0", NULL, NULL);
    transcript_end("doctor-history");
}

/* It says no more once it is told to stop. */
static void test_it_stops(void **state)
{
    (void)state;
    open_with("&hfProtocol=ttl");
    answers_give("find", ODD_ID);
    look_for(2);
    transcript_end("doctor-stops");
}

/* ---- How the URI names the members ---- */

static void look_at_members(const char *uri)
{
    open_uri(uri);
    look_for(4);
    transcript_end(strstr(uri, "b/")  ? "doctor-two-names"
                   : strstr(uri, "=") ? "doctor-one-name-of-a-set"
                                      : "doctor-one-name");
}

static void test_one_name(void **state)
{
    (void)state;
    look_at_members("mongodb://a/app");
}

static void test_one_name_of_a_set(void **state)
{
    (void)state;
    look_at_members("mongodb://a/app?replicaSet=rs0");
}

static void test_two_names(void **state)
{
    (void)state;
    look_at_members("mongodb://a,b/app");
}

/* ---- Times ---- */

/* The first pair does not count. */
static void time_writes(const int64_t ms[10])
{
    answers_close(store);
    store = answers_open("");
    for (int i = 0; i < 10; i++)
        answers_give_slowly(i % 2 ? "delete" : "findAndModify", WELL, ms[i]);
    look();
}

static void test_how_long_writes_take(void **state)
{
    (void)state;
    open_with("");
    time_writes((const int64_t[]){900, 1, 20, 30, 40, 25, 21, 39, 22, 38});
    time_writes((const int64_t[]){1, 900, 50, 30, 40, 25, 21, 39, 22, 38});
    time_writes((const int64_t[]){1, 1, 50, 30, 40, 25, 21, 39, 22, 500});
    time_writes((const int64_t[]){1, 1, 50, 30, 40, 25, 21, 39, 22, 501});
    transcript_end("doctor-writes");
}

static void look_at_clocks(const char *keys, const char *a, const char *b, const char *c)
{
    answers_close(store);
    store = answers_open(keys);
    answers_give_slowly("hello", a, 10);
    answers_give("hello", b);
    answers_give("hello", c);
    look();
}

static void test_how_clocks_differ(void **state)
{
    (void)state;
    static const char document[] = "&hfProtocol=document&hfCollection=things";
    open_with("");
    look_at_clocks("", HELLO("1700000000105"), HELLO("1700000000050"), HELLO("1700000000020"));
    look_at_clocks("", HELLO("1699999999905"), HELLO("1699999999950"), HELLO("1699999999980"));
    look_at_clocks("", HELLO("1700000000005"), HELLO("1700000006000"), HELLO("1700000000000"));
    look_at_clocks("", HELLO("1700000000005"), HELLO("1700000006001"), HELLO("1700000000000"));
    look_at_clocks("", HELLO("1700000000005"), NULL, "{'ok': 1, 'localTime': 5}");
    look_at_clocks("", HELLO("1700000000005"), NULL, HELLO("1700000000007"));
    look_at_clocks(document, HELLO("1700000000005"), HELLO("1700000001000"),
                   HELLO("1700000000000"));
    look_at_clocks(document, HELLO("1700000000005"), HELLO("1700000001001"),
                   HELLO("1700000000000"));
    transcript_end("doctor-clocks");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, NULL, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_queue),
        TEST(test_ttl),
        TEST(test_document),
        TEST(test_sharding),
        TEST(test_servers_that_are_no_set),
        TEST(test_a_set_that_is_not_well),
        TEST(test_weak_writes),
        TEST(test_it_stops),
        cmocka_unit_test(test_the_history),
        TEST(test_one_name),
        TEST(test_one_name_of_a_set),
        TEST(test_two_names),
        TEST(test_how_long_writes_take),
        TEST(test_how_clocks_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
