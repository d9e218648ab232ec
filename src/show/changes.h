/* SPDX-License-Identifier: Apache-2.0 */
/* changes.h: what happened between two looks at the locks. */
#ifndef SHOW_CHANGES_H
#define SHOW_CHANGES_H

#include "show/board.h"

typedef enum change_kind {
    CHANGE_WAIT,    /* it waits */
    CHANGE_GRANT,   /* it holds */
    CHANGE_RELEASE, /* it has released what it held */
    CHANGE_LOSS,    /* it has lost what it held, or died */
    CHANGE_GAVE_UP, /* it waits no more, and was not served */
    CHANGE_LEFT, /* it waits no more, and may have been served or not: several were served between
                  * two looks */
} change_kind;

typedef struct change {
    change_kind kind;
    const char *name; /* of the lock */
    hf_entry_info entry;
    int64_t at_ms;       /* as near as is known */
    const hf_last *last; /* of this one: how it left; NULL where that is not known */
    bool was_there;      /* found by the first look */
} change;

const char *change_name(change_kind kind); /* "grant" */

typedef void change_fn(void *ctx, const change *change);

/* Calls `each` for everything that is in only one of `now` and `was`; was->at_ms 0: for everything
 * in `now`. */
void changes_tell(const board *was, const board *now, change_fn *each, void *ctx);

#endif
