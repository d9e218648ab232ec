/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h: the clock that leases run on. */
#ifndef HOLDFAST_CLI_CLOCK_H
#define HOLDFAST_CLI_CLOCK_H

#include <stdint.h>

/* CLOCK_BOOTTIME, as the lease. */
int64_t clock_boot_ms(void);

#endif
