/* SPDX-License-Identifier: Apache-2.0 */
/* torturer.c: one client of the fault campaign. Its threads take locks in random modes from a seed,
 * hold them for a while, count up two counters, and give the locks back; all that they believed
 * goes into a history (history.h) that checker.py judges. Started and tormented by campaign.py. */
#include "data.h"
#include "history.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS ((int64_t)1000000)
/* A careful program does not begin a write when so little of its lease is left. */
#define LEFT_TO_WRITE_MS 100
#define SAY_BELIEF_MS 20 /* how often a holder says that it believes */
#define FD_MS 2000       /* for the descriptor of a lost lock to become readable */
#define THREADS_MAX 16
#define NAMES_MAX 16
#define SEM_LIMIT 3

typedef struct settings {
    const char *store, *data, *id, *history, *until;
    char *names[NAMES_MAX]; /* "sem..." are semaphores, the others read-write locks */
    size_t n_names;
    int64_t seed, turns, n_threads, hold_ms;
    hf_options client;
    bool is_unguarded, is_writer, stops_before_write;
} settings;

static settings given = {.id = "c", .n_threads = 1};
static hf_client *client;

typedef struct thread {
    uint64_t chance;
    int64_t number, turn;
    char actor[16];
    counters *data;
} thread;

typedef struct turn {
    const char *name;
    hf_lock_options options;
    int64_t hold_ms;
    bool counts, closes, has_fd;
    hf_lock *lock;
    int64_t token, until, said, left_ms; /* until: the last moment at which it was believed */
    bool is_lost;
} turn;

/* ---- Chance ---- */

