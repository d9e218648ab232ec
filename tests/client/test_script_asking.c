/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_asking.c: what is refused before anything is sent; what clients send that only look;
 * and locks in documents, which are claimed and refreshed. Run by ctest. */
#include "client/script_bed.h"

#include <unistd.h>

static hf_client *a, *b;
static part x, y;

static void begin(const char *uri, hf_options options)
{
    stage_begin();
    options.log = say_log;
    a = stage_client(uri, &options);
    b = stage_client(uri, NULL);
    x = (part){.client = a, .name = "x", .options = {.why = "audit", .on_lost = say_loss}};
    y = (part){.client = b, .name = "y", .options.actor = "till"};
}

static void end(void)
{
    close_parts((part *const[]){&x, &y}, 2);
    stage_end();
}

static const hf_options defaults;

/* ---- Options ---- */

static void say_opened(const hf_options *options)
{
    hf_error err = {.code = HF_OK};
    hf_client *client = NULL;
    hf_code code = hf_open("memory:opened", options, &client, &err);
    say_code("opened", "", code, &err);
    if (!code)
        stage_say("ttl %lld, notice %lld, patience %lld, trust %lld, deadlock %lld, app %s, %s",
                  (long long)client->ttl_ms, (long long)client->stop_margin_ms,
                  (long long)client->patience_ms, (long long)client->clock_trust_ms,
                  (long long)client->deadlock_ms, client->identity.app, client->identity.who);
    hf_close(client);
}

static void test_options_of_a_client(void **state)
{
    (void)state;
    char app[103];
    memset(app, 'p', sizeof app);
    app[101] = '\0';
    const hf_options options[] = {{.app = "p"},
                                  {.ttl_ms = 999},
                                  {.ttl_ms = 1000, .app = "p"},
                                  {.ttl_ms = 3600000, .app = "p"},
                                  {.ttl_ms = 3600001},
                                  {.stop_margin_ms = -1},
                                  {.stop_margin_ms = 5000, .app = "p"},
                                  {.stop_margin_ms = 5001},
                                  {.ttl_ms = 2000, .stop_margin_ms = 1001},
                                  {.patience_ms = -1},
                                  {.patience_ms = 1, .clock_trust_ms = 7, .app = "p"},
                                  {.deadlock_ms = 9},
                                  {.deadlock_ms = 10, .app = "p"},
                                  {.deadlock_ms = -1, .clock_trust_ms = -1, .app = "p"},
                                  {.app = app}};
    begin("memory:opening", defaults);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        say_opened(&options[i]);
    app[100] = '\0';
    say_opened(&options[14]);
    say_opened(NULL);
    stage_expect(
        "0 opened : yes\n"
        "0 ttl 10000, notice 0, patience 30000, trust 300000, deadlock 1000, app p, p@:1\n"
        "0 opened : HF_INVALID: a ttl of 999 ms: it must be between 1 s and 1 h\n"
        "0 opened : yes\n"
        "0 ttl 1000, notice 0, patience 30000, trust 300000, deadlock 1000, app p, p@:1\n"
        "0 opened : yes\n"
        "0 ttl 3600000, notice 0, patience 30000, trust 300000, deadlock 1000, app p, p@:1\n"
        "0 opened : HF_INVALID: a ttl of 3600001 ms: it must be between 1 s and 1 h\n"
        "0 opened : HF_INVALID: a stop margin of -1 ms does not fit a ttl of 10000 ms: at most "
        "half of "
        "it\n"
        "0 opened : yes\n"
        "0 ttl 10000, notice 5000, patience 30000, trust 300000, deadlock 1000, app p, p@:1\n"
        "0 opened : HF_INVALID: a stop margin of 5001 ms does not fit a ttl of 10000 ms: at most "
        "half "
        "of it\n"
        "0 opened : HF_INVALID: a stop margin of 1001 ms does not fit a ttl of 2000 ms: at most "
        "half of "
        "it\n"
        "0 opened : HF_INVALID: a patience of -1 ms is negative\n"
        "0 opened : yes\n"
        "0 ttl 10000, notice 0, patience 1, trust 7, deadlock 1000, app p, p@:1\n"
        "0 opened : HF_INVALID: looking for deadlocks after 9 ms: at least 10, or negative: never\n"
        "0 opened : yes\n"
        "0 ttl 10000, notice 0, patience 30000, trust 300000, deadlock 10, app p, p@:1\n"
        "0 opened : yes\n"
        "0 ttl 10000, notice 0, patience 30000, trust -1, deadlock -1, app p, p@:1\n"
        "0 opened : HF_INVALID: the app's name is 101 bytes long: at most 100 are allowed "
        "(pppppppppppppppppppppppppppppppppppppppp...)\n"
        "0 opened : yes\n"
        "0 ttl 10000, notice 0, patience 30000, trust 300000, deadlock 1000, app "
        "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp"
        "pppppppppp, "
        "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp"
        "pppppppppp@:1\n"
        "0 opened : yes\n"
        "0 ttl 10000, notice 0, patience 30000, trust 300000, deadlock 1000, app "
        "test_script_asking, test_script_asking@:1\n");
    end();
}

