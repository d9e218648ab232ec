/* SPDX-License-Identifier: Apache-2.0 */
/* network.c: the store that a simulated client sees: each call travels to the server and back; it
 * can be refused, be lost on the way there or back, or land late. */
#include "sim/world.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/record.h"
#include "core/text.h"
#include "store/memory/memory_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL_MS 5000 /* a call's time-out, as the MongoDB store's */

typedef struct network {
    hf_store base;
    hf_store *to;
    node *node;
    uint64_t histories; /* written so far, from a number that the seed gives */
} network;

typedef enum fate { ARRIVES, REFUSED, LOST_THERE, LOST_BACK, LATE } fate;

static int64_t one_way(void)
{
    const node *n = fiber_node();
    return 50000 + sim_below(sim.weather.delay_ns) + (n ? sim_below(n->delay_ns) : 0);
}

static fate draw(const node *n, bool can_be_late)
{
    if (sim_now_ns < n->cut_until || sim_now_ns < sim.down_until)
        return n->ambush || sim_chance(500)     ? REFUSED
               : can_be_late && sim_chance(100) ? LATE
                                                : LOST_THERE;
    if (sim_chance(sim.weather.refuses))
        return REFUSED;
    if (sim_chance(sim.weather.loses_request))
        return LOST_THERE;
    if (sim_chance(sim.weather.loses_reply))
        return LOST_BACK;
    return can_be_late && sim_chance(sim.weather.lands_late) ? LATE : ARRIVES;
}

/* Where a call is after it has travelled: LANDED, or what its sender is told. */
typedef struct passage {
    fate fate;
    int64_t gives_up_ns;
    bool ambushed;
} passage;

static int64_t timeout_ns(const node *n, bool is_beat)
{
    int64_t ms = is_beat ? n->client->ttl_ms / 6 : CALL_MS;
    return (is_beat && ms > 2000 ? 2000 : ms) * MS;
}

/* The beat that runs into an ambush is neither refused nor lost. */
static bool is_ambushed(const node *n)
{
    return n->ambush && sim_now_ns >= n->cut_until && sim_now_ns >= sim.down_until;
}

static int64_t arrives_there_ns(const passage *p)
{
    if (!p->ambushed || fiber_node()->ambush != BEAT_LATE_THERE)
        return sim_now_ns + one_way();
    return sim_now_ns + (p->gives_up_ns - sim_now_ns) / 10 * sim_below(10);
}

static int64_t arrives_back_ns(const passage *p)
{
    node *n = fiber_node();
    ambush was = n->ambush;
    if (p->ambushed)
        n->ambush = NO_AMBUSH;
    if (!p->ambushed || was != ANSWER_LATE_BACK)
        return sim_now_ns + one_way();
    n->cut_until = p->gives_up_ns + 2 * sim.ttl_ms * MS;
    return p->gives_up_ns;
}

static void die_if_dead(void)
{
    if (fiber_node()->is_dead)
        fiber_exit();
}

/* Travels there. False: it has not landed, *code is the sender's answer. */
static bool travel(const network *net, passage *p, bool is_beat, bool can_be_late, hf_code *code,
                   hf_error *err)
{
    *p = (passage){.gives_up_ns = sim_now_ns + timeout_ns(net->node, is_beat),
                   .ambushed = is_beat && is_ambushed(net->node)};
    p->fate = p->ambushed ? ARRIVES : draw(net->node, can_be_late);
    switch (p->fate) {
    case REFUSED:
        fiber_sleep_until(sim_now_ns + one_way());
        *code = error_set(err, HF_UNREACHABLE, "simulated: refused");
        return false;
    case LATE:
    case LOST_THERE:
        fiber_sleep_until(p->gives_up_ns);
        *code = error_set(err, HF_UNKNOWN, "simulated: no answer");
        return false;
    case ARRIVES:
    case LOST_BACK:
        break;
    }
    fiber_travel_until(arrives_there_ns(p));
    return true;
}

/* And back: what the sender is told of the answer. */
static hf_code come_back(const passage *p, hf_code code, hf_error *err)
{
    die_if_dead();
    int64_t arrives = arrives_back_ns(p);
    if (p->fate == LOST_BACK || arrives > p->gives_up_ns) {
        fiber_sleep_until(p->gives_up_ns);
        return error_set(err, HF_UNKNOWN, "simulated: the answer was lost");
    }
    fiber_sleep_until(arrives);
    return code;
}

/* Whatever changes the server's state may have granted something: the listeners hear of it. */
static void tell_listeners(void)
{
    for (node *n = sim.nodes; n; n = n->next)
        if (n->listener)
            fiber_wake(n->listener);
}

