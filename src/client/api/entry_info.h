/* SPDX-License-Identifier: Apache-2.0 */
/* entry_info.h: the entries of records as callers see them. Who an entry is, and what is left of
 * its lease, the states of the sessions say. */
#ifndef CLIENT_API_ENTRY_INFO_H
#define CLIENT_API_ENTRY_INFO_H

#include "client/base/client.h"

#include "core/id.h"

/* Begin with {0}. */
struct session_states {
    hf_id *ids; /* each once and in order, when they were read */
    size_t n_ids;
    hf_session_state *states;
};

void session_states_add(struct session_states *s, const hf_entry *entries, size_t n);

/* Reads the states of all sessions that were added. One that cannot be read hides nothing: its
 * entries are shown with less detail. */
hf_code session_states_read(struct session_states *s, hf_client *client, hf_error *err);
void session_states_done(struct session_states *s);

/* Strings that an hf_entry_info points to. */
struct entry_texts {
    char session[ID_TEXT_SIZE];
    char who[HF_TEXT_MAX + 1];
};

/* The rest of its strings are the entry's own. */
hf_entry_info entry_info(const struct session_states *s, const hf_record *record,
                         const hf_entry *entry, struct entry_texts *texts);

/* HF_NOT_FOUND, about a lock that has no record. */
hf_code entry_info_no_record(const hf_client *client, const char *name, hf_error *err);

#endif
