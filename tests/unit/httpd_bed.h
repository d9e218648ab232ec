/* SPDX-License-Identifier: Apache-2.0 */
/* httpd_bed.h: a service that runs in the test's own process, and a client that sends it text. */
#ifndef TESTS_HTTPD_BED_H
#define TESTS_HTTPD_BED_H

#include "unit.h"

#include <stdbool.h>

#include "httpd/httpd.h"

#define SOON_MS 60000 /* what should happen has happened by then, or hangs */

/* Listens on a free port of 127.0.0.1, with room for all that a test needs. Change what is to be
 * otherwise between bed_config() and bed_serve(). */
httpd_config bed_config(hf_client *client);
void bed_serve(const httpd_config *config);
hf_code bed_try_to_serve(const httpd_config *config, hf_error *err); /* HF_OK: it serves */
httpd *bed_service(void);
const char *bed_url(void);
void bed_stop(void);
bool bed_has_logged(const char *text); /* a whole line, without numbers */
bool bed_logs_lines(void);             /* no entry has a line break in it */

/* Writes a file of mode 0600; its path, until the next one is written. */
const char *bed_file(const char *text);

/* Sends the head's first line, the header lines (each with \r\n) and the body. The connection is to
 * be closed after the answer. Returns the connection. */
int bed_send(const char *call, const char *headers, const char *body);
int bed_connect(void);
int bed_connect_from(const char *host); /* an IPv4 address of this machine; NULL: any */
void bed_write(int fd, const char *text);

/* The whole answer, until the next one is read; ends the connection. */
const char *bed_answer(int fd);
const char *bed_ask(const char *call, const char *headers, const char *body);

/* Asks, and compares status and a part of the answer. */
void assert_answer(const char *call, const char *headers, const char *body, int status,
                   const char *said);
void assert_says(const char *answer, int status, const char *said);

/* The number behind a text of /metrics or of an answer; -1: the text is not there. */
double bed_number(const char *text, const char *before);
double bed_metric(const char *line);
void bed_await_metric(const char *line, double value);
void bed_pause(void); /* a moment, before something is looked at again */

#endif
