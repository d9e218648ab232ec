/* SPDX-License-Identifier: Apache-2.0 */
/* lmdb_store.c: a store in an LMDB environment. Each call is one transaction: LMDB lets one writer
 * in at a time, of all processes, and shows readers what was committed. So a call changes what it
 * read, and nothing comes in between; that is all that a store has to promise.
 *
 * There are no notices, so waiters look from time to time; and no wait reports, so deadlocks are
 * not found. */
#include "lmdb_store.h"

#include <lmdb.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAP_SIZE ((size_t)1 << 30) /* the most that the file can grow to */
#define READERS_MOST 1000
#define LIST_MOST 100 /* records that a listing reads at once */
#define DAY_MS ((int64_t)86400000)

/* LMDB allows a process to open a folder once, so all stores of one folder share it. */
typedef struct folder {
    struct folder *next;
    char *path;
    unsigned users;
    MDB_env *env;
    MDB_dbi locks, sessions; /* a record by its name, a session by its id */
} folder;

typedef struct lmdb_store {
    hf_store base;
    folder *in;
    hf_env clocks;
} lmdb_store;

static pthread_mutex_t folders_mutex = PTHREAD_MUTEX_INITIALIZER;
static folder *folders; /* under the mutex */

static lmdb_store *store_of(hf_store *base)
{
    return (lmdb_store *)base;
}

static int64_t now_ms(const lmdb_store *store)
{
    return store->clocks.wall(store->clocks.ctx).ms;
}

/* CLOCK_BOOTTIME: nobody can set it. After a boot it begins anew, and then no lease of the time
 * before looks overdue too soon. Containers with a time namespace of their own must not share a
 * folder. */
static int64_t boot_ms(const lmdb_store *store)
{
    return store->clocks.mono(store->clocks.ctx).ns / 1000000;
}

/* ---- Transactions ---- */

static hf_code fail(const lmdb_store *store, int rc, hf_error *err)
{
    hf_code code = rc == MDB_MAP_FULL || rc == ENOSPC ? HF_FULL
                   : rc == EACCES || rc == EROFS      ? HF_READONLY
                                                      : HF_UNUSABLE;
    return hf_store_fail(err, code, "lmdb:%s: %s", store->in->path, mdb_strerror(rc));
}

/* What a call does inside its transaction. */
typedef struct work {
    lmdb_store *store;
    MDB_txn *txn;
    hf_error *err;
} work;

static hf_code begin(work *w, hf_store *base, unsigned flags, hf_error *err)
{
    *w = (work){.store = store_of(base), .err = err};
    int rc = mdb_txn_begin(w->store->in->env, NULL, flags, &w->txn);
    return rc ? fail(w->store, rc, err) : HF_OK;
}

/* Commits if all went well. LMDB has written to the disk when the commit returns. */
static hf_code end(work *w, hf_code code)
{
    if (code) {
        mdb_txn_abort(w->txn);
        return code;
    }
    int rc = mdb_txn_commit(w->txn);
    return rc ? fail(w->store, rc, w->err) : HF_OK;
}

/* value->mv_data is NULL if there is none. */
static hf_code get(work *w, MDB_dbi db, const void *key, size_t size, MDB_val *value)
{
    MDB_val k = {size, (void *)key};
    int rc = mdb_get(w->txn, db, &k, value);
    if (rc)
        *value = (MDB_val){0, NULL};
    return rc && rc != MDB_NOTFOUND ? fail(w->store, rc, w->err) : HF_OK;
}

/* Takes over the bytes. */
static hf_code put(work *w, MDB_dbi db, const void *key, size_t size, void *bytes, size_t n)
{
    MDB_val k = {size, (void *)key}, value = {n, bytes};
    int rc = mdb_put(w->txn, db, &k, &value, 0);
    free(bytes);
    return rc ? fail(w->store, rc, w->err) : HF_OK;
}

/* ---- Sessions: the end of the lease, by boot_ms(), and the state ---- */

typedef struct session {
    hf_session_state state; /* HF_MISSING: there is none */
    int64_t ends_ms;
} session;

