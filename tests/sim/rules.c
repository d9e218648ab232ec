/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c: what must be true of the records: P2 to P4, P7, P20 and P22 of docs/promises.md, seen
 * from outside. */
#include "sim/world.h"

#include "core/id.h"

#include <string.h>

#define LEFT 4096 /* tickets remembered as left, for each lock */
#define UNANSWERED 1024

typedef struct history {
    int64_t token; /* the highest that was granted, or believed */
    int64_t believed;
    int64_t alone;               /* the highest believed one that excluded others */
    hf_id queue[HF_ENTRIES_MAX]; /* as after the last step */
    size_t queued;
    hf_id held[HF_ENTRIES_MAX];
    size_t holders;
    int32_t limit;
    hf_id left[LEFT];
    size_t n_left;
} history;

static history histories[NAMES];
static hf_id unanswered[UNANSWERED];
static size_t n_unanswered;

#define ORPHANS 64

/* For how long a client that could have looked has let a ticket stand. */
typedef struct orphan {
    hf_id ticket;
    int64_t for_ns, patience_ns;
    bool is_there;
} orphan;

static orphan orphans[ORPHANS];
static size_t n_orphans;

static int64_t deadlocks_checked_ns;

void rules_begin(void)
{
    memset(histories, 0, sizeof histories);
    n_unanswered = n_orphans = 0;
    deadlocks_checked_ns = 0;
}

/* ---- P20: a victim was in a deadlock ---- */

#define WAITS 4096

/* One that waits, and may never go on. `by` is NULL where a lease or an errand is waited for: such
 * a caller holds nothing of what workers want, but stands before them. */
typedef struct wait {
    const struct attempt *attempt;
    worker *by;
    const worker *holder; /* which has what they hold meanwhile; NULL: nothing */
    int name;
    size_t place;
} wait;

static wait stuck[WAITS];
static size_t n_stuck;

/* What its thread holds while it waits for a second one, or its parent. */
static const worker *holder_beside(const worker *w)
{
    ptrdiff_t i = w - w->node->workers;
    const worker *other = i < WORKERS ? NULL : i < CHILDREN ? w - WORKERS : w->parent;
    return other && beliefs_of_worker(other) ? other : NULL;
}

static size_t place_of(const struct attempt *attempt, int name)
{
    const history *h = &histories[name];
    size_t at = 0;
    while (at < h->queued && !id_equal(h->queue[at], attempt->request.enter.entry.ticket))
        at++;
    return at;
}

/* Of each lock: the place of the first that is stuck, and the permits of those that are. */
typedef struct queues {
    size_t first[NAMES];
    int64_t held[NAMES];
} queues;

static void look_at_queues(queues *q)
{
    for (int i = 0; i < NAMES; i++) {
        q->first[i] = SIZE_MAX;
        q->held[i] = 0;
    }
    for (const wait *s = stuck; s < stuck + n_stuck; s++) {
        q->first[s->name] = s->place < q->first[s->name] ? s->place : q->first[s->name];
        if (s->holder)
            q->held[s->holder->name] += s->holder->lock->grant.permits;
    }
}

static bool can_go_on(const wait *s, const queues *q)
{
    const hf_entry *entry = &s->attempt->request.enter.entry;
    return s->place == q->first[s->name] &&
           q->held[s->name] + entry->permits <= histories[s->name].limit;
}

/* Takes out those that can go on; whether there were any. */
static bool free_some(void)
{
    queues q;
    size_t before = n_stuck;
    look_at_queues(&q);
    for (wait *s = stuck; s < stuck + n_stuck;)
        if (can_go_on(s, &q))
            *s = stuck[--n_stuck];
        else
            s++;
    return n_stuck < before;
}

static worker *worker_of(node *n, const struct attempt *attempt)
{
    for (int i = 0; i < SLOTS; i++)
        if (n->workers[i].attempt == attempt)
            return &n->workers[i];
    return NULL;
}

static int name_of(const struct attempt *attempt)
{
    int name = 0;
    while (name < NAMES && strcmp(sim_name(name), attempt->request.name) != 0)
        name++;
    return name;
}

