/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd_memory.c: a service that gets no memory for an answer says so and ends, at once and
 * with the same status wherever it happens; run by ctest. */
#include "httpd_bed.h"

#include <jansson.h>
#include <microhttpd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "httpd_library.h"

#define N(array) (sizeof(array) / sizeof *(array))

/* How many of these calls are still served; negative: all are. */
static int dumps_left, streams_left, responses_left;

static bool is_served(int *left)
{
    if (*left < 0)
        return true;
    return (*left)-- > 0;
}

char *__real_json_dumps(const json_t *json, size_t flags);
char *__wrap_json_dumps(const json_t *json, size_t flags);
FILE *__real_open_memstream(char **text, size_t *size);
FILE *__wrap_open_memstream(char **text, size_t *size);
struct MHD_Response *__real_MHD_create_response_from_buffer(size_t size, void *bytes,
                                                            enum MHD_ResponseMemoryMode mode);
struct MHD_Response *__wrap_MHD_create_response_from_buffer(size_t size, void *bytes,
                                                            enum MHD_ResponseMemoryMode mode);

char *__wrap_json_dumps(const json_t *json, size_t flags)
{
    return is_served(&dumps_left) ? __real_json_dumps(json, flags) : NULL;
}

FILE *__wrap_open_memstream(char **text, size_t *size)
{
    return is_served(&streams_left) ? __real_open_memstream(text, size) : NULL;
}

struct MHD_Response *__wrap_MHD_create_response_from_buffer(size_t size, void *bytes,
                                                            enum MHD_ResponseMemoryMode mode)
{
    return is_served(&responses_left) ? __real_MHD_create_response_from_buffer(size, bytes, mode)
                                      : NULL;
}

static void fail_once(void)
{
    library_fails(HF_UNREACHABLE, false, "gone");
}

/* A service in a process of its own, which is asked this. With memory it ends with 0. */
static void serve_and_ask(const char *call)
{
    hf_client *client;
    hf_error err;
    bool is_scarce = dumps_left >= 0 || streams_left >= 0 || responses_left >= 0;
    if (hf_open("memory:", NULL, &client, &err))
        _exit(1);
    const httpd_config config = bed_config(client);
    bed_serve(&config);
    bed_ask(call, "", NULL);
    while (is_scarce)
        pause(); /* it is about to end */
    _exit(0);
}

/* Its status, and what it said. */
static int end_of(const char *call, char *said, size_t size)
{
    int status, pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(SOON_MS / 1000);
        dup2(pipe_ends[1], STDERR_FILENO);
        close(pipe_ends[0]);
        serve_and_ask(call);
    }
    close(pipe_ends[1]);
    size_t length = 0;
    ssize_t n;
    while ((n = read(pipe_ends[0], said + length, size - 1 - length)) > 0)
        length += (size_t)n;
    said[length] = '\0';
    close(pipe_ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_ends(const char *call)
{
    char said[500];
    int status = end_of(call, said, sizeof said);
    assert_string_equal(said, "holdfast: out of memory\n");
    assert_int_equal(status, 70);
}

static int begin(void **state)
{
    (void)state;
    dumps_left = streams_left = responses_left = -1;
    library = (struct library){.n_locks = 0};
    return 0;
}

static void test_an_answer_in_json(void **state)
{
    (void)state;
    dumps_left = 0;
    assert_ends("GET /v1/locks");
    assert_ends("GET /nix");
}

static void test_any_answer(void **state)
{
    (void)state;
    responses_left = 0;
    assert_ends("GET /healthz");
    assert_ends("GET /");
    assert_ends("GET /v1/locks");
}

static void test_the_counts(void **state)
{
    (void)state;
    streams_left = 0;
    assert_ends("GET /metrics");
}

static void test_the_events(void **state)
{
    (void)state;
    streams_left = 0;
    assert_ends("GET /v1/events");
}

/* The first thing that the watcher has to tell is that the store is not reached. */
static void test_the_watcher(void **state)
{
    (void)state;
    fail_once();
    dumps_left = 0;
    assert_ends("GET /v1/events");
}

static void test_with_memory_it_goes_on(void **state)
{
    char said[500];
    (void)state;
    assert_int_equal(end_of("GET /v1/locks", said, sizeof said), 0);
    assert_string_equal(said, "");
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_an_answer_in_json), TEST(test_any_answer),  TEST(test_the_counts),
        TEST(test_the_events),        TEST(test_the_watcher), TEST(test_with_memory_it_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
