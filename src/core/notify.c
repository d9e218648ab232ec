/* SPDX-License-Identifier: Apache-2.0 */
/* notify.c: writes and reads what a record's `notify` says; see notify.h. */
#include "core/notify.h"

#include "core/id.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECALL "recall:"
#define LOOK "look:" /* earlier programs stop reading here: the last of its text */
#define ID_DIGITS (ID_TEXT_SIZE - 1)

void notify_append(char *text, const notify_note *note)
{
    char session[ID_TEXT_SIZE], ticket[ID_TEXT_SIZE];
    id_write(note->session, session);
    id_write(note->ticket, ticket);
    size_t used = strlen(text);
    const char *space = used ? " " : "";
    if (note->kind != NOTE_GRANT)
        snprintf(text + used, NOTE_SIZE, "%s%s:%s%s", space, session,
                 note->kind == NOTE_RECALL ? RECALL : LOOK, ticket);
    else if (note->block > 1)
        snprintf(text + used, NOTE_SIZE, "%s%s:%s:%lld:%d", space, session, ticket,
                 (long long)note->token, (int)note->block);
    else
        snprintf(text + used, NOTE_SIZE, "%s%s:%s:%lld", space, session, ticket,
                 (long long)note->token);
}

/* Whether it is of this kind; then moves *at behind the word. */
static bool is_kind(const char **at, const char *word)
{
    bool is = strncmp(*at, word, strlen(word)) == 0;
    *at += is ? strlen(word) : 0;
    return is;
}

/* "ticket:token", "ticket:token:block", "recall:ticket" or "look:ticket". */
static bool read_rest(const char *at, notify_note *out)
{
    char *end;
    out->token = out->block = 0;
    out->kind = is_kind(&at, RECALL) ? NOTE_RECALL : is_kind(&at, LOOK) ? NOTE_LOOK : NOTE_GRANT;
    if (out->kind != NOTE_GRANT)
        return id_read(at, &out->ticket);
    if (!id_read(at, &out->ticket) || at[ID_DIGITS] != ':')
        return false;
    out->token = strtoll(at + ID_DIGITS + 1, &end, 10);
    out->block = *end == ':' ? (int32_t)strtol(end + 1, NULL, 10) : 0;
    return out->token > 0;
}

bool notify_next(const char **at, notify_note *out)
{
    const char *text = *at;
    if (!text || !id_read(text, &out->session) || text[ID_DIGITS] != ':' ||
        !read_rest(text + ID_DIGITS + 1, out))
        return false;
    *at = strchr(text, ' ');
    *at = *at ? *at + 1 : NULL;
    return true;
}

hf_notice notify_notice(const notify_note *note, hf_stamp stamp, const char *name)
{
    return (hf_notice){.kind = note->kind == NOTE_RECALL ? HF_NOTICE_RECALL : HF_NOTICE_GRANT,
                       .ticket = note->ticket,
                       .token = note->token,
                       .block = note->block,
                       .stamp = stamp,
                       .name = name};
}
