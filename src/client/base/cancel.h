/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.h: the handle that ends a wait from another thread or from a signal handler. */
#ifndef CLIENT_BASE_CANCEL_H
#define CLIENT_BASE_CANCEL_H

#include <holdfast/store.h>

bool cancel_is_fired(const hf_cancel *cancel); /* NULL: no */
int cancel_fd(const hf_cancel *cancel);        /* readable once fired; -1 for NULL */

/* Pauses for ms milliseconds; returns whether it was cut short by the cancel. */
bool cancel_pause(const hf_env *env, const hf_cancel *cancel, int64_t ms);

#endif
