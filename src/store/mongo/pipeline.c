/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.c: writes a step as an update pipeline that says exactly what core/record.c says; called
 * by queue.c for each step, and by session.c for its own texts. tests/differential compares.
 *
 * The text is made of the parts below; `@x` stands for the part of that letter, chosen by what the
 * step has in it, and ' for ". Everything from outside is in one $literal, the variable x, made by
 * pipeline_values.c:
 *   {now, floor}                              where they are given
 *   {new, limit, bound, note, asks, entry}    the entrant; bound: of the queue, for this one; new:
 *                                             the record, where there is none; asks: its ticket
 *   {replaces}                                the holder whose place the entrant wants
 *   {change: {ticket, permits}}               the holder that has less from now on
 *   {pass: {ticket, to: {ticket, session, ttl_ms, token, yields, block}}}    the holder whose place
 *                                             goes over, and what changes with that
 *   {ticket, mark, used, done}                the only leave; mark: `last` as it leaves it; used:
 *                                             the last token that was used; done: the same of
 *                                             `done`
 *   {tickets, dead, marks: [{ticket | dead, mark, used, done}]}    several leaves, or deaths
 * so each text is made only once.
 */
#include "store/mongo/pipeline.h"

#include "core/id.h"
#include "core/plant.h"

#include <assert.h>
#include <string.h>

/* ---- The text ---- */

/* Is the document of our shape? Where it is not, most of these are errors of the server, which
 * leave the document as it is, as does an absent limit or token (null is below 1). */
static const char ours[] = "{'$gte': [{'$add': ['$limit', '$token', {'$strLenBytes': '$notify'},"
                           " {'$size': '$holders'}, {'$size': '$queue'}]}, 1]}";

static const char stays_one[] = "{'$ne': ['$$this.ticket', '$$x.ticket']}";
static const char stays_many[] = "{'$not': [{'$or': [{'$in': ['$$this.ticket', '$$x.tickets']},"
                                 " {'$in': ['$$this.session', '$$x.dead']}]}]}";

/* I6: `abandoned` is overwritten only by a holder with a higher token. */
static const char rises[] = "{'$or': [{'$ne': ['$$value.outcome', 'abandoned']},"
                            " {'$gt': [@u, '$$value.token']}]}";

static const char last_one[] =
    ", 'last': {'$reduce': {'input': '$holders', 'initialValue': '$last', 'in': {'$cond': ["
    "{'$and': [{'$eq': ['$$this.ticket', '$$x.ticket']}, @i]},"
    " {'$mergeObjects': ['$$x.mark', @w]}, '$$value']}}}";

/* The mark of a holder that goes. */
static const char gone[] =
    "'gone': {'$arrayElemAt': [{'$filter': {"
    "'input': '$$x.marks', 'as': 'm', 'cond': {'$or': [{'$eq': ['$$m.ticket', '$$this.ticket']},"
    " {'$eq': ['$$m.dead', '$$this.session']}]}}}, 0]}";

static const char last_many[] =
    ", 'last': {'$reduce': {'input': {'$filter': {'input': '$holders', 'cond': {'$not': [@s]}}},"
    " 'initialValue': '$last', 'in': {'$let': {'vars': {@p}, 'in': {'$cond': ["
    "{'$and': ['$$gone.mark', @i]}, {'$mergeObjects': ['$$gone.mark', @w]}, '$$value']}}}}}";

/* Work of a period that is not over yet stays, unless work of a period takes its place (I9). */
static const char gives_way[] = "{'$or': [{'$isNumber': '@8.done.period_end'},"
                                " {'$not': [{'$gt': ['$$value.period_end', {'$toLong': @n}]}]}]}";

static const char done_one[] =
    ", 'done': {'$reduce': {'input': '$holders', 'initialValue': '$done', 'in': {'$cond': ["
    "{'$and': [{'$eq': ['$$this.ticket', '$$x.ticket']}, @6]},"
    " {'$mergeObjects': ['$$x.done', {'token': @u, 'at': @n}]}, '$$value']}}}";

