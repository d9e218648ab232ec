/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_schemes.c: stores that a program registers, and records and sessions as bytes. */
#include "unit.h"

#include <holdfast/store.h>

#include <stdlib.h>
#include <string.h>

static char opened[64];

static hf_code open_none(const char *rest, const hf_store_config *config, hf_store **out,
                         hf_error *err)
{
    (void)config;
    (void)out;
    snprintf(opened, sizeof opened, "%s", rest);
    return hf_store_fail(err, HF_UNUSABLE, "none: %s is never there", rest);
}

static hf_code add(const char *scheme, int version, hf_error *err)
{
    return hf_store_register(scheme, version, open_none, err);
}

static void test_it_is_opened_with_the_rest_of_the_uri(void **state)
{
    (void)state;
    hf_error err;
    hf_client *client;
    assert_int_equal(add("none+1", HF_STORE_VERSION, &err), HF_OK);
    assert_int_equal(hf_open("none+1:a/b:c?d", NULL, &client, &err), HF_UNUSABLE);
    assert_string_equal(opened, "a/b:c?d");
    assert_string_equal(err.text, "none: a/b:c?d is never there");
}

static void test_what_is_refused(void **state)
{
    (void)state;
    hf_error err;
    static const char *const bad[] = {
        "", "1x", "X", "a b", "a:", "+x", "abcdefghijklmnopqrstuvwxyzabcdefg"};
    static const char *const known[] = {"memory", "sqlite", "mongodb", "mongodb+srv", "twice"};
    assert_int_equal(add("twice", HF_STORE_VERSION, &err), HF_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(add(bad[i], HF_STORE_VERSION, &err), HF_INVALID);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(add(known[i], HF_STORE_VERSION, &err), HF_INVALID);
        assert_non_null(strstr(err.text, "known already"));
    }
}

static void test_a_store_of_another_version_is_refused(void **state)
{
    (void)state;
    hf_error err;
    assert_int_equal(add("newer", HF_STORE_VERSION + 1, &err), HF_INVALID);
    assert_non_null(strstr(err.text, "compile it anew"));
}

static void test_schemes_that_are_none_of_ours(void **state)
{
    (void)state;
    hf_error err;
    hf_client *client;
    assert_int_equal(add("prefix", HF_STORE_VERSION, &err), HF_OK);
    static const char *const uris[] = {"prefi:x", "prefixx:x", "prefix", ":x", ""};
    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++)
        assert_int_equal(hf_open(uris[i], NULL, &client, &err), HF_INVALID);
}

static void test_a_record_comes_back(void **state)
{
    (void)state;
    hf_error err;
    hf_record record, again;
    const hf_enter enter = {.entry = {.ticket = {{1}}, .session = {{2}}, .ttl_ms = 5, .permits = 1},
                            .limit = 1,
                            .queue_max = HF_QUEUE_MAX};
    const hf_step step = {.enter = &enter};
    void *bytes;
    size_t n;
    hf_record_init(&record, "x");
    assert_true(hf_record_makes(&step));
    assert_true(hf_record_step(&record, &step, (hf_dbtime){1000}, 7));
    hf_record_write(&record, &bytes, &n);
    assert_int_equal(hf_record_read(bytes, n, "here", &again, &err), HF_OK);
    assert_string_equal(again.name, "x");
    assert_int_equal(again.token, record.token);
    assert_int_equal(again.holders, 1);
    assert_int_equal(hf_record_read(bytes, n - 1, "here", &again, &err), HF_SHAPE);
    assert_int_equal(hf_record_read(NULL, 0, "here", &again, &err), HF_SHAPE);
    hf_record_done(&again);
    hf_record_done(&record);
    free(bytes);
}

static void test_a_session_comes_back(void **state)
{
    (void)state;
    hf_error err;
    hf_session_state again,
        self = {.session = {.id = {{3}}, .ttl_ms = 9000, .pid = 5, .app = "a", .host = "h"},
                .presence = HF_DEAD,
                .beat = 4,
                .n_asked = 1,
                .asked = {{.ticket = {{6}}, .by = "me", .reason = "why"}}};
    void *bytes;
    size_t n;
    hf_state_write(&self, &bytes, &n);
    assert_int_equal(hf_state_read(bytes, n, "here", &again, &err), HF_OK);
    assert_memory_equal(&again.session.id, &self.session.id, sizeof(hf_id));
    assert_int_equal(again.presence, HF_DEAD);
    assert_int_equal(again.beat, 4);
    assert_int_equal(again.session.pid, 5);
    assert_int_equal(again.n_asked, 1);
    assert_string_equal(again.asked[0].reason, "why");
    assert_int_equal(hf_state_read("?", 1, "here", &again, &err), HF_SHAPE);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_opened_with_the_rest_of_the_uri),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_a_store_of_another_version_is_refused),
        cmocka_unit_test(test_schemes_that_are_none_of_ours),
        cmocka_unit_test(test_a_record_comes_back),
        cmocka_unit_test(test_a_session_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
