/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads.c: the client's threads, which sleep until they are due or poked; what waiting
 * threads sleep on; cancels; and that nothing of these is left behind. Run by ctest. */
#include "client/client_bed.h"

#include "support/inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- Ticks ---- */

static hf_client *client;
static atomic_int ticks, early_ticks;
static atomic_llong wants_ns; /* what the next tick says */
static atomic_bool hears_signals;

/* But for those that cannot be blocked, and the two that are the C library's own. */
static bool hears_any(const sigset_t *blocked)
{
    for (int signal = 1; signal <= SIGRTMAX; signal++)
        if (signal != SIGKILL && signal != SIGSTOP && (signal < 32 || signal >= SIGRTMIN) &&
            !sigismember(blocked, signal))
            return true;
    return false;
}

static hf_mono tick_once(hf_client *of, hf_mono now)
{
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    hears_signals = hears_signals || hears_any(&blocked);
    if (ticks && wants_ns != MONO_NEVER.ns && now.ns < wants_ns)
        early_ticks++;
    if (ticks++)
        wants_ns = MONO_NEVER.ns;
    (void)of;
    return (hf_mono){wants_ns};
}

static const tick_fn ticks_here[TICKERS] = {[TICK_NOTIFY] = tick_once};

static void start_notifier(void)
{
    hf_error err;
    pthread_mutex_lock(&client->mutex);
    assert_int_equal(ticker_start_locked(client, TICK_NOTIFY, &err), HF_OK);
    pthread_mutex_unlock(&client->mutex);
}

/* The thread has been started, and its first tick has said when it wants to be called. */
static void start_ticking_at(hf_mono due)
{
    client = open_client("memory:ticks", 10000);
    client->tickers.ticks = ticks_here;
    ticks = early_ticks = 0;
    wants_ns = due.ns;
    start_notifier();
    while (!ticks)
        pause_ms(1);
}

static void await_ticks(int n)
{
    for (int64_t until = now_ms() + 60000; ticks < n && now_ms() < until;)
        pause_ms(1);
    assert_true(ticks >= n);
}

/* If it went round and round it would be found so. */
static void assert_it_sleeps(int n)
{
    pause_ms(50);
    assert_int_equal(ticks, n);
    assert_int_equal(early_ticks, 0);
}

static void test_a_tick_that_wants_nothing_is_called_once(void **state)
{
    (void)state;
    start_ticking_at(MONO_NEVER);
    assert_it_sleeps(1);
    start_notifier();
    assert_it_sleeps(1);
    assert_false(hears_signals);
    hf_close(client);
}

static void test_starting_a_thread_leaves_the_signals_as_they_are(void **state)
{
    (void)state;
    sigset_t blocked;
    start_ticking_at(MONO_NEVER);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    assert_false(sigismember(&blocked, SIGUSR1));
    hf_close(client);
}

static void test_a_tick_is_called_when_it_is_due(void **state)
{
    (void)state;
    hf_client *clock = open_client("memory:clock", 10000);
    start_ticking_at(mono_add_ms(client_now(clock), 120));
    await_ticks(2);
    assert_it_sleeps(2);
    hf_close(client);
    start_ticking_at(client_now(clock)); /* at once */
    await_ticks(2);
    assert_it_sleeps(2);
    hf_close(client);
    hf_close(clock);
}

static void test_a_poke_calls_it_once(void **state)
{
    (void)state;
    start_ticking_at(MONO_NEVER);
    for (int n = 1; n < 4; n++) {
        ticker_poke(client, TICK_NOTIFY);
        await_ticks(n + 1);
        assert_it_sleeps(n + 1);
    }
    hf_close(client);
}

static void poke_later(int64_t ms)
{
    pthread_mutex_lock(&client->mutex);
    ticker_poke_later_locked(client, TICK_NOTIFY, ms * 1000000);
    pthread_mutex_unlock(&client->mutex);
}

