/* SPDX-License-Identifier: Apache-2.0 */
/* lock_id.c: writes and reads lockIds; shape.c and document.c call it. See lock_id.h.
 *
 * A ticket has 12 bytes, a UUID 16. The four others are the version and variant of a UUID whose
 * bits are the program's own (RFC 9562, version 8), and a mark. */
#include "store/mongo/document/lock_id.h"
#include "core/id.h"
#include "store/document.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/command.h"

#include <stdio.h>

static const uint8_t mark[4] = {0x86, 0x66, 0x80, 0x00};
#define MARK_AT 6

typedef struct uuid {
    uint8_t bytes[16];
} uuid;

/* .NET writes the first three groups of a legacy UUID with their lowest byte first. */
static void swap_groups(uuid *of)
{
    static const uint8_t order[8] = {3, 2, 1, 0, 5, 4, 7, 6};
    const uuid from = *of;
    for (size_t i = 0; i < sizeof order; i++)
        of->bytes[i] = from.bytes[order[i]];
}

static bool is_uuid(const bson_iter_t *it, bson_subtype_t *subtype, uuid *out)
{
    uint32_t size;
    const uint8_t *data;
    if (!BSON_ITER_HOLDS_BINARY(it))
        return false;
    bson_iter_binary(it, subtype, &size, &data);
    if (size != sizeof *out ||
        (*subtype != BSON_SUBTYPE_UUID && *subtype != BSON_SUBTYPE_UUID_DEPRECATED))
        return false;
    memcpy(out->bytes, data, sizeof *out);
    if (*subtype == BSON_SUBTYPE_UUID_DEPRECATED)
        swap_groups(out);
    return true;
}

/* ---- Writing ---- */

static void append_uuid(bson_t *to, const char *field, hf_id ticket, bson_subtype_t subtype)
{
    uuid u;
    memcpy(u.bytes, ticket.bytes, MARK_AT);
    memcpy(u.bytes + MARK_AT, mark, sizeof mark);
    memcpy(u.bytes + MARK_AT + sizeof mark, ticket.bytes + MARK_AT, sizeof ticket - MARK_AT);
    if (subtype == BSON_SUBTYPE_UUID_DEPRECATED)
        swap_groups(&u);
    bson_append_binary(to, field, -1, subtype, u.bytes, sizeof u);
}

void mongo_lock_id_append(const mongo_uri *uri, bson_t *to, const char *field, hf_id ticket)
{
    char text[ID_TEXT_SIZE];
    switch ((mongo_lock_id_type)uri->lock_id_type) {
    case MONGO_LOCK_ID_OBJECT_ID:
        document_append_id(to, field, ticket);
        break;
    case MONGO_LOCK_ID_UUID:
        append_uuid(to, field, ticket, BSON_SUBTYPE_UUID);
        break;
    case MONGO_LOCK_ID_UUID_LEGACY:
        append_uuid(to, field, ticket, BSON_SUBTYPE_UUID_DEPRECATED);
        break;
    case MONGO_LOCK_ID_STRING:
        id_write(ticket, text);
        bson_append_utf8(to, field, -1, text, -1);
        break;
    }
}

void mongo_lock_id_append_no_array(const mongo_uri *uri, bson_t *query)
{
    const char *const fields[] = {uri->lock_field, NULL};
    mongo_append_no_array(query, fields);
}

void mongo_lock_id_append_is(const mongo_uri *uri, bson_t *query, hf_id ticket)
{
    mongo_lock_id_append(uri, query, uri->lock_field, ticket);
    mongo_lock_id_append_no_array(uri, query);
}

void mongo_lock_id_append_seen(const mongo_uri *uri, bson_t *query, const bson_iter_t *lock_id)
{
    bson_append_iter(query, uri->lock_field, -1, lock_id);
    mongo_lock_id_append_no_array(uri, query);
}

void mongo_lock_id_append_all(const mongo_uri *uri, bson_t *to, const char *field,
                              const hf_step *step)
{
    bson_t all;
    char key[16];
    bson_append_array_begin(to, field, -1, &all);
    mongo_lock_id_append(uri, &all, "0", step->enter->entry.ticket);
    for (size_t i = 0; i < step->n_leaves; i++)
        mongo_lock_id_append(uri, &all, mongo_key(i + 1, key), step->leaves[i].ticket);
    bson_append_array_end(to, &all);
}

