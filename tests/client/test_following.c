/* SPDX-License-Identifier: Apache-2.0 */
/* test_following.c: what a break asks, whom it follows to a lease that took a holder's place, and
 * whom it does not. What it sees after its first look is changed by the test. Run by ctest. */
#include "client/client_bed.h"

#include "core/id.h"

static hf_client *breaker;
static faulty *f;
static void (*edit)(hf_entry *holder);
static int looks;

/* A session of a program that does nothing holds x. */
static void open_beside_holder(const char *uri)
{
    f = faulty_open_still(uri, NULL, &breaker);
    enter_as(f->inner, "x", begin_dead(f->inner, 9, 10000), 1);
}

#define FIRST 5000 /* the tokens of the one that is broken: */
#define TOKENS 3

static void show_another(faulty *of, hf_record *record)
{
    if (of->calls[FAULTY_ASK] > 1) /* and then it has left */
        record->holders = 0;
    if (!record->holders)
        return;
    record->entries[0].token = FIRST;
    record->entries[0].block = TOKENS;
    if (looks++ < 1)
        return;
    record->entries[0].ticket = (hf_id){{5}};
    record->entries[0].session = (hf_id){{6}};
    record->entries[0].block = 0;
    edit(&record->entries[0]);
}

/* How often it asks for x, whose place is taken by such a one. */
static int asks_after(const char *uri, void (*how)(hf_entry *holder))
{
    hf_error err;
    hf_break_options options = {.reason = "why not"};
    open_beside_holder(uri);
    edit = how;
    looks = 0;
    f->edits_record = show_another;
    assert_int_equal(hf_break(breaker, "x", &options, &err), HF_OK);
    int asks = f->calls[FAULTY_ASK];
    hf_close(breaker);
    return asks;
}

static void have_first_token(hf_entry *holder)
{
    holder->token = FIRST;
}

static void have_last_token(hf_entry *holder)
{
    holder->token = FIRST + TOKENS - 1;
}

static void have_next_token(hf_entry *holder)
{
    holder->token = FIRST + TOKENS;
}

static void have_earlier_token(hf_entry *holder)
{
    holder->token = FIRST - 1;
}

static void enter_later(hf_entry *holder)
{
    holder->since.ms++;
}

static void be_granted_later(hf_entry *holder)
{
    holder->granted_at.ms++;
}

static void have_fewer_permits(hf_entry *holder)
{
    holder->permits--;
}

static void test_a_lease_in_its_place_is_asked_too(void **state)
{
    (void)state;
    assert_int_equal(asks_after("memory:first", have_first_token), 2);
    assert_int_equal(asks_after("memory:last", have_last_token), 2);
}

/* Each differs in one thing from a lease that took its place. */
static void test_another_holder_is_let_alone(void **state)
{
    (void)state;
    assert_int_equal(asks_after("memory:next", have_next_token), 1);
    assert_int_equal(asks_after("memory:earlier", have_earlier_token), 1);
    assert_int_equal(asks_after("memory:since", enter_later), 1);
    assert_int_equal(asks_after("memory:granted", be_granted_later), 1);
    assert_int_equal(asks_after("memory:permits", have_fewer_permits), 1);
}

/* As an upgrade has it. */
static void be_upgraded(hf_entry *holder)
{
    holder->session = (hf_id){{9}};
    holder->token = FIRST + TOKENS;
    holder->granted_at.ms++;
}

static void come_later_by_itself(hf_entry *holder)
{
    be_upgraded(holder);
    holder->since.ms++;
}

static void be_of_another_session(hf_entry *holder)
{
    be_upgraded(holder);
    holder->session = (hf_id){{6}};
}

static void share(hf_entry *holder)
{
    be_upgraded(holder);
    holder->permits = 1;
}

static void test_an_upgrade_in_its_place_is_asked_too(void **state)
{
    (void)state;
    assert_int_equal(asks_after("memory:upgraded", be_upgraded), 2);
    assert_int_equal(asks_after("memory:itself", come_later_by_itself), 1);
    assert_int_equal(asks_after("memory:others", be_of_another_session), 1);
    assert_int_equal(asks_after("memory:shares", share), 1);
}

/* ---- Sessions that look gone ---- */

static void look_gone(faulty *of, hf_session_state *state)
{
    (void)of;
    state->is_gone = true;
}

static hf_code refuse_marks(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    (void)arg;
    return call == FAULTY_MARK ? HF_HELD : HF_OK;
}

/* It may be believed until its mark is acknowledged. */
static void test_one_that_only_looks_gone_is_asked(void **state)
{
    (void)state;
    hf_error err;
    hf_break_options options = {.reason = "why not"};
    open_beside_holder("memory:seems-gone");
    f->edits_state = look_gone;
    f->before = refuse_marks;
    assert_int_equal(hf_break(breaker, "x", &options, &err), HF_OK);
    assert_int_equal(f->calls[FAULTY_MARK], 1);
    assert_int_equal(f->calls[FAULTY_ASK], 1);
    hf_close(breaker);
}

static void test_one_that_is_marked_is_not_asked(void **state)
{
    (void)state;
    hf_error err;
    hf_break_options options = {.reason = "why not"};
    open_beside_holder("memory:is-gone");
    f->edits_state = look_gone;
    assert_int_equal(hf_break(breaker, "x", &options, &err), HF_OK);
    assert_int_equal(f->calls[FAULTY_MARK], 1);
    assert_int_equal(f->calls[FAULTY_ASK], 0);
    assert_int_equal(look_at(f->inner, "x").holders, 0);
    hf_close(breaker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lease_in_its_place_is_asked_too),
        cmocka_unit_test(test_another_holder_is_let_alone),
        cmocka_unit_test(test_an_upgrade_in_its_place_is_asked_too),
        cmocka_unit_test(test_one_that_only_looks_gone_is_asked),
        cmocka_unit_test(test_one_that_is_marked_is_not_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
