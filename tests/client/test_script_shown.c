/* SPDX-License-Identifier: Apache-2.0 */
/* test_script_shown.c: what listings and observers make of what a store shows, also where it shows
 * what a queue in memory never would. Run by ctest. */
#include "client/script_bed.h"

#include "core/alloc.h"

static hf_client *a, *b;
static part x;
static hf_error err;

static void begin(const char *uri)
{
    hf_options options = {.log = say_log};
    stage_begin();
    a = stage_client(uri, NULL);
    b = stage_client(uri, &options);
    x = (part){.client = a, .name = "x", .options.why = "audit"};
}

static void end(void)
{
    close_parts((part *const[]){&x}, 1);
    stage_end();
}

/* ---- Observers ---- */

static int64_t token_more, since_more;
static int32_t lease_left_ms;
static uint8_t session_more;
static bool has_left, is_last;

static void edit_holder(faulty *f, hf_record *record)
{
    (void)f;
    record->token += token_more;
    if (has_left)
        record->holders = 0;
    if (!record->holders)
        return;
    hf_entry *holder = &record->entries[0];
    holder->token += token_more;
    if (holder->granted_at.ms)
        holder->granted_at.ms += since_more;
    holder->session.bytes[0] = (uint8_t)(holder->session.bytes[0] + session_more);
}

static void edit_lease(faulty *f, hf_session_state *state)
{
    (void)f;
    if (lease_left_ms)
        state->lease_left_ms = lease_left_ms - 5000;
}

static bool say_leader(void *ctx, const hf_leader *leader)
{
    (void)ctx;
    if (leader)
        stage_say("leads: %s (%s) since %lld: %lld", leader->who, leader->value,
                  (long long)leader->since_ms, (long long)leader->token);
    else
        stage_say("leads: nobody");
    return !is_last;
}

static void observe(void *unused)
{
    (void)unused;
    hf_code code = hf_election_observe(b, "x", say_leader, NULL, NULL, &err);
    say_code("observed", "x", code, &err);
}

static void observe_on(const char *uri)
{
    token_more = since_more = lease_left_ms = session_more = 0;
    has_left = is_last = false;
    begin(uri);
    stage_store(b)->edits_record = edit_holder;
    stage_store(b)->edits_state = edit_lease;
    play(take_part, &x, 0);
    play(observe, NULL, 100);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "0 b look at x\n"
                 "0 b look at 1 sessions\n"
                 "0 leads: a@:1 (audit) since 1700000000000: 1782579200000000\n");
}

/* By a term that is surely another one. */
static void end_observing(void)
{
    is_last = true;
    has_left = false;
    lease_left_ms = session_more = 0;
    token_more = 1000;
    stage_run(500);
}

static void test_a_leader_is_told_of_once(void **state)
{
    (void)state;
    observe_on("memory:leads-once");
    stage_run(1000);
    end_observing();
    stage_expect("254 b look at x\n"
                 "254 b look at 1 sessions\n"
                 "509 b look at x\n"
                 "509 b look at 1 sessions\n"
                 "765 b look at x\n"
                 "765 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1022 b look at x\n"
                 "1022 b look at 1 sessions\n"
                 "1280 b look at x\n"
                 "1280 b look at 1 sessions\n"
                 "1280 leads: a@:1 (audit) since 1700000000000: 1782579200001000\n"
                 "1280 observed x: yes\n");
    end();
}

/* Each of these alone makes another term. */
static void test_what_makes_another_term(void **state)
{
    (void)state;
    observe_on("memory:leads-anew");
    stage_run(400);
    token_more = 1;
    stage_run(400);
    since_more = 5;
    stage_run(400);
    session_more = 1; /* one that is not known: nobody leads */
    stage_run(400);
    session_more = 0;
    stage_run(400);
    end_observing();
    stage_expect("254 b look at x\n"
                 "254 b look at 1 sessions\n"
                 "509 b look at x\n"
                 "509 b look at 1 sessions\n"
                 "509 leads: a@:1 (audit) since 1700000000000: 1782579200000001\n"
                 "765 b look at x\n"
                 "765 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1022 b look at x\n"
                 "1022 b look at 1 sessions\n"
                 "1022 leads: a@:1 (audit) since 1700000000005: 1782579200000001\n"
                 "1280 b look at x\n"
                 "1280 b look at 1 sessions\n"
                 "1539 b look at x\n"
                 "1539 b look at 1 sessions\n"
                 "1539 leads: nobody\n"
                 "1799 b look at x\n"
                 "1799 b look at 1 sessions\n"
                 "1799 leads: a@:1 (audit) since 1700000000005: 1782579200000001\n"
                 "2060 b look at x\n"
                 "2060 b look at 1 sessions\n"
                 "2322 b look at x\n"
                 "2322 b look at 1 sessions\n"
                 "2322 leads: a@:1 (audit) since 1700000000005: 1782579200001000\n"
                 "2322 observed x: yes\n");
    end();
}

