/* SPDX-License-Identifier: Apache-2.0 */
/* break.c: takes a lock from its holders, on behalf of an HTTP client. */
#include <netdb.h>
#include <stdlib.h>

#include "httpd/address.h"
#include "httpd/answer.h"
#include "httpd/parameter.h"
#include "httpd/routes.h"
#include "show/json.h"
#include "show/text.h"

#define TOKEN_MOST (INT64_C(1) << 53)

static bool keep_holders(void *ctx, const hf_lock_info *info)
{
    json_t **out = ctx;
    *out = json_of_holders(info);
    return false;
}

/* Logged as a warning, so that it is seen without -v: a break is rare and stops somebody's work.
 * What the client chose comes last. failed: why it failed; NULL: it did not. */
static void note(const request *req, const hf_break_options *how, const char *failed)
{
    const httpd_config *config = &req->service->config;
    char host[NI_MAXHOST];
    address_of_client(req->mhd, host, sizeof host);
    char *who = how->by ? text_print("%s@%s", how->by, host) : text_copy(host);
    char *line = failed ? text_print("%s could not break \"%s\": %s (reason: %.256s)", who,
                                     req->name, failed, how->reason)
                        : text_print("%s broke \"%s\": %.256s", who, req->name, how->reason);
    config->log(config->log_ctx, HF_LOG_WARNING, line);
    free(line);
    free(who);
}

static hf_code break_it(const request *req, const hf_break_options *how, json_t **asked,
                        hf_error *err)
{
    hf_client *client = req->service->config.client;
    hf_code code = hf_show(client, req->name, keep_holders, asked, err);
    if (!code)
        code = hf_break(client, req->name, how, err);
    note(req, how, code ? err->text : NULL);
    return code;
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
