/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite_calls.c: fails the Nth call to SQLite inside each operation of the embedded store,
 * one further each run, until none fails. The operation says what failed, and gives nothing; the
 * tables are as they were before; and the same operation, again, does what it does when nothing
 * fails. */
#include "faults/sqlite_seam.h"
#include "unit/sqlite_fixture.h"
#include "unit/unit.h"

#include <errno.h>

#define DAY_MS ((int64_t)24 * 3600 * 1000)
#define HANGS_S 300

enum { HOLDER = 1, WAITER, ENDED, GONE, NEWCOMER, NOBODY }; /* sessions */
enum { HELD = 11, WAITS, IDLE, NEW };                       /* tickets */

/* ---- A world that is the same in every run ---- */

typedef struct world {
    hf_store *other; /* whose process has all that is there */
    hf_store *store; /* does the operation */
    const char *boot;
    hf_session_state seen; /* by the session that marks */
    FILE *gives;           /* what the operation has given, as text */
} world;

static hf_code open_on(const char *boot, hf_store **out, hf_error *err)
{
    sqlite_place place = {.machine = "machine", .clock = "time:[1]"};
    snprintf(place.boot, sizeof place.boot, "%s", boot);
    return sqlite_open_at(path, &config, &place, out, err);
}

static hf_code begin(hf_store *store, unsigned id, hf_error *err)
{
    hf_session self = {.id = id_of(id), .ttl_ms = 10000, .pid = 7, .app = "test", .host = "here"};
    return store->ops->session_begin(store, &self, err);
}

static hf_code step_in(hf_store *store, const char *name, unsigned session, unsigned ticket,
                       hf_error *err)
{
    hf_step_reply reply;
    hf_enter in = enter_of(id_of(session), HF_LIMIT_RW);
    in.entry.ticket = id_of(ticket);
    return store->ops->step(store, name, &(hf_step){.enter = &in}, NULL, &reply, err);
}

static hf_code step_out(hf_store *store, const char *name, unsigned ticket, hf_error *err)
{
    hf_step_reply reply;
    hf_leave out = {.ticket = id_of(ticket), .outcome = HF_OUTCOME_RELEASED, .told = true};
    hf_step step = {.leaves = &out, .n_leaves = 1};
    return store->ops->step(store, name, &step, NULL, &reply, err);
}

static hf_code beat(hf_store *store, unsigned id, const hf_id *answered, const char *waits,
                    hf_session_state *out, hf_error *err)
{
    hf_beat says = {.answered = answered, .n_answered = answered ? 1 : 0, .waits = waits};
    return store->ops->session_beat(store, id_of(id), &says, out, err);
}

static hf_code ask_for(hf_store *store, unsigned ticket, hf_error *err)
{
    hf_ask ask = {.ticket = id_of(ticket), .by = "me", .reason = "because"};
    return store->ops->ask(store, id_of(HOLDER), &ask, err);
}

static void begin_all(hf_store *store)
{
    hf_error err;
    hf_store *crashed = open_at("boot", "machine");
    for (unsigned id = HOLDER; id <= ENDED; id++)
        must(begin(store, id, &err), &err);
    must(begin(crashed, GONE, &err), &err);
    crashed->ops->close(crashed);
    must(store->ops->session_end(store, id_of(ENDED), false, &err), &err);
}

/* One holds and is asked to leave, one waits, one has ended, one is gone; and a lock is idle for so
 * long that it may be forgotten. */
static void fill(hf_store *store)
{
    hf_error err;
    static hf_session_state state;
    begin_all(store);
    must(step_in(store, "held", HOLDER, HELD, &err), &err);
    must(step_in(store, "held", WAITER, WAITS, &err), &err);
    must(step_in(store, "idle", HOLDER, IDLE, &err), &err);
    must(step_out(store, "idle", IDLE, &err), &err);
    must(ask_for(store, HELD, &err), &err);
    must(beat(store, WAITER, NULL, "held", &state, &err), &err);
    wall_ahead_ms = 4 * DAY_MS;
}

