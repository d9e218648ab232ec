/* SPDX-License-Identifier: Apache-2.0 */
/* batcher.c: sends steps of several threads on different locks as one command; called by queue.c
 * for each step.
 *
 * While few steps are in flight, each is sent at once, by itself. Further ones gather until a
 * command comes back, or until FULL_LOAD of them have gathered. Then the first of them leads, and
 * sends all (batch.c). The batcher learns from the duration of commands how many steps are few, as
 * TCP Vegas learns its window. If commands take hardly longer than their best time, the servers can
 * do more at once, and no step should wait. If they take longer, they delay each other, and a batch
 * is cheaper. A step that has waited for LONGEST_MS leads whatever is in flight, so that a command
 * that hangs does not hold up other steps. Only plain enters and plain leaves are batched, because
 * a batch can learn their outcome; any other step goes by itself. */
#include "store/mongo/queue/batcher.h"
#include "core/error.h"
#include "core/id.h"
#include "core/lease.h"
#include "core/record.h"
#include "store/kernel_time.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/queue/batch.h"
#include "store/mongo/queue/state.h"
#include "store/mongo/queue/step.h"

#define FEW_LEAST 4 /* steps in flight that are sent singly: at least, and at most: */
#define FEW_MOST 1024
#define SLOW 2          /* times a command's best time: the servers are overloaded */
#define FORGETS 1024    /* commands after which an old best time has lost most of its weight */
#define FULL_LOAD 16    /* that gathered, and need not wait */
#define THREADS_MOST 32 /* whose steps go together: each learns the outcome only at the end */
#define LONGEST_MS 200  /* that a step waits for its turn */

void mongo_batcher_init(mongo_batcher *batcher)
{
    pthread_mutex_init(&batcher->mutex, NULL);
    batcher->few = FEW_LEAST;
}

void mongo_batcher_done(mongo_batcher *batcher)
{
    pthread_mutex_destroy(&batcher->mutex);
}

/* ---- Which steps ---- */

static uint8_t *place_of(mongo_batcher *batcher, const char *name, uint8_t *bit)
{
    uint64_t hash = id_hash(ID_HASH, name, strlen(name)) % MONGO_NAMES;
    *bit = (uint8_t)(1u << hash % 8);
    return &batcher->seen[hash / 8];
}

/* Only an enter that goes by itself makes a record: one update of several documents makes none. */
static bool is_seen_locked(mongo_batcher *batcher, const char *name)
{
    uint8_t bit;
    const uint8_t *place = place_of(batcher, name, &bit);
    return *place & bit;
}

static bool enters_plainly(const hf_step *step)
{
    const hf_enter *enter = step->enter;
    return record_makes(step) && !enter->try_only && !enter->wants_number && !enter->number &&
           enter->entry.permits <= enter->limit;
}

static bool may_batch(mongo_store *store, const hf_step *step, const hf_record *out)
{
    if (mongo_topology_of(store) != MONGO_SET || step->n_deaths || step->change || step->pass)
        return false;
    return step->enter ? out && enters_plainly(step) : !out && step->n_leaves == 1;
}

/* ---- Whose turn ---- */

static bool may_send_locked(const mongo_batcher *batcher)
{
    return batcher->n_in_flight < batcher->few || batcher->n_waiting >= FULL_LOAD;
}

static void call_next_locked(mongo_batcher *batcher)
{
    if (!batcher->first || batcher->first->state != MEMBER_WAITS || !may_send_locked(batcher))
        return;
    batcher->first->state = MEMBER_LEADS;
    pthread_cond_signal(&batcher->first->changed);
}

static void append_locked(mongo_batcher *batcher, mongo_member *me)
{
    mongo_member **at = &batcher->first;
    while (*at)
        at = &(*at)->next;
    *at = me;
    batcher->n_waiting++;
}

static void take_out_locked(mongo_batcher *batcher, mongo_member *gone)
{
    mongo_member **at = &batcher->first;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    batcher->n_waiting--;
}

static void wait_for_turn_locked(mongo_batcher *batcher, mongo_member *me)
{
    struct timespec until = kernel_time_in(LONGEST_MS);
    int error = 0;
    append_locked(batcher, me);
    call_next_locked(batcher);
    while (me->state == MEMBER_WAITS && !error)
        error = pthread_cond_clockwait(&me->changed, &batcher->mutex, CLOCK_MONOTONIC, &until);
    if (me->state == MEMBER_WAITS)
        me->state = MEMBER_LEADS;
    if (me->state == MEMBER_LEADS)
        take_out_locked(batcher, me);
    while (me->state == MEMBER_IN_BATCH)
        pthread_cond_wait(&me->changed, &batcher->mutex);
}

