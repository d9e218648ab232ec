/* SPDX-License-Identifier: Apache-2.0 */
/* uri.c: reads our keys in a URI, and takes them out before the driver sees the rest; called by
 * mongo.c when a store is opened. */
#include "store/mongo/driver/uri.h"
#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/sharding.h"
#include "core/text.h"
#include "store/mongo/driver/builder.h"
#include "store/mongo/driver/database.h"
#include "store/mongo/driver/ignored.h"
#include "store/mongo/driver/password.h"

#include <stdio.h>
#include <strings.h>

const char *const mongo_protocol_names[] = {[MONGO_QUEUE] = "queue",
                                            [MONGO_TTL] = "ttl",
                                            [MONGO_DOCUMENT] = "document",
                                            [MONGO_SHARDING] = "sharding"};
#define N_PROTOCOLS (sizeof mongo_protocol_names / sizeof *mongo_protocol_names)

static hf_code set_protocol(mongo_uri *out, const char *value, hf_error *err)
{
    for (size_t i = 0; i < N_PROTOCOLS; i++)
        if (strcmp(value, mongo_protocol_names[i]) == 0) {
            out->protocol = (mongo_protocol_id)i;
            return HF_OK;
        }
    return error_set(err, HF_UNSUPPORTED,
                     "hfProtocol=%.40s: there are hfProtocol=queue, ttl, document and sharding",
                     value);
}

/* Nor may any other be `system.history`, say. */
static bool is_systems(const char *name)
{
    return strncmp(name, "system", 6) == 0 && (name[6] == '.' || !name[6]);
}

static hf_code set_collection(mongo_uri *out, const char *value, hf_error *err)
{
    size_t length = strlen(value);
    if (!length || length > 120 || strchr(value, '$') || value[0] == '.' ||
        value[length - 1] == '.' || strstr(value, "..") || is_systems(value))
        return error_set(err, HF_INVALID,
                         "hfCollection=%.120s cannot hold locks: choose another name", value);
    free(out->given);
    out->given = alloc_text(value);
    return HF_OK;
}

static hf_code set_weak(mongo_uri *out, const char *value, hf_error *err)
{
    out->weak = strcmp(value, "yes") == 0;
    if (out->weak || strcmp(value, "no") == 0)
        return HF_OK;
    return error_set(err, HF_INVALID, "hfWeakWrites=%.40s: it is yes or no", value);
}

/* ---- Keys of some protocols only ---- */

typedef struct special {
    const char *name, *protocol;
    enum { FIELD, NUMBER, WORD, PROCESS, LOCK_SESSION, PREFIX } kind;
    size_t offset;       /* in mongo_uri: of an int64_t (NUMBER), an unsigned (WORD), or a char * */
    int64_t least, most; /* of a NUMBER; least 0: 1 */
    const char *words[5]; /* of a WORD: the first is the default */
} special;

#define KEY(key, protocols, how, field)                                                            \
    .name = key, .protocol = protocols, .kind = how, .offset = offsetof(mongo_uri, field)

