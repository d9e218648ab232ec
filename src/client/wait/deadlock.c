/* SPDX-License-Identifier: Apache-2.0 */
/* deadlock.c: a session that has waited for long, and holds something, checks whether the sessions
 * that it waits for also wait for it. The youngest of them gives up. Called by waiting attempts,
 * beats and the doctor.
 *
 * It reads records and the wait reports in beats (core/waits.h); core/waits_graph.c finds the
 * deadlock, and deadlock_proof.c believes it.
 *
 * Records do not name those who wait outside the queue. So one of them that holds what others want
 * reads the reports of all sessions. If some of a deadlock's are outside, its youngest is one of
 * them: those in the queue need not know.
 */
#include "client/wait/deadlock.h"

#include "client/wait/deadlock_proof.h"

#include "client/hold/hold.h"
#include "client/hold/long_waits.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/record.h"
#include "core/waits_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS_MOST 256 /* one look follows this many names, and this many sessions: */
#define SESSIONS_MOST 1000
#define QUICK_LOOKS 4
#define LONG_WAIT_MS 60000

/* ---- Looking around ---- */

/* Follows the graph backwards from this attempt: the records of what its owner holds, the sessions
 * in their queues, the records of what those hold, and so on. */
typedef struct survey {
    struct waits_graph graph;
    const char *names[RECORDS_MOST];  /* first what the owner holds */
    size_t n_held, n_names, n_looked; /* those before n_looked are in the graph */
    hf_id sessions[SESSIONS_MOST];
    size_t n_sessions, n_asked;
    bool asks_all, has_asked_all; /* instead of those */
} survey;

static void add_name(survey *s, const char *name)
{
    for (size_t i = 0; i < s->n_names; i++)
        if (strcmp(s->names[i], name) == 0)
            return;
    if (s->n_names < RECORDS_MOST)
        s->names[s->n_names++] = name;
}

static void add_session(survey *s, hf_id session)
{
    for (size_t i = 0; i < s->n_sessions; i++)
        if (id_equal(s->sessions[i], session))
            return;
    if (s->n_sessions < SESSIONS_MOST)
        s->sessions[s->n_sessions++] = session;
}

static bool add_record(void *ctx, const hf_record *record)
{
    survey *s = ctx;
    waits_graph_add_record(&s->graph, record);
    for (size_t i = 0; i < record->queued; i++)
        add_session(s, record->entries[record->holders + i].session);
    return true;
}

static bool add_waits(void *ctx, const hf_waits *waits)
{
    char who[HF_TEXT_MAX + 1];
    session_who(&waits->session, who);
    waits_graph_add_waits(ctx, waits, who);
    return true;
}

/* Reads what all waiters in the known records hold. */
static void add_held(survey *s)
{
    for (size_t i = 0; i < s->graph.n_nodes; i++) {
        const waits_entry *wait = &s->graph.nodes[i].wait;
        const hf_record *record = waits_graph_record(&s->graph, wait->on.name);
        if (!record || !(wait->number || record_find(record, wait->on.ticket)))
            continue;
        for (size_t j = 0; j < wait->n_holds; j++)
            add_name(s, wait->holds[j].name);
    }
}

/* Whether somebody waits for what the owner holds. */
static bool is_wanted(const survey *s)
{
    for (size_t i = 0; i < s->n_held; i++) {
        const hf_record *record = waits_graph_record(&s->graph, s->names[i]);
        if (record && record->queued)
            return true;
    }
    return false;
}

static hf_code ask_all(survey *s, hf_store *store, hf_error *err)
{
    if (s->has_asked_all || !is_wanted(s))
        return HF_OK;
    s->has_asked_all = true;
    return store->ops->waits(store, NULL, 0, add_waits, &s->graph, err);
}

