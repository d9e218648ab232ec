/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_serve.c: the verb serve: the HTTP service, which stands in a module of its own, until a
 * signal ends it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/settings/options.h"
#include "cli/settings/secret.h"
#include "cli/settings/status.h"
#include "cli/settings/value.h"
#include "cli/terminal/terminal.h"
#include "httpd/httpd.h"
#include "module/file.h"
#include "verbs.h"

#define CALL_PATIENCE_MS 5000 /* an HTTP client that does not wait can ask again */
#define MOST_CONNECTIONS 100000
#define LEAST_TIMEOUT_MS 100
#define MOST_TIMEOUT_MS 600000

enum {
    KEY_LISTEN = 2000,
    KEY_CERT,
    KEY_KEY,
    KEY_TOKENS,
    KEY_READ_ONLY,
    KEY_ANYBODY,
    KEY_CONNECTIONS,
    KEY_WAITS,
    KEY_FOLLOWERS,
    KEY_TIMEOUT,
    KEY_ACCESS_LOG
};

typedef struct request {
    settings *given;
    httpd_config config;
} request;

static const struct argp_option list[] = {
    {"listen", KEY_LISTEN, "HOST:PORT", 0,
     "where; default 127.0.0.1:8430; port 0: a free one; unix:PATH: a Unix socket, for users of "
     "this "
     "machine",
     0},
    {"tls-cert", KEY_CERT, "FILE", 0, "serve HTTPS with this certificate (PEM)", 0},
    {"tls-key", KEY_KEY, "FILE", 0, "and its key", 0},
    {"token-file", KEY_TOKENS, "FILE", 0,
     "who may do what: lines \"read|use|admin TOKEN [NAME]\"; without it all may take locks, and "
     "break them over a Unix socket only",
     0},
    {"read-only", KEY_READ_ONLY, NULL, 0, "refuse calls that change a lock", 0},
    {"insecure-serve-anybody", KEY_ANYBODY, NULL, 0,
     "listen beyond this machine without access tokens, and let everybody do everything", 0},
    {"max-connections", KEY_CONNECTIONS, "N", 0, "at the same time; default 2000", 0},
    {"max-waits", KEY_WAITS, "N", 0,
     "requests of one client (or access token) that wait for locks; default 1000", 0},
    {"max-followers", KEY_FOLLOWERS, "N", 0,
     "event streams of one client (or access token); default 200", 0},
    {"timeout", KEY_TIMEOUT, "D", 0,
     "a client that takes longer to send a request, or to read the answer, is cut off; default "
     "10s",
     0},
    {"access-log", KEY_ACCESS_LOG, "FILE", 0,
     "log each request as a line of JSON; - is standard error", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static int64_t timeout_of(const char *text)
{
    int64_t ms = value_duration("--timeout", text);
    if (ms < LEAST_TIMEOUT_MS || ms > MOST_TIMEOUT_MS)
        value_refuse("--timeout: %s is out of range: 100ms to 10m", text);
    return ms;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    request *req = state->input;
    httpd_config *how = &req->config;
    options_inherit(key, state, req->given);
    switch (key) {
    case KEY_LISTEN:
        how->listen = arg;
        return 0;
    case KEY_CERT:
        how->cert_file = arg;
        return 0;
    case KEY_KEY:
        how->key_file = arg;
        return 0;
    case KEY_TOKENS:
        how->token_file = arg;
        return 0;
    case KEY_READ_ONLY:
        how->is_read_only = true;
        return 0;
    case KEY_ANYBODY:
        how->serves_anybody = true;
        return 0;
    case KEY_CONNECTIONS:
        how->max_connections = (int)value_number("--max-connections", arg, 1, MOST_CONNECTIONS);
        return 0;
    case KEY_WAITS:
        how->max_waits = (int)value_number("--max-waits", arg, 1, MOST_CONNECTIONS);
        return 0;
    case KEY_FOLLOWERS:
        how->max_followers = (int)value_number("--max-followers", arg, 1, MOST_CONNECTIONS);
        return 0;
    case KEY_TIMEOUT:
        how->patience_ms = timeout_of(arg);
        return 0;
    case KEY_ACCESS_LOG:
        config_say(&req->given->config, SETTING_ACCESS_LOG, "--access-log", arg);
        return 0;
    case ARGP_KEY_END:
        if (!how->cert_file != !how->key_file)
            argp_error(state, "give --tls-cert and --tls-key, both");
        return 0;
    default:
        return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
    }
}

const struct argp serve_argp = {
    list,
    parse,
    "",
    "Serves the locks of the store over HTTP. /openapi.json describes the calls.",
    options_children,
    NULL,
    NULL};

/* All threads are to leave these to await_signal(). */
static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
    sigprocmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void await_signal(const sigset_t *set)
{
    int number;
    while (sigwait(set, &number))
        ;
    terminal_note("signal %d: answering the open requests, then ending", number);
}

static const httpd_module *load(void)
{
    static const module_file wanted = {HTTPD_FILE, HTTPD_SYMBOL, "the command's part for HTTP",
                                       "libmicrohttpd"};
    hf_error err;
    const httpd_module *module = module_load(&wanted, err.text, sizeof err.text);
    if (!module)
        terminal_error("%s", err.text);
    return module;
}

static hf_code serve(const httpd_module *module, const httpd_config *how, const sigset_t *signals,
                     hf_error *err)
{
    httpd *service;
    hf_code code = module->start(how, &service, err);
    if (code)
        return code;
    printf("listening on %s\n", module->url(service));
    fflush(stdout);
    await_signal(signals);
    module->stop(service);
    return HF_OK;
}

int cmd_serve(settings *given, int argc, char **argv)
{
    request req = {given,
                   {.listen = "127.0.0.1:8430",
                    .max_connections = 2000,
                    .max_waits = 1000,
                    .max_followers = 200,
                    .patience_ms = 10000,
                    .log = terminal_log}};
    const hf_options options = {.call_patience_ms = CALL_PATIENCE_MS};
    hf_error err = {0};
    sigset_t signals;
    argp_parse(&serve_argp, argc, argv, 0, NULL, &req);
    const httpd_module *module = load();
    if (!module)
        return STATUS_STORE;
    block_signals(&signals);
    if (req.config.token_file || req.config.key_file)
        secret_forbid_dumps();
    int status = options_open(given, &options, &req.config.client);
    if (status)
        return status;
    char *store = options_store_shown(given);
    req.config.store = store;
    req.config.access_log = config_access_log(&given->config);
    hf_code code = serve(module, &req.config, &signals, &err);
    if (code)
        terminal_error("%s", err.text);
    hf_close(req.config.client);
    free(store);
    return hf_code_exit(code);
}
