/* SPDX-License-Identifier: Apache-2.0 */
/* agenda.h: due times of a few numbered jobs; the client's upkeep asks it what comes next. */
#ifndef CORE_AGENDA_H
#define CORE_AGENDA_H

#include <holdfast/store.h>

#define AGENDA_JOBS 8

struct agenda {
    hf_mono due[AGENDA_JOBS];
};

void agenda_init(struct agenda *agenda);                           /* nothing is due, ever */
void agenda_set(struct agenda *agenda, unsigned job, hf_mono due); /* MONO_NEVER takes it off */
void agenda_advance(struct agenda *agenda, unsigned job,
                    hf_mono due); /* unless it is due earlier */
bool agenda_take(struct agenda *agenda, unsigned job,
                 hf_mono now);                   /* is it due? then it is taken off */
hf_mono agenda_due(const struct agenda *agenda); /* the earliest of all */

#endif
