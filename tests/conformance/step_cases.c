/* SPDX-License-Identifier: Apache-2.0 */
/* step_cases.c: what every store must make of a step, a look and a list; run by main.c. */
#include "conformance/bed.h"

#include "core/id.h"
#include "core/record.h"

#define ALL HF_LIMIT_RW

static hf_store *store;
static hf_id session;

static int set_up(void **state)
{
    (void)state;
    store = bed_store();
    session = bed_session(store, 10000);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store->ops->session_end(store, session, false, NULL);
    store->ops->close(store);
    return 0;
}

/* Enters and returns the verdict. */
static record_verdict enter(const char *name, const hf_enter *enter)
{
    hf_record record;
    bed_take(store, name, enter, &record);
    record_verdict verdict = record_judge(&record, enter);
    record_done(&record);
    return verdict;
}

static record_verdict verdict_now(const char *name, const hf_enter *enter)
{
    hf_record record;
    bed_look(store, name, &record);
    record_verdict verdict = record_judge(&record, enter);
    record_done(&record);
    return verdict;
}

/* ---- Steps ---- */

static void test_a_first_enter_makes_the_record_and_is_granted(void **state)
{
    (void)state;
    const char *name = bed_name("first");
    hf_enter mine = bed_enter(session, ALL, ALL);
    hf_record record;
    bed_take(store, name, &mine, &record);
    assert_true(record.exists);
    assert_string_equal(record.name, name);
    assert_int_equal(record.limit, ALL);
    assert_int_equal(record.holders, 1);
    assert_int_equal(record.queued, 0);
    const hf_entry *entry = &record.entries[0];
    assert_true(id_equal(entry->ticket, mine.entry.ticket));
    assert_true(id_equal(entry->session, session));
    assert_int_equal(entry->permits, ALL);
    assert_int_equal(entry->ttl_ms, 10000);
    assert_string_equal(entry->why, "because");
    assert_string_equal(entry->actor, "main");
    assert_true(entry->token > 0 && entry->token == record.token);
    assert_true(entry->since.ms > 1600000000000);
    assert_true(entry->granted_at.ms >= entry->since.ms);
    assert_int_equal(record.last.outcome, HF_OUTCOME_NONE);
    record_done(&record);
}

static void test_a_look_shows_what_the_step_made(void **state)
{
    (void)state;
    const char *name = bed_name("look");
    hf_enter first = bed_enter(session, ALL, ALL), second = bed_enter(session, 1, ALL);
    hf_record stepped, seen;
    enter(name, &first);
    bed_take(store, name, &second, &stepped);
    bed_look(store, name, &seen);
    assert_int_equal(seen.holders, 1);
    assert_int_equal(seen.queued, 1);
    assert_int_equal(seen.token, stepped.token);
    for (size_t i = 0; i < 2; i++) {
        assert_true(id_equal(seen.entries[i].ticket, stepped.entries[i].ticket));
        assert_int_equal(seen.entries[i].since.ms, stepped.entries[i].since.ms);
        assert_int_equal(seen.entries[i].token, stepped.entries[i].token);
    }
    assert_string_equal(seen.notify, stepped.notify);
    record_done(&stepped);
    record_done(&seen);
}

static void test_a_leave_hands_over_to_the_next_in_the_same_step(void **state)
{
    (void)state;
    const char *name = bed_name("queue");
    hf_enter first = bed_enter(session, ALL, ALL), second = bed_enter(session, ALL, ALL),
             third = bed_enter(session, ALL, ALL);
    hf_record record;
    assert_int_equal(enter(name, &first), RECORD_HOLDS);
    assert_int_equal(enter(name, &second), RECORD_WAITS);
    assert_int_equal(enter(name, &third), RECORD_WAITS);
    bed_leave(store, name, first.entry.ticket, &record);
    assert_int_equal(record_judge(&record, &second), RECORD_HOLDS);
    assert_int_equal(record_judge(&record, &third), RECORD_WAITS);
    char ticket[ID_TEXT_SIZE];
    id_write(second.entry.ticket, ticket);
    assert_contains(record.notify, ticket);
    record_done(&record);
}

static void test_shared_and_exclusive(void **state)
{
    (void)state;
    const char *name = bed_name("shared");
    hf_enter readers[] = {bed_enter(session, 1, ALL), bed_enter(session, 1, ALL)};
    hf_enter writer = bed_enter(session, ALL, ALL), late = bed_enter(session, 1, ALL);
    assert_int_equal(enter(name, &readers[0]), RECORD_HOLDS);
    assert_int_equal(enter(name, &readers[1]), RECORD_HOLDS);
    assert_int_equal(enter(name, &writer), RECORD_WAITS);
    assert_int_equal(enter(name, &late), RECORD_WAITS);
    bed_leave(store, name, readers[0].entry.ticket, NULL);
    bed_leave(store, name, readers[1].entry.ticket, NULL);
    assert_int_equal(verdict_now(name, &writer), RECORD_HOLDS);
    assert_int_equal(verdict_now(name, &late), RECORD_WAITS);
}

