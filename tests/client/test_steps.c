/* SPDX-License-Identifier: Apache-2.0 */
/* test_steps.c: what other threads do between two steps of an attempt: they pass it the lock, or
 * its ticket goes, or the client is closed. The test makes each step itself. Run by ctest. */
#include "client/client_bed.h"

#include "core/error.h"
#include "core/id.h"

static hf_client *client;
static faulty *f;

static hf_mono now(void)
{
    return client_now(client);
}

/* A thread of its own that wants x, as far as the client can tell. */
static void begin_attempt(struct attempt *a, const hf_lock_options *options, uint64_t thread)
{
    attempt_init(a, client, "x", options);
    a->request.thread = thread;
    attempt_step(a, now());
}

static void open_still(const char *uri)
{
    f = faulty_open_still(uri, NULL, &client);
}

/* There are no threads that send what is left to be sent: it is sent here. */
static void close_still(void)
{
    f->before = (faulty_hook *)NULL;
    faulty_pass(f, 1000);
    upkeep_tick(client, now());
    hf_close(client);
}

/* Held, with tokens for those that stand in line. */
static hf_lock *hold_with_block(void)
{
    hf_lock *lock;
    hf_error err;
    hf_lock_options options = {.linger_ms = 1000};
    hf_lock_close(take(client, "x"));
    faulty_pass(f, 1500);
    upkeep_tick(client, now());
    assert_int_equal(hf_lock_acquire(client, "x", &options, &lock, &err), HF_OK);
    return lock;
}

static const hf_lock_options plain;

/* ---- In line ---- */

static void test_a_lock_that_was_passed_on_is_had_in_spite_of_a_cancel(void **state)
{
    (void)state;
    hf_error err;
    struct attempt two;
    int64_t left_ms;
    open_still("memory:passed");
    hf_lock *one = hold_with_block();
    begin_attempt(&two, &plain, 1000);
    assert_int_equal(two.state, ATTEMPT_IN_LINE);
    assert_int_equal(hf_lock_release(one, &err), HF_OK);
    attempt_cancel(&two, now());
    assert_int_equal(two.state, ATTEMPT_ENDED);
    assert_int_equal(two.code, HF_OK);
    assert_int_equal(hf_lock_check(two.request.lock, &left_ms, &err), HF_OK);
    attempt_done(&two);
    hf_lock_close(two.request.lock);
    hf_lock_close(one);
    close_still();
}

static void test_who_has_given_up_is_passed_nothing(void **state)
{
    (void)state;
    hf_error err;
    struct attempt two, three;
    open_still("memory:gone-from-line");
    hf_lock *one = hold_with_block();
    begin_attempt(&two, &plain, 1000);
    begin_attempt(&three, &plain, 1001);
    attempt_cancel(&two, now());
    assert_int_equal(two.code, HF_CANCELLED);
    assert_null(client->hold->waiters.first);
    assert_int_equal(hf_lock_release(one, &err), HF_OK);
    assert_null(two.request.lock);
    attempt_step(&three, now());
    assert_int_equal(three.state, ATTEMPT_ENDED);
    assert_int_equal(three.code, HF_OK);
    attempt_done(&two);
    attempt_done(&three);
    hf_lock_close(three.request.lock);
    hf_lock_close(one);
    close_still();
}

/* Without tokens for it the next in line enters itself; it was told so, and has gone. */
static void test_who_was_to_lead_and_gave_up_leaves_the_lead_to_the_next(void **state)
{
    (void)state;
    hf_error err;
    struct attempt two, three;
    open_still("memory:lead");
    hf_lock *one = take(client, "x");
    begin_attempt(&two, &plain, 1000);
    begin_attempt(&three, &plain, 1001);
    assert_int_equal(hf_lock_release(one, &err), HF_OK);
    attempt_cancel(&two, now());
    attempt_done(&two);
    assert_int_equal(two.code, HF_CANCELLED);
    for (int i = 0; i < 5 && three.state != ATTEMPT_ENDED; i++)
        attempt_step(&three, now());
    assert_int_equal(three.state, ATTEMPT_ENDED);
    assert_int_equal(three.code, HF_OK);
    attempt_done(&three);
    hf_lock_close(three.request.lock);
    hf_lock_close(one);
    close_still();
}

