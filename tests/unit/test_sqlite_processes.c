/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite_processes.c: the embedded store between processes: a crash is seen at once, a kernel
 * lock outlives its process only where it was passed on, a grant wakes its waiter, no step is lost.
 */
#include "sqlite_fixture.h"

#include "support/idle.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* A child and the test talk through a socket pair; what a child does is in its function. */
typedef struct child {
    pid_t pid;
    int fd;
} child;

static child start(void (*run)(int fd))
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        is_child = true;
        alarm(60);
        run(fds[1]);
        _exit(0);
    }
    close(fds[1]);
    return (child){.pid = pid, .fd = fds[0]};
}

/* Waits for a message of the other side's, or fails within ten seconds. */
static void hear(int fd, void *out, size_t size)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (poll(&wait, 1, 10000) != 1 || recv(fd, out, size, 0) != (ssize_t)size)
        abort();
}

static void say(int fd, const void *what, size_t size)
{
    if (send(fd, what, size, MSG_NOSIGNAL) != (ssize_t)size)
        abort();
}

static void expect_end(child *of)
{
    int status;
    assert_int_equal(waitpid(of->pid, &status, 0), of->pid);
    assert_int_equal(status, 0);
    close(of->fd);
}

static void kill_child(child *of)
{
    kill(of->pid, SIGKILL);
    waitpid(of->pid, NULL, 0);
    close(of->fd);
}

typedef struct heard {
    int grants, looks;
    hf_id ticket;
} heard;

static void note_notice(void *ctx, const hf_notice *notice)
{
    heard *to = ctx;
    to->grants += notice->kind == HF_NOTICE_GRANT;
    to->looks += notice->kind == HF_NOTICE_LOOK;
    if (notice->kind == HF_NOTICE_GRANT)
        to->ticket = notice->ticket;
}

static heard await(hf_store *store, hf_id session, int64_t timeout_ms)
{
    hf_error err;
    heard found = {.grants = 0};
    must(store->ops->await(store, session, (hf_stamp){0}, timeout_ms, note_notice, &found, &err),
         &err);
    return found;
}

/* ---- Crashes ---- */

/* Holds "a", says which session does, and ends it when told to. */
static void hold_until_told(int fd)
{
    char told;
    hf_error err;
    hf_id ticket;
    int64_t token;
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    enter(store, "a", session, &ticket, &token);
    say(fd, &session, sizeof session);
    hear(fd, &told, 1);
    leave(store, "a", ticket);
    store->ops->session_end(store, session, false, &err);
    store->ops->close(store);
}

static void take_out(hf_store *store, hf_id dead)
{
    hf_error err;
    hf_step_reply reply;
    hf_death death = {.session = dead, .who = "test"};
    hf_step step = {.deaths = &death, .n_deaths = 1};
    must(store->ops->step(store, "a", &step, NULL, &reply, &err), &err);
}

static void a_crash_is_seen_at_once(void **state)
{
    (void)state;
    hf_error err;
    hf_id holder, ticket;
    int64_t token;
    child other = start(hold_until_told);
    hear(other.fd, &holder, sizeof holder);
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    assert_int_equal(enter(store, "a", session, &ticket, &token), RECORD_WAITS);
    assert_false(look_at(store, holder, 0).is_gone);
    assert_int_equal(await(store, session, 50).looks, 0);
    int64_t before = idle_ms();
    kill(other.pid, SIGKILL);
    assert_int_equal(await(store, session, 5000).looks, 1);
    assert_true(idle_ms() - before < 100);
    hf_session_state seen = look_at(store, holder, 0);
    assert_true(seen.is_gone);
    must(store->ops->session_mark(store, &seen, &err), &err);
    take_out(store, holder);
    hf_record record = read_record(store, "a");
    assert_int_equal(record.holders, 1);
    assert_true(id_equal(record.entries[0].ticket, ticket));
    assert_int_equal(record.last.outcome, HF_OUTCOME_ABANDONED);
    record_done(&record);
    kill_child(&other);
    store->ops->close(store);
}

