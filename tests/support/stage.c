/* SPDX-License-Identifier: Apache-2.0 */
/* stage.c: runs clients in virtual time and writes down what they send. Each of their threads is a
 * coroutine here, which runs until it sleeps: the virtual clock decides which is next, and
 * among equals the one that was first on the stage. */
#include "support/stage.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "store/memory/memory_internal.h"
#include "support/inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#define BEGAN_NS INT64_C(3600000000000)
#define PLAYERS 64
#define STACK (256 * 1024)
#define FAULTS 8
#define SCRIPT 65536
#define AT_ONCE 100000 /* so many turns at one time are a circle */

typedef struct player {
    ucontext_t context;
    char *stack;
    void *fiber; /* by which the thread sanitizer knows it */
    void (*body)(void *arg);
    void *arg;
    int64_t wake_ns;
    const bool *is_poked; /* wakes it early */
    bool is_over;
} player;

typedef struct seat {
    hf_client *client;
    faulty *store;
    bool is_told;    /* there may be notices */
    bool has_notice; /* the test's own: */
    hf_notice notice;
} seat;

typedef struct ticking {
    seat *of;
    unsigned which;
    tick_fn tick;
} ticking;

typedef struct failing {
    stage_fault fault;
    const void *under_way; /* a call that it is to be answered in place of */
} failing;

static struct {
    int64_t now_ns;
    uint64_t chance;
    player *players[PLAYERS];
    size_t n_players;
    player *running; /* NULL: the test itself */
    seat seats[STAGE_CLIENTS];
    size_t n_seats;
    ticking tickings[STAGE_CLIENTS * TICKERS];
    size_t n_tickings;
    failing faults[FAULTS];
    size_t n_faults;
    bool tells_listening, is_ending;
    int deaf_times;
    char host[HF_TEXT_MAX + 1]; /* of the clients, which is left out of the script */
    char script[SCRIPT];
    size_t length;
    unsigned at_once;
} stage;

static ucontext_t test_itself;
static void *test_fiber;

/* ---- Who runs ---- */

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#else
#define __tsan_get_current_fiber() NULL
#define __tsan_create_fiber(flags) NULL
#define __tsan_switch_to_fiber(fiber, flags) (void)(fiber)
#define __tsan_destroy_fiber(fiber) (void)(fiber)
#endif

static void play(void)
{
    player *self = stage.running;
    self->body(self->arg);
    self->is_over = true;
    __tsan_switch_to_fiber(test_fiber, 0);
    setcontext(&test_itself);
    abort();
}

void stage_act(void (*body)(void *arg), void *arg)
{
    player *p = alloc_zeroed(sizeof *p);
    if (stage.n_players == PLAYERS)
        abort();
    *p = (player){.body = body, .arg = arg, .wake_ns = stage.now_ns};
    p->stack = alloc_zeroed(STACK);
    p->fiber = __tsan_create_fiber(0);
    stage.players[stage.n_players++] = p;
    getcontext(&p->context);
    p->context.uc_stack.ss_sp = p->stack;
    p->context.uc_stack.ss_size = STACK;
    makecontext(&p->context, play, 0);
}

static int64_t due_of(const player *p)
{
    if (p->is_over)
        return INT64_MAX;
    return p->is_poked && *p->is_poked ? stage.now_ns : p->wake_ns;
}

static player *next_due(int64_t *due)
{
    player *next = NULL;
    *due = INT64_MAX;
    for (size_t i = 0; i < stage.n_players; i++)
        if (due_of(stage.players[i]) < *due) {
            next = stage.players[i];
            *due = due_of(next);
        }
    return next;
}

static void give_turn(player *p)
{
    stage.running = p;
    test_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(p->fiber, 0);
    swapcontext(&test_itself, &p->context);
    stage.running = NULL;
}

static void move_clock(int64_t ns)
{
    stage.at_once = ns > stage.now_ns ? 0 : stage.at_once + 1;
    if (stage.at_once > AT_ONCE) {
        fprintf(stderr, "at %lld ms it goes round in circles:\n%s", (long long)stage_now_ms(),
                stage.script);
        abort();
    }
    if (ns > stage.now_ns)
        stage.now_ns = ns;
}

static void run_until(int64_t ns)
{
    int64_t due;
    player *p;
    while ((p = next_due(&due)) && due <= ns) {
        move_clock(due);
        give_turn(p);
    }
    stage.now_ns = ns;
}

