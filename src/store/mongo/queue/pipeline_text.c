/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_text.c: a step as an expression of MongoDB's aggregation, in the order of core/record.c.
 * The parts have the names of its functions. Called by pipeline.c. tests/differential compares the
 * two.
 *
 * ' stands for ", and @name for the part of that name; choose() picks the parts that the step
 * needs. $$x has the values from outside (pipeline_values.c). $$r is the record after the edit; $$h
 * and $$q are its holders and queue while the expression changes them. $$this and $$value are an
 * element and the result so far, in a $filter, $map or $reduce.
 */
#include "store/mongo/queue/pipeline_text.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/text.h"

#include <assert.h>
#include <string.h>

/* clang-format off: the lines are indented as the expressions are nested. */

/* ---- The document ---- */

/* Does the document have our form? If not, most of these conditions are errors of the server, which
 * leave the document unchanged. An absent limit or token is none (null is below 1), hence odd: what
 * has no effect must not look like a step that was made. */
static const char is_ours[] =
    "{'$gte': [{'$add': ['$limit', '$token', {'$strLenBytes': '$notify'},"
    "                    {'$size': '$holders'}, {'$size': '$queue'}]}, 1]}";

static const char tickets[] = "{'$concatArrays': ['$holders.ticket', '$queue.ticket']}";

/* ---- edit(): leaves and deaths; what is left of holders and queue ---- */

static const char one_stays[] = "{'$ne': ['$$this.ticket', '$$x.ticket']}";

static const char all_stay[] = "{'$not': [{'$or': [{'$in': ['$$this.ticket', '$$x.tickets']},"
                               "                   {'$in': ['$$this.session', '$$x.dead']}]}]}";

/* is_superfluous(): if the ID lease that a pass makes stands already, the tickets of other calls
 * are taken out. */
static const char stays_beside_lease[] =
    "{'$and': [@stays_itself,"
    "          {'$or': [{'$ne': ['$$this.ticket', '$$x.pass.ticket']},"
    "                   {'$eq': ['$$x.pass.ticket', '$$x.pass.to.ticket']},"
    "                   {'$not': [{'$in': ['$$x.pass.to.ticket', @tickets]}]}]}]}";

static const char holders_left[] = "{'$filter': {'input': '$holders', 'cond': @stays}}";
static const char queue_left[] = "{'$filter': {'input': '$queue', 'cond': @stays}}";

/* The mark for the holder $$this, which leaves, if several leave. */
static const char gone_is[] =
    "'gone': {'$arrayElemAt': ["
    "    {'$filter': {'input': '$$x.marks', 'as': 'm',"
    "                 'cond': {'$or': [{'$eq': ['$$m.ticket', '$$this.ticket']},"
    "                                  {'$eq': ['$$m.dead', '$$this.session']}]}}}, 0]}";

static const char gone_holders[] = "{'$filter': {'input': '$holders', 'cond': {'$not': [@stays]}}}";

/* ---- remember(): `last` ---- */

static const char used_of_one[] = "{'$max': ['$$this.token', '$$x.used']}";
static const char used_of_many[] = "{'$max': ['$$this.token', '$$gone.used']}";

/* I6: `abandoned` is overwritten only by a holder with a higher token. */
static const char is_to_be_remembered[] = "{'$or': [{'$ne': ['$$value.outcome', 'abandoned']},"
                                          "         {'$gt': [@token_used, '$$value.token']}]}";

static const char of_holder[] = "{'session': '$$this.session', 'token': @token_used, 'at': @now}";

static const char leaves[] = "{'$eq': ['$$this.ticket', '$$x.ticket']}";

static const char last_of_one[] =
    ", 'last': {'$reduce': {"
    "    'input': '$holders', 'initialValue': '$last',"
    "    'in': {'$cond': [{'$and': [@is_going, @is_to_be_remembered]},"
    "                     {'$mergeObjects': ['$$x.mark', @of_holder]},"
    "                     '$$value']}}}";

