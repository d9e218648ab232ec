/* SPDX-License-Identifier: Apache-2.0 */
/* test_polling.c: how one waits where there is no queue: when it comes back, and what its last try
 * finds. A store that answers as the test says, and a clock that the test moves. */
#include "core/record.h"
#include "faults/mongo_answers.h"
#include "support/inside.h"

#define WAIT_MS 5000
#define BATCH(doc) "{'ok': 1, 'cursor': {'firstBatch': [" doc "]}}"
#define IN_THE_WAY "{'ok': 0, 'code': 11000, 'keyPattern': {'_id': 1}}"
#define TICKET "6553f1000707070707070707" /* the first, by the clock and the chance of the test */
#define DATED "'updated': {'$date': {'$numberLong': '5'}}"

static mongo_store *store;
static hf_client *client;
static struct attempt attempt;
static const hf_lock_options bounded = {.wait_ms = WAIT_MS};

/* Another program holds the lock, and lets nobody know when it has gone. */
static void open_on(const char *keys)
{
    hf_error err;
    store = answers_open(keys);
    const hf_options options = {.ttl_ms = 6000, .env = store->config.env};
    answers_give_always("delete", "{'ok': 1, 'n': 1}"); /* what it gives back */
    answers_give("listIndexes", BATCH("{'key': {'updated': 1}, 'expireAfterSeconds': 60}"));
    answers_give("find", BATCH(""));
    assert_int_equal(hf_open_on(&store->base, &options, &client, &err), HF_OK);
    client->tickers.is_threaded = false;
    attempt_init(&attempt, client, "a", &bounded);
}

static void close_it(void)
{
    attempt_done(&attempt);
    hf_lock_close(attempt.request.lock);
    hf_close(client);
}

static void give_held(void)
{
    answers_give("findAndModify", IN_THE_WAY);
    answers_give("aggregate", BATCH("{'_id': 'a', 'acquirer': 'them', " DATED ", 'hf_left': 9}"));
}

/* The next step of the attempt, that long after the last one; how long it wants to wait then. */
static int64_t step_after(int64_t ms)
{
    answers_pass(ms);
    hf_mono due = attempt_step(&attempt, client_now(client));
    if (attempt.state == ATTEMPT_BUSY) /* it says when in its next step, which does nothing else */
        due = attempt_step(&attempt, client_now(client));
    return mono_ms_until(due, client_now(client));
}

/* Up to half of it is left to chance. */
static void assert_about(int64_t ms, int64_t expected)
{
    assert_in_range(ms, expected / 2, expected);
}

static void test_with_notices_it_comes_back_twice_a_second(void **state)
{
    (void)state;
    open_on("&hfProtocol=ttl&hfPollMS=20");
    give_held();
    assert_about(step_after(0), 500);
    assert_int_equal(attempt.state, ATTEMPT_BUSY);
    close_it();
}

static void test_without_notices_it_comes_back_as_the_store_says(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        int64_t ms;
    } polls[] = {{"&hfProtocol=ttl&hfPollMS=20", 20}, {"&hfProtocol=ttl&hfPollMS=2000", 2000}};
    for (size_t i = 0; i < 2; i++) {
        open_on(polls[i].keys);
        client->hold->listener.is_polling = true;
        give_held();
        assert_about(step_after(0), polls[i].ms);
        close_it();
    }
}

static void test_it_sends_again_when_it_comes_back(void **state)
{
    (void)state;
    open_on("&hfProtocol=ttl");
    give_held();
    int64_t ms = step_after(0);
    step_after(ms - 1);
    assert_int_equal(answers_sent("findAndModify"), 1);
    give_held();
    step_after(1);
    assert_int_equal(answers_sent("findAndModify"), 2);
    close_it();
}

static void test_the_last_try_finds_what_came_free(void **state)
{
    (void)state;
    open_on("&hfProtocol=ttl");
    give_held();
    step_after(0);
    answers_give("findAndModify", "{'ok': 1, 'value': {'_id': 'a', 'ticket': {'$oid': "
                                  "'" TICKET "'}, 'ttl_ms': 6000, " DATED "}}");
    step_after(WAIT_MS);
    assert_int_equal(answers_sent("findAndModify"), 2);
    assert_int_equal(attempt.state, ATTEMPT_ENDED);
    assert_int_equal(attempt.code, HF_OK);
    close_it();
}

static void test_after_the_last_try_its_time_is_over(void **state)
{
    (void)state;
    open_on("&hfProtocol=ttl");
    give_held();
    step_after(0);
    give_held();
    step_after(WAIT_MS);
    assert_int_equal(attempt.state, ATTEMPT_ENDED);
    assert_int_equal(attempt.code, HF_TIMEOUT);
    assert_int_equal(answers_sent("findAndModify"), 2);
    close_it();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_with_notices_it_comes_back_twice_a_second),
        cmocka_unit_test(test_without_notices_it_comes_back_as_the_store_says),
        cmocka_unit_test(test_it_sends_again_when_it_comes_back),
        cmocka_unit_test(test_the_last_try_finds_what_came_free),
        cmocka_unit_test(test_after_the_last_try_its_time_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
