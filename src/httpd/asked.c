/* SPDX-License-Identifier: Apache-2.0 */
/* asked.c: reads the JSON body of a request for a lock; each error names the field. */
#include "httpd/asked.h"

#include <string.h>

#include "httpd/fail.h"

#define WAIT_MOST_MS INT64_C(86400000)

typedef enum value_kind { STRING, NUMBER, YES_OR_NO } value_kind;

static const struct field {
    const char *name;
    value_kind kind;
} fields[] = {{"mode", STRING},    {"permits", NUMBER}, {"limit", NUMBER}, {"set_limit", YES_OR_NO},
              {"wait_ms", NUMBER}, {"ttl_ms", NUMBER},  {"why", STRING},   {"owner", STRING}};
#define N_FIELDS (sizeof fields / sizeof *fields)

static bool is_of(value_kind kind, const json_t *value)
{
    return kind == NUMBER   ? json_is_integer(value)
           : kind == STRING ? json_is_string(value)
                            : json_is_boolean(value);
}

static hf_code check_field(const char *name, const json_t *value, hf_error *err)
{
    for (size_t i = 0; i < N_FIELDS; i++) {
        if (strcmp(name, fields[i].name) != 0)
            continue;
        static const char *const kinds[] = {"a string", "a whole number", "true or false"};
        if (is_of(fields[i].kind, value))
            return HF_OK;
        return fail(err, HF_INVALID, "%s is to be %s", name, kinds[fields[i].kind]);
    }
    return fail(
        err, HF_INVALID,
        "there is no %.100s; there are mode, permits, limit, set_limit, wait_ms, ttl_ms, why, "
        "owner",
        name);
}

static hf_code check_fields(json_t *body, hf_error *err)
{
    const char *name;
    json_t *value;
    hf_code code = json_is_object(body) ? HF_OK : fail(err, HF_INVALID, "the body is no object");
    json_object_foreach(body, name, value) if (!code) code = check_field(name, value, err);
    return code;
}

static const char *text_of(const asked *a, const char *name)
{
    return json_string_value(json_object_get(a->body, name));
}

/* 0 where it is not said. */
static int64_t number_of(const asked *a, const char *name)
{
    return json_integer_value(json_object_get(a->body, name));
}

/* A number that does not fit becomes one that is refused as a number of permits. */
static int32_t count_of(const asked *a, const char *name)
{
    int64_t n = number_of(a, name);
    return n < 0 ? -1 : n > INT32_MAX ? INT32_MAX : (int32_t)n;
}

static hf_code check_values(const asked *a, const char *mode, hf_error *err)
{
    int64_t wait_ms = number_of(a, "wait_ms");
    if (strcmp(mode, "shared") != 0 && strcmp(mode, "exclusive") != 0)
        return fail(err, HF_INVALID, "mode is exclusive or shared, not %.100s", mode);
    if (wait_ms < 0 || wait_ms > WAIT_MOST_MS)
        return fail(err, HF_INVALID, "wait_ms is from 0, to be answered at once, to 86400000");
    if (json_object_get(a->body, "ttl_ms") && !number_of(a, "ttl_ms"))
        return fail(err, HF_INVALID,
                    "ttl_ms is from 1000 to 3600000; leave it out for the default");
    return HF_OK;
}

static hf_code read_options(asked *a, hf_error *err)
{
    const char *said = text_of(a, "mode"), *mode = said ? said : "exclusive";
    hf_code code = check_values(a, mode, err);
    int64_t wait_ms = number_of(a, "wait_ms");
    a->options = (hf_lease_options){
        .struct_size = sizeof a->options,
        .lock = {.struct_size = sizeof a->options.lock,
                 .mode = strcmp(mode, "shared") ? HF_EXCLUSIVE : HF_SHARED,
                 .permits = count_of(a, "permits"),
                 .limit = count_of(a, "limit"),
                 .sets_limit = json_is_true(json_object_get(a->body, "set_limit")),
                 .wait_ms = wait_ms ? wait_ms : HF_TRY,
                 .why = text_of(a, "why")},
        .ttl_ms = number_of(a, "ttl_ms"),
        .owner = text_of(a, "owner")};
    return code;
}

hf_code asked_read(asked *out, const char *text, size_t size, hf_error *err)
{
    json_error_t wrong;
    *out = (asked){.body = size ? json_loadb(text, size, 0, &wrong) : json_object()};
    if (!out->body)
        return fail(err, HF_INVALID, "the body is no JSON: %s", wrong.text);
    hf_code code = check_fields(out->body, err);
    return code ? code : read_options(out, err);
}

void asked_done(asked *a)
{
    json_decref(a->body);
}