static const char last_of_many[] =
    ", 'last': {'$reduce': {"
    "    'input': @gone_holders, 'initialValue': '$last',"
    "    'in': {'$let': {'vars': {@gone_is},"
    "        'in': {'$cond': [{'$and': ['$$gone.mark', @is_to_be_remembered]},"
    "                         {'$mergeObjects': ['$$gone.mark', @of_holder]},"
    "                         '$$value']}}}}}";

/* ---- remember_done(): `done` ---- */

/* Work of a period that is not over yet stays, unless work of a period takes its place (I9). */
static const char gives_way[] =
    "{'$or': [{'$isNumber': '@goes.done.period_end'},"
    "         {'$not': [{'$gt': ['$$value.period_end', {'$toLong': @now}]}]}]}";

static const char done_by_one[] =
    ", 'done': {'$reduce': {"
    "    'input': '$holders', 'initialValue': '$done',"
    "    'in': {'$cond': [{'$and': [@is_going, @gives_way]},"
    "                     {'$mergeObjects': ['$$x.done', {'token': @token_used, 'at': @now}]},"
    "                     '$$value']}}}";

static const char done_by_many[] = ", 'done': {'$reduce': {"
                                   "    'input': @gone_holders, 'initialValue': '$done',"
                                   "    'in': {'$let': {'vars': {@gone_is},"
                                   "        'in': {'$cond': [{'$and': ['$$gone.done', @gives_way]},"
                                   "                         {'$mergeObjects': ['$$gone.done', "
                                   "{'token': @token_used, 'at': @now}]},"
                                   "                         '$$value']}}}}}";

/* ---- give_back(): the record's token ---- */

static const char last_token[] =
    "{'$add': ['$$this.token', {'$max': [{'$subtract': ['$$this.block', 1]}, 0]}]}";

static const char given_back_by_one[] =
    "{'$reduce': {"
    "    'input': '$holders', 'initialValue': '$token',"
    "    'in': {'$cond': [{'$and': [{'$eq': ['$$this.ticket', '$$x.ticket']},"
    "                               {'$gte': ['$$x.used', '$$this.token']},"
    "                               {'$lte': ['$$x.used', '$$value']},"
    "                               {'$eq': [@last_token, '$$value']}]},"
    "                     '$$x.used',"
    "                     '$$value']}}}";

static const char given_back_by_many[] =
    "{'$reduce': {"
    "    'input': '$holders', 'initialValue': '$token',"
    "    'in': {'$let': {'vars': {@gone_is},"
    "        'in': {'$cond': [{'$and': [{'$gte': ['$$gone.used', '$$this.token']},"
    "                                   {'$lte': ['$$gone.used', '$$value']},"
    "                                   {'$eq': [@last_token, '$$value']}]},"
    "                         '$$gone.used',"
    "                         '$$value']}}}}}";

/* ---- lower(), hand_over(): a holder's permits, and its place ---- */

/* Permits are lowered, never raised. */
static const char lowered[] =
    "{'$map': {'input': @holders_left,"
    "    'in': {'$cond': [{'$and': [{'$eq': ['$$this.ticket', '$$x.change.ticket']},"
    "                               {'$gt': ['$$this.permits', '$$x.change.permits']}]},"
    "                     {'$mergeObjects': ['$$this', {'permits': '$$x.change.permits'}]},"
    "                     '$$this']}}}";

/* may_pass(): not if that ticket is there already, or its session was the last to leave. */
static const char goes_over[] = "{'$and': [{'$eq': ['$$this.ticket', '$$x.pass.ticket']},"
                                "          {'$not': [{'$in': ['$$x.pass.to.ticket', @tickets]}]},"
                                "          {'$ne': ['$last.session', '$$x.pass.to.session']}]}";

static const char handed_over[] =
    "{'$map': {'input': @holders_changed,"
    "    'in': {'$cond': [@goes_over,"
    "                     {'$mergeObjects': ['$$this', '$$x.pass.to']},"
    "                     '$$this']}}}";

/* ---- grant(): the fold over the queue from its head (I3, I4, I5) ---- */

