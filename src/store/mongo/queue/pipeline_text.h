/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_text.h: the expression for each kind of step; pipeline.c says which kind a step is. */
#ifndef STORE_MONGO_QUEUE_PIPELINE_TEXT_H
#define STORE_MONGO_QUEUE_PIPELINE_TEXT_H

#include "store/bson.h"

/* The tickets that leave: none, that of the only leave, or those of several leaves or deaths. */
typedef enum pipeline_edit {
    PIPELINE_EDITS_NONE,
    PIPELINE_EDITS_ONE,
    PIPELINE_EDITS_MANY
} pipeline_edit;

typedef enum pipeline_enter {
    PIPELINE_ENTERS_NOT,
    PIPELINE_WAITS,
    PIPELINE_WANTS_NUMBER, /* waits, or takes one */
    PIPELINE_HAS_NUMBER,   /* waits, if it is its turn */
    PIPELINE_TRIES,
    PIPELINE_UPGRADES,
    PIPELINE_IS_REFUSED /* whatever the record is */
} pipeline_enter;

typedef enum pipeline_floor {
    PIPELINE_FLOOR_CLUSTER, /* the first three as in pipeline_clock */
    PIPELINE_FLOOR_SECONDS,
    PIPELINE_FLOOR_WALL,
    PIPELINE_FLOOR_GIVEN
} pipeline_floor;

/* Everything that the text depends on. The rest of a step is in the values. */
typedef struct pipeline_variant {
    pipeline_edit edit;
    pipeline_enter enter;
    pipeline_floor floor;
    bool has_now, has_last, has_used, has_done, has_change, has_pass, has_block, sets_limit;
} pipeline_variant;

/* The caller's to destroy. */
bson_t *pipeline_make(const pipeline_variant *variant);

#endif
