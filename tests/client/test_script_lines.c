/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_lines.c: what threads of one client that want one lock send together, when the lock
 * is passed on among them, and when it is given up to others; locks that linger, and deadlocks. Run
 * by ctest. */
#include "client/script_bed.h"

static hf_client *a, *b;
static part one, two, three, other;

static void begin(const char *uri, hf_options options)
{
    stage_begin();
    options.log = say_log;
    a = stage_client(uri, &options);
    b = stage_client(uri, NULL);
    one = (part){.client = a, .name = "x", .options.actor = "one"};
    two = (part){.client = a, .name = "x", .options.actor = "two"};
    three = (part){.client = a, .name = "x", .options.actor = "three"};
    other = (part){.client = b, .name = "x"};
}

/* A record that is old enough that its grants have blocks. */
static void begin_late(const char *uri, hf_options options)
{
    begin(uri, options);
    play(take_part, &one, 0);
    play(close_part, &one, 1500);
    stage_forget();
}

static void end(void)
{
    close_parts((part *const[]){&one, &two, &three, &other}, 4);
    stage_end();
}

static const hf_options defaults;

static void say_token(const part *p)
{
    stage_say("%s has %lld after waiting for %lld ms", p->options.actor,
              (long long)hf_lock_token(p->lock), (long long)hf_lock_waited_ms(p->lock));
}

/* Of those in a line each has it for so long. */
static int64_t turn_ms;

static void take_a_turn(void *arg)
{
    part *p = arg;
    hf_error err;
    if (stage_acquire(p->client, p->name, &p->options, &p->lock))
        return;
    say_token(p);
    tell_previous(p);
    stage_sleep(turn_ms);
    hf_lock_set_exit_status(p->lock, 3);
    hf_code code = hf_lock_release(p->lock, &err);
    say_code("released", p->options.actor ? p->options.actor : "other", code, &err);
    hf_lock_close(p->lock);
    p->lock = NULL;
}

static void let_all_take_a_turn(void)
{
    stage_act(take_a_turn, &one);
    stage_act(take_a_turn, &two);
    stage_act(take_a_turn, &three);
}

/* ---- Turns ---- */

static void test_a_lock_is_passed_on(void **state)
{
    (void)state;
    begin_late("memory:passed-on", defaults);
    turn_ms = 50;
    let_all_take_a_turn();
    stage_run(500);
    stage_expect("1500 a x: enter\n"
                 "1500 a has x\n"
                 "1500 one has 1782579200524288 after waiting for 0 ms\n"
                 "1500 before x: a@:1, outcome 1, ''\n"
                 "1500 a x: enter-yielding\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1550 a x: leave=3\n"
                 "1550 released one: yes\n"
                 "1550 a hears a grant\n"
                 "1550 a has x\n"
                 "1550 two has 1782579200576716 after waiting for 50 ms\n"
                 "1550 a look at x since 5\n"
                 "1550 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "1600 released two: yes\n"
                 "1600 a has x\n"
                 "1600 three has 1782579200576717 after waiting for 100 ms\n"
                 "1600 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "1650 a x: leave=3+\n"
                 "1650 released three: yes\n");
    end();
}

static void test_a_young_record_has_no_block(void **state)
{
    (void)state;
    begin("memory:young", defaults);
    turn_ms = 50;
    let_all_take_a_turn();
    stage_run(500);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "0 one has 1782579200000000 after waiting for 0 ms\n"
                 "0 before x: , outcome 0, ''\n"
                 "0 a x: enter-yielding\n"
                 "0 a hears a grant\n"
                 "50 a x: leave=3\n"
                 "50 released one: yes\n"
                 "50 a hears a grant\n"
                 "50 a has x\n"
                 "50 two has 1782579200000001 after waiting for 50 ms\n"
                 "50 a look at x since 3\n"
                 "50 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "100 released two: yes\n"
                 "100 a has x\n"
                 "100 three has 1782579200000002 after waiting for 100 ms\n"
                 "100 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "150 a x: leave=3+\n"
                 "150 released three: yes\n");
    end();
}

