/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd_late.c: what a service says of a lease by the time that its answer is made: how much
 * is left of it, whether it was renewed first, or that it is over. The clock on which leases run
 * stands still here. Run by ctest. */
#include "httpd_bed.h"

#include <time.h>

#include "httpd_library.h"

#define NOW_S 1000
#define TTL_MS 60000
#define JSON "Content-Type: application/json\r\n"

static hf_client *client;

int __real_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_clock_gettime(clockid_t id, struct timespec *out)
{
    if (id != CLOCK_BOOTTIME)
        return __real_clock_gettime(id, out);
    *out = (struct timespec){.tv_sec = NOW_S, .tv_nsec = 500000000};
    return 0;
}

static int64_t in_ms(int64_t ms)
{
    return NOW_S * INT64_C(1000000000) + 500000000 + ms * 1000000;
}

static int begin(void **state)
{
    hf_error err;
    (void)state;
    assert_int_equal(hf_open("memory:", NULL, &client, &err), HF_OK);
    library = (struct library){.n_locks = 0};
    const httpd_config config = bed_config(client);
    bed_serve(&config);
    return 0;
}

static int end(void **state)
{
    (void)state;
    bed_stop();
    hf_close(client);
    return 0;
}

/* Takes a lease with so much left when it is answered. */
static const char *take(int64_t left_ms)
{
    library.ends_at_ns = in_ms(left_ms);
    return bed_ask("POST /v1/locks/x", JSON, "{\"ttl_ms\":60000}");
}

static void assert_left(const char *answer, int64_t left_ms)
{
    assert_says(answer, 201, "\"ttl_ms\":60000");
    assert_true(bed_number(answer, "\"expires_in_ms\":") == (double)left_ms);
}

static void test_what_is_left_is_told(void **state)
{
    (void)state;
    assert_left(take(TTL_MS - 1), TTL_MS - 1);
    assert_int_equal(library.n_renewals, 0);
}

/* The library's lease is gone when the answer is made: the service has its own. */
static void test_what_is_told_of_the_holder_before_is_kept(void **state)
{
    (void)state;
    library.has_previous = true;
    const char *answer = take(TTL_MS - 1);
    assert_says(answer, 201, "\"outcome\":\"abandoned\",\"who\":\"the one before\"");
    assert_non_null(strstr(answer, "\"reason\":\"it died\""));
    assert_non_null(strstr(answer, "\"who\":\"the first\""));
    assert_null(strstr(answer, "another"));
}

static void test_half_of_it_is_enough(void **state)
{
    (void)state;
    assert_left(take(TTL_MS / 2), TTL_MS / 2);
    assert_int_equal(library.n_renewals, 0);
}

static void test_with_less_it_is_renewed_first(void **state)
{
    (void)state;
    library.renewed_till = in_ms(TTL_MS - 5);
    assert_left(take(TTL_MS / 2 - 1), TTL_MS - 5);
    assert_int_equal(library.n_renewals, 1);
}

static void test_one_that_cannot_be_renewed_is_told_while_it_lasts(void **state)
{
    (void)state;
    library.renew_code = HF_UNREACHABLE;
    assert_left(take(2), 2);
    assert_int_equal(library.n_renewals, 1);
}

static void test_one_that_is_lost_is_not_told(void **state)
{
    (void)state;
    library.renew_code = HF_LOST;
    const char *answer = take(TTL_MS / 4);
    assert_says(answer, 410, "\"detail\":\"not renewed\"");
    assert_non_null(strstr(answer, "\"retryable\":false"));
}

static void test_one_that_is_over_is_not_told(void **state)
{
    (void)state;
    library.renew_code = HF_UNREACHABLE;
    assert_says(take(0), 503, "\"detail\":\"not renewed\"");
}

/* It was renewed, but its answer is late again. */
static void test_one_that_is_over_once_more_is_asked_for_again(void **state)
{
    (void)state;
    library.renewed_till = in_ms(-1000);
    const char *answer = take(5);
    assert_says(answer, 504, "the lease ran out before it could be answered: ask again");
    assert_non_null(strstr(answer, "\"retryable\":true"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_left_is_told),
        TEST(test_what_is_told_of_the_holder_before_is_kept),
        TEST(test_half_of_it_is_enough),
        TEST(test_with_less_it_is_renewed_first),
        TEST(test_one_that_cannot_be_renewed_is_told_while_it_lasts),
        TEST(test_one_that_is_lost_is_not_told),
        TEST(test_one_that_is_over_is_not_told),
        TEST(test_one_that_is_over_once_more_is_asked_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
