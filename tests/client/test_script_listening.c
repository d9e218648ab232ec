/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_listening.c: when a client listens for notices, from when on, and when it does not
 * any more; held against a script. Run by ctest. */
#include "client/script_bed.h"

#include "core/error.h"

static hf_client *a, *b;
static part x, wants_x, y;

static void begin(const char *uri)
{
    stage_begin();
    a = stage_client(uri, NULL);
    b = stage_client(uri, NULL);
    x = (part){.client = a, .name = "x"};
    wants_x = (part){.client = b, .name = "x"};
    y = (part){.client = b, .name = "y"};
    stage_tell_listening();
}

static void end(void)
{
    close_parts((part *const[]){&x, &wants_x, &y}, 3);
    stage_end();
}

/* ---- For how long ---- */

static void test_it_goes_on_for_ten_seconds_after_the_last_wait(void **state)
{
    (void)state;
    begin("memory:listening-lingers");
    play(take_part, &x, 0);
    play(take_part, &wants_x, 300);
    play(close_part, &x, 100);
    stage_forget();
    stage_run(8500);
    stage_forget();
    stage_run(4000);
    stage_expect("9317.1 b listens for 1 ms, since 2\n"
                 "9818.1 b listens for 1 ms, since 2\n"
                 "9999 a beat, seen 3\n"
                 "9999 b beat, seen 3\n");
    end();
}

static void test_who_only_holds_does_not_listen(void **state)
{
    (void)state;
    begin("memory:listening-holds");
    play(take_part, &x, 12000);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "1000 a sweep\n"
                 "3333 a beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at x since 1\n");
    end();
}

static void test_where_a_loss_is_told_of_who_holds_listens(void **state)
{
    (void)state;
    begin("memory:listening-losses");
    stage_store(a)->base.can |= HF_CAN_TELL_LOST;
    play(take_part, &x, 13000);
    stage_forget();
    stage_run(1000);
    stage_expect("13025 a listens for 1 ms, since 1\n"
                 "13332 a beat, seen 4\n"
                 "13526 a listens for 1 ms, since 1\n");
    play(close_part, &x, 9000);
    stage_forget();
    stage_run(2500);
    stage_expect("23045 a listens for 1 ms, since 1\n"
                 "23331 a beat, seen 7\n");
    end();
}

/* Others may want what it passes on among its own threads. */
static void test_who_holds_for_a_line_listens(void **state)
{
    (void)state;
    begin("memory:listening-line");
    play(take_part, &x, 0);
    play(close_part, &x, 1500);
    x.options.linger_ms = 1000;
    play(take_part, &x, 13000);
    stage_forget();
    stage_run(1000);
    stage_expect("14832 a look at x since 3\n"
                 "15500 a listens for 1000 ms, since 3\n");
    end();
}

static void test_it_ends_with_the_session(void **state)
{
    (void)state;
    begin("memory:listening-ends");
    wants_x.options.wait_ms = 500;
    play(take_part, &x, 0);
    play(take_part, &wants_x, 1000);
    stage_mark_dead(b, b->session.self.id);
    stage_forget();
    stage_run(4000);
    stage_expect("1500 b listens for 1 ms, since 2\n"
                 "2001 b listens for 1 ms, since 2\n"
                 "2502 b listens for 1 ms, since 2\n"
                 "3003 b listens for 1 ms, since 2\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1\n"
                 "3333 b hears HF_LOST\n"
                 "3333 b end\n");
    end();
}

/* ---- Anew ---- */

static void test_a_new_session_listens_from_its_own_beginning(void **state)
{
    (void)state;
    begin("memory:listening-session");
    play(take_part, &x, 0);
    play(take_part, &wants_x, 3000);
    stage_mark_dead(b, b->session.self.id);
    stage_forget();
    stage_run(1500);
    stage_expect("3015 b look at x since 2\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1, waits\n"
                 "3333 b hears HF_LOST\n"
                 "3333 b look at 1 sessions\n"
                 "3333 b end, leaving tickets\n"
                 "3333 b begin\n"
                 "3333 b x: leave-unused enter\n"
                 "3433 b look at 1 sessions\n"
                 "4000 b listens for 1000 ms, since 3\n"
                 "4333 b sweep\n");
    end();
}

