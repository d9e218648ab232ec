/* SPDX-License-Identifier: Apache-2.0 */
/* client_cases.c: what the public interface promises where nobody has to wait and nothing is lost,
 * on every store; run by main.c. */
#include "conformance/two_clients.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Modes ---- */

static void test_exclusive_excludes(void **state)
{
    (void)state;
    const char *name = bed_name("exclusive");
    hf_lock *lock = bed_acquire(one, name, NULL), *other = NULL;
    hf_lock_options attempt = {.wait_ms = HF_TRY};
    hf_error err;
    int64_t token = hf_lock_token(lock);
    assert_code(HF_HELD, hf_lock_acquire(two, name, &attempt, &other, &err), &err);
    assert_contains(err.text, name);
    assert_true(err.retryable);
    assert_null(other);
    assert_int_equal(bed_try(one, name, HF_EXCLUSIVE, &other), HF_HELD); /* not re-entrant */
    hf_code shared = bed.can & HF_CAN_SHARE ? HF_HELD : HF_UNSUPPORTED;
    assert_int_equal(bed_try(two, name, HF_SHARED, &other), shared);
    bed_release(lock);
    assert_int_equal(bed_try(two, name, HF_EXCLUSIVE, &other), HF_OK);
    bed_rises(token, hf_lock_token(other));
    bed_release(other);
}

static void test_shared_shares_and_excludes_writers(void **state)
{
    (void)state;
    const char *name = bed_name("shared");
    const hf_lock_options shared = {.mode = HF_SHARED};
    hf_lock *first = bed_acquire(one, name, &shared), *second = bed_acquire(two, name, &shared),
            *third = bed_acquire(one, name, &shared), *writer = NULL;
    assert_int_equal(bed_try(two, name, HF_EXCLUSIVE, &writer), HF_HELD);
    bed_release(first);
    bed_release(second);
    assert_int_equal(bed_try(two, name, HF_EXCLUSIVE, &writer), HF_HELD);
    bed_release(third);
    assert_int_equal(bed_try(two, name, HF_EXCLUSIVE, &writer), HF_OK);
    bed_release(writer);
}

static void test_k_of_n_permits(void **state)
{
    (void)state;
    const char *name = bed_name("permits");
    const hf_lock_options two_of_three = {.permits = 2, .limit = 3},
                          one_of_three = {.permits = 1, .limit = 3, .wait_ms = HF_TRY},
                          one_soon = {.permits = 1, .limit = 3, .wait_ms = 50};
    hf_lock *first = bed_acquire(one, name, &two_of_three), *second = NULL, *third = NULL;
    assert_int_equal(hf_lock_acquire(two, name, &one_of_three, &second, NULL), HF_OK);
    assert_int_equal(hf_lock_acquire(one, name, &one_of_three, &third, NULL), HF_HELD);
    assert_int_equal(hf_lock_acquire(two, name, &one_soon, &third, NULL), HF_TIMEOUT);
    bed_release(first);
    assert_int_equal(hf_lock_acquire(one, name, &one_of_three, &third, NULL), HF_OK);
    bed_release(second);
    bed_release(third);
}

static void test_permits_that_cannot_be(void **state)
{
    (void)state;
    static const int32_t wrong[][2] = {{4, 3}, {1, 0}, {0, 3}, {-1, 3}, {1, -3}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hf_lock_options options = {.permits = wrong[i][0], .limit = wrong[i][1], .wait_ms = HF_TRY};
        hf_lock *lock = NULL;
        hf_error err = {.code = HF_OK};
        hf_code code = hf_lock_acquire(one, bed_name("wrong"), &options, &lock, &err);
        assert_code(HF_INVALID, code, &err);
        assert_int_equal(err.code, HF_INVALID);
        assert_null(lock);
    }
}

static void test_limits_that_disagree_are_both_named(void **state)
{
    (void)state;
    const char *name = bed_name("limit");
    const hf_lock_options of_13 = {.permits = 1, .limit = 13},
                          of_17 = {.permits = 1, .limit = 17, .wait_ms = BED_SOON};
    hf_lock *lock = bed_acquire(one, name, &of_13), *other = NULL;
    hf_error err;
    assert_code(HF_LIMIT, hf_lock_acquire(two, name, &of_17, &other, &err), &err);
    assert_contains(err.text, name);
    assert_contains(err.text, "13");
    assert_contains(err.text, "17");
    bed_release(lock);
    bed_release(bed_acquire(two, name, &of_17));
    bed_release(bed_acquire(one, name, NULL)); /* idle: any limit is taken */
}

