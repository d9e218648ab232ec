/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_turns.c: a crowd of one client's threads that want one lock: what the next in line
 * inherits, for how long they pass the lock on while another session waits, and how locks end that
 * linger. Run by ctest. */
#include "client/script_bed.h"

#define CROWD 6

static hf_client *a, *b;
static part crowd[CROWD], other;
static const char *const called[CROWD] = {"one", "two", "three", "four", "five", "six"};

static int64_t turn_ms; /* of those in a crowd each has it for so long */

/* The record is old enough that its grants have blocks. */
static void begin(const char *uri, hf_options options)
{
    stage_begin();
    options.log = say_log;
    a = stage_client(uri, &options);
    b = stage_client(uri, NULL);
    for (size_t i = 0; i < CROWD; i++)
        crowd[i] = (part){.client = a, .name = "x", .options.actor = called[i]};
    other = (part){.client = b, .name = "x", .options.actor = "other"};
    play(take_part, &crowd[0], 0);
    play(close_part, &crowd[0], 1500);
    turn_ms = 100;
    stage_forget();
}

static void end(void)
{
    close_parts(
        (part *const[]){&crowd[0], &crowd[1], &crowd[2], &crowd[3], &crowd[4], &crowd[5], &other},
        CROWD + 1);
    stage_end();
}

static const hf_options defaults;

static void take_a_turn(void *arg)
{
    part *p = arg;
    if (stage_acquire(p->client, p->name, &p->options, &p->lock))
        return;
    stage_say("%s: %lld after %lld ms", p->options.actor, (long long)hf_lock_token(p->lock),
              (long long)hf_lock_waited_ms(p->lock));
    stage_sleep(turn_ms);
    close_part(p);
}

static void let_take_turns(size_t from, size_t n, int64_t ms)
{
    turn_ms = ms;
    for (size_t i = from; i < from + n; i++)
        stage_act(take_a_turn, &crowd[i]);
}

/* ---- What the next in line inherits ---- */

/* Its grant keeps tokens, and so those behind it need no enter of their own. */
static void test_a_ticket_is_inherited_with_its_block(void **state)
{
    (void)state;
    begin("memory:turns-inherited", defaults);
    play(take_part, &crowd[0], 0);
    crowd[1].options.wait_ms = 300;
    let_take_turns(1, 4, 20);
    stage_run(500);
    play(close_part, &crowd[0], 500);
    stage_expect("1500 a x: enter\n"
                 "1500 a has x\n"
                 "1500 a x: enter-yielding\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1800 a is told HF_TIMEOUT: x was not free in time: held by this very process\n"
                 "1800 a look at x since 4\n"
                 "2000.1 a x: leave\n"
                 "2000.1 a hears a grant\n"
                 "2000.1 a has x\n"
                 "2000.1 three: 1782579201048576 after 500 ms\n"
                 "2020.1 a has x\n"
                 "2020.1 four: 1782579201048577 after 520 ms\n"
                 "2040.1 a has x\n"
                 "2040.1 five: 1782579201048578 after 540 ms\n"
                 "2060.2 a x: leave+\n");
    end();
}

/* Two in line give up one after the other; the third has it. */
static void test_a_ticket_is_inherited_twice(void **state)
{
    (void)state;
    begin("memory:turns-twice", defaults);
    play(take_part, &other, 0);
    crowd[0].options.wait_ms = 300;
    crowd[1].options.wait_ms = 350;
    let_take_turns(0, 3, 20);
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
                 "1850 a look at 1 sessions, trusting\n"
                 "1850 a is told HF_TIMEOUT: x was not free in time: held by b@:1\n"
                 "1850 a look at x since 4\n"
                 "2250 a look at 1 sessions\n"
                 "2500 b sweep\n"
                 "2500.1 b x: leave\n"
                 "2500.1 a hears a grant\n"
                 "2500.1 a has x\n"
                 "2500.1 three: 1782579201572864 after 1000 ms\n"
                 "2520.2 a x: leave\n");
    end();
}

