/* SPDX-License-Identifier: Apache-2.0 */
/* vouch.c: by which clocks a session that is overdue counts as dead at first sight, for requests
 * that may not wait (R6), and what its beats say for that; called by session.c and sessions.c.
 *
 * No single wall clock decides, and a server does not say whether its own was set (its uptime
 * follows it). So the server's clock and one that has nothing to do with it must agree. */
#include "store/mongo/queue/vouch.h"
#include "core/id.h"
#include "core/lease.h"
#include "store/document.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/lane.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/state.h"

#include <stdio.h>
#include <unistd.h>

#define DAY_MS 86400000
#define SIGHTINGS_MOST 32 /* hosts whose sightings are kept */

/* ---- This host's clock ---- */

/* What has the same CLOCK_BOOTTIME: one boot of one machine, and one time namespace. */
void mongo_find_boot(char out[MONGO_BOOT_MAX])
{
    char boot[40] = "", clock[40] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool any = file && fgets(boot, sizeof boot, file);
    ssize_t n = readlink("/proc/self/ns/time", clock, sizeof clock - 1);
    boot[strcspn(boot, "\n")] = '\0';
    snprintf(out, MONGO_BOOT_MAX, "%s%s%s", any ? boot : "", any && n > 0 ? " " : "",
             any && n > 0 ? clock : "");
    if (file)
        fclose(file);
}

static int64_t boot_ms(const mongo_store *store)
{
    return store->config.env->mono(store->config.env->ctx).ns / 1000000;
}

static int64_t wall_ms(const mongo_store *store)
{
    return store->config.env->wall(store->config.env->ctx).ms;
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

/* ---- What a beat says ---- */

/* Of the primary that this connection knows: no round trip. Known too late it is that of a primary
 * of before, and then nobody vouches by it. */
static bool known_election(mongo_store *store, bool is_beat, hf_id *out)
{
    static const mongo_call call = {.what = "connecting"};
    mongo_lane *lane = is_beat ? &store->beats : &store->work;
    mongoc_client_t *client;
    bool any = false;
    size_t n;
    if (mongo_take(store, lane, &call, &client, NULL))
        return false;
    mongoc_server_description_t **servers = mongoc_client_get_server_descriptions(client, &n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(mongoc_server_description_type(servers[i]), "RSPrimary") == 0)
            any = mongo_id_at(mongoc_server_description_hello_response(servers[i]), "electionId",
                              out);
    mongoc_server_descriptions_destroy_all(servers, n);
    mongo_give(lane, client, false);
    return any;
}

/* To be called before what carries it is sent: a lease counts from then (R4). */
void mongo_append_origin(mongo_store *store, bool is_beat, bson_t *to)
{
    bson_t clock;
    hf_id election;
    if (known_election(store, is_beat, &election))
        document_append_id(to, "election", election);
    BSON_APPEND_DOCUMENT_BEGIN(to, "clock", &clock);
    if (store->queue->boot[0]) {
        BSON_APPEND_UTF8(&clock, "boot", store->queue->boot);
        BSON_APPEND_INT64(&clock, "at", boot_ms(store));
    }
    BSON_APPEND_DATE_TIME(&clock, "wall", wall_ms(store));
    bson_append_document_end(to, &clock);
}

/* ---- Sightings ----
 * What R5 asks of one watcher, asked of a host: it saw this beat, and sees it again a ttl and the
 * allowance later, by one clock that does not jump. */

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

/* Those of earlier beats go, and the first hosts stay, so that each of them comes to its end. */
static const char sight_text[] =
    "{'$mergeObjects': ['$$ROOT', {'sightings': {'$slice': [{'$concatArrays': ["
    "{'$filter': {'input': {'$ifNull': ['$sightings', []]},"
    " 'cond': {'$eq': ['$$this.beat', '$beat']}}}, ['$$x']]}, '$$x.most']}}]}";

static void append_sighting(const mongo_store *store, const hf_session_state *state,
                            bson_t *command)
{
    bson_t updates, update, query, dead, x = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&x, "boot", store->queue->boot);
    BSON_APPEND_INT64(&x, "beat", state->beat);
    BSON_APPEND_INT64(&x, "at", boot_ms(store));
    BSON_APPEND_INT32(&x, "most", SIGHTINGS_MOST);
    mongo_begin(command, "update", MONGO_SESSIONS);
    BSON_APPEND_ARRAY_BEGIN(command, "updates", &updates);
    BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "q", &query);
    document_append_id(&query, "_id", state->session.id);
    BSON_APPEND_INT64(&query, "beat", state->beat);
    BSON_APPEND_DOCUMENT_BEGIN(&query, "dead", &dead);
    BSON_APPEND_BOOL(&dead, "$ne", true);
    bson_append_document_end(&query, &dead);
    bson_append_document_end(&update, &query);
    pipeline_append_text(&update, "u", sight_text, &x);
    bson_append_document_end(&updates, &update);
    bson_append_array_end(command, &updates);
    bson_destroy(&x);
}

