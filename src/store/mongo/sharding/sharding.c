/* SPDX-License-Identifier: Apache-2.0 */
/* sharding.c: protocol `sharding`: locks as MongoDB's own sharding keeps them, or on a config
 * server those very locks. src/core/sharding.c decides which command comes next, and whether an
 * owner has expired; this file takes and releases. The client calls it through the store interface.
 *
 * The ticket of an acquire is its ts, which stays the same over its retries, unless the caller gave
 * a lock session id: that is its ts then. */
#include "store/mongo/sharding/sharding.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/lease.h"
#include "core/record.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/fault.h"
#include "store/mongo/driver/log.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/sharding/calls.h"
#include "store/mongo/sharding/document.h"
#include "store/mongo/sharding/grabs.h"
#include "store/mongo/sharding/indexes.h"
#include "store/mongo/sharding/lease.h"
#include "store/mongo/sharding/session.h"
#include "store/mongo/sharding/waits.h"
#include "store/mongo/shared/fair.h"

#include <stdio.h>

#define ROUND_MS 10000         /* a round that has failed does not go on for longer */
#define WARN_MS 60000          /* between two warnings of one kind */
#define CONFIG_EXPIRY_MS 30000 /* MongoDB pings as often */

/* ---- One round ---- */

typedef struct acquiring {
    mongo_store *store;
    const hf_entry *entry;
    const hf_session *lease; /* NULL: a lock of this client */
    char process[SHARDING_PROCESS_MAX + 1], who[SHARDING_WHO_MAX + 1];
    sharding_taking taking;
    sharding_round round;
    hf_record holder; /* as it was read */
    hf_mono until;    /* of a round that has failed */
    hf_stamp stamp;
    hf_code code;    /* of the last command */
    bool is_unknown; /* something may have been done and not undone */
    hf_error *err;
} acquiring;

static void name_owner(acquiring *a)
{
    if (a->lease) {
        sharding_lease_process(a->lease->id, a->process);
        sharding_lease_who(a->lease, a->who);
        return;
    }
    sharding_process(a->store, a->entry->session, a->process);
    sharding_who(a->store, a->entry->session, a->who);
}

/* A lease's ticket is always its ts: any client that knows the id finds it by that. */
static hf_id ts_of(const struct mongo_sharding *own, const hf_enter *enter)
{
    if (enter->lease)
        return enter->entry.ticket;
    if (!id_is_zero(enter->lock_session))
        return enter->lock_session;
    return own->has_lock_session ? own->lock_session : enter->entry.ticket;
}

static void acquiring_init(acquiring *a, mongo_store *store, const char *name,
                           const hf_enter *enter, hf_error *err)
{
    const hf_entry *entry = &enter->entry;
    *a = (acquiring){.store = store, .entry = entry, .lease = enter->lease, .err = err};
    name_owner(a);
    a->taking = (sharding_taking){.name = name,
                                  .process = a->process,
                                  .who = a->who,
                                  .why = entry->why,
                                  .ts = ts_of(store->sharding, enter)};
    a->until = mono_add_ms(mongo_mono(store), ROUND_MS);
    record_init(&a->holder, name);
}

/* Each command that takes a lock writes a date of its own. */
static hf_code take(acquiring *a, sharding_sent *out)
{
    a->taking.when_ms = sharding_date(a->store);
    sharding_grab_set_date(a->store, a->entry->ticket, a->taking.when_ms);
    hf_code code = a->round.action == SHARDING_GRAB
                       ? sharding_grab_lock(a->store, &a->taking, out, a->err)
                       : sharding_overtake_lock(a->store, &a->taking, &a->round.seen, out, a->err);
    if (!code && mongo_text_at(&out->reply.doc, "lastErrorObject.upserted", NULL))
        sharding_settle_indexes(a->store);
    return code;
}

/* Unlocks the grab before, by its date: a late unlock then undoes no later grab. */
static hf_code undo(acquiring *a, sharding_sent *out)
{
    sharding_unlocking one = {
        .name = a->taking.name, .ts = a->taking.ts, .when_ms = a->taking.when_ms};
    return sharding_unlock(a->store, &one, 1, false, out, a->err);
}

