/* SPDX-License-Identifier: Apache-2.0 */
/* test_guardian.c: what a guardian does for a client that has ended: it hears what there is to give
 * back, learns that the process is gone, marks its sessions, and takes their tickets out; whatever
 * is late. Run by ctest. */
#include "client/client_bed.h"

#include "client/guardian/settle.h"
#include "client/guardian/watch.h"

#include "core/id.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TTL 2000
#define DEAD 1   /* the session of the process that is gone */
#define OTHER 2  /* one that waits */
#define TICKET 7 /* of the former */
#define NEXT 8   /* of the latter */

static const hf_id dead = {{DEAD}}, other = {{OTHER}}, ticket = {{0, TICKET}};
static hf_client *client; /* the guardian's */
static faulty *f;
static struct estate estate;

/* ---- The bed ---- */

static guardian_message message_of(guardian_kind kind)
{
    guardian_message message = {.kind = kind,
                                .uri = "memory:",
                                .name = "x",
                                .session = {.id = dead, .ttl_ms = TTL, .pid = 4711},
                                .leave = {.ticket = ticket}};
    snprintf(message.session.app, sizeof message.session.app, "%s", "job");
    snprintf(message.session.host, sizeof message.session.host, "%s", "web1");
    return message;
}

static void hear(guardian_kind kind)
{
    const guardian_message message = message_of(kind);
    estate_note(&estate, &message);
}

/* The dead one holds x, the other waits for it, and the guardian knows of the former. */
static void open_bed(void)
{
    f = faulty_open("memory:", &(hf_options){.ttl_ms = TTL}, &client);
    begin_dead(f->inner, DEAD, TTL);
    begin_dead(f->inner, OTHER, TTL);
    enter_as(f->inner, "x", dead, TICKET);
    enter_as(f->inner, "x", other, NEXT);
    hear(GUARDIAN_HELLO);
    hear(GUARDIAN_SESSION);
    hear(GUARDIAN_TICKET);
}

static void close_bed(void)
{
    f->before = f->after = (faulty_hook *)NULL;
    hf_close(client);
    estate_done(&estate);
}

static hf_code settle_now(void)
{
    hf_error err;
    return settle(client, &estate, &err);
}

static hf_session_state state_of(hf_id session)
{
    hf_session_state state;
    hf_error err;
    assert_int_equal(f->inner->ops->sessions_look(f->inner, &session, 1, -1, &state, &err), HF_OK);
    return state;
}

static bool holds(hf_id session)
{
    struct seen seen = look_at(f->inner, "x");
    return seen.holders == 1 && id_equal(seen.holder.session, session);
}

static bool keep_last(void *ctx, const hf_record *record)
{
    *(hf_last_mark *)ctx = record->last;
    return false;
}

static hf_last_mark last_of(const char *name)
{
    hf_last_mark last;
    hf_error err;
    assert_int_equal(
        f->inner->ops->look(f->inner, &name, 1, (hf_stamp){0}, false, keep_last, &last, &err),
        HF_OK);
    return last;
}

/* ---- Tickets ---- */

static void test_the_next_one_has_it_and_is_told(void **unused)
{
    (void)unused;
    open_bed();
    assert_int_equal(settle_now(), HF_OK);
    assert_true(holds(other));
    assert_int_equal(state_of(dead).presence, HF_DEAD);
    assert_int_equal(state_of(other).presence, HF_LIVE);
    assert_int_equal(last_of("x").outcome, HF_OUTCOME_ABANDONED);
    assert_string_equal(last_of("x").who, "job@web1:4711");
    assert_true(estate_is_empty(&estate));
    close_bed();
}

static hf_code beat_once(faulty *of, faulty_call call, const void *arg)
{
    hf_session_state state;
    (void)arg;
    if (call == FAULTY_SESSIONS_LOOK && of->calls[FAULTY_SESSIONS_LOOK] < 4)
        of->inner->ops->session_beat(of->inner, dead, &(hf_beat){.waits = NULL}, &state, NULL);
    return HF_OK;
}