/* Nobody is left to inherit it: it is taken back. */
static void test_the_last_heir_takes_it_back(void **state)
{
    (void)state;
    begin("memory:turns-none-left", defaults);
    play(take_part, &other, 0);
    crowd[0].options.wait_ms = 300;
    crowd[1].options.wait_ms = 350;
    let_take_turns(0, 2, 20);
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
                 "1850 a look at 1 sessions, trusting\n"
                 "1850 a x: leave-unused\n"
                 "1850 a is told HF_TIMEOUT: x was not free in time: held by b@:1\n"
                 "2500 b sweep\n"
                 "2500.1 b x: leave\n");
    end();
}

/* Its enter got no answer: it may stand there, and may still come to. */
static void test_an_enter_without_an_answer_is_inherited(void **state)
{
    (void)state;
    begin("memory:turns-unanswered", defaults);
    play(take_part, &other, 0);
    crowd[0].options.wait_ms = 300;
    crowd[1].options.wait_ms = 350;
    stage_let_fail((stage_fault){
        .who = 'a', .call = FAULTY_STEP, .is = stage_is_enter, .times = 7, .after = HF_UNKNOWN});
    let_take_turns(0, 2, 20);
    stage_run(1000);
    play(close_part, &other, 12000);
    stage_expect("1500 b begin\n"
                 "1500 b x: enter\n"
                 "1500 b has x\n"
                 "1500 a x: enter\n"
                 "1500 a hears HF_UNKNOWN\n"
                 "1500 log: x: trying again: injected\n"
                 "1507 a x: enter\n"
                 "1507 a hears HF_UNKNOWN\n"
                 "1526 a x: enter\n"
                 "1526 a hears HF_UNKNOWN\n"
                 "1556 a x: enter\n"
                 "1556 a hears HF_UNKNOWN\n"
                 "1607 a x: enter\n"
                 "1607 a hears HF_UNKNOWN\n"
                 "1699 a x: enter\n"
                 "1699 a hears HF_UNKNOWN\n"
                 "1800 a is told HF_UNKNOWN: injected\n"
                 "1800 a look at x\n"
                 "1850 a look at 1 sessions, trusting\n"
                 "1850 a x: leave-unused\n"
                 "1850 a is told HF_TIMEOUT: x was not free in time: held by b@:1\n"
                 "2500 b sweep\n"
                 "2500.1 b x: leave\n"
                 "3333 a beat, seen 1\n"
                 "4833 b beat, seen 1\n"
                 "6666 a beat, seen 2\n"
                 "8166 b beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at x\n"
                 "11499 b beat, seen 3\n"
                 "13332 a beat, seen 4\n");
    end();
}

static void test_it_is_inherited_and_never_granted(void **state)
{
    (void)state;
    begin("memory:turns-inherited-lost", defaults);
    play(take_part, &other, 0);
    crowd[0].options.wait_ms = 300;
    let_take_turns(0, 2, 20);
    stage_run(400);
    stage_drop_record(b, "x");
    stage_run(5000);
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
                 "3309 a look at x since 4\n"
                 "3309 a x: enter\n"
                 "3309 a has x\n"
                 "3309 two: 1782579203469737 after 1809 ms\n"
                 "3309 a hears a grant\n"
                 "3329.1 a x: leave\n"
                 "3333 a beat, seen 1\n"
                 "4833 b beat, seen 1\n"
                 "6666 a beat, seen 2\n");
    end();
}

/* It is told how far it is. */
static void test_places_in_line(void **state)
{
    (void)state;
    begin("memory:turns-places", defaults);
    play(take_part, &other, 0);
    for (size_t i = 0; i < 4; i++) {
        crowd[i].options.on_wait = say_wait;
        stage_act(acquire_part, &crowd[i]);
    }
    stage_run(1100);
    play(close_part, &other, 200);
    for (size_t i = 0; i < 3; i++)
        play(close_part, &crowd[i], 200);
    stage_expect("1500 b begin\n"
                 "1500 b x: enter\n"
                 "1500 b has x\n"
                 "1500 a x: enter\n"
                 "1500 waits for x 0 ms, 1 of 1, held by 1: another session '', since then\n"
                 "1500 a hears a grant\n"
                 "1500 waits for x 0 ms, 1 of 1, held by 1: another session ''\n"
                 "1500 waits for x 0 ms, 2 of 2, held by 1: another session ''\n"
                 "1500 waits for x 0 ms, 3 of 3, held by 1: another session ''\n"
                 "1860 a look at 1 sessions\n"
                 "2500 b sweep\n"
                 "2500 waits for x 1000 ms, 1 of 1, held by 1: b@:1 '', since then\n"
                 "2500 waits for x 1000 ms, 1 of 1, held by 1: b@:1 ''\n"
                 "2500 waits for x 1000 ms, 2 of 2, held by 1: b@:1 ''\n"
                 "2500 waits for x 1000 ms, 3 of 3, held by 1: b@:1 ''\n"
                 "2600.1 b x: leave\n"
                 "2600.1 a hears a grant\n"
                 "2620 acquired x: yes\n"
                 "2620 waited 1120 ms\n"
                 "2620 a x: enter-yielding\n"
                 "2800.1 a x: leave\n"
                 "2800.1 a hears a grant\n"
                 "2820 acquired x: yes\n"
                 "2820 waited 1320 ms\n"
                 "3020 acquired x: yes\n"
                 "3020 waited 1500 ms\n"
                 "3220 acquired x: yes\n"
                 "3220 waited 1700 ms\n"
                 "3333 a beat, seen 1\n");
    end();
}

