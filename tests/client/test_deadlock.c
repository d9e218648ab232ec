/* SPDX-License-Identifier: Apache-2.0 */
/* test_deadlock.c: nobody is told of a deadlock that is none, however late others are heard of; and
 * looking for one costs nothing where nobody waits for what is held; run by ctest. */
#include "client/client_bed.h"

static atomic_bool is_cut_off;

/* Nothing that it says about the end of its wait gets through. */
static hf_code cut_off(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    return is_cut_off && (call == FAULTY_BEAT || is_leave(call, arg)) ? HF_UNREACHABLE : HF_OK;
}

static const hf_options quick = {.ttl_ms = 1500, .patience_ms = 100, .deadlock_ms = 100};

static hf_code wait_as(hf_client *client, const char *name, int64_t ms, hf_lock **out)
{
    hf_error err;
    hf_lock_options options = {.wait_ms = ms, .actor = "a"};
    return hf_lock_acquire(client, name, &options, out, &err);
}

struct waiting {
    hf_client *client;
    const char *name;
    int64_t ms;
    pthread_t thread;
    hf_lock *lock;
    hf_code code;
    atomic_bool is_over;
};

static void *wait_for_it(void *arg)
{
    struct waiting *w = arg;
    w->code = wait_as(w->client, w->name, w->ms, &w->lock);
    w->is_over = true;
    return NULL;
}

static void begin_to_wait(struct waiting *w, hf_store *store)
{
    pthread_create(&w->thread, NULL, wait_for_it, w);
    while (!look_at(store, w->name).queued)
        pause_ms(2);
    pause_ms(2); /* so that the next one is younger: dates are in ms */
}

static bool count_it(void *n, const hf_waits *waits)
{
    (void)waits;
    ++*(int *)n;
    return true;
}

static int n_that_say_they_wait(hf_store *store)
{
    int n = 0;
    hf_error err;
    assert_int_equal(store->ops->waits(store, NULL, 0, count_it, &n, &err), HF_OK);
    return n;
}

/* Until it has looked so often for others' waits, or its own is over. */
static void await_looks(const faulty *f, int n, const struct waiting *w)
{
    for (int seen = f->calls[FAULTY_WAITS]; f->calls[FAULTY_WAITS] < seen + n && !w->is_over;)
        pause_ms(5);
}

/* Who has given up still stands in the queue, and its last beat says that it waits. */
static void test_who_has_given_up_unheard_is_in_no_deadlock(void **state)
{
    (void)state;
    hf_client *one, *two;
    hf_lock *x, *y;
    const hf_options options = {.ttl_ms = 20000, .patience_ms = 100, .deadlock_ms = 100};
    faulty *f = faulty_open("memory:unheard", &options, &one);
    faulty *g = faulty_open("memory:unheard", &options, &two);
    f->before = cut_off;
    assert_int_equal(wait_as(one, "x", 0, &x), HF_OK);
    assert_int_equal(wait_as(two, "y", 0, &y), HF_OK);
    struct waiting w = {.client = one, .name = "y", .ms = 2000};
    begin_to_wait(&w, f->inner);
    while (!n_that_say_they_wait(f->inner) && !w.is_over)
        send_beat(f, one);
    is_cut_off = true;
    pthread_join(w.thread, NULL);
    assert_int_equal(w.code, HF_TIMEOUT);
    struct waiting again = {.client = two, .name = "x", .ms = SOON_MS};
    begin_to_wait(&again, f->inner);
    await_looks(g, 10, &again);
    assert_false(again.is_over);
    is_cut_off = false;
    hf_lock_close(x);
    pthread_join(again.thread, NULL);
    assert_int_equal(again.code, HF_OK);
    hf_lock_close(again.lock);
    hf_lock_close(y);
    hf_close(one);
    hf_close(two);
}

/* A process that holds x, and one that it started and waits for. */
struct family {
    hf_client *parent, *child;
    faulty *of_parent, *of_child;
    hf_lock *x;
};

static void family_begin(struct family *to, const char *uri, int64_t patience_ms)
{
    char held[1024];
    const hf_options options = {.ttl_ms = 20000, .patience_ms = patience_ms, .deadlock_ms = 100};
    to->of_parent = faulty_open(uri, &options, &to->parent);
    assert_int_equal(wait_as(to->parent, "x", 0, &to->x), HF_OK);
    assert_true(hf_client_held(to->parent, held, sizeof held) < sizeof held);
    setenv("HOLDFAST_HELD", held, 1);
    to->of_child = faulty_open(uri, &options, &to->child);
    unsetenv("HOLDFAST_HELD");
}

