/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_waiting.c: what a client that waits for a lock sends, and when: enters, looks at the
 * record and at the sessions ahead, the marks of the dead; and what its caller is told. Run by
 * ctest. */
#include "client/script_bed.h"

static hf_client *a, *b, *c;
static part x, waits, more;

/* a has x at 0. */
static void begin(const char *uri, hf_options options)
{
    stage_begin();
    options.log = say_log;
    a = stage_client(uri, NULL);
    b = stage_client(uri, &options);
    x = (part){.client = a, .name = "x", .options = {.why = "audit"}};
    waits = (part){.client = b, .name = "x", .options = {.wait_ms = 60000}};
    more = (part){.client = b, .name = "y"};
}

static void hold(const char *uri, hf_options options)
{
    begin(uri, options);
    play(take_part, &x, 0);
    stage_forget();
}

static void end(void)
{
    close_parts((part *const[]){&x, &waits, &more}, 3);
    stage_end();
}

static const hf_options defaults;

static void cut_off_but_its_end(char who)
{
    static const faulty_call calls[] = {FAULTY_BEAT, FAULTY_STEP, FAULTY_LOOK,
                                        FAULTY_SESSIONS_LOOK};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        stage_let_fail(
            (stage_fault){.who = who, .call = calls[i], .times = 100000, .before = HF_UNREACHABLE});
}

/* From now on nothing that a client sends arrives. The end of its session is refused, so that it is
 * not sent for ever. */
static void cut_off(char who)
{
    stage_let_fail((stage_fault){
        .who = who, .call = FAULTY_SESSIONS_LOOK, .times = 100000, .before = HF_DENIED});
    cut_off_but_its_end(who);
    stage_let_fail((stage_fault){.who = who, .call = FAULTY_END, .before = HF_DENIED});
}

/* ---- Waiting ---- */

static void test_it_is_woken_by_a_notice(void **state)
{
    (void)state;
    hold("memory:woken", defaults);
    stage_tell_listening();
    waits.options.on_wait = say_wait;
    stage_act(acquire_part, &waits);
    stage_run(5500);
    play(close_part, &x, 100);
    play(tell_previous, &waits, 0);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "0 waits for x 0 ms, 1 of 1, held by 1: another session 'audit', since then\n"
                 "0 b listens for 1000 ms, since 2\n"
                 "360 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1000 b listens for 1000 ms, since 2\n"
                 "1000 waits for x 1000 ms, 1 of 1, held by 1: a@:1 'audit', since then\n"
                 "1507 b look at x since 2\n"
                 "2000 b listens for 1000 ms, since 2\n"
                 "2000 waits for x 2000 ms, 1 of 1, held by 1: a@:1 'audit', since then\n"
                 "3000 b listens for 1000 ms, since 2\n"
                 "3000 waits for x 3000 ms, 1 of 1, held by 1: a@:1 'audit', since then\n"
                 "3015 b look at x since 2\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1, waits\n"
                 "3395 b look at 1 sessions\n"
                 "4000 b listens for 1000 ms, since 2\n"
                 "4000 waits for x 4000 ms, 1 of 1, held by 1: a@:1 'audit', since then\n"
                 "4524 b look at x since 2\n"
                 "5000 b listens for 1000 ms, since 2\n"
                 "5000 waits for x 5000 ms, 1 of 1, held by 1: a@:1 'audit', since then\n"
                 "5500.1 a x: leave\n"
                 "5500.1 b hears a grant\n"
                 "5520 acquired x: yes\n"
                 "5520 waited 5520 ms\n"
                 "5600 b look at x since 3\n"
                 "5600 before x: a@:1, outcome 1, ''\n");
    play(close_part, &waits, 12000);
    stage_expect("5600.1 b x: leave\n"
                 "6000.1 b listens for 1 ms, since 2\n"
                 "6501.1 b listens for 1 ms, since 2\n"
                 "6666 a beat, seen 2\n"
                 "6666 b beat, seen 2\n"
                 "7002.1 b listens for 1 ms, since 2\n"
                 "7503.1 b listens for 1 ms, since 2\n"
                 "8004.1 b listens for 1 ms, since 2\n"
                 "8505.1 b listens for 1 ms, since 2\n"
                 "9006.1 b listens for 1 ms, since 2\n"
                 "9507.1 b listens for 1 ms, since 2\n"
                 "9999 a beat, seen 3\n"
                 "9999 b beat, seen 3\n"
                 "10008.1 b listens for 1 ms, since 2\n"
                 "10509.1 b listens for 1 ms, since 2\n"
                 "11010.1 b listens for 1 ms, since 2\n"
                 "11511.1 b listens for 1 ms, since 2\n"
                 "12012.1 b listens for 1 ms, since 2\n"
                 "12513.1 b listens for 1 ms, since 2\n"
                 "13014.1 b listens for 1 ms, since 2\n"
                 "13332 a beat, seen 4\n"
                 "13332 b beat, seen 4\n"
                 "13515.1 b listens for 1 ms, since 2\n"
                 "14016.1 b listens for 1 ms, since 2\n"
                 "14517.1 b listens for 1 ms, since 2\n"
                 "15018.1 b listens for 1 ms, since 2\n"
                 "16665 a beat, seen 5\n"
                 "16665 b beat, seen 5\n");
    end();
}

static void test_who_may_not_wait(void **state)
{
    (void)state;
    hold("memory:tries", defaults);
    waits.options.wait_ms = HF_TRY;
    play(take_part, &waits, 0);
    stage_expect("0 b begin\n"
                 "0 b x: enter-or-not\n"
                 "0 b look at 1 sessions, trusting\n"
                 "0 b is told HF_HELD: x was not free: held by a@:1 (audit)\n");
    waits.options.wait_ms = 1;
    play(take_part, &waits, 100);
    stage_expect("0 b x: enter\n"
                 "1 b look at 1 sessions, trusting\n"
                 "1 b x: leave-unused\n"
                 "1 b is told HF_TIMEOUT: x was not free in time: held by a@:1 (audit)\n");
    waits.options.wait_ms = 5000;
    play(take_part, &waits, 6000);
    stage_expect("100 b x: enter\n"
                 "500 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1610 b look at x since 4\n"
                 "3121 b look at x since 4\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1, waits\n"
                 "3433 b look at 1 sessions\n"
                 "4633 b look at x since 4\n"
                 "5100 b look at 1 sessions, trusting\n"
                 "5100 b x: leave-unused\n"
                 "5100 b is told HF_TIMEOUT: x was not free in time: held by a@:1 (audit)\n");
    x.name = "z", x.options.why = NULL;
    hf_lock_close(x.lock);
    play(take_part, &x, 0);
    waits.name = "z";
    stage_forget();
    waits.options.wait_ms = HF_TRY;
    play(take_part, &waits, 0);
    stage_expect("6100 b z: enter-or-not\n"
                 "6100 b look at 1 sessions, trusting\n"
                 "6100 b is told HF_HELD: z was not free: held by a@:1\n");
    end();
}

static void test_limits_that_disagree(void **state)
{
    (void)state;
    hold("memory:limits", defaults);
    waits.options = (hf_lock_options){.permits = 1, .limit = 2, .wait_ms = HF_TRY};
    play(take_part, &waits, 0);
    stage_expect("0 b begin\n"
                 "0 b x: enter-or-not 1\n"
                 "0 b look at 1 sessions, trusting\n"
                 "0 b is told HF_LIMIT: x is in use with no limit (as a mutex), not with a limit "
                 "of 2: all users of a lock must give a limit, or none\n");
    waits.options.wait_ms = 0;
    play(take_part, &waits, 5000);
    stage_expect("0 b x: enter 1\n"
                 "0 b look at 1 sessions\n"
                 "500 b x: enter 1\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1000 b x: enter 1\n"
                 "1500 b x: enter 1\n"
                 "2000 b x: enter 1\n"
                 "2500 b x: enter 1\n"
                 "3000 b x: enter 1\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1, waits\n"
                 "3433 b look at 1 sessions\n"
                 "3433 b is told HF_LIMIT: x is in use with no limit (as a mutex), not with a "
                 "limit of 2: all users of a lock must give a limit, or none\n");
    waits.options.wait_ms = 300;
    play(take_part, &waits, 1000);
    stage_expect("5000 b x: enter 1\n"
                 "5000 b look at 1 sessions\n"
                 "5300 b is told HF_LIMIT: x is in use with no limit (as a mutex), not with a "
                 "limit of 2: all users of a lock must give a limit, or none\n");
    more = waits, more.client = a;
    play(take_part, &more, 0);
    stage_expect("6000 a x: enter 1\n"
                 "6000 a x: leave-unused\n"
                 "6000 a look at x for sure\n"
                 "6000 a is told HF_LIMIT: x is in use with no limit (as a mutex), not with a "
                 "limit of 2: all users of a lock must give a limit, or none\n");
    end();
}