static hf_code read_session(work *w, const MDB_val *value, session *out)
{
    if (value->mv_size < sizeof out->ends_ms)
        return hf_store_fail(w->err, HF_SHAPE, "lmdb:%s: a session is damaged", w->store->in->path);
    memcpy(&out->ends_ms, value->mv_data, sizeof out->ends_ms);
    hf_code code = hf_state_read((const char *)value->mv_data + sizeof out->ends_ms,
                                 value->mv_size - sizeof out->ends_ms, w->store->in->path,
                                 &out->state, w->err);
    out->state.lease_left_ms = out->ends_ms - boot_ms(w->store);
    return code;
}

static hf_code find_session(work *w, hf_id id, session *out)
{
    MDB_val value;
    *out = (session){.state = {.session.id = id, .presence = HF_MISSING}};
    hf_code code = get(w, w->store->in->sessions, &id, sizeof id, &value);
    return code || !value.mv_data ? code : read_session(w, &value, out);
}

static hf_code keep_session(work *w, const session *s)
{
    void *bytes, *all;
    size_t n;
    hf_state_write(&s->state, &bytes, &n);
    all = malloc(sizeof s->ends_ms + n);
    if (!all)
        abort();
    memcpy(all, &s->ends_ms, sizeof s->ends_ms);
    memcpy((char *)all + sizeof s->ends_ms, bytes, n);
    free(bytes);
    return put(w, w->store->in->sessions, &s->state.session.id, sizeof(hf_id), all,
               sizeof s->ends_ms + n);
}

/* Every call on one session reads it, decides, and writes it if it is to change. */
typedef hf_code decide_fn(work *w, session *s, const void *ctx, bool *changes);

static hf_code on_session(hf_store *base, hf_id id, decide_fn *decide, const void *ctx,
                          session *out, hf_error *err)
{
    work w;
    bool changes = false;
    hf_code code = begin(&w, base, 0, err);
    if (code)
        return code;
    code = find_session(&w, id, out);
    if (!code)
        code = decide(&w, out, ctx, &changes);
    if (!code && changes)
        code = keep_session(&w, out);
    return end(&w, code);
}

static hf_code decide_begin(work *w, session *s, const void *ctx, bool *changes)
{
    const hf_session *self = ctx;
    if (s->state.presence != HF_MISSING)
        return hf_store_fail(w->err, HF_HELD, "a session of this id has begun before");
    s->state = (hf_session_state){.session = *self, .presence = HF_LIVE, .beat = 1};
    s->ends_ms = boot_ms(w->store) + self->ttl_ms;
    *changes = true;
    return HF_OK;
}

static hf_code session_begin(hf_store *base, const hf_session *self, hf_error *err)
{
    session s;
    return on_session(base, self->id, decide_begin, self, &s, err);
}

static bool is_among(hf_id id, const hf_id *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&ids[i], &id, sizeof id) == 0)
            return true;
    return false;
}

static hf_code decide_beat(work *w, session *s, const void *ctx, bool *changes)
{
    const hf_beat *says = ctx;
    hf_session_state *state = &s->state;
    size_t kept = 0;
    if (state->presence != HF_LIVE)
        return hf_store_fail(w->err, HF_LOST, "this session was marked dead or removed by another");
    for (size_t i = 0; i < state->n_asked; i++)
        if (!is_among(state->asked[i].ticket, says->answered, says->n_answered))
            state->asked[kept++] = state->asked[i];
    state->n_asked = kept;
    state->beat++;
    state->lease_left_ms = state->session.ttl_ms;
    s->ends_ms = boot_ms(w->store) + state->session.ttl_ms;
    *changes = true;
    return HF_OK;
}

static hf_code session_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                            hf_error *err)
{
    session s;
    hf_code code = on_session(base, id, decide_beat, says, &s, err);
    *out = s.state;
    return code;
}

