/* SPDX-License-Identifier: Apache-2.0 */
/* wait_line.c: writes the line that shows a wait; terminal.c calls it. Where there is little room,
 * the parts that say least are left out first, and the lock and its holder are kept. */
#include "wait_line.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "show/text.h"

#define LEAST_COLUMNS 8 /* of a reason, a name or a holder that is cut */
#define READABLE_COLUMNS                                                                           \
    24 /* of a reason, for which the length of the queue and since when give way */

/* The parts, escaped. */
typedef struct words {
    char *name, *time;
    char *store;        /* " in this user's own file" */
    char *place, *turn; /* ", 1 of 3 in the queue", ", 1 of 3" */
    char *holder;       /* "cron@web1:4711 and 2 more"; "" where it is not known */
    char *since;        /* " since 14:03:12" */
    char *why;
    bool is_held;
} words;

typedef enum part { STORE = 1, TURN = 2, QUEUE = 4, SINCE = 8 } part;

static char *escaped(char *text)
{
    char *out = text_escape(text);
    free(text);
    return out;
}

static char *time_of(const hf_wait_info *info)
{
    return info->waited_ms < 1000 ? text_copy("0s")
                                  : text_duration(info->waited_ms - info->waited_ms % 1000);
}

static char *turn_of(const hf_wait_info *info)
{
    size_t queued = info->queued > info->position ? info->queued : info->position;
    return info->position ? text_print(", %zu of %zu", info->position, queued) : text_copy("");
}

static char *holder_of(const hf_wait_info *info)
{
    if (info->n_holders > 1 && *info->holder)
        return text_print("%s and %zu more", info->holder, info->n_holders - 1);
    return text_copy(info->holder);
}

static char *since_of(const hf_wait_info *info)
{
    if (!info->held_since_ms)
        return text_copy("");
    char *when = text_when(info->held_since_ms);
    char *out = text_print(" since %s", when);
    free(when);
    return out;
}

static words words_of(const hf_wait_info *info, const char *store)
{
    char *turn = turn_of(info);
    return (words){.name = text_escape(info->name),
                   .time = time_of(info),
                   .store = text_print("%s%s", *store ? " in " : "", store),
                   .turn = turn,
                   .place = *turn ? text_print("%s in the queue", turn) : text_copy(""),
                   .holder = escaped(holder_of(info)),
                   .since = since_of(info),
                   .why = text_escape(info->why),
                   .is_held = info->n_holders > 0};
}

static void words_done(words *w)
{
    free(w->name);
    free(w->time);
    free(w->store);
    free(w->turn);
    free(w->place);
    free(w->holder);
    free(w->since);
    free(w->why);
}

/* The line with these parts, and with those that it always has. */
static char *compose(const words *w, unsigned parts)
{
    const char *held = *w->holder ? ", held by " : w->is_held ? ", held" : "";
    return text_print("waiting for \"%s\" %s%s%s%s%s%s", w->name, w->time,
                      parts & STORE ? w->store : "",
                      parts & QUEUE  ? w->place
                      : parts & TURN ? w->turn
                                     : "",
                      held, w->holder, parts & SINCE ? w->since : "");
}

/* With as much of the reason as there is room for; least: 0: without it. NULL: there is no room for
 * these parts and so much of the reason. */
static char *compose_form(const words *w, unsigned parts, size_t least, size_t columns)
{
    char *line = compose(w, parts);
    size_t used = text_columns(line), all = text_columns(w->why);
    if (least > 0 && all > 0) {
        size_t room = columns > used + 2 ? columns - used - 2 : 0;
        char *why = text_shorten(w->why, room);
        char *whole = text_print("%s: %s", line, why);
        free(why);
        free(line);
        line = whole;
        used += 2 + (all < least ? all : least);
    }
    if (used <= columns)
        return line;
    free(line);
    return NULL;
}

/* What is left of a text that gives up what the other lacks, but keeps the least. */
static size_t share(size_t wanted, size_t others, size_t room)
{
    size_t left = room > others ? room - others : 0;
    size_t least = wanted < LEAST_COLUMNS ? wanted : LEAST_COLUMNS;
    return left < least ? least : left < wanted ? left : wanted;
}

/* Cuts the name, and then the holder, in the middle. */
static char *compose_cut(words *w, size_t columns)
{
    size_t name = text_columns(w->name), holder = text_columns(w->holder);
    char *line = compose(w, 0);
    size_t fixed = text_columns(line) - name - holder, room = columns > fixed ? columns - fixed : 0;
    size_t kept = share(name, holder, room);
    char *short_name = text_shorten_middle(w->name, kept);
    char *short_holder = text_shorten_middle(w->holder, room > kept ? room - kept : 0);
    free(line);
    free(w->name);
    free(w->holder);
    w->name = short_name;
    w->holder = short_holder;
    return compose(w, 0);
}

/* The longest form that fits. A reason says more than since when, and than which store it is. */
static char *fit(words *w, size_t columns)
{
    static const struct {
        unsigned parts;
        size_t why; /* at least so many columns of the reason */
    } forms[] = {{STORE | QUEUE | SINCE, READABLE_COLUMNS},
                 {STORE | TURN | SINCE, READABLE_COLUMNS},
                 {STORE | TURN, LEAST_COLUMNS},
                 {TURN | SINCE, READABLE_COLUMNS},
                 {TURN, LEAST_COLUMNS},
                 {TURN, 0},
                 {0, 0}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char *line = compose_form(w, forms[i].parts, forms[i].why, columns);
        if (line)
            return line;
    }
    return compose_cut(w, columns);
}

/* "mongodb at a,b,c, database app: connection refused": where there is little room, the servers
 * give way to what they say. */
static char *fit_trouble(const char *trouble, size_t columns)
{
    const char *reason = strstr(trouble, ": ");
    if (!reason || text_columns(trouble) <= columns)
        return text_copy(trouble);
    size_t used = text_columns(reason);
    if (used + LEAST_COLUMNS > columns)
        return text_copy(reason + 2);
    char *place = text_print("%.*s", (int)(reason - trouble), trouble);
    char *shorter = text_shorten(place, columns - used);
    char *out = text_print("%s%s", shorter, reason);
    free(shorter);
    free(place);
    return out;
}

static char *trouble_line(const words *w, const char *trouble, size_t columns)
{
    char *head = text_print("waiting for \"%s\" %s, trying again: ", w->name, w->time);
    char *all = text_escape(trouble);
    size_t used = text_columns(head);
    char *what = fit_trouble(all, columns > used ? columns - used : 0);
    char *line = text_print("%s%s", head, what);
    free(what);
    free(all);
    free(head);
    return line;
}

/* Cut at the end if nothing else helps. */
static char *cut(char *line, size_t columns)
{
    char *out = text_shorten(line, columns);
    free(line);
    return out;
}

char *wait_line(const hf_wait_info *info, const char *store, size_t columns)
{
    words w = words_of(info, store);
    size_t room = columns ? columns : SIZE_MAX;
    char *line = *info->trouble ? trouble_line(&w, info->trouble, room) : fit(&w, room);
    words_done(&w);
    return cut(line, room);
}
