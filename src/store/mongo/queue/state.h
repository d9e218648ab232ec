/* SPDX-License-Identifier: Apache-2.0 */
/* state.h: the state of protocol `queue` while a store is open. */
#ifndef STORE_MONGO_QUEUE_STATE_H
#define STORE_MONGO_QUEUE_STATE_H

#include "store/mongo/queue/batcher.h"
#include "store/mongo/queue/bell.h"
#include "store/mongo/queue/bell_listen.h"
#include "store/mongo/queue/pipeline.h"
#include "store/mongo/queue/sweep.h"
#include "store/mongo/queue/vouch.h"

typedef struct mongo_queue_state {
    char boot[MONGO_BOOT_MAX]; /* whose CLOCK_BOOTTIME is ours, constant; "": unknown */
    pipeline_texts texts;      /* has a mutex of its own, as the next */
    mongo_batcher batcher;
    mongo_bells bells; /* atomic */
    mongo_bell_listener listener;
    mongo_sweeping sweep; /* only the sweeping thread uses it */
} mongo_queue_state;

#endif
