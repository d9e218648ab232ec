/* SPDX-License-Identifier: Apache-2.0 */
/* plain.c: the calls of protocols that have no sessions of their own: each lock's document says who
 * holds it and until when, so there is nobody to judge, to mark or to ask. */
#include "store/mongo/shared/plain.h"
#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/record.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/shared/held.h"
#include "store/mongo/shared/outcome.h"
#include "store/mongo/shared/protocol.h"

#include <stdio.h>

hf_code mongo_plain_begin(hf_store *base, const hf_session *self, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    pthread_mutex_lock(&store->mutex);
    store->self = *self;
    mongo_held_clear(store);
    pthread_mutex_unlock(&store->mutex);
    return HF_OK;
}

hf_code mongo_plain_shape(const mongo_store *store, const char *name, const char *field,
                          const char *expected, hf_error *err)
{
    return error_set(err, HF_SHAPE,
                     "%.120s, _id \"%.80s\": field %.80s: expected %s: this is no lock of protocol "
                     "%s; it is left alone, as it may be another program's lock or data: find out "
                     "whose it is, or use another collection",
                     store->uri.collection, name, field, expected, store->base.protocol);
}

/* Before the tickets are taken out: whoever has the lock next finds how it was left. */
static hf_code tell_outcomes(mongo_store *store, const char *name, const hf_step *step,
                             hf_error *err)
{
    hf_code code = HF_OK;
    for (size_t i = 0; i < step->n_leaves && !code; i++)
        code = mongo_outcome_tell(store, name, &step->leaves[i], err);
    return code;
}

static void forget_outcomes(mongo_store *store, const hf_step *step)
{
    for (size_t i = 0; i < step->n_leaves; i++)
        mongo_outcome_forget(store, step->leaves[i].ticket);
}

hf_code mongo_plain_step(hf_store *base, const char *name, const hf_step *step, hf_record *out,
                         hf_step_reply *reply, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    const mongo_protocol *protocol = store->protocol;
    mongo_call call = {
        .what = step->enter ? "acquiring" : "releasing", .name = name, .writes = true};
    hf_record unwanted, *record = out ? out : &unwanted;
    hf_step_reply answer = {.confirmed = false};
    if (reply)
        *reply = answer;
    hf_code code = mongo_ready(store, err);
    if (!code)
        code = tell_outcomes(store, name, step, err);
    if (code)
        return code;
    record_init(record, name);
    code = step->enter ? protocol->take(store, &call, step, record, &answer, err)
                       : protocol->leave(store, &call, step, &answer, err);
    if (!code && answer.confirmed)
        forget_outcomes(store, step);
    if (!out)
        record_done(&unwanted);
    if (reply)
        *reply = answer;
    return code;
}

/* In one command, whose answer is the document. */
hf_code mongo_plain_lease_renew(hf_store *base, const char *name, hf_id session, hf_id ticket,
                                hf_record *out, hf_error *err)
{
    mongo_store *store = (mongo_store *)base;
    const mongo_protocol *protocol = store->protocol;
    mongo_call call = {.what = "renewing the lease of", .name = name, .writes = true};
    bson_t command = BSON_INITIALIZER, doc;
    mongo_reply reply;
    (void)session;
    hf_code code = mongo_ready(store, err);
    if (code)
        return code;
    mongo_begin(&command, "findAndModify", store->uri.collection);
    protocol->append_lease_renewal(store, name, ticket, &command);
    BSON_APPEND_BOOL(&command, "new", true);
    mongo_append_write_concern(store, &command, false);
    code = mongo_run(store, &call, &command, &reply, err);
    if (!code) {
        bool is_there = mongo_view(&reply.doc, "value", &doc);
        code = protocol->read_lease(store, name, ticket, is_there ? &doc : NULL, out, err);
    }
    bson_destroy(&reply.doc);
    bson_destroy(&command);
    return code;
}

hf_code mongo_plain_mark(hf_store *base, const hf_session_state *seen, hf_error *err)
{
    (void)base;
    (void)seen;
    return error_set(err, HF_NOT_FOUND, "there are no sessions in this protocol");
}

/* Whatever it held ends with its lease. */
hf_code mongo_plain_end(hf_store *base, hf_id id, bool leaves_any, hf_error *err)
{
    (void)base;
    (void)id;
    (void)leaves_any;
    (void)err;
    return HF_OK;
}

hf_code mongo_plain_sessions_look(hf_store *base, const hf_id *ids, size_t n,
                                  int64_t clock_trust_ms, hf_session_state *states, hf_error *err)
{
    (void)base;
    (void)clock_trust_ms;
    (void)err;
    for (size_t i = 0; i < n; i++)
        states[i] = (hf_session_state){.session = {.id = ids[i]}, .presence = HF_MISSING};
    return HF_OK;
}

hf_code mongo_plain_ask(hf_store *base, hf_id session, const hf_ask *ask, hf_error *err)
{
    (void)session;
    (void)ask;
    return error_set(err, HF_UNSUPPORTED,
                     "protocol %s cannot ask a holder to leave: the lock can only be taken at "
                     "once (holdfast break --force), and %s token protects what the old holder "
                     "still writes; hfProtocol=queue can ask",
                     base->protocol, base->can & HF_CAN_TOKENS ? "only the" : "no");
}

/* ---- Holders ---- */

typedef struct holders {
    hf_session_state *states;
    size_t n;
} holders;

/* "app@host:pid", or whatever another program calls itself. */
static void split_who(const char *who, hf_session *out)
{
    const char *at = strrchr(who, '@'), *colon = strrchr(who, ':');
    if (!at || !colon || colon < at) {
        snprintf(out->app, sizeof out->app, "%s", who);
        return;
    }
    snprintf(out->app, sizeof out->app, "%.*s", (int)(at - who), who);
    snprintf(out->host, sizeof out->host, "%.*s", (int)(colon - at - 1), at + 1);
    out->pid = strtoll(colon + 1, NULL, 10);
}

static bool collect_holder(void *ctx, const hf_record *record)
{
    holders *all = ctx;
    const hf_entry *holder = &record->entries[0];
    for (size_t i = 0; i < all->n; i++)
        if (id_equal(all->states[i].session.id, holder->session))
            return true;
    all->states = alloc_array(all->states, all->n + 1, sizeof *all->states);
    hf_session_state *state = &all->states[all->n++];
    *state = (hf_session_state){.session = {.id = holder->session, .ttl_ms = holder->ttl_ms},
                                .presence = HF_LIVE,
                                .lease_left_ms = record->lease_left_ms};
    state->session.started_at.ms = holder->since.ms;
    split_who(record->who ? record->who : "", &state->session);
    return true;
}

hf_code mongo_plain_list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err)
{
    static const hf_list_part every = {.prefix = "", .after = "", .in_use = true};
    holders all = {NULL, 0};
    hf_code code = base->ops->list(base, &every, collect_holder, &all, err);
    bool goes_on = !code;
    for (size_t i = 0; i < all.n && goes_on; i++)
        goes_on = each(ctx, &all.states[i]);
    free(all.states);
    return code;
}

hf_code mongo_plain_sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n,
                          bool *more, hf_error *err)
{
    (void)overdue;
    (void)max;
    *n = 0;
    *more = false;
    return mongo_outcomes_prune((mongo_store *)base, err);
}
