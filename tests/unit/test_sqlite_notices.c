/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite_notices.c: what the embedded store hears while it waits, what a session's end, a
 * death and a fork leave, and descriptors and statements that are to be used again; run by ctest.
 */
#include "sqlite_fixture.h"

#include "core/notify.h"
#include "store/sqlite/sqlite_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define HOUR_MS ((int64_t)3600 * 1000)
#define HEARD_MOST 12
#define FULL_QUEUE 10 /* as many notices wait for their receiver, and no more */

/* All that a wait was told, in its order. */
typedef struct heard {
    size_t n;
    hf_notice_kind kinds[HEARD_MOST];
    hf_id tickets[HEARD_MOST];
    char names[HEARD_MOST][HF_NAME_MAX + 20];
} heard;

static void note(void *ctx, const hf_notice *notice)
{
    heard *to = ctx;
    assert_true(to->n < HEARD_MOST);
    to->kinds[to->n] = notice->kind;
    to->tickets[to->n] = notice->ticket;
    snprintf(to->names[to->n++], sizeof to->names[0], "%s", notice->name);
}

static heard await(hf_store *store, hf_id session, int64_t timeout_ms)
{
    hf_error err;
    heard found = {.n = 0};
    must(store->ops->await(store, session, (hf_stamp){0}, timeout_ms, note, &found, &err), &err);
    return found;
}

static void assert_heard(const heard *found, size_t i, hf_notice_kind kind, hf_id ticket,
                         const char *name)
{
    assert_true(i < found->n);
    assert_int_equal(found->kinds[i], kind);
    assert_true(id_equal(found->tickets[i], ticket));
    assert_string_equal(found->names[i], name);
}

/* Whether the function, run in a child, ends as it should. */
static void run_in_child(void (*run)(void))
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        is_child = true;
        alarm(60);
        run();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void need(bool claim)
{
    if (!claim)
        abort();
}

/* ---- What is sent ---- */

static void test_a_grant_is_a_ticket_and_a_recall_names_its_lock(void **state)
{
    char news[400] = "";
    (void)state;
    hf_store *store = open_store();
    hf_id session = begin_session(store), granted = new_id(), waits = new_id();
    notify_append(news, &(notify_note){.session = session, .ticket = granted, .token = 7});
    notify_append(news, &(notify_note){NOTE_RECALL, session, waits, 0, 0});
    notice_send(store_of(store), "the lock", news, NULL);
    heard found = await(store, session, 5000);
    assert_int_equal(found.n, 2);
    assert_heard(&found, 0, HF_NOTICE_GRANT, granted, "");
    assert_heard(&found, 1, HF_NOTICE_RECALL, waits, "the lock");
    store->ops->close(store);
}

static hf_id begin_as(hf_store *store, hf_id id)
{
    hf_error err;
    hf_session self = {.id = id, .ttl_ms = 10000, .pid = getpid(), .app = "test", .host = "here"};
    must(store->ops->session_begin(store, &self, &err), &err);
    return id;
}

static void test_each_session_hears_what_is_for_it(void **state)
{
    char news[200] = "";
    hf_id id = new_id(), ticket = new_id();
    (void)state;
    hf_store *store = open_store(), *other = open_store();
    hf_id first = begin_as(store, id);
    id.bytes[sizeof id.bytes - 1] ^= 1; /* they differ in nothing but this */
    hf_id second = begin_as(other, id);
    notify_append(news, &(notify_note){.session = second, .ticket = ticket, .token = 7});
    notice_send(store_of(store), "x", news, NULL);
    assert_int_equal(await(store, first, 1).n, 0);
    heard found = await(other, second, 5000);
    assert_int_equal(found.n, 1);
    assert_heard(&found, 0, HF_NOTICE_GRANT, ticket, "");
    other->ops->close(other);
    store->ops->close(store);
}

