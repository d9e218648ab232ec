/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite_faults.c: fails the Nth call to SQLite, or of SQLite's to the machine, once or for
 * good, one further each run, until the body passes untouched. Every failure is told with a text
 * that names the database, nothing hangs or leaks, and afterwards the locks can be had again. */
#include "faults/sqlite_seam.h"
#include "unit/sqlite_fixture.h"

#define HANGS_S 60
#define FIRST "a"

static seam_fault fault;
static char uri[128];

/* ---- What must hold of every failure ---- */

static bool is_of_store(hf_code code)
{
    return hf_code_exit(code) == 69 || code == HF_SHAPE || code == HF_INTERNAL;
}

/* On a busy machine the client itself finds that an answer came too late; it names no store. */
static bool is_late(const hf_error *err)
{
    return err->code == HF_UNKNOWN && strstr(err->text, "the store took longer than the ");
}

/* Whether the call succeeded. */
static bool well(hf_code code, const hf_error *err, const char *what)
{
    if (!code)
        return true;
    if (err->code != code)
        fail_msg("seam %d, call %d, SQLite %d: %s gave %s, its text says %s: %s", fault.seam,
                 fault.nth, fault.code, what, hf_code_name(code), hf_code_name(err->code),
                 err->text);
    if (!err->text[0] || (is_of_store(code) && !is_late(err) && !strstr(err->text, path)))
        fail_msg("seam %d, call %d, SQLite %d: the text of %s does not name the store: %s",
                 fault.seam, fault.nth, fault.code, what, err->text);
    return false;
}

/* Each call begins with an error that says nothing. */
#define WELL(call) (err = (hf_error){.code = HF_OK}, well(call, &err, #call))

/* ---- The body: every call of the store's interface ---- */

static bool see_record(void *ctx, const hf_record *record)
{
    (void)ctx;
    return record->name[0] != '\0';
}

static bool see_state(void *ctx, const hf_session_state *state)
{
    (void)ctx;
    return state->presence != HF_MISSING;
}

static bool see_waits(void *ctx, const hf_waits *waits)
{
    (void)ctx;
    return waits->text[0] != '\0';
}

static void see_notice(void *ctx, const hf_notice *notice)
{
    (void)ctx, (void)notice;
}

static bool see_finding(void *ctx, const hf_finding *finding)
{
    (void)ctx;
    return finding->text[0] != '\0';
}

static bool begin(hf_store *store, hf_id *id)
{
    hf_error err;
    *id = new_id();
    hf_session self = {.id = *id, .ttl_ms = 10000, .pid = getpid(), .app = "test"};
    return WELL(store->ops->session_begin(store, &self, &err));
}

static hf_id step_in(hf_store *store, const char *name, hf_id session)
{
    hf_error err;
    hf_record record;
    hf_step_reply reply;
    hf_enter in = enter_of(session, HF_LIMIT_RW);
    if (WELL(store->ops->step(store, name, &(hf_step){.enter = &in}, &record, &reply, &err)))
        record_done(&record);
    return in.entry.ticket;
}

static void step_out(hf_store *store, const char *name, hf_id ticket)
{
    hf_error err;
    hf_step_reply reply;
    hf_leave out = {.ticket = ticket, .outcome = HF_OUTCOME_RELEASED, .told = true, .who = "test"};
    hf_step step = {.leaves = &out, .n_leaves = 1};
    (void)WELL(store->ops->step(store, name, &step, NULL, &reply, &err));
}

