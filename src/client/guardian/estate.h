/* SPDX-License-Identifier: Apache-2.0 */
/* estate.h: what a client leaves when it ends: the sessions that are not marked yet, the tickets
 * that may stand, and the leaves that it could not send. The guardian keeps it while the client
 * lives, from what it is told, and settles it afterwards. */
#ifndef CLIENT_GUARDIAN_ESTATE_H
#define CLIENT_GUARDIAN_ESTATE_H

#include "client/base/guardian_message.h"

struct estate_ticket {
    hf_id session, ticket;
    char *name;
};

struct estate_leave {
    char *name;
    hf_leave leave;
    hf_id upgrade;
    int64_t token;
};

/* Of one thread; written by estate.c, and by settle.c, which takes out what is settled. */
struct estate {
    char *uri;       /* NULL until the client has introduced itself */
    hf_session self; /* app, host, pid and ttl_ms of all its sessions */
    hf_id *sessions;
    size_t n_sessions;
    struct estate_ticket *tickets; /* in the order in which they came */
    size_t n_tickets;
    struct estate_leave *leaves;
    size_t n_leaves;
};

/* Notes a message; BYE changes nothing. */
void estate_note(struct estate *estate, const guardian_message *message);
/* Whether no ticket and no leave is left: a session alone keeps nobody waiting. */
bool estate_is_empty(const struct estate *estate);
void estate_drop_session(struct estate *estate, hf_id session); /* and its tickets */
void estate_drop_ticket(struct estate *estate, size_t at);
void estate_drop_leave(struct estate *estate, size_t at);
void estate_done(struct estate *estate);

#endif
