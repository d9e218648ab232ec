/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd_leasing.c: locks that are taken, waited for, renewed and released over HTTP: what is
 * asked of the library, who waits, limits, keys, and how waits end; run by ctest. */
#include "httpd_bed.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "httpd/waits.h"
#include "httpd_library.h"

#define N(array) (sizeof(array) / sizeof *(array))
#define JSON "Content-Type: application/json\r\n"
#define KEY(text) "Idempotency-Key: " text "\r\n"
#define FIRST "user-0123456789-a"
#define SECOND "user-0123456789-b"
#define BEARER(token) "Authorization: Bearer " token "\r\n"
#define WAITING "holdfast_waits_open"
#define LONG_WAIT "{\"wait_ms\": 60000, \"ttl_ms\": 600000}"
#define LONG "{\"ttl_ms\": 600000}"

static hf_client *client;

/* ---- Clients that are gone by the time that they are looked at ---- */

static bool is_gone_at_once;

admission __real_waits_enter(waits *w, wait_entry *e, size_t most);
admission __wrap_waits_enter(waits *w, wait_entry *e, size_t most);
admission __wrap_waits_enter(waits *w, wait_entry *e, size_t most)
{
    admission taken = __real_waits_enter(w, e, most);
    if (taken == ADMITTED && is_gone_at_once)
        e->on_gone(e->ctx);
    return taken;
}

static void serve(const char *tokens, int max_waits)
{
    hf_error err;
    assert_int_equal(hf_open("memory:", NULL, &client, &err), HF_OK);
    library = (struct library){.n_locks = 0};
    is_gone_at_once = false;
    httpd_config config = bed_config(client);
    config.token_file = tokens ? bed_file(tokens) : NULL;
    config.max_waits = max_waits;
    bed_serve(&config);
}

static int begin(void **state)
{
    (void)state;
    serve(NULL, 3);
    return 0;
}

static int begin_with_tokens(void **state)
{
    (void)state;
    serve("use " FIRST " shop\nuse " SECOND "\nread reader-0123456789\n", 2);
    return 0;
}

static int end(void **state)
{
    (void)state;
    bed_stop(); /* its workers read `library` */
    library = (struct library){.n_locks = 0};
    hf_close(client);
    return 0;
}

static int ask(const char *name, const char *headers, const char *body)
{
    char call[200], all[1000];
    snprintf(call, sizeof call, "POST /v1/locks/%s", name);
    snprintf(all, sizeof all, "%s%s", JSON, headers);
    return bed_send(call, all, body);
}

static const char *take(const char *name, const char *headers, const char *body)
{
    return bed_answer(ask(name, headers, body));
}

/* The id of the lease in an answer, until the next one. */
static const char *id_in(const char *answer)
{
    static char id[HF_LEASE_ID_SIZE];
    assert_says(answer, 201, "\"lease\":\"");
    const char *at = strstr(answer, "\"lease\":\"") + strlen("\"lease\":\"");
    snprintf(id, sizeof id, "%.*s", (int)strcspn(at, "\""), at);
    return id;
}

static const char *call_lease(const char *method, const char *id)
{
    static char call[HF_LEASE_ID_SIZE + 40];
    snprintf(call, sizeof call, "%s /v1/leases/%s", method, id);
    return bed_ask(call, "", NULL);
}

static void release(const char *id)
{
    assert_says(call_lease("DELETE", id), 204, "");
}

/* ---- What is asked of the library ---- */

static void test_all_that_is_asked_for_arrives(void **state)
{
    (void)state;
    assert_says(take("pool", KEY("order"),
                     "{\"mode\":\"exclusive\",\"permits\":2,\"limit\":3,\"wait_ms\":5000,"
                     "\"ttl_ms\":600000,\"why\":\"release 41\",\"owner\":\"shop\"}"),
                201, "\"ttl_ms\":600000");
    assert_string_equal(library.name, "pool");
    assert_int_equal(library.lease.lock.mode, HF_EXCLUSIVE);
    assert_int_equal(library.lease.lock.permits, 2);
    assert_int_equal(library.lease.lock.limit, 3);
    assert_int_equal(library.lease.lock.wait_ms, 5000);
    assert_int_equal(library.lease.ttl_ms, 600000);
    assert_string_equal(library.why, "release 41");
    assert_string_equal(library.owner, "shop");
    assert_string_equal(library.key, ":order");
}

