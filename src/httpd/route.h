/* SPDX-License-Identifier: Apache-2.0 */
/* route.h: a call of the service, and how a request finds its own. */
#ifndef HTTPD_ROUTE_H
#define HTTPD_ROUTE_H

#include "httpd/request.h"

/* Who makes the answer: microhttpd's thread, as nothing has to be waited for; a worker, as it calls
 * the store; one of the few workers that may be kept for long; or a worker, when a wait has ended
 * that costs no thread (acquire.h). */
typedef enum run_by { RUN_AT_ONCE, RUN_WORKER, RUN_SLOW_WORKER, RUN_AFTER_WAIT } run_by;

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

/* Finds the route of a method and a path as it was sent; *rest is what stands for {...}, NULL:
 * nothing. in->n: none; *is_path: with another method there is. */
size_t route_find(const routes *in, const char *method, const char *path, const char **rest,
                  bool *is_path);

/* "GET, DELETE" for a path, in new memory. */
char *route_methods(const routes *in, const char *path);

#endif
