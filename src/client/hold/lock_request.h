/* SPDX-License-Identifier: Apache-2.0 */
/* lock_request.h: what a thread asks for that wants a lock, and where its request stands: among the
 * threads of this client that want the same lock (line.h), and in the lock's queue. An attempt
 * (wait/) drives it. */
#ifndef CLIENT_HOLD_LOCK_REQUEST_H
#define CLIENT_HOLD_LOCK_REQUEST_H

#include "client/base/client.h"

#include "core/waiters.h"

struct hf_lock;
struct line;

/* What came to one in line: the lock, or the lead, or with it the leader's ticket. */
typedef enum line_news { NEWS_NONE, NEWS_LOCK, NEWS_LEADS, NEWS_TICKET } line_news;

/* Where a request stands in its lock's line; mutex. line.c and turns.c write it. */
struct place {
    struct line *leads, *in_line; /* of its name: at most one of them */
    struct lock_request *next;    /* in line */
    line_news news;
    hf_entry ticket; /* with NEWS_TICKET: what the former leader entered with, */
    bool may_land;   /* and whether that got no answer */
};

struct lock_request {
    hf_client *client;                 /* constant */
    const hf_lock_options *options;    /* constant */
    const hf_claim *claim;             /* constant; NULL: of the lock `name`; else that is "" */
    const char *name;                  /* constant */
    uint64_t thread;                   /* constant: whose it is */
    hf_mono started;                   /* constant */
    struct lock_request *next, **link; /* mutex: of the client's */
    hf_enter enter;                    /* own thread */
    hf_mono sent;                      /* own thread: the last enter */
    bool is_in_flight;                 /* own thread: the ticket may be in the record */
    bool is_unanswered; /* own thread: an enter of this ticket got no answer, and may still land */
    bool is_alone;      /* own thread: stands in no line */
    bool is_shut_out;   /* own thread: another thread has the lock */
    struct place place; /* mutex */
    struct waiter waiter; /* mutex */
    struct waker *waker;  /* mutex; NULL until it has to wait */
    bool is_woken;        /* mutex */
    struct hf_lock *lock; /* mutex: it was granted, or passed on */
    hf_id joins;          /* mutex: the ticket of the lease that it is to become; 0: none. The wait
                           * ends when that stands, made by another call with its key */
    bool has_joined;      /* mutex: it stands */
};

void lock_request_begin(struct lock_request *request);      /* it is found by others from now on */
void lock_request_end_locked(struct lock_request *request); /* it stands in no line any more */
/* What the options say of permits and limit. */
void lock_request_set_permits(hf_enter *enter, const hf_lock_options *options);
struct lock_request *lock_request_of(const struct waiter *waiter);

void lock_request_wake_locked(struct lock_request *request);
void lock_request_wake_all_locked(hf_client *client);

/* Whether the lock is held by the thread, or actor, whose request it is. */
bool lock_request_holds_locked(const struct lock_request *request, const struct hf_lock *lock);

/* For people: what it is after. */
const char *lock_request_title(const struct lock_request *request);

#endif
