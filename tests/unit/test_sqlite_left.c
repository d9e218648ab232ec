/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite_left.c: what a process has left behind is waited for by the pipe of its session
 * (P15), with which nobody can do anything else. The test itself is what was left behind: it has
 * the pipe's reading end as if it had inherited it. */
#include "store/sqlite/sqlite_internal.h"
#include "support/idle.h"
#include "unit/sqlite_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

static const char *pipe_of(int64_t row)
{
    static char name[128];
    snprintf(name, sizeof name, "%s-left-%lld", path, (long long)row);
    return name;
}

static bool is_there(int64_t row)
{
    return access(pipe_of(row), F_OK) == 0;
}

/* Of the first session that the file knows. */
static int inherit(void)
{
    int fd = open(pipe_of(1), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* A process that has begun the first session, and passes its lock on. */
typedef struct holder {
    pid_t pid;
    hf_id session;
} holder;

static void hold(int out)
{
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    if (store->ops->keep_fd(store, session) < 0 ||
        write(out, &session, sizeof session) != (ssize_t)sizeof session)
        abort();
    alarm(60);
    for (;;)
        pause();
}

static holder start_holder(void)
{
    int ends[2];
    holder out;
    assert_int_equal(pipe(ends), 0);
    out.pid = fork();
    if (out.pid == 0) {
        is_child = true;
        hold(ends[1]);
    }
    assert_int_equal(read(ends[0], &out.session, sizeof out.session), sizeof out.session);
    close(ends[0]);
    close(ends[1]);
    return out;
}

static void kill_holder(const holder *of)
{
    assert_int_equal(kill(of->pid, SIGKILL), 0);
    assert_int_equal(waitpid(of->pid, NULL, 0), of->pid);
}

static void count_looks(void *ctx, const hf_notice *notice)
{
    *(int *)ctx += notice->kind == HF_NOTICE_LOOK;
}

static int looks_within(hf_store *store, hf_id session, int64_t timeout_ms)
{
    hf_error err;
    int looks = 0;
    must(store->ops->await(store, session, (hf_stamp){0}, timeout_ms, count_looks, &looks, &err),
         &err);
    return looks;
}

/* ---- What is left behind ---- */

static void test_it_is_waited_for(void **state)
{
    (void)state;
    holder of = start_holder();
    int left = inherit();
    hf_store *store = open_store();
    kill_holder(&of);
    assert_false(look_at(store, of.session, 0).is_gone);
    close(left);
    assert_true(look_at(store, of.session, 0).is_gone);
    store->ops->close(store);
}

static void test_for_no_longer_than_the_lease(void **state)
{
    (void)state;
    holder of = start_holder();
    int left = inherit();
    hf_store *store = open_store();
    kill_holder(&of);
    mono_ahead_ms = 10001;
    assert_true(look_at(store, of.session, 0).is_gone);
    close(left);
    store->ops->close(store);
}

static void lock_all(int fd, short type)
{
    struct flock all = {.l_type = type, .l_whence = SEEK_SET};
    fcntl(fd, F_OFD_SETLK, &all);
    fcntl(fd, F_SETLK, &all);
}

/* Nor can it end the wait for others that have the same end. */
static void test_it_frees_nothing_with_what_it_has(void **state)
{
    (void)state;
    holder of = start_holder();
    int left = inherit(), same = dup(left);
    char byte;
    hf_store *store = open_store();
    lock_all(same, F_RDLCK);
    lock_all(same, F_UNLCK);
    flock(same, LOCK_EX);
    flock(same, LOCK_UN);
    assert_int_equal(write(same, "x", 1), -1);
    assert_int_equal(read(same, &byte, 1), 0);
    close(same);
    assert_false(look_at(store, of.session, 0).is_gone);
    kill_holder(&of);
    assert_false(look_at(store, of.session, 0).is_gone);
    close(left);
    store->ops->close(store);
}

/* ---- Its end is noticed ---- */

static void *close_soon(void *ctx)
{
    usleep(100000);
    close(*(int *)ctx);
    return NULL;
}

/* The waiter sleeps by then, and is told by the kernel: a second before it would test again. */
static void test_its_end_wakes_a_waiter(void **state)
{
    (void)state;
    holder of = start_holder();
    int left = inherit();
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    look_at(store, of.session, 0);
    assert_int_equal(looks_within(store, session, 1), 0);
    kill_holder(&of);
    int64_t before = idle_ms();
    pthread_t closer;
    assert_int_equal(pthread_create(&closer, NULL, close_soon, &left), 0);
    assert_int_equal(looks_within(store, session, 10000), 1);
    assert_true(idle_ms() - before < 500);
    pthread_join(closer, NULL);
    store->ops->close(store);
}

/* The holder was killed before anybody waited for it, so its end is reported to nobody. */
static void test_one_that_is_found_left_is_tested_from_then_on(void **state)
{
    (void)state;
    holder of = start_holder();
    int left = inherit();
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    assert_int_equal(looks_within(store, session, 1), 0);
    kill_holder(&of);
    assert_int_equal(looks_within(store, session, 50), 0);
    assert_false(look_at(store, of.session, 0).is_gone);
    close(left);
    int looks = 0;
    for (int i = 0; i < 2 && !looks; i++) /* the first await() may be the one that is woken */
        looks = looks_within(store, session, 5000);
    assert_int_equal(looks, 1);
    store->ops->close(store);
}

typedef struct sleeper {
    hf_store *store;
    hf_id session;
} sleeper;

static void *sleep_long(void *ctx)
{
    sleeper *s = ctx;
    hf_error err;
    int looks = 0;
    s->store->ops->await(s->store, s->session, (hf_stamp){0}, 20000, count_looks, &looks, &err);
    return NULL;
}

/* It must test from then on, and does so in its next call. */
static void test_a_sleeping_waiter_is_woken_when_one_is_found_left(void **state)
{
    (void)state;
    holder of = start_holder();
    int left = inherit();
    hf_store *store = open_store();
    sleeper s = {store, begin_session(store)};
    pthread_t thread;
    kill_holder(&of);
    assert_int_equal(looks_within(store, s.session, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, sleep_long, &s), 0);
    int64_t before = idle_ms();
    look_at(store, of.session, 0);
    pthread_join(thread, NULL);
    assert_true(idle_ms() - before < 10000);
    close(left);
    store->ops->close(store);
}

/* Somebody else has ended its lease; what it left behind may live for days. */
static void test_of_a_session_that_is_marked_nothing_is_awaited(void **state)
{
    (void)state;
    hf_error err;
    holder of = start_holder();
    int left = inherit();
    hf_store *store = open_store(), *other = open_store();
    hf_id session = begin_session(store);
    kill_holder(&of);
    look_at(store, of.session, 0);
    mono_ahead_ms = 10001;
    hf_session_state seen = look_at(other, of.session, 0);
    must(other->ops->session_mark(other, &seen, &err), &err);
    assert_false(is_there(1));
    looks_within(store, session, 1);
    looks_within(store, session, 1);
    assert_false(((sqlite_store *)store)->sees_left);
    assert_int_equal(((sqlite_store *)store)->n_watched, 0);
    close(left);
    other->ops->close(other);
    store->ops->close(store);
}

/* ---- The pipe ---- */

static void test_it_is_there_while_it_is_needed(void **state)
{
    (void)state;
    hf_error err;
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    assert_false(is_there(1));
    int one = store->ops->keep_fd(store, session), other = store->ops->keep_fd(store, session);
    assert_true(is_there(1) && one > STDERR_FILENO && other > STDERR_FILENO);
    assert_int_equal(fcntl(one, F_GETFD), 0); /* it survives exec() */
    must(store->ops->session_end(store, session, false, &err), &err);
    assert_false(is_there(1));
    close(one);
    close(other);
    store->ops->close(store);
}

static void test_a_second_end_keeps_the_first(void **state)
{
    (void)state;
    holder of = start_holder();
    int left = inherit();
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    int one = store->ops->keep_fd(store, session), other = store->ops->keep_fd(store, session);
    struct stat first, second;
    assert_true(fstat(one, &first) == 0 && fstat(other, &second) == 0);
    assert_int_equal(first.st_ino, second.st_ino);
    close(one);
    close(other);
    kill_holder(&of);
    close(left);
    store->ops->close(store);
}

/* As after a loss of power; or another user of the folder has put it there. */
static void test_what_stands_in_its_place_is_replaced(void **state)
{
    (void)state;
    struct stat info;
    int file = open(pipe_of(1), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(file >= 0 && close(file) == 0);
    hf_store *store = open_store();
    int end = store->ops->keep_fd(store, begin_session(store));
    assert_int_equal(fstat(end, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(info.st_mode & 07777, 0600);
    close(end);
    store->ops->close(store);
}

static void test_without_a_pipe_a_warning_says_so(void **state)
{
    (void)state;
    assert_int_equal(mkdir(pipe_of(1), 0700), 0);
    hf_store *store = open_store();
    warning[0] = '\0';
    assert_int_equal(store->ops->keep_fd(store, begin_session(store)), -1);
    assert_non_null(strstr(warning, "-left-1: cannot make a pipe: "));
    assert_non_null(strstr(warning, "keeps no lock"));
    store->ops->close(store);
}

/* Nothing is known then: it is an error, never "nobody". */
static void test_a_file_in_its_place_is_an_error(void **state)
{
    (void)state;
    hf_error err;
    hf_session_state seen;
    holder of = start_holder();
    hf_store *store = open_store();
    kill_holder(&of);
    assert_int_equal(unlink(pipe_of(1)), 0);
    int file = open(pipe_of(1), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(file >= 0 && close(file) == 0);
    assert_int_equal(store->ops->sessions_look(store, &of.session, 1, 0, &seen, &err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, "-left-1: is not the pipe"));
    assert_int_equal(unlink(pipe_of(1)), 0);
    assert_int_equal(symlink("/dev/null", pipe_of(1)), 0);
    assert_int_equal(store->ops->sessions_look(store, &of.session, 1, 0, &seen, &err), HF_UNUSABLE);
    assert_int_equal(unlink(pipe_of(1)), 0);
    assert_true(look_at(store, of.session, 0).is_gone);
    store->ops->close(store);
}

static void test_it_has_the_mode_of_the_files(void **state)
{
    (void)state;
    struct stat info;
    assert_int_equal(chmod(folder, 02770), 0);
    hf_store *store = open_store();
    int end = store->ops->keep_fd(store, begin_session(store));
    assert_int_equal(fstat(end, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0660);
    close(end);
    store->ops->close(store);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(test_it_is_waited_for),
        TEST(test_for_no_longer_than_the_lease),
        TEST(test_it_frees_nothing_with_what_it_has),
        TEST(test_its_end_wakes_a_waiter),
        TEST(test_one_that_is_found_left_is_tested_from_then_on),
        TEST(test_a_sleeping_waiter_is_woken_when_one_is_found_left),
        TEST(test_of_a_session_that_is_marked_nothing_is_awaited),
        TEST(test_it_is_there_while_it_is_needed),
        TEST(test_a_second_end_keeps_the_first),
        TEST(test_what_stands_in_its_place_is_replaced),
        TEST(test_without_a_pipe_a_warning_says_so),
        TEST(test_a_file_in_its_place_is_an_error),
        TEST(test_it_has_the_mode_of_the_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
