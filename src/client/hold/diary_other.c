/* SPDX-License-Identifier: Apache-2.0 */
/* diary_other.c: the turns of holders that cannot note them, because they are dead, or did not
 * leave when they were asked to: the client that takes their tickets out, or overtakes them,
 * notes them; see diary.h. Called by waiters and breaks. */
#include "client/hold/hold.h"

#include "core/id.h"

void diary_note_taken(hf_client *client, const hf_record *before, const hf_step *step,
                      const hf_last_mark *last)
{
    hf_turn_note turn;
    for (size_t i = 0; i < before->holders; i++)
        if (history_of_taken(before, &before->entries[i], step, last, &turn))
            diary_note_other(client, &turn);
}

void diary_note_overtaken(hf_client *client, const char *name, const hf_overtaken *overtaken,
                          hf_dbtime at)
{
    const hf_entry *holder = &overtaken->entry;
    const hf_turn_note turn = {.name = name,
                               .who = overtaken->who,
                               .actor = holder->actor,
                               .why = holder->why,
                               .reason = "",
                               .ticket = holder->ticket,
                               .session = holder->session,
                               .token = holder->token,
                               .permits = holder->permits,
                               .limit = holder->permits,
                               .granted_at = holder->granted_at,
                               .ended_at = at,
                               .end = HF_TURN_ABANDONED};
    if (!id_is_zero(holder->ticket))
        diary_note_other(client, &turn);
}
