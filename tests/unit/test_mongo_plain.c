/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_plain.c: protocols without sessions of their own: who holds something, what the calls
 * on sessions say, and which tickets a store remembers. */
#include "core/id.h"
#include "faults/mongo_transcript.h"

#include <malloc.h>

#define OID(n) "{'$oid': '000000" n "0000000000000000'}"
#define DATE(ms) "{'$date': {'$numberLong': '" ms "'}}"
#define OURS(name, ticket, session, more)                                                          \
    "{'_id': '" name "', 'ticket': " OID(ticket) ", 'session': " OID(                              \
        session) ", 'ttl_ms': 6000, 'since': " DATE("4") ", 'updated': " DATE("5") more "}"
#define THEIRS(name, owner)                                                                        \
    "{'_id': '" name "', 'acquirer': '" owner "', 'updated': " DATE("5") ", 'hf_left': 77}"

static mongo_store *store;
static hf_error err;

static int begin(void **state)
{
    (void)state;
    store = answers_open("&hfProtocol=ttl");
    answers_give("listIndexes", "{'ok': 1, 'cursor': {'firstBatch': []}}");
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

/* ---- Calls on sessions ---- */

static bool show(void *ctx, const hf_session_state *state)
{
    transcript_state(state);
    return --*(int *)ctx > 0;
}

static void list(int most, const char *answer)
{
    answers_give("list", answer);
    transcript_code(store->base.ops->list_sessions(&store->base, show, &most, &err), &err);
}

static void test_who_holds_something(void **state)
{
    (void)state;
    static const char docs[] =
        "{'ok': 1, 'docs': [" OURS("a", "07", "01", ", 'app': 'app', 'host': 'here', 'pid': 5, 'hf_left': 77") ", " OURS(
            "b", "08", "01",
            "") ", " OURS("c", "09", "02",
                          "") ", " THEIRS("d",
                                          "app@host:12/0001") ", " THEIRS("e",
                                                                          "a@b@c:5:6") ", " THEIRS("f",
                                                                                                   "nob"
                                                                                                   "od"
                                                                                                   "y") ", " THEIRS("g",
                                                                                                                    "a:5@b") ", " THEIRS("h",
                                                                                                                                         "a@b") ", " THEIRS("i",
                                                                                                                                                            "a:5") "]}";
    transcript_begin();
    list(99, docs);
    list(2, docs);
    list(99, "{'ok': 0, 'code': 13, 'docs': []}");
    transcript_end("plain-sessions");
}

static void test_nobody_is_known_by_its_session(void **state)
{
    (void)state;
    const hf_store_ops *ops = store->base.ops;
    const hf_id ids[] = {id_of(1), id_of(2)};
    hf_session_state states[3], seen = {.beat = 1};
    hf_ask ask = {.ticket = id_of(7)};
    memset(states, 5, sizeof states);
    assert_int_equal(ops->sessions_look(&store->base, ids, 2, 0, states, &err), HF_OK);
    for (int i = 0; i < 2; i++) {
        assert_true(id_equal(states[i].session.id, ids[i]));
        assert_int_equal(states[i].presence, HF_MISSING);
        assert_int_equal(states[i].beat, 0);
        assert_false(states[i].is_gone);
    }
    assert_int_equal(states[2].session.pid, 0x0505050505050505);
    assert_int_equal(ops->session_mark(&store->base, &seen, &err), HF_NOT_FOUND);
    assert_int_equal(ops->session_end(&store->base, id_of(1), true, &err), HF_OK);
    assert_int_equal(ops->ask(&store->base, id_of(1), &ask, &err), HF_UNSUPPORTED);
    assert_non_null(strstr(err.text, "protocol ttl cannot ask"));
}

static void test_there_is_nothing_to_sweep(void **state)
{
    (void)state;
    hf_session_state overdue;
    size_t n = 9;
    bool more = true;
    assert_int_equal(store->base.ops->sweep(&store->base, &overdue, 1, &n, &more, &err), HF_OK);
    assert_int_equal(n, 0);
    assert_false(more);
}

/* A step may want neither its record nor its reply. */
static void test_steps_that_nobody_waits_for(void **state)
{
    (void)state;
    hf_enter in = {.entry = {.ticket = id_of(7), .session = id_of(1), .ttl_ms = 6000}};
    hf_leave out = {.ticket = id_of(7)};
    hf_step_reply reply;
    answers_give("findAndModify", "{'ok': 1, 'value': " OURS("a", "07", "01", "") "}");
    assert_int_equal(
        store->base.ops->step(&store->base, "a", &(hf_step){.enter = &in}, NULL, NULL, &err),
        HF_OK);
    answers_give("delete", "{'ok': 1, 'n': 1}");
    assert_int_equal(store->base.ops->step(&store->base, "a",
                                           &(hf_step){.leaves = &out, .n_leaves = 1}, NULL, NULL,
                                           &err),
                     HF_OK);
    answers_give("findAndModify", NULL);
    assert_int_equal(
        store->base.ops->step(&store->base, "a", &(hf_step){.enter = &in}, NULL, &reply, &err),
        HF_UNKNOWN);
    assert_false(reply.confirmed);
    assert_non_null(strstr(err.text, "acquiring \"a\""));
    answers_give("delete", NULL);
    assert_int_equal(store->base.ops->step(&store->base, "a",
                                           &(hf_step){.leaves = &out, .n_leaves = 1}, NULL, NULL,
                                           &err),
                     HF_UNKNOWN);
    assert_non_null(strstr(err.text, "releasing \"a\""));
}

/* ---- What is remembered ---- */

static void assert_renewed(size_t n, const char *names)
{
    size_t is;
    char all[100] = "";
    mongo_held *copy = mongo_held_copy(store, &is);
    for (size_t i = 0; i < is; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%d ", copy[i].name,
                 copy[i].ticket.bytes[3]);
    mongo_held_free_copy(copy, is);
    assert_int_equal(is, n);
    assert_string_equal(all, names);
}

static bool is_known(unsigned ticket)
{
    return !id_equal(mongo_held_session(store, id_of(ticket)), id_of(ticket));
}

static void test_what_is_held_is_renewed(void **state)
{
    (void)state;
    store->self.id = id_of(1);
    mongo_held_add(store, "a", id_of(7));
    mongo_held_add(store, "b", id_of(8));
    mongo_held_add(store, "", id_of(9));
    mongo_held_by_hand(store, id_of(8));
    assert_renewed(1, "a7 ");
    assert_true(is_known(7) && is_known(8) && is_known(9) && !is_known(10));
    mongo_held_add(store, "a", id_of(7));
    assert_renewed(1, "a7 ");
    mongo_held_drop(store, id_of(7));
    mongo_held_drop(store, id_of(10));
    assert_false(is_known(7));
    assert_true(is_known(8) && is_known(9));
    assert_renewed(0, "");
}

static void test_what_is_in_doubt_stays_known(void **state)
{
    (void)state;
    store->self.id = id_of(1);
    mongo_held_add(store, "a", id_of(7));
    mongo_held_add(store, "b", id_of(8));
    mongo_held_doubt(store, id_of(7));
    mongo_held_doubt(store, id_of(10));
    assert_renewed(2, "b8 a7 ");
    mongo_held_drop(store, id_of(7));
    mongo_held_drop(store, id_of(8));
    assert_true(is_known(7));
    assert_renewed(0, ""); /* what was left is not renewed */
    mongo_held_add(store, "a", id_of(7));
    assert_renewed(1, "a7 "); /* but taken again it is */
}

static void test_a_new_session_knows_nothing(void **state)
{
    (void)state;
    const hf_session self = {.id = id_of(2)};
    mongo_held_add(store, "a", id_of(7));
    assert_int_equal(mongo_plain_begin(&store->base, &self, &err), HF_OK);
    assert_false(is_known(7));
    assert_true(id_equal(store->self.id, id_of(2)));
}

/* A round that keeps anything keeps 16 bytes or more; what malloc() sets aside is less than that in
 * all. Nothing is counted where a sanitizer keeps the memory. */
static void test_what_is_forgotten_takes_no_memory(void **state)
{
    (void)state;
    size_t before = 0, n;
    for (int i = 0; i <= 1000; i++) {
        before = i == 1 ? mallinfo2().uordblks : before;
        mongo_held_add(store, "a name that is long enough to be seen", id_of(7));
        mongo_held_free_copy(mongo_held_copy(store, &n), 1);
        mongo_held_drop(store, id_of(7));
        mongo_held_add(store, "another name that is long enough", id_of(8));
        mongo_held_clear(store);
    }
    assert_true(mallinfo2().uordblks < before + 16 * 1000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_who_holds_something),         TEST(test_nobody_is_known_by_its_session),
        TEST(test_there_is_nothing_to_sweep),   TEST(test_steps_that_nobody_waits_for),
        TEST(test_what_is_held_is_renewed),     TEST(test_what_is_in_doubt_stays_known),
        TEST(test_a_new_session_knows_nothing), TEST(test_what_is_forgotten_takes_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
