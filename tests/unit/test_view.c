/* SPDX-License-Identifier: Apache-2.0 */
/* test_view.c: what the screen of `holdfast watch` shows of locks that are made up; run by ctest.
 */
#include "unit.h"

#include "cli/terminal/view.h"
#include "show/text.h"

#define NOW_MS INT64_C(1700000000000)
#define MOST_LINES 40

static struct {
    int lines, columns; /* as the terminal says */
    char text[MOST_LINES][300];
    screen_look look[MOST_LINES];
    bool is_shown;
} seen;

static void give_size(int *lines, int *columns)
{
    *lines = seen.lines;
    *columns = seen.columns;
}

static void clear(void)
{
    memset(seen.text, 0, sizeof seen.text);
    seen.is_shown = false;
}

static void put(int line, screen_look look, const char *text)
{
    assert_in_range(line, 0, MOST_LINES - 1);
    snprintf(seen.text[line], sizeof seen.text[line], "%s", text);
    seen.look[line] = look;
}

static void show(void)
{
    seen.is_shown = true;
}

static const screen fake = {.size = give_size, .clear = clear, .put = put, .show = show};

/* ---- What there is to be shown ---- */

static hf_entry_info entry(const char *who, int64_t age_ms, size_t position)
{
    return (hf_entry_info){.session = "",
                           .who = who,
                           .actor = "",
                           .why = "why",
                           .permits = HF_LIMIT_RW,
                           .since_ms = NOW_MS - age_ms,
                           .lease_left_ms = 8000,
                           .position = position};
}

static hf_lock_info held(const char *name, const hf_entry_info *holder)
{
    return (hf_lock_info){.name = name, .limit = HF_LIMIT_RW, .n_holders = 1, .holders = holder};
}

static view view_of(hf_lock_info *locks, size_t n)
{
    return (view){.store = "memory:",
                  .filter = "",
                  .wrong = "",
                  .board = {.at_ms = NOW_MS, .n = n, .locks = locks}};
}

static void draw(view *v, int lines, int columns)
{
    seen.lines = lines;
    seen.columns = columns;
    view_draw(v, &fake);
    assert_true(seen.is_shown);
}

/* The first letters of the lines in the body. */
static void assert_body(const char *letters)
{
    size_t n = strlen(letters);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(seen.text[3 + i][0], letters[i]);
}

/* ---- A line ---- */

static void test_a_line_in_eighty_columns(void **state)
{
    (void)state;
    hf_entry_info holder = entry("cron@web1:4711", 12000, 0);
    hf_lock_info lock = held("nightly", &holder);
    view v = view_of(&lock, 1);
    draw(&v, 24, 81);
    assert_string_equal(seen.text[2], "LOCK                STATE      FOR     LEASE   WHO"
                                      "                 WHY          ");
    assert_string_equal(seen.text[3],
                        "nightly             exclusive  12s     8s      cron@web1:4711"
                        "      why          ");
    assert_int_equal(seen.look[2], LOOK_HEAD);
    assert_int_equal(seen.look[3], LOOK_PLAIN);
}

/* Documents of other programs may not say it. */
static void test_a_lock_that_is_held_since_nobody_knows_when(void **state)
{
    (void)state;
    hf_entry_info holder = entry("cron@web1:4711", 0, 0);
    hf_lock_info lock = held("nightly", &holder);
    view v = view_of(&lock, 1);
    holder.since_ms = 0;
    draw(&v, 24, 81);
    assert_memory_equal(seen.text[3], "nightly             exclusive  -  ", 34);
}

