/* SPDX-License-Identifier: Apache-2.0 */
/* locks.c: answers what locks there are, and what one is like. */
#include <stdlib.h>

#include "httpd/answer.h"
#include "httpd/listing.h"
#include "httpd/page.h"
#include "httpd/routes.h"

typedef struct part {
    page page;
    waits *waits;
} part;

static bool add_lock(void *ctx, const hf_lock_info *info)
{
    part *p = ctx;
    if (page_wants(&p->page, info->name))
        page_add(&p->page, info->name, listing_of_lock(p->waits, info));
    return !p->page.has_more;
}

void answer_locks(request *req)
{
    part p = {.waits = &req->service->waits};
    hf_error err = {0};
    if (!page_begin(&p.page, req))
        return;
    char *prefix = request_parameter(req, "prefix");
    if (hf_list(req->service->config.client, prefix, add_lock, &p, &err)) {
        answer_error(req, &err);
        page_done(&p.page);
    } else {
        answer_json(req, MHD_HTTP_OK, page_end(&p.page, "locks"));
    }
    free(prefix);
}

typedef struct found {
    json_t *lock;
    waits *waits;
} found;

static bool keep_lock(void *ctx, const hf_lock_info *info)
{
    found *it = ctx;
    it->lock = listing_of_lock(it->waits, info);
    return false;
}

void answer_lock(request *req)
{
    found it = {.waits = &req->service->waits};
    hf_error err = {0};
    if (hf_show(req->service->config.client, req->name, keep_lock, &it, &err))
        answer_error(req, &err);
    else
        answer_json(req, MHD_HTTP_OK, it.lock);
}
