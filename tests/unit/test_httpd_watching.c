/* SPDX-License-Identifier: Apache-2.0 */
/* test_httpd_watching.c: when the watcher looks at the locks, what it makes of what it sees, and
 * what it keeps; the clock and the store are the test's. Run by ctest. */
#include "unit.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdatomic.h>

#include "httpd/watcher.h"
#include "httpd_clock.h"
#include "httpd_library.h"

#define N(array) (sizeof(array) / sizeof *(array))
#define BEGIN_MS 1000000

static watcher w;
static waits requests;
static metrics counts;
static const places enough = {.of_one = {10, 10}, .of_all = {10, 10}};
static follower one;
static atomic_int resumed;

void MHD_resume_connection(struct MHD_Connection *mhd)
{
    (void)mhd;
    resumed++;
}

static int begin(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    memset(&requests, 0, sizeof requests);
    memset(&counts, 0, sizeof counts);
    library = (struct library){.n_locks = 0};
    one = (follower){.who = "me"};
    resumed = 0;
    clock_set(BEGIN_MS);
    assert_true(waits_open(&requests));
    assert_true(watcher_open(&w, NULL, &requests, &counts));
    return 0;
}

static int end(void **state)
{
    (void)state;
    watcher_close(&w);
    watcher_done(&w);
    waits_close(&requests);
    return 0;
}

/* Waits for the pause behind the next look; returns until when it is, from the beginning on. */
static int64_t pause_end(void)
{
    return clock_await_sleep(&w.changed) - BEGIN_MS;
}

static void look_at(int64_t ms)
{
    clock_wake(&w.changed, BEGIN_MS + ms);
    pause_end();
}

static void look_again(void)
{
    look_at(pause_end());
}

static void test_so_many_follow(void **state)
{
    static const places few = {.of_one = {0, 1}, .of_all = {0, 2}};
    follower mine = {.who = "me"}, other = {.who = "other"}, third = {.who = "third"};
    (void)state;
    assert_int_equal(watcher_join(&w, &one, &few), ADMITTED);
    assert_int_equal(watcher_join(&w, &mine, &few), TOO_MANY_OF_ONE);
    assert_int_equal(watcher_join(&w, &other, &few), ADMITTED);
    assert_int_equal(watcher_join(&w, &third, &few), TOO_MANY_OF_ALL);
    assert_int_equal(watcher_count_followers(&w), 2);
    watcher_leave(&w, &one, NULL);
    assert_int_equal(watcher_join(&w, &mine, &few), ADMITTED);
    watcher_leave(&w, &mine, NULL);
    watcher_leave(&w, &other, NULL);
    assert_int_equal(watcher_count_followers(&w), 0);
}

/* Joins, and waits for the first look. */
static void follow(void)
{
    assert_int_equal(watcher_join(&w, &one, &enough), ADMITTED);
    pause_end();
}

/* Waits until it rests for the nth time, because nobody follows. */
static void await_rest(uint64_t n)
{
    for (uint64_t rests = 0; rests < n; poll(NULL, 0, 1)) {
        pthread_mutex_lock(&w.mutex);
        rests = w.epoch & 0xffff; /* begins with 0 */
        pthread_mutex_unlock(&w.mutex);
    }
}

static const hf_entry_info holder[] = {
    {.session = "01", .who = "me", .actor = "", .why = "", .token = 7, .lease_left_ms = 9000}};
static const hf_lock_info is_free = {.name = "x"};
static const hf_lock_info is_held = {.name = "x", .token = 7, .holders = holder, .n_holders = 1};

static void show(const hf_lock_info *lock)
{
    library.locks = lock;
    library.n_locks = lock ? 1 : 0;
    look_again();
}

static void show_first(const hf_lock_info *lock)
{
    library.locks = lock;
    library.n_locks = 1;
    follow();
}

/* The event of this number, as a follower of all locks gets it; 1 is the first. */
static const char *event_of(uint64_t number)
{
    static char text[4096];
    assert_true(number >= w.first && number < w.next);
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    watcher_write_locked(&w, number, "", out);
    fclose(out);
    return text;
}