static void test_a_wait_after_a_while_is_listened_for_from_its_own_beginning(void **state)
{
    (void)state;
    begin("memory:listening-anew");
    wants_x.options.wait_ms = 500;
    play(take_part, &x, 0);
    play(take_part, &wants_x, 12000);
    play(take_part, &y, 0);
    play(close_part, &y, 0);
    stage_forget();
    play(take_part, &wants_x, 600);
    stage_expect("12000 b x: enter\n"
                 "12000 b listens for 1000 ms, since 5\n"
                 "12000 b hears a grant\n"
                 "12000 b listens for 1000 ms, since 5\n"
                 "12000.1 b y: leave\n"
                 "12400 b look at 1 sessions\n"
                 "12500 b look at 1 sessions, trusting\n"
                 "12500 b x: leave-unused\n"
                 "12500 b is told HF_TIMEOUT: x was not free in time: held by a@:1\n");
    end();
}

/* An earlier wait goes on being listened for from where it began. */
static void test_a_second_wait_does_not_move_where_it_listens_from(void **state)
{
    (void)state;
    begin("memory:listening-two");
    part holds_y = {.client = a, .name = "y"};
    play(take_part, &x, 0);
    play(take_part, &holds_y, 0);
    play(take_part, &wants_x, 100);
    stage_forget();
    play(take_part, &y, 100);
    stage_expect("100 b y: enter\n");
    play(close_part, &holds_y, 100);
    stage_expect("200.1 a y: leave\n"
                 "200.1 b hears a grant\n"
                 "200.1 b listens for 1000 ms, since 3\n"
                 "200.1 b has y\n");
    end();
}

/* ---- Where nothing is heard ---- */

static void test_where_there_are_no_notices_it_asks_for_them_once(void **state)
{
    (void)state;
    begin("memory:listening-deaf");
    stage_store(b)->is_deaf = true;
    wants_x.options.wait_ms = 300;
    play(take_part, &x, 0);
    play(take_part, &wants_x, 600);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "0 b begin\n"
                 "0 b x: enter\n"
                 "0 b listens for 1000 ms, since 2\n"
                 "0 b look at x since 2\n"
                 "18 b look at x since 2\n"
                 "47 b look at x since 2\n"
                 "97 b look at x since 2\n"
                 "188 b look at x since 2\n"
                 "300 b look at 1 sessions, trusting\n"
                 "300 b x: leave-unused\n"
                 "300 b is told HF_TIMEOUT: x was not free in time: held by a@:1\n");
    play(take_part, &wants_x, 600);
    stage_expect("600 b x: enter\n"
                 "607 b look at x since 4\n"
                 "621 b look at x since 4\n"
                 "657 b look at x since 4\n"
                 "714 b look at x since 4\n"
                 "812 b look at x since 4\n"
                 "900 b look at 1 sessions, trusting\n"
                 "900 b x: leave-unused\n"
                 "900 b is told HF_TIMEOUT: x was not free in time: held by a@:1\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n");
    end();
}

static hf_code be_deaf_after_a_while(faulty *store, hf_id session, hf_stamp from,
                                     int64_t timeout_ms, hf_notice_fn each, void *ctx,
                                     hf_error *err)
{
    (void)store, (void)session, (void)from, (void)timeout_ms, (void)each, (void)ctx;
    stage_say("listens");
    stage_sleep(100);
    return error_set(err, HF_UNSUPPORTED, "there are no notices");
}

/* Another wait begins while it finds that out. */
static void test_once_it_knows_that_there_are_no_notices_it_does_not_listen(void **state)
{
    (void)state;
    begin("memory:listening-deaf-late");
    part holds_y = {.client = a, .name = "y"};
    stage_store(b)->awaits = be_deaf_after_a_while;
    play(take_part, &x, 0);
    play(take_part, &holds_y, 0);
    play(take_part, &wants_x, 50);
    stage_forget();
    play(take_part, &y, 100);
    stage_expect("50 b y: enter\n"
                 "100 b look at x since 3\n"
                 "100 b look at y since 4\n"
                 "110 b look at x since 3\n"
                 "111 b look at y since 4\n"
                 "143 b look at x since 3\n"
                 "145 b look at y since 4\n");
    close_part(&holds_y);
    end();
}

