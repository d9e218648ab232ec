/* SPDX-License-Identifier: Apache-2.0 */
/* path.c: finds the value at a dotted path, in a document and in a change event; protocol
 * `document` and watch.c call it. */
#include "store/mongo/driver/path.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/text.h"

bool mongo_path_find(const bson_t *doc, const char *path, bson_iter_t *out)
{
    bson_iter_t it;
    return bson_iter_init(&it, doc) && bson_iter_find_descendant(&it, path, out);
}

/* The rest of the path behind the key: "" if the key is the whole path, NULL if it is no part of
 * it.
 */
static const char *rest_of(const char *path, const char *key)
{
    size_t length = strlen(key);
    if (strncmp(path, key, length) != 0 || (path[length] && path[length] != '.'))
        return NULL;
    return path + length + (path[length] == '.');
}

/* `at` stands on a field whose name is the path, or a parent's. */
static bool find_below(const bson_iter_t *at, const char *rest, bson_iter_t *out)
{
    bson_iter_t inner;
    if (!*rest) {
        *out = *at;
        return true;
    }
    return BSON_ITER_HOLDS_DOCUMENT(at) && bson_iter_recurse(at, &inner) &&
           bson_iter_find_descendant(&inner, rest, out);
}

bool mongo_path_find_updated(const bson_t *fields, const char *path, bson_iter_t *out)
{
    bson_iter_t it;
    if (!bson_iter_init(&it, fields))
        return false;
    while (bson_iter_next(&it)) {
        const char *rest = rest_of(path, bson_iter_key(&it));
        if (rest && find_below(&it, rest, out))
            return true;
    }
    return false;
}

void mongo_path_parents(mongo_builder *out, const char *path, const char *before, const char *after)
{
    for (const char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.'))
        builder_add_format(out, "%s%.*s%s", before, (int)(dot - path), path, after);
}

/* ---- Change streams ---- */

/* Events that change the value at the path: updatedFields has it under a key with dots, or in a new
 * parent. '@' is the path, '#' are its parents. */
static const char path_filter_text[] =
    "{'1': {'$match': {'$or': ["
    "{'operationType': 'update', '$expr': {'$anyElementTrue': [{'$map': {'input': "
    "{'$objectToArray': {'$ifNull': ['$updateDescription.updatedFields', {}]}},"
    " 'in': {'$in': ['$$this.k', [#'@']]}}}]}},"
    " {'operationType': 'update', 'updateDescription.removedFields': {'$in': [#'@']}},"
    " {'operationType': {'$in': ['replace', 'delete', 'drop', 'rename', 'dropDatabase',"
    " 'invalidate']}}]}},"
    " '2': {'$project': {'operationType': 1, 'clusterTime': 1, 'documentKey._id': 1,"
    " 'fullDocument.@': 1, 'updateDescription.updatedFields': 1}}}";

bson_t *mongo_path_filter(const char *path)
{
    mongo_builder text = builder_begin("");
    for (const char *from = path_filter_text; *from; from++)
        if (*from == '@')
            builder_add(&text, path);
        else if (*from == '#')
            mongo_path_parents(&text, path, "'", "',");
        else
            builder_add_char(&text, *from);
    bson_t *stages = pipeline_json(text.text);
    builder_done(&text);
    return stages;
}
