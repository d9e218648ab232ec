/* SPDX-License-Identifier: Apache-2.0 */
/* test_changing.c: what a holder believes while a downgrade or an upgrade is under way, has no
 * answer or lands late (R4, R8, R9). */
#include "client/client_bed.h"

#include "core/id.h"
#include "support/inside.h"

static hf_client *one, *two;
static faulty *store; /* of `one` */
static hf_lock *lock; /* of `one` */

static const hf_step *step_of(faulty_call call, const void *arg)
{
    return call == FAULTY_STEP ? ((const struct faulty_step *)arg)->step : NULL;
}

static bool is_change(faulty_call call, const void *arg)
{
    const hf_step *step = step_of(call, arg);
    return step && step->change;
}

static bool is_upgrade(faulty_call call, const void *arg)
{
    const hf_step *step = step_of(call, arg);
    return step && step->enter && !id_is_zero(step->enter->replaces);
}

/* ---- What the store does to changes and upgrades; set while the client runs ---- */

static atomic_int lost_requests, lost_answers; /* so many; those requests are kept, to land late */
static atomic_int swallowed;                   /* so many are answered, and do nothing */
static gate sent, answered;                    /* each keeps them under way */
static gate *opened_by_a_leave;
static atomic_int mode_when_sent; /* of the first change, if it is -1 before */
static hf_change late_change;
static hf_enter late_enter;

static bool takes_one(atomic_int *left)
{
    return *left > 0 && atomic_fetch_sub(left, 1) > 0;
}

static hf_code before(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (!is_change(call, arg) && !is_upgrade(call, arg))
        return HF_OK;
    if (is_change(call, arg) && mode_when_sent < 0)
        mode_when_sent = hf_lock_mode(lock);
    gate_pass(&sent);
    if (!takes_one(&lost_requests))
        return HF_OK;
    if (is_change(call, arg))
        late_change = *step_of(call, arg)->change;
    else
        late_enter = *step_of(call, arg)->enter;
    return HF_UNKNOWN;
}

static hf_code after(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    if (is_leave(call, arg) && opened_by_a_leave)
        gate_open(opened_by_a_leave);
    if (!is_change(call, arg) && !is_upgrade(call, arg))
        return HF_OK;
    gate_pass(&answered);
    return takes_one(&lost_answers) ? HF_UNKNOWN : HF_OK;
}

static bool swallow(faulty *f, const struct faulty_step *step)
{
    (void)f;
    return step->step->change && takes_one(&swallowed);
}

static const hf_store_ops *looks_of; /* the inner store's, in place of its own; NULL */

static void begin(const char *uri, hf_mode mode)
{
    hf_options options = {.ttl_ms = 6000, .patience_ms = 200};
    hf_lock_options taken = {.mode = mode, .why = "to be changed"};
    hf_error err;
    lost_requests = lost_answers = swallowed = mode_when_sent = 0;
    opened_by_a_leave = NULL;
    two = open_client(uri, 2000);
    store = faulty_open(uri, &options, &one);
    store->before = before;
    store->after = after;
    store->swallows = swallow;
    if (looks_of)
        store->inner->ops = looks_of;
    assert_int_equal(hf_lock_acquire(one, "x", &taken, &lock, &err), HF_OK);
}

static void end(void)
{
    hf_lock_close(lock);
    hf_close(one);
    hf_close(two);
}

static hf_code share(hf_client *client, int64_t wait_ms, hf_lock **out)
{
    hf_lock_options options = {.mode = HF_SHARED, .wait_ms = wait_ms};
    hf_error err;
    return hf_lock_acquire(client, "x", &options, out, &err);
}

static hf_code try_share(int64_t wait_ms)
{
    hf_lock *shared;
    hf_error err;
    hf_code code = share(two, wait_ms, &shared);
    if (code)
        return code;
    code = hf_lock_release(shared, &err);
    hf_lock_close(shared);
    return code;
}

static void downgraded(hf_code expected)
{
    hf_error err;
    assert_int_equal(hf_lock_downgrade(lock, &err), expected);
    if (expected)
        assert_int_equal(err.code, expected);
}

static void upgraded(hf_code expected)
{
    hf_error err;
    assert_int_equal(hf_lock_upgrade(lock, &err), expected);
    if (expected)
        assert_int_equal(err.code, expected);
}

