/* SPDX-License-Identifier: Apache-2.0 */
/* bed.c: makes stores, sessions, clients and waiting threads for the conformance cases. */
#include "conformance/bed.h"

#include "client/base/env.h"
#include "core/record.h"
#include "store/kernel_time.h"

#include <poll.h>
#include <unistd.h>

struct bed bed;

static char folder[64]; /* of the SQLite file */

/* ---- Clocks ---- */

int64_t bed_now_ms(void)
{
    return kernel_ms(CLOCK_MONOTONIC);
}

int64_t bed_wall_ms(void)
{
    return kernel_ms(CLOCK_REALTIME);
}

bool bed_until(int64_t ms, bool (*holds)(void *ctx), void *ctx)
{
    int64_t end = bed_now_ms() + ms;
    while (!holds(ctx)) {
        if (bed_now_ms() > end)
            return false;
        poll(NULL, 0, 5);
    }
    return true;
}

/* ---- The store under test ---- */

static void choose_sqlite(void)
{
    snprintf(folder, sizeof folder, "/tmp/holdfast-conformance-XXXXXX");
    if (!mkdtemp(folder))
        abort();
    snprintf(bed.uri, sizeof bed.uri, "sqlite:%s/locks.db", folder);
}

/* The set's URI with a database of this run's own; keys: "", or "hfProtocol=ttl". */
static void choose_mongo(const char *keys)
{
    const char *uri = getenv("HOLDFAST_TEST_URI");
    if (!uri || !strstr(uri, "://")) {
        fprintf(stderr, "conformance: HOLDFAST_TEST_URI names no MongoDB\n");
        exit(64);
    }
    const char *hosts = strstr(uri, "://") + 3, *options = strchr(hosts, '?');
    hf_id id = bed_id();
    int n = (int)(hosts - uri) + (int)strcspn(hosts, "/?");
    snprintf(bed.uri, sizeof bed.uri, "%.*s/hf_conformance_%d_%02x%02x%02x%s%s%s", n, uri,
             (int)getpid(), id.bytes[0], id.bytes[1], id.bytes[2], options ? options : "?",
             options && *keys ? "&" : "", keys);
}

void bed_use(const char *uri)
{
    snprintf(bed.uri, sizeof bed.uri, "%s", uri);
    bed.is_mongo = strncmp(uri, "mongodb", 7) == 0;
}

void bed_begin(const char *kind)
{
    if (bed.is_loaded)
        bed_use(kind);
    else if (strcmp(kind, "memory:") == 0)
        bed_use("memory:conformance");
    else if (strcmp(kind, "sqlite:") == 0)
        choose_sqlite();
    else
        choose_mongo(strchr(kind, ':') ? strchr(kind, ':') + 1 : "");
    bed.is_mongo = strncmp(kind, "mongodb", 7) == 0;
    hf_store *store = bed_store();
    bed.expires = strcmp(store->protocol ? store->protocol : "", "sharding") == 0;
    bed.can = store->can | (bed.expires ? 0 : BED_CAN_SAY_WHO) |
              (strstr(bed.uri, "hfProtocol=document") ? 0 : BED_MAKES) |
              (store->can & HF_CAN_QUEUE ? HF_CAN_LAST : 0) |
              (store->ops->waits ? BED_TELLS_WAITS : 0);
    store->ops->close(store);
}

void bed_end(void)
{
    if (bed.is_mongo)
        mongo_drop(bed.uri);
    static const char *const files[] = {"", "-wal", "-shm", "-alive"};
    for (size_t i = 0; folder[0] && i < sizeof files / sizeof *files; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/locks.db%s", folder, files[i]);
        unlink(path);
    }
    if (folder[0])
        rmdir(folder);
}

/* The name of an element of the document that mongo_place() makes. */
static const char *element_of(char name[64])
{
    char document[64];
    memcpy(document, name, sizeof document);
    snprintf(name, 64, "[\"%.40s\",1]", document);
    return name;
}

const char *bed_name(const char *stem)
{
    static char names[16][64];
    static unsigned n;
    char *name = names[n % 16];
    snprintf(name, sizeof names[0], "%s-%u", stem, n++);
    if (strstr(bed.uri, "hfProtocol=document"))
        mongo_place(bed.uri, name);
    return strstr(bed.uri, "hfElement") ? element_of(name) : name;
}

/* ---- Checks ---- */

void bed_code(hf_code expected, hf_code code, const hf_error *err, const char *call,
              const char *file, int line)
{
    if (code == expected)
        return;
    print_error("%s: %s instead of %s: %s\n", call, hf_code_name(code), hf_code_name(expected),
                err && code ? err->text : "");
    _fail(file, line);
}

void bed_contains(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part))
        return;
    print_error("\"%s\" is not in \"%s\"\n", part, text);
    _fail(file, line);
}

/* ---- Stores ---- */

static void drop_log(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx;
    if (getenv("HOLDFAST_TEST_LOG"))
        fprintf(stderr, "[%d] %s\n", (int)level, text);
}

