/* SPDX-License-Identifier: Apache-2.0 */
/* asked.c: reads the JSON object in which a request for a lock says what it wants. */
#include "httpd/asked.h"

#include <string.h>

#include "httpd/fail.h"

#define WAIT_MOST_MS INT64_C(86400000)

static hf_code read_options(asked *a, hf_error *err)
{
    json_error_t wrong;
    const char *mode = "exclusive", *why = NULL, *owner = NULL;
    int permits = 0, limit = 0;
    json_int_t wait_ms = 0, ttl_ms = 0;
    if (json_unpack_ex(a->body, &wrong, JSON_STRICT, "{s?:s, s?:i, s?:i, s?:I, s?:I, s?:s, s?:s}",
                       "mode", &mode, "permits", &permits, "limit", &limit, "wait_ms", &wait_ms,
                       "ttl_ms", &ttl_ms, "why", &why, "owner", &owner))
        return fail(err, HF_INVALID, "the body: %s", wrong.text);
    bool is_shared = strcmp(mode, "shared") == 0;
    if (!is_shared && strcmp(mode, "exclusive") != 0)
        return fail(err, HF_INVALID, "mode is exclusive or shared, not %.100s", mode);
    if (wait_ms < 0 || wait_ms > WAIT_MOST_MS)
        return fail(err, HF_INVALID, "wait_ms is from 0, to be answered at once, to 86400000");
    a->options = (hf_lease_options){.struct_size = sizeof a->options,
                                    .lock = {.struct_size = sizeof a->options.lock,
                                             .mode = is_shared ? HF_SHARED : HF_EXCLUSIVE,
                                             .permits = permits,
                                             .limit = limit,
                                             .wait_ms = wait_ms ? wait_ms : HF_TRY,
                                             .why = why},
                                    .ttl_ms = ttl_ms,
                                    .owner = owner};
    return HF_OK;
}

hf_code asked_read(asked *out, const char *text, size_t size, hf_error *err)
{
    json_error_t wrong;
    *out = (asked){.body = size ? json_loadb(text, size, 0, &wrong) : json_object()};
    if (!out->body)
        return fail(err, HF_INVALID, "the body is no JSON: %s", wrong.text);
    return read_options(out, err);
}

void asked_done(asked *a)
{
    json_decref(a->body);
}
