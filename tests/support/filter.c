/* SPDX-License-Identifier: Apache-2.0 */
/* filter.c: HOLDFAST_TEST_FILTER=text runs only those tests of a program that have the text in
 * their name; part of every test program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void choose_tests(void)
{
    static char pattern[256];
    const char *part = getenv("HOLDFAST_TEST_FILTER");
    if (!part)
        return;
    snprintf(pattern, sizeof pattern, "*%s*", part);
    cmocka_set_test_filter(pattern);
}