/* ---- What lands late ---- */

#define LATE_LEAVES 16

typedef struct late {
    enum { LATE_STEP, LATE_BEAT, LATE_MARK, LATE_BEGIN } kind;
    int64_t at_ns;
    hf_store *to;
    char name[HF_NAME_MAX + 1];
    hf_enter enter;
    hf_leave leaves[LATE_LEAVES]; /* an upgrade's two tickets go together, or not at all */
    size_t n_leaves;
    hf_change change;
    hf_pass pass;
    hf_leave before; /* the pass's */
    bool has_enter, has_change, has_pass;
    hf_session self; /* that begins */
    bool begins;     /* a beat may, with this number: */
    int64_t begins_at;
    char *waits; /* that a beat says */
    int64_t seen;
    hf_session_state state;
} late;

/* As if it had never been: its tokens begin anew. */
static void drop_record(const char *name)
{
    struct memory *memory = memory_lock(sim.server);
    size_t at = 0;
    while (strcmp(memory->records[at]->name, name) != 0)
        at++;
    memory_free_record(memory->records[at]);
    memory->n_records--;
    memmove(&memory->records[at], &memory->records[at + 1],
            (memory->n_records - at) * sizeof *memory->records);
    memory_unlock(memory);
    sim.cluster_time++;
}

static void apply_step(hf_store *to, const char *name, const hf_step *step, hf_record *out,
                       hf_step_reply *reply, hf_error *err, hf_code *code)
{
    int64_t floor = sim_cluster_time();
    hf_step here = *step;
    here.floor = &floor;
    *code = to->ops->step(to, name, &here, out, reply, err);
    if (*code)
        return;
    if (reply->stamp.value > sim.version)
        sim.cluster_time++;
    sim.version = reply->stamp.value;
    rules_check_step(name, step, out);
    bool is_needed = strcmp(name, sim_name(NAME_JOB)) == 0; /* it says what was done */
    if (sim_now_ns < sim.drops_until && out->exists && out->holders + out->queued == 0 &&
        !is_needed)
        drop_record(name);
    tell_listeners();
}

static void land_step(const late *l)
{
    hf_pass pass = l->pass;
    pass.before = pass.before ? &l->before : NULL;
    hf_step step = {.enter = l->has_enter ? &l->enter : NULL,
                    .change = l->has_change ? &l->change : NULL,
                    .pass = l->has_pass ? &pass : NULL,
                    .leaves = l->leaves,
                    .n_leaves = l->n_leaves};
    hf_record record;
    hf_step_reply reply;
    hf_error err;
    hf_code code;
    apply_step(l->to, l->name, &step, &record, &reply, &err, &code);
    if (!code)
        record_done(&record);
}

/* What it said may be over by now. */
static void land_beat(const late *l)
{
    hf_session_state state;
    hf_error err;
    hf_beat says = {.waits = l->waits,
                    .seen = l->seen,
                    .begins = l->begins ? &l->self : NULL,
                    .begins_at = l->begins_at};
    l->to->ops->session_beat(l->to, l->state.session.id, &says, &state, &err);
}

static void land(void *arg)
{
    late *l = arg;
    hf_error err;
    fiber_sleep_until(l->at_ns);
    sim.late++;
    if (l->kind == LATE_STEP)
        land_step(l);
    else if (l->kind == LATE_BEAT)
        land_beat(l);
    else if (l->kind == LATE_BEGIN)
        l->to->ops->session_begin(l->to, &l->self, &err);
    else
        l->to->ops->session_mark(l->to, &l->state, &err);
    free(l->waits);
    free(l);
}

static void land_later(late what)
{
    late *l = malloc(sizeof *l);
    *l = what;
    l->to = sim.server;
    l->at_ns = sim_now_ns + sim_below(CALL_MS + 4 * sim.ttl_ms) * MS; /* often after a repeat */
    fiber_start(NULL, land, l);
}

static void land_step_later(const char *name, const hf_step *step)
{
    late l = {.kind = LATE_STEP,
              .has_enter = step->enter != NULL,
              .has_change = step->change != NULL,
              .has_pass = step->pass != NULL};
    strcpy(l.name, name);
    if (step->enter)
        l.enter = *step->enter;
    if (step->change)
        l.change = *step->change;
    if (step->pass)
        l.pass = *step->pass;
    if (step->pass && step->pass->before)
        l.before = *step->pass->before;
    for (; l.n_leaves < step->n_leaves && l.n_leaves < LATE_LEAVES; l.n_leaves++)
        l.leaves[l.n_leaves] = step->leaves[l.n_leaves];
    if (!step->n_deaths)
        land_later(l);
}

