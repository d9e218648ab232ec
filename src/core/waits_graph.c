/* SPDX-License-Identifier: Apache-2.0 */
/* waits_graph.c: decides which waiters are in a deadlock: reduces the waits-for graph, and finds
 * those that wait for each other; see waits_graph.h. */
#include "core/waits_graph.h"

#include "core/alloc.h"
#include "core/id.h"
#include "core/record.h"

#include <stdio.h>

void waits_graph_done(struct waits_graph *graph)
{
    for (size_t i = 0; i < graph->n_records; i++)
        record_done(&graph->records[i]);
    for (size_t i = 0; i < graph->n_nodes; i++)
        free(graph->nodes[i].wait.holds);
    free(graph->records);
    free(graph->nodes);
    *graph = (struct waits_graph){.n_nodes = 0};
}

/* ---- What is known ---- */

const hf_record *waits_graph_record(const struct waits_graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_records; i++)
        if (strcmp(graph->records[i].name, name) == 0)
            return &graph->records[i];
    return NULL;
}

void waits_graph_add_record(struct waits_graph *graph, const hf_record *record)
{
    graph->records = alloc_array(graph->records, graph->n_records + 1, sizeof *graph->records);
    record_copy(&graph->records[graph->n_records++], record);
}

void waits_graph_add_waits(struct waits_graph *graph, const hf_waits *waits, const char *who)
{
    waits_entry *entries;
    size_t n = waits_read(waits->text, &entries);
    graph->nodes = alloc_array(graph->nodes, graph->n_nodes + n, sizeof *graph->nodes);
    for (size_t i = 0; i < n; i++) {
        waits_node *node = &graph->nodes[graph->n_nodes++];
        *node = (waits_node){.wait = entries[i],
                             .session = waits->session.id,
                             .beat = waits->beat,
                             .seen = waits->seen};
        snprintf(node->who, sizeof node->who, "%s", who);
    }
    free(entries);
}

/* Whether it waits outside: the record has given this number, and does not have the ticket. Nobody
 * waits for one there that holds nothing. */
static bool is_outside(const hf_record *record, const waits_entry *wait)
{
    return wait->number && wait->number <= record->given && wait->n_holds &&
           !record_find(record, wait->on.ticket);
}

/* Nothing says when it came. */
static void stand_in(hf_record *record, waits_node *node)
{
    node->is_outside = true;
    record_insert(record, &(hf_entry){.ticket = node->wait.on.ticket,
                                      .session = node->session,
                                      .number = node->wait.number,
                                      .permits = node->wait.permits,
                                      .since = {INT64_MAX}});
}

static void stand_all_in(struct waits_graph *graph)
{
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (size_t j = 0; j < graph->n_records; j++)
            if (strcmp(graph->records[j].name, graph->nodes[i].wait.on.name) == 0 &&
                is_outside(&graph->records[j], &graph->nodes[i].wait))
                stand_in(&graph->records[j], &graph->nodes[i]);
}

static bool waits_in(const hf_record *record, const hf_entry *entry)
{
    return entry && record_position(record, entry) > 0;
}

/* It waits if the record shows its ticket in the queue. */
static void place(const struct waits_graph *graph, waits_node *node)
{
    const hf_record *record = waits_graph_record(graph, node->wait.on.name);
    const hf_entry *entry = record ? record_find(record, node->wait.on.ticket) : NULL;
    bool is_there = waits_in(record, entry) && id_equal(entry->session, node->session);
    node->record = is_there ? record : NULL;
    node->entry = is_there ? entry : NULL;
    node->is_stuck = is_there;
}

/* ---- Reduction ---- */

bool waits_graph_holds(const waits_node *node, const hf_entry *holder)
{
    for (size_t i = 0; i < node->wait.n_holds; i++)
        if (id_equal(node->wait.holds[i].ticket, holder->ticket))
            return true;
    return false;
}

/* Permits that never come back: of holders that are stuck elsewhere. */
static int64_t permits_stuck(const struct waits_graph *graph, const hf_record *record)
{
    int64_t sum = 0;
    for (size_t i = 0; i < record->holders; i++)
        for (size_t j = 0; j < graph->n_nodes; j++)
            if (graph->nodes[j].is_stuck &&
                waits_graph_holds(&graph->nodes[j], &record->entries[i])) {
                sum += record->entries[i].permits;
                break;
            }
    return sum;
}

static waits_node *stuck_at(const struct waits_graph *graph, const hf_entry *entry)
{
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].is_stuck && graph->nodes[i].entry == entry)
            return &graph->nodes[i];
    return NULL;
}

/* Lets the queue move, up to the first waiter that is stuck for good. Nobody is stuck behind one
 * outside, which may be gone: the next one passes it. Returns whether anybody was freed. */
static bool free_in(const struct waits_graph *graph, const hf_record *record)
{
    int64_t stuck = permits_stuck(graph, record);
    bool any = false;
    for (size_t i = 0; i < record->queued; i++) {
        const hf_entry *entry = &record->entries[record->holders + i];
        waits_node *node = stuck_at(graph, entry);
        bool is_stuck = node && stuck + entry->permits > record->limit;
        if (is_stuck && !node->is_outside)
            break;
        if (!node || is_stuck)
            continue;
        node->is_stuck = false;
        any = true;
    }
    return any;
}

void waits_graph_reduce(struct waits_graph *graph)
{
    stand_all_in(graph);
    for (size_t i = 0; i < graph->n_nodes; i++)
        place(graph, &graph->nodes[i]);
    for (bool moves = true; moves;) {
        moves = false;
        for (size_t i = 0; i < graph->n_records; i++)
            moves |= free_in(graph, &graph->records[i]);
    }
}