/* ---- While another session waits ---- */

/* Each time it is recalled a few more may have their turn. */
static void test_turns_are_counted_anew_for_each_recall(void **state)
{
    (void)state;
    begin("memory:turns-anew", (hf_options){.local_turns = 2});
    let_take_turns(0, 6, 10);
    stage_run(15);
    turn_ms = 10;
    stage_act(take_a_turn, &other);
    stage_run(500);
    stage_expect("1500 a x: enter\n"
                 "1500 a has x\n"
                 "1500 one: 1782579200524288 after 0 ms\n"
                 "1500 a x: enter-yielding\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1510.1 a x: leave\n"
                 "1510.1 a hears a grant\n"
                 "1510.1 a has x\n"
                 "1510.1 two: 1782579200534773 after 10 ms\n"
                 "1515 b begin\n"
                 "1515 b x: enter\n"
                 "1515 a hears a recall\n"
                 "1515 b sweep\n"
                 "1520.1 a has x\n"
                 "1520.1 three: 1782579200534774 after 20 ms\n"
                 "1530.1 a has x\n"
                 "1530.1 four: 1782579200534775 after 30 ms\n"
                 "1540.1 a x: leave+ enter-yielding\n"
                 "1540.1 b hears a grant\n"
                 "1540.1 b has x\n"
                 "1540.1 other: 1782579200566231 after 25 ms\n"
                 "1550.2 b x: leave\n"
                 "1550.2 a hears a grant\n"
                 "1550.2 a has x\n"
                 "1550.2 five: 1782579200576716 after 50 ms\n"
                 "1560.2 a has x\n"
                 "1560.2 six: 1782579200576717 after 60 ms\n"
                 "1570.3 a x: leave+\n");
    let_take_turns(0, 6, 10);
    stage_run(15);
    stage_act(take_a_turn, &other);
    stage_run(500);
    stage_expect("2015 a x: enter\n"
                 "2015 a has x\n"
                 "2015 one: 1782579201064304 after 0 ms\n"
                 "2015 a hears a grant\n"
                 "2015 a x: enter-yielding\n"
                 "2025.1 a x: leave\n"
                 "2025.1 a hears a grant\n"
                 "2025.1 a has x\n"
                 "2025.1 two: 1782579201074790 after 10 ms\n"
                 "2030 b x: enter\n"
                 "2030 a hears a recall\n"
                 "2035.1 a has x\n"
                 "2035.1 three: 1782579201074791 after 20 ms\n"
                 "2045.1 a has x\n"
                 "2045.1 four: 1782579201074792 after 30 ms\n"
                 "2055.1 a x: leave+ enter-yielding\n"
                 "2055.1 b hears a grant\n"
                 "2055.1 b has x\n"
                 "2055.1 other: 1782579201106247 after 25 ms\n"
                 "2065.2 b x: leave\n"
                 "2065.2 a hears a grant\n"
                 "2065.2 a has x\n"
                 "2065.2 five: 1782579201116733 after 50 ms\n"
                 "2075.2 a has x\n"
                 "2075.2 six: 1782579201116734 after 60 ms\n"
                 "2085.3 a x: leave+\n");
    end();
}

