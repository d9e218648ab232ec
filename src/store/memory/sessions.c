/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c: remembers sessions, their beats, marks and asks; memory.c lists its functions. */
#include "store/memory/memory_internal.h"

#include "core/alloc.h"
#include "core/error.h"
#include "core/id.h"
#include "core/lease.h"

#define DAY_MS ((int64_t)86400000)

struct presence *memory_find_session(const struct memory *memory, hf_id id)
{
    for (size_t i = 0; i < memory->n_sessions; i++)
        if (id_equal(memory->sessions[i].state.session.id, id))
            return &memory->sessions[i];
    return NULL;
}

static struct presence *add(struct memory *memory, const hf_session *self, hf_mono now)
{
    memory->sessions = alloc_more(memory->sessions, memory->n_sessions, sizeof *memory->sessions);
    struct presence *presence = &memory->sessions[memory->n_sessions++];
    *presence = (struct presence){.state = {.session = *self, .presence = HF_LIVE, .beat = 1},
                                  .expires = mono_add_ms(now, self->ttl_ms),
                                  .since = memory->n_events};
    return presence;
}

hf_code memory_begin(hf_store *base, const hf_session *self, hf_error *err)
{
    if (self->ttl_ms < 1)
        return error_set(err, HF_SHAPE, "a session's ttl has 1 ms at least");
    struct memory *memory = memory_lock(base);
    if (memory_find_session(memory, self->id)) {
        memory_unlock(memory);
        return error_set(err, HF_HELD, "a session of this id has begun before");
    }
    add(memory, self, memory_mono((struct memory_store *)base));
    memory_unlock(memory);
    return HF_OK;
}

static void take_asks_out(hf_session_state *state, const hf_id *answered, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->n_asked; i++) {
        bool is_answered = false;
        for (size_t j = 0; j < n; j++)
            is_answered |= id_equal(state->asked[i].ticket, answered[j]);
        if (!is_answered)
            state->asked[kept++] = state->asked[i];
    }
    state->n_asked = kept;
}

static void show(const struct presence *presence, hf_mono now, hf_session_state *out)
{
    *out = presence->state;
    out->lease_left_ms = mono_ms_until(presence->expires, now);
}

static void keep_waits(struct presence *presence, const hf_beat *says)
{
    free(presence->waits);
    presence->waits = says->waits ? alloc_text(says->waits) : NULL;
    presence->seen = says->seen;
}

hf_code memory_beat(hf_store *base, hf_id id, const hf_beat *says, hf_session_state *out,
                    hf_error *err)
{
    struct memory *memory = memory_lock(base);
    struct presence *presence = memory_find_session(memory, id);
    hf_mono now = memory_mono((struct memory_store *)base);
    bool begins = !presence && says->begins;
    if (begins)
        presence = add(memory, says->begins, now);
    if (!presence || presence->state.presence == HF_DEAD) {
        memory_unlock(memory);
        return error_set(err, HF_LOST, "this session was marked dead or removed by another");
    }
    take_asks_out(&presence->state, says->answered, says->n_answered);
    keep_waits(presence, says);
    presence->state.beat = begins ? says->begins_at : presence->state.beat + 1;
    presence->expires = mono_add_ms(now, presence->state.session.ttl_ms);
    show(presence, now, out);
    memory_unlock(memory);
    return HF_OK;
}

/* Marks a session dead, and tells all others to look. */
static void mark(struct memory *memory, struct presence *presence)
{
    if (presence->state.presence == HF_DEAD)
        return;
    presence->state.presence = HF_DEAD;
    memory_publish(memory, NULL, &(notify_note){.session = presence->state.session.id});
}

hf_code memory_mark(hf_store *base, const hf_session_state *seen, hf_error *err)
{
    struct memory *memory = memory_lock(base);
    struct presence *presence = memory_find_session(memory, seen->session.id);
    hf_code code = HF_OK;
    if (!presence)
        code = error_set(err, HF_NOT_FOUND, "the session to be marked dead is missing");
    else if (presence->state.presence == HF_LIVE && presence->state.beat != seen->beat)
        code = error_set(err, HF_HELD, "the session to be marked dead has beaten since");
    else
        mark(memory, presence);
    memory_unlock(memory);
    return code;
}

hf_code memory_end(hf_store *base, hf_id id, bool leaves_any, hf_error *err)
{
    (void)leaves_any; /* the sweep looks for itself */
    (void)err;
    struct memory *memory = memory_lock(base);
    struct presence *presence = memory_find_session(memory, id);
    if (presence)
        mark(memory, presence);
    memory_unlock(memory);
    return HF_OK;
}