static void yield_until(int64_t ns, const bool *is_poked)
{
    player *self = stage.running;
    self->wake_ns = ns > stage.now_ns ? ns : stage.now_ns;
    self->is_poked = is_poked;
    __tsan_switch_to_fiber(test_fiber, 0);
    swapcontext(&self->context, &test_itself);
    self->is_poked = NULL;
}

void stage_run(int64_t ms)
{
    run_until(stage.now_ns + ms * 1000000);
}

void stage_sleep(int64_t ms)
{
    if (stage.running)
        yield_until(stage.now_ns + ms * 1000000, NULL);
    else
        stage_run(ms);
}

int64_t stage_now_ms(void)
{
    return (stage.now_ns - BEGAN_NS) / 1000000;
}

/* ---- Time and chance ---- */

static hf_mono mono(void *ctx)
{
    (void)ctx;
    return (hf_mono){stage.now_ns};
}

static hf_wall wall(void *ctx)
{
    (void)ctx;
    return (hf_wall){INT64_C(1700000000000) + stage_now_ms()};
}

static void fill_random(void *ctx, void *bytes, size_t n)
{
    (void)ctx;
    memset(bytes, 0, n);
    stage.chance++;
    memcpy(bytes, &stage.chance, n < sizeof stage.chance ? n : sizeof stage.chance);
}

static void pause_ms(void *ctx, int64_t ms)
{
    (void)ctx;
    stage_sleep(ms);
}

static const hf_env env = {NULL, mono, wall, fill_random, pause_ms};

/* ---- The script ---- */

/* What differs from one run, or one host, to the next. */
static void replace(char *text, const char *what, const char *by)
{
    for (char *at = text; *what && (at = strstr(at, what)); at += strlen(by)) {
        memmove(at + strlen(by), at + strlen(what), strlen(at + strlen(what)) + 1);
        memcpy(at, by, strlen(by));
    }
}

static void write_text(const char *format, va_list args)
{
    size_t room = sizeof stage.script - stage.length;
    char *text = stage.script + stage.length, host[HF_TEXT_MAX + 2], pid[24];
    int n = vsnprintf(text, room, format, args);
    if (n < 0 || (size_t)n >= room)
        abort();
    snprintf(host, sizeof host, "@%s", stage.host);
    snprintf(pid, sizeof pid, ":%lld", (long long)getpid());
    replace(text, host, "@");
    replace(text, pid, ":1");
    stage.length += strlen(text);
}

static void __attribute__((format(printf, 1, 2))) put(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_text(format, args);
    va_end(args);
}

static void put_time(void)
{
    int64_t us = (stage.now_ns - BEGAN_NS) / 1000;
    put("%lld", (long long)(us / 1000));
    if (us % 1000)
        put(".%lld", (long long)(us % 1000 / 100));
    put(" ");
}

void stage_say(const char *format, ...)
{
    va_list args;
    put_time();
    va_start(args, format);
    write_text(format, args);
    va_end(args);
    put("\n");
}

void stage_forget(void)
{
    stage.length = 0;
    stage.script[0] = '\0';
}

void stage_expect(const char *script)
{
    bool is_same = strcmp(stage.script, script) == 0;
    if (!is_same)
        fprintf(stderr, "---- it was:\n%s---- and should have been:\n%s----\n", stage.script,
                script);
    stage_forget();
    assert_true(is_same);
}

static void put_leave(const hf_leave *leave)
{
    put(" %s%s", leave->outcome == HF_OUTCOME_ABANDONED ? "abandon" : "leave",
        leave->told ? "" : "-unused");
    if (leave->has_exit_status)
        put("=%d", (int)leave->exit_status);
    if (leave->used_token)
        put("+");
    if (leave->reason[0])
        put("(%s)", leave->reason);
}

static void put_enter(const hf_enter *enter)
{
    put(" enter%s%s%s", enter->try_only ? "-or-not" : "", enter->number ? "-by-number" : "",
        enter->entry.yields ? "-yielding" : "");
    if (enter->entry.permits != enter->limit)
        put(" %d", (int)enter->entry.permits);
    if (!id_is_zero(enter->replaces))
        put(" instead");
}

static void put_step(const struct faulty_step *taken)
{
    const hf_step *step = taken->step;
    put("%s:", taken->name);
    for (size_t i = 0; i < step->n_leaves; i++)
        put_leave(&step->leaves[i]);
    for (size_t i = 0; i < step->n_deaths; i++)
        put(" bury");
    if (step->change)
        put(" lower to %d", (int)step->change->permits);
    if (step->pass)
        put(" pass");
    if (step->enter)
        put_enter(step->enter);
}

