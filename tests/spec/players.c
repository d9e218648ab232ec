/* SPDX-License-Identifier: Apache-2.0 */
/* players.c: a session of a spec: a client on a store that can be cut off, and a thread. */
#include "spec/spec.h"

#include "core/id.h"
#include "core/record.h"
#include "support/inside.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static char prefix[32]; /* of the locks' names, of this order */
static pthread_mutex_t tokens_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char name[64];
    int64_t token;
} tokens[16];

static const char *full_name(const char *lock, char out[64])
{
    snprintf(out, 64, "%s%s", prefix, lock);
    return out;
}

/* ---- What a step does ---- */

static struct held *find_held(struct player *p, const char *name)
{
    for (size_t i = 0; i < LOCKS; i++)
        if (p->held[i].lock && strcmp(p->held[i].name, name) == 0)
            return &p->held[i];
    return NULL;
}

static void note_token(const char *name, int64_t token)
{
    pthread_mutex_lock(&tokens_mutex);
    size_t i = 0;
    while (tokens[i].name[0] && strcmp(tokens[i].name, name) != 0)
        i++;
    snprintf(tokens[i].name, sizeof tokens[i].name, "%s", name);
    if (token == tokens[i].token)
        spec_fail(name, "the same token was given twice");
    if (token > tokens[i].token)
        tokens[i].token = token;
    pthread_mutex_unlock(&tokens_mutex);
}

static hf_code acquire(struct player *p, const struct step *step, const char *name)
{
    hf_lock_options options = {.cancel = p->cancel};
    struct held held = {.permits = HF_LIMIT_RW, .limit = HF_LIMIT_RW};
    for (size_t i = 2; i < step->n_words; i++) {
        const char *word = step->words[i];
        if (strcmp(word, "shared") == 0) {
            options.mode = HF_SHARED;
            held.permits = 1;
        } else if (strcmp(word, "permits") == 0) {
            held.permits = options.permits = atoi(step->words[i + 1]);
            held.limit = options.limit = atoi(step->words[i + 2]);
        } else if (strcmp(word, "try") == 0) {
            options.wait_ms = HF_TRY;
        } else if (strcmp(word, "wait") == 0) {
            options.wait_ms = atoi(step->words[i + 1]);
        }
    }
    hf_error err;
    hf_code code = hf_lock_acquire(p->client, name, &options, &held.lock, &err);
    if (code)
        return code;
    snprintf(held.name, sizeof held.name, "%s", name);
    held.token = hf_lock_token(held.lock);
    note_token(name, held.token);
    pthread_mutex_lock(&p->mutex);
    size_t i = 0;
    while (p->held[i].lock)
        i++;
    p->held[i] = held;
    pthread_mutex_unlock(&p->mutex);
    return HF_OK;
}

static hf_code release(struct player *p, const char *name)
{
    hf_error err;
    pthread_mutex_lock(&p->mutex);
    struct held *held = find_held(p, name);
    hf_lock *lock = held ? held->lock : NULL;
    if (held)
        held->lock = NULL;
    pthread_mutex_unlock(&p->mutex);
    hf_code code = lock ? hf_lock_release(lock, &err) : HF_NOT_FOUND;
    hf_lock_close(lock);
    return code;
}

static hf_code break_lock(struct player *p, const char *name)
{
    hf_error err;
    hf_break_options options = {.reason = "the spec says so", .cancel = p->cancel};
    return hf_break(p->client, name, &options, &err);
}

static struct player *find_player(const struct player *p, const char *name)
{
    for (struct player *each = p->all; each < p->all + SESSIONS; each++)
        if (strcmp(each->name, name) == 0)
            return each;
    return NULL;
}

static hf_code cancel(const struct player *p, const char *whose)
{
    hf_cancel_fire(find_player(p, whose)->cancel);
    return HF_OK;
}

