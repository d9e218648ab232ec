/* SPDX-License-Identifier: Apache-2.0 */
/* changes.c: tells from two listings what happened to a lock: who has it now, gave it back, lost
 * it, waits, or waits no more. */
#include "httpd/changes.h"

#include <string.h>

#include "show/json.h"

typedef struct change {
    const char *name;
    const json_t *before, *after; /* never NULL here */
    news_fn *tell;
    void *ctx;
} change;

const char *news_name(news kind)
{
    static const char *const names[] = {
#define X(kind, name, help) [kind] = name,
        NEWS_TABLE(X)
#undef X
    };
    return names[kind];
}

static json_int_t token_of(const json_t *entry)
{
    return json_integer_value(json_object_get(entry, "token"));
}

static bool has_same(const json_t *a, const json_t *b, const char *key)
{
    return json_equal(json_object_get(a, key), json_object_get(b, key));
}

/* A grant has its token; where there are none, and for those that wait, it is when they came. */
static bool is_same(const json_t *a, const json_t *b)
{
    return has_same(a, b, "session") && has_same(a, b, "token") &&
           (token_of(a) || has_same(a, b, "since"));
}

static bool is_in(const json_t *entries, const json_t *entry)
{
    size_t i;
    const json_t *each;
    json_array_foreach(entries, i, each) if (is_same(each, entry)) return true;
    return false;
}

static bool has_session(const json_t *entries, const json_t *entry)
{
    size_t i;
    const json_t *each;
    json_array_foreach(entries, i, each) if (has_same(each, entry, "session")) return true;
    return false;
}

/* The entry, with the lock's name; and how it was left, if that is known. */
static void tell_entry(const change *c, news kind, const json_t *entry, const json_t *last)
{
    json_t *data = json_object_new();
    json_put_text(data, "name", c->name);
    json_object_update(data, (json_t *)(uintptr_t)entry);
    if (last) {
        json_put(data, "exit_status", json_incref(json_object_get(last, "exit_status")));
        json_put(data, "reason", json_incref(json_object_get(last, "reason")));
    }
    c->tell(c->ctx, kind, c->name, data);
    json_decref(data);
}

static news kind_of_end(const json_t *last)
{
    const char *outcome = json_string_value(json_object_get(last, "outcome"));
    return strcmp(outcome, "abandoned") == 0 ? NEWS_LOSS : NEWS_RELEASE;
}

static void tell_ends(const change *c, const json_t *held, const json_t *holds)
{
    size_t i;
    const json_t *each, *last = json_object_get(c->after, "last");
    json_array_foreach(held, i, each)
    {
        bool is_last = token_of(each) == token_of(last);
        if (!is_in(holds, each))
            tell_entry(c, is_last ? kind_of_end(last) : NEWS_RELEASE, each, is_last ? last : NULL);
    }
}

/* A holder that came and went since the listing before. */
static void tell_missed(const change *c, const json_t *held)
{
    const json_t *last = json_object_get(c->after, "last");
    size_t i;
    const json_t *each;
    if (!token_of(last) || has_same(last, json_object_get(c->before, "last"), "token"))
        return;
    json_array_foreach(held, i, each) if (token_of(each) == token_of(last)) return;
    json_t *entry = json_pack("{s:O, s:O}", "who", json_object_get(last, "who"), "token",
                              json_object_get(last, "token"));
    tell_entry(c, kind_of_end(last), entry, last);
    json_decref(entry);
}

static void tell_new(const change *c, news kind, const json_t *before, const json_t *after)
{
    size_t i;
    const json_t *each;
    json_array_foreach(after, i, each) if (!is_in(before, each)) tell_entry(c, kind, each, NULL);
}

static void tell_left(const change *c, const json_t *waited, const json_t *waits,
                      const json_t *holds)
{
    size_t i;
    const json_t *each;
    json_array_foreach(waited, i, each) if (!is_in(waits, each) && !has_session(holds, each))
        tell_entry(c, NEWS_LEAVE, each, NULL);
}

static void tell_all(const change *c)
{
    const json_t *held = json_object_get(c->before, "holders"),
                 *holds = json_object_get(c->after, "holders"),
                 *waited = json_object_get(c->before, "queue"),
                 *waits = json_object_get(c->after, "queue");
    tell_ends(c, held, holds);
    tell_missed(c, held);
    tell_new(c, NEWS_GRANT, held, holds);
    tell_left(c, waited, waits, holds);
    tell_new(c, NEWS_WAIT, waited, waits);
    c->tell(c->ctx, NEWS_LOCK, c->name, c->after);
}

/* No record of a lock is like one that nobody has ever taken. */
void changes_tell(const char *name, const json_t *before, const json_t *after, news_fn *tell,
                  void *ctx)
{
    json_t *none = json_pack("{s:s, s:[], s:[], s:{s:s, s:s, s:i, s:n, s:s}}", "name", name,
                             "holders", "queue", "last", "outcome", "none", "who", "", "token", 0,
                             "exit_status", "reason", "");
    const change c = {name, before ? before : none, after ? after : none, tell, ctx};
    if (!after)
        tell(ctx, NEWS_GONE, name, none);
    else if (!json_equal((json_t *)(uintptr_t)before, (json_t *)(uintptr_t)after))
        tell_all(&c);
    json_decref(none);
}