/* ---- What it looks like ---- */

static int print_row(void *ctx, int n, char **columns, char **names)
{
    (void)names;
    for (int i = 0; i < n; i++)
        fprintf(ctx, "%s ", columns[i] ? columns[i] : "NULL");
    fputc('\n', ctx);
    return 0;
}

/* Not: when it was swept, and what is reserved, which other transactions write; and the alive
 * file's identity. A table that is not there has no rows. */
static char *read_tables(void)
{
    static const char sessions[] =
        "SELECT row, hex(id), beat, ttl_ms, expires_at, boot, machine, clock, dead_at, app, host,"
        " pid, started_at FROM sessions ORDER BY row";
    static const char *const queries[] = {
        "SELECT name FROM sqlite_master ORDER BY name",
        "SELECT name, hex(record) FROM locks ORDER BY name",
        sessions,
        "SELECT hex(session), hex(ticket), by_whom, reason FROM asks ORDER BY ticket",
        "SELECT boot, machine FROM boots ORDER BY boot",
        "SELECT value FROM meta WHERE key = 'high_water'",
        "SELECT hex(session), seen, said FROM waits ORDER BY session",
    };
    char *text;
    size_t size;
    sqlite3 *db;
    FILE *to = open_memstream(&text, &size);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++)
        sqlite3_exec(db, queries[i], print_row, to, NULL);
    sqlite3_close(db);
    fclose(to);
    return text;
}

static bool give_record(void *ctx, const hf_record *record)
{
    fprintf(ctx, "%s %d %zu %zu\n", record->name, record->exists, record->holders, record->queued);
    return true;
}

static bool give_state(void *ctx, const hf_session_state *state)
{
    fprintf(ctx, "%d %d %d %lld %zu\n", state->session.id.bytes[3], state->presence, state->is_gone,
            (long long)state->beat, state->n_asked);
    return true;
}

static bool give_waits(void *ctx, const hf_waits *waits)
{
    fprintf(ctx, "%d %s\n", waits->session.id.bytes[3], waits->text);
    return true;
}

static bool give_finding(void *ctx, const hf_finding *finding)
{
    fprintf(ctx, "%s\n", finding->topic);
    return true;
}

/* ---- The operations ---- */

static hf_code do_open(world *w, hf_error *err)
{
    hf_store *opened = NULL;
    hf_code code = open_on(w->boot, &opened, err);
    assert_int_equal(!code, opened != NULL);
    if (opened)
        opened->ops->close(opened);
    return code;
}

/* A database that is not there yet. */
static hf_code do_make(world *w, hf_error *err)
{
    snprintf(path, sizeof path, "%s/made.db", folder);
    return do_open(w, err);
}

static hf_code do_begin(world *w, hf_error *err)
{
    return begin(w->store, NEWCOMER, err);
}

/* No process keeps it, so no byte is taken for it. */
static hf_code do_begin_lease(world *w, hf_error *err)
{
    hf_session self = {.id = id_of(NEWCOMER), .ttl_ms = 10000, .app = "test", .host = "here"};
    return w->store->ops->session_begin(w->store, &self, err);
}

static hf_code do_beat(world *w, hf_error *err)
{
    static hf_session_state state;
    hf_id answered = id_of(HELD);
    hf_code code = beat(w->store, HOLDER, &answered, "more", &state, err);
    if (!code)
        give_state(w->gives, &state);
    return code;
}

static hf_code do_beat_in_silence(world *w, hf_error *err)
{
    static hf_session_state state;
    return beat(w->store, WAITER, NULL, NULL, &state, err);
}

static hf_code do_mark_gone(world *w, hf_error *err)
{
    w->seen = (hf_session_state){.session.id = id_of(GONE), .is_gone = true};
    return w->store->ops->session_mark(w->store, &w->seen, err);
}

