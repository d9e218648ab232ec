/* SPDX-License-Identifier: Apache-2.0 */
/* renewals.c: finds renewed leases for watcher.c; see renewals.h. */
#include "httpd/renewals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show/json.h"
#include "show/text.h"

#define RENEWED_MS 300 /* a lease that ends this much later was renewed */

/* ---- Finding ---- */

typedef struct finding {
    const listing *before, *after;
    renewals *out;
    FILE *texts;
    json_t *sessions; /* where the text of each is */
    const char *name; /* of the present lock; NULL: its text has a place */
    size_t lock;
} finding;

static size_t add_text(const finding *f, const char *text)
{
    long at = ftell(f->texts);
    fwrite(text, strlen(text) + 1, 1, f->texts);
    return (size_t)at;
}

static size_t place_of_session(const finding *f, const char *session)
{
    const json_t *known = json_object_get(f->sessions, session);
    if (known)
        return (size_t)json_integer_value(known);
    size_t at = add_text(f, session);
    json_put_number(f->sessions, session, (int64_t)at);
    return at;
}

static bool was_renewed(const finding *f, const char *session, int64_t left_ms)
{
    const json_t *had = json_object_get(f->before->leases, session);
    int64_t passed_ms = f->after->at_ms - f->before->at_ms;
    return !had || left_ms > json_integer_value(had) - passed_ms + RENEWED_MS;
}

/* Most stand where they stood. */
static bool is_among(const hf_entry_info *entries, size_t n, size_t at, const char *session)
{
    if (at < n && strcmp(entries[at].session, session) == 0)
        return true;
    for (size_t i = 0; i < n; i++)
        if (strcmp(entries[i].session, session) == 0)
            return true;
    return false;
}

static bool was_there(const hf_lock_info *lock, size_t at, const char *session)
{
    return lock && (is_among(lock->holders, lock->n_holders, at, session) ||
                    is_among(lock->queue, lock->n_queue, at, session));
}

static void add(finding *f, const char *session, int64_t left_ms)
{
    renewals *r = f->out;
    if (f->name)
        f->lock = add_text(f, f->name);
    f->name = NULL;
    r->all = text_wider(r->all, r->n, sizeof *r->all);
    r->all[r->n++] = (renewal){f->lock, place_of_session(f, session), left_ms};
}

static void find_in(finding *f, const hf_lock_info *had, const hf_entry_info *entries, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *session = entries[i].session;
        int64_t left_ms = json_integer_value(json_object_get(f->after->leases, session));
        if (left_ms && (was_renewed(f, session, left_ms) || !was_there(had, i, session)))
            add(f, session, left_ms);
    }
}

static void find(finding *f)
{
    const board *all = &f->after->board;
    for (size_t i = 0; i < all->n; i++) {
        const hf_lock_info *lock = &all->locks[i], *had = board_find(&f->before->board, lock->name);
        f->name = lock->name;
        find_in(f, had, lock->holders, lock->n_holders);
        find_in(f, had, lock->queue, lock->n_queue);
    }
}

renewals *renewals_between(const listing *before, const listing *after)
{
    renewals *out = text_alloc(sizeof *out);
    size_t size;
    finding f = {.before = before, .after = after, .out = out, .sessions = json_object_new()};
    f.texts = open_memstream(&out->texts, &size);
    if (!f.texts)
        text_no_memory();
    find(&f);
    fclose(f.texts);
    json_decref(f.sessions);
    if (out->n)
        return out;
    renewals_free(out);
    return NULL;
}

void renewals_free(renewals *r)
{
    if (!r)
        return;
    free(r->all);
    free(r->texts);
    free(r);
}

/* ---- Telling ---- */

static const char *lock_of(const void *of, size_t i)
{
    const renewals *r = of;
    return r->texts + r->all[i].lock;
}

json_t *renewals_of(const renewals *r, const char *prefix)
{
    size_t length = strlen(prefix), i = text_begin(r->n, lock_of, r, prefix);
    json_t *out = NULL;
    for (; i < r->n && strncmp(lock_of(r, i), prefix, length) == 0; i++) {
        if (!out)
            out = json_object_new();
        json_put_number(out, r->texts + r->all[i].session, r->all[i].left_ms);
    }
    return out;
}