/* Best effort: without it the next look from this host knows as little as this one. */
static void leave_sighting(mongo_store *store, const hf_session_state *state)
{
    static const mongo_call call = {.what = "noting an overdue session", .writes = true};
    bson_t command = BSON_INITIALIZER;
    mongo_reply reply;
    append_sighting(store, state, &command);
    mongo_append_write_concern(store, &command, false);
    mongo_run(store, &call, &command, &reply, NULL);
    bson_destroy(&reply.doc);
    bson_destroy(&command);
}

/* ---- The verdict ---- */

/* The election of the primary of this moment, which no description that is kept can tell. */
static void ask_election(mongo_store *store, mongo_primary *primary)
{
    static const mongo_call call = {.what = "asking who is primary", .database = "admin"};
    mongo_reply reply;
    if (primary->is_asked)
        return;
    primary->is_asked = true;
    bson_t *command = pipeline_json("{'hello': 1}");
    if (mongo_run(store, &call, command, &reply, NULL) == HF_OK)
        primary->is_known = mongo_id_at(&reply.doc, "electionId", &primary->election);
    bson_destroy(&reply.doc);
    bson_destroy(command);
}

/* By the dates of its host and of this one, where the server that took its last beat has been
 * primary ever since, so that its clock is the one that says the same. */
static bool is_over_by_dates(mongo_store *store, const bson_t *doc, int64_t longest_ms,
                             mongo_primary *primary)
{
    int64_t told_ms;
    hf_id election;
    if (!mongo_date_at(doc, "clock.wall", &told_ms) || !mongo_id_at(doc, "election", &election) ||
        wall_ms(store) - told_ms <= longest_ms)
        return false;
    ask_election(store, primary);
    return primary->is_known && id_equal(primary->election, election);
}

/* On this host its own clock alone says it, whatever a server's does. */
static bool is_vouched(mongo_store *store, const bson_t *doc, const hf_session_state *state,
                       int64_t trust_ms, mongo_primary *primary)
{
    int64_t longest_ms = state->session.ttl_ms + trust_ms;
    if (is_here(store, doc, "clock.boot"))
        return elapsed_ms(store, doc, "clock.at") > longest_ms;
    return -state->lease_left_ms > DAY_MS || is_over_by_dates(store, doc, longest_ms, primary);
}

bool mongo_is_gone(mongo_store *store, const bson_t *doc, const hf_session_state *state,
                   int64_t trust_ms, mongo_primary *primary)
{
    int64_t overdue_ms = -state->lease_left_ms;
    if (trust_ms < 0 || overdue_ms <= 0 || state->presence != HF_LIVE)
        return false;
    bool is_over = overdue_ms > trust_ms && is_vouched(store, doc, state, trust_ms, primary);
    sighting seen = is_over ? SIGHTING_OLD : sighting_of(store, doc, state);
    if (seen == SIGHTING_NONE && store->queue->boot[0])
        leave_sighting(store, state);
    return seen == SIGHTING_OLD;
}
