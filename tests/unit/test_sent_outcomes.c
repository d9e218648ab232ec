/* SPDX-License-Identifier: Apache-2.0 */
/* test_sent_outcomes.c: how the last holder left, in protocols without a queue: what is sent, word
 * for word, what is read from the answers, and what a late command must not do. */
#include "core/record.h"
#include "faults/mongo_transcript.h"

#define OID(n) "{'$oid': '000000" n "0000000000000000'}"
#define DATE(ms) "{'$date': {'$numberLong': '" ms "'}}"
#define LONG(n) "{'$numberLong': '" n "'}"
#define STAMPED "'operationTime': {'$timestamp': {'t': 70, 'i': 3}}"
#define CURSOR(docs) "{'ok': 1, " STAMPED ", 'cursor': {'firstBatch': [" docs "]}}"
#define DENIED "{'ok': 0, 'code': 13, 'errmsg': 'not authorized'}"

#define HOLDER(ticket, session)                                                                    \
    "{'ticket': " OID(ticket) ", 'session': " OID(                                                 \
        session) ", 'ttl_ms': 6000, 'permits': 1073741824, "                                       \
                 "'token': " LONG("4") ", 'since': " DATE("5000") ", "                             \
                                                                  "'g"                             \
                                                                  "ra"                             \
                                                                  "nt"                             \
                                                                  "ed"                             \
                                                                  "_a"                             \
                                                                  "t'"                             \
                                                                  ":"                              \
                                                                  " " DATE("5000") "}"
/* A lock's outcomes, of version 3. */
#define OUTCOMES(holders, more)                                                                    \
    "{'_id': 'a', 'limit': 1073741824, 'token': " LONG(                                            \
        "4") ", 'holders': [" holders "], 'queue': [], 'notify': '', 'version': " LONG("3") more   \
        ", 'hf_now': " DATE("9000") "}"
#define LAST(session)                                                                              \
    ", 'last': {'outcome': 'released', 'session': " OID(                                           \
        session) ", 'who': 'app@there:6', "                                                        \
                 "'token': " LONG("3") ", 'exit_status': 3, "                                      \
                                       "'at': " DATE("4000") "}"
#define DONE                                                                                       \
    ", 'done': {'who': 'app@there:6', 'exit_status': 3, 'period': " LONG(                          \
        "8000") ", 'period_end': " LONG("10000") ", 'token': " LONG("3") ", 'at': " DATE("8500") "}"
#define SWAPPED(at) "{'ok': 1, " STAMPED ", 'value': {'_id': 'a', 'at': " DATE(at) "}}"
#define NOT_SWAPPED "{'ok': 1, " STAMPED ", 'value': null}"
#define LOCK(ticket)                                                                               \
    "{'_id': 'a', 'ticket': " OID(ticket) ", 'session': " OID(                                     \
        "01") ", 'ttl_ms': 6000, 'app': "                                                          \
              "'app', 'host': 'here', 'pid': 5, 'since': " DATE("4") ", 'updated': " DATE(         \
                  "5") ", 'hf_left': 77}"
#define DELETED "{'ok': 1, " STAMPED ", 'n': 1}"

static mongo_store *store;
static hf_error err;

