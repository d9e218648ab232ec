/* SPDX-License-Identifier: Apache-2.0 */
/* why.c: hf_why(): follows the waits from a lock to its roots. It reads the wait reports of all
 * sessions (core/waits.h) and then, level by level, the records: a report that has a lock of one
 * level among what is held names a lock of the next. Then it tells the caller, holder by holder, in
 * the order of a tree.
 *
 * The reports of the holders' own sessions would not do: what a run holds while its command waits
 * is in the report of the command's session, and nothing leads there from the lock.
 *
 * A lock is read once and told once, so a cycle ends. A wait counts only if the ticket stands in
 * the record's queue: a report may be as old as a beat. */
#include "client/api/entry_info.h"
#include "client/api/reading.h"

#include "core/alloc.h"
#include "core/record.h"
#include "core/waits_graph.h"

#include <stdlib.h>
#include <string.h>

#define LEVELS_MOST 32
#define LOCKS_MOST 100

/* ---- Reading ---- */

typedef struct chain {
    hf_client *client;
    const char *first; /* where it begins */
    struct waits_graph graph;
    char names[LOCKS_MOST][HF_NAME_MAX + 1];
    size_t n_names, n_looked; /* those before n_looked are in the graph */
    struct session_states states;
    bool is_above[LOCKS_MOST], is_told[LOCKS_MOST]; /* records of the graph, while telling */
} chain;

/* Protocols without a queue have no wait reports. */
static bool has_reports(const hf_store *store)
{
    return store->ops->waits && store->can & HF_CAN_QUEUE;
}

static void add_name(chain *c, const char *name)
{
    for (size_t i = 0; i < c->n_names; i++)
        if (strcmp(c->names[i], name) == 0)
            return;
    if (c->n_names < LOCKS_MOST)
        strcpy(c->names[c->n_names++], name);
}

static bool add_record(void *ctx, const hf_record *record)
{
    waits_graph_add_record(ctx, record);
    return true;
}

static bool add_waits(void *ctx, const hf_waits *waits)
{
    waits_graph_add_waits(ctx, waits, "");
    return true;
}

static bool holds_any(const waits_node *node, const struct waits_graph *graph)
{
    for (size_t i = 0; i < graph->n_records; i++)
        for (size_t j = 0; j < graph->records[i].holders; j++)
            if (waits_graph_holds(node, &graph->records[i].entries[j]))
                return true;
    return false;
}

static void add_next_level(chain *c)
{
    for (size_t i = 0; i < c->graph.n_nodes; i++)
        if (holds_any(&c->graph.nodes[i], &c->graph))
            add_name(c, c->graph.nodes[i].wait.on.name);
}

static hf_code look_at_records(chain *c, hf_error *err)
{
    hf_store *store = c->client->store;
    const char *names[LOCKS_MOST];
    size_t n = 0;
    while (c->n_looked < c->n_names)
        names[n++] = c->names[c->n_looked++];
    return store->ops->look(store, names, n, (hf_stamp){0}, false, add_record, &c->graph, err);
}

static hf_code read_waits(chain *c, hf_error *err)
{
    hf_store *store = c->client->store;
    return has_reports(store) ? store->ops->waits(store, NULL, 0, add_waits, &c->graph, err)
                              : HF_OK;
}

static hf_code look_at_holders(chain *c, hf_error *err)
{
    for (size_t i = 0; i < c->graph.n_records; i++)
        session_states_add(&c->states, c->graph.records[i].entries, c->graph.records[i].holders);
    return session_states_read(&c->states, c->client, err);
}

static void forget(chain *c)
{
    waits_graph_done(&c->graph);
    session_states_done(&c->states);
    *c = (chain){.client = c->client, .first = c->first};
}

