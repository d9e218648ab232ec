/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_dead.c: takes tickets of dead sessions out of records. Called by sweep.c.
 *
 * Only of those that are marked: the mark was found by a
 * majority read (R5). Waiters do the same for what stands in their way; this is for what nobody
 * asks for. */
#include "core/alloc.h"
#include "core/history.h"
#include "core/id.h"
#include "core/record.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/queue/pipeline.h"
#include "store/mongo/queue/state.h"
#include "store/mongo/queue/step.h"
#include "store/mongo/queue/sweep_page.h"
#include "store/mongo/shared/history.h"
#include "store/mongo/shared/look.h"

typedef struct taken {
    hf_record before;
    hf_step step; /* deaths */
    bool is_told; /* somebody lives who waits there, and may be granted */
} taken;

typedef struct takings {
    const sweep_page *page;
    taken all[SWEEP_TAKEN_MOST];
    size_t n;
    struct history_turn **turns; /* that ended, for the history */
    size_t n_turns;
} takings;

static bool is_own(const hf_step *step, const hf_entry *entry)
{
    for (size_t i = 0; i < step->n_deaths; i++)
        if (id_equal(step->deaths[i].session, entry->session))
            return true;
    return false;
}

static bool add(void *ctx, const hf_record *record)
{
    takings *to = ctx;
    size_t n = record->holders + record->queued;
    taken *at = &to->all[to->n];
    hf_death *deaths = alloc_array(NULL, n, sizeof *deaths);
    *at = (taken){.step = {.deaths = deaths}};
    for (size_t i = 0; i < n; i++) {
        const hf_entry *entry = &record->entries[i];
        const hf_death *death =
            is_own(&at->step, entry) ? NULL : sweep_page_dead(to->page, entry->session);
        if (death)
            deaths[at->step.n_deaths++] = *death;
        at->is_told |= i >= record->holders && !sweep_page_dead(to->page, entry->session);
    }
    if (at->step.n_deaths) {
        record_copy(&at->before, record);
        to->n++;
    } else {
        free(deaths);
    }
    return to->n < SWEEP_TAKEN_MOST;
}

static void takings_free(takings *done)
{
    for (size_t i = 0; i < done->n; i++) {
        free((hf_death *)done->all[i].step.deaths);
        record_done(&done->all[i].before);
    }
    for (size_t i = 0; i < done->n_turns; i++)
        free(done->turns[i]);
    free(done->turns);
    free(done);
}

/* The records as they are now; of any that cannot be read nothing is taken out. */
static hf_code look_at_them(mongo_store *store, takings *to, hf_error *err)
{
    const char *names[SWEEP_TAKEN_MOST];
    bson_iter_t id;
    size_t n = 0;
    for (size_t i = 0; i < to->page->n_rows && n < SWEEP_TAKEN_MOST; i++) {
        const sweep_row *at = &to->page->rows[i];
        if (at->is_taken && bson_iter_init_find(&id, &at->doc, "_id"))
            names[n++] = bson_iter_utf8(&id, NULL);
    }
    if (!n)
        return HF_OK;
    hf_code code = mongo_look(&store->base, names, n, to->page->reply.stamp, false, add, to, err);
    return code == HF_SHAPE ? HF_OK : code;
}

static void note(takings *to, const taken *at, const hf_last_mark *last)
{
    hf_turn_note turn;
    for (size_t i = 0; i < at->before.holders; i++) {
        if (!history_of_taken(&at->before, &at->before.entries[i], &at->step, last, &turn))
            continue;
        to->turns = alloc_array(to->turns, to->n_turns + 1, sizeof *to->turns);
        to->turns[to->n_turns++] = history_copy(&turn);
    }
}

