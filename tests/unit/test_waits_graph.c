/* SPDX-License-Identifier: Apache-2.0 */
/* test_waits_graph.c: proves which nodes are in a deadlock and which are not, in small worlds that
 * are written out, and in random ones against a search through all that can still happen; run by
 * ctest. */
#include "unit.h"

#include "core/id.h"
#include "core/record.h"
#include "core/waits_graph.h"

#define LOCKS 3
#define ACTORS 4

/* Actor n is session n; its tickets are 10 * n + lock. */
typedef struct small_world {
    hf_record locks[LOCKS];
    int waits_for[ACTORS];   /* a lock, or -1 */
    int64_t numbers[ACTORS]; /* with which they wait outside; 0: they do not */
    int32_t permits[ACTORS]; /* that these want */
    int64_t now;
} small_world;

static const char *const names[LOCKS] = {"a", "b", "c"};

static hf_id ticket_of(int actor, int lock)
{
    return id_of((unsigned)(10 * actor + lock));
}

static void begin(small_world *w)
{
    *w = (small_world){.now = 1000};
    for (int i = 0; i < LOCKS; i++)
        record_init(&w->locks[i], names[i]);
    for (int i = 0; i < ACTORS; i++)
        w->waits_for[i] = -1;
}

static void end(small_world *w)
{
    for (int i = 0; i < LOCKS; i++)
        record_done(&w->locks[i]);
}

/* Whether it holds it now; otherwise it waits. */
static bool wants(small_world *w, int actor, int lock, int32_t permits, int32_t limit)
{
    hf_enter enter = {.entry = {.ticket = ticket_of(actor, lock),
                                .session = id_of(1000 + (unsigned)actor),
                                .permits = permits},
                      .limit = limit,
                      .queue_max = HF_QUEUE_MAX};
    hf_step step = {.enter = &enter};
    record_step(&w->locks[lock], &step, (hf_dbtime){w->now++}, 1);
    bool holds = record_judge(&w->locks[lock], &enter) == RECORD_HOLDS;
    if (!holds)
        w->waits_for[actor] = lock;
    return holds;
}

static bool is_held_by(const small_world *w, int actor, int lock)
{
    const hf_entry *entry = record_find(&w->locks[lock], ticket_of(actor, lock));
    return entry && record_position(&w->locks[lock], entry) == 0;
}

static void say(const small_world *w, int actor, struct waits_graph *graph)
{
    waits_item holds[LOCKS];
    waits_entry entry = {.on = {.ticket = ticket_of(actor, w->waits_for[actor])},
                         .holds = holds,
                         .number = w->numbers[actor],
                         .permits = w->permits[actor]};
    char *text = NULL, who[16];
    snprintf(entry.on.name, sizeof entry.on.name, "%s", names[w->waits_for[actor]]);
    for (int i = 0; i < LOCKS; i++)
        if (is_held_by(w, actor, i)) {
            holds[entry.n_holds].ticket = ticket_of(actor, i);
            snprintf(holds[entry.n_holds++].name, sizeof holds->name, "%s", names[i]);
        }
    waits_write(&text, &entry);
    snprintf(who, sizeof who, "actor%d", actor);
    waits_graph_add_waits(
        graph, &(hf_waits){.session.id = id_of(1000 + (unsigned)actor), .text = text}, who);
    free(text);
}

static struct waits_graph graph_of(const small_world *w)
{
    struct waits_graph graph = {.n_nodes = 0};
    for (int i = 0; i < LOCKS; i++)
        waits_graph_add_record(&graph, &w->locks[i]);
    for (int i = 0; i < ACTORS; i++)
        if (w->waits_for[i] >= 0)
            say(w, i, &graph);
    waits_graph_reduce(&graph);
    return graph;
}

static size_t tie(const small_world *w, int actor, int *youngest)
{
    struct waits_graph graph = graph_of(w);
    size_t n = waits_graph_mark(&graph, ticket_of(actor, w->waits_for[actor]));
    for (int i = 0; n && i < ACTORS; i++)
        if (w->waits_for[i] >= 0 &&
            id_equal(waits_graph_youngest(&graph)->wait.on.ticket, ticket_of(i, w->waits_for[i])))
            *youngest = i;
    waits_graph_done(&graph);
    return n;
}

#define ALL HF_LIMIT_RW
#define EXCLUSIVE(w, actor, lock) wants(w, actor, lock, ALL, ALL)
#define SHARED(w, actor, lock) wants(w, actor, lock, 1, ALL)