static void test_bounds_of_looking_for_deadlocks(void **state)
{
    (void)state;
    begin("memory:bounds", defaults);
    say_opened(&(hf_options){.deadlock_ms = 1});
    stage_expect(
        "0 opened : HF_INVALID: looking for deadlocks after 1 ms: at least 10, or negative: "
        "never\n");
    end();
}

static void say_tried(void *arg)
{
    const hf_lock_options *options = arg;
    hf_error err = {.code = HF_OK};
    hf_lock *lock = NULL;
    hf_code code = hf_lock_acquire(a, "x", options, &lock, &err);
    say_code("tried", "x", code, &err);
    hf_lock_close(lock);
}

static void test_options_of_a_lock(void **state)
{
    (void)state;
    static char text[HF_TEXT_MAX + 2], actor[HF_ACTOR_MAX + 2];
    memset(text, 'w', HF_TEXT_MAX + 1);
    memset(actor, 'a', HF_ACTOR_MAX + 1);
    hf_lock_options options[] = {{.permits = 1},
                                 {.limit = 1},
                                 {.permits = 1, .limit = 1},
                                 {.permits = -1, .limit = 1},
                                 {.permits = 1, .limit = -1},
                                 {.permits = 2, .limit = 1},
                                 {.permits = HF_LIMIT_RW, .limit = HF_LIMIT_RW},
                                 {.permits = 1, .limit = INT32_MAX},
                                 {.period_ms = 999},
                                 {.period_ms = 1000},
                                 {.period_ms = INT64_C(87600) * 3600000},
                                 {.period_ms = INT64_C(87600) * 3600000 + 1},
                                 {.period_ms = 60000, .mode = HF_SHARED},
                                 {.period_ms = 60000, .permits = 1, .limit = 1},
                                 {.feed_ms = -1},
                                 {.max_hold_ms = -1},
                                 {.feed_ms = 1000, .max_hold_ms = 1000},
                                 {.linger_ms = -1},
                                 {.linger_ms = 1},
                                 {.linger_ms = 3600000},
                                 {.linger_ms = 3600001},
                                 {.linger_ms = 1000, .mode = HF_SHARED},
                                 {.linger_ms = 1000, .permits = 1, .limit = 1},
                                 {.linger_ms = 1000, .period_ms = 60000},
                                 {.no_refresh = true},
                                 {.why = text},
                                 {.actor = actor}};
    begin("memory:options", defaults);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        stage_say("%zu", i);
        options[i].wait_ms = HF_TRY;
        play(say_tried, &options[i], 10);
        stage_drop_record(a, "x");
    }
    stage_expect(
        "0 0\n"
        "0 tried x: HF_INVALID: permits 1 of limit 0: both must be given, and be at least 1\n"
        "10 1\n"
        "10 tried x: HF_INVALID: permits 0 of limit 1: both must be given, and be at least 1\n"
        "20 2\n"
        "20 a begin\n"
        "20 a x: enter-or-not\n"
        "20 tried x: yes\n"
        "20.1 a x: leave\n"
        "30 3\n"
        "30 tried x: HF_INVALID: permits -1 of limit 1: both must be given, and be at least 1\n"
        "40 4\n"
        "40 tried x: HF_INVALID: permits 1 of limit -1: both must be given, and be at least 1\n"
        "50 5\n"
        "50 tried x: HF_INVALID: permits 2 are more than the limit of 1\n"
        "60 6\n"
        "60 a x: enter-or-not\n"
        "60 tried x: yes\n"
        "60.1 a x: leave\n"
        "70 7\n"
        "70 tried x: HF_INVALID: limit 2147483647 is above 1073741824\n"
        "80 8\n"
        "80 tried x: HF_INVALID: a period of 999 ms: at least 1 s, at most 87600 h\n"
        "90 9\n"
        "90 a x: enter-or-not\n"
        "90 tried x: yes\n"
        "90.1 a x: leave-unused\n"
        "100 10\n"
        "100 a x: enter-or-not\n"
        "100 tried x: yes\n"
        "100.1 a x: leave-unused\n"
        "110 11\n"
        "110 tried x: HF_INVALID: a period of 315360000001 ms: at least 1 s, at most 87600 h\n"
        "120 12\n"
        "120 tried x: HF_INVALID: once per period is for exclusive locks: of several that hold at "
        "once, none would see that another has run\n"
        "130 13\n"
        "130 tried x: HF_INVALID: once per period is for exclusive locks: of several that hold at "
        "once, none would see that another has run\n"
        "140 14\n"
        "140 tried x: HF_INVALID: a feeding interval of -1 ms is negative\n"
        "150 15\n"
        "150 tried x: HF_INVALID: a longest holding of -1 ms is negative\n"
        "160 16\n"
        "160 a x: enter-or-not\n"
        "160 tried x: yes\n"
        "160.1 a x: leave\n"
        "170 17\n"
        "170 tried x: HF_INVALID: to linger for -1 ms: from 0 to one hour\n"
        "180 18\n"
        "180 a x: enter-or-not-yielding\n"
        "180 tried x: yes\n"
        "180.1 a x: leave\n"
        "190 19\n"
        "190 a x: enter-or-not-yielding\n"
        "190 tried x: yes\n"
        "190.1 a x: leave\n"
        "200 20\n"
        "200 tried x: HF_INVALID: to linger for 3600001 ms: from 0 to one hour\n"
        "210 21\n"
        "210 tried x: HF_INVALID: only exclusive locks linger, and none that are taken once per "
        "period\n"
        "220 22\n"
        "220 tried x: HF_INVALID: only exclusive locks linger, and none that are taken once per "
        "period\n"
        "230 23\n"
        "230 tried x: HF_INVALID: only exclusive locks linger, and none that are taken once per "
        "period\n"
        "240 24\n"
        "240 tried x: HF_UNSUPPORTED: protocol (null) renews all its locks itself: "
        "hfProtocol=document has locks that are refreshed by hand (no_refresh)\n"
        "250 25\n"
        "250 tried x: HF_INVALID: the reason (why) is 257 bytes long: at most 256 are allowed "
        "(wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww...)\n"
        "260 26\n"
        "260 tried x: HF_INVALID: the actor is 65 bytes long: at most 64 are allowed "
        "(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...)\n");
    end();
}