static void test_permits(void **state)
{
    (void)state;
    const char *name = bed_name("permits");
    hf_enter two = bed_enter(session, 2, 3), one = bed_enter(session, 1, 3),
             more = bed_enter(session, 1, 3), greedy = bed_enter(session, 4, 3);
    assert_int_equal(enter(name, &two), RECORD_HOLDS);
    assert_int_equal(enter(name, &one), RECORD_HOLDS);
    assert_int_equal(enter(name, &more), RECORD_WAITS);
    enter(name, &greedy);
    hf_record record;
    bed_leave(store, name, two.entry.ticket, &record);
    assert_int_equal(record_judge(&record, &more), RECORD_HOLDS);
    assert_null(record_find(&record, greedy.entry.ticket));
    record_done(&record);
}

static void test_a_try_leaves_nothing_behind(void **state)
{
    (void)state;
    const char *name = bed_name("try");
    hf_enter holder = bed_enter(session, ALL, ALL), attempt = bed_enter(session, ALL, ALL);
    attempt.try_only = true;
    hf_record record;
    enter(name, &holder);
    assert_int_equal(enter(name, &attempt), RECORD_HELD);
    bed_leave(store, name, holder.entry.ticket, &record);
    assert_int_equal(record.holders + record.queued, 0);
    record_done(&record);
    assert_int_equal(enter(name, &attempt), RECORD_HOLDS);
}

static void test_entering_again_changes_nothing(void **state)
{
    (void)state;
    const char *name = bed_name("again");
    hf_enter holder = bed_enter(session, ALL, ALL), waiter = bed_enter(session, ALL, ALL);
    hf_record before, after;
    enter(name, &holder);
    bed_take(store, name, &waiter, &before);
    enter(name, &holder);
    bed_take(store, name, &waiter, &after);
    assert_int_equal(after.holders, 1);
    assert_int_equal(after.queued, 1);
    assert_int_equal(after.token, before.token);
    assert_int_equal(after.entries[1].since.ms, before.entries[1].since.ms);
    record_done(&before);
    record_done(&after);
}

static void test_limits_that_disagree(void **state)
{
    (void)state;
    const char *name = bed_name("limit");
    hf_enter three = bed_enter(session, 1, 3), four = bed_enter(session, 1, 4);
    assert_int_equal(enter(name, &three), RECORD_HOLDS);
    assert_int_equal(enter(name, &four), RECORD_LIMIT);
    bed_leave(store, name, three.entry.ticket, NULL);
    assert_int_equal(enter(name, &four), RECORD_HOLDS);
}

static void test_the_queue_is_bounded(void **state)
{
    (void)state;
    const char *name = bed_name("busy");
    for (int i = 0; i < 6; i++) {
        hf_enter late = bed_enter(session, ALL, ALL);
        late.queue_max = 4;
        record_verdict first = enter(name, &late);
        assert_int_equal(first, i == 0 ? RECORD_HOLDS : i <= 4 ? RECORD_WAITS : RECORD_BUSY);
    }
}

/* Whoever finds the queue full gets a number, and enters when it is called. */
static void test_numbers_keep_the_order(void **state)
{
    (void)state;
    const char *name = bed_name("numbers");
    hf_enter line[8];
    hf_record record;
    for (int i = 0; i < 8; i++) {
        line[i] = bed_enter(session, ALL, ALL);
        line[i].queue_max = 2;
        line[i].wants_number = true;
        bed_step(store, name, &(hf_step){.enter = &line[i]}, &record);
        assert_int_equal(record.given, i);
        assert_int_equal(record.queued, i < 2 ? i : 2);
        line[i].number = i;
        line[i].wants_number = false;
        hf_record_done(&record);
    }
    for (int i = 0; i < 7; i++) {
        bed_leave(store, name, line[i].entry.ticket, NULL);
        if (i < 4) /* the later one first */
            assert_int_equal(enter(name, &line[i + 4]), RECORD_BUSY);
        if (i < 5)
            assert_int_equal(enter(name, &line[i + 3]), RECORD_WAITS);
        assert_int_equal(enter(name, &line[i + 1]), RECORD_HOLDS);
    }
}

