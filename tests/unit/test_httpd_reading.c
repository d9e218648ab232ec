/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd_reading.c: what a service answers of locks and sessions, in parts too, and of breaks,
 * its health, its files and its counts; the store is the test's. Run by ctest. */
#include "httpd_bed.h"

#include <unistd.h>

#include "httpd/metrics.h"
#include "httpd/service.h"
#include "httpd_library.h"

#define N(array) (sizeof(array) / sizeof *(array))
#define READER "reader-0123456789"

static hf_client *client;

static void serve(const char *token_lines)
{
    hf_error err;
    assert_int_equal(hf_open("memory:", NULL, &client, &err), HF_OK);
    library = (struct library){.n_locks = 0};
    httpd_config config = bed_config(client);
    config.token_file = token_lines ? bed_file(token_lines) : NULL;
    bed_serve(&config);
}

static int begin(void **state)
{
    (void)state;
    serve(NULL);
    return 0;
}

static int begin_with_tokens(void **state)
{
    (void)state;
    serve("read " READER "\n");
    return 0;
}

static int end(void **state)
{
    (void)state;
    bed_stop();
    hf_close(client);
    return 0;
}

static void fail_all_calls(hf_code code)
{
    library_fails(code, hf_code_retryable(code), "the store's own words");
}

/* The body of an answer. */
static const char *body_of(const char *answer)
{
    const char *body = strstr(answer, "\r\n\r\n");
    assert_non_null(body);
    return body + 4;
}

/* ---- Locks ---- */

static const hf_lock_info five[] = {
    {.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}, {.name = "e"}};

/* The names of the locks (or the ids of the sessions) in an answer, and where the next part
 * begins. */
static const char *names_in(const char *answer, const char *key)
{
    static char names[200];
    size_t n = 0;
    char before[40];
    snprintf(before, sizeof before, "\"%s\":\"", key);
    for (const char *at = strstr(answer, before); at; at = strstr(at, before)) {
        at += strlen(before);
        n += (size_t)snprintf(names + n, sizeof names - n, "%.*s ", (int)strcspn(at, "\""), at);
    }
    const char *next = strstr(answer, "\"next\":");
    assert_non_null(next);
    next += strlen("\"next\":");
    snprintf(names + n, sizeof names - n, "> %.*s", (int)strcspn(next, "}"), next);
    return names;
}

static void assert_names(const char *call, const char *key, const char *names)
{
    const char *answer = bed_ask(call, "", NULL);
    assert_says(answer, 200, "application/json");
    assert_string_equal(names_in(answer, key), names);
}

static void test_locks_in_parts(void **state)
{
    (void)state;
    library.locks = five;
    library.n_locks = N(five);
    assert_names("GET /v1/locks", "name", "a b c d e > null");
    assert_names("GET /v1/locks?limit=2", "name", "a b > \"b\"");
    assert_int_equal(library.n_shown, 3); /* one more says that there are more */
    assert_int_equal(library.limit, 3);
    assert_names("GET /v1/locks?limit=2&cursor=b", "name", "c d > \"d\"");
    assert_string_equal(library.after, "b");
    assert_names("GET /v1/locks?limit=2&cursor=d", "name", "e > null");
    assert_names("GET /v1/locks?limit=5", "name", "a b c d e > null");
    assert_names("GET /v1/locks?limit=4", "name", "a b c d > \"d\"");
    assert_names("GET /v1/locks?cursor=e", "name", "> null");
}

static void test_what_of_the_locks_is_asked_for(void **state)
{
    (void)state;
    bed_ask("GET /v1/locks?prefix=job%2F&in_use=1", "", NULL);
    assert_string_equal(library.prefix, "job/");
    assert_true(library.in_use);
    bed_ask("GET /v1/locks?in_use=0", "", NULL);
    assert_string_equal(library.prefix, "");
    assert_false(library.in_use);
    bed_ask("GET /v1/locks", "", NULL);
    assert_false(library.in_use);
}

