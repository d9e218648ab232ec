/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite_refused.c: what the embedded store makes of it when the machine refuses a call: each
 * failure has its code, no descriptor is left open, and what can go on goes on. Our calls to the
 * machine come here by the linker (--wrap). */
#include "sqlite_fixture.h"

#include "store/sqlite/sqlite_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* ---- The machine ---- */

#define ALWAYS (-1)

static const char *refused; /* the name of a call */
static int refused_nth;     /* that one, counted from now on, or ALWAYS */
static int refused_with;    /* errno */

static void refuse(const char *call, int nth, int os)
{
    refused = call;
    refused_nth = nth;
    refused_with = os;
}

static void refuse_none(void)
{
    refused = NULL;
}

static bool is_refused(const char *call)
{
    if (!refused || strcmp(refused, call) != 0)
        return false;
    if (refused_nth != ALWAYS && --refused_nth > 0)
        return false;
    if (refused_nth == 0)
        refuse_none();
    errno = refused_with;
    return true;
}

static const char *given_zero; /* the name of a call: the nth such one gives descriptor 0 */
static int zero_nth;

static void make_room(const char *call)
{
    if (!given_zero || strcmp(given_zero, call) != 0 || --zero_nth > 0)
        return;
    given_zero = NULL;
    close(0);
}

#define CALL(type, name, parameters, arguments)                                                    \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        make_room(#name);                                                                          \
        return is_refused(#name) ? -1 : __real_##name arguments;                                   \
    }

CALL(int, open, (const char *name, int flags, mode_t mode), (name, flags, mode))
CALL(int, fcntl, (int fd, int what, void *with), (fd, what, with))
CALL(int, fstat, (int fd, struct stat *info), (fd, info))
CALL(int, eventfd, (unsigned count, int flags), (count, flags))
CALL(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
CALL(int, bind, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size))
CALL(int, inotify_init1, (int flags), (flags))
CALL(int, poll, (struct pollfd * fds, nfds_t n, int timeout), (fds, n, timeout))

static int count_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += __real_fcntl(fd, F_GETFD, NULL) >= 0;
    return n;
}

/* ---- Opening ---- */

static hf_code open_here(hf_store **out, hf_error *err)
{
    static const sqlite_place place = {.boot = "boot", .machine = "machine", .clock = "clock"};
    return sqlite_open_at(path, &config, &place, out, err);
}

static hf_store *open_well(void)
{
    hf_error err;
    hf_store *store;
    must(open_here(&store, &err), &err);
    return store;
}

typedef struct refusal {
    const char *call;
    int nth, os;
    hf_code code;
    const char *word;
} refusal;

static void expect_refusal(const refusal *of)
{
    hf_error err;
    hf_store *store = NULL;
    int before = count_descriptors();
    refuse(of->call, of->nth, of->os);
    hf_code code = open_here(&store, &err);
    refuse_none();
    if (code != of->code || (code && !strstr(err.text, of->word)))
        fail_msg("%s %d: %s: %s", of->call, of->os, hf_code_name(code), code ? err.text : "");
    if (store)
        store->ops->close(store);
    assert_int_equal(count_descriptors(), before);
}

#define EXPECT_ALL(all)                                                                            \
    for (size_t i = 0; i < sizeof(all) / sizeof(all)[0]; i++)                                      \
    expect_refusal(&(all)[i])

static void test_a_database_that_cannot_be_made(void **state)
{
    (void)state;
    static const refusal all[] = {
        {"open", 1, EROFS, HF_READONLY,
         "cannot be opened or made: Read-only file system: name a path on"},
        {"open", 1, EACCES, HF_DENIED,
         "cannot be opened or made: Permission denied: give the right"},
        {"open", 1, ENOENT, HF_UNUSABLE,
         "cannot be opened or made: No such file or directory: its folder"},
        {"open", 1, ENOSPC, HF_FULL,
         "cannot be opened or made: No space left on device: free some"},
        {"open", 1, EDQUOT, HF_FULL, "cannot be opened or made: Disk quota exceeded: remove files"},
    };
    EXPECT_ALL(all);
}

/* Before it come: the making of the database, and looks at three files and at this one. */
#define THE_ALIVE_FILE 6

static void test_a_store_that_cannot_be_opened(void **state)
{
    (void)state;
    static const refusal all[] = {
        {"open", THE_ALIVE_FILE, EROFS, HF_READONLY, "cannot open it"},
        {"open", THE_ALIVE_FILE, EACCES, HF_READONLY, "cannot open it"},
        {"open", THE_ALIVE_FILE, EPERM, HF_READONLY, "cannot open it"},
        {"open", THE_ALIVE_FILE, ENOSPC, HF_FULL, "cannot open it"},
        {"open", THE_ALIVE_FILE, EDQUOT, HF_FULL, "cannot open it"},
        {"open", THE_ALIVE_FILE, EMFILE, HF_UNUSABLE, "cannot open it: Too many open files"},
        {"open", THE_ALIVE_FILE, ENOENT, HF_UNUSABLE, "is missing"},
        {"fstat", 1, EIO, HF_UNUSABLE, "cannot stat it"},
        {"fstat", 2, EIO, HF_UNUSABLE, "cannot stat it"},
        {"eventfd", 1, EMFILE, HF_UNUSABLE, "no descriptors for notices"},
        {"socket", 1, EMFILE, HF_UNUSABLE, "no descriptors for notices"},
    };
    hf_store *store = open_well();
    store->ops->close(store);
    EXPECT_ALL(all);
    static const refusal at_first[] = {
        {"open", THE_ALIVE_FILE + 1, ENOENT, HF_UNUSABLE, "cannot open it: No such file"},
        {"open", THE_ALIVE_FILE + 1, ENOSPC, HF_FULL, "cannot open it"},
    };
    run_sql("DELETE FROM boots");
    EXPECT_ALL(at_first);
}

