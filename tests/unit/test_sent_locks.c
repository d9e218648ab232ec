/* SPDX-License-Identifier: Apache-2.0 */
/* test_sent_locks.c: protocol queue: what is sent for each kind of step, look and list, word for
 * word, and what is read from the answers. */
#include "core/record.h"
#include "faults/mongo_transcript.h"
#include "store/mongo/queue/batch.h"

#define TICKET(n) "'ticket': {'$oid': '000000" n "0000000000000000'}"
#define SESSION(n) "'session': {'$oid': '000000" n "0000000000000000'}"
#define DATE(ms) "{'$date': {'$numberLong': '" ms "'}}"
#define ENTRY(ticket, session)                                                                     \
    "{" TICKET(ticket) ", " SESSION(session) ", 'ttl_ms': 6000, 'permits': 1, 'token': "           \
                                             "{'$numberLong': '9'}, 'since': " DATE(               \
                                                 "5") ", 'granted_at': " DATE("6") ", 'why': 'w'}"
#define RECORD(name)                                                                               \
    "{'_id': '" name "', 'limit': 1, 'token': {'$numberLong': '9'}, 'holders': [" ENTRY(           \
        "07", "01") "], 'queue': [" ENTRY("08", "02") "], 'notify': 'n'}"
#define STAMPED "'operationTime': {'$timestamp': {'t': 70, 'i': 3}}"
#define CURSOR(docs) "{'ok': 1, " STAMPED ", 'cursor': {'firstBatch': [" docs "]}}"

static mongo_store *store;
static hf_error err;

