/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd.c: the parts of the service that need no connection: encoded names, tokens, addresses,
 * routes, counts, times of leases, those who wait, and what is new; run by ctest. */
#include "unit.h"

#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "httpd/address.h"
#include "httpd/hold_times.h"
#include "httpd/listing.h"
#include "httpd/metrics.h"
#include "httpd/routes.h"
#include "httpd/tokens.h"
#include "httpd/uri.h"
#include "httpd/waits.h"
#include "httpd/watcher.h"
#include "show/text.h"

/* ---- uri.c ---- */

static void test_what_is_encoded(void **state)
{
    static const struct {
        const char *text, *decoded;
    } names[] = {{"", ""},         {"a/b", "a/b"},  {"%41%5a%5A", "AZZ"},
                 {"a%20b", "a b"}, {"%7f", "\x7f"}, {"%c3%A4", "\xc3\xa4"},
                 {"%25", "%"},     {"+", "+"},      {"%2541", "%41"},
                 {"%", NULL},      {"%4", NULL},    {"%4g", NULL},
                 {"%g4", NULL},    {"%00", NULL},   {"a%", NULL},
                 {"%%41", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *decoded = uri_decode(names[i].text);
        assert_int_equal(decoded != NULL, names[i].decoded != NULL);
        if (decoded)
            assert_string_equal(decoded, names[i].decoded);
        free(decoded);
    }
}

static void test_what_is_decoded_ends(void **state)
{
    char text[101] = "";
    (void)state;
    for (size_t n = 1; n < sizeof text; n++) {
        text[n - 1] = 'x';
        char *decoded = uri_decode(text);
        assert_string_equal(decoded, text);
        free(decoded);
    }
}

/* ---- tokens.c ---- */

#define SIXTEEN "abcdefghijklmnop"

static hf_code read_tokens(const char *text, tokens **out, hf_error *err)
{
    char path[] = "/tmp/holdfast-tokens-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    hf_code code = tokens_read(path, out, err);
    unlink(path);
    return code;
}

static void assert_caller(const tokens *t, const char *token, role r, const char *name)
{
    caller found = tokens_find(t, token);
    assert_int_equal(found.role, r);
    assert_string_equal(found.name, name);
    assert_string_equal(found.id, r ? token : "");
}

static void test_each_token_has_its_role_and_name(void **state)
{
    (void)state;
    tokens *t = NULL;
    hf_error err;
    assert_int_equal(read_tokens("  # a comment\n\nread " SIXTEEN "\r\nuse\t" SIXTEEN "2 web shop\n"
                                 " admin " SIXTEEN "3  \t alice \t",
                                 &t, &err),
                     HF_OK);
    assert_caller(t, SIXTEEN, ROLE_READ, "");
    assert_caller(t, SIXTEEN "2", ROLE_USE, "web shop");
    assert_caller(t, SIXTEEN "3", ROLE_ADMIN, "alice");
    for (size_t n = 0; n < strlen(SIXTEEN); n++)
        assert_caller(t, &SIXTEEN[strlen(SIXTEEN) - n], ROLE_NONE, "");
    assert_caller(t, "abcdefghijklmnoq", ROLE_NONE, "");
    assert_caller(t, "bbcdefghijklmnop", ROLE_NONE, "");
    tokens_free(t);
}

static void test_how_long_a_comment_may_be(void **state)
{
    char text[3000];
    tokens *t = NULL;
    hf_error err;
    (void)state;
    snprintf(text, sizeof text, "# %02000d\nread " SIXTEEN "\n", 1);
    assert_int_equal(read_tokens(text, &t, &err), HF_OK);
    assert_caller(t, SIXTEEN, ROLE_READ, "");
    tokens_free(t);
    snprintf(text, sizeof text, "# %02000d\nreed " SIXTEEN "\n", 1);
    assert_int_equal(read_tokens(text, &t, &err), HF_INVALID);
    assert_non_null(strstr(err.text, "line 2 does not begin with"));
}

static void test_how_long_a_name_may_be(void **state)
{
    (void)state;
    for (int length = 127; length <= 128; length++) {
        char line[300];
        tokens *t = NULL;
        hf_error err;
        snprintf(line, sizeof line, "read " SIXTEEN " %0*d\n", length, 1);
        hf_code code = read_tokens(line, &t, &err);
        assert_int_equal(code, length == 127 ? HF_OK : HF_INVALID);
        if (code)
            assert_non_null(strstr(err.text, "line 1 has a name of more than 127 bytes"));
        tokens_free(t);
    }
}

static void test_how_long_a_token_may_be(void **state)
{
    static const struct {
        int length;
        hf_code code;
    } lengths[] = {{15, HF_INVALID}, {16, HF_OK}, {17, HF_OK}, {256, HF_OK}, {257, HF_INVALID}};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char token[300] = "", line[400];
        memset(token, 'x', (size_t)lengths[i].length);
        snprintf(line, sizeof line, "read %s\n", token);
        tokens *t = NULL;
        hf_error err;
        assert_int_equal(read_tokens(line, &t, &err), lengths[i].code);
        if (!t)
            continue;
        assert_caller(t, token, ROLE_READ, "");
        token[lengths[i].length] = 'x';
        assert_caller(t, token, ROLE_NONE, "");
        tokens_free(t);
    }
}