/* The limit is that of a dead session. */
static void test_a_limit_of_the_dead(void **state)
{
    (void)state;
    hold("memory:dead-limit", defaults);
    cut_off('a');
    waits.options = (hf_lock_options){.permits = 1, .limit = 2};
    play(take_part, &waits, 15000);
    stage_expect("0 b begin\n"
                 "0 b x: enter 1\n"
                 "0 b look at 1 sessions\n"
                 "500 b x: enter 1\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1000 b x: enter 1\n"
                 "1500 b x: enter 1\n"
                 "2000 b x: enter 1\n"
                 "2500 b x: enter 1\n"
                 "3000 b x: enter 1\n"
                 "3333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "3333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "3333 b beat, seen 1, waits\n"
                 "3433 b look at 1 sessions\n"
                 "3500 b x: enter 1\n"
                 "3833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "4000 b x: enter 1\n"
                 "4333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "4500 b x: enter 1\n"
                 "4833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "5000 b x: enter 1\n"
                 "5099 b look at 1 sessions\n"
                 "5333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "5500 b x: enter 1\n"
                 "5833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "6000 b x: enter 1\n"
                 "6333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "6500 b x: enter 1\n"
                 "6666 b beat, seen 2, waits\n"
                 "6765 b look at 1 sessions\n"
                 "6833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "7000 b x: enter 1\n"
                 "7333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "7500 b x: enter 1\n"
                 "7833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "8000 b x: enter 1\n"
                 "8333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "8431 b look at 1 sessions\n"
                 "8500 b x: enter 1\n"
                 "8833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "9000 b x: enter 1\n"
                 "9333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "9500 b x: enter 1\n"
                 "9833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "9975 a look at 1 sessions: not sent, HF_DENIED\n"
                 "9975 a end, leaving tickets: not sent, HF_DENIED\n"
                 "9999 b beat, seen 3, waits\n"
                 "10000 b x: enter 1\n"
                 "10000 b look at 1 sessions\n"
                 "10025 b look at 1 sessions\n"
                 "10025 b mark\n"
                 "10025 log: x: a session in its way was marked dead\n"
                 "10025 b x: bury\n"
                 "10025 b x: enter 1\n"
                 "10025 b has x\n"
                 "10521 b hears that it should look\n"
                 "10521 b hears a grant\n"
                 "13332 b beat, seen 4\n");
    end();
}

/* ---- The dead ---- */

static void test_a_holder_that_has_died(void **state)
{
    (void)state;
    hold("memory:died", defaults);
    stage_run(5000);
    cut_off('a');
    stage_forget();
    play(take_part, &waits, 20000);
    play(tell_previous, &waits, 0);
    stage_expect("5000 b begin\n"
                 "5000 b x: enter\n"
                 "5400 b look at 1 sessions\n"
                 "6000 b sweep\n"
                 "6507 b look at x since 2\n"
                 "6666 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "6666 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "6766 b look at 1 sessions\n"
                 "7166 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "7666 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "8015 b look at x since 2\n"
                 "8166 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "8333 b beat, seen 1, waits\n"
                 "8432 b look at 1 sessions\n"
                 "8666 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "9166 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "9524 b look at x since 2\n"
                 "9666 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "10000 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "10098 b look at 1 sessions\n"
                 "10166 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "10500 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "10666 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "11000 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "11034 b look at x since 2\n"
                 "11166 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "11500 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "11666 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "11666 b beat, seen 2, waits\n"
                 "11764 b look at 1 sessions\n"
                 "12000 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "12166 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "12500 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "12553 b look at x since 2\n"
                 "12666 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "13000 a look at x since 1: not sent, HF_UNREACHABLE\n"
                 "13166 a beat, seen 2: not sent, HF_UNREACHABLE\n"
                 "13308 a look at 1 sessions: not sent, HF_DENIED\n"
                 "13308 a end, leaving tickets: not sent, HF_DENIED\n"
                 "13430 b look at 1 sessions\n"
                 "14453 b look at x since 2\n"
                 "14999 b beat, seen 3, waits\n"
                 "15096 b look at 1 sessions\n"
                 "15425 b look at 1 sessions\n"
                 "15425 b mark\n"
                 "15425 log: x: a session in its way was marked dead\n"
                 "15425 b x: bury\n"
                 "15425 b hears that it should look\n"
                 "15425 b hears a grant\n"
                 "15425 b has x\n"
                 "18332 b beat, seen 4\n"
                 "21665 b beat, seen 5\n"
                 "24998 b beat, seen 6\n"
                 "25000 b look at x since 3\n"
                 "25000 before x: a@:1, outcome 2, ''\n");
    end();
}

static void test_a_holder_that_lives(void **state)
{
    (void)state;
    hold("memory:lives", (hf_options){.ttl_ms = 3000});
    c = stage_client("memory:lives", NULL);
    more = (part){.client = c, .name = "x", .options = {.wait_ms = 8000}};
    stage_act(take_part, &waits);
    play(take_part, &more, 9000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "0 c begin\n"
                 "0 c x: enter\n"
                 "120 c look at 1 sessions\n"
                 "400 b look at 1 sessions\n"
                 "400 c look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b beat, seen 1, waits\n"
                 "1000 b sweep\n"
                 "1000 c sweep\n"
                 "1100 c look at 1 sessions\n"
                 "1507 b look at x since 2\n"
                 "1511 c look at x since 3\n"
                 "2000 b beat, seen 2, waits\n"
                 "2100 c look at 1 sessions\n"
                 "3000 b beat, seen 3, waits\n"
                 "3019 b look at x since 2\n"
                 "3024 c look at x since 3\n"
                 "3100 c look at 1 sessions\n"
                 "3333 a beat, seen 1\n"
                 "3333 c beat, seen 1, waits\n"
                 "3433 b look at 1 sessions\n"
                 "3433 c look at 1 sessions\n"
                 "4000 b beat, seen 4, waits\n"
                 "4100 c look at 1 sessions\n"
                 "4533 b look at x since 2\n"
                 "4539 c look at x since 3\n"
                 "5000 b beat, seen 5, waits\n"
                 "5100 c look at 1 sessions\n"
                 "6000 b beat, seen 6, waits\n"
                 "6049 b look at x since 2\n"
                 "6056 c look at x since 3\n"
                 "6056 c look at 1 sessions\n"
                 "6666 a beat, seen 2\n"
                 "6666 c beat, seen 2, waits\n"
                 "6766 b look at 1 sessions\n"
                 "6766 c look at 1 sessions\n"
                 "7000 b beat, seen 7, waits\n"
                 "7100 c look at 1 sessions\n"
                 "7567 b look at x since 2\n"
                 "7589 c look at x since 3\n"
                 "8000 b beat, seen 8, waits\n"
                 "8000 c look at 2 sessions, trusting\n"
                 "8000 c x: leave-unused\n"
                 "8000 c is told HF_TIMEOUT: x was not free in time: held by a@:1 (audit)\n"
                 "9000 b beat, seen 9, waits\n");
    end();
}

/* b wants what a holds, which has been cut off for so long. */
static void want_of_one_cut_off(const char *uri, hf_options options, int64_t for_ms,
                                int64_t wait_ms)
{
    hold(uri, options);
    cut_off('a');
    stage_run(for_ms);
    stage_forget();
    waits.options.wait_ms = wait_ms;
    play(take_part, &waits, wait_ms > 0 ? wait_ms + 200 : 0);
}

/* Who may not wait is told what a wait would bring. */
static void test_a_try_beside_one_that_is_overdue(void **state)
{
    (void)state;
    want_of_one_cut_off("memory:overdue", defaults, 13000, HF_TRY);
    stage_expect("13000 b begin\n"
                 "13000 b x: enter-or-not\n"
                 "13000 b look at 1 sessions, trusting\n"
                 "13000 b is told HF_HELD: x was not free: held by a@:1 (audit); its lease ended "
                 "3s ago, so it is probably dead: a request that waits 15s or longer (-w 15s, "
                 "wait_ms 15000) makes sure, and takes the lock over\n");
    end();
    want_of_one_cut_off("memory:not-overdue", (hf_options){.clock_trust_ms = -1}, 5000, HF_TRY);
    stage_expect("5000 b begin\n"
                 "5000 b x: enter-or-not\n"
                 "5000 b look at 1 sessions\n"
                 "5000 b is told HF_HELD: x was not free: held by a@:1 (audit); if it died, only "
                 "a request that waits takes it over (clock_trust is off)\n");
    end();
}

/* Nobody knows when its lease ended, or who it was: a try never takes over what it held. */
static void test_a_try_beside_one_whose_session_is_gone(void **state)
{
    (void)state;
    hold("memory:gone", defaults);
    stage_drop_session(b, a->session.self.id);
    waits.options.wait_ms = HF_TRY;
    play(take_part, &waits, 0);
    stage_expect("0 b begin\n"
                 "0 b x: enter-or-not\n"
                 "0 b look at 1 sessions, trusting\n"
                 "0 b is told HF_HELD: x was not free: held by another session (audit); its "
                 "session is gone, so it is probably dead: a request that waits 15s or longer "
                 "(-w 15s, wait_ms 15000) makes sure, and takes the lock over\n");
    end();
}

