/* SPDX-License-Identifier: Apache-2.0 */
/* change_cases.c: from exclusive to shared and back on one handle, on every store; run by main.c.
 */
#include "conformance/two_clients.h"

#include "core/record.h"

static const hf_lock_options shared = {.mode = HF_SHARED};

static void downgrade(hf_lock *lock)
{
    hf_error err;
    assert_code(HF_OK, hf_lock_downgrade(lock, &err), &err);
    assert_code(HF_OK, hf_lock_check(lock, NULL, &err), &err);
    assert_int_equal(hf_lock_mode(lock), HF_SHARED);
}

static void upgrade(hf_lock *lock)
{
    hf_error err;
    int64_t before = hf_lock_token(lock);
    assert_code(HF_OK, hf_lock_upgrade(lock, &err), &err);
    assert_code(HF_OK, hf_lock_check(lock, NULL, &err), &err);
    assert_int_equal(hf_lock_mode(lock), HF_EXCLUSIVE);
    bed_rises(before, hf_lock_token(lock));
}

static void refuse_upgrade(hf_lock *lock, const char *word)
{
    hf_error err;
    assert_code(HF_HELD, hf_lock_upgrade(lock, &err), &err);
    assert_contains(err.text, word);
    assert_code(HF_OK, hf_lock_check(lock, NULL, &err), &err);
    assert_int_equal(hf_lock_mode(lock), HF_SHARED);
}

static void test_a_downgrade_lets_others_share(void **state)
{
    (void)state;
    const char *name = bed_name("lowered");
    hf_lock *lock = bed_acquire(one, name, NULL), *other;
    int64_t token = hf_lock_token(lock);
    assert_int_equal(hf_lock_mode(lock), HF_EXCLUSIVE);
    downgrade(lock);
    downgrade(lock); /* it is shared already */
    assert_int_equal(hf_lock_token(lock), token);
    assert_int_equal(bed_try(two, name, HF_EXCLUSIVE, &other), HF_HELD);
    other = bed_acquire(two, name, &shared);
    bed_release(lock);
    assert_int_equal(bed_try(one, name, HF_EXCLUSIVE, &lock), HF_HELD);
    bed_release(other);
    bed_release(bed_acquire(one, name, NULL));
}

static void test_a_downgrade_lets_in_who_waits_to_share(void **state)
{
    (void)state;
    const char *name = bed_name("let-in");
    static struct taker reader, writer;
    hf_lock *lock = bed_acquire(one, name, NULL);
    taker_start(&reader, two, name, &shared);
    bed_wait_queued(one, name, 1);
    taker_start(&writer, two, name, NULL);
    bed_wait_queued(one, name, 2);
    downgrade(lock);
    taker_join(&reader);
    assert_code(HF_OK, reader.code, &reader.err);
    assert_int_equal(bed_queued(one, name), 1);
    bed_rises(hf_lock_token(lock), hf_lock_token(reader.lock));
    bed_release(reader.lock);
    bed_release(lock);
    taker_join(&writer);
    assert_code(HF_OK, writer.code, &writer.err);
    bed_release(writer.lock);
}

static void test_an_upgrade_excludes(void **state)
{
    (void)state;
    const char *name = bed_name("raised");
    hf_lock *lock = bed_acquire(one, name, &shared), *other;
    assert_int_equal(hf_lock_mode(lock), HF_SHARED);
    upgrade(lock);
    assert_int_equal(bed_try(two, name, HF_SHARED, &other), HF_HELD);
    hf_error err;
    assert_code(HF_OK, hf_lock_upgrade(lock, &err), &err); /* it is exclusive already */
    bed_release(lock);
    lock = bed_acquire(two, name, NULL);
    bed_previous(lock, HF_OUTCOME_RELEASED, "one@", 0);
    bed_release(lock);
}

static void test_an_upgrade_fails_at_once_beside_others(void **state)
{
    (void)state;
    const char *name = bed_name("beside");
    hf_lock *lock = bed_acquire(one, name, &shared), *other = bed_acquire(two, name, &shared);
    int64_t token = hf_lock_token(lock);
    refuse_upgrade(lock, "shared with two@");
    refuse_upgrade(other, "shared with one@");
    assert_int_equal(hf_lock_token(lock), token);
    bed_release(other);
    upgrade(lock);
    bed_release(lock);
}

static void test_an_upgrade_passes_nobody_who_waits(void **state)
{
    (void)state;
    const char *name = bed_name("passes");
    static struct taker writer;
    hf_lock *lock = bed_acquire(one, name, &shared);
    taker_start(&writer, two, name, NULL);
    bed_wait_queued(one, name, 1);
    refuse_upgrade(lock, "would be passed");
    bed_release(lock);
    taker_join(&writer);
    assert_code(HF_OK, writer.code, &writer.err);
    bed_release(writer.lock);
}

