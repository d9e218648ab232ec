/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c: checks what an embedded store depends on: the file system, the schema, the kernel
 * locks, how long a write takes; called for `holdfast doctor`. */
#include "core/error.h"
#include "store/sqlite/file.h"
#include "store/sqlite/sqlite_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

typedef struct report {
    sqlite_store *store;
    hf_finding_fn each;
    void *ctx;
    bool is_stopped;
} report;

static void find(report *to, bool is_danger, const char *topic, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void tell(report *to, const hf_finding *finding)
{
    to->is_stopped = to->is_stopped || !to->each(to->ctx, finding);
}

static void find(report *to, bool is_danger, const char *topic, const char *format, ...)
{
    char text[700];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tell(to, &(hf_finding){.topic = topic, .text = text, .is_danger = is_danger});
}

/* File systems across which kernel locks and shared memory do not work. */
static const struct {
    uint32_t magic;
    const char *name;
} networks[] = {
    {0x6969, "NFS"},        {0x517b, "SMB"},       {0xff534d42, "CIFS"}, {0xfe534d42, "SMB2"},
    {0x00c36400, "Ceph"},   {0x01021997, "9p"},    {0x5346414f, "AFS"},  {0x0bd00bd0, "Lustre"},
    {0x47504653, "GPFS"},   {0x7461636f, "OCFS2"}, {0x01161970, "GFS2"}, {0x65735546, "FUSE"},
    {0x786f4256, "vboxsf"}, {0x73757245, "Coda"},
};

static const char *network_name(uint32_t magic)
{
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++)
        if (networks[i].magic == magic)
            return networks[i].name;
    return NULL;
}

static void find_file_system(report *to)
{
    struct statfs info;
    const char *path = to->store->path;
    if (statfs(path, &info)) {
        find(to, true, "file system", "%s is not there any more: it was removed while in use",
             path);
        return;
    }
    const char *network = network_name((uint32_t)info.f_type);
    if (network)
        find(to, true, "file system",
             "%s is on %s: locks and shared memory may not work there: use a local file system, or "
             "MongoDB for several machines",
             path, network);
    else
        find(to, false, "file system", "local (type 0x%x)", (unsigned)info.f_type);
}

/* Those who may open a file that they have no business with; 0: nobody. */
static mode_t open_to(const char *path)
{
    struct stat info;
    mode_t others = S_IRWXG | S_IRWXO;
    if (file_is_shared(path))
        others = S_IRWXO;
    return stat(path, &info) ? 0 : info.st_mode & others;
}

/* A user who can open a file can lock it against the others, and can read what is in it. */
static void find_modes(report *to)
{
    static const char *const suffixes[] = {"", "-alive", "-wal", "-shm"};
    char path[4096];
    mode_t users = 0;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        snprintf(path, sizeof path, "%s%s", to->store->path, suffixes[i]);
        users |= open_to(path);
    }
    if (users)
        find(to, true, "files",
             "%s and the files beside it are open to %s: a user who can read them can lock them, "
             "and "
             "so take locks from their holders: chmod %s %s*, or share the folder with a group "
             "(chgrp GROUP, chmod 2770)",
             to->store->path,
             users & S_IRWXO ? "all users" : "a group that does not share the folder",
             users & S_IRWXO ? "o=" : "g=", to->store->path);
}

static hf_code find_server(report *to, hf_error *err)
{
    int64_t version = 0, synchronous = 0, sessions = 0;
    sql *conn = &to->store->main;
    hf_code code = sql_exec(conn, "PRAGMA user_version", &version, err);
    if (!code)
        code = sql_exec(conn, "PRAGMA synchronous", &synchronous, err);
    if (!code)
        code =
            sql_exec(conn, "SELECT count(*) FROM sessions WHERE dead_at IS NULL", &sessions, err);
    if (code)
        return code;
    find(to, false, "reach", "%s, %lld live sessions%s", to->store->path, (long long)sessions,
         conn->is_readonly ? ", read-only" : "");
    find(to, false, "server",
         "SQLite %s, schema %lld, journal wal, synchronous %lld, tokens reserved "
         "ahead of a loss of power",
         sqlite3_libversion(), (long long)version, (long long)synchronous);
    return HF_OK;
}

/* No session has byte 0. Another doctor may hold it just now. */
static void find_kernel_locks(report *to)
{
    hf_error why;
    bool is_free = true;
    alive_hold hold;
    sqlite_store *store = to->store;
    hf_code code = boot_verify(store, &why);
    if (!code)
        code = alive_take(store->alive_path, &store->alive, 0, &hold, &why);
    if (code) {
        find(to, true, "alive file", "%s", why.text);
        return;
    }
    code = alive_test(store->alive_path, store->tester, 0, &is_free, &why);
    alive_let_go(&hold);
    if (code || is_free)
        find(to, true, "alive file",
             "%s: a locked byte is reported as free: kernel locks do "
             "not work here: use a local file system",
             store->alive_path);
    else
        find(to, false, "alive file", "%s (device %llx, inode %lld): a crash is seen at once",
             store->alive_path, (unsigned long long)store->alive.device,
             (long long)store->alive.inode);
}

