/* SPDX-License-Identifier: Apache-2.0 */
/* pace.h: how fast the oplog grows, which decides whether a change stream pays, as it reads every
 * entry. The lower half of a cluster time counts the entries of its second, so each reply is a
 * sample. */
#ifndef STORE_MONGO_SHARED_PACE_H
#define STORE_MONGO_SHARED_PACE_H

#include <holdfast/store.h>

#define MONGO_PACE_SECONDS 8

/* Zeros: nothing is known. Written by pace.c, for the listening thread. */
typedef struct mongo_pace {
    uint32_t second;                      /* the last one that a stamp came from */
    uint32_t highest[MONGO_PACE_SECONDS]; /* of the last such seconds: the highest ordinal seen */
    unsigned n;                           /* how many such seconds there were */
} mongo_pace;

void mongo_pace_note(mongo_pace *pace, hf_stamp stamp);

/* Entries a second: twice the median of those ordinals, because stamps come from any moment of
 * their second; or that of the latest three, if it is lower, so that a burst is soon forgotten. 0
 * until there were eight such seconds. */
int64_t mongo_pace_writes(const mongo_pace *pace);

#endif