static void add_waits(node *n)
{
    const struct lock_request *request = n->client->hold->requests;
    for (; request && n_stuck < WAITS; request = request->next) {
        const struct attempt *at = (const struct attempt *)request; /* its first member */
        if (at->state == ATTEMPT_ENDED)
            continue;
        worker *by = worker_of(n, at);
        int name = by ? by->name : name_of(at);
        if (name < NAMES)
            stuck[n_stuck++] =
                (wait){at, by, by ? holder_beside(by) : NULL, name, place_of(at, name)};
    }
}

static bool waits_for_a_second(const node *n)
{
    for (int i = WORKERS; i < SLOTS; i++)
        if (n->workers[i].attempt && n->workers[i].attempt->state != ATTEMPT_ENDED)
            return true;
    return false;
}

/* By what the threads really hold and wait for, whatever the store says. A deadlock lasts until it
 * is told, and to find one takes two messages at least. */
static void check_deadlocks(void)
{
    bool any = false;
    if (sim_now_ns - deadlocks_checked_ns < MS / 2)
        return;
    deadlocks_checked_ns = sim_now_ns;
    for (node *n = sim.nodes; n; n = n->next)
        any |= waits_for_a_second(n);
    n_stuck = 0;
    for (node *n = sim.nodes; any && n; n = n->next)
        add_waits(n);
    while (free_some())
        ;
    for (const wait *s = stuck; s < stuck + n_stuck; s++)
        if (s->by)
            s->by->was_stuck = true;
}

void rules_victim(const worker *w)
{
    if (!w->was_stuck)
        sim_violation("P20: who waited for %s was told of a deadlock that was none",
                      sim_name(w->name));
}

void rules_check_beliefs(void)
{
    beliefs_check();
    outages_check();
    breaks_check();
    check_deadlocks();
}

/* ---- P2 to P4, P7, P22: what a step may do ---- */

static bool is_among(hf_id id, const hf_id *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (id_equal(ids[i], id))
            return true;
    return false;
}

/* What a pass brings is not new: it has the place and the token of the one before. */
static bool is_new(const history *h, const hf_step *step, const hf_entry *holder)
{
    bool is_passed = step->pass && id_equal(holder->ticket, step->pass->to);
    return !is_passed && !is_among(holder->ticket, h->held, h->holders);
}

/* What was kept for a holder, and not used, may be given back; nothing that was granted or believed
 * is. */
static void check_tokens(const history *h, const hf_step *step, const hf_record *after)
{
    if (after->token < h->token)
        sim_violation("P3: the token of %s went back from %lld to %lld", after->name,
                      (long long)h->token, (long long)after->token);
    for (size_t i = 0; i < after->holders; i++)
        if (is_new(h, step, &after->entries[i]) && after->entries[i].token <= h->token)
            sim_violation("P3: %s was granted with a token that is no higher", after->name);
    for (size_t i = 1; i < after->holders; i++)
        if (after->entries[i].token <= after->entries[i - 1].token)
            sim_violation("P3: two holders of %s have tokens out of order", after->name);
}

/* Else those of the record that comes after it, if it is lost, might be lower. */
static void check_clock(const hf_record *after)
{
    if (after->token + (int64_t)after->queued > sim.cluster_time)
        sim_violation("P3: the tokens of %s are ahead of the cluster's time", after->name);
}

static void check_order(const history *h, const hf_step *step, const hf_record *after)
{
    for (size_t i = 0; i < after->holders; i++) {
        const hf_entry *holder = &after->entries[i];
        if (!is_new(h, step, holder))
            continue;
        for (size_t j = after->holders; j < after->holders + after->queued; j++)
            if ((!holder->number || after->entries[j].number < holder->number) &&
                is_among(after->entries[j].ticket, h->queue, h->queued))
                sim_violation("P7: somebody overtook in %s: %lld before %lld", after->name,
                              (long long)holder->number, (long long)after->entries[j].number);
    }
}

static void check_left(const history *h, const hf_record *after)
{
    size_t n = h->n_left < LEFT ? h->n_left : LEFT;
    for (size_t i = 0; i < after->holders + after->queued; i++)
        if (is_among(after->entries[i].ticket, h->left, n))
            sim_violation("P4: a ticket of %s whose leave was acknowledged is back", after->name);
}

