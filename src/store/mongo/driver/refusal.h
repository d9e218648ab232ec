/* SPDX-License-Identifier: Apache-2.0 */
/* refusal.h: whether a server that refuses an authentication is to be believed. */
#ifndef STORE_MONGO_DRIVER_REFUSAL_H
#define STORE_MONGO_DRIVER_REFUSAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Any thread. */
typedef struct mongo_refusal {
    atomic_int_least64_t first_ms; /* the first since a command succeeded; 0: there was none */
} mongo_refusal;

/* An authentication is refused now, by CLOCK_MONOTONIC. A server that is just starting or ending
 * refuses all; so only a refusal that is given again, after a pause, judges. */
bool mongo_refusal_judges(mongo_refusal *refusal, int64_t now_ms);
/* A command has succeeded. */
void mongo_refusal_forget(mongo_refusal *refusal);

#endif