static void put_look(const struct faulty_look *look)
{
    put("look at");
    for (size_t i = 0; i < look->n; i++)
        put(" %s", look->names[i]);
    if (look->after.value)
        put(" since %llu", (unsigned long long)look->after.value);
    if (look->linearizable)
        put(" for sure");
}

static void put_beat(const hf_beat *says)
{
    put("beat, seen %lld", (long long)says->seen);
    if (says->n_answered)
        put(", answered %zu", says->n_answered);
    if (says->waits)
        put(", waits");
}

static void put_call(const faulty *f, faulty_call call, const void *arg)
{
    static const char *const names[FAULTY_CALLS] = {
        [FAULTY_MARK] = "mark",   [FAULTY_WAITS] = "who waits for what",
        [FAULTY_ASK] = "ask",     [FAULTY_SWEEP] = "sweep",
        [FAULTY_CLAIM] = "claim", [FAULTY_REFRESH] = "refresh"};
    if (call == FAULTY_STEP)
        put_step(arg);
    else if (call == FAULTY_LOOK)
        put_look(arg);
    else if (call == FAULTY_BEAT)
        put_beat(f->says);
    else if (call == FAULTY_BEGIN)
        put("begin%s", ((const hf_session *)arg)->pid ? "" : " a lease");
    else if (call == FAULTY_END)
        put("end%s", f->leaves_any ? ", leaving tickets" : "");
    else if (call == FAULTY_SESSIONS_LOOK && f->trust_ms >= 0)
        put("look at %zu sessions, trusting", f->n_sessions);
    else if (call == FAULTY_SESSIONS_LOOK)
        put("look at %zu sessions", f->n_sessions);
    else
        put("%s", names[call]);
}

/* ---- Clients ---- */

static seat *seat_of(const faulty *f)
{
    for (size_t i = 0; i < stage.n_seats; i++)
        if (stage.seats[i].store == f)
            return &stage.seats[i];
    abort();
}

static char letter_of(const faulty *f)
{
    return (char)('a' + (seat_of(f) - stage.seats));
}

/* ---- What goes wrong ---- */

void stage_let_fail(stage_fault fault)
{
    if (stage.n_faults == FAULTS)
        abort();
    fault.times = fault.times ? fault.times : 1;
    stage.faults[stage.n_faults++] = (failing){.fault = fault};
}

bool stage_is_enter(const void *arg)
{
    return ((const struct faulty_step *)arg)->step->enter;
}

bool stage_is_leave(const void *arg)
{
    return ((const struct faulty_step *)arg)->step->n_leaves;
}

bool stage_is_change(const void *arg)
{
    return ((const struct faulty_step *)arg)->step->change;
}

bool stage_is_pass(const void *arg)
{
    return ((const struct faulty_step *)arg)->step->pass;
}

bool stage_is_lease(const void *arg)
{
    return !((const hf_session *)arg)->pid;
}

static bool fits(stage_fault *fault, char who, faulty_call call, const void *arg)
{
    if (call != fault->call || (fault->who && fault->who != who) || !fault->times ||
        (fault->is && !fault->is(arg)))
        return false;
    if (fault->skips-- > 0)
        return false;
    fault->times--;
    return true;
}

static failing *failing_at(char who, faulty_call call, const void *arg)
{
    for (size_t i = 0; i < stage.n_faults; i++)
        if (fits(&stage.faults[i].fault, who, call, arg))
            return &stage.faults[i];
    return NULL;
}

static hf_code write_down(faulty *f, faulty_call call, const void *arg)
{
    failing *at = failing_at(letter_of(f), call, arg);
    hf_code code = at ? at->fault.before : HF_OK;
    put_time();
    put("%c ", letter_of(f));
    put_call(f, call, arg);
    if (code)
        put(": not sent, %s", hf_code_name(code));
    put("\n");
    if (!at)
        return code;
    if (at->fault.late_ms)
        stage_sleep(at->fault.late_ms);
    if (at->fault.meanwhile)
        at->fault.meanwhile();
    at->under_way = code ? NULL : arg;
    return code;
}