/* A wait that is too short to make sure is told so, as a try is. */
static void test_a_short_wait_beside_one_that_is_overdue(void **state)
{
    (void)state;
    want_of_one_cut_off("memory:short", defaults, 13000, 300);
    stage_expect("13000 b begin\n"
                 "13000 b x: enter\n"
                 "13300 b look at 1 sessions, trusting\n"
                 "13300 b x: leave-unused\n"
                 "13300 b is told HF_TIMEOUT: x was not free in time: held by a@:1 (audit); its "
                 "lease ended 3s ago, so it is probably dead: a request that waits 15s or longer "
                 "(-w 15s, wait_ms 15000) makes sure, and takes the lock over\n");
    end();
}

/* Of two that share it one lives: the lock cannot be taken over. */
static void test_a_try_beside_two_of_which_one_is_overdue(void **state)
{
    (void)state;
    begin("memory:two", defaults);
    c = stage_client("memory:two", NULL);
    x.options.mode = HF_SHARED;
    more = (part){.client = c, .name = "x", .options = {.mode = HF_SHARED}};
    play(take_part, &x, 0);
    play(take_part, &more, 0);
    cut_off('a');
    stage_run(13000);
    stage_forget();
    waits.options.wait_ms = HF_TRY;
    play(take_part, &waits, 0);
    stage_expect("13000 b begin\n"
                 "13000 b x: enter-or-not\n"
                 "13000 b look at 2 sessions, trusting\n"
                 "13000 b is told HF_HELD: x was not free: held by a@:1 (audit); its lease ended "
                 "3s ago, so it is probably dead: a request that waits 15s or longer (-w 15s, "
                 "wait_ms 15000) makes sure, and takes it out\n"
                 "13000 b sweep\n");
    end();
}

/* Its session lives, but nothing that it sends about the lock arrives; and who asked has gone. */
static void test_a_holder_that_was_asked_long_ago(void **state)
{
    (void)state;
    hf_store *store;
    hf_error err;
    hold("memory:asked", defaults);
    store = stage_store(b)->inner;
    const hf_ask asked = {
        .ticket = x.lock->grant.ticket, .by = "operator", .reason = "maintenance"};
    assert_int_equal(store->ops->ask(store, a->session.self.id, &asked, &err), HF_OK);
    stage_let_fail(
        (stage_fault){.who = 'a', .call = FAULTY_STEP, .times = 100000, .before = HF_UNREACHABLE});
    stage_act(take_part, &waits);
    stage_run(14000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1507 b look at x since 2\n"
                 "3015 b look at x since 2\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1, waits\n"
                 "3433 b look at 1 sessions\n"
                 "4524 b look at x since 2\n"
                 "6034 b look at x since 2\n"
                 "6666 a beat, seen 2\n"
                 "6666 b beat, seen 2, waits\n"
                 "6766 b look at 1 sessions\n"
                 "7553 b look at x since 2\n"
                 "9453 b look at x since 2\n"
                 "9975 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "9979 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "9987 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "9999 a beat, seen 3\n"
                 "9999 b beat, seen 3, waits\n"
                 "10002 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "10039 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "10097 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "10099 b look at 1 sessions\n"
                 "10196 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "10376 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "10647 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "10919 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "11192 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "11466 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "11741 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "11829 b look at x since 2\n"
                 "12017 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "12295 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "12574 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "12854 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "13135 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "13332 a beat, seen 4\n"
                 "13332 b beat, seen 4, waits\n"
                 "13417 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "13432 b look at 1 sessions\n"
                 "13432 b x: abandon(broken by operator: maintenance)\n"
                 "13432 b hears a grant\n"
                 "13432 b has x\n"
                 "13700 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n"
                 "13984 a x: abandon(broken by operator: maintenance): not sent, HF_UNREACHABLE\n");
    end();
}

static void test_a_holder_that_is_marked(void **state)
{
    (void)state;
    hold("memory:marked", defaults);
    play(take_part, &waits, 1000);
    stage_mark_dead(b, a->session.self.id);
    stage_run(500);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n");
    end();
    hold("memory:missing", (hf_options){.clock_trust_ms = -1});
    stage_act(take_part, &waits);
    stage_run(4000);
    stage_drop_session(b, a->session.self.id);
    stage_run(12000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1507 b look at x since 2\n"
                 "3015 b look at x since 2\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1, waits\n"
                 "3433 b look at 1 sessions\n"
                 "4524 b look at x since 2\n"
                 "6034 b look at x since 2\n"
                 "6666 a beat, seen 2\n"
                 "6666 a hears HF_LOST\n"
                 "6666 a look at 1 sessions\n"
                 "6666 a begin a lease\n"
                 "6666 a mark\n"
                 "6666 b beat, seen 2, waits\n"
                 "6666 b hears that it should look\n"
                 "6666 b look at x since 2\n"
                 "6666 b look at 1 sessions\n"
                 "6666 b x: bury\n"
                 "6666 b hears a grant\n"
                 "6666 b has x\n"
                 "9999 b beat, seen 3\n"
                 "13332 b beat, seen 4\n");
    end();
}

/* A failover took the insert back. The watch over what was missing starts over. */
static void test_a_holder_whose_session_begins_again(void **state)
{
    (void)state;
    hold("memory:again", (hf_options){.clock_trust_ms = -1});
    stage_act(take_part, &waits);
    stage_run(1000);
    stage_drop_session(b, a->session.self.id);
    stage_run(12000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1507 b look at x since 2\n"
                 "3015 b look at x since 2\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1, waits\n"
                 "3433 b look at 1 sessions\n"
                 "4524 b look at x since 2\n"
                 "6034 b look at x since 2\n"
                 "6666 a beat, seen 1103114960776\n"
                 "6666 b beat, seen 2, waits\n"
                 "6766 b look at 1 sessions\n"
                 "7553 b look at x since 2\n"
                 "9453 b look at x since 2\n"
                 "9999 a beat, seen 1103114960777\n"
                 "9999 b beat, seen 3, waits\n"
                 "10000 a look at x since 1\n"
                 "10099 b look at 1 sessions\n"
                 "11829 b look at x since 2\n");
    end();
}

/* Its first beat gets no answer; then it begins the session again, and is cut off. */
static void test_a_beat_that_begins_again_is_another(void **state)
{
    (void)state;
    hold("memory:another", (hf_options){.clock_trust_ms = -1});
    stage_act(take_part, &waits);
    stage_run(3000);
    stage_let_fail((stage_fault){.who = 'a', .call = FAULTY_BEAT, .after = HF_UNKNOWN});
    stage_let_fail((stage_fault){.who = 'a', .call = FAULTY_BEAT, .before = HF_UNREACHABLE});
    stage_run(500);
    stage_drop_session(b, a->session.self.id);
    stage_run(500);
    stage_let_fail(
        (stage_fault){.who = 'a', .call = FAULTY_BEAT, .before = HF_UNREACHABLE, .times = 1000});
    stage_run(9800);
    assert_null(waits.lock);
    stage_run(2000);
    assert_non_null(waits.lock);
    stage_forget();
    end();
}

/* But it keeps one in which something is held. */
static void test_who_waits_outside_has_no_session(void **state)
{
    (void)state;
    hold("memory:outside", defaults);
    b->queue_max = 0;
    stage_act(take_part, &waits);
    stage_run(12000);
    assert_int_equal(b->session.state, SESSION_NONE);
    stage_forget();
    end();
    hold("memory:outside-beside", defaults);
    more = (part){.client = b, .name = "y"};
    play(take_part, &more, 0);
    b->queue_max = 0;
    stage_act(take_part, &waits);
    stage_run(12000);
    assert_int_equal(b->session.state, SESSION_ALIVE);
    stage_forget();
    end();
}

static part next;

/* Behind `next` of c, which fills the queue. */
static void wait_outside(const char *uri, int64_t next_waits_ms)
{
    begin(uri, defaults);
    c = stage_client(uri, NULL);
    next = (part){.client = c, .name = "x", .options = {.wait_ms = next_waits_ms}};
    play(take_part, &x, 0);
    stage_act(take_part, &next);
    stage_run(1);
    b->queue_max = 1;
    waits.options.wait_ms = HF_WAIT_FOREVER;
    stage_act(take_part, &waits);
}