static hf_code read_chain(void *ctx, hf_error *err)
{
    chain *c = ctx;
    forget(c);
    add_name(c, c->first);
    hf_code code = read_waits(c, err);
    for (int level = 0; !code && level < LEVELS_MOST && c->n_looked < c->n_names; level++) {
        code = look_at_records(c, err);
        if (!code)
            add_next_level(c);
    }
    if (!code)
        code = look_at_holders(c, err);
    waits_graph_reduce(&c->graph); /* which waiters stand in their records */
    return code;
}

/* ---- Telling ---- */

typedef struct telling {
    chain *chain;
    hf_why_fn each;
    void *ctx;
} telling;

static bool tell_lock(telling *t, const hf_record *record, size_t depth);

/* Whether it waits as it says; a lock that was not read is not known to be free. */
static bool is_waiting(const chain *c, const waits_node *node)
{
    return node->entry || !waits_graph_record(&c->graph, node->wait.on.name);
}

static hf_why_next next_of(const chain *c, const waits_node *wait)
{
    if (!wait)
        return has_reports(c->client->store) ? HF_WHY_ROOT : HF_WHY_UNKNOWN;
    if (!wait->record)
        return HF_WHY_CUT;
    size_t at = (size_t)(wait->record - c->graph.records);
    return c->is_above[at] ? HF_WHY_CYCLE : c->is_told[at] ? HF_WHY_TOLD : HF_WHY_FOLLOWS;
}

/* Tells of a holder, and of what comes behind it; wait NULL: it waits for nothing. */
static bool tell_link(telling *t, const hf_record *record, const hf_entry *holder,
                      const waits_node *wait, size_t depth)
{
    const chain *c = t->chain;
    struct entry_texts texts;
    const hf_entry_info info = entry_info(&c->states, record, holder, &texts);
    const hf_why_link link = {.name = client_shown_name(c->client, record->name),
                              .depth = depth,
                              .holder = &info,
                              .waits_for =
                                  wait ? client_shown_name(c->client, wait->wait.on.name) : NULL,
                              .next = next_of(c, wait)};
    return t->each(t->ctx, &link) &&
           (link.next != HF_WHY_FOLLOWS || tell_lock(t, wait->record, depth + 1));
}

static bool tell_holder(telling *t, const hf_record *record, const hf_entry *holder, size_t depth)
{
    const struct waits_graph *graph = &t->chain->graph;
    bool waits = false;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const waits_node *node = &graph->nodes[i];
        if (!waits_graph_holds(node, holder) || !is_waiting(t->chain, node))
            continue;
        waits = true;
        if (!tell_link(t, record, holder, node, depth))
            return false;
    }
    return waits || tell_link(t, record, holder, NULL, depth);
}

static bool tell_lock(telling *t, const hf_record *record, size_t depth)
{
    size_t at = (size_t)(record - t->chain->graph.records);
    bool goes_on = true;
    t->chain->is_above[at] = t->chain->is_told[at] = true;
    for (size_t i = 0; i < record->holders && goes_on; i++)
        goes_on = tell_holder(t, record, &record->entries[i], depth);
    t->chain->is_above[at] = false;
    return goes_on;
}

/* ---- The call ---- */

static hf_code follow(chain *c, telling *t, hf_error *err)
{
    hf_code code = reading_repeat(c->client, read_chain, c, err);
    if (code)
        return code;
    const hf_record *first = waits_graph_record(&c->graph, c->first);
    if (!first || !first->exists)
        return entry_info_no_record(c->client, c->first, err);
    tell_lock(t, first, 0);
    return HF_OK;
}

hf_code hf_why(hf_client *client, const char *name, hf_why_fn each, void *ctx, hf_error *err)
{
    char known_as[HF_NAME_MAX + 1];
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    chain *c = alloc_zeroed(sizeof *c);
    c->client = client;
    c->first = known_as;
    code = client_name(client, name, known_as, err);
    if (!code)
        code = follow(c, &(telling){c, each, ctx}, err);
    forget(c);
    free(c);
    client_end(client);
    return code;
}
