/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd_queues.c: workers and those that wait for one, slow clients, those that wait for a
 * lock, and what the end of a request leaves; run by ctest. */
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "httpd/connections.h"
#include "httpd/hold_times.h"
#include "httpd/request.h"
#include "httpd/resumes.h"
#include "httpd/route.h"
#include "httpd/waits.h"
#include "httpd/work.h"
#include "httpd_clock.h"

#define N(array) (sizeof(array) / sizeof *(array))
#define BEGIN_MS 1000000
#define PATIENCE_MS 4000
#define FIRST_BYTE_MS 2000
#define GRACE_MS 250
#define CROWDED_MS 25

/* ---- Threads: which can be made, and whether all are waited for ---- */

static int threads_left; /* that can be made */
static atomic_int n_made, n_joined;

int __real_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *ctx);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *ctx);
int __real_pthread_join(pthread_t thread, void **out);
int __wrap_pthread_join(pthread_t thread, void **out);

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *ctx)
{
    if (threads_left-- <= 0)
        return EAGAIN;
    n_made++;
    return __real_pthread_create(out, attributes, run, ctx);
}

int __wrap_pthread_join(pthread_t thread, void **out)
{
    n_joined++;
    return __real_pthread_join(thread, out);
}

/* What lies behind the events that it counts is this one's, as from an earlier call. */
static atomic_uint_fast64_t stale_id;
static atomic_int longest_ms; /* that was waited for an event; negative: for ever */

int __real_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms)
{
    longest_ms = timeout_ms;
    int n = __real_epoll_wait(epoll, events, most, timeout_ms);
    for (int i = n > 0 ? n : 0; i < most; i++)
        events[i].data.u64 = stale_id;
    return n;
}

static int begin(void **state)
{
    (void)state;
    threads_left = 100;
    n_made = n_joined = 0;
    clock_set(BEGIN_MS);
    return 0;
}

static int end(void **state)
{
    (void)state;
    assert_int_equal(n_joined, n_made);
    return 0;
}

/* ---- work.c ---- */

static const route quick = {.run_by = RUN_WORKER}, slow = {.run_by = RUN_SLOW_WORKER},
                   urgent = {.run_by = RUN_URGENT_WORKER};
static work jobs;
static request all[20];
static atomic_bool may_end[N(all)];
static atomic_int n_begun, n_ended;
static atomic_bool has_begun[N(all)];

static void serve(request *req)
{
    size_t i = (size_t)(req - all);
    has_begun[i] = true;
    n_begun++;
    while (!may_end[i])
        poll(NULL, 0, 1);
    n_ended++;
}

static void open_work(void)
{
    memset(&jobs, 0, sizeof jobs);
    memset(all, 0, sizeof all);
    for (size_t i = 0; i < N(all); i++)
        may_end[i] = has_begun[i] = false;
    n_begun = n_ended = 0;
    assert_true(work_open(&jobs, serve));
    assert_int_equal(n_made, WORKERS);
}

static void give(size_t i, const route *r)
{
    all[i].route = r;
    assert_true(work_give(&jobs, &all[i]));
}

static void await(atomic_int *count, int n)
{
    while (*count < n)
        poll(NULL, 0, 1);
}

static void end_all_work(void)
{
    for (size_t i = 0; i < N(all); i++)
        may_end[i] = true;
    work_close(&jobs);
}

static void test_each_worker_has_one(void **state)
{
    (void)state;
    open_work();
    for (size_t i = 0; i < WORKERS + 2; i++)
        give(i, &urgent);
    await(&n_begun, WORKERS);
    for (size_t i = 0; i < WORKERS; i++)
        assert_true(has_begun[i]);
    may_end[3] = true;
    await(&n_begun, WORKERS + 1);
    assert_true(has_begun[WORKERS]); /* who came first is served first */
    assert_false(has_begun[WORKERS + 1]);
    end_all_work();
    assert_int_equal(n_ended, WORKERS + 2);
}

