/* SPDX-License-Identifier: Apache-2.0 */
/* leases.c: users of leases, who live on no node: each asks one node or two for a lease, with a key
 * or without, renews it at any, releases it at any, or walks away. A node that dies or stops under
 * a request leaves it unanswered. */
#include "sim/world.h"

#include "core/id.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USERS 6

typedef enum what { ACQUIRE, RENEW, RELEASE } what;

typedef struct user {
    int number, turn;
    int name;
    hf_lease_options options;
    char owner[32], key[32];
    char id[HF_LEASE_ID_SIZE];
    hf_id ticket; /* of the lease with that id */
    int64_t token;
    int32_t permits, limit;
    int64_t until_ns; /* true time: so long it believes, after the last answer; 0: it does not */
} user;

/* One call at one node. */
typedef struct request {
    struct request *next;
    user *of;
    int turn; /* of the user's, when it was sent */
    node *at;
    what verb;
    hf_lease lease;
    hf_error err;
    bool is_over;
} request;

static user users[USERS];
static request *requests;

/* ---- What a user believes ---- */

void leases_add(int64_t sum[NAMES], int32_t limit[NAMES])
{
    for (const user *u = users; u < users + USERS; u++)
        if (sim_now_ns < u->until_ns && !breaks_excuse(u->ticket)) {
            sum[u->name] += u->permits;
            limit[u->name] = u->limit;
        }
}

bool leases_believe(hf_id ticket)
{
    for (const user *u = users; u < users + USERS; u++)
        if (sim_now_ns < u->until_ns && id_equal(u->ticket, ticket))
            return true;
    return false;
}

static void learn_id(user *u, const char *id)
{
    lease_ids ids;
    if (lease_id_read(id, &ids, NULL))
        abort();
    strcpy(u->id, id);
    u->ticket = ids.ticket;
}

static void hear_lease(user *u, const request *r)
{
    int64_t until = node_true_ns(r->at, (hf_mono){r->lease.ends_at_ns});
    if (sim_now_ns < u->until_ns && u->token != r->lease.token)
        sim_violation("P22: a lease of %s with token %lld is another's, with token %lld",
                      sim_name(u->name), (long long)u->token, (long long)r->lease.token);
    learn_id(u, r->lease.id);
    if (sim_now_ns < until)
        breaks_believed(u->name, u->ticket);
    if (!u->until_ns && r->verb == ACQUIRE)
        rules_lease_had(u->name, u->ticket, r->lease.token, u->permits, r->lease.was_there);
    u->token = r->lease.token;
    u->until_ns = until > u->until_ns ? until : u->until_ns;
    sim.leases++;
}

static void hear(request *r)
{
    user *u = r->of;
    r->is_over = true;
    if (r->turn != u->turn || r->verb == RELEASE)
        return;
    if (r->err.code == HF_OK)
        hear_lease(u, r);
    else if (r->err.code == HF_LOST && r->verb == RENEW)
        u->until_ns = 0;
    else if (r->err.code == HF_INTERNAL || r->err.code == HF_KEY_REUSED)
        sim_violation("P22: a lease of %s: %s", sim_name(u->name), r->err.text);
}

/* ---- Calls ---- */

static void serve(void *arg)
{
    request *r = arg;
    user *u = r->of;
    hf_client *client = r->at->client;
    r->err.code = HF_OK;
    if (r->verb == ACQUIRE)
        hf_lease_acquire(client, sim_name(u->name), &u->options, &r->lease, &r->err);
    else if (r->verb == RENEW)
        hf_lease_renew(client, r->lease.id, &r->lease, &r->err);
    else
        hf_lease_release(client, r->lease.id, &r->err);
    hear(r);
}

static node *any_node(void)
{
    int number = (int)sim_below(NODES - 1);
    for (node *n = sim.nodes; n; n = n->next)
        if (n->number == number)
            return n;
    return NULL;
}

