/* SPDX-License-Identifier: Apache-2.0 */
/* asked.h: what the body of a request for a lock asks for. */
#ifndef HTTPD_ASKED_H
#define HTTPD_ASKED_H

#include <holdfast/holdfast.h>
#include <jansson.h>

typedef struct asked {
    json_t *body; /* to which the options' texts belong */
    hf_lease_options options;
} asked;

/* No body asks for what is usual. Errors: HF_INVALID. In any case to be ended with asked_done(). */
hf_code asked_read(asked *out, const char *text, size_t size, hf_error *err);
void asked_done(asked *a);

#endif
