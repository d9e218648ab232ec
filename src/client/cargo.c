/* SPDX-License-Identifier: Apache-2.0 */
/* cargo.c: what an enter carries along: the releases of the same name that wait in the background,
 * so that the client's own closed locks are never in its way; called by attempt_enter.c and
 * change.c. */
#include "client/client.h"

#include "core/alloc.h"

static void add_leaves(struct cargo *cargo, const struct release *release)
{
    cargo->leaves = alloc_array(cargo->leaves, cargo->n + RELEASE_LEAVES, sizeof *cargo->leaves);
    cargo->n += release_leaves(release, cargo->leaves + cargo->n);
}

bool cargo_load_locked(hf_client *client, const char *name, struct cargo *cargo)
{
    bool is_busy;
    *cargo = (struct cargo){.n = 0};
    cargo->releases = release_take_locked(client, name, &is_busy);
    for (const struct release *r = cargo->releases; r; r = r->cargo_next)
        add_leaves(cargo, r);
    return !is_busy;
}

void cargo_unload_locked(hf_client *client, struct cargo *cargo, hf_code code, bool confirmed)
{
    if (code == HF_OK && confirmed)
        release_done_locked(client, cargo->releases);
    else
        release_put_back_locked(client, cargo->releases, code == HF_UNKNOWN);
    free(cargo->leaves);
}