static hf_lock *take_beside_ticks(void)
{
    struct attempt a;
    begin_attempt(&a, &plain, client_thread());
    for (int i = 0; i < 400 && a.state != ATTEMPT_ENDED; i++) {
        faulty_pass(f, 50);
        beat_tick(client, now());
        upkeep_tick(client, now());
        attempt_step(&a, now());
    }
    assert_int_equal(a.state, ATTEMPT_ENDED);
    assert_int_equal(a.code, HF_OK);
    assert_non_null(a.request.lock);
    attempt_done(&a);
    return a.request.lock;
}

/* Nobody has noticed yet that its session's lease is over. */
static void test_one_that_lingered_too_long_is_taken_anew(void **state)
{
    (void)state;
    open_still("memory:lingered");
    hf_lock *one = hold_with_block();
    hf_id session = one->grant.session;
    hf_lock_close(one);
    faulty_pass(f, 10000);
    one = take_beside_ticks();
    assert_false(id_equal(one->grant.session, session));
    assert_int_equal(look_at(f->inner, "x").holders, 1);
    hf_lock_close(one);
    close_still();
}

static hf_lock *linger(void)
{
    hf_lock_close(hold_with_block());
    assert_non_null(client->hold->locks);
    assert_true(client->hold->locks->turn.lingers);
    return client->hold->locks;
}

static void lose(hf_lock *lock)
{
    hf_error why;
    error_set(&why, HF_LOST, "so says the test");
    pthread_mutex_lock(&client->mutex);
    loss_begin_locked(lock, &why, now());
    pthread_mutex_unlock(&client->mutex);
}

/* It has no handle: when its ticket is given back, nobody needs it any more. */
static void test_a_lost_lock_that_lingered_is_forgotten_when_it_was_left(void **state)
{
    (void)state;
    open_still("memory:lingered-lost");
    hf_lock *kept = linger();
    lose(kept);
    pthread_mutex_lock(&client->mutex);
    turns_tick_locked(client, now());
    pthread_mutex_unlock(&client->mutex);
    assert_ptr_equal(client->hold->locks, kept);
    upkeep_tick(client, now());
    assert_null(client->hold->locks);
    upkeep_tick(client, now());
    assert_int_equal(look_at(f->inner, "x").holders, 0);
    close_still();
}

/* Its ticket ends with the session. */
static void test_a_lost_lock_that_lingered_is_forgotten_with_its_session(void **state)
{
    (void)state;
    open_still("memory:lingered-gone");
    linger();
    faulty_pass(f, 20000);
    belief_tick(client, now());
    assert_int_not_equal(client->session.state, SESSION_ALIVE);
    upkeep_tick(client, now());
    assert_null(client->hold->locks);
    close_still();
}

/* One that lingers is verified when it would have been without its last turn. */
static void test_a_turn_does_not_put_off_or_hurry_what_is_verified(void **state)
{
    (void)state;
    open_still("memory:verified-turns");
    hf_lock *one = hold_with_block();
    int64_t due = one->verification.due.due.ns;
    faulty_pass(f, 100);
    hf_lock_close(one);
    one = take(client, "x");
    assert_int_equal(one->verification.due.due.ns, due);
    hf_lock_close(one);
    close_still();
}

/* ---- Beats ---- */

static int64_t beats_after_ms(void)
{
    return (client->session.beat_due.ns - client->session.beat_sent.ns) / 1000000;
}

static void beat_after(int64_t ms)
{
    faulty_pass(f, ms);
    beat_tick(client, now());
}

