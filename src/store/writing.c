/* SPDX-License-Identifier: Apache-2.0 */
/* writing.c: what those who write a store call, in holdfast/store.h: the step of a record, and
 * records and sessions as bytes. */
#include "core/alloc.h"
#include "core/error.h"
#include "core/record.h"
#include "store/document.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

hf_code hf_store_fail(hf_error *err, hf_code code, const char *format, ...)
{
    hf_error said;
    va_list args;
    va_start(args, format);
    vsnprintf(said.text, sizeof said.text, format, args);
    va_end(args);
    return error_set(err, code, "%s", said.text);
}

/* ---- Records ---- */

void hf_record_init(hf_record *record, const char *name)
{
    record_init(record, name);
}

void hf_record_copy(hf_record *to, const hf_record *from)
{
    record_copy(to, from);
}

void hf_record_done(hf_record *record)
{
    record_done(record);
}

bool hf_record_makes(const hf_step *step)
{
    return record_makes(step);
}

bool hf_record_step(hf_record *record, const hf_step *step, hf_dbtime now, int64_t floor)
{
    return record_step(record, step, now, floor);
}

int64_t hf_record_floor(hf_dbtime now)
{
    return record_floor_of(now);
}

bool hf_record_is_listed(const hf_record *record, const hf_list_part *part)
{
    return record_is_listed(record, part);
}

const char *hf_record_first_listed(const hf_list_part *part)
{
    return record_first_listed(part);
}

/* ---- As bytes ---- */

static void give(bson_t *doc, void **bytes, size_t *n)
{
    *n = doc->len;
    *bytes = alloc_array(NULL, *n, 1);
    memcpy(*bytes, bson_get_data(doc), *n);
    bson_destroy(doc);
}

void hf_record_write(const hf_record *record, void **bytes, size_t *n)
{
    bson_t doc;
    document_of_record(record, &doc);
    give(&doc, bytes, n);
}

static hf_code view(const void *bytes, size_t n, const char *where, bson_t *doc, hf_error *err)
{
    if (bytes && bson_init_static(doc, bytes, n) && bson_validate(doc, BSON_VALIDATE_NONE, NULL))
        return HF_OK;
    return error_set(err, HF_SHAPE, "%.200s: what is stored there was not written by Holdfast",
                     where);
}

hf_code hf_record_read(const void *bytes, size_t n, const char *where, hf_record *out,
                       hf_error *err)
{
    bson_t doc;
    hf_code code = view(bytes, n, where, &doc, err);
    return code ? code : document_to_record(&doc, where, out, err);
}

static void append_asked(bson_t *doc, const hf_session_state *state)
{
    bson_t asked, ask;
    char key[16];
    BSON_APPEND_ARRAY_BEGIN(doc, "asked", &asked);
    for (size_t i = 0; i < state->n_asked; i++) {
        const char *at;
        bson_uint32_to_string((uint32_t)i, &at, key, sizeof key);
        document_of_ask(&state->asked[i], &ask);
        BSON_APPEND_DOCUMENT(&asked, at, &ask);
        bson_destroy(&ask);
    }
    bson_append_array_end(doc, &asked);
}

void hf_state_write(const hf_session_state *state, void **bytes, size_t *n)
{
    bson_t doc;
    document_of_session(&state->session, &doc);
    BSON_APPEND_INT64(&doc, "beat", state->beat);
    BSON_APPEND_BOOL(&doc, "dead", state->presence == HF_DEAD);
    append_asked(&doc, state);
    give(&doc, bytes, n);
}

hf_code hf_state_read(const void *bytes, size_t n, const char *where, hf_session_state *out,
                      hf_error *err)
{
    bson_t doc;
    hf_code code = view(bytes, n, where, &doc, err);
    return code ? code : document_to_state(&doc, where, out, err);
}
