/* SPDX-License-Identifier: Apache-2.0 */
/* mongo.c: the fence in a MongoDB document of the caller's: an update that happens only if no later
 * holder has written; called by programs that hold a lock. */
#include "guard/token.h"

#include <mongoc/mongoc.h>

#define TRIES 5
#define WTIMEOUT_MS 10000

/* ---- What is sent ---- */

/* {$and: [filter, {$or: [{fence: {$exists: false}}, {fence: {$lte: token}}]}]} */
static void write_filter(bson_t *out, const bson_t *filter, const char *fence, int64_t token)
{
    bson_t *guarded = BCON_NEW("$and", "[", BCON_DOCUMENT(filter), "{", "$or", "[", "{", fence, "{",
                               "$exists", BCON_BOOL(false), "}", "}", "{", fence, "{", "$lte",
                               BCON_INT64(token), "}", "}", "]", "}", "]");
    bson_copy_to(guarded, out);
    bson_destroy(guarded);
}

/* Copies the members of the $set document at `set`; false if the fence is among them. */
static bool copy_set(bson_t *to, bson_iter_t *set, const char *fence)
{
    bson_iter_t member;
    if (!BSON_ITER_HOLDS_DOCUMENT(set) || !bson_iter_recurse(set, &member))
        return false;
    while (bson_iter_next(&member)) {
        if (strcmp(bson_iter_key(&member), fence) == 0)
            return false;
        bson_append_iter(to, NULL, -1, &member);
    }
    return true;
}

/* The update with the fence in its $set; false if the update is not allowed. Destroy `out` in any
 * case. */
static bool write_update(bson_t *out, const bson_t *update, const char *fence, int64_t token)
{
    bson_iter_t operator;
    bson_t set = BSON_INITIALIZER;
    bool is_good = bson_iter_init(&operator, update);
    bson_init(out);
    while (is_good && bson_iter_next(&operator)) {
        const char *key = bson_iter_key(&operator);
        if (strcmp(key, "$set") == 0)
            is_good = copy_set(&set, &operator, fence);
        else
            is_good = key[0] == '$' && bson_append_iter(out, NULL, -1, &operator);
    }
    bson_append_int64(&set, fence, -1, token);
    bson_append_document(out, "$set", -1, &set);
    bson_destroy(&set);
    return is_good;
}

/* ---- What comes back ---- */

static bool is_among(int64_t code, const int64_t *codes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (codes[i] == code)
            return true;
    return false;
}

/* An error of the server, by its number. */
static hf_code code_of_server(int64_t number)
{
    static const int64_t denied[] = {11, 13, 18}, not_primary[] = {10107, 13435, 13436},
                         interrupted[] = {6,   7,   24,   50,    89,    91,   112,
                                          189, 262, 9001, 11600, 11601, 11602};
    if (is_among(number, denied, sizeof denied / sizeof *denied))
        return HF_DENIED;
    if (is_among(number, not_primary, sizeof not_primary / sizeof *not_primary))
        return HF_UNKNOWN; /* this is from the driver's second try; the first may have arrived */
    if (is_among(number, interrupted, sizeof interrupted / sizeof *interrupted))
        return HF_UNKNOWN;
    return HF_INVALID;
}

static hf_code code_of(const bson_error_t *error)
{
    switch (error->domain) {
    case MONGOC_ERROR_SERVER_SELECTION:
        return HF_UNREACHABLE;
    case MONGOC_ERROR_CLIENT:
        return error->code == MONGOC_ERROR_CLIENT_AUTHENTICATE ? HF_DENIED : HF_INVALID;
    case MONGOC_ERROR_SERVER:
    case MONGOC_ERROR_COMMAND:
    case MONGOC_ERROR_QUERY:
        return code_of_server(error->code);
    case MONGOC_ERROR_BSON:
        return HF_INVALID;
    default: /* 9: FailedToParse, in whatever domain the driver puts it */
        if (error->code == 9)
            return HF_INVALID;
        return HF_UNKNOWN; /* the connection, while it was under way; a write concern */
    }
}

static hf_code fail(mongoc_collection_t *collection, const bson_error_t *error, bool is_refused,
                    hf_error *err)
{
    hf_code code = is_refused || error->code == 9 ? code_of_server(error->code) : code_of(error);
    const char *remedy = code == HF_UNKNOWN ? "; it may be written: repeat it" : "";
    return error_set(err, code, "guarded update of collection \"%s\": %.300s%s",
                     mongoc_collection_get_name(collection), error->message, remedy);
}