/* ---- address.c ---- */

static void test_which_names_are_of_this_machine(void **state)
{
    static const struct {
        const char *host;
        bool is_here;
    } hosts[] = {{"localhost", true},    {"LOCALHOST:80", true},
                 {"127.0.0.1", true},    {"127.255.0.9:1", true},
                 {"[::1]", true},        {"[::1]:80", true},
                 {"[127.0.0.1]", true},  {"126.0.0.1", false},
                 {"128.0.0.1", false},   {"[::2]", false},
                 {"::1", false},         {"[::1", false},
                 {"[::1]x", false},      {"localhost.", false},
                 {"xlocalhost", false},  {"", false},
                 {"127.0.0.1.x", false}, {"0.0.0.0", false}};
    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        assert_int_equal(address_is_here(hosts[i].host), hosts[i].is_here);
}

static void test_how_long_a_host_may_be(void **state)
{
    char text[300] = "";
    address at;
    hf_error err;
    (void)state;
    memset(text, '1', 255);
    snprintf(text + 255, 4, ":0");
    assert_int_equal(address_parse(text, &at, &err), HF_INVALID);
    assert_null(strstr(err.text, "one is")); /* looked up, and not found */
    memset(text, '1', 256);
    snprintf(text + 256, 4, ":0");
    assert_int_equal(address_parse(text, &at, &err), HF_INVALID);
    assert_non_null(strstr(err.text, "one is"));
}

static void test_what_an_address_is(void **state)
{
    static const struct {
        const char *text, *host, *port;
        bool is_loopback;
    } all[] = {{"127.0.0.1:8430", "127.0.0.1", "8430", true},
               {"127.1.2.3:0", "127.1.2.3", "0", true},
               {"0.0.0.0:1", "0.0.0.0", "1", false},
               {"[::1]:65535", "[::1]", "65535", true},
               {"[::]:80", "[::]", "80", false}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        address at;
        hf_error err;
        assert_int_equal(address_parse(all[i].text, &at, &err), HF_OK);
        assert_string_equal(at.host, all[i].host);
        assert_string_equal(at.port, all[i].port);
        assert_int_equal(at.is_loopback, all[i].is_loopback);
    }
}

static void parse_many(int n)
{
    address at;
    hf_error err;
    for (int i = 0; i < n; i++)
        assert_int_equal(address_parse("127.0.0.1:8430", &at, &err), HF_OK);
}

/* In bytes. Under ASan this says nothing, but LSan does. */
static void test_addresses_leave_nothing_behind(void **state)
{
    (void)state;
    parse_many(10);
    size_t before = mallinfo2().uordblks;
    parse_many(100);
    assert_true(mallinfo2().uordblks < before + 100 * 16);
}

/* ---- routes.c ---- */