/* No ttl may be longer than the expiry; here it is as long. */
const char *bed_uri_for(int64_t ttl_ms, char out[sizeof bed.uri + 32])
{
    bool is_sharding = strstr(bed.uri, "hfProtocol=sharding");
    snprintf(out, sizeof bed.uri + 32, "%s", bed.uri);
    if (is_sharding)
        snprintf(out + strlen(out), 32, "&hfExpiryMS=%lld", (long long)ttl_ms);
    return out;
}

hf_store *bed_store_at(const char *uri, int64_t ttl_ms)
{
    hf_store_config config = {.ttl_ms = ttl_ms, .env = &env_linux, .log = drop_log};
    hf_store *store = NULL;
    hf_error err;
    int64_t patience_ms = 0;
    assert_code(HF_OK, hf_store_open(uri, &config, &store, &patience_ms, &err), &err);
    return store;
}

hf_store *bed_store(void)
{
    char uri[sizeof bed.uri + 32];
    return bed_store_at(bed_uri_for(BED_STORE_TTL, uri), BED_STORE_TTL);
}

hf_id bed_id(void)
{
    hf_id id;
    env_linux.random(NULL, &id, sizeof id);
    return id;
}

hf_id bed_session(hf_store *store, int32_t ttl_ms)
{
    hf_session self = {.id = bed_id(),
                       .ttl_ms = ttl_ms,
                       .pid = getpid(),
                       .started_at = {bed_wall_ms()},
                       .app = "conformance",
                       .host = "here"};
    const hf_beat says = {.begins = &self, .begins_at = 2};
    hf_session_state seen;
    hf_error err;
    assert_code(HF_OK, store->ops->session_begin(store, &self, &err), &err);
    /* other stores see it when a beat, or a step, has been acknowledged (R3) */
    assert_code(HF_OK, store->ops->session_beat(store, self.id, &says, &seen, &err), &err);
    return self.id;
}

hf_enter bed_enter(hf_id session, int32_t permits, int32_t limit)
{
    return (hf_enter){.entry = {.ticket = bed_id(),
                                .session = session,
                                .ttl_ms = 10000,
                                .permits = permits,
                                .actor = "main",
                                .why = "because"},
                      .limit = limit,
                      .queue_max = HF_QUEUE_MAX};
}

void bed_step(hf_store *store, const char *name, const hf_step *step, hf_record *out)
{
    hf_error err;
    hf_step_reply reply;
    assert_code(HF_OK, store->ops->step(store, name, step, out, &reply, &err), &err);
}

void bed_take(hf_store *store, const char *name, const hf_enter *enter, hf_record *out)
{
    bed_step(store, name, &(hf_step){.enter = enter}, out);
}

void bed_leave(hf_store *store, const char *name, hf_id ticket, hf_record *out)
{
    hf_leave leave = {
        .ticket = ticket, .outcome = HF_OUTCOME_RELEASED, .told = true, .who = "main@here:1"};
    bed_step(store, name, &(hf_step){.leaves = &leave, .n_leaves = 1}, out);
}

static bool copy_out(void *ctx, const hf_record *record)
{
    record_copy(ctx, record);
    return true;
}

void bed_look(hf_store *store, const char *name, hf_record *out)
{
    hf_error err;
    *out = (hf_record){.limit = -1};
    assert_code(HF_OK, store->ops->look(store, &name, 1, (hf_stamp){0}, false, copy_out, out, &err),
                &err);
    assert_string_equal(out->name, name);
}

/* ---- Clients ---- */

static hf_client *client_of(const hf_options *options)
{
    hf_client *client = NULL;
    hf_error err;
    char uri[sizeof bed.uri + 32];
    assert_code(HF_OK, hf_open(bed_uri_for(options->ttl_ms, uri), options, &client, &err), &err);
    return client;
}

hf_client *bed_client(const char *app, int64_t ttl_ms)
{
    return client_of(&(hf_options){.ttl_ms = ttl_ms, .app = app, .log = drop_log});
}

hf_client *bed_client_of_tickets(const char *app, int64_t ttl_ms)
{
    return client_of(
        &(hf_options){.ttl_ms = ttl_ms, .app = app, .log = drop_log, .local_turns = -1});
}

hf_lock *bed_acquire(hf_client *client, const char *name, const hf_lock_options *options)
{
    hf_lock *lock = NULL;
    hf_error err;
    hf_lock_options bounded = options ? *options : (hf_lock_options){0};
    if (bounded.wait_ms == HF_WAIT_DEFAULT)
        bounded.wait_ms = BED_SOON;
    assert_code(HF_OK, hf_lock_acquire(client, name, &bounded, &lock, &err), &err);
    return lock;
}

hf_code bed_try(hf_client *client, const char *name, hf_mode mode, hf_lock **out)
{
    hf_lock_options options = {.mode = mode, .wait_ms = HF_TRY};
    return hf_lock_acquire(client, name, &options, out, NULL);
}

void bed_release(hf_lock *lock)
{
    hf_error err;
    assert_code(HF_OK, hf_lock_release(lock, &err), &err);
    hf_lock_close(lock);
}