/* end: the first token that is above the floor. n: how many were granted. After the first that does
 * not fit, none fits: from then on the sum is above every limit. */
static const char fold_begins[] =
    "{'n': 0, 'sum': {'$sum': '$$h.permits'}, 'holders': '$$h', 'token': @token,"
    " 'notify': '', 'end': {'$add': [@floor, 1]}}";

static const char head_fits[] = "{'$lte': [{'$add': ['$$value.sum', '$$this.permits']}, @limit]}";

/* If somebody waits, a token was given before, so it may lag behind the floor. */
static const char next_token[] = "{'$toLong': {'$max': [{'$add': ['$$value.token', 1]}, "
                                 "{'$subtract': ['$$value.end', 1048577]}]}}";

static const char kept_block[] =
    "{'$toInt': {'$min': ["
    "    {'$ifNull': ['$$this.block', 0]},"
    "    {'$max': [{'$subtract': [{'$add': ['$$value.end', '$$value.n', 1]},"
    "                             {'$add': ['$$token', {'$size': '$$q'}]}]}, 1]}]}}";

static const char note_recall[] =
    "{'$cond': ["
    "    {'$and': ['$$this.yields', {'$lt': [{'$add': ['$$value.n', 1]}, {'$size': '$$q'}]}]},"
    "    {'$concat': [' ', {'$toString': '$$this.session'}, ':recall:',"
    "                 {'$toString': {'$let': {"
    "                     'vars': {'next': {'$arrayElemAt': ['$$q', {'$add': ['$$value.n', 1]}]}},"
    "                     'in': '$$next.ticket'}}}]},"
    "    '']}";

static const char note_block[] =
    "{'$cond': [{'$gt': ['$$block', 1]}, {'$concat': [':', {'$toString': '$$block'}]}, '']}";

static const char granted[] =
    "{'end': '$$value.end',"
    " 'n': {'$add': ['$$value.n', 1]},"
    " 'sum': {'$add': ['$$value.sum', '$$this.permits']},"
    " 'holders': {'$concatArrays': ['$$value.holders', [{'$mergeObjects': ["
    "     '$$this', {'token': '$$token', 'block': '$$block', 'granted_at': @now}]}]]},"
    " 'token': {'$max': ['$$token', {'$add': ['$$token', '$$block', -1]}]},"
    " 'notify': {'$concat': ['$$value.notify', @note_recall,"
    "                        ' ', {'$toString': '$$this.session'}, ':', {'$toString': "
    "'$$this.ticket'},"
    "                        ':', {'$toString': '$$token'}, @note_block]}}";

/* The result is the whole record. */
static const char grant[] =
    "{'$let': {"
    "    'vars': {'fold': {'$reduce': {'input': '$$q', 'initialValue': @fold_begins,"
    "        'in': {'$cond': [@head_fits,"
    "            {'$let': {'vars': {'token': @next_token},"
    "                'in': {'$let': {'vars': {'block': @kept_block},"
    "                    'in': @granted}}}},"
    "            {'$mergeObjects': ['$$value', {'sum': 4294967296}]}]}}}},"
    "    'in': {'$mergeObjects': ['$$ROOT'@with_last@with_done, {"
    "        'holders': '$$fold.holders',"
    "        'queue': {'$slice': ['$$q', '$$fold.n', 1000]},"
    "        'token': '$$fold.token',"
    "        'notify': @news@with_limit}]}}}";

static const char news_of_grants[] = "{'$cond': [{'$eq': ['$$fold.n', 0]}, '$notify',"
                                     "          {'$ltrim': {'input': '$$fold.notify'}}]}";

static const char news_of_pass[] =
    "{'$let': {'vars': {'all': {'$concat': ['$$fold.notify', @note_look]}},"
    "    'in': {'$cond': [{'$eq': ['$$all', '']}, '$notify', {'$ltrim': {'input': '$$all'}}]}}}";

