/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd_start.c: how a service starts or says why it does not, which leaves nothing behind,
 * and how it ends; run by ctest. */
#include "httpd_bed.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "httpd/address.h"
#include "httpd/service.h"
#include "httpd/tokens.h"
#include "httpd_library.h"

#define N(array) (sizeof(array) / sizeof *(array))
#define TOKEN "use-0123456789-abc"
#define JSON "Content-Type: application/json\r\n"

static hf_client *client;

/* ---- The machine's limits, in the test's hands ---- */

static int n_threads, refused_thread;              /* this one cannot be made; 0: the first */
static int bind_errno, listen_errno, socket_errno; /* 0: as it is */
static struct rlimit limit;
static int limit_errno, n_limits_set;

int __real_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *ctx);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *ctx);
int __real_bind(int fd, const struct sockaddr *at, socklen_t size);
int __wrap_bind(int fd, const struct sockaddr *at, socklen_t size);
int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);
int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __real_getrlimit(int which, struct rlimit *out);
int __wrap_getrlimit(int which, struct rlimit *out);
int __real_setrlimit(int which, const struct rlimit *in);
int __wrap_setrlimit(int which, const struct rlimit *in);

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *ctx)
{
    if (n_threads++ == refused_thread)
        return EAGAIN;
    return __real_pthread_create(out, attributes, run, ctx);
}

int __wrap_bind(int fd, const struct sockaddr *at, socklen_t size)
{
    errno = bind_errno;
    return bind_errno ? -1 : __real_bind(fd, at, size);
}

int __wrap_listen(int fd, int backlog)
{
    errno = listen_errno;
    return listen_errno ? -1 : __real_listen(fd, backlog);
}

int __wrap_socket(int domain, int type, int protocol)
{
    errno = socket_errno;
    return socket_errno ? -1 : __real_socket(domain, type, protocol);
}

/* A sanitizer asks for other limits, before main(). */
int __wrap_getrlimit(int which, struct rlimit *out)
{
    if (which != RLIMIT_NOFILE)
        return __real_getrlimit(which, out);
    *out = limit;
    errno = limit_errno;
    return limit_errno ? -1 : 0;
}

int __wrap_setrlimit(int which, const struct rlimit *in)
{
    if (which != RLIMIT_NOFILE)
        return __real_setrlimit(which, in);
    limit = *in;
    n_limits_set++;
    return 0;
}

/* ---- What is fired ---- */

static hf_cancel *fired;      /* the last one */
static void (*on_fire)(void); /* called then; NULL: nothing */

void __real_hf_cancel_fire(hf_cancel *cancel);
void __wrap_hf_cancel_fire(hf_cancel *cancel);
void __wrap_hf_cancel_fire(hf_cancel *cancel)
{
    fired = cancel;
    if (on_fire)
        on_fire();
    __real_hf_cancel_fire(cancel);
}

