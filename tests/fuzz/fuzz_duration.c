/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_duration.c: any text is a duration or is refused; what is read is within range, and reads
 * the same when it is written again. */
#include "duration.h"
#include "fuzz.h"

#include <inttypes.h>

#define LONGEST_MS (INT64_C(876000) * 3600 * 1000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), again[32];
    int64_t ms = -1, same = -1;
    const char *wrong = duration_parse(text, &ms);
    if (wrong) {
        MUST(wrong[0] && ms == -1);
    } else {
        MUST(ms >= 0 && ms <= LONGEST_MS + 3600000);
        snprintf(again, sizeof again, "%" PRId64 "ms", ms);
        MUST(ms > LONGEST_MS || (!duration_parse(again, &same) && same == ms));
    }
    free(text);
    return 0;
}