/* A hundred, where nothing else is said. */
static void test_a_part_has_a_hundred(void **state)
{
    static hf_lock_info many[101];
    static char names[101][8];
    (void)state;
    for (size_t i = 0; i < N(many); i++) {
        snprintf(names[i], sizeof names[i], "%03zu", i);
        many[i] = (hf_lock_info){.name = names[i]};
    }
    library.locks = many;
    library.n_locks = N(many);
    assert_non_null(strstr(bed_ask("GET /v1/locks", "", NULL), "\"next\":\"099\""));
    library.n_locks = 100;
    assert_non_null(strstr(bed_ask("GET /v1/locks", "", NULL), "\"next\":null"));
}

static void test_one_lock(void **state)
{
    static const hf_entry_info holders[] = {{.session = "01", .who = "me", .token = 7}};
    static const hf_lock_info held = {.name = "x", .token = 7, .holders = holders, .n_holders = 1};
    (void)state;
    library.locks = &held;
    library.n_locks = 1;
    const char *answer = bed_ask("GET /v1/locks/x", "", NULL);
    assert_says(answer, 200, "\"who\":\"me\"");
    assert_non_null(strstr(answer, "\"waiting_here\":0"));
    fail_all_calls(HF_NOT_FOUND);
    assert_answer("GET /v1/locks/nix", "", NULL, 404, "\"code\":\"HF_NOT_FOUND\"");
    assert_string_equal(library.name, "nix");
}

/* ---- Why ---- */

static const hf_entry_info first_holder = {
    .session = "01", .who = "me", .why = "because", .actor = "a", .token = 7};
static const hf_entry_info last_holder = {.session = "02", .who = "you"};
static const hf_why_link links[] = {
    {.name = "x", .holder = &first_holder, .waits_for = "y", .next = HF_WHY_FOLLOWS},
    {.name = "y", .depth = 1, .holder = &last_holder, .next = HF_WHY_UNKNOWN}};

static void test_why_a_lock_is_waited_for(void **state)
{
    (void)state;
    library.links = links;
    library.n_links = N(links);
    const char *answer = bed_ask("GET /v1/why/x%2F", "", NULL);
    assert_string_equal(library.name, "x/");
    assert_non_null(strstr(answer, "\"actor\":\"a\",\"waits_for\":\"y\",\"next\":\"follows\""));
    assert_non_null(strstr(answer, "\"waits_for\":null,\"next\":\"unknown\""));
}

/* ---- Sessions ---- */

/* A store lists them in an order of its own. */
static const hf_session_info sessions[] = {{.session = "03", .app = "c", .host = "h"},
                                           {.session = "01", .app = "a", .host = "h"},
                                           {.session = "04", .app = "d", .host = "h", .dead = true},
                                           {.session = "02", .app = "b", .host = "h"}};

static void test_sessions_in_their_order(void **state)
{
    (void)state;
    assert_names("GET /v1/sessions", "session", "> null");
    library.sessions = sessions;
    library.n_sessions = N(sessions);
    assert_names("GET /v1/sessions", "session", "01 02 03 > null");
    assert_names("GET /v1/sessions?all=0", "session", "01 02 03 > null");
    assert_names("GET /v1/sessions?all=1", "session", "01 02 03 04 > null");
    assert_names("GET /v1/sessions?limit=2", "session", "01 02 > \"02\"");
    assert_names("GET /v1/sessions?limit=2&cursor=02", "session", "03 > null");
    assert_names("GET /v1/sessions?limit=1&cursor=02&all=1", "session", "03 > \"03\"");
}

/* ---- A store that fails ---- */