/* A session that has many tickets in one queue. */
static hf_code crowd(struct player *p, const char *name, size_t n)
{
    hf_store *store = p->store->inner;
    hf_error err;
    hf_step_reply reply;
    hf_session self = {.ttl_ms = 60000, .app = "crowd"};
    self.id = p->crowd = client_new_id(p->client);
    hf_code code = store->ops->session_begin(store, &self, &err);
    p->tickets = calloc(n, sizeof *p->tickets);
    for (p->n_tickets = 0; p->n_tickets < n && !code; p->n_tickets++) {
        hf_enter enter = {.limit = HF_LIMIT_RW, .queue_max = HF_QUEUE_MAX};
        enter.entry = (hf_entry){.ticket = client_new_id(p->client),
                                 .session = p->crowd,
                                 .ttl_ms = 60000,
                                 .permits = HF_LIMIT_RW};
        p->tickets[p->n_tickets] = enter.entry.ticket;
        hf_step step = {.enter = &enter};
        code = store->ops->step(store, name, &step, NULL, &reply, &err);
    }
    return code;
}

static hf_code disperse(struct player *p, const char *name)
{
    hf_store *store = p->store->inner;
    hf_error err;
    hf_step_reply reply;
    hf_code code = HF_OK;
    for (size_t i = p->n_tickets; i-- > 0 && !code;) {
        hf_leave leave = {.ticket = p->tickets[i], .outcome = HF_OUTCOME_RELEASED};
        hf_step step = {.leaves = &leave, .n_leaves = 1};
        code = store->ops->step(store, name, &step, NULL, &reply, &err);
    }
    free(p->tickets);
    p->tickets = NULL;
    p->n_tickets = 0;
    return code ? code : store->ops->session_end(store, p->crowd, false, &err);
}

/* From exclusive to shared, or back. */
static hf_code change(struct player *p, const char *name, hf_code (*how)(hf_lock *, hf_error *))
{
    hf_error err;
    pthread_mutex_lock(&p->mutex);
    struct held *held = find_held(p, name);
    hf_lock *lock = held ? held->lock : NULL;
    pthread_mutex_unlock(&p->mutex);
    hf_code code = lock ? how(lock, &err) : HF_NOT_FOUND;
    if (!code && hf_lock_token(lock) != held->token) {
        held->token = hf_lock_token(lock);
        note_token(name, held->token);
    }
    return code;
}

/* A lock that an id holds. */
static hf_code lease(struct player *p, const char *name)
{
    hf_error err;
    hf_code code = hf_lease_acquire(p->client, name, NULL, &p->lease, &err);
    if (!code)
        note_token(name, p->lease.token);
    return code;
}

static hf_code end_lease(struct player *p)
{
    hf_error err;
    hf_code code = hf_lease_release(p->client, p->lease.id, &err);
    p->lease.id[0] = '\0';
    return code;
}

/* What another session's network kept back arrives now. */
static hf_code land(const struct player *p, const char *whose)
{
    struct player *of = find_player(p, whose);
    hf_store *store = of->store->inner;
    hf_step_reply reply;
    hf_error err;
    return store->ops->step(store, of->kept_name, &of->kept, NULL, &reply, &err);
}

static hf_code do_step(struct player *p, const struct step *step)
{
    char name[64];
    const char *verb = step->words[0], *word = step->words[1];
    full_name(word, name);
    if (strcmp(verb, "acquire") == 0)
        return acquire(p, step, name);
    if (strcmp(verb, "release") == 0)
        return release(p, name);
    if (strcmp(verb, "downgrade") == 0)
        return change(p, name, hf_lock_downgrade);
    if (strcmp(verb, "upgrade") == 0)
        return change(p, name, hf_lock_upgrade);
    if (strcmp(verb, "lease") == 0)
        return lease(p, name);
    if (strcmp(verb, "end") == 0)
        return end_lease(p);
    if (strcmp(verb, "land") == 0)
        return land(p, word);
    if (strcmp(verb, "break") == 0)
        return break_lock(p, name);
    if (strcmp(verb, "cancel") == 0)
        return cancel(p, word);
    if (strcmp(verb, "crowd") == 0)
        return crowd(p, name, (size_t)atoi(step->words[2]));
    if (strcmp(verb, "disperse") == 0)
        return disperse(p, name);
    if (strcmp(verb, "pause") == 0)
        poll(NULL, 0, atoi(word));
    else if (strcmp(verb, "keep-back") == 0)
        atomic_store(&p->keeps_back, true);
    else if (strcmp(verb, "cut") == 0 || strcmp(verb, "heal") == 0)
        atomic_store(&(*word ? find_player(p, word) : p)->is_cut, verb[0] == 'c');
    else
        spec_fail(step->name, "there is no such verb");
    return HF_OK;
}

