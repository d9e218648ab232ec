/* SPDX-License-Identifier: Apache-2.0 */
/* line.c: keeps the lines of threads that want one lock; see line.h. */
#include "client/hold/hold.h"

#include "core/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line *line_find_locked(hf_client *client, const char *name)
{
    struct table_node *node = table_first(&client->hold->turns.by_name, table_hash_text(name));
    for (; node; node = table_next(node)) {
        struct line *line = TABLE_OWNER(node, struct line, by_name);
        if (strcmp(line->name, name) == 0)
            return line;
    }
    return NULL;
}

static struct line *make_locked(hf_client *client, const char *name)
{
    struct line *line = alloc_zeroed(sizeof *line);
    line->name = alloc_text(name);
    line->end = &line->first;
    line->client = client;
    table_add(&client->hold->turns.by_name, &line->by_name, table_hash_text(name));
    line->link = &client->hold->turns.lines;
    line->next = *line->link;
    if (line->next)
        line->next->link = &line->next;
    *line->link = line;
    return line;
}

struct line *line_find_or_make_locked(hf_client *client, const char *name)
{
    struct line *line = line_find_locked(client, name);
    return line ? line : make_locked(client, name);
}

static void free_if_empty_locked(struct line *line)
{
    if (line->leader || line->user || line->first)
        return;
    table_remove(&line->client->hold->turns.by_name, &line->by_name);
    *line->link = line->next;
    if (line->next)
        line->next->link = line->link;
    free(line->name);
    free(line);
}

void line_free_locked(struct line *line)
{
    line->leader = NULL;
    line->user = NULL;
    line->first = NULL;
    free_if_empty_locked(line);
}

/* ---- The requests in it ---- */

void line_append_locked(struct line *line, struct lock_request *request)
{
    request->place.in_line = line;
    request->place.next = NULL;
    *line->end = request;
    line->end = &request->place.next;
}

static void take_out_locked(struct line *line, struct lock_request *request)
{
    struct lock_request **at = &line->first;
    while (*at != request)
        at = &(*at)->place.next;
    *at = request->place.next;
    if (!*at)
        line->end = at;
    request->place.in_line = NULL;
}

struct lock_request *line_next_locked(struct line *line)
{
    struct lock_request *next = line->first;
    if (next)
        take_out_locked(line, next);
    return next;
}

size_t line_position(const struct lock_request *request)
{
    size_t position = 1;
    const struct lock_request *at =
        request->place.in_line ? request->place.in_line->first : request;
    for (; at && at != request; at = at->place.next)
        position++;
    return position;
}

void line_tell_holder_locked(struct lock_request *leader, const char *who)
{
    struct line *line = leader->place.leads;
    if (line)
        snprintf(line->holder, sizeof line->holder, "%s", who);
}

/* The first enters for all, unless the lock will come to the line anyway. If the lock is about to
 * be left, the enter carries the leave, so that the hand-over is one write. */
void line_see_to_leader_locked(struct line *line)
{
    bool is_served = line->user && line->user->turn.has_block && !line->is_overdue;
    struct lock_request *next = line->leader || is_served ? NULL : line_next_locked(line);
    if (!next)
        return;
    line->leader = next;
    next->place.leads = line;
    next->place.news = NEWS_LEADS;
    lock_request_wake_locked(next);
}

void line_quit_locked(struct lock_request *request)
{
    struct place *place = &request->place;
    struct line *line = place->in_line ? place->in_line : place->leads;
    if (!line)
        return;
    if (place->in_line)
        take_out_locked(line, request);
    if (line->leader == request)
        line->leader = NULL;
    place->leads = NULL;
    line_see_to_leader_locked(line);
    free_if_empty_locked(line);
}

void line_over_locked(struct hf_lock *lock)
{
    if (lock->turn.lingers)
        schedule_set(&lock->client->hold->turns.due, &lock->turn.due, (hf_mono){0});
}

void line_left_locked(struct hf_lock *lock)
{
    struct line *line = lock->turn.line;
    if (!line)
        return;
    lock->turn.line = NULL;
    line->user = NULL;
    lock->client->hold->turns.yielding -= lock->turn.has_block;
    line->is_wanted = line->is_overdue = false;
    line_see_to_leader_locked(line);
    free_if_empty_locked(line);
}
