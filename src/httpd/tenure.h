/* SPDX-License-Identifier: Apache-2.0 */
/* tenure.h: since when leases are had, and until when they were renewed, as far as this service has
 * seen it: for metrics only. Another replica may have taken them, or a newer one their place here.
 */
#ifndef HTTPD_TENURE_H
#define HTTPD_TENURE_H

#include <pthread.h>
#include <stdint.h>

#include <holdfast/holdfast.h>

#define TENURES 4096

typedef struct tenure {
    uint64_t lease;           /* a hash of its id; 0: none */
    int64_t since_us, end_us; /* had; ends */
} tenure;

typedef struct tenures {
    pthread_mutex_t mutex;
    tenure all[TENURES];
} tenures;

void tenures_init(tenures *t);
void tenures_done(tenures *t);

/* It was granted now. */
void tenures_begin(tenures *t, const hf_lease *lease);

/* It was renewed now: how much of it was left, in us, or -1: that is not known. */
int64_t tenures_renew(tenures *t, const char *id, int64_t left_ms);

/* It was released now: for how long it was had, in us, or -1. */
int64_t tenures_end(tenures *t, const char *id);

#endif