/* The lease's ticket has come by this step, and somebody goes on waiting. */
static const char note_look[] =
    "{'$cond': ["
    "    {'$and': [{'$in': ['$$x.pass.to.ticket', '$$h.ticket']},"
    "              {'$not': [{'$in': ['$$x.pass.to.ticket', @tickets]}]},"
    "              {'$lt': ['$$fold.n', {'$size': '$$q'}]}]},"
    "    {'$let': {'vars': {'head': {'$arrayElemAt': ['$$q', '$$fold.n']}},"
    "        'in': {'$concat': [' ', {'$toString': '$$head.session'}, ':look:',"
    "                           {'$toString': '$$head.ticket'}]}}},"
    "    '']}";

static const char with_last[] = ", {'last': '$$last'}";
static const char with_done[] = ", {'done': '$$done'}";

static const char edit[] =
    "{'$let': {'vars': {'h': @holders, 'q': @queue@last@done}, 'in': @limit_and_grant}}";

/* ---- set_limit() ---- */

static const char limit_and_grant[] =
    "{'$let': {'vars': {'limit': {'$cond': [@may_set_limit, '$$x.limit', '$limit']}},"
    "    'in': @grant}}";

static const char may_set_limit[] =
    "{'$and': [{'$lt': ['$limit', 1073741824]},"
    "    {'$not': [{'$in': ['$$x.entry.ticket', {'$concatArrays': ['$$h.ticket', "
    "'$$q.ticket']}]}]},"
    "    {'$allElementsTrue': [{'$map': {"
    "        'input': '$$q', 'in': {'$lte': ['$$this.permits', '$$x.limit']}}}]}]}";

/* ---- admit(): the entrant, judged against the record r ---- */

/* An entry that the entrant may stand beside: not its own, and none that would keep it from leaving
 * again. */
static const char is_neighbour[] =
    "{'$and': [{'$ne': ['$$this.ticket', '$$x.entry.ticket']}, {'$isNumber': '$$this.permits'},"
    "          {'$eq': [{'$type': '$$this.ticket'}, 'objectId']}]}";

/* It is granted at once when nobody waits before it and it fits. */
static const char fits[] =
    "{'$eq': [@queue_before, []]},"
    "{'$lte': [{'$add': [{'$sum': '$$r.holders.permits'}, '$$x.entry.permits']}, '$$x.limit']}";

static const char is_behind[] = "{'$gt': ['$$this.number', '$$x.entry.number']}";
static const char before_number[] =
    "{'$filter': {'input': '$$r.queue', 'cond': {'$not': [@is_behind]}}}";
static const char behind_number[] = "{'$filter': {'input': '$$r.queue', 'cond': @is_behind}}";

/* record_places() */
static const char places[] =
    "{'$max': [0, {'$subtract': [{'$min': ['$$x.bound', {'$subtract': [1000, {'$size': "
    "'$$r.holders'}]}]}, {'$size': '$$r.queue'}]}]}";

static const char given[] = "{'$ifNull': ['$$r.given', 0]}";
static const char reached[] = "{'$ifNull': ['$$r.reached', 0]}";
static const char next[] = "{'$toLong': {'$add': [@given, 1]}}";

/* record_has_place(). Two fields that are missing are equal. */
static const char nobody_outside[] = "{'$eq': ['$$r.given', '$$r.reached']}";
static const char has_place[] = "{'$gt': [@places, 0]}, @nobody_outside";
static const char has_place_by_number[] =
    "{'$gt': [@places, 0]}, {'$lte': ['$$x.entry.number', @given]},"
    "{'$lte': ['$$x.entry.number', {'$add': ['$$far', @places]}]}";

/* skip() */
static const char skips[] = "{'$and': [{'$eq': ['$$x.skips', @reached]}, {'$gt': [@places, 0]},"
                            "          {'$lt': [@reached, @given]}]}";
static const char skipped[] =
    "{'$cond': [@skips,"
    "           {'$toLong': {'$min': [@given, {'$add': [@reached, {'$max': [@places, @half]}]}]}},"
    "           @reached]}";
