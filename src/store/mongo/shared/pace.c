/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c: estimates how fast the oplog grows; called by watch.c and doctor.c. See pace.h. */
#include "store/mongo/shared/pace.h"

#include <stdlib.h>
#include <string.h>

#define FEWEST 3

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

int64_t mongo_pace_writes(const mongo_pace *pace)
{
    uint32_t sorted[MONGO_PACE_SECONDS];
    size_t n = pace->n < MONGO_PACE_SECONDS ? pace->n : MONGO_PACE_SECONDS;
    if (n < FEWEST)
        return 0;
    memcpy(sorted, pace->highest, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    return 2 * (int64_t)sorted[n / 2];
}