/* Only if nobody has raised the beat since: that is rule R5. */
static hf_code decide_mark(work *w, session *s, const void *ctx, bool *changes)
{
    const hf_session_state *seen = ctx;
    if (s->state.presence == HF_MISSING)
        return hf_store_fail(w->err, HF_NOT_FOUND, "the session is missing");
    if (s->state.presence == HF_LIVE && s->state.beat != seen->beat)
        return hf_store_fail(w->err, HF_HELD, "the session has beaten since");
    *changes = s->state.presence == HF_LIVE;
    s->state.presence = HF_DEAD;
    return HF_OK;
}

static hf_code session_mark(hf_store *base, const hf_session_state *seen, hf_error *err)
{
    session s;
    return on_session(base, seen->session.id, decide_mark, seen, &s, err);
}

static hf_code decide_end(work *w, session *s, const void *ctx, bool *changes)
{
    (void)w;
    (void)ctx;
    *changes = s->state.presence == HF_LIVE;
    s->state.presence = HF_DEAD;
    return HF_OK;
}

static hf_code session_end(hf_store *base, hf_id id, bool leaves_any, hf_error *err)
{
    session s;
    (void)leaves_any; /* sweep() looks for itself */
    return on_session(base, id, decide_end, NULL, &s, err);
}

static hf_code decide_ask(work *w, session *s, const void *ctx, bool *changes)
{
    const hf_ask *ask = ctx;
    hf_session_state *state = &s->state;
    if (state->presence != HF_LIVE)
        return hf_store_fail(w->err, HF_NOT_FOUND, "the session is missing or dead");
    for (size_t i = 0; i < state->n_asked; i++)
        if (is_among(ask->ticket, &state->asked[i].ticket, 1))
            return HF_OK;
    if (state->n_asked == HF_ASKS_MAX)
        return hf_store_fail(w->err, HF_FULL, "the session has %d asks open: try again later",
                             HF_ASKS_MAX);
    state->asked[state->n_asked++] = *ask;
    *changes = true;
    return HF_OK;
}

static hf_code ask(hf_store *base, hf_id id, const hf_ask *what, hf_error *err)
{
    session s;
    return on_session(base, id, decide_ask, what, &s, err);
}

/* Rule R6: overdue for long enough, by a clock that nobody sets. No process keeps an ID lease, so
 * for that the clocks' inaccuracy is enough. */
static bool is_gone(const hf_session_state *state, int64_t clock_trust_ms)
{
    int64_t allowance_ms = state->session.ttl_ms / 500 + 6, trust_ms = clock_trust_ms;
    if (!state->session.pid && allowance_ms < trust_ms)
        trust_ms = allowance_ms;
    return state->presence == HF_LIVE && clock_trust_ms >= 0 && state->lease_left_ms < -trust_ms;
}

static hf_code sessions_look(hf_store *base, const hf_id *ids, size_t n, int64_t clock_trust_ms,
                             hf_session_state *states, hf_error *err)
{
    work w;
    session s;
    hf_code code = begin(&w, base, MDB_RDONLY, err);
    if (code)
        return code;
    for (size_t i = 0; i < n && !code; i++) {
        code = find_session(&w, ids[i], &s);
        s.state.is_gone = is_gone(&s.state, clock_trust_ms);
        states[i] = s.state;
    }
    return end(&w, code);
}

/* Reads all, so that `each` may call the store. */
static hf_code read_sessions(work *w, session **all, size_t *n)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    hf_code code = HF_OK;
    int rc = mdb_cursor_open(w->txn, w->store->in->sessions, &cursor);
    if (rc)
        return fail(w->store, rc, w->err);
    while (!code && !(rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT))) {
        *all = realloc(*all, (*n + 1) * sizeof **all);
        if (!*all)
            abort();
        code = read_session(w, &value, &(*all)[(*n)++]);
    }
    mdb_cursor_close(cursor);
    return code || rc == MDB_NOTFOUND ? code : fail(w->store, rc, w->err);
}

static hf_code list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err)
{
    work w;
    session *all = NULL;
    size_t n = 0;
    hf_code code = begin(&w, base, MDB_RDONLY, err);
    if (code)
        return code;
    code = end(&w, read_sessions(&w, &all, &n));
    for (size_t i = 0; i < n && !code && each(ctx, &all[i].state); i++)
        ;
    free(all);
    return code;
}

