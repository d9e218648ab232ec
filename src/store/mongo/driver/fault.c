/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c: decides what an error of the driver or the server means, and words it; called for every
 * command that fails. If the command may have been done, the code is HF_UNKNOWN, never a failure
 * (R2). */
#include "store/mongo/driver/fault.h"
#include "core/error.h"
#include "store/kernel_time.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"

#include <stdio.h>

#define AUTHENTICATION_FAILED 18
#define BAD_AUTH 8000 /* of Atlas */

/* Errors of the server, by number. After an error that comes before the command begins, nothing was
 * done. An error that interrupts a command may have left its write behind. */
static hf_code judge_server(int32_t code, bool writes)
{
    hf_code open = writes ? HF_UNKNOWN : HF_UNREACHABLE;
    switch (code) {
    case 10107: /* NotWritablePrimary */
    case 13435: /* NotPrimaryNoSecondaryOk */
    case 13436: /* NotPrimaryOrSecondary */
    case 133:   /* FailedToSatisfyReadPreference: the router sees no primary */
    case 134:   /* ReadConcernMajorityNotAvailableYet */
    case 112:   /* WriteConflict */
    case 13388: /* StaleConfig */
        return HF_UNREACHABLE;
    case 6:     /* HostUnreachable: the router lost the shard */
    case 7:     /* HostNotFound */
    case 89:    /* NetworkTimeout */
    case 9001:  /* SocketException */
    case 262:   /* ExceededTimeLimit */
    case 50:    /* MaxTimeMSExpired */
    case 91:    /* ShutdownInProgress */
    case 175:   /* QueryPlanKilled: the collection was dropped under it */
    case 189:   /* PrimarySteppedDown */
    case 11600: /* InterruptedAtShutdown */
    case 11601: /* Interrupted */
    case 11602: /* InterruptedDueToReplStateChange */
    case 64:    /* WriteConcernFailed */
    case 100:   /* UnsatisfiableWriteConcern */
        return open;
    case MONGO_UNAUTHORIZED:
    case AUTHENTICATION_FAILED:
    case BAD_AUTH:
        return HF_DENIED;
    case 10334: /* BSONObjectTooLarge */
    case 14031: /* OutOfDiskSpace */
    case 17419: /* the document would become too large */
    case 17420:
        return HF_FULL;
    default:
        return HF_UNUSABLE;
    }
}

/* Of what a server answers while a connection authenticates, the driver keeps the text only. One
 * that ends, or has just begun, says nothing about the user. */
static bool is_going(const char *text)
{
    static const char *const says[] = {
        "quiesce mode", "shut down",  "shutting down", "shutdown",        "interrupted",
        "not primary",  "not master", "recovering",    "HostUnreachable", NULL};
    for (const char *const *each = says; *each; each++)
        if (strstr(text, *each))
            return true;
    return false;
}

static hf_code judge(const bson_error_t *error, bool writes)
{
    switch (error->domain) {
    case MONGOC_ERROR_SERVER:
    case MONGOC_ERROR_QUERY:
        return judge_server((int32_t)error->code, writes);
    case MONGOC_ERROR_WRITE_CONCERN:
        return HF_UNKNOWN;
    case MONGOC_ERROR_SERVER_SELECTION:
        return error->code == MONGOC_ERROR_SERVER_SELECTION_BAD_WIRE_VERSION ||
                       error->code == MONGOC_ERROR_PROTOCOL_BAD_WIRE_VERSION
                   ? HF_UNUSABLE
                   : HF_UNREACHABLE;
    case MONGOC_ERROR_STREAM:
        return error->code == MONGOC_ERROR_STREAM_SOCKET && writes ? HF_UNKNOWN : HF_UNREACHABLE;
    case MONGOC_ERROR_CLIENT:
        return error->code != MONGOC_ERROR_CLIENT_AUTHENTICATE ? HF_UNUSABLE
               : is_going(error->message)                      ? HF_UNREACHABLE
                                                               : HF_DENIED;
    case MONGOC_ERROR_SASL:
    case MONGOC_ERROR_SCRAM:
        return HF_DENIED;
    case MONGOC_ERROR_PROTOCOL:
        return error->code == MONGOC_ERROR_PROTOCOL_BAD_WIRE_VERSION ? HF_UNUSABLE
               : writes                                              ? HF_UNKNOWN
                                                                     : HF_UNREACHABLE;
    case MONGOC_ERROR_POOL:
        return HF_UNREACHABLE;
    default:
        return HF_UNUSABLE;
    }
}