static const char half[] =
    "{'$cond': [{'$eq': ['$$r.holders', '$$r.queue']},"
    "           {'$ceil': {'$divide': [{'$subtract': [@given, @reached]}, 2]}},"
    "           0]}";

/* may_try(). Two arrays of entries are equal only when both are empty. */
static const char may_try[] = "{'$gt': [@places, 0]}, @fits,"
                              "{'$or': [@nobody_outside, {'$eq': ['$$r.holders', '$$r.queue']}]}";

/* If it queues behind others, or does not fit, the grant that follows grants nothing (its head has
 * just been refused), so there is none; and with no edit there is no first one: each step leaves a
 * queue whose head does not fit. Two arrays of entries are equal only when both are empty: nobody
 * holds or waits, and the entrant's limit counts. */
static const char admit[] =
    "{'$mergeObjects': ['$$r', {'$cond': [{'$and': ["
    "    {'$gte': [{'$add': ['$$r.limit', '$$r.token', {'$strLenBytes': '$$r.notify'}]}, 1]},"
    "    {'$or': [{'$eq': ['$$r.limit', '$$x.limit']}, {'$eq': ['$$r.holders', '$$r.queue']}]},"
    "    {'$allElementsTrue': [{'$map': {"
    "        'input': {'$concatArrays': ['$$r.holders', '$$r.queue']}, 'in': @is_neighbour}}]}"
    "    @and_may]},"
    "    @admitted, {}]}]}";

static const char or_number[] =
    "{'$cond': [{'$and': [@has_place]}, @taken_or_queued, {'$mergeObjects': ["
    "    {'given': @next, 'reached': {'$toLong': @reached}},"
    "    {'$cond': [@stands, {'queue': @queue_and_entry}, {}]}]}]}";

/* stands_by_number() */
static const char stands[] =
    "{'$and': ['$$x.nested', {'$ne': ['$$r.queue', []]},"
    "          {'$lt': [{'$size': '$$r.queue'}, {'$min': [{'$multiply': [2, '$$x.bound']},"
    "                                           {'$subtract': [1000, {'$size': "
    "'$$r.holders'}]}]}]}]}";

/* far: how far the record has got, after skipping. */
static const char by_number[] =
    "{'$let': {'vars': {'far': @skipped}, 'in': {'$cond': [{'$and': [@has_place_by_number]},"
    "    @taken_or_queued, {'$cond': [@skips, {'reached': '$$far'}, {}]}]}}}";

static const char taken_or_queued[] = "{'$cond': [{'$and': [@fits]}, @taken, @queued]}";

/* A record that has given no token yet begins at the floor. */
static const char taken[] =
    "{'$let': {"
    "    'vars': {'token': {'$toLong': {'$max': ["
    "        {'$add': ['$$r.token', 1]},"
    "        {'$subtract': [@floor, {'$cond': [{'$lt': ['$$r.token', 1]}, 0, 1048576]}]}]}}},"
    "    'in': @taken_with_token}}";

static const char taken_alone[] =
    "{'limit': '$$x.limit',"
    " 'token': '$$token',"
    " 'holders': {'$concatArrays': ['$$r.holders', [{'$mergeObjects': ["
    "     '$$x.entry', {'since': @since, 'token': '$$token', 'granted_at': @now}]}]]},"
    " 'notify': {'$concat': [@noted@recalled'$$x.note', {'$toString': '$$token'}]}@with_reached}";

static const char taken_with_block[] =
    "{'$let': {"
    "    'vars': {'block': {'$toInt': {'$min': ["
    "        '$$x.entry.block',"
    "        {'$max': [1, {'$add': [@room, {'$subtract': [@floor, '$$token']}]}]}]}}},"
    "    'in': {"
    "        'limit': '$$x.limit',"
    "        'token': {'$add': ['$$token', '$$block', -1]},"
    "        'holders': {'$concatArrays': ['$$r.holders', [{'$mergeObjects': ["
    "            '$$x.entry',"
    "            {'since': @since, 'token': '$$token', 'block': '$$block', 'granted_at': "
    "@now}]}]]},"
    "        'notify': {'$concat': [@noted@recalled'$$x.note', {'$toString': '$$token'},"
    "                               @note_block]}@with_reached}}}";

