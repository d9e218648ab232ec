/* SPDX-License-Identifier: Apache-2.0 */
/* diary.c: notes turns that end, few for each lock, and writes them into the store's history now
 * and then; see diary.h. */
#include "client/hold/hold.h"

#include "core/alloc.h"
#include "core/id.h"

#include <stdlib.h>
#include <string.h>

#define TURNS_MOST 4000    /* of all locks */
#define TURNS_AT_ONCE 1000 /* written in one call of the store, ... */
#define TURNS_EARLY 500    /* ... and before they are due, when so many have gathered */
#define TURNS_OF_ONE 20    /* of one lock, until they are written */
#define WRITE_MOST_MS 5000 /* a turn waits no longer, if the store takes it */

bool diary_is_kept(const hf_client *client)
{
    const hf_store *store = client->store;
    return store->can & HF_CAN_HISTORY && store->ops->history_add && !client->hold->diary.is_off;
}

/* ---- The store's clock ---- */

hf_dbtime diary_time_locked(hf_client *client, hf_mono at)
{
    const struct diary *diary = &client->hold->diary;
    if (diary->knows_time)
        return (hf_dbtime){diary->said.ms + (at.ns - diary->heard.ns) / 1000000};
    return (hf_dbtime){client_wall(client).ms + (at.ns - client_now(client).ns) / 1000000};
}

/* What was heard first counts more than what came by a longer way, but less as it ages: clocks
 * differ in speed, and another primary has another clock. */
static bool is_better_known(const struct diary *diary, int64_t error_ns, hf_mono now)
{
    return diary->knows_time && diary->error_ns + (now.ns - diary->heard.ns) / 1000 < error_ns;
}

/* Whether the store says when a lock was granted. The times in documents may be other programs'. */
static bool dates_grants(const hf_client *client)
{
    return client->store->can & (HF_CAN_QUEUE | HF_CAN_DATE);
}

/* Halfway through the round trip. */
void diary_hear_locked(hf_client *client, hf_mono sent, hf_mono now, hf_dbtime said)
{
    struct diary *diary = &client->hold->diary;
    int64_t error_ns = (now.ns - sent.ns) / 2;
    bool is_said = dates_grants(client) && said.ms;
    if (!is_said || is_better_known(diary, error_ns, now))
        return;
    diary->knows_time = true;
    diary->heard.ns = sent.ns + error_ns;
    diary->error_ns = error_ns;
    diary->said = said;
}

/* ---- A turn ---- */

/* A grant that a notice told, or another thread passed on, came when it was believed. */
static hf_dbtime granted_at(const struct hf_lock *lock)
{
    bool is_said = lock->grant.granted_at.ms && dates_grants(lock->client);
    return is_said ? lock->grant.granted_at : diary_time_locked(lock->client, lock->belief.born);
}

hf_dbtime diary_ended_at_locked(hf_client *client, hf_dbtime granted)
{
    hf_dbtime now = diary_time_locked(client, client_now(client));
    return now.ms < granted.ms ? granted : now;
}

/* Whether anybody had it. If an ID lease may have its place, the turn is the lease's. */
static bool is_turn(const struct hf_lock *lock)
{
    return !lock->turn.lingers && !lock_gives_back(lock) && !lock->leaving.is_passing;
}

static hf_turn_note note_of(const struct hf_lock *lock, const hf_leave *leave, hf_turn_end end)
{
    const struct grant *grant = &lock->grant;
    hf_client *client = lock->client;
    hf_dbtime granted = granted_at(lock);
    bool is_told_why = end != HF_TURN_RELEASED && !leave->reason[0];
    return (hf_turn_note){.name = lock->name,
                          .who = client->identity.who,
                          .actor = grant->actor,
                          .why = grant->enter.entry.why,
                          .reason = is_told_why ? lock->loss.why.text : leave->reason,
                          .ticket = grant->ticket,
                          .session = grant->session,
                          .token = grant->token,
                          .permits = grant->permits,
                          .limit = grant->enter.limit,
                          .granted_at = granted,
                          .ended_at = diary_ended_at_locked(client, granted),
                          .end = end,
                          .has_exit_status = leave->has_exit_status,
                          .exit_status = leave->exit_status};
}

struct history_turn *diary_turn_locked(const struct hf_lock *lock, hf_turn_end end)
{
    if (!diary_is_kept(lock->client) || !is_turn(lock))
        return NULL;
    const hf_leave leave = lock_leave(lock);
    const hf_turn_note note = note_of(lock, &leave, end);
    return history_copy(&note);
}

