/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h: what the parts of the benchmark share: what is asked of them, time, and failing. Each
 * part measures one matter on the store that it is told, and adds rows to the table (table.h). */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <holdfast/holdfast.h>
#include <sysexits.h>

#include <stdint.h>

#include "place.h"

#define SEASON_MS 1100 /* then a new lock's tokens have room for local turns and lingering */

struct bench {
    struct place place;
    int runs;            /* how often each figure is measured */
    int crowd_s;         /* how long the crowd takes its turns */
    int clients;         /* so many wait at the service */
    const char *command; /* the path of `holdfast`, or NULL */
};

typedef void part_fn(const struct bench *bench);

part_fn measure_pairs, measure_threads, measure_handover, measure_work, measure_heartbeat,
    measure_crowd, measure_recovery, measure_waiting, measure_process, measure_protocols,
    measure_busy, measure_service;

_Noreturn void fail(int status, const char *doing, const char *text); /* sysexits.h */
void must(hf_code code, const hf_error *err);

int64_t now_ns(void);
void pause_ms(int64_t ms);

/* Of the store that is measured; ttl_ms 0: the default. */
hf_client *client_open(const struct place *place, int64_t ttl_ms);
/* Rows that say how those who wait are told on this store, as the doctor finds. */
void client_notices_rows(const struct place *place);
/* Takes a lock of the benchmark's own (place_name()), for ever if need be. */
hf_lock *client_acquire(hf_client *client, const struct place *place, const char *name);

#endif
