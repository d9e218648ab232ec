/* SPDX-License-Identifier: Apache-2.0 */
/* orders.c: one run of a scene after the other: the coroutines, their virtual time, and what each
 * turn touches. */
#include "orders/orders.h"
#include "orders/search.h"

#include "client/hold/release.h"
#include "core/id.h"
#include "core/record.h"
#include "support/coroutine.h"

#include <stdio.h>
#include <stdlib.h>

#define STACK_SIZE (256 * 1024)
#define TTL_MS 3600000 /* of the clients: no beat is due */
#define TIME ACTORS    /* the party that lets time pass */
#define MS_NS INT64_C(1000000)
#define BEGAN_NS (1000000 * MS_NS)
#define GRAIN_NS (100 * MS_NS) /* pauses end together, and what comes then comes in any order */
#define ALL_MOST 200000        /* runs of a scene, if all orders are wanted */
#define SOME 20000             /* runs of a scene in random orders */
#define ORDER_MOST 4096        /* turns of an order that is shown */
#define SESSIONS (64 - THINGS)

actor actors[ACTORS];
const scene *on_stage;
hf_cancel *orders_cancel;
unsigned long orders_failures;

static struct routine {
    coroutine context;
    char *stack;
    int64_t sleeps_until;
    uint64_t drawn; /* its chance is its own, so no order of turns changes it */
    hf_env env;
} routines[ACTORS];

static coroutine director;
static int running = -1; /* -1: nobody */
static int64_t now_ns;
static int n_early, n_lost;
static footprint touched;       /* by this turn */
static uint64_t version_before; /* of the record */
static bool is_shown;           /* calls are printed */

static bool is_here(int i)
{
    return actors[i].body && !actors[i].is_over;
}

/* ---- Time and chance ---- */

static hf_mono mono(void *ctx)
{
    (void)ctx;
    return (hf_mono){now_ns};
}

static hf_wall wall(void *ctx)
{
    (void)ctx;
    return (hf_wall){1800000000000 + now_ns / 1000000};
}

static void fill_random(void *ctx, void *bytes, size_t n)
{
    struct routine *self = ctx;
    uint64_t seed[2] = {(uint64_t)(self - routines), 0};
    for (size_t i = 0; i < n; i++) {
        seed[1] = self->drawn++;
        ((uint8_t *)bytes)[i] = (uint8_t)(id_hash(ID_HASH, seed, sizeof seed) >> 32);
    }
}

static void stop_until(int64_t ns)
{
    int self = running;
    routines[self].sleeps_until = ns;
    coroutine_switch(&routines[self].context, &director);
}

/* The longer all has lasted, the longer: a break may have to wait for an hour. */
static void pause_ms(void *ctx, int64_t ms)
{
    (void)ctx;
    int64_t asked_ns = ms * MS_NS, least_ns = (now_ns - BEGAN_NS) / 8;
    int64_t end = now_ns + (asked_ns > least_ns ? asked_ns : least_ns);
    end = (end + GRAIN_NS - 1) / GRAIN_NS * GRAIN_NS;
    if (running < 0)
        now_ns = end;
    else
        stop_until(end);
}

/* When the next of those that sleep wakes; INT64_MAX: nobody sleeps. */
static int64_t next_waking(void)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < ACTORS; i++)
        if (is_here(i) && routines[i].sleeps_until > now_ns && routines[i].sleeps_until < next)
            next = routines[i].sleeps_until;
    return next;
}

/* ---- What a turn touches ---- */

static uint64_t bit_of(unsigned n)
{
    return UINT64_C(1) << n;
}

void orders_read(thing of)
{
    touched.reads |= bit_of(of);
}

void orders_wrote(thing of)
{
    touched.writes |= bit_of(of);
}

/* They have the same ids in every run. What comes after the last bit shares it. */
static uint64_t bit_of_session(hf_id id)
{
    static hf_id known[SESSIONS];
    static unsigned n;
    unsigned i = 0;
    while (i < n && !id_equal(known[i], id))
        i++;
    if (i == n && n < SESSIONS)
        known[n++] = id;
    return bit_of(THINGS + (i < SESSIONS ? i : SESSIONS - 1));
}

static uint64_t version(const faulty *f)
{
    static const hf_step nothing;
    hf_step_reply reply;
    f->inner->ops->step(f->inner, "x", &nothing, NULL, &reply, NULL);
    return reply.stamp.value;
}

static void touch(const faulty *f, faulty_call call, const void *arg)
{
    const hf_id *id = arg;
    switch (call) {
    case FAULTY_BEGIN:
        touched.writes |= bit_of_session(((const hf_session *)arg)->id);
        break;
    case FAULTY_MARK:
    case FAULTY_END:
        touched.writes |= bit_of_session(*id);
        break;
    case FAULTY_BEAT:
        touched.adds |= bit_of_session(*id);
        break;
    case FAULTY_SESSIONS_LOOK:
        for (size_t i = 0; i < f->n_sessions; i++)
            touched.reads |= bit_of_session(id[i]);
        break;
    case FAULTY_STEP: /* what it changes is seen afterwards */
    case FAULTY_LOOK:
        orders_read(THING_RECORD);
        break;
    case FAULTY_WAITS:
    case FAULTY_ASK:
    case FAULTY_SWEEP:
    case FAULTY_CLAIM:
    case FAULTY_REFRESH:
    case FAULTY_HISTORY:
    case FAULTY_CALLS:
        touched.writes = UINT64_MAX;
    }
}