/* What to do about it. */
static const char *remedy_of(hf_code code)
{
    if (code == HF_UNREACHABLE)
        return "is it running, has it a primary, and does the URI name its members and replicaSet?";
    if (code == HF_UNKNOWN)
        return "it may have been done or not: repeat it, or look";
    if (code == HF_DENIED)
        return "check user, password and authSource, and give the user readWrite on this database";
    if (code == HF_FULL)
        return "make room there";
    return "see the server's log";
}

#define MAX_TIME_EXPIRED 50
#define WRITE_CONCERN_FAILED 64 /* no majority within wtimeout */

/* code: the server's, or 0. A socket's error may be a time-out, too; the driver does not tell. */
static bool may_be_late(int64_t code, const bson_error_t *error)
{
    if (code)
        return code == MAX_TIME_EXPIRED || code == WRITE_CONCERN_FAILED;
    return error->domain == MONGOC_ERROR_STREAM && error->code == MONGOC_ERROR_STREAM_SOCKET;
}

/* How long a command may take, where a key says so; the limits of beats follow from the ttl. */
static const char *limit_of(const mongo_store *store, const mongo_call *call, bool is_late,
                            char out[80])
{
    out[0] = '\0';
    if (is_late && store->uri.protocol == MONGO_SHARDING && !call->is_beat)
        snprintf(out, 80, " (a command may take %lld ms: hfCommandMS)",
                 (long long)store->uri.command_ms);
    return out;
}

#define MESSAGE_MOST 160

/* How much of the server's message is told: not the whole command, which some quote, and of a long
 * one what ends with a word. */
static int told_of(const char *message, bool *is_cut)
{
    int length = (int)strcspn(message, "{");
    *is_cut = length > MESSAGE_MOST;
    if (*is_cut) {
        const char *space = memrchr(message, ' ', MESSAGE_MOST + 1);
        length = space ? (int)(space - message) : MESSAGE_MOST;
    }
    while (length && strchr(". :", message[length - 1]))
        length--;
    return length;
}

static hf_code word_with(const mongo_store *store, const mongo_call *call, hf_code code,
                         const char *message, const char *remedy, const char *limit, hf_error *err)
{
    bool is_cut;
    int length = told_of(message, &is_cut);
    return error_set(err, code,
                     "mongodb at %.120s, database %.64s: %s%s%.80s%s failed: %.*s%s; %s%s",
                     store->uri.hosts, store->uri.database, call->what, call->name ? " \"" : "",
                     call->name ? call->name : "", call->name ? "\"" : "", length, message,
                     is_cut ? " ..." : "", remedy, limit);
}

static hf_code word(const mongo_store *store, const mongo_call *call, hf_code code, bool is_late,
                    const char *message, hf_error *err)
{
    char room[80];
    const char *limit = limit_of(store, call, is_late, room);
    return word_with(store, call, code, message, remedy_of(code), limit, err);
}

hf_code mongo_untrusted(const mongo_store *store, const mongo_call *call, const bson_error_t *error,
                        hf_error *err)
{
    return word_with(
        store, call, HF_UNUSABLE, error->message,
        "has tlsCAFile the authority that signed it, does the URI call the member as its "
        "certificate does, and has it not expired?",
        "", err);
}

/* Unlike what a user may not do, which a server says that is at work. */
static bool is_authentication(int64_t code, const bson_error_t *error)
{
    return code == AUTHENTICATION_FAILED || code == BAD_AUTH ||
           error->domain == MONGOC_ERROR_SASL || error->domain == MONGOC_ERROR_SCRAM ||
           (error->domain == MONGOC_ERROR_CLIENT &&
            error->code == MONGOC_ERROR_CLIENT_AUTHENTICATE);
}