/* Programs are exchanged one after the other. */
static void test_a_limit_that_is_set_holds_from_now_on(void **state)
{
    (void)state;
    const char *name = bed_name("set");
    const hf_lock_options of_1 = {.permits = 1, .limit = 1},
                          of_2 = {.permits = 1, .limit = 2, .sets_limit = true},
                          still_1 = {.permits = 1, .limit = 1, .wait_ms = BED_SOON},
                          again_1 = {.permits = 1, .limit = 1, .wait_ms = 50, .sets_limit = true};
    hf_lock *first = bed_acquire(one, name, &of_1), *second = bed_acquire(two, name, &of_2);
    hf_lock *other = NULL;
    hf_error err;
    assert_code(HF_LIMIT, hf_lock_acquire(one, name, &still_1, &other, &err), &err);
    assert_contains(err.text, "--set-limit");
    assert_code(HF_TIMEOUT, hf_lock_acquire(one, name, &again_1, &other, &err), &err);
    bed_release(first);
    assert_code(HF_TIMEOUT, hf_lock_acquire(one, name, &again_1, &other, &err), &err);
    bed_release(second);
    bed_release(bed_acquire(one, name, &again_1));
}

static void test_a_limit_of_no_semaphore_is_not_set(void **state)
{
    (void)state;
    const hf_lock_options wrong = {.sets_limit = true};
    hf_lock *lock = NULL;
    hf_error err;
    assert_code(HF_INVALID, hf_lock_acquire(one, bed_name("set"), &wrong, &lock, &err), &err);
    assert_contains(err.text, "limit of a semaphore");
}

/* ---- Names and texts ---- */

static void test_names_that_can_be(void **state)
{
    (void)state;
    char long_name[HF_NAME_MAX + 1];
    memset(long_name, 'x', bed.name_most);
    long_name[bed.name_most] = '\0';
    const char *const names[] = {"a",    long_name, "$where", "a b/c.d", "\xc3\xa9\xf0\x9f\x94\x92",
                                 "'; --"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        hf_lock *lock = bed_acquire(one, names[i], NULL), *other = NULL;
        assert_string_equal(hf_lock_name(lock), names[i]);
        assert_int_equal(bed_try(two, names[i], HF_EXCLUSIVE, &other), HF_HELD);
        bed_release(lock);
    }
}

static void test_names_that_cannot_be(void **state)
{
    (void)state;
    char too_long[HF_NAME_MAX + 2];
    memset(too_long, 'x', HF_NAME_MAX + 1);
    too_long[HF_NAME_MAX + 1] = '\0';
    const char *const names[] = {NULL,
                                 "",
                                 too_long,
                                 "\xff",
                                 "\xc3",
                                 "\xc0\xaf",
                                 "\xed\xa0\x80",
                                 "\xf4\x90\x80\x80",
                                 "a\x80"
                                 "b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        hf_lock *lock = NULL;
        hf_error err = {.code = HF_OK};
        assert_code(HF_INVALID, hf_lock_acquire(one, names[i], NULL, &lock, &err), &err);
        assert_true(strlen(err.text) > 10);
        assert_null(lock);
    }
}

static void test_texts_have_their_bounds(void **state)
{
    (void)state;
    char text[HF_TEXT_MAX + 2] = "";
    memset(text, 'w', HF_TEXT_MAX);
    hf_lock_options options = {.wait_ms = HF_TRY, .why = text};
    hf_lock *lock = bed_acquire(one, bed_name("why"), &options);
    bed_release(lock);
    text[HF_TEXT_MAX] = 'w';
    assert_int_equal(hf_lock_acquire(one, bed_name("why"), &options, &lock, NULL), HF_INVALID);
    options = (hf_lock_options){.wait_ms = HF_TRY, .actor = text};
    assert_int_equal(hf_lock_acquire(one, bed_name("why"), &options, &lock, NULL), HF_INVALID);
    options = (hf_lock_options){.wait_ms = HF_TRY, .why = "\xff"};
    assert_int_equal(hf_lock_acquire(one, bed_name("why"), &options, &lock, NULL), HF_INVALID);
}

static void test_a_mode_that_there_is_not(void **state)
{
    (void)state;
    hf_error err;
    hf_lock *lock;
    const hf_lock_options odd = {.wait_ms = HF_TRY, .mode = (hf_mode)2};
    assert_code(HF_INVALID, hf_lock_acquire(one, bed_name("odd"), &odd, &lock, &err), &err);
    assert_contains(err.text, "HF_SHARED (1)");
}

