/* SPDX-License-Identifier: Apache-2.0 */
/* boot.c: ties the alive file to the database: once per boot, the database records which file it
 * is. Called when a store is opened, and before every verdict on a session.
 *
 * Once per boot, because a device number may change with it, and because no kernel lock outlives
 * it: the first to open the database on a new boot takes the file as it finds it.
 *
 * The row stands in the database itself, not only in its log, before anything is granted. So who
 * comes to it by another name, beside which there is no log, finds the row, too, and is refused.
 */
#include "core/error.h"
#include "store/sqlite/sqlite_internal.h"

#define IS_KEPT                                                                                    \
    "boot_is_kept" /* in meta: 1 if the row of this boot stands in the database itself */

static hf_code read_known(sqlite_store *store, bool *found, alive_identity *out, hf_error *err)
{
    sqlite3_stmt *get;
    hf_code code = sql_ready(&store->main, SQL_BOOT_GET, &get, err);
    if (code)
        return code;
    sql_bind_text(get, 1, store->place.boot);
    code = sql_next(&store->main, get, found, err);
    if (*found)
        *out = (alive_identity){.device = sqlite3_column_int64(get, 0),
                                .inode = sqlite3_column_int64(get, 1)};
    sql_reset(get);
    return code;
}

static hf_code write_known(sqlite_store *store, hf_error *err)
{
    sqlite3_stmt *forget, *new;
    hf_code code = sql_ready(&store->main, SQL_BOOT_FORGET, &forget, err);
    if (!code)
        code = sql_ready(&store->main, SQL_BOOT_NEW, &new, err);
    if (code)
        return code;
    sql_bind_text(forget, 1, store->place.machine);
    sql_bind_text(forget, 2, store->place.boot);
    code = sql_run(&store->main, forget, err);
    if (code)
        return code;
    sql_bind_text(new, 1, store->place.boot);
    sql_bind_text(new, 2, store->place.machine);
    sqlite3_bind_int64(new, 3, store->alive.device);
    sqlite3_bind_int64(new, 4, store->alive.inode);
    code = sql_run(&store->main, new, err);
    return code ? code : schema_meta_set(&store->main, IS_KEPT, 0, err);
}

/* Opens the tester on the existing file, or makes the file. */
static hf_code open_tester(sqlite_store *store, bool make, hf_error *err)
{
    if (store->tester >= 0)
        return HF_OK;
    return alive_open(store->alive_path, store->path, make, &store->tester, &store->alive, err);
}

static hf_code compare(sqlite_store *store, const alive_identity *known, hf_error *err)
{
    if (store->tester >= 0)
        return alive_verify(store->alive_path, store->tester, known, err);
    return error_set(err, HF_UNUSABLE,
                     "%s: is missing, so no program can tell which sessions are alive: use the "
                     "database by the path by which others use it, or, if it was copied here, or "
                     "that file was removed: stop every program that uses the database, then run: "
                     "sqlite3 %s 'DELETE FROM boots'",
                     store->alive_path, store->path);
}

/* In a transaction, because another process may be first at the same time. */
static hf_code adopt(sqlite_store *store, hf_error *err)
{
    bool found;
    alive_identity known;
    hf_code code = read_known(store, &found, &known, err);
    if (!code)
        code = open_tester(store, !found, err);
    if (!code && found)
        return compare(store, &known, err);
    if (!code)
        code = tokens_after_boot(store, err);
    return code ? code : write_known(store, err);
}

static hf_code begin_boot(sqlite_store *store, hf_error *err)
{
    hf_code code = sql_exec(&store->main, "PRAGMA synchronous = FULL", NULL, err);
    if (!code)
        code = sql_begin(&store->main, err);
    if (!code)
        code = sql_end(&store->main, adopt(store, err), err);
    return code;
}

static hf_code take_part(sqlite_store *store, hf_error *err)
{
    bool found;
    alive_identity known;
    hf_code code = read_known(store, &found, &known, err);
    if (!code && !found)
        return begin_boot(store, err);
    if (!code)
        code = open_tester(store, false, err);
    return code ? code : compare(store, &known, err);
}

/* A process that finds it undone does it, because the first one may have been killed. */
static hf_code keep(sqlite_store *store, hf_error *err)
{
    int64_t is_kept;
    hf_code code = schema_meta_get(&store->main, IS_KEPT, &is_kept, err);
    if (code || is_kept)
        return code;
    code = sql_move_log(&store->main, err);
    if (!code)
        code = sql_begin(&store->main, err);
    return code ? code : sql_end(&store->main, schema_meta_set(&store->main, IS_KEPT, 1, err), err);
}

hf_code boot_begin(sqlite_store *store, hf_error *err)
{
    if (store->main.is_readonly)
        return HF_OK; /* it lists, and judges nobody */
    hf_code code = take_part(store, err);
    return code ? code : keep(store, err);
}

hf_code boot_verify(sqlite_store *store, hf_error *err)
{
    bool found;
    alive_identity known;
    hf_code code = read_known(store, &found, &known, err);
    if (code)
        return code;
    if (found)
        return compare(store, &known, err);
    return error_set(
        err, HF_UNUSABLE,
        "%s: does not know this boot of the machine any more, so "
        "no program can tell which sessions are alive: stop every program that uses it, and start "
        "anew",
        store->path);
}
