/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_uri.c: which keys a mongodb URI takes, up to which value, what they are without being
 * given, and what of the URI the driver sees. */
#include "unit.h"

#include "store/mongo/driver/uri.h"

static mongo_uri uri;
static hf_error err;

static hf_code read_keys(const char *keys)
{
    char text[700];
    snprintf(text, sizeof text, "mongodb://a/app?%s", keys);
    return mongo_uri_read(text, &uri, &err);
}

static void assert_read(const char *keys)
{
    if (read_keys(keys))
        fail_msg("%s: %s", keys, err.text);
}

static void assert_taken(const char *keys)
{
    assert_read(keys);
    mongo_uri_done(&uri);
}

static void assert_refused_as(const char *keys, hf_code code, const char *says)
{
    if (read_keys(keys) != code)
        fail_msg("%s is taken", keys);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, says))
        fail_msg("%s: %s", keys, err.text);
}

static void assert_refused(const char *keys, const char *says)
{
    assert_refused_as(keys, HF_INVALID, says);
}

/* ---- Words ---- */

static void test_protocols(void **state)
{
    (void)state;
    static const char *const names[] = {"queue", "ttl", "document", "sharding"};
    for (int i = 0; i < 4; i++) {
        char keys[100];
        snprintf(keys, sizeof keys, "hfProtocol=%s", names[i]);
        assert_read(keys);
        assert_int_equal(uri.protocol, i);
        mongo_uri_done(&uri);
    }
    assert_read("");
    assert_int_equal(uri.protocol, MONGO_QUEUE);
    mongo_uri_done(&uri);
    assert_refused_as("hfProtocol=zookeeper", HF_UNSUPPORTED, "hfProtocol=zookeeper: there are");
}

static void test_a_name_prefix(void **state)
{
    (void)state;
    assert_read("hfNamePrefix=shop%2F&hfProtocol=ttl");
    assert_string_equal(uri.name_prefix, "shop/");
    mongo_uri_done(&uri);
    assert_read("");
    assert_null(uri.name_prefix);
    mongo_uri_done(&uri);
    assert_refused("hfNamePrefix=x&hfProtocol=document&hfCollection=c", "not for document");
}

static void test_yes_and_no(void **state)
{
    (void)state;
    assert_read("hfWeakWrites=yes");
    assert_true(uri.weak);
    mongo_uri_done(&uri);
    assert_read("hfWeakWrites=no");
    assert_false(uri.weak);
    mongo_uri_done(&uri);
    assert_refused("hfWeakWrites=maybe", "hfWeakWrites=maybe: it is yes or no");
    assert_refused("hfWeakWrites=", "it is yes or no");
}

static void test_the_history(void **state)
{
    (void)state;
    assert_read("");
    assert_int_equal(uri.history, MONGO_HISTORY_ON);
    mongo_uri_done(&uri);
    assert_read("hfHistory=0&hfProtocol=document&hfCollection=c");
    assert_int_equal(uri.history, MONGO_HISTORY_OFF);
    mongo_uri_done(&uri);
    assert_refused("hfHistory=no", "hfHistory=no: it is 1 or 0");
    assert_refused("hfApi=2", "hfApi=2: it is 0 or 1");
}

static void test_shapes(void **state)
{
    (void)state;
    assert_read("hfProtocol=ttl&hfShape=expire-at");
    assert_int_equal(uri.shape, MONGO_SHAPE_EXPIRE_AT);
    assert_string_equal(uri.time_field, "ExpireAt");
    mongo_uri_done(&uri);
    assert_read("hfProtocol=ttl&hfShape=updated");
    assert_int_equal(uri.shape, MONGO_SHAPE_UPDATED);
    assert_string_equal(uri.time_field, "updated");
    mongo_uri_done(&uri);
    assert_refused("hfProtocol=ttl&hfShape=round", "hfShape=round: it is updated or expire-at");
    assert_refused("hfShape=expire-at", "hfShape is for hfProtocol=ttl, not for queue");
}

