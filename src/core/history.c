/* SPDX-License-Identifier: Apache-2.0 */
/* history.c: copies and compares turns that have ended, and tells of those that another program
 * ended; see history.h. */
#include "core/history.h"

#include "core/alloc.h"
#include "core/id.h"

#include <string.h>

static const char *const ends[] = {[HF_TURN_RELEASED] = "released",
                                   [HF_TURN_LOST] = "lost",
                                   [HF_TURN_BROKEN] = "broken",
                                   [HF_TURN_ABANDONED] = "abandoned",
                                   [HF_TURN_MISSING] = "missing"};
#define N_ENDS (sizeof ends / sizeof *ends)

static const char *keep(char **room, const char *text)
{
    size_t size = strlen(text) + 1;
    const char *kept = memcpy(*room, text, size);
    *room += size;
    return kept;
}

static size_t room_for(const hf_turn_note *note)
{
    return strlen(note->name) + strlen(note->who) + strlen(note->actor) + strlen(note->why) +
           strlen(note->reason) + 5;
}

struct history_turn *history_copy(const hf_turn_note *note)
{
    struct history_turn *copy = alloc_zeroed(sizeof *copy + room_for(note));
    char *room = copy->texts;
    copy->note = *note;
    copy->note.name = keep(&room, note->name);
    copy->note.who = keep(&room, note->who);
    copy->note.actor = keep(&room, note->actor);
    copy->note.why = keep(&room, note->why);
    copy->note.reason = keep(&room, note->reason);
    return copy;
}

int64_t history_number(const hf_turn_note *note)
{
    if (note->token)
        return note->token;
    return note->granted_at.ms ? note->granted_at.ms : note->ended_at.ms;
}

bool history_is_same(const hf_turn_note *a, const hf_turn_note *b)
{
    return id_equal(a->ticket, b->ticket) && history_number(a) == history_number(b) &&
           a->is_block == b->is_block && strcmp(a->name, b->name) == 0;
}

int history_newest_first(const void *a, const void *b)
{
    const hf_turn_note *one = &(*(struct history_turn *const *)a)->note;
    const hf_turn_note *other = &(*(struct history_turn *const *)b)->note;
    if (one->ended_at.ms != other->ended_at.ms)
        return one->ended_at.ms < other->ended_at.ms ? 1 : -1;
    return (one->token < other->token) - (one->token > other->token);
}

const char *history_end_text(hf_turn_end end)
{
    return ends[end];
}

bool history_end_read(const char *text, hf_turn_end *out)
{
    for (size_t i = 0; i < N_ENDS; i++)
        if (strcmp(text, ends[i]) == 0) {
            *out = (hf_turn_end)i;
            return true;
        }
    return false;
}

/* ---- Turns that another program ends ---- */

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

bool history_of_taken(const hf_record *before, const hf_entry *holder, const hf_step *step,
                      const hf_last_mark *last, hf_turn_note *out)
{
    const hf_leave *leave = leave_of(step, holder);
    const hf_death *death = death_of(step, holder);
    bool is_broken = leave && *leave->reason;
    if ((!leave && !death) || !is_proved(holder, last))
        return false;
    *out = (hf_turn_note){.name = before->name,
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
                          .ended_at = last->at,
                          .end = is_broken ? HF_TURN_BROKEN : HF_TURN_ABANDONED};
    return true;
}