/* Those that held when a lower limit was set go on. */
static void check_permits(const history *h, const hf_step *step, const hf_record *after)
{
    int64_t sum = 0;
    bool any = false;
    for (size_t i = 0; i < after->holders; i++) {
        sum += after->entries[i].permits;
        any |= is_new(h, step, &after->entries[i]);
    }
    if (any && sum > after->limit)
        sim_violation("P2: %s has granted more than its limit", after->name);
}

/* So a lease is one, whatever was sent twice. */
static void check_once(const hf_record *after)
{
    for (size_t i = 0; i < after->holders + after->queued; i++)
        if (record_find(after, after->entries[i].ticket) != &after->entries[i])
            sim_violation("P22: a ticket stands in %s twice", after->name);
}

/* Breaks have to do with those that held it before. */
static void tell_breaks(const history *h, const hf_step *step, const hf_record *after)
{
    for (size_t i = 0; i < step->n_leaves; i++)
        if (is_among(step->leaves[i].ticket, h->held, h->holders))
            breaks_took_out(&step->leaves[i]);
    if (step->pass && is_among(step->pass->ticket, h->held, h->holders) &&
        !is_among(step->pass->to, h->held, h->holders))
        breaks_passed(step->pass);
    breaks_stands(after);
}

static void remember(history *h, const hf_record *after)
{
    for (size_t i = 0; i < after->holders; i++) {
        int64_t token = after->entries[i].token;
        h->token = token > h->token ? token : h->token;
        h->held[i] = after->entries[i].ticket;
    }
    for (size_t i = 0; i < after->queued; i++)
        h->queue[i] = after->entries[after->holders + i].ticket;
    h->holders = after->holders;
    h->queued = after->queued;
    h->limit = after->limit;
}

void rules_check_step(const char *name, const hf_step *step, const hf_record *after)
{
    for (int i = 0; i < NAMES; i++) {
        history *h = &histories[i];
        if (strcmp(name, sim_name(i)) != 0 || !after->exists)
            continue;
        check_tokens(h, step, after);
        check_clock(after);
        check_order(h, step, after);
        check_permits(h, step, after);
        check_left(h, after);
        check_once(after);
        tell_breaks(h, step, after);
        remember(h, after);
    }
}

static void believed(int name, hf_id ticket, int64_t token, bool is_alone)
{
    history *h = &histories[name];
    breaks_believed(name, ticket);
    if (breaks_excuse(ticket))
        return;
    if (token <= h->alone || (is_alone && token <= h->believed))
        sim_violation("P3: %s is believed with a token that is no higher", sim_name(name));
    h->believed = token > h->believed ? token : h->believed;
    h->token = token > h->token ? token : h->token;
    if (is_alone)
        h->alone = token;
}

/* Threads of one client have tokens of their own, from the block that the grant has kept. */
void rules_believed(const worker *w)
{
    const struct grant *grant = &w->lock->grant;
    believed(w->name, grant->ticket, grant->token, grant->permits == HF_LIMIT_RW);
}

void rules_errand_had(int name, const hf_lock *lock)
{
    believed(name, lock->grant.ticket, hf_lock_token(lock), true);
}

/* A repeat may be answered long after the lease was had, and lost. */
void rules_lease_had(int name, hf_id ticket, int64_t token, int32_t permits, bool was_there)
{
    if (!was_there)
        believed(name, ticket, token, permits == HF_LIMIT_RW);
}

void rules_unanswered(hf_id ticket)
{
    unanswered[n_unanswered++ % UNANSWERED] = ticket;
}

/* An upgrade, late or not, finds nobody whose place it could take. */
void rules_left(const char *name, hf_id ticket, hf_id upgrade)
{
    size_t n = n_unanswered < UNANSWERED ? n_unanswered : UNANSWERED;
    if (is_among(ticket, unanswered, n))
        return; /* an older request of it may still land: it is a suspect (R8) */
    for (int i = 0; i < NAMES; i++) {
        history *h = &histories[i];
        if (strcmp(name, sim_name(i)) != 0)
            continue;
        h->left[h->n_left++ % LEFT] = ticket;
        if (!id_is_zero(upgrade))
            h->left[h->n_left++ % LEFT] = upgrade;
    }
}

