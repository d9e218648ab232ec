/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c: estimates how fast the oplog grows; called by watch.c. See pace.h. */
#include "store/mongo/shared/pace.h"

#include <stdlib.h>

#define LATEST 3 /* seconds that show that it has become quiet */

void mongo_pace_note(mongo_pace *pace, hf_stamp stamp)
{
    uint32_t second = (uint32_t)(stamp.value >> 32), ordinal = (uint32_t)stamp.value;
    if (second < pace->second || !second)
        return;
    if (second > pace->second)
        pace->highest[pace->n++ % MONGO_PACE_SECONDS] = 0;
    pace->second = second;
    uint32_t *highest = &pace->highest[(pace->n - 1) % MONGO_PACE_SECONDS];
    if (ordinal > *highest)
        *highest = ordinal;
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Of the last n seconds. */
static int64_t median(const mongo_pace *pace, unsigned n)
{
    uint32_t sorted[MONGO_PACE_SECONDS];
    for (unsigned i = 0; i < n; i++)
        sorted[i] = pace->highest[(pace->n - 1 - i) % MONGO_PACE_SECONDS];
    qsort(sorted, n, sizeof *sorted, compare);
    return sorted[n / 2];
}

int64_t mongo_pace_writes(const mongo_pace *pace)
{
    if (pace->n < MONGO_PACE_SECONDS)
        return 0;
    int64_t long_run = median(pace, MONGO_PACE_SECONDS), latest = median(pace, LATEST);
    return 2 * (latest < long_run ? latest : long_run);
}
