/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.c: who holds what: reads records, and the sessions behind their entries, and tells the
 * caller; needs no session of its own. */
#include "client/api/entry_info.h"
#include "client/api/reading.h"
#include "client/hold/previous.h"
#include "client/wait/deadlock.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART_FIRST 100 /* locks, if it is not said how many are wanted */
#define PART_NEXT 1000

/* ---- Collecting
 * ---------------------------------------------------------------------------------- */

typedef struct collection {
    hf_record *records;
    size_t n_records;
    struct session_states sessions; /* that the entries of the records name */
} collection;

static bool collect_any(void *ctx, const hf_record *record)
{
    collection *c = ctx;
    c->records = alloc_array(c->records, c->n_records + 1, sizeof *c->records);
    record_copy(&c->records[c->n_records++], record);
    return true;
}

static bool collect(void *ctx, const hf_record *record)
{
    return !record->exists || collect_any(ctx, record);
}

static void collection_done(collection *c)
{
    for (size_t i = 0; i < c->n_records; i++)
        record_done(&c->records[i]);
    free(c->records);
    session_states_done(&c->sessions);
}

/* Where the records do not say how locks were left. */
static hf_code read_lasts(hf_client *client, collection *c, hf_error *err)
{
    hf_store *store = client->store;
    return store->ops->lasts ? store->ops->lasts(store, c->records, c->n_records, err) : HF_OK;
}

static hf_code look_at_sessions(hf_client *client, collection *c, hf_error *err)
{
    for (size_t i = 0; i < c->n_records; i++)
        session_states_add(&c->sessions, c->records[i].entries,
                           c->records[i].holders + c->records[i].queued);
    return session_states_read(&c->sessions, client, err);
}

/* ---- Telling
 * --------------------------------------------------------------------------------------- */

static bool tell(const hf_client *client, const collection *c, const hf_record *record,
                 hf_lock_info_fn each, void *ctx)
{
    size_t n = record->holders + record->queued;
    hf_entry_info *infos = alloc_array(NULL, n, sizeof *infos);
    struct entry_texts *texts = alloc_array(NULL, n, sizeof *texts);
    for (size_t i = 0; i < n; i++)
        infos[i] = entry_info(&c->sessions, record, &record->entries[i], &texts[i]);
    hf_lock_info info = {.name = client_shown_name(client, record->name),
                         .limit = record->limit,
                         .token = record->token,
                         .n_holders = record->holders,
                         .holders = infos,
                         .n_queue = record->queued,
                         .queue = infos + record->holders,
                         .last = previous_text(&record->last),
                         .n_outside = (size_t)(record->given - record->reached)};
    bool more = each(ctx, &info);
    free(infos);
    free(texts);
    return more;
}

static hf_code tell_all(hf_client *client, collection *c, hf_lock_info_fn each, void *ctx,
                        hf_error *err)
{
    hf_code code = look_at_sessions(client, c, err);
    for (size_t i = 0; i < c->n_records && !code; i++)
        if (!tell(client, c, &c->records[i], each, ctx))
            break;
    return code;
}

/* ---- Listing: told in parts while it is read: one that ends early costs what it has shown ---- */

typedef struct listing {
    hf_client *client;
    hf_list_part part; /* what is wanted, from the first on */
    size_t most;       /* records of the part that is read now */
    collection found;
    size_t n_told;
    char last[HF_NAME_MAX + 1]; /* the name of the last lock that was told */
    bool goes_on;
    hf_lock_info_fn each;
    void *ctx;
    hf_code code; /* of telling */
    hf_error *err;
} listing;

static bool tell_one(void *ctx, const hf_lock_info *info)
{
    listing *l = ctx;
    l->goes_on = l->each(l->ctx, info);
    return l->goes_on;
}

static void note_told(listing *l)
{
    size_t n = l->found.n_records;
    l->n_told += n;
    if (n)
        snprintf(l->last, sizeof l->last, "%s", l->found.records[n - 1].name);
}

static void tell_part(listing *l)
{
    l->code = read_lasts(l->client, &l->found, l->err);
    if (!l->code)
        l->code = tell_all(l->client, &l->found, tell_one, l, l->err);
    if (!l->code)
        note_told(l);
    collection_done(&l->found);
    l->found = (collection){.n_records = 0};
    l->most = PART_NEXT;
}

static bool collect_part(void *ctx, const hf_record *record)
{
    listing *l = ctx;
    collect(&l->found, record);
    if (l->found.n_records == l->most)
        tell_part(l);
    return l->goes_on && !l->code;
}

/* Goes on behind what was told. */
static hf_code list_on(void *ctx, hf_error *err)
{
    listing *l = ctx;
    hf_store *store = l->client->store;
    hf_list_part part = l->part;
    if (part.limit && part.limit == l->n_told)
        return HF_OK;
    if (l->n_told)
        part.after = l->last;
    if (part.limit)
        part.limit -= l->n_told;
    l->err = err;
    l->code = HF_OK;
    hf_code code = store->ops->list(store, &part, collect_part, l, err);
    if (!code && !l->code && l->goes_on)
        tell_part(l);
    collection_done(&l->found);
    l->found = (collection){.n_records = 0};
    return code ? code : l->code;
}

