/* SPDX-License-Identifier: Apache-2.0 */
/* database.c: decides whether locks may be in a database, by its name; called by uri.c. */
#include "store/mongo/driver/database.h"
#include "core/error.h"

#define NAME_MOST 63 /* bytes; the server allows no more */

/* Its members do not replicate it: after a failover, another member grants what is held. */
static hf_code refuse_local(hf_error *err)
{
    return error_set(err, HF_INVALID,
                     "no lock can be in database local: it is not replicated, so that each member "
                     "would have locks of its own. Name another, as in mongodb://HOST/DATABASE");
}

static hf_code refuse_admin(hf_error *err)
{
    return error_set(err, HF_INVALID,
                     "no lock should be in database admin: if it is where the user is defined, say "
                     "so with authSource=admin, and name the locks' database, as in "
                     "mongodb://USER@HOST/DATABASE?authSource=admin");
}

static hf_code refuse_config(hf_error *err)
{
    return error_set(err, HF_INVALID,
                     "database config is MongoDB's own: only hfProtocol=sharding locks there. Name "
                     "another, as in mongodb://HOST/DATABASE");
}

static hf_code check_servers_own(const char *database, mongo_protocol_id protocol, hf_error *err)
{
    if (strcmp(database, "local") == 0)
        return refuse_local(err);
    if (strcmp(database, "admin") == 0)
        return refuse_admin(err);
    if (strcmp(database, "config") == 0 && protocol != MONGO_SHARDING)
        return refuse_config(err);
    return HF_OK;
}

/* A name with one of the first four was hardly meant: options were, or a part of a password. */
hf_code mongo_database_check(const char *database, mongo_protocol_id protocol, hf_error *err)
{
    if (strpbrk(database, "&=;#"))
        return error_set(err, HF_INVALID,
                         "the database's name has &, =, ; or # in it: options begin with ?, as in "
                         "mongodb://HOST/DATABASE?replicaSet=NAME&hfProtocol=ttl");
    if (strpbrk(database, "/\\. \"$*<>:|?@"))
        return error_set(err, HF_INVALID,
                         "the database's name has one of / \\ . \" $ * < > : | ? @ or a space in "
                         "it: choose another name; in a password they are written as %%2F, %%40 "
                         "and so on");
    if (strlen(database) > NAME_MOST)
        return error_set(err, HF_INVALID,
                         "the database's name %.63s... is too long: it has %d "
                         "bytes at most",
                         database, NAME_MOST);
    return check_servers_own(database, protocol, err);
}
