/* SPDX-License-Identifier: Apache-2.0 */
/* break.c: hf_break(): asks the holders of a lock to leave, waits until they have left or cannot
 * believe any more, and takes their tickets out (R9). If a holder's place goes to an ID lease
 * meanwhile, the break follows it there, by its token; and if a holder that shares is upgraded, to
 * its new ticket. */
#include "client/hold/hold.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/record.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 100

/* A holder to be broken, as it was last seen. An ID lease that took its place has one of its
 * tokens; an upgrade has a new one. */
typedef struct target {
    hf_entry holder;
    int64_t first_token, last_token;
    char who[HF_TEXT_MAX + 1];
    bool is_asked;
    bool is_missing; /* its session was, when it was to be asked */
    int64_t beat;    /* its session's then; 0: it was dead, or missing */
} target;

/* until: when none of those that were asked can be believed any more. ends: until when a store that
 * gives no answer is asked: for as long as other calls do, from the beginning, or, once holders
 * were asked, from `until`. */
typedef struct breaking {
    hf_client *client;
    const char *name;
    const hf_break_options *options;
    hf_record record;
    target *targets;
    size_t n;
    hf_mono until, ends;
} breaking;

static bool keep(void *ctx, const hf_record *record)
{
    breaking *b = ctx;
    record_done(&b->record);
    record_copy(&b->record, record);
    return false;
}

static bool may_retry(breaking *b, hf_code code, unsigned *failures)
{
    return client_may_retry_until(b->client, b->options->cancel, code, failures, b->ends);
}

static hf_code look(breaking *b, hf_error *err)
{
    hf_store *store = b->client->store;
    unsigned failures = 0;
    hf_code code;
    BOUND_SCOPE(store, b->ends, b->options->cancel);
    do
        code = store->ops->look(store, &b->name, 1, (hf_stamp){0}, false, keep, b, err);
    while (may_retry(b, code, &failures));
    return code;
}

static target target_of(const hf_entry *holder)
{
    int64_t others = holder->block > 1 ? holder->block - 1 : 0;
    return (target){
        .holder = *holder, .first_token = holder->token, .last_token = holder->token + others};
}

static void choose(breaking *b)
{
    b->targets = alloc_array(NULL, b->record.holders, sizeof *b->targets);
    for (size_t i = 0; i < b->record.holders; i++) {
        const hf_entry *holder = &b->record.entries[i];
        if (b->options->if_token && holder->token != b->options->if_token)
            continue;
        b->targets[b->n++] = target_of(holder);
    }
}

/* An ID lease keeps both times of the entry whose place it took: when it entered and when it was
 * granted. The token alone proves nothing, because what is left of a block goes to the next holder.
 */
static bool took_its_place(const hf_entry *lease, const target *t)
{
    return lease->token >= t->first_token && lease->token <= t->last_token &&
           lease->since.ms == t->holder.since.ms &&
           lease->granted_at.ms == t->holder.granted_at.ms && lease->permits == t->holder.permits;
}

/* An upgrade keeps the time when the entry whose place it took entered. */
static bool is_its_upgrade(const hf_entry *alone, const target *t)
{
    return alone->permits == HF_LIMIT_RW && alone->token > t->last_token &&
           alone->since.ms == t->holder.since.ms && id_equal(alone->session, t->holder.session);
}

/* The entry that now holds in the target's place: its own, or that of the ID lease or the upgrade
 * that it has become; NULL: none. */
static const hf_entry *holder_of(const breaking *b, const target *t)
{
    const hf_entry *same = record_find(&b->record, t->holder.ticket);
    for (size_t i = 0; i < b->record.holders && !same; i++) {
        const hf_entry *holder = &b->record.entries[i];
        if (took_its_place(holder, t) || is_its_upgrade(holder, t))
            same = holder;
    }
    return same;
}

/* Returns whether any of them still holds. What one has become has to be asked anew. */
static bool follow(breaking *b)
{
    bool any = false;
    for (size_t i = 0; i < b->n; i++) {
        target *t = &b->targets[i];
        const hf_entry *now = holder_of(b, t);
        any |= now != NULL;
        if (now && !id_equal(now->ticket, t->holder.ticket))
            *t = target_of(now);
    }
    return any;
}

static hf_code nobody(const breaking *b, hf_error *err)
{
    if (b->record.holders)
        return error_set(err, HF_NOT_FOUND, "%.128s is not held with token %lld: its token is %lld",
                         b->name, (long long)b->options->if_token,
                         (long long)b->record.entries[0].token);
    return error_set(err, HF_NOT_FOUND, "nobody holds %.128s", b->name);
}

/* Gives the session's name, and whether it is certainly dead: marked, or seen gone and marked now.
 */
