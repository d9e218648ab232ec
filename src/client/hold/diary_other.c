/* SPDX-License-Identifier: Apache-2.0 */
/* diary_other.c: the turns of holders that cannot note them, because they are dead, or did not
 * leave when they were asked to: the client that takes their tickets out, or overtakes them,
 * notes them; see diary.h. Called by waiters and breaks. */
#include "client/hold/hold.h"

#include "core/id.h"

static const hf_leave *leave_of(const hf_step *step, const hf_entry *holder)
{
    for (size_t i = 0; i < step->n_leaves; i++)
        if (id_equal(step->leaves[i].ticket, holder->ticket))
            return &step->leaves[i];
    return NULL;
}

static const hf_death *death_of(const hf_step *step, const hf_entry *holder)
{
    for (size_t i = 0; i < step->n_deaths; i++)
        if (id_equal(step->deaths[i].session, holder->session))
            return &step->deaths[i];
    return NULL;
}

/* The record says it of the one that left last. A holder that had left by itself, since the record
 * was seen, is not noted as dead; so of several that shared the lock and died, only one is. */
static bool is_proved(const hf_entry *holder, const hf_last_mark *last)
{
    return last->outcome == HF_OUTCOME_ABANDONED && last->token == holder->token &&
           id_equal(last->session, holder->session);
}

static void note(hf_client *client, const hf_record *before, const hf_entry *holder,
                 const hf_step *step, hf_dbtime at)
{
    const hf_leave *leave = leave_of(step, holder);
    const hf_death *death = death_of(step, holder);
    bool is_broken = leave && *leave->reason;
    const hf_turn_note turn = {.name = before->name,
                               .who = leave ? leave->who : death->who,
                               .actor = holder->actor,
                               .why = holder->why,
                               .reason = is_broken ? leave->reason : "",
                               .ticket = holder->ticket,
                               .session = holder->session,
                               .token = holder->token,
                               .is_block = holder->block > 1,
                               .permits = holder->permits,
                               .limit = before->limit,
                               .granted_at = holder->granted_at,
                               .ended_at = at,
                               .end = is_broken ? HF_TURN_BROKEN : HF_TURN_ABANDONED};
    diary_note_other(client, &turn);
}

void diary_note_taken(hf_client *client, const hf_record *before, const hf_step *step,
                      const hf_last_mark *last)
{
    for (size_t i = 0; i < before->holders; i++) {
        const hf_entry *holder = &before->entries[i];
        bool is_taken = leave_of(step, holder) || death_of(step, holder);
        if (is_taken && is_proved(holder, last))
            note(client, before, holder, step, last->at);
    }
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
