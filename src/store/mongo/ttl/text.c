/* SPDX-License-Identifier: Apache-2.0 */
/* text.c: puts the names of the fields into texts of protocol `ttl`, and tells locks from other
 * documents; called by ttl.c and strangers.c. */
#include "store/mongo/ttl/text.h"
#include "core/id.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/reply.h"

/* Our documents say how long they last. Other programs' documents last as long as the index allows:
 * a number of ms, or null for ever, because no date is before null. The time is subtracted from
 * now: another program's date may be so far ahead that nothing can be added to it. */
static const char over_updated[] =
    "{'$subtract': ['$$NOW', {'$cond': [" TTL_IS_OURS ", '$ttl_ms', '$$x.foreign_ms']}]}";
static const char over_expires_at[] =
    "{'$subtract': ['$$NOW', {'$cond': [" TTL_IS_OURS ", 0, '$$x.foreign_ms']}]}";

static const char fresh_updated[] = "'$$NOW'";
static const char fresh_expires_at[] = "{'$add': ['$$NOW', '$$x.ttl_ms']}";
static const char renewed_expires_at[] = "{'$add': ['$$NOW', '$ttl_ms']}";

static const char *part_of(const mongo_store *store, char letter)
{
    bool expires_at = store->uri.shape == MONGO_SHAPE_EXPIRE_AT;
    switch (letter) {
    case 'o':
        return expires_at ? over_expires_at : over_updated;
    case 'r':
        return expires_at ? renewed_expires_at : fresh_updated;
    default:
        return expires_at ? fresh_expires_at : fresh_updated;
    }
}

char *mongo_ttl_text(const mongo_store *store, const char *text)
{
    mongo_builder out = builder_begin("");
    for (; *text; text++)
        if (*text == '@') {
            builder_add(&out, store->uri.time_field);
        } else if (*text == '~') {
            builder_add(&out, store->uri.owner_field);
        } else if (*text == '#') {
            char *part = mongo_ttl_text(store, part_of(store, *++text));
            builder_add(&out, part);
            free(part);
        } else {
            builder_add_char(&out, *text);
        }
    return out.text;
}

int32_t mongo_ttl_of(const bson_t *doc)
{
    bson_iter_t it;
    hf_id ticket;
    bool is_ours = mongo_id_at(doc, "ticket", &ticket) && bson_iter_init_find(&it, doc, "ttl_ms") &&
                   BSON_ITER_HOLDS_INT32(&it) && bson_iter_int32(&it) > 0;
    return is_ours ? bson_iter_int32(&it) : 0;
}

static bool names_an_owner(const mongo_store *store, const char *field)
{
    return strcmp(field, store->uri.owner_field) == 0 || strcmp(field, TTL_OWNER) == 0 ||
           strcmp(field, TTL_OWNER_TOO) == 0;
}

/* A look adds hf_left. */
bool mongo_ttl_is_lock(const mongo_store *store, const bson_t *doc)
{
    static const char *const without[] = {"_id", "hf_left"};
    bson_iter_t it;
    bool is_plain = true;
    if (mongo_ttl_of(doc))
        return true;
    if (!bson_iter_init(&it, doc))
        return false;
    while (bson_iter_next(&it)) {
        const char *field = bson_iter_key(&it);
        if (names_an_owner(store, field))
            return true;
        is_plain &= strcmp(field, without[0]) == 0 || strcmp(field, without[1]) == 0 ||
                    strcmp(field, store->uri.time_field) == 0;
    }
    return is_plain;
}
