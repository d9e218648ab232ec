/* SPDX-License-Identifier: Apache-2.0 */
/* test_judging.c: a waiter judges the sessions in its way, all at once, and takes nothing out
 * before the mark is known (R5, L1). A dead session here is one whose beat nobody raises. */
#include "client/client_bed.h"

#include "core/id.h"
#include "core/record.h"

#define TTL 1000

static atomic_bool refuses_marks;

static hf_code refuse_marks(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_MARK && refuses_marks ? HF_UNKNOWN : HF_OK;
}

static atomic_bool has_taken;

static void *take_x(void *client)
{
    hf_lock *lock = take(client, "x");
    has_taken = true;
    hf_lock_close(lock);
    return NULL;
}

static void test_tickets_stay_until_the_mark_is_acknowledged(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    faulty *f = faulty_open("memory:marks", &options, &client);
    f->before = refuse_marks;
    pthread_t thread;
    enter_as(f->inner, "x", begin_dead(f->inner, 1, TTL), 1);
    refuses_marks = true;
    has_taken = false;
    pthread_create(&thread, NULL, take_x, client);
    while (f->calls[FAULTY_MARK] < 3 && !has_taken)
        pause_ms(1);
    assert_false(has_taken);
    assert_int_equal(look_at(f->inner, "x").holders, 1);
    refuses_marks = false;
    pthread_join(thread, NULL);
    hf_close(client);
}

static atomic_llong arrived, marked;

static hf_code answer_the_first_look_late(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    if (call == FAULTY_SESSIONS_LOOK && !arrived) {
        pause_ms(400);
        arrived = now_ms();
    }
    return HF_OK;
}

static hf_code note_mark(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    if (call == FAULTY_MARK)
        marked = now_ms();
    return HF_OK;
}

/* A beat may have been sent after the look was, and be shown by it. */
static void test_a_watch_begins_when_the_first_look_arrives(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    faulty *f = faulty_open("memory:arrival", &options, &client);
    f->after = answer_the_first_look_late;
    f->before = note_mark;
    enter_as(f->inner, "x", begin_dead(f->inner, 1, TTL), 1);
    assert_int_equal(try_take(client, "x", SOON_MS), HF_OK);
    assert_true(marked - arrived >= TTL + 5); /* and an allowance; both are rounded down */
    hf_close(client);
}

/* Where a crash shows at once, waiters are looked at once a ttl: one that was stopped and is
 * granted the lock is found all the same. */
static void test_one_that_waits_and_was_stopped_is_found(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    faulty *f = faulty_open("memory:stopped", &options, &client);
    f->base.can |= HF_CAN_SEE_CRASH;
    hf_client *holder = open_client("memory:stopped", TTL);
    hf_lock *held = take(holder, "x");
    enter_as(f->inner, "x", begin_dead(f->inner, 1, TTL), 1);
    assert_int_equal(try_take(client, "x", TTL / 2), HF_TIMEOUT);
    hf_lock_close(held);
    assert_int_equal(try_take(client, "x", SOON_MS), HF_OK);
    hf_close(holder);
    hf_close(client);
}

static atomic_int looks;
static atomic_llong looked_at[3];

static hf_code note_looks(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    if (call == FAULTY_SESSIONS_LOOK && looks < 3)
        looked_at[looks++] = now_ms();
    return HF_OK;
}

/* The head of the queue watches the holder for all. */
static void test_who_waits_further_behind_looks_less_often(void **state)
{
    (void)state;
    hf_client *head, *behind;
    hf_options options = {.ttl_ms = TTL};
    faulty *first = faulty_open("memory:behind", &options, &head);
    faulty *second = faulty_open("memory:behind", &options, &behind);
    hf_client *holder = open_client("memory:behind", TTL);
    first->base.can |= HF_CAN_SEE_CRASH;
    second->base.can |= HF_CAN_SEE_CRASH;
    second->before = note_looks;
    hf_lock *held = take(holder, "x");
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, take_x, head);
    while (!look_at(first->inner, "x").queued)
        pause_ms(1);
    pthread_create(&threads[1], NULL, take_x, behind);
    while (looks < 3)
        pause_ms(1);
    assert_true(looked_at[2] - looked_at[0] >= 3 * TTL / 2);
    hf_lock_close(held);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    hf_close(holder);
    hf_close(behind);
    hf_close(head);
}

