/* SPDX-License-Identifier: Apache-2.0 */
/* unit.h: what the unit tests build their cases from: numbered ids and times in milliseconds. */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <holdfast/store.h>

static inline hf_id id_of(unsigned n)
{
    return (hf_id){{(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n}};
}

static inline hf_mono at_ms(int64_t ms)
{
    return (hf_mono){ms * 1000000};
}

/* A seed of its own for each run, or the one to be run again; printed, so that it can be. */
static inline uint64_t test_seed(const char *test)
{
    const char *given = getenv("HOLDFAST_TEST_SEED");
    int here;
    uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)(uintptr_t)&here / 16;
    print_message("%s: HOLDFAST_TEST_SEED=%llu\n", test, (unsigned long long)seed);
    return seed;
}

/* xorshift64*: numbers that are the same for the same seed everywhere. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1DULL >> 11;
}

#endif
