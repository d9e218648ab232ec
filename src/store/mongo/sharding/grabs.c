/* SPDX-License-Identifier: Apache-2.0 */
/* grabs.c: remembers which locks of protocol `sharding` this store holds, asks for or leaves, and
 * with which ts and date they stand in their documents. */
#include "store/mongo/sharding/grabs.h"
#include "core/alloc.h"
#include "core/id.h"
#include "store/mongo/sharding/sharding.h"
#include "sync/mutex_scope.h"

int64_t sharding_date(mongo_store *store)
{
    struct mongo_sharding *own = store->sharding;
    int64_t now_ms = mongo_wall(store).ms;
    pthread_mutex_lock(&own->mutex);
    if (now_ms <= own->last_date_ms)
        now_ms = own->last_date_ms + 1;
    own->last_date_ms = now_ms;
    pthread_mutex_unlock(&own->mutex);
    return now_ms;
}

/* ---- One ---- */

static sharding_grab *find_locked(const struct mongo_sharding *own, hf_id ticket)
{
    for (sharding_grab *grab = own->grabs; grab; grab = grab->next)
        if (id_equal(grab->ticket, ticket))
            return grab;
    return NULL;
}

static void free_one(sharding_grab *grab)
{
    free(grab->name);
    free(grab);
}

static void drop_locked(struct mongo_sharding *own, bool (*goes)(const sharding_grab *, hf_id),
                        hf_id id)
{
    for (sharding_grab **at = &own->grabs; *at;) {
        sharding_grab *grab = *at;
        if (goes(grab, id)) {
            *at = grab->next;
            free_one(grab);
        } else {
            at = &grab->next;
        }
    }
}

static bool has_ticket(const sharding_grab *grab, hf_id ticket)
{
    return id_equal(grab->ticket, ticket);
}

static bool has_session(const sharding_grab *grab, hf_id session)
{
    return id_equal(grab->session, session);
}

static const sharding_grab *rival_locked(const struct mongo_sharding *own,
                                         const sharding_grab *asked)
{
    const sharding_grab *grab = own->grabs;
    while (grab && (id_equal(grab->ticket, asked->ticket) || !id_equal(grab->ts, asked->ts) ||
                    strcmp(grab->name, asked->name) != 0))
        grab = grab->next;
    return grab;
}

static void copy_of(const sharding_grab *grab, sharding_grab *out)
{
    *out = *grab;
    out->name = NULL;
    out->next = NULL;
}

static void add_locked(struct mongo_sharding *own, const sharding_grab *from)
{
    sharding_grab *grab = alloc_zeroed(sizeof *grab);
    *grab = *from;
    grab->name = alloc_text(from->name);
    drop_locked(own, has_ticket, from->ticket);
    grab->next = own->grabs;
    own->grabs = grab;
}

bool sharding_grab_add(mongo_store *store, const sharding_grab *from, sharding_grab *other)
{
    struct mongo_sharding *own = store->sharding;
    MUTEX_SCOPE(&own->mutex);
    const sharding_grab *rival = rival_locked(own, from);
    if (rival)
        copy_of(rival, other);
    else
        add_locked(own, from);
    return !rival;
}

void sharding_grab_set_date(mongo_store *store, hf_id ticket, int64_t when_ms)
{
    pthread_mutex_lock(&store->sharding->mutex);
    sharding_grab *grab = find_locked(store->sharding, ticket);
    if (grab)
        grab->when_ms = when_ms;
    pthread_mutex_unlock(&store->sharding->mutex);
}

void sharding_grab_set_stage(mongo_store *store, hf_id ticket, sharding_stage stage)
{
    pthread_mutex_lock(&store->sharding->mutex);
    sharding_grab *grab = find_locked(store->sharding, ticket);
    if (grab)
        grab->stage = stage;
    pthread_mutex_unlock(&store->sharding->mutex);
}

void sharding_grab_drop(mongo_store *store, hf_id ticket)
{
    pthread_mutex_lock(&store->sharding->mutex);
    drop_locked(store->sharding, has_ticket, ticket);
    pthread_mutex_unlock(&store->sharding->mutex);
}

void sharding_grabs_drop_of(mongo_store *store, hf_id session)
{
    pthread_mutex_lock(&store->sharding->mutex);
    drop_locked(store->sharding, has_session, session);
    pthread_mutex_unlock(&store->sharding->mutex);
}