/* ---- No orphans: tickets of a living session that its client does not know (R8) ---- */

static const node *owner_of(hf_id session)
{
    for (const node *n = sim.nodes; n; n = n->next)
        if (n->client->session.state == SESSION_ALIVE &&
            id_equal(n->client->session.self.id, session))
            return n;
    return NULL;
}

static bool is_known(const node *n, hf_id ticket)
{
    return waiters_find(&n->client->hold->waiters, ticket) || lock_find_locked(n->client, ticket) ||
           release_is_pending_locked(n->client, ticket);
}

static bool could_look(const node *n)
{
    return sim_now_ns >= n->cut_until && sim_now_ns >= n->stopped_until &&
           sim_now_ns >= sim.down_until;
}

static orphan *find_or_add(hf_id ticket)
{
    for (size_t i = 0; i < n_orphans; i++)
        if (id_equal(orphans[i].ticket, ticket))
            return &orphans[i];
    if (n_orphans == ORPHANS)
        return NULL;
    orphans[n_orphans] = (orphan){.ticket = ticket};
    return &orphans[n_orphans++];
}

/* A client looks at its suspects once in a ttl; where requests are lost, that can fail again and
 * again. The worst weather that a ticket has seen counts: a call that was lost in it ends after. */
static int64_t patience_ns(void)
{
    bool is_calm = !sim.weather.loses_request && !sim.weather.loses_reply;
    return (is_calm ? 2 * sim.ttl_ms + 6000 : 6 * sim.ttl_ms + 30000) * MS;
}

static bool patrol(void *ctx, const hf_record *record)
{
    int64_t step_ns = *(const int64_t *)ctx;
    for (size_t i = 0; i < record->holders + record->queued; i++) {
        const hf_entry *entry = &record->entries[i];
        const node *n = owner_of(entry->session);
        orphan *o = n && !is_known(n, entry->ticket) ? find_or_add(entry->ticket) : NULL;
        if (!o)
            continue;
        o->is_there = true;
        o->for_ns += could_look(n) ? step_ns : 0;
        o->patience_ns = patience_ns() > o->patience_ns ? patience_ns() : o->patience_ns;
        if (o->for_ns > o->patience_ns)
            sim_violation("R8: node %d has let a ticket of its own stand in %s for %lld s",
                          n->number, record->name, (long long)(o->for_ns / SECOND));
    }
    return true;
}

void rules_check_orphans(int64_t since_ns)
{
    size_t kept = 0;
    hf_error err;
    for (size_t i = 0; i < n_orphans; i++)
        orphans[i].is_there = false;
    sim.server->ops->list(sim.server, &(hf_list_part){.prefix = "", .after = ""}, patrol, &since_ns,
                          &err);
    for (size_t i = 0; i < n_orphans; i++)
        if (orphans[i].is_there)
            orphans[kept++] = orphans[i];
    n_orphans = kept;
}

/* ---- In the end: no orphans, nobody forgotten (L1 to L3) ---- */

static bool check_rest(void *ctx, const hf_record *record)
{
    (void)ctx;
    for (size_t i = 0; i < record->holders + record->queued; i++)
        if (owner_of(record->entries[i].session))
            sim_violation("R8: a ticket of a living session was forgotten in %s", record->name);
    return true;
}

void rules_check_rest(void)
{
    for (const node *n = sim.nodes; n; n = n->next)
        for (int i = 0; i < SLOTS; i++) {
            if (n->workers[i].attempt)
                sim_violation("L1: node %d worker %d still waits for %s, since %lld s", n->number,
                              i, sim_name(n->workers[i].name),
                              (long long)((sim_now_ns - n->workers[i].trying_since) / SECOND));
            if (n->workers[i].lock)
                sim_violation("L4: node %d worker %d has not come to its end", n->number, i);
        }
    hf_error err;
    sim.server->ops->list(sim.server, &(hf_list_part){.prefix = "", .after = ""}, check_rest, NULL,
                          &err);
}
