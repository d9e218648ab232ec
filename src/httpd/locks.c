/* SPDX-License-Identifier: Apache-2.0 */
/* locks.c: answers with the list of locks, with one lock, and with why it is waited for. */
#include <stdlib.h>

#include "httpd/answer.h"
#include "httpd/listing.h"
#include "httpd/page.h"
#include "httpd/parameter.h"
#include "httpd/routes.h"
#include "show/json.h"

static bool add_lock(void *ctx, const hf_lock_info *info)
{
    page *p = ctx;
    if (page_wants(p, info->name))
        page_add(p, info->name, json_of_lock(info));
    return !p->has_more;
}

static void add_waits(const page *p, waits *w)
{
    size_t i;
    json_t *lock;
    json_array_foreach(p->items, i, lock) listing_add_waits(lock, w);
}

static void answer_part(request *req, page *p, bool in_use)
{
    hf_error err = {0};
    char *prefix = parameter_text(req, "prefix");
    const hf_list_options part = {.struct_size = sizeof part,
                                  .prefix = prefix,
                                  .after = p->after,
                                  .in_use = in_use,
                                  .limit = p->room + 1}; /* one more tells that there is more */
    if (hf_list_locks(req->service->config.client, &part, add_lock, p, &err)) {
        answer_error(req, &err);
        page_done(p);
    } else {
        add_waits(p, &req->service->waits);
        answer_json(req, MHD_HTTP_OK, page_end(p, "locks"));
    }
    free(prefix);
}

void answer_locks(request *req)
{
    page p;
    int64_t in_use;
    if (parameter_number(req, "in_use", 0, 1, 0, &in_use) && page_begin(&p, req))
        answer_part(req, &p, in_use);
}

static bool keep_lock(void *ctx, const hf_lock_info *info)
{
    json_t **out = ctx;
    *out = json_of_lock(info);
    return false;
}

void answer_lock(request *req)
{
    json_t *lock = NULL;
    hf_error err = {0};
    if (hf_show(req->service->config.client, req->name, keep_lock, &lock, &err)) {
        answer_error(req, &err);
        return;
    }
    listing_add_waits(lock, &req->service->waits);
    answer_json(req, MHD_HTTP_OK, lock);
}

void answer_why(request *req)
{
    json_t *links = json_array_new();
    hf_error err = {0};
    if (hf_why(req->service->config.client, req->name, json_add_why_link, links, &err)) {
        json_decref(links);
        answer_error(req, &err);
        return;
    }
    answer_json(req, MHD_HTTP_OK, json_of_why(req->name, links));
}