static const char done_many[] =
    ", 'done': {'$reduce': {'input': {'$filter': {'input': '$holders', 'cond': {'$not': [@s]}}},"
    " 'initialValue': '$done', 'in': {'$let': {'vars': {@p}, 'in': {'$cond': ["
    "{'$and': ['$$gone.done', @6]},"
    " {'$mergeObjects': ['$$gone.done', {'token': @u, 'at': @n}]}, '$$value']}}}}}";

static const char whose[] = "{'session': '$$this.session', 'token': @u, 'at': @n}";

/* What a holder has not used of its tokens it gives back, if nothing was given since. */
static const char last_token[] =
    "{'$add': ['$$this.token', {'$max': [{'$subtract': ['$$this.block', 1]}, 0]}]}";
static const char given_back_one[] =
    "{'$reduce': {'input': '$holders', 'initialValue': '$token', 'in': {'$cond': [{'$and': ["
    "{'$eq': ['$$this.ticket', '$$x.ticket']}, {'$gte': ['$$x.used', '$$this.token']},"
    " {'$lte': ['$$x.used', '$$value']}, {'$eq': [@v, '$$value']}]}, '$$x.used', '$$value']}}}";
static const char given_back_many[] =
    "{'$reduce': {'input': '$holders', 'initialValue': '$token', 'in': {'$let': {'vars': {@p},"
    " 'in': {'$cond': [{'$and': [{'$gte': ['$$gone.used', '$$this.token']},"
    " {'$lte': ['$$gone.used', '$$value']}, {'$eq': [@v, '$$value']}]},"
    " '$$gone.used', '$$value']}}}}}";

/* Where the lease stands already that a pass makes, the other calls' tickets go. */
static const char stays_beside[] =
    "{'$and': [@9, {'$or': [{'$ne': ['$$this.ticket', '$$x.pass.ticket']},"
    " {'$eq': ['$$x.pass.ticket', '$$x.pass.to.ticket']},"
    " {'$not': [{'$in': ['$$x.pass.to.ticket',"
    " {'$concatArrays': ['$holders.ticket', '$queue.ticket']}]}]}]}]}";

static const char stayers[] = "{'$filter': {'input': '$holders', 'cond': @s}}";
static const char waiters[] = "{'$filter': {'input': '$queue', 'cond': @s}}";

/* Permits are lowered, never raised. */
static const char lowered[] =
    "{'$map': {'input': @1, 'in': {'$cond': [{'$and': ["
    "{'$eq': ['$$this.ticket', '$$x.change.ticket']},"
    " {'$gt': ['$$this.permits', '$$x.change.permits']}]},"
    " {'$mergeObjects': ['$$this', {'permits': '$$x.change.permits'}]}, '$$this']}}}";

/* Not where that ticket is there already, or was the last to leave. */
static const char passed[] =
    "{'$map': {'input': @4, 'in': {'$cond': [{'$and': ["
    "{'$eq': ['$$this.ticket', '$$x.pass.ticket']}, {'$not': [{'$in': ['$$x.pass.to.ticket',"
    " {'$concatArrays': ['$holders.ticket', '$queue.ticket']}]}]},"
    " {'$ne': ['$last.session', '$$x.pass.to.session']}]},"
    " {'$mergeObjects': ['$$this', '$$x.pass.to']}, '$$this']}}}";

/* Leaves, deaths, a change and a pass, then the grant; the result is the whole record. */
static const char edit[] = "{'$let': {'vars': {'h': @2, 'q': @3@l@7}, 'in': @g}}";

/* The fold over the queue from its head (I3, I4); after the first that does not fit, none does.
 * end: the first token that is above the floor. Where somebody waits a token was given before. */
