/* SPDX-License-Identifier: Apache-2.0 */
/* test_guardian_told.c: what a client tells its guardian: each ticket before an enter with it is
 * sent, and when it is out, however it went; so that nothing is missing when the process is killed,
 * and nothing is left when it ends in order. The test takes the guardian's place. Run by ctest. */
#include "client/client_bed.h"

#include "client/guardian/estate.h"

#include "core/id.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define TTL 10000

static hf_client *client, *rival;
static faulty *f;
static struct estate estate;
static int from = -1; /* the guardian's end */
static bool is_bye, missed;
static int enters;

/* ---- The guardian's place ---- */

static void hear(void)
{
    static char bytes[GUARDIAN_MESSAGE_MAX];
    guardian_message message;
    ssize_t n;
    while ((n = recv(from, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
        assert_true(guardian_message_read(bytes, (size_t)n, &message));
        estate_note(&estate, &message);
        is_bye |= message.kind == GUARDIAN_BYE;
    }
}

static bool knows(const char *name, const hf_entry *entry)
{
    bool session = false;
    for (size_t i = 0; i < estate.n_sessions; i++)
        session |= id_equal(estate.sessions[i], entry->session);
    for (size_t i = 0; i < estate.n_tickets; i++)
        if (id_equal(estate.tickets[i].ticket, entry->ticket) &&
            id_equal(estate.tickets[i].session, entry->session) &&
            strcmp(estate.tickets[i].name, name) == 0)
            return session;
    return false;
}

static faulty_call lost; /* its answers are */

static hf_code check_enter(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    if (!is_enter(call, arg))
        return HF_OK;
    const struct faulty_step *at = arg;
    hear();
    enters++;
    missed |= !knows(at->name, &at->step->enter->entry);
    return HF_OK;
}

static hf_code lose_answer(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    (void)arg;
    return call == lost ? HF_UNKNOWN : HF_OK;
}

static void open_bed(void)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    f = faulty_open("memory:told", &(hf_options){.ttl_ms = TTL, .local_turns = -1}, &client);
    rival = open_client("memory:told", TTL);
    client->guardian.fd = ends[0];
    client->guardian.was_started = true;
    from = ends[1];
    is_bye = missed = false;
    enters = 0;
    f->before = check_enter;
}

static bool is_settled(void)
{
    hear();
    return estate_is_empty(&estate);
}

/* What is sent in the background is out soon. */
static void await_settled(void)
{
    while (!is_settled())
        pause_ms(1);
}

static void close_bed(void)
{
    f->before = f->after = (faulty_hook *)NULL;
    hf_close(client);
    hf_close(rival);
    hear();
    assert_true(is_bye);
    assert_true(enters > 0);
    assert_false(missed);
    assert_true(estate_is_empty(&estate));
    assert_int_equal(estate.n_sessions, 0);
    close(from);
    estate_done(&estate);
}

/* ---- Tickets come and go ---- */

static void test_a_lock_that_is_released(void **unused)
{
    (void)unused;
    open_bed();
    for (int i = 0; i < 3; i++) {
        hf_lock *lock = take(client, "x");
        assert_false(is_settled());
        assert_int_equal(hf_lock_release(lock, NULL), HF_OK);
        assert_true(is_settled());
        hf_lock_close(lock);
    }
    close_bed();
}

static void test_a_lock_that_is_only_closed(void **unused)
{
    (void)unused;
    open_bed();
    hf_lock_close(take(client, "x"));
    await_settled();
    close_bed();
}

static void test_one_that_is_not_had(void **unused)
{
    (void)unused;
    open_bed();
    hf_lock *lock = take(rival, "x");
    for (int i = 0; i < 3; i++)
        assert_int_equal(try_take(client, "x", HF_TRY), HF_HELD);
    assert_true(is_settled());
    assert_int_equal(try_take(client, "x", 50), HF_TIMEOUT);
    await_settled();
    hf_lock_close(lock);
    close_bed();
}

static void test_one_that_is_upgraded_and_downgraded(void **unused)
{
    (void)unused;
    open_bed();
    hf_lock *lock, *other;
    const hf_lock_options shared = {.mode = HF_SHARED};
    assert_int_equal(hf_lock_acquire(client, "x", &shared, &lock, NULL), HF_OK);
    assert_int_equal(hf_lock_acquire(rival, "x", &shared, &other, NULL), HF_OK);
    assert_int_equal(hf_lock_upgrade(lock, NULL), HF_HELD);
    hear();
    assert_int_equal(estate.n_tickets, 1);
    assert_int_equal(hf_lock_release(other, NULL), HF_OK);
    hf_lock_close(other);
    assert_int_equal(hf_lock_upgrade(lock, NULL), HF_OK);
    hear();
    assert_int_equal(estate.n_tickets, 1);
    assert_int_equal(hf_lock_downgrade(lock, NULL), HF_OK);
    assert_int_equal(hf_lock_release(lock, NULL), HF_OK);
    assert_true(is_settled());
    hf_lock_close(lock);
    close_bed();
}

static void test_several_that_are_taken_together(void **unused)
{
    (void)unused;
    open_bed();
    hf_lock *locks[3];
    const char *const names[] = {"a", "b", "c"};
    const hf_lock_options try = {.wait_ms = HF_TRY};
    assert_int_equal(hf_lock_acquire_all(client, names, 3, NULL, locks, NULL), HF_OK);
    hear();
    assert_int_equal(estate.n_tickets, 3);
    for (int i = 0; i < 3; i++)
        hf_lock_close(locks[i]);
    await_settled();
    hf_lock *held = take(rival, "c");
    assert_int_equal(hf_lock_acquire_all(client, names, 3, &try, locks, NULL), HF_HELD);
    await_settled();
    hf_lock_close(held);
    close_bed();
}

/* It outlives the process: the guardian must not give it back. */
static void test_a_lease_is_none_of_its(void **unused)
{
    (void)unused;
    open_bed();
    hf_lease lease;
    assert_int_equal(hf_lease_acquire(client, "x", NULL, &lease, NULL), HF_OK);
    assert_true(is_settled());
    assert_int_equal(hf_lease_release(client, lease.id, NULL), HF_OK);
    close_bed();
}

static void test_an_enter_without_an_answer(void **unused)
{
    (void)unused;
    open_bed();
    assert_int_equal(try_take(client, "y", HF_TRY), HF_OK);
    lost = FAULTY_STEP;
    f->after = lose_answer;
    const hf_lock_options hurried = {.wait_ms = 200};
    hf_lock *lock;
    hf_code code = hf_lock_acquire(client, "x", &hurried, &lock, NULL);
    assert_int_not_equal(code, HF_OK);
    assert_false(is_settled()); /* it may stand */
    f->after = (faulty_hook *)NULL;
    await_settled();
    close_bed();
}

/* ---- At the end ---- */

static hf_code fail_leaves(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    return is_leave(call, arg) || call == FAULTY_END ? HF_UNREACHABLE : HF_OK;
}

static void test_what_cannot_be_sent_is_handed_over(void **unused)
{
    (void)unused;
    open_bed();
    hf_lock *lock = take(client, "x");
    hf_lock_set_exit_status(lock, 5);
    f->before = fail_leaves;
    hf_lock_close(lock);
    hf_close(client);
    hear();
    assert_true(is_bye);
    assert_int_equal(estate.n_leaves, 1);
    assert_int_equal(estate.n_tickets, 0);
    assert_int_equal(estate.n_sessions, 1);
    assert_int_equal(estate.leaves[0].leave.exit_status, 5);
    assert_int_equal(estate.leaves[0].leave.outcome, HF_OUTCOME_RELEASED);
    hf_close(rival);
    close(from);
    estate_done(&estate);
}

static hf_code fail_begin(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    (void)arg;
    return call == FAULTY_BEGIN ? HF_DENIED : HF_OK;
}

static void test_a_session_that_cannot_begin_leaves_nothing(void **unused)
{
    (void)unused;
    open_bed();
    f->before = fail_begin;
    assert_int_equal(try_take(client, "x", HF_TRY), HF_DENIED);
    assert_true(is_settled());
    assert_int_equal(estate.n_sessions, 0);
    enters = 1;
    close_bed();
}

/* Its guardian is stopped: nothing waits for it. */
static void test_a_guardian_that_does_not_listen_stops_nobody(void **unused)
{
    (void)unused;
    open_bed();
    f->before = (faulty_hook *)NULL;
    for (int i = 0; i < 2000; i++)
        hf_lock_close(take(client, "x"));
    hf_close(client);
    hf_close(rival);
    close(from);
    estate_done(&estate);
}

/* It hears of all releases, though they do not fit into the socket at once. */
static void *hear_slowly(void *is_closed)
{
    while (!atomic_load((atomic_bool *)is_closed)) {
        pause_ms(1);
        hear();
    }
    return NULL;
}

static void test_many_that_cannot_be_sent_are_all_handed_over(void **unused)
{
    enum { LOCKS = 600 };
    pthread_t thread;
    char name[16];
    (void)unused;
    open_bed();
    f->before = (faulty_hook *)NULL;
    hf_lock *locks[LOCKS];
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "many %d", i);
        locks[i] = take(client, name);
        hear();
    }
    f->before = fail_leaves;
    for (int i = 0; i < LOCKS; i++)
        hf_lock_close(locks[i]);
    atomic_bool is_closed = false;
    pthread_create(&thread, NULL, hear_slowly, &is_closed);
    hf_close(client);
    atomic_store(&is_closed, true);
    pthread_join(thread, NULL);
    hear();
    assert_true(is_bye);
    assert_int_equal(estate.n_leaves, LOCKS);
    assert_int_equal(estate.n_tickets, 0);
    hf_close(rival);
    close(from);
    estate_done(&estate);
}