static void test_turns_end_in_time(void **state)
{
    (void)state;
    begin("memory:turns-in-time", defaults);
    let_take_turns(0, 6, 45);
    stage_run(60);
    stage_act(take_a_turn, &other);
    stage_run(700);
    stage_expect("1500 a x: enter\n"
                 "1500 a has x\n"
                 "1500 one: 1782579200524288 after 0 ms\n"
                 "1500 a x: enter-yielding\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1545.1 a x: leave\n"
                 "1545.1 a hears a grant\n"
                 "1545.1 a has x\n"
                 "1545.1 two: 1782579200571473 after 45 ms\n"
                 "1560 b begin\n"
                 "1560 b x: enter\n"
                 "1560 a hears a recall\n"
                 "1560 b sweep\n"
                 "1590.1 a has x\n"
                 "1590.1 three: 1782579200571474 after 90 ms\n"
                 "1635.1 a has x\n"
                 "1635.1 four: 1782579200571475 after 135 ms\n"
                 "1660 a x: enter-yielding\n"
                 "1680.2 a x: leave+\n"
                 "1680.2 b hears a grant\n"
                 "1680.2 b has x\n"
                 "1680.2 other: 1782579200713031 after 120 ms\n"
                 "1725.3 b x: leave\n"
                 "1725.3 a hears a grant\n"
                 "1725.3 a has x\n"
                 "1725.3 five: 1782579200760217 after 225 ms\n"
                 "1770.3 a has x\n"
                 "1770.3 six: 1782579200760218 after 270 ms\n"
                 "1815.4 a x: leave+\n");
    end();
}

/* Without notices nobody tells that another waits: it is as if one always did. */
static void test_without_notices_few_have_their_turn(void **state)
{
    (void)state;
    begin("memory:turns-deaf", (hf_options){.local_turns = 2});
    stage_store(a)->is_deaf = true;
    let_take_turns(0, 6, 10);
    stage_run(15);
    stage_act(take_a_turn, &other);
    stage_run(1500);
    stage_expect("1500 a x: enter\n"
                 "1500 a has x\n"
                 "1500 one: 1782579200524288 after 0 ms\n"
                 "1500 a x: enter-yielding\n"
                 "1500 log: there are no notices, polling instead: there are no notices\n"
                 "1500 a look at x since 4\n"
                 "1510.1 a x: leave\n"
                 "1515 b begin\n"
                 "1515 b x: enter\n"
                 "1517 a look at x since 4\n"
                 "1517 a has x\n"
                 "1517 two: 1782579200534773 after 17 ms\n"
                 "1527 a has x\n"
                 "1527 three: 1782579200534774 after 27 ms\n"
                 "1537 a has x\n"
                 "1537 four: 1782579200534775 after 37 ms\n"
                 "1547 a x: leave+ enter-yielding\n"
                 "1547 b hears a grant\n"
                 "1547 b has x\n"
                 "1547 other: 1782579200573571 after 32 ms\n"
                 "1554 a look at x since 7\n"
                 "1557.1 b x: leave\n"
                 "1568 a look at x since 7\n"
                 "1568 a has x\n"
                 "1568 five: 1782579200584056 after 68 ms\n"
                 "1578 a has x\n"
                 "1578 six: 1782579200584057 after 78 ms\n"
                 "1588.1 a x: leave+\n"
                 "2515 b sweep\n");
    end();
}

