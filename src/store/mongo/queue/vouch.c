/* SPDX-License-Identifier: Apache-2.0 */
/* vouch.c: decides for requests that may not wait, and for the sweep, whether an overdue session is
 * dead (R6), and writes what beats must carry for that; called by session.c, sessions.c and
 * sweep_sessions.c.
 *
 * No date decides, neither a server's nor a host's: dates can be set, and a server and a client may
 * share one clock. Only this host's CLOCK_BOOTTIME decides. The server's clock says which sessions
 * to look at. */
#include "store/mongo/queue/vouch.h"
#include "core/id.h"
#include "core/lease.h"
#include "store/document.h"
#include "store/host.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/state.h"

#include <stdio.h>

#define SIGHTINGS_MOST 32    /* hosts whose sightings are kept */
#define SIGHTING_MS 86400000 /* so long at least */

/* ---- This host's clock ---- */

/* The scope of one CLOCK_BOOTTIME: one boot of one machine, and one offset. */
void mongo_find_boot(char out[MONGO_BOOT_MAX])
{
    char boot[40], clock[HOST_CLOCK_SIZE];
    out[0] = '\0';
    host_read_clock(clock);
    if (clock[0] && host_read_line(HOST_BOOT_ID, boot, sizeof boot))
        snprintf(out, MONGO_BOOT_MAX, "%s %s", boot, clock);
}

static int64_t boot_ms(const mongo_store *store)
{
    return mongo_mono(store).ns / 1000000;
}

static bool is_here(const mongo_store *store, const bson_t *doc, const char *path)
{
    return store->queue->boot[0] && strcmp(mongo_text_at(doc, path, ""), store->queue->boot) == 0;
}

/* Since `field`, a time of this host; nothing where it is not there. */
static int64_t elapsed_ms(const mongo_store *store, const bson_t *doc, const char *field)
{
    int64_t now_ms = boot_ms(store), ms;
    return __builtin_sub_overflow(now_ms, mongo_int_at(doc, field, now_ms), &ms) ? 0 : ms;
}

/* Call it before the request that carries it is sent: the lease counts from then (R4). */
void mongo_append_clock(const mongo_store *store, bson_t *to)
{
    bson_t clock;
    BSON_APPEND_DOCUMENT_BEGIN(to, "clock", &clock);
    if (store->queue->boot[0]) {
        BSON_APPEND_UTF8(&clock, "boot", store->queue->boot);
        BSON_APPEND_INT64(&clock, "at", boot_ms(store));
    }
    bson_append_document_end(to, &clock);
}

/* ---- Sightings ---- R5 with a host as the watcher: it saw this beat, and sees it again a ttl and
 * the allowance later, by one clock that does not jump. */

typedef enum sighting { SIGHTING_NONE, SIGHTING_YOUNG, SIGHTING_OLD } sighting;

static sighting sighting_of(const mongo_store *store, const bson_t *doc,
                            const hf_session_state *state)
{
    int64_t watch_ms = lease_watch_end((hf_mono){0}, state->session.ttl_ms).ns / 1000000 + 1;
    sighting found = SIGHTING_NONE;
    bson_t all, one;
    bson_iter_t it;
    if (!mongo_view(doc, "sightings", &all) || !bson_iter_init(&it, &all))
        return found;
    while (found != SIGHTING_OLD && mongo_next(&it, &one)) {
        bool is_of_beat = mongo_int_at(&one, "beat", -1) == state->beat;
        if (is_here(store, &one, "boot") && is_of_beat)
            found = elapsed_ms(store, &one, "at") > watch_ms ? SIGHTING_OLD : SIGHTING_YOUNG;
    }
    return found;
}

/* Sightings of earlier beats are removed. If there are too many, the first hosts stay, so that each
 * of them can finish. A host that has not come back for a day, by the server's clock, makes room.
 */