static hf_code send_next(acquiring *a, sharding_sent *out)
{
    switch (a->round.action) {
    case SHARDING_GRAB:
    case SHARDING_OVERTAKE:
        return take(a, out);
    case SHARDING_UNLOCK:
        return undo(a, out);
    case SHARDING_READ_LOCK:
        return sharding_get_lock(a->store, a->taking.name, a->stamp, out, a->err);
    case SHARDING_READ_PING:
        return sharding_get_ping(a->store, a->round.seen.process, a->round.is_known_expired, out,
                                 a->err);
    case SHARDING_READ_SERVER:
    case SHARDING_GRANTED:
    case SHARDING_BUSY:
    case SHARDING_FAIL:
    case SHARDING_QUEUE_UNLOCK_AND_FAIL:
    case SHARDING_FAIL_FOR_WANT_OF_A_SET:
        break;
    }
    return sharding_get_server(a->store, out, a->err);
}

/* ---- Its replies ---- */

static hf_code read_lock(acquiring *a, const mongo_reply *from, sharding_reply *to)
{
    bson_t doc;
    sharding_document document;
    to->is_found = mongo_first(&from->doc, &doc);
    if (!to->is_found)
        return HF_OK;
    hf_code code = sharding_read(a->store, &doc, &document, a->err);
    if (code)
        return code;
    to->lock = document.lock;
    record_done(&a->holder);
    return sharding_read_record(a->store, &doc, &a->holder, a->err);
}

static bool is_true(const bson_t *doc, const char *field)
{
    bson_iter_t it;
    return bson_iter_init_find(&it, doc, field) && bson_iter_as_bool(&it);
}

/* An invalid ping proves neither that its owner lives nor that it has died. */
static hf_code read_ping(acquiring *a, const mongo_reply *from, sharding_reply *to)
{
    bson_t doc;
    to->is_found = mongo_first(&from->doc, &doc);
    if (!to->is_found || sharding_read_ping(&doc, &to->ping_ms))
        return HF_OK;
    return error_set(a->err, HF_SHAPE,
                     "%s, _id \"%.200s\": field ping: expected a date: whether the owner of %.128s "
                     "has died cannot be told, so the lock is not taken over; correct the ping",
                     SHARDING_PINGS, a->round.seen.process, a->taking.name);
}

/* Without the section `repl` it is a standalone, or a router. */
static hf_code read_server(acquiring *a, const bson_t *status, sharding_server *out)
{
    bson_t repl;
    bool is_member = mongo_view(status, "repl", &repl);
    out->is_primary =
        !is_member || is_true(&repl, "isWritablePrimary") || is_true(&repl, "ismaster");
    out->has_election = mongo_id_at(status, "repl.electionId", &out->election);
    if (mongo_date_at(status, "localTime", &out->local_time.ms))
        return HF_OK;
    return error_set(a->err, HF_SHAPE,
                     "serverStatus of mongodb at %.120s: field localTime: expected a date: without "
                     "it %.128s, which \"%.200s\" holds, is not taken over",
                     a->store->uri.hosts, a->taking.name, a->round.seen.process);
}

/* Without the right to ask for the server's clock nothing is taken over: the answer counts as that
 * of no primary. */
static void forgive_denial(acquiring *a, sharding_reply *to)
{
    struct mongo_sharding *own = a->store->sharding;
    pthread_mutex_lock(&own->mutex);
    bool is_said = own->is_denied_said;
    own->is_denied_said = true;
    pthread_mutex_unlock(&own->mutex);
    if (!is_said)
        mongo_log(a->store, HF_LOG_WARNING, SHARDING_NO_CLOCK);
    to->code = 0;
    to->server.is_primary = false;
}

/* `value` is the document, or null. Anything else proves nothing: the lock may be ours, and the
 * next ping unlocks it, as after a lost answer. */
static hf_code read_value(acquiring *a, const bson_t *answer, sharding_reply *to)
{
    static const mongo_call call = {.what = "acquiring"};
    bson_iter_t it;
    bool is_there = bson_iter_init_find(&it, answer, "value");
    to->is_found = is_there && BSON_ITER_HOLDS_DOCUMENT(&it);
    if (to->is_found || (is_there && BSON_ITER_HOLDS_NULL(&it)))
        return HF_OK;
    a->is_unknown = true;
    sharding_may_have_more(a->store);
    return mongo_odd_reply(a->store, &call, a->err);
}