/* ---- Noting it ---- */

static struct history_turn **bucket_of(struct diary *diary, const char *name)
{
    return &diary->of[id_hash(ID_HASH, name, strlen(name)) % DIARY_BUCKETS];
}

/* Of this lock; *newest: where the newest stands. */
static size_t count(struct history_turn **bucket, const char *name, struct history_turn ***newest)
{
    size_t n = 0;
    for (struct history_turn **at = bucket; *at; at = &(*at)->next)
        if (strcmp((*at)->note.name, name) == 0 && !n++)
            *newest = at;
    return n;
}

/* Turns that ended otherwise are never left out for those. */
static bool is_ordinary(const hf_turn_note *note)
{
    return note->end == HF_TURN_RELEASED && !(note->has_exit_status && note->exit_status);
}

/* The newest says how things are now: it takes the place of the one before, and counts it. */
static void replace(struct history_turn **at, struct history_turn *turn)
{
    struct history_turn *gone = *at;
    turn->note.more = gone->note.more + 1 + turn->note.more;
    turn->next = gone->next;
    *at = turn;
    free(gone);
}

static void push(struct diary *diary, struct history_turn **bucket, struct history_turn *turn)
{
    turn->next = *bucket;
    *bucket = turn;
    diary->n++;
}

static void drop(struct diary *diary, struct history_turn *turn)
{
    hf_dbtime at = turn->note.ended_at;
    if (!diary->dropped || at.ms < diary->dropped_from.ms)
        diary->dropped_from = at;
    if (!diary->dropped || at.ms > diary->dropped_to.ms)
        diary->dropped_to = at;
    diary->dropped += 1 + turn->note.more;
    free(turn);
}

/* The history says what it lacks. NULL: nothing; or the store does not answer, and more may come.
 */
static struct history_turn *missing_locked(hf_client *client)
{
    struct diary *diary = &client->hold->diary;
    if (!diary->dropped || diary->has_failed)
        return NULL;
    const hf_turn_note note = {.name = "",
                               .who = client->identity.who,
                               .actor = "",
                               .why = "",
                               .reason = "",
                               .ticket = client_new_id(client),
                               .granted_at = diary->dropped_from,
                               .ended_at = diary->dropped_to,
                               .end = HF_TURN_MISSING,
                               .more = diary->dropped};
    diary->dropped = 0;
    return history_copy(&note);
}

static int64_t pause_ms(const hf_client *client)
{
    int64_t beat_ms = lease_beat_ms(client->ttl_ms);
    return beat_ms < WRITE_MOST_MS ? beat_ms : WRITE_MOST_MS;
}

static void plan_locked(hf_client *client)
{
    struct diary *diary = &client->hold->diary;
    bool is_early = diary->n >= TURNS_EARLY && !diary->has_failed;
    hf_mono now = client_now(client);
    if (diary->due.ns != MONO_NEVER.ns && (!is_early || mono_reached(diary->due, now)))
        return;
    diary->due = is_early ? now : mono_add_ms(now, pause_ms(client));
    if (!client->closing.has_begun)
        ticker_start_locked(client, TICK_SWEEP, NULL); /* without a session, none has begun */
    ticker_poke(client, TICK_SWEEP);
}

/* Of one lock, turns come here in the order in which they ended. The end of one that was taken out
 * is by the store's clock, but that of this client's own is an estimate, which may be earlier. */
static void keep_order(const hf_client *client, const struct history_turn *newest,
                       struct history_turn *turn)
{
    if (dates_grants(client) && turn->note.ended_at.ms < newest->note.ended_at.ms)
        turn->note.ended_at = newest->note.ended_at;
}

void diary_add_locked(hf_client *client, struct history_turn *turn)
{
    struct diary *diary = &client->hold->diary;
    if (!turn)
        return;
    struct history_turn **bucket = bucket_of(diary, turn->note.name), **newest = NULL;
    size_t n = count(bucket, turn->note.name, &newest);
    if (n)
        keep_order(client, *newest, turn);
    if (n >= TURNS_OF_ONE && is_ordinary(&turn->note) && is_ordinary(&(*newest)->note))
        replace(newest, turn);
    else if (diary->n < TURNS_MOST || turn->note.end == HF_TURN_MISSING)
        push(diary, bucket, turn);
    else
        drop(diary, turn);
    plan_locked(client);
}

void diary_note_locked(const struct hf_lock *lock, hf_turn_end end)
{
    diary_add_locked(lock->client, diary_turn_locked(lock, end));
}