static const special keys[] = {
    {KEY("hfShape", "ttl", WORD, shape),
     .words = {[MONGO_SHAPE_UPDATED] = "updated", [MONGO_SHAPE_EXPIRE_AT] = "expire-at"}},
    {KEY("hfTimeField", "ttl document", FIELD, time_field)},
    {KEY("hfOwnerField", "ttl", FIELD, owner_field)},
    {KEY("hfExpireAfterSeconds", "ttl", NUMBER, expire_after_s), .most = INT32_MAX},
    {KEY("hfFair", "ttl document sharding", NUMBER, fair), .most = 1},
    {KEY("hfPollMS", "ttl document sharding", NUMBER, poll_ms), .most = 3600000},
    {KEY("hfStreamWrites", "ttl document sharding", NUMBER, stream_writes), .most = INT32_MAX},
    {KEY("hfNamePrefix", "queue ttl sharding", PREFIX, name_prefix)},
    {KEY("hfApi", "queue ttl document sharding", WORD, api), .words = {"0", "1"}},
    {KEY("hfHistory", "queue ttl document sharding", WORD, history),
     .words = {[MONGO_HISTORY_ON] = "1", [MONGO_HISTORY_OFF] = "0"}},
    {KEY("hfLockField", "document", FIELD, lock_field)},
    {KEY("hfTokenField", "document", FIELD, token_field)},
    {KEY("hfElement", "document", FIELD, element)},
    {KEY("hfLockIdType", "document", WORD, lock_id_type),
     .words = {[MONGO_LOCK_ID_OBJECT_ID] = "objectId",
               [MONGO_LOCK_ID_UUID] = "uuid",
               [MONGO_LOCK_ID_UUID_LEGACY] = "uuidLegacy",
               [MONGO_LOCK_ID_STRING] = "string"}},
    {KEY("hfTimeMeans", "document", WORD, time_means),
     .words = {[MONGO_TIME_REFRESHED] = "refreshed", [MONGO_TIME_EXPIRES] = "expires"}},
    {KEY("hfNoTimeMeans", "document", WORD, no_time_means),
     .words = {[MONGO_NO_TIME_HELD] = "held", [MONGO_NO_TIME_STALE] = "stale"}},
    {KEY("hfRefreshMS", "document", NUMBER, refresh_ms), .most = 3600000},
    {KEY("hfStaleMultiplier", "document", NUMBER, multiplier), .most = 1000},
    {KEY("hfPingMS", "sharding", NUMBER, ping_ms), .most = 3600000},
    {KEY("hfExpiryMS", "sharding", NUMBER, expiry_ms), .most = INT64_C(7) * 86400000},
    {KEY("hfCommandMS", "sharding", NUMBER, command_ms), .least = 1000, .most = 60000},
    {KEY("hfProcess", "sharding", PROCESS, process)},
    {KEY("hfLockSession", "sharding", LOCK_SESSION, lock_session)},
};
#define N_KEYS (sizeof keys / sizeof *keys)

/* Fields that protocol ttl writes besides. */
static bool is_taken(const char *field)
{
    static const char *const ours[] = {"_id",  "ticket", "session", "ttl_ms", "app",
                                       "host", "pid",    "why",     "since",  "hf_left"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(field, ours[i]) == 0)
            return true;
    return false;
}

static hf_code refuse_field(const special *k, const char *value, hf_error *err)
{
    return error_set(err, HF_INVALID,
                     "%s=%.100s: a field's name has letters, digits, _ and -, and is none that "
                     "Holdfast writes besides; with protocol document it may be a path like a.b",
                     k->name, value);
}

static hf_code set_field(const special *k, const char *value, char **out, hf_error *err)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    size_t length = strspn(value, plain);
    if (!length || value[length] || length > 100)
        return refuse_field(k, value, err);
    free(*out);
    *out = alloc_text(value);
    return HF_OK;
}

static hf_code set_number(const special *k, const char *value, int64_t *out, hf_error *err)
{
    char *end;
    long long number = strtoll(value, &end, 10);
    long long least = k->least ? k->least : 1;
    if (!value[0] || *end || number < least || number > k->most)
        return error_set(err, HF_INVALID, "%s=%.40s: it is a whole number from %lld to %lld",
                         k->name, value, least, (long long)k->most);
    *out = number;
    return HF_OK;
}

/* The owner's _id in lockpings; what follows it in `who` is set off by a colon. */
static hf_code set_process(const special *k, const char *value, char **out, hf_error *err)
{
    if (!value[0] || strlen(value) > 200)
        return error_set(err, HF_INVALID, "%s=%.100s: it has 1 to 200 bytes", k->name, value);
    free(*out);
    *out = alloc_text(value);
    return HF_OK;
}

static hf_code set_lock_session(const special *k, const char *value, char **out, hf_error *err)
{
    hf_id id;
    if (!id_read_whole(value, &id))
        return error_set(err, HF_INVALID,
                         "%s=%.40s: it is 24 lower-case hexadecimal digits, not all 0", k->name,
                         value);
    free(*out);
    *out = alloc_text(value);
    return HF_OK;
}

