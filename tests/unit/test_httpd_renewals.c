/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd_renewals.c: which leases followers of some locks are told of. Run by ctest. */
#include "unit.h"

#include <stdlib.h>

#include "httpd/renewals.h"
#include "show/json.h"

#define BEFORE_MS 1000
#define AFTER_MS 1500
#define A "a"
#define B "b"

static const hf_entry_info by_a = {.session = A}, by_b = {.session = B},
                           by_both[] = {{.session = A}, {.session = B}};

/* What a look found; the locks are not the listing's own. */
static listing listing_of(int64_t at_ms, hf_lock_info *locks, size_t n, int64_t a_ms, int64_t b_ms)
{
    json_t *leases = json_object_new();
    if (a_ms)
        json_put_number(leases, A, a_ms);
    if (b_ms)
        json_put_number(leases, B, b_ms);
    return (listing){.board = {.n = n, .locks = locks}, .leases = leases, .at_ms = at_ms};
}

/* As JSON, in memory that is overwritten; "": none. */
static const char *told(const listing *before, const listing *after, const char *prefix)
{
    static char text[200];
    text[0] = '\0';
    renewals *all = renewals_between(before, after);
    json_t *some = all ? renewals_of(all, prefix) : NULL;
    if (some) {
        char *dumped = json_dumps(some, JSON_COMPACT | JSON_SORT_KEYS);
        snprintf(text, sizeof text, "%s", dumped);
        free(dumped);
    }
    json_decref(some);
    renewals_free(all);
    return text;
}

static const char *told_of_one(int64_t was_ms, int64_t is_ms)
{
    hf_lock_info locks[] = {{.name = "x", .holders = &by_a, .n_holders = 1}};
    listing before = listing_of(BEFORE_MS, locks, 1, was_ms, 0);
    listing after = listing_of(AFTER_MS, locks, 1, is_ms, 0);
    const char *text = told(&before, &after, "");
    json_decref(before.leases);
    json_decref(after.leases);
    return text;
}

/* 500 ms have passed; what ends more than 300 ms later than it did was renewed. */
static void test_a_lease_that_was_renewed(void **state)
{
    (void)state;
    assert_string_equal(told_of_one(5000, 4500), "");
    assert_string_equal(told_of_one(5000, 4800), "");
    assert_string_equal(told_of_one(5000, 4801), "{\"a\":4801}");
    assert_string_equal(told_of_one(5000, 0), "");
    assert_string_equal(told_of_one(0, 1), "{\"a\":1}");
}

/* Also of waiters; each session once. */
static void test_of_some_locks_only(void **state)
{
    hf_lock_info locks[] = {{.name = "x/1", .holders = &by_a, .n_holders = 1},
                            {.name = "y/1", .holders = &by_b, .n_holders = 1},
                            {.name = "y/2", .queue = &by_b, .n_queue = 1},
                            {.name = "z", .holders = by_both, .n_holders = 2}};
    static const struct {
        const char *prefix, *told;
    } each[] = {{"", "{\"a\":9000,\"b\":8000}"},
                {"x", "{\"a\":9000}"},
                {"x/1", "{\"a\":9000}"},
                {"x/10", ""},
                {"w", ""},
                {"y/", "{\"b\":8000}"},
                {"y/2", "{\"b\":8000}"},
                {"z", "{\"a\":9000,\"b\":8000}"},
                {"zz", ""}};
    (void)state;
    listing before = listing_of(BEFORE_MS, locks, 4, 5000, 5000);
    listing after = listing_of(AFTER_MS, locks, 4, 9000, 8000);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        assert_string_equal(told(&before, &after, each[i].prefix), each[i].told);
    json_decref(before.leases);
    json_decref(after.leases);
}

/* A follower of that lock has not been told what is left of its lease. */
static void test_a_session_that_comes_to_another_lock(void **state)
{
    hf_lock_info had[] = {{.name = "x", .holders = &by_a, .n_holders = 1}, {.name = "y"}};
    hf_lock_info has[] = {{.name = "x", .holders = &by_a, .n_holders = 1},
                          {.name = "y", .queue = &by_a, .n_queue = 1},
                          {.name = "z", .holders = &by_a, .n_holders = 1}};
    (void)state;
    listing before = listing_of(BEFORE_MS, had, 2, 5000, 0);
    listing after = listing_of(AFTER_MS, has, 3, 4500, 0);
    assert_string_equal(told(&before, &after, "x"), "");
    assert_string_equal(told(&before, &after, "y"), "{\"a\":4500}");
    assert_string_equal(told(&before, &after, "z"), "{\"a\":4500}");
    json_decref(before.leases);
    json_decref(after.leases);
}

/* One that stood elsewhere in the same lock has not come to it. */
static void test_a_place_that_moves_up(void **state)
{
    hf_lock_info had[] = {{.name = "x", .holders = by_both, .n_holders = 2}};
    hf_lock_info has[] = {{.name = "x", .holders = &by_b, .n_holders = 1}};
    (void)state;
    listing before = listing_of(BEFORE_MS, had, 1, 5000, 5000);
    listing after = listing_of(AFTER_MS, has, 1, 0, 4500);
    assert_string_equal(told(&before, &after, ""), "");
    json_decref(before.leases);
    json_decref(after.leases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lease_that_was_renewed),
        cmocka_unit_test(test_of_some_locks_only),
        cmocka_unit_test(test_a_session_that_comes_to_another_lock),
        cmocka_unit_test(test_a_place_that_moves_up),
    };
    return cmocka_run_group_tests_name("httpd renewals", tests, NULL, NULL);
}
