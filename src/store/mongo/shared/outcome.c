/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.c: how the last holder left, in protocols whose lock documents are other programs' too,
 * or gone when the lock is free. A holder that asks is noted in the lock's document of outcomes;
 * how it leaves is written there before its ticket is taken out, so that the next holder, which
 * reads when it has the lock, finds it. plain.c and the client call it.
 *
 * Three rules keep a late command from undoing a later one:
 *  - Each change compares the version that it was made from, and raises it.
 *  - A holder notes itself only if it still believed in its lock after it had read the version: so
 *    the holder that is noted in that version held before it.
 *  - A ticket that was not noted writes how it leaves only if the lock's document has that ticket
 *    after the version was read. */
#include "store/mongo/shared/outcome.h"
#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/lease.h"
#include "core/period.h"
#include "core/record.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/log.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/look.h"
#include "store/mongo/shared/outcome_document.h"
#include "sync/mutex_scope.h"

#include <stdio.h>

#define RACES 5 /* lost in a row, at most */

/* ---- Which of our tickets are noted ---- */

/* Guarded by the store's mutex; written by this file. */
typedef struct mongo_noted {
    struct mongo_noted *next;
    hf_id ticket;
    mongo_outcome seen; /* with the ticket as its holder */
    hf_mono at;         /* when it was seen, by our clock */
    bool is_told;       /* how it left is written */
} mongo_noted;

static mongo_noted *find_locked(const mongo_store *store, hf_id ticket)
{
    for (mongo_noted *noted = store->noted; noted; noted = noted->next)
        if (id_equal(noted->ticket, ticket))
            return noted;
    return NULL;
}

static void free_one(mongo_noted *noted)
{
    mongo_outcome_done(&noted->seen);
    free(noted);
}

/* Of this lock: nobody asks for them any more. */
static void drop_told_locked(mongo_store *store, const char *name)
{
    for (mongo_noted **at = &store->noted; *at;) {
        mongo_noted *noted = *at;
        bool is_over = noted->is_told && strcmp(noted->seen.record.name, name) == 0;
        if (!is_over) {
            at = &noted->next;
            continue;
        }
        *at = noted->next;
        free_one(noted);
    }
}

static void remember(mongo_store *store, hf_id ticket, const mongo_outcome *seen)
{
    MUTEX_SCOPE(&store->mutex);
    drop_told_locked(store, seen->record.name);
    mongo_noted *noted = find_locked(store, ticket);
    if (noted) {
        mongo_outcome_done(&noted->seen);
    } else {
        noted = alloc_zeroed(sizeof *noted);
        noted->next = store->noted;
        store->noted = noted;
    }
    noted->ticket = ticket;
    noted->at = mongo_mono(store);
    mongo_outcome_copy(&noted->seen, seen);
    store->notes_any = true;
}

/* A copy, with the store's clock as it must be by now. False: it is not noted. */
static bool recall(mongo_store *store, hf_id ticket, mongo_outcome *seen, bool *is_told)
{
    MUTEX_SCOPE(&store->mutex);
    mongo_noted *noted = find_locked(store, ticket);
    if (!noted)
        return false;
    mongo_outcome_copy(seen, &noted->seen);
    seen->now.ms += (mongo_mono(store).ns - noted->at.ns) / 1000000;
    *is_told = noted->is_told;
    return true;
}

static void set_told(mongo_store *store, hf_id ticket)
{
    MUTEX_SCOPE(&store->mutex);
    mongo_noted *noted = find_locked(store, ticket);
    if (noted)
        noted->is_told = true;
}

void mongo_outcome_forget(mongo_store *store, hf_id ticket)
{
    MUTEX_SCOPE(&store->mutex);
    for (mongo_noted **at = &store->noted; *at; at = &(*at)->next)
        if (id_equal((*at)->ticket, ticket)) {
            mongo_noted *gone = *at;
            *at = gone->next;
            free_one(gone);
            return;
        }
}

void mongo_outcomes_clear(mongo_store *store)
{
    while (store->noted) {
        mongo_noted *gone = store->noted;
        store->noted = gone->next;
        free_one(gone);
    }
}

/* ---- What is said of it ---- */

/* Where locks have no tokens, those of the document only count. */
static void show(const mongo_store *store, const mongo_outcome *outcome, hf_last_mark *out)
{
    *out = outcome->record.last;
    if (store->base.can & HF_CAN_TOKENS)
        return;
    out->token = 0;
    out->done.token = 0;
}

/* Nothing was taken out yet, and what was written can be written again: the outcome of the release
 * itself is not unknown. */
static hf_code unsure(hf_code code, hf_error *err)
{
    if (code != HF_UNKNOWN || !err)
        return code == HF_UNKNOWN ? HF_UNREACHABLE : code;
    hf_error why = *err;
    return error_set(err, HF_UNREACHABLE, "%s", why.text);
}

static hf_code too_many_races(const char *name, hf_error *err)
{
    return error_set(err, HF_UNREACHABLE,
                     "%.128s: how it was left was changed by others again and again; try again",
                     name);
}