static int begin(void **state)
{
    (void)state;
    store = answers_open("");
    answers_give_always("findAndModify", "{'ok': 1, " STAMPED ", 'value': " RECORD("x") "}");
    answers_give_always("update", "{'ok': 1, " STAMPED ", 'n': 1, 'nModified': 1}");
    transcript_begin();
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

static void step(const char *what, const hf_step *step, bool wants_record)
{
    hf_record out;
    hf_step_reply reply;
    memset(&reply, 5, sizeof reply);
    transcript_say("\n%s%s", what, wants_record ? ", and its record" : "");
    hf_code code =
        store->base.ops->step(&store->base, "x", step, wants_record ? &out : NULL, &reply, &err);
    transcript_code(code, &err);
    if (!code)
        transcript_reply(&reply);
    if (!code && wants_record) {
        transcript_record(&out);
        record_done(&out);
    }
}

static hf_enter entrant(void)
{
    return (hf_enter){.entry = {.ticket = id_of(7),
                                .session = id_of(1),
                                .ttl_ms = 6000,
                                .permits = 1,
                                .token = 99,
                                .since = {98},
                                .granted_at = {97},
                                .yields = true,
                                .actor = "actor",
                                .why = "why"},
                      .limit = 2,
                      .queue_max = 8};
}

/* ---- Steps ---- */

static void test_enters(void **state)
{
    (void)state;
    hf_enter plain = entrant(), tries = plain, returns = plain, skips, wants = plain,
             is_large = plain, is_crowded = plain, upgrades = plain, blocks = plain,
             has_all = plain, has_room = plain, has_one = plain;
    tries.try_only = true;
    returns.number = 5;
    skips = returns;
    skips.skips = true;
    skips.reached = 3;
    wants.wants_number = true;
    is_large.entry.permits = 3;
    is_crowded.queue_max = 0;
    upgrades.replaces = id_of(6);
    blocks.entry.block = 2;
    has_one.entry.block = 1;
    has_all.entry.permits = 2;
    has_room.queue_max = 1;
    step("waits if it must", &(hf_step){.enter = &plain}, true);
    step("nobody wants the record", &(hf_step){.enter = &plain}, false);
    step("only tries", &(hf_step){.enter = &tries}, true);
    step("wants a number if it cannot enter", &(hf_step){.enter = &wants}, true);
    step("comes with a number", &(hf_step){.enter = &returns}, true);
    step("passes over numbers that do not come", &(hf_step){.enter = &skips}, true);
    step("wants more than there is", &(hf_step){.enter = &is_large}, true);
    step("finds no room in the queue", &(hf_step){.enter = &is_crowded}, true);
    step("upgrades", &(hf_step){.enter = &upgrades}, true);
    step("has a block of two tokens", &(hf_step){.enter = &blocks}, true);
    step("has a block of one token", &(hf_step){.enter = &has_one}, true);
    step("wants all that there is", &(hf_step){.enter = &has_all}, true);
    step("finds room for one in the queue", &(hf_step){.enter = &has_room}, true);
    plain.entry.ticket = id_of(9); /* which the record does not show */
    step("is not there then", &(hf_step){.enter = &plain}, true);
    transcript_end("queue-enters");
}

static void test_leaves(void **state)
{
    (void)state;
    hf_leave back = {.ticket = id_of(7), .who = "me"}, told = back, works = back, is_lost = back,
             uses = back;
    told.told = works.told = is_lost.told = uses.told = true;
    told.outcome = works.outcome = uses.outcome = HF_OUTCOME_RELEASED;
    works.has_exit_status = is_lost.has_exit_status = true;
    works.exit_status = is_lost.exit_status = 3;
    works.period = (hf_period){{1000}, {2000}};
    is_lost.outcome = HF_OUTCOME_ABANDONED;
    snprintf(is_lost.reason, sizeof is_lost.reason, "the reason");
    uses.used_token = 5;
    hf_leave uses_one = uses, works_untold = works;
    uses_one.used_token = 1;
    works_untold.told = false;
    const hf_leave two[] = {works, {.ticket = id_of(8)}};
    const hf_leave both[] = {uses, told}, one_of_both[] = {back, uses_one};
    const hf_leave without_status = {
        .ticket = id_of(7), .told = true, .outcome = HF_OUTCOME_RELEASED, .period = {{1}, {2}}};
    step("gives back", &(hf_step){.leaves = &back, .n_leaves = 1}, false);
    step("gives back", &(hf_step){.leaves = &back, .n_leaves = 1}, true);
    step("is told", &(hf_step){.leaves = &told, .n_leaves = 1}, false);
    step("with an exit status", &(hf_step){.leaves = &works, .n_leaves = 1}, false);
    step("is lost", &(hf_step){.leaves = &is_lost, .n_leaves = 1}, false);
    step("used some tokens", &(hf_step){.leaves = &uses, .n_leaves = 1}, false);
    step("without an exit status", &(hf_step){.leaves = &without_status, .n_leaves = 1}, false);
    step("two", &(hf_step){.leaves = two, .n_leaves = 2}, false);
    step("two, the first with tokens", &(hf_step){.leaves = both, .n_leaves = 2}, false);
    step("two, the second with one token", &(hf_step){.leaves = one_of_both, .n_leaves = 2}, false);
    step("used one token", &(hf_step){.leaves = &uses_one, .n_leaves = 1}, false);
    step("worked, and is not told", &(hf_step){.leaves = &works_untold, .n_leaves = 1}, false);
    transcript_end("queue-leaves");
}

static void test_other_steps(void **state)
{
    (void)state;
    hf_death dead[] = {{.session = id_of(3), .who = "one"},
                       {.session = id_of(4), .who = "another"}};
    hf_leave back = {.ticket = id_of(7)};
    hf_change lower = {.ticket = id_of(7), .permits = 1}, none = {.ticket = id_of(7)};
    hf_pass pass = {.ticket = id_of(6),
                    .to = id_of(7),
                    .session = id_of(2),
                    .ttl_ms = 5000,
                    .token = 12,
                    .why = "why",
                    .actor = "actor"};
    hf_pass bare = pass;
    bare.why = bare.actor = NULL;
    bare.to = id_of(9);
    hf_enter enters = entrant();
    hf_dbtime now = {1234};
    int64_t floor = 5678, low = 0;
    step("the dead go", &(hf_step){.deaths = dead, .n_deaths = 2}, false);
    step("the dead go, one enters", &(hf_step){.deaths = dead, .n_deaths = 1, .enter = &enters},
         true);
    step("one leaves, one dies",
         &(hf_step){.leaves = &back, .n_leaves = 1, .deaths = dead, .n_deaths = 1}, true);
    step("one leaves, one enters", &(hf_step){.leaves = &back, .n_leaves = 1, .enter = &enters},
         true);
    step("has less", &(hf_step){.change = &lower}, false);
    step("has less", &(hf_step){.change = &lower}, true);
    step("has less, one enters", &(hf_step){.change = &lower, .enter = &enters}, true);
    step("is handed over, one enters", &(hf_step){.pass = &pass, .enter = &enters}, true);
    step("has nothing less", &(hf_step){.change = &none}, false);
    step("is handed over", &(hf_step){.pass = &pass}, true);
    step("is handed over without words", &(hf_step){.pass = &bare}, true);
    hf_leave before = {.ticket = id_of(6),
                       .outcome = HF_OUTCOME_RELEASED,
                       .told = true,
                       .has_exit_status = true,
                       .exit_status = 3,
                       .used_token = 11,
                       .who = "who"};
    pass.before = &before;
    step("is handed over behind another turn", &(hf_step){.pass = &pass}, true);
    step("nothing", &(hf_step){.now = NULL}, true);
    step("with a time and a floor",
         &(hf_step){.leaves = &back, .n_leaves = 1, .now = &now, .floor = &floor}, false);
    step("with a floor that is too low", &(hf_step){.leaves = &back, .n_leaves = 1, .floor = &low},
         false);
    transcript_end("queue-steps");
}

/* In the words of what was to be done. */
static void test_steps_that_fail(void **state)
{
    (void)state;
    hf_leave back = {.ticket = id_of(7)};
    hf_change lower = {.ticket = id_of(7), .permits = 1};
    hf_pass pass = {.ticket = id_of(6), .to = id_of(7)};
    hf_enter enters = entrant(), upgrades = enters;
    upgrades.replaces = id_of(6);
    answers_close(store);
    store = answers_open("");
    answers_give_always("findAndModify", "{'ok': 0, 'code': 13}");
    step("enters", &(hf_step){.enter = &enters}, true);
    step("upgrades", &(hf_step){.enter = &upgrades}, true);
    step("has less", &(hf_step){.change = &lower}, false);
    step("is handed over", &(hf_step){.pass = &pass}, true);
    step("leaves", &(hf_step){.leaves = &back, .n_leaves = 1}, false);
    answers_give("findAndModify", "{'ok': 0, 'code': 4}");
    answers_give("find", CURSOR(RECORD("x")));
    step("leaves what is odd", &(hf_step){.leaves = &back, .n_leaves = 1}, false);
    answers_give("findAndModify", "{'ok': 1}");
    step("leaves, and nobody says what became of it", &(hf_step){.leaves = &back, .n_leaves = 1},
         false);
    transcript_end("queue-fails");
}

static void test_records_that_are_not_there(void **state)
{
    (void)state;
    hf_leave back = {.ticket = id_of(7)};
    hf_enter enters = entrant();
    answers_close(store);
    store = answers_open("");
    answers_give("findAndModify", "{'ok': 1, 'value': null}");
    step("one leaves", &(hf_step){.leaves = &back, .n_leaves = 1}, true);
    answers_give("findAndModify", "{'ok': 1, 'value': " RECORD("x") ", 'writeConcernError': {}}");
    step("not by a majority", &(hf_step){.enter = &enters}, true);
    transcript_end("queue-none");
}

/* What gives the floor of tokens, by the server's kind and age. */
static void test_the_same_enter_on_other_servers(void **state)
{
    (void)state;
    hf_enter plain = entrant();
    atomic_store(&store->wire, 14);
    step("5.1", &(hf_step){.enter = &plain}, true);
    atomic_store(&store->wire, 13);
    step("5.0", &(hf_step){.enter = &plain}, true);
    atomic_store(&store->topology, MONGO_ALONE);
    step("a standalone", &(hf_step){.enter = &plain}, true);
    transcript_end("queue-servers");
}

static void test_weak_writes(void **state)
{
    (void)state;
    hf_enter plain = entrant();
    store->uri.weak = true;
    step("w: 1", &(hf_step){.enter = &plain}, true);
    transcript_end("queue-weak");
}

/* ---- Several as one ---- */

#define MEMBERS 4

static struct {
    hf_leave leaves[2];
    hf_enter enters[2];
    hf_step steps[MEMBERS];
    hf_record out[MEMBERS];
    mongo_member members[MEMBERS];
} of;

/* An enter, two leaves of different kinds, and an enter of another kind. */
static void make_members(void)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    memset(&of, 0, sizeof of);
    of.leaves[0] = (hf_leave){.ticket = id_of(11)};
    of.leaves[1] = (hf_leave){.ticket = id_of(12), .told = true, .who = "me"};
    of.enters[0] = of.enters[1] = entrant();
    of.enters[1].entry.ticket = id_of(13);
    of.enters[1].entry.block = 2;
    of.steps[0] = (hf_step){.enter = &of.enters[0]};
    of.steps[1] = (hf_step){.leaves = &of.leaves[0], .n_leaves = 1};
    of.steps[2] = (hf_step){.leaves = &of.leaves[1], .n_leaves = 1};
    of.steps[3] = (hf_step){.enter = &of.enters[1]};
    for (int i = 0; i < MEMBERS; i++) {
        of.members[i] = (mongo_member){.name = names[i],
                                       .step = &of.steps[i],
                                       .out = of.steps[i].enter ? &of.out[i] : NULL,
                                       .state = MEMBER_IN_BATCH};
        pthread_cond_init(&of.members[i].changed, NULL);
    }
}

