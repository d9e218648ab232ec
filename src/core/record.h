/* SPDX-License-Identifier: Apache-2.0 */
/* record.h: a lock's record and the one step that changes it. The client reads records with it;
 * the stores memory and sqlite apply steps with it; the mongo store writes the same as a pipeline.
 */
#ifndef CORE_RECORD_H
#define CORE_RECORD_H

#include <holdfast/store.h>

/* A record of that name that does not exist yet. */
void record_init(hf_record *record, const char *name);

/* Frees what the record points to; takes one that is all zero. */
void record_done(hf_record *record);

/* A deep copy; `to` is overwritten. */
void record_copy(hf_record *to, const hf_record *from);

/* Appends an entry behind the holders (as_holder; nobody may wait yet) or to the queue: for stores
 * that read a record back. */
void record_append(hf_record *record, const hf_entry *entry, bool as_holder);

/* Puts an entry into the queue, behind all that have no higher number. */
void record_insert(hf_record *record, const hf_entry *entry);

/* Whether the step makes a record where there is none. */
bool record_makes(const hf_step *step);

/* What the entrant itself must be for the step to set the record's limit. */
bool record_sets_limit(const hf_enter *enter);

/* How far the tokens of a record may lag behind the floor: the tokens of one second. */
#define RECORD_LAG ((int64_t)1 << 20)

/* Applies the edits (leaves, deaths, a change, a pass), grants, judges the entrant, and grants once
 * more. now: the store's clock. floor: what its clock of tokens shows, which rises by at least one
 * a step. A new record's tokens begin there, others are at most RECORD_LAG below, and no block
 * reaches beyond: so the tokens of a record that is lost are below those of the one that comes
 * after it. Returns whether anything was changed. */
bool record_step(hf_record *record, const hf_step *step, hf_dbtime now, int64_t floor);

/* The same. *news says what the step has to tell to which session, or is NULL; it lives until the
 * record changes. */
bool record_step_telling(hf_record *record, const hf_step *step, hf_dbtime now, int64_t floor,
                         const char **news);

/* What a record says about a ticket that entered. */
typedef enum record_verdict {
    RECORD_HOLDS,
    RECORD_WAITS,
    RECORD_HELD,  /* try only: taken by others */
    RECORD_BUSY,  /* the queue is full, or others wait outside: take a number, or come back */
    RECORD_LIMIT, /* in use with another limit */
    RECORD_GONE,  /* it should be there, and is not */
} record_verdict;

/* Reads the verdict from the record after the step that `enter` was part of. */
record_verdict record_judge(const hf_record *record, const hf_enter *enter);

/* Whether a listing gives this record; and the first name, by bytes, that it may give. */
bool record_is_listed(const hf_record *record, const hf_list_part *part);
const char *record_first_listed(const hf_list_part *part);

/* The entry of a ticket, or NULL. */
const hf_entry *record_find(const hf_record *record, hf_id ticket);

/* 0 for a holder, 1 for the head of the queue, and so on; entry must be the record's own. */
size_t record_position(const hf_record *record, const hf_entry *entry);

/* How many more may enter the queue, of those whose turn it is. */
int64_t record_places(const hf_record *record, int32_t queue_max);
/* The highest number that has a place. */
int64_t record_called(const hf_record *record, int32_t queue_max);

/* Whether the entrant may come into the queue, or in at once: it has a number and there is a place
 * for all before it, or it has none and nobody waits outside. */
bool record_has_place(const hf_record *record, const hf_enter *enter);

/* The floor of tokens from a wall clock, for stores that have no cluster time. Below 2^53 until the
 * year 2242, and on the scale of a cluster time: that of the same second is no higher, but for the
 * writes in it. */
int64_t record_floor_of(hf_dbtime now);

#endif
