/* SPDX-License-Identifier: Apache-2.0 */
/* faulty.c: forwards each call of a store, between a test's two hooks. */
#include "support/faulty.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/record.h"
#include "support/inside.h"

#include <stdio.h>
#include <stdlib.h>

static hf_code run_hook(faulty *f, faulty_hook *hook, faulty_call call, const void *arg,
                        hf_error *err)
{
    hf_code code = hook ? hook(f, call, arg) : HF_OK;
    return code ? error_set(err, code, "injected") : HF_OK;
}

static hf_code before(faulty *f, faulty_call call, const void *arg, hf_error *err)
{
    atomic_fetch_add(&f->calls[call], 1);
    return run_hook(f, f->before, call, arg, err);
}

static hf_code after(faulty *f, faulty_call call, const void *arg, hf_code code, hf_error *err)
{
    if (f->awaits) /* else they run at the same time */
        f->answer = code;
    hf_code hooked = run_hook(f, f->after, call, arg, err);
    return hooked ? hooked : code;
}

/* ---- What is seen ---- */

static hf_code edit_states(faulty *f, hf_session_state *states, size_t n, hf_code code)
{
    faulty_edit_state *edit = f->edits_state;
    for (size_t i = 0; i < n && !code && edit; i++)
        edit(f, &states[i]);
    return code;
}

typedef struct viewer {
    faulty *of;
    hf_record_fn each;
    hf_state_fn each_state;
    void *ctx;
} viewer;

static bool show_record(void *ctx, const hf_record *record)
{
    viewer *to = ctx;
    hf_record copy;
    faulty_edit_record *edit = to->of->edits_record;
    if (!edit)
        return to->each(to->ctx, record);
    record_copy(&copy, record);
    edit(to->of, &copy);
    bool more = to->each(to->ctx, &copy);
    record_done(&copy);
    return more;
}

static bool show_state(void *ctx, const hf_session_state *state)
{
    viewer *to = ctx;
    hf_session_state copy = *state;
    edit_states(to->of, &copy, 1, HF_OK);
    return to->each_state(to->ctx, &copy);
}

/* ---- Calls ---- */

/* Defines one forwarding function: what is called, of what the hooks are told, and what is kept for
 * them. */
#define FORWARD(function, parameters, call, arg, kept, forwarded)                                  \
    static hf_code function parameters                                                             \
    {                                                                                              \
        faulty *f = (faulty *)base;                                                                \
        hf_store *to = f->inner;                                                                   \
        if (f->awaits) /* else they run at the same time */                                        \
            kept;                                                                                  \
        hf_code code = before(f, call, arg, err);                                                  \
        return code ? code : after(f, call, arg, forwarded, err);                                  \
    }

FORWARD(begin, (hf_store * base, const hf_session *self, hf_error *err), FAULTY_BEGIN, self,
        (void)0, to->ops->session_begin(to, self, err))
FORWARD(beat,
        (hf_store * base, hf_id id, const hf_beat *says, hf_session_state *out, hf_error *err),
        FAULTY_BEAT, &id, f->says = says,
        edit_states(f, out, 1, to->ops->session_beat(to, id, says, out, err)))
FORWARD(mark, (hf_store * base, const hf_session_state *seen, hf_error *err), FAULTY_MARK,
        &seen->session.id, (void)0, to->ops->session_mark(to, seen, err))
FORWARD(end, (hf_store * base, hf_id id, bool leaves_any, hf_error *err), FAULTY_END, &id,
        f->leaves_any = leaves_any, to->ops->session_end(to, id, leaves_any, err))
FORWARD(sessions_look,
        (hf_store * base, const hf_id *ids, size_t n, int64_t trust_ms, hf_session_state *states,
         hf_error *err),
        FAULTY_SESSIONS_LOOK, ids, (f->n_sessions = n, f->trust_ms = trust_ms),
        edit_states(f, states, n, to->ops->sessions_look(to, ids, n, trust_ms, states, err)))
