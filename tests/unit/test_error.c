/* SPDX-License-Identifier: Apache-2.0 */
/* test_error.c: proves the error table and how an hf_error is filled; run by ctest. */
#include "unit.h"

#include "core/error.h"

static const hf_code codes[] = {
#define X(name, number, text, http, exit_status, retryable) name,
    HF_CODE_TABLE(X)
#undef X
};
#define N_CODES (sizeof codes / sizeof codes[0])

static void test_numbers_are_dense_and_every_code_has_its_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CODES; i++) {
        assert_int_equal(codes[i], i);
        assert_int_equal(strncmp(hf_code_name(codes[i]), "HF_", 3), 0);
        assert_true(hf_code_text(codes[i])[0] != '\0');
        assert_in_range(hf_code_http(codes[i]), 200, 599);
        assert_in_range(hf_code_exit(codes[i]), 0, 76);
    }
}

static void test_some_rows_by_heart(void **state)
{
    (void)state;
    assert_string_equal(hf_code_name(HF_HELD), "HF_HELD");
    assert_string_equal(hf_code_text(HF_HELD), "held by another");
    assert_int_equal(hf_code_exit(HF_HELD), 75);
    assert_int_equal(hf_code_exit(HF_LOST), 76);
    assert_int_equal(hf_code_exit(HF_UNREACHABLE), 69);
    assert_int_equal(hf_code_exit(HF_INVALID), 65);
    assert_int_equal(hf_code_http(HF_NOT_FOUND), 404);
    assert_true(hf_code_retryable(HF_UNKNOWN));
    assert_false(hf_code_retryable(HF_LIMIT));
}

static void test_a_number_outside_is_an_internal_error(void **state)
{
    (void)state;
    assert_string_equal(hf_code_name((hf_code)N_CODES), "HF_INTERNAL");
    assert_int_equal(hf_code_exit((hf_code)9999), hf_code_exit(HF_INTERNAL));
}

static void test_set_fills_and_returns(void **state)
{
    (void)state;
    hf_error err = {0};
    assert_int_equal(error_set(&err, HF_LIMIT, "lock \"%s\": %d", "a", 7), HF_LIMIT);
    assert_int_equal(err.code, HF_LIMIT);
    assert_false(err.retryable);
    assert_string_equal(err.text, "lock \"a\": 7");
    assert_int_equal(error_set(&err, HF_HELD, "x"), HF_HELD);
    assert_true(err.retryable);
    assert_int_equal(error_set(NULL, HF_HELD, "x"), HF_HELD);
}

static void test_long_text_is_cut(void **state)
{
    (void)state;
    char longer[2 * sizeof((hf_error *)0)->text];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    hf_error err;
    error_set(&err, HF_INVALID, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void test_clear_says_ok(void **state)
{
    (void)state;
    hf_error err;
    error_set(&err, HF_INVALID, "x");
    error_clear(&err);
    error_clear(NULL);
    assert_int_equal(err.code, HF_OK);
    assert_string_equal(err.text, "");
}

static void test_version(void **state)
{
    (void)state;
    assert_string_equal(hf_version(), HF_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_dense_and_every_code_has_its_row),
        cmocka_unit_test(test_some_rows_by_heart),
        cmocka_unit_test(test_a_number_outside_is_an_internal_error),
        cmocka_unit_test(test_set_fills_and_returns),
        cmocka_unit_test(test_long_text_is_cut),
        cmocka_unit_test(test_clear_says_ok),
        cmocka_unit_test(test_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