static void test_two_and_one_who_looks_on(void **state)
{
    (void)state;
    small_world w;
    int youngest = -1;
    begin(&w);
    assert_true(EXCLUSIVE(&w, 0, 0));
    assert_true(EXCLUSIVE(&w, 1, 1));
    assert_false(EXCLUSIVE(&w, 0, 1));
    assert_false(EXCLUSIVE(&w, 1, 0));
    assert_false(EXCLUSIVE(&w, 2, 0)); /* waits behind them, and nobody for it */
    assert_int_equal(tie(&w, 0, &youngest), 2);
    assert_int_equal(youngest, 1);
    assert_int_equal(tie(&w, 1, &youngest), 2);
    assert_int_equal(tie(&w, 2, &youngest), 0);
    end(&w);
}

/* With the next number. */
static void wants_outside(small_world *w, int actor, int lock, int32_t permits)
{
    w->waits_for[actor] = lock;
    w->numbers[actor] = ++w->locks[lock].given;
    w->permits[actor] = permits;
}

static void test_two_of_which_one_waits_outside(void **state)
{
    (void)state;
    small_world w;
    int youngest = -1;
    begin(&w);
    assert_true(EXCLUSIVE(&w, 0, 0));
    assert_true(EXCLUSIVE(&w, 1, 1));
    wants_outside(&w, 0, 1, ALL);
    assert_false(EXCLUSIVE(&w, 1, 0)); /* it comes last, but stands in the queue */
    assert_int_equal(tie(&w, 1, &youngest), 2);
    assert_int_equal(youngest, 0);
    w.locks[1].given = 0; /* the record was lost: its number says nothing */
    assert_int_equal(tie(&w, 1, &youngest), 0);
    end(&w);
}

/* It stands where its number says: before a writer, and so with the reader that holds. */
static void test_a_number_before_the_writer(void **state)
{
    (void)state;
    small_world w;
    int youngest = -1;
    begin(&w);
    assert_true(SHARED(&w, 0, 0));
    assert_true(EXCLUSIVE(&w, 1, 1));
    wants_outside(&w, 1, 0, 1);
    w.locks[0].reached = 1; /* it was called, and has not come yet */
    assert_false(EXCLUSIVE(&w, 2, 0));
    assert_false(EXCLUSIVE(&w, 0, 1));
    assert_int_equal(tie(&w, 0, &youngest), 0);
    w.numbers[1] = ++w.locks[0].given;
    assert_int_equal(tie(&w, 0, &youngest), 3);
    assert_int_equal(youngest, 1);
    end(&w);
}

/* It may be gone, and its number is passed over. */
static void test_nobody_is_stuck_behind_one_outside(void **state)
{
    (void)state;
    small_world w;
    int youngest = -1;
    begin(&w);
    assert_true(wants(&w, 0, 0, 2, 3));
    assert_true(EXCLUSIVE(&w, 1, 1));
    assert_true(EXCLUSIVE(&w, 2, 2));
    assert_false(EXCLUSIVE(&w, 0, 2));
    wants_outside(&w, 1, 0, 2); /* not beside actor 0 */
    wants_outside(&w, 2, 0, 1); /* beside it, once that number is passed over */
    assert_int_equal(tie(&w, 2, &youngest), 0);
    w.permits[2] = 2;
    assert_int_equal(tie(&w, 2, &youngest), 2);
    assert_int_equal(youngest, 2);
    end(&w);
}

/* A reader behind a writer that waits for the first one's share; the writer comes at that time. */
static void begin_behind_a_writer(small_world *w, int64_t writer_at)
{
    begin(w);
    assert_true(SHARED(w, 0, 0));
    assert_true(EXCLUSIVE(w, 1, 1));
    int64_t now = w->now;
    w->now = writer_at;
    assert_false(EXCLUSIVE(w, 2, 0));
    w->now = now + 1;
    assert_false(SHARED(w, 1, 0)); /* not while the writer waits */
    assert_false(EXCLUSIVE(w, 0, 1));
}

static void test_through_a_writer_that_holds_nothing(void **state)
{
    (void)state;
    small_world w;
    int youngest = -1;
    begin_behind_a_writer(&w, 1002);
    assert_int_equal(tie(&w, 0, &youngest), 3);
    assert_int_equal(youngest, 0);
    w.waits_for[2] = -1; /* the writer has not said that it waits: it may be gone */
    assert_int_equal(tie(&w, 0, &youngest), 0);
    end(&w);
}