/* Three beats were on their way, and each arrives between a look and the mark that follows. */
static void test_a_late_beat_is_looked_at_again(void **unused)
{
    (void)unused;
    open_bed();
    f->after = beat_once;
    assert_int_equal(settle_now(), HF_OK);
    assert_int_equal(f->calls[FAULTY_MARK], 4);
    assert_int_equal(state_of(dead).presence, HF_DEAD);
    assert_true(holds(other));
    close_bed();
}

static void test_a_beat_after_the_mark_is_refused(void **unused)
{
    hf_session_state state;
    (void)unused;
    open_bed();
    assert_int_equal(settle_now(), HF_OK);
    hf_beat beat = {.waits = NULL};
    assert_int_equal(f->inner->ops->session_beat(f->inner, dead, &beat, &state, NULL), HF_LOST);
    close_bed();
}

/* Whoever comes next finds the mark, and waits for no lease. */
static void test_a_late_enter_is_passed_at_once(void **unused)
{
    (void)unused;
    open_bed();
    leave_by(f->inner, "x", &(hf_leave){.ticket = {{0, NEXT}}, .outcome = HF_OUTCOME_RELEASED});
    assert_int_equal(settle_now(), HF_OK);
    enter_as(f->inner, "x", dead, TICKET);
    assert_true(holds(dead));
    assert_int_equal(try_take(client, "x", HF_TRY), HF_OK);
    close_bed();
}

static faulty_call refused;

static hf_code refuse(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    (void)arg;
    return call == refused ? HF_UNREACHABLE : HF_OK;
}

static void test_no_ticket_goes_before_the_mark_is_acknowledged(void **unused)
{
    (void)unused;
    open_bed();
    refused = FAULTY_MARK;
    f->before = refuse;
    assert_int_equal(settle_now(), HF_UNREACHABLE);
    assert_true(holds(dead));
    f->before = (faulty_hook *)NULL;
    f->after = refuse; /* it is marked, and the answer is lost */
    assert_int_equal(settle_now(), HF_UNREACHABLE);
    assert_true(holds(dead));
    f->after = (faulty_hook *)NULL;
    assert_int_equal(settle_now(), HF_OK);
    assert_true(holds(other));
    close_bed();
}

static void test_what_was_not_taken_out_is_tried_again(void **unused)
{
    (void)unused;
    open_bed();
    refused = FAULTY_STEP;
    f->before = refuse;
    assert_int_equal(settle_now(), HF_UNREACHABLE);
    assert_false(estate_is_empty(&estate));
    f->before = (faulty_hook *)NULL;
    assert_int_equal(settle_now(), HF_OK);
    assert_true(holds(other));
    close_bed();
}

static void test_a_session_that_others_have_marked(void **unused)
{
    (void)unused;
    open_bed();
    hf_session_state seen = state_of(dead);
    assert_int_equal(f->inner->ops->session_mark(f->inner, &seen, NULL), HF_OK);
    assert_int_equal(settle_now(), HF_OK);
    assert_int_equal(f->calls[FAULTY_MARK], 0);
    assert_true(holds(other));
    close_bed();
}

/* The lock has become an ID lease, or another session holds it: that is no longer the dead one's.
 */
static void test_what_others_hold_is_left_alone(void **unused)
{
    (void)unused;
    open_bed();
    leave_by(f->inner, "x", &(hf_leave){.ticket = ticket, .outcome = HF_OUTCOME_RELEASED});
    assert_true(holds(other));
    assert_int_equal(settle_now(), HF_OK);
    assert_true(holds(other));
    close_bed();
}

static void test_a_waiter_is_taken_out_of_the_queue(void **unused)
{
    (void)unused;
    open_bed();
    leave_by(f->inner, "x", &(hf_leave){.ticket = ticket, .outcome = HF_OUTCOME_RELEASED});
    enter_as(f->inner, "x", dead, TICKET);
    assert_int_equal(look_at(f->inner, "x").queued, 1);
    assert_int_equal(settle_now(), HF_OK);
    assert_int_equal(look_at(f->inner, "x").queued, 0);
    assert_true(holds(other));
    close_bed();
}

/* ---- Leaves ---- */

