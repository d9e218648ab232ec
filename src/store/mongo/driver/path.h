/* SPDX-License-Identifier: Apache-2.0 */
/* path.h: the value at a dotted path. */
#ifndef STORE_MONGO_DRIVER_PATH_H
#define STORE_MONGO_DRIVER_PATH_H

#include "store/bson.h"
#include "store/mongo/driver/builder.h"

#include <stdbool.h>

/* A document's value at a path; false: there is none. */
bool mongo_path_find(const bson_t *doc, const char *path, bson_iter_t *out);
/* The same in updatedFields of a change event, where keys are paths of the field or of a parent.
 */
bool mongo_path_find_updated(const bson_t *fields, const char *path, bson_iter_t *out);
/* The stages of a change stream that tells of changes of the field at a path with dots. */
bson_t *mongo_path_filter(const char *path);
/* Appends each parent of a path, a and a.b of a.b.c, between two texts. */
void mongo_path_parents(mongo_builder *out, const char *path, const char *before,
                        const char *after);

#endif