static void test_what_is_not_to_be_had_without(void **state)
{
    (void)state;
    hf_lock_options options[] = {{.mode = HF_SHARED},
                                 {.permits = 1, .limit = 2},
                                 {.mode = HF_EXCLUSIVE},
                                 {.period_ms = 60000},
                                 {.linger_ms = 1000}};
    begin("memory:lacks", defaults);
    stage_store(a)->base.can &= ~(unsigned)HF_CAN_SHARE;
    for (size_t i = 0; i < 3; i++)
        play(say_tried, &options[i], 10);
    stage_store(a)->base.can &= ~(unsigned)HF_CAN_NOTIFY;
    play(say_tried, &options[4], 10);
    stage_store(a)->base.can |= HF_CAN_NOTIFY;
    stage_store(a)->base.can &= ~(unsigned)HF_CAN_QUEUE;
    play(say_tried, &options[3], 10);
    play(say_tried, &options[4], 10);
    stage_store(a)->base.can |= HF_CAN_QUEUE;
    stage_expect("0 tried x: HF_UNSUPPORTED: protocol (null) has no shared locks and no "
                 "semaphores: hfProtocol=queue has them\n"
                 "10 tried x: HF_UNSUPPORTED: protocol (null) has no shared locks and no "
                 "semaphores: hfProtocol=queue has them\n"
                 "20 a begin\n"
                 "20 a x: enter\n"
                 "20 tried x: yes\n"
                 "20.1 a x: leave\n"
                 "30 tried x: HF_UNSUPPORTED: protocol (null) cannot ask for a lock that lingers: "
                 "hfProtocol=queue can\n"
                 "40 tried x: HF_UNSUPPORTED: protocol (null) does not keep how a lock was left, "
                 "so nothing is done once per period: hfProtocol=queue does\n"
                 "50 tried x: HF_UNSUPPORTED: protocol (null) cannot ask for a lock that lingers: "
                 "hfProtocol=queue can\n");
    end();
}