/* A look finds the recall that was never heard. */
static void test_a_recall_that_is_not_heard(void **state)
{
    (void)state;
    begin("memory:turns-unheard", (hf_options){.ttl_ms = 3000});
    let_take_turns(0, 3, 2500);
    stage_run(15);
    stage_let_listening_fail(1000);
    stage_act(take_a_turn, &other);
    stage_run(9000);
    stage_expect("1500 a x: enter\n"
                 "1500 a has x\n"
                 "1500 one: 1782579200524288 after 0 ms\n"
                 "1500 a x: enter-yielding\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1515 b begin\n"
                 "1515 b x: enter\n"
                 "1515 b sweep\n"
                 "1635 b look at 1 sessions\n"
                 "2000 a beat, seen 2\n"
                 "2100 b look at 1 sessions\n"
                 "2500 log: listening for notices failed, trying again: nothing is heard\n"
                 "2542 log: listening for notices failed, trying again: nothing is heard\n"
                 "2610 log: listening for notices failed, trying again: nothing is heard\n"
                 "2729 log: listening for notices failed, trying again: nothing is heard\n"
                 "2949 log: listening for notices failed, trying again: nothing is heard\n"
                 "3000 a beat, seen 3, waits\n"
                 "3006 a look at x since 4\n"
                 "3025 b look at x since 5\n"
                 "3100 b look at 1 sessions\n"
                 "3371 log: listening for notices failed, trying again: nothing is heard\n"
                 "3896 log: listening for notices failed, trying again: nothing is heard\n"
                 "4000 a beat, seen 4, waits\n"
                 "4000.1 a x: leave\n"
                 "4100 b look at 1 sessions\n"
                 "4423 log: listening for notices failed, trying again: nothing is heard\n"
                 "4529 a look at x since 4\n"
                 "4529 a has x\n"
                 "4529 two: 1782579203145728 after 3029 ms\n"
                 "4529 log: listening for notices failed, trying again: nothing is heard\n"
                 "4549 b look at x since 5\n"
                 "4629 a x: enter-yielding\n"
                 "4629 log: listening for notices failed, trying again: nothing is heard\n"
                 "4848 b beat, seen 1, waits\n"
                 "5000 a beat, seen 5, waits\n"
                 "5029 a look at 1 sessions\n"
                 "5100 b look at 1 sessions\n"
                 "5165 log: listening for notices failed, trying again: nothing is heard\n"
                 "5703 log: listening for notices failed, trying again: nothing is heard\n"
                 "6000 a beat, seen 6, waits\n"
                 "6000 a look at x since 4\n"
                 "6082 b look at x since 5\n"
                 "6082 b look at 1 sessions\n"
                 "6164 a look at x since 7\n"
                 "6243 log: listening for notices failed, trying again: nothing is heard\n"
                 "6787 log: listening for notices failed, trying again: nothing is heard\n"
                 "7000 a beat, seen 7, waits\n"
                 "7000 a look at x since 4\n"
                 "7029.1 a x: leave+\n"
                 "7100 b look at 1 sessions\n"
                 "7333 log: listening for notices failed, trying again: nothing is heard\n"
                 "7624 b look at x since 5\n"
                 "7624 b has x\n"
                 "7624 other: 1782579206321864 after 6109 ms\n"
                 "7707 a look at x since 7\n"
                 "7881 log: listening for notices failed, trying again: nothing is heard\n"
                 "8000 a beat, seen 8, waits\n"
                 "8181 b beat, seen 2\n"
                 "8281 a look at 1 sessions\n"
                 "8433 log: listening for notices failed, trying again: nothing is heard\n"
                 "8987 log: listening for notices failed, trying again: nothing is heard\n"
                 "9000 a beat, seen 9, waits\n"
                 "9258 a look at x since 7\n"
                 "9543 log: listening for notices failed, trying again: nothing is heard\n"
                 "10000 a beat, seen 10, waits\n"
                 "10102 log: listening for notices failed, trying again: nothing is heard\n"
                 "10124.1 b x: leave\n");
    end();
}

/* Twice a turn takes so long that the next in line enters by itself. */
static void test_turns_that_take_long(void **state)
{
    (void)state;
    begin("memory:turns-long", defaults);
    let_take_turns(0, 4, 300);
    stage_run(310);
    stage_act(take_a_turn, &other);
    stage_run(700);
    turn_ms = 300;
    stage_act(take_a_turn, &other);
    stage_run(2000);
    stage_expect("1500 a x: enter\n"
                 "1500 a has x\n"
                 "1500 one: 1782579200524288 after 0 ms\n"
                 "1500 a x: enter-yielding\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1800.1 a x: leave\n"
                 "1800.1 a hears a grant\n"
                 "1800.1 a has x\n"
                 "1800.1 two: 1782579200838860 after 300 ms\n"
                 "1810 b begin\n"
                 "1810 b x: enter\n"
                 "1810 a hears a recall\n"
                 "1810 b sweep\n"
                 "1910 a x: enter-yielding\n"
                 "2100.2 a x: leave+\n"
                 "2100.2 b hears a grant\n"
                 "2100.2 b has x\n"
                 "2100.2 other: 1782579201153433 after 290 ms\n"
                 "2310 a look at 1 sessions\n"
                 "2400.3 b x: leave\n"
                 "2400.3 a hears a grant\n"
                 "2400.3 a has x\n"
                 "2400.3 three: 1782579201468006 after 900 ms\n"
                 "2510 b x: enter\n"
                 "2510 a hears a recall\n"
                 "2610 a x: enter-yielding\n"
                 "2700.4 a x: leave+\n"
                 "2700.4 b hears a grant\n"
                 "2700.4 b has x\n"
                 "2700.4 other: 1782579201782579 after 190 ms\n"
                 "3000.5 b x: leave\n"
                 "3000.5 a hears a grant\n"
                 "3000.5 a has x\n"
                 "3000.5 four: 1782579202097152 after 1500 ms\n"
                 "3300.6 a x: leave+\n"
                 "3333 a beat, seen 1\n");
    end();
}

