/* SPDX-License-Identifier: Apache-2.0 */
/* httpd.c: starts and stops the service; the only interface of its module. */
#include "httpd/httpd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "httpd/access_log.h"
#include "httpd/address.h"
#include "httpd/fail.h"
#include "httpd/private.h"
#include "httpd/request.h"
#include "httpd/routes.h"
#include "httpd/service.h"
#include "show/text.h"

#define CONNECTION_MEMORY ((size_t)2 * HEAD_MOST) /* a head, its fields, and an answer's head */
#define PEM_MOST 65536
#define CLEAR_MS 5000
/* Each key exchange has forward secrecy, and no CBC is left. */
#define CIPHERS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-MAC-ALL:+AEAD"

/* ---- What microhttpd asks ---- */

static void on_connection(void *ctx, struct MHD_Connection *mhd, void **state,
                          enum MHD_ConnectionNotificationCode what)
{
    httpd *service = ctx;
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        *state = connections_add(
            &service->connections,
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    else
        connections_remove(&service->connections, *state);
}

/* Keeps the path encoded; its readers decode it (uri.h). */
static size_t leave_encoded(void *ctx, struct MHD_Connection *mhd, char *text)
{
    (void)ctx;
    (void)mhd;
    return strlen(text);
}

static void on_log(void *ctx, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static void on_log(void *ctx, const char *format, va_list args)
{
    const httpd_config *config = ctx;
    char *line = text_vprint(format, args);
    line[strcspn(line, "\n")] = '\0';
    config->log(config->log_ctx, HF_LOG_DEBUG, line);
    free(line);
}

/* ---- Starting ---- */

/* A file as a string, in new memory. */
static hf_code read_whole(FILE *file, const char *path, char **out, hf_error *err)
{
    char *text = text_alloc(PEM_MOST + 1);
    size_t size = fread(text, 1, PEM_MOST, file);
    bool is_good = !ferror(file) && feof(file) && size > 0;
    fclose(file);
    if (is_good)
        *out = text;
    else
        free(text);
    return is_good ? HF_OK : fail(err, HF_INVALID, "%.200s is no certificate or key", path);
}

static hf_code read_cert(const char *path, char **out, hf_error *err)
{
    FILE *file;
    hf_code code = public_open("--tls-cert", path, &file, err);
    return code ? code : read_whole(file, path, out, err);
}

static hf_code read_key(const char *path, char **out, hf_error *err)
{
    FILE *file;
    hf_code code = private_open("--tls-key", path, &file, err);
    return code ? code : read_whole(file, path, out, err);
}

static struct MHD_Daemon *start_daemon(httpd *service, int fd, char *cert, char *key)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    const struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, cert},
                                         {MHD_OPTION_HTTPS_MEM_KEY, 0, key},
                                         {MHD_OPTION_HTTPS_PRIORITIES, 0, CIPHERS},
                                         {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    return MHD_start_daemon(
        flags | (cert ? MHD_USE_TLS : 0), 0, NULL, NULL, request_handle, service,
        MHD_OPTION_EXTERNAL_LOGGER, on_log, &service->config, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)service->places.connections + PLACES_SPARE,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, service, MHD_OPTION_NOTIFY_COMPLETED, request_end, service,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK, leave_encoded, NULL,
        MHD_OPTION_ARRAY, cert ? tls : none, MHD_OPTION_END);
}

/* The keys are copied. */
static hf_code start_serving(httpd *service, int fd, hf_error *err)
{
    const httpd_config *config = &service->config;
    char *cert = NULL, *key = NULL;
    hf_code code = config->cert_file ? read_cert(config->cert_file, &cert, err) : HF_OK;
    if (!code && config->key_file)
        code = read_key(config->key_file, &key, err);
    if (!code && !(service->daemon = start_daemon(service, fd, cert, key)))
        code = cert ? fail(err, HF_INVALID,
                           "%.200s and %.200s cannot be used: is the first a certificate in PEM, "
                           "and the second its key?",
                           config->cert_file, config->key_file)
                    : fail(err, HF_UNUSABLE, "the service cannot be started");
    free(cert);
    free(key);
    return code;
}

