/* SPDX-License-Identifier: Apache-2.0 */
/* listing.c: lists the locks, and finds the changes since the listing before. */
#include "httpd/listing.h"

#include <stdlib.h>
#include <string.h>

#include "httpd/clock.h"
#include "show/json.h"
#include "show/text.h"

const char *news_name(news kind)
{
    static const char *const names[] = {[NEWS_LOCK] = "lock",
                                        [NEWS_GONE] = "gone",
                                        [NEWS_LEASES] = "leases",
                                        [NEWS_STORE] = "store"};
    return kind < NEWS_LOCK ? change_name((change_kind)kind) : names[kind];
}

/* ---- Reading ---- */

/* The lease belongs to the session, and is reported once per session; 0 is one that is not known.
 */
static void add_leases(json_t *leases, const hf_entry_info *entries, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (entries[i].lease_left_ms)
            json_put_number(leases, entries[i].session, entries[i].lease_left_ms);
}

static void drop_leases(json_t *entries)
{
    size_t i;
    json_t *each;
    json_array_foreach(entries, i, each)
    {
        json_object_del(each, "lease_left_ms");
    }
}

/* The exclusive ones of these requests stand behind one place in the queue, all that the store has
 * of them. */
void listing_add_waits(json_t *lock, waits *w)
{
    const char *name = json_string_value(json_object_get(lock, "name"));
    json_put_number(lock, "waiting_here", (int64_t)waits_count_for(w, name));
}

static json_t *find(const listing *l, const char *name)
{
    char *key = text_repair(name);
    json_t *lock = json_object_get(l->locks, key);
    free(key);
    return lock;
}

/* What the listing before has of it, if it is still so. A new reference; NULL: it is not. */
static json_t *find_same(const listing *before, waits *w, const hf_lock_info *info)
{
    const hf_lock_info *had = board_find(&before->board, info->name);
    if (!had || !board_is_same(had, info))
        return NULL;
    json_t *lock = find(before, info->name);
    json_int_t waiting = json_integer_value(json_object_get(lock, "waiting_here"));
    return (size_t)waiting == waits_count_for(w, info->name) ? json_incref(lock) : NULL;
}

static json_t *of_lock(waits *w, const hf_lock_info *info)
{
    json_t *lock = json_of_lock(info);
    listing_add_waits(lock, w);
    drop_leases(json_object_get(lock, "holders"));
    drop_leases(json_object_get(lock, "queue"));
    return lock;
}

static void add(listing *l, const listing *before, waits *w, const hf_lock_info *info,
                board_heard *heard)
{
    json_t *lock = find_same(before, w, info);
    if (!lock)
        lock = of_lock(w, info);
    add_leases(l->leases, info->holders, info->n_holders);
    add_leases(l->leases, info->queue, info->n_queue);
    json_put(l->locks, json_string_value(json_object_get(lock, "name")), lock);
    *heard = clock_now_ms();
}

static hf_code look_at_all(listing *out, const listing *before, hf_client *client,
                           board_heard *heard, hf_error *err)
{
    hf_code code = board_look(&out->board, client, NULL, LISTING_MOST + 1, heard, err);
    out->is_crowded = !code && out->board.n > LISTING_MOST;
    out->has_free = !out->is_crowded;
    if (!out->is_crowded)
        return code;
    board_done(&out->board);
    return board_look_in_use(&out->board, &before->board, client, NULL, heard, err);
}

hf_code listing_read(listing *out, const listing *before, bool has_free, hf_client *client,
                     waits *w, board_heard *heard, hf_error *err)
{
    *out =
        (listing){.locks = json_object_new(), .leases = json_object_new(), .at_ms = clock_now_ms()};
    hf_code code = has_free
                       ? look_at_all(out, before, client, heard, err)
                       : board_look_in_use(&out->board, &before->board, client, NULL, heard, err);
    for (size_t i = 0; i < out->board.n && !code; i++)
        add(out, before, w, &out->board.locks[i], heard);
    if (code)
        listing_done(out);
    return code;
}

void listing_done(listing *l)
{
    board_done(&l->board);
    json_decref(l->locks);
    json_decref(l->leases);
    *l = (listing){.locks = NULL};
}

/* ---- A part of it ---- */

static void put_leases(json_t *to, const listing *l, const hf_entry_info *entries, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        json_t *left = json_object_get(l->leases, entries[i].session);
        if (left)
            json_put(to, entries[i].session, json_incref(left));
    }
}

json_t *listing_of_some(const listing *l, const char *prefix, bool in_use)
{
    json_t *out = json_object_new(), *locks = json_array_new(), *leases = json_object_new();
    const board *all = &l->board;
    size_t i = board_begin(all, prefix), length = strlen(prefix);
    for (; i < all->n && strncmp(all->locks[i].name, prefix, length) == 0; i++) {
        const hf_lock_info *lock = &all->locks[i];
        if (in_use && !board_is_in_use(lock))
            continue;
        json_append(locks, json_incref(find(l, lock->name)));
        put_leases(leases, l, lock->holders, lock->n_holders);
        put_leases(leases, l, lock->queue, lock->n_queue);
    }
    json_put(out, "locks", locks);
    json_put(out, "leases", leases);
    return out;
}

/* ---- Comparing ---- */

typedef struct telling {
    news_fn *tell;
    void *ctx;
} telling;

static void tell_change(void *ctx, const change *what)
{
    const telling *t = ctx;
    json_t *data = json_of_change(what);
    t->tell(t->ctx, (news)what->kind, json_string_value(json_object_get(data, "name")), data);
    json_decref(data);
}

static void tell_gone(const char *name, const telling *t)
{
    json_t *data = json_object_new();
    json_put_text(data, "name", name);
    t->tell(t->ctx, NEWS_GONE, name, data);
    json_decref(data);
}

static bool is_in_use(const json_t *lock)
{
    return json_array_size(json_object_get(lock, "holders")) > 0 ||
           json_array_size(json_object_get(lock, "queue")) > 0;
}

/* Where one of the two has no free locks, a free one that is missing there is no news. */
static bool is_news(const json_t *lock, const listing *other)
{
    return other->has_free || is_in_use(lock);
}

static void compare_locks(const listing *before, const listing *after, const telling *t)
{
    const char *name;
    json_t *lock, *had;
    json_object_foreach(before->locks, name, lock)
    {
        if (!json_object_get(after->locks, name) && is_news(lock, after))
            tell_gone(name, t);
    }
    json_object_foreach(after->locks, name, lock)
    {
        had = json_object_get(before->locks, name);
        if (had ? !json_equal(lock, had) : is_news(lock, before))
            t->tell(t->ctx, NEWS_LOCK, name, lock);
    }
}

void listing_compare(const listing *before, const listing *after, news_fn *tell, void *ctx)
{
    telling t = {tell, ctx};
    changes_tell(&before->board, &after->board, tell_change, &t);
    compare_locks(before, after, &t);
}