static void test_a_recall_ends_it_soon(void **state)
{
    (void)state;
    begin_late("memory:recalled", defaults);
    stage_tell_listening();
    turn_ms = 60;
    let_all_take_a_turn();
    stage_run(10);
    play(take_part, &other, 500);
    play(close_part, &other, 2000);
    stage_expect("1500 a x: enter\n"
                 "1500 a has x\n"
                 "1500 one has 1782579200524288 after waiting for 0 ms\n"
                 "1500 before x: a@:1, outcome 1, ''\n"
                 "1500 a x: enter-yielding\n"
                 "1500 a listens for 1000 ms, since 4\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1500 a listens for 1000 ms, since 4\n"
                 "1510 b begin\n"
                 "1510 b x: enter\n"
                 "1510 b sweep\n"
                 "1510 b listens for 1000 ms, since 5\n"
                 "1560 a x: leave=3\n"
                 "1560 released one: yes\n"
                 "1560 a hears a recall\n"
                 "1560 a hears a grant\n"
                 "1560 a has x\n"
                 "1560 two has 1782579200587202 after waiting for 60 ms\n"
                 "1560 a look at x since 6\n"
                 "1560 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "1620 released two: yes\n"
                 "1620 a has x\n"
                 "1620 three has 1782579200587203 after waiting for 120 ms\n"
                 "1620 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "1680 a x: leave=3+\n"
                 "1680 released three: yes\n"
                 "1680 b hears a grant\n"
                 "1680 b has x\n"
                 "2010.1 b x: leave\n"
                 "2060 a listens for 1 ms, since 4\n"
                 "2180 b listens for 1 ms, since 5\n"
                 "2561 a listens for 1 ms, since 4\n"
                 "2681 b listens for 1 ms, since 5\n"
                 "3062 a listens for 1 ms, since 4\n"
                 "3182 b listens for 1 ms, since 5\n"
                 "3333 a beat, seen 1\n"
                 "3563 a listens for 1 ms, since 4\n"
                 "3683 b listens for 1 ms, since 5\n");
    end();
    begin_late("memory:recalled-late", defaults);
    turn_ms = 400;
    let_all_take_a_turn();
    stage_run(10);
    play(take_part, &other, 700);
    play(close_part, &other, 2000);
    stage_expect("1500 a x: enter\n"
                 "1500 a has x\n"
                 "1500 one has 1782579200524288 after waiting for 0 ms\n"
                 "1500 before x: a@:1, outcome 1, ''\n"
                 "1500 a x: enter-yielding\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1510 b begin\n"
                 "1510 b x: enter\n"
                 "1510 b sweep\n"
                 "1900 a x: leave=3\n"
                 "1900 released one: yes\n"
                 "1900 a hears a recall\n"
                 "1900 a hears a grant\n"
                 "1900 a has x\n"
                 "1900 two has 1782579200943718 after waiting for 400 ms\n"
                 "1900 a look at x since 6\n"
                 "1900 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "1910 b look at 1 sessions\n"
                 "2000 a x: enter-yielding\n"
                 "2300 a x: leave=3+\n"
                 "2300 released two: yes\n"
                 "2300 b hears a grant\n"
                 "2300 b has x\n"
                 "2400 a look at 1 sessions\n"
                 "3333 a beat, seen 1, waits\n"
                 "3512 a look at x since 7\n");
    end();
}

static void test_bounds_of_turns(void **state)
{
    (void)state;
    begin_late("memory:one-turn", (hf_options){.local_turns = 1});
    turn_ms = 20;
    let_all_take_a_turn();
    stage_run(10);
    play(take_part, &other, 500);
    play(close_part, &other, 2000);
    stage_expect("1500 a x: enter\n"
                 "1500 a has x\n"
                 "1500 one has 1782579200524288 after waiting for 0 ms\n"
                 "1500 before x: a@:1, outcome 1, ''\n"
                 "1500 a x: enter-yielding\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1510 b begin\n"
                 "1510 b x: enter\n"
                 "1510 b sweep\n"
                 "1520 a x: leave=3\n"
                 "1520 released one: yes\n"
                 "1520 a hears a recall\n"
                 "1520 a hears a grant\n"
                 "1520 a has x\n"
                 "1520 two has 1782579200545259 after waiting for 20 ms\n"
                 "1520 a look at x since 6\n"
                 "1520 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "1540 released two: yes\n"
                 "1540 a has x\n"
                 "1540 three has 1782579200545260 after waiting for 40 ms\n"
                 "1540 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "1560 a x: leave=3+\n"
                 "1560 released three: yes\n"
                 "1560 b hears a grant\n"
                 "1560 b has x\n"
                 "2010.1 b x: leave\n"
                 "3333 a beat, seen 1\n");
    end();
    begin_late("memory:no-turns", (hf_options){.local_turns = -1});
    let_all_take_a_turn();
    stage_run(500);
    stage_expect("1500 a x: enter\n"
                 "1500 a has x\n"
                 "1500 one has 1782579200524288 after waiting for 0 ms\n"
                 "1500 before x: a@:1, outcome 1, ''\n"
                 "1500 a x: enter\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1500 a x: enter\n"
                 "1520 a x: leave=3\n"
                 "1520 released one: yes\n"
                 "1520 a hears a grant\n"
                 "1520 a has x\n"
                 "1520 two has 1782579200545259 after waiting for 20 ms\n"
                 "1520 a look at x since 6\n"
                 "1520 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "1540 a x: leave=3\n"
                 "1540 released two: yes\n"
                 "1540 a hears a grant\n"
                 "1540 a has x\n"
                 "1540 three has 1782579200566231 after waiting for 40 ms\n"
                 "1540 a look at x since 7\n"
                 "1540 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "1560 a x: leave=3\n"
                 "1560 released three: yes\n");
    end();
}

