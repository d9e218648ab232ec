/* SPDX-License-Identifier: Apache-2.0 */
/* break.c: hf_break(): asks the holders of a lock to leave, waits until they have left or cannot
 * believe any more, and takes their tickets out (R9). */
#include "client/client.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/plant.h"
#include "core/text.h"

#include <stdio.h>

#define LOOK_MS 100

/* The tickets to be broken, and when each cannot be believed any more. */
typedef struct breaking {
    hf_client *client;
    const char *name;
    const hf_break_options *options;
    hf_record record;
    hf_leave *leaves;
    hf_mono until; /* of those that were asked, the latest */
    size_t n;
} breaking;

static bool keep(void *ctx, const hf_record *record)
{
    breaking *b = ctx;
    record_done(&b->record);
    record_copy(&b->record, record);
    return false;
}

static bool may_retry(breaking *b, hf_code code, unsigned *failures, hf_mono since)
{
    return client_may_retry(b->client, b->options->cancel, code, failures, since);
}

static hf_code look(breaking *b, hf_error *err)
{
    hf_store *store = b->client->store;
    hf_mono since = client_now(b->client);
    unsigned failures = 0;
    hf_code code;
    do
        code = store->ops->look(store, &b->name, 1, (hf_stamp){0}, false, keep, b, err);
    while (may_retry(b, code, &failures, since));
    return code;
}

static void choose(breaking *b)
{
    b->leaves = alloc_array(NULL, b->record.holders, sizeof *b->leaves);
    for (size_t i = 0; i < b->record.holders; i++) {
        const hf_entry *holder = &b->record.entries[i];
        if (b->options->if_token && holder->token != b->options->if_token)
            continue;
        b->leaves[b->n++] =
            (hf_leave){.ticket = holder->ticket, .outcome = HF_OUTCOME_ABANDONED, .told = true};
    }
}

static hf_code nobody(const breaking *b, hf_error *err)
{
    if (b->record.holders)
        return error_set(err, HF_NOT_FOUND, "%.128s is not held with token %lld: its token is %lld",
                         b->name, (long long)b->options->if_token,
                         (long long)b->record.entries[0].token);
    return error_set(err, HF_NOT_FOUND, "nobody holds %.128s", b->name);
}

/* Its name; and whether it is dead for sure: marked, or seen gone and marked now. */
static hf_code look_at_holder(breaking *b, const hf_entry *holder, hf_leave *leave, bool *is_dead,
                              hf_error *err)
{
    hf_session_state state;
    hf_store *store = b->client->store;
    hf_code code = store->ops->sessions_look(store, &holder->session, 1, -1, &state, err);
    if (code || state.presence == HF_MISSING)
        return code;
    session_who(&state.session, leave->who);
    *is_dead = state.presence == HF_DEAD ||
               (state.is_gone && store->ops->session_mark(store, &state, err) == HF_OK);
    return HF_OK;
}

/* A session that is missing cannot be asked; it is waited for all the same. */
static hf_code ask_once(breaking *b, hf_leave *leave, hf_error *err)
{
    const hf_entry *holder = record_find(&b->record, leave->ticket);
    hf_ask ask = {.ticket = leave->ticket};
    snprintf(ask.reason, sizeof ask.reason, "%s", b->options->reason);
    if (b->options->by)
        snprintf(ask.by, sizeof ask.by, "%s", b->options->by);
    else
        client_who(b->client, ask.by);
    bool is_dead = false;
    hf_code code = look_at_holder(b, holder, leave, &is_dead, err);
    if (is_dead)
        return HF_OK;
    if (!code)
        code = b->client->store->ops->ask(b->client->store, holder->session, &ask, err);
    hf_mono end = lease_watch_end(client_now(b->client), holder->ttl_ms);
    if (b->until.ns < end.ns)
        b->until = end;
    return code == HF_NOT_FOUND ? HF_OK : code;
}

static hf_code ask_all(breaking *b, hf_error *err)
{
    hf_mono since = client_now(b->client);
    unsigned failures = 0;
    for (size_t i = 0; i < b->n; i++) {
        hf_code code;
        do
            code = ask_once(b, &b->leaves[i], err);
        while (may_retry(b, code, &failures, since));
        if (code && !b->options->force)
            return code;
    }
    return HF_OK;
}

static bool all_have_left(const breaking *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (record_find(&b->record, b->leaves[i].ticket))
            return false;
    return true;
}

/* Until they have left, or the acknowledged asks are older than any lease that may still run. */
static hf_code wait(breaking *b, hf_error *err)
{
    while (!mono_reached(b->until, client_now(b->client))) {
        if (cancel_pause(b->client, b->options->cancel, LOOK_MS) || client_is_closing(b->client))
            return error_set(err, HF_CANCELLED,
                             "%.128s: the wait was cancelled; its holders were asked to leave, and "
                             "are taken out by whoever waits",
                             b->name);
        hf_code code = look(b, err);
        if (code || all_have_left(b))
            return code;
    }
    return HF_OK;
}

static hf_code take_out(breaking *b, hf_error *err)
{
    hf_store *store = b->client->store;
    hf_step step = {.leaves = b->leaves, .n_leaves = b->n};
    hf_step_reply reply;
    hf_mono since = client_now(b->client);
    unsigned failures = 0;
    hf_code code;
    do
        code = store->ops->step(store, b->name, &step, NULL, &reply, err);
    while (may_retry(b, code, &failures, since));
    return code;
}

static hf_code perform(breaking *b, hf_error *err)
{
    hf_code code = look(b, err);
    if (code)
        return code;
    choose(b);
    if (!b->n)
        return nobody(b, err);
    code = ask_all(b, err);
    if (!code && !b->options->force && !PLANTED(BREAK_WITHOUT_WAIT))
        code = wait(b, err);
    return code || all_have_left(b) ? code : take_out(b, err);
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
    breaking b = {.client = client, .name = known_as, .options = options};
    record_init(&b.record, known_as);
    code = client_begin(client, err);
    if (code)
        return code;
    code = perform(&b, err);
    client_end(client);
    record_done(&b.record);
    free(b.leaves);
    return code;
}
