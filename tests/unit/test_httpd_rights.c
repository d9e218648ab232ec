/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd_rights.c: which requests a service serves, and what it says of those that it refuses:
 * hosts, paths, methods, access tokens, --read-only, content types, parameters and sizes; run by
 * ctest. */
#include "httpd_bed.h"

#include <microhttpd.h>
#include <unistd.h>

#include "httpd_library.h"

#define JSON "Content-Type: application/json\r\n"
#define READER "reader-0123456789"
#define USER "user-0123456789-"
#define ADMIN "admin-0123456789"
#define BEARER(token) "Authorization: Bearer " token "\r\n"

static hf_client *client;
static const hf_lock_info one_lock = {.name = "x"};

static void serve(bool has_tokens, bool is_read_only, bool serves_anybody)
{
    hf_error err;
    assert_int_equal(hf_open("memory:", NULL, &client, &err), HF_OK);
    library = (struct library){.locks = &one_lock, .n_locks = 1};
    httpd_config config = bed_config(client);
    if (has_tokens)
        config.token_file =
            bed_file("read " READER "\nuse " USER " shop\nadmin " ADMIN " operator\n");
    config.is_read_only = is_read_only;
    config.serves_anybody = serves_anybody;
    bed_serve(&config);
}

static int serve_here(void **state)
{
    (void)state;
    serve(false, false, false);
    return 0;
}

static int serve_with_tokens(void **state)
{
    (void)state;
    serve(true, false, false);
    return 0;
}

static int serve_to_read(void **state)
{
    (void)state;
    serve(false, true, false);
    return 0;
}

static int serve_anybody(void **state)
{
    (void)state;
    serve(false, false, true);
    return 0;
}

static int end(void **state)
{
    (void)state;
    bed_stop();
    hf_close(client);
    return 0;
}

/* ---- Hosts ---- */

#define ELSEWHERE "Host: elsewhere.example:8430\r\n"

static void test_another_host_is_refused(void **state)
{
    (void)state;
    assert_answer("GET /healthz", "Host: 127.0.0.1\r\n", NULL, 200, "alive");
    assert_answer("GET /healthz", "Host: LocalHost:99\r\n", NULL, 200, "alive");
    assert_answer("GET /healthz", ELSEWHERE, NULL, 421, "served, not elsewhere.example:8430");
    assert_answer("GET /nix", ELSEWHERE, NULL, 421, "PROBLEM_HOST");
    int fd = bed_connect();
    bed_write(fd, "GET /healthz HTTP/1.0\r\n\r\n"); /* has none */
    assert_says(bed_answer(fd), 200, "alive");
}

static void test_with_tokens_it_may_have_any_name(void **state)
{
    (void)state;
    assert_answer("GET /healthz", ELSEWHERE, NULL, 200, "alive");
    assert_answer("GET /v1/locks", ELSEWHERE, NULL, 401, "PROBLEM_UNAUTHORIZED");
}

static void test_one_for_anybody_may_have_any_name(void **state)
{
    (void)state;
    assert_answer("GET /v1/locks", ELSEWHERE, NULL, 200, "\"locks\":[");
    assert_answer("DELETE /v1/locks/x?reason=why", ELSEWHERE, NULL, 200, "\"name\":\"x\"");
}

/* ---- Paths and methods ---- */

static void test_paths_that_are_none(void **state)
{
    (void)state;
    assert_answer("GET /nix", "", NULL, 404, "there is nothing at /nix; /openapi.json says");
    assert_answer("GET /v1/leases/", "", NULL, 404, "PROBLEM_NO_SUCH_PATH");
    assert_answer("GET /v1/locks/%4", "", NULL, 400, "the path /v1/locks/%4 has a % without two");
    assert_answer("GET /v1/locks/%00", "", NULL, 400, "HF_INVALID");
    assert_answer("GET /v1/locks/a%2Fb%20c", "", NULL, 200, "");
    assert_string_equal(library.name, "a/b c");
    assert_answer("GET /v1/locks?prefix=%61", "", NULL, 200, "");
    assert_string_equal(library.prefix, "a");
}

/* Browsers take `.` and `..` out of a path. */
static void test_a_name_may_be_a_parameter(void **state)
{
    (void)state;
    assert_answer("GET /v1/locks/?name=%2e%2E", "", NULL, 200, "");
    assert_string_equal(library.name, "..");
    assert_answer("GET /v1/locks/?name=a%2Fb", "", NULL, 200, "");
    assert_string_equal(library.name, "a/b");
    assert_answer("DELETE /v1/locks/?reason=why&name=.", "", NULL, 200, "\"name\":\".\"");
    assert_answer("GET /v1/locks/", "", NULL, 400, "say which lock: /v1/locks/?name=NAME");
    assert_answer("GET /v1/history/?name=", "", NULL, 400, "say which lock: /v1/history/?name=");
    assert_answer("DELETE /v1/locks/?reason=why&name", "", NULL, 400, "say which lock");
    assert_answer("GET /v1/locks/?name=%", "", NULL, 400, "name=% has a % without two");
    assert_answer("GET /v1/locks/x?name=y", "", NULL, 400, "no parameter name; there are: none");
}

