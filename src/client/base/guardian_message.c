/* SPDX-License-Identifier: Apache-2.0 */
/* guardian_message.c: messages to a guardian as bytes; see guardian_message.h. Numbers have eight
 * bytes, the lowest first; a text is its length and its bytes with the final 0. */
#include "client/base/guardian_message.h"

#include <stdio.h>
#include <string.h>

/* ---- Both ways ---- */

/* Writes or reads one member after the other, so that both have the same order. */
struct passage {
    char *to;         /* NULL: reads */
    const char *from; /* NULL: writes */
    size_t left;
    bool failed;
};

static bool take(struct passage *p, size_t n)
{
    p->failed |= n > p->left;
    p->left -= p->failed ? 0 : n;
    return !p->failed;
}

static void pass_bytes(struct passage *p, void *bytes, size_t n)
{
    if (!take(p, n))
        return;
    if (p->to) {
        memcpy(p->to, bytes, n);
        p->to += n;
    } else {
        memcpy(bytes, p->from, n);
        p->from += n;
    }
}

static void pass_number(struct passage *p, int64_t *number)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)*number >> (8 * i));
    pass_bytes(p, bytes, sizeof bytes);
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    *number = (int64_t)value;
}

static void pass_small(struct passage *p, int32_t *number)
{
    int64_t value = *number;
    pass_number(p, &value);
    p->failed |= value < INT32_MIN || value > INT32_MAX;
    *number = p->failed ? 0 : (int32_t)value;
}

static void pass_flag(struct passage *p, bool *flag)
{
    int64_t value = *flag;
    pass_number(p, &value);
    p->failed |= value != 0 && value != 1;
    *flag = value == 1;
}

static void pass_id(struct passage *p, hf_id *id)
{
    pass_bytes(p, id->bytes, sizeof id->bytes);
}

/* Reading, the text stays where it is. */
static void pass_text(struct passage *p, const char **text)
{
    int64_t length = p->to ? (int64_t)strlen(*text) : 0;
    pass_number(p, &length);
    p->failed |= length < 0 || length >= GUARDIAN_MESSAGE_MAX;
    size_t size = p->failed ? 0 : (size_t)length + 1;
    if (!take(p, size))
        return;
    if (p->to) {
        memcpy(p->to, *text, size);
        p->to += size;
        return;
    }
    *text = p->from;
    p->failed |= memchr(p->from, 0, size) != p->from + length;
    p->from += size;
}

static void pass_room(struct passage *p, char *room, size_t size)
{
    const char *text = room;
    pass_text(p, &text);
    if (p->to || p->failed)
        return;
    p->failed |= strlen(text) >= size;
    if (!p->failed)
        memcpy(room, text, strlen(text) + 1);
}

/* ---- Messages ---- */

static void pass_hello(struct passage *p, guardian_message *m)
{
    int64_t format = GUARDIAN_FORMAT;
    pass_number(p, &format);
    p->failed |= format != GUARDIAN_FORMAT;
    pass_text(p, &m->uri);
    pass_room(p, m->session.app, sizeof m->session.app);
    pass_room(p, m->session.host, sizeof m->session.host);
    pass_number(p, &m->session.pid);
}

static void pass_leave(struct passage *p, guardian_message *m)
{
    hf_leave *leave = &m->leave;
    int32_t outcome = (int32_t)leave->outcome, exit_status = leave->exit_status;
    pass_text(p, &m->name);
    pass_id(p, &leave->ticket);
    pass_id(p, &m->upgrade);
    pass_number(p, &m->token);
    pass_small(p, &outcome);
    pass_flag(p, &leave->told);
    pass_flag(p, &leave->has_exit_status);
    pass_small(p, &exit_status);
    pass_number(p, &leave->period.start.ms);
    pass_number(p, &leave->period.end.ms);
    pass_number(p, &leave->used_token);
    pass_room(p, leave->who, sizeof leave->who);
    pass_room(p, leave->reason, sizeof leave->reason);
    p->failed |= outcome != HF_OUTCOME_RELEASED && outcome != HF_OUTCOME_ABANDONED;
    leave->outcome = (hf_outcome)outcome;
    leave->exit_status = exit_status;
}

static void pass_members(struct passage *p, guardian_message *m)
{
    switch (m->kind) {
    case GUARDIAN_HELLO:
        pass_hello(p, m);
        return;
    case GUARDIAN_SESSION:
        pass_id(p, &m->session.id);
        pass_small(p, &m->session.ttl_ms);
        return;
    case GUARDIAN_SESSION_OVER:
        pass_id(p, &m->session.id);
        return;
    case GUARDIAN_TICKET:
        pass_id(p, &m->session.id);
        pass_id(p, &m->leave.ticket);
        pass_text(p, &m->name);
        return;
    case GUARDIAN_OUT:
        pass_id(p, &m->leave.ticket);
        return;
    case GUARDIAN_LEAVE:
        pass_leave(p, m);
        return;
    case GUARDIAN_BYE:
        return;
    }
    p->failed = true;
}

static void pass_message(struct passage *p, guardian_message *m)
{
    int32_t kind = (int32_t)m->kind;
    pass_small(p, &kind);
    m->kind = (guardian_kind)kind;
    pass_members(p, m);
}

size_t guardian_message_write(const guardian_message *message, char bytes[GUARDIAN_MESSAGE_MAX])
{
    guardian_message copy = *message;
    struct passage p = {.to = bytes, .left = GUARDIAN_MESSAGE_MAX};
    pass_message(&p, &copy);
    return p.failed ? 0 : GUARDIAN_MESSAGE_MAX - p.left;
}

bool guardian_message_read(const char *bytes, size_t n, guardian_message *out)
{
    *out = (guardian_message){.uri = "", .name = ""};
    struct passage p = {.from = bytes, .left = n};
    pass_message(&p, out);
    return !p.failed && p.left == 0 && strlen(out->name) <= HF_NAME_MAX;
}