static hf_code want_of_api(const mongo_store *store, const mongo_call *call,
                           const bson_error_t *error, hf_error *err)
{
    return word_with(store, call, HF_INVALID, error->message,
                     "it takes only commands that name a version of the Stable API "
                     "(requireApiVersion): put hfApi=1 into the URI",
                     "", err);
}

hf_code mongo_fault(mongo_store *store, const mongo_call *call, const bson_error_t *error,
                    const bson_t *reply, hf_error *err)
{
    int64_t code = reply ? mongo_int_at(reply, "code", 0) : 0;
    if (strstr(error->message, MONGO_WANTS_API))
        return want_of_api(store, call, error, err);
    hf_code meaning = code ? judge_server((int32_t)code, call->writes) : judge(error, call->writes);
    if (meaning == HF_DENIED && is_authentication(code ? code : error->code, error) &&
        !mongo_refusal_judges(&store->refusal, kernel_ms(CLOCK_MONOTONIC)))
        meaning = HF_UNREACHABLE; /* nothing was done, and the next call asks anew */
    return word(store, call, meaning, may_be_late(code, error), error->message, err);
}

/* The message beside the code, for an error inside a reply. */
static const char *message_at(const bson_t *doc, const char *path)
{
    bson_iter_t it, found;
    if (bson_iter_init(&it, doc) && bson_iter_find_descendant(&it, path, &found) &&
        BSON_ITER_HOLDS_UTF8(&found))
        return bson_iter_utf8(&found, NULL);
    return "no message";
}

hf_code mongo_write_fault(const mongo_store *store, const mongo_call *call, mongo_reply *reply,
                          hf_error *err)
{
    int64_t code = mongo_int_at(&reply->doc, "writeErrors.0.code", 0);
    if (code) {
        reply->server_code = (int32_t)code;
        return word(store, call, judge_server((int32_t)code, true), code == MAX_TIME_EXPIRED,
                    message_at(&reply->doc, "writeErrors.0.errmsg"), err);
    }
    if (bson_has_field(&reply->doc, "writeConcernError")) {
        char text[200];
        snprintf(text, sizeof text, "not acknowledged by a majority: %.150s",
                 message_at(&reply->doc, "writeConcernError.errmsg"));
        code = mongo_int_at(&reply->doc, "writeConcernError.code", 0);
        return word(store, call, HF_UNKNOWN, code == WRITE_CONCERN_FAILED, text, err);
    }
    return HF_OK;
}

/* A server that says neither names no index. */
bool mongo_is_duplicate_id(const bson_t *error)
{
    bson_t key;
    if (mongo_int_at(error, "code", 0) != MONGO_DUPLICATE)
        return false;
    if (mongo_view(error, "keyPattern", &key))
        return bson_has_field(&key, "_id");
    const char *index = strstr(message_at(error, "errmsg"), " index: ");
    return !index || strncmp(index, " index: _id_", strlen(" index: _id_")) == 0;
}

hf_code mongo_index_fault(const mongo_store *store, const mongo_call *call, hf_code code,
                          mongo_reply *reply, hf_error *err)
{
    bson_t first;
    const bson_t *error = mongo_view(&reply->doc, "writeErrors.0", &first) ? &first : &reply->doc;
    if (reply->server_code != MONGO_DUPLICATE || mongo_is_duplicate_id(error))
        return code;
    reply->server_code = MONGO_FOREIGN_INDEX;
    return word_with(store, call, HF_UNUSABLE, message_at(error, "errmsg"),
                     "another program's unique index is in the way: use a database or a collection "
                     "of Holdfast's own, or have an administrator drop the index",
                     "", err);
}

hf_code mongo_odd_reply(const mongo_store *store, const mongo_call *call, hf_error *err)
{
    return word(store, call, HF_UNUSABLE, false, "the reply is not that of a MongoDB server", err);
}
