/* SPDX-License-Identifier: Apache-2.0 */
/* service.h: the service as its parts see it. One thread, microhttpd's, reads and writes for all
 * connections; a few workers make the store's calls (work.h),
 * and what they have answered is resumed (resumes.h); one cuts off slow clients
 * (connections.h); one follows events in the store (watcher.h). */
#ifndef HTTPD_SERVICE_H
#define HTTPD_SERVICE_H

#include <stdatomic.h>

#include <microhttpd.h>

#include "httpd/address.h"
#include "httpd/connections.h"
#include "httpd/hold_times.h"
#include "httpd/httpd.h"
#include "httpd/metrics.h"
#include "httpd/places.h"
#include "httpd/resumes.h"
#include "httpd/tokens.h"
#include "httpd/waits.h"
#include "httpd/watcher.h"
#include "httpd/work.h"

#define URL_SIZE 128

typedef struct routes routes;

/* Where requests are logged (access_log.h). */
typedef struct access_log {
    bool is_open, is_file; /* somewhere; not to standard error */
    int fd;
    uint64_t n_dropped; /* lines since the last that was written */
} access_log;

struct httpd {
    httpd_config config;
    places places; /* constant */
    const routes *routes;
    struct MHD_Daemon *daemon;
    tokens *tokens; /* NULL: none is needed */
    connections connections;
    work work;
    resumes resumes;
    waits waits;
    metrics metrics;
    hold_times hold_times;
    watcher watcher;
    access_log access_log;
    address at;      /* where it listens */
    hf_cancel *stop; /* fires when the service ends */
    atomic_bool is_stopping;
    char url[URL_SIZE];
};

#endif