static bool swallow(faulty *f, const struct faulty_step *taken)
{
    (void)f;
    for (size_t i = 0; i < stage.n_faults; i++)
        if (stage.faults[i].under_way == taken && stage.faults[i].fault.is_swallowed) {
            stage.faults[i].under_way = NULL;
            return true;
        }
    return false;
}

static hf_code after_fault(const void *arg)
{
    for (size_t i = 0; i < stage.n_faults; i++) {
        failing *at = &stage.faults[i];
        if (at->under_way != arg)
            continue;
        at->under_way = NULL;
        if (at->fault.slow_ms)
            stage_sleep(at->fault.slow_ms);
        return at->fault.after;
    }
    return HF_OK;
}

static hf_code write_answer(faulty *f, faulty_call call, const void *arg)
{
    (void)call;
    hf_code natural = f->answer, code = after_fault(arg);
    for (size_t i = 0; i < stage.n_seats; i++)
        stage.seats[i].is_told = true;
    if (code || natural)
        stage_say("%c hears %s", letter_of(f), hf_code_name(code ? code : natural));
    return code;
}

typedef struct hearing {
    hf_notice_fn each;
    void *ctx;
    bool any;
    char who;
} hearing;

static void hear(void *ctx, const hf_notice *notice)
{
    static const char *const kinds[] = {"a grant", "a recall", "that it should look", "of a name",
                                        "that it should verify"};
    hearing *to = ctx;
    to->any = true;
    stage_say("%c hears %s", to->who, kinds[notice->kind]);
    to->each(to->ctx, notice);
}

static hf_code await(faulty *f, hf_id session, hf_stamp from, int64_t timeout_ms, hf_notice_fn each,
                     void *ctx, hf_error *err)
{
    seat *of = seat_of(f);
    hearing to = {each, ctx, false, letter_of(f)};
    int64_t until = stage.now_ns + timeout_ms * 1000000;
    hf_code code = HF_OK;
    if (stage.tells_listening)
        stage_say("%c listens for %lld ms, since %llu", to.who, (long long)timeout_ms,
                  (unsigned long long)from.value);
    if (f->is_deaf)
        return error_set(err, HF_UNSUPPORTED, "there are no notices");
    if (stage.deaf_times > 0 && stage.deaf_times--)
        return error_set(err, HF_UNREACHABLE, "nothing is heard");
    while (!code) {
        of->is_told = false;
        if (of->has_notice)
            hear(&to, &of->notice);
        of->has_notice = false;
        code = f->inner->ops->await(f->inner, session, from, 0, hear, &to, err);
        if (to.any || stage.now_ns >= until || stage.is_ending)
            break;
        yield_until(until, &of->is_told);
    }
    return code;
}

static void run_ticker(void *arg)
{
    const ticking *t = arg;
    hf_client *client = t->of->client;
    struct ticker *ticker = &client->tickers.of[t->which];
    while (!stage.is_ending) {
        ticker->is_poked = false;
        hf_mono due = t->tick(client, mono(NULL));
        yield_until(due.ns, &ticker->is_poked);
    }
}

static void start_tickers(seat *of)
{
    static const tick_fn ticks[TICKERS] = {
        [TICK_WATCH] = belief_tick,        [TICK_BEAT] = beat_tick,
        [TICK_UPKEEP] = upkeep_tick,       [TICK_SWEEP] = sweep_tick,
        [TICK_LISTEN] = listen_tick,       [TICK_NOTIFY] = loss_notify_tick,
        [TICK_SEND] = release_tick_beside, [TICK_DEPART] = lease_depart_tick};
    for (unsigned i = 0; i < TICKERS; i++) {
        ticking *t = &stage.tickings[stage.n_tickings++];
        *t = (ticking){of, i, ticks[i]};
        stage_act(run_ticker, t);
    }
}

hf_client *stage_client(const char *uri, const hf_options *options)
{
    seat *of = &stage.seats[stage.n_seats++];
    hf_options own = options ? *options : (hf_options){0};
    char app[] = {(char)('a' + (of - stage.seats)), '\0'};
    own.app = own.app ? own.app : app;
    own.env = &env;
    of->store = faulty_open_in(uri, &own, &of->client);
    of->client->tickers.is_threaded = false;
    snprintf(stage.host, sizeof stage.host, "%s", of->client->identity.host);
    of->store->base.can &= ~(unsigned)HF_CAN_HISTORY; /* the scripts are about the rules */
    of->store->before = write_down;
    of->store->after = write_answer;
    of->store->awaits = await;
    of->store->swallows = swallow;
    start_tickers(of);
    return of->client;
}

