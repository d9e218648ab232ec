/* SPDX-License-Identifier: Apache-2.0 */
/* checked.c: follows the messages of a connection as the driver reads them, and refuses one that
 * it would not survive (sound.c). stream.c puts it around each stream. */
#include "store/mongo/driver/checked.h"
#include "core/alloc.h"
#include "store/mongo/driver/sound.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OUR_TYPE 4712 /* no type of the driver's */
#define LENGTH_SIZE 4 /* a message begins with its length; the driver reads that, then the rest */
#define OPCODE 12     /* where a message says what it is */

typedef struct checked {
    mongoc_stream_t base;
    mongoc_stream_t *inner;
    mongo_connection *of;
    bool is_command;             /* what was sent last is an OP_MSG */
    uint8_t length[LENGTH_SIZE]; /* of the message that is being read */
    size_t at;                   /* how much of it has been read */
    uint8_t *kept;               /* what that is, behind the length, if it comes in pieces */
} checked;

static checked *checked_of(mongoc_stream_t *base)
{
    return (checked *)base;
}

/* ---- Writing ---- */

/* What the message that begins in these parts is; 0: too little of it is there. */
static uint32_t opcode_in(const mongoc_iovec_t *iov, size_t n_iov)
{
    uint8_t head[OPCODE + 4];
    size_t n = 0;
    for (size_t i = 0; i < n_iov && n < sizeof head; i++) {
        size_t left = sizeof head - n;
        size_t size = iov[i].iov_len < left ? iov[i].iov_len : left;
        memcpy(head + n, iov[i].iov_base, size);
        n += size;
    }
    return n == sizeof head ? mongo_number_in(head + OPCODE) : 0;
}

static ssize_t write_to(mongoc_stream_t *base, mongoc_iovec_t *iov, size_t n_iov,
                        int32_t timeout_ms)
{
    checked *c = checked_of(base);
    c->is_command = opcode_in(iov, n_iov) == MONGO_OP_MSG;
    return mongoc_stream_writev(c->inner, iov, n_iov, timeout_ms);
}

/* ---- Reading ---- */

/* A hello may come in pieces. The driver looks at a message when it has all of it. */
static void keep(checked *c, const uint8_t *data, size_t n)
{
    size_t before = c->at - LENGTH_SIZE;
    c->kept = alloc_array(c->kept, before + n, 1);
    memcpy(c->kept + before, data, n);
}

static void begin_message(checked *c)
{
    free(c->kept);
    c->kept = NULL;
    c->at = 0;
}

/* False: the message that ends with these bytes is refused. */
static bool follow(checked *c, const uint8_t *data, size_t n)
{
    for (; n && c->at < LENGTH_SIZE; n--)
        c->length[c->at++] = *data++;
    if (!n)
        return true;
    size_t size = mongo_number_in(c->length);
    bool is_whole = c->at == LENGTH_SIZE && n + LENGTH_SIZE == size;
    if (!is_whole)
        keep(c, data, n);
    c->at += n;
    if (c->at < size)
        return true;
    bool is_sound =
        mongo_reply_is_sound(is_whole ? data : c->kept, c->at - LENGTH_SIZE, c->is_command);
    begin_message(c);
    return is_sound;
}

static ssize_t read_from(mongoc_stream_t *base, mongoc_iovec_t *iov, size_t n_iov, size_t min_bytes,
                         int32_t timeout_ms)
{
    checked *c = checked_of(base);
    ssize_t n = mongoc_stream_readv(c->inner, iov, n_iov, min_bytes, timeout_ms);
    size_t left = n > 0 ? (size_t)n : 0;
    for (size_t i = 0; i < n_iov && left; i++) {
        size_t size = iov[i].iov_len < left ? iov[i].iov_len : left;
        if (!follow(c, iov[i].iov_base, size)) {
            c->of->is_odd = true;
            errno = EBADMSG;
            return -1;
        }
        left -= size;
    }
    return n;
}

/* ---- The rest of what the driver asks ---- */

static void destroy(mongoc_stream_t *base)
{
    mongoc_stream_destroy(checked_of(base)->inner);
    free(checked_of(base)->kept);
    free(base);
}

static void fail(mongoc_stream_t *base)
{
    mongoc_stream_failed(checked_of(base)->inner);
    free(checked_of(base)->kept);
    free(base);
}

static int close_stream(mongoc_stream_t *base)
{
    return mongoc_stream_close(checked_of(base)->inner);
}

static int flush(mongoc_stream_t *base)
{
    return mongoc_stream_flush(checked_of(base)->inner);
}

static int set_option(mongoc_stream_t *base, int level, int name, void *value,
                      mongoc_socklen_t length)
{
    return mongoc_stream_setsockopt(checked_of(base)->inner, level, name, value, length);
}

static mongoc_stream_t *inner_of(mongoc_stream_t *base)
{
    return checked_of(base)->inner;
}

static bool is_closed(mongoc_stream_t *base)
{
    return mongoc_stream_check_closed(checked_of(base)->inner);
}

static bool is_timed_out(mongoc_stream_t *base)
{
    return mongoc_stream_timed_out(checked_of(base)->inner);
}

static bool is_early(mongoc_stream_t *base)
{
    return mongoc_stream_should_retry(checked_of(base)->inner);
}

static const mongoc_stream_t functions = {.type = OUR_TYPE,
                                          .destroy = destroy,
                                          .close = close_stream,
                                          .flush = flush,
                                          .writev = write_to,
                                          .readv = read_from,
                                          .setsockopt = set_option,
                                          .get_base_stream = inner_of,
                                          .check_closed = is_closed,
                                          .failed = fail,
                                          .timed_out = is_timed_out,
                                          .should_retry = is_early};

mongoc_stream_t *mongo_checked_around(mongoc_stream_t *inner, mongo_connection *connection)
{
    checked *c = alloc_zeroed(sizeof *c);
    c->base = functions;
    c->inner = inner;
    c->of = connection;
    return &c->base;
}
