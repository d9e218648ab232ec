/* SPDX-License-Identifier: Apache-2.0 */
/* watcher.c: lists the locks while anybody listens, and keeps the changes as events. The store is
 * read once for all listeners. */
#include "httpd/watcher.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "httpd/clock.h"
#include "show/json.h"
#include "show/text.h"
#include "sync/mutex_scope.h"

#define LOOK_MS 500            /* between two looks */
#define LINGER_MS 30000        /* it goes on when the last has gone */
#define COUNT_MS 10000         /* between two looks that are made for counts alone */
#define COUNT_LINGER_MS 180000 /* scrapes are a minute apart, and one may fail */
#define COUNT_SHARE 20         /* at most this part of the time is spent on them */
#define BEAT_MS 1000
#define MANY_FOLLOWERS 100
#define CROWDED_MS 60000 /* until free locks that were too many are counted again */
#define LATE_MS 1500     /* so much over twice the usual time without a lock is trouble */

/* ---- Events ---- */

static void drop_event(event *e)
{
    free(e->name);
    free(e->text);
    renewals_free(e->renewals);
    *e = (event){.name = NULL};
}

/* Takes what it has. */
static void keep(watcher *w, news kind, const event *what)
{
    event *e = &w->events[w->next % EVENTS_KEPT];
    drop_event(e);
    *e = *what;
    w->next++;
    if (w->next - w->first > EVENTS_KEPT)
        w->first++;
    metrics_news(w->metrics, kind);
}

/* As it is sent, in new memory. */
static char *print_event(const watcher *w, uint64_t number, news kind, const char *data)
{
    return text_print("id: %" PRIx64 "-%" PRIu64 "\nevent: %s\ndata: %s\n\n", w->epoch, number,
                      news_name(kind), data);
}

static void tell_store(watcher *w)
{
    json_t *data = json_object_new();
    json_put(data, "reachable", json_boolean(!w->trouble));
    json_put_text(data, "detail", w->trouble);
    char *text = json_text(data, JSON_COMPACT);
    keep(w, NEWS_STORE, &(event){.text = print_event(w, w->next, NEWS_STORE, text)});
    free(text);
    json_decref(data);
}

/* ---- What two listings differ in ---- */

typedef struct change_note {
    news kind;
    char *name, *text;
} change_note;

typedef struct change_notes {
    change_note *all;
    size_t n, room;
} change_notes;

static void note(void *ctx, news kind, const char *name, const json_t *data)
{
    change_notes *notes = ctx;
    if (notes->n == notes->room) {
        notes->room = notes->room ? 2 * notes->room : 64;
        notes->all = realloc(notes->all, notes->room * sizeof *notes->all);
        if (!notes->all)
            text_no_memory();
    }
    notes->all[notes->n++] = (change_note){kind, text_copy(name), json_text(data, JSON_COMPACT)};
}

/* Those for which there is no room are not printed. */
static void keep_all_locked(watcher *w, change_notes *notes)
{
    for (size_t i = 0; i < notes->n; i++) {
        change_note *one = &notes->all[i];
        event e = {.name = one->name};
        if (notes->n - i <= EVENTS_KEPT)
            e.text = print_event(w, w->next, one->kind, one->text);
        keep(w, one->kind, &e);
        free(one->text);
    }
    free(notes->all);
}

/* ---- Looking ---- */

static void set_trouble(watcher *w, const char *text)
{
    bool was_troubled = w->trouble;
    free(w->trouble);
    w->trouble = text ? text_copy(text) : NULL;
    if (was_troubled != (text != NULL))
        tell_store(w);
}

/* Followers that began while the store was not reached, and without a listing, have an empty one,
 * and those that have had the free locks too learn no more of them once there are too many: their
 * events end here, so that they get the whole. */
static void begin_anew_locked(watcher *w)
{
    w->first = ++w->next;
}

/* Without the mutex, for which microhttpd's only thread waits when it sends something to a
 * follower. The listing that others read meanwhile is only read here, too. */
