/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_open.c: what a mongo store says of itself when it is opened, by its URI. */
#include "client/base/env.h"
#include "faults/mongo_answers.h"
#include "store/mongo/mongo.h"
#include "store/mongo/sharding/sharding.h"

static mongo_store *store;

static void assert_can(const char *keys, unsigned can, const char *protocol, int64_t wait_ms,
                       int64_t beat_ms)
{
    store = answers_open(keys);
    assert_int_equal(store->base.can, can);
    assert_true(store->base.is_remote);
    assert_string_equal(store->base.protocol, protocol);
    assert_string_equal(store->base.ops->scheme, "mongodb");
    assert_int_equal(store->base.wait_ms, wait_ms);
    assert_int_equal(store->base.beat_ms, beat_ms);
    assert_string_equal(answers_log(), "");
    answers_close(store);
}

static void test_what_each_protocol_can(void **state)
{
    (void)state;
    const unsigned plain =
        HF_CAN_NOTIFY | HF_CAN_PROCESSES | HF_CAN_TELL_LOST | HF_CAN_LAST | HF_CAN_HISTORY;
    assert_can("",
               HF_CAN_SHARE | HF_CAN_QUEUE | HF_CAN_TOKENS | HF_CAN_NOTIFY | HF_CAN_SKEW |
                   HF_CAN_PROCESSES | HF_CAN_HISTORY,
               "queue", 0, 0);
    assert_can("&hfProtocol=ttl", plain | HF_CAN_DATE, "ttl", 10000, 0);
    assert_can("&hfProtocol=document&hfCollection=things", plain, "document", 0, 5000);
    assert_can("&hfProtocol=document&hfCollection=things&hfTokenField=t", plain | HF_CAN_TOKENS,
               "document", 0, 5000);
    assert_can("&hfProtocol=sharding", plain | HF_CAN_DATE, "sharding", 20000, 2000);
}

static void test_weak_writes_are_told(void **state)
{
    (void)state;
    store = answers_open("&hfWeakWrites=yes");
    assert_non_null(strstr(answers_log(), "hfWeakWrites=yes: writes are not confirmed"));
    answers_close(store);
}

/* The time-outs of beats are a third of the ttl, 2000 ms. */
static void test_how_long_commands_may_take(void **state)
{
    (void)state;
    store = answers_open("");
    const mongoc_uri_t *work = store->work.uri, *beats = store->beats.uri;
    assert_int_equal(store->work.limits.wait_ms, 4000);
    assert_int_equal(mongoc_uri_get_option_as_int32(work, MONGOC_URI_CONNECTTIMEOUTMS, 0), 4000);
    assert_int_equal(mongoc_uri_get_option_as_int32(work, MONGOC_URI_SOCKETTIMEOUTMS, 0), 5000);
    assert_int_equal(store->beats.limits.wait_ms, 2000);
    assert_int_equal(mongoc_uri_get_option_as_int32(beats, MONGOC_URI_CONNECTTIMEOUTMS, 0), 2000);
    assert_int_equal(mongoc_uri_get_option_as_int32(beats, MONGOC_URI_SOCKETTIMEOUTMS, 0), 2000);
    answers_close(store);
    store = answers_open("&hfProtocol=sharding&hfCommandMS=15000");
    assert_int_equal(store->work.limits.wait_ms, 15000);
    assert_int_equal(mongoc_uri_get_option_as_int32(store->work.uri, MONGOC_URI_SOCKETTIMEOUTMS, 0),
                     16000);
    assert_int_equal(store->beats.limits.wait_ms, 2000);
    answers_close(store);
}

static hf_code open_it(const char *uri, int64_t ttl_ms, int64_t *patience_ms)
{
    hf_error err;
    hf_store *out = NULL;
    hf_store_config config = {.ttl_ms = (int32_t)ttl_ms};
    hf_code code = mongo_open(uri, &config, &out, patience_ms, &err);
    if (!code)
        out->ops->close(out);
    return code;
}

static void test_how_patient_a_client_is(void **state)
{
    (void)state;
    int64_t patience_ms = 77;
    assert_int_equal(open_it("mongodb://a/app", 6000, &patience_ms), HF_OK);
    assert_int_equal(patience_ms, 77);
    assert_int_equal(open_it("mongodb://a/app?serverSelectionTimeoutMS=1234", 6000, &patience_ms),
                     HF_OK);
    assert_int_equal(patience_ms, 1234);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    int64_t patience_ms = 77;
    static const char sharding[] = "mongodb://a/app?hfProtocol=sharding&hfExpiryMS=6000";
    assert_int_equal(open_it("mongodb://a/app?hfSpeed=5", 6000, &patience_ms), HF_INVALID);
    assert_int_equal(open_it("mongodb://a/app?hfProtocol=document", 6000, &patience_ms),
                     HF_INVALID);
    assert_int_equal(open_it(sharding, 6001, &patience_ms), HF_INVALID);
    assert_int_equal(open_it(sharding, 6000, &patience_ms), HF_OK);
}

/* ---- Settings of protocol sharding ---- */

