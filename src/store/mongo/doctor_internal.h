/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_internal.h: one run of the doctor, and how its parts tell what they find. */
#ifndef STORE_MONGO_DOCTOR_INTERNAL_H
#define STORE_MONGO_DOCTOR_INTERNAL_H

#include "store/mongo/driver/command.h"

typedef struct doctor {
    mongo_store *store;
    hf_finding_fn each;
    void *ctx;
    bool stopped;
    bool cannot_write; /* it has been told why */
} doctor;

void doctor_tell(doctor *to, const char *topic, bool is_danger, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* What is no danger, and somebody should look at. */
void doctor_advise(doctor *to, const char *topic, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

double doctor_mono_ms(const doctor *to);
hf_code doctor_ask_admin(mongo_store *store, const char *text, mongo_reply *reply, hf_error *err);

/* What was to be looked at, and gave no answer. */
void doctor_tell_unknown(doctor *to, const char *topic, const hf_error *why);
/* Whether there is time for another look; if not, says of this topic, unless it is NULL, that it
 * was not looked at. */
bool doctor_has_time(doctor *to, const char *topic);

/* doctor_place.c: the collections that locks are kept in; sessions: the second one, or NULL. Says
 * nothing of those that are as they should be. */
void doctor_find_place(doctor *to, const char *sessions);
/* Does to a lock of its own what is done to locks, and removes it. */
void doctor_find_trial(doctor *to);
/* Deletes one document of a trial, and waits for the majority. */
hf_code doctor_delete(mongo_store *store, const mongo_call *call, const char *collection,
                      const bson_t *query, hf_error *err);

/* doctor_members.c: who belongs to the set, what a crash of the primary costs; then, who is silent,
 * and what the members' clocks say. */
void doctor_find_members(doctor *to);
void doctor_find_clocks(doctor *to);

#endif