/* Two leaves and two enters that each have one text. */
static void make_alike(void)
{
    make_members();
    of.leaves[1] = (hf_leave){.ticket = id_of(12)};
    of.enters[1].entry.block = 0;
}

static void send_batch(const char *what, size_t n)
{
    static const char *const states[] = {"waits", "goes", "leads", "done", "alone", "again"};
    mongo_member *all[MEMBERS];
    for (size_t i = 0; i < n; i++)
        all[i] = &of.members[i];
    transcript_say("\n%s", what);
    mongo_batch_send(store, all, n);
    for (size_t i = 0; i < n; i++) {
        mongo_member *each = all[i];
        transcript_say("%s is %s", each->name, states[each->state]);
        if (each->state == MEMBER_DONE)
            transcript_code(each->code, &each->err);
        transcript_reply(&each->reply);
        if (each->is_read) {
            transcript_record(each->out);
            record_done(each->out);
        }
        pthread_cond_destroy(&each->changed);
    }
    make_members();
}

/* In a store of its own. */
static void answer(const char *json)
{
    answers_close(store);
    store = answers_open("");
    answers_give("update", json);
}

static void test_steps_that_travel_together(void **state)
{
    (void)state;
    make_members();
    answer("{'ok': 1, " STAMPED ", 'n': 4, 'nModified': 4}");
    answers_give("find", CURSOR(RECORD("a") ", " RECORD("d")));
    send_batch("all were done", 4);
    answer("{'ok': 1, " STAMPED ", 'n': 4, 'nModified': 3}");
    answers_give("find", CURSOR(RECORD("d")));
    send_batch("one was not", 4);
    answer("{'ok': 1, 'n': 3, 'nModified': 3}");
    send_batch("an answer without a stamp", 3);
    answer("{'ok': 1, " STAMPED ", 'n': 2, 'nModified': 2}");
    answers_give("find", NULL);
    send_batch("the look fails", 2);
    answer(NULL);
    send_batch("no answer", 4);
    answer("{'ok': 0, 'code': 189}");
    send_batch("the primary steps down", 4);
    answer("{'ok': 0, 'code': 10107}");
    send_batch("not a primary", 4);
    answer("{'ok': 0, 'code': 13}");
    send_batch("no right", 4);
    answer("{'ok': 1, 'writeErrors': [{'index': 0, 'code': 241, 'errmsg': 'the ticket'}]}");
    send_batch("the demand stopped it", 4);
    answer("{'ok': 1, 'writeErrors': [{'index': 1, 'code': 241, 'errmsg': 'a step'}]}");
    send_batch("a step stopped it", 4);
    answer("{'ok': 1, 'writeErrors': [{'index': 0, 'code': 241, 'errmsg': 'a step'}]}");
    send_batch("an enter alone stopped it", 1);
    answer("{'ok': 1, 'nModified': 4, 'writeConcernError': {'code': 64, 'errmsg': 'slow'}}");
    send_batch("not by a majority", 4);
    answer("{'ok': 1, 'writeErrors': [{'code': 241, 'errmsg': 'which?'}]}");
    send_batch("a step that is not named stopped it", 4);
    answer("{'ok': 1, 'writeErrors': [{'index': 1, 'code': 91, 'errmsg': 'the end'}]}");
    send_batch("the server shuts down under it", 4);
    transcript_end("queue-together");
}

