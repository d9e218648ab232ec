/* SPDX-License-Identifier: Apache-2.0 */
/* breaks.c: breaks locks, by force and without, and checks what becomes of those that held them
 * (P12). When a break without force has succeeded, none of those that it asked to leave believes
 * any more. A holder that is broken by force may go on until a ttl after it was asked, although
 * others have the lock by then. */
#include "sim/world.h"

#include "core/id.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BY_FORCE "by force"
#define REMEMBERED 256

/* A ticket that a break has asked for. */
typedef struct asked {
    hf_id ticket;
    uint64_t number; /* of the break */
    int64_t at_ns;
} asked;

/* An ID lease that has taken a ticket's place. */
typedef struct passed {
    hf_id from, to;
} passed;

/* Taken out by force: until then its holder may go on. */
typedef struct forced {
    hf_id ticket;
    int64_t until_ns;
} forced;

static asked asks[REMEMBERED];
static passed passes[REMEMBERED];
static hf_id broken[REMEMBERED]; /* without force */
static forced excused[REMEMBERED];
static uint64_t n_asks, n_passes, n_broken, n_breaks;
static size_t n_excused;

void breaks_begin(void)
{
    n_asks = n_passes = n_broken = n_breaks = 0;
    n_excused = 0;
}

static uint64_t at_most(uint64_t n)
{
    return n < REMEMBERED ? n : REMEMBERED;
}

/* ---- By force ---- */

/* When its holder was first asked for it. Nobody is, if its session is missing or over. */
static int64_t asked_at_ns(hf_id ticket)
{
    int64_t at_ns = sim_now_ns;
    for (const asked *a = asks; a < asks + at_most(n_asks); a++)
        if (id_equal(a->ticket, ticket) && a->at_ns < at_ns)
            at_ns = a->at_ns;
    return at_ns;
}

void breaks_took_out(const hf_leave *leave)
{
    if (!strstr(leave->reason, BY_FORCE) || n_excused == REMEMBERED)
        return;
    int64_t until_ns = asked_at_ns(leave->ticket) + sim.ttl_ms * MS;
    excused[n_excused++] = (forced){leave->ticket, until_ns};
    sim_trace("a ticket was taken out by force");
}

bool breaks_excuse(hf_id ticket)
{
    for (size_t i = 0; i < n_excused; i++)
        if (id_equal(excused[i].ticket, ticket) && sim_now_ns < excused[i].until_ns)
            return true;
    return false;
}

/* From the end of its excuse on, it counts as any other. */
void breaks_check(void)
{
    for (size_t i = 0; i < n_excused;) {
        if (sim_now_ns < excused[i].until_ns) {
            i++;
            continue;
        }
        if (beliefs_in(excused[i].ticket))
            sim_violation("P12: who was broken by force still believes a ttl later");
        excused[i] = excused[--n_excused];
    }
}

/* Its enter may be repeated: then it stands again, and nothing excuses it. */
void breaks_stands(const hf_record *after)
{
    for (size_t i = 0; i < n_excused;)
        if (record_find(after, excused[i].ticket))
            excused[i] = excused[--n_excused];
        else
            i++;
}

/* ---- Without ---- */

void breaks_asked(const hf_ask *ask)
{
    const char *number = strrchr(ask->reason, ' ');
    if (*ask->by && number) /* else it is the release of a lease */
        asks[n_asks++ % REMEMBERED] = (asked){ask->ticket, strtoull(number, NULL, 10), sim_now_ns};
}

void breaks_passed(const hf_pass *pass)
{
    passes[n_passes++ % REMEMBERED] = (passed){pass->ticket, pass->to};
}

static void check_broken(int name, hf_id ticket)
{
    if (beliefs_in(ticket))
        sim_violation("P12: a break of %s succeeded while its holder believes", sim_name(name));
    broken[n_broken++ % REMEMBERED] = ticket;
}

/* Whatever was asked to leave, and the leases that it has become. */
static void check_all_broken(int name, uint64_t number)
{
    for (const asked *a = asks; a < asks + at_most(n_asks); a++) {
        if (a->number != number)
            continue;
        check_broken(name, a->ticket);
        for (const passed *p = passes; p < passes + at_most(n_passes); p++)
            if (id_equal(p->from, a->ticket))
                check_broken(name, p->to);
    }
}

void breaks_believed(int name, hf_id ticket)
{
    for (const hf_id *id = broken; id < broken + at_most(n_broken); id++)
        if (id_equal(*id, ticket))
            sim_violation("P12: a ticket of %s is believed after its break", sim_name(name));
}

/* ---- Breaking ---- */

static bool keep_token(void *ctx, const hf_record *record)
{
    int64_t *token = ctx;
    if (record->holders)
        *token = record->entries[sim_below((int64_t)record->holders)].token;
    return false;
}

/* Of one that holds it, or 0. */
static int64_t any_token(const char *name)
{
    int64_t token = 0;
    hf_error err;
    sim.server->ops->look(sim.server, &name, 1, (hf_stamp){0}, false, keep_token, &token, &err);
    return token;
}

/* By force only what workers and users of leases contend for. */
static void break_one(node *n, int name)
{
    char reason[40];
    bool is_forced = name < PLAIN_NAMES && sim_chance(250);
    uint64_t number = ++n_breaks;
    snprintf(reason, sizeof reason, "%s %llu", is_forced ? BY_FORCE : "simulated",
             (unsigned long long)number);
    hf_break_options options = {.reason = reason,
                                .force = is_forced,
                                .if_token = sim_chance(500) ? any_token(sim_name(name)) : 0};
    if (hf_break(n->client, sim_name(name), &options, NULL))
        return;
    sim.breaks++;
    sim.forced += is_forced;
    if (!is_forced)
        check_all_broken(name, number);
}

static void break_locks(void *arg)
{
    node *n = arg;
    for (;;) {
        fiber_sleep_until(sim_now_ns + sim_below(12) * SECOND);
        if (!sim.is_draining)
            break_one(n, (int)sim_below(sim_chance(700) ? PLAIN_NAMES : NAMES));
    }
}

void breaks_start(node *n)
{
    fiber_start(n, break_locks, n);
}