/* Who holds another lock has a ticket of its own only where it has to wait. */
static void test_a_holder_of_another_leads(void **state)
{
    (void)state;
    part held = {.name = "y", .options.actor = "one"};
    begin("memory:turns-holder", defaults);
    held.client = a;
    play(take_part, &held, 0);
    play(take_part, &other, 0);
    let_take_turns(0, 3, 20);
    stage_run(100);
    play(close_part, &other, 500);
    stage_expect("1500 a y: enter\n"
                 "1500 a has y\n"
                 "1500 b begin\n"
                 "1500 b x: enter\n"
                 "1500 b has x\n"
                 "1500 a x: enter\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1600.1 b x: leave\n"
                 "1600.1 a hears a grant\n"
                 "1600.1 a has x\n"
                 "1600.1 one: 1782579200629145 after 100 ms\n"
                 "1600.1 a x: enter-yielding\n"
                 "1620.2 a x: leave\n"
                 "1620.2 a hears a grant\n"
                 "1620.2 a has x\n"
                 "1620.2 two: 1782579200650117 after 120 ms\n"
                 "1640.2 a has x\n"
                 "1640.2 three: 1782579200650118 after 140 ms\n"
                 "1660.3 a x: leave+\n");
    close_part(&held);
    end();
}

/* ---- Lingering ---- */

static part y;

static void linger(part *p, int64_t ms)
{
    p->options.linger_ms = ms;
    stage_act(take_a_turn, p);
}

/* Grants of y have blocks, too. */
static void begin_with_two(const char *uri)
{
    begin(uri, defaults);
    y = (part){.client = a, .name = "y", .options.actor = "y"};
    play(take_part, &y, 0);
    play(close_part, &y, 1500);
    stage_forget();
}

static void let_two_linger(const char *uri)
{
    begin_with_two(uri);
    linger(&crowd[0], 60000);
    linger(&y, 60000);
    stage_run(1000);
    stage_expect("3000 a x: enter-yielding\n"
                 "3000 a has x\n"
                 "3000 one: 1782579202097152 after 0 ms\n"
                 "3000 a hears a grant\n"
                 "3000 a hears a grant\n"
                 "3000 a hears a grant\n"
                 "3000 a y: enter-yielding\n"
                 "3000 a has y\n"
                 "3000 y: 1782579202097152 after 0 ms\n"
                 "3000 a hears a grant\n"
                 "3333 a beat, seen 1\n");
}

static void test_two_linger_each_for_its_time(void **state)
{
    (void)state;
    begin_with_two("memory:linger-two");
    linger(&crowd[0], 3000);
    linger(&y, 700);
    stage_run(400);
    play(take_a_turn, &crowd[1], 5000);
    stage_expect("3000 a x: enter-yielding\n"
                 "3000 a has x\n"
                 "3000 one: 1782579202097152 after 0 ms\n"
                 "3000 a hears a grant\n"
                 "3000 a hears a grant\n"
                 "3000 a hears a grant\n"
                 "3000 a y: enter-yielding\n"
                 "3000 a has y\n"
                 "3000 y: 1782579202097152 after 0 ms\n"
                 "3000 a hears a grant\n"
                 "3333 a beat, seen 1\n"
                 "3400 a has x\n"
                 "3400 two: 1782579202097153 after 0 ms\n"
                 "3500.1 a x: leave+\n"
                 "3800 a y: leave+\n"
                 "6666 a beat, seen 2\n");
    linger(&y, 3000);
    linger(&crowd[0], 700);
    stage_run(5000);
    stage_expect("8400 a y: enter-yielding\n"
                 "8400 a has y\n"
                 "8400 y: 1782579207759462 after 0 ms\n"
                 "8400 a hears a grant\n"
                 "8400 a x: enter-yielding\n"
                 "8400 a has x\n"
                 "8400 one: 1782579207759462 after 0 ms\n"
                 "8400 a hears a grant\n"
                 "9200 a x: leave+\n"
                 "9999 a beat, seen 3\n"
                 "11500 a y: leave+\n"
                 "13332 a beat, seen 4\n");
    end();
}