FORWARD(waits,
        (hf_store * base, const hf_id *ids, size_t n, hf_waits_fn each, void *ctx, hf_error *err),
        FAULTY_WAITS, ids, (void)0, to->ops->waits(to, ids, n, each, ctx, err))
FORWARD(ask, (hf_store * base, hf_id session, const hf_ask *asked, hf_error *err), FAULTY_ASK,
        asked, (void)0, to->ops->ask(to, session, asked, err))

static hf_code sweep_on(faulty *f, hf_store *to, hf_session_state *overdue, size_t max, size_t *n,
                        bool *more, hf_error *err)
{
    faulty_sweep *sweep = f->sweep;
    return sweep ? sweep(f, overdue, max, n, more) : to->ops->sweep(to, overdue, max, n, more, err);
}

FORWARD(sweep,
        (hf_store * base, hf_session_state *overdue, size_t max, size_t *n, bool *more,
         hf_error *err),
        FAULTY_SWEEP, overdue, (void)0, sweep_on(f, to, overdue, max, n, more, err))

static hf_code look(hf_store *base, const char *const *names, size_t n, hf_stamp stamp,
                    bool linearizable, hf_record_fn each, void *ctx, hf_error *err)
{
    faulty *f = (faulty *)base;
    struct faulty_look arg = {names, n, stamp, linearizable};
    hf_code code = before(f, FAULTY_LOOK, &arg, err);
    if (code)
        return code;
    viewer view = {.of = f, .each = each, .ctx = ctx};
    code = f->inner->ops->look(f->inner, names, n, stamp, linearizable, show_record, &view, err);
    return after(f, FAULTY_LOOK, &arg, code, err);
}

static hf_code swallow(faulty *f, const struct faulty_step *arg, hf_record *out,
                       hf_step_reply *reply, hf_error *err)
{
    static const hf_step nothing;
    hf_code code = HF_OK;
    if (out)
        code = f->inner->ops->step(f->inner, arg->name, &nothing, out, reply, err);
    *reply = (hf_step_reply){.stamp = out ? reply->stamp : (hf_stamp){0}};
    return code;
}

/* Where there is no queue, what has to wait is not in the record. */
static hf_code pass_on(faulty *f, const char *name, const hf_step *taken, hf_record *out,
                       hf_step_reply *reply, hf_error *err)
{
    hf_step own = *taken;
    hf_enter enter;
    if (taken->enter && !(f->base.can & HF_CAN_QUEUE)) {
        enter = *taken->enter;
        enter.try_only = true;
        own.enter = &enter;
    }
    hf_code code = f->inner->ops->step(f->inner, name, &own, out, reply, err);
    reply->again_ms = f->again_ms;
    const hf_overtaken *overtaken = f->overtaken;
    if (taken->enter && overtaken)
        reply->overtaken = *overtaken;
    return code;
}

/* A record whose answer is lost was given to nobody. */
static hf_code step(hf_store *base, const char *name, const hf_step *taken, hf_record *out,
                    hf_step_reply *reply, hf_error *err)
{
    faulty *f = (faulty *)base;
    struct faulty_step arg = {name, taken};
    hf_code code = before(f, FAULTY_STEP, &arg, err);
    if (code)
        return code;
    faulty_swallow *swallows = f->swallows;
    if (swallows && swallows(f, &arg))
        return swallow(f, &arg, out, reply, err);
    const char *claims = f->claims;
    if (claims && !name[0]) /* of a claim that was never answered */
        name = claims;
    code = pass_on(f, name, taken, out, reply, err);
    hf_code hooked = after(f, FAULTY_STEP, &arg, code, err);
    if (!code && hooked && out)
        record_done(out);
    return hooked;
}

static void steps(hf_store *base, hf_parcel *parcels, size_t n)
{
    atomic_fetch_add(&((faulty *)base)->together, 1);
    for (size_t i = 0; i < n; i++)
        parcels[i].code =
            step(base, parcels[i].name, &parcels[i].step, NULL, &parcels[i].reply, &parcels[i].err);
}

