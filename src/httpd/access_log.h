/* SPDX-License-Identifier: Apache-2.0 */
/* access_log.h: a line of JSON for each request that has ended. */
#ifndef HTTPD_ACCESS_LOG_H
#define HTTPD_ACCESS_LOG_H

#include "httpd/request.h"

/* path: a file, which is appended to; "-": standard error; NULL: nothing is logged. HF_INVALID: it
 * cannot be opened, is a link, or is no regular file with one name. */
hf_code access_log_open(access_log *log, const char *path, hf_error *err);
void access_log_close(access_log *log);

/* Writes the line of this request. Never waits: a line that cannot be written at once is dropped,
 * and the next line says how many were. From microhttpd's thread only. */
void access_log_write(access_log *log, const request *req);

#endif