/* Those behind an entrant with a number go on waiting. */
static const char room_before_others[] = "{'$subtract': [1, {'$size': '$$r.queue'}]}";
static const char with_reached[] = ", 'reached': {'$max': ['$$far', '$$x.entry.number']}";
static const char recall_by_next[] =
    "{'$cond': [{'$and': ['$$x.entry.yields', {'$ne': ['$$r.queue', []]}]},"
    "           {'$concat': [{'$toString': '$$x.entry.session'}, ':recall:',"
    "                        {'$toString': {'$arrayElemAt': ['$$r.queue.ticket', 0]}}, ' ']},"
    "           '']}, ";

static const char queue_and_entry[] = "{'$concatArrays': ['$$r.queue', [{'$mergeObjects': "
                                      "['$$x.entry', {'since': @now, 'number': @next}]}]]}";
static const char queued[] = "{'queue': @queue_and_entry,"
                             " 'given': @next, 'reached': @next @recall}";

static const char queued_by_number[] =
    "{'queue': {'$concatArrays': [@queue_before, [{'$mergeObjects': ['$$x.entry', {'since': "
    "@now}]}], @behind_number]} @with_reached @recall}";

/* recall(): an entry that comes to the head of the queue recalls the holders that yield. */
static const char recall[] =
    ", 'notify': {'$let': {"
    "    'vars': {'recalls': {'$ltrim': {'input': {'$reduce': {"
    "        'input': {'$cond': ["
    "            {'$eq': ['$$r.queue', []]},"
    "            {'$filter': {'input': '$$r.holders', 'cond': '$$this.yields'}},"
    "            []]},"
    "        'initialValue': '',"
    "        'in': {'$concat': ['$$value', ' ', {'$toString': '$$this.session'},"
    "                           ':recall:', '$$x.asks']}}}}}},"
    "    'in': {'$cond': [{'$eq': ['$$recalls', '']},"
    "                     '$$r.notify',"
    "                     {'$concat': [@noted'$$recalls']}]}}}";

/* What the edit of the same step granted comes first. */
static const char noted_before[] =
    "{'$cond': [{'$in': ['$$r.notify', ['', '$notify']]}, '', {'$concat': ['$$r.notify', ' ']}]}, ";

/* ---- replace(): an upgrade ---- */

/* Computes as if the holder whose place it wants were gone. If the entrant does not fit even then,
 * the record stays unchanged. */
static const char replace[] =
    "{'$let': {"
    "    'vars': {"
    "        'was': '$$r',"
    "        'r': {'$mergeObjects': ['$$r', {'holders': {'$filter': {"
    "            'input': '$$r.holders', 'cond': {'$ne': ['$$this.ticket', '$$x.replaces']}}}}]}},"
    "    'in': {'$cond': [{'$and': ["
    "        {'$gte': [{'$add': ['$$r.limit', '$$r.token', {'$strLenBytes': '$$r.notify'}]}, 1]},"
    "        {'$eq': ['$$r.limit', '$$x.limit']},"
    "        {'$ne': ['$$r.holders', '$$was.holders']},"
    "        {'$allElementsTrue': [{'$map': {'input': '$$was.holders', 'in': @is_neighbour}}]},"
    "        @fits]},"
    "        {'$mergeObjects': ['$$r', @taken]},"
    "        '$$was']}}}";

static const char since_of_replaced[] =
    "{'$arrayElemAt': ["
    "    '$$was.holders.since',"
    "    {'$indexOfArray': ['$$was.holders.ticket', '$$x.replaces']}]}";

/* ---- record_step() ---- */

/* Not a constant, which the server would evaluate when it parses the text. */
static const char odd[] = "{'$toInt': {'$concat': ['no lock is ', '$_id']}}";
static const char edited[] = "{'$cond': [@is_ours, @edit, @odd]}";

/* An upsert's new document has nothing but its _id: it begins as an empty record, and stays so if
 * no record can take the entrant. */
