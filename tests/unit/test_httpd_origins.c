/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd_origins.c: which connections come from one client, and whose connection makes room for
 * another; run by ctest. */
#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "httpd/origins.h"
#include "httpd_clock.h"

#define N(array) (sizeof(array) / sizeof *(array))
#define BEGIN_MS 1000000
#define GRACE_MS 250
#define READ_MS 1000
#define N_IDLERS 64

static origins all;

/* ---- Their names ---- */

static const char *address; /* the other end's; NULL: there is none any more */

int __wrap_getpeername(int fd, struct sockaddr *out, socklen_t *size);
int __wrap_getpeername(int fd, struct sockaddr *out, socklen_t *size)
{
    struct sockaddr_in *four = (struct sockaddr_in *)(void *)out;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)out;
    (void)fd;
    assert_true(*size >= sizeof *six);
    if (!address)
        return -1;
    bool is_six = inet_pton(AF_INET6, address, &six->sin6_addr) == 1;
    assert_true(is_six || inet_pton(AF_INET, address, &four->sin_addr) == 1);
    out->sa_family = is_six ? AF_INET6 : AF_INET;
    return 0;
}

static origin *enter_from(const char *host)
{
    address = host;
    return origins_enter(&all, -1, NULL);
}

static origin *enter_by(const char *id)
{
    peer user = {.name = "somebody"};
    snprintf(user.id, sizeof user.id, "%s", id);
    return origins_enter(&all, -1, &user);
}

static void test_addresses_of_one_client(void **state)
{
    static const struct {
        const char *one, *other;
        bool is_same;
    } pairs[] = {
        {"127.0.0.1", "127.9.9.9", true},
        {"127.0.0.1", "::1", true},
        {"::ffff:127.0.0.2", "::1", true},
        {"10.0.0.1", "10.0.0.1", true},
        {"10.0.0.1", "::ffff:10.0.0.1", true},
        {"10.0.0.1", "10.0.0.2", false},
        {"::ffff:10.0.0.1", "::ffff:10.0.0.2", false},
        {"2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true},
        {"2001:db8:1:2::1", "2001:db8:1:3::1", false},
        {"128.0.0.1", "127.0.0.1", false},
        {NULL, "127.0.0.1", false},
    };
    (void)state;
    for (size_t i = 0; i < N(pairs); i++) {
        origin *one = enter_from(pairs[i].one), *other = enter_from(pairs[i].other);
        assert_int_equal(one == other, pairs[i].is_same);
        origins_leave(&all, one);
        origins_leave(&all, other);
        assert_null(all.first);
    }
}

static void test_users_of_a_unix_socket(void **state)
{
    (void)state;
    origin *one = enter_by("uid 1"), *other = enter_by("uid 11");
    assert_ptr_equal(enter_by("uid 1"), one);
    assert_ptr_not_equal(one, other);
    assert_int_equal(one->n_connections, 2);
    origins_leave(&all, one);
    origins_leave(&all, other);
    assert_ptr_equal(all.first, one);
    origins_leave(&all, one);
    assert_null(all.first);
}

/* ---- Who makes room ---- */

static idler idlers[N_IDLERS];
static origin *whose[N_IDLERS];
static size_t n_idlers;

static int begin(void **state)
{
    (void)state;
    n_idlers = 0;
    memset(idlers, 0, sizeof idlers);
    clock_set(BEGIN_MS);
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_idlers; i++) {
        origins_end_idling(&idlers[i]);
        origins_leave(&all, whose[i]);
    }
    return all.first ? -1 : 0;
}

/* One more of this user, a millisecond later than the one before. */
static idler *begin_one(const char *id, idle_kind kind)
{
    idler *one = &idlers[n_idlers];
    origin *of = whose[n_idlers++] = enter_by(id);
    one->fd = -1;
    clock_set(clock_get() + 1);
    origins_begin_idling(one, of, kind);
    return one;
}

static idler *send_one(const char *id)
{
    return begin_one(id, IDLE_SENDING);
}

static idler *keep_one(const char *id)
{
    return begin_one(id, IDLE_KEPT);
}

static idler *read_one(const char *id)
{
    return begin_one(id, IDLE_READING);
}

static idler *choose_later(void)
{
    clock_set(clock_get() + GRACE_MS);
    return origins_choose(&all);
}

static void test_nobody_goes_where_nobody_is_idle(void **state)
{
    (void)state;
    assert_null(origins_choose(&all));
    origins_end_idling(keep_one("a"));
    assert_null(choose_later());
}

static void test_the_longest_goes(void **state)
{
    (void)state;
    idler *first = send_one("a"), *second = send_one("a"), *third = send_one("a");
    assert_ptr_equal(choose_later(), first);
    origins_end_idling(second);
    origins_end_idling(first);
    origins_end_idling(first);
    assert_ptr_equal(origins_choose(&all), third);
    origins_begin_idling(first, whose[0], IDLE_SENDING);
    assert_ptr_equal(choose_later(), third);
    origins_begin_idling(third, whose[0], IDLE_SENDING);
    assert_ptr_equal(choose_later(), first);
}

