/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h: one that follows the events, as server-sent events over one connection. */
#ifndef HTTPD_STREAM_H
#define HTTPD_STREAM_H

#include "httpd/watcher.h"

typedef struct stream stream;

/* Resumes all that sleep, as there may be something for them; the watcher's mutex is locked. */
void streams_wake_locked(watcher *w);

#endif
