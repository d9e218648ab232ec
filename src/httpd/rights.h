/* SPDX-License-Identifier: Apache-2.0 */
/* rights.h: decides whether a request may be served at all. */
#ifndef HTTPD_RIGHTS_H
#define HTTPD_RIGHTS_H

#include "httpd/request.h"

/* Finds the route and the caller of a request. A request that may not be served is answered with
 * the reason. */
void rights_check(request *req, const char *method, const char *path);

#endif
