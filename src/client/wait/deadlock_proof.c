/* SPDX-License-Identifier: Apache-2.0 */
/* deadlock_proof.c: decides whether to believe in a deadlock that was read. The reads happen at
 * different times, and the leave of a waiter that gave up may not have arrived. So the deadlock is
 * noted together with the beats of its sessions. It is believed once each session has repeated its
 * part in a beat that was made after it saw the answer to another beat that followed the note. Then
 * each of these waits lasted from before the note until after it, so all of them existed at one
 * moment.
 *
 * A waiter may be in the way because a process holds something and waits for it (hf_client_held()).
 * Such a parent reports nothing, and may have lost its lock since. So its session must have made a
 * beat after the note: the second one from then on was. */
#include "client/wait/deadlock_proof.h"

#include "core/alloc.h"
#include "core/id.h"
#include "core/record.h"

#define SESSIONS_MOST 1000 /* of one look */

void deadlock_forget(struct deadlock *deadlock)
{
    free(deadlock->waiters);
    free(deadlock->parents);
    deadlock->waiters = deadlock->parents = NULL;
    deadlock->n_waiters = deadlock->n_parents = 0;
}

static member *find(member *members, size_t n, hf_id ticket)
{
    for (size_t i = 0; i < n; i++)
        if (id_equal(members[i].ticket, ticket))
            return &members[i];
    return NULL;
}

static void add(member **members, size_t *n, hf_id ticket, hf_id session)
{
    *members = alloc_array(*members, *n + 1, sizeof **members);
    (*members)[(*n)++] = (member){ticket, session, INT64_MAX - 2};
}

/* ---- Parents ---- */

/* The holder of what a waiter has inherited; NULL: its own session holds it, or nobody does. */
static const hf_entry *parent_of(const struct waits_graph *graph, const waits_node *node,
                                 const waits_item *held)
{
    const hf_record *record = waits_graph_record(graph, held->name);
    const hf_entry *entry = record ? record_find(record, held->ticket) : NULL;
    bool holds = entry && record_position(record, entry) == 0;
    return holds && !id_equal(entry->session, node->session) ? entry : NULL;
}

/* Returns how many; *out is the caller's to free. */
static size_t find_parents(const struct waits_graph *graph, member **out)
{
    size_t n = 0;
    *out = NULL;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const waits_node *node = &graph->nodes[i];
        for (size_t j = 0; node->is_in_deadlock && j < node->wait.n_holds; j++) {
            const hf_entry *entry = parent_of(graph, node, &node->wait.holds[j]);
            if (entry && !find(*out, n, entry->ticket))
                add(out, &n, entry->ticket, entry->session);
        }
    }
    return n;
}

/* Their sessions, now; NULL: they cannot be looked at. */
static hf_session_state *look_at(const member *members, size_t n, hf_client *client)
{
    hf_id sessions[SESSIONS_MOST];
    hf_error err;
    if (n > SESSIONS_MOST)
        return NULL;
    for (size_t i = 0; i < n; i++)
        sessions[i] = members[i].session;
    hf_session_state *states = alloc_array(NULL, n, sizeof *states);
    if (!client_look_at_sessions(client, sessions, n, -1, states, &err))
        return states;
    free(states);
    return NULL;
}

/* False: their beats are not known, so nothing could ever be confirmed. */
static bool note_parents(struct deadlock *deadlock, hf_client *client)
{
    if (!deadlock->n_parents)
        return true;
    hf_session_state *states = look_at(deadlock->parents, deadlock->n_parents, client);
    for (size_t i = 0; states && i < deadlock->n_parents; i++)
        deadlock->parents[i].beat = states[i].beat;
    bool are_known = states;
    free(states);
    return are_known;
}

static bool all_have_beaten(const struct deadlock *deadlock, hf_client *client)
{
    if (!deadlock->n_parents)
        return true;
    hf_session_state *states = look_at(deadlock->parents, deadlock->n_parents, client);
    bool all = states;
    for (size_t i = 0; all && i < deadlock->n_parents; i++)
        all = states[i].presence == HF_LIVE && states[i].beat >= deadlock->parents[i].beat + 2;
    free(states);
    return all;
}

/* ---- Waiters ---- */

static bool note_beat(void *ctx, const hf_waits *waits)
{
    struct deadlock *deadlock = ctx;
    for (size_t i = 0; i < deadlock->n_waiters; i++)
        if (id_equal(deadlock->waiters[i].session, waits->session.id))
            deadlock->waiters[i].beat = waits->beat;
    return true;
}

/* Whether this beat was made after the answer to a beat that followed the note had arrived. */
static bool all_have_repeated(const struct deadlock *deadlock, const struct waits_graph *graph)
{
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const waits_node *node = &graph->nodes[i];
        if (node->is_in_deadlock &&
            node->seen <= find(deadlock->waiters, deadlock->n_waiters, node->wait.on.ticket)->beat)
            return false;
    }
    return true;
}

/* ---- The proof ---- */

static bool are_same(member *noted, size_t n_noted, const member *now, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!find(noted, n_noted, now[i].ticket))
            return false;
    return n_noted == n;
}

/* Whether it is the same deadlock as noted. */
static bool is_same(const struct deadlock *deadlock, const struct waits_graph *graph, size_t n)
{
    member *parents;
    size_t n_parents = find_parents(graph, &parents);
    bool is = n == deadlock->n_waiters &&
              are_same(deadlock->parents, deadlock->n_parents, parents, n_parents);
    for (size_t i = 0; is && i < graph->n_nodes; i++)
        is = !graph->nodes[i].is_in_deadlock ||
             find(deadlock->waiters, deadlock->n_waiters, graph->nodes[i].wait.on.ticket);
    free(parents);
    return is;
}

/* Reads the beats now, after the whole deadlock has been seen. A session whose beat is missing can
 * never be confirmed. */
static void note(struct deadlock *deadlock, const struct waits_graph *graph, hf_client *client)
{
    hf_id sessions[SESSIONS_MOST];
    hf_error err;
    deadlock_forget(deadlock);
    for (size_t i = 0; i < graph->n_nodes && deadlock->n_waiters < SESSIONS_MOST; i++)
        if (graph->nodes[i].is_in_deadlock) {
            sessions[deadlock->n_waiters] = graph->nodes[i].session;
            add(&deadlock->waiters, &deadlock->n_waiters, graph->nodes[i].wait.on.ticket,
                graph->nodes[i].session);
        }
    deadlock->n_parents = find_parents(graph, &deadlock->parents);
    if (!note_parents(deadlock, client) ||
        client->store->ops->waits(client->store, sessions, deadlock->n_waiters, note_beat, deadlock,
                                  &err))
        deadlock_forget(deadlock);
}

bool deadlock_is_proven(struct deadlock *deadlock, const struct waits_graph *graph, size_t n,
                        hf_client *client)
{
    if (is_same(deadlock, graph, n))
        return all_have_repeated(deadlock, graph) && all_have_beaten(deadlock, client);
    note(deadlock, graph, client);
    return false;
}