static void test_what_a_later_version_would_ask_for_is_refused(void **state)
{
    (void)state;
    hf_error err;
    hf_lock *lock;
    const hf_lock_options later = {.wait_ms = HF_TRY, .reserved = {[7] = 1}};
    assert_code(HF_INVALID, hf_lock_acquire(one, bed_name("later"), &later, &lock, &err), &err);
    assert_contains(err.text, "that version's library");
}

static void test_uris_and_options_that_cannot_be(void **state)
{
    (void)state;
    hf_client *client = NULL;
    hf_error err;
    assert_code(HF_INVALID, hf_open("postgres://me:secret@host/db", NULL, &client, &err), &err);
    assert_contains(err.text, "postgres");
    assert_contains(err.text, "sqlite:");
    assert_null(strstr(err.text, "secret"));
    assert_code(HF_INVALID, hf_open("sqlite:", NULL, &client, &err), &err);
    assert_code(HF_INVALID, hf_open("", NULL, &client, &err), &err);
    assert_code(HF_INVALID, hf_open(NULL, NULL, &client, &err), &err);
    const hf_options wrong[] = {{.ttl_ms = 999},
                                {.ttl_ms = 3600001},
                                {.ttl_ms = -1},
                                {.ttl_ms = 2000, .stop_margin_ms = 1001},
                                {.stop_margin_ms = -1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_code(HF_INVALID, hf_open(bed.uri, &wrong[i], &client, &err), &err);
    assert_null(client);
    hf_close(NULL);
}

static void test_a_negative_wait_is_refused(void **state)
{
    (void)state;
    const char *name = bed_name("negative");
    hf_client *client = bed_client("negative", BED_TTL);
    hf_lease lease;
    hf_lock *lock;
    hf_error err;
    for (int64_t ms = -2; ms > -1000000; ms *= 7) {
        const hf_lock_options options = {.wait_ms = ms};
        const hf_lease_options leased = {.lock.wait_ms = ms};
        assert_code(HF_INVALID, hf_lock_acquire(client, name, &options, &lock, &err), &err);
        assert_contains(err.text, "is negative");
        assert_code(HF_INVALID, hf_lock_acquire_all(client, &name, 1, &options, &lock, &err), &err);
        if (bed.can & HF_CAN_QUEUE)
            assert_code(HF_INVALID, hf_lease_acquire(client, name, &leased, &lease, &err), &err);
    }
    hf_close(client);
}

/* ---- A lock's life ---- */

/* False: it was lost. A machine that stops for a ttl loses it, now and then. */
static bool is_held_past_its_ttl(hf_client *quick)
{
    hf_lock *lock = bed_acquire(quick, bed_name("beat"), NULL);
    int64_t end = bed_now_ms() + 2 * BED_TTL + BED_TTL / 2;
    hf_code code = HF_OK;
    while (!code && bed_now_ms() < end) {
        int64_t left = -1;
        code = hf_lock_check(lock, &left, NULL);
        assert_true(code || (left > 0 && left <= BED_TTL));
        if (bed_readable(hf_lock_fd(lock), 20))
            code = HF_LOST;
    }
    hf_lock_close(lock);
    return !code;
}

static void test_a_lock_is_held_past_its_ttl(void **state)
{
    (void)state;
    hf_client *quick = bed_client("quick", BED_TTL);
    int tries = 10;
    while (!is_held_past_its_ttl(quick))
        assert_true(--tries);
    hf_close(quick);
}

static void test_release_twice_and_check_after_it(void **state)
{
    (void)state;
    hf_lock *lock = bed_acquire(one, bed_name("twice"), NULL);
    hf_error err;
    int64_t left = -1;
    assert_code(HF_OK, hf_lock_check(lock, &left, &err), &err);
    assert_code(HF_OK, hf_lock_release(lock, &err), &err);
    assert_code(HF_LOST, hf_lock_check(lock, &left, &err), &err);
    assert_int_equal(left, 0);
    assert_true(strlen(err.text) > 0);
    assert_code(HF_OK, hf_lock_release(lock, &err), &err);
    hf_lock_close(lock);
    hf_lock_close(NULL);
}

static void test_tokens_rise(void **state)
{
    (void)state;
    const char *name = bed_name("tokens");
    int64_t token = 0;
    for (int i = 0; i < 100; i++) {
        hf_lock *lock = bed_acquire(i % 3 ? one : two, name, NULL);
        bed_rises(token, hf_lock_token(lock));
        token = hf_lock_token(lock);
        assert_true(token < (int64_t)1 << 53);
        bed_release(lock);
    }
}

static void test_close_is_ordered_before_the_next_acquire(void **state)
{
    (void)state;
    const char *name = bed_name("close");
    int64_t token = 0;
    for (int i = 0; i < 30; i++) {
        hf_lock *lock = NULL;
        assert_int_equal(bed_try(one, name, HF_EXCLUSIVE, &lock), HF_OK);
        bed_rises(token, hf_lock_token(lock));
        token = hf_lock_token(lock);
        hf_lock_close(lock);
    }
    bed_release(bed_acquire(two, name, NULL)); /* and the last one goes out by itself */
}

static void test_the_previous_outcome_is_told(void **state)
{
    (void)state;
    const char *name = bed_name("previous");
    hf_lock *lock = bed_acquire(one, name, NULL);
    int64_t token = hf_lock_token(lock);
    assert_int_equal(bed_last(lock).outcome, HF_OUTCOME_NONE);
    hf_lock_set_exit_status(lock, 3);
    bed_release(lock);
    lock = bed_acquire(two, name, NULL);
    hf_last last = bed_last(lock);
    assert_int_equal(last.outcome, HF_OUTCOME_RELEASED);
    assert_contains(last.who, "one@");
    assert_int_equal(last.token, token);
    assert_true(last.has_exit_status);
    assert_int_equal(last.exit_status, 3);
    assert_true(last.at_ms > 1600000000000);
    bed_release(lock);
    lock = bed_acquire(one, name, NULL);
    assert_contains(bed_last(lock).who, "two@");
    assert_false(bed_last(lock).has_exit_status);
    bed_release(lock);
}

static void test_an_exit_status_is_told_by_who_has_not_asked(void **state)
{
    (void)state;
    const char *name = bed_name("unasked");
    hf_lock *lock = bed_acquire(one, name, NULL);
    int64_t token = hf_lock_token(lock);
    hf_lock_set_exit_status(lock, 4);
    bed_release(lock);
    lock = bed_acquire(two, name, NULL);
    hf_last last = bed_last(lock);
    assert_int_equal(last.outcome, HF_OUTCOME_RELEASED);
    assert_contains(last.who, "one@");
    assert_int_equal(last.exit_status, 4);
    assert_int_equal(last.done.exit_status, 4);
    assert_int_equal(last.token, token);
    bed_release(lock);
}

static void test_one_session_holds_many(void **state)
{
    (void)state;
    enum { MANY = 60 };
    hf_lock *locks[MANY];
    char name[96];
    const char *stem = bed_name("many");
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%s/%d", stem, i);
        locks[i] = bed_acquire(one, name, NULL);
    }
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(hf_lock_check(locks[i], NULL, NULL), HF_OK);
        hf_lock_close(locks[i]);
    }
}