/* As one: between two calls a busy machine may let the first one's time pass. */
static void poke_later_twice(int64_t first_ms, int64_t second_ms)
{
    pthread_mutex_lock(&client->mutex);
    ticker_poke_later_locked(client, TICK_NOTIFY, first_ms * 1000000);
    ticker_poke_later_locked(client, TICK_NOTIFY, second_ms * 1000000);
    pthread_mutex_unlock(&client->mutex);
}

/* The first of several counts, and each that comes when the last one is over. */
static void test_a_poke_that_comes_later(void **state)
{
    (void)state;
    start_ticking_at(MONO_NEVER);
    for (int n = 1; n < 4; n++) {
        int64_t from = now_ms();
        poke_later_twice(40, 999);
        await_ticks(n + 1);
        assert_true(now_ms() - from >= 39);
        assert_it_sleeps(n + 1);
    }
    hf_close(client);
}

/* Of several pokes that are put off the first is not put off by the next. */
static void test_a_poke_is_not_put_off_by_the_next(void **state)
{
    (void)state;
    start_ticking_at(MONO_NEVER);
    poke_later(300);
    for (int64_t until = now_ms() + 60000; ticks < 2 && now_ms() < until;) {
        poke_later(900);
        pause_ms(1);
    }
    assert_true(ticks >= 2);
    hf_close(client);
}

static void test_without_threads_a_poke_is_noted(void **state)
{
    (void)state;
    client = open_client("memory:unthreaded", 10000);
    client->tickers.is_threaded = false;
    start_notifier();
    assert_false(client->tickers.of[TICK_NOTIFY].is_started);
    ticker_poke(client, TICK_NOTIFY);
    assert_true(client->tickers.of[TICK_NOTIFY].is_poked);
    client->tickers.of[TICK_NOTIFY].is_poked = false;
    poke_later(5);
    assert_true(client->tickers.of[TICK_NOTIFY].is_poked);
    hf_close(client);
}