static void test_names_have_the_room_that_a_screen_gives(void **state)
{
    static const struct {
        int columns, state_at;
    } wide[] = {{2, -1},  {7, -1},  {41, 6},  {51, 11}, {67, 19},
                {81, 20}, {83, 20}, {84, 21}, {111, 30}};
    (void)state;
    hf_entry_info holder = entry("w", 0, 0);
    hf_lock_info lock = held("n", &holder);
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        view v = view_of(&lock, 1);
        draw(&v, 24, wide[i].columns);
        const char *found = strchr(seen.text[3], 'e');
        assert_int_equal(text_columns(seen.text[3]), wide[i].columns - 1);
        assert_int_equal(found ? found - seen.text[3] : -1, wide[i].state_at);
    }
}

static void test_cells_are_cut_and_stand_apart(void **state)
{
    (void)state;
    hf_entry_info holder = entry("abcdefghijklmnopqrstuvwxyz", 1000, 0);
    hf_lock_info lock = held("ABCDEFGHIJKLMNOPQRSTUVWXYZ", &holder);
    view v = view_of(&lock, 1);
    draw(&v, 24, 71);
    assert_string_equal(seen.text[3], "ABCDEFGHI…RSTUVWXYZ exclusive  1s      8s      "
                                      "abcdefghi…rstuvwxyz why");
}

static void test_a_lease_that_is_over_is_never_cut(void **state)
{
    static const int columns[] = {41, 50, 61, 81, 121};
    (void)state;
    hf_entry_info holder = entry("abcdefghijklmnopqrstuvwxyz", 12000, 0);
    hf_lock_info lock = held("ABCDEFGHIJKLMNOPQRSTUVWXYZ", &holder);
    view v = view_of(&lock, 1);
    holder.lease_left_ms = -190000;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        draw(&v, 24, columns[i]);
        assert_non_null(strstr(seen.text[3], " 12s     over by 3m10s"));
        assert_int_equal(text_columns(seen.text[3]), columns[i] - 1);
    }
    draw(&v, 24, 81);
    assert_string_equal(seen.text[2], "LOCK             STATE      FOR     LEASE          WHO"
                                      "              WHY         ");
    assert_string_equal(seen.text[3], "ABCDEFGH…TUVWXYZ exclusive  12s     over by 3m10s  "
                                      "abcdefgh…tuvwxyz why         ");
    draw(&v, 24, 51);
    assert_string_equal(seen.text[3], "ABC…XYZ exclusive  12s     over by 3m10s  abc…xyz ");
}

static void test_states(void **state)
{
    static const struct {
        int32_t permits, limit;
        size_t position;
        const char *text;
    } states[] = {{HF_LIMIT_RW, HF_LIMIT_RW, 0, "exclusive"},
                  {1, HF_LIMIT_RW, 0, "shared"},
                  {2, 3, 0, "2 of 3"},
                  {3, 3, 0, "3 of 3"},
                  {2, 3, 1, "waits, 1."},
                  {1, HF_LIMIT_RW, 12, "waits, 12."}};
    (void)state;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        hf_entry_info one = entry("w", 1000, states[i].position);
        hf_lock_info lock = held("x", &one);
        one.permits = states[i].permits;
        lock.limit = states[i].limit;
        view v = view_of(&lock, 1);
        draw(&v, 24, 81);
        assert_memory_equal(seen.text[3] + 20, states[i].text, strlen(states[i].text));
        assert_int_equal(seen.look[3], states[i].position ? LOOK_WAITS : LOOK_PLAIN);
    }
}

static void test_what_is_wrong_with_a_holder_is_seen(void **state)
{
    static const struct {
        const char *who;
        int64_t left_ms;
        screen_look look;
    } holders[] = {{"w", 1, LOOK_PLAIN},
                   {"w", 0, LOOK_PLAIN}, /* not known */
                   {"w", -1, LOOK_ALARM},
                   {"", 1, LOOK_ALARM}};
    (void)state;
    for (size_t i = 0; i < sizeof holders / sizeof *holders; i++) {
        hf_entry_info one = entry(holders[i].who, 1000, 0);
        hf_lock_info lock = held("x", &one);
        one.lease_left_ms = holders[i].left_ms;
        view v = view_of(&lock, 1);
        draw(&v, 24, 81);
        assert_int_equal(seen.look[3], holders[i].look);
        assert_int_equal(strstr(seen.text[3], "(session gone)") != NULL, !*holders[i].who);
    }
}