static void test_words(void **state)
{
    (void)state;
    static const char *const types[] = {"objectId", "uuid", "uuidLegacy", "string"};
    char keys[100];
    assert_read("hfProtocol=document&hfCollection=c");
    assert_int_equal(uri.lock_id_type, MONGO_LOCK_ID_OBJECT_ID);
    assert_int_equal(uri.time_means, MONGO_TIME_REFRESHED);
    assert_int_equal(uri.no_time_means, MONGO_NO_TIME_HELD);
    mongo_uri_done(&uri);
    for (unsigned i = 0; i < 4; i++) {
        snprintf(keys, sizeof keys, "hfProtocol=document&hfCollection=c&hfLockIdType=%s", types[i]);
        assert_read(keys);
        assert_int_equal(uri.lock_id_type, i);
        mongo_uri_done(&uri);
    }
    assert_read("hfProtocol=document&hfCollection=c&hfTimeMeans=expires&hfNoTimeMeans=stale");
    assert_int_equal(uri.time_means, MONGO_TIME_EXPIRES);
    assert_int_equal(uri.no_time_means, MONGO_NO_TIME_STALE);
    mongo_uri_done(&uri);
    assert_refused("hfProtocol=document&hfLockIdType=guid",
                   "hfLockIdType=guid: it is objectId, uuid, uuidLegacy or string");
    assert_refused("hfProtocol=document&hfTimeMeans=", "hfTimeMeans=: it is refreshed or expires");
    assert_refused("hfProtocol=document&hfNoTimeMeans=free", "it is held or stale");
    assert_refused("hfProtocol=ttl&hfTimeMeans=expires", "hfTimeMeans is for hfProtocol=document");
}

static void test_how_many_writes_a_stream_may_read(void **state)
{
    (void)state;
    assert_read("hfProtocol=ttl");
    assert_int_equal(uri.stream_writes, 500);
    mongo_uri_done(&uri);
    assert_read("hfProtocol=sharding&hfStreamWrites=1");
    assert_int_equal(uri.stream_writes, 1);
    mongo_uri_done(&uri);
    assert_refused("hfStreamWrites=5", "hfStreamWrites is for hfProtocol=ttl document sharding");
}

static void test_unknown_keys(void **state)
{
    (void)state;
    assert_refused("hfSpeed=5", "unknown key hfSpeed");
    assert_refused("hfspeed", "unknown key hfspeed");
    assert_refused("HFProtocol=ttl", "unknown key HFProtocol");
}

/* ---- Names ---- */

static const char *repeat(const char *before, char letter, size_t n)
{
    static char text[600];
    size_t length = (size_t)snprintf(text, sizeof text, "%s", before);
    memset(text + length, letter, n);
    text[length + n] = '\0';
    return text;
}

static void test_collections(void **state)
{
    (void)state;
    assert_taken("hfCollection=a.b");
    assert_taken("hfCollection=systems");
    assert_taken(repeat("hfCollection=", 'x', 120));
    assert_refused(repeat("hfCollection=", 'x', 121), "cannot hold locks");
    assert_refused("hfCollection=", "cannot hold locks");
    assert_refused("hfCollection=a$b", "hfCollection=a$b cannot hold locks");
    assert_refused("hfCollection=.a", "cannot hold locks");
    assert_refused("hfCollection=a.", "cannot hold locks");
    assert_refused("hfCollection=a..b", "cannot hold locks");
    assert_refused("hfCollection=system.users", "cannot hold locks");
    assert_refused("hfCollection=system", "cannot hold locks");
}

static void assert_collections(const char *keys, const char *given, const char *locks,
                               const char *history)
{
    assert_read(keys);
    assert_int_equal(!!uri.given, !!given);
    if (given)
        assert_string_equal(uri.given, given);
    assert_string_equal(uri.collection, locks);
    assert_string_equal(uri.names.history, history);
}