void stage_chance(uint64_t last)
{
    stage.chance = last;
}

void stage_let_listening_fail(int times)
{
    stage.deaf_times = times;
}

void stage_tell_listening(void)
{
    stage.tells_listening = true;
}

static seat *seat_of_client(const hf_client *client)
{
    for (size_t i = 0; i < stage.n_seats; i++)
        if (stage.seats[i].client == client)
            return &stage.seats[i];
    abort();
}

void stage_tell(const hf_client *client, hf_notice notice)
{
    seat *to = seat_of_client(client);
    to->notice = notice;
    to->has_notice = to->is_told = true;
}

faulty *stage_store(const hf_client *client)
{
    return seat_of_client(client)->store;
}

hf_code stage_acquire(hf_client *client, const char *name, const hf_lock_options *options,
                      hf_lock **out)
{
    static const hf_lock_options defaults;
    struct attempt a;
    char who = letter_of(stage_store(client));
    attempt_init(&a, client, name, options ? options : &defaults);
    a.request.thread = (uint64_t)(uintptr_t)stage.running; /* to the client each act is a thread */
    for (;;) {
        hf_mono due = attempt_step(&a, mono(NULL));
        if (a.state == ATTEMPT_ENDED)
            break;
        yield_until(due.ns, &a.request.is_woken);
    }
    hf_code code = a.code;
    *out = code ? NULL : a.request.lock;
    if (code)
        stage_say("%c is told %s: %s", who, hf_code_name(code), a.err.text);
    else
        stage_say("%c has %s", who, name);
    attempt_done(&a);
    return code;
}

/* ---- What somebody does by hand ---- */

void stage_drop_session(const hf_client *client, hf_id session)
{
    struct memory *memory = memory_lock(stage_store(client)->inner);
    struct presence *gone = memory_find_session(memory, session);
    if (gone) {
        free(gone->waits);
        *gone = memory->sessions[--memory->n_sessions];
    }
    memory_unlock(memory);
}

void stage_mark_dead(const hf_client *client, hf_id session)
{
    hf_store *store = stage_store(client)->inner;
    hf_error err;
    if (store->ops->session_end(store, session, true, &err))
        abort();
}

void stage_drop_record(const hf_client *client, const char *name)
{
    struct memory *memory = memory_lock(stage_store(client)->inner);
    for (size_t i = 0; i < memory->n_records; i++) {
        hf_record *record = memory->records[i];
        if (strcmp(record->name, name) != 0)
            continue;
        record_done(record);
        record_init(record, name);
    }
    memory_unlock(memory);
}

/* ---- Beginning and end ---- */

void stage_begin(void)
{
    memset(&stage, 0, sizeof stage);
    stage.now_ns = BEGAN_NS;
}

static void end_players(void)
{
    for (size_t i = 0; i < stage.n_players; i++) {
        player *p = stage.players[i];
        for (; !p->is_over; give_turn(p))
            move_clock(stage.now_ns); /* ends the test, if one waits for ever */
        __tsan_destroy_fiber(p->fiber);
        free(p->stack);
        free(p);
    }
}

static size_t count_yielding(const struct hold *hold)
{
    size_t n = 0;
    for (const struct hf_lock *lock = hold->locks; lock; lock = lock->next)
        n += lock->turn.line && lock->turn.has_block;
    return n;
}

static void expect_no_empty_line(const struct turns *turns)
{
    for (const struct line *line = turns->lines; line; line = line->next)
        assert_non_null(line->user);
}

/* Nobody asks for anything, and all that was to be sent was. */
static void expect_nothing_left(const hf_client *client)
{
    const struct hold *hold = client->hold;
    assert_null(hold->requests);
    assert_null(hold->waiters.first);
    assert_null(hold->releases.first);
    assert_null(hold->calling);
    assert_int_equal(hold->joining, 0);
    assert_int_equal(hold->endings.n, 0);
    assert_int_equal(client->closing.calls, 0);
    assert_int_equal(hold->turns.yielding, count_yielding(hold));
    expect_no_empty_line(&hold->turns);
}

void stage_end(void)
{
    stage.n_faults = 0;
    stage_run(60000);
    for (size_t i = 0; i < stage.n_seats; i++)
        expect_nothing_left(stage.seats[i].client);
    stage.is_ending = true;
    end_players();
    for (size_t i = 0; i < stage.n_seats; i++)
        hf_close(stage.seats[i].client);
}
