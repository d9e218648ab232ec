/* SPDX-License-Identifier: Apache-2.0 */
/* request.h: one request, from its first byte to the last of its answer. microhttpd's thread takes
 * it in and sends the answer; in between it may be suspended for a worker, which then owns it
 * alone. */
#ifndef HTTPD_REQUEST_H
#define HTTPD_REQUEST_H

#include <microhttpd.h>

#include "httpd/service.h"

#define HEAD_MOST 16384
#define FIELDS_MOST 100 /* headers, parameters and cookies, each of which takes memory */
#define BODY_MOST 16384

typedef struct route route;

typedef struct request {
    httpd *service;
    struct MHD_Connection *mhd;
    connection *connection;
    size_t route_number;
    char method[16];    /* as it was sent, perhaps cut */
    const route *route; /* NULL: there is none such */
    caller caller;
    char *name; /* what the path ends in, or the parameter `name`, decoded; NULL: neither */
    char *body; /* BODY_MOST bytes; NULL: none came */
    size_t body_size;
    int64_t began_us;
    unsigned status;  /* 0: there is no answer yet */
    uint64_t n_bytes; /* of the answer's body; of events: so far */
    struct MHD_Response *response;
    struct acquire *acquire; /* the wait for a lock; NULL: none, or not begun */
    struct request *next;    /* waits for a worker, too */
} request;

/* microhttpd's callbacks; ctx is the service. */
enum MHD_Result request_handle(void *ctx, struct MHD_Connection *mhd, const char *path,
                               const char *method, const char *version, const char *body,
                               size_t *body_size, void **state);
void request_end(void *ctx, struct MHD_Connection *mhd, void **state,
                 enum MHD_RequestTerminationCode why);

/* Whose request it is, as limits count: its access token or user, or else its address; in new
 * memory. */
char *request_client(const request *req);

/* A worker makes the answer of its route, or begins the wait for it. */
void request_work(request *req);

#endif
