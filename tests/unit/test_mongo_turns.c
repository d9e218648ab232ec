/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_turns.c: whose turn it is among steps that may travel together, what is learned from
 * how long commands take, and what each step makes of how it was settled. No thread waits: the
 * linker leads what would wait here, where the test does what other threads would have done. */
#include "core/record.h"
#include "faults/mongo_answers.h"

#include <errno.h>

static mongo_store *store;
static mongo_batcher *batcher;
static hf_step_reply reply;
static hf_error err;

#define RECORD                                                                                     \
    "{'ok': 1, 'value': {'_id': 'name', 'limit': 1, 'token': 0, 'holders': [], 'queue': [],"       \
    " 'notify': ''}}"
#define LEFT "{'ok': 1, 'value': {'_id': 'name'}}"
#define REFUSED "{'ok': 0, 'code': 13}"

/* ---- What the linker leads here ---- */

static int (*in_the_meantime)(mongo_member *me); /* of a timed wait: what it returns */
static void (*until_done)(mongo_member *me);     /* of one that has no end */
static int n_waits, n_signals;
static struct timespec until;
static clockid_t clock_set;

int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                                  const struct timespec *time);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);

/* Whose it is. */
static mongo_member *member_of(pthread_cond_t *cond)
{
    return (mongo_member *)(void *)((char *)cond - offsetof(mongo_member, changed));
}

int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                                  const struct timespec *time)
{
    assert_ptr_equal(mutex, &batcher->mutex);
    n_waits++;
    clock_set = clock;
    until = *time;
    assert_non_null(in_the_meantime);
    return in_the_meantime(member_of(cond));
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    assert_ptr_equal(mutex, &batcher->mutex);
    assert_non_null(until_done);
    until_done(member_of(cond));
    return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    (void)cond;
    n_signals++;
    return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    assert_int_equal(clock, CLOCK_MONOTONIC);
    *out = (struct timespec){.tv_sec = 10, .tv_nsec = 900000000};
    return 0;
}

static int time_is_over(mongo_member *me)
{
    assert_int_equal(me->state, MEMBER_WAITS);
    return ETIMEDOUT;
}

/* ---- Steps ---- */

static int begin(void **state)
{
    (void)state;
    store = answers_open("");
    batcher = &store->queue->batcher;
    in_the_meantime = NULL;
    until_done = NULL;
    n_waits = n_signals = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    answers_close(store);
    return 0;
}

static const hf_leave leaving = {.outcome = HF_OUTCOME_RELEASED};
static const hf_step leave_step = {.leaves = &leaving, .n_leaves = 1};

static hf_code leave(void)
{
    return mongo_batcher_step(store, "name", &leave_step, NULL, &reply, &err);
}

static hf_code leave_in(int64_t ms)
{
    answers_give_slowly("findAndModify", LEFT, ms);
    return leave();
}

static hf_code enter(const char *answer)
{
    hf_record out;
    hf_enter in = {.entry = {.ticket = id_of(7), .session = id_of(1), .permits = 1},
                   .limit = 1,
                   .queue_max = HF_QUEUE_MAX};
    answers_give("findAndModify", answer);
    hf_code code = mongo_batcher_step(store, "name", &(hf_step){.enter = &in}, &out, &reply, &err);
    if (!code)
        record_done(&out);
    return code;
}

static bool any_seen(void)
{
    for (size_t i = 0; i < sizeof batcher->seen; i++)
        if (batcher->seen[i])
            return true;
    return false;
}

/* Others that wait, in line. */
static mongo_member others[40];

static void line_up(size_t n, const char *const *names)
{
    static char texts[40][24];
    batcher->first = NULL;
    for (size_t i = n; i > 0; i--) {
        mongo_member *each = &others[i - 1];
        snprintf(texts[i - 1], sizeof *texts, "o%02zu", i - 1);
        *each = (mongo_member){.name = names ? names[i - 1] : texts[i - 1],
                               .step = &leave_step,
                               .state = MEMBER_WAITS,
                               .next = batcher->first};
        batcher->first = each;
    }
    batcher->n_waiting = n;
}

/* ---- What is learned ---- */

#define MS ((int64_t)1000000)

static void test_few_are_four_at_first(void **state)
{
    (void)state;
    assert_int_equal(batcher->few, 4);
    assert_int_equal(batcher->best_ns, 0);
    assert_int_equal(batcher->n_in_flight, 0);
    assert_null(batcher->first);
    assert_false(any_seen());
}

