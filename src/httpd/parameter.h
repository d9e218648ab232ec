/* SPDX-License-Identifier: Apache-2.0 */
/* parameter.h: the parameters of a request's path. */
#ifndef HTTPD_PARAMETER_H
#define HTTPD_PARAMETER_H

#include "httpd/request.h"

/* A parameter of the path, decoded, in new memory; NULL: not given. */
char *parameter_text(const request *req, const char *key);

/* The same as a number; fallback if not given. False: it is not a valid number, and the answer says
 * so. */
bool parameter_number(request *req, const char *key, int64_t least, int64_t most, int64_t fallback,
                      int64_t *out);

#endif