static hf_code do_mark_watched(world *w, hf_error *err)
{
    w->seen = (hf_session_state){.session.id = id_of(HOLDER), .beat = 1};
    return w->store->ops->session_mark(w->store, &w->seen, err);
}

static hf_code do_end(world *w, hf_error *err)
{
    return w->store->ops->session_end(w->store, id_of(WAITER), false, err);
}

static hf_code do_look_at_sessions(world *w, hf_error *err)
{
    static hf_session_state states[3];
    const hf_id ids[] = {id_of(HOLDER), id_of(GONE), id_of(NOBODY)};
    hf_code code = w->store->ops->sessions_look(w->store, ids, 3, 0, states, err);
    for (int i = 0; i < 3 && !code; i++)
        give_state(w->gives, &states[i]);
    return code;
}

static hf_code do_waits(world *w, hf_error *err)
{
    const hf_id ids[] = {id_of(WAITER), id_of(HOLDER)};
    return w->store->ops->waits(w->store, ids, 2, give_waits, w->gives, err);
}

static hf_code do_all_waits(world *w, hf_error *err)
{
    return w->store->ops->waits(w->store, NULL, 0, give_waits, w->gives, err);
}

static hf_code do_enter(world *w, hf_error *err)
{
    return step_in(w->store, "new", HOLDER, NEW, err);
}

static hf_code do_leave(world *w, hf_error *err)
{
    return step_out(w->store, "held", HELD, err);
}

static hf_code do_look(world *w, hf_error *err)
{
    static const char *const names[] = {"held", "none"};
    return w->store->ops->look(w->store, names, 2, (hf_stamp){0}, false, give_record, w->gives,
                               err);
}

static hf_code do_list(world *w, hf_error *err)
{
    return w->store->ops->list(w->store, &(hf_list_part){.prefix = "", .after = ""}, give_record,
                               w->gives, err);
}

static hf_code do_list_sessions(world *w, hf_error *err)
{
    return w->store->ops->list_sessions(w->store, give_state, w->gives, err);
}

static hf_code do_ask(world *w, hf_error *err)
{
    return ask_for(w->store, NEW, err);
}

/* An hour later each time, for once an hour is enough. */
static hf_code do_sweep(world *w, hf_error *err)
{
    static hf_session_state gone[4];
    size_t n;
    bool more;
    hf_code code;
    wall_ahead_ms += 2 * 3600 * 1000;
    do {
        code = w->store->ops->sweep(w->store, gone, 4, &n, &more, err);
        assert_false(code && more);
        for (size_t i = 0; i < n && !code; i++)
            give_state(w->gives, &gone[i]);
    } while (more);
    return code;
}

static hf_code do_doctor(world *w, hf_error *err)
{
    return w->store->ops->doctor(w->store, give_finding, w->gives, err);
}

typedef struct operation {
    const char *name;
    hf_code (*run)(world *w, hf_error *err);
    int silent;         /* so many of its calls may fail without a word */
    bool in_parts;      /* it is not all or nothing */
    bool goes_on;       /* where it failed: only the time after that does all of it */
    const char *before; /* SQL that makes the database what it finds, or NULL */
    const char *boot;   /* NULL: the one on which the database was filled */
} operation;

/* Nobody hears: after a reserve of tokens, that commits are synced from here on as well; in a list
 * of sessions, that it cannot be told which session is gone; and the doctor makes a finding of it.
 */
