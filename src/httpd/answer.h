/* SPDX-License-Identifier: Apache-2.0 */
/* answer.h: the answer to a request. Each request has one; each call here makes it. */
#ifndef HTTPD_ANSWER_H
#define HTTPD_ANSWER_H

#include <jansson.h>

#include "httpd/request.h"

/* Errors of HTTP itself. The library's own table has the errors of locks. The last column: in how
 * many seconds the same call may succeed; 0: never. */
#define PROBLEM_TABLE(X)                                                                           \
    X(PROBLEM_UNAUTHORIZED, 401, "no valid access token", 0)                                       \
    X(PROBLEM_FORBIDDEN, 403, "not allowed", 0)                                                    \
    X(PROBLEM_NO_SUCH_PATH, 404, "no such path", 0)                                                \
    X(PROBLEM_METHOD, 405, "no such method", 0)                                                    \
    X(PROBLEM_TOO_LARGE, 413, "too large", 0)                                                      \
    X(PROBLEM_NOT_JSON, 415, "no JSON", 0)                                                         \
    X(PROBLEM_HOST, 421, "not this host", 0)                                                       \
    X(PROBLEM_TOO_MANY, 429, "too many requests of one client", 5)                                 \
    X(PROBLEM_HEAD, 431, "head too large", 0)                                                      \
    X(PROBLEM_FULL, 503, "too many requests of all clients", 5)

typedef enum problem {
#define X(name, status, title, again_s) name,
    PROBLEM_TABLE(X)
#undef X
} problem;

void answer_json(request *req, unsigned status, json_t *value); /* takes the reference */
void answer_text(request *req, const char *type, char *text);   /* takes the memory */
void answer_bytes(request *req, const char *type, const void *bytes, size_t size); /* static */
void answer_nothing(request *req);                                                 /* 204 */
void answer_made(request *req, const char *type, struct MHD_Response *response);   /* takes it */

/* Problem documents (RFC 9457). */
void answer_error(request *req, const hf_error *err);
void answer_error_with(request *req, const hf_error *err, const char *key, json_t *value);
void answer_code(request *req, hf_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void answer_closed(request *req); /* the service ends */
void answer_problem(request *req, problem p, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a header to the answer that was made. */
void answer_header(request *req, const char *name, const char *value);

#endif