/* ---- Its thread ---- */

static void *play(void *arg)
{
    struct player *p = arg;
    pthread_mutex_lock(&p->mutex);
    for (;;) {
        while (!p->step && !p->is_over)
            pthread_cond_wait(&p->changed, &p->mutex);
        if (!p->step)
            break;
        struct step *step = p->step;
        pthread_mutex_unlock(&p->mutex);
        hf_code code = do_step(p, step);
        pthread_mutex_lock(&p->mutex);
        snprintf(step->outcome, sizeof step->outcome, "%s", hf_code_name(code));
        p->step = NULL;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

void player_begin(struct player *p, struct step *step)
{
    pthread_mutex_lock(&p->mutex);
    step->outcome[0] = '\0';
    p->step = step;
    p->is_stuck = false;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
}

bool player_await(struct player *p, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t ns = until.tv_nsec + ms % 1000 * 1000000;
    until.tv_sec += ms / 1000 + ns / 1000000000;
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&p->mutex);
    bool in_time = true;
    while (p->step && in_time)
        in_time = pthread_cond_timedwait(&p->changed, &p->mutex, &until) == 0;
    bool idle = !p->step;
    p->is_stuck = !idle;
    pthread_mutex_unlock(&p->mutex);
    return idle;
}

/* ---- What must be true ---- */

static int64_t permits_of(const struct held *held)
{
    if (held->limit != HF_LIMIT_RW)
        return held->permits;
    return hf_lock_mode(held->lock) == HF_SHARED ? 1 : HF_LIMIT_RW;
}

/* How many permits of that lock one session believes to hold. */
static int64_t believed(struct player *p, const char *name)
{
    int64_t sum = 0;
    pthread_mutex_lock(&p->mutex);
    for (size_t i = 0; i < LOCKS; i++) {
        struct held *held = &p->held[i];
        if (held->lock && strcmp(held->name, name) == 0 &&
            hf_lock_check(held->lock, NULL, NULL) == HF_OK)
            sum += permits_of(held);
    }
    pthread_mutex_unlock(&p->mutex);
    return sum;
}

static void check_one(struct player *players, const struct held *held)
{
    int64_t sum = 0;
    for (int i = 0; i < SESSIONS; i++)
        if (players[i].client)
            sum += believed(&players[i], held->name);
    if (sum > held->limit)
        spec_fail(held->name, "is believed to be held by too many");
}

void players_check(struct player *players)
{
    for (int i = 0; i < SESSIONS; i++)
        for (int j = 0; players[i].client && j < LOCKS; j++) {
            pthread_mutex_lock(&players[i].mutex);
            struct held held = players[i].held[j];
            pthread_mutex_unlock(&players[i].mutex);
            if (held.lock)
                check_one(players, &held);
        }
}

/* ---- Beginning and end ---- */

static void keep_back(struct player *p, const struct faulty_step *of)
{
    snprintf(p->kept_name, sizeof p->kept_name, "%s", of->name);
    p->kept = (hf_step){.change = NULL};
    if (of->step->change) {
        p->kept_change = *of->step->change;
        p->kept.change = &p->kept_change;
    } else if (of->step->pass) {
        p->kept_pass = *of->step->pass;
        p->kept_pass.why = p->kept_pass.actor = NULL; /* its caller's, and gone when it lands */
        p->kept_pass.before = NULL;
        p->kept.pass = &p->kept_pass;
    } else {
        p->kept_enter = *of->step->enter;
        p->kept.enter = &p->kept_enter;
    }
}

static bool is_change(faulty_call call, const void *arg)
{
    const hf_step *step = call == FAULTY_STEP ? ((const struct faulty_step *)arg)->step : NULL;
    return step &&
           (step->change || step->pass || (step->enter && !id_is_zero(step->enter->replaces)));
}

/* Between a session and its store. */
static hf_code cut(faulty *f, faulty_call call, const void *arg)
{
    struct player *p = f->ctx;
    if (atomic_load(&p->is_cut))
        return HF_UNREACHABLE;
    if (!is_change(call, arg) || !atomic_exchange(&p->keeps_back, false))
        return HF_OK;
    keep_back(p, arg);
    return HF_UNKNOWN;
}

static void open_one(struct player *p, struct player *all, const struct session_spec *session,
                     const char *uri)
{
    hf_error err;
    hf_options options = {.ttl_ms = session->ttl_ms, .app = session->name};
    *p = (struct player){.all = all};
    snprintf(p->name, sizeof p->name, "%s", session->name);
    p->store = faulty_open(uri, &options, &p->client);
    p->store->ctx = p;
    p->store->before = cut;
    hf_cancel_new(&p->cancel, &err);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
    pthread_create(&p->thread, NULL, play, p);
}

void players_open(struct player *players, const struct spec *spec, const char *uri)
{
    static unsigned number;
    snprintf(prefix, sizeof prefix, "%u-", ++number);
    memset(tokens, 0, sizeof tokens);
    for (size_t i = 0; i < SESSIONS; i++)
        players[i] = (struct player){.client = NULL};
    for (size_t i = 0; i < spec->n_sessions; i++)
        open_one(&players[i], players, &spec->sessions[i], uri);
}

static void give_up(struct player *p)
{
    hf_error err;
    for (size_t i = 0; i < LOCKS; i++) {
        if (!p->held[i].lock)
            continue;
        hf_lock_release(p->held[i].lock, &err);
        hf_lock_close(p->held[i].lock);
        p->held[i].lock = NULL;
    }
    if (p->lease.id[0])
        end_lease(p);
}

/* First the players that can do so give up what they hold; then those that wait come to their end,
 * cut short if need be. */
static void end_one(struct player *players, struct player *p, bool cuts_short)
{
    atomic_store(&p->is_cut, false);
    if (!player_await(p, cuts_short ? 3000 : 100) && cuts_short) {
        hf_cancel_fire(p->cancel);
        player_await(p, 10000);
    }
    players_check(players);
    if (!p->step)
        give_up(p);
}

void players_end(struct player *players)
{
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < SESSIONS; i++)
            if (players[i].client)
                end_one(players, &players[i], round == 1);
}