static void test_a_clock_that_is_behind_makes_no_age_below_zero(void **state)
{
    (void)state;
    hf_entry_info one = entry("w", -5000, 0);
    hf_lock_info lock = held("x", &one);
    view v = view_of(&lock, 1);
    draw(&v, 24, 81);
    assert_memory_equal(seen.text[3] + 31, "0ms ", 4);
}

static void test_a_holder_is_as_old_as_its_grant(void **state)
{
    (void)state;
    hf_entry_info one = entry("w", 60000, 0);
    hf_lock_info lock = held("x", &one);
    one.granted_ms = NOW_MS - 3000;
    view v = view_of(&lock, 1);
    draw(&v, 24, 81);
    assert_memory_equal(seen.text[3] + 31, "3s ", 3);
}

/* ---- Which lines ---- */

/* a: held for 5 s. b: held for 1 s, waited for 9 s. c: held for 7 s, waited for 2 s, and 3 s. */
static hf_entry_info queues[3], holders[3];

static void fill(hf_lock_info locks[3])
{
    static const int64_t held_ms[] = {5000, 1000, 7000}, waited_ms[] = {9000, 2000, 3000};
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        holders[i] = entry(names[i], held_ms[i], 0);
        queues[i] = entry("waiter", waited_ms[i], i == 2 ? 2 : 1);
        locks[i] = held(names[i], &holders[i]);
    }
    locks[1].queue = &queues[0];
    locks[1].n_queue = 1;
    locks[2].queue = &queues[1];
    locks[2].n_queue = 2;
}

static void test_each_order(void **state)
{
    static const struct {
        view_order order;
        const char *letters, *title;
    } orders[] = {{BY_AGE, "bbccca", "  by age  "},
                  {BY_NAME, "abbccc", "  by name  "},
                  {BY_WAITING, "bbccca", "  by waiting  "}};
    (void)state;
    hf_lock_info locks[3];
    fill(locks);
    for (size_t i = 0; i < 3; i++) {
        view v = view_of(locks, 3);
        v.order = orders[i].order;
        draw(&v, 24, 121);
        assert_body(orders[i].letters);
        assert_non_null(strstr(seen.text[0], orders[i].title));
        assert_string_equal(seen.text[9], "");
    }
}

static void test_age_counts_of_holders_as_of_waiters(void **state)
{
    (void)state;
    hf_lock_info locks[3];
    fill(locks);
    holders[0].since_ms = NOW_MS - 8000;
    view v = view_of(locks, 3);
    draw(&v, 24, 81);
    assert_body("bbaccc");
    v.order = BY_WAITING;
    draw(&v, 24, 81);
    assert_body("bbccca");
}

static void test_the_same_age_goes_by_name(void **state)
{
    (void)state;
    hf_entry_info one = entry("w", 1000, 0);
    hf_lock_info locks[] = {held("c", &one), held("a", &one), held("b", &one)};
    view v = view_of(locks, 3);
    draw(&v, 24, 81);
    assert_body("abc");
}

static void test_a_millisecond_more_is_older(void **state)
{
    (void)state;
    hf_entry_info young = entry("w", 0, 0), old = entry("w", 1, 0);
    hf_lock_info locks[] = {held("a", &young), held("b", &old)};
    view v = view_of(locks, 2);
    draw(&v, 24, 81);
    assert_body("ba");
}

