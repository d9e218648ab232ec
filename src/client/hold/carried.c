/* SPDX-License-Identifier: Apache-2.0 */
/* carried.c: what an enter carries along: the pending releases of the same name, so that the
 * client's own closed locks are never in its way; called by wait/attempt_enter.c and
 * wait/upgrade.c. */
#include "client/hold/hold.h"

#include "core/alloc.h"

#include <stdlib.h>

static void add_leaves(struct carried *carried, const struct release *release)
{
    carried->leaves =
        alloc_array(carried->leaves, carried->n + RELEASE_LEAVES, sizeof *carried->leaves);
    carried->n += release_leaves(release, carried->leaves + carried->n);
}

bool carried_load_locked(hf_client *client, const char *name, struct carried *carried)
{
    bool is_busy;
    *carried = (struct carried){.n = 0};
    carried->releases = release_take_locked(client, name, &is_busy);
    for (const struct release *r = carried->releases; r; r = r->carried_next)
        add_leaves(carried, r);
    return !is_busy;
}

void carried_unload_locked(hf_client *client, struct carried *carried, hf_code code, bool confirmed)
{
    if (code == HF_OK && confirmed)
        release_done_locked(client, carried->releases);
    else
        release_put_back_locked(client, carried->releases, code == HF_UNKNOWN);
    free(carried->leaves);
}
