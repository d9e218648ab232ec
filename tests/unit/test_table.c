/* SPDX-License-Identifier: Apache-2.0 */
/* test_table.c: things are found by their hash, however many there are; run by ctest. */
#include "unit.h"

#include "core/table.h"

#define MANY 1000

struct thing {
    int number;
    struct table_node node;
};

static const struct thing *thing_of(const struct table_node *node)
{
    return node ? TABLE_OWNER(node, struct thing, node) : NULL;
}

static void test_an_empty_table_finds_nothing(void **state)
{
    (void)state;
    struct table table = {.n = 0};
    struct table_node never = {.next = NULL};
    assert_null(table_first(&table, 7));
    table_remove(&table, &never);
    assert_int_equal(table.n, 0);
    table_done(&table);
}

static void test_each_of_many_is_found_until_it_is_removed(void **state)
{
    (void)state;
    static struct thing things[MANY];
    struct table table = {.n = 0};
    for (int i = 0; i < MANY; i++) {
        things[i] = (struct thing){.number = i};
        table_add(&table, &things[i].node, (uint64_t)i * 16);
    }
    for (int i = 0; i < MANY; i += 2)
        table_remove(&table, &things[i].node);
    for (int i = 0; i < MANY; i++)
        assert_ptr_equal(thing_of(table_first(&table, (uint64_t)i * 16)),
                         i % 2 ? &things[i] : NULL);
    assert_int_equal(table.n, MANY / 2);
    table_done(&table);
}

/* In an order that does not change when the table grows. */
static void test_those_of_one_hash_come_the_last_first(void **state)
{
    (void)state;
    static struct thing things[MANY];
    struct table table = {.n = 0};
    for (int i = 0; i < MANY; i++) {
        things[i] = (struct thing){.number = i};
        table_add(&table, &things[i].node, (uint64_t)(i % 4));
    }
    for (uint64_t hash = 0; hash < 4; hash++) {
        int expected = MANY - 4 + (int)hash, n = 0;
        for (const struct table_node *at = table_first(&table, hash); at; at = table_next(at)) {
            assert_int_equal(thing_of(at)->number, expected);
            expected -= 4;
            n++;
        }
        assert_int_equal(n, MANY / 4);
    }
    table_done(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_table_finds_nothing),
        cmocka_unit_test(test_each_of_many_is_found_until_it_is_removed),
        cmocka_unit_test(test_those_of_one_hash_come_the_last_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