static int count_files(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static void *wait_for_x(void *cancel)
{
    hf_lock *lock;
    hf_error err;
    hf_lock_options options = {.cancel = cancel, .wait_ms = 60000};
    assert_int_equal(hf_lock_acquire(client, "x", &options, &lock, &err), HF_CANCELLED);
    return NULL;
}

static void on_loss(void *ctx, hf_lock *lock, const hf_error *why, int64_t left_ms)
{
    (void)ctx, (void)lock, (void)why, (void)left_ms;
}

/* All its threads, a cancel, a waiter that slept on one, and a descriptor that tells of a loss. */
static void test_no_descriptor_is_left(void **state)
{
    (void)state;
    hf_error err;
    hf_cancel *cancel;
    hf_lock *lock;
    pthread_t thread;
    hf_client *other = open_client("memory:files", 10000);
    hf_lock *held = take(other, "x");
    int before = count_files();
    client = open_client("memory:files", 10000);
    hf_lock_options options = {.on_lost = on_loss};
    assert_int_equal(hf_lock_acquire(client, "y", &options, &lock, &err), HF_OK);
    assert_true(hf_lock_fd(lock) > 0);
    assert_int_equal(hf_cancel_new(&cancel, &err), HF_OK);
    pthread_create(&thread, NULL, wait_for_x, cancel);
    while (!look_at(other->store, "x").queued)
        pause_ms(1);
    hf_cancel_fire(cancel);
    pthread_join(thread, NULL);
    assert_true(count_files() > before);
    hf_lock_close(lock);
    hf_cancel_free(cancel);
    hf_close(client);
    assert_int_equal(count_files(), before);
    hf_lock_close(held);
    hf_close(other);
}

/* Each thread that was started has its three. */
static void assert_all_are_open(void)
{
    for (unsigned i = 0; i < TICKERS; i++) {
        const struct ticker *ticker = &client->tickers.of[i];
        if (!ticker->is_started)
            continue;
        assert_true(ticker->timer_fd >= 0);
        assert_true(ticker->poke_fd >= 0);
        assert_true(ticker->later_fd >= 0);
    }
}

/* What acquiring says where only so many more files may be open. */
static hf_code acquire_with_files(int more, hf_error *err)
{
    struct rlimit was, now;
    hf_lock *lock = NULL;
    hf_lock_options options = {.on_lost = on_loss};
    client = open_client("memory:few", 10000);
    getrlimit(RLIMIT_NOFILE, &was);
    now = was;
    now.rlim_cur = (rlim_t)(count_files() - 3 + more); /* 3: ".", ".." and that of the folder */
    setrlimit(RLIMIT_NOFILE, &now);
    hf_code code = hf_lock_acquire(client, "y", &options, &lock, err);
    setrlimit(RLIMIT_NOFILE, &was);
    assert_int_equal(lock == NULL, code != HF_OK);
    assert_all_are_open();
    hf_lock_close(lock);
    hf_close(client);
    return code;
}

static void test_where_descriptors_are_short_it_says_so(void **state)
{
    (void)state;
    hf_error err;
    int before = count_files(), refused = 0;
    hf_code code;
    while ((code = acquire_with_files(refused, &err)) == HF_INTERNAL) {
        assert_non_null(strstr(err.text, "could not be started"));
        assert_int_equal(count_files(), before);
        refused++;
    }
    assert_int_equal(code, HF_OK);
    assert_true(refused > 4 * 3); /* each thread has three */
}

/* ---- What waiters sleep on ---- */

static struct waker *take_waker(bool by_fd)
{
    pthread_mutex_lock(&client->mutex);
    struct waker *waker = waker_take_locked(&client->wakers, by_fd);
    pthread_mutex_unlock(&client->mutex);
    return waker;
}

static void give_waker(struct waker *waker)
{
    pthread_mutex_lock(&client->mutex);
    waker_give_locked(&client->wakers, waker);
    pthread_mutex_unlock(&client->mutex);
}

static int64_t time_asleep(struct waker *waker, int cancel, int64_t ms)
{
    int64_t from = now_ms();
    waker_sleep(waker, cancel, ms);
    return now_ms() - from;
}

static void test_what_is_woken_sleeps_no_longer(void **state)
{
    (void)state;
    client = open_client("memory:wakers", 10000);
    for (int by_fd = 0; by_fd < 2; by_fd++) {
        struct waker *waker = take_waker(by_fd);
        assert_true(time_asleep(waker, -1, 50) >= 49);
        waker_wake(waker);
        time_asleep(waker, -1, 3600000);
        waker_drain(waker);
        waker_wake(waker);
        waker_wake(waker);
        waker_drain(waker);
        assert_true(time_asleep(waker, -1, 50) >= 49);
        give_waker(waker);
    }
    waker_wake(NULL);
    hf_close(client);
}

static void test_a_waiter_with_a_cancel_hears_of_it(void **state)
{
    (void)state;
    hf_cancel *cancel;
    hf_error err;
    client = open_client("memory:cancels", 10000);
    struct waker *waker = take_waker(true);
    assert_int_equal(hf_cancel_new(&cancel, &err), HF_OK);
    assert_true(time_asleep(waker, cancel_fd(cancel), 50) >= 49);
    hf_cancel_fire(cancel);
    time_asleep(waker, cancel_fd(cancel), 3600000);
    give_waker(waker);
    hf_cancel_free(cancel);
    hf_close(client);
}

/* Of each kind: they are kept for the next. */
static void test_wakers_are_used_again(void **state)
{
    (void)state;
    client = open_client("memory:again", 10000);
    for (int by_fd = 0; by_fd < 2; by_fd++) {
        struct waker *one = take_waker(by_fd), *two = take_waker(by_fd);
        assert_ptr_not_equal(one, two);
        assert_int_equal(one->by_fd, by_fd);
        assert_int_equal(one->fd >= 0, by_fd);
        give_waker(one);
        give_waker(two);
        assert_ptr_equal(take_waker(by_fd), two);
        assert_ptr_equal(take_waker(by_fd), one);
        give_waker(one);
        give_waker(two);
    }
    hf_close(client);
}

/* Where the program has closed its standard input, the next descriptor is 0. */
static void test_descriptor_0_is_closed_too(void **state)
{
    (void)state;
    client = open_client("memory:zero", 10000);
    int input = dup(0);
    close(0);
    struct waker *waker = take_waker(true);
    assert_int_equal(waker->fd, 0);
    give_waker(waker);
    hf_close(client);
    bool is_closed = fcntl(0, F_GETFD) < 0;
    dup2(input, 0);
    close(input);
    assert_true(is_closed);
}

static void ignore(int signal)
{
    (void)signal;
}

static atomic_int signals;
static pthread_t sleeper;

static void *send_signals(void *unused)
{
    (void)unused;
    for (; signals < 5; signals++) {
        pause_ms(5);
        pthread_kill(sleeper, SIGUSR1);
    }
    return NULL;
}

static void test_a_signal_wakes_nobody(void **state)
{
    (void)state;
    pthread_t thread;
    struct sigaction how = {.sa_handler = ignore}, before;
    client = open_client("memory:signals", 10000);
    struct waker *waker = take_waker(false);
    sigaction(SIGUSR1, &how, &before);
    sleeper = pthread_self();
    signals = 0;
    pthread_create(&thread, NULL, send_signals, NULL);
    assert_true(time_asleep(waker, -1, 100) >= 99);
    pthread_join(thread, NULL);
    sigaction(SIGUSR1, &before, NULL);
    give_waker(waker);
    hf_close(client);
}

/* ---- Cancels ---- */

static void test_a_cancel_stays_fired(void **state)
{
    (void)state;
    hf_cancel *cancel;
    hf_error err;
    client = open_client("memory:fired", 10000);
    assert_int_equal(hf_cancel_new(&cancel, &err), HF_OK);
    assert_false(cancel_is_fired(NULL));
    assert_int_equal(cancel_fd(NULL), -1);
    assert_false(cancel_is_fired(cancel));
    int64_t from = now_ms();
    assert_false(cancel_pause(&client->env, cancel, 30));
    assert_false(cancel_pause(&client->env, NULL, 30));
    assert_true(now_ms() - from >= 59);
    for (int i = 0; i < 2; i++) {
        hf_cancel_fire(cancel);
        assert_true(cancel_is_fired(cancel));
        assert_true(cancel_pause(&client->env, cancel, 3600000));
        assert_true(cancel_is_fired(cancel));
    }
    hf_cancel_free(cancel);
    hf_cancel_free(NULL);
    hf_close(client);
}

static void test_firing_leaves_errno_as_it_was(void **state)
{
    (void)state;
    hf_cancel *cancel;
    hf_error err;
    assert_int_equal(hf_cancel_new(&cancel, &err), HF_OK);
    assert_int_equal(eventfd_write(cancel_fd(cancel), UINT64_MAX - 1), 0);
    errno = EDOM;
    hf_cancel_fire(cancel);
    assert_int_equal(errno, EDOM);
    assert_true(cancel_is_fired(cancel));
    hf_cancel_free(cancel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tick_that_wants_nothing_is_called_once),
        cmocka_unit_test(test_starting_a_thread_leaves_the_signals_as_they_are),
        cmocka_unit_test(test_a_tick_is_called_when_it_is_due),
        cmocka_unit_test(test_a_poke_calls_it_once),
        cmocka_unit_test(test_a_poke_that_comes_later),
        cmocka_unit_test(test_a_poke_is_not_put_off_by_the_next),
        cmocka_unit_test(test_without_threads_a_poke_is_noted),
        cmocka_unit_test(test_no_descriptor_is_left),
        cmocka_unit_test(test_descriptor_0_is_closed_too),
        cmocka_unit_test(test_where_descriptors_are_short_it_says_so),
        cmocka_unit_test(test_what_is_woken_sleeps_no_longer),
        cmocka_unit_test(test_a_waiter_with_a_cancel_hears_of_it),
        cmocka_unit_test(test_wakers_are_used_again),
        cmocka_unit_test(test_a_signal_wakes_nobody),
        cmocka_unit_test(test_a_cancel_stays_fired),
        cmocka_unit_test(test_firing_leaves_errno_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