/* Whoever wants it next says for how long it lingers. */
static void test_the_next_does_not_let_it_linger(void **state)
{
    (void)state;
    begin("memory:linger-next", defaults);
    linger(&crowd[0], 60000);
    stage_run(1000);
    play(take_a_turn, &crowd[1], 1000);
    stage_expect("1500 a x: enter-yielding\n"
                 "1500 a has x\n"
                 "1500 one: 1782579200524288 after 0 ms\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "2500 a has x\n"
                 "2500 two: 1782579200524289 after 0 ms\n"
                 "2600.1 a x: leave+\n"
                 "3333 a beat, seen 1\n");
    end();
}

static void test_one_that_lingers_is_had_by_a_try(void **state)
{
    (void)state;
    begin("memory:linger-tried", defaults);
    linger(&crowd[0], 60000);
    stage_run(1000);
    crowd[1].options = (hf_lock_options){
        .actor = "two", .wait_ms = HF_TRY, .on_lost = say_loss, .why = "audit", .linger_ms = 500};
    play(take_part, &crowd[1], 0);
    play(check_part, &crowd[1], 0);
    stage_mark_dead(b, a->session.self.id);
    stage_run(3000);
    stage_expect("1500 a x: enter-yielding\n"
                 "1500 a has x\n"
                 "1500 one: 1782579200524288 after 0 ms\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "2500 a has x\n"
                 "2500 x: 7475 ms left\n"
                 "3333 a beat, seen 1\n"
                 "3333 a hears HF_LOST\n"
                 "3333 a look at 1 sessions\n"
                 "3333 a end, leaving tickets\n"
                 "3333 x is lost, 0 ms left: the session is gone from the store: this session was "
                 "marked dead or removed by another\n");
    end();
}

/* Its tokens come to an end. */
static void test_one_that_lingers_without_tokens_is_left(void **state)
{
    (void)state;
    stage_begin();
    a = stage_client("memory:linger-young", NULL);
    b = stage_client("memory:linger-young", NULL);
    crowd[0] = (part){.client = a, .name = "x", .options = {.actor = "one"}};
    crowd[1] = (part){.client = a, .name = "x", .options = {.actor = "two"}};
    turn_ms = 10;
    linger(&crowd[0], 60000);
    stage_run(100);
    play(take_a_turn, &crowd[1], 100);
    stage_expect("0 a begin\n"
                 "0 a x: enter-yielding\n"
                 "0 a has x\n"
                 "0 one: 1782579200000000 after 0 ms\n"
                 "10.1 a x: leave\n"
                 "100 a x: enter\n"
                 "100 a has x\n"
                 "100 two: 1782579200000001 after 0 ms\n"
                 "110.1 a x: leave\n");
    stage_end();
}

static void test_one_that_lingers_is_verified(void **state)
{
    (void)state;
    begin("memory:linger-verified", (hf_options){.ttl_ms = 3000});
    linger(&crowd[0], 60000);
    stage_run(4000);
    stage_drop_record(a, "x");
    stage_run(2000);
    play(take_a_turn, &crowd[1], 1000);
    stage_expect("1500 a x: enter-yielding\n"
                 "1500 a has x\n"
                 "1500 one: 1782579200524288 after 0 ms\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "2000 a beat, seen 2\n"
                 "2500 a look at x since 3\n"
                 "3000 a beat, seen 3\n"
                 "3500 a look at x since 3\n"
                 "4000 a beat, seen 4\n"
                 "4500 a look at x since 3\n"
                 "5000 a beat, seen 5\n"
                 "5500 a look at x since 3\n"
                 "6000 a beat, seen 6\n"
                 "6500 a look at x since 3\n"
                 "6500 a x: leave+\n"
                 "6500 a look at x for sure\n"
                 "7000 a beat, seen 7\n"
                 "7500 a x: enter\n"
                 "7500 a has x\n"
                 "7500 two: 1782579207864320 after 0 ms\n"
                 "7501 a hears a grant\n"
                 "7600.1 a x: leave\n"
                 "8000 a beat, seen 8\n");
    end();
}