static const char grant[] =
    "{'$let': {'vars': {'fold': {'$reduce': {'input': '$$q', 'initialValue': {'n': 0,"
    " 'sum': {'$sum': '$$h.permits'}, 'holders': '$$h', 'token': @j, 'notify': '', 'end': {'$add': "
    "[@f, 1]}},"
    " 'in': {'$cond': [{'$lte': [{'$add': ['$$value.sum', '$$this.permits']}, '$limit']},"
    " {'$let': {'vars': {'token': {'$toLong': {'$max': [{'$add': ['$$value.token', 1]},"
    " {'$subtract': ['$$value.end', 1048577]}]}}},"
    " 'in': {'$let': {'vars': {'block': {'$toInt': {'$min': [{'$ifNull': ['$$this.block', 0]},"
    " {'$max': [{'$subtract': [{'$add': ['$$value.end', '$$value.n', 1]},"
    " {'$add': ['$$token', {'$size': '$$q'}]}]}, 1]}]}}},"
    " 'in': {'end': '$$value.end', 'n': {'$add': ['$$value.n', 1]}, 'sum': {'$add': "
    "['$$value.sum', '$$this.permits']},"
    " 'holders': {'$concatArrays': ['$$value.holders', [{'$mergeObjects': ['$$this',"
    " {'token': '$$token', 'block': '$$block', 'granted_at': @n}]}]]},"
    " 'token': {'$max': ['$$token', {'$add': ['$$token', '$$block', -1]}]},"
    " 'notify': {'$concat': ['$$value.notify', {'$cond': [{'$and': ['$$this.yields',"
    " {'$lt': [{'$add': ['$$value.n', 1]}, {'$size': '$$q'}]}]},"
    " {'$concat': [' ', {'$toString': '$$this.session'}, ':recall:', {'$toString': {'$let': {"
    "'vars': {'next': {'$arrayElemAt': ['$$q', {'$add': ['$$value.n', 1]}]}},"
    " 'in': '$$next.ticket'}}}]}, '']}, ' ', {'$toString': '$$this.session'}, ':',"
    " {'$toString': '$$this.ticket'}, ':', {'$toString': '$$token'}, @b]}}}}}},"
    " {'$mergeObjects': ['$$value', {'sum': 4294967296}]}]}}}},"
    " 'in': {'$mergeObjects': ['$$ROOT'@m@0, {'holders': '$$fold.holders',"
    " 'queue': {'$slice': ['$$q', '$$fold.n', 1000]}, 'token': '$$fold.token',"
    " 'notify': {'$cond': [{'$eq': ['$$fold.n', 0]}, '$notify',"
    " {'$ltrim': {'input': '$$fold.notify'}}]}}]}}}";

static const char with_last[] = ", {'last': '$$last'}";
static const char with_done[] = ", {'done': '$$done'}";

/* The entrant, judged against the record r. If it queues behind others, or does not fit, the second
 * fold grants nothing (its head has just been refused), so there is none. And with no edit there is
 * no first one: each step leaves a queue whose head does not fit. Two arrays of entries are equal
 * only when both are empty: nobody holds or waits, and the entrant's limit counts. */
static const char admit[] =
    "{'$mergeObjects': ['$$r', {'$cond': [{'$and': ["
    "{'$gte': [{'$add': ['$$r.limit', '$$r.token', {'$strLenBytes': '$$r.notify'}]}, 1]},"
    " {'$or': [{'$eq': ['$$r.limit', '$$x.limit']}, {'$eq': ['$$r.holders', '$$r.queue']}]},"
    " {'$allElementsTrue': [{'$map': {'input': {'$concatArrays': ['$$r.holders', '$$r.queue']},"
    " 'in': @z}}]},"
    " {'$lt': [{'$size': '$$r.queue'},"
    " {'$min': ['$$x.bound', {'$subtract': [1000, {'$size': '$$r.holders'}]}]}]}@t]}, @y, {}]}]}";

/* An entry beside which the entrant may stand: not its own, and none that would keep it from
 * leaving again. */