void sharding_grabs_clear(mongo_store *store)
{
    while (store->sharding->grabs) {
        sharding_grab *grab = store->sharding->grabs;
        store->sharding->grabs = grab->next;
        free_one(grab);
    }
}

/* ---- Finding one ---- */

/* What a grab is compared with. */
typedef struct wish {
    const char *name;
    hf_id ticket, ts;
    int64_t when_ms;
} wish;

/* The first that fits; out, when not NULL, is a copy without the name. */
static bool find(mongo_store *store, bool (*fits)(const sharding_grab *, const wish *),
                 const wish *wanted, sharding_grab *out)
{
    pthread_mutex_lock(&store->sharding->mutex);
    sharding_grab *grab = store->sharding->grabs;
    while (grab && !fits(grab, wanted))
        grab = grab->next;
    if (grab && out)
        copy_of(grab, out);
    pthread_mutex_unlock(&store->sharding->mutex);
    return grab != NULL;
}

static bool fits_ticket(const sharding_grab *grab, const wish *wanted)
{
    return id_equal(grab->ticket, wanted->ticket);
}

static bool fits_session(const sharding_grab *grab, const wish *wanted)
{
    return id_equal(grab->session, wanted->ticket);
}

static bool fits_lock(const sharding_grab *grab, const wish *wanted)
{
    return id_equal(grab->ts, wanted->ts) && grab->when_ms == wanted->when_ms &&
           strcmp(grab->name, wanted->name) == 0;
}

static bool fits_other_date(const sharding_grab *grab, const wish *wanted)
{
    return grab->stage == SHARDING_HELD && id_equal(grab->ts, wanted->ts) &&
           grab->when_ms != wanted->when_ms;
}

static bool fits_account(const sharding_grab *grab, const wish *wanted)
{
    return id_equal(grab->ts, wanted->ts) &&
           (grab->stage == SHARDING_ASKED || grab->when_ms == wanted->when_ms) &&
           strcmp(grab->name, wanted->name) == 0;
}

bool sharding_grab_find(mongo_store *store, hf_id ticket, sharding_grab *out)
{
    return find(store, fits_ticket, &(wish){.ticket = ticket}, out);
}

bool sharding_grabs_any_of(mongo_store *store, hf_id session)
{
    return find(store, fits_session, &(wish){.ticket = session}, NULL);
}

bool sharding_grab_of_lock(mongo_store *store, const char *name, const sharding_lock *lock,
                           sharding_grab *out)
{
    wish wanted = {.name = name, .ts = lock->ts, .when_ms = lock->when_ms};
    return find(store, fits_lock, &wanted, out);
}

bool sharding_grab_is_older(mongo_store *store, const sharding_lock *lock)
{
    wish wanted = {.ts = lock->ts, .when_ms = lock->when_ms};
    return find(store, fits_other_date, &wanted, NULL);
}

bool sharding_grab_accounts_for(mongo_store *store, const char *name, const sharding_lock *lock)
{
    wish wanted = {.name = name, .ts = lock->ts, .when_ms = lock->when_ms};
    return find(store, fits_account, &wanted, NULL);
}

/* ---- All that is held ---- */

int sharding_mark_compare(const void *a, const void *b)
{
    const sharding_mark *one = a, *other = b;
    if (one->when_ms != other->when_ms)
        return one->when_ms < other->when_ms ? -1 : 1;
    return memcmp(&one->ts, &other->ts, sizeof one->ts);
}

sharding_mark *sharding_grabs_marks(mongo_store *store, hf_id session, size_t *n)
{
    size_t room = 0;
    pthread_mutex_lock(&store->sharding->mutex);
    for (sharding_grab *grab = store->sharding->grabs; grab; grab = grab->next)
        room++;
    sharding_mark *marks = alloc_array(NULL, room, sizeof *marks);
    *n = 0;
    for (sharding_grab *grab = store->sharding->grabs; grab; grab = grab->next)
        if (grab->stage == SHARDING_HELD && id_equal(grab->session, session))
            marks[(*n)++] = (sharding_mark){grab->ts, grab->when_ms};
    pthread_mutex_unlock(&store->sharding->mutex);
    qsort(marks, *n, sizeof *marks, sharding_mark_compare);
    return marks;
}