/* None of them is one that an application has, and one key moves them all. */
static void test_names_of_queue(void **state)
{
    (void)state;
    assert_collections("", NULL, "holdfast.locks", "holdfast.history");
    assert_string_equal(uri.names.sessions, "holdfast.sessions");
    assert_string_equal(uri.names.bells, "holdfast.bells");
    mongo_uri_done(&uri);
    assert_collections("hfCollection=x", "x", "x.locks", "x.history");
    assert_string_equal(uri.names.sessions, "x.sessions");
    assert_string_equal(uri.names.bells, "x.bells");
    mongo_uri_done(&uri);
}

static void assert_known_names(const char *keys, const char *given, const char *locks,
                               const char *history, const char *done)
{
    assert_collections(keys, given, locks, history);
    assert_string_equal(uri.names.done, done);
    mongo_uri_done(&uri);
}

static void test_names_that_other_programs_know(void **state)
{
    (void)state;
    assert_known_names("hfProtocol=ttl", NULL, "locks", "locks.history", "locks.done");
    assert_known_names("hfProtocol=sharding", NULL, "locks", "locks.history", "locks.done");
    assert_known_names("hfProtocol=document&hfCollection=x", "x", "x", "x.history", "x.done");
    assert_known_names("hfCollection=sessions&hfProtocol=ttl", "sessions", "sessions",
                       "sessions.history", "sessions.done");
}

static void test_fields(void **state)
{
    (void)state;
    static const char *const ours[] = {"_id",  "ticket", "session", "ttl_ms", "app",
                                       "host", "pid",    "why",     "since",  "hf_left"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        char keys[100];
        snprintf(keys, sizeof keys, "hfProtocol=ttl&hfOwnerField=%s", ours[i]);
        assert_refused(keys, "a field's name has letters");
    }
    assert_taken("hfProtocol=ttl&hfOwnerField=a");
    assert_taken(repeat("hfProtocol=ttl&hfOwnerField=", 'x', 100));
    assert_refused(repeat("hfProtocol=ttl&hfOwnerField=", 'x', 101), "a field's name");
    assert_refused("hfProtocol=ttl&hfOwnerField=a.b", "a field's name");
    assert_refused("hfProtocol=ttl&hfOwnerField=", "a field's name");
    assert_refused("hfProtocol=ttl&hfOwnerField=a b", "a field's name");
}

/* None is, or is in, the document's _id. */
static void test_paths(void **state)
{
    (void)state;
    static const char *const refused[] = {"_id", "_id.a", ".a", "a.", "a..b"};
    static const char *const taken[] = {"a.b", "abc", "abc.d", "_ids", "_idx.a", "_i.d", "a._id"};
    char keys[100];
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        snprintf(keys, sizeof keys, "hfProtocol=document&hfLockField=%s", refused[i]);
        assert_refused(keys, "a field's name");
    }
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        snprintf(keys, sizeof keys, "hfProtocol=document&hfLockField=%s", taken[i]);
        assert_taken(keys);
    }
}

/* ---- Numbers ---- */

