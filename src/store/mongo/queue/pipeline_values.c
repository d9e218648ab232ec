/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_values.c: collects a step's values from outside in one document, which is the variable x
 * in pipeline.c's texts; called by pipeline.c. */
#include "store/mongo/queue/pipeline_values.h"
#include "core/id.h"
#include "core/record.h"
#include "store/document.h"

#include <stdio.h>

bool pipeline_is_single(const hf_step *step)
{
    return step->n_leaves == 1 && step->n_deaths == 0;
}

bool pipeline_is_done(const hf_leave *leave)
{
    return leave->told && leave->has_exit_status && leave->outcome == HF_OUTCOME_RELEASED;
}

const char *pipeline_key(size_t i, char buffer[16])
{
    const char *key;
    bson_uint32_to_string((uint32_t)i, &key, buffer, 16);
    return key;
}

/* `last` as it will be; session, token and time are the holder's and are filled in there. */
static void append_mark(bson_t *to, hf_outcome outcome, const char *who, const hf_leave *leave)
{
    bson_t mark;
    BSON_APPEND_DOCUMENT_BEGIN(to, "mark", &mark);
    BSON_APPEND_UTF8(&mark, "outcome", document_outcome_text(outcome));
    document_append_id(&mark, "session", (hf_id){{0}});
    BSON_APPEND_UTF8(&mark, "who", who);
    BSON_APPEND_INT64(&mark, "token", 0);
    if (leave && leave->has_exit_status)
        BSON_APPEND_INT32(&mark, "exit_status", leave->exit_status);
    if (leave) {
        document_append_period(&mark, leave->period);
        document_append_reason(&mark, leave->reason);
    }
    bson_append_document_end(to, &mark);
}

/* Token and time are the holder's and are filled in there. */
static void append_done(bson_t *to, const hf_leave *leave)
{
    bson_t done;
    BSON_APPEND_DOCUMENT_BEGIN(to, "done", &done);
    BSON_APPEND_UTF8(&done, "who", leave->who);
    BSON_APPEND_INT32(&done, "exit_status", leave->exit_status);
    document_append_period(&done, leave->period);
    bson_append_document_end(to, &done);
}

static void append_leave(bson_t *to, const hf_leave *leave)
{
    document_append_id(to, "ticket", leave->ticket);
    if (leave->told)
        append_mark(to, leave->outcome, leave->who, leave);
    if (pipeline_is_done(leave))
        append_done(to, leave);
    if (leave->used_token > 0)
        BSON_APPEND_INT64(to, "used", leave->used_token);
}

static void append_marks(bson_t *x, const hf_step *step)
{
    bson_t marks, each;
    char key[16];
    BSON_APPEND_ARRAY_BEGIN(x, "marks", &marks);
    for (size_t i = 0; i < step->n_leaves; i++) {
        BSON_APPEND_DOCUMENT_BEGIN(&marks, pipeline_key(i, key), &each);
        append_leave(&each, &step->leaves[i]);
        bson_append_document_end(&marks, &each);
    }
    for (size_t i = 0; i < step->n_deaths; i++) {
        BSON_APPEND_DOCUMENT_BEGIN(&marks, pipeline_key(step->n_leaves + i, key), &each);
        document_append_id(&each, "dead", step->deaths[i].session);
        append_mark(&each, HF_OUTCOME_ABANDONED, step->deaths[i].who, NULL);
        bson_append_document_end(&marks, &each);
    }
    bson_append_array_end(x, &marks);
}

static void append_many(bson_t *x, const hf_step *step)
{
    bson_t ids;
    char key[16];
    BSON_APPEND_ARRAY_BEGIN(x, "tickets", &ids);
    for (size_t i = 0; i < step->n_leaves; i++)
        document_append_id(&ids, pipeline_key(i, key), step->leaves[i].ticket);
    bson_append_array_end(x, &ids);
    BSON_APPEND_ARRAY_BEGIN(x, "dead", &ids);
    for (size_t i = 0; i < step->n_deaths; i++)
        document_append_id(&ids, pipeline_key(i, key), step->deaths[i].session);
    bson_append_array_end(x, &ids);
    append_marks(x, step);
}