static const char entered[] =
    "{'$let': {"
    "    'vars': {'r': {'$cond': [{'$eq': ['$$ROOT', {'_id': '$_id'}]}, '$$x.new', @before]}},"
    "    'in': @let_in}}";

/* ---- The floor of tokens ---- */

static const char cluster_time[] =
    "{'$add': [{'$multiply': [{'$tsSecond': '$$CLUSTER_TIME'}, 1048576]},"
    "          {'$tsIncrement': '$$CLUSTER_TIME'}]}";
static const char cluster_seconds[] =
    "{'$multiply': [{'$divide': [{'$toLong': {'$toDate': '$$CLUSTER_TIME'}}, 1000]}, 1048576]}";
static const char wall_time[] = /* record_floor_of() */
    "{'$toLong': {'$multiply': [{'$divide': [{'$toLong': '$$NOW'}, 1000]}, 1048576]}}";

/* clang-format on */

/* ---- Which parts ---- */

#define PARTS 82

typedef struct part {
    const char *name, *text;
} part;

typedef struct parts {
    part of[PARTS];
    size_t n;
} parts;

static void add(parts *p, const char *name, const char *text)
{
    assert(p->n < PARTS);
    p->of[p->n++] = (part){name, text};
}

/* A part without variants has its own name. */
#define ADD(p, name) add(p, #name, name)

static const char *of_leaves(const pipeline_variant *v, const char *one, const char *many)
{
    return v->edit == PIPELINE_EDITS_MANY ? many : one;
}

static void choose_stays(parts *p, const pipeline_variant *v)
{
    bool is_left = v->edit || v->has_pass;
    add(p, "stays_itself", v->edit ? of_leaves(v, one_stays, all_stay) : "true");
    add(p, "stays", v->has_pass ? stays_beside_lease : "@stays_itself");
    add(p, "holders_left", is_left ? holders_left : "'$holders'");
    add(p, "holders_changed", v->has_change ? lowered : "@holders_left");
    add(p, "holders", v->has_pass ? handed_over : "@holders_changed");
    ADD(p, goes_over);
    add(p, "queue", is_left ? queue_left : "'$queue'");
    ADD(p, tickets);
}

static void choose_remember(parts *p, const pipeline_variant *v)
{
    bool gives_back = v->has_used && v->edit; /* a pass takes over the token in use */
    add(p, "is_going", v->has_pass && !v->edit ? goes_over : leaves);
    add(p, "last", v->has_last ? of_leaves(v, last_of_one, last_of_many) : "");
    add(p, "with_last", v->has_last ? with_last : "");
    add(p, "done", v->has_done ? of_leaves(v, done_by_one, done_by_many) : "");
    add(p, "with_done", v->has_done ? with_done : "");
    add(p, "goes", of_leaves(v, "$$x", "$$gone"));
    add(p, "token_used", v->has_used ? of_leaves(v, used_of_one, used_of_many) : "'$$this.token'");
    add(p, "token", gives_back ? of_leaves(v, given_back_by_one, given_back_by_many) : "'$token'");
    ADD(p, gone_is);
    ADD(p, gone_holders);
    ADD(p, is_to_be_remembered);
    ADD(p, of_holder);
    ADD(p, gives_way);
    ADD(p, last_token);
}

static void choose_grant(parts *p, const pipeline_variant *v)
{
    ADD(p, is_ours);
    ADD(p, odd);
    ADD(p, edit);
    add(p, "limit_and_grant", v->sets_limit ? limit_and_grant : grant);
    add(p, "limit", v->sets_limit ? "'$$limit'" : "'$limit'");
    add(p, "with_limit", v->sets_limit ? ", 'limit': '$$limit'" : "");
    ADD(p, may_set_limit);
    ADD(p, grant);
    add(p, "news", v->has_pass ? news_of_pass : news_of_grants);
    ADD(p, note_look);
    ADD(p, fold_begins);
    ADD(p, head_fits);
    ADD(p, next_token);
    ADD(p, kept_block);
    ADD(p, granted);
    ADD(p, note_recall);
    ADD(p, note_block);
}

