/* SPDX-License-Identifier: Apache-2.0 */
/* guardian.h: the guardian of this command: a copy of it that is made while it is small and has one
 * thread, which costs less than running the command anew. */
#ifndef HOLDFAST_CLI_GUARDIAN_H
#define HOLDFAST_CLI_GUARDIAN_H

/* What the list of processes shows of the guardian takes the place of these words. Call it first.
 */
void guardian_note_words(int argc, char **argv);

/* Starts one before the store is opened; gives what hf_options.guardian wants, in memory of its own
 * that stays. If that fails, the command is run anew instead. */
const char *guardian_fork(void);

#endif
