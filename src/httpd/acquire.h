/* SPDX-License-Identifier: Apache-2.0 */
/* acquire.h: a request for a lease, which may have to wait; it has no thread while it does. */
#ifndef HTTPD_ACQUIRE_H
#define HTTPD_ACQUIRE_H

#include "httpd/request.h"

typedef struct acquire acquire;

/* Begins to wait. The request goes to the workers once more when that has ended, perhaps before
 * this returns. */
void acquire_begin(request *req);
void acquire_free(acquire *a);

#endif
