/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c: what the store in memory does in the course of days, with a wall clock that the
 * test sets; run by ctest. */
#include "unit.h"

#include "core/period.h"
#include "core/record.h"

static int64_t wall_ms = 1700000000000, mono_ms;

static hf_mono read_mono(void *ctx)
{
    (void)ctx;
    return (hf_mono){mono_ms * 1000000};
}

static hf_wall read_wall(void *ctx)
{
    (void)ctx;
    return (hf_wall){wall_ms};
}

static hf_store *open_store(void)
{
    static const hf_env env = {.mono = read_mono, .wall = read_wall};
    static const hf_store_config config = {.ttl_ms = 10000, .env = &env};
    hf_store *store;
    hf_error err;
    int64_t patience_ms;
    assert_int_equal(hf_store_open("memory:", &config, &store, &patience_ms, &err), HF_OK);
    return store;
}

#define DAY_MS ((int64_t)86400000)

static int64_t take_and_release(hf_store *store, const char *name, int64_t period_ms)
{
    hf_enter enter = {.entry = {.ticket = id_of(1), .session = id_of(2), .permits = 1},
                      .limit = 1,
                      .queue_max = 1};
    hf_leave leave = {.ticket = id_of(1),
                      .outcome = HF_OUTCOME_RELEASED,
                      .told = true,
                      .period = period_at((hf_dbtime){wall_ms}, period_ms)};
    hf_step step = {.enter = &enter};
    hf_step_reply reply;
    hf_record record;
    hf_error err;
    assert_int_equal(store->ops->step(store, name, &step, &record, &reply, &err), HF_OK);
    assert_int_equal(record.holders, 1);
    int64_t token = record.entries[0].token;
    record_done(&record);
    step = (hf_step){.leaves = &leave, .n_leaves = 1};
    assert_int_equal(store->ops->step(store, name, &step, NULL, &reply, &err), HF_OK);
    return token;
}

static bool note_existence(void *ctx, const hf_record *record)
{
    *(bool *)ctx = record->exists;
    return true;
}

static bool exists(hf_store *store, const char *name)
{
    bool is_there = false;
    hf_error err;
    assert_int_equal(
        store->ops->look(store, &name, 1, (hf_stamp){0}, false, note_existence, &is_there, &err),
        HF_OK);
    return is_there;
}

/* How many it names as overdue. */
static size_t sweep(hf_store *store)
{
    hf_session_state overdue[4];
    size_t n;
    bool more;
    hf_error err;
    assert_int_equal(store->ops->sweep(store, overdue, 4, &n, &more, &err), HF_OK);
    return n;
}

static void test_tokens_rise_after_a_prune_and_a_clock_that_was_set_back(void **state)
{
    (void)state;
    hf_store *store = open_store();
    int64_t token = take_and_release(store, "a", 0);
    sweep(store);
    assert_true(exists(store, "a"));
    wall_ms += 4 * DAY_MS;
    sweep(store);
    assert_false(exists(store, "a"));
    wall_ms -= 5 * DAY_MS;
    assert_true(take_and_release(store, "a", 0) > token);
    store->ops->close(store);
}

static void test_a_record_stays_until_its_period_is_over(void **state)
{
    (void)state;
    hf_store *store = open_store();
    wall_ms = 2000 * DAY_MS;
    take_and_release(store, "yearly", 400 * DAY_MS);
    take_and_release(store, "daily", DAY_MS);
    wall_ms += 399 * DAY_MS;
    sweep(store);
    assert_true(exists(store, "yearly"));
    assert_false(exists(store, "daily"));
    wall_ms += DAY_MS;
    sweep(store);
    assert_false(exists(store, "yearly"));
    store->ops->close(store);
}

static void step_at(hf_store *store, const char *name, hf_outcome outcome, int64_t floor)
{
    hf_enter enter = {.entry = {.ticket = id_of(1), .session = id_of(2), .permits = 1},
                      .limit = 1,
                      .queue_max = 1};
    hf_leave leave = {.ticket = id_of(1), .outcome = outcome, .told = true};
    hf_step step = {.enter = &enter, .floor = &floor};
    hf_step_reply reply;
    hf_error err;
    assert_int_equal(store->ops->step(store, name, &step, NULL, &reply, &err), HF_OK);
    step = (hf_step){.leaves = &leave, .n_leaves = outcome != HF_OUTCOME_NONE};
    assert_int_equal(store->ops->step(store, name, &step, NULL, &reply, &err), HF_OK);
}

static void test_a_record_is_kept_for_three_days(void **state)
{
    (void)state;
    hf_store *store = open_store();
    step_at(store, "released", HF_OUTCOME_RELEASED, 5);
    step_at(store, "abandoned", HF_OUTCOME_ABANDONED, 5);
    step_at(store, "ahead", HF_OUTCOME_RELEASED, record_floor_of((hf_dbtime){wall_ms + 1}));
    step_at(store, "held", HF_OUTCOME_RELEASED, 5);
    step_at(store, "held", HF_OUTCOME_NONE, 5);
    wall_ms += 3 * DAY_MS;
    sweep(store);
    assert_true(exists(store, "released"));
    wall_ms++;
    sweep(store);
    assert_false(exists(store, "released"));
    assert_false(exists(store, "abandoned"));
    assert_true(exists(store, "ahead"));
    wall_ms++;
    sweep(store);
    assert_false(exists(store, "ahead"));
    wall_ms += 1000 * DAY_MS;
    sweep(store);
    assert_true(exists(store, "held"));
    store->ops->close(store);
}

static hf_presence presence_of(hf_store *store, hf_id session)
{
    hf_session_state state;
    hf_error err;
    assert_int_equal(store->ops->sessions_look(store, &session, 1, -1, &state, &err), HF_OK);
    return state.presence;
}

static bool count_holders(void *ctx, const hf_record *record)
{
    *(size_t *)ctx = record->holders;
    return true;
}

/* Nobody asks for the lock, and its mark goes after it. */
static void test_what_a_dead_session_left_is_taken_out(void **state)
{
    (void)state;
    hf_store *store = open_store();
    hf_session self = {.id = id_of(2), .ttl_ms = 10000};
    hf_enter enter = {.entry = {.ticket = id_of(1), .session = id_of(2), .permits = 1},
                      .limit = 1,
                      .queue_max = 1};
    hf_step_reply reply;
    hf_error err;
    const char *name = "left";
    size_t holders = 0;
    assert_int_equal(store->ops->session_begin(store, &self, &err), HF_OK);
    hf_step step = {.enter = &enter};
    assert_int_equal(store->ops->step(store, name, &step, NULL, &reply, &err), HF_OK);
    mono_ms += 400 * DAY_MS;
    assert_int_equal(sweep(store), 1); /* only its mark makes it dead */
    store->ops->look(store, &name, 1, (hf_stamp){0}, false, count_holders, &holders, &err);
    assert_int_equal(holders, 1);
    assert_int_equal(store->ops->session_end(store, self.id, true, &err), HF_OK);
    assert_int_equal(sweep(store), 0);
    store->ops->look(store, &name, 1, (hf_stamp){0}, false, count_holders, &holders, &err);
    assert_int_equal(holders, 0);
    sweep(store);
    assert_int_equal(presence_of(store, self.id), HF_MISSING);
    store->ops->close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_dead_session_left_is_taken_out),
        cmocka_unit_test(test_tokens_rise_after_a_prune_and_a_clock_that_was_set_back),
        cmocka_unit_test(test_a_record_is_kept_for_three_days),
        cmocka_unit_test(test_a_record_stays_until_its_period_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
