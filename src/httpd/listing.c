/* SPDX-License-Identifier: Apache-2.0 */
/* listing.c: lists the locks, and finds the changes since the listing before. */
#include "httpd/listing.h"

#include "httpd/clock.h"
#include "show/json.h"

#define RENEWED_MS 300 /* a lease that ends this much later was renewed */

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
static void move_leases(json_t *entries, json_t *leases)
{
    size_t i;
    json_t *each;
    json_array_foreach(entries, i, each)
    {
        const char *session = json_string_value(json_object_get(each, "session"));
        json_t *left = json_object_get(each, "lease_left_ms");
        if (json_integer_value(left))
            json_put(leases, session, json_incref(left));
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

static void add(listing *l, waits *w, const hf_lock_info *info, board_heard *heard)
{
    json_t *lock = json_of_lock(info);
    listing_add_waits(lock, w);
    move_leases(json_object_get(lock, "holders"), l->leases);
    move_leases(json_object_get(lock, "queue"), l->leases);
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
        add(out, w, &out->board.locks[i], heard);
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

static void compare_leases(const listing *before, const listing *after, const telling *t)
{
    const char *session;
    json_t *left, *renewed = json_object_new();
    json_int_t passed = after->at_ms - before->at_ms;
    json_object_foreach(after->leases, session, left)
    {
        const json_t *had = json_object_get(before->leases, session);
        if (!had || json_integer_value(left) > json_integer_value(had) - passed + RENEWED_MS)
            json_put(renewed, session, json_incref(left));
    }
    if (json_object_size(renewed))
        t->tell(t->ctx, NEWS_LEASES, NULL, renewed);
    json_decref(renewed);
}

static void tell_gone(const char *name, const telling *t)
{
    json_t *data = json_object_new();
    json_put_text(data, "name", name);
    t->tell(t->ctx, NEWS_GONE, name, data);
    json_decref(data);
}

bool listing_is_in_use(const json_t *lock)
{
    return json_array_size(json_object_get(lock, "holders")) > 0 ||
           json_array_size(json_object_get(lock, "queue")) > 0;
}

/* Where one of the two has no free locks, a free one that is missing there is no news. */
static bool is_news(const json_t *lock, const listing *other)
{
    return other->has_free || listing_is_in_use(lock);
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
    compare_leases(before, after, &t);
    changes_tell(&before->board, &after->board, tell_change, &t);
    compare_locks(before, after, &t);
}