/* What a lease depends on finds a worker, and does not stand behind what came before. */
static void test_urgent_ones_come_first(void **state)
{
    (void)state;
    open_work();
    for (size_t i = 0; i < WORKERS_OTHER + 2; i++)
        give(i, &quick);
    await(&n_begun, WORKERS_OTHER);
    for (size_t i = 0; i < WORKERS - WORKERS_OTHER; i++)
        give(12 + i, &urgent);
    await(&n_begun, WORKERS);
    give(18, &urgent); /* behind the two quick ones, in time */
    may_end[0] = true;
    await(&n_begun, WORKERS + 1);
    assert_true(has_begun[18]);
    assert_false(has_begun[WORKERS_OTHER] || has_begun[WORKERS_OTHER + 1]);
    may_end[18] = true;
    await(&n_begun, WORKERS + 2);
    assert_true(has_begun[WORKERS_OTHER]);
    end_all_work();
    assert_int_equal(n_ended, WORKERS + 3);
    assert_int_equal(jobs.n_other, 0);
}

/* The queue then has two slow ones, and one that passed them both. */
static size_t count_slow(void)
{
    pthread_mutex_lock(&jobs.mutex);
    size_t n = jobs.n_slow;
    pthread_mutex_unlock(&jobs.mutex);
    return n;
}

/* The queue then has two slow ones, and one that passed them both. */
static void test_slow_ones_leave_workers_free(void **state)
{
    (void)state;
    open_work();
    for (size_t i = 0; i < WORKERS_SLOW + 2; i++)
        give(i, &slow);
    await(&n_begun, WORKERS_SLOW);
    give(10, &quick);
    while (!has_begun[10])
        poll(NULL, 0, 1);
    give(11, &quick); /* behind the two that are left */
    while (!has_begun[11])
        poll(NULL, 0, 1);
    assert_int_equal(n_begun, WORKERS_SLOW + 2);
    assert_int_equal(count_slow(), WORKERS_SLOW);
    assert_false(has_begun[WORKERS_SLOW]);
    may_end[0] = true;
    while (!has_begun[WORKERS_SLOW])
        poll(NULL, 0, 1);
    assert_false(has_begun[WORKERS_SLOW + 1]);
    give(12, &quick);
    while (!has_begun[12])
        poll(NULL, 0, 1);
    end_all_work();
    assert_int_equal(n_ended, WORKERS_SLOW + 5);
    assert_int_equal(jobs.n_slow, 0);
}

static void *close_work(void *ctx)
{
    (void)ctx;
    work_close(&jobs);
    return NULL;
}

static bool is_closing(void)
{
    pthread_mutex_lock(&jobs.mutex);
    bool is_so = jobs.is_closing;
    pthread_mutex_unlock(&jobs.mutex);
    return is_so;
}

/* What was taken in is served, and so is what comes back from a wait. */
static void test_at_its_end_all_are_served(void **state)
{
    pthread_t closing;
    (void)state;
    open_work();
    for (size_t i = 0; i < WORKERS_SLOW + 3; i++)
        give(i, &slow);
    await(&n_begun, WORKERS_SLOW);
    assert_int_equal(pthread_create(&closing, NULL, close_work, NULL), 0);
    while (!is_closing())
        poll(NULL, 0, 1);
    all[15].route = all[16].route = &quick;
    assert_false(work_give(&jobs, &all[15]));
    work_again(&jobs, &all[16]);
    for (size_t i = 0; i < N(all); i++)
        may_end[i] = true;
    pthread_join(closing, NULL);
    assert_int_equal(n_ended, WORKERS_SLOW + 4);
    assert_true(has_begun[16]);
    assert_false(has_begun[15]);
}