/* One that dies before the waiter's first await() is found, too. */
static void a_crash_before_the_wait_is_seen(void **state)
{
    (void)state;
    hf_id holder;
    child other = start(hold_until_told);
    hear(other.fd, &holder, sizeof holder);
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    assert_false(look_at(store, holder, 0).is_gone);
    kill_child(&other);
    assert_int_equal(await(store, session, 5000).looks, 1);
    store->ops->close(store);
}

static void a_clean_end_wakes_only_whom_it_grants(void **state)
{
    (void)state;
    hf_id holder, ticket;
    int64_t token;
    child other = start(hold_until_told);
    hear(other.fd, &holder, sizeof holder);
    hf_store *store = open_store(), *third = open_store();
    hf_id session = begin_session(store), idle = begin_session(third);
    enter(store, "a", session, &ticket, &token);
    look_at(store, holder, 0);
    look_at(third, holder, 0);
    assert_int_equal(await(third, idle, 1).looks, 0);
    say(other.fd, "x", 1);
    heard found = await(store, session, 5000);
    assert_int_equal(found.grants, 1);
    assert_true(id_equal(found.ticket, ticket));
    expect_end(&other);
    assert_int_equal(await(store, session, 100).looks, 0);
    assert_int_equal(await(third, idle, 100).looks, 0);
    third->ops->close(third);
    store->ops->close(store);
}

/* ---- Kernel locks and forks ---- */

/* Begins a session, forks one more that waits, says session and grandchild, and waits. `keeps`: the
 * grandchild inherits the session's lock, as the command of `holdfast run` does. */
typedef struct family {
    hf_id session;
    pid_t grandchild;
} family;

static void have_child(int fd, bool keeps)
{
    hf_store *store = open_store();
    family of = {.session = begin_session(store)};
    int kept = keeps ? store->ops->keep_fd(store, of.session) : -1;
    of.grandchild = fork();
    if (of.grandchild == 0) {
        if (!keeps)
            store->ops->close(store);
        alarm(60);
        for (;;)
            pause();
    }
    if (kept >= 0)
        close(kept);
    say(fd, &of, sizeof of);
    for (;;)
        pause();
}

static void have_plain_child(int fd)
{
    have_child(fd, false);
}

static void have_keeping_child(int fd)
{
    have_child(fd, true);
}

static void a_forked_child_keeps_no_lock(void **state)
{
    (void)state;
    family of;
    child other = start(have_plain_child);
    hear(other.fd, &of, sizeof of);
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    assert_false(look_at(store, of.session, 0).is_gone);
    kill_child(&other);
    assert_int_equal(await(store, session, 5000).looks,
                     1); /* the grandchild may be slow to start */
    assert_true(look_at(store, of.session, 0).is_gone);
    kill(of.grandchild, SIGKILL);
    store->ops->close(store);
}

/* The grandchild is not ours to wait for: its end is seen by the store's own notice. */
static void a_kept_lock_outlives_its_process(void **state)
{
    (void)state;
    family of;
    child other = start(have_keeping_child);
    hear(other.fd, &of, sizeof of);
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    kill_child(&other);
    assert_false(look_at(store, of.session, 0).is_gone);
    assert_int_equal(await(store, session, 50).looks, 0);
    kill(of.grandchild, SIGKILL);
    assert_int_equal(await(store, session, 5000).looks, 1);
    assert_true(look_at(store, of.session, 0).is_gone);
    store->ops->close(store);
}