static void test_while_commands_take_no_longer_there_are_more(void **state)
{
    (void)state;
    assert_int_equal(leave_in(10), HF_OK);
    assert_int_equal(batcher->best_ns, 10 * MS);
    assert_int_equal(batcher->few, 5);
    assert_int_equal(leave_in(20), HF_OK);
    assert_int_equal(batcher->best_ns, 10 * MS + 10 * MS / 1024);
    assert_int_equal(batcher->few, 6);
    assert_int_equal(leave_in(9), HF_OK);
    assert_int_equal(batcher->best_ns, 9 * MS);
    assert_int_equal(batcher->few, 7);
    batcher->few = 1023;
    assert_int_equal(leave_in(9), HF_OK);
    assert_int_equal(batcher->few, 1024);
    assert_int_equal(leave_in(9), HF_OK);
    assert_int_equal(batcher->few, 1024);
}

static void test_where_they_take_longer_there_are_half_as_many(void **state)
{
    (void)state;
    assert_int_equal(leave_in(10), HF_OK);
    batcher->few = 1024;
    assert_int_equal(leave_in(21), HF_OK);
    assert_int_equal(batcher->few, 512);
    batcher->few = 11;
    assert_int_equal(leave_in(21), HF_OK);
    assert_int_equal(batcher->few, 5);
    assert_int_equal(leave_in(21), HF_OK);
    assert_int_equal(batcher->few, 4);
    assert_int_equal(n_waits, 0);
}

/* Twice as long as at best, to the nanosecond. */
static void test_what_counts_as_longer(void **state)
{
    (void)state;
    batcher->best_ns = 1000; /* which is too little to fade */
    batcher->few = 100;
    leave_in(0);
    assert_int_equal(batcher->best_ns, 0);
    batcher->best_ns = 500 * MS; /* fades to 500.48828125 */
    leave_in(1000);
    assert_int_equal(batcher->few, 102);
    batcher->best_ns = MS;
    batcher->best_ns -= batcher->best_ns / 1024;
    leave_in(2);
    assert_int_equal(batcher->few, 51);
}

static void test_an_enter_shows_that_its_record_is_there(void **state)
{
    (void)state;
    assert_int_equal(enter(REFUSED), HF_DENIED);
    assert_int_equal(leave_in(0), HF_OK);
    assert_false(any_seen());
    assert_int_equal(enter(RECORD), HF_OK);
    assert_true(any_seen());
    assert_int_equal(batcher->best_ns, 0); /* it went alone */
}

static void test_errors_are_told_to_who_wants_them(void **state)
{
    (void)state;
    err.code = HF_FULL;
    assert_int_equal(leave_in(0), HF_OK);
    assert_int_equal(err.code, HF_FULL);
    assert_true(reply.confirmed);
    answers_give("findAndModify", REFUSED);
    assert_int_equal(mongo_batcher_step(store, "name", &leave_step, NULL, NULL, NULL), HF_DENIED);
    answers_give("findAndModify", REFUSED);
    assert_int_equal(leave(), HF_DENIED);
    assert_int_equal(err.code, HF_DENIED);
    assert_false(reply.confirmed);
}

/* ---- Turns ---- */

static void test_while_few_are_in_flight_nobody_waits(void **state)
{
    (void)state;
    batcher->n_in_flight = 3;
    assert_int_equal(leave_in(0), HF_OK);
    assert_int_equal(batcher->n_in_flight, 3);
    assert_int_equal(n_waits, 0);
}

static void test_further_ones_wait_for_a_fifth_of_a_second(void **state)
{
    (void)state;
    in_the_meantime = time_is_over;
    batcher->n_in_flight = 4;
    assert_int_equal(leave_in(0), HF_OK);
    assert_int_equal(n_waits, 1);
    assert_int_equal(until.tv_sec, 11);
    assert_int_equal(until.tv_nsec, 100000000);
    assert_int_equal(clock_set, CLOCK_MONOTONIC);
    assert_null(batcher->first);
    assert_int_equal(batcher->n_waiting, 0);
    assert_int_equal(batcher->n_in_flight, 4);
}

static int woken_for_nothing(mongo_member *me)
{
    (void)me;
    return n_waits < 3 ? 0 : ETIMEDOUT;
}

static void test_one_that_is_woken_for_nothing_waits_on(void **state)
{
    (void)state;
    in_the_meantime = woken_for_nothing;
    batcher->n_in_flight = 4;
    assert_int_equal(leave_in(0), HF_OK);
    assert_int_equal(n_waits, 3);
}