static hf_code check_openness(const httpd_config *config, const address *at, hf_error *err)
{
    if (at->is_loopback || config->token_file || config->serves_anybody)
        return HF_OK;
    return fail(err, HF_INVALID,
                "%s can be reached from other machines, and no access token is needed: give "
                "--token-file, or --insecure-serve-anybody",
                at->host);
}

static void name_url(httpd *service, int port)
{
    const char *path = address_path(&service->at);
    if (path)
        snprintf(service->url, sizeof service->url, "unix:%s", path);
    else
        snprintf(service->url, sizeof service->url, "%s://%s:%d",
                 service->config.cert_file ? "https" : "http", service->at.host, port);
}

static hf_code listen_and_serve(httpd *service, hf_error *err)
{
    address *at = &service->at;
    int fd, port;
    hf_code code = address_parse(service->config.listen, &service->at, err);
    if (!code)
        code = check_openness(&service->config, at, err);
    if (!code)
        code = address_listen(at, &fd, &port, err);
    if (code)
        return code;
    name_url(service, port);
    code = start_serving(service, fd, err);
    if (code) {
        address_forget(at);
        close(fd);
    }
    return code;
}

static void close_all(httpd *service)
{
    watcher_done(&service->watcher);
    work_close(&service->work);
    waits_close(&service->waits);
    hold_times_done(&service->hold_times);
    connections_close(&service->connections);
    access_log_close(&service->access_log);
    tokens_free(service->tokens);
    hf_cancel_free(service->stop);
    free(service);
}

/* False: there are no threads left. */
static bool open_connections(httpd *service)
{
    connections *all = &service->connections;
    if (!connections_open(all, service->places.connections, service->config.patience_ms))
        return false;
    if (waits_open(&service->waits)) {
        if (resumes_open(&service->resumes, all))
            return true;
        waits_close(&service->waits);
    }
    connections_close(all);
    return false;
}

static hf_code open_all(httpd *service, hf_error *err)
{
    hf_code code = hf_cancel_new(&service->stop, err);
    if (!code && !work_open(&service->work, request_work))
        code = fail(err, HF_INTERNAL, "there are no threads left");
    if (!code && service->config.token_file)
        code = tokens_read(service->config.token_file, &service->tokens, err);
    if (!code)
        code = access_log_open(&service->access_log, service->config.access_log, err);
    if (!code && !watcher_open(&service->watcher, service->config.client, &service->waits,
                               &service->metrics))
        code = fail(err, HF_INTERNAL, "there are no threads left");
    if (!code && (code = listen_and_serve(service, err)))
        watcher_close(&service->watcher);
    return code;
}

static hf_code start(const httpd_config *config, httpd **out, hf_error *err)
{
    httpd *service = text_alloc(sizeof *service);
    service->config = *config;
    service->routes = &routes_all;
    service->places = places_find(config);
    service->waits.most = service->places.of_all[PLACE_WAIT];
    if (!open_connections(service)) {
        free(service);
        return fail(err, HF_INTERNAL, "there are no threads left");
    }
    hold_times_init(&service->hold_times);
    hf_code code = open_all(service, err);
    if (code) {
        resumes_close(&service->resumes);
        close_all(service);
    } else {
        *out = service;
    }
    return code;
}

static const char *url(const httpd *service)
{
    return service->url;
}

/* ---- Stopping ---- */

/* Accepts no more connections, answers the open requests, sends the answers, and closes all
 * connections. */
static void stop(httpd *service)
{
    atomic_store(&service->is_stopping, true);
    hf_cancel_fire(service->stop);
    address_forget(&service->at); /* while it still listens: no other service replaces it */
    int fd = MHD_quiesce_daemon(service->daemon);
    waits_end(&service->waits);
    work_close(&service->work);
    watcher_close(&service->watcher);
    connections_drain(&service->connections, CLEAR_MS);
    resumes_close(&service->resumes);
    MHD_stop_daemon(service->daemon);
    close(fd);
    close_all(service);
}

extern const httpd_module holdfast_httpd;
const httpd_module holdfast_httpd = {HF_VERSION, start, url, stop};