static void compare_locked(watcher *w, const listing *found)
{
    change_notes notes = {.n = 0};
    if (!w->now.locks)
        return;
    pthread_mutex_unlock(&w->mutex);
    renewals *renewed = renewals_between(&w->now, found);
    listing_compare(&w->now, found, note, &notes);
    pthread_mutex_lock(&w->mutex);
    if (renewed)
        keep(w, NEWS_LEASES, &(event){.renewals = renewed});
    keep_all_locked(w, &notes);
}

static void take_locked(watcher *w, listing *found)
{
    bool is_first_after_trouble = w->trouble && !w->now.locks;
    set_trouble(w, NULL);
    bool is_cut_short = found->is_crowded && w->now.has_free;
    if (is_first_after_trouble || is_cut_short)
        begin_anew_locked(w);
    if (found->is_crowded)
        w->crowded_until_ms = clock_now_ms() + CROWDED_MS;
    if (found->has_free && !w->now.has_free)
        w->free_since = w->next;
    compare_locked(w, found);
    listing before = w->now;
    w->now = *found;
    pthread_mutex_unlock(&w->mutex);
    listing_done(&before);
    pthread_mutex_lock(&w->mutex);
}

/* From the beginning of one look to that of the next, if looks take this long. A follower may have
 * come during a look that was made for counts. */
static int64_t interval_of_locked(const watcher *w, int64_t took_ms)
{
    bool is_followed = w->n_followers || clock_now_ms() < w->wanted_until_ms;
    int64_t least_ms = took_ms * (is_followed ? BOARD_SHARE : COUNT_SHARE);
    int64_t usual_ms = is_followed ? LOOK_MS : COUNT_MS;
    return least_ms > usual_ms ? least_ms : usual_ms;
}

/* Reads without the mutex; meanwhile the guard watches the time. */
static hf_code read_locked(watcher *w, listing *found, int64_t began_ms, hf_error *err)
{
    bool has_free = began_ms < w->free_until_ms && began_ms >= w->crowded_until_ms;
    w->is_reading = true;
    w->heard = began_ms;
    pthread_cond_broadcast(&w->looking);
    pthread_mutex_unlock(&w->mutex);
    hf_code code = listing_read(found, &w->now, has_free, w->client, w->waits, &w->heard, err);
    pthread_mutex_lock(&w->mutex);
    w->is_reading = false;
    return code;
}

/* Looks once; returns when to look again: after a failure soon, so that the end of it is noticed.
 */
static int64_t look_locked(watcher *w)
{
    listing found;
    hf_error err;
    int64_t began_ms = clock_now_ms();
    hf_code code = read_locked(w, &found, began_ms, &err);
    int64_t ended_ms = clock_now_ms();
    metrics_look(w->metrics);
    if (code) {
        set_trouble(w, err.text);
        return ended_ms + interval_of_locked(w, 0);
    }
    take_locked(w, &found);
    board_keep_pace(&w->pace, ended_ms - began_ms);
    return ended_ms + interval_of_locked(w, w->pace.usual_ms) - w->pace.usual_ms;
}

/* Nobody has listened for long, so events from now on are not noticed. */
static void forget_locked(watcher *w)
{
    listing_done(&w->now);
    w->first = w->next;
    w->epoch++;
}

static bool is_wanted_locked(watcher *w, int64_t now_ms)
{
    if (w->n_followers)
        w->wanted_until_ms = now_ms + LINGER_MS;
    for (const follower *f = w->followers; f; f = f->after)
        if (!f->in_use)
            w->free_until_ms = now_ms + LINGER_MS;
    return now_ms < w->wanted_until_ms || now_ms < w->counted_until_ms;
}

static void beat_locked(watcher *w, int64_t now_ms)
{
    if (now_ms < w->beat_at_ms)
        return;
    w->beat_at_ms = now_ms + BEAT_MS;
    w->beats++;
}

static bool wake(follower *f)
{
    if (!f->is_asleep)
        return false;
    f->is_asleep = false;
    MHD_resume_connection(f->mhd);
    return true;
}

