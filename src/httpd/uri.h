/* SPDX-License-Identifier: Apache-2.0 */
/* uri.h: what stands percent-encoded in a URI. */
#ifndef HTTPD_URI_H
#define HTTPD_URI_H

/* Decoded, in new memory; NULL: a % that two hexadecimal digits do not follow, or %00. */
char *uri_decode(const char *text);

#endif
