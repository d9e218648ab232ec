/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite.c: opens and closes the embedded store and holds its table of operations; called by
 * store/open.c. */
#include "store/sqlite/sqlite.h"

#include "core/alloc.h"
#include "core/error.h"
#include "store/sqlite/file.h"
#include "store/sqlite/sqlite_internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_MS 5000 /* of all calls but beats, whose time-out is a sixth of the ttl (R7) */

/* In a forked child only memory is freed: SQLite's handles belong to the parent, closing them here
 * could write to its database; and a mutex may have been locked by a thread that is not here. */
static void close_sqlite(hf_store *base)
{
    sqlite_store *store = store_of(base);
    bool is_owner = getpid() == store->pid;
    while (store->own && is_owner)
        own_remove(store, store->own->id);
    own_forget_all(store);
    if (is_owner) {
        sql_close(&store->beats);
        sql_close(&store->main);
        process_leave();
    }
    notice_close(store);
    if (store->tester >= 0)
        close(store->tester);
    pthread_mutex_destroy(&store->mutex);
    free(store->alive_path);
    free(store->path);
    free(store);
}

static const hf_store_ops ops = {
    .scheme = "sqlite",
    .close = close_sqlite,
    .session_begin = sqlite_session_begin,
    .session_beat = sqlite_session_beat,
    .session_mark = sqlite_session_mark,
    .session_end = sqlite_session_end,
    .sessions_look = sqlite_sessions_look,
    .waits = sqlite_waits,
    .step = sqlite_step,
    .steps = sqlite_steps,
    .look = sqlite_look,
    .list = sqlite_list,
    .list_sessions = sqlite_list_sessions,
    .ask = sqlite_ask,
    .await = sqlite_await,
    .called = sqlite_called,
    .wake = sqlite_wake,
    .sweep = sqlite_sweep,
    .keep_fd = sqlite_keep_fd,
    .doctor = sqlite_doctor,
    .history_add = sqlite_history_add,
    .history = sqlite_history,
};

static char *beside(const sqlite_store *store, const char *suffix)
{
    size_t size = strlen(store->path) + strlen(suffix) + 1;
    char *path = alloc_array(NULL, size, 1);
    snprintf(path, size, "%s%s", store->path, suffix);
    return path;
}

static sqlite_store *new_store(const char *path, const hf_store_config *config,
                               const sqlite_place *place)
{
    sqlite_store *store = alloc_zeroed(sizeof *store);
    store->base.ops = &ops;
    store->base.can = HF_CAN_SHARE | HF_CAN_QUEUE | HF_CAN_TOKENS | HF_CAN_NOTIFY | HF_CAN_SKEW |
                      HF_CAN_PROCESSES | HF_CAN_SEE_CRASH | HF_CAN_HISTORY;
    store->base.protocol = "queue";
    store->base.await_ms = 60000; /* a waiting process need not wake up for anything */
    store->config = *config;
    store->place = *place;
    store->pid = getpid();
    store->path = file_resolve(path);
    store->alive_path = beside(store, ALIVE_SUFFIX);
    store->tester = store->wake_fd = store->inotify_fd = store->send_fd = -1;
    pthread_mutex_init(&store->mutex, NULL);
    return store;
}

/* HF_OK if SQLite's own attempt will tell more. */
static hf_code make_fails(const char *path, int os, hf_error *err)
{
    static const struct {
        int os;
        hf_code code;
        const char *remedy;
    } failures[] = {
        {ENOENT, HF_UNUSABLE, "its folder must exist"},
        {EACCES, HF_DENIED,
         "give the right to write there, join the group that has it (and log in again), or name "
         "another path"},
        {EROFS, HF_READONLY, "name a path on a file system that can be written to"},
        {ENOSPC, HF_FULL, "free some, or name another path"},
        {EDQUOT, HF_FULL, "remove files, ask for a larger quota, or name another path"},
    };
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        if (failures[i].os == os)
            return error_set(err, failures[i].code, "%s: cannot be opened or made: %s: %s", path,
                             strerror(os), failures[i].remedy);
    return HF_OK;
}

/* SQLite would make it with mode 0644. */
static hf_code make_file(const char *path, hf_error *err)
{
    return file_make(path, NULL) ? make_fails(path, errno, err) : HF_OK;
}

/* SQLite follows no link to a file either, but takes any file that it finds. */
static hf_code check_files(const sqlite_store *store, hf_error *err)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    hf_code code = HF_OK;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes && !code; i++) {
        char *path = beside(store, suffixes[i]);
        code = file_check(path, err);
        free(path);
    }
    return code;
}

static hf_code open_main(sqlite_store *store, hf_error *err)
{
    hf_code code = sql_open(&store->main, store->path, PATIENCE_MS, err);
    if (!code)
        code = schema_check(&store->main, err);
    if (code)
        return code;
    sql_take_turns(&store->main, &store->tester);
    code = boot_begin(store, err);
    if (!code)
        code = tokens_load(store, err);
    return code ? code : schema_settle(&store->main, true, err);
}

static hf_code open_beats(sqlite_store *store, hf_error *err)
{
    store->beats.path = store->path;
    store->beats.is_readonly = store->main.is_readonly;
    if (store->main.is_readonly)
        return HF_OK;
    hf_code code = sql_open(&store->beats, store->path, store->config.ttl_ms / 6, err);
    return code ? code : schema_settle(&store->beats, false, err);
}

hf_code sqlite_open_at(const char *path, const hf_store_config *config, const sqlite_place *place,
                       hf_store **out, hf_error *err)
{
    if (path[0] == '\0' || path[0] == ':')
        return error_set(err, HF_INVALID,
                         "\"%s\" is no path of a database: give a file, or use the "
                         "store memory:",
                         path);
    hf_code code = process_enter(path, err);
    if (code)
        return code;
    sqlite_store *store = new_store(path, config, place);
    code = make_file(store->path, err);
    if (!code)
        code = check_files(store, err);
    if (!code)
        code = open_main(store, err);
    if (!code)
        code = open_beats(store, err);
    if (!code)
        code = notice_open(store, err);
    if (code)
        close_sqlite(&store->base);
    else
        *out = &store->base;
    return code;
}

hf_code sqlite_open(const char *path, const hf_store_config *config, hf_store **out, hf_error *err)
{
    sqlite_place here;
    hf_code code = sqlite_place_here(&here, err);
    return code ? code : sqlite_open_at(path, config, &here, out, err);
}
