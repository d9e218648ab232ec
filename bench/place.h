/* SPDX-License-Identifier: Apache-2.0 */
/* place.h: the store that is measured, and under which names the benchmark works there. Plain data,
 * so that it can be given to other processes. */
#ifndef BENCH_PLACE_H
#define BENCH_PLACE_H

#define PLACE_URI_MAX 4096
#define PLACE_NAME_MAX 128

struct place {
    enum { PLACE_MONGO, PLACE_SQLITE, PLACE_MEMORY } kind;
    char uri[PLACE_URI_MAX];
    char driver_uri[PLACE_URI_MAX]; /* MongoDB: without Holdfast's own keys */
    char database[PLACE_NAME_MAX];
    char first[PLACE_NAME_MAX]; /* what the names of the collections begin with */
    char path[PLACE_URI_MAX];   /* SQLite */
    char prefix[32];            /* of all names of ours; nobody else has it */
    char raw[PLACE_NAME_MAX];   /* the collection that is written by hand */
    char side[PLACE_NAME_MAX];  /* a database for the other protocols */
};

/* Fails for a URI that cannot be measured. */
void place_read(struct place *out, const char *uri);
void place_name(const struct place *place, const char *name, char out[PLACE_NAME_MAX]);
/* Where the loop that is written by hand keeps what it writes to SQLite: beside the locks. */
void place_raw_path(const struct place *place, char out[PLACE_URI_MAX]);
/* Removes all that was made there. */
void place_remove(const struct place *place);

#endif