static void assert_event(uint64_t number, const char *kind, const char *said)
{
    char head[100];
    const char *text = event_of(number);
    snprintf(head, sizeof head, "id: %" PRIx64 "-%" PRIu64 "\nevent: %s\ndata: {", w.epoch, number,
             kind);
    assert_memory_equal(text, head, strlen(head));
    assert_non_null(strstr(text, said));
    assert_string_equal(text + strlen(text) - 3, "}\n\n");
}

static bool is_ready(void)
{
    pthread_mutex_lock(&w.mutex);
    bool is_so = watcher_is_ready_locked(&w, &one);
    pthread_mutex_unlock(&w.mutex);
    return is_so;
}

/* ---- When it looks ---- */

static void test_it_looks_while_somebody_follows(void **state)
{
    (void)state;
    await_rest(1); /* nobody does */
    assert_int_equal(counts.looks, 0);
    follow();
    assert_int_equal(counts.looks, 1);
    assert_int_equal(pause_end(), 500);
    look_again();
    assert_int_equal(counts.looks, 2);
    assert_int_equal(pause_end(), 1000);
}

static void test_who_joins_is_in_time_for_the_next_look(void **state)
{
    follower other = {.who = "me"};
    (void)state;
    follow();
    assert_int_equal(watcher_join(&w, &other, &enough),
                     ADMITTED); /* wakes it, but nothing is to be done yet */
    assert_int_equal(pause_end(), 500);
    clock_wake(&w.changed, BEGIN_MS + 499);
    assert_int_equal(pause_end(), 500);
    assert_int_equal(counts.looks, 1);
    look_at(500);
    assert_int_equal(counts.looks, 2);
    watcher_leave(&w, &other, NULL);
}

static int64_t look_takes_ms;

static void pass_time(void)
{
    clock_set(clock_get() + look_takes_ms);
}

/* Looks that take long are followed by pauses four times as long. */
static void test_looks_take_a_fifth_of_the_time(void **state)
{
    static const struct {
        int64_t took_ms, pause_ms;
    } looks[] = {{0, 500}, {100, 500}, {101, 505}, {1000, 5000}};
    (void)state;
    follow();
    library.on_list = pass_time;
    for (size_t i = 0; i < N(looks); i++) {
        look_takes_ms = looks[i].took_ms;
        look_again();
        int64_t began = pause_end();
        look_at(began);
        assert_int_equal(pause_end() - began, looks[i].pause_ms);
    }
}

/* The store may have stood still meanwhile. */
static void test_one_look_that_takes_long_puts_off_no_other(void **state)
{
    (void)state;
    follow();
    look_again();
    library.on_list = pass_time;
    look_takes_ms = 3000;
    int64_t began = pause_end();
    look_at(began);
    assert_int_equal(pause_end() - began, 3500);
}

/* The store may be back at once, however long the call took that failed. */
static void test_after_a_failure_it_looks_again_soon(void **state)
{
    (void)state;
    follow();
    library.on_list = pass_time;
    look_takes_ms = 5000;
    library_fails(HF_UNREACHABLE, true, "gone");
    int64_t began = pause_end();
    look_at(began);
    assert_int_equal(pause_end() - began, 5500);
}

static void test_it_goes_on_for_a_while_when_all_have_gone(void **state)
{
    (void)state;
    await_rest(1);
    follow();
    show(&is_free);
    uint64_t epoch = w.epoch, next = w.next;
    assert_true(next > w.first);
    watcher_leave(&w, &one, NULL);
    look_at(30000);
    look_at(30499); /* the last look for a follower was at 500 ms */
    assert_int_equal(w.epoch, epoch);
    assert_true(w.first < next);
    int looks = (int)counts.looks;
    clock_wake(&w.changed, BEGIN_MS + 30999); /* its pause's end */
    await_rest(2);
    assert_int_equal(counts.looks, looks);
    assert_int_equal(w.epoch, epoch + 1);
    assert_true(w.first == next && w.next == next);
    assert_false(is_ready());
    follow();
    assert_true(w.next == next); /* what there is then is no news */
    assert_true(is_ready());
}