static hf_code look_at_session(breaking *b, target *t, bool *is_dead, hf_error *err)
{
    hf_session_state state;
    hf_store *store = b->client->store;
    hf_code code = store->ops->sessions_look(store, &t->holder.session, 1, -1, &state, err);
    t->is_missing = !code && state.presence == HF_MISSING;
    t->beat = 0;
    if (code || t->is_missing)
        return code;
    session_who(&state.session, t->who);
    *is_dead = state.presence == HF_DEAD ||
               (state.is_gone && store->ops->session_mark(store, &state, err) == HF_OK);
    t->beat = *is_dead ? 0 : state.beat;
    return HF_OK;
}

static hf_ask ask_for(const breaking *b, const target *t)
{
    hf_ask ask = {.ticket = t->holder.ticket};
    snprintf(ask.reason, sizeof ask.reason, "%s", b->options->reason);
    if (b->options->by && *b->options->by) /* an ask of nobody is a release (lease_release.c) */
        snprintf(ask.by, sizeof ask.by, "%s", b->options->by);
    else
        client_who(b->client, ask.by);
    return ask;
}

/* A missing session cannot be asked. The break waits for it all the same, and then bars it. */
static hf_code ask_once(breaking *b, target *t, hf_error *err)
{
    hf_store *store = b->client->store;
    const hf_ask ask = ask_for(b, t);
    bool is_dead = false;
    hf_code code = look_at_session(b, t, &is_dead, err);
    if (is_dead)
        return HF_OK;
    if (!code)
        code = store->ops->ask(store, t->holder.session, &ask, err);
    hf_mono end = lease_watch_end(client_now(b->client), t->holder.ttl_ms);
    if (b->until.ns < end.ns)
        b->until = end;
    return code == HF_NOT_FOUND ? HF_OK : code;
}

static hf_code ask(breaking *b, target *t, hf_error *err)
{
    unsigned failures = 0;
    hf_code code;
    BOUND_SCOPE(b->client->store, b->ends, b->options->cancel);
    do
        code = ask_once(b, t, err);
    while (may_retry(b, code, &failures));
    t->is_asked = !code;
    if (t->is_asked)
        b->ends = mono_max(b->ends, mono_add_ms(b->until, b->client->patience_ms));
    return code;
}

/* By force the holders are told if they can be. A silent store is not asked for each. */
static hf_code ask_all(breaking *b, hf_error *err)
{
    for (size_t i = 0; i < b->n; i++) {
        target *t = &b->targets[i];
        hf_code code = t->is_asked ? HF_OK : ask(b, t, err);
        if (code && !b->options->force)
            return code;
        if (error_is_no_answer(code))
            return HF_OK;
    }
    return HF_OK;
}

/* Waits until they have left, or until the acknowledged asks are older than any lease that may
 * still run. */
static hf_code wait(breaking *b, hf_error *err)
{
    while (!mono_reached(b->until, client_now(b->client))) {
        if (cancel_pause(&b->client->env, b->options->cancel, LOOK_MS) ||
            client_is_closing(b->client))
            return error_set(err, HF_CANCELLED,
                             "%.128s: the wait was cancelled; its holders were asked to leave, and "
                             "the next waiter takes them out",
                             b->name);
        hf_code code = look(b, err);
        if (code || !follow(b))
            return code;
        code = ask_all(b, err);
        if (code)
            return code;
    }
    return HF_OK;
}

/* A session that was missing is not to begin now. One that has begun meanwhile is asked after all.
 */
static hf_code bar_once(breaking *b, target *t, hf_error *err)
{
    const hf_session_state seen = {.session = {.id = t->holder.session, .ttl_ms = t->holder.ttl_ms},
                                   .presence = HF_MISSING};
    hf_code code = client_mark(b->client, &seen, err);
    if (code != HF_HELD && code != HF_NOT_FOUND)
        return code;
    t->is_asked = false;
    return HF_OK;
}

/* If somebody has removed it, and its next beat has begun it again, the ask is gone. One that is
 * missing only now begins no more, but for that beat. */
static hf_code see_anew(breaking *b, target *t, hf_error *err)
{
    hf_session_state state;
    hf_store *store = b->client->store;
    hf_code code = store->ops->sessions_look(store, &t->holder.session, 1, -1, &state, err);
    if (code)
        return code;
    if (state.presence == HF_MISSING)
        return bar_once(b, t, err);
    if (state.presence == HF_LIVE && session_is_anew(t->beat, state.beat))
        t->is_asked = false;
    return HF_OK;
}

static hf_code settle_once(breaking *b, target *t, hf_error *err)
{
    if (t->is_missing)
        return bar_once(b, t, err);
    return t->beat ? see_anew(b, t, err) : HF_OK;
}

/* Whether none of them can believe any more; else *all is false, and some are to be asked again. */
static hf_code settle_all(breaking *b, bool *all, hf_error *err)
{
    *all = true;
    for (size_t i = 0; i < b->n; i++) {
        target *t = &b->targets[i];
        unsigned failures = 0;
        hf_code code;
        BOUND_SCOPE(b->client->store, b->ends, b->options->cancel);
        do
            code = settle_once(b, t, err);
        while (may_retry(b, code, &failures));
        if (code)
            return code;
        *all &= t->is_asked;
    }
    return HF_OK;
}