void watcher_wake_rest_locked(watcher *w)
{
    if (!w->has_rest)
        return;
    w->has_rest = false;
    for (follower *f = w->followers; f; f = f->after)
        wake(f);
}

/* There may be something for them. Of many, one is woken, with which microhttpd's own thread comes
 * for the rest: whenever others resume one, it goes through all suspended connections. */
static void wake_all_locked(watcher *w)
{
    bool is_alone = false;
    w->has_rest |= w->n_followers < MANY_FOLLOWERS || w->is_closing;
    watcher_wake_rest_locked(w);
    for (follower *f = w->followers; f && !is_alone; f = f->after)
        is_alone = wake(f);
    w->has_rest = is_alone;
}

/* A follower that comes meanwhile is not kept waiting for a look that was made for counts. */
static void pause_locked(watcher *w, int64_t next_ms)
{
    struct timespec next = clock_at(next_ms);
    bool was_followed = w->n_followers;
    while (!w->is_closing && clock_now_ms() < next_ms && (was_followed || !w->n_followers))
        pthread_cond_clockwait(&w->changed, &w->mutex, CLOCK_MONOTONIC, &next);
}

static void watch_once_locked(watcher *w)
{
    int64_t now_ms = clock_now_ms();
    if (!is_wanted_locked(w, now_ms)) {
        forget_locked(w);
        pthread_cond_wait(&w->changed, &w->mutex);
        return;
    }
    int64_t next_ms = look_locked(w);
    beat_locked(w, now_ms);
    wake_all_locked(w);
    pause_locked(w, next_ms);
}

/* Followers that sleep learn of a store that does not answer, long before its call gives up. */
static void tell_late_locked(watcher *w)
{
    w->is_reading = false;
    if (!w->trouble)
        set_trouble(w, "it does not answer");
    wake_all_locked(w);
}