static void test_a_beat_comes_every_second(void **state)
{
    (void)state;
    follow();
    uint64_t beats = w.beats;
    assert_int_equal(beats, 1);
    look_at(999);
    assert_int_equal(w.beats, beats);
    look_at(1500);
    assert_int_equal(w.beats, beats + 1);
    look_at(2499);
    assert_int_equal(w.beats, beats + 1);
    look_at(2999);
    assert_int_equal(w.beats, beats + 2);
}

static void test_each_look_wakes_who_is_asleep(void **state)
{
    follower other = {.who = "me", .is_asleep = true};
    (void)state;
    one.is_asleep = true;
    assert_int_equal(watcher_join(&w, &other, &enough), ADMITTED);
    pause_end();
    assert_int_equal(resumed, 1);
    assert_false(other.is_asleep);
    assert_int_equal(watcher_join(&w, &one, &enough), ADMITTED);
    look_again();
    assert_int_equal(resumed, 2);
    look_again();
    assert_int_equal(resumed, 2);
    watcher_leave(&w, &other, NULL);
}

/* ---- What it makes of it ---- */

/* Free locks may be very many. */
static void test_who_wants_none_costs_no_free_locks(void **state)
{
    (void)state;
    one.in_use = true;
    show_first(&is_held);
    assert_true(library.in_use);
    show(&is_free);
    assert_string_equal(library.name, "x");
    assert_event(w.next - 2, "release", "\"name\":\"x\"");
    assert_event(w.next - 1, "lock", "\"holders\":[]");
    uint64_t next = w.next;
    show(&is_free);
    assert_int_equal(json_object_size(w.now.locks), 0);
    assert_true(w.next == next); /* it is not gone */
    show(&is_held);
    show(NULL);
    assert_event(w.next - 1, "gone", "{\"name\":\"x\"}");
}

static void test_who_wants_free_ones_has_them_from_the_next_look_on(void **state)
{
    (void)state;
    follower other = {.who = "me", .in_use = true};
    library.locks = &is_free;
    library.n_locks = 1;
    assert_int_equal(watcher_join(&w, &other, &enough), ADMITTED);
    pause_end();
    assert_false(watcher_is_ready_locked(&w, &one));
    assert_true(watcher_is_ready_locked(&w, &other));
    assert_int_equal(watcher_join(&w, &one, &enough), ADMITTED);
    look_again();
    assert_false(library.in_use);
    assert_true(watcher_is_ready_locked(&w, &one));
    assert_true(w.next == 1); /* those that were free before are no news */
    show(&is_held);
    watcher_leave(&w, &one, NULL);
    look_at(pause_end() + 30000);
    look_again();
    assert_true(library.in_use);
    watcher_leave(&w, &other, NULL);
}

static void test_changes_are_events(void **state)
{
    (void)state;
    follow();
    assert_true(w.next == 1);
    show(&is_free);
    assert_true(w.next == 2);
    assert_event(1, "lock", "\"name\":\"x\"");
    show(&is_held);
    assert_true(w.next == 5);
    assert_event(2, "leases", "{\"01\":9000}");
    assert_event(3, "grant", "\"token\":7");
    assert_event(4, "lock", "\"who\":\"me\"");
    assert_null(strstr(event_of(4), "lease_left_ms"));
    show(NULL);
    assert_event(w.next - 1, "gone", "{\"name\":\"x\"}");
    assert_int_equal(counts.seen[NEWS_LOCK], 2);
    assert_int_equal(counts.seen[NEWS_GONE], 1);
    assert_string_equal(w.events[1].name, "x");
    assert_null(w.events[2].name);
}

/* One that asked at this time and has the lock with this token. */
static hf_entry_info granted(const char *session, const char *who, int64_t since_ms, int64_t token)
{
    return (hf_entry_info){.session = session,
                           .who = who,
                           .actor = who,
                           .why = "",
                           .token = token,
                           .since_ms = since_ms,
                           .granted_ms = 9,
                           .lease_left_ms = 9000};
}

