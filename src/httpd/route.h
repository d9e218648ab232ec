/* SPDX-License-Identifier: Apache-2.0 */
/* route.h: a call of the service, and how to find it for a request. */
#ifndef HTTPD_ROUTE_H
#define HTTPD_ROUTE_H

#include "httpd/request.h"

/* Which thread makes the answer: microhttpd's, if there is nothing to wait for; a worker, for a
 * call to the store; the next worker, before all others, because a lease depends on it; one of the
 * few workers that may be busy for long; or a worker after a wait that occupies no thread
 * (acquire.h). */
typedef enum run_by {
    RUN_AT_ONCE,
    RUN_WORKER,
    RUN_URGENT_WORKER,
    RUN_SLOW_WORKER,
    RUN_AFTER_WAIT
} run_by;

struct route {
    const char *method, *path; /* "{...}" at the end stands for the rest */
    const char *keys;          /* of its parameters: "prefix cursor" */
    role role;                 /* the least that may call it */
    run_by run_by;
    void (*answer)(request *req); /* with one of answer.h */
};

struct routes {
    const route *all;
    size_t n;
};

/* NULL: there is none of that number. */
const route *route_at(const routes *in, size_t number);

/* Finds the route of a method and a path as it was sent. *rest is the part for {...}; NULL: none.
 * Returns in->n if there is no route; *is_path: there is one with another method. */
size_t route_find(const routes *in, const char *method, const char *path, const char **rest,
                  bool *is_path);

/* "GET, DELETE" for a path, in new memory. */
char *route_methods(const routes *in, const char *path);

#endif
