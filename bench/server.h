/* SPDX-License-Identifier: Apache-2.0 */
/* server.h: what a MongoDB server has counted: the commands that reached the primary, and what went
 * into the oplog of the database that the locks are in. */
#ifndef BENCH_SERVER_H
#define BENCH_SERVER_H

#include <stdint.h>

#include "place.h"
#include "series.h"
#include "table.h"

struct server;

/* NULL where it cannot be had; *why is then in words. */
struct server *server_open(const struct place *place, const char **why);
void server_close(struct server *from);

typedef struct counts {
    int64_t ns;
    double writes;                    /* findAndModify, update, insert, delete */
    double reads;                     /* find, aggregate */
    double primary_ms, others_ms;     /* processor time of the servers, since they were started */
    double connections, resident_mib; /* of the primary, now */
    uint32_t seconds, increment;      /* the cluster's time */
} counts;

counts server_count(struct server *from);

/* What one thing costs, in each run. */
struct costs {
    series writes, reads, entries, bytes; /* the last two: of the oplog */
    series primary_ms, others_ms;         /* processor time */
};

/* Adds what was counted between two moments, divided by n. */
void server_add(struct server *from, const counts *before, const counts *after, double n,
                struct costs *out);
/* The same, less what was counted in another stretch of time, in proportion to its length. */
void server_add_less(struct server *from, const counts *before, const counts *after,
                     const counts *idle_before, const counts *idle_after, double n,
                     struct costs *out);
/* Rows, whose goal is for the write commands; `from` NULL: one, that says why. */
void server_rows(const struct server *from, const char *why, const struct costs *of, goal aim,
                 const char *what);

#endif
