/* SPDX-License-Identifier: Apache-2.0 */
/* text.h: which names and texts from outside are valid, and texts that records keep for people. */
#ifndef CORE_TEXT_H
#define CORE_TEXT_H

#include <holdfast/store.h>

/* HF_INVALID with the reason unless it is a name: UTF-8, 1 to HF_NAME_MAX bytes. */
hf_code text_check_name(const char *name, hf_error *err);

/* HF_INVALID unless text is NULL, or UTF-8 of at most max bytes; what: "why", "reason" ... */
hf_code text_check(const char *what, const char *text, size_t max, hf_error *err);

/* What `last` says of a holder that was asked to leave: who asked, and why; cut to fit. "" of an
 * ask of nobody, which is the release of a lease. */
void text_broken(char out[HF_TEXT_MAX + 1], const hf_ask *ask);

/* A session's program, host and process, for people: APP@HOST:PID. */
void text_who(const hf_session *session, char out[HF_TEXT_MAX + 1]);

#endif