static void test_locks_outlive_their_client_as_lost(void **state)
{
    (void)state;
    hf_client *brief = bed_client("brief", 5000);
    const char *name = bed_name("outlive");
    hf_lock *lock = bed_acquire(brief, name, NULL);
    int64_t token = hf_lock_token(lock);
    hf_close(brief);
    assert_int_equal(hf_lock_check(lock, NULL, NULL), HF_LOST);
    assert_string_equal(hf_lock_name(lock), name);
    hf_lock *next = NULL;
    assert_int_equal(bed_try(one, name, HF_EXCLUSIVE, &next), HF_OK);
    bed_rises(token, hf_lock_token(next));
    bed_release(next);
    hf_lock_close(lock);
}

/* ---- Who holds what ---- */

struct shown {
    size_t n, holders, queue;
    int32_t limit;
    char names[4][64];
    char who[HF_TEXT_MAX + 1], why[HF_TEXT_MAX + 1], actor[HF_ACTOR_MAX + 1];
    char waiting_why[HF_TEXT_MAX + 1];
    hf_entry_info holder, first;
};

static void copy_holder(struct shown *shown, const hf_entry_info *entry)
{
    shown->holder = *entry;
    snprintf(shown->who, sizeof shown->who, "%s", entry->who);
    snprintf(shown->why, sizeof shown->why, "%s", entry->why);
    snprintf(shown->actor, sizeof shown->actor, "%s", entry->actor);
}

