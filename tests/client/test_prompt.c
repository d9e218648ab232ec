/* SPDX-License-Identifier: Apache-2.0 */
/* test_prompt.c: who waits is woken at once, though the next look is seconds away: by a cancel, by
 * a grant, by the client's end; and nothing is tried that a wait does not need. Run by ctest. */
#include "client/lease_bed.h"

#define AT_ONCE_MS 700 /* a look would come seconds later */

static hf_client *client, *other;
static faulty *f;
static hf_lock *held;

/* x is held by another client; nobody looks for deadlocks, which would wake those that wait. */
static void begin(const char *uri)
{
    hf_options options = {.ttl_ms = 30000, .deadlock_ms = -1};
    other = open_client(uri, 30000);
    held = take(other, "x");
    f = faulty_open(uri, &options, &client);
}

/* Those that wait have looked at whom they wait for, and sleep until much later. */
static void await_sleep(int waiting)
{
    await_queued(f->inner, "x", (size_t)waiting);
    while (f->calls[FAULTY_SESSIONS_LOOK] < waiting)
        pause_ms(1);
    pause_ms(20);
}

static void end(void)
{
    hf_close(client);
    hf_lock_close(held);
    hf_close(other);
}

/* ---- In a thread of its own ---- */

typedef struct waiting {
    const char *name;
    hf_lock_options options;
    hf_code code;
    hf_lock *lock;
    pthread_t thread;
} waiting;

static void *wait_for(void *arg)
{
    waiting *w = arg;
    hf_error err;
    w->code = hf_lock_acquire(client, w->name, &w->options, &w->lock, &err);
    return NULL;
}

static void begin_wait(waiting *w, hf_cancel *cancel)
{
    *w = (waiting){.name = "x", .options.cancel = cancel};
    pthread_create(&w->thread, NULL, wait_for, w);
    await_sleep(1);
}

static void assert_ends_at_once(waiting *w, int64_t began, hf_code code)
{
    pthread_join(w->thread, NULL);
    assert_true(idle_ms() - began < AT_ONCE_MS);
    assert_int_equal(w->code, code);
    hf_lock_close(w->lock);
}

static void test_a_cancel_ends_a_wait_at_once(void **state)
{
    (void)state;
    waiting w;
    hf_cancel *cancel;
    hf_error err;
    begin("memory:cancel");
    assert_int_equal(hf_cancel_new(&cancel, &err), HF_OK);
    begin_wait(&w, cancel);
    int64_t began = idle_ms();
    hf_cancel_fire(cancel);
    assert_ends_at_once(&w, began, HF_CANCELLED);
    hf_cancel_free(cancel);
    end();
}

static void test_a_grant_ends_a_wait_at_once(void **state)
{
    (void)state;
    hf_cancel *cancel;
    hf_error err;
    assert_int_equal(hf_cancel_new(&cancel, &err), HF_OK);
    for (int with_cancel = 0; with_cancel < 2; with_cancel++) {
        waiting w;
        begin("memory:granted");
        begin_wait(&w, with_cancel ? cancel : NULL);
        int64_t began = idle_ms();
        assert_int_equal(hf_lock_release(held, &err), HF_OK);
        assert_ends_at_once(&w, began, HF_OK);
        end();
    }
    hf_cancel_free(cancel);
}

/* ---- Without a thread ---- */

static atomic_bool is_done;
static hf_code how;

static void note_end(void *ctx, const hf_lease *lease, const hf_error *err)
{
    (void)ctx;
    how = lease ? HF_OK : err->code;
    is_done = true;
}

static hf_lease_wait *begin_lease(void)
{
    hf_lease_wait *wait;
    hf_error err;
    is_done = false;
    assert_int_equal(hf_lease_begin(client, "x", NULL, note_end, NULL, &wait, &err), HF_OK);
    await_sleep(1);
    return wait;
}

static void assert_done_at_once(int64_t began, hf_code code)
{
    await(&is_done);
    assert_true(idle_ms() - began < AT_ONCE_MS);
    assert_int_equal(how, code);
}

static void test_a_wait_for_a_lease_hears_at_once(void **state)
{
    (void)state;
    hf_error err;
    begin("memory:lease-cancel");
    hf_lease_wait *wait = begin_lease();
    int64_t began = idle_ms();
    hf_lease_cancel(wait);
    assert_done_at_once(began, HF_CANCELLED);
    end();
    begin("memory:lease-granted");
    begin_lease();
    began = idle_ms();
    assert_int_equal(hf_lock_release(held, &err), HF_OK);
    assert_done_at_once(began, HF_OK);
    end();
    begin("memory:lease-closed");
    begin_lease();
    began = idle_ms();
    end();
    assert_done_at_once(began, HF_CLOSED);
}

/* ---- When it is lost ---- */

static atomic_bool is_closed;

static void close_it(void *ctx, hf_lock *lock, const hf_error *why, int64_t left_ms)
{
    (void)ctx, (void)why, (void)left_ms;
    hf_lock_close(lock);
    is_closed = true;
}

/* Closing waits for on_lost to return, but not from inside of it. */
static void test_a_lock_is_closed_by_who_is_told_of_its_loss(void **state)
{
    (void)state;
    hf_lock *lock;
    hf_error err;
    hf_lock_options options = {.on_lost = close_it};
    begin("memory:closed-inside");
    is_closed = false;
    assert_int_equal(hf_lock_acquire(client, "y", &options, &lock, &err), HF_OK);
    mark_dead(f->inner, client->session.self.id);
    send_beat(f, client);
    await(&is_closed);
    assert_null(client->hold->locks);
    end();
}

/* ---- Several ---- */

static atomic_int tries;

static hf_code count_tries(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    if (is_enter(call, arg) && ((const struct faulty_step *)arg)->step->enter->try_only)
        tries++;
    return HF_OK;
}

static void *take_two(void *unused)
{
    static const char *const names[] = {"x", "a"};
    hf_lock *locks[2];
    hf_error err;
    (void)unused;
    assert_int_equal(hf_lock_acquire_all(client, names, 2, NULL, locks, &err), HF_OK);
    hf_lock_close(locks[0]);
    hf_lock_close(locks[1]);
    return NULL;
}

/* On this machine a try would cost as much as the wait that follows. */
static void test_a_local_store_is_not_tried_first(void **state)
{
    (void)state;
    hf_error err;
    pthread_t thread;
    begin("memory:local");
    f->before = count_tries;
    tries = 0;
    pthread_create(&thread, NULL, take_two, NULL);
    await_queued(f->inner, "x", 1);
    assert_int_equal(look_at(f->inner, "a").holders, 1); /* it comes earlier, and is kept */
    assert_int_equal(hf_lock_release(held, &err), HF_OK);
    pthread_join(thread, NULL);
    assert_int_equal(tries, 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cancel_ends_a_wait_at_once),
        cmocka_unit_test(test_a_grant_ends_a_wait_at_once),
        cmocka_unit_test(test_a_wait_for_a_lease_hears_at_once),
        cmocka_unit_test(test_a_lock_is_closed_by_who_is_told_of_its_loss),
        cmocka_unit_test(test_a_local_store_is_not_tried_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
