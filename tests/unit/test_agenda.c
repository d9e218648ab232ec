/* SPDX-License-Identifier: Apache-2.0 */
/* test_agenda.c: proves what the agenda says is due, with times as arguments; run by ctest. */
#include "unit.h"

#include "core/agenda.h"
#include "core/lease.h"

static void test_nothing_is_due_at_first(void **state)
{
    (void)state;
    struct agenda agenda;
    agenda_init(&agenda);
    assert_int_equal(agenda_due(&agenda).ns, MONO_NEVER.ns);
    for (unsigned job = 0; job < AGENDA_JOBS; job++)
        assert_false(agenda_take(&agenda, job, at_ms(1000000000)));
}

static void test_the_earliest_is_due_first(void **state)
{
    (void)state;
    struct agenda agenda;
    agenda_init(&agenda);
    agenda_set(&agenda, 0, at_ms(30));
    agenda_set(&agenda, AGENDA_JOBS - 1, at_ms(10));
    assert_int_equal(agenda_due(&agenda).ns, at_ms(10).ns);
    agenda_set(&agenda, AGENDA_JOBS - 1, MONO_NEVER);
    assert_int_equal(agenda_due(&agenda).ns, at_ms(30).ns);
}

static void test_take_takes_off_once_and_only_when_due(void **state)
{
    (void)state;
    struct agenda agenda;
    agenda_init(&agenda);
    agenda_set(&agenda, 2, at_ms(10));
    assert_false(agenda_take(&agenda, 2, at_ms(9)));
    assert_false(agenda_take(&agenda, 1, at_ms(10)));
    assert_true(agenda_take(&agenda, 2, at_ms(10)));
    assert_false(agenda_take(&agenda, 2, at_ms(11)));
    assert_int_equal(agenda_due(&agenda).ns, MONO_NEVER.ns);
}

static void test_advance_never_puts_off(void **state)
{
    (void)state;
    struct agenda agenda;
    agenda_init(&agenda);
    agenda_advance(&agenda, 3, at_ms(20));
    agenda_advance(&agenda, 3, at_ms(30));
    assert_int_equal(agenda_due(&agenda).ns, at_ms(20).ns);
    agenda_advance(&agenda, 3, at_ms(5));
    assert_int_equal(agenda_due(&agenda).ns, at_ms(5).ns);
    agenda_set(&agenda, 3, at_ms(40));
    assert_int_equal(agenda_due(&agenda).ns, at_ms(40).ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_due_at_first),
        cmocka_unit_test(test_the_earliest_is_due_first),
        cmocka_unit_test(test_take_takes_off_once_and_only_when_due),
        cmocka_unit_test(test_advance_never_puts_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