/* Where that is seen without asking the database. */
static void test_those_outside_are_called(void **state)
{
    (void)state;
    const char *name = bed_name("called");
    hf_id first[2] = {{{0}}, {{0}}};
    if (!store->ops->called) {
        print_message("no board here, those outside look\n");
        return;
    }
    assert_int_equal(store->ops->called(store, name), 0);
    for (int i = 0; i < HF_QUEUE_MAX + 4; i++) {
        hf_enter one = bed_enter(session, ALL, ALL);
        one.wants_number = true;
        bed_step(store, name, &(hf_step){.enter = &one}, NULL);
        if (i < 2)
            first[i] = one.entry.ticket;
    }
    assert_int_equal(store->ops->called(store, name), HF_QUEUE_MAX);
    bed_leave(store, name, first[0], NULL);
    assert_int_equal(store->ops->called(store, name), HF_QUEUE_MAX + 1);
    hf_leave leave = {.ticket = first[1], .outcome = HF_OUTCOME_RELEASED};
    hf_parcel parcel = {.name = name, .step = {.leaves = &leave, .n_leaves = 1}};
    store->ops->steps(store, &parcel, 1);
    assert_int_equal(parcel.code, HF_OK);
    assert_int_equal(store->ops->called(store, name), HF_QUEUE_MAX + 2);
    assert_int_equal(store->ops->called(store, bed_name("other")), 0);
}

static void test_numbers_that_do_not_come_are_skipped(void **state)
{
    (void)state;
    const char *name = bed_name("skipped");
    hf_enter holder = bed_enter(session, ALL, ALL), late = bed_enter(session, ALL, ALL),
             tries = late;
    hf_record record;
    enter(name, &holder);
    for (int i = 0; i < 9; i++) {
        hf_enter one = bed_enter(session, ALL, ALL);
        one.queue_max = 1;
        one.wants_number = true;
        bed_step(store, name, &(hf_step){.enter = &one}, &record);
        if (i == 0)
            late.reached = record.reached;
        hf_record_done(&record);
        if (i == 0)
            tries.entry.ticket = one.entry.ticket; /* the only one in the queue */
    }
    late.queue_max = 1;
    late.number = 9;
    late.skips = true;
    assert_int_equal(enter(name, &late), RECORD_BUSY);
    bed_leave(store, name, tries.entry.ticket, NULL);
    late.reached--;
    assert_int_equal(enter(name, &late), RECORD_BUSY);
    for (int i = 1; i <= 8; i++) {
        late.reached++;
        assert_int_equal(enter(name, &late), i < 7 ? RECORD_BUSY : RECORD_WAITS);
    }
}

static void test_the_dead_are_taken_out(void **state)
{
    (void)state;
    const char *name = bed_name("dead");
    hf_death death = {.session = bed_id(), .who = "crashed@there:7"};
    hf_enter holder = bed_enter(death.session, ALL, ALL), waits = bed_enter(death.session, 1, ALL),
             mine = bed_enter(session, ALL, ALL);
    hf_record record;
    enter(name, &holder);
    enter(name, &waits);
    bed_step(store, name, &(hf_step){.deaths = &death, .n_deaths = 1, .enter = &mine}, &record);
    assert_int_equal(record.holders, 1);
    assert_int_equal(record.queued, 0);
    assert_int_equal(record_judge(&record, &mine), RECORD_HOLDS);
    assert_int_equal(record.last.outcome, HF_OUTCOME_ABANDONED);
    assert_string_equal(record.last.who, "crashed@there:7");
    assert_true(id_equal(record.last.session, death.session));
    record_done(&record);
}

static void test_last_is_kept(void **state)
{
    (void)state;
    const char *name = bed_name("last");
    hf_enter mine = bed_enter(session, ALL, ALL);
    hf_leave leave = {.ticket = mine.entry.ticket,
                      .outcome = HF_OUTCOME_RELEASED,
                      .told = true,
                      .has_exit_status = true,
                      .exit_status = -3,
                      .period = {{1600000000000}, {1700000000000}},
                      .reason = "$reason",
                      .who = "me@here:1"};
    hf_record record;
    enter(name, &mine);
    bed_step(store, name, &(hf_step){.leaves = &leave, .n_leaves = 1}, NULL);
    bed_look(store, name, &record);
    assert_true(record.exists);
    assert_int_equal(record.last.outcome, HF_OUTCOME_RELEASED);
    assert_true(record.last.has_exit_status);
    assert_int_equal(record.last.exit_status, -3);
    assert_int_equal(record.last.period.start.ms, 1600000000000);
    assert_int_equal(record.last.period.end.ms, 1700000000000);
    assert_string_equal(record.last.reason, "$reason");
    assert_int_equal(record.last.token, record.token);
    assert_true(record.last.at.ms > 1600000000000);
    assert_string_equal(record.last.who, "me@here:1");
    record_done(&record);
}

static void test_a_give_back_leaves_last(void **state)
{
    (void)state;
    const char *name = bed_name("give-back");
    hf_enter mine = bed_enter(session, ALL, ALL);
    hf_leave leave = {.ticket = mine.entry.ticket, .outcome = HF_OUTCOME_RELEASED};
    hf_record record;
    enter(name, &mine);
    bed_step(store, name, &(hf_step){.leaves = &leave, .n_leaves = 1}, &record);
    assert_int_equal(record.last.outcome, HF_OUTCOME_NONE);
    assert_int_equal(record.holders, 0);
    record_done(&record);
}