/* It looks rarely while nothing moves, as it hears when that begins. */
static void test_who_rests_outside_hears_that_the_line_moves(void **state)
{
    (void)state;
    wait_outside("memory:outside-heeds", HF_WAIT_FOREVER);
    stage_run(40000);
    stage_forget();
    stage_tell_listening();
    stage_run(3000);
    stage_expect("40096 c look at 1 sessions\n"
                 "40285 c listens for 1000 ms, since 2\n"
                 "40428 c look at x since 3\n"
                 "40526 b listens for 1000 ms, since 0\n"
                 "41285 c listens for 1000 ms, since 2\n"
                 "41526 b listens for 1000 ms, since 0\n"
                 "41894 b look at x\n"
                 "42285 c listens for 1000 ms, since 2\n"
                 "42526 b listens for 1000 ms, since 0\n");
    play(close_part, &x, 2000);
    stage_expect("43001.1 a x: leave\n"
                 "43001.1 b hears a grant\n"
                 "43001.1 c hears a grant\n"
                 "43001.1 c has x\n"
                 "43265.1 b look at x\n"
                 "43265.1 b begin\n"
                 "43265.1 b x: enter-by-number\n"
                 "43265.1 b listens for 1000 ms, since 5\n"
                 "43265.1 b look at 1 sessions\n"
                 "43329 a beat, seen 13\n"
                 "43329 c beat, seen 13\n"
                 "43429.1 b look at 1 sessions\n"
                 "43501.1 c listens for 1 ms, since 2\n"
                 "44002.1 c listens for 1 ms, since 2\n"
                 "44265.1 b sweep\n"
                 "44265.1 b listens for 1000 ms, since 5\n"
                 "44503.1 c listens for 1 ms, since 2\n");
    play(close_part, &next, 2000);
    assert_non_null(waits.lock);
    stage_expect("45001.1 c x: leave\n"
                 "45001.1 b hears a grant\n"
                 "45001.1 b has x\n"
                 "45004.1 c listens for 1 ms, since 2\n"
                 "45501.1 b listens for 1 ms, since 5\n"
                 "45505.1 c listens for 1 ms, since 2\n"
                 "46002.1 b listens for 1 ms, since 5\n"
                 "46006.1 c listens for 1 ms, since 2\n"
                 "46503.1 b listens for 1 ms, since 5\n"
                 "46507.1 c listens for 1 ms, since 2\n"
                 "46598.1 b beat, seen 1\n"
                 "46662 a beat, seen 14\n"
                 "46662 c beat, seen 14\n");
    end();
}

/* The head gives up, which rings no bell. From then on it hears its own notices. */
static void test_who_rests_outside_comes_in_without_a_ring(void **state)
{
    (void)state;
    wait_outside("memory:outside-no-ring", 42000);
    stage_run(41900);
    stage_forget();
    stage_run(7000);
    stage_expect("42000 c look at 1 sessions, trusting\n"
                 "42000 c x: leave-unused\n"
                 "42000 c is told HF_TIMEOUT: x was not free in time: held by a@:1 (audit)\n"
                 "43329 a beat, seen 13\n"
                 "43329 c beat, seen 13\n"
                 "44636 b look at x\n"
                 "44636 b begin\n"
                 "44636 b x: enter-by-number\n"
                 "44636 b look at 1 sessions\n"
                 "45636 b sweep\n"
                 "46662 a beat, seen 14\n"
                 "46662 c beat, seen 14\n"
                 "46762 b look at 1 sessions\n"
                 "47969 b beat, seen 1, waits\n");
    stage_run(6000);
    stage_forget();
    play(close_part, &x, 1);
    assert_non_null(waits.lock);
    stage_expect("54901.1 a x: leave\n"
                 "54901.1 b hears a grant\n"
                 "54901.1 b has x\n");
    end();
}

/* Then it has notices of its own, and the head's are not heard. */
static void test_who_rests_outside_heeds_until_its_client_has_a_session(void **state)
{
    (void)state;
    wait_outside("memory:outside-beside-heeds", HF_WAIT_FOREVER);
    stage_run(43000);
    stage_forget();
    play(take_part, &more, 1000);
    stage_expect("43001 b begin\n"
                 "43001 b y: enter\n"
                 "43001 b has y\n"
                 "43265 b look at x\n"
                 "43329 a beat, seen 13\n"
                 "43329 c beat, seen 13, waits\n"
                 "43429 c look at 1 sessions\n"
                 "44001 b sweep\n");
    close_part(&x);
    stage_run(1000);
    close_part(&next);
    stage_run(2000);
    assert_non_null(waits.lock);
    stage_forget();
    end();
}

static void hold_x_want_y(void *arg)
{
    part *parts = arg;
    take_part(&parts[0]);
    stage_sleep(20000);
    take_part(&parts[1]);
}

/* It held nothing when it entered; now another thread holds y for the same actor, and who holds x
 * waits for that. */
static void test_a_deadlock_of_one_that_rests_outside(void **state)
{
    (void)state;
    const hf_lock_options of_c = {.wait_ms = HF_WAIT_FOREVER, .actor = "C"};
    begin("memory:outside-deadlock", defaults);
    part parts[] = {{.client = a, .name = "x", .options = of_c},
                    {.client = a, .name = "y", .options = of_c}};
    stage_act(hold_x_want_y, parts);
    stage_run(100);
    int32_t most = b->queue_max;
    b->queue_max = 0;
    waits.options = (hf_lock_options){.wait_ms = HF_WAIT_FOREVER, .actor = "B"};
    stage_act(take_part, &waits);
    stage_run(1);
    b->queue_max = most;
    stage_run(14000);
    assert_int_equal(b->session.state, SESSION_NONE);
    more.options.actor = "B";
    play(take_part, &more, 6000);
    assert_non_null(b->hold->requests);
    stage_run(60000);
    assert_null(b->hold->requests);
    hf_lock_close(more.lock);
    more.lock = NULL;
    stage_run(1000);
    stage_forget();
    close_parts((part *const[]){&parts[1], &parts[0]}, 2);
    end();
}

static void test_the_dead_are_no_reason_to_refuse(void **state)
{
    (void)state;
    hold("memory:dead-try", defaults);
    stage_mark_dead(b, a->session.self.id);
    waits.options.wait_ms = HF_TRY;
    play(take_part, &waits, 0);
    stage_expect("0 b begin\n"
                 "0 b x: enter-or-not\n"
                 "0 b look at 1 sessions, trusting\n"
                 "0 b x: bury\n"
                 "0 b x: enter-or-not\n"
                 "0 b has x\n");
    end();
    hold("memory:overdue-try", defaults);
    cut_off('a');
    stage_run(130000);
    stage_forget();
    waits.options.wait_ms = HF_TRY;
    play(take_part, &waits, 0);
    stage_run(7100000);
    stage_forget();
    play(take_part, &waits, 0);
    stage_expect("7230000 b x: enter-or-not\n"
                 "7230000 b look at 1 sessions, trusting\n"
                 "7230000 b mark\n"
                 "7230000 log: x: a session in its way was marked dead\n"
                 "7230000 b x: bury\n"
                 "7230000 b x: enter-or-not\n"
                 "7230000 b has x\n");
    end();
}

/* The store was away for longer than the lease. As soon as it is back, the holder's process says
 * that its session is over. */
static void test_a_try_after_an_outage(void **state)
{
    (void)state;
    hold("memory:outage", defaults);
    cut_off_but_its_end('a');
    stage_let_fail(
        (stage_fault){.who = 'a', .call = FAULTY_END, .times = 9, .before = HF_UNREACHABLE});
    stage_run(9970);
    stage_forget();
    stage_run(1530);
    waits.options.wait_ms = HF_TRY;
    play(take_part, &waits, 0);
    stage_expect("9975 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "9978 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "9988 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "10004 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "10031 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "10079 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "10168 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "10338 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "10599 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "10861 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "11124 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "11388 a look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "11500 b begin\n"
                 "11500 b x: enter-or-not\n"
                 "11500 b look at 1 sessions, trusting\n"
                 "11500 b is told HF_HELD: x was not free: held by a@:1 (audit); its lease ended "
                 "1s ago, so it is probably dead: a request that waits 15s or longer (-w 15s, "
                 "wait_ms 15000) makes sure, and takes the lock over\n");
    end();
}

