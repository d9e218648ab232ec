/* SPDX-License-Identifier: Apache-2.0 */
/* env.h: this machine's clocks and randomness, for every client that was not given others. */
#ifndef CLIENT_BASE_ENV_H
#define CLIENT_BASE_ENV_H

#include <holdfast/store.h>

extern const hf_env env_linux;

#endif