/* Those whose lease is not over. */
static size_t count_living(const hf_entry_info *entries, size_t n)
{
    size_t living = 0;
    for (size_t i = 0; i < n; i++)
        living += entries[i].lease_left_ms >= 0;
    return living;
}

static bool see_rest(void *ctx, const hf_lock_info *info)
{
    size_t *rest = ctx;
    *rest += count_living(info->holders, info->n_holders);
    *rest += count_living(info->queue, info->n_queue);
    return true;
}

/* Whatever the sessions left must be gone soon: they live, and have nothing to wait for. On a
 * machine that is very busy one may have died; its tickets stay until somebody wants the lock. */
static void check_rest(struct player *p)
{
    hf_error err;
    size_t rest = 1;
    for (int i = 0; i < 100 && rest; i++) {
        rest = 0;
        if (hf_list(p->client, prefix, see_rest, &rest, &err))
            rest = 1;
        if (rest)
            poll(NULL, 0, 50);
    }
    if (rest)
        spec_fail(prefix, "something was left behind");
}

void players_close(struct player *players, const struct spec *spec, const char *uri)
{
    (void)uri;
    char name[64];
    for (size_t i = 0; i < spec->n_sessions; i++)
        if (players[i].n_tickets)
            disperse(&players[i], full_name("x", name));
    check_rest(&players[0]);
    for (size_t i = 0; i < spec->n_sessions; i++) {
        struct player *p = &players[i];
        pthread_mutex_lock(&p->mutex);
        p->is_over = true;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->mutex);
        pthread_join(p->thread, NULL);
        hf_close(p->client);
        hf_cancel_free(p->cancel);
        pthread_cond_destroy(&p->changed);
        pthread_mutex_destroy(&p->mutex);
    }
}