static void test_who_does_not_wait_in_line(void **state)
{
    (void)state;
    begin_late("memory:not-in-line", defaults);
    turn_ms = 300;
    two.options.wait_ms = HF_TRY;
    three.options.wait_ms = 100;
    let_all_take_a_turn();
    stage_run(500);
    stage_expect("1500 a x: enter\n"
                 "1500 a has x\n"
                 "1500 one has 1782579200524288 after waiting for 0 ms\n"
                 "1500 before x: a@:1, outcome 1, ''\n"
                 "1500 a is told HF_HELD: x was not free: held by this very process\n"
                 "1500 a x: enter-yielding\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1600 a x: leave-unused\n"
                 "1600 a is told HF_TIMEOUT: x was not free in time: held by this very process\n"
                 "1800 a x: leave=3\n"
                 "1800 released one: yes\n");
    two.options.mode = HF_SHARED, two.options.wait_ms = 0;
    three.options =
        (hf_lock_options){.permits = 1, .limit = 2, .wait_ms = HF_TRY, .actor = "three"};
    let_all_take_a_turn();
    stage_run(1000);
    stage_expect("2000 a x: enter\n"
                 "2000 a has x\n"
                 "2000 one has 1782579201048576 after waiting for 0 ms\n"
                 "2000 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "2000 a hears a grant\n"
                 "2000 a x: enter 1\n"
                 "2000 a x: enter-or-not 1\n"
                 "2000 a is told HF_LIMIT: x is in use with no limit (as a mutex), not with a "
                 "limit of 2: all users of a lock must give a limit, or none\n"
                 "2300 a x: leave=3\n"
                 "2300 released one: yes\n"
                 "2300 a hears a grant\n"
                 "2300 a has x\n"
                 "2300 two has 1782579201363148 after waiting for 300 ms\n"
                 "2300 a look at x since 9\n"
                 "2300 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "2600 a x: leave=3\n"
                 "2600 released two: yes\n");
    end();
}

static void test_the_leader_gives_up(void **state)
{
    (void)state;
    begin_late("memory:gives-up", defaults);
    play(take_part, &other, 0);
    one.options.wait_ms = 300;
    turn_ms = 20;
    let_all_take_a_turn();
    stage_run(1000);
    play(close_part, &other, 500);
    stage_expect("1500 b begin\n"
                 "1500 b x: enter\n"
                 "1500 b has x\n"
                 "1500 a x: enter\n"
                 "1500 a hears a grant\n"
                 "1800 a look at 1 sessions, trusting\n"
                 "1800 a is told HF_TIMEOUT: x was not free in time: held by b@:1\n"
                 "1800 a look at x since 4\n"
                 "2200 a look at 1 sessions\n"
                 "2500 b sweep\n"
                 "2500.1 b x: leave\n"
                 "2500.1 a hears a grant\n"
                 "2500.1 a has x\n"
                 "2500.1 two has 1782579201572864 after waiting for 1000 ms\n"
                 "2500.1 a look at x since 5\n"
                 "2500.1 before x: b@:1, outcome 1, ''\n"
                 "2500.1 a x: enter-yielding\n"
                 "2520.1 a x: leave=3\n"
                 "2520.1 released two: yes\n"
                 "2520.1 a hears a grant\n"
                 "2520.1 a has x\n"
                 "2520.1 three has 1782579201593835 after waiting for 1020 ms\n"
                 "2520.1 a look at x since 7\n"
                 "2520.1 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "2540.1 a x: leave=3+\n"
                 "2540.1 released three: yes\n");
    end();
}

static void test_a_line_behind_another_session(void **state)
{
    (void)state;
    begin_late("memory:behind", defaults);
    play(take_part, &other, 0);
    two.options.on_wait = say_wait;
    stage_act(take_part, &one);
    stage_run(0);
    stage_act(acquire_part, &two);
    stage_run(1500);
    play(close_part, &other, 100);
    play(close_part, &one, 100);
    stage_expect("1500 b begin\n"
                 "1500 b x: enter\n"
                 "1500 b has x\n"
                 "1500 a x: enter\n"
                 "1500 a hears a grant\n"
                 "1500 waits for x 0 ms, 1 of 1, held by 1: another session ''\n"
                 "1900 a look at 1 sessions\n"
                 "2500 b sweep\n"
                 "2500 waits for x 1000 ms, 1 of 1, held by 1: b@:1 ''\n"
                 "3000.1 b x: leave\n"
                 "3000.1 a hears a grant\n"
                 "3000.1 a has x\n"
                 "3020 a x: enter-yielding\n"
                 "3100.1 a x: leave\n"
                 "3100.1 a hears a grant\n"
                 "3120 acquired x: yes\n"
                 "3120 waited 1620 ms\n");
    end();
}

