/* SPDX-License-Identifier: Apache-2.0 */
/* host.h: what identifies this host's CLOCK_BOOTTIME; stores ask once, at opening. */
#ifndef STORE_HOST_H
#define STORE_HOST_H

#include <stdbool.h>
#include <stddef.h>

#define HOST_BOOT_ID "/proc/sys/kernel/random/boot_id"
#define HOST_CLOCK_SIZE 48

/* Reads the first line of a small file; what is too long for out is cut. False: there is none. */
bool host_read_line(const char *path, char *out, size_t size);

/* Names the clock within one boot: processes with the same boot id and the same name read the same
 * CLOCK_BOOTTIME. "": it could not be found out, and no other process can be relied on to have
 * the same. */
void host_read_clock(char out[HOST_CLOCK_SIZE]);

#endif