static void test_an_upgrade_has_no_tokens_to_linger_with(void **state)
{
    (void)state;
    begin("memory:linger-changed", defaults);
    crowd[0].options.linger_ms = 60000;
    play(take_part, &crowd[0], 10);
    play(downgrade_part, &crowd[0], 10);
    play(upgrade_part, &crowd[0], 10);
    play(check_part, &crowd[0], 0);
    play(close_part, &crowd[0], 500);
    play(take_a_turn, &crowd[1], 500);
    stage_expect("1500 a x: enter-yielding\n"
                 "1500 a has x\n"
                 "1500 a hears a grant\n"
                 "1500 a hears a grant\n"
                 "1510 a x: lower to 1\n"
                 "1510 downgraded x: yes\n"
                 "1520 a x: enter-or-not instead\n"
                 "1520 upgraded x: yes\n"
                 "1520 a hears a grant\n"
                 "1530 x: 8445 ms left\n"
                 "1530.1 a x: leave\n"
                 "2030 a x: enter\n"
                 "2030 a has x\n"
                 "2030 two: 1782579201080033 after 0 ms\n"
                 "2130.1 a x: leave\n"
                 "2521 a hears a grant\n");
    end();
}

static void test_a_store_that_may_have_missed_news_recalls_all(void **state)
{
    (void)state;
    let_two_linger("memory:linger-missed");
    stage_tell(a, (hf_notice){.kind = HF_NOTICE_LOOK});
    stage_run(1000);
    stage_expect("4000 a hears that it should look\n"
                 "4000 a y: leave+\n"
                 "4000 a x: leave+\n");
    end();
}

static void test_a_recall_is_for_one_name(void **state)
{
    (void)state;
    let_two_linger("memory:linger-named");
    stage_tell(a, (hf_notice){.kind = HF_NOTICE_RECALL, .name = "y"});
    stage_run(1000);
    stage_tell(a, (hf_notice){.kind = HF_NOTICE_RECALL, .name = "z"});
    stage_run(1000);
    stage_expect("4000 a hears a recall\n"
                 "4000 a y: leave+\n"
                 "5000 a hears a recall\n");
    end();
}

/* Another session waits for it already when it is released. */
static void test_what_is_wanted_elsewhere_does_not_linger(void **state)
{
    (void)state;
    begin("memory:turns-wanted", defaults);
    crowd[0].options.linger_ms = 5000;
    play(take_part, &crowd[0], 100);
    play(take_part, &other, 100);
    stage_forget();
    play(close_part, &crowd[0], 100);
    stage_expect("1700.1 a x: leave+\n"
                 "1700.1 b hears a grant\n"
                 "1700.1 b has x\n");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_ticket_is_inherited_with_its_block),
        cmocka_unit_test(test_a_ticket_is_inherited_twice),
        cmocka_unit_test(test_the_last_heir_takes_it_back),
        cmocka_unit_test(test_an_enter_without_an_answer_is_inherited),
        cmocka_unit_test(test_it_is_inherited_and_never_granted),
        cmocka_unit_test(test_places_in_line),
        cmocka_unit_test(test_turns_are_counted_anew_for_each_recall),
        cmocka_unit_test(test_turns_end_in_time),
        cmocka_unit_test(test_without_notices_few_have_their_turn),
        cmocka_unit_test(test_a_recall_that_is_not_heard),
        cmocka_unit_test(test_turns_that_take_long),
        cmocka_unit_test(test_a_holder_of_another_leads),
        cmocka_unit_test(test_two_linger_each_for_its_time),
        cmocka_unit_test(test_the_next_does_not_let_it_linger),
        cmocka_unit_test(test_one_that_lingers_is_had_by_a_try),
        cmocka_unit_test(test_one_that_lingers_without_tokens_is_left),
        cmocka_unit_test(test_one_that_lingers_is_verified),
        cmocka_unit_test(test_an_upgrade_has_no_tokens_to_linger_with),
        cmocka_unit_test(test_a_store_that_may_have_missed_news_recalls_all),
        cmocka_unit_test(test_a_recall_is_for_one_name),
        cmocka_unit_test(test_what_is_wanted_elsewhere_does_not_linger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