static void held_as(hf_mode mode)
{
    hf_error err;
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_OK);
    assert_int_equal(hf_lock_mode(lock), mode);
}

/* Shared, and upgraded in the store, which `one` was not told. */
static void begin_unanswered(const char *uri)
{
    begin(uri, HF_SHARED);
    lost_answers = 1000;
    upgraded(HF_UNKNOWN);
}

static void land(const hf_step *step)
{
    hf_step_reply reply;
    hf_error err;
    assert_int_equal(store->inner->ops->step(store->inner, "x", step, NULL, &reply, &err), HF_OK);
}

/* ---- Downgrade ---- */

static void test_belief_in_exclusive_ends_before_the_downgrade_is_sent(void **state)
{
    (void)state;
    begin("memory:lowered", HF_EXCLUSIVE);
    int64_t token = hf_lock_token(lock);
    mode_when_sent = -1;
    held_as(HF_EXCLUSIVE);
    downgraded(HF_OK);
    assert_int_equal(mode_when_sent, HF_SHARED);
    held_as(HF_SHARED);
    assert_int_equal(hf_lock_token(lock), token);
    assert_int_equal(try_share(HF_TRY), HF_OK);
    assert_int_equal(try_take(two, "x", HF_TRY), HF_HELD);
    end();
}

static void test_a_downgrade_without_an_answer_is_repeated(void **state)
{
    (void)state;
    begin("memory:repeated", HF_EXCLUSIVE);
    lost_answers = 1;
    downgraded(HF_OK);
    upgraded(HF_OK);
    lost_requests = 2;
    downgraded(HF_OK);
    assert_int_equal(lost_requests, 0);
    assert_int_equal(look_at(store->inner, "x").holder.permits, 1);
    end();
}

static void test_a_downgrade_that_was_never_answered_goes_on_in_the_background(void **state)
{
    (void)state;
    begin("memory:background", HF_EXCLUSIVE);
    lost_requests = 1000;
    downgraded(HF_UNKNOWN);
    held_as(HF_SHARED);
    assert_int_equal(try_share(HF_TRY), HF_HELD); /* the store has not heard of it */
    lost_requests = 0;
    assert_int_equal(try_share(SOON_MS), HF_OK);
    held_as(HF_SHARED);
    downgraded(HF_OK); /* once more */
    end();
}

static void test_a_downgrade_that_did_nothing_is_sent_again(void **state)
{
    (void)state;
    begin("memory:swallowed", HF_EXCLUSIVE);
    swallowed = 2;
    downgraded(HF_OK);
    assert_int_equal(swallowed, 0);
    assert_int_equal(look_at(store->inner, "x").holder.permits, 1);
    end();
}

static void test_a_downgrade_finds_out_that_its_ticket_is_gone(void **state)
{
    (void)state;
    hf_error err;
    begin("memory:taken", HF_EXCLUSIVE);
    hf_leave leave = {.ticket = lock->grant.ticket, .outcome = HF_OUTCOME_ABANDONED};
    land(&(hf_step){.leaves = &leave, .n_leaves = 1});
    downgraded(HF_LOST);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_LOST);
    downgraded(HF_LOST);
    upgraded(HF_LOST);
    end();
}

static void test_a_late_downgrade_does_not_lower_an_upgrade(void **state)
{
    (void)state;
    begin("memory:late-change", HF_EXCLUSIVE);
    lost_requests = 1;
    downgraded(HF_OK);
    upgraded(HF_OK);
    land(&(hf_step){.change = &late_change});
    held_as(HF_EXCLUSIVE);
    assert_int_equal(look_at(store->inner, "x").holder.permits, HF_LIMIT_RW);
    assert_int_equal(try_share(HF_TRY), HF_HELD);
    end();
}

/* ---- Upgrade ---- */

static void test_an_upgrade_takes_the_next_token_and_keeps_what_it_is_for(void **state)
{
    (void)state;
    begin("memory:upgraded", HF_SHARED);
    int64_t token = hf_lock_token(lock);
    upgraded(HF_OK);
    held_as(HF_EXCLUSIVE);
    assert_true(hf_lock_token(lock) > token);
    struct seen seen = look_at(store->inner, "x");
    assert_string_equal(seen.holder.why, "to be changed");
    assert_int_equal(seen.holder.token, hf_lock_token(lock));
    upgraded(HF_OK); /* it is exclusive already */
    assert_int_equal(try_share(HF_TRY), HF_HELD);
    end();
}

