/* SPDX-License-Identifier: Apache-2.0 */
/* raw.h: what we are measured against: writes by hand, with the driver's defaults and as durable
 * as ours (a majority's journal; for SQLite a transaction each). A connection is one thread's. */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <stdbool.h>

#include "place.h"

struct raw;

bool raw_is_there(const struct place *place); /* not for memory: */

/* Ends the program if this user may not write by hand, or not remove what was written: before
 * anything is measured. Other troubles are told by what is measured. */
void raw_check_rights(const struct place *place);

struct raw *raw_open(const struct place *place);
void raw_connect(struct raw *on); /* otherwise the first write does */
void raw_close(struct raw *on);

void raw_put(struct raw *on, int id);     /* upsert */
bool raw_try(struct raw *on, int id);     /* insert; false: it is there already */
void raw_put_many(struct raw *on, int n); /* n upserts, acknowledged by one server; MongoDB */
void raw_remove(struct raw *on, int id);  /* delete */

#endif