static hf_code read_reply(acquiring *a, const sharding_sent *sent, int64_t took_ms,
                          sharding_reply *to)
{
    *to = (sharding_reply){.code = sent->number};
    switch (a->round.action) {
    case SHARDING_GRAB:
    case SHARDING_OVERTAKE:
        return sent->code ? HF_OK : read_value(a, &sent->reply.doc, to);
    case SHARDING_READ_LOCK:
        return sent->code ? HF_OK : read_lock(a, &sent->reply, to);
    case SHARDING_READ_PING:
        return sent->code ? HF_OK : read_ping(a, &sent->reply, to);
    case SHARDING_READ_SERVER:
        to->server.round_trip_ms = took_ms;
        to->server.arrived = mongo_mono(a->store);
        if (!sent->code)
            return read_server(a, &sent->reply.doc, &to->server);
        if (sent->number == MONGO_UNAUTHORIZED)
            forgive_denial(a, to);
        return HF_OK;
    case SHARDING_UNLOCK:
    case SHARDING_GRANTED:
    case SHARDING_BUSY:
    case SHARDING_FAIL:
    case SHARDING_QUEUE_UNLOCK_AND_FAIL:
    case SHARDING_FAIL_FOR_WANT_OF_A_SET:
        break;
    }
    return HF_OK;
}

/* Unknown until an unlock of it was acknowledged, or it is granted. */
static void note_outcome(acquiring *a, const sharding_sent *sent)
{
    a->code = sent->code;
    if (sent->code == HF_UNKNOWN)
        a->is_unknown = true;
    else if (!sent->code && a->round.action == SHARDING_UNLOCK)
        a->is_unknown = false;
    if (sent->reply.stamp.value)
        a->stamp = sent->reply.stamp;
}

static void decide(acquiring *a, const sharding_reply *reply)
{
    struct mongo_sharding *own = a->store->sharding;
    pthread_mutex_lock(&own->mutex);
    sharding_next(&a->round, &own->history, reply);
    pthread_mutex_unlock(&own->mutex);
}

/* One command. Not HF_OK: the round ends here. */
static hf_code advance(acquiring *a)
{
    sharding_sent sent;
    sharding_reply reply;
    hf_mono began = mongo_mono(a->store);
    send_next(a, &sent);
    int64_t took_ms = (mongo_mono(a->store).ns - began.ns + 999999) / 1000000;
    note_outcome(a, &sent);
    hf_code code = read_reply(a, &sent, took_ms, &reply);
    if (!sent.was_sent || (sent.code && mono_reached(a->until, mongo_mono(a->store))))
        code = sent.code;
    sharding_sent_done(&sent);
    if (!code)
        decide(a, &reply);
    return code;
}

/* ---- Its end ---- */

static void warn_of_clock(mongo_store *store)
{
    struct mongo_sharding *own = store->sharding;
    hf_mono now = mongo_mono(store);
    pthread_mutex_lock(&own->mutex);
    bool warns = !own->warned_at.ns || mono_reached(mono_add_ms(own->warned_at, WARN_MS), now);
    if (warns)
        own->warned_at = now;
    pthread_mutex_unlock(&own->mutex);
    if (warns)
        mongo_log(store, HF_LOG_WARNING,
                  "the clock of the primary at %s went back: while it is behind what was seen "
                  "before, no lock of an owner that has died is taken over",
                  store->uri.hosts);
}

static hf_code want_of_a_set(const acquiring *a)
{
    bool is_router = mongo_topology_of(a->store) == MONGO_ROUTER;
    return error_set(a->err, HF_UNSUPPORTED,
                     "%.128s is held, and whether its owner has died cannot be judged here: "
                     "protocol sharding needs a replica set (one member is enough)%s",
                     a->taking.name,
                     is_router ? ", and to be connected to it, not to a router"
                               : "; this server is a standalone");
}