/* ---- Records ---- */

static hf_code check_name(const lmdb_store *store, const char *name, hf_error *err)
{
    int most = mdb_env_get_maxkeysize(store->in->env);
    if (strlen(name) <= (size_t)most)
        return HF_OK;
    return hf_store_fail(err, HF_INVALID, "%.40s...: LMDB has room for names of %d bytes", name,
                         most);
}

static hf_code find_record(work *w, const char *name, hf_record *out)
{
    MDB_val value;
    hf_code code = check_name(w->store, name, w->err);
    if (!code)
        code = get(w, w->store->in->locks, name, strlen(name), &value);
    if (code)
        return code;
    if (value.mv_data)
        return hf_record_read(value.mv_data, value.mv_size, w->store->in->path, out, w->err);
    hf_record_init(out, name);
    return HF_OK;
}

static hf_code keep_record(work *w, const hf_record *record)
{
    void *bytes;
    size_t n;
    hf_record_write(record, &bytes, &n);
    return put(w, w->store->in->locks, record->name, strlen(record->name), bytes, n);
}

static bool change(const work *w, hf_record *record, const hf_step *step)
{
    hf_dbtime now = step->now ? *step->now : (hf_dbtime){now_ms(w->store)};
    int64_t floor = step->floor ? *step->floor : hf_record_floor(now);
    return (record->exists || hf_record_makes(step)) && hf_record_step(record, step, now, floor);
}

static hf_code do_step(work *w, const char *name, const hf_step *step, hf_record *record,
                       bool *changed)
{
    hf_code code = find_record(w, name, record);
    if (code)
        return code;
    *changed = change(w, record, step);
    code = *changed ? keep_record(w, record) : HF_OK;
    if (code)
        hf_record_done(record);
    return code;
}

static hf_code step(hf_store *base, const char *name, const hf_step *what, hf_record *out,
                    hf_step_reply *reply, hf_error *err)
{
    work w;
    hf_record record;
    bool changed = false;
    hf_code code = begin(&w, base, 0, err);
    if (code)
        return code;
    hf_code done = do_step(&w, name, what, &record, &changed);
    code = end(&w, done);
    if (!code)
        *reply = (hf_step_reply){.confirmed = changed || what->enter};
    if (!code && out)
        *out = record;
    else if (!done)
        hf_record_done(&record);
    return code;
}

/* Calls `each` with no transaction open; frees the records. false: no more are wanted. */
static bool give(hf_record *records, size_t n, hf_record_fn each, void *ctx)
{
    bool goes_on = true;
    for (size_t i = 0; i < n; i++) {
        goes_on = goes_on && each(ctx, &records[i]);
        hf_record_done(&records[i]);
    }
    return goes_on;
}

static hf_code look(hf_store *base, const char *const *names, size_t n, hf_stamp after,
                    bool linearizable, hf_record_fn each, void *ctx, hf_error *err)
{
    work w;
    size_t found = 0;
    (void)after; /* there is one copy, and it is the newest */
    (void)linearizable;
    hf_code code = begin(&w, base, MDB_RDONLY, err);
    hf_record *records = code ? NULL : calloc(n, sizeof *records);
    if (code)
        return code;
    while (found < n && !code)
        if (!(code = find_record(&w, names[found], &records[found])))
            found++;
    code = end(&w, code);
    give(records, code ? 0 : found, each, ctx);
    for (size_t i = 0; code && i < found; i++)
        hf_record_done(&records[i]);
    free(records);
    return code;
}