/* Which took the lock first, for itself: its place goes on under another session. */
static void test_a_place_that_becomes_an_id_lease_is_one_hold(void **state)
{
    static hf_entry_info taker, lease, other;
    static const hf_lock_info looks[] = {
        {.name = "x", .token = 7, .holders = &taker, .n_holders = 1},
        {.name = "x", .token = 7, .holders = &lease, .n_holders = 1},
        {.name = "x", .token = 8, .holders = &other, .n_holders = 1}};
    (void)state;
    taker = granted("01", "me", 5, 7);
    lease = granted("02", "you", 5, 7);
    other = granted("03", "it", 5, 8);
    follow();
    show(&looks[0]);
    uint64_t next = w.next;
    show(&looks[1]);
    assert_event(w.next - 1, "lock", "\"who\":\"you\"");
    for (uint64_t i = next; i < w.next - 1; i++)
        assert_event(i, "leases", "\"02\":9000");
    next = w.next;
    show(&looks[2]);
    assert_event(next + 1, "release", "\"token\":7");
    assert_event(next + 2, "grant", "\"token\":8");
}

static void test_a_waiter_that_becomes_an_id_lease_was_served(void **state)
{
    static const hf_entry_info waiter[] = {
        {.session = "01", .who = "me", .actor = "", .why = "", .since_ms = 5, .position = 1}};
    static const hf_lock_info is_wanted = {
        .name = "x", .token = 7, .holders = holder, .n_holders = 1, .queue = waiter, .n_queue = 1};
    static hf_entry_info lease;
    static const hf_lock_info is_served = {
        .name = "x", .token = 8, .holders = &lease, .n_holders = 1};
    (void)state;
    lease = granted("02", "me", 5, 8);
    follow();
    show(&is_wanted);
    uint64_t next = w.next;
    show(&is_served);
    assert_event(next + 1, "release", "\"token\":7");
    assert_event(next + 2, "grant", "\"token\":8");
    assert_true(w.next == next + 4); /* with its lease and the lock */
}

static void test_a_lease_that_is_not_known_is_not_told(void **state)
{
    static const hf_entry_info nameless[] = {
        {.session = "02", .who = "", .actor = "", .why = "", .lease_left_ms = 0}};
    static const hf_lock_info its_lock = {
        .name = "x", .token = 7, .holders = nameless, .n_holders = 1};
    (void)state;
    follow();
    show(&its_lock);
    for (uint64_t i = 1; i < w.next; i++)
        assert_null(strstr(event_of(i), "event: leases"));
}

/* Each session's once, and not with its entries: it changes all the time. */
static void test_leases_of_those_that_wait_are_told_apart(void **state)
{
    static const hf_entry_info waiter[] = {
        {.session = "02", .who = "you", .actor = "", .why = "", .lease_left_ms = 8000}};
    static const hf_lock_info is_wanted = {
        .name = "x", .token = 7, .holders = holder, .n_holders = 1, .queue = waiter, .n_queue = 1};
    (void)state;
    follow();
    show(&is_wanted);
    assert_event(1, "leases", "{\"01\":9000,\"02\":8000}");
    assert_event(w.next - 1, "lock", "\"who\":\"you\"");
    assert_null(strstr(event_of(w.next - 1), "lease_left_ms"));
}

/* It is not made again for each look; requests that wait here change it, too. */
static void test_what_has_not_changed_is_kept(void **state)
{
    (void)state;
    follow();
    show(&is_held);
    json_t *kept = json_incref(json_object_get(w.now.locks, "x"));
    look_again();
    assert_ptr_equal(json_object_get(w.now.locks, "x"), kept);
    assert_int_equal(json_integer_value(json_object_get(w.now.leases, "01")), 9000);
    wait_entry entry = {.who = "me", .lock = "x", .fd = -1};
    assert_int_equal(waits_enter(&requests, &entry, 1), ADMITTED);
    look_again();
    assert_ptr_not_equal(json_object_get(w.now.locks, "x"), kept);
    assert_event(w.next - 1, "lock", "\"waiting_here\":1");
    waits_leave(&requests, &entry);
    waits_over(&requests);
    show(&is_free);
    assert_event(w.next - 1, "lock", "\"waiting_here\":0");
    json_decref(kept);
}

