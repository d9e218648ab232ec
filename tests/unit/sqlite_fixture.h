/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_fixture.h: a folder, clocks that a test moves, and short ways to step; for the tests of
 * the embedded store. Included once per program. */
#ifndef UNIT_SQLITE_FIXTURE_H
#define UNIT_SQLITE_FIXTURE_H

#include "core/alloc.h"
#include "core/id.h"
#include "core/period.h"
#include "core/record.h"
#include "store/sqlite/sqlite.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define UNUSED __attribute__((unused))

/* Added to the machine's clocks. */
static int64_t mono_ahead_ms, wall_ahead_ms;
static bool clocks_stand; /* at a time that is the same in every run */
static char folder[64], path[96];
static const char *clock_name = "time:[1]"; /* of open_at() */

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static hf_mono env_mono(void *ctx)
{
    (void)ctx;
    int64_t now_ns = clocks_stand ? INT64_C(1000000000000) : clock_ns(CLOCK_BOOTTIME);
    return (hf_mono){now_ns + mono_ahead_ms * 1000000};
}

static hf_wall env_wall(void *ctx)
{
    (void)ctx;
    int64_t now_ms = clocks_stand ? INT64_C(1800000000000) : clock_ns(CLOCK_REALTIME) / 1000000;
    return (hf_wall){now_ms + wall_ahead_ms};
}

static void env_random(void *ctx, void *bytes, size_t n)
{
    (void)ctx;
    assert_int_equal(getentropy(bytes, n), 0);
}

static const hf_env env = {.mono = env_mono, .wall = env_wall, .random = env_random};

static char warning[600]; /* the last one */

static void note_warning(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx;
    if (level == HF_LOG_WARNING)
        snprintf(warning, sizeof warning, "%s", text);
}

static const hf_store_config config = {.ttl_ms = 10000, .env = &env, .log = note_warning};

static int make_folder(void **state)
{
    (void)state;
    mono_ahead_ms = wall_ahead_ms = 0;
    clock_name = "time:[1]";
    strcpy(folder, "/tmp/holdfast-sqlite-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/locks.db", folder);
    return 0;
}

static int remove_one(const char *name, const struct stat *info, int type, struct FTW *place)
{
    (void)info, (void)type, (void)place;
    return remove(name);
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static UNUSED hf_id new_id(void)
{
    hf_id id;
    env_random(NULL, &id, sizeof id);
    return id;
}

static bool is_child; /* a forked one must not go on with the test */

static UNUSED void must(hf_code code, const hf_error *err)
{
    if (code && is_child)
        abort();
    if (code)
        fail_msg("%s: %s", hf_code_name(code), err->text);
}

static UNUSED hf_store *open_store(void)
{
    hf_error err;
    hf_store *store = NULL;
    must(sqlite_open(path, &config, &store, &err), &err);
    return store;
}

static UNUSED hf_store *open_at(const char *boot, const char *machine)
{
    hf_error err;
    hf_store *store = NULL;
    sqlite_place place;
    snprintf(place.clock, sizeof place.clock, "%s", clock_name);
    snprintf(place.boot, sizeof place.boot, "%s", boot);
    snprintf(place.machine, sizeof place.machine, "%s", machine);
    must(sqlite_open_at(path, &config, &place, &store, &err), &err);
    return store;
}

static UNUSED hf_code open_fails(hf_error *err)
{
    hf_store *store = NULL;
    hf_code code = sqlite_open(path, &config, &store, err);
    if (store)
        store->ops->close(store);
    assert_int_not_equal(code, HF_OK);
    assert_int_equal(err->code, code);
    return code;
}

static UNUSED hf_id begin_session(hf_store *store)
{
    hf_error err;
    hf_session self = {.id = new_id(),
                       .ttl_ms = 10000,
                       .pid = getpid(),
                       .started_at = env_wall(NULL),
                       .app = "test",
                       .host = "here"};
    must(store->ops->session_begin(store, &self, &err), &err);
    return self.id;
}

static UNUSED hf_enter enter_of(hf_id session, int32_t permits)
{
    return (hf_enter){.entry = {.ticket = new_id(),
                                .session = session,
                                .ttl_ms = 10000,
                                .permits = permits,
                                .actor = "main",
                                .why = "testing"},
                      .limit = HF_LIMIT_RW,
                      .queue_max = HF_QUEUE_MAX};
}

/* Enters exclusively; *ticket is the new one's. */
static UNUSED record_verdict enter(hf_store *store, const char *name, hf_id session, hf_id *ticket,
                                   int64_t *token)
{
    hf_error err;
    hf_record record;
    hf_step_reply reply;
    hf_enter in = enter_of(session, HF_LIMIT_RW);
    *ticket = in.entry.ticket;
    must(store->ops->step(store, name, &(hf_step){.enter = &in}, &record, &reply, &err), &err);
    record_verdict verdict = record_judge(&record, &in);
    *token = record.token;
    record_done(&record);
    return verdict;
}

static UNUSED void leave(hf_store *store, const char *name, hf_id ticket)
{
    hf_error err;
    hf_step_reply reply;
    hf_leave out = {.ticket = ticket, .outcome = HF_OUTCOME_RELEASED, .told = true, .who = "test"};
    hf_step step = {.leaves = &out, .n_leaves = 1};
    must(store->ops->step(store, name, &step, NULL, &reply, &err), &err);
}

static UNUSED hf_session_state look_at(hf_store *store, hf_id session, int64_t clock_trust_ms)
{
    hf_error err;
    static hf_session_state state;
    must(store->ops->sessions_look(store, &session, 1, clock_trust_ms, &state, &err), &err);
    return state;
}

static UNUSED bool copy_record(void *ctx, const hf_record *record)
{
    record_copy(ctx, record);
    return true;
}

/* To be freed with record_done(). */
static UNUSED hf_record read_record(hf_store *store, const char *name)
{
    hf_error err;
    hf_record record = {.exists = false};
    must(store->ops->look(store, &name, 1, (hf_stamp){0}, false, copy_record, &record, &err), &err);
    return record;
}

static UNUSED void run_sql(const char *text)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* how: O_TRUNC, or O_EXCL: it must not be there. */
static UNUSED void copy_file(const char *from, const char *to, int how)
{
    char bytes[4096];
    ssize_t n;
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | how, 0600);
    assert_true(in >= 0 && out >= 0);
    while ((n = read(in, bytes, sizeof bytes)) > 0)
        assert_int_equal(write(out, bytes, (size_t)n), n);
    close(in);
    close(out);
}

static UNUSED int64_t query(const char *text)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
}

static UNUSED void write_file(const char *name, const char *text, int times)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    for (int i = 0; i < times; i++)
        fputs(text, file);
    fclose(file);
}

static UNUSED void expect_unusable(const char *word)
{
    hf_error err;
    assert_int_equal(open_fails(&err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, word));
}

static UNUSED size_t sweep(hf_store *store, hf_session_state *gone, size_t max)
{
    hf_error err;
    size_t n, rest;
    bool more;
    must(store->ops->sweep(store, gone, max, &n, &more, &err), &err);
    while (more)
        must(store->ops->sweep(store, gone + n, max - n, &rest, &more, &err), &err);
    return n;
}

#endif
