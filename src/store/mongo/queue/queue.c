/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c: protocol `queue`: its state while a store is open, and the start of a step; the client
 * calls it through the store interface. */
#include "store/mongo/queue/queue.h"
#include "core/alloc.h"
#include "store/document.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/queue/batcher.h"
#include "store/mongo/queue/pipeline.h"
#include "store/mongo/queue/state.h"
#include "store/mongo/queue/sweep.h"
#include "store/mongo/queue/vouch.h"

hf_code mongo_step(hf_store *base, const char *name, const hf_step *step, hf_record *out,
                   hf_step_reply *reply, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    hf_step with = *step;
    hf_enter enter;
    hf_code code = mongo_ready(store, err);
    if (code && reply)
        *reply = (hf_step_reply){.confirmed = false};
    if (code)
        return code;
    if (step->enter) {
        enter = *step->enter;
        enter.entry.bell = mongo_bell_of(store, enter.entry.session);
        with.enter = &enter;
    }
    return mongo_batcher_step(store, name, &with, out, reply, err);
}

/* ---- The protocol ---- */

static hf_code read_record(mongo_store *store, const bson_t *doc, hf_record *out, hf_error *err)
{
    return document_to_record(doc, store->uri.collection, out, err);
}

static void open_protocol(mongo_store *store)
{
    store->queue = alloc_zeroed(sizeof *store->queue);
    mongo_find_boot(store->queue->boot);
    pipeline_init(&store->queue->texts);
    mongo_batcher_init(&store->queue->batcher);
}

static void close_protocol(mongo_store *store, bool is_ours)
{
    if (is_ours) {
        mongo_bell_listener_done(store);
        mongo_batcher_done(&store->queue->batcher);
        pipeline_done(&store->queue->texts);
    }
    mongo_sweep_done(store);
    free(store->queue);
}

const mongo_protocol mongo_queue = {
    .can = HF_CAN_SHARE | HF_CAN_QUEUE | HF_CAN_TOKENS | HF_CAN_NOTIFY | HF_CAN_SKEW |
           HF_CAN_PROCESSES,
    .open = open_protocol,
    .close = close_protocol,
    .read = read_record,
    .in_use = "{'$or': [{'holders.0': {'$exists': true}}, {'queue.0': {'$exists': true}}]}",
};