/* The next records of a listing, behind part->after. */
static hf_code read_some(work *w, const hf_list_part *part, hf_record *out, size_t most, size_t *n)
{
    MDB_cursor *cursor;
    const char *first = hf_record_first_listed(part);
    MDB_val key = {strlen(first), (void *)first}, value;
    size_t prefix = strlen(part->prefix);
    hf_code code = HF_OK;
    int rc = mdb_cursor_open(w->txn, w->store->in->locks, &cursor);
    if (rc)
        return fail(w->store, rc, w->err);
    rc = mdb_cursor_get(cursor, &key, &value, *first ? MDB_SET_RANGE : MDB_FIRST);
    for (; !rc && !code && *n < most; rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        size_t shown = key.mv_size < prefix ? key.mv_size : prefix;
        if (memcmp(key.mv_data, part->prefix, shown) > 0)
            break;
        code = hf_record_read(value.mv_data, value.mv_size, w->store->in->path, &out[*n], w->err);
        if (!code && hf_record_is_listed(&out[*n], part))
            (*n)++;
        else if (!code)
            hf_record_done(&out[*n]);
    }
    mdb_cursor_close(cursor);
    return code || !rc || rc == MDB_NOTFOUND ? code : fail(w->store, rc, w->err);
}

static hf_code list(hf_store *base, const hf_list_part *part, hf_record_fn each, void *ctx,
                    hf_error *err)
{
    work w;
    hf_list_part rest = *part;
    char after[HF_NAME_MAX + 1];
    size_t left = part->limit ? part->limit : SIZE_MAX, n;
    hf_code code;
    bool goes_on;
    do {
        hf_record records[LIST_MOST];
        size_t most = left < LIST_MOST ? left : LIST_MOST;
        n = 0;
        code = begin(&w, base, MDB_RDONLY, err);
        if (code)
            return code;
        code = end(&w, read_some(&w, &rest, records, most, &n));
        if (n)
            snprintf(after, sizeof after, "%s", records[n - 1].name);
        rest.after = n ? after : rest.after;
        goes_on = give(records, n, each, ctx) && n == most;
        left -= n;
    } while (!code && goes_on && left);
    return code;
}

/* ---- Notices: none ---- */

static hf_code await(hf_store *base, hf_id id, hf_stamp from, int64_t timeout_ms, hf_notice_fn each,
                     void *ctx, hf_error *err)
{
    (void)base, (void)id, (void)from, (void)timeout_ms, (void)each, (void)ctx;
    return hf_store_fail(err, HF_UNSUPPORTED, "LMDB tells nobody of changes");
}

static void wake(hf_store *base)
{
    (void)base;
}

/* ---- Upkeep ---- */

static hf_code forget(work *w, hf_id id)
{
    MDB_val key = {sizeof id, &id};
    int rc = mdb_del(w->txn, w->store->in->sessions, &key, NULL);
    return rc ? fail(w->store, rc, w->err) : HF_OK;
}

/* Whether a ticket of it stands in any record: then its mark must stay (R5). */
static hf_code has_ticket(work *w, hf_id id, bool *has)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    hf_record record;
    hf_code code = HF_OK;
    int rc = mdb_cursor_open(w->txn, w->store->in->locks, &cursor);
    while (!rc && !code && !*has && !(rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT))) {
        code = hf_record_read(value.mv_data, value.mv_size, w->store->in->path, &record, w->err);
        for (size_t i = 0; !code && i < record.holders + record.queued; i++)
            *has |= is_among(id, &record.entries[i].session, 1);
        if (!code)
            hf_record_done(&record);
    }
    mdb_cursor_close(cursor);
    return code || !rc || rc == MDB_NOTFOUND ? code : fail(w->store, rc, w->err);
}

static hf_code sweep_one(work *w, const session *s, hf_session_state *overdue, size_t max,
                         size_t *n)
{
    bool has = false;
    if (s->state.lease_left_ms > -DAY_MS)
        return HF_OK;
    if (s->state.presence == HF_LIVE && *n < max)
        overdue[(*n)++] = s->state;
    if (s->state.presence == HF_LIVE)
        return HF_OK;
    hf_code code = has_ticket(w, s->state.session.id, &has);
    return code || has ? code : forget(w, s->state.session.id);
}

/* Forgets the sessions that have been dead for a day, and gives those that are a day late. Records
 * are kept. */
static hf_code sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                     hf_error *err)
{
    work w;
    session *all = NULL;
    size_t n_all = 0;
    *more = false;
    *n = 0;
    hf_code code = begin(&w, base, 0, err);
    if (code)
        return code;
    code = read_sessions(&w, &all, &n_all);
    for (size_t i = 0; i < n_all && !code; i++)
        code = sweep_one(&w, &all[i], overdue, max, n);
    free(all);
    return end(&w, code);
}

