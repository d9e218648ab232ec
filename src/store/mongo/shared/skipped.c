/* SPDX-License-Identifier: Apache-2.0 */
/* skipped.c: tells of the documents that a listing leaves out; called by list.c and, for sessions,
 * by queue/sessions.c. */
#include "store/mongo/shared/skipped.h"
#include "store/mongo/driver/log.h"

void mongo_skip(mongo_skipped *skipped, const hf_error *why)
{
    if (!skipped->n++)
        skipped->first = *why;
}

void mongo_skipped_tell(mongo_store *store, const mongo_skipped *skipped)
{
    if (skipped->n == 1)
        mongo_log(store, HF_LOG_WARNING, "%s", skipped->first.text);
    else if (skipped->n)
        mongo_log(store, HF_LOG_WARNING, "%s; %zu more are left out as well", skipped->first.text,
                  skipped->n - 1);
}