static const operation operations[] = {
    {.name = "open", .run = do_open},
    {.name = "open on a new boot", .run = do_open, .in_parts = true, .boot = "new"},
    {.name = "open schema 1",
     .run = do_open,
     .in_parts = true,
     .before = "DROP TABLE waits; PRAGMA user_version = 1"},
    {.name = "make", .run = do_make, .in_parts = true},
    {.name = "begin", .run = do_begin},
    {.name = "begin a lease", .run = do_begin_lease},
    {.name = "beat", .run = do_beat},
    {.name = "beat in silence", .run = do_beat_in_silence},
    {.name = "mark gone", .run = do_mark_gone},
    {.name = "mark watched", .run = do_mark_watched},
    {.name = "end", .run = do_end},
    {.name = "look at sessions", .run = do_look_at_sessions},
    {.name = "waits", .run = do_waits},
    {.name = "all waits", .run = do_all_waits},
    {.name = "enter", .run = do_enter, .silent = 2},
    {.name = "leave", .run = do_leave, .silent = 2},
    {.name = "look", .run = do_look},
    {.name = "list", .run = do_list},
    {.name = "list sessions", .run = do_list_sessions, .silent = 8, .in_parts = true},
    {.name = "ask", .run = do_ask},
    {.name = "sweep", .run = do_sweep, .in_parts = true, .goes_on = true},
    {.name = "doctor", .run = do_doctor, .silent = 14, .in_parts = true},
};

/* ---- One run ---- */