static void test_steps_of_one_text(void **state)
{
    (void)state;
    make_alike();
    answer("{'ok': 1, " STAMPED ", 'n': 4, 'nModified': 4}");
    answers_give("find", CURSOR(RECORD("a") ", " RECORD("d")));
    send_batch("two texts for four", 4);
    of.members[0] = of.members[1];
    answer("{'ok': 1, " STAMPED "}");
    answers_give("find", CURSOR(RECORD("b")));
    send_batch("one leave, and nobody says how many did", 1);
    of.members[0] = of.members[1];
    answer("{'ok': 1, " STAMPED ", 'n': 1, 'nModified': 1}");
    answers_give("find", CURSOR(RECORD("b")));
    send_batch("one leave, and no enter to look for", 1);
    transcript_end("queue-alike");
}

/* ---- Looks and lists ---- */

static bool show(void *ctx, const hf_record *record)
{
    (void)ctx;
    transcript_record(record);
    return true;
}

static void look(const char *const *names, size_t n, hf_stamp after, bool linearizable)
{
    answers_give("find", CURSOR(RECORD("x") ", " RECORD("y")));
    transcript_say("\nlook");
    transcript_code(
        store->base.ops->look(&store->base, names, n, after, linearizable, show, NULL, &err), &err);
}

static void test_looks(void **state)
{
    (void)state;
    static const char *const names[] = {"x", "z", "y"};
    hf_stamp stamp = {(uint64_t)70 << 32 | 3};
    look(names, 1, (hf_stamp){0}, false);
    look(names, 3, stamp, false);
    look(names, 1, stamp, true);
    atomic_store(&store->topology, MONGO_ALONE);
    look(names, 1, stamp, false);
    look(names, 1, (hf_stamp){0}, true);
    transcript_end("queue-looks");
}