/* ---- The calls ---- */

static hf_code step(hf_store *base, const char *name, const hf_step *taken, hf_record *out,
                    hf_step_reply *reply, hf_error *err)
{
    network *net = (network *)base;
    passage p;
    hf_code code;
    hf_record record;
    hf_step_reply answer;
    if (!travel(net, &p, false, true, &code, err)) {
        if (code == HF_UNKNOWN && taken->enter)
            rules_unanswered(taken->enter->entry.ticket);
        if (p.fate == LATE)
            land_step_later(name, taken);
        return code;
    }
    apply_step(net->to, name, taken, &record, &answer, err, &code);
    if (p.fate == LOST_BACK && sim_chance(300)) {
        if (taken->enter)
            rules_unanswered(taken->enter->entry.ticket);
        land_step_later(name, taken); /* a router sends it once more */
    }
    code = come_back(&p, code, err);
    if (code == HF_UNKNOWN && taken->enter)
        rules_unanswered(taken->enter->entry.ticket);
    if (reply)
        *reply = answer;
    if (!code && out)
        *out = record;
    else
        record_done(&record);
    return code;
}

/* They travel together. What becomes of them later becomes of each by itself. */
static void steps(hf_store *base, hf_parcel *parcels, size_t n)
{
    network *net = (network *)base;
    passage p;
    hf_code code;
    hf_error err;
    bool arrives = travel(net, &p, false, true, &code, &err);
    bool is_repeated = p.fate == LATE || (arrives && p.fate == LOST_BACK && sim_chance(300));
    for (size_t i = 0; i < n; i++) {
        hf_record record;
        if (arrives) {
            apply_step(net->to, parcels[i].name, &parcels[i].step, &record, &parcels[i].reply,
                       &parcels[i].err, &parcels[i].code);
            if (!parcels[i].code)
                record_done(&record);
        }
        if (is_repeated)
            land_step_later(parcels[i].name, &parcels[i].step);
    }
    if (arrives)
        code = come_back(&p, HF_OK, &err);
    for (size_t i = 0; i < n && code; i++) {
        parcels[i].code = code;
        parcels[i].err = err;
    }
    sim.together += n > 1;
}

/* Now and then a failover takes it back, or somebody drops the sessions just then. */
static hf_code begin(hf_store *base, const hf_session *self, hf_error *err)
{
    network *net = (network *)base;
    passage p;
    hf_code code = HF_OK;
    if (!travel(net, &p, false, self->pid == 0, &code, err)) {
        if (p.fate == LATE)
            land_later((late){.kind = LATE_BEGIN, .self = *self});
        return code;
    }
    if (!sim_chance(4 * sim.weather.refuses))
        code = net->to->ops->session_begin(net->to, self, err);
    return come_back(&p, code, err);
}

static hf_code beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                    hf_error *err)
{
    network *net = (network *)base;
    passage p;
    hf_code code;
    if (!travel(net, &p, true, true, &code, err)) {
        if (p.fate == LATE)
            land_later((late){.kind = LATE_BEAT,
                              .state.session.id = id,
                              .self = says->begins ? *says->begins : (hf_session){.pid = 0},
                              .begins = says->begins != NULL,
                              .begins_at = says->begins_at,
                              .waits = says->waits ? strdup(says->waits) : NULL,
                              .seen = says->seen});
        return code;
    }
    code = net->to->ops->session_beat(net->to, id, says, out, err);
    return come_back(&p, code, err);
}

/* As it was at the server, until it has come back. */
struct said {
    hf_waits *all;
    size_t n;
};

static bool keep_said(void *ctx, const hf_waits *waits)
{
    struct said *said = ctx;
    said->all = realloc(said->all, (said->n + 1) * sizeof *said->all);
    said->all[said->n] = *waits;
    said->all[said->n++].text = strdup(waits->text);
    return true;
}

static hf_code waits(hf_store *base, const hf_id *ids, size_t n, hf_waits_fn each, void *ctx,
                     hf_error *err)
{
    network *net = (network *)base;
    passage p;
    hf_code code;
    if (!travel(net, &p, false, false, &code, err))
        return code;
    struct said said = {.n = 0};
    net->to->ops->waits(net->to, ids, n, keep_said, &said, err);
    code = come_back(&p, HF_OK, err);
    for (size_t i = 0; i < said.n; i++) {
        if (!code)
            each(ctx, &said.all[i]);
        free((char *)said.all[i].text);
    }
    free(said.all);
    return code;
}

