/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c: listens to a client until it ends; see watch.h. Called by the guardian.
 *
 * The end of the socket proves nothing: a program may close all its descriptors, or become another
 * one by exec(), and a forked child may have a copy of its end. Only the kernel's word counts, that
 * the process and all its threads are gone; nobody else can get its pidfd, as could happen with its
 * number. */
#include "client/guardian/watch.h"

#include "client/base/env.h"

#include "core/lease.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DESCRIPTORS 2 /* that come along with HELLO */

struct watch {
    int fd, process, life; /* -1: there is none */
    struct estate *estate;
    bool has_ended, is_closed; /* the socket; the client */
};

static hf_mono now(void)
{
    return env_linux.mono(env_linux.ctx);
}

/* ---- Messages ---- */

/* Only the first message brings any; what a later one brought is closed. */
static void take_descriptors(struct watch *w, struct msghdr *packet)
{
    int got[DESCRIPTORS];
    for (struct cmsghdr *at = CMSG_FIRSTHDR(packet); at; at = CMSG_NXTHDR(packet, at)) {
        bool fits = at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS &&
                    at->cmsg_len == CMSG_LEN(sizeof got);
        if (!fits)
            continue;
        memcpy(got, CMSG_DATA(at), sizeof got);
        int unused = w->process < 0 ? -1 : got[0], unused_too = w->process < 0 ? -1 : got[1];
        if (w->process < 0) {
            w->process = got[0];
            w->life = got[1];
        }
        close(unused);
        close(unused_too);
    }
}

/* A file that the URI names (tlsCAFile=...) may begin in the folder of the program. Otherwise that
 * is left, so that what is mounted there can be unmounted. */
static void leave_folder(const char *uri)
{
    if (!strcasestr(uri, "file=") && chdir("/") < 0)
        return; /* then it stays there */
}

/* What is no message of ours is passed over: the messages that come next may be. Without the first
 * one, nothing can be done. */
static void heed(struct watch *w, const char *bytes, size_t n)
{
    guardian_message message;
    bool is_known = guardian_message_read(bytes, n, &message);
    bool is_hello = is_known && message.kind == GUARDIAN_HELLO;
    if (!is_known || is_hello == (w->estate->uri != NULL))
        return;
    estate_note(w->estate, &message);
    if (is_hello)
        leave_folder(message.uri);
    w->is_closed |= message.kind == GUARDIAN_BYE;
}

/* Takes one message, if there is one. */
static bool receive(struct watch *w)
{
    static char bytes[GUARDIAN_MESSAGE_MAX];
    union {
        char room[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.room,
                            .msg_controllen = sizeof control.room};
    ssize_t n = recvmsg(w->fd, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    w->has_ended |= n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    take_descriptors(w, &packet);
    if (!(packet.msg_flags & MSG_TRUNC))
        heed(w, bytes, (size_t)n);
    return true;
}

/* ---- Waiting ---- */

/* Waits until the descriptor is readable, or, without POLLIN, until nobody has its other end: what
 * somebody writes into a pipe that it inherited says nothing. false: the time is over. */
static bool await(int fd, short events, hf_mono until)
{
    struct pollfd one = {.fd = fd, .events = events};
    for (;;) {
        int64_t ms = mono_ms_until(until, now());
        int n = poll(&one, 1, ms > 60000 ? 60000 : ms > 0 ? (int)ms : 0);
        if (n > 0 || ms <= 0)
            return n > 0;
    }
}

static void listen_until_the_end(struct watch *w)
{
    bool is_gone = false;
    while (!is_gone && !w->has_ended && !w->is_closed) {
        struct pollfd both[] = {{.fd = w->fd, .events = POLLIN},
                                {.fd = w->process, .events = POLLIN}};
        poll(both, 2, -1);
        is_gone = both[1].revents; /* it has said all that it will say: read that as well */
        while (!w->has_ended && !w->is_closed && receive(w))
            continue;
    }
}

/* By then, a client that has not renewed its session of that ttl has stopped believing in it. */
static hf_mono lease_over(const struct estate *estate)
{
    return lease_watch_end(now(), estate->self.ttl_ms);
}

watch_end watch_client(int fd, struct estate *estate)
{
    struct watch w = {.fd = fd, .process = -1, .life = -1, .estate = estate};
    listen_until_the_end(&w);
    close(w.fd);
    bool is_dead = !w.is_closed && w.process >= 0 && await(w.process, POLLIN, lease_over(estate));
    if (is_dead && !estate_is_empty(estate))
        await(w.life, 0, lease_over(estate));
    close(w.process);
    close(w.life);
    return w.is_closed ? WATCH_CLOSED : is_dead ? WATCH_DIED : WATCH_LEFT;
}