/* By a clock that was set back, the writer in between came last; it would not help. */
static void test_the_youngest_is_one_that_others_wait_for(void **state)
{
    (void)state;
    small_world w;
    int youngest = -1;
    begin_behind_a_writer(&w, 9000);
    assert_int_equal(tie(&w, 0, &youngest), 3);
    assert_int_equal(youngest, 0);
    end(&w);
}

static void test_the_text_goes_around(void **state)
{
    (void)state;
    small_world w;
    char text[512];
    begin(&w);
    for (int i = 0; i < LOCKS; i++)
        assert_true(EXCLUSIVE(&w, i, i));
    for (int i = 0; i < LOCKS; i++)
        assert_false(EXCLUSIVE(&w, i, (i + 1) % LOCKS));
    struct waits_graph graph = graph_of(&w);
    assert_int_equal(waits_graph_mark(&graph, ticket_of(1, 2)), 3);
    snprintf(text, sizeof text, "what stood there before");
    waits_graph_describe(&graph, ticket_of(1, 2), text, sizeof text);
    assert_string_equal(text, "actor1 waits for c held by actor2; actor2 waits for a held by "
                              "actor0; actor0 waits for b held by actor1");
    char small[40];
    waits_graph_describe(&graph, ticket_of(1, 2), small, sizeof small);
    assert_true(strlen(small) < sizeof small);
    waits_graph_done(&graph);
    end(&w);
}

/* ---- Against a search: a node that waits for nothing gives back all it holds, in any order ----
 */

static bool leave_all(small_world *w, int actor)
{
    bool any = false;
    for (int i = 0; i < LOCKS; i++) {
        hf_leave leave = {.ticket = ticket_of(actor, i), .outcome = HF_OUTCOME_RELEASED};
        any |= record_step(&w->locks[i], &(hf_step){.leaves = &leave, .n_leaves = 1},
                           (hf_dbtime){w->now++}, 1);
    }
    return any;
}

/* Plays on until nothing moves; sets who then still waits. */
static void play_on(small_world *w, bool waits[ACTORS])
{
    for (bool moves = true; moves;) {
        moves = false;
        for (int i = 0; i < ACTORS; i++) {
            if (w->waits_for[i] >= 0 && is_held_by(w, i, w->waits_for[i]))
                w->waits_for[i] = -1;
            if (w->waits_for[i] < 0)
                moves |= leave_all(w, i);
        }
    }
    for (int i = 0; i < ACTORS; i++)
        waits[i] = w->waits_for[i] >= 0;
}

static void live(small_world *w, uint64_t *random)
{
    for (int i = 0; i < 12; i++) {
        int actor = (int)(next_random(random) % ACTORS), lock = (int)(next_random(random) % LOCKS);
        int32_t permits = 1 + (int32_t)(next_random(random) % 3);
        if (w->waits_for[actor] < 0 && !record_find(&w->locks[lock], ticket_of(actor, lock)))
            wants(w, actor, lock, permits, 3);
    }
}

static void test_what_is_stuck_is_what_never_moves(void **state)
{
    (void)state;
    uint64_t random = test_seed("test_waits_graph") | 1;
    size_t stuck = 0, deadlocks = 0;
    for (int round = 0; round < 20000; round++) {
        small_world w;
        bool waits[ACTORS];
        begin(&w);
        live(&w, &random);
        struct waits_graph graph = graph_of(&w);
        play_on(&w, waits);
        for (size_t i = 0; i < graph.n_nodes; i++) {
            int actor =
                (int)(graph.nodes[i].session.bytes[2] * 256 + graph.nodes[i].session.bytes[3]) -
                1000;
            assert_int_equal(graph.nodes[i].is_stuck, waits[actor]);
            stuck += waits[actor];
            deadlocks += waits_graph_mark(&graph, graph.nodes[i].wait.on.ticket) > 0;
        }
        waits_graph_done(&graph);
        end(&w);
    }
    assert_true(stuck > 1000 && deadlocks > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_and_one_who_looks_on),
        cmocka_unit_test(test_two_of_which_one_waits_outside),
        cmocka_unit_test(test_a_number_before_the_writer),
        cmocka_unit_test(test_nobody_is_stuck_behind_one_outside),
        cmocka_unit_test(test_through_a_writer_that_holds_nothing),
        cmocka_unit_test(test_the_youngest_is_one_that_others_wait_for),
        cmocka_unit_test(test_the_text_goes_around),
        cmocka_unit_test(test_what_is_stuck_is_what_never_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