static void test_what_is_not_asked_for_is_left_to_the_library(void **state)
{
    static const char *const bodies[] = {"{}", "", "{\"wait_ms\":0}"};
    (void)state;
    for (size_t i = 0; i < N(bodies); i++) {
        release(id_in(take("x", "", bodies[i])));
        assert_int_equal(library.lease.lock.mode, HF_EXCLUSIVE);
        assert_int_equal(library.lease.lock.permits, 0);
        assert_int_equal(library.lease.lock.limit, 0);
        assert_int_equal(library.lease.lock.wait_ms, HF_TRY);
        assert_int_equal(library.lease.ttl_ms, 0);
        assert_null(library.lease.lock.why);
        assert_null(library.lease.owner);
        assert_null(library.lease.key);
    }
    take("x", "", "{\"mode\":\"shared\"}");
    assert_int_equal(library.lease.lock.mode, HF_SHARED);
}

static void test_counts_that_do_not_fit(void **state)
{
    (void)state;
    take("x", "", "{\"permits\":99999999999,\"limit\":2147483648}");
    assert_int_equal(library.lease.lock.permits, INT32_MAX);
    assert_int_equal(library.lease.lock.limit, INT32_MAX);
    take("x", "", "{\"permits\":-99999999999,\"limit\":-1}");
    assert_int_equal(library.lease.lock.permits, -1);
    assert_int_equal(library.lease.lock.limit, -1);
    take("x", "", "{\"permits\":2147483647,\"limit\":2147483646}");
    assert_int_equal(library.lease.lock.permits, INT32_MAX);
    assert_int_equal(library.lease.lock.limit, INT32_MAX - 1);
}

static void test_what_is_wrong_is_named(void **state)
{
    static const char *const bodies[][2] = {
        {"nonsense", "the body is no JSON: "},
        {"[]", "the body is no object"},
        {"{\"nix\":1}", "there is no nix; there are mode, permits, limit, set_limit"},
        {"{\"mode\":1}", "mode is to be a string"},
        {"{\"why\":1}", "why is to be a string"},
        {"{\"owner\":1}", "owner is to be a string"},
        {"{\"permits\":\"1\"}", "permits is to be a whole number"},
        {"{\"limit\":1.5}", "limit is to be a whole number"},
        {"{\"wait_ms\":true}", "wait_ms is to be a whole number"},
        {"{\"ttl_ms\":\"\"}", "ttl_ms is to be a whole number"},
        {"{\"nix\":1,\"mode\":1}", "there is no nix"},
        {"{\"mode\":\"both\"}", "mode is exclusive or shared, not both"},
        {"{\"wait_ms\":-1}", "wait_ms is from 0, to be answered at once, to 86400000"},
        {"{\"wait_ms\":86400001}", "wait_ms is from 0"},
        {"{\"ttl_ms\":0}", "ttl_ms is from 1000 to 3600000; leave it out"}};
    (void)state;
    for (size_t i = 0; i < N(bodies); i++)
        assert_says(take("x", "", bodies[i][0]), 400, bodies[i][1]);
    assert_string_equal(library.name, ""); /* the library was not asked */
    assert_says(take("x", "", "{\"wait_ms\":86400000}"), 201, "\"lease\"");
}

/* As most programs that read JSON take it. */
static void test_of_two_fields_of_one_name_the_last_counts(void **state)
{
    (void)state;
    assert_says(take("x", "", "{\"ttl_ms\":500000,\"ttl_ms\":600000}"), 201, "\"ttl_ms\":600000");
}

static const char *key_of(size_t length)
{
    static char header[400];
    char key[300];
    memset(key, 'k', length);
    key[length] = '\0';
    snprintf(header, sizeof header, "Idempotency-Key: %s\r\n", key);
    return header;
}

static void test_how_long_a_key_may_be(void **state)
{
    (void)state;
    assert_says(take("x", key_of(0), "{}"), 400, "an Idempotency-Key has 1 to 256 characters");
    assert_says(take("x", key_of(257), "{}"), 400, "an Idempotency-Key has 1 to 256 characters");
    assert_says(take("x", key_of(1), "{}"), 201, "\"lease\"");
    assert_says(take("y", key_of(256), "{}"), 201, "\"lease\"");
}