static void test_a_filter_looks_in_name_who_and_why(void **state)
{
    static const char *const filters[] = {"NAM", "Who", "REAS", "e"};
    (void)state;
    hf_entry_info one = entry("who", 1000, 0), other = entry("-", 1000, 0);
    hf_lock_info locks[] = {held("name", &one), held("-", &other)};
    one.why = "reason";
    other.why = "-";
    for (size_t i = 0; i < 4; i++) {
        view v = view_of(locks, 2);
        char *filter = text_copy(filters[i]);
        v.filter = filter;
        draw(&v, 24, 81);
        assert_body("n");
        assert_string_equal(seen.text[4], "");
        assert_memory_equal(seen.text[1], "filter: ", 8);
        assert_non_null(strstr(seen.text[0], "2 held, 0 waiting"));
        free(filter);
    }
}

static void test_scrolling_ends_with_the_last_line(void **state)
{
    static const struct {
        int lines;
        size_t first, then;
        const char *letters;
    } ways[] = {{10, 0, 0, "bbccca"}, {10, 5, 0, "bbccca"}, {9, 0, 0, "bbccc"},
                {9, 1, 1, "bccca"},   {9, 99, 1, "bccca"},  {5, 0, 0, "b"},
                {5, 3, 3, "c"},       {5, 99, 5, "a"},      {4, 0, 0, ""}};
    (void)state;
    hf_lock_info locks[3];
    fill(locks);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        view v = view_of(locks, 3);
        v.first = ways[i].first;
        draw(&v, ways[i].lines, 81);
        assert_int_equal(v.first, ways[i].then);
        assert_body(ways[i].letters);
        assert_memory_equal(seen.text[ways[i].lines - 1], "q quit  ", 8);
    }
}

/* ---- The lines around ---- */

static void test_the_title_counts(void **state)
{
    (void)state;
    hf_lock_info locks[4];
    fill(locks);
    locks[3] = (hf_lock_info){.name = "free", .limit = HF_LIMIT_RW};
    view v = view_of(locks, 4);
    v.is_paused = true;
    draw(&v, 24, 121);
    assert_memory_equal(seen.text[0], "holdfast watch  ", 16);
    assert_non_null(strstr(seen.text[0], "  3 held, 3 waiting  by age, PAUSED  memory:  "));
    assert_int_equal(seen.look[0], LOOK_TITLE);
    assert_string_equal(seen.text[1], "");
}

static void test_a_narrow_title_is_what_counts(void **state)
{
    (void)state;
    hf_lock_info locks[3];
    fill(locks);
    holders[1].lease_left_ms = -1;
    view v = view_of(locks, 3);
    draw(&v, 24, 66);
    assert_null(strstr(seen.text[0], "holdfast watch"));
    assert_non_null(strstr(seen.text[0], "  3 held, 3 waiting, 1 overdue  "));
}

static void test_the_title_counts_what_is_overdue(void **state)
{
    (void)state;
    hf_lock_info locks[3];
    fill(locks);
    queues[0].lease_left_ms = -1; /* a waiter's is another matter */
    holders[0].lease_left_ms = 0; /* not known */
    view v = view_of(locks, 3);
    draw(&v, 24, 121);
    assert_non_null(strstr(seen.text[0], "  3 held, 3 waiting  by age  "));
    holders[1].lease_left_ms = holders[2].lease_left_ms = -1;
    draw(&v, 24, 121);
    assert_non_null(strstr(seen.text[0], "  3 held, 3 waiting, 2 overdue  by age  "));
}

static void test_before_the_first_look(void **state)
{
    (void)state;
    view v = view_of(NULL, 0);
    v.board.at_ms = 0;
    draw(&v, 24, 81);
    assert_memory_equal(seen.text[0],
                        "holdfast watch  ...  0 held, 0 waiting  by age  memory:", 55);
    assert_string_equal(seen.text[3], "");
}

static void test_the_second_line(void **state)
{
    char filter[] = "", wrong[] = "away";
    (void)state;
    view v = view_of(NULL, 0);
    v.is_typing = true;
    v.filter = filter;
    draw(&v, 24, 81);
    assert_memory_equal(seen.text[1], "filter: _  ", 11);
    assert_int_equal(seen.look[1], LOOK_PLAIN);
    assert_memory_equal(seen.text[23], "type what to look for; ", 23);
    v.wrong = wrong;
    draw(&v, 24, 81);
    assert_memory_equal(seen.text[1], "away  ", 6);
    assert_int_equal(seen.look[1], LOOK_ALARM);
}

