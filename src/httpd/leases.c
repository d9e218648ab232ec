/* SPDX-License-Identifier: Apache-2.0 */
/* leases.c: renews and releases leases, for clients that know their ids. */
#include "httpd/answer.h"
#include "httpd/routes.h"
#include "show/json.h"

void answer_renew(request *req)
{
    hf_lease lease;
    hf_error err = {0};
    if (hf_lease_renew(req->service->config.client, req->name, &lease, &err)) {
        answer_error(req, &err);
        return;
    }
    httpd *service = req->service;
    metrics_margin(&service->metrics,
                   hold_times_renew(&service->hold_times, req->name, lease.left_ms));
    json_t *out = json_object_new();
    json_put_text(out, "lease", req->name);
    json_put_token(out, lease.token);
    json_put_number(out, "expires_in_ms", lease.left_ms);
    json_put_number(out, "ttl_ms", lease.ttl_ms);
    answer_json(req, MHD_HTTP_OK, out);
}

void answer_release(request *req)
{
    hf_error err = {0};
    httpd *service = req->service;
    hf_code code = hf_lease_release(service->config.client, req->name, &err);
    bool has_ended = !code || code == HF_LOST;
    int64_t held_us = has_ended ? hold_times_end(&service->hold_times, req->name) : -1;
    if (code) {
        answer_error(req, &err);
        return;
    }
    metrics_hold(&service->metrics, held_us);
    answer_nothing(req);
}