static const char neighbour[] = "{'$and': [{'$ne': ['$$this.ticket', '$$x.entry.ticket']},"
                                " {'$isNumber': '$$this.permits'}]}";

/* It is granted at once when nobody waits and it fits. */
static const char fits[] =
    "{'$eq': ['$$r.queue', []]}, {'$lte': [{'$add': [{'$sum': '$$r.holders.permits'},"
    " '$$x.entry.permits']}, '$$x.limit']}";

/* Planted: whoever waits is passed. */
static const char overtakes[] =
    "{'$lte': [{'$add': [{'$sum': '$$r.holders.permits'}, '$$x.entry.permits']}, '$$x.limit']}";

static const char try_fits[] = ", @h";
static const char wait[] = "{'$cond': [{'$and': [@h]}, @k, @q]}";

/* A record that has given no token yet begins at the floor. */
static const char taken[] =
    "{'$let': {'vars': {'token': {'$toLong': {'$max': [{'$add': ['$$r.token', 1]}, {'$subtract': ["
    "@f, {'$cond': [{'$lt': ['$$r.token', 1]}, 0, 1048576]}]}]}}}, 'in': @5}}";

static const char taken_one[] =
    "{'limit': '$$x.limit', 'token': '$$token', 'holders': {'$concatArrays': ['$$r.holders',"
    " [{'$mergeObjects': ['$$x.entry', {'since': @n, 'token': '$$token', 'granted_at': @n}]}]]},"
    " 'notify': {'$concat': [@c'$$x.note', {'$toString': '$$token'}]}}";

static const char taken_block[] =
    "{'$let': {'vars': {'block': {'$toInt': {'$min': ['$$x.entry.block', {'$max': [1,"
    " {'$add': [1, {'$subtract': [@f, '$$token']}]}]}]}}}, 'in': {"
    "'limit': '$$x.limit', 'token': {'$add': ['$$token', '$$block', -1]},"
    " 'holders': {'$concatArrays': ['$$r.holders', [{'$mergeObjects': ['$$x.entry',"
    " {'since': @n, 'token': '$$token', 'block': '$$block', 'granted_at': @n}]}]]},"
    " 'notify': {'$concat': [@c'$$x.note', {'$toString': '$$token'}, @b]}}}}";

static const char told_block[] = "{'$cond': [{'$gt': ['$$block', 1]}, {'$concat': [':',"
                                 " {'$toString': '$$block'}]}, '']}";

static const char queued[] = "{'queue': {'$concatArrays': ['$$r.queue',"
                             " [{'$mergeObjects': ['$$x.entry', {'since': @n}]}]]}@r}";

/* Whoever comes to the head of the queue recalls the holders that yield. */
static const char recalls[] =
    ", 'notify': {'$let': {'vars': {'recalls': {'$ltrim': {'input': {'$reduce': {'input': "
    "{'$cond': ["
    "{'$eq': ['$$r.queue', []]}, {'$filter': {'input': '$$r.holders', 'cond': '$$this.yields'}},"
    " []]}, 'initialValue': '', 'in': {'$concat': ['$$value', ' ', {'$toString':"
    " '$$this.session'}, ':recall:', '$$x.asks']}}}}}}, 'in': {'$cond': ["
    "{'$eq': ['$$recalls', '']}, '$$r.notify', {'$concat': [@c'$$recalls']}]}}}";

/* An upgrade: as if the holder whose place it wants were gone; if it does not fit then, the record
 * stays as it was. */
static const char upgrade[] =
    "{'$let': {'vars': {'was': '$$r', 'r': {'$mergeObjects': ['$$r', {'holders': {'$filter': {"
    "'input': '$$r.holders', 'cond': {'$ne': ['$$this.ticket', '$$x.replaces']}}}}]}},"
    " 'in': {'$cond': [{'$and': ["
    "{'$gte': [{'$add': ['$$r.limit', '$$r.token', {'$strLenBytes': '$$r.notify'}]}, 1]},"
    " {'$eq': ['$$r.limit', '$$x.limit']}, {'$ne': ['$$r.holders', '$$was.holders']},"
    " {'$allElementsTrue': [{'$map': {'input': '$$was.holders', 'in': @z}}]}, @h]},"
    " {'$mergeObjects': ['$$r', @k]}, '$$was']}}}";