static void test_it_has_all_its_workers_or_none(void **state)
{
    (void)state;
    for (int n = 0; n < WORKERS; n++) {
        memset(&jobs, 0, sizeof jobs);
        threads_left = n;
        n_made = n_joined = 0;
        assert_false(work_open(&jobs, serve));
        work_close(&jobs);
        assert_int_equal(n_made, n);
        assert_int_equal(n_joined, n);
    }
}

/* ---- connections.c ---- */

static connections clients;
static int ends[4]; /* theirs */

static connection *connect_one(size_t i)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    ends[i] = pair[1];
    return connections_add(&clients, pair[0]);
}

static int listener;

/* A client's end of a connection by TCP; accept_one() takes the service's. */
static int connect_by_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, size), 0);
    return fd;
}

static connection *accept_one(void)
{
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    close(listener);
    return connections_add(&clients, fd);
}

static bool has_ended(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void remove_one(connection *one)
{
    close(one->fd);
    connections_remove(&clients, one);
}

static bool is_cut_off(size_t i)
{
    char byte;
    return recv(ends[i], &byte, 1, 0) == 0;
}

static void open_some_clients(size_t most)
{
    memset(&clients, 0, sizeof clients);
    assert_true(connections_open(&clients, most, PATIENCE_MS));
    clock_await_sleep(&clients.changed);
}

static void open_clients(void)
{
    open_some_clients(N(ends));
}

static void check_at(int64_t ms)
{
    clock_wake(&clients.changed, BEGIN_MS + ms);
    clock_await_sleep(&clients.changed);
}

static void pass_grace(void)
{
    clock_set(clock_get() + GRACE_MS);
}

static void assert_counts(size_t n_connections, size_t n_requests)
{
    connection_counts here = connections_count(&clients);
    assert_int_equal(here.connections, n_connections);
    assert_int_equal(here.requests, n_requests);
}

static connection *ask_one(size_t i)
{
    connection *one = connect_one(i);
    connections_begin_request(&clients, one);
    return one;
}

static void test_whose_time_is_over_is_cut_off(void **state)
{
    (void)state;
    open_clients();
    assert_int_equal(clock_await_sleep(&clients.changed), BEGIN_MS + FIRST_BYTE_MS / 4);
    connection *first = ask_one(0);
    clock_set(BEGIN_MS + 1);
    connection *second = ask_one(1), *third = ask_one(2);
    connections_clear_deadline(&clients, third);
    check_at(PATIENCE_MS - 1);
    assert_false(is_cut_off(0));
    check_at(PATIENCE_MS);
    assert_true(is_cut_off(0));
    assert_false(is_cut_off(1));
    connections_set_deadline(&clients, second);
    check_at(2 * PATIENCE_MS - 1);
    assert_false(is_cut_off(1));
    check_at(2 * PATIENCE_MS);
    assert_true(is_cut_off(1));
    assert_false(is_cut_off(2)); /* the service is at work for it */
    assert_counts(3, 3);
    remove_one(second);
    remove_one(first);
    assert_ptr_equal(clients.first, third);
    assert_null(third->next);
    assert_null(third->previous);
    remove_one(third);
    assert_counts(0, 3);
    connections_close(&clients);
}

/* The first byte has two seconds. At a Unix socket the service does not see it, but the head. */
static void test_who_is_silent_is_cut_off_soon(void **state)
{
    (void)state;
    open_some_clients(5);
    connection *silent = connect_one(0), *half = connect_one(1), *begun = ask_one(2);
    int speaks = connect_by_port();
    connection *heard = accept_one();
    int is_silent = connect_by_port();
    connection *unheard = accept_one();
    assert_int_equal(send(ends[1], "G", 1, 0), 1);
    assert_int_equal(send(speaks, "G", 1, 0), 1);
    check_at(FIRST_BYTE_MS - 1);
    assert_false(is_cut_off(0) || is_cut_off(1) || has_ended(is_silent));
    check_at(FIRST_BYTE_MS);
    assert_true(is_cut_off(0) && is_cut_off(1) && has_ended(is_silent));
    assert_false(is_cut_off(2) || has_ended(speaks));
    check_at(PATIENCE_MS);
    assert_true(is_cut_off(2) && has_ended(speaks));
    close(speaks);
    close(is_silent);
    connection *these[] = {silent, half, begun, heard, unheard};
    for (size_t i = 0; i < N(these); i++)
        remove_one(these[i]);
    connections_close(&clients);
}

static void test_any_of_them_may_leave(void **state)
{
    static const size_t orders[][3] = {{0, 1, 2}, {1, 0, 2}, {2, 1, 0}, {1, 2, 0}};
    (void)state;
    open_clients();
    for (size_t k = 0; k < N(orders); k++) {
        connection *these[3];
        for (size_t i = 0; i < 3; i++)
            these[i] = connect_one(i);
        for (size_t i = 0; i < 3; i++) {
            remove_one(these[orders[k][i]]);
            size_t n = 0;
            for (const connection *one = clients.first; one; one = one->next)
                n++;
            assert_int_equal(n, 2 - i);
        }
    }
    assert_null(clients.first);
    connections_close(&clients);
}

/* Those with a request stay. Of the others, it is those whose request is not whole, the longest
 * first; then those that are kept alive. */
static void test_idle_ones_make_room(void **state)
{
    (void)state;
    open_some_clients(3);
    connection *busy = ask_one(0);
    connections_clear_deadline(&clients, busy);
    connection *kept = ask_one(1), *begun = ask_one(2);
    connections_set_deadline(&clients, kept);
    connections_end_request(&clients, kept);
    pass_grace();
    connection *late = connect_one(3);
    assert_true(is_cut_off(2));
    assert_false(is_cut_off(0) || is_cut_off(1) || is_cut_off(3));
    connections_clear_deadline(&clients, late);
    connection *later = connect_one(2); /* one goes for each, also while that is not gone yet */
    assert_true(is_cut_off(1));
    assert_false(is_cut_off(0) || is_cut_off(2) || is_cut_off(3));
    assert_int_equal(connections_count(&clients).cut, 2);
    connection *these[] = {busy, kept, begun, late, later};
    for (size_t i = 0; i < N(these); i++)
        remove_one(these[i]);
    assert_int_equal(clients.n_leaving, 0);
    assert_null(clients.origins.first);
    connections_close(&clients);
}

/* It may be a request that is on its way. The thread sees to it. */
static void test_who_has_just_come_does_not_make_room(void **state)
{
    (void)state;
    open_some_clients(1);
    connection *first = connect_one(0), *second = connect_one(1);
    assert_int_equal(clock_await_sleep(&clients.changed), BEGIN_MS + CROWDED_MS);
    check_at(GRACE_MS - 1);
    assert_false(is_cut_off(0) || is_cut_off(1));
    check_at(GRACE_MS);
    assert_true(is_cut_off(0));
    assert_false(is_cut_off(1));
    assert_int_equal(clock_await_sleep(&clients.changed), BEGIN_MS + GRACE_MS + FIRST_BYTE_MS / 4);
    remove_one(first);
    remove_one(second);
    connections_close(&clients);
}

/* Where all have a request, the first that ends its own does. */
static void test_who_is_served_makes_room(void **state)
{
    (void)state;
    open_some_clients(1);
    connection *first = ask_one(0);
    connections_clear_deadline(&clients, first);
    connection *second = ask_one(1);
    connections_clear_deadline(&clients, second);
    pass_grace();
    assert_false(is_cut_off(0) || is_cut_off(1));
    connections_end_request(&clients, second);
    assert_true(is_cut_off(1));
    connections_end_request(&clients, first);
    assert_false(is_cut_off(0));
    remove_one(first);
    remove_one(second);
    connections_close(&clients);
}

/* One that was cut off while its request was read is not chosen again. */
static void test_who_makes_room_does_so_once(void **state)
{
    (void)state;
    open_some_clients(1);
    connection *first = connect_one(0);
    pass_grace();
    connection *second = connect_one(1);
    assert_true(is_cut_off(0));
    connections_begin_request(&clients, first);
    connections_end_request(&clients, first);
    assert_null(first->idle.line);
    assert_false(is_cut_off(1));
    remove_one(first);
    assert_int_equal(clients.n_leaving, 0);
    remove_one(second);
    connections_close(&clients);
}

static void *drain(void *ctx)
{
    connections_drain(&clients, *(int64_t *)ctx);
    return NULL;
}

static void test_requests_are_waited_for_before_the_end(void **state)
{
    pthread_t draining;
    int64_t wait_ms = 5000;
    (void)state;
    open_clients();
    connection *one = connect_one(0), *other = connect_one(1);
    connections_begin_request(&clients, one);
    connections_begin_request(&clients, other);
    assert_counts(2, 2);
    assert_int_equal(pthread_create(&draining, NULL, drain, &wait_ms), 0);
    assert_int_equal(clock_await_sleep(&clients.quiet), BEGIN_MS + 5000);
    connections_end_request(&clients, other);
    assert_int_equal(clock_await_sleep(&clients.quiet), BEGIN_MS + 5000);
    assert_false(is_cut_off(0));
    connections_end_request(&clients, one);
    pthread_join(draining, NULL);
    assert_true(is_cut_off(0));
    remove_one(one);
    remove_one(other);
    connections_close(&clients);
}

static void test_but_not_for_ever(void **state)
{
    pthread_t draining;
    int64_t wait_ms = 5000;
    (void)state;
    open_clients();
    connection *one = connect_one(0), *other = connect_one(1);
    connections_begin_request(&clients, one);
    assert_int_equal(pthread_create(&draining, NULL, drain, &wait_ms), 0);
    clock_wake(&clients.quiet, BEGIN_MS + 5000);
    pthread_join(draining, NULL);
    assert_true(is_cut_off(0) && is_cut_off(1));
    assert_counts(2, 1);
    remove_one(one);
    remove_one(other);
    connections_close(&clients);
}

static void test_no_thread_no_connections(void **state)
{
    (void)state;
    memset(&clients, 0, sizeof clients);
    threads_left = 0;
    assert_false(connections_open(&clients, 1, PATIENCE_MS));
}

/* ---- resumes.c ---- */

static atomic_int n_resumed;

void MHD_resume_connection(struct MHD_Connection *mhd)
{
    (void)mhd;
    n_resumed++;
}

static void open_resumes(resumes *r, size_t n_connections)
{
    static connections crowd;
    memset(&crowd, 0, sizeof crowd);
    memset(r, 0, sizeof *r);
    pthread_mutex_init(&crowd.mutex, NULL);
    crowd.n_connections = n_connections;
    n_resumed = 0;
    assert_true(resumes_open(r, &crowd));
}

static void test_few_are_resumed_at_once(void **state)
{
    static resumes r;
    (void)state;
    open_resumes(&r, RESUMES_FEW - 1);
    resumes_add(&r, NULL);
    resumes_add(&r, NULL);
    assert_int_equal(n_resumed, 2);
    resumes_close(&r);
}

/* Here 4 ms apart: one, with which microhttpd's thread comes for the others. That thread is not
 * waited for until 5 ms have passed. */
static void test_of_very_many_several_are_resumed_together(void **state)
{
    static resumes r;
    (void)state;
    open_resumes(&r, 4000);
    resumes_add(&r, NULL);
    await(&n_resumed, 1);
    for (int i = 0; i < 3; i++)
        resumes_add(&r, NULL);
    assert_int_equal(clock_await_sleep(&r.changed), BEGIN_MS + 5);
    assert_int_equal(n_resumed, 1);
    clock_wake(&r.changed, BEGIN_MS + 5);
    assert_int_equal(clock_await_sleep(&r.changed), BEGIN_MS + 10);
    assert_int_equal(n_resumed, 2);
    resumes_flush(&r);
    assert_int_equal(n_resumed, 4);
    for (int i = 0; i < 2; i++)
        resumes_add(&r, NULL);
    resumes_close(&r); /* what is left is resumed */
    assert_int_equal(n_resumed, 6);
}

/* Each time costs it a walk through all that are suspended. */
static void test_by_its_own_thread_no_more_often(void **state)
{
    static resumes r;
    (void)state;
    open_resumes(&r, 4000);
    resumes_add(&r, NULL);
    await(&n_resumed, 1);
    resumes_flush(&r); /* for nothing: the time counts from when some were resumed */
    resumes_add(&r, NULL);
    clock_set(BEGIN_MS + 3);
    resumes_flush(&r);
    assert_int_equal(n_resumed, 1);
    clock_set(BEGIN_MS + 4);
    resumes_flush(&r);
    assert_int_equal(n_resumed, 2);
    resumes_add(&r, NULL);
    clock_set(BEGIN_MS + 7);
    resumes_flush(&r);
    assert_int_equal(n_resumed, 2);
    resumes_close(&r);
    assert_int_equal(n_resumed, 3);
}

/* ---- request.c ---- */

/* What its client has then is the time for another request. */
static void test_the_end_of_a_request_begins_the_time_anew(void **state)
{
    static httpd service;
    (void)state;
    memset(&service, 0, sizeof service);
    assert_true(connections_open(&service.connections, 1, PATIENCE_MS));
    connection *one = connections_add(&service.connections, -1);
    connections_begin_request(&service.connections, one);
    request *req = calloc(1, sizeof *req);
    assert_non_null(req);
    req->service = &service;
    req->connection = one;
    void *kept = req;
    clock_set(BEGIN_MS + 1000);
    request_end(&service, NULL, &kept, MHD_REQUEST_TERMINATED_COMPLETED_OK);
    assert_null(kept);
    assert_int_equal(one->deadline_ms, BEGIN_MS + 1000 + PATIENCE_MS);
    assert_int_equal(service.connections.n_requests, 0);
    request_end(&service, NULL, &kept, MHD_REQUEST_TERMINATED_WITH_ERROR); /* there was none */
    assert_int_equal(service.connections.n_requests, 0);
    connections_remove(&service.connections, one);
    connections_close(&service.connections);
}

/* ---- hold_times.c ---- */

/* FNV-1a of these bytes is 0, which also says that a place is free. */
static void test_a_lease_whose_hash_would_be_0(void **state)
{
    static hold_times t;
    static const hf_lease lease = {.id = "\xd5\x6b\xb9\x53\x42\x87\x08\x36", .left_ms = 60000};
    (void)state;
    hold_times_init(&t);
    assert_int_equal(hold_times_renew(&t, lease.id, 1000), -1);
    hold_times_begin(&t, &lease);
    assert_true(hold_times_renew(&t, lease.id, 1000) > 0);
    assert_true(hold_times_end(&t, lease.id) >= 0);
    assert_int_equal(hold_times_end(&t, lease.id), -1);
    hold_times_done(&t);
}

/* ---- waits.c ---- */

static atomic_int n_gone[3];

static void count_gone(void *ctx)
{
    (*(atomic_int *)ctx)++;
}

static void enter(waits *w, wait_entry *e, size_t i)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    ends[i] = pair[1];
    n_gone[i] = 0;
    *e = (wait_entry){
        .fd = pair[0], .who = "me", .lock = "x", .on_gone = count_gone, .ctx = &n_gone[i]};
    assert_int_equal(waits_enter(w, e, 10), ADMITTED);
}

