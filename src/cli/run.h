/* SPDX-License-Identifier: Apache-2.0 */
/* run.h: what the parts of the verb run share: the plan that cmd_run.c reads from the words. */
#ifndef HOLDFAST_CLI_RUN_H
#define HOLDFAST_CLI_RUN_H

#include <stddef.h>

#include "child.h"
#include "cli.h"
#include "signals.h"

typedef struct plan {
    settings *given;
    char **names; /* in byte order */
    size_t n_names;
    char **command;
    hf_mode mode;
    int32_t permits, limit; /* 0: no semaphore */
    int64_t wait_ms;        /* as in hf_lock_options */
    const char *why;
    int refused_status, lost_status;
    int64_t grace_ms;              /* from SIGTERM to SIGKILL; -1: the default for the ttl */
    int64_t margin_ms;             /* from SIGKILL to the end of the lease */
    const struct once_words *once; /* --once-per; NULL: always */
    const struct health_words *health;
    const struct document_words *document; /* NULL: names of locks */
    struct document_round *round;          /* of --each */
} plan;

/* taking.c. Takes every name or none, in one of the library's waits after the other, while this
 * thread looks for signals. HF_CANCELLED: *signal came. */
hf_code taking_run(const plan *p, hf_client *client, signals *events, hf_lock **locks, int *signal,
                   hf_error *err);

/* watch.c. Until the child has ended: passes signals on to it, follows its stops, and stops it in
 * time when a lock is lost. Returns whether one was. */
bool watch_run(const plan *p, hf_lock **locks, child *c, char **environment, signals *events);

/* CLOCK_BOOTTIME, as the lease. */
int64_t run_now_ms(void);

#endif