static void test_the_methods_of_a_path_are_named(void **state)
{
    (void)state;
    const char *answer = bed_ask("PUT /v1/locks/x", "", NULL);
    assert_says(answer, 405, "/v1/locks/x can be asked for with GET, POST, DELETE");
    assert_non_null(strstr(answer, "\r\nAllow: GET, POST, DELETE\r\n"));
    assert_answer("BREW /metrics", "", NULL, 405, "\r\nAllow: GET\r\n");
    assert_answer("HEAD /metrics", "", NULL, 200, "text/plain; version=0.0.4");
}

/* ---- Pages of other sites ---- */

#define SITE(site, mode) "Sec-Fetch-Site: " site "\r\nSec-Fetch-Mode: " mode "\r\n"

static void test_pages_of_other_sites_are_refused(void **state)
{
    (void)state;
    assert_answer("GET /v1/locks/x", SITE("cross-site", "no-cors"), NULL, 403, "of other sites");
    assert_answer("GET /v1/locks/x", SITE("same-site", "no-cors"), NULL, 403, "of other sites");
    assert_answer("GET /v1/locks/x", SITE("cross-site", "navigate"), NULL, 403, "of other sites");
    assert_answer("GET /", SITE("cross-site", "no-cors"), NULL, 403, "of other sites");
    assert_answer("GET /", SITE("cross-site", "navigate"), NULL, 200, "</html>");
    assert_answer("GET /v1/locks/x", SITE("same-origin", "cors"), NULL, 200, "");
    assert_answer("GET /v1/locks/x", SITE("none", "navigate"), NULL, 200, "");
}

/* ---- Tokens ---- */

static void test_without_access_tokens_nobody_breaks(void **state)
{
    (void)state;
    assert_answer("DELETE /v1/locks/x?reason=why", "", NULL, 403,
                  "has no access tokens, and the call requires one for admin");
    assert_int_equal(library.n_breaks, 0);
}

static void test_without_a_token(void **state)
{
    (void)state;
    const char *answer = bed_ask("GET /v1/locks", "", NULL);
    assert_says(answer, 401,
                "\"detail\":\"give an access token that allows to read: Authorization");
    assert_non_null(strstr(answer, "\r\nWWW-Authenticate: Bearer\r\n"));
    assert_answer("GET /v1/locks", BEARER("nobody-0123456789"), NULL, 401,
                  "the access token in Authorization is unknown; give one that allows to read");
    assert_answer("POST /v1/locks/x", "Authorization: Basic " USER "\r\n" JSON, "{}", 401,
                  "is unknown; give one that allows to use");
    assert_answer("GET /v1/locks", "Authorization: Bearer\r\n", NULL, 401, "PROBLEM_UNAUTHORIZED");
    assert_answer("GET /healthz", "", NULL, 200, "alive");
    assert_answer("GET /", "", NULL, 200, "<html");
}

static void test_what_each_token_allows(void **state)
{
    (void)state;
    assert_answer("GET /v1/locks", BEARER(READER), NULL, 200, "\"locks\"");
    assert_answer("GET /v1/locks", "Authorization: bearer " USER "\r\n", NULL, 200, "\"locks\"");
    assert_answer("POST /v1/locks/y", BEARER(READER) JSON, "{}", 403,
                  "this access token allows to read; the call requires one for use");
    assert_answer("POST /v1/locks/y", BEARER(USER) JSON, "{}", 201, "\"lease\"");
    assert_answer("DELETE /v1/locks/y?reason=why", BEARER(USER), NULL, 403,
                  "this access token allows to use; the call requires one for admin");
    assert_int_equal(library.n_breaks, 0);
    assert_answer("DELETE /v1/locks/y?reason=why", BEARER(ADMIN), NULL, 200, "\"name\":\"y\"");
    assert_string_equal(library.by, "operator");
    assert_null(strstr(bed_ask("POST /v1/locks/y", BEARER(READER) JSON, "{}"), "WWW-Auth"));
}

/* ---- Writing ---- */

