/* SPDX-License-Identifier: Apache-2.0 */
/* mongo_transcript.h: writes down every command that a store of mongo_answers.h sends, and what its
 * calls give back, and compares all of it with a file in tests/golden/sent. With
 * HOLDFAST_TEST_WRITE=1 the files are written anew instead. */
#ifndef TESTS_FAULTS_MONGO_TRANSCRIPT_H
#define TESTS_FAULTS_MONGO_TRANSCRIPT_H

#include "faults/mongo_answers.h"

/* From now on, beginning with nothing. Its functions are those of one test at a time. */
void transcript_begin(void);
/* A line of the test's own. */
void transcript_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What a call gave back. */
void transcript_code(hf_code code, const hf_error *err);
void transcript_record(const hf_record *record); /* its document as well */
void transcript_reply(const hf_step_reply *reply);
void transcript_state(const hf_session_state *state);
/* Fails unless the file of that name says the same; ends the transcript. */
void transcript_end(const char *name);

#endif
