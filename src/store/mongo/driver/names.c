/* SPDX-License-Identifier: Apache-2.0 */
/* names.c: names the collections; called by uri.c. */
#include "store/mongo/driver/names.h"
#include "core/alloc.h"

#include <stdio.h>

static char *join(const char *first, const char *last)
{
    size_t size = strlen(first) + 1 + strlen(last) + 1;
    char *name = alloc_array(NULL, size, 1);
    snprintf(name, size, "%s.%s", first, last);
    return name;
}

char *mongo_names_init(mongo_names *names, const char *given, bool is_queue)
{
    const char *first = given ? given : is_queue ? "holdfast" : "locks";
    *names = (mongo_names){.sessions = join(first, "sessions"),
                           .bells = join(first, "bells"),
                           .history = join(first, "history"),
                           .done = join(first, "done")};
    return is_queue ? join(first, "locks") : alloc_text(first);
}

void mongo_names_done(mongo_names *names)
{
    free(names->sessions);
    free(names->bells);
    free(names->history);
    free(names->done);
}
