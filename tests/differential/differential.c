/* SPDX-License-Identifier: Apache-2.0 */
/* differential.c: the same random steps to core/record.c and to each store; after every step the
 * records must be equal. The mongo store does a step by a pipeline on the server, so this is what
 * keeps pipeline.c and record.c one; one in eight of its steps goes as a batch, with others. ctest
 * runs it beside a replica set.
 *
 *     differential [URI...]      default: memory:, sqlite: in a temporary folder,
 * $HOLDFAST_TEST_URI
 *
 * HOLDFAST_TEST_SEED repeats a run; HOLDFAST_TEST_STEPS sets its length. */
#include "core/alloc.h"
#include "core/id.h"
#include "core/period.h"
#include "core/record.h"
#include "store/document.h"
#include "store/mongo/driver/store.h"
#include "store/mongo/queue/batch.h"

#include <mongoc/mongoc.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define NAMES 3
#define SESSIONS 5
#define MOST 4 /* leaves or deaths in one step */

/* ---- Chance ---- */

static uint64_t chance;

static uint64_t draw(void) /* splitmix64 */
{
    uint64_t z = chance += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t below(size_t n)
{
    return (size_t)(draw() % n);
}

static bool percent(size_t p)
{
    return below(100) < p;
}

static hf_id new_id(uint8_t kind)
{
    uint64_t value = draw();
    hf_id id = {{kind}};
    memcpy(id.bytes + 4, &value, sizeof value);
    return id;
}

/* ---- A random step ---- */

static hf_id sessions[SESSIONS];

typedef struct random_step {
    hf_step step;
    hf_leave leaves[MOST];
    hf_death deaths[MOST];
    hf_change change;
    hf_pass pass;
    hf_leave before;
    hf_enter enter;
    hf_dbtime now;
    int64_t floor;
    bool wants_record;
} random_step;

/* Often one that is there, sometimes one that is not. */
static hf_id choose_ticket(const hf_record *record)
{
    size_t n = record->holders + record->queued;
    return n && percent(90) ? record->entries[below(n)].ticket : new_id(9);
}

static void fill_leave(hf_leave *leave, const hf_record *record)
{
    *leave = (hf_leave){.ticket = choose_ticket(record),
                        .outcome = percent(75) ? HF_OUTCOME_RELEASED : HF_OUTCOME_ABANDONED,
                        .told = percent(70),
                        .has_exit_status = percent(50),
                        .exit_status = (int32_t)below(512) - 256};
    leave->used_token = percent(70) ? 0 : record->token - (int64_t)below(6);
    if (percent(30))
        leave->period = period_at((hf_dbtime){1700000000000 + (int64_t)below(100000)}, 3600000);
    if (percent(30))
        snprintf(leave->reason, sizeof leave->reason, "$reason.%zu", below(9));
    snprintf(leave->who, sizeof leave->who, "$$ROOT 'leaver' \"%zu\" \xc3\xa9", below(9));
}

static void fill_death(hf_death *death)
{
    *death = (hf_death){.session = percent(95) ? sessions[below(SESSIONS)] : new_id(8)};
    snprintf(death->who, sizeof death->who, "$dead.%zu", below(9));
}

static void fill_change(hf_change *change, const hf_record *record)
{
    static const int32_t permits[] = {1, 1, 1, 2, 2, 0, -1, HF_LIMIT_RW};
    *change = (hf_change){.ticket = choose_ticket(record),
                          .permits = permits[below(sizeof permits / sizeof *permits)]};
}

static void fill_pass(hf_pass *pass, const hf_record *record)
{
    *pass = (hf_pass){.ticket = choose_ticket(record),
                      .to = percent(92) ? new_id(2) : choose_ticket(record),
                      .session = sessions[below(SESSIONS)],
                      .ttl_ms = 1000 + (int32_t)below(9000),
                      .token = record->token > 3 ? record->token - (int64_t)below(3) : 1,
                      .why = percent(50) ? "a lease" : NULL,
                      .actor = percent(50) ? "shop" : NULL};
}

static int32_t usual_limit(size_t name)
{
    static const int32_t limits[NAMES] = {HF_LIMIT_RW, 3, 1};
    return limits[name];
}

static int32_t choose_permits(const hf_record *record, int32_t limit)
{
    if (percent(3) && record->exists)
        return limit + 1;
    if (limit == HF_LIMIT_RW)
        return percent(50) ? limit : 1;
    return 1 + (int32_t)below((size_t)limit);
}

static void fill_enter(hf_enter *enter, const hf_record *record, size_t name)
{
    *enter = (hf_enter){.limit = usual_limit(name) + (percent(5) ? 1 : 0),
                        .queue_max = percent(95) ? 6 : 1,
                        .try_only = percent(25),
                        .sets_limit = percent(30)};
    if (enter->sets_limit && percent(50))
        enter->limit = 1 + (int32_t)below(5);
    if (percent(30))
        enter->number = 1 + (int64_t)below((size_t)record->given + 3);
    enter->wants_number = !enter->number && !enter->try_only && percent(50);
    enter->is_nested = percent(30);
    enter->skips = enter->number && percent(30);
    enter->reached = record->reached - (percent(50) ? 1 : 0);
    enter->try_only &= !enter->number;
    hf_entry *entry = &enter->entry;
    entry->ticket = percent(92) ? new_id(1) : choose_ticket(record);
    entry->session = sessions[below(SESSIONS)];
    entry->ttl_ms = 1000 + (int32_t)below(9000);
    entry->permits = choose_permits(record, enter->limit);
    entry->token = 77; /* the step's to set */
    entry->yields = percent(40);
    entry->block = percent(60) ? 0 : 1 + (int32_t)below(5);
    if (percent(30))
        enter->replaces = percent(98) ? choose_ticket(record) : entry->ticket;
    snprintf(entry->actor, sizeof entry->actor, "$actor%zu", below(9));
    snprintf(entry->why, sizeof entry->why, "%s", percent(50) ? "$$ROOT" : "{$set: 1}");
}

static void fill_step(random_step *r, const hf_record *record, size_t name)
{
    r->step =
        (hf_step){.leaves = r->leaves, .deaths = r->deaths, .now = &r->now, .floor = &r->floor};
    r->now.ms += (int64_t)below(50);
    r->floor = record->token - 4 + (int64_t)below(12);
    if (percent(40))
        r->floor = record->token + (int64_t)below(2000) - 1000 + (percent(50) ? RECORD_LAG : 0);
    r->step.n_leaves = percent(45) ? 0 : percent(70) ? 1 : below(MOST + 1);
    r->step.n_deaths = percent(85) ? 0 : 1 + below(MOST);
    for (size_t i = 0; i < r->step.n_leaves; i++)
        fill_leave(&r->leaves[i], record);
    for (size_t i = 0; i < r->step.n_deaths; i++)
        fill_death(&r->deaths[i]);
    r->step.change = percent(20) ? &r->change : NULL;
    if (r->step.change)
        fill_change(&r->change, record);
    r->step.pass = percent(15) ? &r->pass : NULL;
    if (r->step.pass)
        fill_pass(&r->pass, record);
    bool is_alone = !r->step.n_leaves && !r->step.n_deaths;
    fill_leave(&r->before, record);
    r->pass.before = is_alone && percent(70) ? &r->before : NULL;
    r->step.enter = percent(70) ? &r->enter : NULL;
    if (r->step.enter)
        fill_enter(&r->enter, record, name);
    r->wants_record = r->step.enter || r->step.n_deaths || percent(70);
}

/* ---- Comparing ---- */

static char *text_of(const hf_record *record)
{
    bson_t doc;
    if (!record->exists)
        return bson_strdup("(no record)");
    document_of_record(record, &doc);
    char *text = bson_as_canonical_extended_json(&doc, NULL);
    bson_destroy(&doc);
    return text;
}

static void print_step(const random_step *r)
{
    char hex[ID_TEXT_SIZE];
    printf("  step: now %lld, floor %lld\n", (long long)r->now.ms, (long long)r->floor);
    for (size_t i = 0; i < r->step.n_leaves; i++) {
        id_write(r->leaves[i].ticket, hex);
        printf("    leave %s outcome %d told %d used %lld\n", hex, (int)r->leaves[i].outcome,
               (int)r->leaves[i].told, (long long)r->leaves[i].used_token);
    }
    for (size_t i = 0; i < r->step.n_deaths; i++) {
        id_write(r->deaths[i].session, hex);
        printf("    dead %s\n", hex);
    }
    if (r->step.change) {
        id_write(r->change.ticket, hex);
        printf("    change %s to permits %d\n", hex, (int)r->change.permits);
    }
    if (r->step.pass) {
        id_write(r->pass.ticket, hex);
        printf("    pass %s\n", hex);
    }
    if (!r->step.enter)
        return;
    id_write(r->enter.replaces, hex);
    printf("    enter replaces %s\n", hex);
    id_write(r->enter.entry.ticket, hex);
    printf("    enter %s permits %d limit %d queue_max %d wants %d nested %d number %lld skips %d "
           "from %lld "
           "try %d yields %d block %d sets_limit %d\n",
           hex, (int)r->enter.entry.permits, (int)r->enter.limit, (int)r->enter.queue_max,
           (int)r->enter.wants_number, (int)r->enter.is_nested, (long long)r->enter.number,
           (int)r->enter.skips, (long long)r->enter.reached, (int)r->enter.try_only,
           (int)r->enter.entry.yields, (int)r->enter.entry.block, (int)r->enter.sets_limit);
}

static bool keep(void *ctx, const hf_record *record)
{
    record_copy(ctx, record);
    return true;
}

static hf_code apply(hf_store *store, const char *name, const random_step *r, hf_record *out,
                     hf_error *err)
{
    hf_step_reply reply;
    hf_code code =
        store->ops->step(store, name, &r->step, r->wants_record ? out : NULL, &reply, err);
    if (code || r->wants_record)
        return code;
    return store->ops->look(store, &name, 1, reply.stamp, false, keep, out, err);
}

static bool failed(const char *name, const random_step *r, size_t number, const hf_error *err)
{
    printf("step %zu on %s: %s: %s\n", number, name, hf_code_name(err->code), err->text);
    print_step(r);
    return false;
}

/* Prints the first difference; frees what is stored. */
static bool is_same(hf_record *stored, const char *name, const random_step *r, const char *before,
                    const hf_record *model, size_t number)
{
    for (size_t i = 0; i < stored->holders + stored->queued; i++)
        stored->entries[i].bell = 0; /* the store's own: the core does not know it */
    char *want = text_of(model), *got = text_of(stored);
    bool same = strcmp(want, got) == 0;
    if (!same) {
        printf("step %zu on %s differs\n  before: %s\n", number, name, before);
        print_step(r);
        printf("  record.c: %s\n  store:    %s\n", want, got);
    }
    bson_free(want);
    bson_free(got);
    record_done(stored);
    return same;
}

static bool check(hf_store *store, const char *name, const random_step *r, const char *before,
                  const hf_record *model, size_t number)
{
    hf_record stored;
    hf_error err = {.code = HF_OK};
    if (apply(store, name, r, &stored, &err))
        return failed(name, r, number, &err);
    return is_same(&stored, name, r, before, model, number);
}

/* ---- Several steps as one command ---- */

/* What may be batched with others: a plain enter, or one leave. */
static void make_plain(random_step *r, const hf_record *record)
{
    r->step.n_deaths = 0;
    r->step.change = NULL;
    r->step.pass = NULL;
    r->enter.try_only = r->enter.wants_number = r->enter.skips = false;
    r->enter.number = 0;
    r->enter.replaces = (hf_id){{0}};
    if (r->enter.entry.permits > r->enter.limit)
        r->enter.entry.permits = r->enter.limit;
    r->wants_record = r->step.enter != NULL;
    if (r->step.enter)
        return;
    r->step.n_leaves = 1;
    fill_leave(&r->leaves[0], record);
}

static void send_batch(hf_store *store, mongo_member *members, hf_record *out)
{
    mongo_member *all[NAMES];
    for (size_t i = 0; i < NAMES; i++) {
        members[i].out = &out[i];
        pthread_cond_init(&members[i].changed, NULL);
        all[i] = &members[i];
    }
    mongo_batch_send((mongo_store *)store, all, NAMES);
    for (size_t i = 0; i < NAMES; i++)
        pthread_cond_destroy(&members[i].changed);
}

/* What the batch made of its step; one that was not settled goes by itself. */
static bool check_member(hf_store *store, mongo_member *member, const random_step *r,
                         const char *before, const hf_record *model, size_t number)
{
    hf_record *stored = member->out;
    if (member->state != MEMBER_DONE)
        return check(store, member->name, r, before, model, number);
    if (member->code != (r->step.enter || member->reply.confirmed ? HF_OK : HF_UNKNOWN))
        return failed(member->name, r, number, &member->err);
    if (!r->step.enter && store->ops->look(store, &member->name, 1, member->reply.stamp, false,
                                           keep, stored, &member->err))
        return failed(member->name, r, number, &member->err);
    return is_same(stored, member->name, r, before, model, number);
}

static bool check_batch(hf_store *store, char names[NAMES][32], hf_record models[NAMES],
                        hf_dbtime *now, size_t number)
{
    random_step r[NAMES];
    mongo_member members[NAMES];
    hf_record out[NAMES];
    char *before[NAMES];
    bool same = true;
    for (size_t i = 0; i < NAMES; i++) {
        r[i].now = *now;
        fill_step(&r[i], &models[i], i);
        fill_enter(&r[i].enter, &models[i], i);
        make_plain(&r[i], &models[i]);
        *now = r[i].now;
        before[i] = text_of(&models[i]);
        record_step(&models[i], &r[i].step, r[i].now, r[i].floor);
        members[i] = (mongo_member){.name = names[i], .step = &r[i].step, .state = MEMBER_IN_BATCH};
    }
    send_batch(store, members, out);
    for (size_t i = 0; i < NAMES; i++) {
        same = same && check_member(store, &members[i], &r[i], before[i], &models[i], number);
        bson_free(before[i]);
    }
    return same;
}

/* ---- One store ---- */

static bool compare(hf_store *store, uint64_t seed, size_t steps)
{
    hf_record models[NAMES];
    char names[NAMES][32];
    random_step r = {.now = {1700000000000}};
    bool same = true;
    size_t changed = 0;
    chance = seed;
    for (size_t i = 0; i < SESSIONS; i++)
        sessions[i] = new_id(2);
    for (size_t i = 0; i < NAMES; i++) {
        snprintf(names[i], sizeof names[i], "diff-%016llx-%zu", (unsigned long long)seed, i);
        record_init(&models[i], names[i]);
    }
    for (size_t i = 0; same && i < steps; i++) {
        if (strcmp(store->ops->scheme, "mongodb") == 0 && i % 8 == 0) {
            same = check_batch(store, names, models, &r.now, i);
            continue;
        }
        size_t name = below(NAMES);
        char *before = text_of(&models[name]);
        fill_step(&r, &models[name], name);
        changed += record_step(&models[name], &r.step, r.now, r.floor);
        same = check(store, names[name], &r, before, &models[name], i);
        bson_free(before);
    }
    printf("  %zu of %zu steps changed the record\n", changed, steps);
    for (size_t i = 0; i < NAMES; i++)
        record_done(&models[i]);
    return same;
}

static void ignore_log(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    (void)text;
}

static hf_mono mono(void *ctx)
{
    struct timespec t;
    (void)ctx;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (hf_mono){t.tv_sec * (int64_t)1000000000 + t.tv_nsec};
}

static hf_wall wall(void *ctx)
{
    struct timespec t;
    (void)ctx;
    clock_gettime(CLOCK_REALTIME, &t);
    return (hf_wall){t.tv_sec * (int64_t)1000 + t.tv_nsec / 1000000};
}

static void fill_random(void *ctx, void *bytes, size_t n)
{
    (void)ctx;
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)rand();
}