static world set_up_world(const operation *op)
{
    remove_folder(NULL);
    snprintf(path, sizeof path, "%s/locks.db", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    mono_ahead_ms = wall_ahead_ms = 0;
    clocks_stand = true;
    world w = {.other = open_at("boot", "machine"), .boot = op->boot ? op->boot : "boot"};
    fill(w.other);
    if (op->before)
        run_sql(op->before);
    if (op->run != do_open && op->run != do_make)
        w.store = open_at("boot", "machine");
    return w;
}

static void tear_down_world(world *w)
{
    if (w->store)
        w->store->ops->close(w->store);
    w->other->ops->close(w->other);
}

/* What it gave is to be freed. */
static hf_code operate(const operation *op, world *w, hf_error *err, char **given)
{
    size_t size;
    *err = (hf_error){.code = HF_OK};
    w->gives = open_memstream(given, &size);
    hf_code code = op->run(w, err);
    fclose(w->gives);
    return code;
}

typedef struct looks {
    char *given, *tables;
} looks;

static void looks_done(looks *done)
{
    free(done->given);
    free(done->tables);
}

static looks run_well(const operation *op, world *w)
{
    hf_error err;
    looks after;
    must(operate(op, w, &err, &after.given), &err);
    after.tables = read_tables();
    return after;
}

static looks run_untouched(const operation *op)
{
    world w = set_up_world(op);
    looks after = run_well(op, &w);
    tear_down_world(&w);
    return after;
}

static void assert_said(const operation *op, const seam_fault *fault, hf_code code,
                        const hf_error *err)
{
    if (code != HF_FULL || err->code != code || !strstr(err->text, path))
        fail_msg("%s, call %d: it said %s, and in the error %s: %s", op->name, fault->nth,
                 hf_code_name(code), hf_code_name(err->code), err->text);
}

static void assert_same(const operation *op, int nth, const char *what, const char *is,
                        const char *expected)
{
    if (strcmp(is, expected) != 0)
        fail_msg("%s, call %d: %s:\n%s\nnot:\n%s", op->name, nth, what, is, expected);
}

/* Again, now that nothing fails. */
static void assert_can_be_done(const operation *op, int nth, world *w, const looks *expected)
{
    looks after = run_well(op, w);
    if (op->goes_on) {
        looks_done(&after);
        after = run_well(op, w);
    }
    assert_same(op, nth, "again it gave", after.given, expected->given);
    assert_same(op, nth, "again it made", after.tables, expected->tables);
    looks_done(&after);
}

static void assert_left_alone(const operation *op, int nth, const char *given, const char *before)
{
    if (op->in_parts)
        return;
    char *now = read_tables();
    assert_same(op, nth, "it failed, and gave", given, "");
    assert_same(op, nth, "it failed, and left", now, before);
    free(now);
}

static void assert_failed_well(const operation *op, const seam_fault *fault, world *w,
                               const char *before, const looks *expected, int *silent)
{
    hf_error err;
    char *given;
    seam_arm(fault);
    hf_code code = operate(op, w, &err, &given);
    int failed = seam_lift();
    *silent += failed && !code;
    if (code) {
        assert_int_not_equal(failed, 0);
        assert_said(op, fault, code, &err);
        assert_left_alone(op, fault->nth, given, before);
        assert_can_be_done(op, fault->nth, w, expected);
    }
    free(given);
}

/* Whether there was an Nth call. */
static bool fail_nth(const operation *op, const seam_fault *fault, const looks *expected,
                     int *silent)
{
    world w = set_up_world(op);
    char *before = read_tables();
    assert_failed_well(op, fault, &w, before, expected, silent);
    free(before);
    tear_down_world(&w);
    return seam_count() >= fault->nth;
}

static void walk(const operation *op, bool once)
{
    seam_fault fault = {.seam = SEAM_CALLS, .nth = 1, .once = once, .code = SQLITE_FULL};
    int silent = 0;
    alarm(HANGS_S);
    looks expected = run_untouched(op);
    while (fail_nth(op, &fault, &expected, &silent))
        fault.nth++;
    looks_done(&expected);
    alarm(0);
    print_message("%s: %d calls, of %d nobody hears\n", op->name, fault.nth - 1, silent);
    if (once)
        assert_int_equal(silent, op->silent);
}

static void walk_all(bool once)
{
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        walk(&operations[i], once);
}

static void test_one_call_fails(void **state)
{
    (void)state;
    walk_all(true);
}

static void test_all_calls_fail_from_one_on(void **state)
{
    (void)state;
    walk_all(false);
}

/* ---- Commits ---- */

static void assert_old_or_new(const operation *op, int nth, const char *old, const char *new)
{
    char *now = read_tables();
    if (!op->in_parts && strcmp(now, old) != 0)
        assert_same(op, nth, "its commit was done, and left", now, new);
    free(now);
}

/* Whether there was an Nth commit. It is done, but SQLite says that it failed. */
static bool fail_nth_commit(const operation *op, int nth, const char *new)
{
    hf_error err;
    char *given;
    world w = set_up_world(op);
    char *old = read_tables();
    seam_arm(&(seam_fault){.seam = SEAM_COMMITS, .nth = nth, .once = true});
    hf_code code = operate(op, &w, &err, &given);
    bool failed = seam_lift() > 0;
    assert_int_equal(code, failed ? HF_UNKNOWN : HF_OK);
    assert_old_or_new(op, nth, old, new);
    free(given);
    free(old);
    tear_down_world(&w);
    return failed;
}

static void test_a_commit_that_says_it_failed_leaves_it_unknown(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        const operation *op = &operations[i];
        looks expected = run_untouched(op);
        for (int nth = 1; fail_nth_commit(op, nth, expected.tables); nth++)
            ;
        looks_done(&expected);
    }
}

/* Its row may be there: the free byte tells every reader that nobody keeps it. */
static void test_a_begin_of_which_nothing_is_known_keeps_no_byte(void **state)
{
    (void)state;
    hf_error err;
    world w = set_up_world(&(operation){.run = do_begin});
    seam_arm(&(seam_fault){.seam = SEAM_COMMITS, .nth = 1, .once = true});
    hf_code code = do_begin(&w, &err);
    seam_lift();
    assert_int_equal(code, HF_UNKNOWN);
    hf_session_state seen = look_at(w.other, id_of(NEWCOMER), -1);
    assert_int_equal(seen.presence, HF_LIVE);
    assert_true(seen.is_gone);
    tear_down_world(&w);
}

/* ---- What others do between the look at something and the change of it ---- */

static world *rivals; /* the world in which they are */
static bool have_come;