/* Though few are in flight: they keep their order. */
static void test_behind_others_one_waits(void **state)
{
    (void)state;
    in_the_meantime = time_is_over;
    line_up(1, (const char *const[]){"name"});
    assert_int_equal(leave_in(0), HF_OK);
    assert_int_equal(n_waits, 1);
    assert_int_equal(others[0].state, MEMBER_LEADS); /* it was its turn */
    assert_int_equal(n_signals, 1);
    assert_ptr_equal(batcher->first, &others[0]);
    assert_int_equal(batcher->n_waiting, 1);
}

static void test_who_leads_already_is_not_called_again(void **state)
{
    (void)state;
    in_the_meantime = time_is_over;
    line_up(1, NULL);
    others[0].state = MEMBER_LEADS;
    assert_int_equal(leave_in(0), HF_OK);
    assert_int_equal(n_signals, 0);
    assert_null(strstr(answers_last("findAndModify"), "o00")); /* nor taken along */
    assert_ptr_equal(batcher->first, &others[0]);
}

static void test_a_full_load_needs_not_wait(void **state)
{
    (void)state;
    in_the_meantime = time_is_over;
    batcher->n_in_flight = 4;
    line_up(14, NULL); /* the fifteenth is this one */
    answers_give_always("update", REFUSED);
    leave();
    assert_int_equal(n_signals, 15); /* each of those that went */
    assert_int_equal(others[0].state, MEMBER_DONE);
    n_signals = 0;
    batcher->few = 4;
    line_up(15, NULL);
    leave();
    assert_int_equal(others[0].state, MEMBER_LEADS);
    assert_int_equal(others[1].state, MEMBER_DONE);
}

static void test_32_go_at_once(void **state)
{
    (void)state;
    char last[24];
    in_the_meantime = time_is_over;
    batcher->n_in_flight = 1000;
    batcher->few = 0;
    line_up(40, NULL);
    others[0].state = MEMBER_LEADS;
    others[1].name = "name";
    answers_give("update", REFUSED);
    leave();
    for (int i = 2; i < 33; i++)
        assert_int_equal(others[i].state, MEMBER_DONE);
    for (int i = 33; i < 40; i++)
        assert_int_equal(others[i].state, MEMBER_WAITS);
    snprintf(last, sizeof last, "'o%02d'", 32);
    assert_non_null(strstr(answers_last("update"), last));
    assert_null(strstr(answers_last("update"), "'o33'"));
    assert_int_equal(batcher->n_waiting, 9);
    assert_ptr_equal(batcher->first, &others[0]);
    assert_ptr_equal(others[0].next, &others[1]);
    assert_ptr_equal(others[1].next, &others[33]);
    assert_int_equal(batcher->n_in_flight, 1000);
}

/* As the command is sent. */
static mongo_member_state state_when_sent;
static size_t in_flight_when_sent;

static void note_state(const char *where, const bson_t *command, const bson_t *opts)
{
    (void)where, (void)command, (void)opts;
    state_when_sent = others[0].state;
    in_flight_when_sent = batcher->n_in_flight;
}

static void test_who_is_taken_along_waits_for_its_end(void **state)
{
    (void)state;
    in_the_meantime = time_is_over;
    batcher->n_in_flight = 4;
    line_up(1, NULL);
    answers_give("update", REFUSED);
    answers_tell(note_state);
    assert_int_equal(leave(), HF_DENIED);
    answers_tell(NULL);
    assert_int_equal(state_when_sent, MEMBER_IN_BATCH);
    assert_int_equal(in_flight_when_sent, 6);
    assert_int_equal(others[0].code, HF_DENIED);
}

static int more_may_be_sent(mongo_member *me)
{
    (void)me;
    batcher->few = 2;
    return ETIMEDOUT;
}

static void test_the_next_is_called_before_a_command_is_sent(void **state)
{
    (void)state;
    in_the_meantime = more_may_be_sent;
    batcher->few = 0;
    line_up(1, (const char *const[]){"name"});
    answers_tell(note_state);
    assert_int_equal(leave_in(0), HF_OK);
    answers_tell(NULL);
    assert_int_equal(state_when_sent, MEMBER_LEADS);
    assert_int_equal(in_flight_when_sent, 1);
    assert_int_equal(n_signals, 1);
}

static int no_more_may_be_sent(mongo_member *me)
{
    (void)me;
    batcher->few = 1;
    return ETIMEDOUT;
}