static hf_code claim(hf_store *base, const hf_claim *wanted, const hf_enter *enter, hf_record *out,
                     hf_step_reply *reply, hf_error *err)
{
    faulty *f = (faulty *)base;
    hf_step taken = {.enter = enter};
    (void)wanted;
    hf_code code = before(f, FAULTY_CLAIM, enter, err);
    if (code)
        return code;
    code = pass_on(f, f->claims, &taken, out, reply, err);
    const char *document = f->document;
    if (!code && document)
        out->document = alloc_text(document);
    hf_code hooked = after(f, FAULTY_CLAIM, enter, code, err);
    if (!code && hooked)
        record_done(out);
    return hooked;
}

struct lookup {
    hf_id ticket;
    bool is_there;
};

static bool seek(void *ctx, const hf_record *record)
{
    struct lookup *lookup = ctx;
    lookup->is_there = record_find(record, lookup->ticket) != NULL;
    return false;
}

static hf_code refresh(hf_store *base, const char *name, hf_id ticket, hf_error *err)
{
    faulty *f = (faulty *)base;
    struct lookup lookup = {.ticket = ticket};
    hf_code code = before(f, FAULTY_REFRESH, &ticket, err);
    if (code)
        return code;
    code = f->inner->ops->look(f->inner, &name, 1, (hf_stamp){0}, false, seek, &lookup, err);
    if (!code && !lookup.is_there)
        code = error_set(err, HF_LOST, "%.128s is another's", name);
    return after(f, FAULTY_REFRESH, &ticket, code, err);
}

static hf_code list(hf_store *base, const hf_list_part *part, hf_record_fn each, void *ctx,
                    hf_error *err)
{
    faulty *f = (faulty *)base;
    viewer view = {.of = f, .each = each, .ctx = ctx};
    return f->inner->ops->list(f->inner, part, show_record, &view, err);
}

static hf_code list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err)
{
    faulty *f = (faulty *)base;
    viewer view = {.of = f, .each_state = each, .ctx = ctx};
    return f->inner->ops->list_sessions(f->inner, show_state, &view, err);
}

typedef struct hearer {
    const faulty *from;
    hf_notice_fn each;
    void *ctx;
} hearer;

static void hide_some(void *ctx, const hf_notice *notice)
{
    hearer *to = ctx;
    hf_notice bare = *notice;
    bare.token = to->from->hides_tokens ? 0 : bare.token;
    bare.block = to->from->hides_blocks ? 0 : bare.block;
    to->each(to->ctx, &bare);
}

static hf_code await(hf_store *base, hf_id session, hf_stamp from, int64_t timeout_ms,
                     hf_notice_fn each, void *ctx, hf_error *err)
{
    faulty *f = (faulty *)base;
    hf_store *to = f->inner;
    hf_notice notice;
    faulty_await *awaits = f->awaits;
    if (awaits)
        return awaits(f, session, from, timeout_ms, each, ctx, err);
    faulty_notice *says = f->notice;
    if (says && says(f, &notice)) {
        each(ctx, &notice);
        return HF_OK;
    }
    hearer hearing = {f, each, ctx};
    if (f->is_deaf)
        return error_set(err, HF_UNSUPPORTED, "there are no notices");
    return to->ops->await(to, session, from, timeout_ms, hide_some, &hearing, err);
}

static void wake(hf_store *base)
{
    hf_store *to = ((faulty *)base)->inner;
    to->ops->wake(to);
}

static hf_code doctor(hf_store *base, hf_finding_fn each, void *ctx, hf_error *err)
{
    hf_store *to = ((faulty *)base)->inner;
    return to->ops->doctor(to, each, ctx, err);
}

FORWARD(history_add, (hf_store * base, const hf_turn_note *turns, size_t n, hf_error *err),
        FAULTY_HISTORY, turns, (void)0, to->ops->history_add(to, turns, n, err))