static void test_one_to_read_changes_nothing(void **state)
{
    (void)state;
    assert_answer("GET /v1/locks/x", "", NULL, 200, "\"name\":\"x\"");
    assert_answer("HEAD /v1/locks/x", "", NULL, 200, "");
    assert_answer("POST /v1/locks/x", JSON, "{}", 403, "started with --read-only");
    assert_answer("PUT /v1/leases/x", "", NULL, 403, "started with --read-only");
    assert_answer("DELETE /v1/leases/x", "", NULL, 403, "started with --read-only");
    assert_answer("DELETE /v1/locks/x?reason=why", "", NULL, 403, "started with --read-only");
    assert_int_equal(library.n_breaks + library.n_renewals + library.n_releases, 0);
}

static void test_a_body_is_json(void **state)
{
    (void)state;
    assert_answer("POST /v1/locks/x", "", "{}", 415, "header Content-Type: application/json");
    assert_answer("POST /v1/locks/x", "Content-Type: text/plain\r\n", "{}", 415, "_NOT_JSON");
    assert_answer("POST /v1/locks/x", "Content-Type: application/jso\r\n", "{}", 415, "_NOT_JSON");
    assert_answer("POST /v1/locks/x", "Content-Type: Application/JSON; charset=utf-8\r\n", "{}",
                  201, "\"lease\"");
    assert_answer("POST /v1/locks/y", "Content-Type: application/json\r\n", "", 201, "\"lease\"");
    assert_answer("PUT /v1/leases/nonsense", "", NULL, 400, "HF_INVALID");
}

/* ---- Parameters ---- */

static void test_parameters_that_are_none(void **state)
{
    (void)state;
    assert_answer("GET /v1/locks?nix=1", "", NULL, 400,
                  "there is no parameter nix; there are: prefix in_use cursor limit");
    assert_answer("GET /v1/locks?pre=1", "", NULL, 400, "there is no parameter pre;");
    assert_answer("GET /v1/locks?prefixes=1", "", NULL, 400, "there is no parameter prefixes;");
    assert_answer("GET /v1/locks?fix=1", "", NULL, 400, "there is no parameter fix;");
    assert_answer("GET /metrics?nix", "", NULL, 400, "no parameter nix; there are: none");
    assert_answer("GET /v1/locks?prefix=%zz", "", NULL, 400, "prefix=%zz has a % without two");
    assert_answer("GET /v1/locks?limit=5&nix=1&prefix=%", "", NULL, 400, "no parameter nix");
    assert_answer("GET /v1/locks?cursor=a&limit=5", "", NULL, 200, "\"locks\"");
    assert_string_equal(library.after, "a");
    assert_answer("GET /v1/locks?prefix", "", NULL, 200, "\"locks\"");
}

static void test_numbers_have_bounds(void **state)
{
    static const char *const bad[] = {
        "limit=0",  "limit=1001", "limit=-1", "limit=",
        "limit=5x", "limit=x",    "limit",    "limit=9999999999999999999"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char call[100];
        snprintf(call, sizeof call, "GET /v1/locks?%s", bad[i]);
        assert_answer(call, "", NULL, 400, " is no number from 1 to 1000");
    }
    assert_answer("GET /v1/locks?limit=1", "", NULL, 200, "");
    assert_answer("GET /v1/locks?limit=1000", "", NULL, 200, "");
    assert_answer("GET /v1/locks?in_use=2", "", NULL, 400, "in_use=2 is no number from 0 to 1");
    assert_answer("GET /v1/locks?in_use=", "", NULL, 400, "in_use= is no number from 0 to 1");
    assert_answer("GET /v1/sessions?all=-1", "", NULL, 400, "all=-1 is no number from 0 to 1");
    assert_answer("GET /v1/sessions?all=2", "", NULL, 400, "all=2 is no number from 0 to 1");
    assert_answer("GET /v1/sessions?limit=0", "", NULL, 400, "limit=0 is no number from 1 to 1000");
    assert_answer("GET /v1/events?in_use=2", "", NULL, 400, "in_use=2 is no number from 0 to 1");
    assert_answer("DELETE /v1/locks/x?if_token=0&reason=r", "", NULL, 400,
                  "from 1 to 9007199254740992");
    assert_answer("DELETE /v1/locks/x?if_token=9007199254740992&reason=r", "", NULL, 200, "");
    assert_true(library.if_token == INT64_C(9007199254740992));
    assert_answer("DELETE /v1/locks/x?reason=r", "", NULL, 200, "");
    assert_true(library.if_token == 0);
}

/* ---- Sizes ---- */

static const char *body_of(size_t size)
{
    static char body[20000];
    assert_true(size < sizeof body);
    memset(body, ' ', size);
    body[size] = '\0';
    return body;
}

static void test_how_large_a_body_may_be(void **state)
{
    (void)state;
    assert_answer("GET /healthz", "", body_of(16384), 200, "alive");
    assert_answer("GET /healthz", "", body_of(16385), 413, "a body has at most 16384 bytes");
    assert_answer("GET /nix", "", body_of(16385), 413, "PROBLEM_TOO_LARGE");
    assert_answer("GET /nix", "", body_of(16384), 404, "PROBLEM_NO_SUCH_PATH");
}