static void test_the_library_refuses(void **state)
{
    (void)state;
    library.begin_err = (hf_error){.code = HF_INVALID, .text = "no such name"};
    for (int i = 0; i < 5; i++) /* more than may wait */
        assert_says(take("x", "", LONG_WAIT), 400, "\"detail\":\"no such name\"");
    library.begin_err = (hf_error){.code = HF_HELD, .retryable = true, .text = "held"};
    assert_says(take("x", "", "{}"), 409, "\"holders\":[]");
    library.begin_err = (hf_error){.code = HF_FULL, .retryable = true, .text = "no room"};
    assert_says(take("x", "", "{}"), 507, "\"detail\":\"no room\"");
    bed_await_metric(WAITING, 0);
    assert_true(bed_metric("holdfast_wait_seconds_count{outcome=\"refused\"}") == 0);
    library.begin_err.code = HF_OK;
    assert_says(take("x", "", "{}"), 201, "\"lease\"");
}

/* ---- Granted, renewed, released ---- */

static void test_a_lease_has_a_life(void **state)
{
    (void)state;
    const char *answer = take("a%2Fb", "", LONG);
    assert_true(bed_number(answer, "\"token\":") >= 1);
    assert_true(bed_number(answer, "\"expires_in_ms\":") > 300000);
    assert_true(bed_number(answer, "\"expires_in_ms\":") <= 600000);
    assert_true(bed_number(answer, "\"waited_ms\":") >= 0);
    assert_non_null(strstr(answer, "\"previous\":{"));
    double token = bed_number(answer, "\"token\":");
    const char *id = id_in(answer);
    answer = call_lease("PUT", id);
    assert_says(answer, 200, "\"ttl_ms\":600000");
    assert_non_null(strstr(answer, id));
    assert_true(bed_number(answer, "\"token\":") == token);
    assert_true(bed_number(answer, "\"expires_in_ms\":") > 300000);
    release(id);
    release(id);
    assert_says(call_lease("PUT", id), 410, "\"code\":\"HF_LOST\"");
    assert_true(bed_metric("holdfast_hold_seconds_count{}") == 1);
    assert_true(bed_metric("holdfast_renew_margin_seconds_count{}") == 1);
    double margin = bed_metric("holdfast_renew_margin_seconds_sum{}");
    assert_true(margin > 300 && margin <= 600);
}

static void test_what_cannot_be_released_says_why(void **state)
{
    (void)state;
    const char *id = id_in(take("x", "", LONG));
    library_fails(HF_UNREACHABLE, true, "not now");
    assert_says(call_lease("DELETE", id), 503, "\"detail\":\"not now\"");
    assert_says(call_lease("PUT", id), 503, "\"detail\":\"not now\"");
    assert_true(bed_metric("holdfast_hold_seconds_count{}") == 0);
    assert_true(bed_metric("holdfast_renew_margin_seconds_count{}") == 0);
    library_fails(HF_OK, false, "");
    release(id);
    assert_true(bed_metric("holdfast_hold_seconds_count{}") == 1);
}

/* Another may have come and gone by the time of the second try. */
static void test_a_lost_lease_is_no_hold_however_it_is_released(void **state)
{
    (void)state;
    const char *id = id_in(take("x", "", LONG));
    library_fails(HF_LOST, false, "broken");
    assert_says(call_lease("DELETE", id), 410, "\"detail\":\"broken\"");
    library_fails(HF_OK, false, "");
    release(id);
    assert_true(bed_metric("holdfast_hold_seconds_count{}") == 0);
}

static void test_who_had_it_before(void **state)
{
    (void)state;
    assert_says(take("x", "", LONG), 201, "\"outcome\":\"none\"");
    assert_says(take("x", "", LONG), 409, "HF_HELD");
    release(id_in(take("y", "", "{\"owner\":\"first\",\"ttl_ms\":600000}")));
    const char *answer = take("y", "", LONG);
    assert_says(answer, 201, "\"outcome\":\"released\"");
    assert_non_null(strstr(answer, "\"who\":\"first@"));
}