static hf_code set_prefix(const special *k, const char *value, char **out, hf_error *err)
{
    hf_code code = text_check(k->name, value, HF_TEXT_MAX, err);
    if (code)
        return code;
    free(*out);
    *out = alloc_text(value);
    return HF_OK;
}

static hf_code set_word(const special *k, const char *value, unsigned *out, hf_error *err)
{
    char all[100] = "";
    for (unsigned i = 0; k->words[i]; i++) {
        if (strcmp(value, k->words[i]) == 0) {
            *out = i;
            return HF_OK;
        }
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s",
                 !i                ? ""
                 : k->words[i + 1] ? ", "
                                   : " or ",
                 k->words[i]);
    }
    return error_set(err, HF_INVALID, "%s=%.40s: it is %s", k->name, value, all);
}

static hf_code set_special(const special *k, const char *value, void *at, hf_error *err)
{
    switch (k->kind) {
    case FIELD:
        return set_field(k, value, at, err);
    case NUMBER:
        return set_number(k, value, at, err);
    case WORD:
        return set_word(k, value, at, err);
    case PROCESS:
        return set_process(k, value, at, err);
    case LOCK_SESSION:
        return set_lock_session(k, value, at, err);
    case PREFIX:
        return set_prefix(k, value, at, err);
    }
    return HF_OK;
}

static hf_code set_key(mongo_uri *out, const char *name, const char *value, hf_error *err)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        if (strcmp(name, keys[i].name) != 0)
            continue;
        out->keys |= 1u << i;
        return set_special(&keys[i], value, (char *)out + keys[i].offset, err);
    }
    return error_set(
        err, HF_INVALID,
        "unknown key %.80s in the URI: known are hfProtocol, hfCollection, "
        "hfWeakWrites, hfNamePrefix, hfHistory, hfApi, and for protocol ttl hfShape, hfTimeField, "
        "hfOwnerField, "
        "hfExpireAfterSeconds, for document hfLockField, hfTimeField, hfTokenField, "
        "hfElement, hfLockIdType, hfTimeMeans, hfNoTimeMeans, hfRefreshMS, hfStaleMultiplier, "
        "for sharding hfPingMS, hfExpiryMS, hfCommandMS, "
        "hfProcess, hfLockSession, and for all three hfPollMS, hfFair, hfStreamWrites",
        name);
}

/* The other protocols write whole documents, at whose top the fields are. */
static hf_code check_field(const mongo_uri *uri, const special *k, hf_error *err)
{
    const char *value = *(char *const *)(const void *)((const char *)uri + k->offset);
    bool is_path = uri->protocol == MONGO_DOCUMENT;
    bool is_id = strcspn(value, ".") == 3 && strncmp(value, "_id", 3) == 0;
    bool is_well = is_path ? !is_id && value[0] != '.' && value[strlen(value) - 1] != '.' &&
                                 !strstr(value, "..")
                           : !strchr(value, '.') && !is_taken(value);
    return is_well ? HF_OK : refuse_field(k, value, err);
}

/* Nothing interrupts these pauses: no wait and no close is late by much more. */
#define FAIR_MOST_MS 2000

static hf_code check_fair(const mongo_uri *uri, hf_error *err)
{
    if (!uri->fair || uri->poll_ms <= FAIR_MOST_MS)
        return HF_OK;
    return error_set(
        err, HF_INVALID,
        "hfPollMS=%lld: with hfFair=1 it is %d at most, because tries wait for as long",
        (long long)uri->poll_ms, FAIR_MOST_MS);
}

static hf_code check_keys(const mongo_uri *uri, hf_error *err)
{
    const char *name = mongo_protocol_names[uri->protocol];
    for (size_t i = 0; i < N_KEYS; i++) {
        if (!(uri->keys & 1u << i))
            continue;
        if (!strstr(keys[i].protocol, name))
            return error_set(err, HF_INVALID, "%s is for hfProtocol=%s, not for %s", keys[i].name,
                             keys[i].protocol, name);
        hf_code code = keys[i].kind == FIELD ? check_field(uri, &keys[i], err) : HF_OK;
        if (code)
            return code;
    }
    return check_fair(uri, err);
}

