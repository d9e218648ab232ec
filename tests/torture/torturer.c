/* SPDX-License-Identifier: Apache-2.0 */
/* torturer.c: one client of the fault campaign. Its threads take locks in random modes from a seed,
 * hold them for a while, count up two counters, and give the locks back; all that they believed
 * goes into a history (history.h) that checker.py judges. Started and tormented by campaign.py. */
#include "data.h"
#include "history.h"
#include "settings.h"
#include "turn.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A careful program does not begin a write when so little of its lease is left. */
#define LEFT_TO_WRITE_MS 100
#define SAY_BELIEF_MS 20 /* how often a holder says that it believes */
#define FD_MS 2000       /* for the descriptor of a lost lock to become readable */

static hf_client *client;

/* ---- What is said ---- */

static event begin(const thread *t, const turn *it, const char *kind)
{
    event out = history_event(kind);
    history_number(&out, "thread", t->number);
    history_number(&out, "turn", it->number);
    return out;
}

static void say_ask(const thread *t, const turn *it)
{
    bool counts = it->options.permits > 0;
    event out = begin(t, it, "ask");
    history_text(&out, "lock", turn_name(it));
    history_number(&out, "limit", counts ? it->options.limit : HF_LIMIT_RW);
    history_number(&out, "permits",
                   counts                          ? it->options.permits
                   : it->options.mode == HF_SHARED ? 1
                                                   : HF_LIMIT_RW);
    history_number(&out, "wait_ms", it->options.wait_ms);
    history_number(&out, "group", it->group);
    history_say(&out);
}

static void say_code(const thread *t, const turn *it, const char *kind, hf_code code,
                     const hf_error *err)
{
    event out = begin(t, it, kind);
    history_code(&out, code, err);
    history_say(&out);
}

static void say_granted(const thread *t, const turn *it)
{
    hf_last last;
    bool is_known = !hf_lock_previous(it->lock, &last, NULL);
    event out = begin(t, it, "granted");
    history_number(&out, "token", it->token);
    history_number(&out, "previous", is_known ? (int)last.outcome : -1);
    history_number(&out, "previous_token", last.token);
    history_number(&out, "feed_ms", it->options.feed_ms);
    history_say(&out);
}

static void say_until(const thread *t, const char *kind, const turn *it)
{
    event out = begin(t, it, kind);
    history_number(&out, "until", it->until);
    history_say(&out);
}

static void say_wrote(const thread *t, const turn *it, const char *counter, int64_t value)
{
    event out = begin(t, it, "write");
    history_text(&out, "counter", counter);
    history_number(&out, "value", value);
    history_say(&out);
}

static void say_written(const thread *t, const turn *it, const char *counter, hf_code code,
                        const hf_error *err)
{
    event out = begin(t, it, "written");
    history_text(&out, "counter", counter);
    history_code(&out, code, err);
    history_say(&out);
}

/* ---- Belief ---- */

static void pause_us(int64_t us)
{
    nanosleep(&(struct timespec){us / 1000000, (long)(us % 1000000) * 1000}, NULL);
}