static void granted(acquiring *a, hf_record *out)
{
    hf_entry entry = *a->entry;
    if (a->round.is_takeover)
        mongo_log(a->store, HF_LOG_INFO, "%.128s was taken over: %.200s has not pinged for %lld ms",
                  a->taking.name, a->round.seen.process,
                  (long long)a->store->sharding->settings.expiry_ms);
    sharding_grab_set_stage(a->store, entry.ticket, SHARDING_HELD);
    sharding_wait_end(a->store, entry.ticket);
    record_done(out);
    record_init(out, a->taking.name);
    out->exists = true;
    out->limit = HF_LIMIT_RW;
    out->who = alloc_text(a->who);
    entry.permits = HF_LIMIT_RW;
    if (a->lease)
        entry.ttl_ms = sharding_lease_ttl_ms(a->store);
    entry.since.ms = entry.granted_at.ms = a->taking.when_ms;
    record_append(out, &entry, true);
}

/* What the round came to. */
static hf_code conclude(acquiring *a, hf_record *out)
{
    if (a->round.clock_went_back)
        warn_of_clock(a->store);
    switch (a->round.action) {
    case SHARDING_GRANTED:
        granted(a, out);
        return HF_OK;
    case SHARDING_BUSY:
        sharding_wait_note(a->store, a->entry->ticket, a->taking.name, a->holder.who);
        record_done(out);
        record_copy(out, &a->holder);
        return HF_OK;
    case SHARDING_FAIL_FOR_WANT_OF_A_SET:
        return want_of_a_set(a);
    case SHARDING_FAIL:
    case SHARDING_QUEUE_UNLOCK_AND_FAIL:
    case SHARDING_GRAB:
    case SHARDING_UNLOCK:
    case SHARDING_READ_LOCK:
    case SHARDING_READ_PING:
    case SHARDING_READ_SERVER:
    case SHARDING_OVERTAKE:
        break;
    }
    return a->code;
}

/* The next ping unlocks a lock that may stand unknown. */
static hf_code failed(acquiring *a, hf_code code)
{
    if (!a->is_unknown || code == HF_UNKNOWN)
        return code;
    if (!a->err)
        return HF_UNKNOWN;
    hf_error why = *a->err;
    return error_set(a->err, HF_UNKNOWN, "%s", why.text);
}

/* Another thread with the same lock session id holds the lock, or asks for it: this one must not
 * overtake it. */
static hf_code tell_other(acquiring *a, const sharding_grab *other, hf_record *out)
{
    hf_entry entry = {.ticket = other->ticket, .session = other->session, .permits = HF_LIMIT_RW};
    entry.since.ms = entry.granted_at.ms = other->when_ms;
    out->exists = true;
    out->limit = HF_LIMIT_RW;
    out->who = alloc_text(a->who);
    record_append(out, &entry, true);
    return HF_OK;
}

static hf_code go_round(acquiring *a, hf_record *out)
{
    sharding_grab grab = {.name = (char *)(uintptr_t)a->taking.name,
                          .ticket = a->entry->ticket,
                          .session = a->entry->session,
                          .ts = a->taking.ts},
                  other;
    hf_code code = HF_OK;
    if (!sharding_grab_add(a->store, &grab, &other))
        return tell_other(a, &other, out);
    sharding_begin(&a->round, a->taking.name, a->taking.ts, &a->store->sharding->settings);
    while (!code && sharding_is_command(a->round.action))
        code = advance(a);
    if (!code)
        code = conclude(a, out);
    if (a->round.action != SHARDING_GRANTED || a->lease)
        sharding_grab_drop(a->store, a->entry->ticket);
    return code ? failed(a, code) : HF_OK;
}

/* It is granted when it has pinged, too. */
static hf_code go_round_for_lease(acquiring *a, hf_record *out)
{
    hf_code code = go_round(a, out);
    if (code || a->round.action != SHARDING_GRANTED)
        return code;
    code = sharding_lease_begin(a->store, a->lease->id, a->err);
    if (code)
        record_done(out);
    return code;
}

/* Of locks that are no leases, the document does not say whether Holdfast took them. */
static mongo_fair_holder holder_of(mongo_store *store, const hf_record *record)
{
    bool is_lease = record->holders && record->entries[0].ttl_ms > 0;
    return is_lease ? MONGO_FAIR_OURS : mongo_fair_guess(store, record);
}

