/* SPDX-License-Identifier: Apache-2.0 */
/* connection.h: a client of the driver for one call at a time, which asks all members at once who
 * the primary is, and whose waits end when another member has become it. */
#ifndef STORE_MONGO_DRIVER_CONNECTION_H
#define STORE_MONGO_DRIVER_CONNECTION_H

#include "store/mongo/driver/bound.h"
#include "store/mongo/driver/scan.h"

#include <holdfast/store.h>
#include <mongoc/mongoc.h>

typedef struct mongo_store mongo_store;

typedef struct mongo_limits {
    int64_t connect_ms, socket_ms;
    int64_t wait_ms; /* wtimeout, and maxTimeMS */
    int64_t turn_ms; /* so long a call that can wait does, before it opens another connection */
} mongo_limits;

/* Written by connection.c, by the thread whose call has it. */
typedef struct mongo_connection {
    mongo_store *store; /* constant, as the next two */
    mongoc_client_t *client;
    bool is_hinted;                /* only the member that was the primary last is asked */
    char primary[MONGO_HOST_SIZE]; /* where it leads, as the set says; "": not to a set's primary */
    mongo_scan scan;               /* of the present call, if it had to connect */
    int64_t connect_ms;            /* constant: for how long members are awaited */
    int64_t began_ms;              /* the present call; CLOCK_MONOTONIC, as the next */
    int64_t doubt_ms;              /* when it begins to doubt its server */
    int64_t until_ms;              /* when its caller waits no longer; INT64_MAX: never */
    const hf_bound *bound;         /* the caller's; NULL: none */
    mongoc_socket_t *unanswered;   /* while it waits for an answer: where that will come */
    mongoc_socket_t *watched;      /* what ends its scan, too: an answer there; or NULL */
    unsigned hurried;              /* the store's, when the present call began */
    bool is_odd;                   /* the present call had a reply that was refused: checked.c */
    /* Constant. The call has waited for longer than it should: whether its server is to be given
     * up, because another member is the primary now, or the store is being closed. It takes no
     * longer than until until_ms. stream.c asks from time to time. */
    bool (*is_given_up)(struct mongo_connection *connection, int64_t until_ms);
} mongo_connection;

/* The URI's options, which our limits replace. */
void mongo_connection_set_limits(mongoc_uri_t *uri, const mongo_limits *limits);

/* Makes one, without connecting: the first command after mongo_connection_begin() does. is_hinted:
 * it asks the primary alone, if that is known. NULL: the driver refuses the URI. */
mongo_connection *mongo_connection_new(mongo_store *store, const mongoc_uri_t *uri,
                                       const mongo_limits *limits, bool is_hinted,
                                       bson_error_t *error);
/* is_polite: says good-bye to the server, which may not answer. */
void mongo_connection_free(mongo_connection *connection, bool is_polite);

/* For how long a call may be unanswered before its server is doubted. */
#define MONGO_QUIET_MS 500

/* A call begins, which is answered within quiet_ms if all is well. */
void mongo_connection_begin(mongo_connection *connection, int64_t quiet_ms);
/* If no server could be chosen, says in *error what each member answered; if a reply was refused,
 * that it was. */
void mongo_connection_explain(const mongo_connection *connection, bson_error_t *error);
/* Its caller waits no longer, which says nothing about the server. */
bool mongo_connection_is_cut(const mongo_connection *connection);
/* No server of this store has ever answered, because a certificate does not verify. That does not
 * pass by itself; but a client that was connected asks again, as certificates are exchanged, too.
 */
bool mongo_connection_is_untrusted(const mongo_connection *connection);
/* No server was chosen, so nothing was sent. */
bool mongo_connection_is_unsent(const bson_error_t *error);

/* From now on, calls under way wait for no server that is silent: the store is being closed. */
void mongo_hurry(hf_store *store);

#endif
