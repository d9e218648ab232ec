/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_internal.h: what the files of an attempt share. Each of these functions does one thing
 * and says when the attempt wants to be called again. */
#ifndef CLIENT_WAIT_ATTEMPT_INTERNAL_H
#define CLIENT_WAIT_ATTEMPT_INTERNAL_H

#include "client/wait/attempt.h"

/* attempt_end.c: how it ends. Gives back what it may have left in the record. */
hf_mono attempt_end(struct attempt *attempt, hf_code code); /* gives nothing back */
hf_mono attempt_give_up(struct attempt *attempt, hf_code code, hf_mono now);
hf_mono attempt_describe_held(struct attempt *attempt, hf_code code, hf_mono now);
hf_mono attempt_refuse_limit(struct attempt *attempt, hf_mono now);
hf_mono attempt_refuse_asked(struct attempt *attempt, const hf_ask *ask, hf_mono now);
hf_mono attempt_stopped(struct attempt *attempt, hf_code code, hf_mono now);
/* A call failed: an error that may pass is retried until patience ends. */
hf_mono attempt_failed(struct attempt *attempt, hf_code code, hf_mono now);
void attempt_succeeded(struct attempt *attempt);
/* It cannot ask before other threads have their answers. */
hf_mono attempt_await_others(struct attempt *attempt, hf_mono now);
/* Until when what it asks the store now is to be answered. */
hf_mono attempt_calls_end(const struct attempt *attempt, hf_mono now);
bool attempt_has_queue(const struct attempt *attempt);

/* attempt_look.c */
hf_code attempt_look(struct attempt *attempt, hf_stamp after);
/* Watches the sessions ahead. otherwise: when something else is due. */
hf_mono attempt_watch_ahead(struct attempt *attempt, hf_mono now, hf_mono otherwise);

/* attempt_outside.c */
hf_mono attempt_keep_out(struct attempt *attempt, hf_mono now); /* its enter was told BUSY */
hf_mono attempt_outside(struct attempt *attempt, hf_mono now);

/* attempt_enter.c */
hf_mono attempt_enter(struct attempt *attempt, hf_mono now);
/* Enter again, with a new ticket (L3): the old one is gone; or its session is, and it may stand. */
hf_mono attempt_start_anew(struct attempt *attempt, hf_mono now);
hf_mono attempt_start_over(struct attempt *attempt, hf_mono now);
/* An acknowledged answer or a look says that it was granted. Believes that only if the lease still
 * runs (R4). */
hf_mono attempt_believe(struct attempt *attempt, const hf_entry *entry, hf_mono now);
hf_mono attempt_after_look(struct attempt *attempt, hf_mono now); /* the next look; has the mutex */

#endif