static void fail_with(const char *text)
{
    library_fails(text ? HF_UNREACHABLE : HF_OK, false, text ? text : "");
    look_again();
}

static void test_a_store_that_is_lost_and_found(void **state)
{
    (void)state;
    follow();
    show(&is_free);
    uint64_t next = w.next;
    fail_with("gone");
    assert_event(next, "store", "{\"reachable\":false,\"detail\":\"gone\"}");
    fail_with("gone, too");
    assert_true(w.next == next + 1);
    assert_string_equal(w.trouble, "gone, too");
    assert_non_null(w.now.locks); /* as they were */
    fail_with(NULL);
    assert_event(next + 1, "store", "{\"reachable\":true,\"detail\":\"\"}");
    assert_null(w.trouble);
    assert_int_equal(counts.seen[NEWS_STORE], 2);
    look_again();
    assert_true(w.next == next + 2);
}

static atomic_bool is_asked, may_answer;

static void await_answer(void)
{
    is_asked = true;
    while (!may_answer)
        poll(NULL, 0, 1);
}

static void let_looks_hang(void)
{
    is_asked = may_answer = false;
    library.on_list = await_answer;
}

static void await_look(void)
{
    while (!is_asked)
        poll(NULL, 0, 1);
}

/* Until the look is under way, and the guard sleeps; returns until when it does. */
static int64_t begin_to_hang(void)
{
    int64_t at = pause_end();
    let_looks_hang();
    clock_wake(&w.changed, BEGIN_MS + at);
    await_look();
    return clock_await_sleep(&w.looking) - BEGIN_MS - at;
}

/* Returns until when the pause after the look is. */
static int64_t answer_now(void)
{
    library.on_list = (void (*)(void))NULL;
    may_answer = true;
    return pause_end();
}

static void await_event(uint64_t number)
{
    for (uint64_t next = 0; next <= number; poll(NULL, 0, 1)) {
        pthread_mutex_lock(&w.mutex);
        next = w.next;
        pthread_mutex_unlock(&w.mutex);
    }
}

/* Those that follow are told while the look is still under way. */
static void test_a_store_that_does_not_answer(void **state)
{
    (void)state;
    follow();
    show(&is_free);
    uint64_t next = w.next;
    one.is_asleep = true;
    int woken = resumed;
    int64_t late_ms = begin_to_hang();
    assert_int_equal(late_ms, 1500);
    assert_true(w.next == next);
    clock_wake(&w.looking, clock_get() + late_ms);
    await_event(next);
    assert_event(next, "store", "{\"reachable\":false,\"detail\":\"it does not answer\"}");
    while (resumed == woken)
        poll(NULL, 0, 1);
    answer_now();
    assert_event(next + 1, "store", "{\"reachable\":true,\"detail\":\"\"}");
}

static atomic_int wanted, given;

static void give_when_allowed(void)
{
    int nth = ++wanted;
    while (given < nth)
        poll(NULL, 0, 1);
}

static void await_wanted(int n)
{
    while (wanted < n)
        poll(NULL, 0, 1);
}

static void test_a_store_that_still_gives_locks(void **state)
{
    (void)state;
    static const hf_lock_info two[] = {{.name = "x"}, {.name = "y"}};
    follow();
    library.locks = two;
    library.n_locks = 2;
    library.on_lock = give_when_allowed;
    wanted = given = 0;
    int64_t at = BEGIN_MS + pause_end();
    uint64_t next = w.next;
    clock_wake(&w.changed, at);
    await_wanted(1);
    assert_int_equal(clock_await_sleep(&w.looking), at + 1500);
    clock_set(at + 1000);
    given = 1;
    await_wanted(2);
    clock_wake(&w.looking, at + 1500);
    assert_int_equal(clock_await_sleep(&w.looking), at + 2500);
    assert_true(w.next == next);
    clock_wake(&w.looking, at + 2500);
    await_event(next);
    assert_event(next, "store", "{\"reachable\":false,\"detail\":\"it does not answer\"}");
    given = 2;
    pause_end();
}

