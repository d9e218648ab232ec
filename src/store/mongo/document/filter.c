/* SPDX-License-Identifier: Apache-2.0 */
/* filter.c: the user's filter and sort order of a claim, and what the server says of them; claim.c
 * and element_claim.c call it. */
#include "store/mongo/document/filter.h"
#include "core/error.h"
#include "store/mongo/shared/id_text.h"

static hf_code refuse(const char *what, const char *text, hf_error *err)
{
    bson_error_t error;
    bson_t *any = bson_new_from_json((const uint8_t *)text, -1, &error); /* for its words */
    hf_code code =
        error_set(err, HF_INVALID, "the %s %.200s is not an object in extended JSON: %.200s", what,
                  text, any ? "one object is wanted" : error.message);
    bson_destroy(any);
    return code;
}

hf_code mongo_filter_append(bson_t *to, const char *field, const char *what, const char *text,
                            hf_error *err)
{
    bson_t *doc;
    bson_iter_t value;
    if (!mongo_json_parse(text, &doc, &value))
        return refuse(what, text, err);
    bool is_object = BSON_ITER_HOLDS_DOCUMENT(&value);
    if (is_object)
        bson_append_iter(to, field, -1, &value);
    bson_destroy(doc);
    return is_object ? HF_OK : refuse(what, text, err);
}

/* The server's errors for a query that it does not understand. */
hf_code mongo_filter_explain(hf_code code, int32_t server_code, hf_error *err)
{
    bool is_query = server_code == 2    /* BadValue */
                    || server_code == 9 /* FailedToParse */
                    || server_code == 14 /* TypeMismatch */;
    if (code != HF_UNUSABLE || !is_query || !err)
        return code;
    hf_error said = *err;
    return error_set(err, HF_INVALID, "the filter or the sort order is refused: %s", said.text);
}