static void test_an_upgrade_that_was_refused_leaves_it_as_it_was(void **state)
{
    (void)state;
    hf_error err;
    hf_lock *other;
    begin("memory:refused", HF_SHARED);
    assert_int_equal(share(two, HF_TRY, &other), HF_OK);
    int64_t token = hf_lock_token(lock), began = idle_ms();
    upgraded(HF_HELD);
    assert_true(idle_ms() - began < 1000);
    held_as(HF_SHARED);
    assert_int_equal(hf_lock_token(lock), token);
    assert_int_equal(hf_lock_upgrade(other, &err), HF_HELD); /* they do not wait for each other */
    assert_int_equal(hf_lock_release(other, &err), HF_OK);
    hf_lock_close(other);
    upgraded(HF_OK);
    end();
}

static void test_what_this_client_closed_is_not_in_the_way(void **state)
{
    (void)state;
    hf_lock *other;
    begin("memory:own", HF_SHARED);
    assert_int_equal(share(one, HF_TRY, &other), HF_OK);
    hf_lock_close(other);
    upgraded(HF_OK);
    end();
}

static void test_an_upgrade_whose_answers_are_lost_is_had_by_repeating_it(void **state)
{
    (void)state;
    begin("memory:answers", HF_SHARED);
    int64_t token = hf_lock_token(lock);
    lost_answers = 2;
    upgraded(HF_OK);
    held_as(HF_EXCLUSIVE);
    assert_true(hf_lock_token(lock) > token);
    assert_int_equal(look_at(store->inner, "x").holders, 1);
    end();
}

/* It was granted, and the holder does not know: shared is all that it believes, until it is told
 * that it has more. */
static void test_an_upgrade_without_an_answer_is_not_believed(void **state)
{
    (void)state;
    begin_unanswered("memory:unanswered");
    held_as(HF_SHARED);
    lost_answers = 0;
    upgraded(HF_OK);
    held_as(HF_EXCLUSIVE);
    assert_int_equal(look_at(store->inner, "x").holders, 1);
    end();
}

static void test_an_upgrade_without_an_answer_is_found_and_lowered(void **state)
{
    (void)state;
    hf_error err;
    begin_unanswered("memory:found");
    lost_answers = 0;
    assert_int_equal(look_at(store->inner, "x").holder.permits, HF_LIMIT_RW);
    assert_int_equal(try_share(SOON_MS), HF_OK);
    held_as(HF_SHARED);
    assert_int_equal(look_at(store->inner, "x").holders, 1);
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    assert_int_equal(look_at(store->inner, "x").holders, 0);
    end();
}

static void test_a_downgrade_ends_an_upgrade_without_an_answer(void **state)
{
    (void)state;
    begin_unanswered("memory:ended");
    lost_answers = 0;
    downgraded(HF_OK);
    assert_int_equal(try_share(HF_TRY), HF_OK);
    held_as(HF_SHARED);
    end();
}

static void test_a_release_takes_out_an_upgrade_without_an_answer(void **state)
{
    (void)state;
    hf_error err;
    begin_unanswered("memory:both");
    assert_int_equal(look_at(store->inner, "x").holder.permits, HF_LIMIT_RW);
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    assert_int_equal(look_at(store->inner, "x").holders, 0);
    end();
}

static void test_an_upgrade_that_lands_after_the_release_finds_nobody(void **state)
{
    (void)state;
    hf_error err;
    begin("memory:late-upgrade", HF_SHARED);
    lost_requests = 1000;
    upgraded(HF_UNKNOWN);
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    land(&(hf_step){.enter = &late_enter});
    assert_int_equal(look_at(store->inner, "x").holders, 0);
    end();
}