static void list_part(const hf_list_part *part)
{
    transcript_say("\nlist \"%s\", after \"%s\", %s, limit %zu", part->prefix, part->after,
                   part->in_use ? "in use" : "all", part->limit);
    transcript_code(store->base.ops->list(&store->base, part, show, NULL, &err), &err);
}

static void list(const char *prefix)
{
    answers_give("list", "{'ok': 1, 'docs': [" RECORD("a.b") ", " RECORD("x") "]}");
    list_part(&(hf_list_part){.prefix = prefix, .after = ""});
}

static void test_lists(void **state)
{
    (void)state;
    list("");
    list("a.b");
    list("\xc3\xa4 09AZaz:/@[`{|");
    atomic_store(&store->topology, MONGO_ALONE);
    list("x");
    transcript_end("queue-lists");
}

/* The first text behind those that begin so; surrogates are no characters, and there is a last one.
 */
static void test_where_a_prefix_ends(void **state)
{
    (void)state;
    static const char *const prefixes[] = {
        "%_",           "\x7f",         "\xc3\xbf",          "\xdf\xbf",
        "\xed\x9f\xbf", "\xef\xbf\xbf", "a\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        answers_give("list", "{'ok': 1, 'docs': []}");
        list_part(&(hf_list_part){.prefix = prefixes[i], .after = ""});
    }
    transcript_end("queue-list-prefixes");
}