static void test_numbers(void **state)
{
    (void)state;
    assert_read("hfProtocol=sharding&hfPollMS=1&hfPingMS=3600000&hfExpiryMS=604800000");
    assert_int_equal(uri.poll_ms, 1);
    assert_int_equal(uri.ping_ms, 3600000);
    assert_int_equal(uri.expiry_ms, 604800000);
    mongo_uri_done(&uri);
    assert_taken("hfProtocol=sharding&hfCommandMS=1000");
    assert_taken("hfProtocol=sharding&hfCommandMS=60000");
    assert_refused("hfProtocol=sharding&hfCommandMS=999", "a whole number from 1000 to 60000");
    assert_refused("hfProtocol=sharding&hfCommandMS=60001", "a whole number from 1000 to 60000");
    assert_refused("hfProtocol=ttl&hfCommandMS=5000", "hfCommandMS is for hfProtocol=sharding");
    assert_refused("hfProtocol=sharding&hfPollMS=0", "a whole number from 1 to 3600000");
    assert_refused("hfProtocol=sharding&hfPollMS=-1", "a whole number");
    assert_refused("hfProtocol=sharding&hfPollMS=", "a whole number");
    assert_refused("hfProtocol=sharding&hfPollMS=5s", "a whole number");
    assert_refused("hfProtocol=sharding&hfPollMS=3600001", "a whole number");
    assert_refused("hfProtocol=sharding&hfExpiryMS=604800001", "from 1 to 604800000");
    assert_taken("hfProtocol=ttl&hfFair=1&hfPollMS=2000");
    assert_refused("hfProtocol=ttl&hfFair=1&hfPollMS=2001", "with hfFair=1 it is 2000 at most");
    assert_taken("hfProtocol=document&hfStaleMultiplier=1000");
    assert_refused("hfProtocol=document&hfStaleMultiplier=1001", "from 1 to 1000");
    assert_taken("hfProtocol=ttl&hfExpireAfterSeconds=2147483647");
    assert_refused("hfProtocol=ttl&hfExpireAfterSeconds=2147483648", "from 1 to 2147483647");
}

static void test_numbers_that_are_not_given(void **state)
{
    (void)state;
    assert_read("hfProtocol=sharding");
    assert_int_equal(uri.poll_ms, 500);
    assert_int_equal(uri.ping_ms, 30000);
    assert_int_equal(uri.expiry_ms, 900000);
    assert_null(uri.process);
    assert_null(uri.lock_session);
    mongo_uri_done(&uri);
    assert_read("hfProtocol=ttl");
    assert_int_equal(uri.poll_ms, 100);
    assert_int_equal(uri.expire_after_s, 600);
    assert_string_equal(uri.owner_field, "acquirer");
    mongo_uri_done(&uri);
    assert_read("hfProtocol=ttl&hfShape=expire-at");
    assert_int_equal(uri.expire_after_s, 0);
    mongo_uri_done(&uri);
    assert_read("hfProtocol=ttl&hfShape=expire-at&hfExpireAfterSeconds=5");
    assert_int_equal(uri.expire_after_s, 5);
    mongo_uri_done(&uri);
}

/* ---- Who we are ---- */

static void test_processes(void **state)
{
    (void)state;
    assert_read("hfProtocol=sharding&hfProcess=p");
    assert_string_equal(uri.process, "p");
    mongo_uri_done(&uri);
    assert_taken(repeat("hfProtocol=sharding&hfProcess=", 'x', 200));
    assert_refused(repeat("hfProtocol=sharding&hfProcess=", 'x', 201), "1 to 200 bytes");
    assert_refused("hfProtocol=sharding&hfProcess=", "1 to 200 bytes");
    assert_read("hfProtocol=sharding&hfProcess=p&hfProcess=q");
    assert_string_equal(uri.process, "q");
    mongo_uri_done(&uri);
}

static void test_lock_sessions(void **state)
{
    (void)state;
    assert_read("hfProtocol=sharding&hfLockSession=0123456789abcdef01234567");
    assert_string_equal(uri.lock_session, "0123456789abcdef01234567");
    mongo_uri_done(&uri);
    assert_refused("hfProtocol=sharding&hfLockSession=0123456789abcdef0123456", "24 lower-case");
    assert_refused("hfProtocol=sharding&hfLockSession=0123456789abcdef012345678", "24 lower-case");
    assert_refused("hfProtocol=sharding&hfLockSession=0123456789abcdef0123456g", "24 lower-case");
    assert_refused("hfProtocol=sharding&hfLockSession=", "24 lower-case");
    assert_refused("hfProtocol=sharding&hfLockSession=000000000000000000000000", "not all 0");
}