static void leave_it_behind(void)
{
    guardian_message message = message_of(GUARDIAN_LEAVE);
    message.leave.outcome = HF_OUTCOME_RELEASED;
    message.leave.told = message.leave.has_exit_status = true;
    message.leave.exit_status = 3;
    estate_note(&estate, &message);
}

static void test_a_leave_is_a_release_with_its_status(void **unused)
{
    (void)unused;
    open_bed();
    leave_it_behind();
    assert_int_equal(settle_now(), HF_OK);
    assert_true(holds(other));
    hf_last_mark last = last_of("x");
    assert_int_equal(last.outcome, HF_OUTCOME_RELEASED);
    assert_int_equal(last.done.exit_status, 3);
    assert_int_equal(state_of(dead).presence, HF_DEAD);
    close_bed();
}

/* Others could take the ticket of a marked session out as abandoned, and the work would be done
 * again. */
static void test_no_session_is_marked_before_its_leaves_are_sent(void **unused)
{
    (void)unused;
    open_bed();
    leave_it_behind();
    refused = FAULTY_STEP;
    f->before = refuse;
    for (int i = 0; i < 3; i++)
        assert_int_equal(settle_now(), HF_UNREACHABLE);
    assert_int_equal(state_of(dead).presence, HF_LIVE);
    f->before = (faulty_hook *)NULL;
    f->after = refuse; /* it is sent, and the answer is lost */
    assert_int_equal(settle_now(), HF_UNREACHABLE);
    f->after = (faulty_hook *)NULL;
    assert_int_equal(settle_now(), HF_OK);
    assert_int_equal(last_of("x").outcome, HF_OUTCOME_RELEASED);
    close_bed();
}

static void test_a_leave_that_came_too_late(void **unused)
{
    (void)unused;
    open_bed();
    leave_it_behind();
    abandon(f->inner, "x", ticket);
    assert_int_equal(settle_now(), HF_OK);
    assert_true(holds(other));
    assert_int_equal(last_of("x").outcome, HF_OUTCOME_ABANDONED);
    close_bed();
}

/* ---- What it is told ---- */

static void test_what_is_out_is_forgotten(void **unused)
{
    (void)unused;
    hear(GUARDIAN_HELLO);
    hear(GUARDIAN_SESSION);
    hear(GUARDIAN_TICKET);
    hear(GUARDIAN_TICKET); /* entered again */
    assert_int_equal(estate.n_tickets, 1);
    hear(GUARDIAN_OUT);
    assert_true(estate_is_empty(&estate));
    hear(GUARDIAN_TICKET);
    hear(GUARDIAN_SESSION_OVER);
    assert_true(estate_is_empty(&estate));
    assert_int_equal(estate.n_sessions, 0);
    estate_done(&estate);
}

static void assert_same(const guardian_message *a, const guardian_message *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_true(id_equal(a->leave.ticket, b->leave.ticket) || a->kind < GUARDIAN_TICKET ||
                a->kind == GUARDIAN_BYE);
    if (a->kind == GUARDIAN_HELLO) {
        assert_string_equal(a->uri, b->uri);
        assert_string_equal(a->session.host, b->session.host);
        assert_int_equal(a->session.pid, b->session.pid);
    }
    if (a->kind != GUARDIAN_LEAVE)
        return;
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->leave.reason, b->leave.reason);
    assert_int_equal(a->leave.period.end.ms, b->leave.period.end.ms);
    assert_int_equal(a->leave.exit_status, b->leave.exit_status);
    assert_int_equal(a->token, b->token);
}

static void test_messages_arrive_whole_or_not_at_all(void **unused)
{
    static char bytes[GUARDIAN_MESSAGE_MAX];
    (void)unused;
    for (guardian_kind kind = GUARDIAN_HELLO; kind <= GUARDIAN_BYE; kind++) {
        guardian_message sent = message_of(kind), got;
        sent.leave.outcome = HF_OUTCOME_RELEASED;
        sent.leave.exit_status = -1;
        sent.leave.period.end.ms = INT64_MIN;
        sent.token = INT64_MAX;
        snprintf(sent.leave.reason, sizeof sent.leave.reason, "%s", "broken");
        size_t n = guardian_message_write(&sent, bytes);
        assert_true(n > 0);
        assert_true(guardian_message_read(bytes, n, &got));
        assert_same(&sent, &got);
        for (size_t less = 0; less < n; less++)
            assert_false(guardian_message_read(bytes, less, &got));
        assert_false(guardian_message_read(bytes, n + 1, &got));
    }
}

