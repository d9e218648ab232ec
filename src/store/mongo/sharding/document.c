/* SPDX-License-Identifier: Apache-2.0 */
/* document.c: the documents of protocol `sharding`: the names of processes and owners, and how to
 * read a lock's document. */
#include "store/mongo/sharding/document.h"
#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/record.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/sharding/grabs.h"
#include "store/mongo/sharding/sharding.h"
#include "store/mongo/shared/plain.h"

#include <endian.h>
#include <stdio.h>

#define LEASE_HOST "holdfast-lease"

/* ---- Names of processes ---- */

/* "host:pid:seconds:number": the last two are the session's id, as a MongoDB server writes when it
 * started and a random number. */
void sharding_process_name(const char *host, int64_t pid, hf_id session,
                           char out[SHARDING_PROCESS_MAX + 1])
{
    uint32_t seconds = 0;
    uint64_t number = 0;
    for (size_t i = 0; i < 4; i++)
        seconds = seconds << 8 | session.bytes[i];
    for (size_t i = 4; i < 12; i++)
        number = number << 8 | session.bytes[i];
    snprintf(out, SHARDING_PROCESS_MAX + 1, "%s:%lld:%lu:%lld", host, (long long)pid,
             (unsigned long)seconds, (long long)(int64_t)number);
}

void sharding_process(const mongo_store *store, hf_id session, char out[SHARDING_PROCESS_MAX + 1])
{
    const hf_session *self = &store->sharding->self;
    if (store->uri.process)
        snprintf(out, SHARDING_PROCESS_MAX + 1, "%s", store->uri.process);
    else
        sharding_process_name(self->host, self->pid, session, out);
}

/* "process:thread"; ours says the program's name there. */
void sharding_who(const mongo_store *store, hf_id session, char out[SHARDING_WHO_MAX + 1])
{
    char process[SHARDING_PROCESS_MAX + 1], hex[ID_TEXT_SIZE];
    sharding_process(store, session, process);
    id_write(session, hex);
    int length = snprintf(out, SHARDING_WHO_MAX + 1, "%s:%.100s%s%s", process,
                          store->sharding->self.app[0] ? store->sharding->self.app : "main",
                          store->uri.process ? "-" : "", store->uri.process ? hex : "");
    for (int i = (int)strlen(process) + 1; i < length; i++)
        if (out[i] == ':')
            out[i] = '.';
}

static hf_id hash_of(const char *a, const void *more, size_t size)
{
    return id_of_hash(id_hash(id_hash(ID_HASH, a, strlen(a)), more, size));
}

/* The number after the last colon before `end`, which is moved to that colon. */
static bool last_number(const char *text, const char **end, long long *out)
{
    const char *at = *end;
    char *stop;
    while (at > text && at[-1] != ':')
        at--;
    if (at == text || at == *end)
        return false;
    *out = strtoll(at, &stop, 10);
    bool is_whole = stop == *end;
    *end = at - 1;
    return is_whole;
}

static hf_id id_of(uint32_t seconds, uint64_t number)
{
    hf_id id;
    for (int i = 0; i < 4; i++)
        id.bytes[i] = (uint8_t)(seconds >> (24 - 8 * i));
    for (int i = 0; i < 8; i++)
        id.bytes[4 + i] = (uint8_t)(number >> (56 - 8 * i));
    return id;
}

hf_id sharding_session(const char *process, const char *who)
{
    hf_id id;
    long long number, seconds;
    const char *end = process + strlen(process), *dash = strrchr(who, '-');
    if (dash && strlen(dash + 1) == ID_TEXT_SIZE - 1 && id_read(dash + 1, &id))
        return id;
    if (last_number(process, &end, &number) && last_number(process, &end, &seconds) &&
        seconds >= 0 && seconds <= UINT32_MAX)
        return id_of((uint32_t)seconds, (uint64_t)number);
    return hash_of(process, NULL, 0);
}

/* ---- ID leases ---- */

/* "host:pid:seconds:number", as other processes are named. */
void sharding_lease_process(hf_id session, char out[SHARDING_PROCESS_MAX + 1])
{
    sharding_process_name(LEASE_HOST, 0, session, out);
}

void sharding_lease_who(const hf_session *lease, char out[SHARDING_WHO_MAX + 1])
{
    char process[SHARDING_PROCESS_MAX + 1];
    sharding_lease_process(lease->id, process);
    snprintf(out, SHARDING_WHO_MAX + 1, "%s:%.100s@%.50s", process, lease->app, lease->host);
}