/* In pieces, each as long as a number of half-bytes says. */
static const char *send_pieces(const char *a, const char *b)
{
    static char head[100];
    int fd = bed_connect();
    bed_write(fd, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n");
    snprintf(head, sizeof head, "%zx\r\n", strlen(a));
    bed_write(fd, head), bed_write(fd, a);
    snprintf(head, sizeof head, "\r\n%zx\r\n", strlen(b));
    bed_write(fd, head), bed_write(fd, b), bed_write(fd, "\r\n0\r\n\r\n");
    return bed_answer(fd);
}

static void test_how_large_all_pieces_may_be(void **state)
{
    static char first[9000];
    (void)state;
    memset(first, ' ', 8192);
    assert_says(send_pieces(first, body_of(8192)), 200, "alive");
    assert_says(send_pieces(first, body_of(8193)), 413, "PROBLEM_TOO_LARGE");
    assert_says(send_pieces(first, body_of(19000)), 413, "PROBLEM_TOO_LARGE");
}

/* What is said where a body has two lengths. microhttpd refuses some such requests itself, from
 * version 1.0 on, in words of its own. */
static const char *one_length(void)
{
    return MHD_get_version()[0] == '0' ? "say once how long the body is" : "";
}

/* The first thing that is wrong is named, whatever else is. */
static void test_what_is_wrong_first_is_said(void **state)
{
    (void)state;
    assert_answer("GET /nix", "Content-Length: 0\r\nContent-Length: 0\r\n" ELSEWHERE, NULL, 400,
                  one_length());
    assert_answer("POST /v1/locks/x?nix=1", "", "{}", 415, "_NOT_JSON");
    assert_answer("POST /v1/locks/x?nix=1", JSON, "{}", 400, "no parameter nix");
}

static void test_what_is_wrong_first_is_said_with_tokens(void **state)
{
    (void)state;
    assert_answer("POST /v1/locks/x?nix=1", "", "{}", 401, "PROBLEM_UNAUTHORIZED");
    assert_answer("POST /v1/locks/x?nix=1", BEARER(READER), "{}", 403, "PROBLEM_FORBIDDEN");
}

static void test_what_is_wrong_first_is_said_to_readers(void **state)
{
    (void)state;
    assert_answer("POST /v1/locks/x?nix=1", "", "{}", 403, "started with --read-only");
}

static void test_a_body_has_one_length(void **state)
{
    (void)state;
    const char *twice = "Content-Length: 2\r\n" JSON;
    const char *answer = bed_ask("POST /v1/locks/x", twice, "{}");
    assert_says(answer, 400, one_length());
    assert_non_null(strstr(answer, "Connection: close"));
    assert_answer("POST /v1/locks/x", JSON, "{}", 201, "\"lease\"");
    assert_answer("POST /v1/locks/x", JSON "Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n",
                  400, one_length());
}

/* HTTP/1.1 asks for one. microhttpd says so in the log, in a line as all are. */
static void test_a_request_names_its_host(void **state)
{
    (void)state;
    int fd = bed_connect();
    bed_write(fd, "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_says(bed_answer(fd), 400, "");
    assert_true(bed_logs_lines());
}

int main(void)
{
#define TEST(name, begin) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_another_host_is_refused, serve_here),
        TEST(test_with_tokens_it_may_have_any_name, serve_with_tokens),
        TEST(test_one_for_anybody_may_have_any_name, serve_anybody),
        TEST(test_paths_that_are_none, serve_here),
        TEST(test_pages_of_other_sites_are_refused, serve_here),
        TEST(test_without_access_tokens_nobody_breaks, serve_here),
        TEST(test_a_name_may_be_a_parameter, serve_anybody),
        TEST(test_the_methods_of_a_path_are_named, serve_here),
        TEST(test_without_a_token, serve_with_tokens),
        TEST(test_what_each_token_allows, serve_with_tokens),
        TEST(test_one_to_read_changes_nothing, serve_to_read),
        TEST(test_a_body_is_json, serve_here),
        TEST(test_parameters_that_are_none, serve_here),
        TEST(test_numbers_have_bounds, serve_anybody),
        TEST(test_how_large_a_body_may_be, serve_here),
        TEST(test_how_large_all_pieces_may_be, serve_here),
        TEST(test_what_is_wrong_first_is_said, serve_here),
        TEST(test_what_is_wrong_first_is_said_with_tokens, serve_with_tokens),
        TEST(test_what_is_wrong_first_is_said_to_readers, serve_to_read),
        TEST(test_a_body_has_one_length, serve_here),
        TEST(test_a_request_names_its_host, serve_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
