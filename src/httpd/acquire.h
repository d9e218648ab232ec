/* SPDX-License-Identifier: Apache-2.0 */
/* acquire.h: a request for a lease, which may have to wait and occupies no thread meanwhile. */
#ifndef HTTPD_ACQUIRE_H
#define HTTPD_ACQUIRE_H

#include "httpd/request.h"

typedef struct acquire acquire;

/* Begins the wait. When it ends, perhaps before this returns, the request goes to the workers once
 * more. */
void acquire_begin(request *req);
void acquire_free(acquire *a);

#endif