/* ---- Looking ---- */

static bool say_entries(const char *what, const hf_entry_info *of, size_t n)
{
    for (size_t i = 0; i < n; i++)
        stage_say("  %s %zu: %s '%s' '%s', %d, %s, %s, %lld ms left", what, of[i].position,
                  of[i].who, of[i].actor, of[i].why, (int)of[i].permits,
                  of[i].token ? "a token" : "none", of[i].granted_ms ? "granted" : "waits",
                  (long long)of[i].lease_left_ms);
    return true;
}

static bool say_lock(void *ctx, const hf_lock_info *info)
{
    int *most = ctx;
    stage_say("%s, limit %d, last '%s'", info->name, (int)info->limit, info->last.who);
    say_entries("holds", info->holders, info->n_holders);
    say_entries("waits", info->queue, info->n_queue);
    return !most || --*most > 0;
}

static void look_at_all(void *arg)
{
    hf_error err;
    hf_code code = hf_list(b, NULL, say_lock, arg, &err);
    say_code("listed", "", code, &err);
}

static void show(void *name)
{
    hf_error err;
    hf_code code = hf_show(b, name, say_lock, NULL, &err);
    say_code("shown", name, code, &err);
}

static bool say_session(void *ctx, const hf_session_info *info)
{
    (void)ctx;
    stage_say("%s, pid %s, ttl %lld, %lld ms left%s", info->app,
              info->pid == getpid() ? "own" : "?", (long long)info->ttl_ms,
              (long long)info->lease_left_ms, info->dead ? ", dead" : "");
    return true;
}

static void list_sessions(void *unused)
{
    (void)unused;
    hf_error err;
    hf_code code = hf_sessions(b, say_session, NULL, &err);
    say_code("listed", "sessions", code, &err);
}

