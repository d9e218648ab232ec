/* SPDX-License-Identifier: Apache-2.0 */
/* history.c: copies and compares turns that have ended; see history.h. */
#include "core/history.h"

#include "core/alloc.h"
#include "core/id.h"

#include <string.h>

static const char *const ends[] = {[HF_TURN_RELEASED] = "released",
                                   [HF_TURN_LOST] = "lost",
                                   [HF_TURN_BROKEN] = "broken",
                                   [HF_TURN_ABANDONED] = "abandoned"};
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
