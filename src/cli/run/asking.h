/* SPDX-License-Identifier: Apache-2.0 */
/* asking.h: how a lock is asked for: the words that the verbs run and acquire share. */
#ifndef HOLDFAST_CLI_ASKING_H
#define HOLDFAST_CLI_ASKING_H

#include <argp.h>

#include <holdfast/holdfast.h>

#include "cli/settings/settings.h"
#include "cli/settings/status.h"

typedef struct asking {
    hf_mode mode;
    int32_t permits, limit; /* 0: no semaphore */
    int64_t wait_ms;        /* as in hf_lock_options */
    int refused_status;
    bool has_try, has_wait, is_shared, is_exclusive; /* said */
} asking;

#define ASKING_DEFAULT                                                                             \
    {                                                                                              \
        .wait_ms = HF_WAIT_DEFAULT, .refused_status = STATUS_NOT_ACQUIRED                          \
    }

/* A child for their parsers; its input is an asking. */
extern const struct argp asking_argp;

bool asking_is_alone(const asking *a); /* neither shared nor a semaphore */

/* What -n and -w left open is as the settings say. */
void asking_settle(asking *a, const settings *given);

#endif