static hf_code ask_waiters(survey *s, hf_store *store, hf_error *err)
{
    size_t asked = s->n_asked;
    s->n_asked = s->n_sessions;
    if (s->n_asked == asked)
        return HF_OK;
    return store->ops->waits(store, s->sessions + asked, s->n_asked - asked, add_waits, &s->graph,
                             err);
}

static hf_code look_on(survey *s, hf_store *store, hf_error *err)
{
    size_t names = s->n_names, looked = s->n_looked;
    s->n_looked = names;
    hf_code code = store->ops->look(store, s->names + looked, names - looked, (hf_stamp){0}, false,
                                    add_record, s, err);
    if (!code)
        code = (s->asks_all ? ask_all : ask_waiters)(s, store, err);
    add_held(s);
    return code;
}

static hf_code look_around(survey *s, struct lock_request *request, const waits_item *holds,
                           size_t n, bool *wanted)
{
    hf_error err;
    hf_code code = HF_OK;
    for (size_t i = 0; i < n; i++)
        add_name(s, holds[i].name);
    s->n_held = s->n_names;
    s->asks_all = request->outside;
    add_name(s, request->name);
    while (!code && s->n_looked < s->n_names)
        code = look_on(s, request->client->store, &err);
    *wanted = is_wanted(s);
    return code;
}

/* ---- The verdict ---- */

static void tell(const struct lock_request *request, const struct waits_graph *graph, hf_error *err)
{
    char cycle[sizeof err->text];
    waits_graph_describe(graph, request->enter.entry.ticket, cycle, sizeof cycle);
    error_set(err, HF_DEADLOCK,
              "deadlock: %.430s: release what is held and begin again, or take them in one order",
              cycle);
}

/* If the queue is full, one outside waits for any of those inside, also with a lower number. */
static void stand_behind_queue(const struct lock_request *request, struct waits_graph *graph)
{
    const hf_record *record = waits_graph_record(graph, request->name);
    if (!record || !record->queued || record_places(record, request->enter.queue_max))
        return;
    int64_t last = record->entries[record->holders + record->queued - 1].number;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        waits_entry *wait = &graph->nodes[i].wait;
        if (wait->number && id_equal(wait->on.ticket, request->enter.entry.ticket))
            wait->number = wait->number > last ? wait->number : last;
    }
}

/* Whether this request is the one to give up. */
static bool weigh(const struct lock_request *request, struct deadlock *deadlock,
                  struct waits_graph *graph)
{
    hf_id ticket = request->enter.entry.ticket;
    stand_behind_queue(request, graph);
    waits_graph_reduce(graph);
    size_t n = waits_graph_mark(graph, ticket);
    deadlock->looks = n ? 0 : deadlock->looks;
    if (n && id_equal(waits_graph_youngest(graph)->wait.on.ticket, ticket))
        return deadlock_is_proven(deadlock, graph, n, request->client);
    deadlock_forget(deadlock);
    return false;
}

static int64_t pause_ms(const hf_client *client, struct deadlock *deadlock)
{
    int64_t ms = client->deadlock_ms / 4;
    for (unsigned i = QUICK_LOOKS; i < deadlock->looks && ms < lease_beat_ms(client->ttl_ms); i++)
        ms *= 2;
    deadlock->looks++;
    return ms < lease_beat_ms(client->ttl_ms) ? ms : lease_beat_ms(client->ttl_ms);
}

static bool look(struct lock_request *request, struct deadlock *deadlock, const waits_item *holds,
                 size_t n, hf_error *err)
{
    hf_client *client = request->client;
    survey *s = alloc_zeroed(sizeof *s);
    bool wanted;
    bool is_victim = !look_around(s, request, holds, n, &wanted) && wanted &&
                     weigh(request, deadlock, &s->graph);
    if (is_victim)
        tell(request, &s->graph, err);
    pthread_mutex_lock(&client->mutex);
    if (wanted)
        session_hurry_locked(client, client->deadlock_ms / 4);
    pthread_mutex_unlock(&client->mutex);
    waits_graph_done(&s->graph);
    free(s);
    return is_victim;
}