static void test_keys_of_other_protocols(void **state)
{
    (void)state;
    assert_refused("hfProcess=x", "hfProcess is for hfProtocol=sharding, not for queue");
    assert_refused("hfLockSession=0123456789abcdef01234567", "hfLockSession is for hfProtocol=");
    assert_refused("hfTimeField=x", "hfTimeField is for hfProtocol=ttl document, not for queue");
    assert_refused("hfProtocol=ttl&hfTokenField=x", "hfTokenField is for hfProtocol=document");
    assert_refused("hfProtocol=document&hfPingMS=5", "hfPingMS is for hfProtocol=sharding");
}

/* ---- The text ---- */

static void test_percents(void **state)
{
    (void)state;
    static const char *const meant[][2] = {
        {"a%20b", "a b"}, {"%41%4a", "AJ"}, {"a%4gb", "a%4gb"}, {"a%00b", "a%00b"},
        {"a%", "a%"},     {"a%2", "a%2"},   {"%25%32", "%2"},   {"%C3%A4", "\xc3\xa4"}};
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++) {
        char keys[100];
        snprintf(keys, sizeof keys, "hfProtocol=sharding&hfProcess=%s", meant[i][0]);
        assert_read(keys);
        assert_string_equal(uri.process, meant[i][1]);
        mongo_uri_done(&uri);
    }
}

static void assert_driver_sees(const char *text, const char *rest)
{
    if (mongo_uri_read(text, &uri, &err))
        fail_msg("%s: %s", text, err.text);
    assert_string_equal(mongoc_uri_get_string(uri.driver), rest);
    mongo_uri_done(&uri);
}

static void test_the_driver_sees_the_rest(void **state)
{
    (void)state;
    assert_driver_sees("mongodb://a/app", "mongodb://a/app");
    assert_driver_sees("mongodb://a/app?hfProtocol=ttl", "mongodb://a/app");
    assert_driver_sees("mongodb://a/app?replicaSet=r&hfProtocol=ttl&appname=x",
                       "mongodb://a/app?replicaSet=r&appname=x");
    assert_driver_sees("mongodb://a/app?hfProtocol=ttl&replicaSet=r&appname=x&w=1",
                       "mongodb://a/app?replicaSet=r&appname=x&w=1");
    assert_driver_sees("mongodb://a/app?&replicaSet=r&&appname=x&",
                       "mongodb://a/app?replicaSet=r&appname=x");
    assert_driver_sees("mongodb://a/app?", "mongodb://a/app");
    assert_driver_sees("mongodb://a/app?appname=x@y@z&w=1",
                       "mongodb://a/app?appname=x%40y%40z&w=1");
}

static void assert_names(const char *text, const char *hosts, const char *database)
{
    if (mongo_uri_read(text, &uri, &err))
        fail_msg("%s: %s", text, err.text);
    assert_string_equal(uri.hosts, hosts);
    assert_string_equal(uri.database, database);
    mongo_uri_done(&uri);
}

static void test_hosts_and_databases(void **state)
{
    (void)state;
    assert_names("mongodb://a", "a:27017", "holdfast");
    assert_names("mongodb://a/", "a:27017", "holdfast");
    assert_names("mongodb://a/x", "a:27017", "x");
    assert_names("mongodb://a:1,b,c:3/?replicaSet=r", "a:1,b:27017,c:3", "holdfast");
}

static void assert_uri_refused(const char *text, const char *says)
{
    if (mongo_uri_read(text, &uri, &err) != HF_INVALID)
        fail_msg("%s is taken", text);
    if (!strstr(err.text, says))
        fail_msg("%s: %s", text, err.text);
}