static void test_time_and_floor_can_be_given(void **state)
{
    (void)state;
    const char *name = bed_name("given");
    hf_enter mine = bed_enter(session, ALL, ALL);
    hf_dbtime now = {1234567890123};
    int64_t floor = ((int64_t)1 << 53) - 9;
    hf_record record;
    bed_step(store, name, &(hf_step){.enter = &mine, .now = &now, .floor = &floor}, &record);
    assert_int_equal(record.token, floor);
    assert_int_equal(record.entries[0].since.ms, now.ms);
    assert_int_equal(record.entries[0].granted_at.ms, now.ms);
    record_done(&record);
}

static void test_a_step_that_finds_nothing_makes_no_record(void **state)
{
    (void)state;
    const char *name = bed_name("nothing");
    hf_record record;
    bed_leave(store, name, bed_id(), &record);
    assert_false(record.exists);
    record_done(&record);
    bed_look(store, name, &record);
    assert_false(record.exists);
    assert_int_equal(record.holders + record.queued, 0);
    record_done(&record);
}

static void test_a_leave_is_confirmed(void **state)
{
    (void)state;
    const char *name = bed_name("confirmed");
    hf_enter mine = bed_enter(session, ALL, ALL);
    hf_leave leave = {.ticket = mine.entry.ticket, .outcome = HF_OUTCOME_RELEASED};
    hf_step step = {.leaves = &leave, .n_leaves = 1};
    hf_step_reply reply;
    hf_error err;
    enter(name, &mine);
    assert_code(HF_OK, store->ops->step(store, name, &step, NULL, &reply, &err), &err);
    assert_true(reply.confirmed);
}

static void test_text_from_outside_stays_text(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "$$ROOT", "$limit",   "'; DROP TABLE locks; --",  "{\"$set\":1}",
        "a.b",    "\x01\x7f", "\xc3\xa9\xf0\x9f\x94\x92", "%s%n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", bed_name("text"), texts[i]);
        hf_enter mine = bed_enter(session, ALL, ALL);
        snprintf(mine.entry.why, sizeof mine.entry.why, "%s", texts[i]);
        snprintf(mine.entry.actor, sizeof mine.entry.actor, "%s", texts[i]);
        hf_leave leave = {
            .ticket = mine.entry.ticket, .outcome = HF_OUTCOME_RELEASED, .told = true};
        snprintf(leave.who, sizeof leave.who, "%s", texts[i]);
        hf_record record;
        bed_take(store, name, &mine, &record);
        assert_string_equal(record.entries[0].why, texts[i]);
        assert_string_equal(record.entries[0].actor, texts[i]);
        record_done(&record);
        bed_step(store, name, &(hf_step){.leaves = &leave, .n_leaves = 1}, NULL);
        bed_look(store, name, &record);
        assert_string_equal(record.last.who, texts[i]);
        record_done(&record);
    }
}

static void test_the_longest_texts_fit(void **state)
{
    (void)state;
    char name[HF_NAME_MAX + 1] = "long";
    memset(name + 4, 'n', bed.name_most - 4);
    hf_enter mine = bed_enter(session, ALL, ALL);
    memset(mine.entry.why, 'w', HF_TEXT_MAX);
    memset(mine.entry.actor, 'a', HF_ACTOR_MAX);
    hf_record record;
    bed_take(store, name, &mine, NULL);
    bed_look(store, name, &record);
    assert_int_equal(strlen(record.entries[0].why), HF_TEXT_MAX);
    assert_int_equal(strlen(record.entries[0].actor), HF_ACTOR_MAX);
    record_done(&record);
}

/* ---- Look and list ---- */

struct found {
    char names[8][64];
    size_t n, most, existing;
};

static bool find(void *ctx, const hf_record *record)
{
    struct found *found = ctx;
    assert_true(found->n < 8);
    snprintf(found->names[found->n++], sizeof found->names[0], "%.63s", record->name);
    found->existing += record->exists;
    return found->n < found->most;
}

static void test_a_look_of_many(void **state)
{
    (void)state;
    const char *names[] = {bed_name("many"), bed_name("many"), bed_name("many")};
    struct found found = {.most = 8};
    hf_error err;
    hf_enter a = bed_enter(session, 1, 2), b = bed_enter(session, 1, 2);
    enter(names[0], &a);
    enter(names[2], &b);
    assert_code(HF_OK, store->ops->look(store, names, 3, (hf_stamp){0}, false, find, &found, &err),
                &err);
    assert_int_equal(found.n, 3);
    assert_int_equal(found.existing, 2);
    assert_code(HF_OK, store->ops->look(store, names, 0, (hf_stamp){0}, false, find, &found, &err),
                &err);
    assert_int_equal(found.n, 3);
}

