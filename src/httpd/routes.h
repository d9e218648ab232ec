/* SPDX-License-Identifier: Apache-2.0 */
/* routes.h: the calls that the service knows. */
#ifndef HTTPD_ROUTES_H
#define HTTPD_ROUTES_H

#include "httpd/route.h"

extern const routes routes_all;

/* The functions that make the answers, each in the file of its subject. */
void answer_locks(request *req);          /* locks.c */
void answer_lock(request *req);           /* locks.c */
void answer_why(request *req);            /* locks.c */
void answer_history(request *req);        /* history.c */
void answer_history_of_one(request *req); /* history.c */
void answer_break(request *req);          /* break.c */
void answer_acquire(request *req);        /* acquire.c */
void answer_renew(request *req);          /* leases.c */
void answer_release(request *req);        /* leases.c */
void answer_sessions(request *req);       /* sessions.c */
void answer_alive(request *req);          /* health.c */
void answer_ready(request *req);          /* health.c */
void answer_metrics(request *req);        /* prometheus.c */
void answer_service(request *req);        /* about.c */
void answer_events(request *req);         /* stream.c */
void answer_file(request *req);           /* files.c */

#endif