static void leave(waits *w, wait_entry *e)
{
    waits_leave(w, e);
    waits_over(w);
    close(e->fd);
}

/* Whichever of them it is, the others are not told. */
static void test_who_hangs_up_is_noticed(void **state)
{
    static waits w;
    wait_entry e[3];
    (void)state;
    memset(&w, 0, sizeof w);
    assert_true(waits_open(&w));
    for (size_t i = 0; i < 3; i++)
        enter(&w, &e[i], i);
    stale_id = e[2].id;
    for (size_t i = 0; i < 3; i++) {
        close(ends[i]);
        await(&n_gone[i], 1);
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(n_gone[k], k <= i);
    }
    for (size_t i = 0; i < 3; i++)
        leave(&w, &e[i]);
    stale_id = UINT64_MAX;
    waits_end(&w);
    waits_close(&w);
}

/* One connection can have one request after the other. */
static void test_who_waits_again_is_noticed_again(void **state)
{
    static waits w;
    wait_entry e, again;
    (void)state;
    memset(&w, 0, sizeof w);
    assert_true(waits_open(&w));
    enter(&w, &e, 0);
    waits_leave(&w, &e);
    waits_over(&w);
    again = e;
    assert_int_equal(waits_enter(&w, &again, 10), ADMITTED);
    assert_int_equal(n_gone[0], 0);
    close(ends[0]);
    await(&n_gone[0], 1);
    assert_true(longest_ms < 0); /* it sleeps while nobody hangs up */
    leave(&w, &again);
    waits_end(&w);
    waits_close(&w);
}

