/* SPDX-License-Identifier: Apache-2.0 */
/* about.c: answers which service this is, and which store it serves; the page shows both. */
#include <limits.h>
#include <unistd.h>

#include "httpd/answer.h"
#include "httpd/routes.h"
#include "show/json.h"

void answer_service(request *req)
{
    char host[HOST_NAME_MAX + 1] = "";
    json_t *out = json_object_new();
    gethostname(host, sizeof host - 1);
    json_put_text(out, "store", req->service->config.store);
    json_put_text(out, "host", host);
    json_put_text(out, "url", req->service->url);
    json_put_text(out, "protocol", hf_client_protocol(req->service->config.client));
    json_put_text(out, "version", HF_VERSION);
    answer_json(req, MHD_HTTP_OK, out);
}
