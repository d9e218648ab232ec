/* SPDX-License-Identifier: Apache-2.0 */
/* dog_cases.c: a lock that must be fed, on every store; run by main.c. */
#include "conformance/two_clients.h"

/* The next one has it soon, long before the lease of the loser could end, and is told why. */
static void loses_it(const char *name, const hf_lock_options *options, const char *why)
{
    static struct taker taker;
    hf_lock *lock = bed_acquire(one, name, options);
    hf_error err;
    taker_start(&taker, two, name, NULL);
    taker_join(&taker);
    assert_code(HF_OK, taker.code, &taker.err);
    assert_code(HF_LOST, hf_lock_check(lock, NULL, &err), &err);
    assert_contains(err.text, why);
    bed_previous(taker.lock, HF_OUTCOME_ABANDONED, "one@", hf_lock_token(lock));
    if (bed.can & HF_CAN_QUEUE)
        assert_string_equal(bed_last(taker.lock).reason, why);
    bed_release(taker.lock);
    hf_lock_close(lock);
}

static void test_who_does_not_feed_loses_the_lock_only(void **state)
{
    (void)state;
    const hf_lock_options dog = {.feed_ms = 300};
    hf_lock *other = bed_acquire(one, bed_name("other"), NULL);
    hf_error err;
    loses_it(bed_name("hungry"), &dog, "it was not fed for 300 ms");
    assert_code(HF_OK, hf_lock_check(other, NULL, &err), &err);
    bed_release(other);
}

static void test_who_holds_for_too_long_loses_the_lock(void **state)
{
    (void)state;
    const hf_lock_options dog = {.feed_ms = 60000, .max_hold_ms = 300};
    loses_it(bed_name("long"), &dog, "it was held for longer than 300 ms");
}

static void test_who_feeds_keeps_the_lock(void **state)
{
    (void)state;
    const hf_lock_options dog = {.feed_ms = 6000};
    const char *name = bed_name("fed");
    hf_lock *lock = bed_acquire(one, name, &dog), *other = NULL;
    hf_error err;
    int64_t until = bed_now_ms() + 7000;
    while (bed_now_ms() < until) {
        assert_code(HF_OK, hf_lock_feed(lock, &err), &err);
        bed_readable(hf_lock_fd(lock), 100);
    }
    assert_int_equal(bed_try(two, name, HF_EXCLUSIVE, &other), HF_HELD);
    bed_release(lock);
}

int run_dog_cases(void)
{
    const struct bed_case dog_cases[] = {
        CASE(test_who_does_not_feed_loses_the_lock_only),
        CASE(test_who_holds_for_too_long_loses_the_lock),
        CASE(test_who_feeds_keeps_the_lock),
    };
    return CASES(dog_cases);
}