/* The round ended after its grab was refused. If an earlier grab was in doubt, it is HF_UNKNOWN. */
static bool is_certainly_out(const acquiring *a, hf_code code)
{
    return a->round.action != SHARDING_GRANTED && (code == HF_SHAPE || code == HF_UNSUPPORTED);
}

/* A holder that is a client of Holdfast knows its own turn by its ts. */
static void tell_overtaken(const acquiring *a, hf_overtaken *out)
{
    if (a->round.action != SHARDING_GRANTED || !a->round.is_takeover || !a->holder.holders)
        return;
    out->entry = a->holder.entries[0];
    out->entry.ticket = a->round.seen.ts;
    snprintf(out->who, sizeof out->who, "%s", a->holder.who);
}

static hf_code enter(mongo_store *store, const char *name, const hf_enter *enter, hf_record *out,
                     hf_step_reply *reply, hf_error *err)
{
    acquiring a;
    hf_code code = sharding_lease_check(store, enter, err);
    if (code)
        return code;
    acquiring_init(&a, store, name, enter, err);
    if (!enter->try_only)
        mongo_fair_wait(store, name);
    code = a.lease ? go_round_for_lease(&a, out) : go_round(&a, out);
    if (!code)
        mongo_fair_note(store, out, holder_of(store, out));
    reply->stamp = a.stamp;
    reply->is_out = is_certainly_out(&a, code);
    if (!code)
        tell_overtaken(&a, &reply->overtaken);
    reply->again_ms = store->sharding->settings.poll_ms;
    record_done(&a.holder);
    return code;
}

/* ---- Leaving ---- */

/* A lock that no grab of ours accounts for is taken out only if it is still as seen. False: it has
 * changed. */
static bool is_as_seen(mongo_store *store, const char *name, hf_id ticket, sharding_document *out)
{
    hf_error err;
    bson_t doc;
    sharding_sent sent;
    bool is = !sharding_get_lock(store, name, (hf_stamp){0}, &sent, &err) &&
              mongo_first(&sent.reply.doc, &doc) && !sharding_read(store, &doc, out, &err) &&
              out->lock.state && id_equal(sharding_ticket(store, out), ticket);
    sharding_sent_done(&sent);
    return is;
}

static sharding_unlocking unlocking_of(mongo_store *store, const char *name, const hf_leave *leave,
                                       sharding_document *seen)
{
    sharding_grab grab;
    sharding_unlocking one = {.name = name, .ts = leave->ticket};
    if (sharding_grab_find(store, leave->ticket, &grab)) {
        sharding_grab_set_stage(store, leave->ticket, SHARDING_LEAVING);
        one.ts = grab.ts;
        one.when_ms = grab.when_ms;
    } else if (is_as_seen(store, name, leave->ticket, seen)) {
        one.ts = seen->lock.ts;
        one.when_ms = seen->lock.when_ms;
        one.process = seen->lock.process;
    }
    return one;
}

/* How many were held and are free now, or were freed by an earlier try without an answer. */
static int64_t count_of(const sharding_sent *sent)
{
    return mongo_int_at(&sent->reply.doc, sent->tried == 1 ? "nModified" : "n", 0);
}

static hf_code leave(mongo_store *store, const mongo_call *call, const hf_step *step,
                     hf_step_reply *reply, hf_error *err)
{
    sharding_sent sent;
    sharding_unlocking *all = alloc_array(NULL, step->n_leaves, sizeof *all);
    sharding_document *seen = alloc_array(NULL, step->n_leaves, sizeof *seen);
    for (size_t i = 0; i < step->n_leaves; i++)
        all[i] = unlocking_of(store, call->name, &step->leaves[i], &seen[i]);
    hf_code code = sharding_unlock(store, all, step->n_leaves, false, &sent, err);
    reply->confirmed = !code && count_of(&sent) >= (int64_t)step->n_leaves;
    reply->stamp = sent.reply.stamp;
    for (size_t i = 0; i < step->n_leaves && reply->confirmed; i++) {
        sharding_grab_drop(store, step->leaves[i].ticket);
        if (all[i].process)
            sharding_lease_end(store, all[i].process);
    }
    sharding_sent_done(&sent);
    free(seen);
    free(all);
    return code;
}

/* ---- The protocol ---- */

