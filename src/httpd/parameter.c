/* SPDX-License-Identifier: Apache-2.0 */
/* parameter.c: reads the parameters of a request's path, for the answers. */
#include "httpd/parameter.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "httpd/answer.h"
#include "httpd/uri.h"

char *parameter_text(const request *req, const char *key)
{
    const char *raw;
    size_t size;
    if (!MHD_lookup_connection_value_n(req->mhd, MHD_GET_ARGUMENT_KIND, key, strlen(key), &raw,
                                       &size))
        return NULL;
    return uri_decode(raw ? raw : "");
}

bool parameter_number(request *req, const char *key, int64_t least, int64_t most, int64_t fallback,
                      int64_t *out)
{
    char *text = parameter_text(req, key), *end = NULL;
    errno = 0;
    *out = text ? strtoll(text, &end, 10) : fallback;
    bool is_good = !text || (*text && !*end && !errno && *out >= least && *out <= most);
    if (!is_good)
        answer_code(req, HF_INVALID, "%s=%.100s is no number from %" PRId64 " to %" PRId64, key,
                    text, least, most);
    free(text);
    return is_good;
}