/* It has the answer of its step; a recall is for another session in any case. */
static void test_whoever_enters_is_not_told_of_its_own_grant(void **state)
{
    char news[400] = "";
    (void)state;
    hf_store *store = open_store();
    hf_id session = begin_session(store), mine = new_id();
    notify_append(news, &(notify_note){.session = session, .ticket = mine, .token = 7});
    notify_append(news, &(notify_note){NOTE_RECALL, session, mine, 0, 0});
    notice_send(store_of(store), "x", news, &mine);
    heard found = await(store, session, 5000);
    assert_int_equal(found.n, 1);
    assert_heard(&found, 0, HF_NOTICE_RECALL, mine, "x");
    store->ops->close(store);
}

static void send_bytes(hf_store *store, const void *bytes, size_t size)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    int theirs = store_of(store)->own->notice_fd;
    assert_int_equal(getsockname(theirs, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(sendto(fd, bytes, size, 0, (struct sockaddr *)&address, length), size);
    close(fd);
}

/* Anybody on this machine can send there. */
static void test_what_another_program_sends_is_bounded(void **state)
{
    static char bytes[2000], longest[HF_NAME_MAX + 1];
    hf_id ticket;
    (void)state;
    hf_store *store = open_store();
    hf_id session = begin_session(store);
    memset(bytes, 'x', sizeof bytes);
    memset(longest, 'x', HF_NAME_MAX);
    memcpy(&ticket, bytes, sizeof ticket);
    send_bytes(store, bytes, sizeof ticket - 1);
    assert_int_equal(await(store, session, 1).n, 0);
    send_bytes(store, bytes, sizeof ticket + 3);
    send_bytes(store, bytes, sizeof ticket + HF_NAME_MAX);
    send_bytes(store, bytes, sizeof ticket + HF_NAME_MAX + 1);
    send_bytes(store, bytes, sizeof bytes);
    heard found = await(store, session, 5000);
    assert_int_equal(found.n, 4);
    assert_heard(&found, 0, HF_NOTICE_RECALL, ticket, "xxx");
    for (size_t i = 1; i < 4; i++)
        assert_heard(&found, i, HF_NOTICE_RECALL, ticket, longest);
    store->ops->close(store);
}

/* An empty one takes a place, too: behind the last one there may have been more. */
static void test_a_full_queue_says_look(void **state)
{
    (void)state;
    hf_store *store = open_store();
    hf_id session = begin_session(store), ticket = new_id();
    for (size_t empty = 0; empty < FULL_QUEUE; empty++) {
        for (size_t i = 0; i < FULL_QUEUE; i++)
            send_bytes(store, &ticket, i == empty ? 0 : sizeof ticket);
        heard found = await(store, session, 5000);
        assert_int_equal(found.n, FULL_QUEUE);
        assert_int_equal(found.kinds[0], HF_NOTICE_GRANT);
        assert_int_equal(found.kinds[FULL_QUEUE - 1], HF_NOTICE_LOOK);
    }
    for (size_t i = 1; i < FULL_QUEUE; i++)
        send_bytes(store, &ticket, sizeof ticket);
    heard found = await(store, session, 5000);
    assert_int_equal(found.n, FULL_QUEUE - 1);
    assert_int_equal(found.kinds[FULL_QUEUE - 2], HF_NOTICE_GRANT);
    store->ops->close(store);
}

/* ---- How waits end ---- */

typedef struct awaiting {
    hf_store *store;
    hf_id session;
    hf_code code;
} awaiting;

static void *await_long(void *ctx)
{
    hf_error err;
    heard found = {.n = 0};
    awaiting *a = ctx;
    a->code = a->store->ops->await(a->store, a->session, (hf_stamp){0}, 600000, note, &found, &err);
    return NULL;
}

static bool is_awaited(sqlite_store *store)
{
    pthread_mutex_lock(&store->mutex);
    bool is_so = store->own && store->own->is_awaited;
    pthread_mutex_unlock(&store->mutex);
    return is_so;
}

static void test_the_end_of_a_session_ends_its_wait(void **state)
{
    hf_error err;
    pthread_t thread;
    (void)state;
    hf_store *store = open_store();
    awaiting a = {.store = store, .session = begin_session(store), .code = HF_INTERNAL};
    assert_int_equal(pthread_create(&thread, NULL, await_long, &a), 0);
    while (!is_awaited(store_of(store)))
        poll(NULL, 0, 1);
    must(store->ops->session_end(store, a.session, false, &err), &err);
    pthread_join(thread, NULL);
    assert_int_equal(a.code, HF_OK);
    assert_null(store_of(store)->own);
    heard found;
    assert_int_equal(store->ops->await(store, a.session, (hf_stamp){0}, 1, note, &found, &err),
                     HF_NOT_FOUND);
    store->ops->close(store);
}

/* One whose byte is free, but which is not marked dead. */
static void test_a_death_is_told_once(void **state)
{
    (void)state;
    hf_store *store = open_store(), *other = open_store();
    hf_id session = begin_session(store), dead = begin_session(other);
    assert_false(look_at(store, dead, -1).is_gone);
    assert_int_equal(await(store, session, 1).n, 0);
    assert_int_equal(store_of(store)->n_watched, 1);
    alive_let_go(&store_of(other)->own->hold);
    heard found = await(store, session, 5000);
    assert_int_equal(found.n, 1);
    assert_int_equal(found.kinds[0], HF_NOTICE_LOOK);
    assert_int_equal(store_of(store)->n_watched, 0);
    assert_int_equal(await(store, session, 50).n, 0);
    assert_true(look_at(store, dead, -1).is_gone);
    other->ops->close(other);
    store->ops->close(store);
}

/* Of those whose bytes are free, another has been marked dead. */
static void test_a_death_among_others_is_told(void **state)
{
    (void)state;
    hf_store *store = open_store(), *other = open_store();
    hf_id session = begin_session(store), dead = begin_session(other),
          marked = begin_session(other);
    assert_false(look_at(store, dead, -1).is_gone);
    assert_false(look_at(store, marked, -1).is_gone);
    for (sqlite_own *own = store_of(other)->own; own; own = own->next)
        alive_let_go(&own->hold);
    run_sql("UPDATE sessions SET dead_at = 1 WHERE row = (SELECT max(row) FROM sessions)");
    assert_int_equal(look_at(store, marked, -1).presence, HF_DEAD);
    heard found = await(store, session, 5000);
    assert_int_equal(found.n, 1);
    assert_int_equal(found.kinds[0], HF_NOTICE_LOOK);
    other->ops->close(other);
    store->ops->close(store);
}

/* ---- Forks ---- */

static alive_identity identity;
static char alive_path[128];
static alive_hold parents;

static void take_another(void)
{
    hf_error err;
    static alive_hold mine, second;
    need(parents.fd == -1 && !parents.link);
    need(alive_take(alive_path, &identity, 2, &mine, &err) == HF_OK);
    need(!parents.link);
    need(alive_take(alive_path, &identity, 3, &second, &err) == HF_OK);
    alive_let_go(&parents); /* it is none of this process's */
    need(mine.fd >= 0 && mine.link == &second.next && second.next == &mine && !mine.next);
    alive_let_go(&mine);
    need(!second.next);
    alive_let_go(&second);
}

static void test_which_file_is_another(void **state)
{
    hf_error err;
    int tester;
    char advice[sizeof alive_path + 40];
    (void)state;
    snprintf(alive_path, sizeof alive_path, "%s/x.db" ALIVE_SUFFIX, folder);
    snprintf(advice, sizeof advice, "run: sqlite3 %s/x.db 'DELETE FROM boots'", folder);
    must(alive_open(alive_path, path, true, &tester, &identity, &err), &err);
    alive_identity device = identity, inode = identity;
    device.device++;
    inode.inode++;
    assert_int_equal(alive_verify(alive_path, tester, &identity, &err), HF_OK);
    assert_int_equal(alive_verify(alive_path, tester, &device, &err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, advice));
    assert_int_equal(alive_verify(alive_path, tester, &inode, &err), HF_UNUSABLE);
    close(tester);
}

static void test_a_child_has_only_the_bytes_that_it_took(void **state)
{
    hf_error err;
    int tester;
    bool is_free;
    (void)state;
    snprintf(alive_path, sizeof alive_path, "%s/alive", folder);
    must(alive_open(alive_path, path, true, &tester, &identity, &err), &err);
    must(alive_take(alive_path, &identity, 1, &parents, &err), &err);
    run_in_child(take_another);
    must(alive_test(alive_path, tester, 1, &is_free, &err), &err);
    assert_false(is_free);
    alive_let_go(&parents);
    must(alive_test(alive_path, tester, 1, &is_free, &err), &err);
    assert_true(is_free);
    close(tester);
}

static hf_store *inherited;

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void close_inherited(void)
{
    const sqlite_own *own = store_of(inherited)->own;
    int first = own->notice_fd, second = own->next->notice_fd;
    need(is_open(first) && is_open(second));
    inherited->ops->close(inherited);
    need(!is_open(first) && !is_open(second));
}

/* Else its socket would hear what is for a session that has ended. */
static void test_a_child_that_closes_keeps_no_socket(void **state)
{
    (void)state;
    inherited = open_store();
    begin_session(inherited);
    begin_session(inherited);
    run_in_child(close_inherited);
    assert_true(is_open(store_of(inherited)->own->notice_fd));
    inherited->ops->close(inherited);
}

/* ---- Descriptor 0, where a program has closed its standard input ---- */

static void find_place(void)
{
    hf_error err;
    sqlite_place here;
    close(0);
    need(sqlite_place_here(&here, &err) == HF_OK);
    need(!is_open(0));
}

static void take_of_another_file(void)
{
    hf_error err;
    alive_hold hold;
    const alive_identity wrong = {.device = identity.device, .inode = identity.inode + 1};
    close(0);
    need(alive_take(alive_path, &wrong, 1, &hold, &err) == HF_UNUSABLE);
    need(!is_open(0));
}

static void test_descriptor_0_is_closed_too(void **state)
{
    hf_error err;
    int tester;
    (void)state;
    snprintf(alive_path, sizeof alive_path, "%s/alive", folder);
    must(alive_open(alive_path, path, true, &tester, &identity, &err), &err);
    close(tester);
    run_in_child(find_place);
    run_in_child(take_of_another_file);
}

/* ---- Rows and statements ---- */

/* Its byte is still held, so its row must stay: no byte is held for a missing row. */
static void test_a_marked_session_stays_while_its_byte_is_held(void **state)
{
    static hf_session_state gone[4];
    (void)state;
    hf_store *store = open_store();
    hf_id id = begin_session(store);
    run_sql("UPDATE sessions SET dead_at = 1");
    sweep(store, gone, 4);
    assert_int_equal(look_at(store, id, -1).presence, HF_DEAD);
    alive_let_go(&store_of(store)->own->hold);
    wall_ahead_ms += 2 * HOUR_MS;
    sweep(store, gone, 4);
    assert_int_equal(look_at(store, id, -1).presence, HF_MISSING);
    store->ops->close(store);
}

/* One that could be neither committed nor rolled back. */
static void test_a_transaction_that_was_left_open_is_rolled_back(void **state)
{
    hf_error err;
    (void)state;
    hf_store *store = open_store();
    sql *conn = &store_of(store)->main;
    must(sql_exec(conn, "BEGIN IMMEDIATE", NULL, &err), &err);
    must(sql_exec(conn, "UPDATE meta SET value = 77 WHERE key = 'swept_at'", NULL, &err), &err);
    must(sql_begin(conn, &err), &err);
    must(sql_commit(conn, &err), &err);
    assert_int_equal(query("SELECT value FROM meta WHERE key = 'swept_at'"), 0);
    store->ops->close(store);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(test_a_grant_is_a_ticket_and_a_recall_names_its_lock),
        TEST(test_each_session_hears_what_is_for_it),
        TEST(test_whoever_enters_is_not_told_of_its_own_grant),
        TEST(test_what_another_program_sends_is_bounded),
        TEST(test_a_full_queue_says_look),
        TEST(test_which_file_is_another),
        TEST(test_the_end_of_a_session_ends_its_wait),
        TEST(test_a_death_is_told_once),
        TEST(test_a_death_among_others_is_told),
        TEST(test_a_child_has_only_the_bytes_that_it_took),
        TEST(test_a_child_that_closes_keeps_no_socket),
        TEST(test_descriptor_0_is_closed_too),
        TEST(test_a_marked_session_stays_while_its_byte_is_held),
        TEST(test_a_transaction_that_was_left_open_is_rolled_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