static void test_what_a_store_that_fails_says(void **state)
{
    static const char *const calls[] = {"GET /v1/locks", "GET /v1/locks/x", "GET /v1/sessions",
                                        "GET /readyz", "DELETE /v1/locks/x?reason=why"};
    (void)state;
    library.locks = five;
    library.n_locks = N(five);
    bed_service()->config.serves_anybody = true;
    fail_all_calls(HF_UNREACHABLE);
    for (size_t i = 0; i < N(calls); i++) {
        const char *answer = bed_ask(calls[i], "", NULL);
        assert_says(answer, 503, "\"detail\":\"the store's own words\"");
        assert_non_null(strstr(answer, "\"code\":\"HF_UNREACHABLE\""));
        assert_non_null(strstr(answer, "\"type\":\"urn:holdfast:HF_UNREACHABLE\""));
        assert_non_null(strstr(answer, "\"title\":\"store unreachable\""));
        assert_non_null(strstr(answer, "\"retryable\":true"));
        assert_non_null(strstr(answer, "\"status\":503"));
        assert_non_null(strstr(answer, "\r\nContent-Type: application/problem+json\r\n"));
        assert_non_null(strstr(answer, "\r\nRetry-After: 1\r\n"));
    }
    assert_true(bed_metric("holdfast_errors_total{code=\"HF_UNREACHABLE\"}") == N(calls));
    assert_true(bed_metric("holdfast_errors_total{code=\"HF_READONLY\"}") == 0);
    assert_true(bed_metric("holdfast_errors_total{code=\"HF_OK\"}") == -1);
}

/* A call can be repeated where that may help, after a while only where the service is busy. */
static void test_what_may_be_repeated(void **state)
{
    static const struct {
        hf_code code;
        int status;
        bool is_retryable, is_soon;
    } all[] = {{HF_HELD, 409, true, false},       {HF_LOST, 410, false, false},
               {HF_UNREACHABLE, 503, true, true}, {HF_READONLY, 503, false, false},
               {HF_CLOSED, 503, true, true},      {HF_DENIED, 502, false, false},
               {HF_UNKNOWN, 504, true, false}};
    (void)state;
    for (size_t i = 0; i < N(all); i++) {
        fail_all_calls(all[i].code);
        const char *answer = bed_ask("PUT /v1/leases/x", "", NULL);
        assert_says(answer, all[i].status,
                    all[i].is_retryable ? "\"retryable\":true" : "\"retryable\":false");
        assert_int_equal(strstr(answer, "Retry-After") != NULL, all[i].is_soon);
        assert_null(strstr(answer, "WWW-Authenticate"));
    }
}

/* The store's words may tell of its users; nobody but a caller with a token gets them. */
static void test_whether_it_is_ready(void **state)
{
    (void)state;
    assert_answer("GET /readyz", "", NULL, 200, "ready\n");
    fail_all_calls(HF_DENIED);
    const char *answer = bed_ask("GET /readyz", "", NULL);
    assert_says(answer, 502, "with an access token, the answer says why");
    assert_null(strstr(answer, "own words"));
    assert_answer("GET /readyz", "Authorization: Bearer " READER "\r\n", NULL, 502, "own words");
}

/* ---- Breaks ---- */

static void test_what_a_break_asks_for(void **state)
{
    static const hf_entry_info holders[] = {{.session = "01", .who = "me", .token = 7}};
    static const hf_lock_info held = {.name = "x", .token = 7, .holders = holders, .n_holders = 1};
    (void)state;
    library.locks = &held;
    library.n_locks = 1;
    bed_service()->config.serves_anybody = true;
    const char *answer = bed_ask("DELETE /v1/locks/x?if_token=7&reason=host%20is%20gone", "", NULL);
    assert_says(answer, 200, "{\"name\":\"x\",\"asked\":[{");
    assert_non_null(strstr(answer, "\"token\":7"));
    assert_string_equal(library.reason, "host is gone");
    assert_string_equal(library.by, "nobody");
    assert_true(library.if_token == 7);
    assert_true(bed_has_logged("127.0.0.1 broke \"x\": host is gone"));
    assert_answer("DELETE /v1/locks/x?reason=", "", NULL, 400, "say why, with reason=TEXT");
    assert_answer("DELETE /v1/locks/x", "", NULL, 400, "say why, with reason=TEXT");
    assert_int_equal(library.n_breaks, 1);
}