/* Whom the step grants is rung for. */
static hf_code take_out_one(mongo_store *store, takings *to, const taken *at, hf_error *err)
{
    hf_record after;
    hf_step_reply reply;
    hf_code code = mongo_step_alone(store, at->before.name, &at->step, &after, &reply, err);
    if (code)
        return code == HF_SHAPE ? HF_OK : code;
    note(to, at, &after.last);
    record_done(&after);
    return HF_OK;
}

static void append_step(mongo_store *store, const pipeline_item *items, size_t n, bson_t *command)
{
    bson_t updates, update;
    mongo_begin(command, "update", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    mongo_append_steps(store, items, n, false, &update);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(command, &updates);
    mongo_append_write_concern(store, command, false);
}

/* The records afterwards tell which turns ended. */
static bool note_each(void *ctx, const hf_record *record)
{
    takings *to = ctx;
    for (size_t i = 0; i < to->n; i++)
        if (!to->all[i].is_told && strcmp(to->all[i].before.name, record->name) == 0)
            note(to, &to->all[i], &record->last);
    return true;
}

static hf_code take_out_together(mongo_store *store, takings *to, hf_error *err)
{
    static const mongo_call call = {
        .what = "taking tickets of dead sessions out", .name = "several locks", .writes = true};
    pipeline_item items[SWEEP_TAKEN_MOST];
    const char *names[SWEEP_TAKEN_MOST];
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    size_t n = 0;
    for (size_t i = 0; i < to->n; i++)
        if (!to->all[i].is_told) {
            names[n] = to->all[i].before.name;
            items[n++] = (pipeline_item){to->all[i].before.name, &to->all[i].step};
        }
    if (!n)
        return HF_OK;
    append_step(store, items, n, &command);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    if (!code)
        mongo_look(&store->base, names, n, reply.stamp, false, note_each, to, NULL);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* No rule depends on the history: what cannot be written is left out. */
static void write_history(mongo_store *store, const takings *of)
{
    hf_turn_note *notes = alloc_array(NULL, of->n_turns, sizeof *notes);
    for (size_t i = 0; i < of->n_turns; i++)
        notes[i] = of->turns[i]->note;
    if (of->n_turns && mongo_history_is_kept(&store->uri))
        mongo_history_add(&store->base, notes, of->n_turns, NULL);
    free(notes);
}

static bool is_taken(const takings *of, const char *name)
{
    for (size_t i = 0; i < of->n; i++)
        if (strcmp(of->all[i].before.name, name) == 0)
            return true;
    return false;
}

/* What cannot be read is left alone, and so are the marks of the sessions that it names: they count
 * as marked now, and are not dated by this sweep. */
static hf_code keep_marks(mongo_store *store, const takings *of, hf_error *err)
{
    const sweep_page *in = of->page;
    hf_id *ids = alloc_array(NULL, in->n_sessions, sizeof *ids);
    bson_iter_t id;
    size_t n = 0;
    for (size_t i = 0; i < in->n_rows; i++) {
        const sweep_row *at = &in->rows[i];
        if (!at->is_taken || !bson_iter_init_find(&id, &at->doc, "_id") ||
            is_taken(of, bson_iter_utf8(&id, NULL)))
            continue;
        for (size_t j = at->first; j < at->first + at->n; j++)
            if (sweep_page_dead(in, in->sessions[j]))
                ids[n++] = in->sessions[j];
    }
    hf_code code = n ? mongo_sweep_keep_marks(store, ids, n, err) : HF_OK;
    free(ids);
    return code;
}

hf_code mongo_sweep_take_out(mongo_store *store, const sweep_page *in, hf_error *err)
{
    takings *to = alloc_zeroed(sizeof *to);
    to->page = in;
    hf_code code = look_at_them(store, to, err);
    if (!code)
        code = keep_marks(store, to, err);
    for (size_t i = 0; i < to->n && !code; i++)
        if (to->all[i].is_told)
            code = take_out_one(store, to, &to->all[i], err);
    if (!code)
        code = take_out_together(store, to, err);
    write_history(store, to);
    takings_free(to);
    return code;
}