static const char sight_text[] =
    "{'$let': {'vars': {'all': {'$concatArrays': ["
    "{'$filter': {'input': {'$ifNull': ['$sightings', []]},"
    " 'cond': {'$eq': ['$$this.beat', '$beat']}}},"
    " [{'$mergeObjects': ['$$x.seen', {'date': '$$NOW'}]}]]}},"
    " 'in': {'$let': {'vars': {'first': {'$arrayElemAt': ['$$all', 0]}}, 'in': {'$mergeObjects': ["
    "'$$ROOT', {'sightings': {'$slice': ['$$all', {'$cond': [{'$lt': ['$$first.date',"
    " {'$subtract': ['$$NOW', '$$x.kept_ms']}]}, {'$subtract': [0, '$$x.most']}, '$$x.most']}]}}]"
    "}}}}}";

void mongo_append_unchanged(const hf_session_state *state, bson_t *statement)
{
    bson_t query, dead;
    BSON_APPEND_DOCUMENT_BEGIN(statement, "q", &query);
    document_append_id(&query, "_id", state->session.id);
    BSON_APPEND_INT64(&query, "beat", state->beat);
    BSON_APPEND_DOCUMENT_BEGIN(&query, "dead", &dead);
    BSON_APPEND_BOOL(&dead, "$ne", true);
    bson_append_document_end(&query, &dead);
    bson_append_document_end(statement, &query);
}

void mongo_append_sighting(const mongo_store *store, const hf_session_state *state,
                           bson_t *statement)
{
    bson_t seen, x = BSON_INITIALIZER;
    BSON_APPEND_DOCUMENT_BEGIN(&x, "seen", &seen);
    BSON_APPEND_UTF8(&seen, "boot", store->queue->boot);
    BSON_APPEND_INT64(&seen, "beat", state->beat);
    BSON_APPEND_INT64(&seen, "at", boot_ms(store));
    bson_append_document_end(&x, &seen);
    BSON_APPEND_INT32(&x, "most", SIGHTINGS_MOST);
    BSON_APPEND_INT64(&x, "kept_ms", SIGHTING_MS);
    mongo_append_unchanged(state, statement);
    pipeline_append_text(statement, "u", sight_text, &x);
    bson_destroy(&x);
}

/* Best effort: if it fails, the next look from this host has to begin anew. */
static void leave_sighting(mongo_store *store, const hf_session_state *state)
{
    static const mongo_call call = {.what = "noting an overdue session", .writes = true};
    bson_t command = BSON_INITIALIZER, updates, update;
    mongo_reply reply;
    mongo_begin(&command, "update", store->uri.names.sessions);
    BSON_APPEND_ARRAY_BEGIN(&command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    mongo_append_sighting(store, state, &update);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(&command, &updates);
    mongo_append_write_concern(store, &command, false);
    mongo_run(store, &call, &command, &reply, NULL);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
}

/* ---- The verdict ---- */

/* For a session of this host: the clock since boot says when its lease ended, whatever a server's
 * clock says.
 */
static bool is_vouched(const mongo_store *store, const bson_t *doc, const hf_session_state *state,
                       int64_t trust_ms)
{
    return -state->lease_left_ms > trust_ms && is_here(store, doc, "clock.boot") &&
           elapsed_ms(store, doc, "clock.at") > state->session.ttl_ms + trust_ms;
}

mongo_verdict mongo_judge_overdue(const mongo_store *store, const bson_t *doc,
                                  const hf_session_state *state, int64_t trust_ms)
{
    if (trust_ms < 0 || state->lease_left_ms >= 0 || state->presence != HF_LIVE)
        return MONGO_OVERDUE_LIVES;
    if (is_vouched(store, doc, state, trust_ms))
        return MONGO_OVERDUE_GONE;
    sighting seen = sighting_of(store, doc, state);
    if (seen == SIGHTING_NONE && store->queue->boot[0])
        return MONGO_OVERDUE_UNSEEN;
    return seen == SIGHTING_OLD ? MONGO_OVERDUE_GONE : MONGO_OVERDUE_LIVES;
}

bool mongo_is_gone(mongo_store *store, const bson_t *doc, const hf_session_state *state,
                   int64_t trust_ms)
{
    mongo_verdict verdict = mongo_judge_overdue(store, doc, state, trust_ms);
    if (verdict == MONGO_OVERDUE_UNSEEN)
        leave_sighting(store, state);
    return verdict == MONGO_OVERDUE_GONE;
}
