/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_scan.c: for how long members are awaited that were all asked at once. */
#include "unit.h"

#include "store/mongo/driver/scan.h"
#include "store/mongo/driver/text.h"

static mongo_scan scan;

static void ask_three(int64_t most_ms)
{
    mongo_scan_begin(&scan, most_ms);
    mongo_scan_asks(&scan, "a:1", 1000);
    mongo_scan_asks(&scan, "b:2", 1001);
    mongo_scan_asks(&scan, "c:3", 1002);
}

static void hear(const char *host, const char *text, int64_t now_ms)
{
    bson_t *hello = pipeline_json(text);
    mongo_scan_hears(&scan, host, hello, now_ms);
    bson_destroy(hello);
}

static int end(void **state)
{
    (void)state;
    mongo_scan_done(&scan);
    scan = (mongo_scan){.n = 0};
    return 0;
}

#define HOSTS "'hosts': ['a:1', 'b:2', 'c:3']"
#define PRIMARY "{'ok': 1, 'setName': 's', 'isWritablePrimary': true, 'me': 'a:1', " HOSTS "}"
#define SECONDARY "{'ok': 1, 'setName': 's', 'secondary': true, 'me': 'b:2'}"
#define NAMES_IT "{'ok': 1, 'setName': 's', 'secondary': true, 'me': 'b:2', 'primary': 'a:1'}"

static void test_the_primary_ends_it(void **state)
{
    (void)state;
    ask_three(4000);
    assert_int_equal(mongo_scan_ends_ms(&scan), 5000);
    hear("a:1", PRIMARY, 1010);
    assert_true(mongo_scan_ends_ms(&scan) <= 1010);
}

static void test_a_server_of_its_own_and_a_router_end_it(void **state)
{
    static const char *const hellos[] = {"{'ok': 1, 'ismaster': true}",
                                         "{'ok': 1, 'ismaster': true, 'msg': 'isdbgrid'}"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        ask_three(4000);
        hear("a:1", hellos[i], 1010);
        assert_true(mongo_scan_ends_ms(&scan) <= 1010);
    }
}

static void test_where_all_is_wanted_the_others_are_awaited(void **state)
{
    (void)state;
    scan.wants_all = true;
    ask_three(4000);
    hear("a:1", PRIMARY, 1010);
    assert_int_equal(mongo_scan_ends_ms(&scan), 1510);
}

static void test_a_primary_that_is_named_is_awaited(void **state)
{
    (void)state;
    ask_three(4000);
    hear("b:2", NAMES_IT, 1010);
    assert_int_equal(mongo_scan_ends_ms(&scan), 4000);
    ask_three(2000);
    hear("b:2", NAMES_IT, 1010);
    assert_int_equal(mongo_scan_ends_ms(&scan), 3000);
}

/* As in an election: who is silent is probably why there is one. */
static void test_without_a_name_the_silent_are_awaited_for_a_little(void **state)
{
    (void)state;
    ask_three(4000);
    hear("b:2", SECONDARY, 1010);
    assert_int_equal(mongo_scan_ends_ms(&scan), 1510);
    hear("c:3", SECONDARY, 1800); /* far away: so may be the other */
    assert_int_equal(mongo_scan_ends_ms(&scan), 3400);
}

static void test_the_doubted_one_does_not_end_it(void **state)
{
    (void)state;
    scan.doubted = "a:1";
    ask_three(4000);
    hear("b:2", NAMES_IT, 1010);
    assert_int_equal(mongo_scan_ends_ms(&scan), 1510);
    hear("a:1", PRIMARY, 1020);
    assert_int_equal(mongo_scan_ends_ms(&scan), 1520);
    hear("b:2", "{'ok': 1, 'setName': 's', 'isWritablePrimary': true, 'me': 'b:2', " HOSTS "}",
         1030);
    assert_true(mongo_scan_ends_ms(&scan) <= 1030);
}

