/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_http.c: whatever a client sends, the service answers in HTTP or not at all, never that the
 * fault is its own, and goes on serving. The input is what comes over one connection. */
#include "fuzz.h"

#include <httpd/httpd.h>

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define SILENCE_US 30000 /* a wait, or events: there is no more to come */

extern const httpd_module holdfast_httpd;

static struct sockaddr_in address;

static void no_log(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx, (void)level, (void)text;
}

/* One service for all inputs; it ends with the process. */
static void start(void)
{
    static httpd_config config = {.listen = "127.0.0.1:0",
                                  .access_log = "/dev/null",
                                  .serves_anybody = true,
                                  .max_connections = 100,
                                  .max_waits = 10,
                                  .max_followers = 10,
                                  .patience_ms = 1000,
                                  .log = no_log};
    httpd *service;
    hf_error err;
    signal(SIGPIPE, SIG_IGN);
    MUST(!hf_open("memory:", NULL, &config.client, &err));
    MUST(!holdfast_httpd.start(&config, &service, &err));
    const char *colon = strrchr(holdfast_httpd.url(service), ':');
    address = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)atoi(colon + 1)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int reach(void)
{
    struct timeval silence = {.tv_usec = SILENCE_US};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof address));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
    return fd;
}

/* Its own faults are 500; that the store has none of what was asked for is another status. */
static void check(const char *answer, size_t size)
{
    MUST(size < 12 || !memcmp(answer, "HTTP/1.", 7));
    MUST(size < 12 || memcmp(answer + 9, "500", 3) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char answer[65536];
    size_t had = 0;
    ssize_t n = 1;
    if (!address.sin_port)
        start();
    int fd = reach();
    if (send(fd, data, size, 0) == (ssize_t)size)
        shutdown(fd, SHUT_WR);
    while (had < sizeof answer && (n = recv(fd, answer + had, sizeof answer - had, 0)) > 0)
        had += (size_t)n;
    check(answer, had);
    close(fd);
    return 0;
}
