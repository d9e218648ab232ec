/* SPDX-License-Identifier: Apache-2.0 */
/* rights.h: whether a request may be served at all. */
#ifndef HTTPD_RIGHTS_H
#define HTTPD_RIGHTS_H

#include "httpd/request.h"

/* Finds the route of a request, and who calls; what may not be served is answered with why. */
void rights_check(request *req, const char *method, const char *path);

#endif
