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

typedef struct stream {
    follower follower; /* the watcher's part of it */
    httpd *service;
    request *req; /* lives for as long as something is sent */
    connection *connection;
    char *prefix, *last_id, *who;
    bool has_begun;
    uint64_t next, beats; /* up to which all was sent */
    char *text;           /* is being sent */
    size_t size, sent;
} stream;

/* ---- What is sent ---- */

static void begin_locked(stream *s, const watcher *w, FILE *out)
{
    fputs(GREETING, out);
    s->has_begun = true;
    s->beats = w->beats;
    if (watcher_find_locked(w, &s->follower, s->last_id, &s->next))
        return;
    watcher_snapshot_locked(w, s->prefix, s->follower.in_use, out);
    s->next = w->next;
}

static bool is_for(const stream *s, const event *e)
{
    return !e->name || strncmp(e->name, s->prefix, strlen(s->prefix)) == 0;
}

static void write_events_locked(stream *s, const watcher *w, FILE *out)
{
    if (s->next < w->first) {
        watcher_snapshot_locked(w, s->prefix, s->follower.in_use, out);
        s->next = w->next;
    }
    for (; s->next < w->next && ftell(out) < TEXT_MOST; s->next++) {
        const event *e = &w->events[s->next % EVENTS_KEPT];
        if (is_for(s, e))
            fputs(e->text, out);
    }
}

/* Only if there is nothing else to send. */
static void write_beat_locked(stream *s, const watcher *w, FILE *out)
{
    if (s->beats != w->beats && ftell(out) == 0)
        fputs(":\n\n", out);
    s->beats = w->beats;
}

static void fill_locked(stream *s, const watcher *w)
{
    if (!s->has_begun && !watcher_is_ready_locked(w, &s->follower))
        return;
    free(s->text);
    s->text = NULL;
    s->sent = 0;
    FILE *out = open_memstream(&s->text, &s->size);
    if (!out)
        text_no_memory();
    if (!s->has_begun)
        begin_locked(s, w, out);
    write_events_locked(s, w, out);
    write_beat_locked(s, w, out);
    fclose(out);
}

static ssize_t take(stream *s, char *out, size_t room)
{
    size_t n = s->size - s->sent < room ? s->size - s->sent : room;
    memcpy(out, s->text + s->sent, n);
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
    if (s->sent == s->size && !w->is_closing)
        fill_locked(s, w);
    if (s->sent < s->size)
        return take(s, out, room);
    return w->is_closing ? MHD_CONTENT_READER_END_OF_STREAM : sleep_locked(s);
}

/* ---- Its life ---- */

static void free_stream(stream *s)
{
    free(s->prefix);
    free(s->last_id);
    free(s->who);
    free(s->text);
    free(s);
}

static void close_stream(void *ctx)
{
    stream *s = ctx;
    watcher_leave(&s->service->watcher, &s->follower);
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