/* Looks for counts alone are 10 s apart. */
static void test_who_comes_during_a_look_for_counts_does_not_wait_for_the_next(void **state)
{
    (void)state;
    let_looks_hang();
    watcher_count(&w);
    await_look();
    assert_int_equal(watcher_join(&w, &one, &enough), ADMITTED);
    assert_int_equal(answer_now(), 500);
}

/* Where there are very many locks, a look may take long. */
static void test_how_long_a_look_may_take(void **state)
{
    (void)state;
    follow();
    library.on_list = pass_time;
    look_takes_ms = 400;
    look_again();
    look_again();
    assert_int_equal(begin_to_hang(), 2300);
    answer_now();
}

static void test_it_is_ready_when_it_has_looked(void **state)
{
    (void)state;
    library_fails(HF_UNREACHABLE, false, "gone");
    assert_false(is_ready());
    follow();
    assert_true(is_ready());
    assert_null(w.now.locks);
    fail_with(NULL);
    assert_true(is_ready());
}

/* ---- What it keeps ---- */

static void test_it_keeps_a_thousand_events(void **state)
{
    (void)state;
    follow();
    while (w.next < EVENTS_KEPT + 1) {
        fail_with("gone");
        fail_with(NULL);
    }
    assert_int_equal(w.first, 1);
    assert_int_equal(w.next, EVENTS_KEPT + 1);
    assert_event(1, "store", "false");
    fail_with("gone");
    assert_int_equal(w.first, 2);
    assert_event(2, "store", "true");
    assert_event(EVENTS_KEPT + 1, "store", "false");
}

static bool finds(uint64_t epoch, uint64_t number, uint64_t *next)
{
    char id[60];
    snprintf(id, sizeof id, "%" PRIx64 "-%" PRIu64, epoch, number);
    return watcher_find_locked(&w, &one, id, next);
}

/* What happened to free locks meanwhile was not noticed. */
static void test_who_wants_free_ones_goes_on_where_they_were_seen(void **state)
{
    uint64_t next;
    (void)state;
    await_rest(1);
    w.first = 5;
    w.next = 9;
    w.free_since = 7;
    w.now.has_free = true;
    assert_true(finds(w.epoch, 6, &next));
    assert_false(finds(w.epoch, 5, &next));
    one.in_use = true;
    assert_true(finds(w.epoch, 5, &next));
    w.now.has_free = one.in_use = false;
    assert_false(finds(w.epoch, 6, &next));
}

static void test_which_event_comes_next(void **state)
{
    uint64_t next;
    (void)state;
    await_rest(1);
    w.first = 5;
    w.next = 9;
    w.now.has_free = true;
    assert_true(finds(w.epoch, 4, &next));
    assert_true(next == 5);
    assert_true(finds(w.epoch, 8, &next));
    assert_true(next == 9);
    assert_false(finds(w.epoch, 3, &next));
    assert_false(finds(w.epoch, 9, &next));
    assert_false(finds(w.epoch + 1, 6, &next));
    assert_false(watcher_find_locked(&w, &one, NULL, &next));
    assert_false(watcher_find_locked(&w, &one, "nonsense", &next));
    char id[60];
    snprintf(id, sizeof id, "%" PRIx64, w.epoch);
    assert_false(watcher_find_locked(&w, &one, id, &next));
}

static void assert_snapshot(const char *prefix, const char *said)
{
    char *text = NULL, expected[500];
    size_t size;
    FILE *out = open_memstream(&text, &size);
    watcher_snapshot_locked(&w, prefix, false, out);
    fclose(out);
    snprintf(expected, sizeof expected,
             "id: %" PRIx64 "-%" PRIu64 "\nevent: snapshot\ndata: ", w.epoch, w.next - 1);
    assert_memory_equal(text, expected, strlen(expected));
    assert_non_null(strstr(text, said));
    assert_string_equal(text + strlen(text) - 3, "}\n\n");
    free(text);
}