/* The parent lives, as its beats show, so the child's wait is told of the deadlock. */
static void family_end_in_deadlock(struct family *is, struct waiting *wait)
{
    send_beat(is->of_parent, is->parent);
    send_beat(is->of_parent, is->parent);
    pthread_join(wait->thread, NULL);
    assert_int_equal(wait->code, HF_DEADLOCK);
    hf_lock_close(is->x);
    hf_close(is->child);
    hf_close(is->parent);
}

/* What a process holds that waits for this one counts only while that one is known to live. */
static void test_a_parent_that_is_gone_is_in_no_deadlock(void **state)
{
    (void)state;
    struct family family;
    family_begin(&family, "memory:parent", 100);
    struct waiting w = {.client = family.child, .name = "x", .ms = 60000};
    begin_to_wait(&w, family.of_parent->inner);
    await_looks(family.of_child, 10, &w);
    assert_false(w.is_over);
    family_end_in_deadlock(&family, &w);
}

static atomic_bool is_blind;

/* A look at sessions right after one at waits fails: that is one at parents, or at the holder. */
static hf_code see_no_parents(faulty *f, faulty_call call, const void *arg)
{
    static _Atomic faulty_call last;
    (void)f;
    (void)arg;
    if (call == FAULTY_WAITS || call == FAULTY_SESSIONS_LOOK || call == FAULTY_LOOK) {
        faulty_call before = atomic_exchange(&last, call);
        if (is_blind && call == FAULTY_SESSIONS_LOOK && before == FAULTY_WAITS)
            return HF_UNREACHABLE;
    }
    return HF_OK;
}

/* A deadlock that was seen while its parents could not be looked at is found later. */
static void test_parents_are_looked_at_again(void **state)
{
    (void)state;
    struct family family;
    family_begin(&family, "memory:blind", SOON_MS);
    is_blind = true;
    family.of_child->before = see_no_parents;
    struct waiting w = {.client = family.child, .name = "x", .ms = SOON_MS};
    begin_to_wait(&w, family.of_parent->inner);
    await_looks(family.of_child, 10, &w);
    is_blind = false;
    await_looks(family.of_child, 3, &w);
    assert_false(w.is_over);
    family_end_in_deadlock(&family, &w);
}

/* It sees nobody else's waits. */
static hf_code see_no_waits(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return is_blind && call == FAULTY_WAITS ? HF_UNREACHABLE : HF_OK;
}

/* The youngest is told, however late it looks; the other one goes on. */
static void test_the_last_to_come_gives_up(void **state)
{
    (void)state;
    hf_client *one, *two;
    hf_lock *x, *y;
    const hf_options options = {.ttl_ms = 20000, .patience_ms = 100, .deadlock_ms = 100};
    faulty *f = faulty_open("memory:youngest", &options, &one);
    faulty_open("memory:youngest", &options, &two)->before = see_no_waits;
    is_blind = true;
    assert_int_equal(wait_as(one, "x", 0, &x), HF_OK);
    assert_int_equal(wait_as(two, "y", 0, &y), HF_OK);
    struct waiting first = {.client = one, .name = "y", .ms = 60000};
    struct waiting last = {.client = two, .name = "x", .ms = 60000};
    begin_to_wait(&first, f->inner);
    begin_to_wait(&last, f->inner);
    await_looks(f, 40, &first);
    assert_false(first.is_over);
    is_blind = false;
    pthread_join(last.thread, NULL);
    assert_int_equal(last.code, HF_DEADLOCK);
    assert_false(first.is_over);
    hf_lock_close(y);
    pthread_join(first.thread, NULL);
    assert_int_equal(first.code, HF_OK);
    hf_lock_close(first.lock);
    hf_lock_close(x);
    hf_close(one);
    hf_close(two);
}

