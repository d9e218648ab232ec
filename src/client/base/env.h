/* SPDX-License-Identifier: Apache-2.0 */
/* env.h: this machine's clocks and randomness, for every client that was not given others. */
#ifndef CLIENT_BASE_ENV_H
#define CLIENT_BASE_ENV_H

#include <holdfast/store.h>
#include <time.h>

extern const hf_env env_linux;

/* So many milliseconds from now, by CLOCK_MONOTONIC: for threads that sleep on a condition or a
 * semaphore. These sleeps are this machine's own, whatever clock the client was given. */
struct timespec env_deadline(int64_t ms);

#endif
