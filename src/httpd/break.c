/* SPDX-License-Identifier: Apache-2.0 */
/* break.c: takes a lock from its holders, on behalf of an HTTP client. */
#include <stdlib.h>

#include "httpd/answer.h"
#include "httpd/parameter.h"
#include "httpd/routes.h"
#include "show/json.h"

#define TOKEN_MOST (INT64_C(1) << 53)

static bool keep_holders(void *ctx, const hf_lock_info *info)
{
    json_t **out = ctx;
    *out = json_of_holders(info);
    return false;
}

static hf_code break_it(const request *req, const hf_break_options *how, json_t **asked,
                        hf_error *err)
{
    hf_client *client = req->service->config.client;
    hf_code code = hf_show(client, req->name, keep_holders, asked, err);
    return code ? code : hf_break(client, req->name, how, err);
}

static void tell(request *req, json_t *asked)
{
    json_t *out = json_object_new();
    json_put_text(out, "name", req->name);
    json_put(out, "asked", json_incref(asked));
    answer_json(req, MHD_HTTP_OK, out);
}

void answer_break(request *req)
{
    json_t *asked = NULL;
    hf_error err = {0};
    hf_break_options how = {.struct_size = sizeof how, .cancel = req->service->stop};
    if (!parameter_number(req, "if_token", 1, TOKEN_MOST, 0, &how.if_token))
        return;
    char *reason = parameter_text(req, "reason");
    how.reason = reason;
    how.by = *req->caller.name ? req->caller.name : NULL;
    if (!reason || !*reason)
        answer_code(req, HF_INVALID, "say why, with reason=TEXT: the holder sees it");
    else if (break_it(req, &how, &asked, &err))
        answer_error(req, &err);
    else
        tell(req, asked);
    json_decref(asked);
    free(reason);
}
