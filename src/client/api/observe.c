/* SPDX-License-Identifier: Apache-2.0 */
/* observe.c: hf_election_observe(): looks again and again at who holds a lock, and tells the caller
 * of each change; needs no session. */
#include "client/api/reading.h"

#include "core/error.h"
#include "core/id.h"

#include <stdio.h>
#include <string.h>

/* No notice tells an observer of a change, so it looks, rarely enough that many observers are no
 * load. */
#define LOOK_LEAST_MS 250
#define LOOK_SPREAD_MS 250

/* One term; all zero: nobody leads. The token alone is not enough, because some protocols have
 * none. */
typedef struct term {
    char session[ID_TEXT_SIZE];
    int64_t token, since_ms;
} term;

typedef struct observing {
    hf_client *client;
    const char *name;
    hf_leader_fn each;
    void *ctx;
    hf_cancel *cancel;
    term told;
    int64_t newest;         /* the token that was seen last */
    bool was_free;          /* then */
    bool has_told, is_over; /* over: the caller wants to hear no more */
} observing;

static bool is_same(const term *a, const term *b)
{
    return a->token == b->token && a->since_ms == b->since_ms && !strcmp(a->session, b->session);
}

static void tell(observing *o, const term *now, const hf_leader *leader)
{
    if (o->has_told && is_same(&o->told, now))
        return;
    o->told = *now;
    o->has_told = true;
    o->is_over = !o->each(o->ctx, leader);
}

static void tell_nobody(observing *o)
{
    tell(o, &(term){.token = 0}, NULL);
}

/* Its ticket stays in the record until somebody waits, long after its session has ended or gone. */
static bool is_led_by(const hf_entry_info *holder)
{
    return holder->lease_left_ms >= 0 && *holder->who;
}

static int64_t token_of(const hf_lock_info *info)
{
    return info->n_holders ? info->holders->token : info->token;
}

/* A deposed primary may have answered. Tokens of a queue never go back, and one that is out of the
 * record never comes back. */
static bool is_stale(const observing *o, const hf_lock_info *info)
{
    int64_t token = token_of(info);
    bool has_left = o->was_free && info->n_holders && token == o->newest;
    return o->client->store->can & HF_CAN_QUEUE && (token < o->newest || has_left);
}

static bool see(void *ctx, const hf_lock_info *info)
{
    observing *o = ctx;
    const hf_entry_info *holder = info->holders;
    if (is_stale(o, info))
        return false;
    o->newest = token_of(info);
    o->was_free = !info->n_holders;
    if (!info->n_holders || !is_led_by(holder)) {
        tell_nobody(o);
        return false;
    }
    hf_leader leader = {holder->session, holder->who, holder->why, holder->token,
                        holder->granted_ms ? holder->granted_ms : holder->since_ms};
    term now = {.token = leader.token, .since_ms = leader.since_ms};
    snprintf(now.session, sizeof now.session, "%s", leader.session);
    tell(o, &now, &leader);
    return false;
}

static hf_code look(observing *o, hf_error *err)
{
    hf_mono end = mono_add_ms(client_now(o->client), o->client->patience_ms);
    unsigned failures = 0;
    hf_code code;
    BOUND_SCOPE(o->client->store, end, o->cancel);
    do
        code = reading_show(o->client, o->name, see, o, err);
    while (client_may_retry_until(o->client, o->cancel, code, &failures, end));
    if (code != HF_NOT_FOUND)
        return code;
    error_clear(err);
    tell_nobody(o);
    return HF_OK;
}

/* Pauses until the next look; false: the pause was cut short. */
static bool pause_between(observing *o)
{
    int64_t ms = LOOK_LEAST_MS + (int64_t)(client_chance(o->client) % LOOK_SPREAD_MS);
    return !cancel_pause(&o->client->env, o->cancel, ms) && !client_is_closing(o->client);
}

static hf_code observe(observing *o, hf_error *err)
{
    hf_code code;
    do
        code = look(o, err);
    while (!code && !o->is_over && pause_between(o));
    if (o->is_over)
        return HF_OK;
    if (cancel_is_fired(o->cancel))
        return error_set(err, HF_CANCELLED, "%.128s: no longer observed: cancelled", o->name);
    if (client_is_closing(o->client))
        return error_set(err, HF_CLOSED, "%.128s: no longer observed: the client is being closed",
                         o->name);
    return code;
}

hf_code hf_election_observe(hf_client *client, const char *name, hf_leader_fn each, void *ctx,
                            hf_cancel *cancel, hf_error *err)
{
    observing o = {.client = client, .name = name, .each = each, .ctx = ctx, .cancel = cancel};
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    code = observe(&o, err);
    client_end(client);
    return code;
}