static void test_a_holder_waits_with_its_own_ticket(void **state)
{
    (void)state;
    part second = {.name = "y", .options.actor = "two"};
    begin_late("memory:own-ticket", defaults);
    second.client = a;
    play(take_part, &second, 0);
    play(take_part, &one, 0);
    stage_act(take_part, &two);
    stage_run(300);
    play(close_part, &one, 300);
    stage_expect("1500 a y: enter\n"
                 "1500 a has y\n"
                 "1500 a x: enter\n"
                 "1500 a has x\n"
                 "1500 a x: enter\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1800.1 a x: leave\n"
                 "1800.1 a hears a grant\n"
                 "1800.1 a has x\n");
    close_part(&second);
    end();
}

/* ---- Lingering ---- */

static void test_a_lock_that_lingers(void **state)
{
    (void)state;
    begin_late("memory:lingers", defaults);
    one.options.linger_ms = two.options.linger_ms = 2000;
    turn_ms = 100;
    play(take_a_turn, &one, 1000);
    play(take_a_turn, &two, 1000);
    stage_run(3000);
    stage_expect("1500 a x: enter-yielding\n"
                 "1500 a has x\n"
                 "1500 one has 1782579200524288 after waiting for 0 ms\n"
                 "1500 before x: a@:1, outcome 1, ''\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1600 released one: yes\n"
                 "2500 a has x\n"
                 "2500 two has 1782579200524289 after waiting for 0 ms\n"
                 "2500 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "2600 released two: yes\n"
                 "3333 a beat, seen 1\n"
                 "4600 a x: leave=3+\n");
    end();
}

static void test_a_lock_that_lingers_is_recalled(void **state)
{
    (void)state;
    begin_late("memory:lingers-recalled", defaults);
    one.options.linger_ms = 60000;
    turn_ms = 100;
    play(take_a_turn, &one, 1000);
    play(take_part, &other, 1000);
    stage_expect("1500 a x: enter-yielding\n"
                 "1500 a has x\n"
                 "1500 one has 1782579200524288 after waiting for 0 ms\n"
                 "1500 before x: a@:1, outcome 1, ''\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1600 released one: yes\n"
                 "2500 b begin\n"
                 "2500 b x: enter\n"
                 "2500 a hears a recall\n"
                 "2500 a x: leave=3+\n"
                 "2500 b hears a grant\n"
                 "2500 b has x\n"
                 "3333 a beat, seen 1\n"
                 "3500 b sweep\n");
    end();
    begin_late("memory:lingers-broken", defaults);
    one.options.linger_ms = 60000;
    play(take_a_turn, &one, 1000);
    breaking why = {b, "x", {.reason = "maintenance"}};
    play(break_it, &why, 4000);
    stage_expect("1500 a x: enter-yielding\n"
                 "1500 a has x\n"
                 "1500 one has 1782579200524288 after waiting for 0 ms\n"
                 "1500 before x: a@:1, outcome 1, ''\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1600 released one: yes\n"
                 "2500 b look at x\n"
                 "2500 b look at 1 sessions\n"
                 "2500 b ask\n"
                 "2600 b look at x\n"
                 "2700 b look at x\n"
                 "2800 b look at x\n"
                 "2900 b look at x\n"
                 "3000 b look at x\n"
                 "3100 b look at x\n"
                 "3200 b look at x\n"
                 "3300 b look at x\n"
                 "3333 a beat, seen 1\n"
                 "3333 a x: leave=3+(broken by b@:1: maintenance)\n"
                 "3400 b look at x\n"
                 "3400 broken x: yes\n");
    end();
    begin_late("memory:lingers-lost", defaults);
    one.options.linger_ms = 60000;
    play(take_a_turn, &one, 1000);
    stage_mark_dead(b, a->session.self.id);
    stage_run(5000);
    play(take_part, &two, 1000);
    stage_expect("1500 a x: enter-yielding\n"
                 "1500 a has x\n"
                 "1500 one has 1782579200524288 after waiting for 0 ms\n"
                 "1500 before x: a@:1, outcome 1, ''\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1600 released one: yes\n"
                 "3333 a beat, seen 1\n"
                 "3333 a hears HF_LOST\n"
                 "3333 a look at 1 sessions\n"
                 "3333 a end, leaving tickets\n"
                 "7500 a begin\n"
                 "7500 a x: enter\n"
                 "7900 a look at 1 sessions\n"
                 "7900 a x: bury\n"
                 "7900 a hears a grant\n"
                 "7900 a has x\n"
                 "8500 a sweep\n");
    end();
}

/* ---- Breaks of what has tokens to pass on ---- */

static void close_one(void)
{
    lock_return(one.lock);
    close_part(&one);
}

/* It is left when it is asked for; the next holder has the next token of the same block. */
static void break_between(int64_t asked_ms)
{
    breaking why = {b, "x", {.reason = "maintenance", .if_token = hf_lock_token(one.lock)}};
    stage_let_fail(
        (stage_fault){.who = 'b', .call = FAULTY_ASK, .late_ms = asked_ms, .meanwhile = close_one});
    play(break_it, &why, 1000);
}

