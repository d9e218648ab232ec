/* SPDX-License-Identifier: Apache-2.0 */
/* waiters.h: the local waiters: which ticket of this process waits, and what it was told. The
 * listener passes on notices; each waiter reads what it was told, and then looks for itself (L2).
 */
#ifndef CORE_WAITERS_H
#define CORE_WAITERS_H

#include <holdfast/store.h>

struct waiter {
    hf_id ticket;
    bool is_told;    /* look now, or: */
    int64_t token;   /* of its grant, once a notice has told; 0 */
    int32_t block;   /* of that */
    bool judges_now; /* look at the sessions ahead, too */
    hf_stamp stamp;  /* no earlier than this */
    hf_mono queued_at;
    size_t turns_ahead;  /* then: wait_estimate.h */
    hf_mono quiet_until; /* before that its grant is not expected */
    struct waiter *next, **link;
};

struct waiters {
    struct waiter *first;
};

void waiters_add(struct waiters *waiters, struct waiter *waiter);
void waiters_remove(struct waiter *waiter); /* one that is in no list is left alone */
struct waiter *waiters_find(const struct waiters *waiters, hf_id ticket);

/* There may be news: look, no earlier than the stamp. */
void waiter_tell(struct waiter *waiter, hf_stamp stamp);

/* Takes what was told; false when nothing was. */
bool waiter_take(struct waiter *waiter);

#endif