static bool count_existing(void *ctx, const hf_record *record)
{
    *(size_t *)ctx += record->exists;
    return true;
}

static void test_another_store_sees_what_the_stamp_promises(void **state)
{
    (void)state;
    hf_store *other = bed_store();
    hf_error err;
    for (int i = 0; i < 10; i++) {
        const char *name = bed_name("stamp");
        hf_enter mine = bed_enter(session, ALL, ALL);
        hf_step_reply reply;
        size_t n = 0;
        assert_code(HF_OK,
                    store->ops->step(store, name, &(hf_step){.enter = &mine}, NULL, &reply, &err),
                    &err);
        assert_code(HF_OK,
                    other->ops->look(other, &name, 1, reply.stamp, false, count_existing, &n, &err),
                    &err);
        assert_int_equal(n, 1);
    }
    other->ops->close(other);
}

static void test_a_linearizable_look(void **state)
{
    (void)state;
    const char *name = bed_name("linear"), *missing = bed_name("linear-missing");
    hf_enter mine = bed_enter(session, ALL, ALL);
    hf_error err;
    size_t n = 0;
    enter(name, &mine);
    assert_code(HF_OK,
                store->ops->look(store, &name, 1, (hf_stamp){0}, true, count_existing, &n, &err),
                &err);
    assert_code(HF_OK,
                store->ops->look(store, &missing, 1, (hf_stamp){0}, true, count_existing, &n, &err),
                &err);
    assert_int_equal(n, 1);
}

static void test_a_list_by_prefix_in_byte_order(void **state)
{
    (void)state;
    static const char *const tails[] = {".*b", ".*\xc3\xa9", ".*B", ".*a", "xb", "", ".*"};
    static const char *const expected[] = {".*", ".*B", ".*a", ".*b", ".*\xc3\xa9"};
    char stem[64], name[80], prefix[80];
    hf_error err;
    struct found found = {.most = 8}, two = {.most = 2};
    snprintf(stem, sizeof stem, "%s", bed_name("list%_"));
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        hf_enter mine = bed_enter(session, 1, 2);
        snprintf(name, sizeof name, "%s%s", stem, tails[i]);
        enter(name, &mine);
    }
    snprintf(prefix, sizeof prefix, "%s.*", stem);
    assert_code(
        HF_OK,
        store->ops->list(store, &(hf_list_part){.prefix = prefix, .after = ""}, find, &found, &err),
        &err);
    assert_int_equal(found.n, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(found.names[i] + strlen(stem), expected[i]);
    assert_code(
        HF_OK,
        store->ops->list(store, &(hf_list_part){.prefix = prefix, .after = ""}, find, &two, &err),
        &err);
    assert_int_equal(two.n, 2);
}

static size_t list_some(const hf_list_part *part, struct found *found)
{
    hf_error err;
    *found = (struct found){.most = 8};
    assert_code(HF_OK, store->ops->list(store, part, find, found, &err), &err);
    return found->n;
}

static void test_a_list_goes_on_behind_a_name(void **state)
{
    (void)state;
    char stem[64], name[80];
    struct found found;
    snprintf(stem, sizeof stem, "%s", bed_name("behind"));
    for (int i = 0; i < 4; i++) {
        hf_enter mine = bed_enter(session, 1, 2);
        snprintf(name, sizeof name, "%s.%c", stem, "abcd"[i]);
        enter(name, &mine);
    }
    snprintf(name, sizeof name, "%s.b", stem);
    hf_list_part part = {.prefix = stem, .after = name};
    assert_int_equal(list_some(&part, &found), 2);
    assert_int_equal(found.names[0][strlen(stem) + 1], 'c');
    assert_int_equal(found.names[1][strlen(stem) + 1], 'd');
    name[strlen(name) - 1] = 'd';
    assert_int_equal(list_some(&part, &found), 0);
    part.after = " "; /* before the prefix */
    assert_int_equal(list_some(&part, &found), 4);
}

static void test_a_list_of_what_is_in_use(void **state)
{
    (void)state;
    char stem[64], name[3][80];
    struct found found;
    snprintf(stem, sizeof stem, "%s", bed_name("use"));
    for (int i = 0; i < 3; i++) {
        snprintf(name[i], sizeof name[i], "%s.%d", stem, i);
        hf_enter mine = bed_enter(session, 1, 2);
        enter(name[i], &mine);
        if (i != 1)
            bed_leave(store, name[i], mine.entry.ticket, NULL);
    }
    hf_list_part part = {.prefix = stem, .after = ""};
    assert_int_equal(list_some(&part, &found), 3);
    part.in_use = true;
    assert_int_equal(list_some(&part, &found), 1);
    assert_string_equal(found.names[0], name[1]);
}

