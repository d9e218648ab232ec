/* SPDX-License-Identifier: Apache-2.0 */
/* database.h: whether locks may be in a database. */
#ifndef STORE_MONGO_DRIVER_DATABASE_H
#define STORE_MONGO_DRIVER_DATABASE_H

#include "store/mongo/driver/uri.h"

/* HF_INVALID, with the remedy, if protocol `protocol` may not lock in this database. */
hf_code mongo_database_check(const char *database, mongo_protocol_id protocol, hf_error *err);

#endif