/* What a tester closes must not look like the end of a session. */
static void test_the_tester_cannot_write(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        hf_store *store = open_well();
        int flags = __real_fcntl(((sqlite_store *)store)->tester, F_GETFL, NULL);
        assert_int_equal(flags & O_ACCMODE, O_RDONLY);
        store->ops->close(store);
    }
}

/* ---- Beginning ---- */

static hf_code begin(hf_store *store, hf_error *err)
{
    hf_session self = {.id = new_id(), .ttl_ms = 10000, .pid = 7, .app = "test", .host = "here"};
    return store->ops->session_begin(store, &self, err);
}

static void test_a_byte_that_cannot_be_taken(void **state)
{
    (void)state;
    static const refusal all[] = {
        {"open", 1, EMFILE, HF_UNUSABLE, "cannot open it"},
        {"open", 1, EACCES, HF_READONLY, "cannot open it"},
        {"fstat", 2, EIO, HF_UNUSABLE, "cannot stat it"},
        {"fcntl", 1, ENOLCK, HF_UNUSABLE, "cannot lock a byte of it"},
        {"fcntl", 1, EAGAIN, HF_UNREACHABLE, "byte 1 is locked"},
        {"fcntl", 1, EACCES, HF_UNREACHABLE, "byte 1 is locked"},
    };
    hf_error err;
    hf_store *store = open_well();
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        int before = count_descriptors();
        refuse(all[i].call, all[i].nth, all[i].os);
        assert_int_equal(begin(store, &err), all[i].code);
        refuse_none();
        assert_non_null(strstr(err.text, all[i].word));
        assert_int_equal(count_descriptors(), before);
        assert_int_equal(query("SELECT count(*) FROM sessions"), 0);
    }
    must(begin(store, &err), &err);
    store->ops->close(store);
}

static void see_notice(void *ctx, const hf_notice *notice)
{
    *(int *)ctx += notice->kind == HF_NOTICE_LOOK;
}

static hf_code await(hf_store *store, hf_id session, int64_t timeout_ms, int *looks)
{
    hf_error err;
    *looks = 0;
    return store->ops->await(store, session, (hf_stamp){0}, timeout_ms, see_notice, looks, &err);
}

/* Waiters look by themselves now and then. */
static void test_without_a_socket_a_session_begins_all_the_same(void **state)
{
    (void)state;
    static const char *const calls[] = {"socket", "bind"};
    hf_error err;
    int looks;
    hf_store *store = open_well();
    for (int i = 0; i < 2; i++) {
        int before = count_descriptors();
        warning[0] = '\0';
        refuse(calls[i], 1, EMFILE);
        hf_id id = begin_session(store);
        refuse_none();
        assert_non_null(strstr(warning, "no socket for notices (Too many open files)"));
        assert_int_equal(((sqlite_store *)store)->own->notice_fd, -1);
        assert_int_equal(await(store, id, 1, &looks), HF_OK);
        must(store->ops->session_end(store, id, false, &err), &err);
        assert_in_range(count_descriptors(), before, before + 1); /* inotify, from now on */
    }
    store->ops->close(store);
}

/* ---- Waiting ---- */

static void *crash_soon(void *ctx)
{
    hf_store *store = ctx;
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    store->ops->close(store);
    return NULL;
}

/* A user has 128 inotify instances by default. The bytes are tested again and again. */
static void test_without_inotify_a_death_is_seen(void **state)
{
    (void)state;
    int looks;
    pthread_t thread;
    hf_store *store = open_well(), *other = open_well();
    hf_id waiter = begin_session(store), holder = begin_session(other);
    assert_false(look_at(store, holder, -1).is_gone);
    refuse("inotify_init1", ALWAYS, EMFILE);
    pthread_create(&thread, NULL, crash_soon, other);
    assert_int_equal(await(store, waiter, 60000, &looks), HF_OK);
    pthread_join(thread, NULL);
    assert_int_equal(looks, 1);
    assert_true(((sqlite_store *)store)->is_deaf);
    assert_int_equal(((sqlite_store *)store)->inotify_fd, -1);
    refuse_none();
    begin_session(store); /* ends the next wait at once */
    assert_int_equal(await(store, waiter, 60000, &looks), HF_OK);
    assert_int_equal(((sqlite_store *)store)->inotify_fd, -1); /* it is asked for once */
    store->ops->close(store);
}

