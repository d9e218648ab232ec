/* SPDX-License-Identifier: Apache-2.0 */
/* events.c: keeps what steps and marks say to sessions until they hear it; called by records.c and
 * sessions.c, which say it, and by memory.c, for await(). */
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
    hf_notice notice = {.kind = HF_NOTICE_LOOK, .stamp = event->stamp};
    if (!event->name)
        return notice;
    notice.kind = event->note.kind == NOTE_RECALL ? HF_NOTICE_RECALL : HF_NOTICE_GRANT;
    notice.ticket = event->note.ticket;
    notice.token = event->note.token;
    notice.block = event->note.block;
    notice.name = alloc_text(event->name);
    return notice;
}

size_t memory_hear(struct memory *memory, struct presence *presence, hf_notice *notices)
{
    if (memory->n_events - presence->heard > EVENTS) {
        presence->heard = memory->n_events;
        notices[0] = (hf_notice){.kind = HF_NOTICE_LOOK, .stamp = {memory->version}};
        return 1;
    }
    size_t n = 0;
    for (; presence->heard < memory->n_events && n < MEMORY_NOTICES_MAX; presence->heard++) {
        const struct event *event = &memory->events[presence->heard % EVENTS];
        if (is_for(event, presence->state.session.id))
            notices[n++] = notice_of(event);
    }
    return n;
}