static hf_code set_ours(mongo_uri *out, const char *key, const char *value, hf_error *err)
{
    if (strcmp(key, "hfProtocol") == 0)
        return set_protocol(out, value, err);
    if (strcmp(key, "hfCollection") == 0)
        return set_collection(out, value, err);
    if (strcmp(key, "hfWeakWrites") == 0)
        return set_weak(out, value, err);
    return set_key(out, key, value, err);
}

/* After a wrong sign, a key would be a part of the host, the database or a value. */
static hf_code refuse_misplaced(const char *rest, const char *name, hf_error *err)
{
    char key[40];
    snprintf(key, sizeof key, "%s=", name);
    if (!strcasestr(rest, key))
        return HF_OK;
    return error_set(err, HF_INVALID,
                     "%s is not among the options of the URI: they begin with ?, and & stands "
                     "between them, as in mongodb://HOST/DATABASE?replicaSet=NAME&hfProtocol=ttl",
                     key);
}

static hf_code check_misplaced(const char *rest, hf_error *err)
{
    static const char *const general[] = {"hfProtocol", "hfCollection", "hfWeakWrites"};
    hf_code code = HF_OK;
    for (size_t i = 0; !code && i < sizeof general / sizeof *general; i++)
        code = refuse_misplaced(rest, general[i], err);
    for (size_t i = 0; !code && i < N_KEYS; i++)
        code = refuse_misplaced(rest, keys[i].name, err);
    return code;
}

static void set_default(char **field, const char *value)
{
    if (!*field)
        *field = alloc_text(value);
}

/* The stale time if the URI does not set it: safe beside the article's programs, which refresh
 * every 30 s. */
#define STALE_MS 180000
#define ARTICLE_REFRESH_MS 30000

static void set_stale_time(mongo_uri *out)
{
    out->foreign_refresh_ms = out->refresh_ms ? out->refresh_ms : ARTICLE_REFRESH_MS;
    if (!out->refresh_ms)
        out->refresh_ms = 5000;
    if (out->multiplier)
        return;
    int64_t enough = (STALE_MS + out->refresh_ms - 1) / out->refresh_ms;
    out->multiplier = enough > 3 ? enough : 3;
}

static void split_element(mongo_uri *out)
{
    const char *dot = out->element ? strchr(out->element, '.') : NULL;
    if (!dot)
        return;
    out->array = alloc_text(out->element);
    out->array[dot - out->element] = '\0';
    out->element_key = dot + 1;
}

static void set_defaults(mongo_uri *out)
{
    out->collection = mongo_names_init(&out->names, out->given, out->protocol == MONGO_QUEUE);
    split_element(out);
    if (out->protocol == MONGO_DOCUMENT)
        set_default(&out->time_field, "lockTs");
    set_default(&out->lock_field, "lockId");
    set_stale_time(out);
    set_default(&out->time_field, out->shape == MONGO_SHAPE_EXPIRE_AT ? "ExpireAt" : "updated");
    set_default(&out->owner_field, "acquirer");
    if (!out->poll_ms)
        out->poll_ms = out->protocol == MONGO_SHARDING ? sharding_defaults.poll_ms : 100;
    if (!out->stream_writes)
        out->stream_writes = 500;
    if (!out->ping_ms)
        out->ping_ms = sharding_defaults.ping_ms;
    if (!out->command_ms)
        out->command_ms = MONGO_COMMAND_MS;
    if (!out->expiry_ms)
        out->expiry_ms = sharding_defaults.expiry_ms;
    if (out->shape == MONGO_SHAPE_UPDATED && !out->expire_after_s)
        out->expire_after_s = 600;
}

/* Percent-decoding, in place; a broken sequence stays as it is. */
static void decode(char *text)
{
    char *to = text;
    unsigned code;
    int used;
    for (; *text; to++) {
        if (sscanf(text, "%%%2x%n", &code, &used) == 1 && used == 3 && code) {
            *to = (char)code;
            text += 3;
        } else {
            *to = *text++;
        }
    }
    *to = '\0';
}