static void test_a_wait_that_failed_is_followed_by_a_look(void **state)
{
    (void)state;
    int looks;
    hf_store *store = open_well();
    hf_id id = begin_session(store);
    refuse("poll", 1, EINVAL);
    assert_int_equal(await(store, id, 60000, &looks), HF_INTERNAL);
    assert_int_equal(looks, 0);
    assert_int_equal(await(store, id, 60000, &looks), HF_OK);
    assert_int_equal(looks, 1);
    assert_int_equal(await(store, id, 1, &looks), HF_OK);
    assert_int_equal(looks, 0);
    refuse("poll", 1, EINTR);
    assert_int_equal(await(store, id, 50, &looks), HF_OK);
    assert_int_equal(looks, 0);
    refuse_none();
    store->ops->close(store);
}

/* ---- Descriptor 0 ---- */

/* Nothing else stands at 0: it is moved there. */
static void move_to_zero(int *fd)
{
    if (dup2(*fd, 0) != 0 || close(*fd) != 0)
        _exit(1);
    *fd = 0;
}

/* By which it is one of the store's; of its session, or of itself. */
static int *descriptor_of(sqlite_store *inside, int which)
{
    int *const all[] = {&inside->tester,     &inside->wake_fd,        &inside->send_fd,
                        &inside->inotify_fd, &inside->own->notice_fd, &inside->own->hold.fd};
    return all[which];
}

/* In all ways in which a descriptor is used; the exit status says what did not work. */
static void use_all(hf_store *store, hf_store *other, hf_id id)
{
    int looks;
    hf_id holder = begin_session(other);
    if (look_at(store, holder, -1).is_gone)
        _exit(3);
    other->ops->close(other);
    if (await(store, id, 60000, &looks) || looks != 1 || !look_at(store, holder, -1).is_gone)
        _exit(4);
    store->ops->wake(store);
    if (await(store, id, 60000, &looks) || looks)
        _exit(5);
    store->ops->close(store);
    _exit(__real_fcntl(0, F_GETFD, NULL) < 0 ? 0 : 6);
}

static void use_zero(int which)
{
    int looks;
    hf_store *store = open_well(), *other = open_well();
    hf_id id = begin_session(store);
    if (await(store, id, 1, &looks) || looks)
        _exit(2);
    move_to_zero(descriptor_of((sqlite_store *)store, which));
    use_all(store, other, id);
}

typedef struct zeroing {
    const char *call;
    enum { OPENING, BEGINNING, WAITING } when;
    int which, nth;
} zeroing;

static void give_zero(const zeroing *it, int when)
{
    if (it->when == (unsigned)when)
        given_zero = it->call, zero_nth = it->nth;
}

static void begin_with_zero(const zeroing *it)
{
    int looks;
    hf_store *other = open_well();
    give_zero(it, OPENING);
    hf_store *store = open_well();
    give_zero(it, BEGINNING);
    hf_id id = begin_session(store);
    give_zero(it, WAITING);
    if (await(store, id, 1, &looks) || looks)
        _exit(2);
    if (*descriptor_of((sqlite_store *)store, it->which) != 0)
        _exit(7);
    int kept = store->ops->keep_fd(store, id);
    if (kept < 0)
        _exit(8);
    close(kept);
    use_all(store, other, id);
}

static void expect_good_end(pid_t child, int which)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status)
        fail_msg("descriptor %d: status %x", which, status);
}

/* Where a program has closed its standard input, any can be it. */
static void test_descriptor_zero_is_one_like_any_other(void **state)
{
    (void)state;
    for (int which = 0; which < 5; which++) {
        pid_t child = fork();
        if (child == 0) {
            is_child = true;
            use_zero(which);
        }
        expect_good_end(child, which);
    }
}

/* From the call on that gives it. */
static void test_descriptor_zero_can_be_given(void **state)
{
    (void)state;
    static const zeroing all[] = {{"open", OPENING, 0, THE_ALIVE_FILE},
                                  {"eventfd", OPENING, 1, 1},
                                  {"socket", OPENING, 2, 1},
                                  {"inotify_init1", WAITING, 3, 1},
                                  {"socket", BEGINNING, 4, 1},
                                  {"open", BEGINNING, 5, 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        pid_t child = fork();
        if (child == 0) {
            is_child = true;
            begin_with_zero(&all[i]);
        }
        expect_good_end(child, all[i].which);
    }
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(test_a_database_that_cannot_be_made),
        TEST(test_a_store_that_cannot_be_opened),
        TEST(test_the_tester_cannot_write),
        TEST(test_a_byte_that_cannot_be_taken),
        TEST(test_without_a_socket_a_session_begins_all_the_same),
        TEST(test_without_inotify_a_death_is_seen),
        TEST(test_a_wait_that_failed_is_followed_by_a_look),
        TEST(test_descriptor_zero_is_one_like_any_other),
        TEST(test_descriptor_zero_can_be_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