/* Only its session differs; as when a lock without tokens went on within a millisecond. */
static void test_another_session_is_another_term(void **state)
{
    (void)state;
    part y = {.name = "x"};
    observe_on("memory:leads-otherwise");
    faulty_end_queue(stage_store(b));
    int64_t token = hf_lock_token(x.lock);
    y.client = stage_client("memory:leads-otherwise", NULL);
    stage_act(close_part, &x);
    play(take_part, &y, 1);
    token_more = token - hf_lock_token(y.lock);
    since_more = -100;
    stage_run(500);
    end_observing();
    stage_expect("100 c begin\n"
                 "100 c x: enter\n"
                 "100.1 a x: leave\n"
                 "100.1 c hears a grant\n"
                 "100.1 c has x\n"
                 "254 b look at x\n"
                 "254 b look at 1 sessions\n"
                 "254 leads: c@:1 () since 1700000000000: 1782579200000000\n"
                 "513 b look at x\n"
                 "513 b look at 1 sessions\n"
                 "773 b look at x\n"
                 "773 b look at 1 sessions\n"
                 "773 leads: c@:1 () since 1700000000000: 1782579200001001\n"
                 "773 observed x: yes\n"
                 "1000 a sweep\n"
                 "1100 c sweep\n");
    close_part(&y);
    end();
}

static void test_a_lease_that_is_over_leads_nobody(void **state)
{
    (void)state;
    observe_on("memory:leads-over");
    stage_run(300);
    lease_left_ms = 4999; /* -1 */
    stage_run(500);
    lease_left_ms = 5000; /* 0 */
    stage_run(500);
    end_observing();
    stage_expect("254 b look at x\n"
                 "254 b look at 1 sessions\n"
                 "509 b look at x\n"
                 "509 b look at 1 sessions\n"
                 "509 leads: nobody\n"
                 "765 b look at x\n"
                 "765 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1022 b look at x\n"
                 "1022 b look at 1 sessions\n"
                 "1022 leads: a@:1 (audit) since 1700000000000: 1782579200000000\n"
                 "1280 b look at x\n"
                 "1280 b look at 1 sessions\n"
                 "1539 b look at x\n"
                 "1539 b look at 1 sessions\n"
                 "1539 leads: a@:1 (audit) since 1700000000000: 1782579200001000\n"
                 "1539 observed x: yes\n");
    end();
}

/* As from a primary that was deposed: its answers are older. */
static void test_an_older_answer_is_passed_over(void **state)
{
    (void)state;
    observe_on("memory:leads-older");
    stage_run(300);
    token_more = -1;
    stage_run(500);
    has_left = true;
    stage_run(500);
    token_more = 0;
    stage_run(500);
    has_left = false;
    token_more = -1;
    stage_run(500);
    faulty_end_queue(stage_store(b));
    stage_run(500);
    end_observing();
    stage_expect("254 b look at x\n"
                 "254 b look at 1 sessions\n"
                 "509 b look at x\n"
                 "509 b look at 1 sessions\n"
                 "765 b look at x\n"
                 "765 b look at 1 sessions\n"
                 "1000 a sweep\n"
                 "1022 b look at x\n"
                 "1280 b look at x\n"
                 "1539 b look at x\n"
                 "1539 leads: nobody\n"
                 "1799 b look at x\n"
                 "2060 b look at x\n"
                 "2060 b look at 1 sessions\n"
                 "2322 b look at x\n"
                 "2322 b look at 1 sessions\n"
                 "2585 b look at x\n"
                 "2585 b look at 1 sessions\n"
                 "2585 leads: a@:1 (audit) since 1700000000000: 1782579199999999\n"
                 "2849 b look at x\n"
                 "2849 b look at 1 sessions\n"
                 "3114 b look at x\n"
                 "3114 b look at 1 sessions\n"
                 "3114 leads: a@:1 (audit) since 1700000000000: 1782579200001000\n"
                 "3114 observed x: yes\n"
                 "3333 a beat, seen 1\n");
    end();
}

