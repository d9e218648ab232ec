/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: the store in this process's memory, the reference for every other: opening, notices,
 * upkeep; store/open.c opens it. */
#include "store/memory/memory.h"

#include "core/alloc.h"
#include "core/id.h"
#include "store/kernel_time.h"
#include "store/memory/memory_internal.h"

#include <errno.h>
#include <unistd.h>

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct memory *registry;

static size_t hear(struct memory_store *store, hf_id session, hf_notice *notices)
{
    const struct presence *presence = memory_find_session(store->memory, session);
    if (presence && !id_equal(store->listens, session)) {
        store->listens = session;
        store->heard = presence->since;
    }
    return presence ? memory_hear(store, notices) : 0;
}

static hf_code await(hf_store *base, hf_id session, hf_stamp from, int64_t timeout_ms,
                     hf_notice_fn each, void *ctx, hf_error *err)
{
    (void)from; /* a session hears everything since its begin */
    (void)err;
    struct memory_store *store = (struct memory_store *)base;
    struct timespec deadline = kernel_time_in(timeout_ms);
    hf_notice notices[MEMORY_NOTICES_MAX];
    struct memory *memory = memory_lock(base);
    size_t n = hear(store, session, notices);
    while (!n && !store->is_woken && timeout_ms > 0 &&
           pthread_cond_clockwait(&memory->news, &memory->mutex, CLOCK_MONOTONIC, &deadline) !=
               ETIMEDOUT)
        n = hear(store, session, notices);
    store->is_woken = false;
    memory_unlock(memory);
    for (size_t i = 0; i < n; i++) {
        each(ctx, &notices[i]);
        free((char *)notices[i].name);
    }
    return HF_OK;
}

static void wake(hf_store *base)
{
    struct memory *memory = memory_lock(base);
    ((struct memory_store *)base)->is_woken = true;
    pthread_cond_broadcast(&memory->news);
    memory_unlock(memory);
}

static hf_code sweep(hf_store *base, hf_session_state *overdue, size_t max, size_t *n, bool *more,
                     hf_error *err)
{
    (void)err;
    *more = false;
    struct memory_store *store = (struct memory_store *)base;
    struct memory *memory = memory_lock(base);
    memory_take_dead_out(memory, memory_mono(store), memory_time(store));
    memory_prune(memory, memory_time(store));
    *n = memory_sweep(memory, memory_mono(store), overdue, max);
    memory_unlock(memory);
    return HF_OK;
}

static hf_code doctor(hf_store *base, hf_finding_fn each, void *ctx, hf_error *err)
{
    (void)base;
    (void)err;
    each(ctx, &(hf_finding){.topic = "reach",
                            .text = "in memory: locks reach no further than this process"});
    return HF_OK;
}

static void free_memory(struct memory *memory)
{
    for (size_t i = 0; i < memory->n_records; i++)
        memory_free_record(memory->records[i]);
    for (size_t i = 0; i < EVENTS; i++)
        free(memory->events[i].name);
    pthread_mutex_destroy(&memory->mutex);
    pthread_cond_destroy(&memory->news);
    free(memory->records);
    memory_free_history(memory);
    for (size_t i = 0; i < memory->n_sessions; i++)
        free(memory->sessions[i].waits);
    free(memory->sessions);
    free(memory->name);
    free(memory);
}

static void leave_memory(struct memory *memory)
{
    pthread_mutex_lock(&registry_mutex);
    bool is_last = --memory->users == 0;
    for (struct memory **link = &registry; is_last && *link; link = &(*link)->next)
        if (*link == memory) {
            *link = memory->next;
            break;
        }
    pthread_mutex_unlock(&registry_mutex);
    if (is_last)
        free_memory(memory);
}

/* In a forked child the mutex may be held for ever, so the shared part is not freed before the
 * exit. */
static void close_store(hf_store *base)
{
    struct memory_store *store = (struct memory_store *)base;
    if (store && store->pid == getpid())
        leave_memory(store->memory);
    free(store);
}

static struct memory *new_memory(const char *name)
{
    struct memory *memory = alloc_zeroed(sizeof *memory);
    memory->name = alloc_text(name);
    pthread_mutex_init(&memory->mutex, NULL);
    pthread_cond_init(&memory->news, NULL);
    return memory;
}

static struct memory *join_memory(const char *name)
{
    pthread_mutex_lock(&registry_mutex);
    struct memory *memory = *name ? registry : NULL;
    while (memory && strcmp(memory->name, name) != 0)
        memory = memory->next;
    if (!memory) {
        memory = new_memory(name);
        memory->next = *name ? registry : NULL;
        registry = *name ? memory : registry;
    }
    memory->users++;
    pthread_mutex_unlock(&registry_mutex);
    return memory;
}

static const hf_store_ops ops = {
    .scheme = "memory",
    .close = close_store,
    .session_begin = memory_begin,
    .session_beat = memory_beat,
    .session_mark = memory_mark,
    .session_end = memory_end,
    .sessions_look = memory_look_sessions,
    .waits = memory_waits,
    .step = memory_step,
    .look = memory_look,
    .list = memory_list,
    .list_sessions = memory_list_sessions,
    .ask = memory_ask,
    .await = await,
    .wake = wake,
    .sweep = sweep,
    .doctor = doctor,
    .history_add = memory_history_add,
    .history = memory_history,
};

hf_code memory_open(const char *name, const hf_store_config *config, hf_store **out, hf_error *err)
{
    (void)err;
    struct memory_store *store = alloc_zeroed(sizeof *store);
    store->base = (hf_store){.ops = &ops,
                             .can = HF_CAN_SHARE | HF_CAN_QUEUE | HF_CAN_TOKENS | HF_CAN_NOTIFY |
                                    HF_CAN_SKEW | HF_CAN_HISTORY,
                             .protocol = "queue"};
    store->memory = join_memory(name);
    store->env = *config->env;
    store->pid = getpid();
    *out = &store->base;
    return HF_OK;
}
