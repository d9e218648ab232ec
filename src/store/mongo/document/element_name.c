/* SPDX-License-Identifier: Apache-2.0 */
/* element_name.c: the names of locks in the elements of arrays; element.c and document.c call it.
 */
#include "core/error.h"
#include "store/mongo/document/element.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/shared/id_text.h"

#include <errno.h>
#include <stdio.h>

/* libbson lets integers beyond 64 bits wrap. */
static bool has_too_large(const char *text)
{
    bool quoted = false;
    for (; *text; text++) {
        char *end = NULL;
        errno = 0;
        if (*text == '\\' && quoted && text[1])
            text++;
        else if (*text == '"')
            quoted = !quoted;
        else if (!quoted && *text >= '0' && *text <= '9')
            (void)strtoll(text, &end, 10);
        if (end && errno == ERANGE)
            return true;
        text = end ? end - 1 : text;
    }
    return false;
}

static bool is_key(const bson_iter_t *value)
{
    return mongo_id_is_possible(value) && !BSON_ITER_HOLDS_NULL(value);
}

static bool read_both(const bson_iter_t *both, bson_iter_t *id, bson_iter_t *key)
{
    bson_iter_t it;
    if (!BSON_ITER_HOLDS_ARRAY(both) || !bson_iter_recurse(both, &it) || !bson_iter_next(&it))
        return false;
    *id = it;
    if (!bson_iter_next(&it))
        return false;
    *key = it;
    return !bson_iter_next(&it) && mongo_id_is_possible(id) && is_key(key);
}

bool mongo_element_name_read(const char *text, mongo_element_name *out)
{
    bson_iter_t both;
    if (has_too_large(text) || !mongo_json_parse(text, &out->doc, &both))
        return false;
    if (read_both(&both, &out->id, &out->key))
        return true;
    bson_destroy(out->doc);
    return false;
}

void mongo_element_name_done(mongo_element_name *name)
{
    bson_destroy(name->doc);
}

bool mongo_element_name_write(const bson_iter_t *id, const bson_iter_t *key,
                              char name[HF_NAME_MAX + 1])
{
    char first[HF_NAME_MAX + 1], second[HF_NAME_MAX + 1];
    if (!mongo_id_json(id, first) || !is_key(key) || !mongo_id_json(key, second))
        return false;
    int length = snprintf(name, HF_NAME_MAX + 1, "[%s,%s]", first, second);
    return length <= HF_NAME_MAX;
}

bool mongo_element_name_of(const bson_iter_t *both, char name[HF_NAME_MAX + 1])
{
    bson_iter_t id, key;
    return read_both(both, &id, &key) && mongo_element_name_write(&id, &key, name);
}

hf_code mongo_element_canonical(const mongo_uri *uri, const char *given, char name[HF_NAME_MAX + 1],
                                hf_error *err)
{
    mongo_element_name parsed;
    bool is_one = mongo_element_name_read(given, &parsed);
    bool fits = is_one && mongo_element_name_write(&parsed.id, &parsed.key, name);
    if (is_one)
        mongo_element_name_done(&parsed);
    if (fits)
        return HF_OK;
    return error_set(err, HF_INVALID,
                     "the name %.80s: with hfElement=%.80s it is a JSON array of the document's "
                     "_id and the element's %.80s, like [\"A17\",7], of at most %d bytes",
                     given, uri->element, uri->element_key, HF_NAME_MAX);
}

/* ---- The URI ---- */

static hf_code check_field(const mongo_uri *uri, const char *key, const char *field, hf_error *err)
{
    if (!field || (!strchr(field, '.') && strcmp(field, uri->element_key) != 0))
        return HF_OK;
    return error_set(err, HF_INVALID,
                     "%s=%.80s: with hfElement=%.80s it is a field at the top of the element, and "
                     "not its key",
                     key, field, uri->element);
}

hf_code mongo_element_check(const mongo_uri *uri, hf_error *err)
{
    if (!uri->element)
        return HF_OK;
    if (!uri->array || strchr(uri->element_key, '.'))
        return error_set(err, HF_INVALID,
                         "hfElement=%.100s: it is ARRAY.KEY, an array at the top of the documents "
                         "and the field that tells its elements apart, like lines.id",
                         uri->element);
    hf_code code = check_field(uri, "hfLockField", uri->lock_field, err);
    if (!code)
        code = check_field(uri, "hfTimeField", uri->time_field, err);
    return code ? code : check_field(uri, "hfTokenField", uri->token_field, err);
}
