/* SPDX-License-Identifier: Apache-2.0 */
/* test_opening.c: what a URI and the options say of one client, and what it is
 * opened in; run by ctest. */
#include "client/client_bed.h"

#include <unistd.h>

#define SET "mongodb://192.0.2.1/?replicaSet=rs0"

static int64_t patience_of(const char *uri, int64_t own_ms)
{
    hf_client *client;
    hf_error err;
    const hf_options options = {.patience_ms = own_ms};
    assert_int_equal(hf_open(uri, &options, &client, &err), HF_OK);
    int64_t ms = client->patience_ms;
    hf_close(client);
    return ms;
}

static void test_a_uri_says_how_patient_a_client_is(void **state)
{
    (void)state;
    assert_int_equal(patience_of(SET "&serverSelectionTimeoutMS=1234", 0), 1234);
    assert_int_equal(patience_of(SET "&serverSelectionTimeoutMS=1", 0), 1);
}

static void test_options_say_it_before_the_uri(void **state)
{
    (void)state;
    assert_int_equal(patience_of(SET "&serverSelectionTimeoutMS=1234", 77), 77);
    assert_int_equal(patience_of("memory:", 77), 77);
}

static void test_where_nobody_says_it_holdfast_h_does(void **state)
{
    (void)state;
    assert_int_equal(patience_of(SET, 0), 30000);
    assert_int_equal(patience_of("memory:", 0), 30000);
}

/* Then its descriptor is the first that the library opens. */
static void test_a_program_may_have_closed_its_standard_input(void **state)
{
    (void)state;
    hf_client *client = open_client("memory:no-input", 10000);
    int input = dup(STDIN_FILENO);
    close(STDIN_FILENO);
    hf_lock *lock = take(client, "x");
    hf_lock_close(lock);
    hf_close(client);
    dup2(input, STDIN_FILENO);
    close(input);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_uri_says_how_patient_a_client_is),
        cmocka_unit_test(test_options_say_it_before_the_uri),
        cmocka_unit_test(test_where_nobody_says_it_holdfast_h_does),
        cmocka_unit_test(test_a_program_may_have_closed_its_standard_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