static void test_what_is_shown(void **state)
{
    (void)state;
    part waiting = {.name = "x", .options = {.actor = "till", .wait_ms = 20000}};
    begin("memory:shown", defaults);
    play(look_at_all, NULL, 0);
    play(take_part, &x, 0);
    play(take_part, &y, 0);
    waiting.client = b;
    play(take_part, &waiting, 1000);
    stage_forget();
    play(look_at_all, NULL, 0);
    int most = 1;
    play(look_at_all, &most, 0);
    play(show, "x", 0);
    play(show, "z", 0);
    play(show, "", 0);
    play(list_sessions, NULL, 0);
    stage_mark_dead(b, a->session.self.id);
    play(show, "x", 0);
    play(list_sessions, NULL, 0);
    stage_drop_session(b, a->session.self.id);
    play(show, "x", 0);
    stage_expect("1000 b look at 2 sessions\n"
                 "1000 x, limit 1073741824, last ''\n"
                 "1000   holds 0: a@:1 '' 'audit', 1073741824, a token, granted, 9000 ms left\n"
                 "1000   waits 1: b@:1 'till' '', 1073741824, none, waits, 9000 ms left\n"
                 "1000 y, limit 1073741824, last ''\n"
                 "1000   holds 0: b@:1 'till' '', 1073741824, a token, granted, 9000 ms left\n"
                 "1000 listed : yes\n"
                 "1000 b look at 2 sessions\n"
                 "1000 x, limit 1073741824, last ''\n"
                 "1000   holds 0: a@:1 '' 'audit', 1073741824, a token, granted, 9000 ms left\n"
                 "1000   waits 1: b@:1 'till' '', 1073741824, none, waits, 9000 ms left\n"
                 "1000 listed : yes\n"
                 "1000 b look at x\n"
                 "1000 b look at 2 sessions\n"
                 "1000 x, limit 1073741824, last ''\n"
                 "1000   holds 0: a@:1 '' 'audit', 1073741824, a token, granted, 9000 ms left\n"
                 "1000   waits 1: b@:1 'till' '', 1073741824, none, waits, 9000 ms left\n"
                 "1000 shown x: yes\n"
                 "1000 b look at z\n"
                 "1000 shown z: HF_NOT_FOUND: there is no lock z: nobody has ever taken it, or it "
                 "was idle for days and pruned\n"
                 "1000 shown : HF_INVALID: the lock's name is empty: give 1 to 512 bytes\n"
                 "1000 a, pid own, ttl 10000, 9000 ms left\n"
                 "1000 b, pid own, ttl 10000, 9000 ms left\n"
                 "1000 listed sessions: yes\n"
                 "1000 b look at x\n"
                 "1000 b look at 2 sessions\n"
                 "1000 x, limit 1073741824, last ''\n"
                 "1000   holds 0: a@:1 '' 'audit', 1073741824, a token, granted, 9000 ms left\n"
                 "1000   waits 1: b@:1 'till' '', 1073741824, none, waits, 9000 ms left\n"
                 "1000 shown x: yes\n"
                 "1000 b hears that it should look\n"
                 "1000 b look at x since 3\n"
                 "1000 b look at 1 sessions\n"
                 "1000 b x: bury\n"
                 "1000 b hears a grant\n"
                 "1000 b has x\n"
                 "1000 a, pid own, ttl 10000, 9000 ms left, dead\n"
                 "1000 b, pid own, ttl 10000, 9000 ms left\n"
                 "1000 listed sessions: yes\n"
                 "1000 b look at x\n"
                 "1000 b look at 1 sessions\n"
                 "1000 x, limit 1073741824, last 'a@:1'\n"
                 "1000   holds 0: b@:1 'till' '', 1073741824, a token, granted, 9000 ms left\n"
                 "1000 shown x: yes\n");
    stage_let_fail((stage_fault){.call = FAULTY_SESSIONS_LOOK, .who = 'b', .before = HF_SHAPE});
    stage_let_fail((stage_fault){.call = FAULTY_SESSIONS_LOOK, .who = 'b', .before = HF_DENIED});
    play(look_at_all, NULL, 0);
    play(look_at_all, NULL, 0);
    stage_let_fail((stage_fault){.call = FAULTY_LOOK, .who = 'b', .before = HF_UNREACHABLE});
    play(show, "x", 0);
    stage_expect("1000 b look at 1 sessions: not sent, HF_SHAPE\n"
                 "1000 x, limit 1073741824, last 'a@:1'\n"
                 "1000   holds 0:  'till' '', 1073741824, a token, granted, 0 ms left\n"
                 "1000 y, limit 1073741824, last ''\n"
                 "1000   holds 0:  'till' '', 1073741824, a token, granted, 0 ms left\n"
                 "1000 listed : yes\n"
                 "1000 b look at 1 sessions: not sent, HF_DENIED\n"
                 "1000 listed : HF_DENIED: injected\n"
                 "1000 b look at x: not sent, HF_UNREACHABLE\n"
                 "1000 shown x: HF_UNREACHABLE: injected\n");
    stage_run(30000);
    close_part(&waiting);
    end();
}

static void test_who_held_it_before(void **state)
{
    (void)state;
    part next = {.name = "x", .options.wait_ms = 60000};
    begin("memory:before", defaults);
    next.client = b;
    play(take_part, &x, 0);
    stage_act(take_part, &next);
    stage_run(500);
    hf_lock_set_exit_status(x.lock, 4);
    play(close_part, &x, 10);
    stage_let_fail((stage_fault){.call = FAULTY_LOOK, .who = 'b', .before = HF_DENIED});
    play(tell_previous, &next, 0);
    play(tell_previous, &next, 0);
    play(tell_previous, &next, 0);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "0 b begin\n"
                 "0 b x: enter\n"
                 "400 b look at 1 sessions\n"
                 "500.1 a x: leave=4\n"
                 "500.1 b hears a grant\n"
                 "500.1 b has x\n"
                 "510 b look at x since 3: not sent, HF_DENIED\n"
                 "510 before x: injected\n"
                 "510 b look at x since 3\n"
                 "510 before x: a@:1, outcome 1, with an exit status, ''\n"
                 "510 before x: a@:1, outcome 1, with an exit status, ''\n");
    play(close_part, &next, 10);
    play(take_part, &x, 0);
    stage_act(take_part, &next);
    stage_run(500);
    play(close_part, &x, 10);
    stage_drop_record(b, "x");
    play(tell_previous, &next, 0);
    stage_expect(
        "510.1 b x: leave\n"
        "520 a x: enter\n"
        "520 a has x\n"
        "520 b x: enter\n"
        "920 b look at 1 sessions\n"
        "1000 a sweep\n"
        "1000 b sweep\n"
        "1020.1 a x: leave\n"
        "1020.1 b hears a grant\n"
        "1020.1 b has x\n"
        "1030 b look at x since 7\n"
        "1030 before x: x: who held it before is not known, and it is not held any more\n");
    play(close_part, &next, 10);
    end();
}