/* ---- Asking ---- */

static bool has_work_done(const mongo_outcome *outcome, int64_t period_ms)
{
    hf_period period = period_at(outcome->now, period_ms);
    return outcome->version && period_is_done(period, &outcome->record.last);
}

/* Notes the holder, unless its work is done. *is_done: the document is as it has to be. */
static hf_code note(mongo_store *store, const hf_successor *asks, mongo_outcome *outcome,
                    bool *is_done, hf_error *err)
{
    hf_id ticket = asks->holder->ticket;
    bool is_noted = mongo_outcome_notes(outcome, ticket);
    *is_done = is_noted || has_work_done(outcome, asks->period_ms);
    mongo_outcome_bury(outcome, ticket);
    if (*is_done && !is_noted)
        return HF_OK;
    hf_code code = HF_OK;
    if (!is_noted) {
        mongo_outcome_note(outcome, asks->holder, asks->who);
        code = mongo_outcome_swap(store, outcome, is_done, err);
    }
    if (!code && *is_done)
        remember(store, ticket, outcome);
    return code;
}

static hf_code ask_once(mongo_store *store, const char *name, const hf_successor *asks,
                        hf_last_mark *out, hf_dbtime *now, bool *is_done, hf_error *err)
{
    mongo_outcome outcome;
    hf_code code = mongo_outcome_read(store, name, &outcome, err);
    if (code)
        return code;
    if (mono_reached(asks->until, mongo_mono(store)))
        code =
            error_set(err, HF_UNREACHABLE,
                      "%.128s: reading how the last holder left took longer than the lease", name);
    if (!code)
        code = note(store, asks, &outcome, is_done, err);
    if (!code)
        show(store, &outcome, out);
    *now = outcome.now;
    mongo_outcome_done(&outcome);
    return code;
}

hf_code mongo_outcome_previous(hf_store *base, const char *name, const hf_successor *asks,
                               hf_last_mark *out, hf_dbtime *now, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    bool is_done = false;
    hf_code code = mongo_ready(store, err);
    for (int i = 0; !code && !is_done && i < RACES; i++)
        code = ask_once(store, name, asks, out, now, &is_done, err);
    if (!code && !is_done)
        code = too_many_races(name, err);
    return unsure(code, err);
}

/* ---- Leaving ---- */

/* A swap that changed nothing proves nothing if a deposed primary may have answered (R8): so it is
 * read whether the version is another. */
static hf_code confirm(mongo_store *store, const mongo_outcome *outcome, hf_error *err)
{
    mongo_outcome now;
    hf_code code = mongo_outcome_read(store, outcome->record.name, &now, err);
    if (code)
        return code;
    if (now.version == outcome->version)
        code = error_set(err, HF_UNREACHABLE, "%.128s: how it was left could not be noted yet",
                         outcome->record.name);
    mongo_outcome_done(&now);
    return code;
}

/* Nobody changes the version but a holder that has come since, or a break: then ours had lost its
 * lock. Or an earlier try has done it. */
static hf_code tell_noted(mongo_store *store, mongo_outcome *outcome, const hf_leave *leave,
                          hf_error *err)
{
    bool is_done;
    mongo_outcome_leave(outcome, leave);
    hf_code code = mongo_outcome_swap(store, outcome, &is_done, err);
    if (!code && !is_done)
        code = confirm(store, outcome, err);
    if (!code)
        set_told(store, leave->ticket);
    return code;
}

/* Notes the ticket that is to leave, if the lock's document has it. *is_out: it has not. */
static hf_code note_leaver(mongo_store *store, const hf_leave *leave, mongo_outcome *outcome,
                           bool *is_out, hf_error *err)
{
    hf_record lock;
    hf_stamp latest = {atomic_load(&store->latest)};
    hf_code code = mongo_look_at(store, outcome->record.name, latest, &lock, err);
    if (code)
        return code;
    const hf_entry *holder = record_find(&lock, leave->ticket);
    *is_out = !holder;
    if (holder) {
        mongo_outcome_bury(outcome, leave->ticket);
        mongo_outcome_note(outcome, holder, lock.who ? lock.who : "");
    }
    record_done(&lock);
    return HF_OK;
}

/* A break of a lock of which nothing is known makes no document. */
static bool needs_nothing(const mongo_outcome *outcome, const hf_leave *leave)
{
    bool breaks = leave->outcome == HF_OUTCOME_ABANDONED;
    return (breaks && !outcome->version) || id_equal(outcome->left, leave->ticket);
}

static hf_code tell_once(mongo_store *store, const char *name, const hf_leave *leave, bool *is_done,
                         hf_error *err)
{
    mongo_outcome outcome;
    hf_code code = mongo_outcome_read(store, name, &outcome, err);
    if (code)
        return code;
    *is_done = needs_nothing(&outcome, leave);
    if (!*is_done && !mongo_outcome_notes(&outcome, leave->ticket))
        code = note_leaver(store, leave, &outcome, is_done, err);
    if (!code && !*is_done) {
        mongo_outcome_leave(&outcome, leave);
        code = mongo_outcome_swap(store, &outcome, is_done, err);
    }
    mongo_outcome_done(&outcome);
    return code;
}

