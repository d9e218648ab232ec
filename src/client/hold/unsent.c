/* SPDX-License-Identifier: Apache-2.0 */
/* unsent.c: lists what the store has still to be told; hf_close() asks, when it has done what it
 * can.
 */
#include "client/hold/unsent.h"

#include "client/hold/hold.h"

void unsent_each(const hf_client *client, unsent_fn each, void *ctx)
{
    const struct endings *endings = &client->hold->endings;
    for (const struct release *r = client->hold->releases.first; r; r = r->next) {
        struct unsent leaves = {.session = r->session, .name = r->name};
        leaves.n_leaves = release_leaves(r, leaves.leaves);
        each(ctx, &leaves);
    }
    for (size_t i = 0; i < endings->n; i++) {
        const struct unsent end = {.session = endings->of[i].id,
                                   .leaves_any = endings->of[i].leaves_any};
        each(ctx, &end);
    }
}
