/* SPDX-License-Identifier: Apache-2.0 */
/* index.c: the index that lets MongoDB remove documents of protocol `ttl` whose time has
 * passed, once a minute: read, respected, and made where there is none. */
#include "core/alloc.h"
#include "core/error.h"
#include "core/lease.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/log.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/ttl/ttl.h"
#include "sync/mutex_scope.h"

#include <stdio.h>

#define NO_COLLECTION 26

/* Guarded by the store's mutex. */
struct mongo_ttl_index {
    bool has_indexes;   /* made, or left alone, for this store */
    bool knows_index;   /* the values below were read */
    int64_t foreign_ms; /* how long other programs' documents last */
    int64_t least_s;    /* see findings */
    int64_t since_s;    /* see findings */
    bool has_collation; /* see findings */
    hf_mono read_at;
    bool has_warned; /* that they may not be read */
};

void mongo_ttl_index_open(mongo_store *store)
{
    store->ttl = alloc_zeroed(sizeof *store->ttl);
}

void mongo_ttl_index_close(mongo_store *store, bool is_ours)
{
    (void)is_ours;
    free(store->ttl);
}

static const char *field_of(const mongo_store *store)
{
    return store->uri.time_field;
}

/* What the indexes say about other programs' documents. */
typedef struct findings {
    int64_t seconds;    /* expireAfterSeconds; -1: there is no such index for all documents */
    bool is_partial;    /* there is one for some */
    int64_t least_s;    /* the shortest of all, partial ones too; -1: there is none */
    int64_t since_s;    /* the time of one on `since`; -1: there is none */
    bool has_collation; /* of names, so that several may be one lock */
    hf_mono read_at;    /* when the reading began */
    bool is_denied;     /* the client may not read them, so nothing is known */
} findings;

/* MongoDB removes documents by no other kind of index: it ignores "hashed" and "2d". */
static bool is_on(const char *field, const bson_t *index)
{
    bson_t key;
    bson_iter_t it;
    return mongo_view(index, "key", &key) && bson_count_keys(&key) == 1 &&
           bson_iter_init_find(&it, &key, field) &&
           (BSON_ITER_HOLDS_NUMBER(&it) || BSON_ITER_HOLDS_DECIMAL128(&it));
}

static void note_index(const mongo_store *store, const bson_t *index, findings *out)
{
    int64_t seconds = mongo_int_at(index, "expireAfterSeconds", -1);
    if (seconds >= 0 && is_on("since", index))
        out->since_s = seconds;
    if (is_on("_id", index) && bson_has_field(index, "collation"))
        out->has_collation = true;
    if (seconds < 0 || !is_on(field_of(store), index))
        return;
    if (out->least_s < 0 || seconds < out->least_s)
        out->least_s = seconds;
    if (bson_has_field(index, "partialFilterExpression"))
        out->is_partial = true;
    else if (out->seconds < 0)
        out->seconds = seconds;
}

