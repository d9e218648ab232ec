/* SPDX-License-Identifier: Apache-2.0 */
/* request.c: takes in a request, gets its answer made, and sends it; microhttpd calls it. */
#include "httpd/request.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "httpd/access_log.h"
#include "httpd/acquire.h"
#include "httpd/address.h"
#include "httpd/answer.h"
#include "httpd/clock.h"
#include "httpd/rights.h"
#include "httpd/route.h"
#include "show/text.h"

/* ---- Taking it in ---- */

static request *begin(httpd *service, struct MHD_Connection *mhd, const char *method)
{
    request *req = text_alloc(sizeof *req);
    req->service = service;
    req->mhd = mhd;
    req->connection =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    req->began_us = clock_now_us();
    req->route_number = service->routes->n;
    req->caller = (caller){ROLE_NONE, "", ""}; /* until its rights are looked at */
    snprintf(req->method, sizeof req->method, "%s", method);
    connections_begin_request(&service->connections, req->connection);
    return req;
}

static void drop_answer(request *req)
{
    if (req->response)
        MHD_destroy_response(req->response);
    req->response = NULL;
    req->status = 0;
}

static void refuse_size(request *req)
{
    drop_answer(req);
    answer_problem(req, PROBLEM_TOO_LARGE, "a body has at most %d bytes", BODY_MOST);
}

static bool is_too_large(const request *req)
{
    const char *size =
        MHD_lookup_connection_value(req->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return size && strtoull(size, NULL, 10) > BODY_MOST;
}

static void take_body(request *req, const char *bytes, size_t size)
{
    if (size > BODY_MOST - req->body_size) {
        refuse_size(req);
        req->body_size = BODY_MOST;
        return;
    }
    if (!req->body)
        req->body = text_alloc(BODY_MOST);
    memcpy(req->body + req->body_size, bytes, size);
    req->body_size += size;
}

char *request_client(const request *req)
{
    char host[NI_MAXHOST];
    if (*req->caller.id)
        return text_copy(req->caller.id);
    address_of_client(req->mhd, host, sizeof host);
    return text_copy(host);
}

/* ---- Answering it ---- */

static void note(const request *req, int64_t us)
{
    const httpd_config *config = &req->service->config;
    const route *r = req->route;
    char *line = text_print("%s %s: %u, %.1f ms", r ? r->method : "?", r ? r->path : "?",
                            req->status, (double)us / 1000);
    config->log(config->log_ctx, HF_LOG_DEBUG, line);
    free(line);
}

static enum MHD_Result send_answer(request *req)
{
    int64_t us = clock_now_us() - req->began_us;
    metrics_answer(&req->service->metrics, req->route_number, req->status, us);
    note(req, us);
    connections_set_deadline(&req->service->connections, req->connection);
    return MHD_queue_response(req->mhd, req->status, req->response);
}

void request_work(request *req)
{
    bool is_new = !req->acquire, has_to_wait = req->route->run_by == RUN_AFTER_WAIT;
    bool is_refused = is_new && atomic_load(&req->service->is_stopping);
    if (is_new && has_to_wait && !is_refused) {
        acquire_begin(req); /* it may have been answered by now */
        return;
    }
    if (is_refused)
        answer_closed(req);
    else
        req->route->answer(req);
    resumes_add(&req->service->resumes, req->mhd);
}

/* Called when the whole request has arrived, and again when it is resumed with its answer. */
static enum MHD_Result answer(request *req)
{
    resumes_flush(&req->service->resumes);
    if (!req->status && req->route->run_by == RUN_AT_ONCE)
        req->route->answer(req);
    if (req->status)
        return send_answer(req);
    connections_clear_deadline(&req->service->connections, req->connection);
    MHD_suspend_connection(req->mhd);
    if (work_give(&req->service->work, req))
        return MHD_YES;
    answer_closed(req);
    MHD_resume_connection(req->mhd);
    return MHD_YES;
}

enum MHD_Result request_handle(void *ctx, struct MHD_Connection *mhd, const char *path,
                               const char *method, const char *version, const char *body,
                               size_t *body_size, void **state)
{
    request *req = *state;
    (void)version;
    if (!req) {
        req = *state = begin(ctx, mhd, method);
        rights_check(req, method, path);
        if (!is_too_large(req))
            return MHD_YES;
        refuse_size(req);
        return send_answer(req);
    }
    if (!*body_size)
        return answer(req);
    take_body(req, body, *body_size);
    *body_size = 0;
    return MHD_YES;
}

void request_end(void *ctx, struct MHD_Connection *mhd, void **state,
                 enum MHD_RequestTerminationCode why)
{
    httpd *service = ctx;
    request *req = *state;
    (void)mhd;
    (void)why;
    if (!req)
        return;
    access_log_write(&service->access_log, req);
    connection *of = req->connection;
    drop_answer(req);
    acquire_free(req->acquire);
    free(req->body);
    free(req->name);
    free(req);
    *state = NULL;
    connections_end_request(&service->connections, of);
}