static hf_code history(hf_store *base, const hf_history_part *part, hf_turn_note_fn each, void *ctx,
                       hf_error *err)
{
    hf_store *to = ((faulty *)base)->inner;
    return to->ops->history(to, part, each, ctx, err);
}

static void close_both(hf_store *base)
{
    faulty *f = (faulty *)base;
    f->inner->ops->close(f->inner);
    free(f);
}

static const hf_store_ops ops = {
    .scheme = "faulty",
    .close = close_both,
    .session_begin = begin,
    .session_beat = beat,
    .waits = waits,
    .session_mark = mark,
    .session_end = end,
    .sessions_look = sessions_look,
    .step = step,
    .look = look,
    .list = list,
    .list_sessions = list_sessions,
    .ask = ask,
    .await = await,
    .wake = wake,
    .sweep = sweep,
    .doctor = doctor,
    .history_add = history_add,
    .history = history,
};

void faulty_let_claim(faulty *f, const char *name)
{
    static hf_store_ops with_claim;
    with_claim = ops;
    with_claim.claim = claim;
    with_claim.refresh = refresh;
    f->base.ops = &with_claim;
    f->claims = name;
}

void faulty_send_together(faulty *f)
{
    static hf_store_ops with_steps;
    with_steps = ops;
    with_steps.steps = steps;
    f->base.ops = &with_steps;
}

void faulty_end_queue(faulty *f)
{
    f->base.can &= ~(unsigned)HF_CAN_QUEUE;
}

/* ---- A clock that stands still ---- */

#define BEGAN_MS INT64_C(3600000)

void faulty_pass(faulty *f, int64_t ms)
{
    atomic_fetch_add(&f->passed_ms, ms);
}

static void pause_still(void *ctx, int64_t ms)
{
    faulty_pass(ctx, ms);
}

static hf_mono mono_still(void *ctx)
{
    return (hf_mono){(BEGAN_MS + atomic_load(&((faulty *)ctx)->passed_ms)) * 1000000};
}

static hf_wall wall_still(void *ctx)
{
    return (hf_wall){INT64_C(1700000000000) + atomic_load(&((faulty *)ctx)->passed_ms)};
}

static void random_still(void *ctx, void *bytes, size_t n)
{
    (void)ctx;
    env_linux.random(env_linux.ctx, bytes, n);
}

/* ---- Opening ---- */

static void stay_silent(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    (void)text;
}

static void stop_if(hf_code code, const hf_error *err)
{
    if (!code)
        return;
    fprintf(stderr, "faulty store: %s\n", err->text);
    abort();
}

static faulty *open_behind(faulty *f, const char *uri, const hf_options *options,
                           hf_client **client)
{
    hf_error err;
    int64_t patience_ms;
    hf_store_config config = {
        .ttl_ms = options->ttl_ms ? options->ttl_ms : 10000, .env = &f->env, .log = stay_silent};
    stop_if(hf_store_open(uri, &config, &f->inner, &patience_ms, &err), &err);
    f->base = (hf_store){.ops = &ops, .can = f->inner->can};
    stop_if(hf_open_on(&f->base, options, client, &err), &err);
    return f;
}

faulty *faulty_open(const char *uri, const hf_options *options, hf_client **client)
{
    faulty *f = alloc_zeroed(sizeof *f);
    f->env = env_linux;
    return open_behind(f, uri, options ? options : &(hf_options){0}, client);
}

faulty *faulty_open_in(const char *uri, const hf_options *options, hf_client **client)
{
    faulty *f = alloc_zeroed(sizeof *f);
    f->env = *options->env;
    return open_behind(f, uri, options, client);
}

faulty *faulty_open_still(const char *uri, const hf_options *options, hf_client **client)
{
    faulty *f = alloc_zeroed(sizeof *f);
    hf_options own = options ? *options : (hf_options){0};
    f->env = (hf_env){f, mono_still, wall_still, random_still, pause_still};
    own.env = &f->env;
    open_behind(f, uri, &own, client);
    (*client)->tickers.is_threaded = false;
    return f;
}
