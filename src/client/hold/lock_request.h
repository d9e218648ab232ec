/* SPDX-License-Identifier: Apache-2.0 */
/* lock_request.h: a thread's request for a lock, and its place: among the threads of this client
 * that want the same lock (line.h), and in the lock's queue. An attempt (wait/) drives it. */
#ifndef CLIENT_HOLD_LOCK_REQUEST_H
#define CLIENT_HOLD_LOCK_REQUEST_H

#include "client/base/client.h"

#include "core/waiters.h"

struct hf_lock;
struct line;

/* What a request in line was given: the lock, or the lead, or the lead with the leader's ticket. */
typedef enum line_news { NEWS_NONE, NEWS_LOCK, NEWS_LEADS, NEWS_TICKET } line_news;

/* Where a request stands in its lock's line; mutex. line.c and turns.c write it. */
struct place {
    struct line *leads, *in_line; /* of its name: at most one of them */
    struct lock_request *next;    /* in line */
    line_news news;
    hf_entry ticket; /* with NEWS_TICKET: what the former leader entered with, */
    bool may_land;   /* and whether that got no answer */
};

/* The requests that were woken, in that order, of those whose waker serves others, too; mutex. */
struct woken {
    struct lock_request *first, **end;
};

struct lock_request {
    hf_client *client;              /* constant */
    const hf_lock_options *options; /* constant */
    const hf_claim *claim;          /* constant; NULL: of the lock `name`; else that is "" */
    const char *name;               /* constant */
    uint64_t thread;                /* constant: whose it is */
    const waits_items *inherited;   /* constant: held until its actor is done: hf_client_held() */
    hf_mono started;                /* constant */
    struct lock_request *next, **link; /* mutex: of the client's */
    hf_enter enter;                    /* own thread */
    int64_t outside;   /* mutex: the number with which it waits outside the queue; 0: it does not */
    hf_mono sent;      /* own thread: the last enter */
    bool is_in_flight; /* own thread: the ticket may be in the record */
    bool is_unanswered; /* own thread: an enter with this ticket got no answer, and may still
                         * arrive; or its session is gone, and it may stand */
    bool is_alone;      /* own thread: stands in no line */
    bool is_shut_out;   /* own thread: another thread has the lock */
    char told[HF_TEXT_MAX + 1]; /* own thread: in line: who the leader waits for; "": not known */
    struct place place;         /* mutex */
    struct waiter waiter;       /* mutex */
    struct waker *waker;        /* mutex; NULL until it has to wait */
    bool is_woken;              /* mutex */
    struct woken *woken;        /* mutex: where it is listed once it is woken; NULL: nowhere */
    struct lock_request *woken_next, **woken_link; /* mutex; link NULL: it is not listed */
    struct hf_lock *lock;                          /* mutex: it was granted, or passed on */
    hf_id lease;    /* constant: the ticket of the ID lease that its enter makes; 0: none */
    bool is_common; /* constant: other calls may enter with that ticket: it is never given back */
    hf_id joins; /* mutex: the ticket of the ID lease to make; 0: none. The wait ends if that ticket
                  * stands because another call with the key made the lease */
    bool has_joined; /* mutex: it stands */
};

static inline int64_t lock_request_waited_ms(const struct lock_request *request, hf_mono now)
{
    return (now.ns - request->started.ns) / 1000000;
}

void lock_request_begin(struct lock_request *request);      /* others can find it from now on */
void lock_request_end_locked(struct lock_request *request); /* it stands in no line any more */
/* Permits and limit as the options say. */
void lock_request_set_permits(hf_enter *enter, const hf_lock_options *options);
struct lock_request *lock_request_of(const struct waiter *waiter);

void lock_request_wake_locked(struct lock_request *request);
/* The same, for a caller that wakes the waker itself. */
void lock_request_note_woken_locked(struct lock_request *request);
/* Wakes of it are listed there from now on; NULL: nowhere. */
void lock_request_list_wakes_locked(struct lock_request *request, struct woken *woken);
/* The next that was woken, which is no longer listed; NULL: none. */
struct lock_request *lock_request_take_woken_locked(struct woken *woken);
void lock_request_wake_all_locked(hf_client *client);

uint64_t lock_request_owner(const struct lock_request *request); /* see caller_owner() */
/* Whether the lock is held by the thread, or actor, whose request it is. */
bool lock_request_holds_locked(const struct lock_request *request, const struct hf_lock *lock);

/* For people: what it waits for. */
const char *lock_request_title(const struct lock_request *request);

#endif