static void append_enter(bson_t *x, const char *name, const hf_enter *enter)
{
    bson_t entry, new;
    hf_record record;
    char session[ID_TEXT_SIZE], ticket[ID_TEXT_SIZE], note[2 * ID_TEXT_SIZE + 1];
    id_write(enter->entry.session, session);
    id_write(enter->entry.ticket, ticket);
    snprintf(note, sizeof note, "%s:%s:", session, ticket);
    hf_entry plain = enter->entry;
    plain.token = plain.since.ms = plain.granted_at.ms = 0;
    plain.number = id_is_zero(enter->replaces) ? enter->number : 0;
    document_of_entry(&plain, &entry);
    record_init(&record, name);
    record.limit = enter->limit;
    document_of_record(&record, &new);
    BSON_APPEND_DOCUMENT(x, "new", &new);
    BSON_APPEND_INT32(x, "limit", enter->limit);
    BSON_APPEND_INT32(x, "bound", enter->queue_max);
    BSON_APPEND_UTF8(x, "note", note);
    BSON_APPEND_UTF8(x, "asks", ticket);
    BSON_APPEND_DOCUMENT(x, "entry", &entry);
    if (enter->wants_number && enter->is_nested)
        BSON_APPEND_BOOL(x, "nested", true);
    if (enter->number)
        BSON_APPEND_INT64(x, "skips", enter->skips ? enter->reached : -1);
    if (!id_is_zero(enter->replaces))
        document_append_id(x, "replaces", enter->replaces);
    bson_destroy(&entry);
    bson_destroy(&new);
}

static void append_change(bson_t *x, const hf_change *change)
{
    bson_t to;
    BSON_APPEND_DOCUMENT_BEGIN(x, "change", &to);
    document_append_id(&to, "ticket", change->ticket);
    BSON_APPEND_INT32(&to, "permits", change->permits);
    bson_append_document_end(x, &to);
}

static void append_pass(bson_t *x, const hf_pass *pass)
{
    bson_t of, to;
    BSON_APPEND_DOCUMENT_BEGIN(x, "pass", &of);
    document_append_id(&of, "ticket", pass->ticket);
    BSON_APPEND_DOCUMENT_BEGIN(&of, "to", &to);
    document_append_id(&to, "ticket", pass->to);
    document_append_id(&to, "session", pass->session);
    BSON_APPEND_INT32(&to, "ttl_ms", pass->ttl_ms);
    BSON_APPEND_INT64(&to, "token", pass->token);
    BSON_APPEND_BOOL(&to, "yields", false);
    BSON_APPEND_INT32(&to, "block", 0);
    BSON_APPEND_UTF8(&to, "why", pass->why ? pass->why : "");
    BSON_APPEND_UTF8(&to, "actor", pass->actor ? pass->actor : "");
    bson_append_document_end(&of, &to);
    bson_append_document_end(x, &of);
    if (pass->before)
        append_leave(x, pass->before);
}

void pipeline_values(const char *name, const hf_step *step, bson_t *x)
{
    bson_init(x);
    if (step->now)
        BSON_APPEND_DATE_TIME(x, "now", step->now->ms);
    if (step->floor) /* no token is below 1, as after an absent one */
        BSON_APPEND_INT64(x, "floor", *step->floor > 1 ? *step->floor : 1);
    if (pipeline_is_single(step))
        append_leave(x, &step->leaves[0]);
    else if (step->n_leaves + step->n_deaths > 0)
        append_many(x, step);
    if (step->change)
        append_change(x, step->change);
    if (step->pass)
        append_pass(x, step->pass);
    if (step->enter)
        append_enter(x, name, step->enter);
}
