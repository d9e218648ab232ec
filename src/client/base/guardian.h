/* SPDX-License-Identifier: Apache-2.0 */
/* guardian.h: a process that gives this client's locks back when this process is killed; the client
 * starts it and tells it what there would be to give back. What the guardian itself does stands in
 * client/guardian/. Without one, or when it has ended, every call here does nothing. No call waits,
 * but for a moment at the end: what a guardian is too slow to hear is lost, and then the lease
 * decides, as without a guardian. */
#ifndef CLIENT_BASE_GUARDIAN_H
#define CLIENT_BASE_GUARDIAN_H

#include "client/base/guardian_message.h"

#include <stdatomic.h>

struct guardian {
    char *command, *uri; /* constant; NULL: no guardian is wanted */
    /* Written by the thread that begins the first session; others read them after that. */
    bool was_started;
    int fd;   /* to the guardian, -1: there is none */
    int life; /* a pipe's writing end: the guardian waits until nobody has it; -1: there is none */
    atomic_bool has_ended, is_said; /* it hears no more; and that was logged */
};

/* command: the path of `holdfast`; NULL: no guardian. Only a crash that does not show at once, in a
 * store that other processes share, is worth one. */
void guardian_init(hf_client *client, const char *command, const char *uri);
void guardian_free(hf_client *client); /* says nothing */

/* Before the session is begun. Starts the guardian with the first one. */
void guardian_begin(hf_client *client, const hf_session *self);
/* It was marked as ended, so that others take out what stands of it. From any thread. */
void guardian_session_over(hf_client *client, hf_id session);

/* Before an enter with the ticket is sent. */
void guardian_ticket(hf_client *client, hf_id session, hf_id ticket, const char *name);
/* It is certainly out, or became another's. With or without the client's mutex. 0: nothing. */
void guardian_out(hf_client *client, hf_id ticket);

/* ---- At the end ---- */

/* What could not be sent: the guardian sends it. */
void guardian_leave(hf_client *client, const char *name, const hf_leave *leave, hf_id upgrade,
                    int64_t token);
/* Nothing more comes. */
void guardian_bye(hf_client *client);

/* A copy of `life` for a child to inherit, without FD_CLOEXEC; or -1. */
int guardian_keep_fd(const hf_client *client);

/* ---- guardian_start.c ---- */

/* Starts `command guardian 3`, whose descriptor 3 is the other end of *fd. It has no terminal, no
 * files and no parent of its own. 0, or errno. */
int guardian_start(const char *command, int *fd);

#endif