/* And not one after the other, a ttl each. */
static void test_the_dead_ahead_are_all_found_in_one_ttl(void **state)
{
    (void)state;
    hf_client *client, *holder = open_client("memory:ahead", TTL);
    hf_options options = {.ttl_ms = TTL};
    pthread_t thread;
    faulty *f = faulty_open("memory:ahead", &options, &client);
    hf_lock *lock = take(holder, "x"), *warm = take(client, "w");
    for (uint8_t i = 1; i <= 3; i++)
        enter_as(f->inner, "x", begin_dead(f->inner, i, TTL), i);
    pthread_create(&thread, NULL, take_x, client);
    while (look_at(f->inner, "x").queued < 4)
        pause_ms(1);
    int64_t began = idle_ms();
    while (look_at(f->inner, "x").queued > 1)
        pause_ms(5);
    assert_true(idle_ms() - began < 2 * TTL - 100);
    hf_lock_close(lock);
    pthread_join(thread, NULL);
    hf_lock_close(warm);
    hf_close(client);
    hf_close(holder);
}

static bool find_ticket(void *ctx, const hf_record *record)
{
    hf_id *ticket = ctx;
    if (!record_find(record, *ticket))
        *ticket = (hf_id){{0}};
    return false;
}

static bool has_ticket(hf_store *store, hf_id ticket)
{
    const char *name = "x";
    hf_error err;
    assert_int_equal(
        store->ops->look(store, &name, 1, (hf_stamp){0}, true, find_ticket, &ticket, &err), HF_OK);
    return !id_is_zero(ticket);
}

static atomic_bool has_seen_odd;

static void make_odd(faulty *f, hf_session_state *state)
{
    (void)f;
    if (state->session.id.bytes[0] != 2)
        return;
    *state = (hf_session_state){.session.id = state->session.id, .presence = HF_ODD};
    has_seen_odd = true;
}

static hf_code say_odd(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_SESSIONS_LOOK && has_seen_odd ? HF_SHAPE : HF_OK;
}

/* The dead one's ticket goes; then the one that nobody can judge holds the lock. */
static void test_the_dead_are_found_beside_one_that_cannot_be_read(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    faulty *f = faulty_open("memory:odd", &options, &client);
    enter_as(f->inner, "x", begin_dead(f->inner, 1, TTL), 1);
    enter_as(f->inner, "x", begin_dead(f->inner, 2, TTL), 2);
    f->inner->ops->session_end(f->inner, (hf_id){{1}}, true, NULL);
    f->edits_state = make_odd;
    f->after = say_odd;
    assert_int_equal(try_take(client, "x", SOON_MS), HF_SHAPE);
    assert_false(has_ticket(f->inner, (hf_id){{0, 1}}));
    assert_true(has_ticket(f->inner, (hf_id){{0, 2}}));
    hf_close(client);
}

static hf_code give_nothing(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_SESSIONS_LOOK ? HF_SHAPE : HF_OK;
}

/* Though an all-zero state says that a session is missing. */
static void test_a_look_that_gives_nothing_makes_nobody_dead(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    faulty *f = faulty_open("memory:nothing", &options, &client);
    enter_as(f->inner, "x", begin_dead(f->inner, 1, TTL), 1);
    f->inner->ops->session_end(f->inner, (hf_id){{1}}, true, NULL);
    f->before = give_nothing;
    assert_int_equal(try_take(client, "x", SOON_MS), HF_SHAPE);
    assert_true(has_ticket(f->inner, (hf_id){{0, 1}}));
    hf_close(client);
}

static void test_who_does_not_fit_into_the_queue_judges_too(void **state)
{
    (void)state;
    hf_client *client;
    hf_options options = {.ttl_ms = TTL};
    faulty *f = faulty_open("memory:full", &options, &client);
    hf_id dead = begin_dead(f->inner, 1, TTL);
    for (uint8_t i = 1; i <= HF_QUEUE_MAX + 1; i++)
        enter_as(f->inner, "x", dead, i);
    assert_int_equal(look_at(f->inner, "x").queued, HF_QUEUE_MAX);
    assert_int_equal(try_take(client, "x", SOON_MS), HF_OK);
    hf_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tickets_stay_until_the_mark_is_acknowledged),
        cmocka_unit_test(test_a_watch_begins_when_the_first_look_arrives),
        cmocka_unit_test(test_one_that_waits_and_was_stopped_is_found),
        cmocka_unit_test(test_who_waits_further_behind_looks_less_often),
        cmocka_unit_test(test_the_dead_ahead_are_all_found_in_one_ttl),
        cmocka_unit_test(test_the_dead_are_found_beside_one_that_cannot_be_read),
        cmocka_unit_test(test_a_look_that_gives_nothing_makes_nobody_dead),
        cmocka_unit_test(test_who_does_not_fit_into_the_queue_judges_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
