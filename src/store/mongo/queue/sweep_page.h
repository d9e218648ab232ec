/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_page.h: a page of records, as a sweep looks at them. */
#ifndef STORE_MONGO_QUEUE_SWEEP_PAGE_H
#define STORE_MONGO_QUEUE_SWEEP_PAGE_H

#include "store/mongo/driver/command.h"

#define SWEEP_PAGE 500
#define SWEEP_TAKEN_MOST 100 /* records from which a part takes tickets out */

/* A row of a page: views of the reply, which live as long as it. */
typedef struct sweep_row {
    bson_t doc;
    size_t first, n; /* of the page's sessions: those that hold and wait */
    bool is_taken;   /* one of them is dead */
} sweep_row;

typedef struct sweep_page {
    mongo_reply reply;
    sweep_row rows[SWEEP_PAGE];
    size_t n_rows;
    hf_id *sessions;
    size_t n_sessions;
    hf_death *dead; /* those that are marked, in the order of their ids */
    size_t n_dead;
    bool is_last;
} sweep_page;

/* Reads the next page behind store->queue->sweep.after, and which of its sessions are dead. It
 * begins all zero; free it in any case. */
hf_code sweep_page_read(mongo_store *store, sweep_page *to, hf_error *err);
void sweep_page_free(sweep_page *done);
/* NULL: it is not marked. */
const hf_death *sweep_page_dead(const sweep_page *in, hf_id session);

#endif