static void test_up_and_down_many_times(void **state)
{
    (void)state;
    hf_lock *lock = bed_acquire(one, bed_name("many"), NULL);
    for (int i = 0; i < 20; i++) {
        downgrade(lock);
        upgrade(lock);
    }
    bed_release(lock);
}

static void test_what_died_sharing_it_is_not_in_the_way_for_ever(void **state)
{
    (void)state;
    const char *name = bed_name("dead");
    hf_store *store = bed_store();
    hf_id session = bed_session(store, BED_TTL);
    hf_record record;
    hf_error err;
    hf_enter enter = bed_enter(session, 1, HF_LIMIT_RW);
    hf_lock *lock = bed_acquire(one, name, &shared);
    bed_take(store, name, &enter, &record);
    record_done(&record);
    assert_code(HF_HELD, hf_lock_upgrade(lock, &err), &err);
    assert_code(HF_OK, store->ops->session_end(store, session, false, &err), &err);
    upgrade(lock); /* its session is marked dead: seen at once */
    bed_release(lock);
    store->ops->close(store);
}

static void test_semaphores_are_neither_shared_nor_exclusive(void **state)
{
    (void)state;
    hf_error err;
    hf_lock *lock =
        bed_acquire(one, bed_name("permits"), &(hf_lock_options){.permits = 2, .limit = 3});
    assert_int_equal(hf_lock_mode(lock), HF_SHARED);
    assert_code(HF_INVALID, hf_lock_downgrade(lock, &err), &err);
    assert_contains(err.text, "semaphore");
    assert_code(HF_INVALID, hf_lock_upgrade(lock, &err), &err);
    assert_code(HF_OK, hf_lock_check(lock, NULL, &err), &err);
    bed_release(lock);
}

static void test_work_once_per_period_stays_exclusive(void **state)
{
    (void)state;
    hf_error err;
    hf_lock *lock = bed_acquire(one, bed_name("period"), &(hf_lock_options){.period_ms = 1000});
    assert_code(HF_INVALID, hf_lock_downgrade(lock, &err), &err);
    assert_contains(err.text, "period");
    assert_int_equal(hf_lock_mode(lock), HF_EXCLUSIVE);
    bed_release(lock);
}

static void test_what_is_not_held_is_not_changed(void **state)
{
    (void)state;
    hf_error err;
    hf_lock *lock = bed_acquire(one, bed_name("gone"), NULL);
    assert_code(HF_OK, hf_lock_release(lock, &err), &err);
    assert_code(HF_LOST, hf_lock_downgrade(lock, &err), &err);
    assert_code(HF_LOST, hf_lock_upgrade(lock, &err), &err);
    hf_lock_close(lock);
}

static void test_without_shared_locks_there_is_nothing_to_change(void **state)
{
    (void)state;
    hf_error err;
    if (bed.can & HF_CAN_SHARE)
        return;
    hf_lock *lock = bed_acquire(one, bed_name("exclusive-only"), NULL);
    assert_int_equal(hf_lock_mode(lock), HF_EXCLUSIVE);
    assert_code(HF_UNSUPPORTED, hf_lock_downgrade(lock, &err), &err);
    assert_contains(err.text, "hfProtocol=queue");
    assert_code(HF_UNSUPPORTED, hf_lock_upgrade(lock, &err), &err);
    assert_code(HF_OK, hf_lock_check(lock, NULL, &err), &err);
    bed_release(lock);
}

int run_change_cases(void)
{
    const struct bed_case change_cases[] = {
        CASE_IF(HF_CAN_SHARE, test_a_downgrade_lets_others_share),
        CASE_IF(HF_CAN_SHARE, test_a_downgrade_lets_in_who_waits_to_share),
        CASE_IF(HF_CAN_SHARE, test_an_upgrade_excludes),
        CASE_IF(HF_CAN_SHARE, test_an_upgrade_fails_at_once_beside_others),
        CASE_IF(HF_CAN_SHARE, test_an_upgrade_passes_nobody_who_waits),
        CASE_IF(HF_CAN_SHARE, test_up_and_down_many_times),
        CASE_IF(HF_CAN_SHARE, test_what_died_sharing_it_is_not_in_the_way_for_ever),
        CASE_IF(HF_CAN_SHARE, test_semaphores_are_neither_shared_nor_exclusive),
        CASE_IF(HF_CAN_SHARE, test_work_once_per_period_stays_exclusive),
        CASE_IF(HF_CAN_SHARE, test_what_is_not_held_is_not_changed),
        CASE(test_without_shared_locks_there_is_nothing_to_change),
    };
    return CASES(change_cases);
}