static int64_t count_in(const bson_t *reply, const char *field)
{
    bson_iter_t at;
    return bson_iter_init_find(&at, reply, field) ? bson_iter_as_int64(&at) : 0;
}

/* ---- The two calls ---- */

/* *matched: the update was made. */
static hf_code update_one(mongoc_collection_t *collection, const bson_t *filter,
                          const bson_t *update, bool *matched, hf_error *err)
{
    bson_t reply, *options = BCON_NEW("writeConcern", "{", "w", "majority", "j", BCON_BOOL(true),
                                      "wtimeout", BCON_INT32(WTIMEOUT_MS), "}");
    bson_error_t error;
    hf_code code = HF_OK;
    if (!mongoc_collection_update_one(collection, filter, update, options, &reply, &error))
        code = fail(collection, &error, bson_has_field(&reply, "writeErrors"), err);
    *matched = count_in(&reply, "matchedCount") > 0;
    bson_destroy(&reply);
    bson_destroy(options);
    return code;
}

static hf_code refuse(const mongoc_collection_t *collection, const bson_t *found, const char *fence,
                      int64_t token, hf_error *err)
{
    bson_iter_t top, at;
    const char *name = mongoc_collection_get_name((mongoc_collection_t *)collection);
    if (!bson_iter_init(&top, found) || !bson_iter_find_descendant(&top, fence, &at))
        return HF_OK;
    if (!BSON_ITER_HOLDS_NUMBER(&at))
        return error_set(err, HF_SHAPE, "\"%s\": field \"%s\" is no number: choose another fence",
                         name, fence);
    if (bson_iter_as_int64(&at) <= token)
        return HF_OK;
    return error_set(err, HF_FENCED,
                     "\"%s\": field \"%s\" has seen token %lld, ours is %lld: a later holder was"
                     " here; acquire anew",
                     name, fence, (long long)bson_iter_as_int64(&at), (long long)token);
}

/* Why no document matched; HF_OK: it would match now, try again. */
static hf_code explain(mongoc_collection_t *collection, const bson_t *filter, const char *fence,
                       int64_t token, hf_error *err)
{
    bson_t *options =
        BCON_NEW("limit", BCON_INT64(1), "readConcern", "{", "level", "majority", "}");
    mongoc_read_prefs_t *primary = mongoc_read_prefs_new(MONGOC_READ_PRIMARY);
    mongoc_cursor_t *cursor =
        mongoc_collection_find_with_opts(collection, filter, options, primary);
    const bson_t *found;
    bson_error_t error;
    hf_code code;
    if (mongoc_cursor_next(cursor, &found))
        code = refuse(collection, found, fence, token, err);
    else if (mongoc_cursor_error(cursor, &error))
        code = fail(collection, &error, false, err);
    else
        code = error_set(err, HF_NOT_FOUND, "no document of collection \"%s\" matches the filter",
                         mongoc_collection_get_name(collection));
    mongoc_cursor_destroy(cursor);
    mongoc_read_prefs_destroy(primary);
    bson_destroy(options);
    return code;
}

static hf_code guard(mongoc_collection_t *collection, const bson_t *filter, const bson_t *update,
                     const char *fence, int64_t token, hf_error *err)
{
    bson_t guarded;
    bool matched = false;
    hf_code code = HF_OK;
    write_filter(&guarded, filter, fence, token);
    for (int i = 0; i < TRIES && !code && !matched; i++) {
        code = update_one(collection, &guarded, update, &matched, err);
        if (!code && !matched)
            code = explain(collection, filter, fence, token, err);
    }
    bson_destroy(&guarded);
    if (!code && !matched)
        code = error_set(err, HF_UNREACHABLE, "the document keeps changing: nothing was written");
    return code;
}

hf_code hf_guard_mongo(mongoc_collection_t *collection, const bson_t *filter, const bson_t *update,
                       const char *fence, int64_t token, hf_error *err)
{
    const char *field = fence ? fence : "fence";
    bson_t raised;
    hf_code code;
    error_clear(err);
    if (!collection || !filter || !update || !field[0] || field[0] == '$')
        return error_set(err, HF_INVALID, "a fence needs a collection, filter, update and field");
    code = guard_check_token(token, err);
    if (code)
        return code;
    if (write_update(&raised, update, field, token))
        code = guard(collection, filter, &raised, field, token, err);
    else
        code = error_set(err, HF_INVALID,
                         "the guarded update must be of operators such as $set, and must not set"
                         " \"%s\" itself",
                         field);
    bson_destroy(&raised);
    return code;
}