static void a_forked_childs_close_frees_nothing(void **state)
{
    (void)state;
    int status;
    hf_store *store = open_store(), *other = open_store();
    hf_id session = begin_session(store);
    pid_t pid = fork();
    if (pid == 0) {
        store->ops->close(store);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_false(look_at(other, session, 0).is_gone);
    hf_session_state seen = look_at(store, session, 0);
    assert_int_equal(seen.presence, HF_LIVE);
    assert_false(seen.is_gone);
    store->ops->close(store);
    other->ops->close(other);
}

/* The number of its lock's descriptor may be another file's there. */
static void a_forked_child_has_no_lock_to_pass_on(void **state)
{
    (void)state;
    int status;
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 20; i++)
            if (open("/dev/null", O_RDONLY) < 0)
                abort();
        _exit(store->ops->keep_fd(store, session) < 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    store->ops->close(store);
}

#define BUSY 3
#define CHILDREN 20

static void *be_busy(void *ctx)
{
    atomic_bool *is_over = ctx;
    hf_store *store = open_store();
    hf_id session = begin_session(store), ticket;
    int64_t token;
    while (!atomic_load(is_over)) {
        enter(store, "busy", session, &ticket, &token);
        leave(store, "busy", ticket);
    }
    store->ops->close(store);
    return NULL;
}

static hf_code code_of_an_opening(void)
{
    hf_error err;
    hf_store *store = NULL;
    hf_code code = sqlite_open(path, &config, &store, &err);
    if (store)
        store->ops->close(store);
    return code;
}

static void expect_of_a_child(hf_code code)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        _exit((int)code_of_an_opening());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, (int)code << 8);
}

/* SQLite takes it for the owner of the parent's locks: such children waited for ever for a thread
 * that they do not have, or used a log that another program removed. */
static void a_child_of_a_busy_process_is_refused(void **state)
{
    (void)state;
    atomic_bool is_over = false;
    pthread_t threads[BUSY];
    hf_store *store = open_store();
    for (int i = 0; i < BUSY; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, be_busy, &is_over), 0);
    for (int i = 0; i < CHILDREN; i++)
        expect_of_a_child(HF_FORKED);
    atomic_store(&is_over, true);
    for (int i = 0; i < BUSY; i++)
        pthread_join(threads[i], NULL);
    store->ops->close(store);
    expect_of_a_child(HF_OK);
}

/* ---- Waking ---- */

#define TURNS 41

/* Takes "a", says so, and leaves it when told to; says when that was. */
static void hand_over(int fd)
{
    char told;
    hf_id ticket;
    int64_t token, at;
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    for (int i = 0; i < TURNS; i++) {
        if (enter(store, "a", session, &ticket, &token) != RECORD_HOLDS)
            abort();
        say(fd, "x", 1);
        hear(fd, &told, 1);
        at = clock_ns(CLOCK_MONOTONIC);
        leave(store, "a", ticket);
        say(fd, &at, sizeof at);
        hear(fd, &told, 1);
    }
    store->ops->close(store);
}

static int64_t time_one_turn(hf_store *store, hf_id session, int fd)
{
    char told;
    hf_id ticket;
    int64_t token, at, woken;
    hear(fd, &told, 1);
    assert_int_equal(enter(store, "a", session, &ticket, &token), RECORD_WAITS);
    say(fd, "x", 1);
    heard found = await(store, session, 5000);
    woken = clock_ns(CLOCK_MONOTONIC);
    assert_int_equal(found.grants, 1);
    assert_true(id_equal(found.ticket, ticket));
    hear(fd, &at, sizeof at);
    leave(store, "a", ticket);
    say(fd, "x", 1);
    return woken - at;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Without a wake it would be found by a look, a second later or more. */
static void a_grant_wakes_its_waiter(void **state)
{
    (void)state;
    int64_t took[TURNS];
    child other = start(hand_over);
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    for (int i = 0; i < TURNS; i++)
        took[i] = time_one_turn(store, session, other.fd);
    expect_end(&other);
    qsort(took, TURNS, sizeof took[0], by_size);
    print_message("release to waking: median %lld us, worst %lld us\n",
                  (long long)took[TURNS / 2] / 1000, (long long)took[TURNS - 1] / 1000);
    assert_true(took[TURNS / 2] < 500000000);
    store->ops->close(store);
}

static void wake_ends_a_wait(void **state)
{
    (void)state;
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    int64_t before = idle_ms();
    store->ops->wake(store);
    heard found = await(store, session, 5000);
    assert_int_equal(found.grants + found.looks, 0);
    assert_true(idle_ms() - before < 1000);
    store->ops->close(store);
}

/* Senders drop what does not fit into the queue of a receiver that is not at it. */
static void too_many_notices_say_look(void **state)
{
    (void)state;
    hf_id tickets[20], ticket;
    int64_t token;
    hf_store *store = open_store(), *other = open_store();
    hf_id session = begin_session(store), holder = begin_session(other);
    char name[16];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "l%d", i);
        enter(other, name, holder, &tickets[i], &token);
        enter(store, name, session, &ticket, &token);
    }
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "l%d", i);
        leave(other, name, tickets[i]);
    }
    heard found = await(store, session, 5000);
    assert_true(found.grants >= 10);
    assert_int_equal(found.looks, 1);
    other->ops->close(other);
    store->ops->close(store);
}