static bool show(void *ctx, const hf_lock_info *info)
{
    struct shown *shown = ctx;
    if (shown->n < 4)
        snprintf(shown->names[shown->n], sizeof shown->names[0], "%s", info->name);
    shown->n++;
    shown->holders = info->n_holders;
    shown->queue = info->n_queue;
    shown->limit = info->limit;
    if (info->n_holders)
        copy_holder(shown, &info->holders[0]);
    if (info->n_queue) {
        shown->first = info->queue[0];
        snprintf(shown->waiting_why, sizeof shown->waiting_why, "%s", info->queue[0].why);
    }
    return true;
}

static void test_show_tells_who_and_why(void **state)
{
    (void)state;
    const char *name = bed_name("show");
    const hf_lock_options holding = {.why = "nightly $report", .actor = "thread 7"},
                          waiting = {.why = "me too", .mode = HF_SHARED};
    struct shown shown = {0};
    static struct taker taker;
    hf_error err;
    hf_lock *lock = bed_acquire(one, name, &holding);
    taker_start(&taker, two, name, &waiting);
    bed_wait_queued(one, name, 1);
    assert_code(HF_OK, hf_show(two, name, show, &shown, &err), &err);
    assert_int_equal(shown.n, 1);
    assert_string_equal(shown.names[0], name);
    assert_int_equal(shown.limit, HF_LIMIT_RW);
    assert_int_equal(shown.holders, 1);
    assert_int_equal(shown.queue, 1);
    assert_contains(shown.who, "one@");
    assert_string_equal(shown.why, "nightly $report");
    assert_string_equal(shown.actor, "thread 7");
    assert_int_equal(shown.holder.token, hf_lock_token(lock));
    assert_int_equal(shown.holder.permits, HF_LIMIT_RW);
    assert_int_equal(shown.holder.position, 0);
    assert_true(shown.holder.granted_ms >= shown.holder.since_ms);
    assert_true(shown.holder.lease_left_ms > 0 && shown.holder.lease_left_ms <= 5000);
    assert_string_equal(shown.waiting_why, "me too");
    assert_int_equal(shown.first.position, 1);
    assert_int_equal(shown.first.permits, 1);
    assert_int_equal(shown.first.token, 0);
    assert_int_equal(shown.first.granted_ms, 0);
    bed_release(lock);
    taker_join(&taker);
    assert_code(HF_OK, taker.code, &taker.err);
    bed_release(taker.lock);
}

static void test_show_of_what_is_not_there(void **state)
{
    (void)state;
    struct shown shown = {0};
    hf_error err;
    const char *name = bed_name("missing");
    assert_code(HF_NOT_FOUND, hf_show(one, name, show, &shown, &err), &err);
    assert_contains(err.text, name);
    assert_code(HF_INVALID, hf_show(one, "", show, &shown, &err), &err);
    assert_int_equal(shown.n, 0);
}

static void test_list_by_prefix_and_in_order(void **state)
{
    (void)state;
    char name[96];
    const char *stem = bed_name("list");
    hf_lock *locks[3];
    struct shown shown = {0};
    hf_error err;
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s/%c", stem, "bCa"[i]);
        locks[i] = bed_acquire(i ? one : two, name, NULL);
    }
    bed_release(locks[0]);
    snprintf(name, sizeof name, "%s/", stem);
    assert_code(HF_OK, hf_list(one, name, show, &shown, &err), &err);
    assert_int_equal(shown.n, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(shown.names[i][strlen(name)], "Cab"[i]);
    assert_int_equal(shown.holders, 0); /* the last, "b": free, and listed */
    shown = (struct shown){0};
    assert_code(HF_OK, hf_list(one, NULL, show, &shown, &err), &err);
    assert_true(shown.n >= 3);
    bed_release(locks[1]);
    bed_release(locks[2]);
}

struct seen {
    const char *app;
    int64_t ttl_ms;
    size_t alive;
};

static bool see(void *ctx, const hf_session_info *info)
{
    struct seen *seen = ctx;
    if (strcmp(info->app, seen->app) != 0 || info->ttl_ms != seen->ttl_ms || info->dead)
        return true;
    seen->alive++;
    assert_int_equal(info->pid, getpid());
    assert_int_equal(strlen(info->session), 24);
    assert_true(info->host[0] != '\0');
    assert_true(info->started_ms > 1600000000000);
    assert_true(info->lease_left_ms > 0 && info->lease_left_ms <= seen->ttl_ms);
    return true;
}