/* ---- Observing ---- */

static bool say_leader(void *ctx, const hf_leader *leader)
{
    int *most = ctx;
    stage_say("leads: %s", leader ? leader->who : "nobody");
    return --*most > 0;
}

static void observe(void *cancel)
{
    hf_error err = {.code = HF_OK};
    int most = 5;
    hf_code code = hf_election_observe(b, "x", say_leader, &most, cancel, &err);
    say_code("observed", "x", code, &err);
}

static void test_what_an_observer_sends(void **state)
{
    (void)state;
    begin("memory:observed", (hf_options){.ttl_ms = 2000});
    stage_act(observe, NULL);
    stage_run(800);
    play(take_part, &x, 800);
    stage_let_fail(
        (stage_fault){.call = FAULTY_LOOK, .who = 'b', .times = 2, .before = HF_UNREACHABLE});
    play(close_part, &x, 1500);
    play(take_part, &x, 1000);
    stage_mark_dead(b, a->session.self.id);
    stage_run(4000);
    stage_expect("0 b look at x\n"
                 "0 leads: nobody\n"
                 "251 b look at x\n"
                 "503 b look at x\n"
                 "756 b look at x\n"
                 "800 a begin\n"
                 "800 a x: enter\n"
                 "800 a has x\n"
                 "1010 b look at x\n"
                 "1010 b look at 1 sessions\n"
                 "1010 leads: a@:1\n"
                 "1268 b look at x\n"
                 "1268 b look at 1 sessions\n"
                 "1466 a beat, seen 1\n"
                 "1527 b look at x\n"
                 "1527 b look at 1 sessions\n"
                 "1600.1 a x: leave\n"
                 "1787 b look at x: not sent, HF_UNREACHABLE\n"
                 "1797 b look at x: not sent, HF_UNREACHABLE\n"
                 "1800 a sweep\n"
                 "1808 b look at x\n"
                 "1808 leads: nobody\n"
                 "2071 b look at x\n"
                 "2132 a beat, seen 2\n"
                 "2335 b look at x\n"
                 "2600 b look at x\n"
                 "2798 a beat, seen 3\n"
                 "2866 b look at x\n"
                 "3100 a x: enter\n"
                 "3100 a has x\n"
                 "3133 b look at x\n"
                 "3133 b look at 1 sessions\n"
                 "3133 leads: a@:1\n"
                 "3402 b look at x\n"
                 "3402 b look at 1 sessions\n"
                 "3464 a beat, seen 4\n"
                 "3672 b look at x\n"
                 "3672 b look at 1 sessions\n"
                 "3943 b look at x\n"
                 "3943 b look at 1 sessions\n"
                 "4130 a beat, seen 5\n"
                 "4130 a hears HF_LOST\n"
                 "4130 a look at 1 sessions\n"
                 "4130 a end, leaving tickets\n"
                 "4130 x is lost, 0 ms left: the session is gone from the store: this session was "
                 "marked dead or removed by another\n"
                 "4215 b look at x\n"
                 "4215 b look at 1 sessions\n"
                 "4488 b look at x\n"
                 "4488 b look at 1 sessions\n"
                 "4762 b look at x\n"
                 "4762 b look at 1 sessions\n"
                 "5037 b look at x\n"
                 "5037 b look at 1 sessions\n"
                 "5313 b look at x\n"
                 "5313 b look at 1 sessions\n"
                 "5590 b look at x\n"
                 "5590 b look at 1 sessions\n"
                 "5590 leads: nobody\n"
                 "5590 observed x: yes\n");
    end();
    begin("memory:observed-denied", defaults);
    stage_act(observe, NULL);
    stage_run(300);
    stage_let_fail((stage_fault){.call = FAULTY_LOOK, .who = 'b', .before = HF_DENIED});
    stage_run(1000);
    stage_expect("0 b look at x\n"
                 "0 leads: nobody\n"
                 "251 b look at x\n"
                 "503 b look at x: not sent, HF_DENIED\n"
                 "503 observed x: HF_DENIED: injected\n");
    end();
}

/* ---- Documents ---- */

static hf_lock *claimed;