static int begin(void **state)
{
    (void)state;
    store = answers_open("&hfProtocol=ttl");
    answers_give_always("listIndexes", CURSOR("{'key': {'_id': 1}}"));
    transcript_begin();
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

/* ---- The calls ---- */

static void show(const hf_last_mark *last)
{
    transcript_say(
        "   outcome %d by \"%s\", token %lld, status %d, at %lld; done by \"%s\", status "
        "%d, period from %lld",
        last->outcome, last->who, (long long)last->token,
        last->has_exit_status ? last->exit_status : -1, (long long)last->at.ms, last->done.who,
        last->done.is_known ? last->done.exit_status : -1, (long long)last->done.period.start.ms);
}

static hf_code ask_for(const char *what, int64_t period_ms, int64_t token)
{
    const hf_entry holder = {
        .ticket = id_of(7), .session = id_of(1), .ttl_ms = 6000, .token = token, .why = "why"};
    const hf_successor asks = {
        .holder = &holder, .who = "app@here:5", .period_ms = period_ms, .until = at_ms(5000)};
    hf_last_mark last;
    hf_dbtime now;
    transcript_say("\n%s", what);
    hf_code code = store->base.ops->previous(&store->base, "a", &asks, &last, &now, &err);
    transcript_code(code, &err);
    if (!code) {
        transcript_say("   now %lld", (long long)now.ms);
        show(&last);
    }
    return code;
}

static hf_code ask(const char *what)
{
    return ask_for(what, 0, 0);
}

static hf_code release(const char *what, const hf_leave *leave)
{
    const hf_step step = {.leaves = leave, .n_leaves = 1};
    hf_step_reply reply;
    transcript_say("\n%s", what);
    hf_code code = store->base.ops->step(&store->base, "a", &step, NULL, &reply, &err);
    transcript_code(code, &err);
    transcript_reply(&reply);
    return code;
}

static hf_leave worked(void)
{
    return (hf_leave){.ticket = id_of(7),
                      .outcome = HF_OUTCOME_RELEASED,
                      .told = true,
                      .has_exit_status = true,
                      .exit_status = 2,
                      .who = "app@here:5"};
}

static hf_leave worked_for_period(void)
{
    hf_leave leave = worked();
    leave.period = (hf_period){{8000}, {10000}};
    return leave;
}

static void note_well(void)
{
    answers_give("aggregate", CURSOR(""));
    answers_give("findAndModify", SWAPPED("9000"));
    assert_int_equal(ask("notes itself"), HF_OK);
}

/* ---- Asking ---- */

static void test_the_first_finds_nothing(void **state)
{
    (void)state;
    note_well();
    answers_give("aggregate", CURSOR(OUTCOMES(HOLDER("07", "01"), "")));
    assert_int_equal(ask("asks again"), HF_OK);
    transcript_end("outcomes-first");
}

static void test_the_next_learns_how_the_last_one_left(void **state)
{
    (void)state;
    answers_give("aggregate", CURSOR(OUTCOMES("", LAST("02"))));
    answers_give("findAndModify", SWAPPED("9001"));
    assert_int_equal(ask("it released"), HF_OK);
    answers_give("aggregate", CURSOR(OUTCOMES(HOLDER("08", "02"), LAST("03") ", 'who': 'b@c:1'")));
    answers_give("findAndModify", SWAPPED("9002"));
    assert_int_equal(ask("it wrote nothing"), HF_OK);
    transcript_end("outcomes-next");
}

static void test_who_finds_its_work_done_is_not_noted(void **state)
{
    (void)state;
    answers_give("aggregate", CURSOR(OUTCOMES("", LAST("02") DONE)));
    assert_int_equal(ask_for("in this period", 2000, 0), HF_OK);
    assert_int_equal(answers_sent("findAndModify"), 0);
    answers_give("aggregate", CURSOR(OUTCOMES("", LAST("02") DONE)));
    answers_give("findAndModify", SWAPPED("9001"));
    assert_int_equal(ask_for("in a shorter period, which is another", 900, 0), HF_OK);
    transcript_end("outcomes-done");
}

static void test_others_change_it_meanwhile(void **state)
{
    (void)state;
    answers_give("aggregate", CURSOR(""));
    answers_give("findAndModify", "{'ok': 0, 'code': 11000}");
    answers_give("aggregate", CURSOR(OUTCOMES("", LAST("02"))));
    answers_give("findAndModify", NOT_SWAPPED);
    answers_give("aggregate", CURSOR(OUTCOMES("", LAST("02"))));
    answers_give("findAndModify", SWAPPED("9001"));
    assert_int_equal(ask("twice"), HF_OK);
    answers_give_always("aggregate", CURSOR(OUTCOMES("", LAST("02"))));
    answers_give_always("findAndModify", NOT_SWAPPED);
    assert_int_equal(ask("again and again"), HF_UNREACHABLE);
    assert_non_null(strstr(err.text, "again and again"));
    transcript_end("outcomes-races");
}

/* What it read may be a later holder's: it has lost its lock meanwhile. */
static void test_who_reads_for_longer_than_its_lease_writes_nothing(void **state)
{
    (void)state;
    answers_give_slowly("aggregate", CURSOR(OUTCOMES(HOLDER("08", "02"), "")), 5000);
    answers_give("findAndModify", SWAPPED("9000"));
    assert_int_equal(ask("too late"), HF_UNREACHABLE);
    assert_int_equal(answers_sent("findAndModify"), 0);
    transcript_end("outcomes-too-late");
}

static void test_lost_answers_to_those_who_ask(void **state)
{
    (void)state;
    answers_give("aggregate", NULL);
    assert_int_equal(ask("of the read"), HF_UNREACHABLE);
    answers_give("aggregate", CURSOR(""));
    answers_give("findAndModify", NULL);
    assert_int_equal(ask("of the note"), HF_UNREACHABLE);
    answers_give("aggregate", CURSOR(OUTCOMES(HOLDER("07", "01"), LAST("02"))));
    assert_int_equal(ask("it is noted"), HF_OK);
    hf_leave leave = worked();
    answers_give("findAndModify", SWAPPED("9001"));
    answers_give("delete", DELETED);
    assert_int_equal(release("and leaves", &leave), HF_OK);
    transcript_end("outcomes-lost-answers");
}

static void test_what_is_not_ours(void **state)
{
    (void)state;
    answers_give("aggregate", CURSOR("{'_id': 'a', 'limit': 'none'}"));
    assert_int_equal(ask("no record"), HF_SHAPE);
    answers_give("aggregate",
                 CURSOR("{'_id': 'a', 'limit': 1, 'token': 1, 'holders': [], 'queue': [], "
                        "'notify': ''}"));
    assert_int_equal(ask("no version"), HF_SHAPE);
    answers_give("aggregate", DENIED);
    assert_int_equal(ask("no right"), HF_DENIED);
    answers_give("aggregate", "{'ok': 1}");
    assert_int_equal(ask("no server"), HF_UNUSABLE);
    assert_int_equal(answers_sent("findAndModify"), 0);
    transcript_end("outcomes-odd");
}

/* ---- Leaving ---- */

static void test_it_is_written_before_the_lock_is_free(void **state)
{
    (void)state;
    hf_leave leave = worked_for_period();
    note_well();
    answers_pass(500);
    answers_give("findAndModify", SWAPPED("9500"));
    answers_give("delete", NULL);
    assert_int_equal(release("the delete has no answer", &leave), HF_UNKNOWN);
    answers_give("delete", DELETED);
    assert_int_equal(release("again: it was written", &leave), HF_OK);
    transcript_end("outcomes-leaves");
}

static void test_what_cannot_be_written_keeps_the_lock(void **state)
{
    (void)state;
    hf_leave leave = worked_for_period();
    note_well();
    answers_give("findAndModify", NULL);
    answers_give_always("delete", DELETED);
    assert_int_equal(release("no answer", &leave), HF_UNREACHABLE);
    answers_give("findAndModify", DENIED);
    assert_int_equal(release("no right", &leave), HF_DENIED);
    assert_int_equal(answers_sent("delete"), 0);
    answers_give("findAndModify", NOT_SWAPPED);
    answers_give("aggregate", CURSOR(OUTCOMES("", "")));
    assert_int_equal(release("the first has arrived", &leave), HF_OK);
    transcript_end("outcomes-unwritten");
}

/* Another has come since: its version is not changed. */
static void test_a_late_holder_overwrites_nothing(void **state)
{
    (void)state;
    hf_leave leave = worked_for_period();
    note_well();
    answers_give("findAndModify", NOT_SWAPPED);
    answers_give("aggregate", CURSOR(OUTCOMES(HOLDER("08", "02"), "")));
    answers_give("delete", "{'ok': 1, 'n': 0}");
    assert_int_equal(release("it has lost its lock", &leave), HF_OK);
    assert_int_equal(answers_sent("findAndModify"), 2);
    transcript_end("outcomes-late");
}

/* It knows nothing of the note yet: what it says proves nothing. */
static void test_a_deposed_primary_answers(void **state)
{
    (void)state;
    hf_leave leave = worked_for_period();
    answers_give("aggregate", CURSOR(OUTCOMES("", "")));
    answers_give("findAndModify", SWAPPED("9000"));
    assert_int_equal(ask("notes itself, as version 4"), HF_OK);
    answers_give("findAndModify", NOT_SWAPPED);
    answers_give("aggregate", NULL);
    assert_int_equal(release("what stands there is not known", &leave), HF_UNREACHABLE);
    answers_give("findAndModify", NOT_SWAPPED);
    answers_give("aggregate", CURSOR("{'_id': 'a', 'limit': 1, 'token': 5, 'holders': [], 'queue': "
                                     "[], 'notify': '', 'version': 4}"));
    assert_int_equal(release("it stands as it was", &leave), HF_UNREACHABLE);
    assert_int_equal(answers_sent("delete"), 0);
    answers_give("findAndModify", SWAPPED("9001"));
    answers_give("delete", DELETED);
    assert_int_equal(release("the present primary", &leave), HF_OK);
    transcript_end("outcomes-deposed");
}

static void test_what_was_not_used_leaves_the_last_outcome(void **state)
{
    (void)state;
    const hf_leave back = {.ticket = id_of(7), .outcome = HF_OUTCOME_RELEASED};
    answers_give("aggregate", CURSOR(OUTCOMES("", LAST("02"))));
    answers_give("findAndModify", SWAPPED("9001"));
    assert_int_equal(ask("notes itself"), HF_OK);
    answers_give("findAndModify", SWAPPED("9001"));
    answers_give("delete", DELETED);
    assert_int_equal(release("gives it back", &back), HF_OK);
    transcript_end("outcomes-back");
}

static void test_who_does_not_use_it_sends_nothing_more(void **state)
{
    (void)state;
    hf_leave leave = worked();
    leave.has_exit_status = false;
    answers_give("delete", DELETED);
    assert_int_equal(release("without an exit status", &leave), HF_OK);
    leave.told = false;
    answers_give("delete", DELETED);
    assert_int_equal(release("a give-back", &leave), HF_OK);
    assert_int_equal(answers_sent("aggregate") + answers_sent("findAndModify"), 0);
    transcript_end("outcomes-unused");
}

/* It never asked, and has an exit status to tell. */
static void test_a_ticket_that_is_not_noted(void **state)
{
    (void)state;
    hf_leave leave = worked();
    answers_give("aggregate", CURSOR(OUTCOMES(HOLDER("08", "02"), ", 'who': 'b@c:1'")));
    answers_give("aggregate", CURSOR(LOCK("07")));
    answers_give("findAndModify", NULL);
    assert_int_equal(release("no answer", &leave), HF_UNREACHABLE);
    answers_give("aggregate", CURSOR(OUTCOMES("", ", 'left': " OID("07"))));
    answers_give("delete", DELETED);
    assert_int_equal(release("it was written", &leave), HF_OK);
    answers_give("aggregate", CURSOR(""));
    answers_give("aggregate", CURSOR(LOCK("09")));
    answers_give("delete", "{'ok': 1, 'n': 0}");
    assert_int_equal(release("another has the lock", &leave), HF_OK);
    assert_int_equal(answers_sent("findAndModify"), 1);
    answers_give("aggregate", CURSOR(""));
    answers_give("aggregate", NULL);
    assert_int_equal(release("whether it has the lock is not known", &leave), HF_UNREACHABLE);
    transcript_end("outcomes-not-noted");
}

static void test_without_the_right_to_write_it(void **state)
{
    (void)state;
    hf_leave leave = worked();
    for (int i = 0; i < 2; i++) {
        answers_give("aggregate", DENIED);
        answers_give("delete", DELETED);
        assert_int_equal(release("the lock is released", &leave), HF_OK);
    }
    transcript_say("%s", answers_log());
    leave = worked_for_period();
    answers_give("aggregate", DENIED);
    assert_int_equal(release("but not with the work of a period", &leave), HF_DENIED);
    transcript_end("outcomes-denied");
}

static void test_a_break_says_that_it_was_abandoned(void **state)
{
    (void)state;
    const hf_leave broken = {.ticket = id_of(8), .outcome = HF_OUTCOME_ABANDONED, .told = true};
    answers_give("aggregate", CURSOR(""));
    answers_give("find", CURSOR(""));
    answers_give("delete", DELETED);
    assert_int_equal(release("of one of which nothing is known", &broken), HF_OK);
    answers_give("aggregate", CURSOR(OUTCOMES(HOLDER("08", "02"), LAST("03") ", 'who': 'b@c:1'")));
    answers_give("findAndModify", SWAPPED("9001"));
    answers_give("find", CURSOR(""));
    answers_give("delete", DELETED);
    assert_int_equal(release("of one that is noted", &broken), HF_OK);
    transcript_end("outcomes-break");
}

/* ---- Showing, pruning ---- */

static void lasts(const char *what, const char *answer)
{
    hf_record records[2];
    hf_entry holder = {.ticket = id_of(9)};
    record_init(&records[0], "a");
    record_init(&records[1], "b");
    records[1].exists = true;
    record_append(&records[1], &holder, true);
    transcript_say("\n%s", what);
    answers_give("aggregate", answer);
    transcript_code(store->base.ops->lasts(&store->base, records, 2, &err), &err);
    for (int i = 0; i < 2; i++) {
        transcript_record(&records[i]);
        show(&records[i].last);
        record_done(&records[i]);
    }
}

static void test_they_are_shown(void **state)
{
    (void)state;
    lasts("released", CURSOR(OUTCOMES("", LAST("02") DONE)));
    lasts("perhaps taken just now", CURSOR(OUTCOMES(HOLDER("08", "02"), LAST("02"))));
    lasts("nothing is known, or odd", CURSOR("{'_id': 'b'}"));
    lasts("no right", DENIED);
    lasts("no answer", NULL);
    assert_int_equal(store->base.ops->lasts(&store->base, NULL, 0, &err), HF_OK);
    transcript_end("outcomes-shown");
}

static bool count_down(void *ctx, const hf_record *record)
{
    transcript_say("   %s, %zu holders", record->name, record->holders);
    return --*(int *)ctx > 0;
}

static void list(const char *what, hf_list_part part, int most)
{
    transcript_say("\n%s", what);
    transcript_code(store->base.ops->list(&store->base, &part, count_down, &most, &err), &err);
}

#define HELD "{'ok': 1, 'docs': [{'_id': 'b'}, {'_id': 'd'}]}"
#define KNOWN CURSOR("{'_id': 'a'}, {'_id': 'b'}, {'_id': 'c'}, {'_id': 'e'}")

static void test_free_locks_are_listed_in_between(void **state)
{
    (void)state;
    answers_give_always("list", HELD);
    answers_give("find", KNOWN);
    list("all", (hf_list_part){.prefix = "", .after = ""}, 99);
    answers_give("find", KNOWN);
    list("three at most", (hf_list_part){.prefix = "", .after = "", .limit = 3}, 99);
    answers_give("find", KNOWN);
    list("two are enough", (hf_list_part){.prefix = "", .after = ""}, 2);
    list("what is in use", (hf_list_part){.prefix = "", .after = "", .in_use = true}, 99);
    answers_give("find", DENIED);
    list("no right", (hf_list_part){.prefix = "", .after = ""}, 99);
    answers_give("find", NULL);
    list("no answer", (hf_list_part){.prefix = "", .after = ""}, 99);
    transcript_end("outcomes-listed");
}

static void test_free_locks_of_a_prefix(void **state)
{
    (void)state;
    answers_give_always("list", "{'ok': 1, 'docs': []}");
    answers_give("find", CURSOR("{'_id': 'x/1'}, {'_id': 5}, {'_id': 'y'}, {'_id': 'x/2'}"));
    list("to its end", (hf_list_part){.prefix = "x/", .after = ""}, 99);
    answers_give("find", CURSOR("{'_id': 'x/2'}"));
    list("behind a name", (hf_list_part){.prefix = "x/", .after = "x/1"}, 99);
    transcript_end("outcomes-listed-prefix");
}

static void test_what_is_idle_is_pruned_by_those_who_use_it(void **state)
{
    (void)state;
    hf_session_state overdue;
    size_t n;
    bool more;
    assert_int_equal(store->base.ops->sweep(&store->base, &overdue, 1, &n, &more, &err), HF_OK);
    assert_int_equal(answers_sent("delete"), 0);
    note_well();
    answers_give("delete", DELETED);
    assert_int_equal(store->base.ops->sweep(&store->base, &overdue, 1, &n, &more, &err), HF_OK);
    answers_give("delete", DENIED);
    assert_int_equal(store->base.ops->sweep(&store->base, &overdue, 1, &n, &more, &err), HF_DENIED);
    transcript_end("outcomes-pruned");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_finds_nothing),
        TEST(test_the_next_learns_how_the_last_one_left),
        TEST(test_who_finds_its_work_done_is_not_noted),
        TEST(test_others_change_it_meanwhile),
        TEST(test_who_reads_for_longer_than_its_lease_writes_nothing),
        TEST(test_lost_answers_to_those_who_ask),
        TEST(test_what_is_not_ours),
        TEST(test_it_is_written_before_the_lock_is_free),
        TEST(test_what_cannot_be_written_keeps_the_lock),
        TEST(test_a_late_holder_overwrites_nothing),
        TEST(test_a_deposed_primary_answers),
        TEST(test_what_was_not_used_leaves_the_last_outcome),
        TEST(test_who_does_not_use_it_sends_nothing_more),
        TEST(test_a_ticket_that_is_not_noted),
        TEST(test_without_the_right_to_write_it),
        TEST(test_a_break_says_that_it_was_abandoned),
        TEST(test_they_are_shown),
        TEST(test_free_locks_are_listed_in_between),
        TEST(test_free_locks_of_a_prefix),
        TEST(test_what_is_idle_is_pruned_by_those_who_use_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
