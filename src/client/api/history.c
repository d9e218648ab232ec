/* SPDX-License-Identifier: Apache-2.0 */
/* history.c: hf_history(): the turns that have ended, as the store's history has them. */
#include "client/api/reading.h"

#include "core/alloc.h"
#include "core/caller.h"
#include "core/error.h"
#include "core/history.h"
#include "core/id.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define TURNS_DEFAULT 1000
#define TURNS_MOST 10000

/* What the store gave for a part. */
struct collection {
    hf_store *store;
    hf_history_part part;
    struct history_turn **turns;
    size_t n, room;
};

static bool collect(void *ctx, const hf_turn_note *note)
{
    struct collection *c = ctx;
    if (c->n == c->room) {
        c->room = c->room ? 2 * c->room : 64;
        c->turns = alloc_array(c->turns, c->room, sizeof *c->turns);
    }
    c->turns[c->n++] = history_copy(note);
    return true;
}

static bool tell(hf_client *client, const hf_turn_note *note, hf_turn_fn each, void *ctx)
{
    char session[ID_TEXT_SIZE];
    const char *caller = caller_of(note->actor);
    id_write(note->session, session);
    const hf_turn turn = {.name = client_shown_name(client, note->name),
                          .session = session,
                          .who = caller ? caller : note->who,
                          .actor = caller ? "" : note->actor,
                          .why = note->why,
                          .token = note->token,
                          .permits = note->permits,
                          .limit = note->limit,
                          .granted_ms = note->granted_at.ms,
                          .ended_ms = note->ended_at.ms,
                          .end = note->end,
                          .reason = note->reason,
                          .has_exit_status = note->has_exit_status,
                          .exit_status = note->exit_status,
                          .more = note->more};
    return each(ctx, &turn);
}

/* The newest first. goes_on: they are wanted. Frees them. */
static void tell_all(hf_client *client, struct collection *c, bool goes_on, hf_turn_fn each,
                     void *ctx)
{
    if (c->n)
        qsort(c->turns, c->n, sizeof *c->turns, history_newest_first);
    for (size_t i = 0; i < c->n; i++) {
        goes_on = goes_on && tell(client, &c->turns[i]->note, each, ctx);
        free(c->turns[i]);
    }
    free(c->turns);
}

static hf_code read_part(void *ctx, hf_error *err)
{
    struct collection *c = ctx;
    while (c->n)
        free(c->turns[--c->n]);
    return c->store->ops->history(c->store, &c->part, collect, c, err);
}

static hf_code check(const hf_client *client, const hf_history_options *o, hf_error *err)
{
    if (!client->store->ops->history)
        return error_set(err, HF_UNSUPPORTED, "this store (%s) keeps no history of its locks",
                         client->store->ops->scheme);
    if (o->limit > TURNS_MOST)
        return error_set(err, HF_INVALID, "a limit of %zu turns: at most %d are given", o->limit,
                         TURNS_MOST);
    if (o->since_ms < 0)
        return error_set(err, HF_INVALID,
                         "a history since %lld ms: it is Unix time in ms, or 0 for all",
                         (long long)o->since_ms);
    return HF_OK;
}

/* A program that was compiled with an earlier header knows no such turn. */
static bool tells_missing(const hf_history_options *o)
{
    size_t end = offsetof(hf_history_options, tells_missing) + sizeof o->tells_missing;
    return o->struct_size >= end && o->tells_missing;
}

static hf_code read(hf_client *client, const char *name, const hf_history_options *o,
                    struct collection *c, hf_error *err)
{
    char known_as[HF_NAME_MAX + 1] = "";
    hf_code code = check(client, o, err);
    if (!code && name && *name)
        code = client_name(client, name, known_as, err);
    c->store = client->store;
    c->part = (hf_history_part){.name = known_as,
                                .prefix = client->name_prefix,
                                .since = {o->since_ms},
                                .limit = o->limit ? o->limit : TURNS_DEFAULT,
                                .tells_missing = tells_missing(o)};
    return code ? code : reading_repeat(client, read_part, c, err);
}

hf_code hf_history(hf_client *client, const char *name, const hf_history_options *options,
                   hf_turn_fn each, void *ctx, hf_error *err)
{
    static const hf_history_options defaults = {0};
    struct collection c = {.n = 0};
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    code = read(client, name, options ? options : &defaults, &c, err);
    tell_all(client, &c, !code, each, ctx);
    client_end(client);
    return code;
}