static size_t count_alive(struct seen *seen)
{
    hf_error err;
    seen->alive = 0;
    assert_code(HF_OK, hf_sessions(one, see, seen, &err), &err);
    return seen->alive;
}

/* The end of a session is not waited for until a majority has it, and a list is what one has. */
static void test_sessions_are_listed(void **state)
{
    (void)state;
    hf_client *special = bed_client("special", 54321);
    struct seen seen = {.app = "special", .ttl_ms = 54321};
    hf_lock *lock = bed_acquire(special, bed_name("sessions"), NULL);
    assert_int_equal(count_alive(&seen), 1);
    hf_lock_close(lock);
    hf_close(special);
    for (int i = 0; i < 500 && count_alive(&seen); i++)
        poll(NULL, 0, 10);
    assert_int_equal(seen.alive, 0);
}

static bool count_findings(void *ctx, const hf_finding *finding)
{
    ++*(size_t *)ctx;
    return finding->topic[0] != '\0';
}

static void test_the_doctor(void **state)
{
    (void)state;
    size_t n = 0;
    hf_error err;
    assert_code(HF_OK, hf_doctor(one, count_findings, &n, &err), &err);
    assert_true(n > 0);
}

/* ---- Fork ---- */

/* In the child: every use is refused, and closing is harmless. The exit status says what was not.
 */
static int use_in_child(hf_client *client, hf_lock *lock)
{
    hf_lock *other = NULL;
    size_t n = 0;
    alarm(20);
    if (hf_lock_acquire(client, "forked", NULL, &other, NULL) != HF_FORKED)
        return 1;
    if (hf_lock_check(lock, NULL, NULL) != HF_FORKED)
        return 2;
    if (hf_lock_release(lock, NULL) != HF_FORKED)
        return 3;
    if (hf_list(client, "", show, &n, NULL) != HF_FORKED)
        return 4;
    hf_lock_close(lock);
    hf_close(client);
    return 0;
}

static void test_a_forked_child_is_refused_and_harms_nothing(void **state)
{
    (void)state;
    const char *name = bed_name("fork");
    hf_lock *lock = bed_acquire(one, name, NULL), *other = NULL;
    pid_t pid = fork();
    if (pid == 0)
        _exit(use_in_child(one, lock));
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(hf_lock_check(lock, NULL, NULL), HF_OK);
    assert_int_equal(bed_try(two, name, HF_EXCLUSIVE, &other), HF_HELD);
    bed_release(lock);
}

int run_client_cases(void)
{
    const struct bed_case client_cases[] = {
        CASE(test_exclusive_excludes),
        CASE_IF(HF_CAN_SHARE, test_shared_shares_and_excludes_writers),
        CASE_IF(HF_CAN_SHARE, test_k_of_n_permits),
        CASE(test_permits_that_cannot_be),
        CASE_IF(HF_CAN_SHARE, test_limits_that_disagree_are_both_named),
        CASE_IF(HF_CAN_SHARE, test_a_limit_that_is_set_holds_from_now_on),
        CASE(test_a_limit_of_no_semaphore_is_not_set),
        CASE_IF(BED_MAKES, test_names_that_can_be),
        CASE(test_names_that_cannot_be),
        CASE(test_texts_have_their_bounds),
        CASE(test_a_mode_that_there_is_not),
        CASE(test_what_a_later_version_would_ask_for_is_refused),
        CASE(test_uris_and_options_that_cannot_be),
        CASE(test_a_negative_wait_is_refused),
        CASE(test_a_lock_is_held_past_its_ttl),
        CASE(test_release_twice_and_check_after_it),
        CASE_IF(HF_CAN_TOKENS, test_tokens_rise),
        CASE(test_close_is_ordered_before_the_next_acquire),
        CASE_IF(HF_CAN_LAST, test_the_previous_outcome_is_told),
        CASE_IF(HF_CAN_LAST, test_an_exit_status_is_told_by_who_has_not_asked),
        CASE_IF(BED_MAKES, test_one_session_holds_many),
        CASE(test_locks_outlive_their_client_as_lost),
        CASE_IF(HF_CAN_QUEUE, test_show_tells_who_and_why),
        CASE_IF(BED_MAKES, test_show_of_what_is_not_there),
        CASE_IF(HF_CAN_QUEUE, test_list_by_prefix_and_in_order),
        CASE_IF(BED_MAKES | BED_CAN_SAY_WHO, test_sessions_are_listed),
        CASE(test_the_doctor),
        CASE(test_a_forked_child_is_refused_and_harms_nothing),
    };
    return CASES(client_cases);
}