static void test_an_upgrade_that_lands_after_it_was_refused_is_lowered(void **state)
{
    (void)state;
    hf_lock *other;
    begin("memory:late-refused", HF_SHARED);
    assert_int_equal(share(two, HF_TRY, &other), HF_OK);
    lost_requests = 1;
    upgraded(HF_HELD);
    hf_error err;
    assert_int_equal(hf_lock_release(other, &err), HF_OK);
    hf_lock_close(other);
    land(&(hf_step){.enter = &late_enter});
    assert_int_equal(look_at(store->inner, "x").holder.permits, HF_LIMIT_RW);
    assert_int_equal(try_share(SOON_MS), HF_OK);
    held_as(HF_SHARED);
    end();
}

/* ---- Beside other things ---- */

static void *upgrade_in_thread(void *code)
{
    hf_error err;
    *(hf_code *)code = hf_lock_upgrade(lock, &err);
    return NULL;
}

static void test_one_thread_changes_it_at_a_time(void **state)
{
    (void)state;
    pthread_t thread;
    hf_code code;
    begin("memory:threads", HF_SHARED);
    gate_shut(&answered);
    pthread_create(&thread, NULL, upgrade_in_thread, &code);
    gate_await(&answered);
    downgraded(HF_INVALID);
    gate_open(&answered);
    pthread_join(thread, NULL);
    assert_int_equal(code, HF_OK);
    end();
}

/* The upgrade goes on when the leave has landed. */
static void release_while_at(gate *under_way)
{
    pthread_t thread;
    hf_code code;
    hf_error err;
    begin("memory:released", HF_SHARED);
    gate_shut(under_way);
    pthread_create(&thread, NULL, upgrade_in_thread, &code);
    gate_await(under_way);
    opened_by_a_leave = under_way;
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    pthread_join(thread, NULL);
    assert_int_equal(code, HF_LOST);
    assert_int_equal(look_at(store->inner, "x").holders, 0);
    end();
}

static void test_a_release_under_way_of_an_upgrade_takes_both_out(void **state)
{
    (void)state;
    release_while_at(&sent);     /* it lands after the leave */
    release_while_at(&answered); /* it has landed before */
}

static void *close_one(void *unused)
{
    (void)unused;
    hf_close(one);
    return NULL;
}

static void test_closing_ends_an_upgrade_that_gets_no_answer(void **state)
{
    (void)state;
    pthread_t upgrading, closing;
    hf_code code;
    begin("memory:closing-change", HF_SHARED);
    one->patience_ms = SOON_MS;
    lost_answers = 100000;
    pthread_create(&upgrading, NULL, upgrade_in_thread, &code);
    while (lost_answers == 100000)
        pause_ms(1);
    pthread_create(&closing, NULL, close_one, NULL);
    pthread_join(upgrading, NULL);
    pthread_join(closing, NULL);
    assert_int_equal(code, HF_LOST);
    assert_int_equal(try_take(two, "x", HF_TRY), HF_OK);
    hf_lock_close(lock);
    hf_close(two);
}

/* A look whose answer comes late: what it saw is told later. */
static gate look_seen;
static atomic_int looks_told;
static const hf_store_ops *real_ops;

static bool keep_record(void *ctx, const hf_record *record)
{
    record_copy(ctx, record);
    return false;
}

static hf_code slow_look(hf_store *base, const char *const *names, size_t n, hf_stamp after,
                         bool linearizable, hf_record_fn each, void *ctx, hf_error *err)
{
    hf_record record;
    assert_int_equal(n, 1);
    hf_code code = real_ops->look(base, names, n, after, linearizable, keep_record, &record, err);
    gate_pass(&look_seen);
    each(ctx, &record);
    record_done(&record);
    looks_told++;
    return code;
}

static void test_a_look_that_an_upgrade_overtook_loses_nothing(void **state)
{
    (void)state;
    static hf_store_ops slow;
    hf_client *any = open_client("memory:any", 1000);
    real_ops = any->store->ops;
    hf_close(any);
    slow = *real_ops;
    slow.look = slow_look;
    gate_shut(&look_seen);
    looks_of = &slow;
    begin("memory:verified", HF_SHARED);
    looks_of = NULL;
    gate_await(&look_seen);
    upgraded(HF_OK);
    int told = looks_told;
    gate_open(&look_seen);
    while (looks_told < told + 3) /* it is verified once more, and that is over */
        pause_ms(1);
    held_as(HF_EXCLUSIVE);
    end();
}