static void assert_route(const char *method, const char *path, const char *route_path,
                         const char *rest, bool is_path)
{
    const char *got;
    bool got_path;
    const route *r = route_at(&routes_all, route_find(&routes_all, method, path, &got, &got_path));
    assert_int_equal(r != NULL, route_path != NULL);
    if (r)
        assert_string_equal(r->path, route_path);
    assert_int_equal(got != NULL, rest != NULL);
    if (got)
        assert_string_equal(got, rest);
    assert_int_equal(got_path, is_path);
}

static void test_which_call_a_path_means(void **state)
{
    (void)state;
    assert_route("GET", "/v1/locks", "/v1/locks", NULL, true);
    assert_route("HEAD", "/v1/locks", "/v1/locks", NULL, true);
    assert_route("GET", "/v1/locks/x", "/v1/locks/{name}", "x", true);
    assert_route("HEAD", "/v1/locks/a/b", "/v1/locks/{name}", "a/b", true);
    assert_route("POST", "/v1/locks/x", "/v1/locks/{name}", "x", true);
    assert_route("DELETE", "/v1/leases/x", "/v1/leases/{lease}", "x", true);
    assert_route("HEAD", "/v1/leases/x", NULL, NULL, true);
    assert_route("PUT", "/v1/locks", NULL, NULL, true);
    assert_route("GET", "/v1/locks/", "/v1/locks/", NULL, true);
    assert_route("DELETE", "/v1/locks/", "/v1/locks/", NULL, true);
    assert_route("GET", "/v1/leases/", NULL, NULL, false);
    assert_route("GET", "/v1/lock", NULL, NULL, false);
    assert_route("GET", "/v1/locksx", NULL, NULL, false);
    assert_route("GET", "/", "/", NULL, true);
    assert_route("GET", "", NULL, NULL, false);
}

static void test_with_which_methods(void **state)
{
    static const char *const paths[][2] = {{"/v1/locks", "GET"},
                                           {"/v1/locks/x", "GET, POST, DELETE"},
                                           {"/v1/locks/", "GET, POST, DELETE"},
                                           {"/v1/leases/x", "PUT, DELETE"},
                                           {"/nix", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char *methods = route_methods(&routes_all, paths[i][0]);
        assert_string_equal(methods, paths[i][1]);
        free(methods);
    }
    assert_null(route_at(&routes_all, routes_all.n));
    assert_non_null(route_at(&routes_all, routes_all.n - 1));
}

/* ---- metrics.c ---- */

static metrics counted;

static void test_a_bucket_has_what_is_no_longer(void **state)
{
    static const struct {
        int64_t us;
        size_t bucket;
    } times[] = {{0, 0},      {1000, 0},   {1001, 1},      {2000, 1},      {2001, 2},
                 {100000, 6}, {100001, 7}, {60000000, 11}, {60000001, 12}, {INT64_MAX / 2, 12}};
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        memset(&counted, 0, sizeof counted);
        metrics_wait(&counted, true, times[i].us);
        for (size_t at = 0; at <= METRICS_BUCKETS; at++)
            assert_int_equal(counted.waits[true].buckets[at], at == times[i].bucket);
        assert_int_equal(counted.waits[true].sum_us, times[i].us);
        assert_int_equal(counted.waits[false].sum_us, 0);
    }
}

static void test_what_is_not_known_is_not_counted(void **state)
{
    (void)state;
    memset(&counted, 0, sizeof counted);
    metrics_hold(&counted, -1);
    metrics_margin(&counted, -1);
    assert_int_equal(counted.holds.buckets[0] + counted.margins.buckets[0], 0);
    metrics_hold(&counted, 0);
    metrics_margin(&counted, 0);
    metrics_margin(&counted, 0);
    assert_int_equal(counted.holds.buckets[0], 1);
    assert_int_equal(counted.margins.buckets[0], 2);
}

/* ---- hold_times.c ---- */