/* What the edit of the same step granted comes first. */
static const char noted[] =
    "{'$cond': [{'$in': ['$$r.notify', ['', '$notify']]}, '', {'$concat': ['$$r.notify', ' ']}]}, ";

static const char only_edit[] = "{'$cond': [@o, @e, '$$ROOT']}";

/* An upsert's new document has nothing but its _id: it begins as an empty record. An entrant that
 * no record can take leaves it at that. */
static const char with_enter[] =
    "{'$let': {'vars': {'r': {'$cond': [{'$eq': ['$$ROOT', {'_id': '$_id'}]}, '$$x.new', @d]}},"
    " 'in': @a}}";

/* ---- Which parts ---- */

typedef enum edit_kind { EDIT_NONE, EDIT_ONE, EDIT_MANY } edit_kind;
typedef enum enter_kind {
    ENTER_NONE,
    ENTER_WAIT,
    ENTER_TRY,
    ENTER_UPGRADE,
    ENTER_REFUSED
} enter_kind;
typedef enum floor_kind { FLOOR_CLUSTER, FLOOR_SECONDS, FLOOR_WALL, FLOOR_GIVEN } floor_kind;

typedef struct variant {
    edit_kind edit;
    enter_kind enter;
    floor_kind floor;
    bool has_now, has_last, has_used, has_done, has_change, has_pass, has_block;
} variant;

static enter_kind enter_kind_of(const hf_enter *enter)
{
    if (!enter)
        return ENTER_NONE;
    if (enter->entry.permits > enter->limit)
        return ENTER_REFUSED;
    if (!id_is_zero(enter->replaces))
        return ENTER_UPGRADE;
    if (pipeline_bound(enter) < 1)
        return ENTER_REFUSED;
    return enter->try_only ? ENTER_TRY : ENTER_WAIT;
}

static variant variant_of(const hf_step *step, pipeline_clock clock)
{
    variant v = {.enter = enter_kind_of(step->enter),
                 .floor = step->floor ? FLOOR_GIVEN : (floor_kind)clock,
                 .has_now = step->now != NULL,
                 .has_last = step->n_deaths > 0,
                 .has_change = step->change && step->change->permits > 0,
                 .has_pass = step->pass != NULL,
                 .has_block = step->enter && step->enter->entry.block > 1};
    if (step->n_leaves + step->n_deaths > 0)
        v.edit = pipeline_is_single(step) ? EDIT_ONE : EDIT_MANY;
    for (size_t i = 0; i < step->n_leaves; i++)
        v.has_last |= step->leaves[i].told;
    for (size_t i = 0; i < step->n_leaves; i++)
        v.has_used |= step->leaves[i].used_token > 0;
    for (size_t i = 0; i < step->n_leaves; i++)
        v.has_done |= pipeline_is_done(&step->leaves[i]);
    return v;
}

static size_t index_of(variant v)
{
    return (size_t)v.edit | (size_t)v.enter << 2 | (size_t)v.floor << 5 | (size_t)v.has_now << 7 |
           (size_t)v.has_last << 8 | (size_t)v.has_used << 9 | (size_t)v.has_change << 10 |
           (size_t)v.has_pass << 11 | (size_t)v.has_block << 12 | (size_t)v.has_done << 13;
}

