/* SPDX-License-Identifier: Apache-2.0 */
/* test_asking.c: in a store without a queue, which says when it is asked how the last holder left:
 * when the client asks, and what it does with the answer. Run by ctest. */
#include "client/client_bed.h"

#include "core/error.h"
#include "core/id.h"

#define PERIOD_MS 60000
#define NOW_MS 1234567 /* by the store's clock; the 20th minute */

static hf_client *client;
static faulty *f;
static hf_store_ops asked_ops;
static hf_error err;
static hf_lock *lock;

/* What the store is asked, and says. */
static struct {
    int n;
    hf_code codes[4]; /* of each question */
    hf_id tickets[4];
    hf_mono until, now;
    int64_t period_ms;
    char name[80], who[80];
    hf_last_mark last;
} said;

static hf_code say_previous(hf_store *store, const char *name, const hf_successor *asks,
                            hf_last_mark *out, hf_dbtime *now, hf_error *why)
{
    (void)store;
    said.tickets[said.n] = asks->holder->ticket;
    said.until = asks->until;
    said.now = client_now(client);
    said.period_ms = asks->period_ms;
    snprintf(said.name, sizeof said.name, "%s", name);
    snprintf(said.who, sizeof said.who, "%s", asks->who);
    *out = said.last;
    *now = (hf_dbtime){NOW_MS};
    hf_code code = said.codes[said.n++];
    return code ? error_set(why, code, "it does not say") : HF_OK;
}

static int begin(void **state)
{
    (void)state;
    memset(&said, 0, sizeof said);
    f = faulty_open("memory:asking", NULL, &client);
    asked_ops = *f->base.ops;
    asked_ops.previous = say_previous;
    f->base.ops = &asked_ops;
    f->base.can |= HF_CAN_LAST;
    faulty_end_queue(f);
    return 0;
}

static int end(void **state)
{
    (void)state;
    hf_close(client);
    return 0;
}

static hf_code acquire(const hf_lock_options *options)
{
    return hf_lock_acquire(client, "x", options, &lock, &err);
}

static const hf_lock_options once = {.period_ms = PERIOD_MS, .wait_ms = SOON_MS};

static void set_done(int64_t start_ms)
{
    said.last = (hf_last_mark){
        .outcome = HF_OUTCOME_RELEASED,
        .done = {.is_known = true, .period = {{start_ms}, {start_ms + PERIOD_MS}}, .who = "it"}};
}

/* The period is that of the store's answer. */
static void test_once_per_period_it_asks_before_it_believes(void **state)
{
    (void)state;
    set_done(1200000);
    assert_int_equal(acquire(&once), HF_OK);
    assert_true(hf_lock_has_run(lock));
    assert_int_equal(said.n, 1);
    assert_int_equal(said.period_ms, PERIOD_MS);
    assert_string_equal(said.name, "x");
    assert_non_null(strchr(said.who, '@'));
    assert_true(said.until.ns > said.now.ns);
    hf_last last;
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
    assert_string_equal(last.done.who, "it");
    assert_int_equal(said.n, 1);
    hf_lock_close(lock);
    set_done(1140000);
    assert_int_equal(acquire(&once), HF_OK);
    assert_false(hf_lock_has_run(lock));
    hf_lock_close(lock);
}

static void test_what_is_not_said_is_asked_again(void **state)
{
    (void)state;
    said.codes[0] = said.codes[1] = HF_UNREACHABLE;
    assert_int_equal(acquire(&once), HF_OK);
    assert_int_equal(said.n, 3);
    assert_true(id_equal(said.tickets[0], said.tickets[2]));
    hf_lock_close(lock);
}

static void test_without_the_right_the_lock_is_given_back(void **state)
{
    (void)state;
    said.codes[0] = HF_DENIED;
    assert_int_equal(acquire(&once), HF_DENIED);
    assert_string_equal(err.text, "it does not say");
    const hf_lock_options now = {.wait_ms = HF_TRY};
    assert_int_equal(acquire(&now), HF_OK);
    hf_lock_close(lock);
}

static void test_without_a_period_it_asks_when_its_holder_does(void **state)
{
    (void)state;
    hf_last last;
    said.last = (hf_last_mark){.outcome = HF_OUTCOME_ABANDONED, .who = "it"};
    said.codes[0] = HF_UNREACHABLE;
    assert_int_equal(acquire(NULL), HF_OK);
    assert_int_equal(said.n, 0);
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_UNREACHABLE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hf_lock_previous(lock, &last, &err), HF_OK);
        assert_int_equal(last.outcome, HF_OUTCOME_ABANDONED);
    }
    assert_int_equal(said.n, 2);
    assert_int_equal(said.period_ms, 0);
    assert_true(said.until.ns > said.now.ns);
    hf_lock_close(lock);
}

static void test_who_does_not_hold_any_more_does_not_ask(void **state)
{
    (void)state;
    hf_last last;
    assert_int_equal(acquire(NULL), HF_OK);
    assert_int_equal(hf_lock_release(lock, &err), HF_OK);
    assert_int_equal(hf_lock_previous(lock, &last, &err), HF_LOST);
    assert_int_equal(said.n, 0);
    hf_lock_close(lock);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_once_per_period_it_asks_before_it_believes),
        TEST(test_what_is_not_said_is_asked_again),
        TEST(test_without_the_right_the_lock_is_given_back),
        TEST(test_without_a_period_it_asks_when_its_holder_does),
        TEST(test_who_does_not_hold_any_more_does_not_ask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