static void test_a_snapshot_has_all_of_a_prefix(void **state)
{
    static const hf_lock_info locks[] = {{.name = "a/1"}, {.name = "b/1"}};
    (void)state;
    library.locks = locks;
    library.n_locks = 2;
    follow();
    assert_snapshot("a/", "{\"locks\":[{\"name\":\"a/1\"");
    assert_snapshot("b", "{\"locks\":[{\"name\":\"b/1\"");
    assert_snapshot(
        "c",
        "{\"locks\":[],\"leases\":{},\"free_left_off\":false,\"reachable\":true,\"detail\":\"\"}");
    fail_with("gone");
    assert_snapshot("c", "{\"locks\":[],\"leases\":{},\"free_left_off\":false,\"reachable\":false,"
                         "\"detail\":\"gone\"}");
    fail_with(NULL);
    show(&is_held);
    assert_snapshot("x", "\"leases\":{\"01\":9000}");
}

/* Who has had the free locks too gets a new snapshot, which says that it has them no more. */
static void test_when_there_are_too_many_free_ones_they_are_left_off(void **state)
{
    enum { MANY = LISTING_MOST + 1, NAME = 8 };
    hf_lock_info *many = calloc(MANY, sizeof *many);
    char *names = calloc(MANY, NAME);
    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        many[i].name = names + i * NAME;
        snprintf(names + i * NAME, NAME, "%zu", i);
    }
    show_first(&is_free);
    assert_snapshot("", "\"free_left_off\":false");
    library.locks = many;
    library.n_locks = MANY;
    look_again();
    assert_true(w.first == w.next);
    assert_snapshot("", "\"free_left_off\":true");
    uint64_t first = w.first;
    look_again();
    assert_true(w.first == first); /* once */
    library.n_locks = 0;
    free(many);
    free(names);
}

static void test_without_a_listing_a_snapshot_is_empty(void **state)
{
    (void)state;
    library_fails(HF_UNREACHABLE, false, "gone");
    follow();
    assert_snapshot("", "{\"locks\":[],\"leases\":{},\"free_left_off\":false,\"reachable\":false,"
                        "\"detail\":\"gone\"}");
}

/* Its followers have to read its end. */
static void test_its_end_wakes_all(void **state)
{
    (void)state;
    follow();
    look_again();
    one.is_asleep = true;
    resumed = 0;
    watcher_close(&w);
    assert_int_equal(resumed, 1);
    assert_false(one.is_asleep);
    watcher_done(&w);
    memset(&w, 0, sizeof w);
    assert_true(watcher_open(&w, NULL, &requests, &counts));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_so_many_follow),
        TEST(test_it_looks_while_somebody_follows),
        TEST(test_who_joins_is_in_time_for_the_next_look),
        TEST(test_looks_take_a_fifth_of_the_time),
        TEST(test_one_look_that_takes_long_puts_off_no_other),
        TEST(test_after_a_failure_it_looks_again_soon),
        TEST(test_it_goes_on_for_a_while_when_all_have_gone),
        TEST(test_a_beat_comes_every_second),
        TEST(test_each_look_wakes_who_is_asleep),
        TEST(test_who_wants_none_costs_no_free_locks),
        TEST(test_who_wants_free_ones_has_them_from_the_next_look_on),
        TEST(test_who_wants_free_ones_goes_on_where_they_were_seen),
        TEST(test_changes_are_events),
        TEST(test_a_place_that_becomes_an_id_lease_is_one_hold),
        TEST(test_a_waiter_that_becomes_an_id_lease_was_served),
        TEST(test_a_lease_that_is_not_known_is_not_told),
        TEST(test_leases_of_those_that_wait_are_told_apart),
        TEST(test_what_has_not_changed_is_kept),
        TEST(test_a_store_that_is_lost_and_found),
        TEST(test_a_store_that_does_not_answer),
        TEST(test_a_store_that_still_gives_locks),
        TEST(test_who_comes_during_a_look_for_counts_does_not_wait_for_the_next),
        TEST(test_how_long_a_look_may_take),
        TEST(test_it_is_ready_when_it_has_looked),
        TEST(test_it_keeps_a_thousand_events),
        TEST(test_which_event_comes_next),
        TEST(test_a_snapshot_has_all_of_a_prefix),
        TEST(test_when_there_are_too_many_free_ones_they_are_left_off),
        TEST(test_without_a_listing_a_snapshot_is_empty),
        TEST(test_its_end_wakes_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