static void test_sending_ones_go_first(void **state)
{
    (void)state;
    idler *kept = keep_one("a"), *sending = send_one("a");
    assert_null(origins_choose(&all)); /* it has just begun, and the other waits for that */
    assert_ptr_equal(choose_later(), sending);
    origins_end_idling(sending);
    assert_ptr_equal(origins_choose(&all), kept);
}

/* A service that is full of connections that are kept alive has room for newcomers. */
static void test_but_for_an_eighth(void **state)
{
    (void)state;
    idler *sending = send_one("a"), *kept = keep_one("a");
    for (int i = 0; i < 5; i++)
        keep_one("a");
    assert_ptr_equal(choose_later(), sending);
    keep_one("a");
    assert_ptr_equal(choose_later(), kept);
}

static void test_who_has_most_goes_first(void **state)
{
    (void)state;
    idler *older = keep_one("a");
    idler *first = keep_one("b");
    keep_one("b");
    assert_ptr_equal(choose_later(), first);
    keep_one("a");
    assert_ptr_equal(choose_later(), older);
}

/* However many a proxy keeps alive. */
static void test_who_has_most_that_send_goes_before_who_has_most(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        keep_one("proxy");
    send_one("proxy");
    idler *first = send_one("b");
    send_one("b");
    assert_ptr_equal(choose_later(), first);
}

/* Somebody's connections that are kept alive do not keep others from being heard. */
static void test_who_has_as_many_that_send_but_more_goes_first(void **state)
{
    (void)state;
    send_one("b");
    for (int i = 0; i < 3; i++)
        keep_one("a");
    idler *theirs = send_one("a");
    assert_ptr_equal(choose_later(), theirs);
}

static void test_who_has_sent_something_stays(void **state)
{
    int pair[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    idler *first = send_one("a"), *second = send_one("a");
    first->fd = pair[0];
    assert_ptr_equal(choose_later(), first);
    assert_int_equal(write(pair[1], "G", 1), 1);
    assert_ptr_equal(origins_choose(&all), second);
    origins_end_idling(second);
    assert_null(origins_choose(&all));
    char byte;
    assert_int_equal(read(pair[0], &byte, 1), 1);
    assert_ptr_equal(origins_choose(&all), first);
    close(pair[0]);
    close(pair[1]);
}

/* After all others. */
static void test_who_does_not_read_goes_last(void **state)
{
    (void)state;
    read_one("a");
    idler *first = read_one("b");
    read_one("b");
    clock_set(clock_get() + READ_MS);
    idler *kept = keep_one("a");
    assert_ptr_equal(origins_choose(&all), kept); /* though the other has more */
    origins_end_idling(kept);
    assert_ptr_equal(origins_choose(&all), first);
}

static void test_who_read_something_within_a_second_stays(void **state)
{
    (void)state;
    idler *one = read_one("a");
    clock_set(clock_get() + READ_MS - 1);
    assert_null(origins_choose(&all));
    origins_begin_idling(one, whose[0], IDLE_READING);
    clock_set(clock_get() + 1);
    assert_null(origins_choose(&all));
    clock_set(clock_get() + READ_MS - 1);
    assert_ptr_equal(origins_choose(&all), one);
}

/* A newcomer may send its request meanwhile. */
static void test_who_does_not_read_goes_before_a_few_newcomers(void **state)
{
    (void)state;
    idler *deaf = read_one("a");
    for (int i = 0; i < 7; i++)
        read_one("a");
    send_one("b");
    assert_null(choose_later());
    clock_set(clock_get() + READ_MS - GRACE_MS);
    assert_ptr_equal(origins_choose(&all), deaf);
}

/* It has asked for more, and reads none of it. */
static void test_who_sends_but_does_not_read_goes(void **state)
{
    int pair[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(write(pair[1], "G", 1), 1);
    idler *one = read_one("a");
    one->fd = pair[0];
    clock_set(clock_get() + READ_MS);
    assert_ptr_equal(origins_choose(&all), one);
    close(pair[0]);
    close(pair[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_addresses_of_one_client),
        TEST(test_users_of_a_unix_socket),
        TEST(test_nobody_goes_where_nobody_is_idle),
        TEST(test_the_longest_goes),
        TEST(test_sending_ones_go_first),
        TEST(test_but_for_an_eighth),
        TEST(test_who_has_most_goes_first),
        TEST(test_who_has_most_that_send_goes_before_who_has_most),
        TEST(test_who_has_as_many_that_send_but_more_goes_first),
        TEST(test_who_has_sent_something_stays),
        TEST(test_who_does_not_read_goes_last),
        TEST(test_who_read_something_within_a_second_stays),
        TEST(test_who_does_not_read_goes_before_a_few_newcomers),
        TEST(test_who_sends_but_does_not_read_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