static void test_calls_of_the_judge_that_fail(void **state)
{
    (void)state;
    hold("memory:judge-fails", defaults);
    stage_mark_dead(b, a->session.self.id);
    stage_let_fail((stage_fault){
        .who = 'b', .call = FAULTY_SESSIONS_LOOK, .times = 3, .before = HF_UNREACHABLE});
    stage_let_fail((stage_fault){
        .who = 'b', .call = FAULTY_STEP, .skips = 1, .times = 2, .before = HF_UNREACHABLE});
    play(take_part, &waits, 6000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "400 log: x: trying again: injected\n"
                 "407 b look at x since 2\n"
                 "407 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "407 log: x: trying again: injected\n"
                 "416 b look at x since 2\n"
                 "416 b look at 1 sessions: not sent, HF_UNREACHABLE\n"
                 "416 log: x: trying again: injected\n"
                 "421 b look at x since 2\n"
                 "421 b look at 1 sessions\n"
                 "421 b x: bury: not sent, HF_UNREACHABLE\n"
                 "421 log: x: trying again: injected\n"
                 "428 b look at x since 2\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1943 b look at x since 2\n"
                 "2087 b look at 1 sessions\n"
                 "2087 b x: bury: not sent, HF_UNREACHABLE\n"
                 "2087 log: x: trying again: injected\n"
                 "2097 b look at x since 2\n"
                 "3333 a beat, seen 1\n"
                 "3333 a hears HF_LOST\n"
                 "3333 a look at 1 sessions\n"
                 "3333 a end, leaving tickets\n"
                 "3333 b beat, seen 1, waits\n"
                 "3615 b look at x since 2\n"
                 "3753 b look at 1 sessions\n"
                 "3753 b x: bury\n"
                 "3753 b hears a grant\n"
                 "3753 b has x\n");
    end();
    hold("memory:mark-fails", defaults);
    cut_off('a');
    stage_let_fail(
        (stage_fault){.who = 'b', .call = FAULTY_MARK, .times = 2, .before = HF_UNREACHABLE});
    play(take_part, &waits, 14000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1507 b look at x since 2\n"
                 "3015 b look at x since 2\n"
                 "3333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "3333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "3333 b beat, seen 1, waits\n"
                 "3433 b look at 1 sessions\n"
                 "3833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "4333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "4524 b look at x since 2\n"
                 "4833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "5099 b look at 1 sessions\n"
                 "5333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "5833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "6034 b look at x since 2\n"
                 "6333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "6666 b beat, seen 2, waits\n"
                 "6765 b look at 1 sessions\n"
                 "6833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "7333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "7553 b look at x since 2\n"
                 "7833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "8333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "8431 b look at 1 sessions\n"
                 "8833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "9333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "9453 b look at x since 2\n"
                 "9833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "9975 a look at 1 sessions: not sent, HF_DENIED\n"
                 "9975 a end, leaving tickets: not sent, HF_DENIED\n"
                 "9999 b beat, seen 3, waits\n"
                 "10097 b look at 1 sessions\n"
                 "10425 b look at 1 sessions\n"
                 "10425 b mark: not sent, HF_UNREACHABLE\n"
                 "10425 log: x: trying again: injected\n"
                 "10432 b look at x since 2\n"
                 "10432 b look at 1 sessions\n"
                 "10432 b mark: not sent, HF_UNREACHABLE\n"
                 "10432 log: x: trying again: injected\n"
                 "10441 b look at x since 2\n"
                 "10441 b look at 1 sessions\n"
                 "10441 b mark\n"
                 "10441 log: x: a session in its way was marked dead\n"
                 "10441 b x: bury\n"
                 "10441 b hears that it should look\n"
                 "10441 b hears a grant\n"
                 "10441 b has x\n"
                 "13332 b beat, seen 4\n");
    end();
}

static void drop_a(void)
{
    stage_drop_session(a, a->session.self.id);
}

/* It beats, or goes, just before it is marked. */
static void test_marks_that_come_too_late(void **state)
{
    (void)state;
    hold("memory:mark-missing", defaults);
    cut_off('a');
    stage_let_fail((stage_fault){.who = 'b', .call = FAULTY_MARK, .meanwhile = drop_a});
    play(take_part, &waits, 30000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1507 b look at x since 2\n"
                 "3015 b look at x since 2\n"
                 "3333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "3333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "3333 b beat, seen 1, waits\n"
                 "3433 b look at 1 sessions\n"
                 "3833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "4333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "4524 b look at x since 2\n"
                 "4833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "5099 b look at 1 sessions\n"
                 "5333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "5833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "6034 b look at x since 2\n"
                 "6333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "6666 b beat, seen 2, waits\n"
                 "6765 b look at 1 sessions\n"
                 "6833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "7333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "7553 b look at x since 2\n"
                 "7833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "8333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "8431 b look at 1 sessions\n"
                 "8833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "9333 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "9453 b look at x since 2\n"
                 "9833 a beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "9975 a look at 1 sessions: not sent, HF_DENIED\n"
                 "9975 a end, leaving tickets: not sent, HF_DENIED\n"
                 "9999 b beat, seen 3, waits\n"
                 "10097 b look at 1 sessions\n"
                 "10425 b look at 1 sessions\n"
                 "10425 b mark\n"
                 "10425 b hears HF_NOT_FOUND\n"
                 "10475 b look at 1 sessions\n"
                 "11829 b look at x since 2\n"
                 "12141 b look at 1 sessions\n"
                 "13332 b beat, seen 4, waits\n"
                 "13807 b look at 1 sessions\n"
                 "14800 b look at x since 2\n"
                 "15473 b look at 1 sessions\n"
                 "16665 b beat, seen 5, waits\n"
                 "17139 b look at 1 sessions\n"
                 "18515 b look at x since 2\n"
                 "18805 b look at 1 sessions\n"
                 "19998 b beat, seen 6, waits\n"
                 "20471 b look at 1 sessions\n"
                 "20500 b look at 1 sessions\n"
                 "20500 b begin a lease\n"
                 "20500 b mark\n"
                 "20500 log: x: a session in its way was marked dead\n"
                 "20500 b x: bury\n"
                 "20500 b hears that it should look\n"
                 "20500 b hears a grant\n"
                 "20500 b has x\n"
                 "23331 b beat, seen 7\n"
                 "26664 b beat, seen 8\n"
                 "29997 b beat, seen 9\n");
    end();
}

/* ---- Calls that fail ---- */

static void test_enters_that_fail(void **state)
{
    (void)state;
    stage_fault fault = {.who = 'b',
                         .call = FAULTY_STEP,
                         .is = stage_is_enter,
                         .times = 3,
                         .before = HF_UNREACHABLE};
    begin("memory:enter-unreached", defaults);
    waits.options.on_wait = say_wait;
    stage_let_fail(fault);
    play(acquire_part, &waits, 1000);
    stage_expect("0 b begin\n"
                 "0 b x: enter: not sent, HF_UNREACHABLE\n"
                 "0 log: x: trying again: injected\n"
                 "0 waits for x 0 ms, 0 of 0, held by 0:  '', injected\n"
                 "9 b x: enter: not sent, HF_UNREACHABLE\n"
                 "24 b x: enter: not sent, HF_UNREACHABLE\n"
                 "50 b x: enter\n"
                 "50 acquired x: yes\n"
                 "50 waited 50 ms\n"
                 "501 b hears a grant\n"
                 "1000 b sweep\n");
    end();
    begin("memory:enter-unknown", defaults);
    fault.before = HF_OK, fault.after = HF_UNKNOWN;
    stage_let_fail(fault);
    play(take_part, &waits, 1000);
    play(close_part, &waits, 12000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "0 b hears HF_UNKNOWN\n"
                 "0 log: x: trying again: injected\n"
                 "0 b hears a grant\n"
                 "9 b x: enter\n"
                 "9 b hears HF_UNKNOWN\n"
                 "24 b x: enter\n"
                 "24 b hears HF_UNKNOWN\n"
                 "50 b x: enter\n"
                 "50 b has x\n"
                 "1000 b sweep\n"
                 "1000.1 b x: leave\n"
                 "3333 b beat, seen 1\n"
                 "6666 b beat, seen 2\n"
                 "9999 b beat, seen 3\n"
                 "10000 b look at x\n");
    end();
    begin("memory:enter-denied", defaults);
    fault.before = HF_DENIED;
    stage_let_fail(fault);
    play(take_part, &waits, 1000);
    stage_expect("0 b begin\n"
                 "0 b x: enter: not sent, HF_DENIED\n"
                 "0 b x: leave-unused\n"
                 "0 b look at x for sure\n"
                 "0 b is told HF_DENIED: injected\n"
                 "1000 b sweep\n");
    end();
    begin("memory:enter-swallowed", defaults);
    fault.before = fault.after = HF_OK, fault.is_swallowed = true;
    stage_let_fail(fault);
    play(take_part, &waits, 1000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "0 b x: enter\n"
                 "0 b x: enter\n"
                 "0 b x: enter\n"
                 "0 b has x\n"
                 "1000 b sweep\n");
    end();
}