/* As localhost:1, which the set calls a:1: the driver asks that. */
static void test_a_primary_of_another_name_is_asked_again(void **state)
{
    (void)state;
    scan.finds_set = true;
    mongo_scan_begin(&scan, 4000);
    mongo_scan_asks(&scan, "localhost:1", 1000);
    hear("localhost:1", PRIMARY, 1010);
    assert_int_equal(mongo_scan_ends_ms(&scan), 1510);
    mongo_scan_asks(&scan, "a:1", 1011);
    hear("a:1", PRIMARY, 1020);
    assert_true(mongo_scan_ends_ms(&scan) <= 1020);
}

static void test_what_belongs_to_no_set_or_another_is_passed_over(void **state)
{
    static const char *const hellos[] = {
        "{'ok': 1, 'ismaster': true}", "{'ok': 1, 'ismaster': true, 'msg': 'isdbgrid'}",
        "{'ok': 1, 'setName': 't', 'isWritablePrimary': true, 'me': 'a:1', " HOSTS "}"};
    (void)state;
    scan.finds_set = true;
    scan.set = "s";
    for (size_t i = 0; i < 3; i++) {
        ask_three(4000);
        hear("a:1", hellos[i], 1010);
        assert_int_equal(mongo_scan_ends_ms(&scan), 5000);
    }
    scan.set = NULL; /* routers are no set */
    ask_three(4000);
    hear("a:1", hellos[1], 1010);
    assert_true(mongo_scan_ends_ms(&scan) <= 1010);
}

static void test_a_server_that_ends_is_none(void **state)
{
    (void)state;
    ask_three(4000);
    hear("a:1", "{'ok': 0, 'code': 91, 'ismaster': true}", 1010);
    assert_int_equal(mongo_scan_ends_ms(&scan), 5000);
}

static void test_it_tells_what_each_said(void **state)
{
    char text[300];
    (void)state;
    ask_three(4000);
    hear("b:2", SECONDARY, 1010);
    mongo_scan_misses(&scan, "c:3", "refused");
    mongo_scan_misses(&scan, "c:3", "later");
    mongo_scan_tell(&scan, 2500, text, sizeof text);
    assert_string_equal(text, "a:1 is silent (1.5 s), b:2 is a secondary, c:3: refused");
    assert_true(mongo_scan_is_silent(&scan, "a:1"));
    assert_false(mongo_scan_is_silent(&scan, "b:2"));
    assert_false(mongo_scan_is_silent(&scan, "c:3"));
    mongo_scan_tell(&scan, 2500, text, 8);
    assert_string_equal(text, "a:1 is ");
}

static void test_a_certificate_that_does_not_verify(void **state)
{
    char text[200];
    (void)state;
    ask_three(4000);
    mongo_scan_misses(&scan, "a:1", "refused");
    assert_false(mongo_scan_is_untrusted(&scan));
    mongo_scan_distrusts(&scan, "b:2", "not verified");
    assert_true(mongo_scan_is_untrusted(&scan));
    mongo_scan_tell(&scan, 2500, text, sizeof text);
    assert_string_equal(text, "a:1: refused, b:2: not verified, c:3 is silent (1.5 s)");
    hear("c:3", SECONDARY, 1010); /* which may become the primary */
    assert_false(mongo_scan_is_untrusted(&scan));
    mongo_scan_distrusts(&scan, "c:3", "too late");
    assert_false(mongo_scan_is_untrusted(&scan));
}

#define TEST(name) cmocka_unit_test_teardown(name, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_primary_ends_it),
        TEST(test_a_server_of_its_own_and_a_router_end_it),
        TEST(test_where_all_is_wanted_the_others_are_awaited),
        TEST(test_a_primary_that_is_named_is_awaited),
        TEST(test_without_a_name_the_silent_are_awaited_for_a_little),
        TEST(test_the_doubted_one_does_not_end_it),
        TEST(test_a_primary_of_another_name_is_asked_again),
        TEST(test_what_belongs_to_no_set_or_another_is_passed_over),
        TEST(test_a_server_that_ends_is_none),
        TEST(test_it_tells_what_each_said),
        TEST(test_a_certificate_that_does_not_verify),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