static void look_around(hf_store *store, const hf_id sessions[2])
{
    static hf_session_state states[2], gone[4];
    static const char *const names[] = {FIRST, "none"};
    hf_error err;
    size_t n;
    bool more;
    (void)WELL(store->ops->look(store, names, 2, (hf_stamp){0}, false, see_record, NULL, &err));
    (void)WELL(store->ops->list(store, &(hf_list_part){.prefix = "", .after = ""}, see_record, NULL,
                                &err));
    (void)WELL(store->ops->list_sessions(store, see_state, NULL, &err));
    (void)WELL(store->ops->await(store, sessions[1], (hf_stamp){0}, 1, see_notice, NULL, &err));
    if (WELL(store->ops->sessions_look(store, sessions, 2, 0, states, &err)))
        (void)WELL(store->ops->session_mark(store, &states[1], &err));
    while (WELL(store->ops->sweep(store, gone, 4, &n, &more, &err)) && more)
        ;
    (void)WELL(store->ops->doctor(store, see_finding, NULL, &err));
}

static void use_store(hf_store *store)
{
    hf_id ids[2], tickets[2];
    hf_error err;
    static hf_session_state state;
    bool begun = begin(store, &ids[0]);
    begun &= begin(store, &ids[1]);
    tickets[0] = step_in(store, FIRST, ids[0]);
    tickets[1] = step_in(store, FIRST, ids[1]);
    hf_ask ask = {.ticket = tickets[0], .by = "me", .reason = "because"};
    (void)WELL(store->ops->ask(store, ids[0], &ask, &err));
    hf_beat says = {.answered = tickets, .n_answered = 1, .waits = "waits"};
    (void)WELL(store->ops->session_beat(store, ids[0], &says, &state, &err));
    (void)WELL(store->ops->waits(store, ids, 2, see_waits, NULL, &err));
    if (begun)
        look_around(store, ids);
    step_out(store, FIRST, tickets[0]);
    step_out(store, FIRST, tickets[1]);
    (void)WELL(store->ops->session_end(store, ids[0], false, &err));
    (void)WELL(store->ops->session_end(store, ids[1], false, &err));
}

/* What it was used for before does not keep a store from going on. */
static void goes_on(hf_store *store)
{
    hf_id session = begin_session(store), ticket;
    int64_t token;
    assert_int_equal(enter(store, "other", session, &ticket, &token), RECORD_HOLDS);
    leave(store, "other", ticket);
    assert_int_equal(look_at(store, session, 0).presence, HF_LIVE);
}

static void run_store(void)
{
    hf_store *store = NULL;
    hf_error err;
    seam_arm(&fault);
    if (WELL(sqlite_open(path, &config, &store, &err)))
        use_store(store);
    seam_lift();
    if (!store)
        return;
    goes_on(store);
    store->ops->close(store);
}

/* ---- The body: two clients ---- */

static bool see_lock(void *ctx, const hf_lock_info *info)
{
    (void)ctx;
    return info->name[0] != '\0';
}

static bool see_session(void *ctx, const hf_session_info *info)
{
    (void)ctx;
    return info->session[0] != '\0';
}

static hf_lock *acquire(hf_client *client, const char *name, int64_t wait_ms)
{
    hf_error err;
    hf_lock *lock = NULL;
    hf_lock_options options = {.wait_ms = wait_ms};
    (void)WELL(hf_lock_acquire(client, name, &options, &lock, &err));
    return lock;
}

static void use_clients(hf_client *one, hf_client *two)
{
    hf_error err;
    hf_break_options force = {.reason = "testing", .force = true};
    hf_lock *a = acquire(one, "a", 20), *b = acquire(one, "b", 20);
    hf_lock *waited = acquire(two, "a", 20);
    (void)WELL(hf_list(one, "", see_lock, NULL, &err));
    (void)WELL(hf_show(two, "a", see_lock, NULL, &err));
    (void)WELL(hf_sessions(one, see_session, NULL, &err));
    if (a)
        (void)WELL(hf_lock_release(a, &err));
    (void)WELL(hf_break(two, "b", &force, &err));
    hf_lock_close(waited);
    hf_lock_close(b);
    hf_lock_close(a);
    hf_lock_close(acquire(two, "a", 20));
}

