/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.c: writes a step as an update pipeline that says exactly what core/record.c says; called
 * by step.c and batch.c. The expression is made by pipeline_text.c, once for each kind of
 * step. Everything from outside is in one $literal, the variable x, made by pipeline_values.c:
 *   {now, floor}                              where they are given
 *   {new, limit, bound, note, asks, entry}    the entrant; bound: of the queue; new: the record,
 *                                             where there is none; asks: its ticket
 *   {nested}                                  true: it stands in the queue, whatever its number
 *   {skips}                                   its entry has a number; those outside are skipped if
 *                                             the record has reached no more than this
 *   {replaces}                                the holder whose place the entrant wants
 *   {change: {ticket, permits}}               the holder that has less from now on
 *   {pass: {ticket, to: {ticket, session, ttl_ms, token, yields, block, why, actor}}}
 *                                             the holder whose place goes over, and what changes
 *   {ticket, mark, used, done}                the only leave, or the one before a pass
 *   {tickets, dead, marks: [{ticket | dead, mark, used, done}]}
 *                                             several leaves, or deaths
 * mark is `last`, and done is `done`, as the leave writes it; used is the last token that was used.
 */
#include "store/mongo/queue/pipeline.h"

#include "core/id.h"
#include "core/record.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/pipeline_text.h"
#include "store/mongo/queue/pipeline_values.h"
#include "sync/mutex_scope.h"

#include <string.h>

/* ---- Which text ---- */

/* What `last` and `done` come to say. */
static void tells(pipeline_variant *v, const hf_leave *leave)
{
    v->has_last |= leave->told;
    v->has_used |= leave->used_token > 0;
    v->has_done |= pipeline_is_done(leave);
}

static pipeline_enter kind_of(const hf_enter *enter)
{
    if (!enter)
        return PIPELINE_ENTERS_NOT;
    if (enter->entry.permits > enter->limit)
        return PIPELINE_IS_REFUSED;
    if (!id_is_zero(enter->replaces))
        return PIPELINE_UPGRADES;
    if (enter->try_only)
        return PIPELINE_TRIES;
    if (enter->number)
        return PIPELINE_HAS_NUMBER;
    return enter->wants_number ? PIPELINE_WANTS_NUMBER : PIPELINE_WAITS;
}

static pipeline_variant variant_of(const hf_step *step, pipeline_clock clock)
{
    pipeline_variant v = {.enter = kind_of(step->enter),
                          .floor = step->floor ? PIPELINE_FLOOR_GIVEN : (pipeline_floor)clock,
                          .has_now = step->now != NULL,
                          .has_last = step->n_deaths > 0,
                          .has_change = step->change && step->change->permits > 0,
                          .has_pass = step->pass != NULL,
                          .has_block = step->enter && step->enter->entry.block > 1,
                          .sets_limit = step->enter && record_sets_limit(step->enter)};
    if (step->n_leaves + step->n_deaths > 0)
        v.edit = pipeline_is_single(step) ? PIPELINE_EDITS_ONE : PIPELINE_EDITS_MANY;
    for (size_t i = 0; i < step->n_leaves; i++)
        tells(&v, &step->leaves[i]);
    if (step->pass && step->pass->before)
        tells(&v, step->pass->before);
    return v;
}

static size_t index_of(pipeline_variant v)
{
    return (size_t)v.edit | (size_t)v.enter << 2 | (size_t)v.floor << 5 | (size_t)v.has_now << 7 |
           (size_t)v.has_last << 8 | (size_t)v.has_used << 9 | (size_t)v.has_change << 10 |
           (size_t)v.has_pass << 11 | (size_t)v.has_block << 12 | (size_t)v.has_done << 13 |
           (size_t)v.sets_limit << 14;
}

static const bson_t *text_of(pipeline_texts *texts, pipeline_variant v)
{
    size_t i = index_of(v);
    MUTEX_SCOPE(&texts->mutex);
    if (!texts->made[i])
        texts->made[i] = pipeline_make(&v);
    return texts->made[i];
}

