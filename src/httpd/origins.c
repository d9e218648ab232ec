/* SPDX-License-Identifier: Apache-2.0 */
/* origins.c: tells origins apart, and chooses whose connection makes room; connections.c asks. */
#include "httpd/origins.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "httpd/clock.h"
#include "show/text.h"

#define LOOPBACK "loopback" /* each account of the machine has all of its addresses */
#define SENDING_SHARE 8     /* sending ones go first beyond this part of those that may go */
#define GRACE_MS 250        /* a sending one may stay that long */
#define READ_MS 1000        /* one that reads nothing may */

/* ---- Their names ---- */

static void name_four(struct in_addr at, char out[ORIGIN_SIZE])
{
    if (ntohl(at.s_addr) >> 24 == IN_LOOPBACKNET)
        strcpy(out, LOOPBACK);
    else
        inet_ntop(AF_INET, &at, out, ORIGIN_SIZE);
}

/* One client has a /64 for itself. */
static void name_six(struct in6_addr at, char out[ORIGIN_SIZE])
{
    struct in_addr four;
    if (IN6_IS_ADDR_V4MAPPED(&at)) {
        memcpy(&four, at.s6_addr + 12, sizeof four);
        name_four(four, out);
    } else if (IN6_IS_ADDR_LOOPBACK(&at)) {
        strcpy(out, LOOPBACK);
    } else {
        memset(at.s6_addr + 8, 0, 8);
        inet_ntop(AF_INET6, &at, out, ORIGIN_SIZE);
    }
}

static void name_it(int fd, const peer *user, char out[ORIGIN_SIZE])
{
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof at;
    if (user)
        snprintf(out, ORIGIN_SIZE, "%s", user->id);
    else if (getpeername(fd, (struct sockaddr *)&at, &size))
        strcpy(out, "?"); /* it has left */
    else if (at.ss_family == AF_INET6)
        name_six(((const struct sockaddr_in6 *)(const void *)&at)->sin6_addr, out);
    else
        name_four(((const struct sockaddr_in *)(const void *)&at)->sin_addr, out);
}

origin *origins_enter(origins *all, int fd, const peer *user)
{
    char name[ORIGIN_SIZE];
    name_it(fd, user, name);
    origin *found = all->first;
    while (found && strcmp(found->name, name) != 0)
        found = found->next;
    if (!found) {
        found = text_alloc(sizeof *found);
        strcpy(found->name, name);
        found->next = all->first;
        all->first = found;
    }
    found->n_connections++;
    return found;
}

void origins_leave(origins *all, origin *of)
{
    origin **at = &all->first;
    if (--of->n_connections)
        return;
    while (*at != of)
        at = &(*at)->next;
    *at = of->next;
    free(of);
}

/* ---- The lines ---- */

void origins_end_idling(idler *one)
{
    idle_line *line = one->line;
    if (!line)
        return;
    one->line = NULL;
    line->n--;
    if (one->next)
        one->next->previous = one->previous;
    else
        line->latest = one->previous;
    if (one->previous)
        one->previous->next = one->next;
    else
        line->longest = one->next;
}

void origins_begin_idling(idler *one, origin *of, idle_kind kind)
{
    idle_line *line = &of->lines[kind];
    origins_end_idling(one);
    one->since_ms = clock_now_ms();
    one->line = line;
    one->next = NULL;
    one->previous = line->latest;
    if (line->latest)
        line->latest->next = one;
    else
        line->longest = one;
    line->latest = one;
    line->n++;
}

/* ---- Which one makes room ---- */

static size_t count_waited_for(const origin *of)
{
    size_t n = 0;
    for (idle_kind kind = 0; kind < N_IDLE_KINDS; kind++)
        n += of->lines[kind].n;
    return n;
}

/* The sending ones go first, except an eighth: else a service that is full of connections that are
 * kept alive, or not read, would leave no newcomer the time to send its request. */
static bool are_many_sending(const origins *all)
{
    size_t sending = 0, waited_for = 0;
    for (const origin *one = all->first; one; one = one->next) {
        sending += one->lines[IDLE_SENDING].n;
        waited_for += count_waited_for(one);
    }
    return sending > waited_for / SENDING_SHARE;
}

/* The first of a line's. */
static int64_t since_ms(const idle_line *line)
{
    return line->longest ? line->longest->since_ms : INT64_MAX;
}

static bool goes_before(const origin *one, const origin *other, idle_kind kind)
{
    const idle_line *line = &one->lines[kind], *other_line = &other->lines[kind];
    if (line->n != other_line->n)
        return line->n > other_line->n;
    size_t n = count_waited_for(one), n_other = count_waited_for(other);
    return n != n_other ? n > n_other : since_ms(line) < since_ms(other_line);
}

/* What a client has sent may be the request for which others are to make room. */
static bool has_unread(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static idler *find_silent(const idle_line *line, int64_t since_ms)
{
    idler *one = line->longest;
    while (one && one->since_ms <= since_ms && has_unread(one->fd))
        one = one->next;
    return one && one->since_ms <= since_ms ? one : NULL;
}

/* Where an answer fits into the kernel's buffer, it is sent at once. What a client sends meanwhile
 * counts for nothing: it is not looked at before. */
static idler *find_deaf(const idle_line *line, int64_t since_ms)
{
    return line->longest && line->longest->since_ms <= since_ms ? line->longest : NULL;
}

/* The line of the origin that has most there. */
static const idle_line *longest_line(const origins *all, idle_kind kind)
{
    const origin *of = all->first;
    for (const origin *one = of->next; one; one = one->next)
        if (goes_before(one, of, kind))
            of = one;
    return &of->lines[kind];
}

idler *origins_choose(const origins *all)
{
    int64_t now_ms = clock_now_ms();
    if (!all->first)
        return NULL;
    idler *found = are_many_sending(all)
                       ? find_silent(longest_line(all, IDLE_SENDING), now_ms - GRACE_MS)
                       : find_silent(longest_line(all, IDLE_KEPT), now_ms);
    return found ? found : find_deaf(longest_line(all, IDLE_READING), now_ms - READ_MS);
}