static void claim(void *options)
{
    hf_error err;
    hf_code code = hf_document_claim(a, "{}", NULL, options, &claimed, &err);
    say_code("claimed", code ? "" : hf_lock_name(claimed), code, &err);
}

static void check_claimed(void *unused)
{
    (void)unused;
    check_part(&(part){.name = "claimed", .lock = claimed});
}

static void refresh(void *unused)
{
    (void)unused;
    hf_error err;
    hf_code code = hf_lock_refresh(claimed, &err);
    say_code("refreshed", "job", code, &err);
}

static void test_documents(void **state)
{
    (void)state;
    hf_lock_options by_hand = {.no_refresh = true, .on_lost = say_loss};
    begin("memory:documents", defaults);
    play(claim, NULL, 0);
    play(take_part, &x, 0);
    claimed = x.lock;
    play(refresh, NULL, 0);
    stage_expect("0 claimed : HF_UNSUPPORTED: faulty: protocol (null) keeps its locks apart from "
                 "documents: hfProtocol=document (MongoDB) locks documents\n"
                 "0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "0 refreshed job: HF_UNSUPPORTED: protocol (null) renews all its locks itself: "
                 "hfProtocol=document has hf_lock_refresh()\n");
    faulty_let_claim(stage_store(a), "job");
    stage_let_fail((stage_fault){.call = FAULTY_CLAIM, .after = HF_UNKNOWN});
    play(claim, &by_hand, 1000);
    play(check_claimed, NULL, 4000);
    play(refresh, NULL, 0);
    play(check_claimed, NULL, 0);
    stage_let_fail((stage_fault){.call = FAULTY_REFRESH, .before = HF_UNREACHABLE});
    play(refresh, NULL, 5000);
    play(check_claimed, NULL, 5000);
    play(check_claimed, NULL, 0);
    play(refresh, NULL, 0);
    hf_lock_close(claimed);
    stage_run(100);
    stage_expect("0 a claim\n"
                 "0 a hears HF_UNKNOWN\n"
                 "0 log: a document that matches: trying again: injected\n"
                 "0 a : leave-unused\n"
                 "10 a claim\n"
                 "10 claimed job: yes\n"
                 "1000 a sweep\n"
                 "1000 claimed: 8975 ms left\n"
                 "3333 a beat, seen 1\n"
                 "5000 a refresh\n"
                 "5000 refreshed job: yes\n"
                 "5000 claimed: 8308 ms left\n"
                 "5000 a refresh: not sent, HF_UNREACHABLE\n"
                 "5000 refreshed job: HF_UNREACHABLE: injected\n"
                 "6666 a beat, seen 2\n"
                 "9999 a beat, seen 3\n"
                 "10000 a look at \n"
                 "10000 a look at x since 1\n"
                 "10000 claimed: 4975 ms left\n"
                 "13332 a beat, seen 4\n"
                 "13333 a look at job since 4\n"
                 "14975 a job: abandon\n"
                 "14975 job is lost, 0 ms left: job: its lease of 10000 ms has run out: it was not "
                 "refreshed in time\n"
                 "15000 claimed: 0 ms left: job: its lease of 10000 ms has run out: it was not "
                 "refreshed in time\n"
                 "15000 refreshed job: HF_LOST: job: its lease of 10000 ms has run out: it was not "
                 "refreshed in time\n");
    play(claim, &by_hand, 100);
    stage_drop_record(b, "job");
    play(refresh, NULL, 100);
    play(refresh, NULL, 100);
    stage_expect("15100 a claim\n"
                 "15100 claimed job: yes\n"
                 "15200 a refresh\n"
                 "15200 a hears HF_LOST\n"
                 "15200 refreshed job: HF_LOST: job is another's\n"
                 "15200 a job: abandon\n"
                 "15200 a look at job for sure\n"
                 "15200 job is lost, 0 ms left: job is another's\n"
                 "15300 refreshed job: HF_LOST: job is another's\n");
    hf_lock_close(claimed);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_of_a_client),
        cmocka_unit_test(test_bounds_of_looking_for_deadlocks),
        cmocka_unit_test(test_options_of_a_lock),
        cmocka_unit_test(test_what_is_not_to_be_had_without),
        cmocka_unit_test(test_what_is_shown),
        cmocka_unit_test(test_who_held_it_before),
        cmocka_unit_test(test_what_an_observer_sends),
        cmocka_unit_test(test_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