static void test_the_next_holder_is_not_broken(void **state)
{
    (void)state;
    begin_late("memory:next-shared", defaults);
    one.options.linger_ms = 1;
    other.options.mode = HF_SHARED;
    play(take_part, &one, 0);
    play(take_part, &other, 0);
    break_between(0);
    stage_expect("1500 a x: enter-yielding\n"
                 "1500 a has x\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1500 b begin\n"
                 "1500 b x: enter 1\n"
                 "1500 a hears a recall\n"
                 "1500 b look at x\n"
                 "1500 b look at 1 sessions\n"
                 "1500 b ask\n"
                 "1500.1 a x: leave-unused+\n"
                 "1500.1 b hears a grant\n"
                 "1500.1 b has x\n"
                 "1600 b look at x\n"
                 "1600 broken x: yes\n"
                 "2500 b sweep\n");
    end();
    begin_late("memory:next-later", defaults);
    one.options.linger_ms = 1;
    play(take_part, &one, 0);
    play(take_part, &other, 0);
    break_between(50);
    stage_expect("1500 a x: enter-yielding\n"
                 "1500 a has x\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1500 b begin\n"
                 "1500 b x: enter\n"
                 "1500 a hears a recall\n"
                 "1500 b look at x\n"
                 "1500 b look at 1 sessions\n"
                 "1500 b ask\n"
                 "1550.1 a x: leave-unused+\n"
                 "1550.1 b hears a grant\n"
                 "1550.1 b has x\n"
                 "1650 b look at x\n"
                 "1650 broken x: yes\n"
                 "2500 b sweep\n");
    end();
    begin_late("memory:next-waited", defaults);
    one.options.linger_ms = 1;
    part first = {.client = b, .name = "x"};
    play(take_part, &first, 0);
    stage_act(take_part, &one);
    stage_run(200);
    stage_act(take_part, &other);
    stage_run(200);
    play(close_part, &first, 1);
    break_between(0);
    stage_expect("1500 b begin\n"
                 "1500 b x: enter\n"
                 "1500 b has x\n"
                 "1500 a x: enter-yielding\n"
                 "1500 a hears a grant\n"
                 "1700 b x: enter-yielding\n"
                 "1700 b hears a grant\n"
                 "1900 a look at 1 sessions\n"
                 "1900.1 b x: leave\n"
                 "1900.1 a hears a recall\n"
                 "1900.1 a hears a grant\n"
                 "1900.1 a has x\n"
                 "1901 b look at x\n"
                 "1901 b look at 1 sessions\n"
                 "1901 b ask\n"
                 "1901.1 a x: leave-unused+\n"
                 "1901.1 b hears a grant\n"
                 "1901.1 b has x\n"
                 "2001 b look at x\n"
                 "2001 broken x: yes\n"
                 "2500 b sweep\n");
    end();
}

/* ---- Deadlocks ---- */

static void take_both(void *arg)
{
    part *p = arg; /* two of them */
    take_part(&p[0]);
    stage_sleep(100);
    take_part(&p[1]);
    stage_sleep(500);
    close_part(&p[1]);
    close_part(&p[0]);
}

static void let_two_cross(const char *uri, hf_options options)
{
    static part first[2], second[2];
    begin(uri, options);
    for (int i = 0; i < 2; i++) {
        first[i] = (part){.client = a, .name = i ? "y" : "x", .options.wait_ms = 15000};
        second[i] = (part){.client = b, .name = i ? "x" : "y", .options.wait_ms = 12000};
    }
    stage_act(take_both, first);
    stage_act(take_both, second);
    stage_run(20000);
}

