/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd_following.c: what a client that follows /v1/events gets, byte for byte; the clock and
 * the store are the test's. Run by ctest. */
#include "httpd_bed.h"

#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "httpd/service.h"
#include "httpd_clock.h"
#include "httpd_library.h"

#define N(array) (sizeof(array) / sizeof *(array))
#define BEGIN_MS 1000000
#define GREETING "retry: 1000\n\n"

static hf_client *client;
static watcher *w;

static int begin(void **state)
{
    hf_error err;
    (void)state;
    clock_set(BEGIN_MS);
    library = (struct library){.n_locks = 0};
    assert_int_equal(hf_open("memory:", NULL, &client, &err), HF_OK);
    const httpd_config config = bed_config(client);
    bed_serve(&config);
    w = &bed_service()->watcher;
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (bed_service())
        bed_stop();
    hf_close(client);
    return 0;
}

/* Waits until the watcher has looked, and lets it look again. */
static void look_again(void)
{
    clock_wake(&w->changed, clock_await_sleep(&w->changed));
    clock_await_sleep(&w->changed);
}

static void show(const hf_lock_info *locks, size_t n)
{
    library.locks = locks;
    library.n_locks = n;
    look_again();
}

/* HTTP/1.0, so that the events come as they are. */
static int follow(const char *query, const char *headers)
{
    char text[500];
    int fd = bed_connect();
    snprintf(text, sizeof text, "GET /v1/events%s HTTP/1.0\r\n%s\r\n", query, headers);
    bed_write(fd, text);
    return fd;
}

/* Reads until the text ends so; returns all that has come, without the head, until the next. */
static const char *read_until(int fd, const char *last)
{
    static char text[1000000];
    size_t size = 0, length = strlen(last);
    const char *body = NULL;
    text[0] = '\0';
    while (size < length || strcmp(text + size - length, last) != 0) {
        ssize_t n = recv(fd, text + size, sizeof text - 1 - size, 0);
        if (n <= 0)
            fail_msg("\"%s\" does not come after:\n%s", last, text);
        size += (size_t)n;
        text[size] = '\0';
    }
    if (strncmp(text, "HTTP/1.", 7) == 0)
        body = strstr(text, "\r\n\r\n");
    return body ? body + 4 : text;
}

/* The id that the next event has, or had. */
static const char *id_at(uint64_t number)
{
    static char id[60];
    snprintf(id, sizeof id, "%" PRIx64 "-%" PRIu64, w->epoch, number);
    return id;
}

static const char *after(uint64_t number)
{
    static char header[100];
    snprintf(header, sizeof header, "Last-Event-ID: %s\r\n", id_at(number));
    return header;
}

#define EMPTY                                                                                      \
    "event: snapshot\ndata: "                                                                      \
    "{\"locks\":[],\"leases\":{},\"free_left_off\":false,\"reachable\":true,\"detail\":\"\"}\n\n"

static const hf_lock_info a[] = {{.name = "a"}}, ab[] = {{.name = "a"}, {.name = "b"}};

/* ---- The beginning ---- */

static void test_it_begins_with_a_greeting_and_all_locks(void **state)
{
    char expected[300];
    (void)state;
    int fd = follow("", "");
    const char *text = read_until(fd, "\"detail\":\"\"}\n\n");
    snprintf(expected, sizeof expected, GREETING "id: %s\n" EMPTY, id_at(0));
    assert_string_equal(text, expected);
    close(fd);
}

static atomic_bool may_look;

static void await_permission(void)
{
    while (!may_look)
        sched_yield();
}

static bool is_asleep(void)
{
    pthread_mutex_lock(&w->mutex);
    bool is_so = w->followers && w->followers->is_asleep;
    pthread_mutex_unlock(&w->mutex);
    return is_so;
}

static void test_it_waits_for_the_first_look(void **state)
{
    (void)state;
    library.on_list = await_permission;
    library.locks = a;
    library.n_locks = 1;
    may_look = false;
    int fd = follow("", "");
    while (!is_asleep())
        bed_pause();
    may_look = true;
    assert_non_null(strstr(read_until(fd, "\"detail\":\"\"}\n\n"), "{\"locks\":[{\"name\":\"a\""));
    close(fd);
}