static void test_patience(void **state)
{
    (void)state;
    stage_fault fault = {.who = 'b',
                         .call = FAULTY_STEP,
                         .is = stage_is_enter,
                         .times = 100000,
                         .before = HF_UNREACHABLE};
    begin("memory:patient", (hf_options){.patience_ms = 2000});
    stage_let_fail(fault);
    play(take_part, &waits, 3000);
    stage_expect("0 b begin\n"
                 "0 b x: enter: not sent, HF_UNREACHABLE\n"
                 "0 log: x: trying again: injected\n"
                 "9 b x: enter: not sent, HF_UNREACHABLE\n"
                 "24 b x: enter: not sent, HF_UNREACHABLE\n"
                 "50 b x: enter: not sent, HF_UNREACHABLE\n"
                 "97 b x: enter: not sent, HF_UNREACHABLE\n"
                 "185 b x: enter: not sent, HF_UNREACHABLE\n"
                 "354 b x: enter: not sent, HF_UNREACHABLE\n"
                 "614 b x: enter: not sent, HF_UNREACHABLE\n"
                 "875 b x: enter: not sent, HF_UNREACHABLE\n"
                 "1000 b sweep\n"
                 "1137 b x: enter: not sent, HF_UNREACHABLE\n"
                 "1400 b x: enter: not sent, HF_UNREACHABLE\n"
                 "1664 b x: enter: not sent, HF_UNREACHABLE\n"
                 "1929 b x: enter: not sent, HF_UNREACHABLE\n"
                 "2000 b x: enter: not sent, HF_UNREACHABLE\n"
                 "2000 b is told HF_UNREACHABLE: injected\n"
                 "2000 b x: leave-unused\n"
                 "2000 b look at x for sure\n");
    waits.options.wait_ms = HF_TRY;
    play(take_part, &waits, 3000);
    stage_forget();
    waits.options.wait_ms = 500;
    play(take_part, &waits, 1000);
    stage_expect("6000 b x: enter: not sent, HF_UNREACHABLE\n"
                 "6000 log: x: trying again: injected\n"
                 "6006 b x: enter: not sent, HF_UNREACHABLE\n"
                 "6026 b x: enter: not sent, HF_UNREACHABLE\n"
                 "6058 b x: enter: not sent, HF_UNREACHABLE\n"
                 "6132 b x: enter: not sent, HF_UNREACHABLE\n"
                 "6247 b x: enter: not sent, HF_UNREACHABLE\n"
                 "6443 b x: enter: not sent, HF_UNREACHABLE\n"
                 "6500 b is told HF_UNREACHABLE: injected\n"
                 "6500 b x: leave-unused\n"
                 "6500 b look at x for sure\n"
                 "6666 b beat, seen 2\n");
    end();
}

/* Nobody is there, which each call learns after so long. */
static void begin_in_vain(const char *uri, int64_t late_ms)
{
    begin(uri, defaults);
    stage_let_fail((stage_fault){.who = 'b',
                                 .call = FAULTY_BEGIN,
                                 .times = 100000,
                                 .before = HF_UNREACHABLE,
                                 .late_ms = late_ms});
}

static void try_in_vain(int64_t late_ms)
{
    begin_in_vain("memory:hasty", late_ms);
    waits.options.wait_ms = HF_TRY;
    play(take_part, &waits, 5000);
}

static void test_a_try_is_answered_within_five_seconds(void **state)
{
    (void)state;
    try_in_vain(0);
    stage_expect("0 b begin: not sent, HF_UNREACHABLE\n"
                 "0 log: x: trying again: injected\n"
                 "7 b begin: not sent, HF_UNREACHABLE\n"
                 "21 b begin: not sent, HF_UNREACHABLE\n"
                 "47 b begin: not sent, HF_UNREACHABLE\n"
                 "95 b begin: not sent, HF_UNREACHABLE\n"
                 "185 b begin: not sent, HF_UNREACHABLE\n"
                 "357 b begin: not sent, HF_UNREACHABLE\n"
                 "621 b begin: not sent, HF_UNREACHABLE\n"
                 "887 b begin: not sent, HF_UNREACHABLE\n"
                 "1155 b begin: not sent, HF_UNREACHABLE\n"
                 "1425 b begin: not sent, HF_UNREACHABLE\n"
                 "1697 b begin: not sent, HF_UNREACHABLE\n"
                 "1971 b begin: not sent, HF_UNREACHABLE\n"
                 "2247 b begin: not sent, HF_UNREACHABLE\n"
                 "2525 b begin: not sent, HF_UNREACHABLE\n"
                 "2805 b begin: not sent, HF_UNREACHABLE\n"
                 "3087 b begin: not sent, HF_UNREACHABLE\n"
                 "3371 b begin: not sent, HF_UNREACHABLE\n"
                 "3657 b begin: not sent, HF_UNREACHABLE\n"
                 "3945 b begin: not sent, HF_UNREACHABLE\n"
                 "4000 b begin: not sent, HF_UNREACHABLE\n"
                 "4000 b is told HF_UNREACHABLE: injected\n");
    end();
    try_in_vain(1000);
    stage_expect("0 b begin: not sent, HF_UNREACHABLE\n"
                 "1000 log: x: trying again: injected\n"
                 "1007 b begin: not sent, HF_UNREACHABLE\n"
                 "2021 b begin: not sent, HF_UNREACHABLE\n"
                 "3047 b begin: not sent, HF_UNREACHABLE\n"
                 "4047 b is told HF_UNREACHABLE: injected\n");
    end();
}

static void test_looks_that_fail(void **state)
{
    (void)state;
    hold("memory:look-fails", (hf_options){.patience_ms = 1000});
    stage_let_fail(
        (stage_fault){.who = 'b', .call = FAULTY_LOOK, .times = 2, .before = HF_UNREACHABLE});
    play(take_part, &waits, 5000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1507 b look at x since 2: not sent, HF_UNREACHABLE\n"
                 "1507 log: x: trying again: injected\n"
                 "1514 b look at x since 2: not sent, HF_UNREACHABLE\n"
                 "1533 b look at x since 2\n"
                 "3043 b look at x since 2\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1, waits\n"
                 "3433 b look at 1 sessions\n"
                 "4554 b look at x since 2\n");
    stage_let_fail(
        (stage_fault){.who = 'b', .call = FAULTY_LOOK, .times = 100, .before = HF_UNREACHABLE});
    stage_run(8000);
    stage_expect("6066 b look at x since 2: not sent, HF_UNREACHABLE\n"
                 "6066 log: x: trying again: injected\n"
                 "6072 b look at x since 2: not sent, HF_UNREACHABLE\n"
                 "6085 b look at x since 2: not sent, HF_UNREACHABLE\n"
                 "6120 b look at x since 2: not sent, HF_UNREACHABLE\n"
                 "6176 b look at x since 2: not sent, HF_UNREACHABLE\n"
                 "6273 b look at x since 2: not sent, HF_UNREACHABLE\n"
                 "6451 b look at x since 2: not sent, HF_UNREACHABLE\n"
                 "6666 a beat, seen 2\n"
                 "6666 b beat, seen 2, waits\n"
                 "6720 b look at x since 2: not sent, HF_UNREACHABLE\n"
                 "6990 b look at x since 2: not sent, HF_UNREACHABLE\n"
                 "7066 b look at x since 2: not sent, HF_UNREACHABLE\n"
                 "7066 b is told HF_UNREACHABLE: injected\n"
                 "7066 b x: leave-unused\n"
                 "9999 a beat, seen 3\n"
                 "9999 b beat, seen 3\n"
                 "10000 a look at x since 1\n");
    end();
}

static void test_sessions_that_do_not_begin(void **state)
{
    (void)state;
    stage_fault fault = {.who = 'b', .call = FAULTY_BEGIN, .times = 2, .before = HF_UNREACHABLE};
    begin("memory:begin-unreached", defaults);
    stage_let_fail(fault);
    stage_act(take_part, &waits);
    play(take_part, &more, 1000);
    stage_expect("0 b begin: not sent, HF_UNREACHABLE\n"
                 "0 log: x: trying again: injected\n"
                 "0 b begin: not sent, HF_UNREACHABLE\n"
                 "0 log: y: trying again: injected\n"
                 "7 b begin\n"
                 "7 b x: enter\n"
                 "7 b has x\n"
                 "9 b y: enter\n"
                 "9 b has y\n");
    end();
    begin("memory:begin-unknown", defaults);
    fault.before = HF_OK, fault.after = HF_UNKNOWN;
    stage_let_fail(fault);
    play(take_part, &waits, 1000);
    stage_expect("0 b begin\n"
                 "0 b hears HF_UNKNOWN\n"
                 "0 log: x: trying again: injected\n"
                 "0 b end\n"
                 "7 b begin\n"
                 "7 b hears HF_UNKNOWN\n"
                 "7 b end\n"
                 "21 b begin\n"
                 "21 b x: enter\n"
                 "21 b has x\n");
    end();
    begin("memory:begin-slow", defaults);
    fault.after = HF_OK, fault.slow_ms = 9975, fault.times = 1;
    stage_let_fail(fault);
    stage_act(take_part, &waits);
    play(take_part, &more, 12000);
    stage_expect("0 b begin\n"
                 "9975 log: x: trying again: the store took longer than the ttl of 10000 ms to "
                 "begin a session: give a longer ttl\n"
                 "9975 b end\n"
                 "9975 log: y: trying again: the store took longer than the ttl of 10000 ms to "
                 "begin a session: give a longer ttl\n"
                 "9982 b begin\n"
                 "9982 b x: enter\n"
                 "9982 b has x\n"
                 "9983 b y: enter\n"
                 "9983 b has y\n"
                 "10982 b sweep\n");
    end();
}

