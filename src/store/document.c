/* SPDX-License-Identifier: Apache-2.0 */
/* document.c: writes records, entries, asks and sessions as BSON in the shapes of protocol `queue`;
 * called by the stores mongo and sqlite. document_read.c reads them back. */
#include "store/document.h"

#include "core/period.h"

void document_append_id(bson_t *to, const char *field, hf_id id)
{
    bson_oid_t oid;
    bson_oid_init_from_data(&oid, id.bytes);
    bson_append_oid(to, field, -1, &oid);
}

const char *document_outcome_text(hf_outcome outcome)
{
    switch (outcome) {
    case HF_OUTCOME_RELEASED:
        return "released";
    case HF_OUTCOME_ABANDONED:
        return "abandoned";
    case HF_OUTCOME_NONE:
        break;
    }
    return "";
}

static void write_entry(const hf_entry *entry, bson_t *out)
{
    document_append_id(out, "ticket", entry->ticket);
    document_append_id(out, "session", entry->session);
    BSON_APPEND_INT32(out, "ttl_ms", entry->ttl_ms);
    BSON_APPEND_UTF8(out, "actor", entry->actor);
    BSON_APPEND_INT32(out, "permits", entry->permits);
    BSON_APPEND_DATE_TIME(out, "since", entry->since.ms);
    BSON_APPEND_UTF8(out, "why", entry->why);
    BSON_APPEND_INT64(out, "token", entry->token);
    if (entry->number)
        BSON_APPEND_INT64(out, "number", entry->number);
    BSON_APPEND_DATE_TIME(out, "granted_at", entry->granted_at.ms);
    BSON_APPEND_BOOL(out, "yields", entry->yields);
    BSON_APPEND_INT32(out, "block", entry->block);
    if (entry->bell)
        BSON_APPEND_INT32(out, "bell", entry->bell);
}

void document_of_entry(const hf_entry *entry, bson_t *out)
{
    bson_init(out);
    write_entry(entry, out);
}

static void append_entries(bson_t *to, const char *field, const hf_entry *entries, size_t n)
{
    bson_t array, entry;
    char buffer[16];
    const char *key;
    BSON_APPEND_ARRAY_BEGIN(to, field, &array);
    for (uint32_t i = 0; i < n; i++) {
        bson_uint32_to_string(i, &key, buffer, sizeof buffer);
        BSON_APPEND_DOCUMENT_BEGIN(&array, key, &entry);
        write_entry(&entries[i], &entry);
        bson_append_document_end(&array, &entry);
    }
    bson_append_array_end(to, &array);
}

void document_append_period(bson_t *to, hf_period period)
{
    if (!period_is_any(period))
        return;
    BSON_APPEND_INT64(to, "period", period.start.ms);
    BSON_APPEND_INT64(to, "period_end", period.end.ms);
}

void document_append_reason(bson_t *to, const char *reason)
{
    if (reason[0])
        BSON_APPEND_UTF8(to, "reason", reason);
}

static void append_last(bson_t *to, const hf_last_mark *last)
{
    bson_t mark;
    if (last->outcome == HF_OUTCOME_NONE)
        return;
    BSON_APPEND_DOCUMENT_BEGIN(to, "last", &mark);
    BSON_APPEND_UTF8(&mark, "outcome", document_outcome_text(last->outcome));
    document_append_id(&mark, "session", last->session);
    BSON_APPEND_UTF8(&mark, "who", last->who);
    BSON_APPEND_INT64(&mark, "token", last->token);
    if (last->has_exit_status)
        BSON_APPEND_INT32(&mark, "exit_status", last->exit_status);
    document_append_period(&mark, last->period);
    document_append_reason(&mark, last->reason);
    BSON_APPEND_DATE_TIME(&mark, "at", last->at.ms);
    bson_append_document_end(to, &mark);
}

static void append_done(bson_t *to, const hf_done_mark *done)
{
    bson_t doc;
    if (!done->is_known)
        return;
    BSON_APPEND_DOCUMENT_BEGIN(to, "done", &doc);
    BSON_APPEND_UTF8(&doc, "who", done->who);
    BSON_APPEND_INT32(&doc, "exit_status", done->exit_status);
    document_append_period(&doc, done->period);
    BSON_APPEND_INT64(&doc, "token", done->token);
    BSON_APPEND_DATE_TIME(&doc, "at", done->at.ms);
    bson_append_document_end(to, &doc);
}

void document_of_record(const hf_record *record, bson_t *out)
{
    bson_init(out);
    BSON_APPEND_UTF8(out, "_id", record->name);
    BSON_APPEND_INT32(out, "limit", record->limit);
    BSON_APPEND_INT64(out, "token", record->token);
    if (record->given) {
        BSON_APPEND_INT64(out, "given", record->given);
        BSON_APPEND_INT64(out, "reached", record->reached);
    }
    append_entries(out, "holders", record->entries, record->holders);
    append_entries(out, "queue", record->queued ? record->entries + record->holders : NULL,
                   record->queued);
    BSON_APPEND_UTF8(out, "notify", record->notify ? record->notify : "");
    append_last(out, &record->last);
    append_done(out, &record->last.done);
}

void document_of_ask(const hf_ask *ask, bson_t *out)
{
    bson_init(out);
    document_append_id(out, "ticket", ask->ticket);
    BSON_APPEND_UTF8(out, "how", "break");
    BSON_APPEND_UTF8(out, "by", ask->by);
    BSON_APPEND_UTF8(out, "reason", ask->reason);
}

void document_of_session(const hf_session *session, bson_t *out)
{
    bson_init(out);
    document_append_id(out, "_id", session->id);
    BSON_APPEND_INT32(out, "ttl_ms", session->ttl_ms);
    BSON_APPEND_UTF8(out, "app", session->app);
    BSON_APPEND_UTF8(out, "host", session->host);
    BSON_APPEND_INT64(out, "pid", session->pid);
    BSON_APPEND_DATE_TIME(out, "started_at", session->started_at.ms);
}