static void make(const char *stem, const char *tail)
{
    char name[80];
    hf_enter mine = bed_enter(session, 1, 2);
    snprintf(name, sizeof name, "%s%s", stem, tail);
    enter(name, &mine);
}

static void assert_listed(const hf_list_part *part, const char *tails, size_t stem)
{
    char all[200] = "";
    struct found found;
    list_some(part, &found);
    for (size_t i = 0; i < found.n; i++)
        strcat(strcat(all, found.names[i] + stem), " ");
    assert_string_equal(all, tails);
}

static void test_a_list_has_a_limit(void **state)
{
    (void)state;
    char stem[64], after[80];
    snprintf(stem, sizeof stem, "%s", bed_name("limit"));
    size_t n = strlen(stem);
    for (int i = 0; i < 5; i++)
        make(stem, &"a\0b\0c\0d\0e"[2 * i]);
    hf_list_part part = {.prefix = stem, .after = "", .limit = 2};
    assert_listed(&part, "a b ", n);
    snprintf(after, sizeof after, "%sb", stem);
    part.after = after;
    assert_listed(&part, "c d ", n);
    after[n] = 'd';
    assert_listed(&part, "e ", n);
    after[n] = 'e';
    assert_listed(&part, "", n);
    after[n] = 'c', after[n + 1] = 'c', after[n + 2] = '\0'; /* a name that nobody has */
    assert_listed(&part, "d e ", n);
    part = (hf_list_part){.prefix = stem, .after = "", .limit = 5};
    assert_listed(&part, "a b c d e ", n);
    part.limit = 5000;
    assert_listed(&part, "a b c d e ", n);
}

/* What stands for something in a pattern, or is the last of its kind, stands for itself here. */
static void test_a_prefix_is_no_pattern(void **state)
{
    (void)state;
    static const char *const tails[] = {"%",
                                        "%%",
                                        "_",
                                        "a",
                                        "|b",
                                        "a|",
                                        "\xc3\xbf",
                                        "\xc4\x80",
                                        "\xed\x9f\xbf",
                                        "\xee\x80\x80",
                                        "\xef\xbf\xbf",
                                        "\xf0\x90\x80\x80",
                                        "\xf4\x8f\xbf\xbf",
                                        "\xf4\x8f\xbf\xbfx"};
    static const char *const cases[][2] = {
        {"%", "% %% "},
        {"_", "_ "},
        {"|", "|b "},
        {"a|", "a| "},
        {"\xc3\xbf", "\xc3\xbf "},
        {"\xed\x9f\xbf", "\xed\x9f\xbf "},
        {"\xef\xbf\xbf", "\xef\xbf\xbf "},
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf \xf4\x8f\xbf\xbfx "},
        {".", ""},
        {"\\", ""}};
    char stem[64], prefix[80];
    snprintf(stem, sizeof stem, "%s", bed_name("odd"));
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        make(stem, tails[i]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(prefix, sizeof prefix, "%s%s", stem, cases[i][0]);
        assert_listed(&(hf_list_part){.prefix = prefix, .after = ""}, cases[i][1], strlen(stem));
        assert_listed(&(hf_list_part){.prefix = prefix, .after = "", .limit = 3}, cases[i][1],
                      strlen(stem));
    }
}

/* A limit counts what is given, not what is passed over. */
static void test_a_limited_list_of_what_is_in_use(void **state)
{
    (void)state;
    char stem[48], name[64], tails[40] = "";
    snprintf(stem, sizeof stem, "%s", bed_name("few"));
    for (int i = 0; i < 250; i++) {
        hf_enter mine = bed_enter(session, 1, 2);
        snprintf(name, sizeof name, "%s.%03d", stem, i);
        enter(name, &mine);
        if (i % 120 != 5)
            bed_leave(store, name, mine.entry.ticket, NULL);
        else
            strcat(strcat(tails, name + strlen(stem)), " ");
    }
    hf_list_part part = {.prefix = stem, .after = "", .in_use = true, .limit = 3};
    assert_listed(&part, tails, strlen(stem));
    part.limit = 1;
    assert_listed(&part, ".005 ", strlen(stem));
    snprintf(name, sizeof name, "%s.245", stem);
    part.after = name;
    assert_listed(&part, "", strlen(stem));
}

static bool count_in_order(void *ctx, const hf_record *record)
{
    struct found *found = ctx;
    assert_true(strcmp(found->names[0], record->name) < 0);
    snprintf(found->names[0], sizeof found->names[0], "%.63s", record->name);
    found->n++;
    return true;
}

