/* SPDX-License-Identifier: Apache-2.0 */
/* guardian_message.h: what a client tells its guardian, each message in one packet of a socket
 * (SOCK_SEQPACKET), so that it arrives whole or not at all. The client writes them (guardian.c),
 * the guardian reads them (guardian/watch.c). */
#ifndef CLIENT_BASE_GUARDIAN_MESSAGE_H
#define CLIENT_BASE_GUARDIAN_MESSAGE_H

#include <holdfast/store.h>

#define GUARDIAN_FORMAT 1 /* of the messages; a guardian of another format ends at once */
#define GUARDIAN_MESSAGE_MAX 32768

typedef enum guardian_kind {
    GUARDIAN_HELLO = 1,    /* uri, session.app, .host and .pid; two descriptors come along */
    GUARDIAN_SESSION,      /* session.id, .ttl_ms: it is about to begin */
    GUARDIAN_SESSION_OVER, /* session.id: it is marked as ended */
    GUARDIAN_TICKET, /* session.id, leave.ticket, name: an enter with it is about to be sent */
    GUARDIAN_OUT,    /* leave.ticket: it is certainly out */
    GUARDIAN_LEAVE,  /* name, leave, upgrade, token: it is left to the guardian */
    GUARDIAN_BYE,    /* the client is closed */
} guardian_kind;

/* Its texts belong to the writer, or point into the packet that was read. The members that
 * its kind does not name are 0. */
typedef struct guardian_message {
    guardian_kind kind;
    const char *uri, *name;
    hf_session session;
    hf_leave leave;
    hf_id upgrade; /* leaves in the same step */
    int64_t token; /* of the grant that is left */
} guardian_message;

/* Returns how many bytes were written; 0: it does not fit. */
size_t guardian_message_write(const guardian_message *message, char bytes[GUARDIAN_MESSAGE_MAX]);
/* False: the bytes are no message of this format. */
bool guardian_message_read(const char *bytes, size_t n, guardian_message *out);

#endif
