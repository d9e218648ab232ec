/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c: asks the server what it is, and refuses what is no MongoDB; called before the first
 * session. A grab is an upsert of a free lock, so two clients hold a lock at once on a server whose
 * upserts are not atomic. Whether they are cannot be tried; so the server's own word counts. */
#include "store/mongo/sharding/engine.h"
#include "core/error.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/sharding/sharding.h"

/* As its versions 1 and 2 say it; NULL: it is another server. */
static const char *version_of_ferret(const bson_t *info)
{
    return mongo_text_at(info, "ferretdbVersion", mongo_text_at(info, "ferretdb.version", NULL));
}

/* A server that refuses to say what it is, as MongoDB may, passes. */
hf_code sharding_check_engine(mongo_store *store, hf_error *err)
{
    static const mongo_call call = {.what = "asking what the server is", .database = "admin"};
    mongo_reply reply;
    if (atomic_load(&store->sharding->is_known))
        return HF_OK;
    bson_t command = BSON_INITIALIZER;
    BSON_APPEND_INT32(&command, "buildInfo", 1);
    hf_code code = mongo_run(store, &call, &command, &reply, err);
    const char *version = code ? NULL : version_of_ferret(&reply.doc);
    bson_destroy(&command);
    if (version)
        code = error_set(err, HF_UNUSABLE,
                         "mongodb at %s is FerretDB %.40s, on which two can hold one lock of "
                         "protocol sharding, as its upserts are not atomic: use MongoDB",
                         store->uri.hosts, version);
    else if (reply.server_code)
        code = HF_OK;
    atomic_store(&store->sharding->is_known, code == HF_OK);
    bson_destroy(&reply.doc);
    return code;
}
