/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_sqlite.c: any file opened as sqlite:PATH works or gives an error, and never crashes or
 * hangs. An input is one of:
 *   the file itself, which then begins as SQLite's do;
 *   'P' and patches of three bytes (place, low byte first, and value) to a database of ours;
 *   'S' and SQL that is run in a database of ours;
 *   anything else: a file that is no database. */
#include "fuzz.h"
#include "support/inside.h"

#include <ftw.h>
#include <sqlite3.h>
#include <unistd.h>

static char folder[64], path[96], uri[128];
static uint8_t *template;
static size_t template_size;

/* ---- Files ---- */

static int remove_one(const char *name, const struct stat *info, int type, struct FTW *place)
{
    (void)info, (void)type, (void)place;
    return remove(name);
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void remove_beside(const char *suffix)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    unlink(name);
}

/* The alive file stays: the template's boot names it. */
static void put_file(const uint8_t *bytes, size_t size)
{
    remove_beside("-wal");
    remove_beside("-shm");
    remove_beside("-journal");
    FILE *file = fopen(path, "wb");
    MUST(file && fwrite(bytes, 1, size, file) == size);
    fclose(file);
}

static uint8_t *get_file(size_t *size)
{
    FILE *file = fopen(path, "rb");
    MUST(file && fseek(file, 0, SEEK_END) == 0);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*size);
    MUST(bytes && fread(bytes, 1, *size, file) == *size);
    fclose(file);
    return bytes;
}

/* ---- The database of ours: one lock is held by a session that has died, one is free ---- */

static void checkpoint(void)
{
    sqlite3 *db;
    MUST(sqlite3_open(path, &db) == SQLITE_OK);
    MUST(sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
}

static void take(hf_client *client, const char *name, hf_lock **lock)
{
    hf_error err;
    MUST(hf_lock_acquire(client, name, NULL, lock, &err) == HF_OK);
}

static void make_template(void)
{
    hf_client *client;
    hf_lock *held, *freed;
    hf_error err;
    strcpy(folder, "/dev/shm/holdfast-fuzz-XXXXXX"); /* where a sync takes no time */
    if (!mkdtemp(folder))
        strcpy(folder, "/tmp/holdfast-fuzz-XXXXXX");
    MUST(access(folder, F_OK) == 0 || mkdtemp(folder));
    atexit(remove_folder);
    snprintf(path, sizeof path, "%s/locks.db", folder);
    snprintf(uri, sizeof uri, "sqlite:%s", path);
    MUST(hf_open(uri, NULL, &client, &err) == HF_OK);
    take(client, "held", &held);
    take(client, "freed", &freed);
    MUST(hf_lock_release(freed, &err) == HF_OK);
    checkpoint();
    template = get_file(&template_size);
    hf_lock_close(freed);
    hf_lock_close(held);
    hf_close(client);
}

/* ---- Inputs ---- */

static void put_patched(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(template_size);
    MUST(bytes);
    memcpy(bytes, template, template_size);
    for (; size >= 3; data += 3, size -= 3)
        bytes[(size_t)(data[0] | data[1] << 8) % template_size] = data[2];
    put_file(bytes, template_size);
    free(bytes);
}

/* The SQL writes into this database only, and comes to an end. */
static int allow(void *ctx, int action, const char *a, const char *b, const char *c, const char *d)
{
    (void)ctx, (void)a, (void)b, (void)c, (void)d;
    return action == SQLITE_ATTACH || (action == SQLITE_FUNCTION && b && !strcmp(b, "randomblob"))
               ? SQLITE_DENY
               : SQLITE_OK;
}

static int stop(void *ctx)
{
    return ++*(int *)ctx > 100;
}

static void put_with_sql(const uint8_t *data, size_t size)
{
    sqlite3 *db;
    int rounds = 0;
    char *text = fuzz_text(data, size);
    put_file(template, template_size);
    MUST(sqlite3_open(path, &db) == SQLITE_OK);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 100000);
    sqlite3_set_authorizer(db, allow, NULL);
    sqlite3_progress_handler(db, 1000, stop, &rounds);
    sqlite3_exec(db, text, NULL, NULL, NULL);
    sqlite3_close(db);
    free(text);
}

static void put_input(const uint8_t *data, size_t size)
{
    if (size && data[0] == 'P')
        put_patched(data + 1, size - 1);
    else if (size > 1 && data[0] == 'S' && data[1] != 'Q')
        put_with_sql(data + 1, size - 1);
    else
        put_file(data, size);
}

/* ---- What is done with it ---- */

static void check(hf_code code, const hf_error *err)
{
    MUST(!code || (err->code == code && err->text[0]));
}

static bool see_lock(void *ctx, const hf_lock_info *info)
{
    (void)ctx;
    MUST(info->name[0]);
    return true;
}

static bool see_session(void *ctx, const hf_session_info *info)
{
    (void)ctx;
    MUST(info->session[0]);
    return true;
}

static void try_one(hf_client *client, const char *name)
{
    hf_lock *lock;
    hf_error err;
    static const hf_lock_options options = {.wait_ms = HF_TRY};
    check(hf_show(client, name, see_lock, NULL, &err), &err);
    hf_code code = hf_lock_acquire(client, name, &options, &lock, &err);
    check(code, &err);
    if (code)
        return;
    MUST(hf_lock_token(lock) > 0 && hf_lock_token(lock) < INT64_C(1) << 53);
    check(hf_lock_release(lock, &err), &err);
    hf_lock_close(lock);
}

static void sweep(hf_store *store)
{
    static hf_session_state gone[4];
    hf_error err;
    size_t n;
    bool more = true;
    while (more)
        check(store->ops->sweep(store, gone, 4, &n, &more, &err), &err);
}

static void log_nothing(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx, (void)level, (void)text;
}

static void use(void)
{
    static const hf_options options = {.patience_ms = 1};
    static const hf_store_config config = {.ttl_ms = 10000, .env = &env_linux, .log = log_nothing};
    hf_store *store;
    hf_client *client;
    hf_error err;
    int64_t patience_ms;
    hf_code code = hf_store_open(uri, &config, &store, &patience_ms, &err);
    check(code, &err);
    if (code)
        return;
    MUST(hf_open_on(store, &options, &client, &err) == HF_OK);
    check(hf_list(client, "", see_lock, NULL, &err), &err);
    check(hf_sessions(client, see_session, NULL, &err), &err);
    sweep(store);
    try_one(client, "held");
    try_one(client, "freed");
    try_one(client, "new");
    hf_close(client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!template)
        make_template();
    put_input(data, size);
    use();
    return 0;
}