static hf_code doctor(hf_store *base, hf_finding_fn each, void *ctx, hf_error *err)
{
    char text[600];
    (void)err;
    snprintf(text, sizeof text, "lmdb:%.500s: locks reach the processes of this host",
             store_of(base)->in->path);
    each(ctx, &(hf_finding){.topic = "reach", .text = text});
    return HF_OK;
}

/* ---- Opening and closing ---- */

static void leave(folder *f)
{
    pthread_mutex_lock(&folders_mutex);
    if (--f->users == 0) {
        folder **link = &folders;
        while (*link != f)
            link = &(*link)->next;
        *link = f->next;
        mdb_env_close(f->env);
        free(f->path);
        free(f);
    }
    pthread_mutex_unlock(&folders_mutex);
}

static void close_store(hf_store *base)
{
    leave(store_of(base)->in);
    free(base);
}

static int open_databases(folder *f)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(f->env, NULL, 0, &txn);
    if (rc)
        return rc;
    rc = mdb_dbi_open(txn, "locks", MDB_CREATE, &f->locks);
    if (!rc)
        rc = mdb_dbi_open(txn, "sessions", MDB_CREATE, &f->sessions);
    if (!rc)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return rc;
}

static int open_folder(folder *f)
{
    int rc = mdb_env_create(&f->env);
    if (rc)
        return rc;
    mdb_env_set_maxdbs(f->env, 2);
    mdb_env_set_maxreaders(f->env, READERS_MOST);
    mdb_env_set_mapsize(f->env, MAP_SIZE);
    mkdir(f->path, 0777); /* if it cannot be made, the next call says why */
    rc = mdb_env_open(f->env, f->path, MDB_NOTLS, 0666);
    if (!rc)
        rc = open_databases(f);
    if (rc)
        mdb_env_close(f->env);
    return rc;
}

static int join_locked(const char *path, folder **out)
{
    folder *f = folders;
    while (f && strcmp(f->path, path) != 0)
        f = f->next;
    if (!f) {
        f = calloc(1, sizeof *f);
        f->path = strdup(path);
        int rc = open_folder(f);
        if (rc) {
            free(f->path);
            free(f);
            return rc;
        }
        f->next = folders;
        folders = f;
    }
    f->users++;
    *out = f;
    return 0;
}

static const hf_store_ops ops = {
    .scheme = "lmdb",
    .close = close_store,
    .session_begin = session_begin,
    .session_beat = session_beat,
    .session_mark = session_mark,
    .session_end = session_end,
    .sessions_look = sessions_look,
    .step = step,
    .look = look,
    .list = list,
    .list_sessions = list_sessions,
    .ask = ask,
    .await = await,
    .wake = wake,
    .sweep = sweep,
    .doctor = doctor,
};

static hf_code open_store(const char *path, const hf_store_config *config, hf_store **out,
                          hf_error *err)
{
    lmdb_store *store = calloc(1, sizeof *store);
    if (!store)
        abort();
    *store = (lmdb_store){.base = {.ops = &ops,
                                   .can = HF_CAN_SHARE | HF_CAN_QUEUE | HF_CAN_TOKENS |
                                          HF_CAN_SKEW | HF_CAN_PROCESSES,
                                   .protocol = "lmdb"},
                          .clocks = *config->env};
    pthread_mutex_lock(&folders_mutex);
    int rc = join_locked(path, &store->in);
    pthread_mutex_unlock(&folders_mutex);
    if (rc) {
        free(store);
        return hf_store_fail(err, HF_UNUSABLE, "lmdb:%s: %s", path, mdb_strerror(rc));
    }
    *out = &store->base;
    return HF_OK;
}

hf_code lmdb_store_register(hf_error *err)
{
    return hf_store_register("lmdb", HF_STORE_VERSION, open_store, err);
}

hf_code holdfast_store(hf_error *err)
{
    return lmdb_store_register(err);
}
