/* SPDX-License-Identifier: Apache-2.0 */
/* id_text.c: decides which _id, of any type, a lock's name means, and which one name an _id has;
 * protocol `document` calls it. Two texts that MongoDB takes for one _id, such as 42 and
 * {"$numberLong": "42"}, have one name, so that names can be compared as texts. */
#include "store/mongo/shared/id_text.h"
#include "core/alloc.h"
#include "store/mongo/driver/builder.h"

#include <errno.h>
#include <stdio.h>

/* A key that no name may contain, so that a name cannot close the document that it is put into. */
#define LAST "hf\x7f"

#define EXACT 9007199254740992.0 /* 2^53: below it an integral double is one integer */

/* ---- Text to value ---- */

/* How the text of a value begins. Any other text is the string itself, NaN and [1] too. */
static bool may_be_json(const char *text)
{
    text += strspn(text, " \t\r\n");
    return (*text && strchr("{\"-0123456789", *text)) || strcmp(text, "true") == 0 ||
           strcmp(text, "false") == 0 || strcmp(text, "null") == 0;
}

/* libbson lets integers beyond 64 bits wrap. */
static bool is_too_large(const char *text)
{
    char *end;
    errno = 0;
    (void)strtoll(text, &end, 10);
    return errno == ERANGE && !end[strspn(end, " \t\r\n")];
}

/* {"_id": TEXT, LAST: 1}, or NULL. */
static bson_t *wrap(const char *text)
{
    bson_error_t error;
    mongo_builder json = builder_begin("");
    builder_add_format(&json, "{\"_id\":%s,\"" LAST "\":1}", text);
    bson_t *doc = bson_new_from_json((const uint8_t *)json.text, -1, &error);
    builder_done(&json);
    return doc;
}

/* libbson stops after the first document and ignores what follows.
 */
bool mongo_json_parse(const char *text, bson_t **doc, bson_iter_t *value)
{
    bson_iter_t last;
    *doc = strstr(text, LAST) ? NULL : wrap(text);
    if (!*doc)
        return false;
    if (bson_count_keys(*doc) == 2 && bson_iter_init_find(value, *doc, "_id") &&
        bson_iter_init_find(&last, *doc, LAST))
        return true;
    bson_destroy(*doc);
    return false;
}

static bool begins_with_operator(const bson_iter_t *value)
{
    bson_iter_t first;
    return bson_iter_recurse(value, &first) && bson_iter_next(&first) &&
           bson_iter_key(&first)[0] == '$';
}

/* MongoDB has neither arrays nor expressions as an _id, nor objects whose keys begin with $. */
bool mongo_id_is_possible(const bson_iter_t *value)
{
    switch ((int)bson_iter_type(value)) {
    case BSON_TYPE_ARRAY:
    case BSON_TYPE_REGEX:
    case BSON_TYPE_UNDEFINED:
        return false;
    case BSON_TYPE_DOCUMENT:
        return !begins_with_operator(value);
    default:
        return true;
    }
}

/* The same for a text that means an _id. */
static bool parse(const char *text, bson_t **doc, bson_iter_t *value)
{
    if (!may_be_json(text) || is_too_large(text) || !mongo_json_parse(text, doc, value))
        return false;
    if (mongo_id_is_possible(value))
        return true;
    bson_destroy(*doc);
    return false;
}

void mongo_id_append(bson_t *to, const char *field, const char *name)
{
    bson_t *doc;
    bson_iter_t value;
    if (!parse(name, &doc, &value)) {
        BSON_APPEND_UTF8(to, field, name);
        return;
    }
    bson_append_iter(to, field, -1, &value);
    bson_destroy(doc);
}

/* ---- Value to text ---- */

/* Removes the blanks between the parts, in place. */
static void squeeze(char *json)
{
    char *to = json;
    bool quoted = false;
    for (const char *from = json; *from; from++) {
        if (*from == ' ' && !quoted)
            continue;
        if (*from == '"')
            quoted = !quoted;
        *to++ = *from;
        if (*from == '\\' && quoted)
            *to++ = *++from;
    }
    *to = '\0';
}