static void open_first(void)
{
    hf_error err;
    hf_store *opened = NULL;
    must(open_on(rivals->boot, &opened, &err), &err);
    opened->ops->close(opened);
    have_come = true;
}

static void take_idle(void)
{
    hf_error err;
    must(step_in(rivals->other, "idle", HOLDER, NEW, &err), &err);
    have_come = true;
}

/* To be torn down, and what it gave freed. */
static world run_with_rivals(const operation *op, int nth, void (*others)(void), char **given)
{
    hf_error err;
    world w = set_up_world(op);
    rivals = &w;
    have_come = false;
    seam_meanwhile(nth, others);
    must(operate(op, &w, &err, given), &err);
    seam_meanwhile(0, NULL);
    return w;
}

static bool open_second(const operation *op, int nth, const looks *expected)
{
    looks after;
    world w = run_with_rivals(op, nth, open_first, &after.given);
    after.tables = read_tables();
    assert_same(op, nth, "with a rival it made", after.tables, expected->tables);
    looks_done(&after);
    tear_down_world(&w);
    return have_come;
}

static void test_who_opens_second_finds_all_made(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        const operation *op = &operations[i];
        if (op->run != do_open && op->run != do_make)
            continue;
        looks expected = run_untouched(op);
        for (int nth = 1; open_second(op, nth, &expected); nth++)
            ;
        looks_done(&expected);
    }
}

/* The alive file leads to itself then. */
static void open_first_and_break(void)
{
    char alive[128];
    open_first();
    snprintf(alive, sizeof alive, "%s-alive", path);
    assert_int_equal(unlink(alive), 0);
    assert_int_equal(symlink(alive, alive), 0);
}

static void test_who_opens_second_says_what_it_cannot_open(void **state)
{
    (void)state;
    hf_error err;
    char *given;
    static const operation op = {.run = do_open, .boot = "new"};
    world w = set_up_world(&op);
    rivals = &w;
    seam_meanwhile(1, open_first_and_break);
    assert_int_equal(operate(&op, &w, &err, &given), HF_UNUSABLE);
    seam_meanwhile(0, NULL);
    assert_non_null(strstr(err.text, "is a symbolic link"));
    free(given);
    tear_down_world(&w);
}

static bool take_while_swept(int nth)
{
    char *given;
    world w = run_with_rivals(&(operation){.run = do_sweep}, nth, take_idle, &given);
    hf_record record = read_record(w.other, "idle");
    assert_int_equal(record.holders, have_come);
    record_done(&record);
    free(given);
    tear_down_world(&w);
    return have_come;
}

static void test_what_was_taken_meanwhile_is_not_swept(void **state)
{
    (void)state;
    int nth = 1;
    while (take_while_swept(nth))
        nth++;
    assert_true(nth > 3);
}

/* ---- What SQLite says, and what we say ---- */

typedef struct translation {
    int sqlite, os;
    hf_code code;
    const char *word;
} translation;

static void assert_translated(const operation *op, int nth, const translation *as)
{
    hf_error err;
    world w = set_up_world(op);
    seam_arm(&(seam_fault){
        .seam = SEAM_CALLS, .nth = nth, .once = true, .code = as->sqlite, .os = as->os});
    hf_code code = op->run(&w, &err);
    assert_int_equal(seam_lift(), 1);
    if (code != as->code || !strstr(err.text, as->word) || !strstr(err.text, path))
        fail_msg("SQLite %d, errno %d: it said %s: %s", as->sqlite, as->os, hf_code_name(code),
                 err.text);
    tear_down_world(&w);
}

