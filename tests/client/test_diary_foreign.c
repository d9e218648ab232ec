/* SPDX-License-Identifier: Apache-2.0 */
/* test_diary_foreign.c: the turns that a client notes in a store without a queue, where an enter
 * takes over the lock of a holder whose time is up. Run by ctest. */
#include "client/client_bed.h"

#include "client/hold/diary.h"
#include "client/hold/sweep.h"
#include "client/hold/upkeep.h"

static hf_client *client;
static faulty *store;

/* What hf_history() gave, the newest first. */
static struct {
    hf_turn_end end;
    int64_t granted_ms, ended_ms;
    char who[64], why[64];
} turns[8];
static size_t n_turns;

static bool keep(void *ctx, const hf_turn *turn)
{
    (void)ctx;
    turns[n_turns].end = turn->end;
    turns[n_turns].granted_ms = turn->granted_ms;
    turns[n_turns].ended_ms = turn->ended_ms;
    snprintf(turns[n_turns].who, sizeof turns[0].who, "%s", turn->who);
    snprintf(turns[n_turns].why, sizeof turns[0].why, "%s", turn->why);
    return ++n_turns < 8;
}

/* Of x, when the diary was written. */
static void read_history(void)
{
    hf_error err;
    faulty_pass(store, 5000);
    sweep_tick(client, client_now(client));
    n_turns = 0;
    assert_int_equal(hf_history(client, "x", NULL, keep, NULL, &err), HF_OK);
}

static void begin(const char *uri)
{
    store = faulty_open_still(uri, NULL, &client);
    faulty_end_queue(store);
    store->base.can |= HF_CAN_DATE;
}

static void release(hf_lock *lock)
{
    hf_error err;
    faulty_pass(store, 100);
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    hf_lock_close(lock);
}

static void test_whom_it_overtook(void **state)
{
    (void)state;
    begin("memory:overtook");
    const hf_overtaken gone = {.entry = {.ticket = {{9}},
                                         .session = {{8}},
                                         .permits = HF_LIMIT_RW,
                                         .granted_at = {client_wall(client).ms - 60000},
                                         .why = "half done"},
                               .who = "worker@host:7"};
    store->overtaken = &gone;
    hf_lock *lock = take(client, "x");
    store->overtaken = NULL;
    release(lock);
    read_history();
    assert_int_equal(n_turns, 2);
    assert_int_equal(turns[0].end, HF_TURN_RELEASED);
    assert_int_equal(turns[1].end, HF_TURN_ABANDONED);
    assert_string_equal(turns[1].who, "worker@host:7");
    assert_string_equal(turns[1].why, "half done");
    assert_true(turns[1].granted_ms == gone.entry.granted_at.ms);
    assert_true(turns[1].ended_ms == turns[0].granted_ms);
    hf_close(client);
}

/* Its holder, which lives, has noted it as well: both name the ticket and the time of the grant. */
static void test_of_a_holder_that_lives_there_is_one_turn(void **state)
{
    (void)state;
    hf_lock *lock;
    hf_error err;
    begin("memory:told twice");
    assert_int_equal(hf_lock_acquire(client, "x", &(hf_lock_options){.feed_ms = 200}, &lock, &err),
                     HF_OK);
    const hf_overtaken seen = {.entry = look_at(store->inner, "x").holder, .who = "itself"};
    faulty_pass(store, 300);
    assert_int_equal(hf_lock_release(lock, &err), HF_LOST);
    hf_lock_close(lock);
    upkeep_tick(client, client_now(client));
    faulty_pass(store, 100);
    store->overtaken = &seen;
    lock = take(client, "x");
    store->overtaken = NULL;
    release(lock);
    read_history();
    assert_int_equal(n_turns, 2);
    assert_int_equal(turns[0].end, HF_TURN_RELEASED);
    assert_int_equal(turns[1].end, HF_TURN_LOST);
    hf_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whom_it_overtook),
        cmocka_unit_test(test_of_a_holder_that_lives_there_is_one_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