void pipeline_init(pipeline_texts *texts)
{
    pthread_mutex_init(&texts->mutex, NULL);
}

void pipeline_done(pipeline_texts *texts)
{
    for (size_t i = 0; i < PIPELINE_VARIANTS; i++)
        bson_destroy(texts->made[i]);
    pthread_mutex_destroy(&texts->mutex);
}

void pipeline_append(pipeline_texts *texts, pipeline_clock clock, const char *name,
                     const hf_step *step, bson_t *command, const char *field)
{
    bson_t x;
    pipeline_values(name, step, &x);
    pipeline_append_body(command, field, text_of(texts, variant_of(step, clock)), &x);
    bson_destroy(&x);
}

/* ---- One text for several documents ---- */

size_t pipeline_text(pipeline_clock clock, const hf_step *step)
{
    return index_of(variant_of(step, clock));
}

static void append_values(bson_t *array, const pipeline_item *items, size_t n)
{
    bson_t literal, x;
    char key[16];
    BSON_APPEND_ARRAY_BEGIN(array, "$literal", &literal);
    for (size_t i = 0; i < n; i++) {
        pipeline_values(items[i].name, items[i].step, &x);
        BSON_APPEND_DOCUMENT(&literal, pipeline_key(i, key), &x);
        bson_destroy(&x);
    }
    bson_append_array_end(array, &literal);
}

/* {$indexOfArray: [names, "$_id"]} */
static void append_index(bson_t *at, const pipeline_item *items, size_t n)
{
    bson_t index, names, literal;
    char key[16];
    BSON_APPEND_ARRAY_BEGIN(at, "$indexOfArray", &index);
    BSON_APPEND_DOCUMENT_BEGIN(&index, "0", &names);
    BSON_APPEND_ARRAY_BEGIN(&names, "$literal", &literal);
    for (size_t i = 0; i < n; i++)
        BSON_APPEND_UTF8(&literal, pipeline_key(i, key), items[i].name);
    bson_append_array_end(&names, &literal);
    bson_append_document_end(&index, &names);
    BSON_APPEND_UTF8(&index, "1", "$_id");
    bson_append_array_end(at, &index);
}

/* {x: {$arrayElemAt: [values, index]}}: each document finds its own. */
static void values_of_each(bson_t *vars, const pipeline_item *items, size_t n)
{
    bson_t x, pair, part;
    bson_init(vars);
    BSON_APPEND_DOCUMENT_BEGIN(vars, "x", &x);
    BSON_APPEND_ARRAY_BEGIN(&x, "$arrayElemAt", &pair);
    BSON_APPEND_DOCUMENT_BEGIN(&pair, "0", &part);
    append_values(&part, items, n);
    bson_append_document_end(&pair, &part);
    BSON_APPEND_DOCUMENT_BEGIN(&pair, "1", &part);
    append_index(&part, items, n);
    bson_append_document_end(&pair, &part);
    bson_append_array_end(&x, &pair);
    bson_append_document_end(vars, &x);
}

void pipeline_append_each(pipeline_texts *texts, pipeline_clock clock, const pipeline_item *items,
                          size_t n, bson_t *command, const char *field)
{
    bson_t vars;
    values_of_each(&vars, items, n);
    pipeline_append_let(command, field, &vars, text_of(texts, variant_of(items[0].step, clock)));
    bson_destroy(&vars);
}

/* Not a number, and not a constant, which the server would evaluate when it parses the text. */
static const char demand[] =
    "{'$cond': [{'$in': ['$$x.ticket', {'$concatArrays': ['$holders.ticket', '$queue.ticket']}]},"
    " '$$ROOT', {'$toInt': {'$concat': ['the ticket is not in ', '$_id']}}]}";

void pipeline_append_demand(const pipeline_item *items, size_t n, bson_t *command,
                            const char *field)
{
    bson_t vars, *body = pipeline_json(demand);
    values_of_each(&vars, items, n);
    pipeline_append_let(command, field, &vars, body);
    bson_destroy(&vars);
    bson_destroy(body);
}