static void test_the_times_of_leases(void **state)
{
    static hold_times t;
    static const hf_lease lease = {.id = "one", .left_ms = 3600000};
    (void)state;
    hold_times_init(&t);
    assert_int_equal(hold_times_renew(&t, "one", 1000), -1);
    assert_int_equal(hold_times_end(&t, "one"), -1);
    hold_times_begin(&t, &lease);
    assert_int_equal(hold_times_end(&t, "other"), -1);
    assert_in_range(hold_times_renew(&t, "one", -1000), 1800000000, 3600000000);
    assert_int_equal(hold_times_renew(&t, "one", 7200000), 0); /* it had ended */
    assert_in_range(hold_times_renew(&t, "one", 0), 3600000001, 7200000000);
    assert_int_equal(hold_times_renew(&t, "one", 3600000), 0);
    assert_in_range(hold_times_end(&t, "one"), 0, 1800000000);
    assert_int_equal(hold_times_end(&t, "one"), -1);
    hold_times_begin(&t, &lease);
    hold_times_renew(&t, "one", -1);
    assert_int_equal(hold_times_end(&t, "one"), -1); /* it had run out */
    hold_times_done(&t);
}

/* ---- waits.c ---- */

static void count_up(void *ctx)
{
    (*(int *)ctx)++;
}

static int gone;

/* The first only tries; the last is another client's. */
static void fill_entries(wait_entry all[4])
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (size_t i = 0; i < 4; i++)
        all[i] = (wait_entry){.fd = dup(pair[0]),
                              .who = i == 3 ? "other" : "me",
                              .lock = i == 0 ? NULL : "x",
                              .on_gone = count_up,
                              .ctx = &gone};
}

static void enter_all(waits *w, wait_entry all[4])
{
    fill_entries(all);
    assert_int_equal(waits_enter(w, &all[0], 1), ADMITTED);
    assert_int_equal(waits_enter(w, &all[1], 1), ADMITTED);
    assert_int_equal(waits_enter(w, &all[2], 1), TOO_MANY_OF_ONE);
    assert_int_equal(waits_enter(w, &all[3], 1), ADMITTED);
    w->most = 3; /* the try is one of them */
    assert_int_equal(waits_enter(w, &all[2], 2), TOO_MANY_OF_ALL);
    w->most = 4;
    assert_int_equal(waits_enter(w, &all[2], 2), ADMITTED);
}

/* From the middle, and from both ends. */
static void leave_all(waits *w, wait_entry all[4])
{
    static const size_t leaving[] = {3, 0, 1, 2};
    for (size_t i = 0; i < 4; i++) {
        waits_leave(w, &all[leaving[i]]);
        waits_over(w);
        assert_int_equal(waits_count(w), 3 - i);
    }
}

static void test_who_waits_is_counted_and_limited(void **state)
{
    static waits w;
    wait_entry all[4];
    (void)state;
    assert_true(waits_open(&w));
    enter_all(&w, all);
    assert_int_equal(waits_count(&w), 4);
    assert_int_equal(waits_count_for(&w, "x"), 3);
    assert_int_equal(waits_count_for(&w, "y"), 0);
    leave_all(&w, all);
    assert_int_equal(waits_count_for(&w, "x"), 0);
    waits_end(&w);
    assert_int_equal(waits_enter(&w, &all[0], 1), ENDING);
    waits_close(&w);
    assert_int_equal(gone, 0);
}

/* As the first of a program whose standard input is closed. */
static void test_descriptor_0_is_as_good_as_any(void **state)
{
    static waits w;
    (void)state;
    int input = dup(0);
    close(0);
    bool is_open = waits_open(&w);
    int epoll = w.epoll;
    if (is_open)
        waits_close(&w);
    dup2(input, 0);
    close(input);
    assert_true(is_open);
    assert_int_equal(epoll, 0);
}

/* In pages, of what is mapped. */
static long memory_size(void)
{
    long size = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &size), 1);
    fclose(file);
    return size;
}

/* Else its thread could look at what is there no more; and its stack would stay. */
static void test_its_thread_ends_with_it(void **state)
{
    static waits w;
    size_t stack = 0;
    pthread_attr_t defaults;
    (void)state;
    pthread_getattr_default_np(&defaults);
    pthread_attr_getstacksize(&defaults, &stack);
    pthread_attr_destroy(&defaults);
    long before = 0;
    for (int i = 0; i < 101; i++) {
        assert_true(waits_open(&w));
        waits_close(&w);
        before = before ? before : memory_size();
    }
    assert_true((size_t)((memory_size() - before) * sysconf(_SC_PAGESIZE)) < 50 * stack);
}

