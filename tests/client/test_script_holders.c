/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_holders.c: whom a waiter names as the holder, from what it has seen of the holder's
 * session, and from what it has not; held against a script. Run by ctest. */
#include "client/script_bed.h"

static hf_client *a, *b;
static part x, waits;

/* a holds x; b waits for half a second, and has looked at a's session after 400 ms. */
static void begin(const char *uri)
{
    stage_begin();
    a = stage_client(uri, NULL);
    b = stage_client(uri, NULL);
    x = (part){.client = a, .name = "x"};
    waits = (part){.client = b, .name = "x", .options.wait_ms = 500};
    play(take_part, &x, 0);
    stage_forget();
}

static void end(void)
{
    close_parts((part *const[]){&x, &waits}, 2);
    stage_end();
}

static void test_a_session_that_was_seen_is_named(void **state)
{
    (void)state;
    begin("memory:holder-seen");
    play(take_part, &waits, 600);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions\n"
                 "500 b look at 1 sessions, trusting\n"
                 "500 b x: leave-unused\n"
                 "500 b is told HF_TIMEOUT: x was not free in time: held by a@:1\n");
    end();
}

static void test_a_session_that_is_missing_has_no_name(void **state)
{
    (void)state;
    begin("memory:holder-missing");
    stage_drop_session(a, a->session.self.id);
    play(take_part, &waits, 600);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions\n"
                 "500 b look at 1 sessions, trusting\n"
                 "500 b x: leave-unused\n"
                 "500 b is told HF_TIMEOUT: x was not free in time: held by another session; "
                 "its session is gone, so it is probably dead: a request that waits 15s or longer "
                 "(-w 15s, wait_ms 15000) makes sure, and takes the lock over\n");
    end();
}

static void make_odd(faulty *store, hf_session_state *state)
{
    (void)store;
    state->presence = HF_ODD;
}

static void test_a_session_that_cannot_be_read_ends_the_wait(void **state)
{
    (void)state;
    begin("memory:holder-odd");
    stage_store(b)->edits_state = make_odd;
    stage_let_fail(
        (stage_fault){.who = 'b', .call = FAULTY_SESSIONS_LOOK, .after = HF_SHAPE, .times = 100});
    play(take_part, &waits, 600);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions\n"
                 "400 b hears HF_SHAPE\n"
                 "400 b x: leave-unused\n"
                 "400 b is told HF_SHAPE: injected\n");
    stage_store(b)->edits_state = (faulty_edit_state *)NULL;
    end();
}

/* The first in the record is the holder; those behind wait as well. */
static void test_who_waits_before_is_not_named(void **state)
{
    (void)state;
    begin("memory:holder-first");
    hf_client *c = stage_client("memory:holder-first", NULL);
    part before = {.client = c, .name = "x"};
    play(take_part, &before, 0);
    stage_forget();
    play(take_part, &waits, 600);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 c look at 1 sessions\n"
                 "400 b look at 2 sessions\n"
                 "500 b look at 2 sessions, trusting\n"
                 "500 b x: leave-unused\n"
                 "500 b is told HF_TIMEOUT: x was not free in time: held by a@:1\n");
    close_part(&x);
    stage_run(100);
    close_part(&before);
    end();
}

/* Between two looks the lock goes from hand to hand. Who stood next then is named, and nobody by
 * the name of one who held it before. */
static void go_on_to(const char *uri, size_t hands, const char *expected)
{
    part next[2];
    begin(uri);
    for (size_t i = 0; i < 2; i++) {
        next[i] = (part){.client = stage_client(uri, NULL), .name = "x"};
        play(take_part, &next[i], 0);
    }
    waits.options = (hf_lock_options){.wait_ms = 2200, .on_wait = say_wait};
    play(acquire_part, &waits, 600);
    part *held[] = {&x, &next[0]};
    for (size_t i = 0; i < hands; i++)
        play(release_part, held[i], 20);
    stage_forget();
    stage_run(1600);
    stage_expect(expected);
    close_parts((part *const[]){&x, &next[0], &next[1]}, 3);
    end();
}

static void test_who_is_next_is_named_when_it_holds(void **state)
{
    (void)state;
    go_on_to("memory:holder-next", 1,
             "1000 a sweep\n"
             "1000 b sweep\n"
             "1000 c sweep\n"
             "1000 d sweep\n"
             "1000 waits for x 1000 ms, 3 of 3, held by 1: a@:1 '', since then\n"
             "1511 d look at x since 3\n"
             "1515 b look at x since 4\n"
             "2000 waits for x 2000 ms, 2 of 2, held by 1: c@:1 '', since then\n"
             "2200 b look at 2 sessions, trusting\n"
             "2200 b x: leave-unused\n"
             "2200 acquired x: HF_TIMEOUT: x was not free in time: held by c@:1\n");
    go_on_to("memory:holder-after-next", 2,
             "1000 a sweep\n"
             "1000 b sweep\n"
             "1000 c sweep\n"
             "1000 d sweep\n"
             "1000 waits for x 1000 ms, 3 of 3, held by 1: a@:1 '', since then\n"
             "1515 b look at x since 4\n"
             "2000 waits for x 2000 ms, 1 of 1, held by 1: another session '', since then\n"
             "2200 b look at 1 sessions, trusting\n"
             "2200 b x: leave-unused\n"
             "2200 acquired x: HF_TIMEOUT: x was not free in time: held by d@:1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_session_that_was_seen_is_named),
        cmocka_unit_test(test_a_session_that_is_missing_has_no_name),
        cmocka_unit_test(test_a_session_that_cannot_be_read_ends_the_wait),
        cmocka_unit_test(test_who_waits_before_is_not_named),
        cmocka_unit_test(test_who_is_next_is_named_when_it_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