/* What there was when the store was found again would be no news. */
static void test_who_began_without_a_store_gets_all_locks_when_it_is_found(void **state)
{
    char expected[300];
    (void)state;
    library_fails(HF_UNREACHABLE, true, "gone");
    int fd = follow("", "");
    assert_non_null(strstr(read_until(fd, "\"detail\":\"gone\"}\n\n"), "\"reachable\":false"));
    library_fails(HF_OK, false, "");
    show(a, 1);
    const char *text = read_until(fd, "\"detail\":\"\"}\n\n");
    snprintf(expected, sizeof expected,
             "id: %s\nevent: snapshot\ndata: {\"locks\":[{\"name\":\"a\"", id_at(w->next - 1));
    assert_memory_equal(text, expected, strlen(expected));
    show(ab, 2);
    text = read_until(fd, "}\n\n");
    assert_non_null(strstr(text, "event: lock\ndata: {\"name\":\"b\""));
    close(fd);
}

/* ---- What comes then ---- */

static void test_nothing_comes_twice(void **state)
{
    (void)state;
    int fd = follow("", "");
    read_until(fd, "\"detail\":\"\"}\n\n");
    look_again();
    show(a, 1);
    const char *text = read_until(fd, "}\n\n");
    assert_memory_equal(text, "id: ", 4);
    assert_non_null(strstr(text, "event: lock\ndata: {\"name\":\"a\""));
    show(ab, 2);
    text = read_until(fd, "}\n\n");
    assert_null(strstr(text, "\"name\":\"a\""));
    assert_non_null(strstr(text, "\"name\":\"b\""));
    close(fd);
}

/* None at the beginning, where there is something to read. */
static void test_a_beat_is_a_comment(void **state)
{
    (void)state;
    int fd = follow("", "");
    read_until(fd, "\"detail\":\"\"}\n\n");
    clock_await_sleep(&w->changed);
    clock_wake(&w->changed, BEGIN_MS + 1000);
    assert_string_equal(read_until(fd, ":\n\n"), ":\n\n");
    show(a, 1);
    assert_memory_equal(read_until(fd, "}\n\n"), "id: ", 4);
    close(fd);
}

static void test_only_locks_of_the_prefix(void **state)
{
    static const hf_lock_info locks[] = {{.name = "a/1"}, {.name = "b/1"}};
    static const hf_lock_info more[] = {
        {.name = "a/1"}, {.name = "a/2"}, {.name = "b/1"}, {.name = "b/2"}};
    (void)state;
    library.locks = locks;
    library.n_locks = 2;
    int fd = follow("?prefix=b%2F", "");
    const char *text = read_until(fd, "\"detail\":\"\"}\n\n");
    assert_null(strstr(text, "a/1"));
    assert_non_null(strstr(text, "b/1"));
    show(more, 4);
    text = read_until(fd, "}\n\n");
    assert_null(strstr(text, "a/2"));
    assert_non_null(strstr(text, "b/2"));
    library_fails(HF_UNREACHABLE, false, "gone");
    look_again();
    assert_non_null(strstr(read_until(fd, "}\n\n"), "event: store")); /* it is about all */
    close(fd);
}

static void test_only_leases_of_the_prefix(void **state)
{
    hf_entry_info one = {.session = "01", .who = "", .actor = "", .why = "", .lease_left_ms = 5000},
                  other = one;
    const hf_lock_info locks[] = {{.name = "a/1", .holders = &one, .n_holders = 1},
                                  {.name = "b/1", .holders = &other, .n_holders = 1}};
    (void)state;
    other.session = "02";
    other.lease_left_ms = 6000;
    library.locks = locks;
    library.n_locks = 2;
    int fd = follow("?prefix=b%2F", "");
    assert_non_null(strstr(read_until(fd, "\"detail\":\"\"}\n\n"), "\"leases\":{\"02\":6000}"));
    one.lease_left_ms = 15000;
    other.lease_left_ms = 5500;
    look_again();
    one.lease_left_ms = 25000;
    other.lease_left_ms = 16000;
    look_again();
    const char *text = read_until(fd, "}\n\n");
    assert_non_null(strstr(text, "event: leases\ndata: {\"02\":16000}\n\n"));
    assert_null(strstr(text, "\"01\""));
    close(fd);
}

