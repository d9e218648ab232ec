/* SPDX-License-Identifier: Apache-2.0 */
/* hold.c: makes and frees what this folder keeps for one client. */
#include "client/hold/hold.h"

#include "core/alloc.h"

#include <stdlib.h>

struct hold *hold_new(int32_t local_turns)
{
    struct hold *hold = alloc_zeroed(sizeof *hold);
    agenda_init(&hold->agenda);
    releases_init(&hold->releases);
    hold->sweep.due = hold->diary.due = MONO_NEVER;
    turns_init(&hold->turns, local_turns);
    return hold;
}

void hold_free(struct hold *hold)
{
    sweep_free(&hold->sweep);
    diary_free(&hold->diary);
    releases_done(&hold->releases);
    turns_done(&hold->turns);
    table_done(&hold->by_ticket);
    table_done(&hold->by_name);
    table_done(&hold->by_owner);
    schedule_done(&hold->verifying);
    schedule_done(&hold->lowering);
    schedule_done(&hold->stopping);
    schedule_done(&hold->telling);
    schedule_done(&hold->leases);
    schedule_done(&hold->dogs);
    free(hold->endings.of);
    free(hold);
}

bool hold_is_empty_locked(const hf_client *client)
{
    return !client->hold->n_held;
}