/* A client whose store does not answer takes four seconds to close, so few do. */
static void run_clients(void)
{
    hf_client *one = NULL, *two = NULL;
    hf_error err;
    hf_options options = {.ttl_ms = 1000, .patience_ms = 20};
    seam_arm(&fault);
    if (WELL(hf_open(uri, &options, &one, &err)) && WELL(hf_open(uri, &options, &two, &err)))
        use_clients(one, two);
    if (!fault.once && fault.nth % 40)
        seam_lift();
    hf_close(one);
    hf_close(two);
}

/* ---- Walking ---- */

static void remove_database(void)
{
    remove_folder(NULL);
    assert_int_equal(mkdir(folder, 0700), 0);
}

static void assert_can_be_had(hf_client *client, const char *name)
{
    hf_lock *lock;
    hf_error err;
    hf_lock_options options = {.wait_ms = 5000};
    if (hf_lock_acquire(client, name, &options, &lock, &err))
        fail_msg("seam %d, call %d, SQLite %d: afterwards %s cannot be had: %s", fault.seam,
                 fault.nth, fault.code, name, err.text);
    hf_lock_close(lock);
}

/* The database as it was left works. */
static void assert_not_lost(void)
{
    hf_client *client;
    hf_error err;
    must(hf_open(uri, NULL, &client, &err), &err);
    assert_can_be_had(client, "a");
    assert_can_be_had(client, "b");
    hf_close(client);
}

static const int codes[] = {SQLITE_BUSY, SQLITE_IOERR, SQLITE_FULL, SQLITE_NOMEM, SQLITE_CORRUPT};

/* One further each run; `stride` where there are many, unless HOLDFAST_TEST_ALL is set. Each run's
 * code is another one. */
static void walk(void (*run)(void), seam at, bool once, int first_code, int stride)
{
    int runs = 0, failed;
    if (getenv("HOLDFAST_TEST_ALL"))
        stride = 1;
    fault = (seam_fault){.seam = at, .nth = 1, .once = once};
    do {
        fault.code = codes[(size_t)(first_code + runs) % (sizeof codes / sizeof codes[0])];
        remove_database();
        alarm(HANGS_S);
        run();
        failed = seam_lift();
        assert_not_lost();
        alarm(0);
        fault.nth += stride;
        runs++;
    } while (failed);
    print_message("%d points fail %s\n", runs - 1, once ? "once" : "for good");
}

static void test_our_calls_fail_once(void **state)
{
    (void)state;
    walk(run_store, SEAM_CALLS, true, 0, 1);
}

static void test_our_calls_fail_for_good(void **state)
{
    (void)state;
    walk(run_store, SEAM_CALLS, false, 2, 3);
}

static void test_commits_were_done_but_fail(void **state)
{
    (void)state;
    walk(run_store, SEAM_COMMITS, true, 0, 1);
    walk(run_clients, SEAM_COMMITS, true, 0, 1);
}

static void test_the_file_system_fails_once(void **state)
{
    (void)state;
    walk(run_store, SEAM_FILES, true, 0, 1);
}

static void test_the_file_system_fails_for_good(void **state)
{
    (void)state;
    walk(run_store, SEAM_FILES, false, 0, 5);
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    walk(run_store, SEAM_MEMORY, true, 0, 31);
}

static void test_clients_calls_fail_once(void **state)
{
    (void)state;
    walk(run_clients, SEAM_CALLS, true, 3, 3);
}

static void test_clients_calls_fail_for_good(void **state)
{
    (void)state;
    walk(run_clients, SEAM_CALLS, false, 4, 14);
}

static int make_place(void **state)
{
    int rc = make_folder(state);
    snprintf(uri, sizeof uri, "sqlite:%s", path);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_our_calls_fail_once),
        cmocka_unit_test(test_our_calls_fail_for_good),
        cmocka_unit_test(test_commits_were_done_but_fail),
        cmocka_unit_test(test_the_file_system_fails_once),
        cmocka_unit_test(test_the_file_system_fails_for_good),
        cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_clients_calls_fail_once),
        cmocka_unit_test(test_clients_calls_fail_for_good),
    };
    seam_install();
    return cmocka_run_group_tests(tests, make_place, remove_folder);
}
