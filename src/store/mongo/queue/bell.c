/* SPDX-License-Identifier: Apache-2.0 */
/* bell.c: rings the bells of sessions that a step granted something, or recalls something from;
 * called by step.c and batch.c. bell_listen.c hears the rings. */
#include "store/mongo/queue/bell.h"
#include "core/alloc.h"
#include "core/id.h"
#include "core/notify.h"
#include "core/record.h"
#include "store/document.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAST_GRANTS 8 /* of steps that were made between a step and a look at it */

/* ---- The bells ---- */

int32_t mongo_bell_of(mongo_store *store, hf_id session)
{
    if (atomic_load(&store->queue->bells.are_refused))
        return 0;
    return 1 + (int32_t)(id_hash(ID_HASH, session.bytes, sizeof session.bytes) % MONGO_BELLS);
}

void mongo_bell_name(const mongo_store *store, int32_t bell, char name[MONGO_BELL_NAME_SIZE])
{
    snprintf(name, MONGO_BELL_NAME_SIZE, "%.255s.%d", store->uri.names.bells, (int)bell);
}

/* Bells of other programs may have higher numbers; those are looked at each time. */
static uint64_t bit_of(int32_t bell)
{
    return bell >= 1 && bell <= 64 ? (uint64_t)1 << (bell - 1) : 0;
}

void mongo_bell_note_made(mongo_store *store, int32_t bell)
{
    atomic_fetch_or(&store->queue->bells.made, bit_of(bell));
}

/* A listener that makes a bell puts a first document into it. */
static bool has_document(mongo_store *store, int32_t bell)
{
    static const mongo_call call = {.what = "looking for a bell", .can_wait = true};
    char name[MONGO_BELL_NAME_SIZE];
    bson_t command = BSON_INITIALIZER, first;
    bson_t *rest = pipeline_json("{'limit': 1, 'singleBatch': true, 'projection': {'_id': 1}}");
    mongo_reply reply;
    mongo_bell_name(store, bell, name);
    mongo_begin(&command, "find", name);
    bson_concat(&command, rest);
    mongo_append_read_concern(store, &command, (hf_stamp){0});
    bool has = !mongo_run(store, &call, &command, &reply, NULL) && mongo_first(&reply.doc, &first);
    bson_destroy(&reply.doc);
    bson_destroy(rest);
    bson_destroy(&command);
    return has;
}

bool mongo_bell_is_made(mongo_store *store, int32_t bell)
{
    if (atomic_load(&store->queue->bells.made) & bit_of(bell))
        return true;
    if (!has_document(store, bell))
        return false;
    mongo_bell_note_made(store, bell);
    return true;
}

/* ---- A ring ---- */

static void append_ring(bson_t *rings, hf_id session, const char *lock, const char *text,
                        hf_stamp stamp)
{
    bson_t ring;
    BSON_APPEND_DOCUMENT_BEGIN(rings, "0", &ring);
    document_append_id(&ring, "session", session);
    BSON_APPEND_UTF8(&ring, "lock", lock);
    BSON_APPEND_UTF8(&ring, "notify", text);
    mongo_append_stamp(&ring, "stamp", stamp);
    bson_append_document_end(rings, &ring);
}

/* Waits for no majority: what a ring says is true, whatever becomes of the ring. */
void mongo_bell_ring(mongo_store *store, int32_t bell, hf_id session, const char *lock,
                     const char *text, hf_stamp stamp)
{
    static const mongo_call call = {.what = "ringing a bell", .writes = true};
    char name[MONGO_BELL_NAME_SIZE];
    bson_t command = BSON_INITIALIZER, rings;
    mongo_reply reply;
    mongo_bell_name(store, bell, name);
    mongo_begin(&command, "insert", name);
    BSON_APPEND_ARRAY_BEGIN(&command, "documents", &rings);
    append_ring(&rings, session, lock, text, stamp);
    bson_append_array_end(&command, &rings);
    mongo_append_quick_write_concern(&command);
    mongo_run(store, &call, &command, &reply, NULL);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
}

/* ---- What a step told ---- */

/* `notify` stays until a step has news again: a plain enter's own are recalls for its ticket only.
 */