/* ---- Coming back ---- */

static void test_who_comes_back_gets_what_it_missed(void **state)
{
    (void)state;
    int fd = follow("", "");
    read_until(fd, "\"detail\":\"\"}\n\n");
    show(a, 1);
    show(ab, 2);
    read_until(fd, "}\n\n");
    char all[1000], second[1000];
    snprintf(all, sizeof all, GREETING "%s%s", w->events[1].text, w->events[2].text);
    snprintf(second, sizeof second, GREETING "%s", w->events[2].text);
    int again = follow("", after(0));
    assert_string_equal(read_until(again, w->events[2].text), all);
    close(again);
    again = follow("", after(1));
    assert_string_equal(read_until(again, w->events[2].text), second);
    close(again);
    again = follow("", after(3)); /* there is none such */
    assert_non_null(strstr(read_until(again, "\"detail\":\"\"}\n\n"), "event: snapshot"));
    close(again);
    close(fd);
}

/* Each is told once and the store's state alternates; more is missed than is kept. */
static void test_who_cannot_keep_up_gets_all_anew(void **state)
{
    (void)state;
    int fd = follow("", "");
    read_until(fd, "\"detail\":\"\"}\n\n");
    clock_await_sleep(&w->changed);
    pthread_mutex_lock(&w->mutex);
    uint64_t first = w->first;
    w->first = w->next = first + 2 * EVENTS_KEPT; /* as if so many had come */
    pthread_mutex_unlock(&w->mutex);
    look_again();
    char expected[300];
    snprintf(expected, sizeof expected, "id: %s\n" EMPTY, id_at(w->next - 1));
    assert_string_equal(read_until(fd, "\"detail\":\"\"}\n\n"), expected);
    show(a, 1);
    assert_non_null(strstr(read_until(fd, "}\n\n"), "event: lock"));
    close(fd);
}

/* Many more than are sent at a time. */
static void test_many_events_come_in_their_order(void **state)
{
    static hf_lock_info many[1000];
    static char names[1000][200];
    (void)state;
    for (size_t i = 0; i < N(many); i++) {
        memset(names[i], 'x', sizeof names[i] - 1);
        snprintf(names[i], 5, "%04zu", i);
        names[i][4] = 'x';
        many[i] = (hf_lock_info){.name = names[i]};
    }
    int fd = follow("", "");
    read_until(fd, "\"detail\":\"\"}\n\n");
    show(many, N(many));
    const char *at = read_until(fd, w->events[w->next - 1].text);
    for (size_t i = 0; i < N(many); i++) {
        at = strstr(at, names[i]);
        assert_non_null(at);
    }
    close(fd);
}

/* A lock that is free, one that is held, and one that is only waited for. */
static void show_three(void)
{
    static const hf_entry_info entry[] = {{.session = "01", .who = "me", .actor = "", .why = ""}};
    static const hf_lock_info three[] = {{.name = "free"},
                                         {.name = "held", .holders = entry, .n_holders = 1},
                                         {.name = "wanted", .queue = entry, .n_queue = 1}};
    library.locks = three;
    library.n_locks = N(three);
}

static void assert_begins(const char *query, bool has_free)
{
    int fd = follow(query, "");
    const char *text = read_until(fd, "\"detail\":\"\"}\n\n");
    assert_int_equal(strstr(text, "{\"name\":\"free\"") != NULL, has_free);
    assert_non_null(strstr(text, "{\"name\":\"held\""));
    assert_non_null(strstr(text, "{\"name\":\"wanted\""));
    close(fd);
}