bool sharding_is_lease(const char *process)
{
    return strncmp(process, LEASE_HOST ":", sizeof LEASE_HOST) == 0;
}

int32_t sharding_lease_ttl_ms(const mongo_store *store)
{
    int64_t half = store->sharding->settings.expiry_ms / 2;
    return half < INT32_MAX ? (int32_t)half : INT32_MAX;
}

/* ---- Reading ---- */

/* Any whole number; -1: not a number, or an unknown one. */
static int64_t find_state(const bson_t *doc)
{
    bson_iter_t it;
    int64_t state = mongo_int_at(doc, "state", -1);
    if (state < 0 || state > 2 || !bson_iter_init_find(&it, doc, "state"))
        return -1;
    return !BSON_ITER_HOLDS_DOUBLE(&it) || bson_iter_double(&it) == (double)state ? state : -1;
}

hf_code sharding_read(const mongo_store *store, const bson_t *doc, sharding_document *out,
                      hf_error *err)
{
    const char *name = mongo_text_at(doc, "_id", ""), *process = mongo_text_at(doc, "process", "");
    *out = (sharding_document){.lock = {.state = find_state(doc)}};
    mongo_date_at(doc, "when", &out->lock.when_ms);
    if (!name[0] || strlen(name) > HF_NAME_MAX)
        return mongo_plain_shape(store, name, "_id", "a string of 1 to 512 bytes", err);
    if (out->lock.state < 0)
        return mongo_plain_shape(store, name, "state", "0, 1 or 2", err);
    if (out->lock.state && !mongo_id_at(doc, "ts", &out->lock.ts))
        return mongo_plain_shape(store, name, "ts", "an ObjectId", err);
    if (out->lock.state && (!process[0] || strlen(process) > SHARDING_PROCESS_MAX))
        return mongo_plain_shape(store, name, "process", "a string of 1 to 384 bytes", err);
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(out->lock.process, sizeof out->lock.process, "%.*s", SHARDING_PROCESS_MAX, process);
    snprintf(out->who, sizeof out->who, "%s", mongo_text_at(doc, "who", ""));
    snprintf(out->why, sizeof out->why, "%s", mongo_text_at(doc, "why", ""));
    out->session = sharding_session(process, mongo_text_at(doc, "who", ""));
    return HF_OK;
}

/* A lock of this session whose grab ended before it arrived is named by its ts. */
hf_id sharding_ticket(mongo_store *store, const sharding_document *document)
{
    const sharding_lock *lock = &document->lock;
    sharding_grab grab;
    if (sharding_is_lease(lock->process))
        return lock->ts;
    if (sharding_grab_of_lock(store, document->name, lock, &grab))
        return grab.ticket;
    pthread_mutex_lock(&store->mutex);
    bool is_own = id_equal(document->session, store->self.id);
    pthread_mutex_unlock(&store->mutex);
    if (is_own && !store->sharding->has_lock_session && !sharding_grab_is_older(store, lock))
        return lock->ts;
    const struct {
        hf_id ts;
        int32_t unused; /* the same bytes on every processor */
        uint64_t when_ms;
    } mark = {.ts = lock->ts, .when_ms = htole64((uint64_t)lock->when_ms)};
    return hash_of(lock->process, &mark, sizeof mark);
}

hf_code sharding_read_record(mongo_store *store, const bson_t *doc, hf_record *out, hf_error *err)
{
    sharding_document document;
    hf_code code = sharding_read(store, doc, &document, err);
    if (code)
        return code;
    record_init(out, document.name);
    out->exists = true;
    out->limit = HF_LIMIT_RW;
    if (!document.lock.state)
        return HF_OK;
    hf_entry entry = {.ticket = sharding_ticket(store, &document),
                      .session = document.session,
                      .permits = HF_LIMIT_RW};
    if (sharding_is_lease(document.lock.process))
        entry.ttl_ms = sharding_lease_ttl_ms(store);
    entry.since.ms = entry.granted_at.ms = document.lock.when_ms;
    snprintf(entry.why, sizeof entry.why, "%s", document.why);
    out->who = alloc_text(document.who[0] ? document.who : document.lock.process);
    record_append(out, &entry, true);
    return HF_OK;
}

bool sharding_read_ping(const bson_t *doc, int64_t *ping_ms)
{
    bson_iter_t it;
    if (!bson_iter_init_find(&it, doc, "ping") || !BSON_ITER_HOLDS_DATE_TIME(&it))
        return false;
    *ping_ms = bson_iter_date_time(&it);
    return true;
}