static hf_code read_ours(mongo_uri *out, const char *item, size_t length, hf_error *err)
{
    char *key = alloc_array(NULL, length + 1, 1);
    memcpy(key, item, length);
    key[length] = '\0';
    char *value = strchr(key, '=');
    if (value)
        *value++ = '\0';
    else
        value = key + length;
    decode(value);
    hf_code code = set_ours(out, key, value, err);
    free(key);
    return code;
}

/* Version 2 of the driver takes an @ for the end of a password, wherever it stands. */
static char *copy_option(char *to, const char *item, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (item[i] == '@')
            to = stpcpy(to, "%40");
        else
            *to++ = item[i];
    return to;
}

/* Copies the URI without our keys into `rest`, which is thrice as large as the text. */
static hf_code split(mongo_uri *out, const char *text, char *rest, hf_error *err)
{
    size_t length = strcspn(text, "?");
    memcpy(rest, text, length);
    char *to = rest + length;
    char joint = '?';
    for (const char *item = text + length; *item;) {
        item++;
        length = strcspn(item, "&");
        if (strncasecmp(item, "hf", 2) == 0) {
            hf_code code = read_ours(out, item, length, err);
            if (code)
                return code;
        } else if (length) {
            *to++ = joint;
            joint = '&';
            to = copy_option(to, item, length);
        }
        item += length;
    }
    *to = '\0';
    return HF_OK;
}

static char *hosts_of(const mongoc_uri_t *uri)
{
    const char *srv = mongoc_uri_get_srv_hostname(uri);
    if (srv)
        return alloc_text(srv);
    mongo_builder all = builder_begin("");
    for (const mongoc_host_list_t *each = mongoc_uri_get_hosts(uri); each; each = each->next)
        builder_add_format(&all, "%s%s", all.length ? "," : "", each->host_and_port);
    return all.text;
}

static hf_code read_driver(mongo_uri *out, const char *rest, hf_error *err)
{
    bson_error_t error;
    out->driver = mongoc_uri_new_with_error(rest, &error);
    if (!out->driver) {
        bool has_user = strchr(rest, '@');
        if (has_user)
            mongo_password_hide(error.message);
        return error_set(err, HF_INVALID,
                         "the MongoDB URI cannot be read: %s; it is like "
                         "mongodb://HOST:PORT,HOST:PORT/DATABASE?replicaSet=NAME%s%s",
                         error.message, has_user ? "; in a user and a password " : "",
                         has_user ? MONGO_PASSWORD_SIGNS : "");
    }
    const char *database = mongoc_uri_get_database(out->driver);
    out->database = alloc_text(database && database[0] ? database : "holdfast");
    out->hosts = hosts_of(out->driver);
    out->ignored = mongo_ignored_options(rest, out->driver);
    return mongo_database_check(out->database, out->protocol, err);
}

hf_code mongo_uri_read(const char *text, mongo_uri *out, hf_error *err)
{
    char *rest = alloc_array(NULL, strlen(text) + 1, 3);
    *out = (mongo_uri){.protocol = MONGO_QUEUE};
    hf_code code = mongo_password_check(text, err);
    if (!code)
        code = split(out, text, rest, err);
    if (!code)
        code = check_keys(out, err);
    if (!code)
        code = check_misplaced(rest, err);
    if (!code)
        code = read_driver(out, rest, err);
    set_defaults(out);
    if (code)
        mongo_uri_done(out);
    free(rest);
    return code;
}

void mongo_uri_done(mongo_uri *uri)
{
    if (uri->driver)
        mongoc_uri_destroy(uri->driver);
    free(uri->hosts);
    free(uri->ignored);
    free(uri->database);
    free(uri->given);
    free(uri->collection);
    mongo_names_done(&uri->names);
    free(uri->time_field);
    free(uri->owner_field);
    free(uri->lock_field);
    free(uri->token_field);
    free(uri->element);
    free(uri->array);
    free(uri->process);
    free(uri->lock_session);
    free(uri->name_prefix);
    *uri = (mongo_uri){.weak = false};
}
