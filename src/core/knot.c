/* SPDX-License-Identifier: Apache-2.0 */
/* knot.c: decides who is in a deadlock: reduces the wait-for graph, and ties up those that wait for
 * each other; see knot.h. */
#include "core/knot.h"

#include "core/alloc.h"
#include "core/id.h"
#include "core/record.h"

#include <stdio.h>

void knot_done(struct knot *knot)
{
    for (size_t i = 0; i < knot->n_records; i++)
        record_done(&knot->records[i]);
    for (size_t i = 0; i < knot->n_nodes; i++)
        free(knot->nodes[i].wait.holds);
    free(knot->records);
    free(knot->nodes);
    *knot = (struct knot){.n_nodes = 0};
}

/* ---- What is known ---- */

const hf_record *knot_record(const struct knot *knot, const char *name)
{
    for (size_t i = 0; i < knot->n_records; i++)
        if (strcmp(knot->records[i].name, name) == 0)
            return &knot->records[i];
    return NULL;
}

void knot_add_record(struct knot *knot, const hf_record *record)
{
    knot->records = alloc_array(knot->records, knot->n_records + 1, sizeof *knot->records);
    record_copy(&knot->records[knot->n_records++], record);
}

void knot_add_waits(struct knot *knot, const hf_waits *waits, const char *who)
{
    waits_entry *entries;
    size_t n = waits_read(waits->text, &entries);
    knot->nodes = alloc_array(knot->nodes, knot->n_nodes + n, sizeof *knot->nodes);
    for (size_t i = 0; i < n; i++) {
        knot_node *node = &knot->nodes[knot->n_nodes++];
        *node = (knot_node){.wait = entries[i],
                            .session = waits->session.id,
                            .beat = waits->beat,
                            .seen = waits->seen};
        snprintf(node->who, sizeof node->who, "%s", who);
    }
    free(entries);
}

static bool waits_in(const hf_record *record, const hf_entry *entry)
{
    return entry && record_position(record, entry) > 0;
}

/* It waits if the record shows its ticket in the queue. */
static void place(const struct knot *knot, knot_node *node)
{
    const hf_record *record = knot_record(knot, node->wait.on.name);
    const hf_entry *entry = record ? record_find(record, node->wait.on.ticket) : NULL;
    bool is_there = waits_in(record, entry) && id_equal(entry->session, node->session);
    node->record = is_there ? record : NULL;
    node->entry = is_there ? entry : NULL;
    node->is_stuck = is_there;
}

/* ---- Reduction ---- */

static bool has(const knot_node *node, const hf_entry *holder)
{
    for (size_t i = 0; i < node->wait.n_holds; i++)
        if (id_equal(node->wait.holds[i].ticket, holder->ticket))
            return id_equal(node->session, holder->session);
    return false;
}

/* Permits that never come back: of holders that are stuck elsewhere. */
static int64_t permits_stuck(const struct knot *knot, const hf_record *record)
{
    int64_t sum = 0;
    for (size_t i = 0; i < record->holders; i++)
        for (size_t j = 0; j < knot->n_nodes; j++)
            if (knot->nodes[j].is_stuck && has(&knot->nodes[j], &record->entries[i])) {
                sum += record->entries[i].permits;
                break;
            }
    return sum;
}

static knot_node *stuck_at(const struct knot *knot, const hf_entry *entry)
{
    for (size_t i = 0; i < knot->n_nodes; i++)
        if (knot->nodes[i].is_stuck && knot->nodes[i].entry == entry)
            return &knot->nodes[i];
    return NULL;
}

/* The queue moves up to the first that is stuck for good. Whether anybody was freed. */
static bool free_in(const struct knot *knot, const hf_record *record)
{
    int64_t stuck = permits_stuck(knot, record);
    bool any = false;
    for (size_t i = 0; i < record->queued; i++) {
        const hf_entry *entry = &record->entries[record->holders + i];
        knot_node *node = stuck_at(knot, entry);
        if (node && stuck + entry->permits > record->limit)
            break;
        any |= node != NULL;
        if (node)
            node->is_stuck = false;
    }
    return any;
}

void knot_reduce(struct knot *knot)
{
    for (size_t i = 0; i < knot->n_nodes; i++)
        place(knot, &knot->nodes[i]);
    for (bool moves = true; moves;) {
        moves = false;
        for (size_t i = 0; i < knot->n_records; i++)
            moves |= free_in(knot, &knot->records[i]);
    }
}

/* ---- Who waits for each other ---- */

static bool holds_in(const knot_node *node, const hf_record *record)
{
    for (size_t i = 0; i < record->holders; i++)
        if (has(node, &record->entries[i]))
            return true;
    return false;
}

/* For what the other holds, or behind it. */
static bool waits_for(const knot_node *node, const knot_node *other)
{
    return holds_in(other, node->record) ||
           (other->record == node->record && other->entry < node->entry);
}

