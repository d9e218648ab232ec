/* SPDX-License-Identifier: Apache-2.0 */
/* test_open.c: which store a URI means, and how one is refused that means none: named, but without
 * what may be a password. */
#include "unit.h"

static hf_code try_open(const char *uri, hf_store **out, hf_error *err)
{
    static const hf_env env;
    static const hf_store_config config = {.ttl_ms = 10000, .env = &env};
    int64_t patience_ms;
    return hf_store_open(uri, &config, out, &patience_ms, err);
}

static void test_what_is_refused_is_named_without_its_secrets(void **state)
{
    (void)state;
    static const char *const refused[][2] = {
        {"foo", "store \"foo\": no such scheme"},
        {"", "store \"\": no such scheme"},
        {"foo:bar", "store \"foo:bar\": no such scheme"},
        {"foo://host/db?password=secret", "store \"foo://host/db\": no such scheme"},
        {"foo://user:secret@host/db?w=1", "store \"foo://host/db\": no such scheme"},
        {"foo://user:sec@ret@host", "store \"foo://host\": no such scheme"},
        {"secret@host:1/db", "store \"host:1/db\": no such scheme"},
        {"Memory:", "store \"Memory:\": no such scheme"},
        {"mongo://host", "store \"mongo://host\": no such scheme"},
        {"mongodb:host", "store \"mongodb:host\": no such scheme"},
        {"sqlite:", "store \"sqlite:\": no path given"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        hf_error err;
        hf_store *store;
        assert_int_equal(try_open(refused[i][0], &store, &err), HF_INVALID);
        if (strncmp(err.text, refused[i][1], strlen(refused[i][1])) != 0)
            fail_msg("%s: %s, not %s", refused[i][0], err.text, refused[i][1]);
        assert_non_null(strstr(err.text, "known are sqlite:PATH, memory:"));
        assert_null(strstr(err.text, "secret"));
    }
}

static void test_none_is_refused(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store;
    assert_int_equal(try_open(NULL, &store, &err), HF_INVALID);
    assert_non_null(strstr(err.text, "no store given"));
}

static void test_the_scheme_says_which(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store;
    assert_int_equal(try_open("memory:name", &store, &err), HF_OK);
    assert_string_equal(store->ops->scheme, "memory");
    store->ops->close(store);
    assert_int_equal(try_open("sqlite::memory:", &store, &err), HF_INVALID);
    assert_non_null(strstr(err.text, "is no path of a database"));
}

/* Refused for its option, by the store that knows what options are. */
static void test_both_schemes_of_mongodb_are_its_own(void **state)
{
    (void)state;
    static const char *const uris[] = {"mongodb://host/?hfNoSuch=1",
                                       "mongodb+srv://host.example.com/?hfNoSuch=1"};
    for (size_t i = 0; i < 2; i++) {
        hf_error err;
        hf_store *store;
        assert_int_equal(try_open(uris[i], &store, &err), HF_INVALID);
        assert_null(strstr(err.text, "no such scheme"));
        assert_non_null(strstr(err.text, "hfNoSuch"));
    }
}

/* As the store reads it, whatever the URI's text is like. */
static void test_a_client_tells_its_protocol(void **state)
{
    (void)state;
    static const char *const uris[][2] = {
        {"memory:", "queue"},
        {"mongodb://host/app", "queue"},
        {"mongodb://host/app?hfProtocol=ttl", "ttl"},
        {"mongodb://host/app?hfProtocol=%64ocument&hfCollection=jobs", "document"},
        {"mongodb://host/app?hfProtocol=sharding", "sharding"},
    };
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        hf_error err;
        hf_client *client;
        if (hf_open(uris[i][0], NULL, &client, &err))
            fail_msg("%s: %s", uris[i][0], err.text);
        assert_string_equal(hf_client_protocol(client), uris[i][1]);
        hf_close(client);
    }
}

static void test_a_client_of_no_server_has_the_short_default(void **state)
{
    static const char *const uris[] = {"memory:", "sqlite:/x.db", "nosuch:", NULL};
    (void)state;
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++)
        assert_int_equal(hf_default_ttl_ms(uris[i]), 10000);
}