/* A page reads no more than is wanted of it; what it skips, the next page makes up for. */
static void test_pages_of_a_list(void **state)
{
    (void)state;
    answers_give("list", "{'ok': 1, 'docs': [" RECORD("b") ", {'_id': 'c', 'holders': 5}]}");
    answers_give("list", "{'ok': 1, 'docs': [" RECORD("d") "]}");
    list_part(&(hf_list_part){.prefix = "", .after = "a", .limit = 2});
    answers_give("list", "{'ok': 1, 'docs': [" RECORD("ab") ", {'_id': 'ac'}]}");
    answers_give("list", "{'ok': 1, 'docs': []}");
    list_part(&(hf_list_part){.prefix = "a", .after = "a", .in_use = true, .limit = 2});
    answers_give("list", "{'ok': 1, 'docs': [" RECORD("a") "]}");
    list_part(&(hf_list_part){.prefix = "a", .after = "A", .limit = 5000});
    answers_give("list", "{'ok': 1, 'docs': [" RECORD("a") ", {'holders': 5}]}");
    list_part(&(hf_list_part){.prefix = "a", .after = "", .limit = 2});
    transcript_end("queue-list-pages");
}

static size_t named(char *docs, size_t size, int first, int n)
{
    size_t used = (size_t)snprintf(docs, size, "{'ok': 1, 'docs': [");
    for (int i = first; i < first + n; i++)
        used += (size_t)snprintf(docs + used, size - used, "%s{'_id': 'n%04d', 'holders': 5}",
                                 i > first ? ", " : "", i);
    return used + (size_t)snprintf(docs + used, size - used, "]}");
}

/* Each page begins behind the last document of the page before, whatever that is. */
static void test_all_pages_of_a_long_list(void **state)
{
    (void)state;
    static char docs[3][60000];
    static const int pages[] = {100, 1000, 7};
    int first = 0;
    for (size_t i = 0; i < 3; i++) {
        assert_true(named(docs[i], sizeof docs[i], first, pages[i]) < sizeof docs[i]);
        answers_give("list", docs[i]);
        first += pages[i];
    }
    const hf_list_part part = {.prefix = "n", .after = ""};
    assert_int_equal(store->base.ops->list(&store->base, &part, show, NULL, &err), HF_OK);
    assert_int_equal(answers_sent("list"), 3);
    assert_non_null(strstr(answers_last("list"), "'$gt' : 'n1099', '$lt' : 'o'"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_enters),
        TEST(test_leaves),
        TEST(test_other_steps),
        TEST(test_the_same_enter_on_other_servers),
        TEST(test_steps_that_fail),
        TEST(test_records_that_are_not_there),
        TEST(test_steps_of_one_text),
        TEST(test_weak_writes),
        TEST(test_steps_that_travel_together),
        TEST(test_looks),
        TEST(test_lists),
        TEST(test_where_a_prefix_ends),
        TEST(test_pages_of_a_list),
        TEST(test_all_pages_of_a_long_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
