/* SPDX-License-Identifier: Apache-2.0 */
/* history.c: remembers the last turns that have ended; memory.c lists its functions. */
#include "store/memory/memory_internal.h"

#include "core/alloc.h"

#include <stdlib.h>
#include <string.h>

static struct history_turn **place_of(struct memory *memory, uint64_t number)
{
    return &memory->turns[number % MEMORY_TURNS];
}

static uint64_t first_of(const struct memory *memory)
{
    return memory->n_turns > MEMORY_TURNS ? memory->n_turns - MEMORY_TURNS : 0;
}

static bool is_there(struct memory *memory, const hf_turn_note *note)
{
    for (uint64_t i = memory->n_turns; i > first_of(memory); i--)
        if (history_is_same(&(*place_of(memory, i - 1))->note, note))
            return true;
    return false;
}

static void add(struct memory *memory, const hf_turn_note *note)
{
    struct history_turn **place = place_of(memory, memory->n_turns++);
    free(*place);
    *place = history_copy(note);
}

hf_code memory_history_add(hf_store *base, const hf_turn_note *turns, size_t n, hf_error *err)
{
    (void)err;
    struct memory *memory = memory_lock(base);
    if (!memory->turns)
        memory->turns = alloc_zeroed(MEMORY_TURNS * sizeof *memory->turns);
    for (size_t i = 0; i < n; i++)
        if (!is_there(memory, &turns[i]))
            add(memory, &turns[i]);
    memory_unlock(memory);
    return HF_OK;
}

static bool is_wanted(const hf_turn_note *note, const hf_history_part *part)
{
    if (note->end == HF_TURN_MISSING)
        return part->tells_missing && note->ended_at.ms >= part->since.ms;
    return note->ended_at.ms >= part->since.ms &&
           (!*part->name || strcmp(note->name, part->name) == 0) &&
           strncmp(note->name, part->prefix, strlen(part->prefix)) == 0;
}

/* The number of those that are wanted, the newest first. */
static size_t select_turns(struct memory *memory, const hf_history_part *part,
                           struct history_turn *out[MEMORY_TURNS])
{
    size_t n = 0;
    for (uint64_t i = first_of(memory); i < memory->n_turns; i++)
        if (is_wanted(&(*place_of(memory, i))->note, part))
            out[n++] = *place_of(memory, i);
    if (n)
        qsort(out, n, sizeof *out, history_newest_first);
    return n < part->limit ? n : part->limit;
}

hf_code memory_history(hf_store *base, const hf_history_part *part, hf_turn_note_fn each, void *ctx,
                       hf_error *err)
{
    (void)err;
    struct memory *memory = memory_lock(base);
    struct history_turn *turns[MEMORY_TURNS];
    size_t n = select_turns(memory, part, turns);
    for (size_t i = 0; i < n && each(ctx, &turns[i]->note); i++)
        ;
    memory_unlock(memory);
    return HF_OK;
}

void memory_free_history(struct memory *memory)
{
    for (uint64_t i = first_of(memory); i < memory->n_turns; i++)
        free(*place_of(memory, i));
    free(memory->turns);
}