/* ---- The service ---- */

static void test_which_service_it_is(void **state)
{
    char url[100], host[300] = "{\"store\":\"\",\"host\":\"";
    (void)state;
    gethostname(host + strlen(host), 200);
    snprintf(url, sizeof url,
             "\",\"url\":\"%s\",\"protocol\":\"queue\",\"version\":\"" HF_VERSION "\"}", bed_url());
    assert_answer("GET /v1/service", "", NULL, 200, host);
    assert_answer("GET /v1/service", "", NULL, 200, url);
}

/* ---- Files ---- */

static void test_each_file_is_whole(void **state)
{
    static const char *const files[][3] = {{"GET /", "text/html", "</html>\n"},
                                           {"GET /page.css", "text/css", "}\n"},
                                           {"GET /page.js", "text/javascript", ""},
                                           {"GET /events.js", "text/javascript", ""},
                                           {"GET /card.js", "text/javascript", ""},
                                           {"GET /one.js", "text/javascript", ""},
                                           {"GET /openapi.json", "application/json", "}\n"}};
    (void)state;
    for (size_t i = 0; i < N(files); i++) {
        const char *answer = bed_ask(files[i][0], "", NULL), *body = body_of(answer);
        assert_says(answer, 200, files[i][1]);
        assert_non_null(strstr(answer, "Content-Security-Policy: default-src 'none'"));
        assert_non_null(strstr(answer, "Referrer-Policy: no-referrer"));
        assert_non_null(strstr(answer, "X-Content-Type-Options: nosniff"));
        assert_non_null(strstr(answer, "Cache-Control: no-store"));
        size_t size = strlen(body), end_size = strlen(files[i][2]);
        assert_true(size > 100 && body[size - 1] == '\n');
        assert_string_equal(body + size - end_size, files[i][2]);
        assert_true(bed_number(answer, "Content-Length: ") == (double)size);
    }
}

/* ---- Counts ---- */

#define LOCKS_CALL "method=\"GET\",path=\"/v1/locks\""

static void test_requests_are_counted_by_their_route(void **state)
{
    (void)state;
    bed_ask("GET /v1/locks", "", NULL);
    bed_ask("GET /v1/locks", "", NULL);
    bed_ask("GET /v1/locks?nix=1", "", NULL);
    bed_ask("GET /nix", "", NULL);
    bed_ask("GET /v1/locks", "Host: elsewhere.example\r\n", NULL); /* its path was not looked at */
    assert_true(bed_metric("holdfast_http_requests_total{" LOCKS_CALL ",status=\"200\"}") == 2);
    assert_true(bed_metric("holdfast_http_requests_total{" LOCKS_CALL ",status=\"400\"}") == 1);
    assert_true(bed_metric("holdfast_http_requests_total{" LOCKS_CALL ",status=\"404\"}") == -1);
    assert_true(bed_metric("holdfast_http_request_seconds_count{" LOCKS_CALL "}") == 3);
    assert_true(bed_metric("holdfast_http_request_seconds_bucket{" LOCKS_CALL ",le=\"+Inf\"}") ==
                3);
    assert_true(bed_metric("holdfast_http_requests_total{method=\"\",path=\"\",status=\"404\"}") ==
                1);
    assert_true(bed_metric("holdfast_http_requests_total{method=\"\",path=\"\",status=\"421\"}") ==
                1);
    assert_true(bed_metric("holdfast_http_request_seconds_count{method=\"\",path=\"\"}") == 2);
    assert_true(bed_metric("holdfast_http_requests_open") == 1);
    assert_true(bed_metric("holdfast_store_round_trips_total") == 0);
}