static void test_it_can_begin_with_those_in_use(void **state)
{
    (void)state;
    show_three();
    assert_begins("", true); /* later ones need not wait for a look */
    assert_begins("?in_use=0", true);
    assert_begins("?in_use=1", false);
}

/* ---- Its end ---- */

static int64_t deadline(void)
{
    connections *all = &bed_service()->connections;
    pthread_mutex_lock(&all->mutex);
    int64_t ms = all->first ? all->first->deadline_ms : -1;
    pthread_mutex_unlock(&all->mutex);
    return ms;
}

static void await_deadline(int64_t ms)
{
    while (deadline() != ms)
        bed_pause();
}

static void test_one_that_has_all_may_take_its_time(void **state)
{
    (void)state;
    int fd = follow("", "");
    read_until(fd, "\"detail\":\"\"}\n\n");
    await_deadline(0);
    show(a, 1);
    read_until(fd, "}\n\n");
    await_deadline(0);
    close(fd);
}

/* It had all the time that it wanted while there was nothing to read. */
static void test_one_that_does_not_read_is_cut_off(void **state)
{
    static hf_lock_info large[2000];
    static char name[2001];
    connections *all = &bed_service()->connections;
    (void)state;
    memset(name, 'x', sizeof name - 1);
    for (size_t i = 0; i < N(large); i++)
        large[i] = (hf_lock_info){.name = name + i};
    int fd = follow("", "");
    read_until(fd, "\"detail\":\"\"}\n\n");
    await_deadline(0);
    show(large, N(large));
    for (int i = 1; deadline() != -1; i++)
        clock_wake(&all->changed, BEGIN_MS + i * (int64_t)SOON_MS);
    close(fd);
}

/* While the service is at work for a client, nothing is expected of it; then it is to read. */
static void test_a_request_has_its_time_when_it_is_answered(void **state)
{
    static hf_lock_info large[1000];
    static char name[3001];
    (void)state;
    memset(name, 'x', sizeof name - 1);
    for (size_t i = 0; i < N(large); i++)
        large[i] = (hf_lock_info){.name = name + N(large) - i};
    library.locks = large;
    library.n_locks = N(large);
    library.on_list = await_permission;
    may_look = false;
    int fd = bed_send("GET /v1/locks?limit=1000", "", NULL);
    await_deadline(0);
    clock_set(BEGIN_MS + 1);
    may_look = true;
    await_deadline(BEGIN_MS + 1 + SOON_MS); /* more than it has read is to be sent */
    close(fd);
}

static void test_all_end_with_the_service(void **state)
{
    (void)state;
    int fd = follow("", "");
    read_until(fd, "\"detail\":\"\"}\n\n");
    bed_stop();
    char rest[100];
    assert_int_equal(recv(fd, rest, sizeof rest, 0), 0);
    close(fd);
}

static void test_who_leaves_is_forgotten(void **state)
{
    (void)state;
    int fd = follow("", "");
    read_until(fd, "\"detail\":\"\"}\n\n");
    close(fd);
    for (size_t i = 0; deadline() != -1; i++)
        show(a, i % 2); /* what is sent tells that it has gone */
    assert_int_equal(w->n_followers, 0);
    assert_null(w->followers);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_it_begins_with_a_greeting_and_all_locks),
        TEST(test_it_waits_for_the_first_look),
        TEST(test_who_began_without_a_store_gets_all_locks_when_it_is_found),
        TEST(test_nothing_comes_twice),
        TEST(test_a_beat_is_a_comment),
        TEST(test_only_locks_of_the_prefix),
        TEST(test_only_leases_of_the_prefix),
        TEST(test_who_comes_back_gets_what_it_missed),
        TEST(test_who_cannot_keep_up_gets_all_anew),
        TEST(test_many_events_come_in_their_order),
        TEST(test_it_can_begin_with_those_in_use),
        TEST(test_one_that_has_all_may_take_its_time),
        TEST(test_one_that_does_not_read_is_cut_off),
        TEST(test_a_request_has_its_time_when_it_is_answered),
        TEST(test_all_end_with_the_service),
        TEST(test_who_leaves_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
