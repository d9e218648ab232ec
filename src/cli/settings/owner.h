/* SPDX-License-Identifier: Apache-2.0 */
/* owner.h: what listings show as the holder of what this command takes, and as the one that breaks
 * a lock. */
#ifndef HOLDFAST_CLI_OWNER_H
#define HOLDFAST_CLI_OWNER_H

/* "alice/nightly", for a program that this user runs; in new memory. Without the user if both do
 * not fit. */
char *owner_of(const char *program);

/* --owner TEXT; ends the program with a message if it cannot be shown. */
const char *owner_read(const char *text);

#endif