static request *ask(user *u, what verb)
{
    node *n = any_node();
    if (!n)
        return NULL;
    request *r = calloc(1, sizeof *r);
    *r = (request){.next = requests, .of = u, .turn = u->turn, .at = n, .verb = verb};
    strcpy(r->lease.id, u->id);
    requests = r;
    fiber_start(n, serve, r);
    return r;
}

/* Whether it was answered in time. */
static bool await(const request *r, int64_t ms)
{
    int64_t until = sim_now_ns + ms * MS;
    while (r && !r->is_over && !r->at->is_dead && sim_now_ns < until)
        fiber_sleep_until(sim_now_ns + 20 * MS);
    return r && r->is_over;
}

/* ---- A user's life ---- */

static void choose(user *u)
{
    u->turn++;
    u->until_ns = u->token = 0;
    u->name = (int)sim_below(PLAIN_NAMES);
    bool counts = u->name == SEMAPHORE;
    u->options = (hf_lease_options){.owner = u->owner, .key = sim_chance(700) ? u->key : NULL};
    if (counts)
        sim_count(&u->options.lock);
    else if (sim_chance(400))
        u->options.lock.mode = HF_SHARED;
    u->permits = counts                              ? u->options.lock.permits
                 : u->options.lock.mode == HF_SHARED ? 1
                                                     : HF_LIMIT_RW;
    u->limit = counts ? 3 : HF_LIMIT_RW;
    u->options.lock.wait_ms = sim_chance(300) ? HF_TRY : 1 + sim_below(4 * sim.ttl_ms);
    snprintf(u->owner, sizeof u->owner, "user %d turn %d", u->number, u->turn);
    snprintf(u->key, sizeof u->key, "key %d %d", u->number, u->turn);
}

/* Repeats only with a key: without one each call would be another lease. */
static void acquire(user *u)
{
    int repeats = u->options.key ? 1 + (int)sim_below(4) : 1;
    for (int i = 0; i < repeats && !u->until_ns; i++) {
        const request *first = ask(u, ACQUIRE), *second = NULL;
        if (u->options.key && sim_chance(500)) {
            fiber_sleep_until(sim_now_ns + sim_below(sim.ttl_ms) * MS / 4);
            second = ask(u, ACQUIRE);
        }
        await(sim_chance(500) || !second ? first : second, 6 * sim.ttl_ms);
    }
}

static void hold(user *u)
{
    int renewals = (int)sim_below(8);
    for (int i = 0; i < renewals && u->until_ns && !sim.is_draining; i++) {
        fiber_sleep_until(sim_now_ns + sim_below(sim.ttl_ms) * MS);
        if (u->options.key && sim_chance(200))
            await(ask(u, ACQUIRE), sim.ttl_ms);
        else
            await(ask(u, RENEW), sim.ttl_ms);
    }
}

/* Now and then one does not notice how time goes by, and believes to the end. */
static void stay(const user *u)
{
    while (sim_now_ns < u->until_ns && !sim.is_draining)
        fiber_sleep_until(u->until_ns);
}

/* Its belief ends before its release is sent. What it has asked for may still be under way. */
static void let_go(user *u)
{
    char id[HF_LEASE_ID_SIZE];
    bool had = u->until_ns > 0;
    strcpy(id, u->id);
    u->turn++;
    u->until_ns = 0;
    for (int i = 0; had && i < 3 && sim_chance(800); i++) {
        strcpy(u->id, id);
        const request *r = ask(u, RELEASE);
        if (await(r, 5000) && (r->err.code == HF_OK || r->err.code == HF_LOST))
            return;
    }
}

static void live(void *arg)
{
    user *u = arg;
    for (;;) {
        fiber_sleep_until(sim_now_ns + sim_below(1500) * MS);
        if (sim.is_draining)
            continue;
        choose(u);
        acquire(u);
        hold(u);
        if (sim_chance(300))
            stay(u);
        let_go(u);
    }
}

void leases_begin(void)
{
    for (int i = 0; i < USERS; i++) {
        users[i] = (user){.number = i};
        fiber_start(NULL, live, &users[i]);
    }
}

void leases_done(void)
{
    while (requests) {
        request *r = requests;
        requests = r->next;
        free(r);
    }
}
