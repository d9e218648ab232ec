/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.c: finds a verb in the table of the verbs. */
#include "verbs.h"

#include <string.h>

const verb *verb_named(const verb *table, const char *name)
{
    for (const verb *v = table; v->name; v++)
        if (!strcmp(name, v->name))
            return v;
    return NULL;
}