static void open_with_long_leases(const char *uri)
{
    static const hf_options options = {.ttl_ms = 40000};
    f = faulty_open_still(uri, &options, &client);
}

static void test_a_holder_beats_more_often_than_who_waits(void **state)
{
    (void)state;
    open_with_long_leases("memory:beats");
    hf_lock *one = take(client, "x");
    assert_int_equal(beats_after_ms(), 5000);
    beat_after(5000);
    assert_int_equal(beats_after_ms(), 5000);
    hf_lock_close(one);
    beat_after(5000);
    assert_int_equal(beats_after_ms(), 13333);
    close_still();
}

/* The lease of a new holder outlives a long outage as soon as that of an old one. */
static void test_a_grant_brings_the_next_beat_forward(void **state)
{
    (void)state;
    open_with_long_leases("memory:hurried");
    hf_lock_close(take(client, "x"));
    beat_after(5000);
    beat_after(8000);
    assert_int_equal(beats_after_ms(), 13333);
    hf_lock *one = take(client, "x");
    assert_int_equal(beats_after_ms(), 5000);
    hf_lock_close(one);
    close_still();
}

static void open_with_margin(const char *uri)
{
    static const hf_options options = {.ttl_ms = 40000, .stop_margin_ms = 5500};
    f = faulty_open_still(uri, &options, &client);
}

/* Else it would be lost at once, as there is no time to stop what it is for. */
static void test_a_grant_waits_for_a_beat_if_the_lease_is_nearly_over(void **state)
{
    (void)state;
    struct attempt a;
    open_with_margin("memory:nearly-over");
    hf_lock_close(take(client, "x"));
    faulty_pass(f, 33000);
    begin_attempt(&a, &plain, 1000);
    assert_int_equal(a.state, ATTEMPT_WAITS);
    assert_null(a.request.lock);
    beat_tick(client, now());
    faulty_pass(f, 100);
    attempt_step(&a, now());
    assert_int_equal(a.state, ATTEMPT_ENDED);
    assert_int_equal(a.code, HF_OK);
    attempt_done(&a);
    hf_lock_close(a.request.lock);
    close_still();
}

static void test_a_session_that_holds_nothing_needs_no_time_to_stop(void **state)
{
    (void)state;
    open_with_margin("memory:nothing-to-stop");
    hf_lock_close(take(client, "x"));
    faulty_pass(f, 38000);
    belief_tick(client, now());
    assert_int_equal(client->session.state, SESSION_ALIVE);
    faulty_pass(f, 2000);
    belief_tick(client, now());
    assert_int_not_equal(client->session.state, SESSION_ALIVE);
    close_still();
}

/* ---- Who holds what ---- */

static bool holds(const char *actor, uint64_t thread, const hf_lock *lock)
{
    struct attempt a;
    hf_lock_options options = {.actor = actor};
    attempt_init(&a, client, "z", &options);
    a.request.thread = thread;
    bool is_so = lock_request_holds_locked(&a.request, lock);
    attempt_done(&a);
    return is_so;
}

/* A thread and an actor are different holders, also where the thread acts for that actor. */
static void test_an_actor_is_not_the_thread_that_acts_for_it(void **state)
{
    (void)state;
    hf_lock *named, *plain_one;
    hf_error err;
    hf_lock_options options = {.actor = "one"};
    open_still("memory:actors");
    assert_int_equal(hf_lock_acquire(client, "x", &options, &named, &err), HF_OK);
    plain_one = take(client, "y");
    uint64_t own = client_thread();
    assert_true(holds("one", own, named));
    assert_true(holds("one", own + 1, named));
    assert_false(holds("two", own, named));
    assert_false(holds(NULL, own, named));
    assert_true(holds(NULL, own, plain_one));
    assert_false(holds(NULL, own + 1, plain_one));
    assert_false(holds("one", own, plain_one));
    assert_int_equal(hf_lock_release(named, &err), HF_OK);
    assert_false(holds("one", own, named)); /* not any more */
    hf_lock_close(named);
    hf_lock_close(plain_one);
    close_still();
}