static size_t count_in(const char *path)
{
    size_t n = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static size_t count_files(void)
{
    return count_in("/proc/self/fd");
}

static size_t own_threads; /* while there is no client */

static void *count_others(void *ctx)
{
    own_threads = count_in("/proc/self/task") - 1;
    return ctx;
}

/* A sanitizer starts a thread of its own with a program's first. */
static int begin_all(void **state)
{
    pthread_t first;
    (void)state;
    return __real_pthread_create(&first, NULL, count_others, NULL) || pthread_join(first, NULL);
}

static int begin(void **state)
{
    hf_error err;
    (void)state;
    n_threads = 0;
    refused_thread = -1;
    bind_errno = listen_errno = socket_errno = limit_errno = n_limits_set = 0;
    limit = (struct rlimit){1000, 2000};
    fired = NULL;
    on_fire = NULL;
    library = (struct library){.n_locks = 0};
    assert_int_equal(hf_open("memory:", NULL, &client, &err), HF_OK);
    return 0;
}

/* One that was joined may be seen for a moment. */
static void assert_threads(size_t n)
{
    for (int i = 0; i < SOON_MS && count_in("/proc/self/task") > n; i++)
        bed_pause();
    assert_int_equal(count_in("/proc/self/task"), n);
}

static int end(void **state)
{
    (void)state;
    if (bed_service())
        bed_stop();
    hf_close(client);
    assert_threads(own_threads); /* the next test counts them */
    return 0;
}

/* It does not start, says why, and leaves neither an open file nor a thread. */
static void assert_refused(const httpd_config *config, hf_code code, const char *said)
{
    hf_error err = {0};
    size_t before = count_files(), threads = count_in("/proc/self/task");
    assert_int_equal(bed_try_to_serve(config, &err), code);
    assert_int_equal(err.code, code);
    assert_int_equal(err.retryable, hf_code_retryable(code));
    if (!strstr(err.text, said))
        fail_msg("\"%s\" is not in: %s", said, err.text);
    assert_int_equal(count_files(), before);
    assert_threads(threads);
}

/* ---- Where it listens ---- */

static void test_addresses_that_are_none(void **state)
{
    static const char *const bad[] = {"",          "127.0.0.1", "127.0.0.1:", ":8430",
                                      "[::1:8430", "[::1]8430", "[]:8430",    "::1:8430"};
    (void)state;
    httpd_config config = bed_config(client);
    for (size_t i = 0; i < N(bad); i++) {
        config.listen = bad[i];
        assert_refused(&config, HF_INVALID, "is no address to listen on; one is 127.0.0.1:8430");
    }
    static const char *const ports[] = {"127.0.0.1:http", "127.0.0.1:65536", "127.0.0.1:-1",
                                        "127.0.0.1:00000000001"};
    for (size_t i = 0; i < N(ports); i++) {
        config.listen = ports[i];
        assert_refused(&config, HF_INVALID,
                       " is no address to listen on: a port is a number from 0 to 65535");
    }
}

static void test_one_that_is_taken(void **state)
{
    char taken[40];
    (void)state;
    httpd_config config = bed_config(client);
    bed_serve(&config);
    assert_memory_equal(bed_url(), "http://127.0.0.1:", 17);
    snprintf(taken, sizeof taken, "%s", strchr(bed_url(), '1'));
    config.listen = taken;
    httpd *running = bed_service();
    assert_refused(&config, HF_UNUSABLE, ": Address already in use; --listen names another");
    assert_ptr_equal(bed_service(), running);
    assert_answer("GET /healthz", "", NULL, 200, "alive");
}

static void test_what_the_machine_refuses(void **state)
{
    (void)state;
    const httpd_config config = bed_config(client);
    bind_errno = EACCES;
    assert_refused(&config, HF_DENIED, "cannot listen on 127.0.0.1, port 0: Permission denied");
    bind_errno = EADDRNOTAVAIL;
    assert_refused(&config, HF_UNUSABLE, "cannot listen on 127.0.0.1, port 0: Cannot assign");
    bind_errno = 0;
    listen_errno = EADDRINUSE;
    assert_refused(&config, HF_UNUSABLE, "cannot listen on 127.0.0.1, port 0: Address already");
    listen_errno = 0;
    socket_errno = EMFILE;
    assert_refused(&config, HF_UNUSABLE, "cannot listen on 127.0.0.1, port 0: Too many open");
}

static void test_beyond_this_machine(void **state)
{
    (void)state;
    httpd_config config = bed_config(client);
    config.listen = "0.0.0.0:0";
    assert_refused(&config, HF_INVALID,
                   "0.0.0.0 can be reached from other machines, and no access");
    config.token_file = bed_file("use " TOKEN "\n");
    bed_serve(&config);
    assert_memory_equal(bed_url(), "http://0.0.0.0:", 15);
    assert_answer("GET /v1/locks", "", NULL, 401, "PROBLEM_UNAUTHORIZED");
    bed_stop();
    config.token_file = NULL;
    config.serves_anybody = true;
    bed_serve(&config);
    assert_answer("GET /v1/locks", "", NULL, 200, "\"locks\"");
}

static void test_the_socket_that_it_listens_on(void **state)
{
    address at;
    hf_error err;
    int fd, port, value;
    socklen_t size = sizeof value;
    (void)state;
    assert_int_equal(address_parse("127.0.0.1:0", &at, &err), HF_OK);
    assert_int_equal(address_listen(&at, &fd, &port, &err), HF_OK);
    assert_true(port > 0 && port < 65536);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, &size), 0);
    assert_int_equal(value, 1);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, &size), 0);
    assert_int_equal(value, 2 * 65536); /* the kernel doubles it */
    close(fd);
}

