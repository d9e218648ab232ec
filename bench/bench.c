/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c: time and failing; see bench.h. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

_Noreturn void fail(int status, const char *doing, const char *text)
{
    fflush(stdout);
    fprintf(stderr, "holdfast bench: %s: %s\n", doing, text);
    exit(status);
}

void must(hf_code code, const hf_error *err)
{
    if (code)
        fail(hf_code_exit(code), hf_code_text(code), err->text);
}

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void pause_ms(int64_t ms)
{
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0)
        continue;
}