/* Each bucket has what the ones before it have, too. */
static void test_buckets_go_on(void **state)
{
    double before = 0;
    (void)state;
    for (int i = 0; i < 5; i++)
        bed_ask("GET /healthz", "", NULL);
    const char *text = bed_ask("GET /metrics", "", NULL);
    for (int i = 0; i < METRICS_BUCKETS; i++) {
        char line[200];
        snprintf(line, sizeof line,
                 "holdfast_http_request_seconds_bucket{method=\"GET\",path=\"/healthz\","
                 "le=\"%g\"} ",
                 (double)metrics_bounds_ms[i] / 1000);
        double here = bed_number(text, line);
        assert_true(here >= before);
        before = here;
    }
    assert_true(before == 5);
    assert_true(bed_number(text, "\nholdfast_hold_seconds_bucket{le=\"0.001\"} ") == 0);
    assert_true(bed_number(text, "\nholdfast_hold_seconds_count{} ") == 0);
    assert_true(bed_number(text, "\nholdfast_wait_seconds_count{outcome=\"granted\"} ") == 0);
    assert_non_null(strstr(text, "\n# TYPE holdfast_http_request_seconds histogram\n"));
    assert_non_null(strstr(text, "\n# HELP holdfast_looks_total "));
}

/* A part of /metrics, from its head to the next one. */
static const char *part_of_metrics(const char *name)
{
    static char part[3000];
    char head[100];
    snprintf(head, sizeof head, "# HELP %s ", name);
    const char *at = strstr(bed_ask("GET /metrics", "", NULL), head);
    assert_non_null(at);
    const char *next = strstr(at + 1, "# HELP ");
    snprintf(part, sizeof part, "%.*s", next ? (int)(next - at) : (int)strlen(at), at);
    return part;
}

static void test_a_histogram_has_each_bucket_once(void **state)
{
    metrics *m = &bed_service()->metrics;
    (void)state;
    metrics_hold(m, 1000);
    metrics_hold(m, 1001);
    metrics_hold(m, 100000000);
    const char *text = part_of_metrics("holdfast_hold_seconds"),
               *lines = strstr(text, "\nholdfast");
    assert_non_null(lines);
    assert_string_equal(lines, "\nholdfast_hold_seconds_bucket{le=\"0.001\"} 1"
                               "\nholdfast_hold_seconds_bucket{le=\"0.002\"} 2"
                               "\nholdfast_hold_seconds_bucket{le=\"0.005\"} 2"
                               "\nholdfast_hold_seconds_bucket{le=\"0.01\"} 2"
                               "\nholdfast_hold_seconds_bucket{le=\"0.025\"} 2"
                               "\nholdfast_hold_seconds_bucket{le=\"0.05\"} 2"
                               "\nholdfast_hold_seconds_bucket{le=\"0.1\"} 2"
                               "\nholdfast_hold_seconds_bucket{le=\"0.25\"} 2"
                               "\nholdfast_hold_seconds_bucket{le=\"1\"} 2"
                               "\nholdfast_hold_seconds_bucket{le=\"5\"} 2"
                               "\nholdfast_hold_seconds_bucket{le=\"15\"} 2"
                               "\nholdfast_hold_seconds_bucket{le=\"60\"} 2"
                               "\nholdfast_hold_seconds_bucket{le=\"+Inf\"} 3"
                               "\nholdfast_hold_seconds_sum{} 100.002"
                               "\nholdfast_hold_seconds_count{} 3\n");
}

static void test_each_kind_of_event_is_counted(void **state)
{
    metrics *m = &bed_service()->metrics;
    char line[100], expected[2000] = "";
    (void)state;
    for (news kind = 0; kind < N_NEWS; kind++) {
        for (news i = 0; i <= kind; i++)
            metrics_news(m, kind);
        snprintf(line, sizeof line, "\nholdfast_events_total{event=\"%s\"} %d", news_name(kind),
                 kind + 1);
        strcat(expected, line);
    }
    strcat(expected, "\n");
    assert_string_equal(strstr(part_of_metrics("holdfast_events_total"), "\nholdfast"), expected);
}

