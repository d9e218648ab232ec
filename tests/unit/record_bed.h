/* SPDX-License-Identifier: Apache-2.0 */
/* record_bed.h: the words that the tests of the record are written in: enter, leave, die, holds.
 * Ticket n is of session 1000 + n. */
#ifndef TESTS_UNIT_RECORD_BED_H
#define TESTS_UNIT_RECORD_BED_H

#include "unit.h"

#include "core/id.h"
#include "core/record.h"

#define ALL HF_LIMIT_RW
#define FLOOR 1000

static int64_t floor_now = FLOOR;

static inline hf_enter entrant(unsigned n, int32_t permits)
{
    return (hf_enter){.entry = {.ticket = id_of(n),
                                .session = id_of(1000 + n),
                                .ttl_ms = 10000,
                                .permits = permits,
                                .actor = "main",
                                .why = "because"},
                      .limit = ALL,
                      .queue_max = HF_QUEUE_MAX};
}

static inline hf_leave leaver(unsigned ticket)
{
    return (hf_leave){
        .ticket = id_of(ticket), .outcome = HF_OUTCOME_RELEASED, .told = true, .who = "me@here:1"};
}

static inline hf_death dead(unsigned n)
{
    return (hf_death){.session = id_of(1000 + n), .who = "cron@web1:4711"};
}

static inline bool step(hf_record *record, hf_step step)
{
    return record_step(record, &step, (hf_dbtime){5000}, floor_now);
}

static inline record_verdict enter_as(hf_record *record, hf_enter enter)
{
    step(record, (hf_step){.enter = &enter});
    return record_judge(record, &enter);
}

static inline record_verdict enter(hf_record *record, unsigned n, int32_t permits)
{
    return enter_as(record, entrant(n, permits));
}

static inline bool leave(hf_record *record, unsigned ticket)
{
    return step(record, (hf_step){.leaves = (hf_leave[]){leaver(ticket)}, .n_leaves = 1});
}

static inline bool die(hf_record *record, unsigned n)
{
    return step(record, (hf_step){.deaths = (hf_death[]){dead(n)}, .n_deaths = 1});
}

static inline bool holds(const hf_record *record, unsigned ticket)
{
    const hf_entry *entry = record_find(record, id_of(ticket));
    return entry && record_position(record, entry) == 0;
}

static inline size_t place(const hf_record *record, unsigned ticket)
{
    const hf_entry *entry = record_find(record, id_of(ticket));
    assert_non_null(entry);
    return record_position(record, entry);
}

static inline int64_t token_of(const hf_record *record, unsigned ticket)
{
    const hf_entry *entry = record_find(record, id_of(ticket));
    assert_non_null(entry);
    return entry->token;
}

static inline int set_up(void **state)
{
    *state = calloc(1, sizeof(hf_record));
    record_init(*state, "a");
    floor_now = FLOOR;
    return 0;
}

/* The record has given tokens, and its next may lag behind: there is room for blocks. */
static inline int set_up_older(void **state)
{
    set_up(state);
    ((hf_record *)*state)->token = FLOOR - 1;
    floor_now = FLOOR + RECORD_LAG;
    return 0;
}

static inline int tear_down(void **state)
{
    record_done(*state);
    free(*state);
    return 0;
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define OLDER_CASE(test) cmocka_unit_test_setup_teardown(test, set_up_older, tear_down)

#endif