/* ---- Calls ---- */

/* A request that lands when its sender knows nothing of it any more. */
static struct mail {
    bool is_sent, is_pass;
    hf_session session;
    hf_pass pass;
} mail;

static bool is_lost(const faulty *f, faulty_call call, const void *arg)
{
    if (f->ctx != actors || n_lost >= on_stage->losses)
        return false;
    bool is_pass = call == FAULTY_STEP && ((const struct faulty_step *)arg)->step->pass;
    bool is_insert = call == FAULTY_BEGIN && !((const hf_session *)arg)->pid;
    return on_stage->loss == LOSS_OF_PASS_ANSWER || on_stage->loss == LOSS_LATE_PASS ? is_pass
                                                                                     : is_insert;
}

static void post(const void *arg)
{
    bool is_pass = on_stage->loss == LOSS_LATE_PASS;
    if ((on_stage->loss != LOSS_LATE_INSERT && !is_pass) || mail.is_sent)
        return;
    orders_wrote(THING_MAIL);
    mail = (struct mail){.is_sent = true, .is_pass = is_pass};
    if (is_pass)
        mail.pass = *((const struct faulty_step *)arg)->step->pass;
    else
        mail.session = *(const hf_session *)arg;
}

void orders_deliver(actor *self)
{
    hf_store *store = self->store->inner;
    const hf_step late = {.pass = &mail.pass};
    hf_step_reply reply;
    if (mail.is_pass) {
        orders_wrote(THING_RECORD);
        store->ops->step(store, "x", &late, NULL, &reply, NULL);
    } else {
        touched.writes |= bit_of_session(mail.session.id);
        store->ops->session_begin(store, &mail.session, NULL);
    }
}

static bool lands(void)
{
    return on_stage->loss == LOSS_OF_PASS_ANSWER || on_stage->loss == LOSS_OF_INSERT_ANSWER;
}

static const char *name_of(faulty_call call, const void *arg)
{
    static const char *const names[FAULTY_CALLS] = {"begin", "beat",    "mark",   "end", "sessions",
                                                    "step",  "look",    "waits",  "ask", "sweep",
                                                    "claim", "refresh", "history"};
    if (call != FAULTY_STEP)
        return names[call];
    const hf_step *step = ((const struct faulty_step *)arg)->step;
    return step->enter ? "enter" : step->pass ? "pass" : step->n_leaves ? "leave" : "step";
}

static hf_code before(faulty *f, faulty_call call, const void *arg)
{
    if (running < 0)
        return HF_OK;
    stop_until(now_ns);
    if (is_shown)
        printf("%5lld ms: %d %s\n", (long long)((now_ns - BEGAN_NS) / MS_NS), running,
               name_of(call, arg));
    touch(f, call, arg);
    version_before = version(f);
    if (lands() || !is_lost(f, call, arg))
        return HF_OK;
    n_lost++;
    post(arg);
    return HF_UNKNOWN;
}

static hf_code after(faulty *f, faulty_call call, const void *arg)
{
    if (running >= 0 && version(f) != version_before)
        orders_wrote(THING_RECORD);
    if (!lands() || !is_lost(f, call, arg))
        return HF_OK;
    n_lost++;
    return HF_UNKNOWN;
}

/* Nobody listens. That it is there makes the store keep what the hooks are told. */
static hf_code hear_nothing(faulty *f, hf_id session, hf_stamp from, int64_t timeout_ms,
                            hf_notice_fn each, void *ctx, hf_error *err)
{
    (void)f, (void)session, (void)from, (void)timeout_ms, (void)each, (void)ctx, (void)err;
    return HF_OK;
}

/* ---- A run ---- */

/* What was left to the background. */
static void send_releases(hf_client *client)
{
    for (int round = 0; round < 50 && client->hold->releases.first; round++) {
        pthread_mutex_lock(&client->mutex);
        release_hurry_locked(client);
        pthread_mutex_unlock(&client->mutex);
        release_tick(client, client_now(client));
        if (client->hold->releases.first)
            client->env.pause(client->env.ctx, 1);
    }
}

static void play(void)
{
    actor *self = &actors[running];
    self->body(self);
    send_releases(self->client);
    self->is_over = true;
    coroutine_leave(&director);
}