static void test_two_that_wait_for_each_other(void **state)
{
    (void)state;
    let_two_cross("memory:crossed", (hf_options){.deadlock_ms = 400});
    stage_expect(
        "0 a begin\n"
        "0 a x: enter\n"
        "0 a has x\n"
        "0 b begin\n"
        "0 b y: enter\n"
        "0 b has y\n"
        "100 a y: enter\n"
        "100 a hears a grant\n"
        "100 b x: enter\n"
        "100 b hears a grant\n"
        "500 a look at x y\n"
        "500 a who waits for what\n"
        "500 a look at 1 sessions\n"
        "500 a beat, seen 1, waits\n"
        "500 b look at 1 sessions\n"
        "600 a look at x y\n"
        "600 a who waits for what\n"
        "600 a beat, seen 2, waits\n"
        "700 a look at x y\n"
        "700 a who waits for what\n"
        "700 a beat, seen 3, waits\n"
        "800 a look at x y\n"
        "800 a who waits for what\n"
        "800 a beat, seen 4, waits\n"
        "900 a look at x y\n"
        "900 a who waits for what\n"
        "900 a beat, seen 5, waits\n"
        "1000 a sweep\n"
        "1000 b sweep\n"
        "1000 a look at x y\n"
        "1000 a who waits for what\n"
        "1000 a beat, seen 6, waits\n"
        "1100 b look at y x\n"
        "1100 b who waits for what\n"
        "1100 b beat, seen 1, waits\n"
        "1200 a look at x y\n"
        "1200 a who waits for what\n"
        "1200 a beat, seen 7, waits\n"
        "1300 a look at x y\n"
        "1300 a who waits for what\n"
        "1300 a beat, seen 8, waits\n"
        "1350 b look at y x\n"
        "1350 b who waits for what\n"
        "1350 b who waits for what\n"
        "1350 b beat, seen 2, waits\n"
        "1400 a look at x y\n"
        "1400 a who waits for what\n"
        "1400 a beat, seen 9, waits\n"
        "1500 a look at x y\n"
        "1500 a who waits for what\n"
        "1500 a beat, seen 10, waits\n"
        "1600 a look at x y\n"
        "1600 a who waits for what\n"
        "1600 a beat, seen 11, waits\n"
        "1600 b look at y x\n"
        "1600 b who waits for what\n"
        "1600 b beat, seen 3, waits\n"
        "1608 a look at y since 3\n"
        "1610 b look at x since 4\n"
        "1700 a look at x y\n"
        "1700 a who waits for what\n"
        "1700 a beat, seen 12, waits\n"
        "1800 a look at x y\n"
        "1800 a who waits for what\n"
        "1800 a beat, seen 13, waits\n"
        "1850 b look at y x\n"
        "1850 b who waits for what\n"
        "1850 b x: leave-unused\n"
        "1850 b is told HF_DEADLOCK: deadlock: b@:1 waits for x held by a@:1; a@:1 waits for y "
        "held by b@:1: release what is held and begin again, or take them in one order\n"
        "1850 b beat, seen 4\n"
        "1900 a look at x y\n"
        "1900 a who waits for what\n"
        "2000 a look at x y\n"
        "2000 a who waits for what\n"
        "2100 a look at x y\n"
        "2100 a who waits for what\n"
        "2200 a look at x y\n"
        "2200 a who waits for what\n"
        "2300 a look at x y\n"
        "2300 a who waits for what\n"
        "2350.1 b y: leave\n"
        "2350.1 a hears a grant\n"
        "2350.1 a has y\n"
        "2850.2 a y: leave\n"
        "2850.2 a x: leave\n"
        "5133 a beat, seen 14\n"
        "5183 b beat, seen 5\n"
        "8466 a beat, seen 15\n"
        "8516 b beat, seen 6\n"
        "11799 a beat, seen 16\n"
        "11849 b beat, seen 7\n"
        "15132 a beat, seen 17\n"
        "15182 b beat, seen 8\n"
        "18465 a beat, seen 18\n"
        "18515 b beat, seen 9\n");
    end();
}

/* Before it is proven, one of the two gives up; its next beat says so. */
static void test_a_deadlock_that_ends_is_nobodys(void **state)
{
    (void)state;
    begin("memory:crossed-briefly", (hf_options){.deadlock_ms = 400});
    part y = {.client = b, .name = "y"}, wants_y = {.client = a, .name = "y"};
    part also_wants_y = {.client = a, .name = "y", .options.actor = "two"};
    y.options.actor = other.options.actor = "b";
    wants_y.options = (hf_lock_options){.actor = "one", .wait_ms = 1450};
    play(take_part, &one, 0);
    play(take_part, &y, 0);
    play(take_part, &wants_y, 50);
    play(take_part, &also_wants_y, 0);
    play(take_part, &other, 900);
    stage_forget();
    stage_run(600);
    stage_expect("1000 a sweep\n"
                 "1000 b sweep\n"
                 "1050 b look at y x\n"
                 "1050 b who waits for what\n"
                 "1050 b beat, seen 1, waits\n"
                 "1100 a look at x y\n"
                 "1100 a who waits for what\n"
                 "1100 a beat, seen 7, waits\n"
                 "1200 a look at x y\n"
                 "1200 a who waits for what\n"
                 "1200 a beat, seen 8, waits\n"
                 "1300 a look at x y\n"
                 "1300 a who waits for what\n"
                 "1300 a beat, seen 9, waits\n"
                 "1300 b look at y x\n"
                 "1300 b who waits for what\n"
                 "1300 b who waits for what\n"
                 "1300 b beat, seen 2, waits\n"
                 "1400 a look at x y\n"
                 "1400 a who waits for what\n"
                 "1400 a beat, seen 10, waits\n"
                 "1450 a look at 1 sessions, trusting\n"
                 "1450 a is told HF_TIMEOUT: y was not free in time: held by b@:1\n"
                 "1450 a look at y since 3\n"
                 "1550 b look at y x\n"
                 "1550 b who waits for what\n"
                 "1550 b beat, seen 3, waits\n");
    stage_run(3000);
    stage_forget();
    stage_run(1500);
    stage_expect("4586 b look at x since 4\n"
                 "4733 a beat, seen 11, waits\n"
                 "4800 b look at y x\n"
                 "4800 b who waits for what\n"
                 "4800 b look at 1 sessions\n"
                 "4800 b beat, seen 16, waits\n"
                 "5050 b look at y x\n"
                 "5050 b who waits for what\n"
                 "5050 b beat, seen 17, waits\n"
                 "5233 a look at 1 sessions\n"
                 "5300 b look at y x\n"
                 "5300 b who waits for what\n"
                 "5300 b beat, seen 18, waits\n"
                 "5550 b look at y x\n"
                 "5550 b who waits for what\n"
                 "5550 b beat, seen 19, waits\n"
                 "5800 b look at y x\n"
                 "5800 b who waits for what\n"
                 "5800 b beat, seen 20, waits\n"
                 "5989 a look at y since 3\n");
    close_part(&y);
    stage_run(100);
    close_part(&also_wants_y);
    end();
}

