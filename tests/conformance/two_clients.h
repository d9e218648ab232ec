/* SPDX-License-Identifier: Apache-2.0 */
/* two_clients.h: set_up and tear_down of the cases that two clients of the store play. */
#ifndef TESTS_CONFORMANCE_TWO_CLIENTS_H
#define TESTS_CONFORMANCE_TWO_CLIENTS_H

#include "conformance/bed.h"

static hf_client *one, *two;

static int set_up(void **state)
{
    (void)state;
    one = bed_client("one", 5000);
    two = bed_client("two", 5000);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hf_close(one);
    hf_close(two);
    return 0;
}

#endif
