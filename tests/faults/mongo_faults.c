/* SPDX-License-Identifier: Apache-2.0 */
/* mongo_faults.c: fails the Nth call to libmongoc, once or for good, one further each run, until
 * the body passes untouched: the network, the server's errors, odd replies. Every failure is told
 * with a text that names the store, nothing hangs, and afterwards the locks can be had. Run beside
 * a replica set by bed/with-set.py. */
#include "client/client_bed.h"
#include "core/record.h"
#include "faults/mongo_seam.h"
#include "store/mongo/driver/store.h"
#include "store/mongo/queue/batch.h"
#include "support/inside.h"

#include <unistd.h>

#define HANGS_S 120
#define RUNS_MAX 200

static mongo_fault_at fault;
static char name[32];

/* ---- What must hold of every failure ---- */

static bool is_of_store(hf_code code)
{
    return hf_code_exit(code) == 69 || code == HF_INTERNAL;
}

static bool well(hf_code code, const hf_error *err, const char *what)
{
    if (!code)
        return true;
    bool names_it = strstr(err->text, "mongodb at") || strstr(err->text, "collection");
    if (err->code != code || !err->text[0] || (is_of_store(code) && !names_it))
        fail_msg("call %d, odd %d, code %d: %s gave %s; %s: %s", fault.nth, fault.odd, fault.code,
                 what, hf_code_name(code), hf_code_name(err->code), err->text);
    return false;
}

#define WELL(call) (err = (hf_error){.code = HF_OK}, well(call, &err, #call))

/* ---- The body: every call of the store's interface ---- */

static bool see_record(void *ctx, const hf_record *record)
{
    if (ctx && strcmp(record->name, name) == 0)
        *(bool *)ctx = record->exists;
    return record->name[0] != '\0';
}

