/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: sends the events to a follower. Its connection is suspended while there is nothing to
 * send. A follower that cannot keep up gets all locks anew instead of the events that it missed. */
#include <stdlib.h>
#include <string.h>

#include "httpd/answer.h"
#include "httpd/parameter.h"
#include "httpd/routes.h"
#include "show/text.h"
#include "sync/mutex_scope.h"

#define BLOCK_SIZE 4096
#define TEXT_MOST 65536 /* of events, at a time */
#define GREETING "retry: 1000\n\n"
#define BEAT ":\n\n"

typedef struct stream {
    follower follower; /* the watcher's part of it */
    httpd *service;
    request *req; /* lives for as long as something is sent */
    connection *connection;
    char *prefix, *last_id, *who;
    bool has_begun;
    uint64_t next, beats; /* up to which all was sent */
    excerpt *part;        /* is being sent; NULL: nothing */
    size_t sent;          /* of it */
} stream;

/* ---- What is sent ---- */

/* Returns the event to go on with: not all may have found room. */
static uint64_t write_events_locked(const excerpt_key *key, const watcher *w, FILE *out)
{
    uint64_t next = key->from;
    for (; next < key->to && ftell(out) < TEXT_MOST; next++)
        watcher_write_locked(w, next, key->prefix, out);
    return next;
}

static excerpt *write_locked(watcher *w, const excerpt_key *key)
{
    char *text;
    size_t size;
    uint64_t next = key->to;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        text_no_memory();
    if (key->is_first)
        fputs(GREETING, out);
    if (key->from)
        next = write_events_locked(key, w, out);
    else
        watcher_snapshot_locked(w, key->prefix, key->in_use, out);
    fclose(out);
    return excerpts_add(&w->excerpts, key, next, text, size);
}

/* Where it goes on; 0: it gets all locks, as one that begins or cannot keep up. */
static uint64_t position_locked(stream *s, const watcher *w)
{
    if (!s->has_begun && !watcher_find_locked(w, &s->follower, s->last_id, &s->next))
        return 0;
    return s->next < w->first ? 0 : s->next;
}

/* Comes where there is nothing else to send. */
static excerpt *write_beat(stream *s, watcher *w)
{
    const excerpt_key key = {.prefix = "", .from = s->next, .to = s->next, .at_ms = -1};
    if (s->beats == w->beats)
        return NULL;
    excerpt *found = excerpts_find(&w->excerpts, &key);
    return found ? found : excerpts_add(&w->excerpts, &key, s->next, text_copy(BEAT), strlen(BEAT));
}

static excerpt *find_part_locked(stream *s, watcher *w)
{
    excerpt_key key = {.prefix = s->prefix,
                       .in_use = s->follower.in_use,
                       .is_first = !s->has_begun,
                       .from = position_locked(s, w),
                       .to = w->next,
                       .at_ms = w->now.at_ms};
    excerpt *found = excerpts_find(&w->excerpts, &key);
    if (!found)
        found = write_locked(w, &key);
    s->next = found->next;
    return found->size ? found : write_beat(s, w);
}

static void fill_locked(stream *s, watcher *w)
{
    if (!s->has_begun && !watcher_is_ready_locked(w, &s->follower))
        return;
    excerpt_leave(s->part);
    s->part = NULL;
    s->sent = 0;
    excerpt *found = find_part_locked(s, w);
    if (found)
        s->part = excerpt_use(found);
    s->has_begun = true;
    s->beats = w->beats;
}

static size_t left(const stream *s)
{
    return s->part ? s->part->size - s->sent : 0;
}

static ssize_t take(stream *s, char *out, size_t room)
{
    size_t n = left(s) < room ? left(s) : room;
    memcpy(out, s->part->text + s->sent, n);
    s->sent += n;
    s->req->n_bytes += n;
    connections_set_deadline(&s->service->connections, s->connection);
    return (ssize_t)n;
}

static ssize_t sleep_locked(stream *s)
{
    s->follower.is_asleep = true;
    connections_clear_deadline(&s->service->connections, s->connection);
    MHD_suspend_connection(s->follower.mhd);
    return 0;
}

static ssize_t next_part(void *ctx, uint64_t position, char *out, size_t room)
{
    stream *s = ctx;
    watcher *w = &s->service->watcher;
    (void)position;
    MUTEX_SCOPE(&w->mutex);
    watcher_wake_rest_locked(w);
    if (!left(s) && !w->is_closing)
        fill_locked(s, w);
    if (left(s))
        return take(s, out, room);
    return w->is_closing ? MHD_CONTENT_READER_END_OF_STREAM : sleep_locked(s);
}

/* ---- Its life ---- */

static void free_stream(stream *s)
{
    free(s->prefix);
    free(s->last_id);
    free(s->who);
    free(s);
}

static void close_stream(void *ctx)
{
    stream *s = ctx;
    watcher_leave(&s->service->watcher, &s->follower, s->part);
    free_stream(s);
}

static stream *new_stream(request *req, bool in_use)
{
    const char *last_id = MHD_lookup_connection_value(req->mhd, MHD_HEADER_KIND, "Last-Event-ID");
    char *prefix = parameter_text(req, "prefix");
    stream *s = text_alloc(sizeof *s);
    *s = (stream){.follower = {.mhd = req->mhd, .in_use = in_use},
                  .service = req->service,
                  .req = req,
                  .connection = req->connection,
                  .prefix = prefix ? prefix : text_copy(""),
                  .last_id = last_id ? text_copy(last_id) : NULL,
                  .who = request_client(req)};
    s->follower.who = s->who;
    return s;
}

void answer_events(request *req)
{
    int64_t in_use;
    if (!parameter_number(req, "in_use", 0, 1, 0, &in_use))
        return;
    stream *s = new_stream(req, in_use);
    admission let = watcher_join(&req->service->watcher, &s->follower, &req->service->places);
    if (let != ADMITTED) {
        free_stream(s);
        places_refuse(req, PLACE_FOLLOWER, let);
        return;
    }
    answer_made(req, "text/event-stream",
                MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_SIZE, next_part, s,
                                                  close_stream));
    answer_header(req, "Holdfast-Role",
                  role_name(req->service->config.is_read_only ? ROLE_READ : req->caller.role));
}
