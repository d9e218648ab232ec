/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_pool.c: how connections are set up, kept and ended. None is ever made to a server; the
 * linker leads what ends them, and the clock, here. */
#include "unit.h"

#include "store/mongo/driver/command.h"
#include "store/mongo/driver/pool.h"
#include "store/mongo/driver/set.h"
#include "store/mongo/driver/store.h"
#include "store/mongo/driver/text.h"

#include <errno.h>
#include <time.h>

static mongo_store store = {
    .uri = {.hosts = (char *)(uintptr_t) "a", .database = (char *)(uintptr_t) "app"}};
static const mongo_call call = {.what = "trying"};
static const mongo_call patient = {.what = "looking", .can_wait = true};
static mongo_pool pool;
static hf_error err;

/* ---- What the linker leads here ---- */

static char ended[200];      /* "r" for each that was reset, "d" for each that was destroyed */
static int64_t takes_ms[20]; /* to destroy the first, the second... */
static int n_ended;
static struct timespec now;
static bool is_refused;
static mongoc_uri_t *went_to; /* the last one */
static int32_t error_api;
static mongoc_apm_command_succeeded_cb_t on_success;
static mongoc_apm_command_failed_cb_t on_failure;

mongoc_client_t *__real_mongoc_client_new_from_uri_with_error(const mongoc_uri_t *uri,
                                                              bson_error_t *error);
mongoc_client_t *__wrap_mongoc_client_new_from_uri_with_error(const mongoc_uri_t *uri,
                                                              bson_error_t *error);
void __real_mongoc_client_destroy(mongoc_client_t *client);
void __wrap_mongoc_client_destroy(mongoc_client_t *client);
void __wrap_mongoc_client_reset(mongoc_client_t *client);
int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                                  const struct timespec *until);
bool __wrap_mongoc_client_set_error_api(mongoc_client_t *client, int32_t version);
void __wrap_mongoc_apm_set_command_succeeded_cb(mongoc_apm_callbacks_t *callbacks,
                                                mongoc_apm_command_succeeded_cb_t cb);
void __wrap_mongoc_apm_set_command_failed_cb(mongoc_apm_callbacks_t *callbacks,
                                             mongoc_apm_command_failed_cb_t cb);
bool __wrap_mongoc_client_set_apm_callbacks(mongoc_client_t *client,
                                            mongoc_apm_callbacks_t *callbacks, void *context);
void *__wrap_mongoc_apm_command_succeeded_get_context(const mongoc_apm_command_succeeded_t *event);
void *__wrap_mongoc_apm_command_failed_get_context(const mongoc_apm_command_failed_t *event);

mongoc_client_t *__wrap_mongoc_client_new_from_uri_with_error(const mongoc_uri_t *uri,
                                                              bson_error_t *error)
{
    mongoc_uri_destroy(went_to);
    went_to = mongoc_uri_copy(uri);
    if (!is_refused)
        return __real_mongoc_client_new_from_uri_with_error(uri, error);
    bson_set_error(error, MONGOC_ERROR_CLIENT, MONGOC_ERROR_CLIENT_NOT_READY, "no");
    return NULL;
}

void __wrap_mongoc_client_destroy(mongoc_client_t *client)
{
    strcat(ended, "d");
    int64_t ns = now.tv_nsec + takes_ms[n_ended++] * 1000000;
    now.tv_sec += ns / 1000000000;
    now.tv_nsec = (long)(ns % 1000000000);
    __real_mongoc_client_destroy(client);
}

/* Without one the server is told, and may not answer. */
void __wrap_mongoc_client_reset(mongoc_client_t *client)
{
    (void)client;
    strcat(ended, "r");
}

bool __wrap_mongoc_client_set_error_api(mongoc_client_t *client, int32_t version)
{
    (void)client;
    error_api = version;
    return true;
}

void __wrap_mongoc_apm_set_command_succeeded_cb(mongoc_apm_callbacks_t *callbacks,
                                                mongoc_apm_command_succeeded_cb_t cb)
{
    (void)callbacks;
    on_success = cb;
}

void __wrap_mongoc_apm_set_command_failed_cb(mongoc_apm_callbacks_t *callbacks,
                                             mongoc_apm_command_failed_cb_t cb)
{
    (void)callbacks;
    on_failure = cb;
}

static void *told;

bool __wrap_mongoc_client_set_apm_callbacks(mongoc_client_t *client,
                                            mongoc_apm_callbacks_t *callbacks, void *context)
{
    (void)client, (void)callbacks;
    told = context;
    return true;
}

