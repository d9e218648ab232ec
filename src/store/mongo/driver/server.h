/* SPDX-License-Identifier: Apache-2.0 */
/* server.h: what kind of server there is. */
#ifndef STORE_MONGO_DRIVER_SERVER_H
#define STORE_MONGO_DRIVER_SERVER_H

#include "store/mongo/driver/store.h"

typedef enum mongo_topology { MONGO_UNSEEN, MONGO_SET, MONGO_ROUTER, MONGO_ALONE } mongo_topology;

/* Finds out, once, what kind of server there is; for the start of every call. */
hf_code mongo_ready(mongo_store *store, hf_error *err);
hf_code mongo_connect(hf_store *store, hf_error *err); /* the same, for the client */
mongo_topology mongo_topology_of(mongo_store *store);

/* {serverStatus: 1}, without the sections that are not needed. */
void mongo_append_server_status(bson_t *command);

#endif
