/* SPDX-License-Identifier: Apache-2.0 */
/* hold_times.h: since when leases are held, and until when they were renewed, as far as this
 * service saw it; for metrics only. Another service may have taken a lease, or a newer lease may
 * have its place here.
 */
#ifndef HTTPD_HOLD_TIMES_H
#define HTTPD_HOLD_TIMES_H

#include <pthread.h>
#include <stdint.h>

#include <holdfast/holdfast.h>

#define HOLD_TIMES 4096

typedef struct hold_time {
    uint64_t lease;           /* a hash of its id; 0: none */
    int64_t since_us, end_us; /* had; ends */
} hold_time;

typedef struct hold_times {
    pthread_mutex_t mutex;
    hold_time all[HOLD_TIMES];
} hold_times;

void hold_times_init(hold_times *t);
void hold_times_done(hold_times *t);

/* It was granted now. */
void hold_times_begin(hold_times *t, const hf_lease *lease);

/* It was renewed now. Returns what was left of it, in us; -1: not known. */
int64_t hold_times_renew(hold_times *t, const char *id, int64_t left_ms);

/* It was released, or found lost, now. Returns for how long it was held, in us; -1: not known, or
 * it had run out before. */
int64_t hold_times_end(hold_times *t, const char *id);

#endif