void *__wrap_mongoc_apm_command_succeeded_get_context(const mongoc_apm_command_succeeded_t *event)
{
    (void)event;
    return told;
}

void *__wrap_mongoc_apm_command_failed_get_context(const mongoc_apm_command_failed_t *event)
{
    (void)event;
    return told;
}

static mongo_connection *given_meanwhile; /* NULL: nobody gives one back while a call waits */
static const mongo_call *given_for;
static int n_waits;

/* The mutex is locked, as it is when this returns. */
int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                                  const struct timespec *until)
{
    (void)cond, (void)clock, (void)until;
    mongo_connection *given = given_meanwhile;
    given_meanwhile = NULL;
    n_waits++;
    if (!given)
        return ETIMEDOUT;
    pthread_mutex_unlock(mutex);
    mongo_pool_give(&store, &pool, given_for, given, false);
    pthread_mutex_lock(mutex);
    return 0;
}

static hf_mono read_mono(void *ctx)
{
    (void)ctx;
    return (hf_mono){(int64_t)now.tv_sec * 1000000000 + now.tv_nsec};
}

/* ---- The pool ---- */

static void open_pool(const char *text)
{
    mongo_limits limits = {.connect_ms = 1001, .socket_ms = 1002, .wait_ms = 1003};
    mongoc_uri_destroy(store.uri.driver);
    store.uri.driver = mongoc_uri_new(text);
    mongo_pool_init(&pool, store.uri.driver, limits);
}

static int begin(void **state)
{
    static const hf_env env = {.mono = read_mono};
    (void)state;
    store.config.env = &env;
    open_pool("mongodb://a/app");
    ended[0] = '\0';
    n_ended = 0;
    memset(takes_ms, 0, sizeof takes_ms);
    now = (struct timespec){.tv_sec = 10, .tv_nsec = 900000000};
    return 0;
}

static int end(void **state)
{
    (void)state;
    mongo_pool_done(&store, &pool);
    return 0;
}

static mongo_connection *take_for(const mongo_call *what)
{
    mongo_connection *client = NULL;
    n_waits = 0;
    assert_int_equal(mongo_pool_take(&store, &pool, what, &client, &err), HF_OK);
    assert_non_null(client);
    return client;
}

static mongo_connection *take(void)
{
    return take_for(&call);
}

/* So many are idle. */
static void keep(size_t n)
{
    mongo_connection *all[MONGO_IDLE_MAX + 1];
    for (size_t i = 0; i < n; i++)
        all[i] = take();
    for (size_t i = 0; i < n; i++)
        mongo_pool_give(&store, &pool, &call, all[i], false);
}

/* ---- Settings ---- */

static bool flag(const char *key)
{
    bool is_set = mongoc_uri_get_option_as_bool(pool.uri, key, true);
    assert_int_equal(is_set, mongoc_uri_get_option_as_bool(pool.uri, key, false)); /* it is there */
    return is_set;
}

static int32_t number(const char *key)
{
    return mongoc_uri_get_option_as_int32(pool.uri, key, -1);
}

static void assert_settings(void)
{
    assert_false(flag(MONGOC_URI_RETRYWRITES));
    assert_false(flag(MONGOC_URI_RETRYREADS));
    assert_true(flag(MONGOC_URI_SERVERSELECTIONTRYONCE));
    assert_int_equal(number(MONGOC_URI_SERVERSELECTIONTIMEOUTMS), 1001);
    assert_int_equal(number(MONGOC_URI_CONNECTTIMEOUTMS), 1001);
    assert_int_equal(number(MONGOC_URI_SOCKETTIMEOUTMS), 1002);
    assert_int_equal(number(MONGOC_URI_HEARTBEATFREQUENCYMS), INT32_MAX);
    assert_int_equal(number(MONGOC_URI_SOCKETCHECKINTERVALMS), INT32_MAX);
    assert_int_equal(pool.limits.wait_ms, 1003);
}

static void test_a_uri_that_says_nothing(void **state)
{
    (void)state;
    assert_settings();
    assert_string_equal(mongoc_uri_get_appname(pool.uri), "holdfast");
    assert_string_equal(mongoc_uri_get_database(pool.uri), "app");
}

/* But for the name of the program these are ours. */
static void test_a_uri_that_says_otherwise(void **state)
{
    (void)state;
    mongo_pool_done(&store, &pool);
    open_pool("mongodb://a/app?retryWrites=true&retryReads=true&serverSelectionTryOnce=false"
              "&serverSelectionTimeoutMS=1&connectTimeoutMS=2&socketTimeoutMS=3"
              "&heartbeatFrequencyMS=700&appname=mine");
    assert_settings();
    assert_string_equal(mongoc_uri_get_appname(pool.uri), "mine");
}