static hf_code mark(hf_store *base, const hf_session_state *seen, hf_error *err)
{
    network *net = (network *)base;
    passage p;
    hf_code code;
    if (!travel(net, &p, false, true, &code, err)) {
        if (p.fate == LATE)
            land_later((late){.kind = LATE_MARK, .state = *seen});
        return code;
    }
    code = net->to->ops->session_mark(net->to, seen, err);
    tell_listeners();
    return come_back(&p, code, err);
}

static hf_code end(hf_store *base, hf_id id, bool leaves_any, hf_error *err)
{
    network *net = (network *)base;
    passage p;
    hf_code code;
    if (!travel(net, &p, false, false, &code, err))
        return code;
    code = net->to->ops->session_end(net->to, id, leaves_any, err);
    return come_back(&p, code, err);
}

static hf_code unreached(hf_code code, hf_error *err)
{
    return code == HF_UNKNOWN ? error_set(err, HF_UNREACHABLE, "simulated: no answer") : code;
}

/* What a look saw of a session just before its last beat comes is told when its lease is over. */
static void hold_back(const hf_id *ids, size_t n)
{
    for (const node *of = sim.nodes; of; of = of->next)
        for (size_t i = 0; i < n; i++)
            if (of->ambush == BEAT_LATE_THERE && id_equal(ids[i], of->client->session.self.id))
                fiber_sleep_until(node_true_ns(of, of->client->session.lease_end) +
                                  sim_below(sim.ttl_ms / 10) * MS);
}

static hf_code sessions_look(hf_store *base, const hf_id *ids, size_t n, int64_t trust_ms,
                             hf_session_state *states, hf_error *err)
{
    network *net = (network *)base;
    passage p;
    hf_code code;
    if (!travel(net, &p, false, false, &code, err))
        return unreached(code, err);
    code = net->to->ops->sessions_look(net->to, ids, n, trust_ms, states, err);
    die_if_dead();
    hold_back(ids, n);
    return unreached(come_back(&p, code, err), err);
}

/* Keeps the records until they have come back. */
typedef struct batch {
    hf_record *records;
    size_t n;
} batch;

static bool keep(void *ctx, const hf_record *record)
{
    batch *b = ctx;
    record_copy(&b->records[b->n++], record);
    return true;
}

static hf_code look(hf_store *base, const char *const *names, size_t n, hf_stamp after,
                    bool linearizable, hf_record_fn each, void *ctx, hf_error *err)
{
    network *net = (network *)base;
    passage p;
    hf_code code;
    if (!travel(net, &p, false, false, &code, err))
        return unreached(code, err);
    batch b = {calloc(n, sizeof *b.records), 0};
    code = net->to->ops->look(net->to, names, n, after, linearizable, keep, &b, err);
    code = unreached(come_back(&p, code, err), err);
    bool goes_on = !code;
    for (size_t i = 0; i < b.n; i++) {
        goes_on = goes_on && each(ctx, &b.records[i]);
        record_done(&b.records[i]);
    }
    free(b.records);
    return code;
}

static hf_code ask(hf_store *base, hf_id session, const hf_ask *asked, hf_error *err)
{
    network *net = (network *)base;
    passage p;
    hf_code code;
    if (!travel(net, &p, false, false, &code, err))
        return code;
    code = net->to->ops->ask(net->to, session, asked, err);
    breaks_asked(asked);
    return come_back(&p, code, err);
}

typedef struct heard {
    hf_notice notices[16];
    char names[16][HF_NAME_MAX + 1];
    size_t n;
} heard;

static void note(void *ctx, const hf_notice *notice)
{
    heard *to = ctx;
    if (to->n == sizeof to->notices / sizeof to->notices[0])
        return;
    to->notices[to->n] = *notice;
    snprintf(to->names[to->n], sizeof to->names[0], "%s", notice->name ? notice->name : "");
    to->notices[to->n].name = to->names[to->n];
    to->n++;
}

/* A notice can be slow, older than a lease, or lost, as the ring of a bell can be in any weather
 * (L2), and now and then the stream breaks. */
static hf_code await(hf_store *base, hf_id session, hf_stamp from, int64_t timeout_ms,
                     hf_notice_fn each, void *ctx, hf_error *err)
{
    network *net = (network *)base;
    if (sim_now_ns < net->node->cut_until || sim_now_ns < sim.down_until ||
        sim_chance(sim.weather.refuses / 4)) {
        fiber_sleep_until(sim_now_ns + one_way());
        return error_set(err, HF_UNREACHABLE, "simulated: the stream broke");
    }
    net->node->listener = fiber_self();
    fiber_sleep_until(sim_now_ns + timeout_ms * MS);
    net->node->listener = NULL;
    fiber_sleep_until(sim_now_ns + one_way());
    heard is = {.n = 0};
    hf_code code = net->to->ops->await(net->to, session, from, 0, note, &is, err);
    bool is_late = is.n && sim_chance(sim.weather.refuses);
    fiber_sleep_until(sim_now_ns + (is_late ? sim_below(2 * sim.ttl_ms * MS) : one_way()));
    die_if_dead();
    for (size_t i = 0; i < is.n; i++)
        if (!sim_chance(sim.weather.loses_notice))
            each(ctx, &is.notices[i]);
    return code;
}