/* In new memory. */
static char *with_prefix(const hf_client *client, const char *text)
{
    size_t prefix = strlen(client->name_prefix), length = text ? strlen(text) : 0;
    char *whole = alloc_array(NULL, prefix + length + 1, 1);
    memcpy(whole, client->name_prefix, prefix);
    memcpy(whole + prefix, text ? text : "", length + 1);
    return whole;
}

static hf_code list_part(listing *l, const hf_list_options *o, hf_error *err)
{
    bool is_first = !o->after || !*o->after;
    char *prefix = with_prefix(l->client, o->prefix);
    char *after = is_first ? alloc_text("") : with_prefix(l->client, o->after);
    bool is_once = o->struct_size > offsetof(hf_list_options, asks_once) && o->asks_once;
    l->part.prefix = prefix;
    l->part.after = after;
    hf_code code = is_once ? list_on(l, err) : reading_repeat(l->client, list_on, l, err);
    free(prefix);
    free(after);
    return code;
}

hf_code hf_list_locks(hf_client *client, const hf_list_options *options, hf_lock_info_fn each,
                      void *ctx, hf_error *err)
{
    static const hf_list_options defaults = {0};
    const hf_list_options *o = options ? options : &defaults;
    listing l = {.client = client,
                 .part = {.in_use = o->in_use, .limit = o->limit},
                 .most = o->limit && o->limit < PART_NEXT ? o->limit : PART_FIRST,
                 .goes_on = true,
                 .each = each,
                 .ctx = ctx};
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    code = text_check("the prefix", o->prefix, HF_NAME_MAX, err);
    if (!code)
        code = text_check("the name that a listing begins after", o->after, HF_NAME_MAX, err);
    if (!code)
        code = client_lock_session(client, o->lock_session, &l.part.lock_session, err);
    if (!code)
        code = list_part(&l, o, err);
    client_end(client);
    return code;
}

hf_code hf_list(hf_client *client, const char *prefix, hf_lock_info_fn each, void *ctx,
                hf_error *err)
{
    const hf_list_options options = {.struct_size = sizeof options, .prefix = prefix};
    return hf_list_locks(client, &options, each, ctx, err);
}

/* ---- One ---- */

typedef struct showing {
    hf_client *client;
    const char *name;
    collection found;
} showing;

static hf_code read_one(void *ctx, hf_error *err)
{
    showing *s = ctx;
    collection *c = &s->found;
    hf_store *store = s->client->store;
    collection_done(c);
    *c = (collection){.n_records = 0};
    hf_code code = store->ops->look(store, &s->name, 1, (hf_stamp){0}, false, collect_any, c, err);
    if (!code)
        code = read_lasts(s->client, c, err);
    if (!code && (!c->n_records || !c->records[0].exists))
        code = entry_info_no_record(s->client, s->name, err);
    return code ? code : look_at_sessions(s->client, c, err);
}

static hf_code show(hf_client *client, const char *name, bool is_once, hf_lock_info_fn each,
                    void *ctx, hf_error *err)
{
    char known_as[HF_NAME_MAX + 1];
    showing s = {.client = client, .name = known_as};
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    code = client_name(client, name, known_as, err);
    if (!code)
        code = is_once ? read_one(&s, err) : reading_repeat(client, read_one, &s, err);
    if (!code)
        tell(client, &s.found, s.found.records, each, ctx);
    collection_done(&s.found);
    client_end(client);
    return code;
}

hf_code hf_show(hf_client *client, const char *name, hf_lock_info_fn each, void *ctx, hf_error *err)
{
    return show(client, name, false, each, ctx, err);
}

hf_code reading_show(hf_client *client, const char *name, hf_lock_info_fn each, void *ctx,
                     hf_error *err)
{
    return show(client, name, true, each, ctx, err);
}

/* ---- Sessions
 * ----------------------------------------------------------------------------------------- */

typedef struct session_telling {
    hf_client *client;
    hf_session_info_fn each;
    void *ctx;
    hf_id *told;
    size_t n_told, n_before; /* n_before: by the reading before this one, sorted */
} session_telling;

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(hf_id));
}

/* A store gives sessions in its own order. */
static bool was_told(const session_telling *t, hf_id id)
{
    return t->n_before && bsearch(&id, t->told, t->n_before, sizeof *t->told, by_id);
}

static bool tell_session(void *ctx, const hf_session_state *state)
{
    session_telling *telling = ctx;
    char id[ID_TEXT_SIZE];
    if (was_told(telling, state->session.id))
        return true;
    telling->told = alloc_more(telling->told, telling->n_told, sizeof *telling->told);
    telling->told[telling->n_told++] = state->session.id;
    id_write(state->session.id, id);
    hf_session_info info = {.session = id,
                            .app = state->session.app,
                            .host = state->session.host,
                            .pid = state->session.pid,
                            .started_ms = state->session.started_at.ms,
                            .ttl_ms = state->session.ttl_ms,
                            .lease_left_ms = state->lease_left_ms,
                            .dead = state->presence == HF_DEAD || state->is_gone};
    return telling->each(telling->ctx, &info);
}

