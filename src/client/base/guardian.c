/* SPDX-License-Identifier: Apache-2.0 */
/* guardian.c: tells a guardian what its client has; see guardian.h. Called by what begins and ends
 * sessions, enters and releases. */
#include "client/base/guardian.h"

#include "client/base/client.h"

#include "core/alloc.h"
#include "core/id.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define DESCRIPTORS 2 /* that come along with HELLO: the process, and the end of the pipe */
#define GIVEN "fd:"   /* in place of a command: that socket leads to a guardian */
#define LAST_MS 2000  /* for a guardian that is slow to hear what is said at the end */

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void guardian_init(hf_client *client, const char *command, const char *uri)
{
    struct guardian *guardian = &client->guardian;
    unsigned can = client->store->can;
    bool is_worth_it = can & HF_CAN_PROCESSES && !(can & HF_CAN_SEE_CRASH);
    if (!command || !is_worth_it)
        return;
    guardian->command = alloc_text(command);
    guardian->uri = alloc_text(uri);
}

void guardian_free(hf_client *client)
{
    struct guardian *guardian = &client->guardian;
    close_one(&guardian->fd);
    close_one(&guardian->life);
    free(guardian->command);
    free(guardian->uri);
}

/* ---- Telling ---- */

static bool is_full(int number)
{
    return number == EAGAIN || number == EINTR || number == ENOBUFS;
}

/* Returns whether there was no room for it. */
static bool tell(hf_client *client, const guardian_message *message)
{
    char bytes[GUARDIAN_MESSAGE_MAX];
    struct guardian *guardian = &client->guardian;
    if (guardian->fd < 0 || guardian->has_ended)
        return false;
    size_t n = guardian_message_write(message, bytes);
    bool failed = n && send(guardian->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0;
    bool is_gone = failed && !is_full(errno);
    if (is_gone)
        guardian->has_ended = true;
    return failed && !is_gone;
}

/* For what is said once, at the end: waits for room, but not twice for a guardian that is stopped.
 */
static void tell_at_last(hf_client *client, const guardian_message *message)
{
    struct pollfd fd = {.fd = client->guardian.fd, .events = POLLOUT};
    while (tell(client, message))
        client->guardian.has_ended |= poll(&fd, 1, LAST_MS) == 0;
}

static void warn(hf_client *client, const char *what, int number)
{
    client_log(client, number == ENOSYS ? HF_LOG_INFO : HF_LOG_WARNING, /* an old kernel */
               "%.200s %s%s%s: if this process is killed, its locks stand until their leases are "
               "over",
               client->guardian.command, what, number ? ": " : "", number ? strerror(number) : "");
}

/* Not under the client's mutex. */
static void warn_if_ended(hf_client *client)
{
    struct guardian *guardian = &client->guardian;
    if (guardian->has_ended && !atomic_exchange(&guardian->is_said, true))
        warn(client, "guardian has ended", 0);
}

/* ---- Starting ---- */

/* The guardian learns from the kernel, by these, when this process is gone, and when all that have
 * inherited the pipe are. */
static bool send_hello(hf_client *client, int process, int pipe_end)
{
    char bytes[GUARDIAN_MESSAGE_MAX];
    union {
        char room[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
        struct cmsghdr aligned;
    } control = {.room = {0}};
    guardian_message hello = {.kind = GUARDIAN_HELLO, .uri = client->guardian.uri};
    hello.session.pid = client->identity.pid;
    memcpy(hello.session.app, client->identity.app, sizeof client->identity.app);
    memcpy(hello.session.host, client->identity.host, sizeof client->identity.host);
    struct iovec part = {.iov_base = bytes, .iov_len = guardian_message_write(&hello, bytes)};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.room,
                            .msg_controllen = sizeof control.room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&packet);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(DESCRIPTORS * sizeof(int));
    memcpy(CMSG_DATA(head), (int[DESCRIPTORS]){process, pipe_end}, DESCRIPTORS * sizeof(int));
    return part.iov_len && sendmsg(client->guardian.fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

/* The socket to one that runs already, or a new one. */
static int find_or_start(struct guardian *guardian)
{
    if (strncmp(guardian->command, GIVEN, strlen(GIVEN)) != 0)
        return guardian_start(guardian->command, &guardian->fd);
    guardian->fd = atoi(guardian->command + strlen(GIVEN));
    return fcntl(guardian->fd, F_SETFD, FD_CLOEXEC) < 0 ? errno : 0;
}

/* Whatever fails is a warning: the lease decides then, as without a guardian. */
static void start(hf_client *client)
{
    struct guardian *guardian = &client->guardian;
    int ends[2] = {-1, -1}, process = pidfd_open(getpid(), 0);
    const char *what = "guardian cannot watch this process";
    int failed = process < 0 || pipe2(ends, O_CLOEXEC) < 0 ? errno : 0;
    if (!failed) {
        what = "guardian cannot be started";
        failed = find_or_start(guardian);
    }
    guardian->life = ends[1];
    if (!failed && !send_hello(client, process, ends[0]))
        failed = errno;
    close_one(&ends[0]);
    close_one(&process);
    if (!failed)
        return;
    close_one(&guardian->fd);
    close_one(&guardian->life);
    warn(client, what, failed);
}

void guardian_begin(hf_client *client, const hf_session *self)
{
    struct guardian *guardian = &client->guardian;
    guardian_message begins = {.kind = GUARDIAN_SESSION, .session = *self};
    if (guardian->command && !guardian->was_started)
        start(client);
    guardian->was_started = true;
    tell(client, &begins);
    warn_if_ended(client);
}

/* ---- What there would be to give back ---- */

void guardian_session_over(hf_client *client, hf_id session)
{
    tell(client, &(guardian_message){.kind = GUARDIAN_SESSION_OVER, .session = {.id = session}});
}

void guardian_ticket(hf_client *client, hf_id session, hf_id ticket, const char *name)
{
    tell(client, &(guardian_message){.kind = GUARDIAN_TICKET,
                                     .session = {.id = session},
                                     .leave = {.ticket = ticket},
                                     .name = name});
    warn_if_ended(client);
}

void guardian_out(hf_client *client, hf_id ticket)
{
    if (!id_is_zero(ticket))
        tell(client, &(guardian_message){.kind = GUARDIAN_OUT, .leave = {.ticket = ticket}});
}

void guardian_leave(hf_client *client, const char *name, const hf_leave *leave, hf_id upgrade,
                    int64_t token)
{
    tell_at_last(client, &(guardian_message){.kind = GUARDIAN_LEAVE,
                                             .name = name,
                                             .leave = *leave,
                                             .upgrade = upgrade,
                                             .token = token});
}

void guardian_bye(hf_client *client)
{
    tell_at_last(client, &(guardian_message){.kind = GUARDIAN_BYE});
    close_one(&client->guardian.fd);
}

int guardian_keep_fd(const hf_client *client)
{
    int life = client->guardian.life;
    return life < 0 ? -1 : fcntl(life, F_DUPFD, STDERR_FILENO + 1);
}
