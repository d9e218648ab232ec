/* SPDX-License-Identifier: Apache-2.0 */
/* httpd_clock.h: the service's clock in the hands of a test. It stands still until the test sets
 * it. A thread that sleeps until some time sleeps until the test wakes it, or until somebody
 * signals its condition. Link httpd_clock.c, and let the linker wrap clock_gettime,
 * pthread_cond_clockwait and pthread_cond_broadcast. */
#ifndef TESTS_HTTPD_CLOCK_H
#define TESTS_HTTPD_CLOCK_H

#include <pthread.h>
#include <stdint.h>

void clock_set(int64_t ms);
int64_t clock_get(void);

/* Waits until a thread sleeps on this condition; returns until when it does, in ms. */
int64_t clock_await_sleep(const pthread_cond_t *on);

/* Sets the clock to this time, and wakes the thread that sleeps on this condition. */
void clock_wake(const pthread_cond_t *on, int64_t at_ms);

#endif
