/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd_answers.c: what a service answers when a lease was granted long ago, or when its
 * client has hung up meanwhile. It runs here; between it and the library the test has its own
 * hf_lease_begin(). Run by ctest. */
#include "unit.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "httpd/httpd.h"

#define SOON_MS 60000 /* what should happen has happened by then, or hangs */

extern const httpd_module holdfast_httpd;

static hf_client *client;
static httpd *service;
static struct sockaddr_in address;

/* ---- Between the service and the library ---- */

typedef hf_code begin_fn(hf_client *, const char *, const hf_lease_options *, hf_lease_fn, void *,
                         hf_lease_wait **, hf_error *);
typedef void cancel_fn(hf_lease_wait *);

static hf_lease_fn service_done;
static void *service_ctx;
static int64_t left_ms; /* of a lease that was granted; 0: as it is */
static bool awaits_hang_up;
static atomic_bool has_lease, has_hung_up;
static char lease_id[HF_LEASE_ID_SIZE];

static void pause_ms(int ms)
{
    poll(NULL, 0, ms);
}

static void on_done(void *ctx, const hf_lease *lease, const hf_error *err)
{
    struct timespec now;
    (void)ctx;
    if (!lease) {
        service_done(service_ctx, NULL, err);
        return;
    }
    hf_lease told = *lease;
    clock_gettime(CLOCK_BOOTTIME, &now);
    if (left_ms)
        told.ends_at_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + left_ms * 1000000;
    snprintf(lease_id, sizeof lease_id, "%s", lease->id);
    has_lease = true;
    while (awaits_hang_up && !has_hung_up)
        pause_ms(1);
    service_done(service_ctx, &told, err);
}

hf_code hf_lease_begin(hf_client *on, const char *name, const hf_lease_options *options,
                       hf_lease_fn done, void *ctx, hf_lease_wait **out, hf_error *err)
{
    begin_fn *begin = (begin_fn *)(uintptr_t)dlsym(RTLD_NEXT, "hf_lease_begin");
    service_done = done;
    service_ctx = ctx;
    return begin(on, name, options, on_done, NULL, out, err);
}

void hf_lease_cancel(hf_lease_wait *wait)
{
    cancel_fn *cancel = (cancel_fn *)(uintptr_t)dlsym(RTLD_NEXT, "hf_lease_cancel");
    cancel(wait);
    has_hung_up = true;
}

/* ---- A client ---- */

static int send_text(const char *text)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
    return fd;
}

static int ask(const char *name, const char *headers, const char *body)
{
    char text[500];
    snprintf(text, sizeof text,
             "POST /v1/locks/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
             "Content-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n%s",
             name, headers, strlen(body), body);
    return send_text(text);
}

static const char *answer_of(int fd)
{
    static char text[100000];
    size_t size = 0;
    ssize_t n;
    while ((n = recv(fd, text + size, sizeof text - 1 - size, 0)) > 0)
        size += (size_t)n;
    text[size] = '\0';
    close(fd);
    return text;
}

static double number_in(const char *text, const char *before)
{
    const char *at = strstr(text, before);
    assert_non_null(at);
    return atof(at + strlen(before));
}

static const char *metrics(void)
{
    return answer_of(send_text("GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
                               "Connection: close\r\n\r\n"));
}

/* But for the one that asks. */
static void await_the_end_of_requests(void)
{
    for (int i = 0; i < SOON_MS / 10; i++) {
        if (number_in(metrics(), "\nholdfast_http_requests_open ") == 1)
            return;
        pause_ms(10);
    }
    fail();
}

/* ---- Tests ---- */

static void no_log(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx, (void)level, (void)text;
}

static int begin(void **state)
{
    (void)state;
    static httpd_config config = {.listen = "127.0.0.1:0",
                                  .max_connections = 100,
                                  .max_waits = 10,
                                  .max_followers = 10,
                                  .patience_ms = SOON_MS,
                                  .log = no_log};
    hf_error err;
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(hf_open("memory:", NULL, &client, &err), HF_OK);
    config.client = client;
    assert_int_equal(holdfast_httpd.start(&config, &service, &err), HF_OK);
    const char *colon = strrchr(holdfast_httpd.url(service), ':');
    address = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)atoi(colon + 1)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    left_ms = 0;
    awaits_hang_up = false;
    has_lease = false;
    has_hung_up = false;
    return 0;
}

static int end(void **state)
{
    (void)state;
    (holdfast_httpd.stop)(service); /* cmocka has a macro of this name */
    hf_close(client);
    return 0;
}

static void test_what_is_answered_late_is_renewed(void **state)
{
    (void)state;
    left_ms = 100000;
    const char *answer = answer_of(ask("x", "", "{\"ttl_ms\": 600000}"));
    assert_true(number_in(answer, "\"expires_in_ms\":") > 300000);
}

/* What was left when the lease was made, nearly 600 s, is not what is left when that is told. */
static void test_what_is_told_is_what_is_left_by_then(void **state)
{
    (void)state;
    left_ms = 400000;
    const char *answer = answer_of(ask("x", "", "{\"ttl_ms\": 600000}"));
    assert_in_range(number_in(answer, "\"expires_in_ms\":"), 1, 400000);
}

static void hang_up_when_granted(const char *headers)
{
    awaits_hang_up = true;
    int fd = ask("x", headers, "{\"ttl_ms\": 600000}");
    while (!has_lease)
        pause_ms(1);
    close(fd);
    await_the_end_of_requests();
}

static void test_who_has_hung_up_holds_nothing(void **state)
{
    (void)state;
    hf_error err;
    hang_up_when_granted("");
    assert_int_equal(hf_lease_renew(client, lease_id, NULL, &err), HF_LOST);
}

/* It may ask again. */
static void test_who_has_hung_up_with_a_key_holds_its_lease(void **state)
{
    (void)state;
    hf_error err;
    hang_up_when_granted("Idempotency-Key: order-4711\r\n");
    assert_int_equal(hf_lease_renew(client, lease_id, NULL, &err), HF_OK);
}

/* In bytes. Under ASan this says nothing, but LSan does. */
static size_t memory_in_use(void)
{
    await_the_end_of_requests();
    return mallinfo2().uordblks;
}

static void test_answers_leave_nothing_behind(void **state)
{
    (void)state;
    size_t size = 0, n = 200;
    for (size_t i = 0; i < 20; i++)
        size = strlen(metrics());
    size_t before = memory_in_use();
    for (size_t i = 0; i < n; i++)
        metrics();
    assert_true(memory_in_use() < before + n * size / 4);
}

/* Two answers are made of each: that the path is none, and that the body is too large. */
static void refuse_many(int n)
{
    for (int i = 0; i < n; i++) {
        const char *answer = answer_of(send_text("POST /nix HTTP/1.1\r\nHost: localhost\r\n"
                                                 "Connection: close\r\n"
                                                 "Content-Length: 1000000\r\n\r\n"));
        assert_non_null(strstr(answer, "PROBLEM_TOO_LARGE"));
    }
}

static void test_answers_that_are_replaced_leave_nothing_behind(void **state)
{
    (void)state;
    refuse_many(20);
    size_t before = memory_in_use();
    refuse_many(500);
    assert_true(memory_in_use() < before + 500 * 100);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_told_is_what_is_left_by_then),
        TEST(test_what_is_answered_late_is_renewed),
        TEST(test_who_has_hung_up_holds_nothing),
        TEST(test_who_has_hung_up_with_a_key_holds_its_lease),
        TEST(test_answers_leave_nothing_behind),
        TEST(test_answers_that_are_replaced_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
