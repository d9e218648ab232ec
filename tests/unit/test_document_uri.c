/* SPDX-License-Identifier: Apache-2.0 */
/* test_document_uri.c: proves which keys of a URI protocol `document` takes, what they are without
 * being given, and what it refuses. Run by ctest. */
#include "unit.h"

#include "store/mongo/document/document.h"
#include "store/mongo/driver/uri.h"

#define TTL 10000

static hf_code read_it(const char *keys, int64_t ttl_ms, mongo_uri *out, hf_error *err)
{
    char text[300];
    snprintf(text, sizeof text, "mongodb://a/app?%s", keys);
    hf_code code = mongo_uri_read(text, out, err);
    if (!code && out->protocol == MONGO_DOCUMENT && (code = mongo_document_check(out, ttl_ms, err)))
        mongo_uri_done(out);
    return code;
}

static void test_defaults(void **state)
{
    (void)state;
    mongo_uri uri;
    hf_error err;
    assert_int_equal(read_it("hfProtocol=document&hfCollection=ORDERS", TTL, &uri, &err), HF_OK);
    assert_string_equal(uri.collection, "ORDERS");
    assert_string_equal(uri.lock_field, "lockId");
    assert_string_equal(uri.time_field, "lockTs");
    assert_null(uri.token_field);
    assert_int_equal(mongo_document_stale_ms(&uri), 180000);
    assert_int_equal(uri.refresh_ms, 5000);
    assert_int_equal(uri.foreign_refresh_ms, 30000);
    mongo_uri_done(&uri);
}

static void test_all_keys_in_any_order(void **state)
{
    (void)state;
    mongo_uri uri;
    hf_error err;
    assert_int_equal(read_it("hfTimeField=meta.Last_Updated&hfStaleMultiplier=3&hfRefreshMS=4000&"
                             "hfLockField=meta.LockId&hfTokenField=fence&hfPollMS=50&"
                             "hfCollection=sessions&hfProtocol=document",
                             TTL, &uri, &err),
                     HF_OK);
    assert_string_equal(uri.lock_field, "meta.LockId");
    assert_string_equal(uri.time_field, "meta.Last_Updated");
    assert_string_equal(uri.token_field, "fence");
    assert_string_equal(uri.collection, "sessions");
    assert_int_equal(mongo_document_stale_ms(&uri), 12000);
    assert_int_equal(uri.poll_ms, 50);
    mongo_uri_done(&uri);
}

/* Nothing but hfStaleMultiplier makes it shorter than what is safe beside the article's programs.
 */
static void test_the_stale_time_is_safe_where_nobody_says_otherwise(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        int64_t stale_ms;
    } all[] = {
        {"hfRefreshMS=1000", 180000},
        {"hfRefreshMS=7000", 182000},
        {"hfRefreshMS=100000", 300000},
        {"hfStaleMultiplier=6", 30000},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        mongo_uri uri;
        hf_error err;
        char keys[200];
        snprintf(keys, sizeof keys, "hfProtocol=document&hfCollection=x&%s", all[i].keys);
        assert_int_equal(read_it(keys, TTL, &uri, &err), HF_OK);
        assert_int_equal(mongo_document_stale_ms(&uri), all[i].stale_ms);
        mongo_uri_done(&uri);
    }
}

static void assert_refused(const char *keys, int64_t ttl_ms, const char *word)
{
    mongo_uri uri;
    hf_error err;
    assert_int_equal(read_it(keys, ttl_ms, &uri, &err), HF_INVALID);
    if (!strstr(err.text, word))
        fail_msg("%s: \"%s\" is not in \"%s\"", keys, word, err.text);
}

#define OWN "hfProtocol=document&hfCollection=x&"

static void test_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    assert_refused("hfProtocol=document", TTL, "hfCollection=");
    assert_refused(OWN "hfRefreshMS=1000&hfStaleMultiplier=6", 6001,
                   "a ttl of 6001 ms is longer than the 6000 ms");
    assert_refused(OWN "hfLockField=a&hfTimeField=a", TTL, "overlap");
    assert_refused(OWN "hfLockField=a.b&hfTimeField=a", TTL, "overlap");
    assert_refused(OWN "hfTokenField=lockTs", TTL, "overlap");
    assert_refused(OWN "hfTokenField=lockId.x", TTL, "overlap");
    assert_refused(OWN "hfLockField=_id", TTL, "hfLockField");
    assert_refused(OWN "hfLockField=_id.a", TTL, "hfLockField");
    assert_refused(OWN "hfLockField=.a", TTL, "hfLockField");
    assert_refused(OWN "hfLockField=a.", TTL, "hfLockField");
    assert_refused(OWN "hfLockField=a..b", TTL, "hfLockField");
    assert_refused(OWN "hfLockField=$a", TTL, "hfLockField");
    assert_refused(OWN "hfLockField=a$b", TTL, "hfLockField");
    assert_refused(OWN "hfLockField=", TTL, "hfLockField");
    assert_refused(OWN "hfPollMS=50x", TTL, "hfPollMS");
    assert_refused(OWN "hfPollMS=", TTL, "hfPollMS");
    assert_refused(OWN "hfOwnerField=a", TTL, "hfOwnerField is for hfProtocol=ttl");
    assert_refused(OWN "hfStaleMultiplier=0", TTL, "hfStaleMultiplier");
}

/* What begins alike is no overlap; what other protocols take is as before. */
static void test_what_fits_is_not(void **state)
{
    (void)state;
    static const char *const well[] = {OWN "hfLockField=lock&hfTimeField=lockTs",
                                       OWN "hfLockField=a.b&hfTimeField=a.bc",
                                       OWN "hfLockField=_ida",
                                       OWN "hfLockField=_i",
                                       OWN "hfRefreshMS=1667",
                                       "hfProtocol=ttl&hfTimeField=when"};
    for (size_t i = 0; i < sizeof well / sizeof *well; i++) {
        mongo_uri uri;
        hf_error err;
        assert_int_equal(read_it(well[i], TTL, &uri, &err), HF_OK);
        mongo_uri_done(&uri);
    }
    assert_refused("hfProtocol=ttl&hfTimeField=a.b", TTL, "hfTimeField");
    assert_refused("hfProtocol=ttl&hfTimeField=ticket", TTL, "hfTimeField");
    assert_refused("hfRefreshMS=5000", TTL, "hfRefreshMS is for hfProtocol=document");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_all_keys_in_any_order),
        cmocka_unit_test(test_the_stale_time_is_safe_where_nobody_says_otherwise),
        cmocka_unit_test(test_what_does_not_fit_is_refused),
        cmocka_unit_test(test_what_fits_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