/* ---- While a look is under way ---- */

static hf_lock *upgraded;

/* What the look is about to show is from before the upgrade. */
static void upgrade_meanwhile(faulty *of, hf_record *record)
{
    hf_error err;
    hf_lock *lock = upgraded;
    (void)record;
    upgraded = NULL;
    if (!lock)
        return;
    of->edits_record = (faulty_edit_record *)NULL;
    assert_int_equal(hf_lock_upgrade(lock, &err), HF_OK);
}

static void test_a_look_from_before_an_upgrade_loses_nothing(void **state)
{
    (void)state;
    hf_error err;
    hf_lock *lock;
    hf_lock_options options = {.mode = HF_SHARED};
    open_still("memory:look-and-upgrade");
    assert_int_equal(hf_lock_acquire(client, "x", &options, &lock, &err), HF_OK);
    for (int i = 0; i < 3; i++) {
        faulty_pass(f, 3400);
        beat_tick(client, now());
    }
    upgraded = lock;
    f->edits_record = upgrade_meanwhile;
    upkeep_tick(client, now());
    assert_null(upgraded);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_OK);
    assert_int_equal(hf_lock_mode(lock), HF_EXCLUSIVE);
    hf_lock_close(lock);
    close_still();
}

/* ---- Asking who was there before ---- */

static hf_code lose_answers_to_enters(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    return is_enter(call, arg) ? HF_UNKNOWN : HF_OK;
}

/* Its ticket is gone from the record, and that of the upgrade stands there. */
static void test_an_upgrade_without_an_answer_still_knows_who_was_before(void **state)
{
    (void)state;
    hf_error err;
    hf_lock *lock;
    hf_last last;
    hf_options few = {.patience_ms = 1};
    hf_lock_options options = {.mode = HF_SHARED};
    f = faulty_open_still("memory:before-upgrade", &few, &client);
    assert_int_equal(hf_lock_acquire(client, "x", &options, &lock, &err), HF_OK);
    f->after = lose_answers_to_enters;
    assert_int_equal(hf_lock_upgrade(lock, &err), HF_UNKNOWN);
    f->after = (faulty_hook *)NULL;
    lock->previous.is_known = false; /* as after a grant by notice */
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
    assert_int_equal(hf_lock_mode(lock), HF_SHARED);
    hf_lock_close(lock);
    close_still();
}

static void test_who_was_before_is_not_known_of_what_is_gone(void **state)
{
    (void)state;
    hf_error err;
    hf_last last;
    open_still("memory:before-gone");
    hf_lock *lock = take(client, "x");
    hf_leave leave = {.ticket = lock->grant.ticket, .outcome = HF_OUTCOME_RELEASED};
    hf_step step = {.leaves = &leave, .n_leaves = 1};
    hf_step_reply reply;
    assert_int_equal(f->inner->ops->step(f->inner, "x", &step, NULL, &reply, &err), HF_OK);
    lock->previous.is_known = false;
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_LOST);
    assert_string_equal(last.who, "");
    hf_lock_close(lock);
    close_still();
}

/* ---- Suspects ---- */

#define MANY 1100

static void suspect_many(void)
{
    char name[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "s%d", i);
        session_suspect_locked(client, name);
        session_suspect_locked(client, name); /* once is enough */
    }
    assert_int_equal(client->session.n_suspects, MANY);
}

static hf_code fail_looks(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    (void)arg;
    return call == FAULTY_LOOK ? HF_UNREACHABLE : HF_OK;
}