static void test_nobody_looks_for_deadlocks(void **state)
{
    (void)state;
    let_two_cross("memory:crossed-unseen", (hf_options){.deadlock_ms = -1});
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "0 b begin\n"
                 "0 b y: enter\n"
                 "0 b has y\n"
                 "100 a y: enter\n"
                 "100 a hears a grant\n"
                 "100 b x: enter\n"
                 "100 b hears a grant\n"
                 "500 a look at 1 sessions\n"
                 "500 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1100 b look at y x\n"
                 "1100 b who waits for what\n"
                 "1100 b beat, seen 1, waits\n"
                 "1350 b look at y x\n"
                 "1350 b who waits for what\n"
                 "1350 b beat, seen 2, waits\n"
                 "1600 b look at y x\n"
                 "1600 b who waits for what\n"
                 "1600 b beat, seen 3, waits\n"
                 "1608 a look at y since 3\n"
                 "1610 b look at x since 4\n"
                 "1850 b look at y x\n"
                 "1850 b who waits for what\n"
                 "1850 b beat, seen 4, waits\n"
                 "2100 b look at y x\n"
                 "2100 b who waits for what\n"
                 "2100 b beat, seen 5, waits\n"
                 "2350 b look at y x\n"
                 "2350 b who waits for what\n"
                 "2350 b beat, seen 6, waits\n"
                 "2850 b look at y x\n"
                 "2850 b who waits for what\n"
                 "2850 b beat, seen 7, waits\n"
                 "3119 a look at y since 3\n"
                 "3122 b look at x since 4\n"
                 "3333 a beat, seen 1\n"
                 "3433 a look at 1 sessions\n"
                 "3433 b look at 1 sessions\n"
                 "3850 b look at y x\n"
                 "3850 b who waits for what\n"
                 "3850 b beat, seen 8, waits\n"
                 "4632 a look at y since 3\n"
                 "4636 b look at x since 4\n"
                 "5850 b look at y x\n"
                 "5850 b who waits for what\n"
                 "5850 b beat, seen 9, waits\n"
                 "6147 a look at y since 3\n"
                 "6152 b look at x since 4\n"
                 "6283 a look at 1 sessions\n"
                 "6666 a beat, seen 2\n"
                 "6766 b look at 1 sessions\n"
                 "7675 a look at y since 3\n"
                 "7683 b look at x since 4\n"
                 "9183 b beat, seen 10, waits\n"
                 "9183 b look at y x\n"
                 "9183 b who waits for what\n"
                 "9283 a look at 1 sessions\n"
                 "9433 b beat, seen 11, waits\n"
                 "9587 a look at y since 3\n"
                 "9598 b look at x since 4\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at x since 1\n"
                 "10000 b look at y since 2\n"
                 "10099 b look at 1 sessions\n"
                 "11979 a look at y since 3\n"
                 "11994 b look at x since 4\n"
                 "12100 b look at 1 sessions, trusting\n"
                 "12100 b x: leave-unused\n"
                 "12100 b is told HF_TIMEOUT: x was not free in time: held by a@:1\n"
                 "12600.1 b y: leave\n"
                 "12600.1 a hears a grant\n"
                 "12600.1 a has y\n"
                 "12766 b beat, seen 12\n"
                 "13100.2 a y: leave\n"
                 "13100.2 a x: leave\n"
                 "13332 a beat, seen 4\n"
                 "16099 b beat, seen 13\n"
                 "16665 a beat, seen 5\n"
                 "19432 b beat, seen 14\n"
                 "19998 a beat, seen 6\n");
    end();
}

