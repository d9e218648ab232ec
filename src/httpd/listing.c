/* SPDX-License-Identifier: Apache-2.0 */
/* listing.c: reads what locks there are, and tells what is new since the listing before. */
#include "httpd/listing.h"

#include "httpd/clock.h"
#include "show/json.h"

#define RENEWED_MS 300 /* a lease that ends so much later was renewed */

/* The lease is the session's, and said once. */
static void move_leases(json_t *entries, json_t *leases)
{
    size_t i;
    json_t *each;
    json_array_foreach(entries, i, each)
    {
        const char *session = json_string_value(json_object_get(each, "session"));
        json_put(leases, session, json_incref(json_object_get(each, "lease_left_ms")));
        json_object_del(each, "lease_left_ms");
    }
}

static bool add(void *ctx, const hf_lock_info *info)
{
    listing *l = ctx;
    json_t *lock = json_of_lock(info);
    move_leases(json_object_get(lock, "holders"), l->leases);
    move_leases(json_object_get(lock, "queue"), l->leases);
    json_put(l->locks, json_string_value(json_object_get(lock, "name")), lock);
    return true;
}

hf_code listing_read(hf_client *client, listing *out, hf_error *err)
{
    *out = (listing){json_object_new(), json_object_new(), clock_now_ms()};
    hf_code code = hf_list(client, NULL, add, out, err);
    if (code)
        listing_done(out);
    return code;
}

void listing_done(listing *l)
{
    json_decref(l->locks);
    json_decref(l->leases);
    *l = (listing){NULL, NULL, 0};
}

static void compare_leases(const listing *before, const listing *after, news_fn *tell, void *ctx)
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
        tell(ctx, NEWS_LEASES, NULL, renewed);
    json_decref(renewed);
}

void listing_compare(const listing *before, const listing *after, news_fn *tell, void *ctx)
{
    const char *name;
    json_t *lock;
    compare_leases(before, after, tell, ctx);
    json_object_foreach(before->locks, name, lock) if (!json_object_get(after->locks, name))
        changes_tell(name, lock, NULL, tell, ctx);
    json_object_foreach(after->locks, name, lock)
        changes_tell(name, json_object_get(before->locks, name), lock, tell, ctx);
}