/* More than one look can take: the first has failed, and is made again a ttl later. */
static void test_all_suspects_are_looked_at(void **state)
{
    (void)state;
    open_still("memory:suspects");
    hf_lock *lock = take(client, "x");
    suspect_many();
    enter_as(f->inner, "s0", client->session.self.id, 1);
    enter_as(f->inner, "s1099", client->session.self.id, 2);
    f->before = fail_looks;
    for (int i = 0; i < 6; i++) {
        faulty_pass(f, 3400);
        beat_tick(client, now());
        if (i == 2)
            upkeep_tick(client, now());
    }
    assert_int_equal(f->calls[FAULTY_LOOK], 2); /* at the suspects, and at what is held */
    f->before = (faulty_hook *)NULL;
    upkeep_tick(client, now());
    assert_int_equal(look_at(f->inner, "s0").holders, 0);
    assert_int_equal(look_at(f->inner, "s1099").holders, 0);
    assert_int_equal(f->calls[FAULTY_LOOK], 2 + 3 + 1);
    hf_lock_close(lock);
    close_still();
}

static size_t names_looked_at;

static hf_code count_names(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    if (call == FAULTY_LOOK)
        names_looked_at += ((const struct faulty_look *)arg)->n;
    return HF_OK;
}

/* Also one that came a little later. */
static void test_all_holders_of_one_lock_are_verified_in_one_look(void **state)
{
    (void)state;
    hf_lock_options options = {.permits = 1, .limit = 50};
    hf_lock *locks[50];
    open_still("memory:holders");
    for (int i = 0; i < 50; i++) {
        assert_int_equal(hf_lock_acquire(client, "s", &options, &locks[i], NULL), HF_OK);
        faulty_pass(f, 10);
    }
    names_looked_at = 0;
    f->before = count_names;
    for (int i = 0; i < 5; i++) {
        beat_tick(client, now());
        upkeep_tick(client, now());
        faulty_pass(f, 3000);
    }
    assert_int_equal(names_looked_at, 1);
    abandon(f->inner, "s", locks[7]->grant.ticket);
    for (int i = 0; i < 5; i++) {
        beat_tick(client, now());
        upkeep_tick(client, now());
        faulty_pass(f, 3000);
    }
    for (int i = 0; i < 50; i++) {
        assert_int_equal(hf_lock_check(locks[i], NULL, NULL), i == 7 ? HF_LOST : HF_OK);
        hf_lock_close(locks[i]);
    }
    close_still();
}

/* ---- While one call of a step is under way ---- */

/* Somebody closes the client meanwhile, and it is over with it before the answer comes. */
static hf_code begin_closing(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    if (!is_enter(call, arg))
        return HF_OK;
    pthread_mutex_lock(&client->mutex);
    client->closing.has_begun = true;
    client->closing.until = mono_add_ms(now(), 4000);
    pthread_mutex_unlock(&client->mutex);
    return HF_OK;
}

/* Its ticket is for the background: the thread that waits may not call the store any more. */
static void test_a_grant_while_closing_is_left_to_the_background(void **state)
{
    (void)state;
    struct attempt one;
    open_still("memory:closing-step");
    hf_lock_close(take(client, "w"));
    f->before = begin_closing;
    begin_attempt(&one, &plain, 1000);
    assert_int_equal(one.state, ATTEMPT_ENDED);
    assert_int_equal(one.code, HF_CLOSED);
    assert_int_equal(look_at(f->inner, "x").holders, 1);
    attempt_done(&one);
    faulty_pass(f, 1);
    release_tick(client, now());
    assert_int_equal(look_at(f->inner, "x").holders, 0);
    assert_int_equal(look_at(f->inner, "w").holders, 0);
    close_still();
}