static bool is_news(const hf_step *step, const notify_note *note)
{
    if (!step || !step->enter || step->n_leaves || step->n_deaths || step->change || step->pass)
        return true;
    return note->kind == NOTE_RECALL && id_equal(note->ticket, step->enter->entry.ticket);
}

/* The caller knows what it was granted itself, now or before. */
static bool is_own_grant(const hf_step *step, const notify_note *note)
{
    return step && note->kind == NOTE_GRANT &&
           ((step->enter && id_equal(note->ticket, step->enter->entry.ticket)) ||
            (step->change && id_equal(note->ticket, step->change->ticket)));
}

static bool is_for(const notify_note *note, const hf_entry *entry, bool holds)
{
    if (note->kind == NOTE_RECALL)
        return holds && entry->yields && id_equal(entry->session, note->session);
    return holds == (note->kind == NOTE_GRANT) && id_equal(entry->ticket, note->ticket);
}

/* The entry that a note is for, if it still holds, or waits. */
static const hf_entry *addressee(const hf_record *record, const notify_note *note)
{
    for (size_t i = 0; i < record->holders + record->queued; i++)
        if (is_for(note, &record->entries[i], i < record->holders))
            return &record->entries[i];
    return NULL;
}

/* A weak write may be undone, and so may what it granted: then the ring only says "look". */
static void tell(mongo_store *store, const hf_record *record, const hf_entry *to, notify_note *note,
                 hf_stamp stamp)
{
    char text[NOTE_SIZE] = "";
    notify_append(text, note);
    if (mongo_bell_is_made(store, to->bell))
        mongo_bell_ring(store, to->bell, to->session, record->name, store->uri.weak ? "" : text,
                        stamp);
}

void mongo_bells_tell(mongo_store *store, const hf_record *record, const hf_step *step,
                      hf_stamp stamp)
{
    const char *at = record->notify;
    notify_note note;
    while (notify_next(&at, &note)) {
        bool is_told = is_news(step, &note) && !is_own_grant(step, &note);
        const hf_entry *to = is_told ? addressee(record, &note) : NULL;
        if (to && to->bell > 0)
            tell(store, record, to, &note, stamp);
    }
}

static bool has_grant(const hf_record *record, const hf_entry *holder)
{
    const char *at = record->notify;
    notify_note note;
    while (notify_next(&at, &note))
        if (note.kind == NOTE_GRANT && id_equal(note.ticket, holder->ticket))
            return true;
    return false;
}

void mongo_bells_tell_later(mongo_store *store, const hf_record *record, hf_stamp stamp)
{
    mongo_bells_tell(store, record, NULL, stamp);
    size_t first = record->holders > LAST_GRANTS ? record->holders - LAST_GRANTS : 0;
    for (size_t i = first; i < record->holders; i++) {
        const hf_entry *to = &record->entries[i];
        notify_note note = {NOTE_GRANT, to->session, to->ticket, to->token, to->block};
        if (to->bell > 0 && !has_grant(record, to))
            tell(store, record, to, &note, stamp);
    }
}

/* ---- Reading what was told ---- */

static void read_holder(const bson_t *doc, hf_record *out)
{
    hf_entry entry = {.bell = (int32_t)mongo_int_at(doc, "bell", 0)};
    bson_iter_t it;
    entry.yields = bson_iter_init_find(&it, doc, "yields") && bson_iter_as_bool(&it);
    if (mongo_id_at(doc, "ticket", &entry.ticket) && mongo_id_at(doc, "session", &entry.session))
        record_append(out, &entry, true);
}

static void read_told(const bson_t *doc, const char *name, hf_record *out)
{
    bson_t holders, holder;
    bson_iter_t it;
    record_init(out, name);
    out->notify = alloc_text(mongo_text_at(doc, "notify", ""));
    if (mongo_view(doc, "holders", &holders) && bson_iter_init(&it, &holders))
        while (mongo_next(&it, &holder))
            read_holder(&holder, out);
}

void mongo_bells_tell_document(mongo_store *store, const bson_t *doc, const char *name,
                               const hf_step *step, hf_stamp stamp)
{
    hf_record record;
    read_told(doc, name, &record);
    mongo_bells_tell(store, &record, step, stamp);
    record_done(&record);
}