static hf_code tell_unnoted(mongo_store *store, const char *name, const hf_leave *leave,
                            hf_error *err)
{
    bool is_done = false;
    hf_code code = HF_OK;
    for (int i = 0; !code && !is_done && i < RACES; i++)
        code = tell_once(store, name, leave, &is_done, err);
    return code || is_done ? code : too_many_races(name, err);
}

/* A lock can be released by a client that may not write there, except for work of a period: nobody
 * may take that for not done. */
static hf_code forgive(mongo_store *store, const hf_leave *leave, hf_code code, hf_error *err)
{
    if (!code || hf_code_retryable(code) || period_is_any(leave->period))
        return code;
    pthread_mutex_lock(&store->mutex);
    bool is_said = store->says_untold;
    store->says_untold = true;
    pthread_mutex_unlock(&store->mutex);
    if (!is_said)
        mongo_log(store, HF_LOG_INFO, "how locks are left is not kept: %.300s",
                  err ? err->text : hf_code_text(code));
    return HF_OK;
}

hf_code mongo_outcome_tell(mongo_store *store, const char *name, const hf_leave *leave,
                           hf_error *err)
{
    mongo_outcome outcome;
    hf_code code;
    bool is_told = false;
    bool says_how = leave->has_exit_status || leave->outcome == HF_OUTCOME_ABANDONED;
    if (recall(store, leave->ticket, &outcome, &is_told)) {
        code = is_told ? HF_OK : tell_noted(store, &outcome, leave, err);
        mongo_outcome_done(&outcome);
    } else {
        code = leave->told && says_how ? tell_unnoted(store, name, leave, err) : HF_OK;
    }
    return forgive(store, leave, unsure(code, err), err);
}

/* ---- Showing ---- */

typedef struct showing {
    const mongo_store *store;
    hf_record *records;
    size_t n;
} showing;

/* The holder that is noted may have taken the lock after the record was read. */
static bool is_overdue(const mongo_outcome *outcome)
{
    const hf_record *record = &outcome->record;
    return record->holders &&
           outcome->now.ms - record->entries[0].granted_at.ms > record->entries[0].ttl_ms;
}

static void show_in(const mongo_store *store, mongo_outcome *outcome, hf_record *record)
{
    if (!record->exists) {
        record->exists = true;
        record->limit = outcome->record.limit;
    }
    if (is_overdue(outcome))
        mongo_outcome_bury(outcome, record->holders ? record->entries[0].ticket : (hf_id){{0}});
    show(store, outcome, &record->last);
}

static void show_one(void *ctx, mongo_outcome *outcome)
{
    showing *s = ctx;
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->records[i].name, outcome->record.name) == 0)
            show_in(s->store, outcome, &s->records[i]);
}

/* Without the right to read them, or while they cannot be read, locks are shown all the same. */
hf_code mongo_outcome_lasts(hf_store *base, hf_record *records, size_t n, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    showing s = {store, records, n};
    hf_code code = n ? mongo_ready(store, err) : HF_OK;
    if (n && !code)
        code = mongo_outcomes_find(store, records, n, show_one, &s, err);
    return code == HF_DENIED ? HF_OK : code;
}

/* ---- Pruning ---- */

/* As in protocol `queue`: nobody is noted, its last holder left three days ago, and no period runs.
 */
static const char idle_text[] =
    "{'holders': [], 'last.outcome': {'$in': ['released', 'abandoned']},"
    " '$expr': {'$and': ["
    " {'$lt': ['$last.at', {'$subtract': ['$$NOW', 259200000]}]},"
    " {'$lte': ['$last.period_end', {'$toLong': '$$NOW'}]},"
    " {'$lte': ['$done.period_end', {'$toLong': '$$NOW'}]}]}}";

static void append_idle(bson_t *command)
{
    bson_t deletes, each;
    bson_t *idle = pipeline_json(idle_text);
    BSON_APPEND_ARRAY_BEGIN(command, "deletes", &deletes);
    BSON_APPEND_DOCUMENT_BEGIN(&deletes, "0", &each);
    BSON_APPEND_DOCUMENT(&each, "q", idle);
    BSON_APPEND_INT32(&each, "limit", 0);
    bson_append_document_end(&deletes, &each);
    bson_append_array_end(command, &deletes);
    bson_destroy(idle);
}

hf_code mongo_outcomes_prune(mongo_store *store, hf_error *err)
{
    static const mongo_call call = {.what = "pruning how idle locks were left", .writes = true};
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    pthread_mutex_lock(&store->mutex);
    bool is_used = store->notes_any;
    pthread_mutex_unlock(&store->mutex);
    if (!is_used)
        return HF_OK;
    mongo_begin(&command, "delete", store->uri.names.done);
    append_idle(&command);
    BSON_APPEND_INT32(&command, "maxTimeMS", (int32_t)store->uri.command_ms);
    mongo_append_write_concern(store, &command, false);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}
