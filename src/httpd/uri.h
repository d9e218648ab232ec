/* SPDX-License-Identifier: Apache-2.0 */
/* uri.h: percent-encoding in a URI. */
#ifndef HTTPD_URI_H
#define HTTPD_URI_H

/* Decodes into new memory; NULL: a % without two hexadecimal digits after it, or %00. */
char *uri_decode(const char *text);

#endif