static void *guard(void *ctx)
{
    watcher *w = ctx;
    pthread_mutex_lock(&w->mutex);
    while (!w->is_closing) {
        int64_t late_ms = w->heard + LATE_MS + 2 * w->pace.usual_ms;
        struct timespec late = clock_at(late_ms);
        if (!w->is_reading)
            pthread_cond_wait(&w->looking, &w->mutex);
        else if (clock_now_ms() < late_ms)
            pthread_cond_clockwait(&w->looking, &w->mutex, CLOCK_MONOTONIC, &late);
        else
            tell_late_locked(w);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

static void *watch(void *ctx)
{
    watcher *w = ctx;
    pthread_mutex_lock(&w->mutex);
    while (!w->is_closing)
        watch_once_locked(w);
    wake_all_locked(w);
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

/* ---- For those that follow ---- */

admission watcher_join(watcher *w, follower *f, const places *p)
{
    MUTEX_SCOPE(&w->mutex);
    if (tally_of(&w->of_client, f->who) >= p->of_one[PLACE_FOLLOWER])
        return TOO_MANY_OF_ONE;
    if (w->n_followers >= p->of_all[PLACE_FOLLOWER])
        return TOO_MANY_OF_ALL;
    f->after = w->followers;
    if (f->after)
        f->after->before = f;
    w->followers = f;
    w->n_followers++;
    tally_add(&w->of_client, f->who);
    pthread_cond_broadcast(&w->changed);
    return ADMITTED;
}

void watcher_leave(watcher *w, follower *f, excerpt *part)
{
    pthread_mutex_lock(&w->mutex);
    if (f->after)
        f->after->before = f->before;
    if (f->before)
        f->before->after = f->after;
    else
        w->followers = f->after;
    w->n_followers--;
    tally_remove(&w->of_client, f->who);
    excerpt_leave(part);
    watcher_wake_rest_locked(w); /* it may be the one that was to come for them */
    pthread_mutex_unlock(&w->mutex);
}

size_t watcher_count_followers(watcher *w)
{
    MUTEX_SCOPE(&w->mutex);
    return w->n_followers;
}

watcher_counts watcher_count(watcher *w)
{
    pthread_mutex_lock(&w->mutex);
    int64_t now_ms = clock_now_ms();
    bool is_known = w->now.locks;
    watcher_counts out = {.is_known = is_known, .is_troubled = w->trouble};
    if (is_known) {
        out.of = census_of(&w->now.board);
        out.age_ms = now_ms - w->now.at_ms;
    }
    w->counted_until_ms = now_ms + COUNT_LINGER_MS;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    return out;
}

static bool is_crowded_locked(const watcher *w)
{
    return clock_now_ms() < w->crowded_until_ms;
}

bool watcher_is_ready_locked(const watcher *w, const follower *f)
{
    bool is_enough = f->in_use || w->now.has_free || is_crowded_locked(w);
    return w->trouble || (w->now.locks && is_enough);
}

bool watcher_find_locked(const watcher *w, const follower *f, const char *id, uint64_t *next)
{
    uint64_t epoch, number, first = w->first;
    if (!f->in_use && w->free_since > first)
        first = w->free_since;
    if (!f->in_use && !w->now.has_free)
        return false;
    if (!id || sscanf(id, "%" SCNx64 "-%" SCNu64, &epoch, &number) != 2 || epoch != w->epoch)
        return false;
    *next = number + 1;
    return *next >= first && *next <= w->next;
}

static void write_renewals(const watcher *w, uint64_t number, const char *prefix, FILE *out)
{
    json_t *data = renewals_of(w->events[number % EVENTS_KEPT].renewals, prefix);
    if (!data)
        return;
    char *text = json_text(data, JSON_COMPACT),
         *printed = print_event(w, number, NEWS_LEASES, text);
    fputs(printed, out);
    free(printed);
    free(text);
    json_decref(data);
}

void watcher_write_locked(const watcher *w, uint64_t number, const char *prefix, FILE *out)
{
    const event *e = &w->events[number % EVENTS_KEPT];
    if (e->renewals)
        write_renewals(w, number, prefix, out);
    else if (!e->name || strncmp(e->name, prefix, strlen(prefix)) == 0)
        fputs(e->text, out);
}

void watcher_snapshot_locked(const watcher *w, const char *prefix, bool in_use, FILE *out)
{
    json_t *data = listing_of_some(&w->now, prefix, in_use);
    json_put(data, "free_left_off",
             json_boolean(!in_use && !w->now.has_free && is_crowded_locked(w)));
    json_put(data, "reachable", json_boolean(!w->trouble));
    json_put_text(data, "detail", w->trouble);
    char *text = json_text(data, JSON_COMPACT);
    fprintf(out, "id: %" PRIx64 "-%" PRIu64 "\nevent: snapshot\ndata: ", w->epoch, w->next - 1);
    fputs(text, out);
    fputs("\n\n", out);
    free(text);
    json_decref(data);
}

/* ---- Its life ---- */

/* From then on it closes. */
static void end_guard(watcher *w)
{
    pthread_mutex_lock(&w->mutex);
    w->is_closing = true;
    pthread_cond_broadcast(&w->changed);
    pthread_cond_broadcast(&w->looking);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->guard, NULL);
}

bool watcher_open(watcher *w, hf_client *client, waits *requests, metrics *m)
{
    w->client = client;
    w->waits = requests;
    w->metrics = m;
    w->epoch = (uint64_t)text_now_ms() << 16; /* of no service before */
    w->first = w->next = 1;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    pthread_cond_init(&w->looking, NULL);
    if (pthread_create(&w->guard, NULL, guard, w))
        return false;
    if (!pthread_create(&w->thread, NULL, watch, w))
        return true;
    end_guard(w);
    return false;
}

void watcher_close(watcher *w)
{
    end_guard(w);
    pthread_join(w->thread, NULL);
}

void watcher_done(watcher *w)
{
    listing_done(&w->now);
    tally_done(&w->of_client);
    excerpts_done(&w->excerpts);
    free(w->trouble);
    for (size_t i = 0; i < EVENTS_KEPT; i++)
        drop_event(&w->events[i]);
}