static void choose_enter(parts *p, const pipeline_variant *v)
{
    bool is_edited = v->edit || v->has_change || v->has_pass || v->sets_limit;
    bool has_number = v->enter == PIPELINE_HAS_NUMBER, tries = v->enter == PIPELINE_TRIES;
    bool wants_number = v->enter == PIPELINE_WANTS_NUMBER;
    add(p, "before", is_edited ? edited : "'$$ROOT'");
    add(p, "let_in",
        v->enter == PIPELINE_IS_REFUSED ? "'$$r'"
        : v->enter == PIPELINE_UPGRADES ? replace
                                        : admit);
    add(p, "and_may", tries ? ", @may_try" : has_number || wants_number ? "" : ", @has_place");
    add(p, "admitted",
        tries          ? taken
        : has_number   ? by_number
        : wants_number ? or_number
                       : taken_or_queued);
    ADD(p, stands);
    ADD(p, queue_and_entry);
    ADD(p, skips);
    ADD(p, skipped);
    ADD(p, half);
    add(p, "queue_before", has_number ? before_number : "'$$r.queue'");
    add(p, "recalled", has_number ? recall_by_next : "");
    add(p, "room", has_number ? room_before_others : "1");
    add(p, "with_reached", has_number ? with_reached : "");
    add(p, "queued", has_number ? queued_by_number : queued);
    ADD(p, taken_or_queued);
    ADD(p, is_behind);
    ADD(p, behind_number);
    ADD(p, places);
    ADD(p, given);
    ADD(p, reached);
    ADD(p, next);
    ADD(p, nobody_outside);
    ADD(p, has_place);
    ADD(p, has_place_by_number);
    ADD(p, may_try);
    add(p, "taken_with_token", v->has_block ? taken_with_block : taken_alone);
    add(p, "noted", is_edited ? noted_before : "");
    ADD(p, is_neighbour);
    ADD(p, fits);
    add(p, "since", v->enter == PIPELINE_UPGRADES ? since_of_replaced : "@now");
    ADD(p, taken);
    ADD(p, recall);
}

static const char *floor_text(pipeline_floor floor)
{
    switch (floor) {
    case PIPELINE_FLOOR_CLUSTER:
        return cluster_time;
    case PIPELINE_FLOOR_SECONDS:
        return cluster_seconds;
    case PIPELINE_FLOOR_WALL:
        return wall_time;
    case PIPELINE_FLOOR_GIVEN:
        break;
    }
    return "'$$x.floor'";
}

static void choose(parts *p, const pipeline_variant *v)
{
    choose_stays(p, v);
    choose_remember(p, v);
    choose_grant(p, v);
    choose_enter(p, v);
    add(p, "now", v->has_now ? "'$$x.now'" : "'$$NOW'");
    add(p, "floor", floor_text(v->floor));
}

/* ---- Putting them together ---- */

static size_t name_length(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyz_");
}

static const char *find(const parts *p, const char *name, size_t length)
{
    for (size_t i = 0; i < p->n; i++)
        if (strlen(p->of[i].name) == length && memcmp(p->of[i].name, name, length) == 0)
            return p->of[i].text;
    assert(0 && "no part has this name");
    return "";
}

static void expand(mongo_builder *out, const parts *p, const char *text)
{
    for (; *text; text++) {
        if (*text != '@') {
            builder_add_char(out, *text);
            continue;
        }
        size_t length = name_length(text + 1);
        expand(out, p, find(p, text + 1, length));
        text += length;
    }
}

static bson_t *make(const parts *p, const char *text)
{
    mongo_builder json = builder_begin("");
    expand(&json, p, text);
    bson_t *body = pipeline_json(json.text);
    builder_done(&json);
    return body;
}

bson_t *pipeline_make(const pipeline_variant *v)
{
    parts p = {.n = 0};
    choose(&p, v);
    return make(&p, v->enter ? entered : edited);
}