/* One is enough: the runs before have left theirs. */
static bool see_state(void *ctx, const hf_session_state *state)
{
    (void)ctx, (void)state;
    return false;
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

static hf_id new_id(void)
{
    hf_id id;
    env_linux.random(NULL, &id, sizeof id);
    return id;
}

static hf_code begin(hf_store *store, hf_id id, hf_error *err)
{
    hf_session self = {.id = id, .ttl_ms = 1000, .pid = getpid(), .app = "test", .host = "here"};
    return store->ops->session_begin(store, &self, err);
}

static hf_enter entrant(hf_id session, hf_id ticket)
{
    return (hf_enter){
        .entry = {.ticket = ticket, .session = session, .ttl_ms = 1000, .permits = HF_LIMIT_RW},
        .limit = HF_LIMIT_RW,
        .queue_max = HF_QUEUE_MAX};
}

static hf_code enter(hf_store *store, const char *lock, hf_id session, hf_id ticket, hf_error *err)
{
    hf_record record;
    hf_step_reply reply;
    hf_enter in = entrant(session, ticket);
    hf_code code = store->ops->step(store, lock, &(hf_step){.enter = &in}, &record, &reply, err);
    if (!code)
        record_done(&record);
    return code;
}

static hf_code leave(hf_store *store, const char *lock, hf_id ticket, hf_error *err)
{
    hf_step_reply reply;
    hf_leave out = {.ticket = ticket, .outcome = HF_OUTCOME_RELEASED, .told = true, .who = "test"};
    hf_step step = {.leaves = &out, .n_leaves = 1};
    return store->ops->step(store, lock, &step, NULL, &reply, err);
}

/* Two steps as one command. One that was not settled goes by itself. */
static void batch_two(hf_store *store, const char *const locks[2], const hf_step steps[2])
{
    hf_record out[2];
    mongo_member two[2], *members[2];
    for (size_t i = 0; i < 2; i++) {
        two[i] = (mongo_member){
            .name = locks[i], .step = &steps[i], .out = &out[i], .state = MEMBER_IN_BATCH};
        pthread_cond_init(&two[i].changed, NULL);
        members[i] = &two[i];
    }
    mongo_batch_send((mongo_store *)store, members, 2);
    for (size_t i = 0; i < 2; i++) {
        pthread_cond_destroy(&two[i].changed);
        hf_error err = two[i].err;
        hf_step_reply reply;
        hf_code code = two[i].code;
        if (two[i].state != MEMBER_DONE)
            code = store->ops->step(store, locks[i], &steps[i], steps[i].enter ? &out[i] : NULL,
                                    &reply, &err);
        if (well(code, &err, "batching") && steps[i].enter)
            record_done(&out[i]);
    }
}

static void enter_two(hf_store *store, const hf_id sessions[2], const hf_id tickets[2])
{
    hf_enter in[] = {entrant(sessions[0], tickets[0]), entrant(sessions[1], tickets[1])};
    batch_two(store, (const char *const[]){"fellow", name},
              (const hf_step[]){{.enter = &in[0]}, {.enter = &in[1]}});
}

static void leave_two(hf_store *store, const hf_id tickets[2])
{
    hf_leave out[] = {{.ticket = tickets[0], .outcome = HF_OUTCOME_RELEASED, .told = true},
                      {.ticket = tickets[1], .outcome = HF_OUTCOME_RELEASED, .told = true}};
    batch_two(
        store, (const char *const[]){"fellow", name},
        (const hf_step[]){{.leaves = &out[0], .n_leaves = 1}, {.leaves = &out[1], .n_leaves = 1}});
}

/* One of the two has entered: a look must not say that nobody has. */
static void look(hf_store *store, size_t n, bool linearizable)
{
    hf_error err;
    const char *names[] = {name, "none"};
    bool exists = false;
    hf_stamp any = {0};
    if (WELL(store->ops->look(store, names, n, any, linearizable, see_record, &exists, &err)) &&
        fault.once)
        assert_true(exists);
}

static void look_around(hf_store *store, const hf_id ids[2])
{
    static hf_session_state states[2], gone[4];
    hf_error err;
    size_t n;
    bool more;
    look(store, 2, false);
    look(store, 1, true);
    (void)WELL(store->ops->list(store, &(hf_list_part){.prefix = name, .after = ""}, see_record,
                                NULL, &err));
    (void)WELL(store->ops->list_sessions(store, see_state, NULL, &err));
    (void)WELL(store->ops->await(store, ids[1], (hf_stamp){0}, 1, see_notice, NULL, &err));
    if (WELL(store->ops->sessions_look(store, ids, 2, 0, states, &err)) &&
        states[1].presence != HF_MISSING)
        (void)WELL(store->ops->session_mark(store, &states[1], &err));
    while (WELL(store->ops->sweep(store, gone, 4, &n, &more, &err)) && more)
        ;
    (void)WELL(store->ops->doctor(store, see_finding, NULL, &err));
}

static void use_store(hf_store *store)
{
    static hf_session_state state;
    hf_error err;
    hf_id ids[2] = {new_id(), new_id()}, tickets[2] = {new_id(), new_id()}, fellow = new_id();
    hf_ask ask = {.ticket = tickets[0], .by = "me", .reason = "because"};
    (void)WELL(begin(store, ids[0], &err));
    (void)WELL(begin(store, ids[1], &err));
    (void)WELL(enter(store, name, ids[0], tickets[0], &err));
    enter_two(store, ids, (const hf_id[]){fellow, tickets[1]});
    (void)WELL(store->ops->ask(store, ids[0], &ask, &err));
    hf_beat says = {.answered = tickets, .n_answered = 1, .waits = "waits"};
    (void)WELL(store->ops->session_beat(store, ids[0], &says, &state, &err));
    (void)WELL(store->ops->waits(store, ids, 2, see_waits, NULL, &err));
    look_around(store, ids);
    (void)WELL(leave(store, name, tickets[0], &err));
    leave_two(store, (const hf_id[]){fellow, tickets[1]});
    (void)WELL(store->ops->session_end(store, ids[0], false, &err));
    (void)WELL(store->ops->session_end(store, ids[1], false, &err));
}

static void log_nothing(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx, (void)level, (void)text;
}

static void must(hf_code code, const hf_error *err)
{
    if (code)
        fail_msg("call %d, odd %d, code %d: afterwards: %s", fault.nth, fault.odd, fault.code,
                 err->text);
}

/* What it was used for before does not keep a store from going on. */
static void goes_on(hf_store *store)
{
    hf_error err;
    hf_id session = new_id(), ticket = new_id();
    must(begin(store, session, &err), &err);
    must(enter(store, "other", session, ticket, &err), &err);
    must(leave(store, "other", ticket, &err), &err);
    must(store->ops->session_end(store, session, false, &err), &err);
}

static int run(void)
{
    static const hf_store_config config = {.ttl_ms = 1000, .env = &env_linux, .log = log_nothing};
    hf_store *store = NULL;
    hf_error err;
    int64_t patience_ms = 0;
    alarm(HANGS_S);
    must(hf_store_open(getenv("HOLDFAST_TEST_URI"), &config, &store, &patience_ms, &err), &err);
    mongo_seam_arm(&fault);
    use_store(store);
    int failed = mongo_seam_lift();
    goes_on(store);
    store->ops->close(store);
    alarm(0);
    return failed;
}

/* ---- Walking ---- */

struct taker {
    pthread_t thread;
    hf_client *client;
    char name[32];
    hf_code code;
};

static void *take_one(void *arg)
{
    struct taker *taker = arg;
    taker->code = try_take(taker->client, taker->name, 60000);
    return NULL;
}

/* All at once: each may have to wait until the sessions before it are judged dead. */
static void assert_can_be_had(struct taker *takers, int n)
{
    hf_client *client = open_client(getenv("HOLDFAST_TEST_URI"), 10000);
    for (int i = 0; i < n; i++) {
        takers[i].client = client;
        pthread_create(&takers[i].thread, NULL, take_one, &takers[i]);
    }
    for (int i = 0; i < n; i++)
        pthread_join(takers[i].thread, NULL);
    for (int i = 0; i < n; i++)
        if (takers[i].code)
            fail_msg("%s cannot be had: %s", takers[i].name, hf_code_name(takers[i].code));
    hf_close(client);
}

static void walk(mongo_odd odd, int code, bool once, int stride)
{
    static struct taker takers[RUNS_MAX];
    int n = 0, failed = 1;
    if (getenv("HOLDFAST_TEST_ALL"))
        stride = 1;
    fault = (mongo_fault_at){.nth = 1, .once = once, .odd = odd, .code = code};
    for (; failed && n < RUNS_MAX; fault.nth += stride) {
        snprintf(name, sizeof name, "%d/%d/%d/%d.", odd, code, once, fault.nth);
        strcpy(takers[n++].name, name);
        failed = run();
    }
    assert_int_equal(failed, 0);
    assert_can_be_had(takers, n);
    print_message("%d points fail %s: odd %d, code %d\n", n - 1, once ? "once" : "for good", odd,
                  code);
}

static void walks_the_network(void **state)
{
    (void)state;
    walk(ODD_UNSENT, 0, true, 1);
    walk(ODD_UNSENT, 0, false, 3);
    walk(ODD_UNANSWERED, 0, true, 1);
}

static void walks_the_servers_errors(void **state)
{
    (void)state;
    static const int codes[] = {91, 189, 13, 10107, 11600, 2};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        walk(ODD_SERVER, codes[i], true, 7);
    walk(ODD_CONCERN, 64, true, 1);
}

static void walks_odd_replies(void **state)
{
    (void)state;
    walk(ODD_EMPTY, 0, true, 1);
    walk(ODD_TYPES, 0, true, 2);
    walk(ODD_EMPTY, 0, false, 4);
    walk(ODD_TYPES, 0, false, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_the_network),
        cmocka_unit_test(walks_the_servers_errors),
        cmocka_unit_test(walks_odd_replies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