static waits ending;

static void *end_waits(void *ctx)
{
    waits_end(&ending);
    *(atomic_bool *)ctx = true;
    return NULL;
}

/* It ends when the last of them is over, not before. */
static void test_all_are_told_of_the_end(void **state)
{
    wait_entry e[3];
    pthread_t thread;
    atomic_bool is_over = false;
    (void)state;
    memset(&ending, 0, sizeof ending);
    assert_true(waits_open(&ending));
    for (size_t i = 0; i < 3; i++)
        enter(&ending, &e[i], i);
    assert_int_equal(pthread_create(&thread, NULL, end_waits, &is_over), 0);
    for (size_t i = 0; i < 3; i++)
        await(&n_gone[i], 1);
    waits_leave(&ending, &e[0]);
    assert_int_equal(waits_count(&ending), 3);
    waits_leave(&ending, &e[1]);
    waits_over(&ending);
    waits_leave(&ending, &e[2]);
    waits_over(&ending);
    assert_int_equal(waits_count(&ending), 1);
    assert_false(is_over);
    waits_over(&ending);
    pthread_join(thread, NULL);
    assert_int_equal(waits_enter(&ending, &e[0], 10), ENDING);
    waits_close(&ending);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_worker_has_one),
        TEST(test_urgent_ones_come_first),
        TEST(test_slow_ones_leave_workers_free),
        TEST(test_at_its_end_all_are_served),
        TEST(test_it_has_all_its_workers_or_none),
        TEST(test_whose_time_is_over_is_cut_off),
        TEST(test_any_of_them_may_leave),
        TEST(test_who_is_silent_is_cut_off_soon),
        TEST(test_idle_ones_make_room),
        TEST(test_who_has_just_come_does_not_make_room),
        TEST(test_who_makes_room_does_so_once),
        TEST(test_who_is_served_makes_room),
        TEST(test_requests_are_waited_for_before_the_end),
        TEST(test_but_not_for_ever),
        TEST(test_no_thread_no_connections),
        TEST(test_few_are_resumed_at_once),
        TEST(test_of_very_many_several_are_resumed_together),
        TEST(test_by_its_own_thread_no_more_often),
        TEST(test_the_end_of_a_request_begins_the_time_anew),
        TEST(test_a_lease_whose_hash_would_be_0),
        TEST(test_who_hangs_up_is_noticed),
        TEST(test_who_waits_again_is_noticed_again),
        TEST(test_all_are_told_of_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