/* ---- Keys ---- */

static void test_a_repeat_has_the_same_lease(void **state)
{
    (void)state;
    char id[HF_LEASE_ID_SIZE];
    snprintf(id, sizeof id, "%s", id_in(take("x", KEY("order"), LONG)));
    assert_string_equal(id_in(take("x", KEY("order"), LONG)), id);
    assert_says(take("x", KEY("other"), LONG), 409, "HF_HELD");
    assert_says(take("x", KEY("order"), "{\"ttl_ms\": 500000}"), 422, "HF_KEY_REUSED");
    release(id);
    assert_says(take("x", KEY("order"), LONG), 410, "HF_LOST");
}

static void test_a_key_is_the_callers(void **state)
{
    (void)state;
    const char *mine = BEARER(FIRST) KEY("order"), *anothers = BEARER(SECOND) KEY("order");
    assert_says(take("x", mine, LONG), 201, "");
    assert_string_equal(library.key, FIRST ":order");
    assert_says(take("x", anothers, LONG), 409, "HF_HELD");
    assert_says(take("x", mine, LONG), 201, "");
}

static void test_the_owner_is_the_tokens_name_or_what_is_said(void **state)
{
    (void)state;
    take("x", BEARER(FIRST), LONG);
    assert_string_equal(library.owner, "shop");
    take("y", BEARER(FIRST), "{\"owner\":\"till\"}");
    assert_string_equal(library.owner, "till");
    take("z", BEARER(SECOND), LONG);
    assert_null(library.lease.owner);
    assert_string_equal(library.host, "127.0.0.1");
}

/* ---- Waiting ---- */

static void test_a_lock_is_passed_on(void **state)
{
    (void)state;
    char id[HF_LEASE_ID_SIZE];
    snprintf(id, sizeof id, "%s", id_in(take("x", "", LONG)));
    int waiter = ask("x", "", LONG_WAIT);
    bed_await_metric(WAITING, 1);
    release(id);
    assert_says(bed_answer(waiter), 201, "\"outcome\":\"released\"");
    bed_await_metric(WAITING, 0);
    assert_true(bed_metric("holdfast_wait_seconds_count{outcome=\"granted\"}") == 2);
    double waited_s = bed_metric("holdfast_wait_seconds_sum{outcome=\"granted\"}");
    assert_true(waited_s > 0 && waited_s < 3600); /* not since the machine was started */
    assert_true(bed_metric("holdfast_wait_seconds_count{outcome=\"refused\"}") == 0);
}

static void test_what_is_not_free(void **state)
{
    static const hf_entry_info holders[] = {
        {.session = "01", .who = "me", .actor = "", .why = "work"}};
    static const hf_lock_info held = {.name = "x", .holders = holders, .n_holders = 1};
    (void)state;
    id_in(take("x", "", LONG));
    library.locks = &held;
    library.n_locks = 1;
    assert_says(take("x", "", "{}"), 409, "\"code\":\"HF_HELD\"");
    assert_says(take("x", "", "{\"wait_ms\":1}"), 409, "\"code\":\"HF_TIMEOUT\"");
    const char *answer = take("x", "", "{}");
    assert_non_null(strstr(answer, "\"holders\":[{"));
    assert_non_null(strstr(answer, "\"why\":\"work\""));
    assert_true(bed_metric("holdfast_wait_seconds_count{outcome=\"refused\"}") == 3);
    assert_true(bed_metric("holdfast_errors_total{code=\"HF_HELD\"}") == 2);
}