static void test_or_when_it_comes_back(void **state)
{
    (void)state;
    in_the_meantime = no_more_may_be_sent;
    batcher->few = 0;
    line_up(1, (const char *const[]){"name"});
    answers_tell(note_state);
    assert_int_equal(leave_in(0), HF_OK);
    answers_tell(NULL);
    assert_int_equal(state_when_sent, MEMBER_WAITS);
    assert_int_equal(others[0].state, MEMBER_LEADS);
}

/* ---- What came of it ---- */

static mongo_member_state settled_as;

static void take_out(mongo_member *me)
{
    mongo_member **at = &batcher->first;
    while (*at != me)
        at = &(*at)->next;
    *at = me->next;
    batcher->n_waiting--;
}

static void settle(mongo_member *me)
{
    me->state = settled_as;
    me->code = settled_as == MEMBER_DONE ? HF_FULL : HF_OK;
    me->err.code = me->code;
    me->reply.confirmed = true;
}

/* Another takes it along, and settles it before it looks again. */
static int taken_along(mongo_member *me)
{
    take_out(me);
    settle(me);
    return 0;
}

/* Another takes it along, and settles it while it waits for that. */
static int taken_along_slowly(mongo_member *me)
{
    take_out(me);
    me->state = MEMBER_IN_BATCH;
    until_done = settle;
    return 0;
}

static int told_to_lead(mongo_member *me)
{
    me->state = MEMBER_LEADS;
    return 0;
}

static void test_what_another_has_settled_is_done(void **state)
{
    (void)state;
    batcher->n_in_flight = 4;
    settled_as = MEMBER_DONE;
    in_the_meantime = taken_along;
    assert_int_equal(leave(), HF_FULL);
    assert_int_equal(err.code, HF_FULL);
    assert_true(reply.confirmed);
    in_the_meantime = taken_along_slowly;
    assert_int_equal(leave(), HF_FULL);
    assert_int_equal(answers_sent("findAndModify"), 0);
    assert_int_equal(n_waits, 2);
}

static void test_who_is_told_to_lead_leads(void **state)
{
    (void)state;
    batcher->n_in_flight = 4;
    in_the_meantime = told_to_lead;
    assert_int_equal(leave_in(7), HF_OK);
    assert_int_equal(batcher->best_ns, 7 * MS);
    assert_null(batcher->first);
    assert_int_equal(batcher->n_waiting, 0);
}

static hf_code settled(mongo_member_state as, const char *answer)
{
    settled_as = as;
    in_the_meantime = taken_along;
    batcher->n_in_flight = 4;
    answers_give("findAndModify", answer);
    return leave();
}

/* What may have been done before stays unknown. */
static void test_what_was_not_done_goes_alone(void **state)
{
    (void)state;
    assert_int_equal(settled(MEMBER_ALONE, LEFT), HF_OK);
    assert_int_equal(settled(MEMBER_ALONE, REFUSED), HF_DENIED);
    assert_int_equal(settled(MEMBER_AGAIN, LEFT), HF_OK);
    assert_int_equal(settled(MEMBER_AGAIN, REFUSED), HF_UNKNOWN);
    assert_int_equal(err.code, HF_UNKNOWN);
    assert_non_null(strstr(err.text, "releasing \"name\" failed"));
    answers_give("find", "{'ok': 1, 'cursor': {'firstBatch': [{'_id': 'name', 'holders': 5}]}}");
    assert_int_equal(settled(MEMBER_AGAIN, "{'ok': 0, 'code': 4}"), HF_SHAPE);
    assert_int_equal(err.code, HF_SHAPE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_few_are_four_at_first),
        TEST(test_while_commands_take_no_longer_there_are_more),
        TEST(test_where_they_take_longer_there_are_half_as_many),
        TEST(test_what_counts_as_longer),
        TEST(test_an_enter_shows_that_its_record_is_there),
        TEST(test_errors_are_told_to_who_wants_them),
        TEST(test_while_few_are_in_flight_nobody_waits),
        TEST(test_further_ones_wait_for_a_fifth_of_a_second),
        TEST(test_one_that_is_woken_for_nothing_waits_on),
        TEST(test_behind_others_one_waits),
        TEST(test_who_leads_already_is_not_called_again),
        TEST(test_a_full_load_needs_not_wait),
        TEST(test_32_go_at_once),
        TEST(test_who_is_taken_along_waits_for_its_end),
        TEST(test_the_next_is_called_before_a_command_is_sent),
        TEST(test_or_when_it_comes_back),
        TEST(test_what_another_has_settled_is_done),
        TEST(test_who_is_told_to_lead_leads),
        TEST(test_what_was_not_done_goes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