/* A lost lock's descriptor must say so too. */
static void say_lost(const thread *t, const turn *it, const hf_error *err)
{
    struct pollfd fd = {it->has_fd ? hf_lock_fd(it->lock) : -1, POLLIN, 0};
    int readable = it->has_fd ? poll(&fd, 1, FD_MS) : -1;
    event out = begin(t, it, "lost");
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

/* Each third of its time. */
static void feed(const thread *t, turn *it)
{
    if (!it->feeds || now_ns() - it->fed < it->options.feed_ms * NS_PER_MS / 3)
        return;
    hf_error err = {0};
    int64_t before = now_ns();
    hf_code code = hf_lock_feed(it->lock, &err);
    it->fed = now_ns();
    event out = begin(t, it, "fed");
    history_number(&out, "from", before);
    history_code(&out, code, &err);
    history_say(&out);
}

static bool hold(const thread *t, turn *it, int64_t ms)
{
    int64_t end = now_ns() + ms * NS_PER_MS;
    while (believes(t, it) && now_ns() < end) {
        feed(t, it);
        pause_us(700);
    }
    return !it->is_lost;
}

/* ---- Work ---- */

static void write_guarded(const thread *t, const turn *it, int64_t value)
{
    hf_error err = {0};
    say_wrote(t, it, "guarded", value);
    hf_code code = data_write_guarded(t->data, it->name, it->token, value, &err);
    say_written(t, it, "guarded", code, &err);
}

static void write_plain(const thread *t, const turn *it, int64_t value)
{
    hf_error err = {0};
    say_wrote(t, it, "plain", value);
    hf_code code = data_write_plain(t->data, it->name, value, &err);
    say_written(t, it, "plain", code, &err);
}

/* Both counters: read, some time, a look at the lease, written. */
static void count_up(const thread *t, turn *it)
{
    int64_t guarded = 0, plain = 0;
    hf_error err = {0};
    hf_code code = data_read_guarded(t->data, it->name, it->token, &guarded, &err);
    if (code)
        say_code(t, it, "unread", code, &err);
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

static hf_code release(const turn *it, hf_error *err)
{
    return it->election ? hf_election_resign(it->election, err) : hf_lock_release(it->lock, err);
}

static void give_back(const thread *t, turn *it)
{
    hf_error err = {0};
    believes(t, it);
    if (it->closes) {
        say_until(t, "close", it);
    } else {
        say_until(t, "release", it);
        hf_code code = release(it, &err);
        say_code(t, it, "released", code, &err);
    }
    if (it->election)
        hf_election_close(it->election);
    else
        hf_lock_close(it->lock);
}

static hf_code campaign(turn *it, hf_error *err)
{
    const hf_election_options how = {.struct_size = sizeof how, .value = given.id};
    const hf_campaign_options wait = {.struct_size = sizeof wait, .wait_ms = it->options.wait_ms};
    hf_code code = hf_election_open(client, turn_name(it), &how, &it->election, err);
    if (!code)
        code = hf_election_campaign(it->election, &wait, err);
    if (!code)
        it->lock = hf_election_lock(it->election);
    else
        hf_election_close(it->election);
    return code;
}

static hf_code acquire(turn *it, hf_error *err)
{
    return it->is_campaign ? campaign(it, err)
                           : hf_lock_acquire(client, turn_name(it), &it->options, &it->lock, err);
}

static void had(const thread *t, turn *it)
{
    it->token = hf_lock_token(it->lock);
    it->fed = now_ns();
    if (it->has_fd)
        hf_lock_fd(it->lock);
    say_granted(t, it);
    believes(t, it);
}

static void refused(thread *t, const turn *it, hf_code code, const hf_error *err)
{
    say_code(t, it, "refused", code, err);
    pause_us(2000 + chance_below(t, 20000));
}

/* What is to be done once: nobody does it again whose forerunner says that it was done. */
static void do_work(const thread *t, turn *it)
{
    bool has_run = hf_lock_has_run(it->lock);
    event out = begin(t, it, "work");
    history_number(&out, "has_run", has_run);
    history_say(&out);
    if (has_run || !hold(t, it, it->hold_ms))
        return;
    it->closes = false;
    event done = begin(t, it, "done");
    history_say(&done);
    hf_lock_set_exit_status(it->lock, (int)(it->token % 100));
}

static void take_turn(thread *t)
{
    turn chosen = turn_choose(t), *it = &chosen;
    hf_error err = {0};
    it->number = ++t->turn;
    say_ask(t, it);
    hf_code code = acquire(it, &err);
    if (code) {
        refused(t, it, code, &err);
        return;
    }
    had(t, it);
    if (it->options.period_ms)
        do_work(t, it);
    else if (it->counts)
        count_up(t, it);
    else
        hold(t, it, it->hold_ms);
    give_back(t, it);
    if (chance_is_one_in(t, 2))
        pause_us(chance_below(t, 20000));
}

/* ---- Several together ---- */

/* Lost is lost for all of them. */
static void hold_all(const thread *t, turn *all, size_t n)
{
    int64_t end = now_ns() + all[0].hold_ms * NS_PER_MS;
    bool is_lost = false;
    while (!is_lost && now_ns() < end) {
        for (size_t i = 0; i < n; i++)
            is_lost |= !believes(t, &all[i]);
        pause_us(700);
    }
    for (size_t i = 0; is_lost && i < n; i++)
        believes(t, &all[i]);
}

static void take_all(thread *t)
{
    turn all[NAMES_MAX];
    const char *names[NAMES_MAX];
    hf_lock *locks[NAMES_MAX];
    hf_error err = {0};
    size_t n = turn_choose_all(t, all, names);
    for (size_t i = 0; i < n; i++)
        say_ask(t, &all[i]);
    hf_code code = hf_lock_acquire_all(client, names, n, &all[0].options, locks, &err);
    for (size_t i = 0; i < n; i++) {
        all[i].lock = code ? NULL : locks[i];
        if (code)
            say_code(t, &all[i], "refused", code, &err);
        else
            had(t, &all[i]);
    }
    if (code)
        return;
    hold_all(t, all, n);
    for (size_t i = 0; i < n; i++)
        give_back(t, &all[i]);
}

static void *take_turns(void *ctx)
{
    thread *t = ctx;
    while ((!given.turns || t->turn < given.turns) && access(given.until, F_OK)) {
        if (given.work_ms && chance_is_one_in(t, 12))
            take_all(t);
        else
            take_turn(t);
    }
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

/* ---- Who leads ---- */

/* Told each time that the leader has changed, until the end. */
static bool say_leader(void *ctx, const hf_leader *leader)
{
    event out = history_event("leads");
    (void)ctx;
    history_number(&out, "token", leader ? leader->token : 0);
    history_say(&out);
    return access(given.until, F_OK) != 0;
}

static void *observe(void *ctx)
{
    hf_cancel *cancel = ctx;
    hf_code code;
    do {
        event out = history_event("observes");
        history_say(&out);
        code = hf_election_observe(client, LEADER, say_leader, NULL, cancel, NULL);
        pause_us(20000);
    } while (code && code != HF_CANCELLED && code != HF_CLOSED);
    return NULL;
}

/* Runs the threads, and one that follows who leads. */
static bool run_observed(void)
{
    hf_cancel *cancel;
    pthread_t follower;
    if (!given.work_ms)
        return run_threads();
    if (hf_cancel_new(&cancel, NULL) || pthread_create(&follower, NULL, observe, cancel))
        return false;
    bool has_run = run_threads();
    hf_cancel_fire(cancel);
    pthread_join(follower, NULL);
    hf_cancel_free(cancel);
    return has_run;
}

/* ---- The client ---- */

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
    if (!settings_read(argc, argv) || !history_open(given.history))
        return 64;
    given.client.struct_size = sizeof given.client;
    given.client.log = on_log;
    say_begin();
    hf_code code = hf_open(given.store, &given.client, &client, &err);
    if (code) {
        fprintf(stderr, "%s: %s\n", given.id, err.text);
        return hf_code_exit(code);
    }
    if (!run_observed()) {
        fprintf(stderr, "%s: no counters or no threads\n", given.id);
        return 70;
    }
    close_client();
    return 0;
}