/* One more than may; a try waits for nothing, so it is not counted. */
static void test_so_many_may_wait(void **state)
{
    (void)state;
    int waiters[3];
    id_in(take("x", "", LONG));
    for (size_t i = 0; i < N(waiters); i++)
        waiters[i] = ask("x", "", LONG_WAIT);
    bed_await_metric(WAITING, 3);
    const char *answer = take("x", "", LONG_WAIT);
    assert_says(answer, 429, "\"detail\":\"3 requests of yours wait already: repeat it when");
    assert_non_null(strstr(answer, "\r\nRetry-After: 5\r\n"));
    assert_non_null(strstr(answer, "\r\nConnection: close\r\n"));
    assert_non_null(strstr(answer, "\"retryable\":true"));
    assert_true(bed_metric("holdfast_http_refused_total{request=\"wait\",limit=\"client\"}") == 1);
    assert_says(take("x", "", "{}"), 409, "HF_HELD");
    close(waiters[0]);
    bed_await_metric(WAITING, 2);
    waiters[0] = ask("x", "", LONG_WAIT);
    bed_await_metric(WAITING, 3);
    for (size_t i = 0; i < N(waiters); i++)
        close(waiters[i]);
    bed_await_metric(WAITING, 0);
}

static void test_each_token_has_its_own_limit(void **state)
{
    (void)state;
    int waiters[4];
    id_in(take("x", BEARER(FIRST), LONG));
    for (size_t i = 0; i < N(waiters); i++)
        waiters[i] = ask("x", i < 2 ? BEARER(FIRST) : BEARER(SECOND), LONG_WAIT);
    for (int i = 0; i < SOON_MS; i++) {
        const char *text = bed_ask("GET /metrics", BEARER(SECOND), NULL);
        if (bed_number(text, "\n" WAITING " ") == 4)
            break;
        bed_pause();
    }
    assert_says(take("x", BEARER(FIRST), LONG_WAIT), 429, "2 requests of yours");
    assert_says(take("x", BEARER(SECOND), LONG_WAIT), 429, "2 requests of yours");
    for (size_t i = 0; i < N(waiters); i++)
        close(waiters[i]);
}

static int ask_from(const char *host, const char *name)
{
    char text[500];
    int fd = bed_connect_from(host);
    snprintf(text, sizeof text,
             "POST /v1/locks/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" JSON
             "Content-Length: %zu\r\n\r\n" LONG_WAIT,
             name, strlen(LONG_WAIT));
    bed_write(fd, text);
    return fd;
}

static void serve_all_addresses(int max_waits)
{
    static const char *const all[] = {"[::]:0", "0.0.0.0:0"}; /* the first is both, if there is */
    hf_error err;
    hf_code code = HF_INTERNAL;
    bed_stop();
    httpd_config config = bed_config(client);
    config.serves_anybody = true;
    config.max_waits = max_waits;
    for (size_t i = 0; i < N(all) && code; i++) {
        config.listen = all[i];
        code = bed_try_to_serve(&config, &err);
    }
    assert_int_equal(code, HF_OK);
}

/* Where no tokens tell who is who. */
static void test_each_address_has_its_own_limit(void **state)
{
    (void)state;
    serve_all_addresses(1);
    id_in(take("x", "", LONG));
    int first = ask_from("127.0.0.1", "x");
    bed_await_metric(WAITING, 1);
    int second = ask_from("127.0.0.2", "x");
    bed_await_metric(WAITING, 2);
    assert_says(bed_answer(ask_from("127.0.0.2", "x")), 429, "1 requests of yours wait already");
    close(first);
    close(second);
}

static void test_a_lock_says_how_many_wait_here(void **state)
{
    static const hf_lock_info locks[] = {{.name = "w"}, {.name = "x"}};
    (void)state;
    library.locks = locks;
    library.n_locks = 2;
    char id[HF_LEASE_ID_SIZE];
    snprintf(id, sizeof id, "%s", id_in(take("x", "", LONG)));
    int waiter = ask("x", "", LONG_WAIT);
    bed_await_metric(WAITING, 1);
    const char *answer = bed_ask("GET /v1/locks", "", NULL);
    assert_true(bed_number(strstr(answer, "\"name\":\"w\""), "\"waiting_here\":") == 0);
    assert_true(bed_number(strstr(answer, "\"name\":\"x\""), "\"waiting_here\":") == 1);
    release(id);
    id_in(bed_answer(waiter));
    answer = bed_ask("GET /v1/locks", "", NULL);
    assert_true(bed_number(strstr(answer, "\"name\":\"x\""), "\"waiting_here\":") == 0);
}

/* ---- How waits end ---- */