/* Where a program has closed its standard input, the socket can be it. */
static void test_descriptor_0_can_be_listened_on(void **state)
{
    address at;
    hf_error err;
    int fd = -1, port;
    (void)state;
    assert_int_equal(address_parse("127.0.0.1:0", &at, &err), HF_OK);
    int input = dup(0);
    close(0);
    hf_code code = address_listen(&at, &fd, &port, &err);
    dup2(input, 0);
    close(input);
    assert_int_equal(code, HF_OK);
    assert_int_equal(fd, 0);
}

/* ---- Files ---- */

static void test_bad_files_of_tokens(void **state)
{
    static const char *const bad[][2] = {
        {"", ": there is no access token in it"},
        {"# nothing\n\n", ": there is no access token in it"},
        {"use " TOKEN "\nwrite " TOKEN "2\n", ": line 2 does not begin with read, use or admin"},
        {"none " TOKEN "\n", ": line 1 does not begin with read, use or admin"},
        {"use short\n", ": line 1 has no access token of 16 to 256 characters"},
        {"use\n", ": line 1 has no access token of 16 to 256 characters"},
        {"\nuse " TOKEN "\nread " TOKEN "\n",
         ": line 3 has an access token that an earlier line has, too"}};
    (void)state;
    httpd_config config = bed_config(client);
    for (size_t i = 0; i < N(bad); i++) {
        config.token_file = bed_file(bad[i][0]);
        assert_refused(&config, HF_INVALID, bad[i][1]);
    }
    config.token_file = "/nix/nix";
    assert_refused(&config, HF_INVALID, "/nix/nix: No such file or directory");
}

static void test_who_may_read_a_file_with_secrets(void **state)
{
    static const struct {
        mode_t mode;
        bool is_good;
    } modes[] = {{0600, true},  {0640, true},  {0650, true},  {0400, true}, {0620, false},
                 {0604, false}, {0602, false}, {0601, false}, {0666, false}};
    (void)state;
    const char *path = bed_file("use " TOKEN "\n");
    for (size_t i = 0; i < N(modes); i++) {
        tokens *t = NULL;
        hf_error err;
        size_t before = count_files();
        assert_int_equal(chmod(path, modes[i].mode), 0);
        hf_code code = tokens_read(path, &t, &err);
        assert_int_equal(code, modes[i].is_good ? HF_OK : HF_INVALID);
        if (code)
            assert_non_null(strstr(err.text, "others can read or change it: give it the mode"));
        assert_int_equal(count_files(), before);
        tokens_free(t);
    }
}

/* Those of TLS, that cannot be read or are none. */
static void test_bad_certificates(void **state)
{
    static char long_text[65537];
    (void)state;
    httpd_config config = bed_config(client);
    config.cert_file = "/nix/cert";
    config.key_file = "/nix/key";
    assert_refused(&config, HF_INVALID, "/nix/cert: No such file or directory");
    config.cert_file = "/"; /* it can be opened, but not read */
    assert_refused(&config, HF_INVALID, "/: this is no regular file");
    config.cert_file = config.key_file = bed_file("");
    assert_refused(&config, HF_INVALID, " is no certificate or key");
    memset(long_text, 'x', 65536);
    config.cert_file = config.key_file = bed_file(long_text);
    assert_refused(&config, HF_INVALID, " is no certificate or key");
    long_text[65535] = '\0';
    config.cert_file = config.key_file = bed_file(long_text);
    assert_refused(&config, HF_INVALID, "cannot be used: is the first a certificate in PEM");
    config.key_file = "/nix/key";
    assert_refused(&config, HF_INVALID, "/nix/key: No such file or directory");
    config.key_file = config.cert_file;
    assert_int_equal(chmod(config.key_file, 0644), 0);
    assert_refused(&config, HF_INVALID, "others can read or change it");
}

