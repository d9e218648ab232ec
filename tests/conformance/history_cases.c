/* SPDX-License-Identifier: Apache-2.0 */
/* history_cases.c: the turns that have ended, as a store keeps them, on every store that does; run
 * by main.c. */
#include "conformance/bed.h"

static hf_store *store;
static int64_t ended; /* lately: a store may drop what is old */

static int set_up(void **state)
{
    (void)state;
    store = bed_store();
    ended = bed_wall_ms() - 60000;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store->ops->close(store);
    return 0;
}

/* ---- The calls of the store ---- */

static hf_turn_note turn_of(const char *name, int64_t token, int64_t ended_at_ms)
{
    return (hf_turn_note){.name = name,
                          .who = "app@host:7",
                          .actor = "one",
                          .why = "why not",
                          .reason = "",
                          .ticket = bed_id(),
                          .session = bed_id(),
                          .token = token,
                          .permits = 1,
                          .limit = 3,
                          .granted_at = {ended_at_ms - 500},
                          .ended_at = {ended_at_ms}};
}

static void add(const hf_turn_note *turns, size_t n)
{
    hf_error err;
    assert_code(HF_OK, store->ops->history_add(store, turns, n, &err), &err);
}

/* The last turn that was read, and how many were, and their tokens. */
static struct {
    hf_turn_note last;
    char texts[5][64];
    int64_t tokens[16];
    size_t n, most;
} seen;

static bool keep(void *ctx, const hf_turn_note *turn)
{
    (void)ctx;
    const char *const texts[] = {turn->name, turn->who, turn->actor, turn->why, turn->reason};
    seen.last = *turn;
    for (size_t i = 0; i < 5; i++)
        snprintf(seen.texts[i], sizeof seen.texts[i], "%s", texts[i]);
    seen.tokens[seen.n++] = turn->token;
    return seen.n < seen.most;
}

static void look(const hf_history_part *part)
{
    hf_error err;
    seen.n = 0;
    seen.most = 16;
    assert_code(HF_OK, store->ops->history(store, part, keep, NULL, &err), &err);
}

static hf_history_part part_of(const char *name)
{
    return (hf_history_part){.name = name, .prefix = "", .limit = 10};
}

static void test_a_turn_comes_back_as_it_was(void **state)
{
    (void)state;
    hf_turn_note turn = turn_of(bed_name("turn"), 4711, ended);
    const hf_history_part part = part_of(turn.name);
    turn.end = HF_TURN_BROKEN;
    turn.reason = "broken by alice: \xc3\xa4";
    turn.has_exit_status = true;
    turn.exit_status = 3;
    turn.more = 12;
    add(&turn, 1);
    look(&part);
    assert_int_equal(seen.n, 1);
    const char *const texts[] = {turn.name, turn.who, turn.actor, turn.why, turn.reason};
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(seen.texts[i], texts[i]);
    assert_memory_equal(&seen.last.ticket, &turn.ticket, sizeof turn.ticket);
    assert_memory_equal(&seen.last.session, &turn.session, sizeof turn.session);
    assert_int_equal(seen.last.token, 4711);
    assert_int_equal(seen.last.permits, 1);
    assert_int_equal(seen.last.limit, 3);
    assert_int_equal(seen.last.granted_at.ms, ended - 500);
    assert_int_equal(seen.last.ended_at.ms, ended);
    assert_int_equal(seen.last.end, HF_TURN_BROKEN);
    assert_true(seen.last.has_exit_status);
    assert_int_equal(seen.last.exit_status, 3);
    assert_int_equal(seen.last.more, 12);
}

static void test_what_is_not_known_stays_so(void **state)
{
    (void)state;
    const hf_turn_note turn = {.name = bed_name("unknown"),
                               .who = "",
                               .actor = "",
                               .why = "",
                               .reason = "",
                               .ticket = bed_id(),
                               .ended_at = {ended}};
    const hf_history_part part = part_of(turn.name);
    add(&turn, 1);
    look(&part);
    assert_int_equal(seen.n, 1);
    assert_string_equal(seen.texts[1], "");
    assert_int_equal(seen.last.token, 0);
    assert_int_equal(seen.last.granted_at.ms, 0);
    assert_int_equal(seen.last.end, HF_TURN_RELEASED);
    assert_false(seen.last.has_exit_status);
    assert_int_equal(seen.last.more, 0);
}

/* By its holder and by the one that took it over, or twice because there was no answer. */
static void test_a_turn_is_added_once(void **state)
{
    (void)state;
    const char *name = bed_name("once");
    hf_turn_note turns[] = {turn_of(name, 1, ended), turn_of(name, 2, ended),
                            turn_of(name, 3, ended)};
    const hf_history_part part = part_of(name);
    add(turns, 2);
    turns[1].end = HF_TURN_ABANDONED;
    add(turns, 3);
    look(&part);
    assert_int_equal(seen.n, 3);
    assert_int_equal(seen.last.end, HF_TURN_RELEASED);
}

static void test_turns_of_one_ticket_are_told_apart(void **state)
{
    (void)state;
    const char *name = bed_name("apart");
    hf_turn_note turn = turn_of(name, 5, ended);
    const hf_history_part part = part_of(name);
    add(&turn, 1);
    turn.token = 6; /* another thread of the same client */
    add(&turn, 1);
    turn.is_block = true; /* of whose turns the last is not known */
    add(&turn, 1);
    turn.token = 0; /* a lease with a key, in a protocol without tokens */
    add(&turn, 1);
    turn.granted_at.ms++;
    add(&turn, 1);
    look(&part);
    assert_int_equal(seen.n, 5);
}

