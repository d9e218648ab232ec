/* SPDX-License-Identifier: Apache-2.0 */
/* httpd_bed.c: see httpd_bed.h. */
#include "httpd_bed.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_SIZE 1000000
#define LINES_KEPT 64

extern const httpd_module holdfast_httpd;

static httpd *service;
static struct sockaddr_in address;
static char file_path[] = "/tmp/holdfast-bed-XXXXXX";

/* ---- What it logs ---- */

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static char logged[LINES_KEPT][200];
static size_t n_logged;

static void keep_line(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx, (void)level;
    pthread_mutex_lock(&log_mutex);
    snprintf(logged[n_logged++ % LINES_KEPT], sizeof logged[0], "%s", text);
    pthread_mutex_unlock(&log_mutex);
}

bool bed_has_logged(const char *text)
{
    bool found = false;
    pthread_mutex_lock(&log_mutex);
    for (size_t i = 0; i < LINES_KEPT; i++)
        found = found || strncmp(logged[i], text, strlen(text)) == 0;
    pthread_mutex_unlock(&log_mutex);
    return found;
}

bool bed_logs_lines(void)
{
    bool all = true;
    pthread_mutex_lock(&log_mutex);
    for (size_t i = 0; i < LINES_KEPT; i++)
        all = all && !strchr(logged[i], '\n');
    pthread_mutex_unlock(&log_mutex);
    return all;
}

/* ---- The service ---- */

httpd_config bed_config(hf_client *client)
{
    return (httpd_config){.client = client,
                          .listen = "127.0.0.1:0",
                          .max_connections = 100,
                          .max_waits = 10,
                          .max_followers = 10,
                          .patience_ms = SOON_MS,
                          .log = keep_line};
}

hf_code bed_try_to_serve(const httpd_config *config, hf_error *err)
{
    signal(SIGPIPE, SIG_IGN);
    n_logged = 0;
    memset(logged, 0, sizeof logged);
    hf_code code = holdfast_httpd.start(config, &service, err);
    if (code)
        return code;
    const char *colon = strrchr(holdfast_httpd.url(service), ':');
    address = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)atoi(colon + 1)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return HF_OK;
}

void bed_serve(const httpd_config *config)
{
    hf_error err = {0};
    hf_code code = bed_try_to_serve(config, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(code, HF_OK);
}

httpd *bed_service(void)
{
    return service;
}

const char *bed_url(void)
{
    return holdfast_httpd.url(service);
}

void bed_stop(void)
{
    (holdfast_httpd.stop)(service); /* cmocka has a macro of this name */
    service = NULL;
}

static void remove_file(void)
{
    unlink(file_path);
}

const char *bed_file(const char *text)
{
    static bool is_registered;
    if (is_registered)
        unlink(file_path);
    else
        atexit(remove_file);
    is_registered = true;
    memcpy(file_path + strlen(file_path) - 6, "XXXXXX", 6);
    int fd = mkstemp(file_path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    return file_path;
}

/* ---- Its client ---- */

int bed_connect(void)
{
    return bed_connect_from(NULL);
}

int bed_connect_from(const char *host)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval most = {.tv_sec = SOON_MS / 1000};
    struct sockaddr_in from = {.sin_family = AF_INET};
    assert_true(fd >= 0);
    if (host) {
        assert_int_equal(inet_pton(AF_INET, host, &from.sin_addr), 1);
        assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

void bed_write(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
}

int bed_send(const char *call, const char *headers, const char *body)
{
    static char text[100000];
    int fd = bed_connect();
    const char *host = strstr(headers, "Host:") ? "" : "Host: localhost\r\n";
    int n = snprintf(text, sizeof text, "%s HTTP/1.1\r\n%sConnection: close\r\n%s", call, host,
                     headers);
    if (body)
        snprintf(text + n, sizeof text - (size_t)n, "Content-Length: %zu\r\n\r\n%s", strlen(body),
                 body);
    else
        snprintf(text + n, sizeof text - (size_t)n, "\r\n");
    bed_write(fd, text);
    return fd;
}

const char *bed_answer(int fd)
{
    static char text[ANSWER_SIZE];
    size_t size = 0;
    ssize_t n;
    while ((n = recv(fd, text + size, sizeof text - 1 - size, 0)) > 0)
        size += (size_t)n;
    text[size] = '\0';
    close(fd);
    return text;
}

const char *bed_ask(const char *call, const char *headers, const char *body)
{
    return bed_answer(bed_send(call, headers, body));
}

void assert_says(const char *answer, int status, const char *said)
{
    char first[20];
    snprintf(first, sizeof first, "HTTP/1.1 %d ", status);
    if (strncmp(answer, first, strlen(first)) == 0 && strstr(answer, said))
        return;
    print_message("expected: %d and %s\nanswered: %s\n", status, said, answer);
    fail();
}

void assert_answer(const char *call, const char *headers, const char *body, int status,
                   const char *said)
{
    assert_says(bed_ask(call, headers, body), status, said);
}

double bed_number(const char *text, const char *before)
{
    const char *at = strstr(text, before);
    return at ? atof(at + strlen(before)) : -1;
}

double bed_metric(const char *line)
{
    char before[200];
    snprintf(before, sizeof before, "\n%s ", line);
    return bed_number(bed_ask("GET /metrics", "", NULL), before);
}

void bed_await_metric(const char *line, double value)
{
    for (int i = 0; i < SOON_MS; i++) {
        if (bed_metric(line) == value)
            return;
        bed_pause();
    }
    fail_msg("%s is not %g", line, value);
}

void bed_pause(void)
{
    poll(NULL, 0, 1);
}