/* It holds something that nobody wants: it looks less and less often. */
static void test_a_wait_in_no_deadlock(void **state)
{
    (void)state;
    begin("memory:uncrossed", (hf_options){.deadlock_ms = 400});
    play(take_part, &other, 0);
    one.name = "y";
    two.options.actor = "one";
    play(take_part, &one, 0);
    play(take_part, &two, 12000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "0 b has x\n"
                 "0 a begin\n"
                 "0 a y: enter\n"
                 "0 a has y\n"
                 "0 a x: enter\n"
                 "0 a hears a grant\n"
                 "400 a look at y x\n"
                 "400 a who waits for what\n"
                 "400 a look at 1 sessions\n"
                 "500 a look at y x\n"
                 "500 a who waits for what\n"
                 "600 a look at y x\n"
                 "600 a who waits for what\n"
                 "700 a look at y x\n"
                 "700 a who waits for what\n"
                 "800 a look at y x\n"
                 "800 a who waits for what\n"
                 "900 a look at y x\n"
                 "900 a who waits for what\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1100 a look at y x\n"
                 "1100 a who waits for what\n"
                 "1500 a look at y x\n"
                 "1500 a who waits for what\n"
                 "1508 a look at x since 3\n"
                 "2300 a look at y x\n"
                 "2300 a who waits for what\n"
                 "3017 a look at x since 3\n"
                 "3333 a beat, seen 1, waits\n"
                 "3333 b beat, seen 1\n"
                 "3433 a look at 1 sessions\n"
                 "3900 a look at y x\n"
                 "3900 a who waits for what\n"
                 "4527 a look at x since 3\n"
                 "6038 a look at x since 3\n"
                 "6666 a beat, seen 2, waits\n"
                 "6666 b beat, seen 2\n"
                 "6766 a look at 1 sessions\n"
                 "7100 a look at y x\n"
                 "7100 a who waits for what\n"
                 "7559 a look at x since 3\n"
                 "9461 a look at x since 3\n"
                 "9999 a beat, seen 3, waits\n"
                 "9999 b beat, seen 3\n"
                 "10000 a look at y since 2\n"
                 "10000 b look at x since 1\n"
                 "10099 a look at 1 sessions\n"
                 "10433 a look at y x\n"
                 "10433 a who waits for what\n"
                 "11840 a look at x since 3\n");
    end();
}

static bool say_finding(void *ctx, const hf_finding *finding)
{
    (void)ctx;
    stage_say("%s%s: %s", finding->wants_care ? "care: " : "", finding->topic, finding->text);
    return true;
}

static void test_what_the_doctor_finds(void **state)
{
    (void)state;
    hf_error err;
    static part first[2], second[2];
    begin("memory:doctor", (hf_options){.deadlock_ms = 100000});
    for (int i = 0; i < 2; i++) {
        first[i] = (part){.client = a, .name = i ? "y" : "x", .options.wait_ms = 150000};
        second[i] = (part){.client = b, .name = i ? "x" : "y", .options.wait_ms = 120000};
    }
    stage_act(take_both, first);
    stage_act(take_both, second);
    stage_run(60000);
    stage_forget();
    assert_int_equal(hf_doctor(a, say_finding, NULL, &err), HF_OK);
    stage_run(99);
    assert_int_equal(hf_doctor(a, say_finding, NULL, &err), HF_OK);
    stage_run(1);
    assert_int_equal(hf_doctor(a, say_finding, NULL, &err), HF_OK);
    stage_expect(
        "60000 reach: in memory: locks reach no further than this process\n"
        "60000 a who waits for what\n"
        "60000 a look at 2 sessions\n"
        "60094 b look at 1 sessions\n"
        "60099 reach: in memory: locks reach no further than this process\n"
        "60099 a who waits for what\n"
        "60099 a look at 2 sessions\n"
        "60100 reach: in memory: locks reach no further than this process\n"
        "60100 care: long wait: x: 1 wait, the first for 60 s; `holdfast why` says who holds it\n"
        "60100 care: long wait: y: 1 wait, the first for 60 s; `holdfast why` says who holds it\n"
        "60100 a who waits for what\n"
        "60100 a look at 2 sessions\n");
    stage_run(50000);
    stage_forget();
    assert_int_equal(hf_doctor(b, say_finding, NULL, &err), HF_OK);
    stage_expect("110100 reach: in memory: locks reach no further than this process\n"
                 "110100 care: long wait: y: 1 wait, the first for 110 s; `holdfast why` says who "
                 "holds it\n"
                 "110100 b who waits for what\n"
                 "110100 b look at 2 sessions\n");
    stage_run(100000);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lock_is_passed_on),
        cmocka_unit_test(test_a_young_record_has_no_block),
        cmocka_unit_test(test_a_recall_ends_it_soon),
        cmocka_unit_test(test_bounds_of_turns),
        cmocka_unit_test(test_who_does_not_wait_in_line),
        cmocka_unit_test(test_the_leader_gives_up),
        cmocka_unit_test(test_a_line_behind_another_session),
        cmocka_unit_test(test_a_holder_waits_with_its_own_ticket),
        cmocka_unit_test(test_a_lock_that_lingers),
        cmocka_unit_test(test_a_lock_that_lingers_is_recalled),
        cmocka_unit_test(test_the_next_holder_is_not_broken),
        cmocka_unit_test(test_two_that_wait_for_each_other),
        cmocka_unit_test(test_a_deadlock_that_ends_is_nobodys),
        cmocka_unit_test(test_nobody_looks_for_deadlocks),
        cmocka_unit_test(test_a_wait_in_no_deadlock),
        cmocka_unit_test(test_what_the_doctor_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