/* Whoever hung up leaves the queue: the next one has the lock. */
static void test_who_hangs_up_waits_no_more(void **state)
{
    (void)state;
    char id[HF_LEASE_ID_SIZE];
    snprintf(id, sizeof id, "%s", id_in(take("x", "", LONG)));
    int first = ask("x", "", LONG_WAIT);
    bed_await_metric(WAITING, 1);
    int second = ask("x", "", LONG_WAIT);
    bed_await_metric(WAITING, 2);
    shutdown(first, SHUT_WR);
    bed_await_metric(WAITING, 1);
    bed_await_metric("holdfast_wait_seconds_count{outcome=\"refused\"}", 1);
    bed_await_metric("holdfast_errors_total{code=\"HF_CANCELLED\"}", 1);
    close(first);
    release(id);
    assert_says(bed_answer(second), 201, "\"lease\"");
}

/* Before the library was asked. */
static void test_who_has_hung_up_before_it_waits_waits_no_more(void **state)
{
    (void)state;
    id_in(take("x", "", LONG));
    is_gone_at_once = true;
    assert_says(take("x", "", LONG_WAIT), 499, "\"code\":\"HF_CANCELLED\"");
    take("y", "", LONG); /* it may have been granted by then */
    library.begin_err = (hf_error){.code = HF_INVALID, .text = "no such name"};
    assert_says(take("x", "", LONG_WAIT), 400, "\"detail\":\"no such name\"");
    library.begin_err.code = HF_OK;
    is_gone_at_once = false;
    id_in(take("y", "", LONG)); /* nobody has it: it was told to nobody */
    bed_await_metric(WAITING, 0);
}

static void *stop_it(void *ctx)
{
    (void)ctx;
    bed_stop();
    return NULL;
}

/* All that wait are told to ask elsewhere. */
static void test_the_end_of_the_service_ends_waits(void **state)
{
    (void)state;
    int waiters[3];
    pthread_t stopping;
    id_in(take("x", "", LONG));
    for (size_t i = 0; i < N(waiters); i++)
        waiters[i] = ask("x", i ? KEY("order") : "", LONG_WAIT);
    bed_await_metric(WAITING, 3);
    assert_int_equal(pthread_create(&stopping, NULL, stop_it, NULL), 0);
    for (size_t i = 0; i < N(waiters); i++) {
        const char *answer = bed_answer(waiters[i]);
        assert_says(answer, 503, "\"code\":\"HF_CLOSED\"");
        assert_non_null(strstr(answer, "the service ends: ask another, or this one later"));
        assert_non_null(strstr(answer, "\r\nConnection: close\r\n"));
        assert_non_null(strstr(answer, "\"retryable\":true"));
    }
    pthread_join(stopping, NULL);
    httpd_config config = bed_config(client);
    bed_serve(&config);
    assert_says(take("x", "", "{}"), 409, "HF_HELD"); /* the one that holds it still does */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define TEST_OF_TOKENS(name) cmocka_unit_test_setup_teardown(name, begin_with_tokens, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_all_that_is_asked_for_arrives),
        TEST(test_what_is_not_asked_for_is_left_to_the_library),
        TEST(test_counts_that_do_not_fit),
        TEST(test_what_is_wrong_is_named),
        TEST(test_of_two_fields_of_one_name_the_last_counts),
        TEST(test_how_long_a_key_may_be),
        TEST(test_the_library_refuses),
        TEST(test_a_lease_has_a_life),
        TEST(test_what_cannot_be_released_says_why),
        TEST(test_a_lost_lease_is_no_hold_however_it_is_released),
        TEST(test_who_had_it_before),
        TEST(test_a_repeat_has_the_same_lease),
        TEST_OF_TOKENS(test_a_key_is_the_callers),
        TEST_OF_TOKENS(test_the_owner_is_the_tokens_name_or_what_is_said),
        TEST(test_a_lock_is_passed_on),
        TEST(test_what_is_not_free),
        TEST(test_so_many_may_wait),
        TEST_OF_TOKENS(test_each_token_has_its_own_limit),
        TEST(test_each_address_has_its_own_limit),
        TEST(test_a_lock_says_how_many_wait_here),
        TEST(test_who_hangs_up_waits_no_more),
        TEST(test_who_has_hung_up_before_it_waits_waits_no_more),
        TEST(test_the_end_of_the_service_ends_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
