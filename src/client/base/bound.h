/* SPDX-License-Identifier: Apache-2.0 */
/* bound.h: until when the store calls of a thread are waited for, while it does what somebody has
 * asked for. What a public call may take is one deadline, which begins when it is asked for; each
 * store call beneath gets what is left of it. Calls in the background have no bound. */
#ifndef CLIENT_BASE_BOUND_H
#define CLIENT_BASE_BOUND_H

#include <holdfast/store.h>

/* Own thread. */
struct bound {
    hf_bound of;
    hf_store *store; /* NULL: its calls cannot be bounded */
    hf_bound *outer;
};

/* Bounds the calls of the calling thread, from here to the end of the block, and then as before.
 * cancel: ends them, too; NULL: nothing does. */
#define BOUND_SCOPE(store, until, cancel)                                                          \
    struct bound scope_of_bound __attribute__((cleanup(bound_end), unused));                       \
    bound_begin(&scope_of_bound, store, until, cancel)
/* The same for what may read very much: each answer puts the end off, until so long after it. */
#define BOUND_SCOPE_OF_MANY(store, until, answer_ms)                                               \
    struct bound scope_of_bound __attribute__((cleanup(bound_end), unused));                       \
    bound_begin_of_many(&scope_of_bound, store, until, answer_ms)

void bound_begin(struct bound *bound, hf_store *store, hf_mono until, hf_cancel *cancel);
void bound_begin_of_many(struct bound *bound, hf_store *store, hf_mono until, int64_t answer_ms);
void bound_end(struct bound *bound);
/* Until when the calling thread's calls are waited for; MONO_NEVER: as long as they take. */
hf_mono bound_ends(void);

#endif