static bool count_queue(void *ctx, const hf_lock_info *info)
{
    *(size_t *)ctx = info->n_queue;
    return true;
}

size_t bed_queued(hf_client *client, const char *name)
{
    size_t n = 0;
    hf_error err;
    hf_code code = hf_show(client, name, count_queue, &n, &err);
    if (code != HF_NOT_FOUND)
        assert_code(HF_OK, code, &err);
    return n;
}

struct queue_wish {
    hf_client *client;
    const char *name;
    size_t n;
};

static bool has_queue(void *ctx)
{
    const struct queue_wish *wish = ctx;
    return bed_queued(wish->client, wish->name) == wish->n;
}

void bed_rises(int64_t before, int64_t token)
{
    if (bed.can & HF_CAN_TOKENS)
        assert_true(token > before);
}

/* Who overtakes has to have looked twice, the expiry apart. */
int64_t bed_takeover_ms(void)
{
    return BED_TTL + 1000 + (bed.expires ? 1000 : 0);
}

hf_last bed_last(hf_lock *lock)
{
    hf_last last;
    hf_error err;
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
    return last;
}

void bed_previous(hf_lock *lock, hf_outcome outcome, const char *who, int64_t token)
{
    hf_last last = bed_last(lock);
    if (!(bed.can & HF_CAN_QUEUE))
        return;
    assert_int_equal(last.outcome, outcome);
    assert_contains(last.who, who);
    if (token)
        assert_int_equal(last.token, token);
}

void bed_wait_queued(hf_client *client, const char *name, size_t n)
{
    if (!(bed.can & HF_CAN_QUEUE)) {
        poll(NULL, 0, 300);
        return;
    }
    struct queue_wish wish = {client, name, n};
    if (!bed_until(BED_SOON, has_queue, &wish))
        fail_msg("%zu instead of %zu wait for %s", bed_queued(client, name), n, name);
}

bool bed_readable(int fd, int64_t ms)
{
    struct pollfd want = {.fd = fd, .events = POLLIN};
    return poll(&want, 1, (int)ms) == 1;
}

static void *take(void *arg)
{
    struct taker *taker = arg;
    taker->code =
        hf_lock_acquire(taker->client, taker->name, &taker->options, &taker->lock, &taker->err);
    taker->ended_idle_ms = idle_ms();
    return NULL;
}

void taker_start(struct taker *taker, hf_client *client, const char *name,
                 const hf_lock_options *options)
{
    *taker = (struct taker){.client = client, .name = name};
    if (options)
        taker->options = *options;
    if (taker->options.wait_ms == HF_WAIT_DEFAULT)
        taker->options.wait_ms = BED_SOON; /* a case that fails must end, too */
    assert_int_equal(pthread_create(&taker->thread, NULL, take, taker), 0);
}

void taker_join(struct taker *taker)
{
    assert_int_equal(pthread_join(taker->thread, NULL), 0);
}

static void *do_break(void *arg)
{
    struct breaker *breaker = arg;
    breaker->code = hf_break(breaker->client, breaker->name, &breaker->options, &breaker->err);
    breaker->ended_idle_ms = idle_ms();
    return NULL;
}

void breaker_start(struct breaker *breaker)
{
    assert_int_equal(pthread_create(&breaker->thread, NULL, do_break, breaker), 0);
}

void breaker_join(struct breaker *breaker)
{
    assert_int_equal(pthread_join(breaker->thread, NULL), 0);
    assert_code(HF_OK, breaker->code, &breaker->err);
}

/* ---- Cases ---- */

static const char *lacking(unsigned needs)
{
    unsigned lacks = needs & ~bed.can;
    return lacks & HF_CAN_QUEUE       ? "a queue, with sessions that can be judged and asked"
           : lacks & HF_CAN_SHARE     ? "shared locks"
           : lacks & HF_CAN_TOKENS    ? "tokens"
           : lacks & BED_MAKES        ? "documents of its own"
           : lacks & HF_CAN_PROCESSES ? "other processes"
           : lacks & HF_CAN_NOTIFY    ? "notices"
           : lacks & HF_CAN_LAST      ? "a memory of how the last holder left"
           : lacks & HF_CAN_HISTORY   ? "a history"
           : lacks & BED_CAN_SAY_WHO  ? "sessions that say whose they are"
           : lacks & BED_TELLS_WAITS  ? "sessions that say what they wait for"
                                      : NULL;
}

int bed_run(const char *group, const struct bed_case *cases, size_t n)
{
    struct CMUnitTest *fit = calloc(n, sizeof *fit);
    size_t fits = 0;
    for (size_t i = 0; i < n; i++) {
        const char *lacks = lacking(cases[i].needs);
        if (lacks)
            print_message("not for this store, which has not %s: %s\n", lacks, cases[i].test.name);
        else
            fit[fits++] = cases[i].test;
    }
    int failed = _cmocka_run_group_tests(group, fit, fits, NULL, NULL);
    free(fit);
    return failed;
}