/* ---- Taking and giving ---- */

static void test_one_that_was_given_back_is_taken_again(void **state)
{
    (void)state;
    mongo_connection *one = take(), *other = take();
    assert_ptr_not_equal(one, other);
    mongo_pool_give(&store, &pool, &call, one, false);
    assert_ptr_equal(take(), one);
    mongo_pool_give(&store, &pool, &call, one, false);
    mongo_pool_give(&store, &pool, &call, other, false);
    assert_string_equal(ended, "");
}

static void test_after_a_failure_none_is_kept(void **state)
{
    (void)state;
    keep(3);
    mongo_pool_give(&store, &pool, &call, take(), true);
    assert_int_equal(pool.n_idle, 0);
    assert_string_equal(ended, "rdrdrd");
    keep(1);
    assert_int_equal(pool.n_idle, 1);
}

static void test_sixteen_are_kept(void **state)
{
    (void)state;
    keep(MONGO_IDLE_MAX);
    assert_string_equal(ended, "");
    mongo_connection *all[MONGO_IDLE_MAX + 1];
    for (int i = 0; i < MONGO_IDLE_MAX + 1; i++)
        all[i] = take();
    for (int i = 0; i < MONGO_IDLE_MAX + 1; i++)
        mongo_pool_give(&store, &pool, &call, all[i], false);
    assert_string_equal(ended, "d"); /* the one too many is destroyed */
    assert_int_equal(pool.n_idle, MONGO_IDLE_MAX);
}

/* The one that was given back first is needed least. */
static void test_what_is_not_needed_for_ten_seconds_is_closed(void **state)
{
    (void)state;
    mongo_connection *one = take(), *two = take(), *three = take();
    mongo_pool_give(&store, &pool, &call, one, false);
    mongo_pool_give(&store, &pool, &call, two, false);
    now.tv_sec += 9;
    mongo_pool_give(&store, &pool, &call, three, false);
    assert_int_equal(pool.n_idle, 3);
    now.tv_sec += 1;
    mongo_pool_give(&store, &pool, &call, take(), false);
    assert_int_equal(pool.n_idle, 2);
    assert_string_equal(ended, "rd");
    assert_ptr_equal(pool.idle[0], two);
    now.tv_sec += 100;
    for (int i = 0; i < 2; i++)
        mongo_pool_give(&store, &pool, &call, take(), false);
    assert_int_equal(pool.n_idle, 1); /* one stays */
    assert_ptr_equal(take(), three);
    mongo_pool_give(&store, &pool, &call, three, false);
}

/* ---- Calls that can wait ---- */

static void test_one_that_can_wait_takes_what_another_gives_back(void **state)
{
    (void)state;
    mongo_connection *one = take();
    given_meanwhile = one;
    given_for = &call;
    assert_ptr_equal(take_for(&patient), one);
    assert_int_equal(n_waits, 1);
    mongo_pool_give(&store, &pool, &patient, one, false);
}

static void test_one_that_has_waited_opens_its_own(void **state)
{
    (void)state;
    mongo_connection *one = take(), *other = take_for(&patient);
    assert_int_equal(n_waits, 1);
    assert_ptr_not_equal(one, other);
    mongo_pool_give(&store, &pool, &call, one, false);
    mongo_pool_give(&store, &pool, &patient, other, false);
}

/* Otherwise as many connections as there are such calls would always be needed. */
static void test_those_that_can_wait_go_one_after_the_other(void **state)
{
    (void)state;
    keep(2);
    mongo_connection *one = take_for(&patient);
    assert_int_equal(n_waits, 0);
    given_meanwhile = one;
    given_for = &patient;
    assert_ptr_equal(take_for(&patient), one);
    assert_int_equal(n_waits, 1);
    assert_int_equal(pool.n_idle, 1);
    mongo_connection *other = take();
    assert_int_equal(n_waits, 0); /* this one cannot */
    mongo_pool_give(&store, &pool, &call, other, false);
    mongo_pool_give(&store, &pool, &patient, one, false);
}

static void test_after_a_failure_one_that_can_wait_does_not(void **state)
{
    (void)state;
    mongo_pool_give(&store, &pool, &patient, take_for(&patient), true);
    mongo_connection *client = NULL;
    is_refused = true;
    assert_int_equal(mongo_pool_take(&store, &pool, &patient, &client, &err), HF_UNUSABLE);
    is_refused = false;
    mongo_pool_give(&store, &pool, &patient, take_for(&patient), false);
    assert_int_equal(n_waits, 0);
}