static knot_node *find(const struct knot *knot, hf_id ticket)
{
    for (size_t i = 0; i < knot->n_nodes; i++)
        if (knot->nodes[i].is_stuck && id_equal(knot->nodes[i].wait.on.ticket, ticket))
            return &knot->nodes[i];
    return NULL;
}

/* Whom `from` waits for, and whom those wait for; or, backwards, who waits for it. */
static void reach(const struct knot *knot, const knot_node *from, bool backwards)
{
    for (size_t i = 0; i < knot->n_nodes; i++) {
        knot_node *node = &knot->nodes[i];
        if (!node->is_stuck || node->is_reached ||
            !(backwards ? waits_for(node, from) : waits_for(from, node)))
            continue;
        node->is_reached = true;
        reach(knot, node, backwards);
    }
}

size_t knot_tie(struct knot *knot, hf_id ticket)
{
    const knot_node *self = find(knot, ticket);
    size_t n = 0;
    for (size_t i = 0; i < knot->n_nodes; i++)
        knot->nodes[i].is_reached = knot->nodes[i].is_knotted = false;
    if (!self)
        return 0;
    reach(knot, self, true);
    for (size_t i = 0; i < knot->n_nodes; i++) {
        knot->nodes[i].is_knotted = knot->nodes[i].is_reached;
        knot->nodes[i].is_reached = false;
    }
    reach(knot, self, false);
    for (size_t i = 0; i < knot->n_nodes; i++)
        n += knot->nodes[i].is_knotted &= knot->nodes[i].is_reached;
    return self->is_knotted ? n : 0;
}

static bool is_younger(const knot_node *a, const knot_node *b)
{
    int64_t since = a->entry->since.ms - b->entry->since.ms;
    return since ? since > 0 : memcmp(&a->wait.on.ticket, &b->wait.on.ticket, sizeof(hf_id)) > 0;
}

/* It holds what others in the knot wait for: they are helped if it gives up. */
static bool is_wanted(const struct knot *knot, const knot_node *node)
{
    for (size_t i = 0; i < knot->n_nodes; i++)
        if (knot->nodes[i].is_knotted && holds_in(node, knot->nodes[i].record))
            return true;
    return false;
}

const knot_node *knot_youngest(const struct knot *knot)
{
    const knot_node *youngest = NULL;
    for (size_t i = 0; i < knot->n_nodes; i++) {
        const knot_node *node = &knot->nodes[i];
        if (node->is_knotted && is_wanted(knot, node) && (!youngest || is_younger(node, youngest)))
            youngest = node;
    }
    return youngest;
}

/* ---- For people ---- */

/* before[i]: whom node i was reached from, breadth first from self; back at self, the way is known.
 * Returns the node that closes the circle. */
static size_t go_around(const struct knot *knot, size_t self, size_t *before)
{
    size_t *queue = alloc_array(NULL, knot->n_nodes, sizeof *queue);
    size_t head = 0, tail = 0, last = self;
    for (size_t i = 0; i < knot->n_nodes; i++)
        before[i] = SIZE_MAX;
    for (queue[tail++] = self; head < tail; head++) {
        const knot_node *at = &knot->nodes[queue[head]];
        if (waits_for(at, &knot->nodes[self])) {
            last = queue[head];
            break;
        }
        for (size_t i = 0; i < knot->n_nodes; i++)
            if (knot->nodes[i].is_knotted && i != self && before[i] == SIZE_MAX &&
                waits_for(at, &knot->nodes[i])) {
                before[i] = queue[head];
                queue[tail++] = i;
            }
    }
    free(queue);
    return last;
}

static void name_node(const knot_node *node, char *out, size_t size)
{
    const char *actor = node->entry->actor;
    snprintf(out, size, "%.60s%s%.24s%s", node->who, actor[0] ? " (" : "", actor,
             actor[0] ? ")" : "");
}

static void append_edge(const knot_node *node, const knot_node *other, char *out, size_t size)
{
    char a[128], b[128];
    size_t used = strlen(out);
    name_node(node, a, sizeof a);
    name_node(other, b, sizeof b);
    snprintf(out + used, size - used, "%s%s waits for %.80s %s %s", used ? "; " : "", a,
             node->wait.on.name, holds_in(other, node->record) ? "held by" : "behind",
             node == other ? "itself" : b);
}

void knot_describe(const struct knot *knot, hf_id ticket, char *out, size_t size)
{
    size_t self = (size_t)(find(knot, ticket) - knot->nodes), n = 0;
    size_t *before = alloc_array(NULL, knot->n_nodes, sizeof *before);
    size_t *way = alloc_array(NULL, knot->n_nodes + 1, sizeof *way);
    out[0] = '\0';
    for (size_t at = go_around(knot, self, before); at != self; at = before[at])
        way[n++] = at;
    const knot_node *node = &knot->nodes[self];
    while (n) {
        const knot_node *next = &knot->nodes[way[--n]];
        append_edge(node, next, out, size);
        node = next;
    }
    append_edge(node, &knot->nodes[self], out, size);
    free(before);
    free(way);
}