/* Nobody waits for a request that holds nothing: do not wake it to find that out again. */
static hf_mono due_at(const hf_client *client, const struct deadlock_watch *watch)
{
    return watch->holds_nothing || long_waits_are_off(client) ? MONO_NEVER : watch->due;
}

bool deadlock_tick(struct lock_request *request, struct deadlock_watch *watch, hf_mono now,
                   hf_mono *due, hf_error *err)
{
    hf_client *client = request->client;
    waits_item holds[WAITS_HOLDS_MAX];
    *due = due_at(client, watch);
    if (long_waits_are_off(client) || !mono_reached(watch->due, now))
        return false;
    pthread_mutex_lock(&client->mutex);
    size_t n = long_waits_holds_locked(request, holds);
    pthread_mutex_unlock(&client->mutex);
    if (!watch->found)
        watch->found = alloc_zeroed(sizeof *watch->found);
    bool is_victim = n && look(request, watch->found, holds, n, err);
    watch->holds_nothing = !n;
    watch->due = mono_add_ms(client_now(client), pause_ms(client, watch->found));
    *due = due_at(client, watch);
    return is_victim;
}

void deadlock_done(struct deadlock_watch *watch)
{
    if (!watch->found)
        return;
    deadlock_forget(watch->found);
    free(watch->found);
}

/* ---- The doctor ---- */

typedef struct visit {
    struct waits_graph graph;
    hf_finding_fn each;
    void *ctx;
    int64_t now_ms;
    bool is_over;
} visit;

static void find(visit *v, const char *topic, const char *text)
{
    hf_finding finding = {.topic = topic, .text = text, .wants_care = true};
    v->is_over = v->is_over || !v->each(v->ctx, &finding);
}

static void find_long_wait(visit *v, const hf_record *record)
{
    const hf_entry *first = &record->entries[record->holders];
    int64_t ms = v->now_ms - first->since.ms;
    char text[HF_NAME_MAX + 200];
    if (ms < LONG_WAIT_MS)
        return;
    snprintf(text, sizeof text,
             "%s: %zu wait, the first for %lld s; `holdfast why` says who holds it", record->name,
             record->queued, (long long)(ms / 1000));
    find(v, "long wait", text);
}

static bool visit_record(void *ctx, const hf_record *record)
{
    visit *v = ctx;
    if (!record->queued)
        return true;
    waits_graph_add_record(&v->graph, record);
    find_long_wait(v, record);
    return !v->is_over;
}

/* Reports each deadlock once: its waiters no longer count as stuck afterwards. */
static void find_deadlocks(visit *v)
{
    char text[1024];
    waits_graph_reduce(&v->graph);
    for (size_t i = 0; i < v->graph.n_nodes && !v->is_over; i++) {
        hf_id ticket = v->graph.nodes[i].wait.on.ticket;
        if (!v->graph.nodes[i].is_stuck || !waits_graph_mark(&v->graph, ticket))
            continue;
        waits_graph_describe(&v->graph, ticket, text, sizeof text);
        find(v, "deadlock", text);
        for (size_t j = 0; j < v->graph.n_nodes; j++)
            v->graph.nodes[j].is_stuck &= !v->graph.nodes[j].is_in_deadlock;
    }
}

hf_code deadlock_doctor(hf_client *client, hf_finding_fn each, void *ctx, hf_error *err)
{
    static const hf_list_part used = {.prefix = "", .after = "", .in_use = true};
    hf_store *store = client->store;
    visit v = {.each = each, .ctx = ctx, .now_ms = client_wall(client).ms};
    if (!store->ops->waits)
        return HF_OK;
    hf_code code = store->ops->list(store, &used, visit_record, &v, err);
    if (!code && v.graph.n_records)
        code = store->ops->waits(store, NULL, 0, add_waits, &v.graph, err);
    if (!code)
        find_deadlocks(&v);
    waits_graph_done(&v.graph);
    return code;
}