static hf_code read_indexes(mongo_store *store, bool is_beat, findings *out, hf_error *err)
{
    const mongo_call call = {.what = "reading the indexes", .is_beat = is_beat};
    bson_t command = BSON_INITIALIZER, batch, index;
    bson_iter_t it;
    mongo_reply reply;
    *out = (findings){.seconds = -1, .least_s = -1, .since_s = -1, .read_at = mongo_mono(store)};
    mongo_begin(&command, "listIndexes", store->uri.collection);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    if (!code && mongo_view(&reply.doc, "cursor.firstBatch", &batch) && bson_iter_init(&it, &batch))
        while (mongo_next(&it, &index))
            note_index(store, &index, out);
    out->is_denied = code == HF_DENIED && reply.server_code == MONGO_UNAUTHORIZED;
    if (reply.server_code == NO_COLLECTION || out->is_denied)
        code = HF_OK;
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* A partial index never removes documents that it does not cover, and we cannot know which these
 * are. So beside one, no foreign document ends. The same if nothing is known about the indexes.
 * Without any index, a date that says until when still passes. */
static int64_t foreign_ms_of(const mongo_store *store, const findings *found)
{
    if (found->seconds >= 0)
        return found->seconds * 1000;
    bool is_none = !found->is_partial && !found->is_denied;
    return store->uri.shape == MONGO_SHAPE_EXPIRE_AT && is_none ? 0 : MONGO_FOR_EVER;
}

static void warn_of_denied(mongo_store *store)
{
    mongo_log(store, HF_LOG_WARNING,
              "the indexes of %s.%s may not be read (privilege listIndexes): documents of other "
              "programs are never taken over, no TTL index is made, and whether one is too short "
              "for the ttl is not known. An administrator can grant the role readWrite",
              store->uri.database, store->uri.collection);
}

static void adopt(mongo_store *store, const findings *found)
{
    pthread_mutex_lock(&store->mutex);
    bool warns = found->is_denied && !store->ttl->has_warned;
    store->ttl->has_warned |= found->is_denied;
    store->ttl->foreign_ms = foreign_ms_of(store, found);
    store->ttl->least_s = found->least_s;
    store->ttl->since_s = found->since_s;
    store->ttl->has_collation = found->has_collation;
    store->ttl->read_at = found->read_at;
    store->ttl->knows_index = true;
    pthread_mutex_unlock(&store->mutex);
    if (warns)
        warn_of_denied(store);
}

int64_t mongo_ttl_foreign_ms(mongo_store *store)
{
    MUTEX_SCOPE(&store->mutex);
    return store->ttl->knows_index ? store->ttl->foreign_ms : MONGO_FOR_EVER;
}

static bool is_known(mongo_store *store, bool made)
{
    MUTEX_SCOPE(&store->mutex);
    return made ? store->ttl->has_indexes : store->ttl->knows_index;
}

static hf_code read_and_adopt(mongo_store *store, bool is_beat, hf_error *err)
{
    findings found;
    hf_code code = read_indexes(store, is_beat, &found, err);
    if (!code)
        adopt(store, &found);
    return code;
}

hf_code mongo_ttl_read_index(mongo_store *store, hf_error *err)
{
    if (is_known(store, false))
        return HF_OK;
    hf_code code = mongo_ready(store, err);
    return code ? code : read_and_adopt(store, false, err);
}

/* ---- Our own ttl ---- */

/* The server dates a document when it writes it, and our lease counts from before that was sent. So
 * a document that stays for a ttl after its date outlasts the belief in it, however late MongoDB
 * looks. A document that says until when is not removed before that. */
static int64_t least_seconds(const mongo_store *store, int64_t ttl_ms)
{
    return store->uri.shape == MONGO_SHAPE_EXPIRE_AT ? 0 : (ttl_ms + 999) / 1000;
}

static bool fits(const mongo_store *store, int64_t least_s, int64_t ttl_ms)
{
    return least_s < 0 || least_s >= least_seconds(store, ttl_ms);
}

/* A lock has the date of its beginning there, which nothing renews. */
static hf_code refuse_index_on_since(const mongo_store *store, int64_t since_s, hf_error *err)
{
    return error_set(err, HF_INVALID,
                     "the TTL index on %.100s.%.100s, field since, removes documents %lld s after "
                     "their locks were taken, though they are held: have an administrator drop it",
                     store->uri.database, store->uri.collection, (long long)since_s);
}

static hf_code refuse_collation(const mongo_store *store, hf_error *err)
{
    return error_set(err, HF_INVALID,
                     "%.120s.%.120s has a collation, by which names that differ can be one lock, "
                     "such as Job and job: use a collection without one (hfCollection)",
                     store->uri.database, store->uri.collection);
}

/* A partial index counts, too, because we cannot know which documents it covers. */
hf_code mongo_ttl_check_lease(mongo_store *store, int64_t ttl_ms, hf_error *err)
{
    pthread_mutex_lock(&store->mutex);
    int64_t least_s = store->ttl->least_s, since_s = store->ttl->since_s;
    bool has_collation = store->ttl->has_collation;
    pthread_mutex_unlock(&store->mutex);
    if (has_collation)
        return refuse_collation(store, err);
    if (since_s >= 0)
        return refuse_index_on_since(store, since_s, err);
    if (fits(store, least_s, ttl_ms))
        return HF_OK;
    return error_set(err, HF_INVALID,
                     "the TTL index on %.100s.%.100s, field %.80s, removes documents after %lld "
                     "s, so locks with a ttl of %lld ms could be removed while they are held: "
                     "give a ttl of at most %lld s, or have an administrator raise the index's "
                     "expireAfterSeconds to %lld (collMod)",
                     store->uri.database, store->uri.collection, field_of(store),
                     (long long)least_s, (long long)ttl_ms, (long long)least_s,
                     (long long)least_seconds(store, ttl_ms));
}

static hf_code refuse_unless_it_fits(mongo_store *store, hf_error *err)
{
    return mongo_ttl_check_lease(store, store->config.ttl_ms, err);
}

/* Whether the indexes were read within the last ttl, and let our documents stand. */
static bool is_fresh(mongo_store *store)
{
    MUTEX_SCOPE(&store->mutex);
    const struct mongo_ttl_index *index = store->ttl;
    hf_mono due = mono_add_ms(index->read_at, store->config.ttl_ms);
    return index->knows_index && index->since_s < 0 && !index->has_collation &&
           fits(store, index->least_s, store->config.ttl_ms) &&
           !mono_reached(due, mongo_mono(store));
}

hf_code mongo_ttl_check(mongo_store *store, bool is_beat, hf_error *err)
{
    if (is_fresh(store))
        return HF_OK;
    hf_code code = read_and_adopt(store, is_beat, err);
    return code ? code : refuse_unless_it_fits(store, err);
}

hf_code mongo_ttl_read_index_again(mongo_store *store, int64_t *foreign_ms, hf_error *err)
{
    hf_code code = read_and_adopt(store, false, err);
    *foreign_ms = mongo_ttl_foreign_ms(store);
    return code ? code : refuse_unless_it_fits(store, err);
}

/* ---- Making it ---- */

/* Programs that follow the article renew each 10 s or so, and think of an index of 600 s. */
#define BEATS 3
#define ARTICLE_BEAT_S 10
#define ENOUGH_S 600

/* hfExpireAfterSeconds, or as long as our locks and the article's programs need. */
static int64_t seconds_to_make(const mongo_store *store)
{
    int64_t seconds = store->uri.expire_after_s;
    int64_t least = least_seconds(store, store->config.ttl_ms);
    if (store->uri.shape == MONGO_SHAPE_UPDATED && seconds < BEATS * ARTICLE_BEAT_S)
        seconds = BEATS * ARTICLE_BEAT_S;
    return seconds < least ? least : seconds;
}

/* No less than three beats of other programs, as far as they are seen. */
static hf_code spare_slow_beats(mongo_store *store, int64_t *seconds, hf_error *err)
{
    int64_t gap_ms = 0;
    if (store->uri.shape == MONGO_SHAPE_EXPIRE_AT || *seconds >= ENOUGH_S)
        return HF_OK;
    hf_code code = mongo_ttl_longest_gap(store, &gap_ms, err);
    int64_t least = BEATS * (gap_ms / 1000 + 1);
    if (!code && *seconds < least)
        *seconds = least < ENOUGH_S ? least : ENOUGH_S;
    return code;
}

/* Uses the name that drivers give: with another name, other programs' createIndex would fail. */
static hf_code make(mongo_store *store, int64_t seconds, hf_error *err)
{
    static const mongo_call call = {.what = "making the TTL index", .writes = true};
    bson_t command = BSON_INITIALIZER, indexes, index, key;
    char name[128];
    mongo_reply reply;
    mongo_begin(&command, "createIndexes", store->uri.collection);
    BSON_APPEND_ARRAY_BEGIN(&command, "indexes", &indexes);
    BSON_APPEND_DOCUMENT_BEGIN(&indexes, "0", &index);
    BSON_APPEND_DOCUMENT_BEGIN(&index, "key", &key);
    bson_append_int32(&key, field_of(store), -1, 1);
    bson_append_document_end(&index, &key);
    snprintf(name, sizeof name, "%s_1", field_of(store));
    BSON_APPEND_UTF8(&index, "name", name);
    BSON_APPEND_INT64(&index, "expireAfterSeconds", seconds);
    bson_append_document_end(&indexes, &index);
    bson_append_array_end(&command, &indexes);
    mongo_append_write_concern(store, &command, false);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

/* Locks work without the index: it only cleans up after crashes where nobody waits. */
static void warn_of_none(mongo_store *store, int64_t seconds, const hf_error *why)
{
    mongo_log(store, HF_LOG_WARNING,
              "no TTL index on %s.%s could be made, so documents of dead programs stay until "
              "a program wants their lock: %.300s. An administrator can run: "
              "db.%s.createIndex({%s: 1}, {expireAfterSeconds: %lld})",
              store->uri.database, store->uri.collection, why->text, store->uri.collection,
              field_of(store), (long long)seconds);
}

static void warn_of_other(mongo_store *store, const findings *found)
{
    if (found->seconds < 0)
        mongo_log(store, HF_LOG_WARNING,
                  "the TTL index on %s.%s, field %s, is partial: it is left as it is, and "
                  "documents of other programs are never taken over, for it may not cover them",
                  store->uri.database, store->uri.collection, field_of(store));
    else if (found->seconds != seconds_to_make(store))
        mongo_log(store, HF_LOG_WARNING,
                  "the TTL index on %s.%s, field %s, has expireAfterSeconds %lld, not %lld: it is "
                  "left as it is, and respected",
                  store->uri.database, store->uri.collection, field_of(store),
                  (long long)found->seconds, (long long)seconds_to_make(store));
}

/* Another client has just made the index with another time: our ttl may be too long for it. */
static hf_code make_or_warn(mongo_store *store, findings *found, hf_error *err)
{
    findings now;
    hf_error refused;
    int64_t seconds = seconds_to_make(store);
    hf_code code = mongo_ttl_refuse_strangers(store, seconds, err);
    if (!code)
        code = spare_slow_beats(store, &seconds, err);
    if (code)
        return code;
    if (make(store, seconds, &refused) == HF_OK) {
        found->seconds = found->least_s = seconds;
        return HF_OK;
    }
    warn_of_none(store, seconds, &refused);
    code = read_indexes(store, false, &now, err);
    found->least_s = now.least_s;
    found->since_s = now.since_s;
    return code;
}

/* Beside a partial index, or where there may be one, none is made: it would remove documents that
 * the partial index spares. */
static hf_code read_or_make(mongo_store *store, hf_error *err)
{
    findings found;
    hf_code code = read_indexes(store, false, &found, err);
    if (found.seconds >= 0 || found.is_partial)
        warn_of_other(store, &found);
    else if (!code && !found.is_denied)
        code = make_or_warn(store, &found, err);
    if (!code)
        adopt(store, &found);
    return code;
}

hf_code mongo_ttl_settle(mongo_store *store, hf_error *err)
{
    if (is_known(store, true))
        return mongo_ttl_check(store, false, err);
    hf_code code = read_or_make(store, err);
    if (code)
        return code;
    mongo_ttl_warn_of_odd_id(store);
    pthread_mutex_lock(&store->mutex);
    store->ttl->has_indexes = true;
    pthread_mutex_unlock(&store->mutex);
    return refuse_unless_it_fits(store, err);
}