static void test_a_guardian_that_has_ended_is_told_nothing_more(void **unused)
{
    (void)unused;
    open_bed();
    close(from);
    from = open("/dev/null", O_RDONLY);
    f->before = (faulty_hook *)NULL;
    hf_lock_close(take(client, "x"));
    hf_lock_close(take(client, "x"));
    assert_true(client->guardian.has_ended);
    hf_close(client);
    hf_close(rival);
    close(from);
    estate_done(&estate);
}

static void test_what_a_child_inherits_is_the_pipe(void **unused)
{
    int ends[2];
    char byte;
    (void)unused;
    open_bed();
    assert_int_equal(hf_client_keep_fd(client), -1); /* no session yet */
    hf_lock *lock = take(client, "x");
    assert_int_equal(hf_client_keep_fd(client), -1); /* no guardian, but for the test */
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    client->guardian.life = ends[1];
    int kept = hf_client_keep_fd(client);
    assert_true(kept > STDERR_FILENO);
    assert_int_equal(fcntl(kept, F_GETFD) & FD_CLOEXEC, 0);
    hf_lock_close(lock);
    close_bed();
    assert_int_equal(read(ends[0], &byte, 1), -1);
    close(kept);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lock_that_is_released),
        cmocka_unit_test(test_a_lock_that_is_only_closed),
        cmocka_unit_test(test_one_that_is_not_had),
        cmocka_unit_test(test_one_that_is_upgraded_and_downgraded),
        cmocka_unit_test(test_several_that_are_taken_together),
        cmocka_unit_test(test_a_lease_is_none_of_its),
        cmocka_unit_test(test_an_enter_without_an_answer),
        cmocka_unit_test(test_what_cannot_be_sent_is_handed_over),
        cmocka_unit_test(test_a_session_that_cannot_begin_leaves_nothing),
        cmocka_unit_test(test_a_guardian_that_does_not_listen_stops_nobody),
        cmocka_unit_test(test_many_that_cannot_be_sent_are_all_handed_over),
        cmocka_unit_test(test_a_guardian_that_has_ended_is_told_nothing_more),
        cmocka_unit_test(test_what_a_child_inherits_is_the_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
