/* SPDX-License-Identifier: Apache-2.0 */
/* names.h: the names of the collections. No other file spells one, but for `lockpings`, which is
 * MongoDB's. */
#ifndef STORE_MONGO_DRIVER_NAMES_H
#define STORE_MONGO_DRIVER_NAMES_H

#include <stdbool.h>

/* Collections that Holdfast keeps beside the one with the locks. */
typedef struct mongo_names {
    char *sessions; /* of protocol `queue`, as the next */
    char *bells;    /* what their names begin with; a dot and a number follow */
    char *history;
    char *done; /* how locks were left; of the other protocols */
} mongo_names;

/* Returns the name of the collection with the locks, which the caller frees. `given`: hfCollection,
 * or NULL. Protocol `queue` puts it before all names, so that none of them is one that an
 * application uses. With the other protocols, whose locks others know, it is the collection. */
char *mongo_names_init(mongo_names *names, const char *given, bool is_queue);
void mongo_names_done(mongo_names *names);

#endif