/* Binary values compare by length and subtype first, so these bounds admit UUIDs only. */
static void append_uuid_test(mongo_builder *out, const char *path, const char *subtype)
{
    builder_add_format(
        out,
        "{'$and': [{'$gte': ['%s', {'$binary': {'base64': 'AAAAAAAAAAAAAAAAAAAAAA==',"
        " 'subType': '%s'}}]}, {'$lte': ['%s', {'$binary': {'base64':"
        " '/////////////////////w==', 'subType': '%s'}}]}]}",
        path, subtype, path, subtype);
}

void mongo_lock_id_append_test(const mongo_uri *uri, mongo_builder *out, const char *path)
{
    switch ((mongo_lock_id_type)uri->lock_id_type) {
    case MONGO_LOCK_ID_OBJECT_ID:
        builder_add_format(out, "{'$eq': [{'$type': '%s'}, 'objectId']}", path);
        break;
    case MONGO_LOCK_ID_UUID:
        append_uuid_test(out, path, "04");
        break;
    case MONGO_LOCK_ID_UUID_LEGACY:
        append_uuid_test(out, path, "03");
        break;
    case MONGO_LOCK_ID_STRING:
        builder_add_format(out, "{'$eq': [{'$type': '%s'}, 'string']}", path);
        break;
    }
}

/* ---- Reading ---- */

static mongo_lock_id hash_of(const void *data, size_t size)
{
    return (mongo_lock_id){.ticket = id_of_hash(id_hash(ID_HASH, data, size))};
}

static mongo_lock_id of_uuid(const uuid *u)
{
    mongo_lock_id id = {.is_exact = true};
    if (memcmp(u->bytes + MARK_AT, mark, sizeof mark) != 0)
        return hash_of(u->bytes, sizeof *u);
    memcpy(id.ticket.bytes, u->bytes, MARK_AT);
    memcpy(id.ticket.bytes + MARK_AT, u->bytes + MARK_AT + sizeof mark, sizeof id.ticket - MARK_AT);
    return id;
}

static mongo_lock_id of_text(const char *text, uint32_t length)
{
    mongo_lock_id id = {.is_exact = length == ID_TEXT_SIZE - 1};
    return id.is_exact && id_read(text, &id.ticket) ? id : hash_of(text, length);
}

static mongo_lock_id of_object_id(const bson_oid_t *oid)
{
    mongo_lock_id id = {.is_exact = true};
    memcpy(id.ticket.bytes, oid->bytes, sizeof id.ticket.bytes);
    return id;
}

static const char *const type_names[] = {[MONGO_LOCK_ID_OBJECT_ID] = "objectId",
                                         [MONGO_LOCK_ID_UUID] = "uuid",
                                         [MONGO_LOCK_ID_UUID_LEGACY] = "uuidLegacy",
                                         [MONGO_LOCK_ID_STRING] = "string"};

bool mongo_lock_id_read(const mongo_uri *uri, const bson_iter_t *it, mongo_lock_id *out)
{
    bson_subtype_t subtype;
    mongo_lock_id_type type;
    uuid u;
    uint32_t length;
    if (BSON_ITER_HOLDS_OID(it)) {
        type = MONGO_LOCK_ID_OBJECT_ID;
        *out = of_object_id(bson_iter_oid(it));
    } else if (is_uuid(it, &subtype, &u)) {
        type = subtype == BSON_SUBTYPE_UUID ? MONGO_LOCK_ID_UUID : MONGO_LOCK_ID_UUID_LEGACY;
        *out = of_uuid(&u);
    } else if (BSON_ITER_HOLDS_UTF8(it) && uri->lock_id_type == MONGO_LOCK_ID_STRING) {
        const char *text = bson_iter_utf8(it, &length);
        type = MONGO_LOCK_ID_STRING;
        *out = of_text(text, length);
    } else {
        return false;
    }
    out->type = type_names[type];
    out->is_our_type = type == (mongo_lock_id_type)uri->lock_id_type;
    return true;
}

bool mongo_lock_id_is_one(const mongo_uri *uri, const bson_iter_t *it)
{
    mongo_lock_id id;
    return mongo_lock_id_read(uri, it, &id);
}

void mongo_lock_id_text(const bson_iter_t *it, char out[MONGO_LOCK_ID_TEXT])
{
    bson_subtype_t subtype;
    uuid u;
    if (BSON_ITER_HOLDS_OID(it)) {
        bson_oid_to_string(bson_iter_oid(it), out);
    } else if (is_uuid(it, &subtype, &u)) {
        for (size_t i = 0; i < sizeof u; i++)
            out += sprintf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                           (unsigned)u.bytes[i]);
    } else {
        snprintf(out, MONGO_LOCK_ID_TEXT, "%s", bson_iter_utf8(it, NULL));
    }
}
