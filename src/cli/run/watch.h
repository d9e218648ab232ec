/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h: what is done while the command runs under its locks. */
#ifndef HOLDFAST_CLI_WATCH_H
#define HOLDFAST_CLI_WATCH_H

#include "child.h"
#include "plan.h"

/* Until the child has ended: passes signals on to it, follows its stops, and stops it in time if a
 * lock is lost. Returns whether a lock was lost. */
bool watch_run(const plan *p, hf_lock **locks, child *c, char **environment, signals *events);

#endif