/* ---- Tickets that go ---- */

static void test_a_ticket_that_goes(void **state)
{
    (void)state;
    hold("memory:goes", defaults);
    play(take_part, &waits, 1000);
    stage_drop_record(b, "x");
    stage_run(4000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1507 b look at x since 2\n"
                 "1507 b x: enter\n"
                 "1507 b has x\n"
                 "1507 b hears a grant\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1\n");
    end();
}

static void test_a_session_that_goes_while_it_waits(void **state)
{
    (void)state;
    hold("memory:orphan", defaults);
    play(take_part, &waits, 1000);
    stage_mark_dead(a, b->session.self.id);
    stage_run(4000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1507 b look at x since 2\n"
                 "3015 b look at x since 2\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1, waits\n"
                 "3333 b hears HF_LOST\n"
                 "3333 b look at 1 sessions\n"
                 "3333 b end, leaving tickets\n"
                 "3333 b begin\n"
                 "3333 b x: leave-unused enter\n"
                 "3433 b look at 1 sessions\n"
                 "4333 b sweep\n"
                 "4846 b look at x since 3\n");
    end();
}

/* What one thread learns of the store, the others need not learn one after the other. */
static void test_a_try_behind_others_that_begin_in_vain(void **state)
{
    (void)state;
    begin_in_vain("memory:begin-in-vain", 3000);
    part try = {.client = b, .name = "z", .options = {.wait_ms = HF_TRY}};
    stage_act(take_part, &waits);
    stage_act(take_part, &more);
    stage_run(100);
    play(take_part, &try, 9000);
    stage_expect("0 b begin: not sent, HF_UNREACHABLE\n"
                 "3000 log: x: trying again: injected\n"
                 "3000 log: y: trying again: injected\n"
                 "3000 log: z: trying again: injected\n"
                 "3007 b begin: not sent, HF_UNREACHABLE\n"
                 "4109 b is told HF_UNREACHABLE: z: the store does not answer\n"
                 "6023 b begin: not sent, HF_UNREACHABLE\n"
                 "9052 b begin: not sent, HF_UNREACHABLE\n");
    end();
}

/* A session's death takes its tickets along only where there is a queue: else it must leave. */
static void test_it_gives_up_when_its_session_is_gone(void **state)
{
    (void)state;
    stage_fault fault = {.who = 'b', .call = FAULTY_BEGIN, .times = 100, .before = HF_UNREACHABLE};
    hold("memory:gone-queue", defaults);
    waits.options.wait_ms = 3500;
    stage_act(take_part, &waits);
    stage_run(1000);
    stage_mark_dead(a, b->session.self.id);
    stage_let_fail(fault);
    stage_run(3000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1507 b look at x since 2\n"
                 "3015 b look at x since 2\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1, waits\n"
                 "3333 b hears HF_LOST\n"
                 "3333 b look at 1 sessions\n"
                 "3333 b end, leaving tickets\n"
                 "3333 b begin: not sent, HF_UNREACHABLE\n"
                 "3333 log: x: trying again: injected\n"
                 "3343 b begin: not sent, HF_UNREACHABLE\n"
                 "3355 b begin: not sent, HF_UNREACHABLE\n"
                 "3390 b begin: not sent, HF_UNREACHABLE\n"
                 "3447 b begin: not sent, HF_UNREACHABLE\n"
                 "3500 b is told HF_UNREACHABLE: injected\n");
    end();
    begin("memory:gone-no-queue", defaults);
    faulty_end_queue(stage_store(b));
    waits.options.wait_ms = 3500;
    stage_let_fail((stage_fault){
        .who = 'b', .call = FAULTY_STEP, .is = stage_is_enter, .times = 100, .after = HF_UNKNOWN});
    stage_act(take_part, &waits);
    stage_run(3300);
    stage_mark_dead(a, b->session.self.id);
    stage_let_fail(fault);
    stage_forget();
    stage_run(1000);
    stage_expect("3333 b beat, seen 1, waits\n"
                 "3333 b hears HF_LOST\n"
                 "3333 b end, leaving tickets\n"
                 "3500 b is told HF_UNKNOWN: injected\n"
                 "3500 b x: leave-unused\n");
    end();
}

static void test_a_wait_that_is_cancelled(void **state)
{
    (void)state;
    hf_error err;
    hold("memory:cancelled", defaults);
    assert_int_equal(hf_cancel_new(&waits.options.cancel, &err), HF_OK);
    waits.options.on_wait = say_wait;
    play(acquire_part, &waits, 700);
    hf_cancel_fire(waits.options.cancel);
    stage_run(1000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "0 waits for x 0 ms, 1 of 1, held by 1: another session 'audit', since then\n"
                 "360 b look at 1 sessions\n"
                 "720 b x: leave-unused\n"
                 "720 acquired x: HF_CANCELLED: x: waiting was cancelled\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n");
    hf_cancel_free(waits.options.cancel);
    end();
}

/* A grant that is seen when its lease is over is none: it is waited for anew. */
static void test_an_answer_that_comes_too_late(void **state)
{
    (void)state;
    begin("memory:late-grant", defaults);
    answer_enter_late('b', 10000);
    play(take_part, &waits, 15000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "0 b hears a grant\n"
                 "1000 b sweep\n"
                 "3333 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "3333 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "3833 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "4333 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "4833 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "5333 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "5833 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "6333 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "6833 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "7333 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "7833 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "8333 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "8833 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "9333 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "9833 b beat, seen 1, waits: not sent, HF_UNREACHABLE\n"
                 "9975 b look at 1 sessions\n"
                 "9975 b end, leaving tickets\n"
                 "10000 b begin\n"
                 "10000 b x: leave-unused enter\n"
                 "10000 b has x\n"
                 "10019 b hears a grant\n"
                 "11000 b sweep\n"
                 "13333 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "13333 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "13833 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "14333 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "14833 b beat, seen 1: not sent, HF_UNREACHABLE\n");
    end();
}

/* The ticket was granted, and b was told so; then it was taken out, and the repeated enter stands
 * behind c. */
static void test_a_notice_that_is_older_than_the_answer(void **state)
{
    (void)state;
    hold("memory:old-notice", defaults);
    part taken = {.client = stage_client("memory:old-notice", NULL), .name = "x"};
    stage_let_fail((stage_fault){.who = 'b',
                                 .call = FAULTY_STEP,
                                 .is = stage_is_enter,
                                 .after = HF_UNKNOWN,
                                 .slow_ms = 600});
    play(take_part, &waits, 200);
    play(close_part, &x, 200);
    stage_drop_record(a, "x");
    play(take_part, &taken, 400);
    play(close_part, &taken, 500);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "200.1 a x: leave\n"
                 "400 c begin\n"
                 "400 c x: enter\n"
                 "400 c has x\n"
                 "400 c sweep\n"
                 "501 b hears a grant\n"
                 "600 b hears HF_UNKNOWN\n"
                 "600 log: x: trying again: injected\n"
                 "609 b x: enter\n"
                 "609 b look at x since 5\n"
                 "800.1 c x: leave\n"
                 "800.1 b hears a grant\n"
                 "800.1 b has x\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n");
    close_part(&taken);
    end();
}

/* Its own ticket of the session before is in its way, and no other's. */
static void test_a_try_whose_answer_comes_too_late(void **state)
{
    (void)state;
    begin("memory:late-try", (hf_options){.ttl_ms = 1000});
    waits.options.wait_ms = HF_TRY;
    answer_enter_late('b', 1000);
    play(take_part, &waits, 1100);
    stage_expect("0 b begin\n"
                 "0 b x: enter-or-not\n"
                 "0 b hears a grant\n"
                 "333 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "333 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "383 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "433 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "483 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "533 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "583 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "633 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "683 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "733 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "783 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "833 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "883 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "933 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "983 b beat, seen 1: not sent, HF_UNREACHABLE\n"
                 "993 b look at 1 sessions\n"
                 "993 b end, leaving tickets\n"
                 "1000 b sweep\n"
                 "1000 b begin\n"
                 "1000 b x: leave-unused enter-or-not\n"
                 "1000 b has x\n"
                 "1001 b hears a grant\n");
    end();
}

/* ---- Without notices ---- */

