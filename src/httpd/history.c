/* SPDX-License-Identifier: Apache-2.0 */
/* history.c: answers with the turns that have ended, of one lock or of all. */
#include "httpd/answer.h"
#include "httpd/parameter.h"
#include "httpd/routes.h"
#include "show/json.h"

#define TURNS_DEFAULT 100
#define TURNS_MOST 1000

/* name NULL: of all locks. */
static void answer(request *req, const char *name, const hf_history_options *options)
{
    hf_error err = {0};
    json_t *out = json_history_new();
    hf_code code = hf_history(req->service->config.client, name, options, json_add_turn, out, &err);
    if (code) {
        json_decref(out);
        answer_error(req, &err);
        return;
    }
    answer_json(req, MHD_HTTP_OK, out);
}

static void answer_part(request *req, const char *name)
{
    int64_t limit, since_ms;
    if (!parameter_number(req, "limit", 1, TURNS_MOST, TURNS_DEFAULT, &limit) ||
        !parameter_number(req, "since_ms", 0, INT64_MAX, 0, &since_ms))
        return;
    const hf_history_options options = {.struct_size = sizeof options,
                                        .since_ms = since_ms,
                                        .limit = (size_t)limit,
                                        .tells_missing = true};
    answer(req, name, &options);
}

void answer_history(request *req)
{
    answer_part(req, NULL);
}

void answer_history_of_one(request *req)
{
    answer_part(req, req->name);
}
