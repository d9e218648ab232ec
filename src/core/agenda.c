/* SPDX-License-Identifier: Apache-2.0 */
/* agenda.c: remembers when each job of a fixed few is due. */
#include "core/agenda.h"

#include "core/lease.h"

void agenda_init(struct agenda *agenda)
{
    for (unsigned i = 0; i < AGENDA_JOBS; i++)
        agenda->due[i] = MONO_NEVER;
}

void agenda_set(struct agenda *agenda, unsigned job, hf_mono due)
{
    agenda->due[job] = due;
}

void agenda_advance(struct agenda *agenda, unsigned job, hf_mono due)
{
    agenda->due[job] = mono_min(agenda->due[job], due);
}

bool agenda_take(struct agenda *agenda, unsigned job, hf_mono now)
{
    if (!mono_reached(agenda->due[job], now))
        return false;
    agenda->due[job] = MONO_NEVER;
    return true;
}

hf_mono agenda_due(const struct agenda *agenda)
{
    hf_mono due = MONO_NEVER;
    for (unsigned i = 0; i < AGENDA_JOBS; i++)
        due = mono_min(due, agenda->due[i]);
    return due;
}
