/* SPDX-License-Identifier: Apache-2.0 */
/* granted.c: prints whether the last holder abandoned the lock, and with -v how long the grant took
 * and the token; called by run, elect and acquire. */
#include "granted.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cli/terminal/terminal.h"
#include "show/text.h"

/* The last holder may have died before it knew that it held. What was done before stays known. */
static void note_abandoned(const char *name, const hf_last *before)
{
    const hf_done *done = &before->done;
    char *when = text_when(before->at_ms);
    char *known = done->who ? text_print("; before that, work finished with exit status %d (by %s)",
                                         done->exit_status, done->who)
                            : text_copy("");
    char *why = *before->reason ? text_print(" (%s)", before->reason) : text_copy("");
    char *token = text_token(before->token);
    terminal_warn("\"%s\" was abandoned by %s%s, at %s%s: look what it left half done%s", name,
                  *before->who ? before->who : "its holder", token, when, why, known);
    free(token);
    free(why);
    free(known);
    free(when);
}

void granted_note(const char *name, int64_t waited_ms, int64_t token, const hf_last *before)
{
    char *shown = text_token(token);
    terminal_note("have \"%s\" after %" PRId64 "ms%s", name, waited_ms, shown);
    free(shown);
    if (before->outcome == HF_OUTCOME_ABANDONED)
        note_abandoned(name, before);
}
