/* SPDX-License-Identifier: Apache-2.0 */
/* mutant.h: which mistake is made; included by the copies of the sources that tools/mutate and
 * tests/planted/planted.py write. HOLDFAST_MUTANT is the mistake's number. HOLDFAST_MUTANT_SEEN
 * names a file with a byte for each number, which becomes 1 when a place that could make that
 * mistake is reached. */
#ifndef TESTS_MUTANT_H
#define TESTS_MUTANT_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static int mutant_chosen = -1;
static unsigned char *mutant_seen;

static void mutant_map(const char *path)
{
    FILE *file = fopen(path, "r+e"); /* not open(): a source may call a function of its own so */
    if (!file)                       /* a test's program may run as somebody who may not */
        return;
    if (fseek(file, 0, SEEK_END))
        abort();
    mutant_seen =
        mmap(NULL, (size_t)ftell(file), PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    fclose(file);
    if (mutant_seen == MAP_FAILED)
        abort();
}

__attribute__((constructor(101))) static void mutant_choose(void)
{
    const char *number = getenv("HOLDFAST_MUTANT");
    const char *seen = getenv("HOLDFAST_MUTANT_SEEN");
    if (number)
        mutant_chosen = atoi(number);
    if (seen)
        mutant_map(seen);
}

static inline int mutant(int number)
{
    if (mutant_seen)
        mutant_seen[number] = 1;
    return mutant_chosen == number;
}

#endif
