/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h: what a fuzzer gives: one input, as libFuzzer or replay.c calls it. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A claim about the parser; an assert that says which. */
#define MUST(claim)                                                                                \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim);                    \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* The input as a text; the caller frees it. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    MUST(text);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

#endif