static void test_settings_of_sharding(void **state)
{
    (void)state;
    store = answers_open("&hfProtocol=sharding&hfPingMS=1999&hfExpiryMS=40000&hfPollMS=70");
    const sharding_settings *settings = &store->sharding->settings;
    assert_int_equal(settings->ping_ms, 1999);
    assert_int_equal(settings->late_ping_ms, 19990);
    assert_int_equal(settings->expiry_ms, 40000);
    assert_int_equal(settings->poll_ms, 70);
    assert_int_equal(store->base.beat_ms, 1999);
    assert_false(store->sharding->has_lock_session);
    answers_close(store);
    store = answers_open("&hfProtocol=sharding&hfPingMS=2001");
    assert_int_equal(store->sharding->settings.ping_ms, 2000); /* a third of the ttl */
    answers_close(store);
    store = answers_open("&hfProtocol=sharding&hfLockSession=0000000b0000000000000000");
    assert_true(store->sharding->has_lock_session);
    assert_int_equal(store->sharding->lock_session.bytes[3], 11);
    answers_close(store);
}

static void drop_log(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx, (void)level, (void)text;
}

static int64_t chosen_ttl_ms(const char *keys, bool chooses, int64_t *ping_ms)
{
    char uri[200];
    hf_store *opened;
    hf_error err;
    int64_t patience_ms = 0;
    const hf_store_config config = {
        .ttl_ms = 10000, .env = &env_linux, .log = drop_log, .chooses_ttl = chooses};
    snprintf(uri, sizeof uri, "mongodb://a/app?%s", keys);
    assert_int_equal(mongo_open(uri, &config, &opened, &patience_ms, &err), HF_OK);
    int64_t ttl_ms = opened->ttl_ms;
    assert_int_equal(ttl_ms, ((mongo_store *)opened)->config.ttl_ms);
    *ping_ms = opened->beat_ms;
    opened->ops->close(opened);
    return ttl_ms;
}

/* With sharding three pings, at most a tenth of the expiry; elsewhere 30 s, if documents last that
 * long; never less than 10 s. */
static void test_the_ttl_that_nobody_asked_for(void **state)
{
    static const struct {
        const char *keys;
        bool chooses;
        int64_t ttl_ms, ping_ms;
    } of[] = {
        {"hfProtocol=sharding", true, 90000, 30000},
        {"hfProtocol=sharding", false, 10000, 3333},
        {"hfProtocol=sharding&hfPingMS=5000", true, 15000, 5000},
        {"hfProtocol=sharding&hfPingMS=60000", true, 90000, 30000},
        {"hfProtocol=sharding&hfExpiryMS=300000", true, 30000, 5000},
        {"hfProtocol=sharding&hfExpiryMS=15000", true, 10000, 3333},
        {"hfProtocol=sharding&hfExpiryMS=3000", true, 3000, 1000},
        {"hfProtocol=sharding&hfPingMS=3600000&hfExpiryMS=604800000", true, 3600000, 1200000},
        {"", true, 40000, 0},
        {"", false, 10000, 0},
        {"hfProtocol=ttl", true, 40000, 0},
        {"hfProtocol=ttl&hfShape=expire-at&hfExpireAfterSeconds=1", true, 40000, 0},
        {"hfProtocol=ttl&hfExpireAfterSeconds=1", true, 10000, 0},
        {"hfProtocol=ttl&hfExpireAfterSeconds=20", true, 20000, 0},
        {"hfProtocol=document&hfCollection=jobs", true, 40000, 5000},
        {"hfProtocol=document&hfCollection=jobs&hfElement=lines.id", true, 40000, 5000},
        {"hfProtocol=document&hfCollection=jobs&hfRefreshMS=4000&hfStaleMultiplier=3", true, 12000,
         4000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        int64_t ping_ms;
        char uri[200];
        snprintf(uri, sizeof uri, "mongodb://a/app?%s", of[i].keys);
        assert_int_equal(chosen_ttl_ms(of[i].keys, of[i].chooses, &ping_ms), of[i].ttl_ms);
        if (of[i].chooses)
            assert_int_equal(hf_default_ttl_ms(uri), of[i].ttl_ms);
        assert_int_equal(ping_ms, of[i].ping_ms);
    }
}

static bool warns(const char *database, const char *expiry_ms)
{
    char uri[200];
    snprintf(uri, sizeof uri, "mongodb://a/%s?hfProtocol=sharding&hfExpiryMS=%s", database,
             expiry_ms);
    store = answers_open_uri(uri);
    bool is_told = strstr(answers_log(), "on a config server: MongoDB pings only") != NULL;
    answers_close(store);
    return is_told;
}

static void test_a_short_expiry_on_a_config_server_is_told(void **state)
{
    (void)state;
    assert_true(warns("config", "29999"));
    assert_false(warns("config", "30000"));
    assert_false(warns("app", "29999"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_each_protocol_can),
        cmocka_unit_test(test_weak_writes_are_told),
        cmocka_unit_test(test_how_long_commands_may_take),
        cmocka_unit_test(test_how_patient_a_client_is),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_settings_of_sharding),
        cmocka_unit_test(test_the_ttl_that_nobody_asked_for),
        cmocka_unit_test(test_a_short_expiry_on_a_config_server_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