/* Those that each member has for itself, that only users are in, or that MongoDB has for itself. */
static void test_databases_without_locks(void **state)
{
    (void)state;
    static const char *const protocols[] = {"queue", "ttl", "document&hfCollection=c", "sharding"};
    for (int i = 0; i < 4; i++) {
        char text[200];
        snprintf(text, sizeof text, "mongodb://a/local?replicaSet=r&hfProtocol=%s", protocols[i]);
        assert_uri_refused(text, "database local: it is not replicated");
        snprintf(text, sizeof text, "mongodb://a/%%6cocal?hfProtocol=%s", protocols[i]);
        assert_uri_refused(text, "database local");
        snprintf(text, sizeof text, "mongodb://u:p@a/admin?hfProtocol=%s", protocols[i]);
        assert_uri_refused(text, "?authSource=admin");
        snprintf(text, sizeof text, "mongodb://a/config?hfProtocol=%s", protocols[i]);
        if (i < 3)
            assert_uri_refused(text, "only hfProtocol=sharding locks there");
        else
            assert_names(text, "a:27017", "config");
    }
    assert_names("mongodb://a/locals", "a:27017", "locals");
    assert_names("mongodb://u:p@a/app?authSource=admin", "a:27017", "app");
}

/* A wrong sign before a key would silently lock elsewhere, with another protocol. */
static void test_a_wrong_sign_before_options(void **state)
{
    (void)state;
    static const char *const misplaced[] = {"mongodb://a,b,c/app&hfProtocol=ttl",
                                            "mongodb://a,b,c&hfProtocol=ttl",
                                            "mongodb://a/app;hfProtocol=ttl",
                                            "mongodb://a/app#hfProtocol=ttl",
                                            "mongodb://a/app?replicaSet=r;hfProtocol=ttl",
                                            "mongodb://a/app?replicaSet=r?hfProtocol=ttl",
                                            "mongodb://a/app?replicaSet=r&amp;hfProtocol=ttl"};
    for (size_t i = 0; i < sizeof misplaced / sizeof *misplaced; i++)
        assert_uri_refused(misplaced[i], "hfProtocol= is not among the options of the URI");
    assert_uri_refused("mongodb://a/app&hfPollMS=5", "hfPollMS= is not among");
    assert_uri_refused("mongodb://a/app&replicaSet=r", "options begin with ?");
    assert_uri_refused("mongodb://a/app%26x", "options begin with ?");
    assert_uri_refused("mongodb://a/app*", "choose another name");
    assert_uri_refused("mongodb://a/app%40b", "choose another name");
    assert_uri_refused(repeat("mongodb://a/", 'x', 64), "is too long");
    assert_driver_sees(repeat("mongodb://a/", 'x', 63), repeat("mongodb://a/", 'x', 63));
}

static void assert_ignores(const char *keys, const char *ignored)
{
    assert_read(keys);
    if (!ignored)
        assert_null(uri.ignored);
    else
        assert_string_equal(uri.ignored, ignored);
    mongo_uri_done(&uri);
}

static void test_options_without_effect(void **state)
{
    (void)state;
    assert_ignores("", NULL);
    assert_ignores("foo=1", "foo");
    assert_ignores("foo=1&replicaSet=r&wtimeout=5", "foo, wtimeout");
    assert_ignores("appName=x&ssl=true&tlsInsecure=true&w=majority&journal=true&wtimeoutMS=4"
                   "&readConcernLevel=majority&readPreference=primary&retryWrites=true"
                   "&connectTimeoutMS=500&serverSelectionTimeoutMS=5&loadBalanced=false"
                   "&directConnection=true&heartbeatFrequencyMS=500",
                   NULL);
    if (mongo_uri_read("mongodb://u:p@a/app?authMechanism=SCRAM-SHA-1&authSource=admin&foo=%40",
                       &uri, &err))
        fail_msg("%s", err.text);
    assert_string_equal(uri.ignored, "foo");
    mongo_uri_done(&uri);
    assert_ignores("compressors=bogus", "compressors=bogus");
    assert_ignores("compressors=zlib,,bogus", "compressors=bogus");
    assert_ignores("compressors=zlib", NULL);
}

