/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.c: makes sure that a fencing token never comes twice, even after a record was pruned or
 * the machine lost power; called by steps, the sweep and the first open of a boot.
 *
 * With synchronous = NORMAL a loss of power undoes the last commits, so the token of the last
 * grants may be forgotten while their holders' writes elsewhere have arrived. So tokens are
 * reserved ahead (hi-lo): meta.reserved is above every token given, by up to ten minutes of the
 * wall-clock floor. It is raised in a transaction of its own, which is synced (FULL) *before* a
 * token above it is given. The first process to open the database on a new boot takes reserved as
 * the high water: so all later tokens are above every token that the boot before can have given,
 * whatever the clock says. The price is one sync in ten minutes. A reader sees a raised row only
 * when it is synced: SQLite publishes a commit after the sync.
 */
#include "core/error.h"
#include "core/record.h"
#include "store/sqlite/sqlite_internal.h"

#define AHEAD ((int64_t)600 << 20)
#define TOKEN_END ((int64_t)1 << 53) /* no token reaches it */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t clock_floor(const sqlite_store *store)
{
    return record_floor_of((hf_dbtime){store->config.env->wall(store->config.env->ctx).ms});
}

static hf_code get(sqlite_store *store, const char *key, int64_t *out, hf_error *err)
{
    hf_code code = schema_meta_get(&store->main, key, out, err);
    if (code || (*out >= 0 && *out < TOKEN_END))
        return code;
    return error_set(err, HF_UNUSABLE,
                     "%s: is damaged (meta.%s is %lld): stop all its users, then restore or remove "
                     "it",
                     store->path, key, (long long)*out);
}

hf_code tokens_load(sqlite_store *store, hf_error *err)
{
    hf_code code = get(store, "reserved", &store->reserved, err);
    return code ? code : tokens_reread_water(store, err);
}

hf_code tokens_reread_water(sqlite_store *store, hf_error *err)
{
    return get(store, "high_water", &store->high_water, err);
}

int64_t tokens_above(const sqlite_store *store, const hf_record *record, hf_dbtime now)
{
    int64_t clock = record_floor_of(now);
    if (store->high_water < clock - RECORD_LAG)
        return clock;
    return larger(clock, larger(store->high_water + 1, record->token) + RECORD_LAG);
}

static hf_code raise_reserved(sqlite_store *store, int64_t token, int64_t *reserved, hf_error *err)
{
    hf_code code = get(store, "reserved", reserved, err);
    if (code || *reserved >= token)
        return code;
    if (token >= TOKEN_END)
        return error_set(err, HF_UNUSABLE, "%s: has no tokens left: take another database",
                         store->path);
    int64_t wanted = larger(token, clock_floor(store)) + AHEAD;
    *reserved = wanted < TOKEN_END ? wanted : TOKEN_END - 1;
    return schema_meta_set(&store->main, "reserved", *reserved, err);
}

hf_code tokens_reserve(sqlite_store *store, int64_t token, hf_error *err)
{
    int64_t reserved = 0;
    sql *conn = &store->main;
    hf_code code = sql_exec(conn, "PRAGMA synchronous = FULL", NULL, err);
    if (!code)
        code = sql_begin(conn, err);
    if (!code)
        code = sql_end(conn, raise_reserved(store, token, &reserved, err), err);
    if (!code)
        store->reserved = reserved;
    sql_exec(conn, "PRAGMA synchronous = NORMAL", NULL, NULL);
    return code;
}

hf_code tokens_raise_water(sqlite_store *store, int64_t token, hf_error *err)
{
    int64_t water = 0;
    hf_code code = get(store, "high_water", &water, err);
    if (code || water >= token)
        return code;
    return schema_meta_set(&store->main, "high_water", token, err);
}

hf_code tokens_after_boot(sqlite_store *store, hf_error *err)
{
    int64_t reserved = 0;
    hf_code code = get(store, "reserved", &reserved, err);
    if (!code)
        code = tokens_raise_water(store, reserved, err);
    return code ? code
                : raise_reserved(store, larger(reserved + 1, clock_floor(store)), &reserved, err);
}