void diary_note_other(hf_client *client, const hf_turn_note *note)
{
    MUTEX_SCOPE(&client->mutex);
    if (diary_is_kept(client))
        diary_add_locked(client, history_copy(note));
}

/* ---- Writing ---- */

struct batch {
    struct history_turn **turns;
    size_t n, written;
};

static int is_later(const void *a, const void *b)
{
    const hf_turn_note *one = &(*(struct history_turn *const *)a)->note;
    const hf_turn_note *other = &(*(struct history_turn *const *)b)->note;
    return (one->ended_at.ms > other->ended_at.ms) - (one->ended_at.ms < other->ended_at.ms);
}

/* All, the oldest first. */
static struct batch *take_locked(hf_client *client)
{
    struct diary *diary = &client->hold->diary;
    struct batch *batch = alloc_zeroed(sizeof *batch);
    struct history_turn *missing = missing_locked(client);
    batch->turns = alloc_array(NULL, diary->n + 1, sizeof(struct history_turn *));
    for (size_t i = 0; i < DIARY_BUCKETS; i++) {
        for (struct history_turn *turn = diary->of[i]; turn; turn = turn->next)
            batch->turns[batch->n++] = turn;
        diary->of[i] = NULL;
    }
    if (missing)
        batch->turns[batch->n++] = missing;
    diary->n = 0;
    diary->due = MONO_NEVER;
    qsort(batch->turns, batch->n, sizeof *batch->turns, is_later);
    return batch;
}

static void batch_free(struct batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        free(batch->turns[i]);
    free(batch->turns);
    free(batch);
}

static hf_code send_some(hf_client *client, const struct batch *batch, size_t n, hf_error *err)
{
    hf_turn_note *notes = alloc_array(NULL, n, sizeof *notes);
    for (size_t i = 0; i < n; i++)
        notes[i] = batch->turns[batch->written + i]->note;
    hf_code code = client->store->ops->history_add(client->store, notes, n, err);
    free(notes);
    return code;
}

static hf_code send(hf_client *client, struct batch *batch, hf_error *err)
{
    hf_code code = HF_OK;
    while (batch->written < batch->n && !code) {
        size_t left = batch->n - batch->written, n = left < TURNS_AT_ONCE ? left : TURNS_AT_ONCE;
        code = send_some(client, batch, n, err);
        batch->written += code ? 0 : n;
    }
    return code;
}

/* They are tried again: what was written already stays as it is. */
static void put_back_locked(hf_client *client, struct batch *batch)
{
    for (size_t i = batch->written; i < batch->n; i++)
        diary_add_locked(client, batch->turns[i]);
    batch->n = batch->written;
}

static void refused_locked(hf_client *client)
{
    client->hold->diary.is_off = true;
    batch_free(take_locked(client));
}

static void write(hf_client *client, struct batch *batch)
{
    hf_error err;
    hf_code code = send(client, batch, &err);
    bool is_refused = code && !hf_code_retryable(code);
    pthread_mutex_lock(&client->mutex);
    client->hold->diary.has_failed = code;
    if (is_refused)
        refused_locked(client);
    else if (code)
        put_back_locked(client, batch);
    else if (client->hold->diary.dropped)
        plan_locked(client);
    pthread_mutex_unlock(&client->mutex);
    if (is_refused)
        client_log(client, HF_LOG_INFO, "no history of the locks is kept: %s", err.text);
    batch_free(batch);
}

hf_mono diary_tick(hf_client *client, hf_mono now)
{
    struct diary *diary = &client->hold->diary;
    pthread_mutex_lock(&client->mutex);
    struct batch *batch = mono_reached(diary->due, now) ? take_locked(client) : NULL;
    pthread_mutex_unlock(&client->mutex);
    if (batch)
        write(client, batch);
    MUTEX_SCOPE(&client->mutex);
    return diary->due;
}

void diary_close(hf_client *client, bool store_answers)
{
    pthread_mutex_lock(&client->mutex);
    struct batch *batch = take_locked(client);
    pthread_mutex_unlock(&client->mutex);
    if (batch->n && store_answers)
        send(client, batch, NULL);
    batch_free(batch);
}

void diary_free(struct diary *diary)
{
    for (size_t i = 0; i < DIARY_BUCKETS; i++)
        for (struct history_turn *turn = diary->of[i], *next; turn; turn = next) {
            next = turn->next;
            free(turn);
        }
    for (size_t i = 0; diary->leases && i < DIARY_LEASES; i++)
        free(diary->leases[i]);
    free(diary->leases);
}
