/* SPDX-License-Identifier: Apache-2.0 */
/* beliefs.c: which nodes believe in which locks, or are being stopped, and that no two do that
 * exclude each other (P1, P2, P5, P18). */
#include "sim/world.h"

#include "core/id.h"

/* Its lease runs, by its own clock. */
static bool may_believe(const node *n)
{
    return !n->is_dead && n->client->session.state == SESSION_ALIVE &&
           node_clock_ns(n) < n->client->session.lease_end.ns;
}

static bool is_of_its_session(const node *n, const struct hf_lock *lock)
{
    return id_equal(n->client->session.self.id, lock->grant.session);
}

/* Its watchdog has fired. From when it had to be fed, it has the stop margin, whatever its client
 * makes of that. */
static bool is_unfed(const node *n, const struct hf_lock *lock)
{
    const struct watchdog *dog = &lock->belief.watchdog;
    int64_t end_ns = mono_add_ms(watchdog_due(dog), n->client->stop_margin_ms).ns;
    return dog->has_bitten && node_clock_ns(n) < end_ns && may_believe(n) &&
           is_of_its_session(n, lock);
}

/* It was lost, and its holder was told until when to stop. */
static bool is_stopping(const node *n, const struct hf_lock *lock)
{
    return node_clock_ns(n) < lock->loss.stop_by.ns || is_unfed(n, lock);
}

static bool is_believed(const node *n, const struct hf_lock *lock)
{
    return lock->state == LOCK_HELD && may_believe(n) && is_of_its_session(n, lock);
}

bool beliefs_of_worker(const worker *w)
{
    return w->lock && is_believed(w->node, w->lock) && !breaks_excuse(w->lock->grant.ticket);
}

/* Whether its holder, on a node that lives, may be at work. What a forced break excuses does not
 * count. */
static bool is_in_use(const node *n, const struct hf_lock *lock)
{
    return (lock->state == LOCK_LOST ? is_stopping(n, lock) : is_believed(n, lock)) &&
           !breaks_excuse(lock->grant.ticket);
}

/* ---- All of them ---- */

#define MOST (NODES * (SLOTS + 2 * ERRANDS))

typedef struct use {
    int name;
    int32_t limit;
    const struct hf_lock *lock;
} use;

static size_t collect_of(const node *n, use *out)
{
    size_t found = 0;
    for (const worker *w = n->workers; w < n->workers + SLOTS; w++)
        if (w->lock && is_in_use(n, w->lock))
            out[found++] = (use){w->name, w->limit, w->lock};
    for (const errand *e = n->errands; e < n->errands + ERRANDS; e++)
        for (int i = 0; i < 2; i++)
            if (e->locks[i] && is_in_use(n, e->locks[i]))
                out[found++] = (use){e->names[i], HF_LIMIT_RW, e->locks[i]};
    return found;
}

/* Those of the nodes: users of leases have their own. */
static size_t collect(use out[MOST])
{
    size_t found = 0;
    for (const node *n = sim.nodes; n; n = n->next)
        found += collect_of(n, out + found);
    return found;
}

void beliefs_check(void)
{
    use all[MOST];
    int64_t sum[NAMES] = {0};
    int32_t limit[NAMES] = {0};
    size_t n = collect(all);
    for (size_t i = 0; i < n; i++) {
        sum[all[i].name] += all[i].lock->grant.permits;
        limit[all[i].name] = all[i].limit;
    }
    leases_add(sum, limit);
    for (int i = 0; i < NAMES; i++)
        if (sum[i] > limit[i])
            sim_violation("P1: %s is believed to be held by too many", sim_name(i));
}

bool beliefs_in(hf_id ticket)
{
    use all[MOST];
    size_t n = collect(all);
    for (size_t i = 0; i < n; i++)
        if (id_equal(all[i].lock->grant.ticket, ticket))
            return true;
    return leases_believe(ticket);
}