static void test_a_uri_that_is_too_long_is_not_sent(void **unused)
{
    static char bytes[GUARDIAN_MESSAGE_MAX], uri[GUARDIAN_MESSAGE_MAX + 1];
    (void)unused;
    memset(uri, 'a', sizeof uri - 1);
    guardian_message hello = message_of(GUARDIAN_HELLO);
    hello.uri = uri;
    assert_int_equal(guardian_message_write(&hello, bytes), 0);
}

/* ---- Watching ---- */

/* The two ends of a socket; what its guardian would know a process by. */
struct watched {
    int to, from, process, life;
};

static struct watched watched_of(pid_t pid)
{
    int ends[2], pipes[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    assert_int_equal(pipe(pipes), 0);
    struct watched w = {ends[0], ends[1], pidfd_open(pid, 0), pipes[1]};
    static char bytes[GUARDIAN_MESSAGE_MAX];
    const guardian_message hello = message_of(GUARDIAN_HELLO);
    char room[CMSG_SPACE(2 * sizeof(int))] __attribute__((aligned(8))) = {0};
    struct iovec part = {bytes, guardian_message_write(&hello, bytes)};
    struct msghdr packet = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&packet);
    *head = (struct cmsghdr){CMSG_LEN(2 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(head), (int[]){w.process, pipes[0]}, 2 * sizeof(int));
    assert_true(sendmsg(w.to, &packet, 0) > 0);
    close(pipes[0]);
    return w;
}

static void send_to(const struct watched *w, guardian_kind kind)
{
    static char bytes[GUARDIAN_MESSAGE_MAX];
    const guardian_message message = message_of(kind);
    size_t n = guardian_message_write(&message, bytes);
    assert_int_equal(send(w->to, bytes, n, 0), n);
}

static void done(struct watched *w)
{
    close(w->to);
    close(w->process);
    close(w->life);
    estate_done(&estate);
}

static pid_t sleeper(void)
{
    pid_t pid = fork();
    if (!pid)
        pause();
    assert_true(pid > 0);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void test_garbled_messages_are_passed_over(void **unused)
{
    (void)unused;
    struct watched w = watched_of(getpid());
    send_to(&w, GUARDIAN_SESSION);
    for (int n = 1; n < 200; n += 7) {
        char garbage[200];
        memset(garbage, n, sizeof garbage);
        send(w.to, garbage, (size_t)n, 0);
    }
    send_to(&w, GUARDIAN_TICKET);
    send_to(&w, GUARDIAN_BYE);
    assert_int_equal(watch_client(w.from, &estate), WATCH_CLOSED);
    assert_int_equal(estate.n_tickets, 1);
    done(&w);
}

static void test_the_end_of_the_socket_proves_nothing(void **unused)
{
    (void)unused;
    struct watched w = watched_of(getpid());
    send_to(&w, GUARDIAN_SESSION);
    send_to(&w, GUARDIAN_TICKET);
    close(w.to);
    w.to = -1;
    int64_t began = now_ms();
    assert_int_equal(watch_client(w.from, &estate), WATCH_LEFT);
    assert_true(now_ms() - began >= TTL); /* it might have been about to end */
    done(&w);
}

/* A forked child has a copy of its end of the socket. */
static void test_the_end_of_the_process_is_enough(void **unused)
{
    (void)unused;
    pid_t pid = sleeper();
    struct watched w = watched_of(pid);
    close(w.life);
    w.life = -1;
    send_to(&w, GUARDIAN_SESSION);
    send_to(&w, GUARDIAN_TICKET);
    end(pid);
    assert_int_equal(watch_client(w.from, &estate), WATCH_DIED);
    assert_int_equal(estate.n_tickets, 1);
    done(&w);
}

static void test_it_waits_for_the_life_pipe_and_no_longer_than_the_lease(void **unused)
{
    (void)unused;
    pid_t pid = sleeper();
    struct watched w = watched_of(pid);
    send_to(&w, GUARDIAN_SESSION);
    send_to(&w, GUARDIAN_TICKET);
    assert_int_equal(write(w.life, "words", 5), 5); /* which say nothing */
    end(pid);
    int64_t began = now_ms();
    assert_int_equal(watch_client(w.from, &estate), WATCH_DIED);
    assert_true(now_ms() - began >= TTL);
    done(&w);
}

static void test_without_an_introduction_nothing_is_done(void **unused)
{
    int ends[2];
    (void)unused;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    struct watched w = {ends[0], ends[1], -1, -1};
    send_to(&w, GUARDIAN_SESSION);
    send_to(&w, GUARDIAN_TICKET);
    close(w.to);
    w.to = -1;
    assert_int_equal(watch_client(w.from, &estate), WATCH_LEFT);
    assert_true(estate_is_empty(&estate));
    done(&w);
}

/* ---- A setuid program ---- */

/* What it is called with stands in its PATH. */
static int start_searched(void)
{
    int fd = -1, failed = guardian_start("true", &fd);
    close(fd);
    return failed;
}

static void copy_as_setuid(const char *to)
{
    char bytes[65536];
    ssize_t n;
    int from = open("/proc/self/exe", O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0700);
    assert_true(from >= 0 && out >= 0);
    while ((n = read(from, bytes, sizeof bytes)) > 0)
        assert_int_equal(write(out, bytes, (size_t)n), n);
    assert_int_equal(fchmod(out, 04755), 0);
    close(from);
    close(out);
}

/* Returns its exit status. */
static int run_started(const char *program, uid_t user)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (setresuid(user, user, user) == 0)
            execl(program, program, "started", NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Whoever starts it has chosen its PATH, and would choose what runs with its rights. */
static void test_a_setuid_program_searches_for_no_guardian(void **state)
{
    (void)state;
    char folder[] = "/tmp/holdfast-setuid-XXXXXX", program[64];
    if (geteuid() != 0)
        skip();
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0755), 0);
    snprintf(program, sizeof program, "%s/program", folder);
    copy_as_setuid(program);
    int status = run_started(program, 65534);
    unlink(program);
    rmdir(folder);
    assert_int_equal(status, EPERM);
    assert_int_equal(run_started("/proc/self/exe", 0), 0);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "started") == 0)
        return start_searched();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_setuid_program_searches_for_no_guardian),
        cmocka_unit_test(test_the_next_one_has_it_and_is_told),
        cmocka_unit_test(test_a_late_beat_is_looked_at_again),
        cmocka_unit_test(test_a_beat_after_the_mark_is_refused),
        cmocka_unit_test(test_a_late_enter_is_passed_at_once),
        cmocka_unit_test(test_no_ticket_goes_before_the_mark_is_acknowledged),
        cmocka_unit_test(test_what_was_not_taken_out_is_tried_again),
        cmocka_unit_test(test_a_session_that_others_have_marked),
        cmocka_unit_test(test_what_others_hold_is_left_alone),
        cmocka_unit_test(test_a_waiter_is_taken_out_of_the_queue),
        cmocka_unit_test(test_a_leave_is_a_release_with_its_status),
        cmocka_unit_test(test_no_session_is_marked_before_its_leaves_are_sent),
        cmocka_unit_test(test_a_leave_that_came_too_late),
        cmocka_unit_test(test_what_is_out_is_forgotten),
        cmocka_unit_test(test_messages_arrive_whole_or_not_at_all),
        cmocka_unit_test(test_a_uri_that_is_too_long_is_not_sent),
        cmocka_unit_test(test_garbled_messages_are_passed_over),
        cmocka_unit_test(test_the_end_of_the_socket_proves_nothing),
        cmocka_unit_test(test_the_end_of_the_process_is_enough),
        cmocka_unit_test(test_it_waits_for_the_life_pipe_and_no_longer_than_the_lease),
        cmocka_unit_test(test_without_an_introduction_nothing_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
