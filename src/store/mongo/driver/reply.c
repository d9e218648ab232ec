/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c: finds a value in a reply or a document, by its path. */
#include "store/mongo/driver/reply.h"

static bool find(const bson_t *doc, const char *path, bson_iter_t *out)
{
    bson_iter_t it;
    return bson_iter_init(&it, doc) && bson_iter_find_descendant(&it, path, out);
}

bool mongo_view(const bson_t *doc, const char *path, bson_t *out)
{
    bson_iter_t found;
    return find(doc, path, &found) && bson_view_at(&found, out);
}

bool mongo_next(bson_iter_t *batch, bson_t *doc)
{
    return bson_iter_next(batch) && BSON_ITER_HOLDS_DOCUMENT(batch) && bson_view_at(batch, doc);
}

bool mongo_first(const bson_t *reply, bson_t *doc)
{
    return mongo_view(reply, "cursor.firstBatch.0", doc);
}

/* NaN and infinity do not count as numbers. */
static bool is_countable(const bson_iter_t *it)
{
    return !BSON_ITER_HOLDS_DOUBLE(it) ||
           (bson_iter_double(it) > -9.2e18 && bson_iter_double(it) < 9.2e18);
}

int64_t mongo_int_at(const bson_t *doc, const char *path, int64_t otherwise)
{
    bson_iter_t found;
    if (find(doc, path, &found) && BSON_ITER_HOLDS_NUMBER(&found) && is_countable(&found))
        return bson_iter_as_int64(&found);
    return otherwise;
}

hf_stamp mongo_stamp_at(const bson_t *doc, const char *path)
{
    bson_iter_t found;
    uint32_t seconds, increment;
    if (!find(doc, path, &found) || !BSON_ITER_HOLDS_TIMESTAMP(&found))
        return (hf_stamp){0};
    bson_iter_timestamp(&found, &seconds, &increment);
    return (hf_stamp){(uint64_t)seconds << 32 | increment};
}

const char *mongo_text_at(const bson_t *doc, const char *path, const char *otherwise)
{
    bson_iter_t found;
    return find(doc, path, &found) && BSON_ITER_HOLDS_UTF8(&found) ? bson_iter_utf8(&found, NULL)
                                                                   : otherwise;
}

bool mongo_date_at(const bson_t *doc, const char *path, int64_t *out)
{
    bson_iter_t found;
    if (!find(doc, path, &found) || !BSON_ITER_HOLDS_DATE_TIME(&found))
        return false;
    *out = bson_iter_date_time(&found);
    return true;
}

bool mongo_id_at(const bson_t *doc, const char *path, hf_id *out)
{
    bson_iter_t found;
    if (!find(doc, path, &found) || !BSON_ITER_HOLDS_OID(&found))
        return false;
    memcpy(out->bytes, bson_iter_oid(&found)->bytes, sizeof out->bytes);
    return true;
}

bool mongo_true_at(const bson_t *doc, const char *path)
{
    bson_iter_t found;
    return find(doc, path, &found) && bson_iter_as_bool(&found);
}