static void begin_actor(int i)
{
    struct routine *r = &routines[i];
    r->env = (hf_env){r, mono, wall, fill_random, pause_ms};
    hf_options options = {
        .app = "orders", .ttl_ms = TTL_MS, .env = &r->env, .patience_ms = on_stage->patience_ms};
    r->sleeps_until = 0;
    r->drawn = 0;
    actors[i] = (actor){.body = on_stage->bodies[i]};
    actors[i].store = faulty_open_in("memory:orders", &options, &actors[i].client);
    actors[i].client->tickers.is_threaded = false;
    actors[i].store->awaits = hear_nothing;
    actors[i].store->before = before;
    actors[i].store->after = after;
    actors[i].store->ctx = &actors[i];
    r->stack = r->stack ? r->stack : malloc(STACK_SIZE);
    coroutine_make(&r->context, r->stack, STACK_SIZE, play);
}

static bool is_ready(int i)
{
    bool has_work = actors[i].body != orders_deliver || mail.is_sent;
    return is_here(i) && has_work && routines[i].sleeps_until <= now_ns;
}

/* A mask of parties; 0: all are over. */
static unsigned ready(void)
{
    unsigned out = 0;
    for (int i = 0; i < ACTORS; i++)
        if (is_ready(i))
            out |= 1U << i;
    bool may_pass = !out || n_early < on_stage->early;
    return may_pass && next_waking() != INT64_MAX ? out | 1U << TIME : out;
}

static void let_time_pass(bool is_early)
{
    n_early += is_early;
    now_ns = next_waking();
    orders_wrote(THING_TIME);
}

static void let_act(int i)
{
    bool heeds_cancel = actors[i].heeds_cancel;
    running = i;
    coroutine_switch(&director, &routines[i].context);
    running = -1;
    if (heeds_cancel || actors[i].heeds_cancel)
        orders_read(THING_CANCEL);
}

static void take_turn(int party, unsigned among)
{
    touched = (footprint){.reads = bit_of(THING_TIME)};
    if (party == TIME)
        let_time_pass(among != 1U << TIME);
    else
        let_act(party);
    search_touched(&touched);
}

static bool keep(void *ctx, const hf_record *record)
{
    record_copy(ctx, record);
    return false;
}

static void check(void)
{
    hf_record after;
    hf_store *store = actors[0].store->inner;
    const char *name = "x";
    record_init(&after, name);
    hf_error err;
    store->ops->look(store, &name, 1, (hf_stamp){0}, false, keep, &after, &err);
    on_stage->check(on_stage, actors, &after);
    record_done(&after);
}

static void begin_all(void)
{
    hf_error err;
    now_ns = BEGAN_NS;
    n_early = n_lost = 0;
    mail.is_sent = false;
    if (hf_cancel_new(&orders_cancel, &err))
        abort();
    for (int i = 0; i < ACTORS; i++) {
        actors[i].body = NULL;
        if (on_stage->bodies[i])
            begin_actor(i);
    }
}

static void run_once(void)
{
    begin_all();
    for (unsigned among; (among = ready());) {
        int party = search_choose(among);
        if (party < 0 || !(among >> party & 1)) {
            orders_fail("it does not end, or there is no such order");
            exit(1);
        }
        take_turn(party, among);
    }
    check();
    for (int i = 0; i < ACTORS; i++)
        if (actors[i].body)
            hf_close(actors[i].client);
    hf_cancel_free(orders_cancel);
}

/* ---- All runs ---- */

/* As main() takes it: a digit for an actor's turn, t where time passed. */
static void print_order(void)
{
    for (int i = 0, party; (party = search_turn(i)) >= 0; i++)
        putchar(party == TIME ? 't' : '0' + party);
    putchar('\n');
}

void orders_fail(const char *what)
{
    if (orders_failures++ > 2)
        return; /* the first ones tell */
    printf("BROKEN: %s: %s; order: ", on_stage->name, what);
    print_order();
}

static bool run_all(unsigned long most)
{
    unsigned long n = 0, repeats = 0;
    bool more = true;
    search_begin(false);
    for (; more && n + repeats < most; more = search_next()) {
        run_once();
        n += !search_is_repeat();
        repeats += search_is_repeat();
    }
    if (!more)
        printf("%s: %lu orders, all (%lu runs)\n", on_stage->name, n, n + repeats);
    return !more;
}

static void run_some(unsigned long most)
{
    double all = 0;
    search_begin(true);
    for (unsigned long n = 0; n < most; n++, search_next()) {
        run_once();
        all += search_weight() / (double)most;
    }
    printf("%s: %lu random orders of about %.0e\n", on_stage->name, most, all);
}

void orders_show(const scene *played, const char *order)
{
    int turns[ORDER_MOST], n = 0;
    for (; order[n] && n < ORDER_MOST; n++)
        turns[n] = order[n] == 't' ? TIME : order[n] - '0';
    on_stage = played;
    is_shown = true;
    search_begin(false);
    search_follow(turns, n);
    run_once();
}

void orders_run(const scene *played, unsigned long most)
{
    on_stage = played;
    bool is_known_large = played->is_large && !most;
    if (is_known_large || !run_all(most ? most : ALL_MOST))
        run_some(most ? most : SOME);
    fflush(stdout);
}