/* No thread has so large a stack. */
static void test_without_a_thread_no_descriptor_is_left(void **state)
{
    static waits w;
    pthread_attr_t was, huge;
    (void)state;
    pthread_getattr_default_np(&was);
    pthread_attr_init(&huge);
    assert_int_equal(pthread_attr_setstacksize(&huge, SIZE_MAX / 4096 * 4096), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    int before = dup(0);
    close(before);
    bool is_open = waits_open(&w);
    int after = dup(0);
    bool is_next_free = fcntl(after + 1, F_GETFD) < 0;
    close(after);
    pthread_setattr_default_np(&was);
    pthread_attr_destroy(&was);
    pthread_attr_destroy(&huge);
    assert_false(is_open);
    assert_int_equal(after, before);
    assert_true(is_next_free);
}

/* ---- watcher.c ---- */

static atomic_int resumed;

void MHD_resume_connection(struct MHD_Connection *mhd)
{
    (void)mhd;
    resumed++;
}

static const places many = {.of_one = {10, 10}, .of_all = {10, 10}};
static watcher watching;
static waits requests;
static metrics counts;

static hf_client *begin_to_watch(void)
{
    hf_client *client;
    hf_error err;
    resumed = 0;
    assert_int_equal(hf_open("memory:watched", NULL, &client, &err), HF_OK);
    assert_true(waits_open(&requests));
    assert_true(watcher_open(&watching, client, &requests, &counts));
    return client;
}

static void end_watching(hf_client *client)
{
    watcher_close(&watching);
    watcher_done(&watching);
    waits_close(&requests);
    hf_close(client);
}

/* It falls asleep again by itself, when it has read what there is. */
static void test_a_follower_is_woken_once(void **state)
{
    (void)state;
    hf_client *client = begin_to_watch();
    follower f = {.who = "me", .is_asleep = true};
    assert_int_equal(watcher_join(&watching, &f, &many), ADMITTED);
    while (counts.looks < 3)
        poll(NULL, 0, 10);
    assert_int_equal(resumed, 1);
    watcher_leave(&watching, &f, NULL);
    end_watching(client);
}

/* From the front, from the middle and from the end. */
static void test_who_leaves_is_followed_no_more(void **state)
{
    (void)state;
    static watcher w;
    follower a = {.who = "me"}, b = a, c = a, d = a;
    follower *all[] = {&a, &b, &c, &d};
    pthread_mutex_init(&w.mutex, NULL);
    pthread_cond_init(&w.changed, NULL);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(watcher_join(&w, all[i], &many), ADMITTED);
    watcher_leave(&w, &b, NULL);
    watcher_leave(&w, &d, NULL);
    assert_ptr_equal(w.followers, &c);
    assert_ptr_equal(c.after, &a);
    watcher_leave(&w, &a, NULL);
    assert_ptr_equal(w.followers, &c);
    assert_null(c.after);
    watcher_leave(&w, &c, NULL);
    assert_null(w.followers);
    assert_int_equal(w.n_followers, 0);
}

/* ---- listing.c ---- */

typedef struct told {
    int gone, locks;
    char names[64];
} told;

static void keep_told(void *ctx, news kind, const char *name, const json_t *data)
{
    told *t = ctx;
    size_t n = strlen(t->names);
    t->gone += kind == NEWS_GONE;
    t->locks += kind == NEWS_LOCK;
    if (name)
        snprintf(t->names + n, sizeof t->names - n, "%s ", name);
    (void)data;
}

static listing listing_of(int64_t at_ms, const char *locks, const char *session, int64_t left_ms)
{
    json_t *leases = json_object();
    json_object_set_new(leases, session, json_integer(left_ms));
    return (listing){
        .has_free = true, .locks = json_loads(locks, 0, NULL), .leases = leases, .at_ms = at_ms};
}

static void test_locks_that_are_new_others_or_gone(void **state)
{
    told t = {0};
    (void)state;
    listing one = listing_of(1000, "{\"a\":{\"n\":1},\"b\":{\"n\":1},\"c\":{\"n\":1}}", "s", 5000);
    listing other =
        listing_of(1500, "{\"b\":{\"n\":1},\"c\":{\"n\":2},\"d\":{\"n\":1}}", "s", 4500);
    listing_compare(&one, &other, keep_told, &t);
    listing_done(&one);
    listing_done(&other);
    assert_int_equal(t.gone, 1);
    assert_int_equal(t.locks, 2);
    assert_string_equal(t.names, "a c d ");
}

/* A listing without free locks says nothing about them. */
static void test_free_locks_that_are_not_looked_at_are_no_news(void **state)
{
    (void)state;
    static const char free_one[] = "{\"a\":{\"holders\":[],\"queue\":[]}}";
    static const char *const used[] = {"{\"a\":{\"holders\":[1],\"queue\":[]}}",
                                       "{\"a\":{\"holders\":[],\"queue\":[1]}}"};
    for (int side = 0; side < 2; side++) {
        told t = {0};
        listing none = listing_of(1000, "{}", "s", 5000);
        listing full = listing_of(1000, free_one, "s", 5000);
        none.has_free = false;
        listing_compare(side ? &none : &full, side ? &full : &none, keep_told, &t);
        assert_int_equal(t.gone + t.locks, 0);
        json_decref(full.locks);
        full.locks = json_loads(used[side], 0, NULL);
        listing_compare(side ? &none : &full, side ? &full : &none, keep_told, &t);
        assert_int_equal(side ? t.locks : t.gone, 1);
        listing_done(&none);
        listing_done(&full);
    }
}

/* ---- JSON ---- */

static void test_json_hides_nothing(void **state)
{
    static const char *const all[][2] = {
        {"", ""},
        {"plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x94\x92",
         "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x94\x92"},
        {"\"x\xe2\x80\xaey\xe2\x81\xa6\"", "\"x\\u202ey\\u2066\""},
        {"\xe2\x80\x8b\xef\xbb\xbf\xd8\x9c", "\\u200b\\ufeff\\u061c"},
        {"\x7f\xc2\x9bm\xc2\xa0", "\\u007f\\u009bm\xc2\xa0"}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *escaped = text_escape_json(text_copy(all[i][0]));
        assert_string_equal(escaped, all[i][1]);
        free(escaped);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_encoded),
        cmocka_unit_test(test_what_is_decoded_ends),
        cmocka_unit_test(test_each_token_has_its_role_and_name),
        cmocka_unit_test(test_how_long_a_comment_may_be),
        cmocka_unit_test(test_how_long_a_name_may_be),
        cmocka_unit_test(test_how_long_a_token_may_be),
        cmocka_unit_test(test_which_names_are_of_this_machine),
        cmocka_unit_test(test_how_long_a_host_may_be),
        cmocka_unit_test(test_what_an_address_is),
        cmocka_unit_test(test_addresses_leave_nothing_behind),
        cmocka_unit_test(test_which_call_a_path_means),
        cmocka_unit_test(test_with_which_methods),
        cmocka_unit_test(test_a_bucket_has_what_is_no_longer),
        cmocka_unit_test(test_what_is_not_known_is_not_counted),
        cmocka_unit_test(test_the_times_of_leases),
        cmocka_unit_test(test_who_waits_is_counted_and_limited),
        cmocka_unit_test(test_descriptor_0_is_as_good_as_any),
        cmocka_unit_test(test_its_thread_ends_with_it),
        cmocka_unit_test(test_without_a_thread_no_descriptor_is_left),
        cmocka_unit_test(test_a_follower_is_woken_once),
        cmocka_unit_test(test_who_leaves_is_followed_no_more),
        cmocka_unit_test(test_locks_that_are_new_others_or_gone),
        cmocka_unit_test(test_free_locks_that_are_not_looked_at_are_no_news),
        cmocka_unit_test(test_json_hides_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