static const char *floor_text(floor_kind kind)
{
    if (PLANTED(NO_FLOOR) && kind != FLOOR_GIVEN)
        return "1";
    switch (kind) {
    case FLOOR_CLUSTER:
        return "{'$add': [{'$multiply': [{'$tsSecond': '$$CLUSTER_TIME'}, 1048576]},"
               " {'$tsIncrement': '$$CLUSTER_TIME'}]}";
    case FLOOR_SECONDS:
        return "{'$multiply': [{'$divide': [{'$toLong': {'$toDate': '$$CLUSTER_TIME'}}, 1000]},"
               " 1048576]}";
    case FLOOR_WALL: /* record_floor_of() */
        return "{'$multiply': [{'$toLong': '$$NOW'}, 1048]}";
    case FLOOR_GIVEN:
        break;
    }
    return "'$$x.floor'";
}

typedef struct parts {
    const char *of[128]; /* by letter */
} parts;

static void choose_edit(parts *p, variant v)
{
    p->of['9'] = v.edit == EDIT_MANY ? stays_many : v.edit == EDIT_ONE ? stays_one : "true";
    p->of['s'] = v.has_pass ? stays_beside : p->of['9'];
    bool is_left = v.edit || v.has_pass;
    p->of['1'] = is_left ? stayers : "'$holders'";
    p->of['4'] = v.has_change ? lowered : p->of['1'];
    p->of['2'] = v.has_pass ? passed : p->of['4'];
    p->of['3'] = is_left ? waiters : "'$queue'";
    p->of['l'] = !v.has_last ? "" : v.edit == EDIT_MANY ? last_many : last_one;
    p->of['m'] = v.has_last ? with_last : "";
    p->of['7'] = !v.has_done ? "" : v.edit == EDIT_MANY ? done_many : done_one;
    p->of['0'] = v.has_done ? with_done : "";
    p->of['6'] = gives_way;
    p->of['8'] = v.edit == EDIT_MANY ? "$$gone" : "$$x";
    p->of['i'] = PLANTED(ABANDONED_FORGOTTEN) ? "true" : rises;
    p->of['w'] = whose;
    p->of['p'] = gone;
    p->of['v'] = last_token;
    p->of['u'] = !v.has_used           ? "'$$this.token'"
                 : v.edit == EDIT_MANY ? "{'$max': ['$$this.token', '$$gone.used']}"
                                       : "{'$max': ['$$this.token', '$$x.used']}";
    p->of['j'] = !v.has_used ? "'$token'" : v.edit == EDIT_MANY ? given_back_many : given_back_one;
    p->of['o'] = ours;
    p->of['e'] = edit;
    p->of['g'] = grant;
}

static void choose_enter(parts *p, variant v)
{
    bool is_edited = v.edit || v.has_change || v.has_pass;
    p->of['d'] = is_edited ? only_edit : "'$$ROOT'";
    p->of['a'] = v.enter == ENTER_REFUSED ? "'$$r'" : v.enter == ENTER_UPGRADE ? upgrade : admit;
    p->of['t'] = v.enter == ENTER_TRY ? try_fits : "";
    p->of['y'] = v.enter == ENTER_TRY ? taken : wait;
    p->of['z'] = neighbour;
    p->of['h'] = PLANTED(READER_BEFORE_WRITER) ? overtakes : fits;
    p->of['k'] = taken;
    p->of['5'] = v.has_block ? taken_block : taken_one;
    p->of['q'] = queued;
    p->of['r'] = recalls;
    p->of['c'] = is_edited ? noted : "";
}

static parts choose(variant v)
{
    parts p = {.of = {NULL}};
    choose_edit(&p, v);
    choose_enter(&p, v);
    p.of['n'] = v.has_now ? "'$$x.now'" : "'$$NOW'";
    p.of['f'] = floor_text(v.floor);
    p.of['b'] = told_block;
    return p;
}

static void expand(bson_string_t *out, const parts *p, const char *text)
{
    for (; *text; text++)
        if (*text == '@')
            expand(out, p, p->of[(unsigned char)*++text]);
        else
            bson_string_append_c(out, *text == '\'' ? '"' : *text);
}