static void test_control_characters_are_escaped(void **state)
{
    char wrong[] = "a\x1b[2Jb\n";
    (void)state;
    view v = view_of(NULL, 0);
    v.wrong = wrong;
    draw(&v, 24, 81);
    assert_memory_equal(seen.text[1], "a\\x1b[2Jb\\x0a ", 14);
}

/* ---- How often it looks ---- */

static int64_t pause_after(board_pace *pace, int64_t took_ms)
{
    const board last = {.took_ms = took_ms};
    return board_pause_ms(pace, &last, 1000);
}

static void test_looks_take_a_fifth_of_the_time_at_most(void **state)
{
    (void)state;
    board_pace pace = {250, 0};
    assert_int_equal(pause_after(&pace, 251), 1000);
    assert_int_equal(pause_after(&pace, 251), 1004);
    assert_int_equal(pause_after(&pace, 0), 1000);
    assert_int_equal(board_pause_ms(&pace, &(board){.took_ms = 0}, 50), 50);
}

/* The store may have stood still meanwhile; what failed says nothing of how long looks take. */
static void test_one_look_that_takes_long_puts_off_no_other(void **state)
{
    (void)state;
    board_pace pace = {0};
    assert_int_equal(pause_after(&pace, 5000), 1000);
    assert_int_equal(pause_after(&pace, 10), 1000);
    assert_int_equal(pause_after(&pace, 5000), 1000);
    assert_int_equal(board_pause_ms(&pace, NULL, 1000), 1000);
    assert_int_equal(pause_after(&pace, 400), 1600);
}

/* Also where a long has 32 bits. */
static void test_times_that_32_bits_cannot_hold(void **state)
{
    (void)state;
    char *late = text_iso(INT64_C(4102444800123)), *early = text_iso(INT64_C(-2208988800001));
    assert_string_equal(late, "2100-01-01T00:00:00.123Z");
    assert_string_equal(early, "1899-12-31T23:59:59.999Z");
    free(late);
    free(early);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_in_eighty_columns),
        cmocka_unit_test(test_a_lock_that_is_held_since_nobody_knows_when),
        cmocka_unit_test(test_names_have_the_room_that_a_screen_gives),
        cmocka_unit_test(test_cells_are_cut_and_stand_apart),
        cmocka_unit_test(test_a_lease_that_is_over_is_never_cut),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_times_that_32_bits_cannot_hold),
        cmocka_unit_test(test_what_is_wrong_with_a_holder_is_seen),
        cmocka_unit_test(test_a_clock_that_is_behind_makes_no_age_below_zero),
        cmocka_unit_test(test_a_holder_is_as_old_as_its_grant),
        cmocka_unit_test(test_each_order),
        cmocka_unit_test(test_age_counts_of_holders_as_of_waiters),
        cmocka_unit_test(test_the_same_age_goes_by_name),
        cmocka_unit_test(test_a_millisecond_more_is_older),
        cmocka_unit_test(test_a_filter_looks_in_name_who_and_why),
        cmocka_unit_test(test_scrolling_ends_with_the_last_line),
        cmocka_unit_test(test_the_title_counts),
        cmocka_unit_test(test_a_narrow_title_is_what_counts),
        cmocka_unit_test(test_the_title_counts_what_is_overdue),
        cmocka_unit_test(test_before_the_first_look),
        cmocka_unit_test(test_the_second_line),
        cmocka_unit_test(test_control_characters_are_escaped),
        cmocka_unit_test(test_looks_take_a_fifth_of_the_time_at_most),
        cmocka_unit_test(test_one_look_that_takes_long_puts_off_no_other),
    };
    text_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