/* Leaves come first: the step may then take the same lock. */
static hf_code take_step(mongo_store *store, const mongo_call *call, const hf_step *step,
                         hf_record *out, hf_step_reply *reply, hf_error *err)
{
    hf_code code = step->n_leaves ? leave(store, call, step, reply, err) : HF_OK;
    return code ? code : enter(store, call->name, step->enter, out, reply, err);
}

/* Three pings, so that a client pings as often as MongoDB does. Others wait for the expiry in any
 * case, and a tenth of it leaves them in no doubt. No more than the expiry, so that who only looks
 * need not choose one. */
static int64_t default_ttl_ms(const mongo_uri *uri)
{
    int64_t pings_ms = 3 * uri->ping_ms, tenth_ms = uri->expiry_ms / 10;
    int64_t ttl_ms = pings_ms < tenth_ms ? pings_ms : tenth_ms;
    ttl_ms = ttl_ms < LEASE_TTL_MAX_MS ? ttl_ms : LEASE_TTL_MAX_MS;
    ttl_ms = ttl_ms > LEASE_TTL_DEFAULT_MS ? ttl_ms : LEASE_TTL_DEFAULT_MS;
    return ttl_ms < uri->expiry_ms ? ttl_ms : uri->expiry_ms;
}

static hf_code check(const mongo_uri *uri, int64_t ttl_ms, hf_error *err)
{
    if (ttl_ms <= uri->expiry_ms)
        return HF_OK;
    return error_set(err, HF_INVALID,
                     "a ttl of %lld ms is longer than hfExpiryMS=%lld: others would take a lock "
                     "over while this client still believes in it; give a shorter ttl",
                     (long long)ttl_ms, (long long)uri->expiry_ms);
}

static void warn_of_settings(mongo_store *store)
{
    const sharding_settings *settings = &store->sharding->settings;
    if (strcmp(store->uri.database, "config") == 0 && settings->expiry_ms < CONFIG_EXPIRY_MS)
        mongo_log(store, HF_LOG_WARNING,
                  "hfExpiryMS=%lld on a config server: MongoDB pings only every 30 s, so that its "
                  "locks would be taken over while it holds them",
                  (long long)settings->expiry_ms);
}

static void open_protocol(mongo_store *store)
{
    struct mongo_sharding *own = alloc_zeroed(sizeof *own);
    int64_t third_ms = lease_beat_ms(store->config.ttl_ms);
    store->sharding = own;
    pthread_mutex_init(&own->mutex, NULL);
    own->settings = sharding_defaults;
    own->settings.ping_ms = store->uri.ping_ms < third_ms ? store->uri.ping_ms : third_ms;
    own->settings.late_ping_ms = 10 * own->settings.ping_ms;
    own->settings.expiry_ms = store->uri.expiry_ms;
    own->settings.poll_ms = store->uri.poll_ms;
    own->has_lock_session =
        store->uri.lock_session && id_read(store->uri.lock_session, &own->lock_session);
    store->base.beat_ms = own->settings.ping_ms;
    warn_of_settings(store);
}

static void close_protocol(mongo_store *store, bool is_ours)
{
    struct mongo_sharding *own = store->sharding;
    if (is_ours)
        sharding_session_settle(store);
    sharding_grabs_clear(store);
    sharding_waits_clear(store);
    sharding_history_done(&own->history);
    if (is_ours)
        pthread_mutex_destroy(&own->mutex);
    free(own->owed);
    free(own);
    store->sharding = NULL;
}

static const char *changing(const mongo_store *store)
{
    (void)store;
    return "state";
}

const mongo_protocol mongo_sharding_protocol = {
    .can = HF_CAN_NOTIFY | HF_CAN_PROCESSES | HF_CAN_TELL_LOST | HF_CAN_LAST | HF_CAN_DATE,
    .wait_ms = 20000,
    .default_ttl_ms = default_ttl_ms,
    .check = check,
    .open = open_protocol,
    .close = close_protocol,
    .take = take_step,
    .leave = leave,
    .read = sharding_read_record,
    .in_use = "{'state': {'$ne': 0}}",
    .changing = changing,
    .ticket_field = "ts",
    .pings = SHARDING_PINGS,
};
