/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.h: a step as the text of a MongoDB update pipeline; step.c and batch.c send it. */
#ifndef STORE_MONGO_QUEUE_PIPELINE_H
#define STORE_MONGO_QUEUE_PIPELINE_H

#include "store/bson.h"

#include <holdfast/store.h>
#include <pthread.h>

/* Where the floor of tokens comes from. */
typedef enum pipeline_clock {
    PIPELINE_CLUSTER, /* cluster time, second and increment: server 5.1 and later */
    PIPELINE_SECONDS, /* cluster time, second only: older servers have no $tsIncrement */
    PIPELINE_WALL,    /* the server's clock: a standalone has no cluster time */
} pipeline_clock;

#define PIPELINE_VARIANTS 32768

/* The texts made so far. They contain nothing from outside, so each is made once. */
typedef struct pipeline_texts {
    pthread_mutex_t mutex; /* the next */
    bson_t *made[PIPELINE_VARIANTS];
} pipeline_texts;

void pipeline_init(pipeline_texts *texts); /* all of it is 0 */
void pipeline_done(pipeline_texts *texts);

/* Appends to `command`, as the array `field`, the pipeline that does to a document what
 * record_step() does to a record. A document of another shape is left as it is. Any thread. */
void pipeline_append(pipeline_texts *texts, pipeline_clock clock, const char *name,
                     const hf_step *step, bson_t *command, const char *field);

/* A step on the lock of that name. */
typedef struct pipeline_item {
    const char *name;
    const hf_step *step;
} pipeline_item;

/* Steps with the same value have the same text. */
size_t pipeline_text(pipeline_clock clock, const hf_step *step);

/* One pipeline for an update of several documents, one per item. Their steps have the same text, so
 * the server parses it only once. */
void pipeline_append_each(pipeline_texts *texts, pipeline_clock clock, const pipeline_item *items,
                          size_t n, bson_t *command, const char *field);

/* A pipeline that changes none of these documents. Each item is a leave; the server reports an
 * error if its ticket is not in its document. */
void pipeline_append_demand(const pipeline_item *items, size_t n, bson_t *command,
                            const char *field);

#endif