static void test_a_connection_that_cannot_be_made(void **state)
{
    (void)state;
    mongo_connection *client = (mongo_connection *)(void *)&pool;
    is_refused = true;
    assert_int_equal(mongo_pool_take(&store, &pool, &call, &client, &err), HF_UNUSABLE);
    is_refused = false;
    assert_null(client);
    assert_non_null(strstr(err.text, "trying failed: no"));
}

static void test_a_new_one_tells_of_errors_and_of_its_commands(void **state)
{
    (void)state;
    mongo_pool_give(&store, &pool, &call, take(), false);
    assert_int_equal(error_api, MONGOC_ERROR_API_VERSION_2);
    store.base.round_trips = 0;
    on_success(NULL);
    assert_int_equal(store.base.round_trips, 1);
    on_failure(NULL);
    assert_int_equal(store.base.round_trips, 2);
}

/* ---- The primary alone ---- */

static void hear(const char *text)
{
    bson_t *hello = pipeline_json(text);
    mongo_note_hello(&store, hello, 100);
    bson_destroy(hello);
}

/* Where a new connection goes, which is then given back. */
static const char *goes_to(bool fails)
{
    static char hosts[200];
    mongo_pool_give(&store, &pool, &call, take(), fails);
    hosts[0] = '\0';
    for (const mongoc_host_list_t *at = mongoc_uri_get_hosts(went_to); at; at = at->next)
        strcat(strcat(hosts, *hosts ? " " : ""), at->host_and_port);
    return hosts;
}

static void open_at(const char *text)
{
    mongo_pool_done(&store, &pool);
    memset(&store.set_seen, 0, sizeof store.set_seen);
    open_pool(text);
}

#define SET "mongodb://u:p%40@a:1,b:2/app?socketTimeoutMS=7"
#define PRIMARY                                                                                    \
    "{'ok': 1, 'setName': 'rs0', 'me': 'b:2', 'ismaster': true, 'hosts': ['b:2', 'c:3']}"

/* The set is named, so that the driver refuses the member once it is a secondary. */
static void test_it_goes_to_the_primary_alone(void **state)
{
    (void)state;
    open_at(SET);
    assert_string_equal(goes_to(false), "a:1 b:2");
    hear("{'ok': 1, 'setName': 'rs0', 'me': 'a:1', 'ismaster': false}");
    hear(PRIMARY);
    mongo_connection *idle = take();
    assert_string_equal(goes_to(false), "b:2");
    assert_int_equal(mongoc_uri_get_option_as_int32(went_to, MONGOC_URI_SOCKETTIMEOUTMS, 0), 1002);
    assert_int_equal(mongoc_uri_get_option_as_int32(went_to, MONGOC_URI_CONNECTTIMEOUTMS, 0), 1001);
    assert_string_equal(mongoc_uri_get_username(went_to), "u");
    assert_string_equal(mongoc_uri_get_password(went_to), "p@");
    assert_string_equal(mongoc_uri_get_replica_set(went_to), "rs0");
    assert_string_equal(mongoc_uri_get_database(went_to), "app");
    mongo_pool_give(&store, &pool, &call, idle, false);
}

static void test_after_a_failure_all_members_are_asked(void **state)
{
    (void)state;
    open_at(SET);
    hear(PRIMARY);
    assert_string_equal(goes_to(true), "b:2");
    assert_string_equal(goes_to(true), "b:2 c:3 a:1"); /* those of the set, and of the URI */
}

/* One that leads elsewhere says nothing about the present primary. */
static void test_a_failure_elsewhere_leaves_the_primary(void **state)
{
    (void)state;
    open_at(SET);
    hear(PRIMARY);
    mongo_connection *former = take();
    hear("{'ok': 1, 'setName': 'rs0', 'me': 'c:3', 'isWritablePrimary': true}");
    mongo_connection *present = take();
    mongo_pool_give(&store, &pool, &call, present, false);
    mongo_pool_give(&store, &pool, &call, former, true);
    assert_ptr_equal(take(), present);
    assert_string_equal(goes_to(false), "c:3");
    mongo_pool_give(&store, &pool, &call, present, false);
}

static void test_a_call_is_given_up_when_another_one_is_the_primary(void **state)
{
    (void)state;
    open_at(SET);
    hear(PRIMARY);
    mongo_connection *former = take();
    atomic_store(&store.asks_ms, INT64_MAX); /* others have just asked who it is */
    assert_false(former->is_given_up(former, INT64_MAX));
    hear("{'ok': 1, 'setName': 'rs0', 'me': 'c:3', 'isWritablePrimary': true}");
    assert_true(former->is_given_up(former, INT64_MAX));
    atomic_store(&store.asks_ms, 0);
    mongo_pool_give(&store, &pool, &call, former, true);
}