/* ---- Limits ---- */

static void start_with(rlim_t now, rlim_t most, int max_connections)
{
    limit = (struct rlimit){now, most};
    n_limits_set = 0;
    httpd_config config = bed_config(client);
    config.max_connections = max_connections;
    bed_serve(&config);
    bed_stop();
}

/* A file for each connection, and 256. */
static void test_the_limit_of_files_is_raised(void **state)
{
    (void)state;
    start_with(100, 2000, 500);
    assert_int_equal(n_limits_set, 1);
    assert_int_equal(limit.rlim_cur, 756);
    assert_int_equal(limit.rlim_max, 2000);
    start_with(100, 400, 500);
    assert_int_equal(limit.rlim_cur, 400);
    start_with(755, 2000, 500);
    assert_int_equal(limit.rlim_cur, 756);
    start_with(756, 2000, 500);
    assert_int_equal(n_limits_set, 0);
    start_with(1000, 2000, 500);
    assert_int_equal(n_limits_set, 0);
    limit_errno = EPERM;
    start_with(100, 2000, 500);
    assert_int_equal(n_limits_set, 0);
}

/* Where fewer files may be open than was asked for, a warning says so, and how many connections
 * there are. */
static void test_too_few_files_are_told(void **state)
{
    (void)state;
    start_with(100, 2000, 500);
    assert_false(bed_has_logged("--max-connections is"));
    start_with(100, 1024, 2000);
    assert_true(bed_has_logged("--max-connections is 2000, but 768 are served: this process may "
                               "open 1024 files (ulimit -n)"));
    start_with(100, 300, 2000);
    assert_true(bed_has_logged("--max-connections is 2000, but 150 are served"));
}

static void assert_places(int max_connections, size_t n_waits, size_t n_followers)
{
    httpd_config config = bed_config(client);
    config.max_connections = max_connections;
    const places p = places_find(&config);
    assert_int_equal(p.of_all[PLACE_WAIT], n_waits);
    assert_int_equal(p.of_all[PLACE_FOLLOWER], n_followers);
}

/* So that some connections are left for all that is short. */
static void test_what_lasts_long_never_has_all_connections(void **state)
{
    (void)state;
    limit = (struct rlimit){2000, 2000};
    assert_places(1000, 750, 125);
    assert_places(8, 6, 1);
    assert_places(4, 3, 1);
    assert_places(1, 1, 1);
    limit = (struct rlimit){256, 256};
    assert_places(1000, 96, 16);
}

/* One for connections, one for waits, one that resumes, ten workers, one that watches and its
 * guard: each may be the one that is missing. */
static void test_without_threads_it_does_not_start(void **state)
{
    (void)state;
    const httpd_config config = bed_config(client);
    for (int n = 0; n < 15; n++) {
        n_threads = 0;
        refused_thread = n;
        assert_refused(&config, HF_INTERNAL, "there are no threads left");
    }
    n_threads = 0;
    refused_thread = 15;
    bed_serve(&config);
    assert_int_equal(n_threads, 15);
}

static void limit_files(size_t n)
{
    struct rlimit now;
    assert_int_equal(prlimit(0, RLIMIT_NOFILE, NULL, &now), 0);
    now.rlim_cur = n;
    assert_int_equal(prlimit(0, RLIMIT_NOFILE, &now, NULL), 0);
}

