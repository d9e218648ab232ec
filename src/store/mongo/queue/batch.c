/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c: sends several steps on different locks as one command, and finds out the outcome of
 * each; called by batcher.c.
 *
 * The command is one `update`: first a demand that the tickets of all leaves are there, which stops
 * the command if one is missing; then one statement for each text of a step, for all documents with
 * that text. The answer says how many documents were changed, not which:
 *   - a leave is confirmed if every step has changed its document; if the demand stopped the
 *     command, nothing was done, and each goes by itself; else its outcome is unknown (R2);
 *   - an enter is told from a look begun after the acknowledgement (R1), and goes by itself, once
 *     more, if there is none. */
#include "store/mongo/queue/batch.h"
#include "core/alloc.h"
#include "core/error.h"
#include "core/record.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/queue/pipeline.h"
#include "store/mongo/queue/state.h"
#include "store/mongo/queue/step.h"
#include "store/mongo/shared/look.h"

#include <stdlib.h>

/* The members of one batch, the leaves first; a member is NULL when it is settled. */
typedef struct batch {
    mongo_member *members[MONGO_BATCH_MOST];
    size_t n, n_leaves;
    char *left[MONGO_BATCH_MOST]; /* names of the leaves, whose threads may be gone */
    mongo_store *store;
    hf_stamp stamp; /* of the acknowledgement */
} batch;

static const mongo_call call = {.what = "stepping", .name = "several locks", .writes = true};

static void sort(batch *b, mongo_member *const *members, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!members[i]->step->enter)
            b->members[b->n++] = members[i];
    b->n_leaves = b->n;
    for (size_t i = 0; i < n; i++)
        if (members[i]->step->enter)
            b->members[b->n++] = members[i];
}

/* ---- The command ---- */

typedef struct statements {
    mongo_store *store;
    bson_t array;
    size_t n;
} statements;

static void append_statement(statements *to, const pipeline_item *items, size_t n, bool demands)
{
    bson_t update;
    char key[16];
    BSON_APPEND_DOCUMENT_BEGIN(&to->array, mongo_key(to->n, key), &update);
    mongo_append_steps(to->store, items, n, demands, &update);
    bson_append_document_end(&to->array, &update);
    to->n++;
}

static pipeline_item item_of(const mongo_member *member)
{
    return (pipeline_item){member->name, member->step};
}

static void append_demand(statements *to, const batch *b)
{
    pipeline_item items[MONGO_BATCH_MOST];
    for (size_t i = 0; i < b->n_leaves; i++)
        items[i] = item_of(b->members[i]);
    if (b->n_leaves)
        append_statement(to, items, b->n_leaves, true);
}

/* Takes the members with the same text as the first. */
static size_t take_alike(const batch *b, const size_t *text, size_t first, bool *is_taken,
                         pipeline_item *items)
{
    size_t n = 0;
    for (size_t i = first; i < b->n; i++)
        if (!is_taken[i] && text[i] == text[first]) {
            is_taken[i] = true;
            items[n++] = item_of(b->members[i]);
        }
    return n;
}

static void append_steps(statements *to, const batch *b)
{
    size_t text[MONGO_BATCH_MOST];
    bool is_taken[MONGO_BATCH_MOST] = {false};
    pipeline_item items[MONGO_BATCH_MOST];
    for (size_t i = 0; i < b->n; i++)
        text[i] = pipeline_text(mongo_clock_of(to->store), b->members[i]->step);
    for (size_t i = 0; i < b->n; i++)
        if (!is_taken[i])
            append_statement(to, items, take_alike(b, text, i, is_taken, items), false);
}

static void append_command(mongo_store *store, const batch *b, bson_t *command)
{
    statements to = {.store = store};
    mongo_begin(command, "update", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(command, "updates", &to.array);
    append_demand(&to, b);
    append_steps(&to, b);
    bson_append_array_end(command, &to.array);
    BSON_APPEND_BOOL(command, "ordered", true);
    mongo_append_write_concern(store, command, false);
}

/* ---- What came of it ---- */

/* Its thread goes on, and the member is not to be touched any more. */
static void settle_member(mongo_store *store, mongo_member *member, mongo_member_state state,
                          hf_code code)
{
    pthread_mutex_lock(&store->queue->batcher.mutex);
    member->code = code;
    member->state = state;
    pthread_cond_signal(&member->changed);
    pthread_mutex_unlock(&store->queue->batcher.mutex);
}

static void settle(mongo_store *store, batch *b, size_t i, mongo_member_state state, hf_code code)
{
    settle_member(store, b->members[i], state, code);
    b->members[i] = NULL;
}

static void settle_all(mongo_store *store, batch *b, mongo_member_state state, hf_code code,
                       const hf_error *err)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->members[i]) {
            b->members[i]->err = *err;
            settle(store, b, i, state, code);
        }
}

