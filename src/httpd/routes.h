/* SPDX-License-Identifier: Apache-2.0 */
/* routes.h: the calls that the service knows. */
#ifndef HTTPD_ROUTES_H
#define HTTPD_ROUTES_H

#include "httpd/request.h"

/* Who makes the answer: microhttpd's thread, as nothing has to be waited for; a worker, as it calls
 * the store; one of the few workers that may be kept for long; or a worker, when a wait has ended
 * that costs no thread (acquire.h). */
typedef enum pace { PACE_AT_ONCE, PACE_STORE, PACE_SLOW, PACE_WAIT } pace;

struct route {
    const char *method, *path; /* "{...}" at the end stands for the rest */
    const char *keys;          /* of its parameters: "prefix cursor" */
    role role;                 /* the least that may call it */
    pace pace;
    void (*answer)(request *req); /* with one of answer.h */
};

size_t routes_count(void);
const route *route_at(size_t number);

/* Finds the route of a method and a path as it was sent; *rest is what stands for {...}, NULL:
 * nothing. routes_count(): none; *is_path: with another method there is. */
size_t route_find(const char *method, const char *path, const char **rest, bool *is_path);

/* "GET, DELETE" for a path, in new memory. */
char *route_methods(const char *path);

/* The answers, each in the file of its matter. */
void answer_locks(request *req);    /* locks.c */
void answer_lock(request *req);     /* locks.c */
void answer_break(request *req);    /* break.c */
void answer_acquire(request *req);  /* acquire.c */
void answer_renew(request *req);    /* leases.c */
void answer_release(request *req);  /* leases.c */
void answer_sessions(request *req); /* sessions.c */
void answer_alive(request *req);    /* health.c */
void answer_ready(request *req);    /* health.c */
void answer_metrics(request *req);  /* metrics.c */
void answer_events(request *req);   /* stream.c */
void answer_file(request *req);     /* files.c */

#endif
