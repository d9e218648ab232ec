/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_stream.c: what a stream to a member waits for, beside one that takes connections and
 * says nothing. */
#include "unit.h"

#include "store/kernel_time.h"
#include "store/mongo/driver/pool.h"
#include "store/mongo/driver/set.h"
#include "store/mongo/driver/store.h"
#include "store/mongo/driver/stream.h"
#include "store/mongo/driver/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <unistd.h>

#define LONG_MS 10000 /* on a busy machine, too */

static mongo_store store;
static int silent; /* the socket of the member */
static char member[MONGO_HOST_SIZE];
static mongo_connection *connection;

static hf_mono read_mono(void *ctx)
{
    (void)ctx;
    return (hf_mono){1};
}

static int begin(void **state)
{
    static const hf_env env = {.mono = read_mono};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    char text[MONGO_HOST_SIZE + 50];
    bson_error_t error;
    (void)state;
    silent = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(silent, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(silent, 9), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)&at, &length), 0);
    snprintf(member, sizeof member, "127.0.0.1:%d", ntohs(at.sin_port));
    snprintf(text, sizeof text, "mongodb://%s/app?replicaSet=rs0", member);
    store = (mongo_store){.config.env = &env, .uri.driver = mongoc_uri_new(text)};
    mongo_limits limits = {.connect_ms = LONG_MS, .socket_ms = LONG_MS};
    mongo_pool_init(&store.work, store.uri.driver, limits);
    connection = mongo_connection_new(&store, store.work.uri, &limits, false, &error);
    assert_non_null(connection);
    strcpy(connection->primary, member);
    return 0;
}

static int end(void **state)
{
    (void)state;
    mongo_connection_free(connection, false);
    mongo_pool_done(&store, &store.work);
    mongoc_uri_destroy(store.uri.driver);
    close(silent);
    return 0;
}

/* Another member says that it is the primary. */
static void another_leads(void)
{
    bson_t *hello =
        pipeline_json("{'ok': 1, 'setName': 'rs0', 'me': 'other:1', 'isWritablePrimary': true}");
    mongo_note_hello(&store, hello, 0);
    bson_destroy(hello);
}

static mongoc_stream_t *open_stream(void)
{
    mongo_scan_asks(&connection->scan, member, kernel_ms(CLOCK_MONOTONIC));
    return mongo_stream_open(store.uri.driver, mongoc_uri_get_hosts(store.uri.driver), connection,
                             NULL);
}

static ssize_t poll_for(mongoc_stream_t *stream, int events)
{
    mongoc_stream_poll_t one = {.stream = stream, .events = events};
    mongoc_stream_poll(&one, 1, LONG_MS);
    return one.revents;
}

/* Returns errno of a read that gets no answer. */
static int read_error(mongoc_stream_t *stream)
{
    char byte;
    assert_int_equal(mongoc_stream_read(stream, &byte, 1, 1, LONG_MS), -1);
    return errno;
}

/* The listener has an answer once in a while only. */
static void test_one_that_may_be_silent_for_long_is_given_up_for_another_primary(void **state)
{
    (void)state;
    mongo_connection_begin(connection, 2 * LONG_MS);
    mongoc_stream_t *stream = open_stream();
    assert_int_equal(poll_for(stream, POLLOUT), POLLOUT);
    another_leads();
    assert_int_equal(read_error(stream), ECONNRESET);
    mongoc_stream_destroy(stream);
}

static void test_nor_does_it_wait_when_the_store_is_closed(void **state)
{
    (void)state;
    mongo_connection_begin(connection, 2 * LONG_MS);
    mongoc_stream_t *stream = open_stream();
    assert_int_equal(poll_for(stream, POLLOUT), POLLOUT);
    mongo_hurry(&store.base);
    assert_int_equal(read_error(stream), ECONNRESET);
    mongoc_stream_destroy(stream);
}

/* The driver learns of more members when the first one answers. */
static void test_no_member_is_connected_to_when_the_primary_is_known(void **state)
{
    (void)state;
    mongo_connection_begin(connection, 2 * LONG_MS);
    connection->scan.is_found = true;
    mongoc_stream_t *stream = open_stream();
    connection->scan.is_found = false;
    assert_int_equal(poll_for(stream, POLLOUT), POLLERR);
    mongoc_stream_destroy(stream);
    connection->scan.is_found = connection->scan.wants_all = true; /* `doctor` */
    stream = open_stream();
    assert_int_equal(poll_for(stream, POLLOUT), POLLOUT);
    mongoc_stream_destroy(stream);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_that_may_be_silent_for_long_is_given_up_for_another_primary),
        TEST(test_nor_does_it_wait_when_the_store_is_closed),
        TEST(test_no_member_is_connected_to_when_the_primary_is_known),
    };
    mongoc_log_set_handler(NULL, NULL);
    mongoc_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