static hf_leave leave_of(const breaking *b, const target *t)
{
    hf_leave leave = {.ticket = t->holder.ticket, .outcome = HF_OUTCOME_ABANDONED, .told = true};
    const hf_ask ask = ask_for(b, t);
    memcpy(leave.who, t->who, sizeof leave.who);
    text_broken(leave.reason, &ask);
    return leave;
}

static hf_code take_out(breaking *b, const hf_step *step, hf_error *err)
{
    hf_store *store = b->client->store;
    hf_step_reply reply;
    unsigned failures = 0;
    hf_code code;
    BOUND_SCOPE(store, b->ends, b->options->cancel);
    do
        code = store->ops->step(store, b->name, step, NULL, &reply, err);
    while (may_retry(b, code, &failures));
    return code;
}

/* b->record is what it was before; afterwards, what it is now. */
static hf_code take_out_and_look(breaking *b, const target *t, hf_error *err)
{
    const hf_leave leave = leave_of(b, t);
    const hf_step step = {.leaves = &leave, .n_leaves = 1};
    hf_record before;
    record_copy(&before, &b->record);
    hf_code code = take_out(b, &step, err);
    if (!code)
        code = look(b, err);
    if (!code)
        diary_note_taken(b->client, &before, &step, &b->record.last);
    record_done(&before);
    return code;
}

/* One after another, because the record says only of the last that left how it ended, and that is
 * what the history believes. */
static hf_code take_all_out(breaking *b, hf_error *err)
{
    hf_code code = HF_OK;
    for (size_t i = 0; i < b->n && !code; i++)
        if (record_find(&b->record, b->targets[i].holder.ticket))
            code = take_out_and_look(b, &b->targets[i], err);
    return code;
}

#define TAKEN_MOST 10

/* A holder that stands there after each taking out is not the one that the store takes out. */
static hf_code pause_before_again(breaking *b, unsigned *n_taken, hf_error *err)
{
    if (++*n_taken == TAKEN_MOST)
        return error_set(err, HF_UNUSABLE,
                         "%.128s cannot be freed: its holder was taken out %d times, and still "
                         "stands there; free it with the program that locked it",
                         b->name, TAKEN_MOST);
    if (cancel_pause(&b->client->env, b->options->cancel, LOOK_MS) || client_is_closing(b->client))
        return error_set(err, HF_CANCELLED, "%.128s: the break was cancelled", b->name);
    return HF_OK;
}

/* Repeats as long as any of them holds: a ticket may have become an ID lease before it was taken
 * out. */
static hf_code take_from_all(breaking *b, hf_error *err)
{
    hf_code code;
    unsigned n_taken = 0;
    do {
        bool all = true;
        code = ask_all(b, err);
        if (!code && !b->options->force)
            code = wait(b, err);
        if (code || !follow(b))
            return code;
        if (!b->options->force)
            code = settle_all(b, &all, err);
        if (!code)
            code = all ? take_all_out(b, err) : look(b, err);
    } while (!code && follow(b) && !(code = pause_before_again(b, &n_taken, err)));
    return code;
}

static hf_code perform(breaking *b, hf_error *err)
{
    hf_code code = look(b, err);
    if (code)
        return code;
    choose(b);
    return b->n ? take_from_all(b, err) : nobody(b, err);
}

static hf_code check(hf_client *client, const char *name, const hf_break_options *options,
                     char known_as[HF_NAME_MAX + 1], hf_error *err)
{
    hf_code code = client_usable(client, err);
    if (!code)
        code = client_name(client, name, known_as, err);
    if (!code && (!options || !options->reason || !options->reason[0]))
        code = error_set(err, HF_INVALID, "breaking a lock needs a reason, to be told its holder");
    if (!code)
        code = text_check("the reason", options->reason, HF_TEXT_MAX, err);
    return code ? code : text_check("who breaks (by)", options->by, HF_TEXT_MAX, err);
}

hf_code hf_break(hf_client *client, const char *name, const hf_break_options *options,
                 hf_error *err)
{
    char known_as[HF_NAME_MAX + 1];
    hf_code code = check(client, name, options, known_as, err);
    if (code)
        return code;
    breaking b = {.client = client,
                  .name = known_as,
                  .options = options,
                  .ends = mono_add_ms(client_now(client), client->patience_ms)};
    record_init(&b.record, known_as);
    code = client_begin(client, err);
    if (code)
        return code;
    code = perform(&b, err);
    if (error_is_no_answer(code) && cancel_is_fired(options->cancel))
        code = error_set(err, HF_CANCELLED,
                         "%.128s: cancelled while the store gave no answer; its holders may have "
                         "been asked to leave",
                         known_as);
    client_end(client);
    record_done(&b.record);
    free(b.targets);
    return code;
}