/* A stop margin has to fit the store's default, not that of another. */
static void test_a_stop_margin_fits_the_default(void **state)
{
    static const hf_options options = {.stop_margin_ms = 20000}, more = {.stop_margin_ms = 20001};
    hf_client *client;
    hf_error err;
    (void)state;
    assert_int_equal(hf_open("mongodb://host/app", &more, &client, &err), HF_INVALID);
    assert_non_null(strstr(err.text, "does not fit a ttl of 40000 ms"));
    assert_int_equal(hf_open("mongodb://host/app", &options, &client, &err), HF_OK);
    hf_close(client);
}

static void test_the_prefix_of_names(void **state)
{
    (void)state;
    const char *uri = "mongodb://host/app?hfProtocol=document&hfCollection=jobs";
    const hf_options shop = {.name_prefix = "shop/"};
    hf_lock *lock;
    hf_client *client;
    hf_error err;
    assert_int_equal(hf_open(uri, &shop, &client, &err), HF_INVALID);
    assert_non_null(strstr(err.text, "the name prefix shop/: protocol document"));
    assert_int_equal(hf_open("memory:", &shop, &client, &err), HF_OK);
    assert_int_equal(hf_lock_acquire(client, "x", NULL, &lock, &err), HF_OK);
    assert_string_equal(hf_lock_name(lock), "x");
    assert_int_equal(hf_unlock_all(client, "a process", NULL, &err), HF_UNSUPPORTED);
    assert_non_null(strstr(err.text, "hfProtocol=sharding has"));
    assert_int_equal(hf_unlock_all(client, "", NULL, &err), HF_INVALID);
    hf_lock_close(lock);
    hf_close(client);
}

static bool see_none(void *ctx, const hf_lock_info *info)
{
    (void)ctx;
    (void)info;
    return false;
}

static void test_lock_session_ids_are_refused_where_locks_have_none(void **state)
{
    (void)state;
    static const char id[] = "0123456789abcdef01234567";
    const char *uris[] = {"memory:", "mongodb://host/app?hfProtocol=ttl"};
    const hf_lock_options options = {.lock_session = id};
    const hf_list_options part = {.lock_session = id};
    hf_lock *lock;
    hf_client *client;
    hf_error err;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(hf_open(uris[i], NULL, &client, &err), HF_OK);
        assert_int_equal(hf_lock_acquire(client, "x", &options, &lock, &err), HF_UNSUPPORTED);
        assert_non_null(strstr(err.text, "has no lock session ids: hfProtocol=sharding has them"));
        assert_int_equal(hf_unlock_session(client, id, NULL, NULL, &err), HF_UNSUPPORTED);
        assert_int_equal(hf_list_locks(client, &part, see_none, NULL, &err), HF_UNSUPPORTED);
        hf_close(client);
    }
}

static void test_lock_session_ids_are_checked(void **state)
{
    (void)state;
    const char *bad[] = {"", "0123456789abcdef0123456", "0123456789abcdef012345678",
                         "0123456789abcdef0123456x", "000000000000000000000000"};
    hf_lock *lock;
    hf_client *client;
    hf_error err;
    assert_int_equal(hf_open("mongodb://host/app?hfProtocol=sharding", NULL, &client, &err), HF_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const hf_lock_options options = {.lock_session = bad[i]};
        assert_int_equal(hf_lock_acquire(client, "x", &options, &lock, &err), HF_INVALID);
        assert_non_null(strstr(err.text, "24 lower-case hexadecimal digits, not all 0"));
        assert_int_equal(hf_unlock_session(client, bad[i], NULL, NULL, &err), HF_INVALID);
    }
    assert_int_equal(hf_unlock_session(client, NULL, NULL, NULL, &err), HF_INVALID);
    assert_int_equal(hf_unlock_session(client, "0123456789abcdef01234567", "", NULL, &err),
                     HF_INVALID);
    hf_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_client_of_no_server_has_the_short_default),
        cmocka_unit_test(test_a_stop_margin_fits_the_default),
        cmocka_unit_test(test_the_prefix_of_names),
        cmocka_unit_test(test_lock_session_ids_are_refused_where_locks_have_none),
        cmocka_unit_test(test_lock_session_ids_are_checked),
        cmocka_unit_test(test_what_is_refused_is_named_without_its_secrets),
        cmocka_unit_test(test_none_is_refused),
        cmocka_unit_test(test_the_scheme_says_which),
        cmocka_unit_test(test_both_schemes_of_mongodb_are_its_own),
        cmocka_unit_test(test_a_client_tells_its_protocol),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
