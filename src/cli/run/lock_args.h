/* SPDX-License-Identifier: Apache-2.0 */
/* lock_args.h: the options for a lock, which the verbs run and acquire share. */
#ifndef HOLDFAST_CLI_LOCK_ARGS_H
#define HOLDFAST_CLI_LOCK_ARGS_H

#include <argp.h>

#include <holdfast/holdfast.h>

#include "cli/settings/settings.h"
#include "cli/settings/status.h"

typedef struct lock_args {
    hf_mode mode;
    int32_t permits, limit;           /* 0: no semaphore */
    int64_t wait_ms;                  /* as in hf_lock_options */
    int refused_status, least_status; /* -E, and the least that it may be */
    bool has_try, has_wait, is_shared, is_exclusive, sets_limit; /* said */
} lock_args;

#define LOCK_ARGS_DEFAULT                                                                          \
    {                                                                                              \
        .wait_ms = HF_WAIT_DEFAULT, .refused_status = STATUS_NOT_ACQUIRED                          \
    }

/* A child for their parsers; its input is a lock_args. */
extern const struct argp lock_args_argp;

bool lock_args_is_alone(const lock_args *args); /* neither shared nor a semaphore */

/* If neither -n nor -w was given, the settings decide. */
void lock_args_settle(lock_args *args, const settings *given);

#endif