static void wake(hf_store *base)
{
    const network *net = (network *)base;
    if (net->node->listener)
        fiber_wake(net->node->listener);
}

/* Collects all records. */
typedef struct records {
    hf_record *all;
    size_t n;
} records;

static bool collect(void *ctx, const hf_record *record)
{
    records *to = ctx;
    to->all = alloc_array(to->all, to->n + 1, sizeof *to->all);
    record_copy(&to->all[to->n++], record);
    return true;
}

static size_t find_dead(hf_store *to, const hf_record *record, hf_death *deaths)
{
    hf_session_state state;
    size_t n = 0;
    for (size_t i = 0; i < record->holders + record->queued; i++)
        if (to->ops->sessions_look(to, &record->entries[i].session, 1, -1, &state, NULL) == HF_OK &&
            state.presence == HF_DEAD)
            deaths[n++] = (hf_death){.session = state.session.id, .who = "swept"};
    return n;
}

/* What the memory store's sweep does inside, as steps that the rules see. */
static void take_dead_out(hf_store *to)
{
    records found = {.n = 0};
    to->ops->list(to, &(hf_list_part){.prefix = "", .after = ""}, collect, &found, NULL);
    for (size_t i = 0; i < found.n; i++) {
        hf_record *record = &found.all[i];
        hf_death *deaths = alloc_array(NULL, record->holders + record->queued, sizeof *deaths);
        hf_step step = {.deaths = deaths, .n_deaths = find_dead(to, record, deaths)};
        hf_record after;
        hf_step_reply reply;
        hf_code code = HF_HELD;
        if (step.n_deaths)
            apply_step(to, record->name, &step, &after, &reply, NULL, &code);
        if (!code)
            record_done(&after);
        record_done(record);
        free(deaths);
    }
    free(found.all);
}

static hf_code sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                     hf_error *err)
{
    network *net = (network *)base;
    take_dead_out(net->to);
    return net->to->ops->sweep(net->to, overdue, max, n, more, err);
}

/* 0 to 7. Chance of its own: what else happens in a world does not depend on its history. */
static int draw_history(network *net)
{
    return (int)(++net->histories * 0x9e3779b97f4a7c15U >> 61);
}

static hf_code history_add(hf_store *base, const hf_turn_note *turns, size_t n, hf_error *err)
{
    network *net = (network *)base;
    int drawn = draw_history(net);
    fiber_sleep_until(sim_now_ns + 20 * MS);
    die_if_dead();
    if (drawn == 0 || sim_now_ns < net->node->cut_until || sim_now_ns < sim.down_until)
        return error_set(err, HF_UNREACHABLE, "simulated: refused");
    hf_code code = net->to->ops->history_add(net->to, turns, n, err);
    return drawn == 1 ? error_set(err, HF_UNKNOWN, "simulated: the answer was lost") : code;
}

static void close_network(hf_store *base)
{
    network *net = (network *)base;
    net->to->ops->close(net->to);
    free(net);
}

static const hf_store_ops ops = {
    .scheme = "simulated",
    .close = close_network,
    .session_begin = begin,
    .session_beat = beat,
    .waits = waits,
    .session_mark = mark,
    .session_end = end,
    .sessions_look = sessions_look,
    .step = step,
    .steps = steps,
    .look = look,
    .ask = ask,
    .await = await,
    .wake = wake,
    .sweep = sweep,
    .history_add = history_add,
};

hf_store *network_open(node *n)
{
    network *net = calloc(1, sizeof *net);
    hf_error err;
    int64_t patience_ms;
    hf_store_config config = {.ttl_ms = sim.ttl_ms, .env = &sim_server_env};
    if (hf_store_open(sim.uri, &config, &net->to, &patience_ms, &err))
        abort();
    net->base = (hf_store){
        .ops = &ops, .can = net->to->can, .is_remote = true, .await_ms = sim_below(2) ? 4000 : 0};
    net->node = n;
    net->histories = sim.seed + (uint64_t)n->number;
    return &net->base;
}