static void pause_ms(void *ctx, int64_t ms)
{
    (void)ctx;
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

static bool run(const char *uri, uint64_t seed, size_t steps)
{
    const hf_env env = {.mono = mono, .wall = wall, .random = fill_random, .pause = pause_ms};
    const hf_store_config config = {.ttl_ms = 10000, .env = &env, .log = ignore_log};
    hf_store *store;
    hf_error err;
    int64_t patience_ms = 0;
    printf("%s: %zu steps, HOLDFAST_TEST_SEED=%llu\n", uri, steps, (unsigned long long)seed);
    if (hf_store_open(uri, &config, &store, &patience_ms, &err)) {
        printf("cannot open: %s\n", err.text);
        return false;
    }
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    bool same = compare(store, seed, steps);
    clock_gettime(CLOCK_MONOTONIC, &end);
    store->ops->close(store);
    printf("  %s, in %.1f s\n", same ? "equal" : "NOT EQUAL",
           (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9);
    return same;
}

/* ---- Which stores ---- */

static size_t number_from(const char *variable, size_t otherwise)
{
    const char *text = getenv(variable);
    return text ? (size_t)strtoull(text, NULL, 10) : otherwise;
}

/* A database of our own, and writes that need no majority: there is no failover here. */
static char *uri_on_set(const char *given, const char *database)
{
    size_t hosts = strcspn(given + strlen("mongodb://"), "/?") + strlen("mongodb://");
    const char *options = strchr(given, '?');
    return bson_strdup_printf("%.*s/%s%s%shfWeakWrites=yes", (int)hosts, given, database,
                              options ? options : "?", options ? "&" : "");
}

static void drop(const char *given, const char *database)
{
    mongoc_client_t *client = mongoc_client_new(given);
    mongoc_database_t *db = mongoc_client_get_database(client, database);
    mongoc_database_drop(db, NULL);
    mongoc_database_destroy(db);
    mongoc_client_destroy(client);
}

static bool run_mongo(const char *given, uint64_t seed, size_t steps)
{
    char database[40];
    snprintf(database, sizeof database, "holdfast_diff_%d", (int)getpid());
    char *uri = uri_on_set(given, database);
    bool same = run(uri, seed, steps);
    bson_free(uri);
    drop(given, database);
    return same;
}

static bool run_sqlite(uint64_t seed, size_t steps)
{
    char folder[] = "/tmp/holdfast-diff-XXXXXX", uri[80], command[80];
    if (!mkdtemp(folder))
        return false;
    snprintf(uri, sizeof uri, "sqlite:%s/locks.db", folder);
    bool same = run(uri, seed, steps);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0 && same;
}

static bool run_uri(const char *uri, uint64_t seed, size_t steps)
{
    if (strncmp(uri, "mongodb", 7) == 0)
        return run_mongo(uri, seed, steps);
    return run(uri, seed, steps);
}

int main(int n, char **uris)
{
    uint64_t seed = number_from("HOLDFAST_TEST_SEED", (size_t)time(NULL));
    size_t steps = number_from("HOLDFAST_TEST_STEPS", 9000);
    const char *set = getenv("HOLDFAST_TEST_URI");
    bool same = true;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < n; i++)
        same &= run_uri(uris[i], seed, steps);
    if (n == 1) {
        same &= run("memory:", seed, steps);
        same &= run_sqlite(seed, steps);
        same &= set ? run_uri(set, seed, steps) : (puts("HOLDFAST_TEST_URI is not set"), false);
    }
    mongoc_cleanup();
    return same ? 0 : 1;
}
