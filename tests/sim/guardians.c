/* SPDX-License-Identifier: Apache-2.0 */
/* guardians.c: the guardians of nodes that crashed, or were closed while the server was away: each
 * gives back what its node had, at any moment afterwards, over a network as bad as the others'. */
#include "sim/world.h"

#include "client/guardian/settle.h"

#include <stdlib.h>

#define PAUSE_MS 500 /* most, after a try that failed */

typedef struct helper {
    struct helper *next;
    node *node; /* its own */
    struct estate estate;
} helper;

static helper *all;

/* ---- What it was told ---- */

static void tell(helper *g, guardian_kind kind, hf_id session, const char *name,
                 const hf_leave *leave)
{
    guardian_message message = {
        .kind = kind, .name = name, .session = {.id = session, .ttl_ms = (int32_t)sim.ttl_ms}};
    if (leave)
        message.leave = *leave;
    else
        message.leave.ticket = client_new_id(g->node->client);
    estate_note(&g->estate, &message);
}

/* More tickets than there were: none of them is worth more than the name. */
static void tell_session(helper *g, hf_id session)
{
    tell(g, GUARDIAN_SESSION, session, "", NULL);
    for (int i = 0; i < NAMES; i++)
        tell(g, GUARDIAN_TICKET, session, sim_name(i), NULL);
}

/* What hf_close() could not send: all that was held, and what was being released. */
static void tell_leaves(helper *g, const hf_client *client)
{
    for (const struct hf_lock *lock = client->hold->locks; lock; lock = lock->next) {
        hf_leave leave = lock_leave(lock);
        if (lock->state == LOCK_HELD)
            tell(g, GUARDIAN_LEAVE, lock->grant.session, lock->name, &leave);
    }
    for (const struct release *r = client->hold->releases.first; r; r = r->next)
        tell(g, GUARDIAN_LEAVE, client->session.self.id, r->name, &r->leave);
}

/* ---- What it does ---- */

static void guard(void *arg)
{
    helper *g = arg;
    hf_client *client = g->node->client;
    hf_error err;
    int64_t left_behind = sim_chance(700) ? 300 : 2 * sim.ttl_ms; /* by the process */
    fiber_sleep_until(sim_now_ns + sim_below(left_behind) * MS);
    while (settle(client, &g->estate, &err))
        client->env.pause(client->env.ctx, 1 + sim_below(PAUSE_MS));
    sim.settled++;
    sim_trace("a guardian has settled everything");
}

void guardians_start(const node *dead)
{
    const hf_client *client = dead->client;
    helper *g = calloc(1, sizeof *g);
    g->node = node_guardian();
    g->next = all;
    all = g;
    if (client->session.state == SESSION_ALIVE)
        tell_session(g, client->session.self.id);
    for (size_t i = 0; i < client->hold->endings.n; i++)
        tell_session(g, client->hold->endings.of[i].id);
    if (sim_chance(300))
        tell_leaves(g, client);
    fiber_start(g->node, guard, g);
}

void guardians_done(void)
{
    for (helper *g = all, *next; g; g = next) {
        next = g->next;
        estate_done(&g->estate);
        free(g);
    }
    all = NULL;
}