static bson_t *make(const char *text, const parts *p)
{
    bson_error_t error;
    bson_string_t *json = bson_string_new(NULL);
    expand(json, p, text);
    bson_t *body = bson_new_from_json((const uint8_t *)json->str, -1, &error);
    assert(body);
    bson_string_free(json, true);
    return body;
}

static const bson_t *text_of(pipeline_texts *texts, variant v)
{
    size_t i = index_of(v);
    pthread_mutex_lock(&texts->mutex);
    if (!texts->made[i]) {
        parts p = choose(v);
        texts->made[i] = make(v.enter ? with_enter : only_edit, &p);
    }
    const bson_t *body = texts->made[i];
    pthread_mutex_unlock(&texts->mutex);
    return body;
}

void pipeline_init(pipeline_texts *texts)
{
    memset(texts->made, 0, sizeof texts->made);
    pthread_mutex_init(&texts->mutex, NULL);
}

void pipeline_done(pipeline_texts *texts)
{
    for (size_t i = 0; i < PIPELINE_VARIANTS; i++)
        bson_destroy(texts->made[i]);
    pthread_mutex_destroy(&texts->mutex);
}

/* [{$replaceWith: {$let: {vars: vars, in: body}}}] */
static void append_let(bson_t *command, const char *field, const bson_t *vars, const bson_t *body)
{
    bson_t stages, stage, replace, let;
    BSON_APPEND_ARRAY_BEGIN(command, field, &stages);
    BSON_APPEND_DOCUMENT_BEGIN(&stages, "0", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$replaceWith", &replace);
    BSON_APPEND_DOCUMENT_BEGIN(&replace, "$let", &let);
    BSON_APPEND_DOCUMENT(&let, "vars", vars);
    BSON_APPEND_DOCUMENT(&let, "in", body);
    bson_append_document_end(&replace, &let);
    bson_append_document_end(&stage, &replace);
    bson_append_document_end(&stages, &stage);
    bson_append_array_end(command, &stages);
}

/* vars: {x: {$literal: x}} */
static void append(bson_t *command, const char *field, const bson_t *body, const bson_t *x)
{
    bson_t vars = BSON_INITIALIZER, literal;
    BSON_APPEND_DOCUMENT_BEGIN(&vars, PLANTED(NO_LITERAL) ? "y" : "x", &literal);
    BSON_APPEND_DOCUMENT(&literal, "$literal", x);
    bson_append_document_end(&vars, &literal);
    if (PLANTED(NO_LITERAL))
        BSON_APPEND_DOCUMENT(&vars, "x", x);
    append_let(command, field, &vars, body);
    bson_destroy(&vars);
}

void pipeline_append(pipeline_texts *texts, pipeline_clock clock, const char *name,
                     const hf_step *step, bson_t *command, const char *field)
{
    bson_t x;
    pipeline_values(name, step, &x);
    append(command, field, text_of(texts, variant_of(step, clock)), &x);
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
    append_let(command, field, &vars, text_of(texts, variant_of(items[0].step, clock)));
    bson_destroy(&vars);
}

/* Not a number, and no constant, which the server would work out when it reads the text. */
static const char demand[] =
    "{'$cond': [{'$in': ['$$x.ticket', {'$concatArrays': ['$holders.ticket', '$queue.ticket']}]},"
    " '$$ROOT', {'$toInt': {'$concat': ['the ticket is not in ', '$_id']}}]}";

void pipeline_append_demand(const pipeline_item *items, size_t n, bson_t *command,
                            const char *field)
{
    bson_t vars, *body = pipeline_json(demand);
    values_of_each(&vars, items, n);
    append_let(command, field, &vars, body);
    bson_destroy(&vars);
    bson_destroy(body);
}

bson_t *pipeline_json(const char *text)
{
    parts none = {.of = {NULL}};
    return make(text, &none);
}

void pipeline_append_text(bson_t *command, const char *field, const char *text, const bson_t *x)
{
    bson_t *body = pipeline_json(text);
    append(command, field, body, x);
    bson_destroy(body);
}