/* More than is read at once. */
static void test_a_long_list_has_each_once(void **state)
{
    (void)state;
    char stem[48], name[64];
    hf_error err;
    struct found found = {.n = 0};
    snprintf(stem, sizeof stem, "%s", bed_name("long"));
    for (int i = 0; i < 420; i++) {
        hf_enter mine = bed_enter(session, 1, 2);
        snprintf(name, sizeof name, "%s.%03d", stem, i);
        enter(name, &mine);
    }
    const hf_list_part part = {.prefix = stem, .after = ""};
    assert_code(HF_OK, store->ops->list(store, &part, count_in_order, &found, &err), &err);
    assert_int_equal(found.n, 420);
}

static void test_the_empty_prefix_lists_all(void **state)
{
    (void)state;
    const char *name = bed_name("any");
    hf_enter mine = bed_enter(session, 1, 2);
    hf_error err;
    size_t n = 0;
    enter(name, &mine);
    assert_code(HF_OK,
                store->ops->list(store, &(hf_list_part){.prefix = "", .after = ""}, count_existing,
                                 &n, &err),
                &err);
    assert_true(n >= 1);
}

/* ---- At the same time ---- */

#define THREADS 4
#define TURNS 15

struct worker {
    pthread_t thread;
    const char *name;
    int64_t tokens[TURNS];
    int failed;
};

static void *work(void *arg)
{
    struct worker *worker = arg;
    for (int i = 0; i < TURNS; i++) {
        hf_enter mine = bed_enter(session, 1, THREADS);
        hf_leave leave = {.ticket = mine.entry.ticket, .outcome = HF_OUTCOME_RELEASED};
        hf_step in = {.enter = &mine}, out = {.leaves = &leave, .n_leaves = 1};
        hf_step_reply reply;
        hf_record record;
        if (store->ops->step(store, worker->name, &in, &record, &reply, NULL) != HF_OK) {
            worker->failed++;
            continue;
        }
        const hf_entry *entry = record_find(&record, mine.entry.ticket);
        worker->tokens[i] = entry ? entry->token : 0;
        record_done(&record);
        worker->failed += store->ops->step(store, worker->name, &out, NULL, &reply, NULL) != HF_OK;
    }
    return NULL;
}

static int by_token(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void test_steps_at_the_same_time_lose_nothing(void **state)
{
    (void)state;
    struct worker workers[THREADS];
    int64_t tokens[THREADS * TURNS];
    const char *name = bed_name("threads");
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.name = name};
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].failed, 0);
        memcpy(tokens + i * TURNS, workers[i].tokens, sizeof workers[i].tokens);
    }
    qsort(tokens, THREADS * TURNS, sizeof *tokens, by_token);
    assert_true(tokens[0] > 0);
    for (int i = 1; i < THREADS * TURNS; i++)
        assert_true(tokens[i] > tokens[i - 1]);
    hf_record record;
    bed_look(store, name, &record);
    assert_int_equal(record.holders + record.queued, 0);
    record_done(&record);
}

/* ---- Several steps in one call ---- */

#define TOGETHER 5

typedef struct together {
    char names[TOGETHER][128];
    hf_enter holds[TOGETHER], waits[TOGETHER];
    hf_leave leaves[TOGETHER];
    hf_parcel parcels[TOGETHER];
} together;

/* Each is held, and somebody waits for it. */
static void begin_together(together *all)
{
    for (int i = 0; i < TOGETHER; i++) {
        snprintf(all->names[i], sizeof all->names[i], "%s", bed_name("together"));
        all->holds[i] = bed_enter(session, ALL, ALL);
        all->waits[i] = bed_enter(session, ALL, ALL);
        assert_int_equal(enter(all->names[i], &all->holds[i]), RECORD_HOLDS);
        assert_int_equal(enter(all->names[i], &all->waits[i]), RECORD_WAITS);
        all->leaves[i] = (hf_leave){
            .ticket = all->holds[i].entry.ticket, .outcome = HF_OUTCOME_RELEASED, .told = true};
        all->parcels[i] =
            (hf_parcel){.name = all->names[i], .step = {.leaves = &all->leaves[i], .n_leaves = 1}};
    }
}

static void check_left(together *all, int i)
{
    assert_code(HF_OK, all->parcels[i].code, &all->parcels[i].err);
    assert_true(all->parcels[i].reply.confirmed);
    assert_int_equal(verdict_now(all->names[i], &all->waits[i]), RECORD_HOLDS);
}

static void test_leaves_of_several_locks_go_together(void **state)
{
    (void)state;
    together all;
    if (!store->ops->steps)
        return;
    begin_together(&all);
    store->ops->steps(store, all.parcels, TOGETHER);
    for (int i = 0; i < TOGETHER; i++)
        check_left(&all, i);
}