/* splitmix64 */
static uint64_t next(thread *t)
{
    uint64_t z = t->chance += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t below(thread *t, int64_t n)
{
    return (int64_t)(next(t) % (uint64_t)n);
}

static bool is_one_in(thread *t, int64_t n)
{
    return below(t, n) == 0;
}

/* Mostly short, sometimes longer than a lease. */
static int64_t choose_hold_ms(thread *t)
{
    int64_t ttl_ms = given.client.ttl_ms;
    int64_t kind = below(t, 100);
    if (kind < 80)
        return below(t, 20);
    if (kind < 93)
        return below(t, 150);
    return kind < 97 ? below(t, ttl_ms) : ttl_ms + below(t, ttl_ms);
}

static int64_t choose_wait_ms(thread *t)
{
    int64_t kind = below(t, 4);
    if (kind == 0)
        return HF_TRY;
    return kind == 1 ? HF_WAIT_FOREVER : 50 + below(t, 4000);
}

static turn choose(thread *t)
{
    turn it = {.name = given.names[below(t, (int64_t)given.n_names)],
               .hold_ms = choose_hold_ms(t),
               .closes = is_one_in(t, 4),
               .has_fd = is_one_in(t, 2)};
    bool is_semaphore = !strncmp(it.name, "sem", 3);
    it.options = (hf_lock_options){.struct_size = sizeof it.options,
                                   .actor = t->actor,
                                   .mode = is_one_in(t, 3) ? HF_SHARED : HF_EXCLUSIVE,
                                   .permits = is_semaphore ? 1 + (int32_t)below(t, 2) : 0,
                                   .limit = is_semaphore ? SEM_LIMIT : 0,
                                   .wait_ms = choose_wait_ms(t)};
    it.counts = !is_semaphore && it.options.mode == HF_EXCLUSIVE && !is_one_in(t, 3);
    if (given.is_writer) {
        it.options.mode = HF_EXCLUSIVE;
        it.options.wait_ms = HF_WAIT_FOREVER;
        it.counts = true;
        it.closes = false;
    }
    if (given.hold_ms)
        it.hold_ms = given.hold_ms;
    return it;
}

/* ---- What is said ---- */

static event begin(const thread *t, const char *kind)
{
    event out = history_event(kind);
    history_number(&out, "thread", t->number);
    history_number(&out, "turn", t->turn);
    return out;
}

static void say_ask(const thread *t, const turn *it)
{
    bool counts = it->options.permits > 0;
    event out = begin(t, "ask");
    history_text(&out, "lock", it->name);
    history_number(&out, "limit", counts ? it->options.limit : HF_LIMIT_RW);
    history_number(&out, "permits",
                   counts                          ? it->options.permits
                   : it->options.mode == HF_SHARED ? 1
                                                   : HF_LIMIT_RW);
    history_number(&out, "wait_ms", it->options.wait_ms);
    history_say(&out);
}

static void say_code(const thread *t, const char *kind, hf_code code, const hf_error *err)
{
    event out = begin(t, kind);
    history_code(&out, code, err);
    history_say(&out);
}

static void say_granted(const thread *t, const turn *it)
{
    hf_last last;
    bool is_known = !hf_lock_previous(it->lock, &last, NULL);
    event out = begin(t, "granted");
    history_number(&out, "token", it->token);
    history_number(&out, "previous", is_known ? (int)last.outcome : -1);
    history_number(&out, "previous_token", last.token);
    history_say(&out);
}

static void say_until(const thread *t, const char *kind, const turn *it)
{
    event out = begin(t, kind);
    history_number(&out, "until", it->until);
    history_say(&out);
}

static void say_wrote(const thread *t, const char *kind, const char *counter, int64_t value)
{
    event out = begin(t, kind);
    history_text(&out, "counter", counter);
    history_number(&out, "value", value);
    history_say(&out);
}

static void say_written(const thread *t, const char *counter, hf_code code, const hf_error *err)
{
    event out = begin(t, "written");
    history_text(&out, "counter", counter);
    history_code(&out, code, err);
    history_say(&out);
}

/* ---- Belief ---- */

static void pause_us(int64_t us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

/* A lost lock's descriptor must say so too. */
static void say_lost(const thread *t, const turn *it, const hf_error *err)
{
    struct pollfd fd = {it->has_fd ? hf_lock_fd(it->lock) : -1, POLLIN, 0};
    int readable = it->has_fd ? poll(&fd, 1, FD_MS) : -1;
    event out = begin(t, "lost");
    history_number(&out, "until", it->until);
    history_number(&out, "readable", readable);
    history_code(&out, HF_LOST, err);
    history_say(&out);
}

/* Belief is what hf_lock_check() says: it was there at a moment not before this call began. */
static bool believes(const thread *t, turn *it)
{
    hf_error err = {0};
    int64_t before = now_ns();
    if (it->is_lost)
        return false;
    if (hf_lock_check(it->lock, &it->left_ms, &err)) {
        it->is_lost = true;
        say_lost(t, it, &err);
        return false;
    }
    it->until = before;
    if (before - it->said >= SAY_BELIEF_MS * NS_PER_MS) {
        it->said = before;
        say_until(t, "believes", it);
    }
    return true;
}

static bool hold(const thread *t, turn *it, int64_t ms)
{
    int64_t end = now_ns() + ms * NS_PER_MS;
    while (believes(t, it) && now_ns() < end)
        pause_us(700);
    return !it->is_lost;
}

/* ---- Work ---- */

static void write_guarded(const thread *t, const turn *it, int64_t value)
{
    hf_error err = {0};
    say_wrote(t, "write", "guarded", value);
    hf_code code = data_write_guarded(t->data, it->name, it->token, value, &err);
    say_written(t, "guarded", code, &err);
}

static void write_plain(const thread *t, const turn *it, int64_t value)
{
    hf_error err = {0};
    say_wrote(t, "write", "plain", value);
    hf_code code = data_write_plain(t->data, it->name, value, &err);
    say_written(t, "plain", code, &err);
}

/* Both counters: read, some time, a look at the lease, written. */
static void count_up(const thread *t, turn *it)
{
    int64_t guarded = 0, plain = 0;
    hf_error err = {0};
    hf_code code = data_read_guarded(t->data, it->name, it->token, &guarded, &err);
    if (code)
        say_code(t, "unread", code, &err);
    bool has_plain = !data_read_plain(t->data, it->name, &plain, &err);
    if (!hold(t, it, it->hold_ms) || it->left_ms < LEFT_TO_WRITE_MS)
        return;
    if (given.stops_before_write)
        raise(SIGSTOP); /* a pause at the worst moment; it writes at once when it goes on */
    if (!code)
        write_guarded(t, it, guarded + 1);
    if (has_plain)
        write_plain(t, it, plain + 1);
}

static void give_back(const thread *t, turn *it)
{
    hf_error err = {0};
    believes(t, it);
    if (it->closes) {
        say_until(t, "close", it);
    } else {
        say_until(t, "release", it);
        hf_code code = hf_lock_release(it->lock, &err);
        say_code(t, "released", code, &err);
    }
    hf_lock_close(it->lock);
}

static void take_turn(thread *t)
{
    turn it = choose(t);
    hf_error err = {0};
    t->turn++;
    say_ask(t, &it);
    hf_code code = hf_lock_acquire(client, it.name, &it.options, &it.lock, &err);
    if (code) {
        say_code(t, "refused", code, &err);
        pause_us(2000 + below(t, 20000));
        return;
    }
    it.token = hf_lock_token(it.lock);
    if (it.has_fd)
        hf_lock_fd(it.lock);
    say_granted(t, &it);
    believes(t, &it);
    if (it.counts)
        count_up(t, &it);
    else
        hold(t, &it, it.hold_ms);
    give_back(t, &it);
    if (is_one_in(t, 2))
        pause_us(below(t, 20000));
}

static void *take_turns(void *ctx)
{
    thread *t = ctx;
    while ((!given.turns || t->turn < given.turns) && access(given.until, F_OK))
        take_turn(t);
    return NULL;
}

static bool run_threads(void)
{
    static thread all[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    for (int64_t i = 0; i < given.n_threads; i++) {
        thread *t = &all[i];
        t->number = i;
        t->chance = (uint64_t)given.seed * 1000003 + (uint64_t)i;
        snprintf(t->actor, sizeof t->actor, "t%d", (int)i);
        t->data = data_open(given.data, !given.is_unguarded);
        if (!t->data || pthread_create(&threads[i], NULL, take_turns, t))
            return false;
    }
    for (int64_t i = 0; i < given.n_threads; i++) {
        pthread_join(threads[i], NULL);
        data_close(all[i].data);
    }
    return true;
}

/* ---- The words ---- */

static void set_names(char *list)
{
    given.n_names = 0;
    for (char *name = strtok(list, ","); name && given.n_names < NAMES_MAX;
         name = strtok(NULL, ","))
        given.names[given.n_names++] = name;
}

static bool set_text(const char *key, const char *value)
{
    const struct {
        const char *key;
        const char **to;
    } texts[] = {{"store", &given.store}, {"data", &given.data},       {"id", &given.id},
                 {"until", &given.until}, {"history", &given.history}, {"app", &given.client.app}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(key, texts[i].key)) {
            *texts[i].to = value;
            return true;
        }
    return false;
}

static bool set_number(const char *key, const char *value)
{
    const struct {
        const char *key;
        int64_t *to;
    } numbers[] = {{"seed", &given.seed},
                   {"turns", &given.turns},
                   {"threads", &given.n_threads},
                   {"hold", &given.hold_ms},
                   {"ttl", &given.client.ttl_ms},
                   {"notice", &given.client.notice_ms},
                   {"patience", &given.client.patience_ms},
                   {"clock-trust", &given.client.clock_trust_ms}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(key, numbers[i].key)) {
            *numbers[i].to = strtoll(value, NULL, 10);
            return true;
        }
    return false;
}

static bool set_flag(const char *word)
{
    const struct {
        const char *word;
        bool *to;
    } flags[] = {{"--unguarded", &given.is_unguarded},
                 {"--writer", &given.is_writer},
                 {"--stop-before-write", &given.stops_before_write}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (!strcmp(word, flags[i].word)) {
            *flags[i].to = true;
            return true;
        }
    return false;
}

/* --KEY=VALUE, and the flags above. */
static bool read_words(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (set_flag(argv[i]))
            continue;
        if (strncmp(argv[i], "--", 2) || !value)
            return false;
        *value++ = '\0';
        if (!strcmp(argv[i] + 2, "locks"))
            set_names(value);
        else if (!set_text(argv[i] + 2, value) && !set_number(argv[i] + 2, value))
            return false;
    }
    return given.store && given.data && given.history && given.until && given.n_names &&
           given.client.ttl_ms && given.n_threads >= 1 && given.n_threads <= THREADS_MAX;
}

static void say_begin(void)
{
    event out = history_event("begin");
    history_text(&out, "id", given.id);
    history_number(&out, "pid", getpid());
    history_number(&out, "ttl_ms", given.client.ttl_ms);
    history_number(&out, "seed", given.seed);
    history_say(&out);
}

static void close_client(void)
{
    int64_t before = now_ns();
    hf_close(client);
    event out = history_event("end");
    history_number(&out, "close_ms", (now_ns() - before) / NS_PER_MS);
    history_say(&out);
}

static void on_log(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx;
    fprintf(stderr, "%s %" PRId64 " %d %s\n", given.id, now_ns() / NS_PER_MS, (int)level, text);
}

int main(int argc, char **argv)
{
    hf_error err = {0};
    if (!read_words(argc, argv) || !history_open(given.history))
        return 64;
    given.client.struct_size = sizeof given.client;
    given.client.log = on_log;
    say_begin();
    hf_code code = hf_open(given.store, &given.client, &client, &err);
    if (code) {
        fprintf(stderr, "%s: %s\n", given.id, err.text);
        return hf_code_exit(code);
    }
    if (!run_threads()) {
        fprintf(stderr, "%s: no counters or no threads\n", given.id);
        return 70;
    }
    close_client();
    return 0;
}
