/* SPDX-License-Identifier: Apache-2.0 */
/* waits.c: stores the wait reports of sessions and gives them; called by beats, by sweeps, and by
 * the client through the table of operations. */
#include "core/alloc.h"
#include "core/id.h"
#include "store/sqlite/sqlite_internal.h"

hf_code waits_forget(sql *conn, hf_id session, hf_error *err)
{
    sqlite3_stmt *forget;
    hf_code code = sql_ready(conn, SQL_WAITS_FORGET, &forget, err);
    if (code)
        return code;
    sql_bind_id(forget, 1, &session);
    return sql_run(conn, forget, err);
}

hf_code waits_keep(sqlite_store *store, hf_id session, const hf_beat *says, hf_error *err)
{
    sqlite3_stmt *set;
    if (!says->waits)
        return waits_forget(&store->beats, session, err);
    hf_code code = sql_ready(&store->beats, SQL_WAITS_SET, &set, err);
    if (code)
        return code;
    sql_bind_id(set, 1, &session);
    sqlite3_bind_int64(set, 2, says->seen);
    sql_bind_text(set, 3, says->waits);
    return sql_run(&store->beats, set, err);
}

/* ---- Reading: it is copied, then given to the caller with no lock held ---- */

typedef struct said {
    hf_waits *all;
    size_t n;
} said;

static void add(said *to, sqlite3_stmt *row)
{
    enum { ID, APP, HOST, PID, BEAT, SEEN, SAID };
    to->all = alloc_array(to->all, to->n + 1, sizeof *to->all);
    hf_waits *waits = &to->all[to->n++];
    *waits = (hf_waits){.session.pid = sqlite3_column_int64(row, PID),
                        .beat = sqlite3_column_int64(row, BEAT),
                        .seen = sqlite3_column_int64(row, SEEN)};
    sql_read_id(row, ID, &waits->session.id);
    sql_read_text(row, APP, waits->session.app, sizeof waits->session.app);
    sql_read_text(row, HOST, waits->session.host, sizeof waits->session.host);
    const char *text = (const char *)sqlite3_column_text(row, SAID);
    waits->text = alloc_text(text ? text : "");
}

/* id NULL: of all. */
static hf_code read(sqlite_store *store, const hf_id *id, said *to, hf_error *err)
{
    bool found;
    sqlite3_stmt *get;
    hf_code code = sql_ready(&store->main, id ? SQL_WAITS_GET : SQL_WAITS_LIST, &get, err);
    if (code)
        return code;
    if (id)
        sql_bind_id(get, 1, id);
    code = sql_next(&store->main, get, &found, err);
    while (!code && found) {
        add(to, get);
        code = sql_next(&store->main, get, &found, err);
    }
    return code;
}

hf_code sqlite_waits(hf_store *base, const hf_id *ids, size_t n, hf_waits_fn each, void *ctx,
                     hf_error *err)
{
    sqlite_store *store = store_of(base);
    said to = {.n = 0};
    pthread_mutex_lock(&store->main.mutex);
    hf_code code = ids ? HF_OK : read(store, NULL, &to, err);
    for (size_t i = 0; ids && i < n && !code; i++)
        code = read(store, &ids[i], &to, err);
    pthread_mutex_unlock(&store->main.mutex);
    for (size_t i = 0; i < to.n && !code; i++)
        if (!each(ctx, &to.all[i]))
            break;
    for (size_t i = 0; i < to.n; i++)
        free((char *)to.all[i].text);
    free(to.all);
    return code;
}
