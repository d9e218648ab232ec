/* SPDX-License-Identifier: Apache-2.0 */
/* idle.h: a clock that slows down with the machine, for checks that something was not waited for.
 */
#ifndef TESTS_SUPPORT_IDLE_H
#define TESTS_SUPPORT_IDLE_H

#include <stdint.h>

/* Milliseconds, by a clock that is slower the later this machine lets a thread run: what takes a
 * second by it would take an idle machine about that, however busy this one is. What must be over
 * before a lease is goes by the real clock. */
int64_t idle_ms(void);

#endif
