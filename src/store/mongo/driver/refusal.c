/* SPDX-License-Identifier: Apache-2.0 */
/* refusal.c: remembers when an authentication was refused first; fault.c asks. */
#include "store/mongo/driver/refusal.h"

#define PAUSE_MS 300    /* a wrong password is told within a second */
#define FORGET_MS 10000 /* what was refused so long ago says nothing of a refusal now */

bool mongo_refusal_judges(mongo_refusal *refusal, int64_t now_ms)
{
    int64_t first_ms = atomic_load(&refusal->first_ms);
    if (first_ms && now_ms - first_ms < FORGET_MS)
        return now_ms - first_ms >= PAUSE_MS;
    atomic_store(&refusal->first_ms, now_ms);
    return false;
}

void mongo_refusal_forget(mongo_refusal *refusal)
{
    atomic_store(&refusal->first_ms, 0);
}