static void ask_for(hf_id ticket)
{
    hf_ask ask = {.ticket = ticket, .by = "somebody", .reason = "why not"};
    hf_error err;
    assert_int_equal(store->inner->ops->ask(store->inner, lock->grant.session, &ask, &err), HF_OK);
}

static void await_loss(void)
{
    hf_error err;
    while (!hf_lock_check(lock, NULL, &err))
        pause_ms(1);
    assert_int_equal(hf_lock_check(lock, NULL, &err), HF_LOST);
    assert_non_null(strstr(err.text, "broken by somebody"));
}

static void test_an_ask_for_the_ticket_before_the_upgrade_counts(void **state)
{
    (void)state;
    begin("memory:asked", HF_SHARED);
    hf_id ticket = lock->grant.ticket;
    upgraded(HF_OK);
    ask_for(ticket);
    await_loss();
    assert_int_equal(try_take(two, "x", SOON_MS), HF_OK);
    end();
}

static void test_an_ask_for_an_upgrade_without_an_answer_counts(void **state)
{
    (void)state;
    begin_unanswered("memory:asked-too");
    ask_for(look_at(store->inner, "x").holder.ticket);
    await_loss();
    lost_answers = 0;
    upgraded(HF_LOST);
    assert_int_equal(try_take(two, "x", SOON_MS), HF_OK);
    end();
}

/* The upgrade was granted, and is answered when the lock is lost and not yet left. */
static void test_an_upgrade_that_is_answered_after_the_loss_is_left(void **state)
{
    (void)state;
    pthread_t thread;
    hf_code code;
    begin("memory:asked-under-way", HF_SHARED);
    hf_id ticket = lock->grant.ticket;
    gate_shut(&answered);
    pthread_create(&thread, NULL, upgrade_in_thread, &code);
    gate_await(&answered);
    ask_for(ticket);
    await_loss();
    gate_open(&answered);
    pthread_join(thread, NULL);
    assert_int_equal(code, HF_LOST);
    assert_int_equal(try_take(two, "x", SOON_MS), HF_OK);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_belief_in_exclusive_ends_before_the_downgrade_is_sent),
        cmocka_unit_test(test_a_downgrade_without_an_answer_is_repeated),
        cmocka_unit_test(test_a_downgrade_that_was_never_answered_goes_on_in_the_background),
        cmocka_unit_test(test_a_downgrade_that_did_nothing_is_sent_again),
        cmocka_unit_test(test_a_downgrade_finds_out_that_its_ticket_is_gone),
        cmocka_unit_test(test_a_late_downgrade_does_not_lower_an_upgrade),
        cmocka_unit_test(test_an_upgrade_takes_the_next_token_and_keeps_what_it_is_for),
        cmocka_unit_test(test_an_upgrade_that_was_refused_leaves_it_as_it_was),
        cmocka_unit_test(test_what_this_client_closed_is_not_in_the_way),
        cmocka_unit_test(test_an_upgrade_whose_answers_are_lost_is_had_by_repeating_it),
        cmocka_unit_test(test_an_upgrade_without_an_answer_is_not_believed),
        cmocka_unit_test(test_an_upgrade_without_an_answer_is_found_and_lowered),
        cmocka_unit_test(test_a_downgrade_ends_an_upgrade_without_an_answer),
        cmocka_unit_test(test_a_release_takes_out_an_upgrade_without_an_answer),
        cmocka_unit_test(test_an_upgrade_that_lands_after_the_release_finds_nobody),
        cmocka_unit_test(test_an_upgrade_that_lands_after_it_was_refused_is_lowered),
        cmocka_unit_test(test_one_thread_changes_it_at_a_time),
        cmocka_unit_test(test_a_release_under_way_of_an_upgrade_takes_both_out),
        cmocka_unit_test(test_closing_ends_an_upgrade_that_gets_no_answer),
        cmocka_unit_test(test_a_look_that_an_upgrade_overtook_loses_nothing),
        cmocka_unit_test(test_an_ask_for_the_ticket_before_the_upgrade_counts),
        cmocka_unit_test(test_an_ask_for_an_upgrade_without_an_answer_counts),
        cmocka_unit_test(test_an_upgrade_that_is_answered_after_the_loss_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
