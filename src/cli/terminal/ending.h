/* SPDX-License-Identifier: Apache-2.0 */
/* ending.h: signals that end a program which draws on the terminal: first it restores that. */
#ifndef HOLDFAST_CLI_ENDING_H
#define HOLDFAST_CLI_ENDING_H

/* From here on SIGINT, SIGTERM, SIGHUP and SIGQUIT make the returned descriptor readable; not those
 * that were ignored when the program was started. Before any thread is started, so that all block
 * them. < 0: none can be had. */
int ending_open(void);

/* Ends this process by the signal that came, if one did. */
void ending_follow(int fd);

#endif