static void test_parts_of_the_history(void **state)
{
    (void)state;
    const char *a = bed_name("part a"), *b = bed_name("part b");
    const hf_turn_note turns[] = {turn_of(a, 1, ended), turn_of(a, 2, ended + 1000),
                                  turn_of(b, 3, ended + 2000), turn_of(a, 4, ended + 3000)};
    hf_history_part part = part_of(a);
    add(turns, 4);
    look(&part);
    assert_int_equal(seen.n, 3);
    part.limit = 2;
    look(&part);
    assert_int_equal(seen.n, 2);
    assert_int_equal(seen.tokens[0], 4);
    assert_int_equal(seen.tokens[1], 2);
    part.limit = 10;
    part.since.ms = ended + 1001;
    look(&part);
    assert_int_equal(seen.n, 1);
    part = (hf_history_part){.name = "", .prefix = b, .limit = 10};
    look(&part);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.tokens[0], 3);
}

/* Clients write their turns some seconds later, each when it is its time. */
static void test_those_that_ended_last_not_those_added_last(void **state)
{
    (void)state;
    const char *name = bed_name("ended last");
    const hf_turn_note turns[] = {turn_of(name, 1, ended + 8000), turn_of(name, 3, ended + 9000),
                                  turn_of(name, 2, ended + 7000)};
    hf_history_part one = part_of(name), all = {.name = "", .prefix = name};
    one.limit = all.limit = 1;
    for (size_t i = 0; i < 3; i++)
        add(&turns[i], 1);
    look(&one);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.tokens[0], 3);
    look(&all);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.tokens[0], 3);
}

static void test_it_stops_when_it_is_told_to(void **state)
{
    (void)state;
    hf_error err;
    const char *name = bed_name("stops");
    const hf_turn_note turns[] = {turn_of(name, 1, ended), turn_of(name, 2, ended)};
    const hf_history_part part = part_of(name);
    add(turns, 2);
    seen.n = 0;
    seen.most = 1;
    assert_code(HF_OK, store->ops->history(store, &part, keep, NULL, &err), &err);
    assert_int_equal(seen.n, 1);
}

/* It is of no lock, so it is told of each, to those who ask for it. */
static void test_what_is_missing(void **state)
{
    (void)state;
    const char *name = bed_name("beside what is missing");
    hf_turn_note turns[] = {turn_of(name, 1, ended), turn_of("", 0, ended + 1000)};
    turns[1].end = HF_TURN_MISSING;
    turns[1].more = 20042;
    hf_history_part one = part_of(name), some = {.name = "", .prefix = name, .limit = 10};
    add(turns, 2);
    add(&turns[1], 1);
    look(&one);
    assert_int_equal(seen.n, 1);
    look(&some);
    assert_int_equal(seen.n, 1);
    one.tells_missing = some.tells_missing = true;
    one.since.ms = some.since.ms = ended + 500;
    look(&one);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.last.end, HF_TURN_MISSING);
    assert_int_equal(seen.last.more, 20042);
    assert_int_equal(seen.last.granted_at.ms, ended + 500);
    look(&some);
    assert_int_equal(seen.n, 1);
}

static void test_no_turn_is_no_error(void **state)
{
    (void)state;
    const hf_history_part part = part_of(bed_name("nobody's"));
    look(&part);
    assert_int_equal(seen.n, 0);
}

/* ---- Of a client ---- */

static bool keep_public(void *ctx, const hf_turn *turn)
{
    char *why = ctx;
    snprintf(why, 64, "%s", turn->why);
    seen.last.token = turn->token;
    seen.last.end = turn->end;
    seen.last.granted_at.ms = turn->granted_ms;
    seen.last.ended_at.ms = turn->ended_ms;
    seen.n++;
    return true;
}

/* The shortest is in it when its client was closed. */
static void test_a_client_notes_its_turns(void **state)
{
    (void)state;
    hf_error err;
    char why[64] = "";
    const char *name = bed_name("noted");
    hf_client *holder = bed_client("holder", BED_TTL), *reader = bed_client("reader", BED_TTL);
    int64_t before = bed_wall_ms();
    hf_lock *lock = bed_acquire(holder, name, &(hf_lock_options){.why = "briefly"});
    int64_t token = hf_lock_token(lock);
    bed_release(lock);
    hf_close(holder);
    seen.n = 0;
    assert_code(HF_OK, hf_history(reader, name, NULL, keep_public, why, &err), &err);
    assert_int_equal(seen.n, 1);
    assert_string_equal(why, "briefly");
    assert_int_equal(seen.last.token, token);
    assert_int_equal(seen.last.end, HF_TURN_RELEASED);
    assert_true(seen.last.granted_at.ms >= before - 1000); /* the store's clock may be another */
    assert_true(seen.last.ended_at.ms >= seen.last.granted_at.ms - 1000);
    hf_close(reader);
}

int run_history_cases(void)
{
    const struct bed_case history_cases[] = {
        CASE_IF(HF_CAN_HISTORY, test_a_turn_comes_back_as_it_was),
        CASE_IF(HF_CAN_HISTORY, test_what_is_not_known_stays_so),
        CASE_IF(HF_CAN_HISTORY, test_a_turn_is_added_once),
        CASE_IF(HF_CAN_HISTORY, test_turns_of_one_ticket_are_told_apart),
        CASE_IF(HF_CAN_HISTORY, test_parts_of_the_history),
        CASE_IF(HF_CAN_HISTORY, test_those_that_ended_last_not_those_added_last),
        CASE_IF(HF_CAN_HISTORY, test_it_stops_when_it_is_told_to),
        CASE_IF(HF_CAN_HISTORY, test_what_is_missing),
        CASE_IF(HF_CAN_HISTORY, test_no_turn_is_no_error),
        CASE_IF(HF_CAN_HISTORY | BED_MAKES, test_a_client_notes_its_turns),
    };
    return CASES(history_cases);
}