static void test_each_failure_has_its_code(void **state)
{
    (void)state;
    static const translation all[] = {
        {SQLITE_BUSY, 0, HF_UNREACHABLE, "busy"},
        {SQLITE_BUSY_SNAPSHOT, 0, HF_UNREACHABLE, "busy"},
        {SQLITE_LOCKED, 0, HF_UNREACHABLE, "busy"},
        {SQLITE_READONLY, 0, HF_READONLY, "read-only"},
        {SQLITE_FULL, 0, HF_FULL, "no space"},
        {SQLITE_NOTADB, 0, HF_UNUSABLE, "not an SQLite database"},
        {SQLITE_CORRUPT, 0, HF_UNUSABLE, "damaged"},
        {SQLITE_CANTOPEN, EROFS, HF_READONLY, "file system is read-only"},
        {SQLITE_CANTOPEN, EACCES, HF_DENIED, "the right to read and write"},
        {SQLITE_CANTOPEN, EPERM, HF_DENIED, "the right to read and write"},
        {SQLITE_CANTOPEN, ENOENT, HF_UNUSABLE, "folder must exist"},
        {SQLITE_PERM, 0, HF_DENIED, "no right"},
        {SQLITE_AUTH, 0, HF_DENIED, "no right"},
        {SQLITE_IOERR, EIO, HF_UNREACHABLE, "check the disk"},
        {SQLITE_IOERR, ENOENT, HF_UNREACHABLE, "removed while in use"},
        {SQLITE_IOERR_WRITE, ENOSPC, HF_FULL, "no space"},
        {SQLITE_IOERR_WRITE, EDQUOT, HF_FULL, "no space"},
        {SQLITE_IOERR_WRITE, EFBIG, HF_FULL, "no space"},
        {SQLITE_IOERR_WRITE, EACCES, HF_UNREACHABLE, "check the disk"},
        {SQLITE_NOMEM, 0, HF_INTERNAL, "SQLite 7"},
    };
    static const operation list = {.name = "list", .run = do_list};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_translated(&list, 1, &all[i]);
}

/* Whether what failed half way is in the database shows only later. */
static void test_each_failed_commit_has_its_code(void **state)
{
    (void)state;
    static const translation all[] = {
        {SQLITE_BUSY, 0, HF_UNREACHABLE, "busy"},
        {SQLITE_FULL, 0, HF_FULL, "no space"},
        {SQLITE_IOERR_WRITE, ENOSPC, HF_FULL, "no space"},
        {SQLITE_IOERR_WRITE, EIO, HF_UNKNOWN, "half way"},
        {SQLITE_IOERR_WRITE, -ENOSPC, HF_UNKNOWN, "half way"}, /* that was of another call */
        {SQLITE_CANTOPEN, -EACCES, HF_UNUSABLE, "not a file"},
        {SQLITE_IOERR_FSYNC, ENOSPC, HF_UNKNOWN, "half way"},
        {SQLITE_IOERR_FSYNC, EIO, HF_UNKNOWN, "half way"},
        {SQLITE_NOMEM, 0, HF_INTERNAL, "SQLite 7"},
    };
    static const operation ask = {.name = "ask", .run = do_ask};
    world w = set_up_world(&ask);
    hf_error err;
    seam_arm(&(seam_fault){.seam = SEAM_CALLS, .nth = INT32_MAX});
    must(do_ask(&w, &err), &err);
    seam_lift();
    int commit = seam_count();
    tear_down_world(&w);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_translated(&ask, commit, &all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_call_fails),
        cmocka_unit_test(test_all_calls_fail_from_one_on),
        cmocka_unit_test(test_a_commit_that_says_it_failed_leaves_it_unknown),
        cmocka_unit_test(test_a_begin_of_which_nothing_is_known_keeps_no_byte),
        cmocka_unit_test(test_who_opens_second_finds_all_made),
        cmocka_unit_test(test_who_opens_second_says_what_it_cannot_open),
        cmocka_unit_test(test_what_was_taken_meanwhile_is_not_swept),
        cmocka_unit_test(test_each_failure_has_its_code),
        cmocka_unit_test(test_each_failed_commit_has_its_code),
    };
    seam_install();
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
