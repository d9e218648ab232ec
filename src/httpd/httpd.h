/* SPDX-License-Identifier: Apache-2.0 */
/* httpd.h: what the command and its module holdfast-httpd.so, the HTTP service, agree on. */
#ifndef HTTPD_HTTPD_H
#define HTTPD_HTTPD_H

#include <holdfast/holdfast.h>

#define HTTPD_FILE "holdfast-httpd.so"
#define HTTPD_SYMBOL "holdfast_httpd"

typedef struct httpd httpd;

/* Strings are the caller's, and must live as long as the service. */
typedef struct httpd_config {
    hf_client *client;  /* the caller's, to be closed after stop() */
    const char *listen; /* "127.0.0.1:8430", "unix:/run/x"; port 0: one that is free */
    const char *cert_file, *key_file; /* PEM; both, or NULL: no TLS */
    const char *token_file; /* NULL: no access token is needed, and over TCP none breaks */
    bool is_read_only;
    bool serves_anybody; /* all that they ask, beyond loopback, too, without access tokens */
    int max_connections;
    int max_waits;          /* of one client, or with one token, at the same time */
    int max_followers;      /* the same for event streams */
    int64_t patience_ms;    /* the time for a client to send a request, or to read the answer */
    const char *access_log; /* a file, or "-": standard error; NULL: requests are not logged */
    const char *store;      /* for people, without passwords; NULL: not said */
    hf_log_fn log;          /* from any thread, also at the same time */
    void *log_ctx;
} httpd_config;

/* The table that the module exports. */
typedef struct httpd_module {
    const char *version; /* HF_VERSION */
    /* Listens, and serves from threads of its own. HF_INVALID: the address, a file; HF_DENIED: it
     * is not allowed to listen there; HF_UNUSABLE: the address is taken. */
    hf_code (*start)(const httpd_config *config, httpd **out, hf_error *err);
    const char *(*url)(const httpd *service); /* where it listens; the service's */
    /* Answers the open requests, and the waiting ones with 503, within about 5 s and the store's
     * patience. */
    void (*stop)(httpd *service);
} httpd_module;

#endif