static void test_without_notices_it_polls(void **state)
{
    (void)state;
    hold("memory:polls", defaults);
    stage_store(b)->is_deaf = true;
    play(take_part, &waits, 3000);
    play(close_part, &x, 1000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "0 log: there are no notices, polling instead: there are no notices\n"
                 "0 b look at x since 2\n"
                 "18 b look at x since 2\n"
                 "47 b look at x since 2\n"
                 "97 b look at x since 2\n"
                 "188 b look at x since 2\n"
                 "360 b look at x since 2\n"
                 "360 b look at 1 sessions\n"
                 "623 b look at x since 2\n"
                 "887 b look at x since 2\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1152 b look at x since 2\n"
                 "1418 b look at x since 2\n"
                 "1685 b look at x since 2\n"
                 "1953 b look at x since 2\n"
                 "2222 b look at x since 2\n"
                 "2492 b look at x since 2\n"
                 "2763 b look at x since 2\n"
                 "3000.1 a x: leave\n"
                 "3035 b look at x since 2\n"
                 "3035 b has x\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1\n");
    end();
    hold("memory:cannot", defaults);
    stage_store(b)->base.can &= ~(unsigned)HF_CAN_NOTIFY;
    play(take_part, &waits, 1000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "6 b look at x since 2\n"
                 "24 b look at x since 2\n"
                 "53 b look at x since 2\n"
                 "103 b look at x since 2\n"
                 "194 b look at x since 2\n"
                 "366 b look at x since 2\n"
                 "366 b look at 1 sessions\n"
                 "629 b look at x since 2\n"
                 "893 b look at x since 2\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n");
    end();
}

static void test_listening_that_fails(void **state)
{
    (void)state;
    hold("memory:unheard", defaults);
    stage_tell_listening();
    stage_let_listening_fail(6);
    play(take_part, &waits, 4000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "0 b listens for 1000 ms, since 2\n"
                 "0 log: listening for notices failed, trying again: nothing is heard\n"
                 "33 b listens for 1000 ms, since 2\n"
                 "33 log: listening for notices failed, trying again: nothing is heard\n"
                 "92 b listens for 1000 ms, since 2\n"
                 "92 log: listening for notices failed, trying again: nothing is heard\n"
                 "202 b listens for 1000 ms, since 2\n"
                 "202 log: listening for notices failed, trying again: nothing is heard\n"
                 "400 b look at 1 sessions\n"
                 "413 b listens for 1000 ms, since 2\n"
                 "413 log: listening for notices failed, trying again: nothing is heard\n"
                 "825 b listens for 1000 ms, since 2\n"
                 "825 log: listening for notices failed, trying again: nothing is heard\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1338 b listens for 1000 ms, since 2\n"
                 "1507 b look at x since 2\n"
                 "2338 b listens for 1000 ms, since 2\n"
                 "3021 b look at x since 2\n"
                 "3333 a beat, seen 1\n"
                 "3333 b beat, seen 1, waits\n"
                 "3338 b listens for 1000 ms, since 2\n"
                 "3433 b look at 1 sessions\n");
    end();
}

/* On one host, where a crash shows at once. */
static void test_where_crashes_show(void **state)
{
    (void)state;
    hold("memory:here", (hf_options){.ttl_ms = 4000});
    c = stage_client("memory:here", NULL);
    stage_store(b)->base.can |= HF_CAN_SEE_CRASH;
    stage_store(c)->base.can |= HF_CAN_SEE_CRASH;
    more = (part){.client = c, .name = "x"};
    stage_tell_listening();
    stage_act(take_part, &waits);
    play(take_part, &more, 12000);
    stage_expect("0 b begin\n"
                 "0 b x: enter\n"
                 "0 b listens for 1000 ms, since 2\n"
                 "0 b look at 1 sessions\n"
                 "0 c begin\n"
                 "0 c x: enter\n"
                 "0 c listens for 1000 ms, since 3\n"
                 "0 c look at 2 sessions\n"
                 "1000 a sweep\n"
                 "1000 b sweep\n"
                 "1000 b listens for 1000 ms, since 2\n"
                 "1000 c sweep\n"
                 "1000 c listens for 1000 ms, since 3\n"
                 "1007 b look at x since 2\n"
                 "1333 b beat, seen 1, waits\n"
                 "2000 b listens for 1000 ms, since 2\n"
                 "2000 c listens for 1000 ms, since 3\n"
                 "2511 c look at x since 3\n"
                 "2666 b beat, seen 2, waits\n"
                 "3000 b listens for 1000 ms, since 2\n"
                 "3000 c listens for 1000 ms, since 3\n"
                 "3019 b look at x since 2\n"
                 "3333 a beat, seen 1\n"
                 "3333 c beat, seen 1, waits\n"
                 "3433 b look at 1 sessions\n"
                 "3999 b beat, seen 3, waits\n"
                 "4000 b listens for 1000 ms, since 2\n"
                 "4000 c listens for 1000 ms, since 3\n"
                 "5000 b listens for 1000 ms, since 2\n"
                 "5000 c listens for 1000 ms, since 3\n"
                 "5033 b look at x since 2\n"
                 "5332 b beat, seen 4, waits\n"
                 "6000 b listens for 1000 ms, since 2\n"
                 "6000 c listens for 1000 ms, since 3\n"
                 "6665 b beat, seen 5, waits\n"
                 "6666 a beat, seen 2\n"
                 "6666 c beat, seen 2, waits\n"
                 "6766 b look at 1 sessions\n"
                 "7000 b listens for 1000 ms, since 2\n"
                 "7000 c listens for 1000 ms, since 3\n"
                 "7048 b look at x since 2\n"
                 "7524 c look at x since 3\n"
                 "7524 c look at 1 sessions\n"
                 "7998 b beat, seen 6, waits\n"
                 "8000 b listens for 1000 ms, since 2\n"
                 "8000 c listens for 1000 ms, since 3\n"
                 "9000 b listens for 1000 ms, since 2\n"
                 "9000 c listens for 1000 ms, since 3\n"
                 "9064 b look at x since 2\n"
                 "9331 b beat, seen 7, waits\n"
                 "9999 a beat, seen 3\n"
                 "9999 c beat, seen 3, waits\n"
                 "10000 a look at x since 1\n"
                 "10000 b listens for 1000 ms, since 2\n"
                 "10000 c listens for 1000 ms, since 3\n"
                 "10099 b look at 1 sessions\n"
                 "10664 b beat, seen 8, waits\n"
                 "11000 b listens for 1000 ms, since 2\n"
                 "11000 c listens for 1000 ms, since 3\n"
                 "11082 b look at x since 2\n"
                 "11997 b beat, seen 9, waits\n"
                 "12000 b listens for 1000 ms, since 2\n"
                 "12000 c listens for 1000 ms, since 3\n");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_woken_by_a_notice),
        cmocka_unit_test(test_who_may_not_wait),
        cmocka_unit_test(test_limits_that_disagree),
        cmocka_unit_test(test_a_limit_of_the_dead),
        cmocka_unit_test(test_a_holder_that_has_died),
        cmocka_unit_test(test_a_holder_that_lives),
        cmocka_unit_test(test_a_try_beside_one_that_is_overdue),
        cmocka_unit_test(test_a_try_beside_one_whose_session_is_gone),
        cmocka_unit_test(test_a_short_wait_beside_one_that_is_overdue),
        cmocka_unit_test(test_a_try_beside_two_of_which_one_is_overdue),
        cmocka_unit_test(test_a_holder_that_was_asked_long_ago),
        cmocka_unit_test(test_a_holder_that_is_marked),
        cmocka_unit_test(test_a_holder_whose_session_begins_again),
        cmocka_unit_test(test_a_beat_that_begins_again_is_another),
        cmocka_unit_test(test_who_waits_outside_has_no_session),
        cmocka_unit_test(test_who_rests_outside_hears_that_the_line_moves),
        cmocka_unit_test(test_who_rests_outside_comes_in_without_a_ring),
        cmocka_unit_test(test_who_rests_outside_heeds_until_its_client_has_a_session),
        cmocka_unit_test(test_a_deadlock_of_one_that_rests_outside),
        cmocka_unit_test(test_the_dead_are_no_reason_to_refuse),
        cmocka_unit_test(test_a_try_after_an_outage),
        cmocka_unit_test(test_calls_of_the_judge_that_fail),
        cmocka_unit_test(test_marks_that_come_too_late),
        cmocka_unit_test(test_enters_that_fail),
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_a_try_is_answered_within_five_seconds),
        cmocka_unit_test(test_looks_that_fail),
        cmocka_unit_test(test_sessions_that_do_not_begin),
        cmocka_unit_test(test_a_try_behind_others_that_begin_in_vain),
        cmocka_unit_test(test_a_ticket_that_goes),
        cmocka_unit_test(test_a_session_that_goes_while_it_waits),
        cmocka_unit_test(test_it_gives_up_when_its_session_is_gone),
        cmocka_unit_test(test_a_wait_that_is_cancelled),
        cmocka_unit_test(test_an_answer_that_comes_too_late),
        cmocka_unit_test(test_a_notice_that_is_older_than_the_answer),
        cmocka_unit_test(test_a_try_whose_answer_comes_too_late),
        cmocka_unit_test(test_without_notices_it_polls),
        cmocka_unit_test(test_listening_that_fails),
        cmocka_unit_test(test_where_crashes_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