/* As long as hf_close() may try, and no longer. */
static void test_releases_end_with_the_time_for_closing(void **state)
{
    (void)state;
    hf_error err;
    open_still("memory:closing-time");
    hf_lock *lock = take(client, "x");
    f->before = begin_closing;
    hf_lock_close(lock);
    struct faulty_step entering = {"x", &(hf_step){.enter = &(hf_enter){.limit = 1}}};
    begin_closing(f, FAULTY_STEP, &entering);
    faulty_pass(f, 4000);
    int before = f->calls[FAULTY_STEP];
    assert_int_equal(release_tick(client, now()).ns, MONO_NEVER.ns);
    assert_int_equal(f->calls[FAULTY_STEP], before);
    faulty_pass(f, -1);
    release_tick(client, now());
    assert_int_equal(f->calls[FAULTY_STEP], before + 1);
    assert_int_equal(hf_lock_acquire(client, "x", NULL, &lock, &err), HF_CLOSED);
    close_still();
}

/* ---- Beats ---- */

static hf_id ask_id(uint8_t number)
{
    return (hf_id){{9, number}};
}

static void add_ask(uint8_t number, bool is_answered)
{
    session_ask ask = {.ask.ticket = ask_id(number), .is_answered = is_answered};
    session_add_ask_locked(client, &ask);
}

/* Those that were answered are told in a beat, as many as it has room for; the rest in the next. */
static void test_a_beat_answers_as_many_asks_as_it_has_room_for(void **state)
{
    (void)state;
    hf_id answered[HF_ASKS_MAX + 1];
    open_still("memory:asks");
    memset(answered, 7, sizeof answered);
    add_ask(200, false);
    for (uint8_t i = 0; i < HF_ASKS_MAX + 2; i++)
        add_ask(i, true);
    assert_int_equal(session_answered_locked(client, answered), HF_ASKS_MAX);
    assert_int_equal(answered[HF_ASKS_MAX].bytes[0], 7);
    for (uint8_t i = 0; i < HF_ASKS_MAX; i++)
        assert_true(id_equal(answered[i], ask_id(i)));
    session_drop_asks_locked(client, answered, HF_ASKS_MAX);
    assert_int_equal(client->session.n_asks, 3);
    assert_non_null(session_find_ask_locked(client, ask_id(200)));
    assert_null(session_find_ask_locked(client, ask_id(0)));
    assert_int_equal(session_answered_locked(client, answered), 2);
    assert_true(id_equal(answered[0], ask_id(HF_ASKS_MAX)));
    close_still();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lock_that_was_passed_on_is_had_in_spite_of_a_cancel),
        cmocka_unit_test(test_who_has_given_up_is_passed_nothing),
        cmocka_unit_test(test_who_was_to_lead_and_gave_up_leaves_the_lead_to_the_next),
        cmocka_unit_test(test_one_that_lingered_too_long_is_taken_anew),
        cmocka_unit_test(test_a_lost_lock_that_lingered_is_forgotten_when_it_was_left),
        cmocka_unit_test(test_a_lost_lock_that_lingered_is_forgotten_with_its_session),
        cmocka_unit_test(test_a_turn_does_not_put_off_or_hurry_what_is_verified),
        cmocka_unit_test(test_a_holder_beats_more_often_than_who_waits),
        cmocka_unit_test(test_a_grant_brings_the_next_beat_forward),
        cmocka_unit_test(test_a_grant_waits_for_a_beat_if_the_lease_is_nearly_over),
        cmocka_unit_test(test_a_session_that_holds_nothing_needs_no_time_to_stop),
        cmocka_unit_test(test_an_actor_is_not_the_thread_that_acts_for_it),
        cmocka_unit_test(test_a_look_from_before_an_upgrade_loses_nothing),
        cmocka_unit_test(test_an_upgrade_without_an_answer_still_knows_who_was_before),
        cmocka_unit_test(test_who_was_before_is_not_known_of_what_is_gone),
        cmocka_unit_test(test_all_suspects_are_looked_at),
        cmocka_unit_test(test_all_holders_of_one_lock_are_verified_in_one_look),
        cmocka_unit_test(test_a_grant_while_closing_is_left_to_the_background),
        cmocka_unit_test(test_releases_end_with_the_time_for_closing),
        cmocka_unit_test(test_a_beat_answers_as_many_asks_as_it_has_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
