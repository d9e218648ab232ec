/* SPDX-License-Identifier: Apache-2.0 */
/* entry_info.c: describes entries of records, with the states of their sessions; called by
 * inspect.c and why.c. See entry_info.h. */
#include "client/api/entry_info.h"

#include "core/alloc.h"
#include "core/caller.h"
#include "core/error.h"
#include "core/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MOST 1000

/* ---- The states of sessions ---- */

void session_states_add(struct session_states *s, const hf_entry *entries, size_t n)
{
    s->ids = alloc_array(s->ids, s->n_ids + n, sizeof *s->ids);
    for (size_t i = 0; i < n; i++)
        s->ids[s->n_ids++] = entries[i].session;
}

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(hf_id));
}

static void sort_ids(struct session_states *s)
{
    size_t kept = 0;
    if (s->n_ids)
        qsort(s->ids, s->n_ids, sizeof *s->ids, compare_ids);
    for (size_t i = 0; i < s->n_ids; i++)
        if (i == 0 || !id_equal(s->ids[i], s->ids[kept - 1]))
            s->ids[kept++] = s->ids[i];
    s->n_ids = kept;
}

hf_code session_states_read(struct session_states *s, hf_client *client, hf_error *err)
{
    sort_ids(s);
    s->states = alloc_array(NULL, s->n_ids, sizeof *s->states);
    hf_code code = HF_OK;
    for (size_t at = 0; at < s->n_ids && !code; at += LOOK_MOST) {
        size_t n = s->n_ids - at < LOOK_MOST ? s->n_ids - at : LOOK_MOST;
        code = client_look_at_sessions(client, s->ids + at, n, -1, s->states + at, err);
        if (code == HF_SHAPE)
            client_log(client, HF_LOG_WARNING, "%s", err->text);
        code = code == HF_SHAPE ? HF_OK : code;
    }
    return code;
}

void session_states_done(struct session_states *s)
{
    free(s->ids);
    free(s->states);
}

static const hf_session_state *state_of(const struct session_states *s, hf_id id)
{
    const hf_id *at = s->n_ids ? bsearch(&id, s->ids, s->n_ids, sizeof *s->ids, compare_ids) : NULL;
    return at ? &s->states[at - s->ids] : NULL;
}

/* ---- Entries ---- */

/* A service's entry that waits for a caller is shown as the caller's. */
static void say_who(const hf_session_state *state, const char *caller, char who[HF_TEXT_MAX + 1])
{
    if (caller)
        snprintf(who, HF_TEXT_MAX + 1, "%s", caller);
    else
        session_who(&state->session, who);
}

hf_entry_info entry_info(const struct session_states *s, const hf_record *record,
                         const hf_entry *entry, struct entry_texts *texts)
{
    const hf_session_state *state = state_of(s, entry->session);
    bool known = state && (state->presence == HF_LIVE || state->presence == HF_DEAD);
    const char *caller = caller_of(entry->actor);
    id_write(entry->session, texts->session);
    texts->who[0] = '\0';
    if (record->who)
        snprintf(texts->who, sizeof texts->who, "%s", record->who);
    else if (known)
        say_who(state, caller, texts->who);
    return (hf_entry_info){.session = texts->session,
                           .who = texts->who,
                           .actor = caller ? "" : entry->actor,
                           .why = entry->why,
                           .token = entry->token,
                           .permits = entry->permits,
                           .since_ms = entry->since.ms,
                           .granted_ms = entry->granted_at.ms,
                           .lease_left_ms = record->who ? record->lease_left_ms
                                            : known     ? state->lease_left_ms
                                                        : 0,
                           .position = record_position(record, entry)};
}

hf_code entry_info_no_record(const hf_client *client, const char *name, hf_error *err)
{
    if (client->store->ops->claim)
        return error_set(err, HF_NOT_FOUND, "there is no document with _id %.200s", name);
    bool is_remembered = client->store->can & HF_CAN_QUEUE;
    return error_set(err, HF_NOT_FOUND, "there is no lock %.128s: nobody has %s", name,
                     is_remembered ? "ever taken it, or it was idle for days and pruned" : "it");
}
