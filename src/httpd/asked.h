/* SPDX-License-Identifier: Apache-2.0 */
/* asked.h: the body of a request for a lock. */
#ifndef HTTPD_ASKED_H
#define HTTPD_ASKED_H

#include <holdfast/holdfast.h>
#include <jansson.h>

typedef struct asked {
    json_t *body; /* owns the options' texts */
    hf_lease_options options;
} asked;

/* Without a body, all values are defaults. Errors: HF_INVALID. Always end it with asked_done(). */
hf_code asked_read(asked *out, const char *text, size_t size, hf_error *err);
void asked_done(asked *a);

#endif