static int lowest_free(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

/* From none on, until there are enough. */
static void test_without_files_it_does_not_start(void **state)
{
    struct rlimit was;
    hf_error err;
    hf_code code;
    int n = 0;
    (void)state;
    const httpd_config config = bed_config(client);
    assert_int_equal(prlimit(0, RLIMIT_NOFILE, NULL, &was), 0);
    int least = lowest_free();
    do {
        limit_files((size_t)(least + n));
        code = bed_try_to_serve(&config, &err);
        limit_files((size_t)was.rlim_cur);
        assert_int_equal(lowest_free() > least, code == HF_OK);
        assert_true(!code || code == HF_INTERNAL || code == HF_UNUSABLE);
    } while (code && ++n < 50);
    assert_int_equal(code, HF_OK);
    assert_true(n > 3);
    assert_answer("GET /healthz", "", NULL, 200, "alive");
}

/* ---- Its end ---- */

static atomic_bool may_list;
static atomic_int n_listing;

static void list_slowly(void)
{
    n_listing++;
    while (!may_list)
        sched_yield();
}

static void *stop_it(void *ctx)
{
    (void)ctx;
    bed_stop();
    return NULL;
}

static bool is_closing(httpd *service)
{
    pthread_mutex_lock(&service->work.mutex);
    bool is_so = service->work.is_closing;
    pthread_mutex_unlock(&service->work.mutex);
    return is_so;
}

/* Begins to end the service, while its workers list. */
static pthread_t begin_to_stop(void)
{
    pthread_t stopping;
    httpd *service = bed_service();
    assert_int_equal(pthread_create(&stopping, NULL, stop_it, NULL), 0);
    while (!is_closing(service))
        bed_pause();
    return stopping;
}

static void serve_slowly(void)
{
    const httpd_config config = bed_config(client);
    may_list = false;
    n_listing = 0;
    library.on_list = list_slowly;
    bed_serve(&config);
}

static void assert_closed(int fd)
{
    const char *answer = bed_answer(fd);
    assert_says(answer, 503, "\"code\":\"HF_CLOSED\"");
    assert_non_null(strstr(answer, "\r\nConnection: close\r\n"));
    assert_non_null(strstr(answer, "\r\nRetry-After: 1\r\n"));
}

/* What all workers are at is answered; what stands in line, or comes then, is refused. */
static void test_open_requests_are_answered_at_the_end(void **state)
{
    int open[WORKERS_OTHER + 1];
    (void)state;
    serve_slowly();
    for (int i = 0; i <= WORKERS_OTHER; i++) {
        open[i] = bed_send("GET /v1/locks", "", NULL);
        while (n_listing < i + 1 && n_listing < WORKERS_OTHER)
            bed_pause();
    }
    bed_await_metric("holdfast_http_requests_open", WORKERS_OTHER + 2);
    pthread_t stopping = begin_to_stop();
    may_list = true;
    for (int i = 0; i < WORKERS_OTHER; i++)
        assert_says(bed_answer(open[i]), 200, "\"locks\":[]");
    assert_closed(open[WORKERS_OTHER]);
    pthread_join(stopping, NULL);
}

/* On connections that were there before: one had sent nothing, one all but its body's end. */
static void test_requests_that_come_at_the_end_are_refused(void **state)
{
    (void)state;
    serve_slowly();
    int later = bed_connect(), half = bed_connect();
    bed_write(half, "POST /v1/locks/x HTTP/1.1\r\nHost: localhost\r\n" JSON
                    "Connection: close\r\nContent-Length: 2\r\n\r\n{");
    int open = bed_send("GET /v1/locks", "", NULL);
    while (!n_listing) /* what no worker has taken yet is refused at the end */
        bed_pause();
    bed_await_metric("holdfast_http_requests_open", 3);
    bed_await_metric("holdfast_http_connections", 4);
    pthread_t stopping = begin_to_stop();
    bed_write(later, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_closed(later);
    bed_write(half, "}");
    assert_closed(half);
    assert_string_equal(library.name, ""); /* the library was not asked for it */
    may_list = true;
    assert_says(bed_answer(open), 200, "\"locks\":[]");
    pthread_join(stopping, NULL);
}

/* More than the buffers between them hold, so that most of it is sent after the end has begun. */
static void list_much(void)
{
    static hf_lock_info many[1000];
    static char name[3001];
    memset(name, 'x', sizeof name - 1);
    for (size_t i = 0; i < N(many); i++)
        many[i] = (hf_lock_info){.name = name + N(many) - i};
    library.locks = many;
    library.n_locks = N(many);
}

static void test_an_answer_that_is_being_sent_is_sent_whole(void **state)
{
    (void)state;
    const httpd_config config = bed_config(client);
    list_much();
    bed_serve(&config);
    int fd = bed_send("GET /v1/locks?limit=1000", "", NULL);
    while (!bed_has_logged("GET /v1/locks: 200"))
        bed_pause();
    pthread_t stopping = begin_to_stop();
    for (int i = 0; i < 30; i++)
        bed_pause(); /* the end is to wait for this client */
    size_t size = 0;
    ssize_t n;
    char part[65536], head[2000] = "";
    while ((n = recv(fd, part, sizeof part, 0)) > 0) {
        if (!size)
            snprintf(head, sizeof head, "%.*s", (int)n, part);
        size += (size_t)n;
    }
    close(fd);
    pthread_join(stopping, NULL);
    const char *body = strstr(head, "\r\n\r\n");
    assert_non_null(body);
    assert_int_equal(size,
                     (size_t)(body + 4 - head) + (size_t)bed_number(head, "Content-Length: "));
    assert_true(size > 2000000);
}

static hf_cancel *last_cancel;

/* Waits for what ends all breaks. */
static void break_slowly(hf_cancel *cancel)
{
    last_cancel = cancel;
    n_listing++;
    while (!may_list)
        sched_yield();
}

static void end_break(void)
{
    may_list = true;
}

static void test_a_break_ends_with_the_service(void **state)
{
    (void)state;
    static const hf_lock_info lock = {.name = "x"};
    httpd_config config = bed_config(client);
    config.serves_anybody = true;
    may_list = false;
    n_listing = 0;
    library.locks = &lock;
    library.n_locks = 1;
    library.on_break = break_slowly;
    bed_serve(&config);
    int open = bed_send("DELETE /v1/locks/x?reason=why", "", NULL);
    while (!n_listing)
        bed_pause();
    on_fire = end_break;
    bed_stop();
    assert_ptr_equal(fired, last_cancel);
    assert_says(bed_answer(open), 200, "\"name\":\"x\"");
}

static void test_it_can_be_started_again(void **state)
{
    (void)state;
    const httpd_config config = bed_config(client);
    bed_serve(&config);
    assert_answer("GET /healthz", "", NULL, 200, "alive");
    bed_stop();
    size_t before = count_files();
    for (int i = 0; i < 3; i++) {
        bed_serve(&config);
        assert_answer("GET /healthz", "", NULL, 200, "alive");
        bed_stop();
        assert_int_equal(count_files(), before);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_addresses_that_are_none),
        TEST(test_one_that_is_taken),
        TEST(test_what_the_machine_refuses),
        TEST(test_beyond_this_machine),
        TEST(test_the_socket_that_it_listens_on),
        TEST(test_descriptor_0_can_be_listened_on),
        TEST(test_bad_files_of_tokens),
        TEST(test_who_may_read_a_file_with_secrets),
        TEST(test_bad_certificates),
        TEST(test_the_limit_of_files_is_raised),
        TEST(test_too_few_files_are_told),
        TEST(test_what_lasts_long_never_has_all_connections),
        TEST(test_without_threads_it_does_not_start),
        TEST(test_without_files_it_does_not_start),
        TEST(test_open_requests_are_answered_at_the_end),
        TEST(test_requests_that_come_at_the_end_are_refused),
        TEST(test_an_answer_that_is_being_sent_is_sent_whole),
        TEST(test_a_break_ends_with_the_service),
        TEST(test_it_can_be_started_again),
    };
    return cmocka_run_group_tests(tests, begin_all, NULL);
}