/* The driver would take a part of it for a host, a port, a database or an option. */
static void test_signs_in_a_password(void **state)
{
    (void)state;
    static const char *const plain[] = {
        "mongodb://u:se@cret@a/app",        "mongodb://u:se/cret@a/app",
        "mongodb://u:12/cret@a/app?foo=1",  "mongodb://u:se?cret@a/app?replicaSet=r",
        "mongodb://u:se?cr=et@a/app",       "mongodb://u:se?hfcret@a/app",
        "mongodb+srv://u:se@cret@a.b.c/app"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        assert_int_equal(mongo_uri_read(plain[i], &uri, &err), HF_INVALID);
        assert_non_null(strstr(err.text, "write @ as %40"));
        if (strstr(err.text, "cr") || strstr(err.text, "12"))
            fail_msg("%s: %s", plain[i], err.text);
    }
    assert_uri_refused("mongodb://u:se:cret@a/app", "% as %25");
    static const char *const encoded[] = {
        "mongodb://u:a%40b%2Fc%3Fd%23e%3Af%25@a:27017/app", "mongodb://u:p@a:27017/app?appName=a@b",
        "mongodb://a:27017/app?appName=a@b", "mongodb://u:a#b@a:27017/app"};
    for (size_t i = 0; i < sizeof encoded / sizeof *encoded; i++)
        assert_names(encoded[i], "a:27017", "app");
}

/* The driver quotes what it cannot read. */
static void test_secrets_are_not_quoted(void **state)
{
    (void)state;
    static const char *const refused[] = {"mongodb://user:sec%zzret@a/app",
                                          "mongodb://u:secret@/app"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(mongo_uri_read(refused[i], &uri, &err), HF_INVALID);
        assert_non_null(strstr(err.text, "the MongoDB URI cannot be read: "));
        if (strstr(err.text, "sec") || strstr(err.text, "ret@"))
            fail_msg("%s: %s", refused[i], err.text);
    }
    assert_int_equal(mongo_uri_read("mongodb://u:sec@ret@a/app", &uri, &err), HF_INVALID);
    assert_non_null(strstr(err.text, "has another meaning there: write @ as %40"));
    assert_null(strstr(err.text, "ret"));
    static const char *const good[] = {
        "mongodb://u:p@a/app?appname=x@y", "mongodb://a/app?hfNamePrefix=a@b/",
        "mongodb://a/app?replicaSet=rs0&tlsCAFile=/home/x@corp.example/ca.pem"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(mongo_uri_read(good[i], &uri, &err), HF_OK);
        mongo_uri_done(&uri);
    }
    assert_int_equal(mongo_uri_read("mongodb://u:p@a/app?appname=%zz", &uri, &err), HF_INVALID);
    assert_non_null(strstr(err.text, "cannot be read: Value for URI option \"\""));
    assert_null(strstr(err.text, "appname"));
    assert_int_equal(mongo_uri_read("mongodb://a/app?appname=%zz", &uri, &err), HF_INVALID);
    assert_non_null(strstr(err.text, "URI option \"appname\" contains"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_protocols),
        cmocka_unit_test(test_a_name_prefix),
        cmocka_unit_test(test_yes_and_no),
        cmocka_unit_test(test_the_history),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_how_many_writes_a_stream_may_read),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_collections),
        cmocka_unit_test(test_names_of_queue),
        cmocka_unit_test(test_names_that_other_programs_know),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_numbers_that_are_not_given),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_lock_sessions),
        cmocka_unit_test(test_keys_of_other_protocols),
        cmocka_unit_test(test_percents),
        cmocka_unit_test(test_the_driver_sees_the_rest),
        cmocka_unit_test(test_hosts_and_databases),
        cmocka_unit_test(test_databases_without_locks),
        cmocka_unit_test(test_a_wrong_sign_before_options),
        cmocka_unit_test(test_options_without_effect),
        cmocka_unit_test(test_secrets_are_not_quoted),
        cmocka_unit_test(test_signs_in_a_password),
    };
    mongoc_init();
    mongoc_log_set_handler(NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