/* {"_id":VALUE} without what is around the value. No JSON: a text in it is no UTF-8. */
static bool write_json(const bson_iter_t *id, char name[HF_NAME_MAX + 1])
{
    static const char before[] = "{\"_id\":";
    bson_t doc = BSON_INITIALIZER;
    bson_append_iter(&doc, "_id", -1, id);
    char *json = bson_as_relaxed_extended_json(&doc, NULL);
    bson_destroy(&doc);
    if (!json)
        return false;
    squeeze(json);
    size_t length = strlen(json) - (sizeof before - 1) - 1;
    bool fits = length <= HF_NAME_MAX;
    if (fits)
        snprintf(name, HF_NAME_MAX + 1, "%.*s", (int)length, json + sizeof before - 1);
    bson_free(json);
    return fits;
}

/* A string is its own name, unless the name would mean something else. */
static bool write_text(const bson_iter_t *id, char name[HF_NAME_MAX + 1])
{
    uint32_t length;
    const char *text = bson_iter_utf8(id, &length);
    bson_iter_t value;
    bson_t *doc;
    bool is_plain = length && strlen(text) == length;
    if (is_plain && parse(text, &doc, &value)) {
        bson_destroy(doc);
        is_plain = false;
    }
    if (!is_plain)
        return write_json(id, name);
    if (length > HF_NAME_MAX || !bson_utf8_validate(text, length, false))
        return false;
    memcpy(name, text, length + 1);
    return true;
}

/* Whole numbers as integers: to MongoDB, 42 and 42.0 are one _id. */
static bool write_double(const bson_iter_t *id, char name[HF_NAME_MAX + 1])
{
    double value = bson_iter_double(id);
    bool is_near = value > -EXACT && value < EXACT;
    if (!is_near || value < (double)(long long)value || value > (double)(long long)value)
        return write_json(id, name);
    snprintf(name, HF_NAME_MAX + 1, "%lld", (long long)value);
    return true;
}

static bool write_decimal(const bson_iter_t *id, char name[HF_NAME_MAX + 1])
{
    bson_decimal128_t value;
    char text[BSON_DECIMAL128_STRING];
    bson_iter_decimal128(id, &value);
    bson_decimal128_to_string(&value, text);
    const char *digits = text + (text[0] == '-');
    size_t n = strspn(digits, "0123456789");
    if (!n || n > 18 || digits[n])
        return write_json(id, name);
    snprintf(name, HF_NAME_MAX + 1, "%lld", strtoll(text, NULL, 10));
    return true;
}

bool mongo_id_read(const bson_iter_t *id, char name[HF_NAME_MAX + 1])
{
    switch ((int)bson_iter_type(id)) {
    case BSON_TYPE_UTF8:
        return write_text(id, name);
    case BSON_TYPE_DOUBLE:
        return write_double(id, name);
    case BSON_TYPE_DECIMAL128:
        return write_decimal(id, name);
    default:
        return write_json(id, name);
    }
}

bool mongo_id_json(const bson_iter_t *id, char json[HF_NAME_MAX + 1])
{
    return BSON_ITER_HOLDS_UTF8(id) ? write_json(id, json) : mongo_id_read(id, json);
}

void mongo_id_show(const bson_t *doc, char name[HF_NAME_MAX + 1])
{
    bson_iter_t id;
    if (!bson_iter_init_find(&id, doc, "_id") || !mongo_id_read(&id, name))
        snprintf(name, HF_NAME_MAX + 1, "(it cannot be shown)");
}

bool mongo_id_canonical(const char *given, char name[HF_NAME_MAX + 1])
{
    bson_t doc = BSON_INITIALIZER;
    bson_iter_t id;
    mongo_id_append(&doc, "_id", given);
    bool fits = bson_iter_init_find(&id, &doc, "_id") && mongo_id_read(&id, name);
    bson_destroy(&doc);
    return fits;
}