/* The best time fades, because servers and networks change. */
static void learn_locked(mongo_batcher *batcher, int64_t ns)
{
    batcher->best_ns += batcher->best_ns / FORGETS;
    if (!batcher->best_ns || ns < batcher->best_ns)
        batcher->best_ns = ns;
    if (ns > SLOW * batcher->best_ns)
        batcher->few = batcher->few / 2 > FEW_LEAST ? batcher->few / 2 : FEW_LEAST;
    else if (batcher->few < FEW_MOST)
        batcher->few++;
}

/* ---- Sending ---- */

static bool has_name(mongo_member *const *members, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(members[i]->name, name) == 0)
            return true;
    return false;
}

/* Takes the steps that have gathered, but not two on one lock: those keep their order. */
static size_t load_locked(mongo_batcher *batcher, mongo_member *me,
                          mongo_member *members[THREADS_MOST])
{
    size_t n = 0;
    members[n++] = me;
    for (mongo_member *m = batcher->first, *next; m && n < THREADS_MOST; m = next) {
        next = m->next;
        if (m->state != MEMBER_WAITS || has_name(members, n, m->name))
            continue;
        take_out_locked(batcher, m);
        m->state = MEMBER_IN_BATCH;
        members[n++] = m;
    }
    return n;
}

/* If the repeat fails, the first try may still have been done, so the outcome stays unknown. Only a
 * foreign document proves that nothing was done. */
static hf_code go_alone(mongo_store *store, mongo_member *me)
{
    hf_code code = mongo_step_alone(store, me->name, me->step, me->out, &me->reply, &me->err);
    if (!code || code == HF_SHAPE || me->state != MEMBER_AGAIN)
        return code;
    hf_error why = me->err;
    return error_set(&me->err, HF_UNKNOWN, "%s", why.text);
}

/* For as long as any of them waits: nobody's step is cut short by another's. */
static void send_together(mongo_store *store, mongo_member *const *members, size_t n)
{
    hf_bound *own = mongo_bound_now();
    hf_bound of_all = {.until = {0}};
    for (size_t i = 0; i < n; i++) {
        hf_mono until = members[i]->bound ? members[i]->bound->until : MONO_NEVER;
        of_all.until = until.ns > of_all.until.ns ? until : of_all.until;
    }
    mongo_bound(&store->base, &of_all);
    mongo_batch_send(store, members, n);
    mongo_bound(&store->base, own);
}

static void lead(mongo_store *store, mongo_member *me)
{
    mongo_batcher *batcher = &store->queue->batcher;
    mongo_member *members[THREADS_MOST];
    pthread_mutex_lock(&batcher->mutex);
    size_t n = load_locked(batcher, me, members);
    batcher->n_in_flight += n;
    call_next_locked(batcher);
    pthread_mutex_unlock(&batcher->mutex);
    int64_t began = mongo_mono(store).ns;
    if (n > 1)
        send_together(store, members, n);
    else
        me->code = go_alone(store, me);
    pthread_mutex_lock(&batcher->mutex);
    learn_locked(batcher, mongo_mono(store).ns - began);
    if (n == 1)
        me->state = MEMBER_DONE;
    batcher->n_in_flight -= n;
    call_next_locked(batcher);
    pthread_mutex_unlock(&batcher->mutex);
}

/* ---- A step ---- */

static void submit(mongo_store *store, mongo_member *me)
{
    mongo_batcher *batcher = &store->queue->batcher;
    pthread_cond_init(&me->changed, NULL);
    pthread_mutex_lock(&batcher->mutex);
    if (me->step->enter && !is_seen_locked(batcher, me->name))
        me->state = MEMBER_ALONE;
    else if (!batcher->first && may_send_locked(batcher))
        me->state = MEMBER_LEADS;
    else
        wait_for_turn_locked(batcher, me);
    bool leads = me->state == MEMBER_LEADS;
    pthread_mutex_unlock(&batcher->mutex);
    if (leads)
        lead(store, me);
    pthread_cond_destroy(&me->changed);
}

static void note_seen(mongo_batcher *batcher, const char *name)
{
    uint8_t bit, *place = place_of(batcher, name, &bit);
    pthread_mutex_lock(&batcher->mutex);
    *place |= bit;
    pthread_mutex_unlock(&batcher->mutex);
}

hf_code mongo_batcher_step(mongo_store *store, const char *name, const hf_step *step,
                           hf_record *out, hf_step_reply *reply, hf_error *err)
{
    mongo_member me = {
        .name = name, .bound = mongo_bound_now(), .step = step, .out = out, .state = MEMBER_ALONE};
    if (may_batch(store, step, out)) {
        me.state = MEMBER_WAITS;
        submit(store, &me);
    }
    if (me.state != MEMBER_DONE)
        me.code = go_alone(store, &me);
    if (!me.code && record_makes(step))
        note_seen(&store->queue->batcher, name);
    if (me.code && err)
        *err = me.err;
    if (reply)
        *reply = me.reply;
    return me.code;
}
