/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c: makes the answers: JSON, text, files built into the program, and problem documents. */
#include "httpd/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "httpd/fail.h"
#include "show/json.h"
#include "show/text.h"

#define API_TYPE "application/json"
#define PROBLEM_TYPE "application/problem+json"
#define AGAIN_S 1 /* a store that is not reached, or a service that ends, is soon back */

static const struct row {
    const char *name, *title;
    unsigned status, again_s;
} rows[] = {
#define X(name, status, title, again_s) [name] = {#name, title, status, again_s},
    PROBLEM_TABLE(X)
#undef X
};

void answer_header(request *req, const char *name, const char *value)
{
    MHD_add_response_header(req->response, name, value);
}

/* Takes the response; type NULL: there is nothing in it. */
static void give(request *req, unsigned status, const char *type, struct MHD_Response *response)
{
    if (!response)
        text_no_memory();
    req->status = status;
    req->response = response;
    if (type)
        answer_header(req, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    answer_header(req, "X-Content-Type-Options", "nosniff");
    answer_header(req, "Cross-Origin-Resource-Policy", "same-origin");
    answer_header(req, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (atomic_load(&req->service->is_stopping))
        answer_header(req, MHD_HTTP_HEADER_CONNECTION, "close");
}

void answer_nothing(request *req)
{
    give(req, MHD_HTTP_NO_CONTENT, NULL,
         MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT));
}

static void give_memory(request *req, unsigned status, const char *type, char *text)
{
    req->n_bytes = strlen(text);
    give(req, status, type,
         MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE));
}

void answer_made(request *req, const char *type, struct MHD_Response *response)
{
    give(req, MHD_HTTP_OK, type, response);
}

void answer_text(request *req, const char *type, char *text)
{
    give_memory(req, MHD_HTTP_OK, type, text);
}

void answer_bytes(request *req, const char *type, const void *bytes, size_t size)
{
    void *there = (void *)(uintptr_t)bytes; /* it is only read */
    req->n_bytes = size;
    answer_made(req, type, MHD_create_response_from_buffer(size, there, MHD_RESPMEM_PERSISTENT));
}

static void dump(request *req, unsigned status, const char *type, json_t *value)
{
    char *text = json_text(value, JSON_COMPACT);
    json_decref(value);
    give_memory(req, status, type, text);
}

void answer_json(request *req, unsigned status, json_t *value)
{
    dump(req, status, API_TYPE, value);
}

/* A problem document. detail may contain bytes from outside that are not UTF-8. */
static json_t *describe(unsigned status, const char *code, const char *title, bool retryable,
                        const char *detail)
{
    json_t *out = json_object_new();
    char *urn = text_print("urn:holdfast:%s", code);
    json_put_text(out, "type", urn);
    json_put_text(out, "title", title);
    json_put_number(out, "status", status);
    json_put_text(out, "detail", detail);
    json_put_text(out, "code", code);
    json_put(out, "retryable", json_boolean(retryable));
    free(urn);
    return out;
}

/* again_s: in how many seconds to ask again; 0: not said. */
static void complain(request *req, unsigned status, json_t *about, unsigned again_s)
{
    char text[16];
    dump(req, status, PROBLEM_TYPE, about);
    if (status == MHD_HTTP_UNAUTHORIZED)
        answer_header(req, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (!again_s)
        return;
    snprintf(text, sizeof text, "%u", again_s);
    answer_header(req, MHD_HTTP_HEADER_RETRY_AFTER, text);
}

/* Whether the same call may succeed later: a lease that is over stays so; a service that ends is
 * started again. */
static bool may_succeed(const hf_error *err)
{
    return err->code == HF_CLOSED || (err->retryable && err->code != HF_LOST);
}

void answer_error_with(request *req, const hf_error *err, const char *key, json_t *value)
{
    unsigned status = (unsigned)hf_code_http(err->code);
    json_t *about = describe(status, hf_code_name(err->code), hf_code_text(err->code),
                             may_succeed(err), err->text);
    metrics_error(&req->service->metrics, err->code);
    if (key)
        json_put(about, key, value);
    complain(req, status, about,
             status == MHD_HTTP_SERVICE_UNAVAILABLE && may_succeed(err) ? AGAIN_S : 0);
}

void answer_error(request *req, const hf_error *err)
{
    answer_error_with(req, err, NULL, NULL);
}

void answer_code(request *req, hf_code code, const char *format, ...)
{
    hf_error err = {.code = code, .retryable = hf_code_retryable(code)};
    va_list args;
    va_start(args, format);
    vsnprintf(err.text, sizeof err.text, format, args);
    va_end(args);
    answer_error(req, &err);
}

void answer_closed(request *req)
{
    answer_code(req, HF_CLOSED, "the service ends: ask another, or this one later");
}

void answer_problem(request *req, problem p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *detail = text_vprint(format, args);
    va_end(args);
    const struct row *row = &rows[p];
    complain(req, row->status,
             describe(row->status, row->name, row->title, row->again_s > 0, detail), row->again_s);
    free(detail);
}