/* ---- Who waits for each other ---- */

static const hf_entry *held_in(const waits_node *node, const hf_record *record)
{
    for (size_t i = 0; i < record->holders; i++)
        if (waits_graph_holds(node, &record->entries[i]))
            return &record->entries[i];
    return NULL;
}

/* For what the other holds, or behind it. */
static bool waits_for(const waits_node *node, const waits_node *other)
{
    return held_in(other, node->record) ||
           (!other->is_outside && other->record == node->record && other->entry < node->entry);
}

static waits_node *find(const struct waits_graph *graph, hf_id ticket)
{
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].is_stuck && id_equal(graph->nodes[i].wait.on.ticket, ticket))
            return &graph->nodes[i];
    return NULL;
}

/* Whom `from` waits for, and whom those wait for; or, backwards, who waits for it. */
static void reach(const struct waits_graph *graph, const waits_node *from, bool backwards)
{
    for (size_t i = 0; i < graph->n_nodes; i++) {
        waits_node *node = &graph->nodes[i];
        if (!node->is_stuck || node->is_reached ||
            !(backwards ? waits_for(node, from) : waits_for(from, node)))
            continue;
        node->is_reached = true;
        reach(graph, node, backwards);
    }
}

size_t waits_graph_mark(struct waits_graph *graph, hf_id ticket)
{
    const waits_node *self = find(graph, ticket);
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++)
        graph->nodes[i].is_reached = graph->nodes[i].is_in_deadlock = false;
    if (!self)
        return 0;
    reach(graph, self, true);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        graph->nodes[i].is_in_deadlock = graph->nodes[i].is_reached;
        graph->nodes[i].is_reached = false;
    }
    reach(graph, self, false);
    for (size_t i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i].is_in_deadlock &= graph->nodes[i].is_reached;
    return self->is_in_deadlock ? n : 0;
}

static bool is_younger(const waits_node *a, const waits_node *b)
{
    int64_t since = a->entry->since.ms - b->entry->since.ms;
    return since ? since > 0 : memcmp(&a->wait.on.ticket, &b->wait.on.ticket, sizeof(hf_id)) > 0;
}

/* Whether it holds what others in the deadlock wait for, so that giving up helps them. */
static bool is_wanted(const struct waits_graph *graph, const waits_node *node)
{
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].is_in_deadlock && held_in(node, graph->nodes[i].record))
            return true;
    return false;
}

const waits_node *waits_graph_youngest(const struct waits_graph *graph)
{
    const waits_node *youngest = NULL;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const waits_node *node = &graph->nodes[i];
        if (node->is_in_deadlock && is_wanted(graph, node) &&
            (!youngest || is_younger(node, youngest)))
            youngest = node;
    }
    return youngest;
}

/* ---- For people ---- */

/* before[i]: the node from which node i was reached, breadth first from self; once self is reached
 * again, the path is known. Returns the node that closes the cycle. */
static size_t go_around(const struct waits_graph *graph, size_t self, size_t *before)
{
    size_t *queue = alloc_array(NULL, graph->n_nodes, sizeof *queue);
    size_t head = 0, tail = 0, last = self;
    for (size_t i = 0; i < graph->n_nodes; i++)
        before[i] = SIZE_MAX;
    for (queue[tail++] = self; head < tail; head++) {
        const waits_node *at = &graph->nodes[queue[head]];
        if (waits_for(at, &graph->nodes[self])) {
            last = queue[head];
            break;
        }
        for (size_t i = 0; i < graph->n_nodes; i++)
            if (graph->nodes[i].is_in_deadlock && i != self && before[i] == SIZE_MAX &&
                waits_for(at, &graph->nodes[i])) {
                before[i] = queue[head];
                queue[tail++] = i;
            }
    }
    free(queue);
    return last;
}

static void name_node(const waits_node *node, char *out, size_t size)
{
    const char *actor = node->entry->actor;
    snprintf(out, size, "%.60s%s%.24s%s", node->who, actor[0] ? " (" : "", actor,
             actor[0] ? ")" : "");
}

/* How the other one is in the way: it holds, or a process that waits for it, or it stands before.
 */
static const char *relation(const waits_node *node, const waits_node *other)
{
    const hf_entry *held = held_in(other, node->record);
    if (!held)
        return "behind";
    return id_equal(held->session, other->session) ? "held by" : "held by what started";
}

static const char *itself(const waits_node *node)
{
    const hf_entry *held = held_in(node, node->record);
    return held && !id_equal(held->session, node->session) ? "it" : "itself";
}

static void append_edge(const waits_node *node, const waits_node *other, char *out, size_t size)
{
    char a[128], b[128];
    size_t used = strlen(out);
    name_node(node, a, sizeof a);
    name_node(other, b, sizeof b);
    snprintf(out + used, size - used, "%s%s waits for %.80s %s %s", used ? "; " : "", a,
             node->wait.on.name, relation(node, other), node == other ? itself(node) : b);
}

void waits_graph_describe(const struct waits_graph *graph, hf_id ticket, char *out, size_t size)
{
    size_t self = (size_t)(find(graph, ticket) - graph->nodes), n = 0;
    size_t *before = alloc_array(NULL, graph->n_nodes, sizeof *before);
    size_t *way = alloc_array(NULL, graph->n_nodes + 1, sizeof *way);
    out[0] = '\0';
    for (size_t at = go_around(graph, self, before); at != self; at = before[at])
        way[n++] = at;
    const waits_node *node = &graph->nodes[self];
    while (n) {
        const waits_node *next = &graph->nodes[way[--n]];
        append_edge(node, next, out, size);
        node = next;
    }
    append_edge(node, &graph->nodes[self], out, size);
    free(before);
    free(way);
}