/* It has not noticed yet that another one was elected. */
static void test_of_two_primaries_the_later_one_counts(void **state)
{
    (void)state;
    open_at(SET);
    hear("{'ok': 1, 'setName': 'rs0', 'me': 'c:3', 'ismaster': true, 'hosts': ['c:3'],"
         " 'electionId': {'$oid': '7fffffff0000000000000005'}}");
    hear("{'ok': 1, 'setName': 'rs0', 'me': 'b:2', 'ismaster': true, 'hosts': ['b:2'],"
         " 'electionId': {'$oid': '7fffffff0000000000000004'}}");
    assert_string_equal(goes_to(true), "c:3");
    hear("{'ok': 1, 'setName': 'rs0', 'me': 'b:2', 'ismaster': true, 'hosts': ['b:2'],"
         " 'electionId': {'$oid': '7fffffff0000000000000004'}}");
    assert_string_equal(goes_to(false), "b:2"); /* nobody else says so now */
}

static void test_another_sets_primary_is_none(void **state)
{
    (void)state;
    open_at("mongodb://a:1,b:2/app?replicaSet=rs1");
    hear(PRIMARY);
    assert_string_equal(goes_to(false), "a:1 b:2");
}

static void test_a_server_that_ends_says_nothing(void **state)
{
    (void)state;
    open_at("mongodb://a:1/app?replicaSet=rs0");
    hear("{'ok': 0, 'code': 91, 'setName': 'rs0', 'me': 'b:2', 'ismaster': true}");
    hear("{'ok': 0, 'code': 91}");
    assert_string_equal(goes_to(false), "a:1");
    assert_int_equal(mongo_other_set(&store, &err), HF_OK);
}

static void test_where_no_set_is_looked_for_it_goes_as_the_uri_says(void **state)
{
    static const char *const uris[] = {"mongodb://a:1/app", "mongodb://a:1/?directConnection=true",
                                       "mongodb://a:1/?directConnection=true&replicaSet=rs0"};
    (void)state;
    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++) {
        open_at(uris[i]);
        hear(PRIMARY);
        assert_string_equal(goes_to(false), "a:1");
    }
    open_at(SET);
    hear("{'ok': 1, 'me': 'b:2', 'ismaster': true}"); /* a standalone server, or a router */
    assert_string_equal(goes_to(false), "a:1 b:2");
}

/* ---- The end ---- */

static void close_with(size_t n)
{
    keep(n);
    mongo_pool_done(&store, &pool);
    open_pool("mongodb://a/app");
}

static void test_servers_that_answer_are_told(void **state)
{
    (void)state;
    takes_ms[0] = takes_ms[1] = 249;
    close_with(3);
    assert_string_equal(ended, "ddd");
}

static void test_after_a_slow_good_bye_nobody_is_told(void **state)
{
    (void)state;
    takes_ms[1] = 250;
    close_with(4);
    assert_string_equal(ended, "ddrdrd");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_uri_that_says_nothing),
        TEST(test_a_uri_that_says_otherwise),
        TEST(test_one_that_was_given_back_is_taken_again),
        TEST(test_after_a_failure_none_is_kept),
        TEST(test_sixteen_are_kept),
        TEST(test_what_is_not_needed_for_ten_seconds_is_closed),
        TEST(test_one_that_can_wait_takes_what_another_gives_back),
        TEST(test_one_that_has_waited_opens_its_own),
        TEST(test_those_that_can_wait_go_one_after_the_other),
        TEST(test_after_a_failure_one_that_can_wait_does_not),
        TEST(test_a_connection_that_cannot_be_made),
        TEST(test_a_new_one_tells_of_errors_and_of_its_commands),
        TEST(test_it_goes_to_the_primary_alone),
        TEST(test_after_a_failure_all_members_are_asked),
        TEST(test_a_failure_elsewhere_leaves_the_primary),
        TEST(test_a_call_is_given_up_when_another_one_is_the_primary),
        TEST(test_of_two_primaries_the_later_one_counts),
        TEST(test_another_sets_primary_is_none),
        TEST(test_a_server_that_ends_says_nothing),
        TEST(test_where_no_set_is_looked_for_it_goes_as_the_uri_says),
        TEST(test_servers_that_answer_are_told),
        TEST(test_after_a_slow_good_bye_nobody_is_told),
    };
    mongoc_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