static void test_a_close_ends_an_observer(void **state)
{
    (void)state;
    observe_on("memory:leads-closed");
    pthread_mutex_lock(&b->mutex);
    b->closing.has_begun = true;
    pthread_mutex_unlock(&b->mutex);
    stage_run(1000);
    b->closing.has_begun = false;
    stage_expect("254 observed x: HF_CLOSED: x: no longer observed: the client is being closed\n"
                 "1000 a sweep\n");
    end();
}

/* ---- Listings ---- */

static int n_told, most_told;

static bool count_lock(void *ctx, const hf_lock_info *info)
{
    const char *last = ctx;
    n_told++;
    if (last && strcmp(last, info->name) == 0)
        stage_say("%s: %s, %lld ms left", info->name, info->n_holders ? info->holders->who : "-",
                  info->n_holders ? (long long)info->holders->lease_left_ms : 0);
    return n_told < most_told;
}

static void list(void *name)
{
    n_told = 0;
    hf_code code = hf_list(b, NULL, count_lock, name, &err);
    say_code("listed", "", code, &err);
    stage_say("%d told", n_told);
}

static hf_session session_of(size_t i)
{
    return (hf_session){.id = {{7, (uint8_t)(i >> 8), (uint8_t)i}}, .ttl_ms = 10000, .pid = 1};
}

/* Locks are taken by sessions in turn, so that many are looked at. */
static void fill(hf_store *store, size_t n, size_t n_sessions)
{
    char name[24];
    for (size_t i = 0; i < n_sessions; i++) {
        hf_session self = session_of(i);
        assert_int_equal(store->ops->session_begin(store, &self, &err), HF_OK);
    }
    for (size_t i = 0; i < n; i++) {
        hf_session holder = session_of(i % n_sessions);
        snprintf(name, sizeof name, "%05zu", i);
        hold_for(store, name, (hf_id){{8, (uint8_t)(i >> 8), (uint8_t)i}}, &holder);
    }
}

static void list_up_to(int most, const char *name)
{
    most_told = most;
    play(list, (void *)(uintptr_t)name, 0);
}

static void test_a_listing_comes_in_parts(void **state)
{
    (void)state;
    begin("memory:listed-parts");
    fill(stage_store(b)->inner, 1150, 1);
    list_up_to(5000, "01149");
    list_up_to(1, NULL);
    list_up_to(100, NULL);
    list_up_to(101, NULL);
    list_up_to(1100, NULL);
    list_up_to(1101, NULL);
    stage_expect("0 b look at 1 sessions\n"
                 "0 b look at 1 sessions\n"
                 "0 b look at 1 sessions\n"
                 "0 01149: @:1, 10000 ms left\n"
                 "0 listed : yes\n"
                 "0 1150 told\n"
                 "0 b look at 1 sessions\n"
                 "0 listed : yes\n"
                 "0 1 told\n"
                 "0 b look at 1 sessions\n"
                 "0 listed : yes\n"
                 "0 100 told\n"
                 "0 b look at 1 sessions\n"
                 "0 b look at 1 sessions\n"
                 "0 listed : yes\n"
                 "0 101 told\n"
                 "0 b look at 1 sessions\n"
                 "0 b look at 1 sessions\n"
                 "0 listed : yes\n"
                 "0 1100 told\n"
                 "0 b look at 1 sessions\n"
                 "0 b look at 1 sessions\n"
                 "0 b look at 1 sessions\n"
                 "0 listed : yes\n"
                 "0 1101 told\n");
    end();
}

/* One session that is not to be read hides nothing else. */
static void test_a_listing_looks_at_many_sessions(void **state)
{
    (void)state;
    begin("memory:listed-sessions");
    fill(stage_store(b)->inner, 2100, 2000);
    list_up_to(5000, "02099");
    stage_let_fail((stage_fault){.call = FAULTY_SESSIONS_LOOK, .skips = 1, .before = HF_DENIED});
    list_up_to(5000, NULL);
    stage_expect("0 b look at 100 sessions\n"
                 "0 b look at 1000 sessions\n"
                 "0 b look at 1000 sessions\n"
                 "0 02099: @:1, 10000 ms left\n"
                 "0 listed : yes\n"
                 "0 2100 told\n"
                 "0 b look at 100 sessions\n"
                 "0 b look at 1000 sessions: not sent, HF_DENIED\n"
                 "0 listed : HF_DENIED: injected\n"
                 "0 100 told\n");
    end();
}

static unsigned n_shown;

/* The second of each three. */
static void make_odd(faulty *f, hf_session_state *state)
{
    (void)f;
    if (n_shown++ % 3 == 1)
        state->presence = HF_ODD;
}