static void test_a_ticket_that_is_gone_keeps_no_other_from_leaving(void **state)
{
    (void)state;
    together all;
    if (!store->ops->steps)
        return;
    begin_together(&all);
    bed_leave(store, all.names[2], all.holds[2].entry.ticket, NULL);
    store->ops->steps(store, all.parcels, 4);
    for (int i = 0; i < 4; i++)
        if (i != 2)
            check_left(&all, i);
    assert_code(HF_OK, all.parcels[2].code, &all.parcels[2].err);
    assert_false(all.parcels[2].reply.confirmed);
    assert_int_equal(verdict_now(all.names[2], &all.waits[2]), RECORD_HOLDS);
    assert_int_equal(verdict_now(all.names[4], &all.waits[4]), RECORD_WAITS);
}

static void test_several_tickets_of_one_lock_go_with_others(void **state)
{
    (void)state;
    together all;
    if (!store->ops->steps)
        return;
    begin_together(&all);
    hf_leave both[] = {all.leaves[1], all.leaves[1]};
    both[1].ticket = all.waits[1].entry.ticket;
    all.parcels[1].step = (hf_step){.leaves = both, .n_leaves = 2};
    store->ops->steps(store, all.parcels, TOGETHER);
    for (int i = 0; i < TOGETHER; i++)
        if (i != 1)
            check_left(&all, i);
    assert_true(all.parcels[1].reply.confirmed);
    assert_int_equal(verdict_now(all.names[1], &all.waits[1]), RECORD_GONE);
}

int run_step_cases(void)
{
    const struct bed_case step_cases[] = {
        CASE_IF(HF_CAN_QUEUE, test_a_first_enter_makes_the_record_and_is_granted),
        CASE_IF(HF_CAN_QUEUE, test_a_look_shows_what_the_step_made),
        CASE_IF(HF_CAN_QUEUE, test_a_leave_hands_over_to_the_next_in_the_same_step),
        CASE_IF(HF_CAN_QUEUE, test_shared_and_exclusive),
        CASE_IF(HF_CAN_QUEUE, test_permits),
        CASE_IF(HF_CAN_QUEUE, test_a_try_leaves_nothing_behind),
        CASE_IF(HF_CAN_QUEUE, test_entering_again_changes_nothing),
        CASE_IF(HF_CAN_QUEUE, test_limits_that_disagree),
        CASE_IF(HF_CAN_QUEUE, test_the_queue_is_bounded),
        CASE_IF(HF_CAN_QUEUE, test_numbers_keep_the_order),
        CASE_IF(HF_CAN_QUEUE, test_numbers_that_do_not_come_are_skipped),
        CASE_IF(HF_CAN_QUEUE, test_those_outside_are_called),
        CASE_IF(HF_CAN_QUEUE, test_the_dead_are_taken_out),
        CASE_IF(HF_CAN_QUEUE, test_last_is_kept),
        CASE_IF(HF_CAN_QUEUE, test_a_give_back_leaves_last),
        CASE_IF(HF_CAN_QUEUE, test_time_and_floor_can_be_given),
        CASE_IF(HF_CAN_QUEUE, test_a_step_that_finds_nothing_makes_no_record),
        CASE_IF(HF_CAN_QUEUE, test_a_leave_is_confirmed),
        CASE_IF(HF_CAN_QUEUE, test_text_from_outside_stays_text),
        CASE_IF(HF_CAN_QUEUE, test_the_longest_texts_fit),
        CASE_IF(HF_CAN_QUEUE, test_a_look_of_many),
        CASE_IF(HF_CAN_QUEUE, test_another_store_sees_what_the_stamp_promises),
        CASE_IF(HF_CAN_QUEUE, test_a_linearizable_look),
        CASE_IF(HF_CAN_QUEUE, test_a_list_by_prefix_in_byte_order),
        CASE_IF(HF_CAN_QUEUE, test_a_list_goes_on_behind_a_name),
        CASE_IF(HF_CAN_QUEUE, test_a_list_of_what_is_in_use),
        CASE_IF(HF_CAN_QUEUE, test_a_list_has_a_limit),
        CASE_IF(HF_CAN_QUEUE, test_a_prefix_is_no_pattern),
        CASE_IF(HF_CAN_QUEUE, test_a_limited_list_of_what_is_in_use),
        CASE_IF(HF_CAN_QUEUE, test_a_long_list_has_each_once),
        CASE_IF(HF_CAN_QUEUE, test_the_empty_prefix_lists_all),
        CASE_IF(HF_CAN_QUEUE, test_steps_at_the_same_time_lose_nothing),
        CASE_IF(HF_CAN_QUEUE, test_leaves_of_several_locks_go_together),
        CASE_IF(HF_CAN_QUEUE, test_a_ticket_that_is_gone_keeps_no_other_from_leaving),
        CASE_IF(HF_CAN_QUEUE, test_several_tickets_of_one_lock_go_with_others),
    };
    return CASES(step_cases);
}
