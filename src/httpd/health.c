/* SPDX-License-Identifier: Apache-2.0 */
/* health.c: answers whether the service runs, and whether it reaches its store. */
#include "httpd/answer.h"
#include "httpd/routes.h"
#include "show/text.h"

void answer_alive(request *req)
{
    answer_text(req, "text/plain", text_copy("alive\n"));
}

static bool ignore(void *ctx, const hf_lock_info *info)
{
    (void)ctx;
    (void)info;
    return false;
}

/* Any prefix will do: "no such lock" is an answer of the store, too. */
void answer_ready(request *req)
{
    hf_error err = {0};
    const hf_list_options any = {
        .struct_size = sizeof any, .prefix = "ready", .limit = 1, .asks_once = true};
    hf_code code = hf_list_locks(req->service->config.client, &any, ignore, NULL, &err);
    if (code && req->service->tokens && !req->caller.role)
        answer_code(req, code,
                    "the store cannot be used; with an access token, the answer says why");
    else if (code)
        answer_error(req, &err);
    else
        answer_text(req, "text/plain", text_copy("ready\n"));
}