/* The last four turns took 20 ms: with one ahead, nothing is expected at once. */
static void test_who_knows_how_quick_the_turns_are_listens_later(void **state)
{
    (void)state;
    begin("memory:listening-rests");
    hf_client *c = stage_client("memory:listening-rests", NULL);
    part between = {.client = c, .name = "x"};
    for (int i = 0; i < 5; i++) {
        stage_forget();
        play(take_part, &x, 0);
        play(take_part, &between, 0);
        play(take_part, &wants_x, 20);
        play(close_part, &x, 20);
        play(close_part, &between, 20);
        play(close_part, &wants_x, 20);
    }
    stage_expect("320 a x: enter\n"
                 "320 a has x\n"
                 "320 c x: enter\n"
                 "320 c listens for 1000 ms, since 2\n"
                 "320 b x: enter\n"
                 "337.5 b listens for 1000 ms, since 3\n"
                 "340.1 a x: leave\n"
                 "340.1 c hears a grant\n"
                 "340.1 c has x\n"
                 "360.1 c x: leave\n"
                 "360.1 b hears a grant\n"
                 "360.1 b has x\n"
                 "380.1 b x: leave\n");
    end();
}

static void test_it_is_tried_again_less_and_less_often(void **state)
{
    (void)state;
    begin("memory:listening-fails");
    stage_let_listening_fail(8);
    play(take_part, &x, 0);
    play(take_part, &wants_x, 0);
    stage_forget();
    stage_run(9000);
    stage_expect("33 b listens for 1000 ms, since 2\n"
                 "92 b listens for 1000 ms, since 2\n"
                 "202 b listens for 1000 ms, since 2\n"
                 "400 b look at 1 sessions\n"
                 "413 b listens for 1000 ms, since 2\n"
                 "825 b listens for 1000 ms, since 2\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1338 b listens for 1000 ms, since 2\n"
                 "1507 b look at x since 2\n"
                 "1852 b listens for 1000 ms, since 2\n"
                 "2368 b listens for 1000 ms, since 2\n"
                 "3022 b look at x since 2\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1, waits\n"
                 "3368 b listens for 1000 ms, since 2\n"
                 "3433 b look at 1 sessions\n"
                 "4368 b listens for 1000 ms, since 2\n"
                 "4539 b look at x since 2\n"
                 "5368 b listens for 1000 ms, since 2\n"
                 "6057 b look at x since 2\n"
                 "6368 b listens for 1000 ms, since 2\n"
                 "6666 a beat, seen 2\n"
                 "6666 b beat, seen 2, waits\n"
                 "6766 b look at 1 sessions\n"
                 "7368 b listens for 1000 ms, since 2\n"
                 "7590 b look at x since 2\n"
                 "8368 b listens for 1000 ms, since 2\n");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_goes_on_for_ten_seconds_after_the_last_wait),
        cmocka_unit_test(test_who_only_holds_does_not_listen),
        cmocka_unit_test(test_where_a_loss_is_told_of_who_holds_listens),
        cmocka_unit_test(test_who_holds_for_a_line_listens),
        cmocka_unit_test(test_it_ends_with_the_session),
        cmocka_unit_test(test_a_new_session_listens_from_its_own_beginning),
        cmocka_unit_test(test_a_wait_after_a_while_is_listened_for_from_its_own_beginning),
        cmocka_unit_test(test_a_second_wait_does_not_move_where_it_listens_from),
        cmocka_unit_test(test_where_there_are_no_notices_it_asks_for_them_once),
        cmocka_unit_test(test_once_it_knows_that_there_are_no_notices_it_does_not_listen),
        cmocka_unit_test(test_who_knows_how_quick_the_turns_are_listens_later),
        cmocka_unit_test(test_it_is_tried_again_less_and_less_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