static void settle_leaves(mongo_store *store, batch *b, bool are_confirmed, hf_stamp stamp)
{
    for (size_t i = 0; i < b->n_leaves; i++) {
        mongo_member *leaves = b->members[i];
        leaves->reply = (hf_step_reply){.stamp = stamp, .confirmed = are_confirmed};
        if (!are_confirmed)
            error_set(&leaves->err, HF_UNKNOWN,
                      "mongodb at %s: of several locks that were to be released at once, \"%.80s\" "
                      "among them, not all were; it may have been done or not: repeat it, or look",
                      store->uri.hosts, leaves->name);
        settle(store, b, i, MEMBER_DONE, are_confirmed ? HF_OK : HF_UNKNOWN);
    }
}

static bool is_left(const batch *b, const char *name)
{
    for (size_t i = 0; i < b->n_leaves; i++)
        if (strcmp(b->left[i], name) == 0)
            return true;
    return false;
}

static bool hand_out(void *ctx, const hf_record *record)
{
    batch *b = ctx;
    if (is_left(b, record->name))
        mongo_bells_tell_later(b->store, record, b->stamp);
    for (size_t i = b->n_leaves; i < b->n; i++) {
        mongo_member *enters = b->members[i];
        if (!record->exists || strcmp(enters->name, record->name) != 0)
            continue;
        record_copy(enters->out, record);
        enters->is_read = true;
        enters->reply.confirmed = record_find(record, enters->step->enter->entry.ticket) != NULL;
        mongo_bells_tell(b->store, record, enters->step, b->stamp);
    }
    return true;
}

/* One look shows the outcome of the enters, and whom the leaves granted. A step that the look does
 * not show goes by itself once more, which changes nothing if it was done. After an answer without
 * a stamp there is no look. */
static void settle_enters(mongo_store *store, batch *b, hf_stamp stamp)
{
    const char *names[MONGO_BATCH_MOST];
    hf_error err;
    size_t n = 0;
    b->stamp = stamp;
    for (; n < b->n_leaves; n++)
        names[n] = b->left[n];
    for (size_t i = b->n_leaves; i < b->n; i++) {
        names[n++] = b->members[i]->name;
        b->members[i]->reply = (hf_step_reply){.stamp = stamp};
    }
    if (n && stamp.value)
        mongo_look(&store->base, names, n, stamp, false, hand_out, b, &err);
    for (size_t i = b->n_leaves; i < b->n; i++)
        settle(store, b, i, b->members[i]->is_read ? MEMBER_DONE : MEMBER_AGAIN, HF_OK);
}

static void settle_unknown(mongo_store *store, batch *b, const hf_error *why)
{
    hf_error err;
    error_set(&err, HF_UNKNOWN, "%s", why->text);
    settle_all(store, b, MEMBER_DONE, HF_UNKNOWN, &err);
}

/* A statement failed, and those before it were done. The first statement is the demand. */
static void settle_stopped(mongo_store *store, batch *b, bool is_first, const hf_error *err)
{
    if (is_first && b->n_leaves) {
        settle_all(store, b, MEMBER_ALONE, HF_OK, err);
        return;
    }
    settle_leaves(store, b, false, (hf_stamp){0});
    settle_all(store, b, MEMBER_AGAIN, HF_OK, err);
}

/* An error that proves that a single step was not done proves nothing for several: it may have come
 * in the middle. */
static void settle_failed(mongo_store *store, batch *b, const mongo_reply *answer, hf_code code,
                          const hf_error *err)
{
    int64_t statement = mongo_int_at(&answer->doc, "writeErrors.0.index", -1);
    if (code == HF_UNKNOWN || (code == HF_UNREACHABLE && answer->server_code))
        settle_unknown(store, b, err);
    else if (bson_has_field(&answer->doc, "writeErrors"))
        settle_stopped(store, b, statement == 0, err);
    else
        settle_all(store, b, MEMBER_DONE, code, err);
}

static void settle_done(mongo_store *store, batch *b, const mongo_reply *answer)
{
    bool all = mongo_int_at(&answer->doc, "nModified", 0) == (int64_t)b->n;
    for (size_t i = 0; i < b->n_leaves; i++)
        b->left[i] = alloc_text(b->members[i]->name);
    settle_leaves(store, b, all, answer->stamp);
    settle_enters(store, b, answer->stamp);
    for (size_t i = 0; i < b->n_leaves; i++)
        free(b->left[i]);
}

void mongo_batch_send(mongo_store *store, mongo_member *const *members, size_t n)
{
    bson_t command = BSON_INITIALIZER;
    batch b = {.store = store};
    mongo_reply answer;
    hf_error err;
    sort(&b, members, n);
    append_command(store, &b, &command);
    hf_code code = mongo_run(store, &call, &command, &answer, &err);
    if (code)
        settle_failed(store, &b, &answer, code, &err);
    else
        settle_done(store, &b, &answer);
    bson_destroy(&answer.doc);
    bson_destroy(&command);
}