/* Those who have no place in the queue, though they hold something, and wait with a number. */
static void begin_to_wait_outside(struct waiting *w)
{
    pthread_create(&w->thread, NULL, wait_for_it, w);
    for (bool is_outside = false; !is_outside; pause_ms(2)) {
        pthread_mutex_lock(&w->client->mutex);
        const struct lock_request *request = w->client->hold->requests;
        is_outside = request && request->outside;
        pthread_mutex_unlock(&w->client->mutex);
    }
}

/* No record names them. */
static void test_two_that_wait_outside(void **state)
{
    (void)state;
    hf_client *one, *two;
    hf_lock *x, *y;
    const hf_options options = {.ttl_ms = 20000, .patience_ms = 100, .deadlock_ms = 100};
    faulty *f = faulty_open("memory:outside", &options, &one);
    faulty_open("memory:outside", &options, &two);
    hf_id crowd = begin_dead(f->inner, 1, 3600000);
    one->queue_max = two->queue_max = 1;
    assert_int_equal(wait_as(one, "x", 0, &x), HF_OK);
    assert_int_equal(wait_as(two, "y", 0, &y), HF_OK);
    for (uint8_t i = 1; i <= 2; i++) {
        enter_as(f->inner, "x", crowd, i);
        enter_as(f->inner, "y", crowd, i);
    }
    struct waiting first = {.client = one, .name = "y", .ms = 60000};
    struct waiting last = {.client = two, .name = "x", .ms = 60000};
    begin_to_wait_outside(&first);
    begin_to_wait_outside(&last);
    while (!first.is_over && !last.is_over)
        pause_ms(5);
    assert_int_equal(first.is_over ? first.code : last.code, HF_DEADLOCK);
    hf_lock_close(x);
    hf_lock_close(y);
    hf_close(one);
    hf_close(two);
    pthread_join(first.thread, NULL);
    pthread_join(last.thread, NULL);
}

static void test_it_is_looked_for_rarely_where_nobody_waits_for_what_is_held(void **state)
{
    (void)state;
    hf_client *one, *two;
    hf_lock *x, *y, *z;
    faulty *f = faulty_open("memory:rarely", &quick, &one);
    faulty_open("memory:rarely", &quick, &two);
    assert_int_equal(wait_as(one, "x", 0, &x), HF_OK);
    assert_int_equal(wait_as(two, "y", 0, &y), HF_OK);
    int64_t began = now_ms();
    int beats = f->calls[FAULTY_BEAT], looks = f->calls[FAULTY_LOOK];
    assert_int_equal(wait_as(one, "y", 1000, &z), HF_TIMEOUT);
    beats = f->calls[FAULTY_BEAT] - beats;
    looks = f->calls[FAULTY_LOOK] - looks;
    int64_t took = now_ms() - began; /* a second, or more if the machine is slow */
    assert_true(beats <= took / (quick.ttl_ms / 3) + 1); /* as otherwise */
    assert_true(looks <= took / 100);
    hf_lock_close(x);
    hf_lock_close(y);
    hf_close(one);
    hf_close(two);
}

static void test_it_can_be_turned_off(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = 2000, .deadlock_ms = -1};
    hf_lock *x, *again;
    hf_error err;
    faulty *f = faulty_open("memory:off", &options, &client);
    assert_int_equal(wait_as(client, "x", 0, &x), HF_OK);
    assert_int_equal(wait_as(client, "x", 1500, &again), HF_TIMEOUT);
    assert_int_equal(f->calls[FAULTY_WAITS], 0);
    hf_lock_close(x);
    hf_close(client);
    options.deadlock_ms = 9;
    assert_int_equal(hf_open("memory:off", &options, &client, &err), HF_INVALID);
    assert_non_null(strstr(err.text, "deadlock"));
}

int main(void)
{
    const struct CMUnitTest deadlock_tests[] = {
        cmocka_unit_test(test_who_has_given_up_unheard_is_in_no_deadlock),
        cmocka_unit_test(test_a_parent_that_is_gone_is_in_no_deadlock),
        cmocka_unit_test(test_parents_are_looked_at_again),
        cmocka_unit_test(test_the_last_to_come_gives_up),
        cmocka_unit_test(test_two_that_wait_outside),
        cmocka_unit_test(test_it_is_looked_for_rarely_where_nobody_waits_for_what_is_held),
        cmocka_unit_test(test_it_can_be_turned_off),
    };
    return cmocka_run_group_tests(deadlock_tests, NULL, NULL);
}
