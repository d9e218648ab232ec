/* SPDX-License-Identifier: Apache-2.0 */
/* hold.h: all that this folder keeps for one client. */
#ifndef CLIENT_HOLD_HOLD_H
#define CLIENT_HOLD_HOLD_H

#include "client/hold/diary.h"
#include "client/hold/life.h"
#include "client/hold/listener.h"
#include "client/hold/lock.h"
#include "client/hold/release.h"
#include "client/hold/sweep.h"
#include "client/hold/upkeep.h"

#include "core/agenda.h"
#include "core/schedule.h"
#include "core/table.h"

/* Mutex. Each is written by the file that its header belongs to. */
struct hold {
    struct hf_lock *locks; /* lock.c, as the next four */
    size_t n_held;         /* of them */
    struct table by_ticket, by_name, by_owner;
    struct schedule verifying;    /* verify.c: when they are verified next */
    hf_mono proves_at;            /* verify.c: when the last ring is to be proved */
    struct schedule lowering;     /* change.c: downgrades without an answer */
    struct schedule stopping;     /* loss.c: lost, until their tickets are given up */
    struct schedule telling;      /* loss.c: lost, and on_lost is to be called */
    struct schedule leases, dogs; /* belief.c: leases of their own, and watchdogs */
    struct hf_lock *calling;      /* loss.c: whose on_lost runs; NULL once it was closed in there */
    struct lock_request *requests; /* lock_request.c */
    struct waiters waiters;        /* of the requests: those with a ticket */
    size_t joining; /* wait/attempt*.c: of the requests, those for leases with a key */
    struct turns turns;
    struct releases releases;
    struct beginnings beginnings;
    struct endings endings;
    struct listener listener;
    struct sweep sweep;
    struct diary diary;
    struct agenda agenda; /* of upkeep's jobs */
};

struct hold *hold_new(int32_t local_turns);
void hold_free(struct hold *hold); /* its lists are empty */
/* Whether no lock depends on the next beat. */
bool hold_is_empty_locked(const hf_client *client);

#endif