/* The name that a line of /metrics is about, without what a histogram adds to it. */
static const char *family_of(const char *line)
{
    static const char *const endings[] = {"_bucket", "_sum", "_count"};
    static char name[100];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(line, "{ "), line);
    for (size_t i = 0; i < N(endings); i++) {
        size_t length = strlen(name), end_length = strlen(endings[i]);
        if (length > end_length && strcmp(name + length - end_length, endings[i]) == 0)
            name[length - end_length] = '\0';
    }
    return name;
}

/* Each count stands below what is said of it, each is said once, and none is missing. */
static void test_each_count_is_explained(void **state)
{
    char current[100] = "", help[120], type[120], *rest = NULL, all[2000] = "";
    (void)state;
    bed_ask("GET /nix", "", NULL);
    char *text = strdup(body_of(bed_ask("GET /metrics", "", NULL)));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "# HELP ", 7) == 0) {
            snprintf(current, sizeof current, "%.*s", (int)strcspn(line + 7, " "), line + 7);
            snprintf(help, sizeof help, " %s ", current);
            assert_null(strstr(all, help));
            strcat(all, help);
            line = strtok_r(NULL, "\n", &rest);
            snprintf(type, sizeof type, "# TYPE %s ", current);
            assert_memory_equal(line, type, strlen(type));
            assert_memory_equal(rest, current, strlen(current)); /* it has a value */
        } else {
            assert_string_equal(family_of(line), current);
        }
    }
    free(text);
    assert_string_equal(all, " holdfast_http_requests_total  holdfast_http_request_seconds "
                             " holdfast_errors_total  holdfast_wait_seconds "
                             " holdfast_hold_seconds  holdfast_renew_margin_seconds "
                             " holdfast_events_total  holdfast_looks_total "
                             " holdfast_store_round_trips_total  holdfast_http_refused_total "
                             " holdfast_http_connections  holdfast_http_requests_open "
                             " holdfast_waits_open  holdfast_followers_open "
                             " holdfast_http_connections_cut_total ");
}

static void test_each_request_is_logged(void **state)
{
    (void)state;
    bed_ask("GET /v1/locks", "", NULL);
    bed_ask("GET /nix", "", NULL);
    assert_true(bed_has_logged("GET /v1/locks: 200, "));
    assert_true(bed_has_logged("? ?: 404, "));
}

/* As many on one connection as it likes. */
static void test_one_connection_has_many_requests(void **state)
{
    static const char get[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    (void)state;
    int fd = bed_connect();
    for (int i = 0; i < 50; i++)
        bed_write(fd, get);
    bed_write(fd, "GET /nix HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    const char *at = bed_answer(fd);
    for (int i = 0; i < 50; i++) {
        at = strstr(at, "alive\n");
        assert_non_null(at);
        at++;
    }
    assert_non_null(strstr(at, "HTTP/1.1 404"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_locks_in_parts),
        TEST(test_what_of_the_locks_is_asked_for),
        TEST(test_a_part_has_a_hundred),
        TEST(test_one_lock),
        TEST(test_why_a_lock_is_waited_for),
        TEST(test_sessions_in_their_order),
        TEST(test_what_a_store_that_fails_says),
        TEST(test_what_may_be_repeated),
        cmocka_unit_test_setup_teardown(test_whether_it_is_ready, begin_with_tokens, end),
        TEST(test_what_a_break_asks_for),
        TEST(test_which_service_it_is),
        TEST(test_each_file_is_whole),
        TEST(test_requests_are_counted_by_their_route),
        TEST(test_buckets_go_on),
        TEST(test_a_histogram_has_each_bucket_once),
        TEST(test_each_kind_of_event_is_counted),
        TEST(test_each_count_is_explained),
        TEST(test_each_request_is_logged),
        TEST(test_one_connection_has_many_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