/* ---- Contention ---- */

#define PAIRS 1000

static void hammer(int fd)
{
    char told;
    const int64_t floor = 0;
    hf_error err;
    hf_step_reply reply;
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    hear(fd, &told, 1);
    for (int i = 0; i < PAIRS; i++) {
        hf_enter in = enter_of(session, 1);
        hf_leave out = {.ticket = in.entry.ticket, .outcome = HF_OUTCOME_RELEASED, .told = true};
        must(store->ops->step(store, "hot", &(hf_step){.enter = &in, .floor = &floor}, NULL, &reply,
                              &err),
             &err);
        must(store->ops->step(store, "hot", &(hf_step){.leaves = &out, .n_leaves = 1}, NULL, &reply,
                              &err),
             &err);
    }
    store->ops->close(store);
}

/* Every grant takes the next token, so that a lost step would show. All open a new file at once. */
static void no_step_is_lost(void **state)
{
    (void)state;
    child one = start(hammer), two = start(hammer);
    say(one.fd, "x", 1);
    say(two.fd, "x", 1);
    int64_t before = clock_ns(CLOCK_MONOTONIC);
    expect_end(&one);
    expect_end(&two);
    print_message("two processes: %lld us a step\n",
                  (long long)(clock_ns(CLOCK_MONOTONIC) - before) / 1000 / (4 * PAIRS));
    hf_store *store = open_store();
    hf_record record = read_record(store, "hot");
    assert_int_equal(record.token, 2 * PAIRS);
    assert_int_equal(record.holders + record.queued, 0);
    record_done(&record);
    store->ops->close(store);
}

#define OPENERS 8

static void open_and_close(int fd)
{
    char told;
    hear(fd, &told, 1);
    hf_store *store = open_store();
    begin_session(store);
    store->ops->close(store);
}

static void many_make_one_database_at_once(void **state)
{
    (void)state;
    child openers[OPENERS];
    for (int i = 0; i < OPENERS; i++)
        openers[i] = start(open_and_close);
    for (int i = 0; i < OPENERS; i++)
        say(openers[i].fd, "x", 1);
    for (int i = 0; i < OPENERS; i++)
        expect_end(&openers[i]);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(a_crash_is_seen_at_once),
        TEST(a_crash_before_the_wait_is_seen),
        TEST(a_clean_end_wakes_only_whom_it_grants),
        TEST(a_forked_child_keeps_no_lock),
        TEST(a_kept_lock_outlives_its_process),
        TEST(a_forked_childs_close_frees_nothing),
        TEST(a_forked_child_has_no_lock_to_pass_on),
        TEST(a_child_of_a_busy_process_is_refused),
        TEST(a_grant_wakes_its_waiter),
        TEST(wake_ends_a_wait),
        TEST(too_many_notices_say_look),
        TEST(no_step_is_lost),
        TEST(many_make_one_database_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