static hf_code read_sessions(void *ctx, hf_error *err)
{
    session_telling *telling = ctx;
    hf_store *store = telling->client->store;
    telling->n_before = telling->n_told;
    if (telling->n_told)
        qsort(telling->told, telling->n_told, sizeof *telling->told, by_id);
    return store->ops->list_sessions(store, tell_session, telling, err);
}

hf_code hf_sessions(hf_client *client, hf_session_info_fn each, void *ctx, hf_error *err)
{
    session_telling telling = {.client = client, .each = each, .ctx = ctx};
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    code = reading_repeat(client, read_sessions, &telling, err);
    free(telling.told);
    client_end(client);
    return code;
}

/* ---- The doctor ---- */

#define DOCTOR_MS 10000 /* for all of its looks, where calls that read have as long or longer */

#define OVERDUE_MS 1000 /* a lease that is over for less may just be taken out */
#define OVERDUE_TOLD 5  /* one by one; the others are counted */

typedef struct overdue {
    hf_finding_fn each;
    void *ctx;
    bool goes_on;
    size_t n;           /* holders whose lease is over, and ... */
    int64_t longest_ms; /* ... for how long that of those is which are only counted */
} overdue;

static void tell_overdue(overdue *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void tell_overdue(overdue *o, const char *format, ...)
{
    char text[HF_NAME_MAX + 400];
    const hf_finding finding = {.topic = "overdue lease", .text = text, .is_danger = true};
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    o->goes_on = o->each(o->ctx, &finding);
}

/* Such a lock looks held, and the next request that waits takes it over. */
static bool find_overdue(void *ctx, const hf_lock_info *info)
{
    overdue *o = ctx;
    for (size_t i = 0; i < info->n_holders && o->goes_on; i++) {
        const hf_entry_info *holder = &info->holders[i];
        if (holder->lease_left_ms > -OVERDUE_MS)
            continue;
        if (o->n++ < OVERDUE_TOLD)
            tell_overdue(o,
                         "%s: the lease of %s has been over for %lld s, so it is probably dead: a "
                         "request that waits takes the lock over",
                         info->name, *holder->who ? holder->who : "a session that is gone",
                         (long long)(-holder->lease_left_ms / 1000));
        else if (-holder->lease_left_ms > o->longest_ms)
            o->longest_ms = -holder->lease_left_ms;
    }
    return o->goes_on;
}

static hf_code overdue_doctor(hf_client *client, hf_finding_fn each, void *ctx, hf_error *err)
{
    static const hf_list_options used = {.struct_size = sizeof used, .in_use = true};
    overdue o = {.each = each, .ctx = ctx, .goes_on = true};
    hf_code code = hf_list_locks(client, &used, find_overdue, &o, err);
    if (!code && o.goes_on && o.n > OVERDUE_TOLD)
        tell_overdue(&o,
                     "%zu more are held by sessions whose leases are over, for %lld s at most: "
                     "\"holdfast list\" shows them; where clients come and go, their sweep takes "
                     "out those that nobody asks for",
                     o.n - OVERDUE_TOLD, (long long)(o.longest_ms / 1000));
    return code;
}

typedef struct visit {
    hf_client *client;
    hf_finding_fn each;
    void *ctx;
} visit;

/* A store fails before it has told anything. */
static hf_code ask_store(void *ctx, hf_error *err)
{
    visit *v = ctx;
    return v->client->store->ops->doctor(v->client->store, v->each, v->ctx, err);
}

static hf_code find_deadlocks(void *ctx, hf_error *err)
{
    visit *v = ctx;
    return deadlock_doctor(v->client, v->each, v->ctx, err);
}

static int64_t doctor_ms(const hf_client *client)
{
    return client->read_patience_ms < DOCTOR_MS ? client->read_patience_ms : DOCTOR_MS;
}

/* The store has answered before, so that this did not is a finding. */
static hf_code tell_unanswered(const visit *v, const char *topic, hf_code code, hf_error *err)
{
    char text[sizeof err->text + 20];
    const hf_finding finding = {.topic = topic, .text = text, .wants_care = true};
    if (!error_is_no_answer(code))
        return code;
    snprintf(text, sizeof text, "not known: %s", err->text);
    v->each(v->ctx, &finding);
    return HF_OK;
}

hf_code hf_doctor(hf_client *client, hf_finding_fn each, void *ctx, hf_error *err)
{
    hf_error own;
    visit v = {client, each, ctx};
    err = err ? err : &own;
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    BOUND_SCOPE(client->store, mono_add_ms(client_now(client), doctor_ms(client)), NULL);
    code = reading_repeat(client, ask_store, &v, err);
    if (!code)
        code =
            tell_unanswered(&v, "deadlock", reading_repeat(client, find_deadlocks, &v, err), err);
    if (!code)
        code = tell_unanswered(&v, "overdue lease", overdue_doctor(client, each, ctx, err), err);
    client_end(client);
    return code;
}