static void test_a_session_that_is_odd_is_not_told_of(void **state)
{
    (void)state;
    begin("memory:listed-odd");
    fill(stage_store(b)->inner, 3, 3);
    stage_store(b)->edits_state = make_odd;
    n_shown = 0;
    stage_let_fail((stage_fault){.call = FAULTY_SESSIONS_LOOK, .after = HF_SHAPE});
    list_up_to(5000, "00001");
    stage_let_fail((stage_fault){.call = FAULTY_SESSIONS_LOOK, .after = HF_SHAPE});
    list_up_to(5000, "00002");
    stage_let_fail((stage_fault){.call = FAULTY_SESSIONS_LOOK, .before = HF_DENIED});
    list_up_to(5000, "00000");
    stage_expect("0 b look at 3 sessions\n"
                 "0 b hears HF_SHAPE\n"
                 "0 warning: injected\n"
                 "0 00001: , 0 ms left\n"
                 "0 listed : yes\n"
                 "0 3 told\n"
                 "0 b look at 3 sessions\n"
                 "0 b hears HF_SHAPE\n"
                 "0 warning: injected\n"
                 "0 00002: @:1, 10000 ms left\n"
                 "0 listed : yes\n"
                 "0 3 told\n"
                 "0 b look at 3 sessions: not sent, HF_DENIED\n"
                 "0 listed : HF_DENIED: injected\n"
                 "0 0 told\n");
    end();
}

/* A store without sessions says itself who holds, and for how long. */
static void name_holder(faulty *f, hf_record *record)
{
    (void)f;
    record->who = alloc_text("a crane");
    record->lease_left_ms = 77;
}

static void show(void *name)
{
    char last[] = "x";
    most_told = 1;
    hf_code code = hf_show(b, name, count_lock, last, &err);
    say_code("shown", name, code, &err);
}

static void test_a_record_that_names_its_holder(void **state)
{
    (void)state;
    begin("memory:shown-named");
    play(take_part, &x, 0);
    stage_store(b)->edits_record = name_holder;
    play(show, "x", 0);
    play(show, "y", 0);
    faulty_let_claim(stage_store(b), "x");
    play(show, "x", 0);
    play(show, "y", 0);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "0 b look at x\n"
                 "0 b look at 1 sessions\n"
                 "0 x: a crane, 77 ms left\n"
                 "0 shown x: yes\n"
                 "0 b look at y\n"
                 "0 shown y: HF_NOT_FOUND: there is no lock y: nobody has ever taken it, or it was "
                 "idle for days and pruned\n"
                 "0 b look at x\n"
                 "0 b look at 1 sessions\n"
                 "0 x: a crane, 77 ms left\n"
                 "0 shown x: yes\n"
                 "0 b look at y\n"
                 "0 shown y: HF_NOT_FOUND: there is no document with _id y\n");
    end();
}

static bool is_gone;

static void edit_gone(faulty *f, hf_session_state *state)
{
    (void)f;
    state->is_gone = is_gone;
}

static bool say_session(void *ctx, const hf_session_info *info)
{
    (void)ctx;
    stage_say("%s, started at %lld%s", info->app, (long long)info->started_ms,
              info->dead ? ", dead" : "");
    return true;
}

static void test_a_session_that_is_gone_is_dead(void **state)
{
    (void)state;
    begin("memory:shown-gone");
    play(take_part, &x, 0);
    stage_store(b)->edits_state = edit_gone;
    assert_int_equal(hf_sessions(b, say_session, NULL, &err), HF_OK);
    is_gone = true;
    assert_int_equal(hf_sessions(b, say_session, NULL, &err), HF_OK);
    stage_expect("0 a begin\n"
                 "0 a x: enter\n"
                 "0 a has x\n"
                 "0 a, started at 1700000000000\n"
                 "0 a, started at 1700000000000, dead\n");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_leader_is_told_of_once),
        cmocka_unit_test(test_what_makes_another_term),
        cmocka_unit_test(test_another_session_is_another_term),
        cmocka_unit_test(test_a_lease_that_is_over_leads_nobody),
        cmocka_unit_test(test_an_older_answer_is_passed_over),
        cmocka_unit_test(test_a_close_ends_an_observer),
        cmocka_unit_test(test_a_listing_comes_in_parts),
        cmocka_unit_test(test_a_listing_looks_at_many_sessions),
        cmocka_unit_test(test_a_session_that_is_odd_is_not_told_of),
        cmocka_unit_test(test_a_record_that_names_its_holder),
        cmocka_unit_test(test_a_session_that_is_gone_is_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
