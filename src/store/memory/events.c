/* SPDX-License-Identifier: Apache-2.0 */
/* events.c: keeps the events that steps and marks have for sessions until the sessions read them;
 * called by records.c and sessions.c, which add events, and by memory.c, for await(). */
#include "store/memory/memory_internal.h"

#include "core/alloc.h"
#include "core/id.h"

void memory_publish(struct memory *memory, const char *name, const notify_note *note)
{
    struct event *event = &memory->events[memory->n_events++ % EVENTS];
    free(event->name);
    *event = (struct event){*note, {memory->version}, name ? alloc_text(name) : NULL};
    pthread_cond_broadcast(&memory->news);
}

static bool is_for(const struct event *event, hf_id session)
{
    return id_equal(event->note.session, session) != !event->name;
}

static hf_notice notice_of(const struct event *event)
{
    if (!event->name)
        return (hf_notice){.kind = HF_NOTICE_LOOK, .stamp = event->stamp};
    return notify_notice(&event->note, event->stamp, alloc_text(event->name));
}

size_t memory_hear(struct memory_store *store, hf_notice *notices)
{
    struct memory *memory = store->memory;
    if (memory->n_events - store->heard > EVENTS) {
        store->heard = memory->n_events;
        notices[0] = (hf_notice){.kind = HF_NOTICE_LOOK, .stamp = {memory->version}};
        return 1;
    }
    size_t n = 0;
    for (; store->heard < memory->n_events && n < MEMORY_NOTICES_MAX; store->heard++) {
        const struct event *event = &memory->events[store->heard % EVENTS];
        if (is_for(event, store->listens))
            notices[n++] = notice_of(event);
    }
    return n;
}
