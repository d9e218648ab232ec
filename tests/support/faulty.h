/* SPDX-License-Identifier: Apache-2.0 */
/* faulty.h: a store that stands before another one, counts the calls, and lets a test fail, lose or
 * delay them. */
#ifndef TESTS_SUPPORT_FAULTY_H
#define TESTS_SUPPORT_FAULTY_H

#include <holdfast/store.h>

#include <stdatomic.h>

typedef enum faulty_call {
    FAULTY_BEGIN, /* arg: const hf_session * */
    FAULTY_BEAT,  /* const hf_id *, as for mark, end and sessions_look */
    FAULTY_MARK,
    FAULTY_END,
    FAULTY_SESSIONS_LOOK,
    FAULTY_STEP,  /* const struct faulty_step * */
    FAULTY_LOOK,  /* const struct faulty_look * */
    FAULTY_WAITS, /* const hf_id *: the first */
    FAULTY_ASK,   /* const hf_ask * */
    FAULTY_SWEEP,
    FAULTY_CLAIM,   /* const hf_enter * */
    FAULTY_REFRESH, /* const hf_id *: the ticket */
    FAULTY_HISTORY, /* const hf_turn_note *: the first that is added */
    FAULTY_CALLS
} faulty_call;

struct faulty_step {
    const char *name;
    const hf_step *step;
};

struct faulty_look {
    const char *const *names;
    size_t n;
    hf_stamp after;
    bool linearizable;
};

typedef struct faulty faulty;
typedef hf_code faulty_hook(faulty *faulty, faulty_call call, const void *arg);
typedef hf_code faulty_sweep(faulty *faulty, hf_session_state *out, size_t max, size_t *n,
                             bool *more);
typedef bool faulty_swallow(faulty *faulty, const struct faulty_step *step);
typedef bool faulty_notice(faulty *faulty, hf_notice *out);
typedef hf_code faulty_await(faulty *faulty, hf_id session, hf_stamp from, int64_t timeout_ms,
                             hf_notice_fn each, void *ctx, hf_error *err);
typedef void faulty_edit_record(faulty *faulty, hf_record *record);
typedef void faulty_edit_state(faulty *faulty, hf_session_state *state);

/* before: a code other than HF_OK is the answer, and the store behind has not heard of the call.
 * after: such a code takes the place of the answer to a call that was made. Each may sleep.
 * swallows: a step that is answered, and does nothing, as by a primary that is none any more.
 * notice: what the listener hears next, if it says so. hides_tokens: notices say "look", no more.
 * hides_blocks: they tell of one token each.
 * awaits: takes the place of await().
 * is_deaf: there are no notices. claims: what hf_document_claim() takes, where that is let;
 * document: and shows of it.
 * again_ms: when a store without a queue wants to be asked again. overtaken: from whom an enter
 * took the lock over there. edits_record, edits_state: what a look, a listing or a beat shows is
 * changed. A test may set each of them at any time: the client's threads read it once for each
 * call. What a hook reads is set before the hook. */
struct faulty {
    hf_store base;
    hf_store *inner;
    _Atomic(faulty_hook *) before, after;
    _Atomic(faulty_sweep *) sweep;
    _Atomic(faulty_swallow *) swallows;
    _Atomic(faulty_notice *) notice;
    _Atomic(faulty_await *) awaits;
    atomic_bool hides_tokens, hides_blocks, is_deaf;
    _Atomic(const char *) claims, document;
    atomic_llong again_ms;
    _Atomic(const hf_overtaken *) overtaken;
    _Atomic(faulty_edit_record *) edits_record;
    _Atomic(faulty_edit_state *) edits_state;
    hf_env env;             /* the store's and, where it stands still, the client's */
    atomic_llong passed_ms; /* on that clock */
    atomic_int calls[FAULTY_CALLS];
    atomic_int together; /* calls with several steps */
    void *ctx;           /* the test's own */
    /* Of the call that a hook is told of, where one runs at a time: */
    const hf_beat *says; /* a beat */
    bool leaves_any;     /* the end of a session */
    size_t n_sessions;   /* looked at, */
    int64_t trust_ms;    /* and trusted so far */
    hf_code answer;      /* after it */
};

/* A client whose store is a faulty one before that of the URI; the client closes both. options may
 * be NULL. */
faulty *faulty_open(const char *uri, const hf_options *options, hf_client **client);

/* The same with the clocks that the options name. */
faulty *faulty_open_in(const char *uri, const hf_options *options, hf_client **client);

/* The same, but the client has no threads, so that a test calls its ticks, and its clock moves only
 * by faulty_pass() and by the client's own pauses. A hook that lets time pass makes a call take so
 * long. */
faulty *faulty_open_still(const char *uri, const hf_options *options, hf_client **client);
void faulty_pass(faulty *faulty, int64_t ms);

/* The store can claim and refresh now; with that the client takes it for one of documents. */
void faulty_let_claim(faulty *faulty, const char *name);

/* The store takes several steps in one call now; hooks are told of each. */
void faulty_send_together(faulty *faulty);

/* From now on an entry is accepted only as a holder. */
void faulty_end_queue(faulty *faulty);

#endif