static hf_code find_foreign(report *to, hf_error *err)
{
    int64_t foreign = 0, n = 0;
    bool found;
    session_row row;
    sqlite3_stmt *live;
    hf_code code = sql_ready(&to->store->main, SQL_SESSION_LIVE, &live, err);
    if (code)
        return code;
    code = sql_next(&to->store->main, live, &found, err);
    for (; !code && found; n++) {
        session_read(to->store, live, &row);
        foreign += row.is_foreign;
        code = sql_next(&to->store->main, live, &found, err);
    }
    sql_reset(live);
    find(to, foreign > 0, "machine", "%s: %lld of %lld sessions are of another machine%s",
         to->store->place.machine, (long long)foreign, (long long)n,
         foreign ? ", where kernel locks don't reach: what they hold is never taken from them"
                 : "");
    return code;
}

#define PAGES_MB 244 /* of 4 KiB */

/* The file keeps its size when the log starts over. */
static bool may_be_long(const sqlite_store *store)
{
    char path[4096];
    struct stat info;
    snprintf(path, sizeof path, "%s-wal", sqlite3_db_filename(store->main.db, "main"));
    return stat(path, &info) == 0 && info.st_size > (off_t)SQL_TOO_LONG_LOG * 4096;
}

static void find_log(report *to)
{
    int pages;
    char text[700];
    const char *path = to->store->path;
    if (!may_be_long(to->store) || !sql_log_is_kept(&to->store->main, &pages) ||
        pages <= SQL_TOO_LONG_LOG)
        return;
    snprintf(text, sizeof text,
             "%.200s-wal has grown to %d MB, because a program has been reading the database for a "
             "long time (a backup, a shell of sqlite3): every access takes longer, and the disk "
             "fills up: end that program, see fuser -v %.200s-wal",
             path, pages / PAGES_MB, path);
    tell(to, &(hf_finding){.topic = "log", .text = text, .wants_care = true});
}

static int64_t now_us(const sqlite_store *store)
{
    return store->config.env->mono(store->config.env->ctx).ns / 1000;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Writes a value that is already there. */
static hf_code write_once(sqlite_store *store, hf_error *err)
{
    int64_t value;
    hf_code code = sql_begin(&store->main, err);
    if (code)
        return code;
    code = schema_meta_get(&store->main, "swept_at", &value, err);
    if (!code)
        code = schema_meta_set(&store->main, "swept_at", value, err);
    return sql_end(&store->main, code, err);
}

static hf_code find_latency(report *to, hf_error *err)
{
    enum { TIMES = 5 };
    int64_t took[TIMES];
    if (to->store->main.is_readonly) {
        find(to, true, "latency", "%s cannot be written: no lock can be taken", to->store->path);
        return HF_OK;
    }
    for (int i = 0; i < TIMES; i++) {
        int64_t before = now_us(to->store);
        hf_code code = write_once(to->store, err);
        if (code)
            return code;
        took[i] = now_us(to->store) - before;
    }
    qsort(took, TIMES, sizeof took[0], by_size);
    find(to, false, "latency", "a write takes %lld us (median of %d)", (long long)took[TIMES / 2],
         TIMES);
    return HF_OK;
}

static hf_code examine(report *to, hf_error *err)
{
    hf_code code = find_server(to, err);
    if (code)
        return code;
    find_file_system(to);
    find_modes(to);
    if (!to->store->main.is_readonly) {
        find_kernel_locks(to);
        find_log(to);
    }
    code = find_foreign(to, err);
    return code ? code : find_latency(to, err);
}

/* Kept until main.mutex is not held any more. */
typedef struct kept {
    struct {
        char topic[32], text[700];
        bool is_danger, wants_care;
    } found[9];
    size_t n;
} kept;

static bool keep(void *ctx, const hf_finding *finding)
{
    kept *to = ctx;
    snprintf(to->found[to->n].topic, sizeof to->found[0].topic, "%s", finding->topic);
    snprintf(to->found[to->n].text, sizeof to->found[0].text, "%s", finding->text);
    to->found[to->n].is_danger = finding->is_danger;
    to->found[to->n].wants_care = finding->wants_care;
    return ++to->n < sizeof to->found / sizeof to->found[0];
}

hf_code sqlite_doctor(hf_store *base, hf_finding_fn each, void *ctx, hf_error *err)
{
    kept all = {.n = 0};
    sqlite_store *store = store_of(base);
    report to = {.store = store, .each = keep, .ctx = &all};
    pthread_mutex_lock(&store->main.mutex);
    hf_code code = examine(&to, err);
    pthread_mutex_unlock(&store->main.mutex);
    bool goes_on = true;
    for (size_t i = 0; i < all.n && goes_on; i++)
        goes_on = each(ctx, &(hf_finding){.topic = all.found[i].topic,
                                          .text = all.found[i].text,
                                          .is_danger = all.found[i].is_danger,
                                          .wants_care = all.found[i].wants_care});
    return code;
}