hf_code memory_look_sessions(hf_store *base, const hf_id *ids, size_t n, int64_t clock_trust_ms,
                             hf_session_state *states, hf_error *err)
{
    (void)err;
    struct memory *memory = memory_lock(base);
    hf_mono now = memory_mono((struct memory_store *)base);
    for (size_t i = 0; i < n; i++) {
        struct presence *presence = memory_find_session(memory, ids[i]);
        states[i] = (hf_session_state){.session = {.id = ids[i]}, .presence = HF_MISSING};
        if (!presence)
            continue;
        show(presence, now, &states[i]);
        states[i].is_gone = states[i].presence == HF_LIVE && clock_trust_ms >= 0 &&
                            states[i].lease_left_ms < -clock_trust_ms;
    }
    memory_unlock(memory);
    return HF_OK;
}

hf_code memory_list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err)
{
    (void)err;
    struct memory *memory = memory_lock(base);
    hf_mono now = memory_mono((struct memory_store *)base);
    size_t n = memory->n_sessions;
    hf_session_state *states = alloc_array(NULL, n, sizeof *states);
    for (size_t i = 0; i < n; i++)
        show(&memory->sessions[i], now, &states[i]);
    memory_unlock(memory);
    for (size_t i = 0; i < n && each(ctx, &states[i]); i++)
        ;
    free(states);
    return HF_OK;
}

static bool is_wanted(const struct presence *presence, const hf_id *ids, size_t n)
{
    bool wanted = !ids;
    for (size_t i = 0; i < n && !wanted; i++)
        wanted = id_equal(ids[i], presence->state.session.id);
    return wanted && presence->waits && presence->state.presence == HF_LIVE;
}

hf_code memory_waits(hf_store *base, const hf_id *ids, size_t n, hf_waits_fn each, void *ctx,
                     hf_error *err)
{
    (void)err;
    struct memory *memory = memory_lock(base);
    hf_waits *all = alloc_array(NULL, memory->n_sessions, sizeof *all);
    size_t n_all = 0;
    for (size_t i = 0; i < memory->n_sessions; i++) {
        const struct presence *presence = &memory->sessions[i];
        if (is_wanted(presence, ids, n))
            all[n_all++] = (hf_waits){.session = presence->state.session,
                                      .beat = presence->state.beat,
                                      .seen = presence->seen,
                                      .text = alloc_text(presence->waits)};
    }
    memory_unlock(memory);
    for (size_t i = 0; i < n_all && each(ctx, &all[i]); i++)
        ;
    for (size_t i = 0; i < n_all; i++)
        free((char *)all[i].text);
    free(all);
    return HF_OK;
}

/* A second ask for the same ticket changes nothing. */
static hf_code put_ask(hf_session_state *state, const hf_ask *ask, hf_error *err)
{
    for (size_t i = 0; i < state->n_asked; i++)
        if (id_equal(state->asked[i].ticket, ask->ticket))
            return HF_OK;
    if (state->n_asked == HF_ASKS_MAX)
        return error_set(err, HF_FULL, "the session has %d asks open; try again later",
                         HF_ASKS_MAX);
    state->asked[state->n_asked++] = *ask;
    return HF_OK;
}

hf_code memory_ask(hf_store *base, hf_id session, const hf_ask *ask, hf_error *err)
{
    struct memory *memory = memory_lock(base);
    struct presence *presence = memory_find_session(memory, session);
    hf_code code;
    if (presence && presence->state.presence == HF_LIVE)
        code = put_ask(&presence->state, ask, err);
    else
        code = error_set(err, HF_NOT_FOUND, "the session to be asked is missing or dead");
    memory_unlock(memory);
    return code;
}

static bool has_tickets(const struct memory *memory, hf_id session)
{
    for (size_t i = 0; i < memory->n_records; i++)
        for (size_t j = 0; j < memory->records[i]->holders + memory->records[i]->queued; j++)
            if (id_equal(memory->records[i]->entries[j].session, session))
                return true;
    return false;
}

/* Forgets marked sessions a day after their lease, unless a ticket of theirs stands, and gives the
 * live ones that are a day late. */
size_t memory_sweep(struct memory *memory, hf_mono now, hf_session_state *out, size_t max)
{
    size_t kept = 0, n = 0;
    for (size_t i = 0; i < memory->n_sessions; i++) {
        struct presence *presence = &memory->sessions[i];
        bool is_old = mono_ms_until(presence->expires, now) < -DAY_MS;
        if (is_old && presence->state.presence == HF_DEAD &&
            !has_tickets(memory, presence->state.session.id)) {
            free(presence->waits);
            continue;
        }
        if (is_old && presence->state.presence == HF_LIVE && n < max)
            show(presence, now, &out[n++]);
        if (kept != i)
            memory->sessions[kept] = *presence;
        kept++;
    }
    memory->n_sessions = kept;
    return n;
}
