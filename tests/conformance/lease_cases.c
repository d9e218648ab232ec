/* SPDX-License-Identifier: Apache-2.0 */
/* lease_cases.c: locks that an id holds and no process, on every store; run by main.c. */
#include "conformance/leases.h"
#include "core/record.h"
#include "support/inside.h"

#include <stdatomic.h>

static void test_any_client_renews_and_releases(void **state)
{
    (void)state;
    const char *name = bed_name("lease any");
    hf_lease lease, renewed;
    hf_error err;
    take(one, name, NULL, &lease);
    assert_held(one, name);
    assert_held(two, name);
    assert_code(HF_OK, hf_lease_renew(two, lease.id, &renewed, &err), &err);
    assert_int_equal(renewed.token, lease.token);
    assert_string_equal(renewed.id, lease.id);
    assert_in_range(renewed.left_ms, 1, 5000);
    assert_code(HF_OK, hf_lease_renew(two, renewed.id, &renewed, &err), &err); /* in its place */
    assert_string_equal(renewed.id, lease.id);
    release(two, &lease);
    release(one, &lease); /* to repeat it is harmless */
    assert_code(HF_LOST, hf_lease_renew(one, lease.id, NULL, &err), &err);
    hf_lock *lock = bed_acquire(two, name, NULL);
    bed_rises(lease.token, hf_lock_token(lock));
    bed_previous(lock, HF_OUTCOME_RELEASED, "one@", lease.token);
    bed_release(lock);
}

static bool see_owner(void *ctx, const hf_lock_info *info)
{
    bool *is_seen = ctx;
    for (size_t i = 0; i < info->n_holders; i++)
        *is_seen |= strcmp(info->holders[i].who, "night job@10.0.0.7") == 0;
    return true;
}

static void test_it_outlives_who_took_it(void **state)
{
    (void)state;
    const char *name = bed_name("lease outlives");
    const hf_lease_options options = {.owner = "night job", .host = "10.0.0.7"};
    hf_client *maker = bed_client("maker", 5000);
    hf_lease lease;
    hf_error err;
    bool is_seen = false;
    take(maker, name, &options, &lease);
    hf_close(maker);
    assert_held(two, name);
    assert_code(HF_OK, hf_show(two, name, see_owner, &is_seen, &err), &err);
    assert_true(is_seen);
    assert_code(HF_OK, hf_lease_renew(two, lease.id, NULL, &err), &err);
    release(two, &lease);
    assert_free(one, name);
}

static void test_unless_renewed_it_ends(void **state)
{
    (void)state;
    const char *name = bed_name("lease ends");
    const hf_lease_options brief = {.ttl_ms = BED_TTL};
    hf_lease lease;
    hf_error err;
    take(one, name, &brief, &lease);
    int64_t began = bed_now_ms(), began_idle = idle_ms();
    hf_lock *lock = bed_acquire(two, name, NULL);
    assert_true(bed_now_ms() - began >= lease.left_ms - 100);
    assert_true(idle_ms() - began_idle <= bed_takeover_ms());
    bed_previous(lock, HF_OUTCOME_ABANDONED, "one@", lease.token);
    assert_code(HF_LOST, hf_lease_renew(one, lease.id, NULL, &err), &err);
    bed_release(lock);
    assert_int_not_equal(hf_lease_release(one, lease.id, &err), HF_HELD);
}

static void test_a_lost_one_is_not_released(void **state)
{
    (void)state;
    const char *name = bed_name("lease lost");
    const hf_lease_options brief = {.ttl_ms = BED_TTL};
    hf_lease lease;
    hf_error err;
    take(one, name, &brief, &lease);
    hf_lock *lock = bed_acquire(two, name, NULL);
    assert_code(HF_LOST, hf_lease_release(one, lease.id, &err), &err);
    bed_release(lock);
}

static void test_one_that_nobody_took_out_is_left_at_once(void **state)
{
    (void)state;
    const char *name = bed_name("lease over");
    hf_session_state seen;
    hf_store *store = bed_store();
    hf_record record;
    lease_ids ids;
    hf_lease lease;
    hf_error err;
    take(one, name, NULL, &lease);
    assert_code(HF_OK, lease_id_read(lease.id, &ids, &err), &err);
    assert_code(HF_OK, store->ops->sessions_look(store, &ids.session, 1, -1, &seen, &err), &err);
    assert_code(HF_OK, store->ops->session_mark(store, &seen, &err), &err);
    assert_code(HF_LOST, hf_lease_release(one, lease.id, &err), &err);
    bed_look(store, name, &record);
    assert_int_equal(record.holders, 0);
    assert_int_equal(record.last.outcome, HF_OUTCOME_ABANDONED);
    assert_string_not_equal(record.last.who, "");
    record_done(&record);
    store->ops->close(store);
}

static void test_the_same_key_finds_it(void **state)
{
    (void)state;
    const char *name = bed_name("lease key");
    const hf_lease_options keyed = {.key = "order 4711"},
                           other = {.key = "order 4712", .lock.wait_ms = HF_TRY};
    hf_lease lease, again;
    hf_error err;
    take(one, name, &keyed, &lease);
    assert_false(lease.was_there);
    take(two, name, &keyed, &again);
    assert_true(again.was_there);
    assert_string_equal(again.id, lease.id);
    assert_int_equal(again.token, lease.token);
    assert_code(HF_HELD, hf_lease_acquire(two, name, &other, &again, &err), &err);
    release(one, &lease);
    assert_code(HF_LOST, hf_lease_acquire(two, name, &keyed, &again, &err), &err);
    assert_contains(err.text, "another key");
    assert_free(two, name);
}

/* The secret is right, the name is another: that is another lease, which there is not. */
static void test_an_id_with_another_name_ends_nothing(void **state)
{
    (void)state;
    const char *name = bed_name("lease name");
    char id[HF_LEASE_ID_SIZE + 8];
    hf_lease lease;
    hf_error err;
    take(one, name, NULL, &lease);
    snprintf(id, sizeof id, "%.33sother", lease.id);
    assert_code(HF_LOST, hf_lease_renew(two, id, NULL, &err), &err);
    assert_code(HF_OK, hf_lease_release(two, id, &err), &err);
    assert_code(HF_OK, hf_lease_renew(two, lease.id, NULL, &err), &err);
    release(one, &lease);
    assert_free(two, name);
}

static void refuse_repeat(const char *name, hf_lease_options other, const char *word)
{
    hf_lease again;
    hf_error err;
    other.key = "order 1";
    assert_code(HF_KEY_REUSED, hf_lease_acquire(two, name, &other, &again, &err), &err);
    assert_contains(err.text, word);
}

static void test_a_key_is_for_one_request(void **state)
{
    (void)state;
    const char *name = bed_name("lease body");
    const hf_lease_options made = {
        .key = "order 1", .ttl_ms = 4000, .owner = "shop", .lock.why = "w", .lock.mode = HF_SHARED};
    hf_lease_options other = made;
    hf_lease lease, again;
    take(one, name, &made, &lease);
    other.ttl_ms = 5000;
    refuse_repeat(name, other, "ttl");
    other = made;
    other.owner = "baker";
    refuse_repeat(name, other, "owner");
    other = made;
    other.lock.why = "v";
    refuse_repeat(name, other, "reason");
    other = made;
    other.lock.mode = HF_EXCLUSIVE;
    refuse_repeat(name, other, "mode");
    take(two, name, &made, &again);
    assert_string_equal(again.id, lease.id);
    const hf_lease_options what_must_be_said = {.key = made.key, .lock.mode = made.lock.mode};
    take(two, name, &what_must_be_said, &again);
    assert_string_equal(again.id, lease.id);
    other = made;
    other.host = "elsewhere"; /* a repeat may come from there */
    take(two, name, &other, &again);
    assert_string_equal(again.id, lease.id);
    release(one, &lease);
    assert_free(two, name);
}

static void test_a_key_does_not_outlive_a_break(void **state)
{
    (void)state;
    const char *name = bed_name("lease forced");
    const hf_lease_options keyed = {.key = "order 2"};
    const hf_break_options now = {.reason = "stuck", .force = true};
    hf_lease lease, again;
    hf_error err;
    take(one, name, &keyed, &lease);
    assert_code(HF_OK, hf_break(two, name, &now, &err), &err);
    assert_code(HF_LOST, hf_lease_acquire(one, name, &keyed, &again, &err), &err);
    assert_contains(err.text, "stuck");
    assert_free(two, name);
    assert_code(HF_LOST, hf_lease_acquire(one, name, &keyed, &again, &err), &err);
}

static struct caller {
    hf_client *client;
    const char *name;
    hf_lease_options options;
    pthread_t thread;
    hf_lease lease;
    hf_code code;
    hf_error err;
} callers[2];

static void *call(void *arg)
{
    struct caller *c = arg;
    c->code = hf_lease_acquire(c->client, c->name, &c->options, &c->lease, &c->err);
    return NULL;
}

static void check_two_that_wait(const char *name, hf_lease_options options)
{
    hf_lock *lock = bed_acquire(one, name, NULL);
    hf_client *clients[] = {one, two};
    hf_record record;
    hf_store *store = bed_store();
    for (int i = 0; i < 2; i++) {
        callers[i] = (struct caller){.client = clients[i], .name = name, .options = options};
        pthread_create(&callers[i].thread, NULL, call, &callers[i]);
        bed_wait_queued(one, name, (size_t)i + 1);
    }
    bed_release(lock);
    for (int i = 0; i < 2; i++)
        pthread_join(callers[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        assert_code(HF_OK, callers[i].code, &callers[i].err);
    assert_string_equal(callers[0].lease.id, callers[1].lease.id);
    assert_int_equal(callers[0].lease.token, callers[1].lease.token);
    bed_wait_queued(one, name, 0);
    bed_look(store, name, &record);
    assert_int_equal(record.holders, 1);
    record_done(&record);
    store->ops->close(store);
    release(one, &callers[0].lease);
    assert_free(two, name);
}

static void test_two_that_wait_with_one_key_have_one_lease(void **state)
{
    (void)state;
    hf_lease_options exclusive = {.key = "k"}, shared = {.key = "k", .lock.mode = HF_SHARED};
    check_two_that_wait(bed_name("lease two"), exclusive);
    check_two_that_wait(bed_name("lease two shared"), shared);
}

static struct asker {
    const char *name;
    hf_lease lease;
    hf_code code;
    hf_error err;
} asker;

static void *ask(void *arg)
{
    struct asker *a = arg;
    a->code = hf_lease_acquire(two, a->name, NULL, &a->lease, &a->err);
    return NULL;
}

static void test_it_waits_in_line_and_keeps_others_waiting(void **state)
{
    (void)state;
    const char *name = bed_name("lease waits");
    static struct taker next, next_here;
    pthread_t thread;
    hf_lock *lock = bed_acquire(one, name, NULL);
    asker = (struct asker){.name = name};
    pthread_create(&thread, NULL, ask, &asker);
    bed_wait_queued(one, name, 1);
    taker_start(&next, one, name, NULL);
    taker_start(&next_here, two, name, NULL);
    bed_wait_queued(one, name, 2);
    int64_t token = hf_lock_token(lock);
    bed_release(lock);
    pthread_join(thread, NULL);
    assert_code(HF_OK, asker.code, &asker.err);
    bed_rises(token, asker.lease.token);
    assert_held(one, name);
    release(one, &asker.lease);
    taker_join(&next);
    bed_rises(asker.lease.token, hf_lock_token(next.lock));
    bed_release(next.lock);
    taker_join(&next_here);
    bed_release(next_here.lock);
}

static void test_what_is_broken_is_not_renewed(void **state)
{
    (void)state;
    const char *name = bed_name("lease broken");
    const hf_lease_options brief = {.ttl_ms = BED_TTL};
    const hf_break_options why = {.reason = "out of hand"};
    hf_lease lease;
    hf_error err;
    take(one, name, &brief, &lease);
    assert_code(HF_OK, hf_break(two, name, &why, &err), &err);
    hf_code code;
    do
        code = hf_lease_renew(one, lease.id, NULL, &err);
    while (code == HF_UNKNOWN || code == HF_UNREACHABLE); /* a slow machine: no answer in time */
    assert_code(HF_LOST, code, &err);
    assert_free(two, name);
}

static bool note_last(void *ctx, const hf_lock_info *info)
{
    hf_last *last = ctx;
    *last = info->last;
    assert_string_equal(info->last.reason, "broken by ann: out of hand");
    return true;
}

static bool is_refused(void *id)
{
    hf_error err;
    return hf_lease_renew(one, id, NULL, &err) == HF_LOST;
}

/* Its owner stops as it was asked to, but what was broken is not its own to release. */
static void test_a_release_of_what_is_broken_says_so(void **state)
{
    (void)state;
    static struct breaker b;
    b = (struct breaker){.client = two,
                         .name = bed_name("lease given up"),
                         .options = {.reason = "out of hand", .by = "ann"}};
    const hf_lease_options minute = {.ttl_ms = 60000};
    hf_lease lease;
    hf_last last;
    hf_error err;
    take(one, b.name, &minute, &lease);
    breaker_start(&b);
    assert_true(bed_until(BED_SOON, is_refused, lease.id));
    assert_code(HF_LOST, hf_lease_release(one, lease.id, &err), &err);
    assert_contains(err.text, "broken by ann: out of hand");
    breaker_join(&b);
    assert_code(HF_OK, hf_show(two, b.name, note_last, &last, &err), &err);
    assert_int_equal(last.outcome, HF_OUTCOME_ABANDONED);
    assert_free(two, b.name);
}

static void test_shared_leases_stand_beside_each_other(void **state)
{
    (void)state;
    const char *name = bed_name("lease shared");
    const hf_lease_options shared = {.lock.mode = HF_SHARED};
    hf_lease first, second;
    take(one, name, &shared, &first);
    take(one, name, &shared, &second);
    assert_string_not_equal(first.id, second.id);
    assert_held(two, name);
    release(two, &first);
    assert_held(two, name);
    release(two, &second);
    assert_free(two, name);
}

static void test_names_of_any_bytes(void **state)
{
    (void)state;
    char name[300];
    snprintf(name, sizeof name, "%s ~/\xc3\xa9?&%%", bed_name("lease bytes"));
    hf_lease lease;
    take(one, name, NULL, &lease);
    assert_null(strpbrk(lease.id, " /?&%\xc3"));
    release(two, &lease);
    assert_free(one, name);
}

static void test_what_is_no_lease(void **state)
{
    (void)state;
    static const char *const ids[] = {"",
                                      "x",
                                      "0123456789abcdef0123456789abcdef",
                                      "0123456789abcdef0123456789abcdef-",
                                      "0123456789abcdef0123456789abcdeg-a",
                                      "0123456789abcdef0123456789abcdef-a b",
                                      "0123456789abcdef0123456789abcdef-~0",
                                      "0123456789abcdef0123456789abcdef-~00"};
    hf_error err;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        assert_code(HF_INVALID, hf_lease_renew(one, ids[i], NULL, &err), &err);
        assert_code(HF_INVALID, hf_lease_release(one, ids[i], &err), &err);
    }
    const char *unknown = "0123456789abcdef0123456789abcdef-never";
    assert_code(HF_LOST, hf_lease_renew(one, unknown, NULL, &err), &err);
    assert_code(HF_OK, hf_lease_release(one, unknown, &err), &err);
    hf_lease lease;
    const hf_lease_options fed = {.lock.feed_ms = 10}, endless = {.ttl_ms = 3600001};
    assert_code(HF_INVALID, hf_lease_acquire(one, "a", &fed, &lease, &err), &err);
    assert_code(HF_INVALID, hf_lease_acquire(one, "a", &endless, &lease, &err), &err);
}

/* ---- Without a thread for each ---- */

enum { MANY = 100 };

static struct crowd {
    hf_client *client;
    atomic_int had, failed, inside, together;
    _Atomic hf_code last;
    hf_lease_wait *waits[MANY];
} crowd;

static void let_go(void *ctx, const hf_lease *lease, const hf_error *err)
{
    hf_error why;
    (void)ctx;
    if (!lease) {
        crowd.last = err->code;
        crowd.failed++;
        return;
    }
    if (++crowd.inside > 1)
        crowd.together++;
    crowd.inside--;
    hf_lease_release(crowd.client, lease->id, &why);
    crowd.had++;
}

static void begin_many(const char *name, const hf_lease_options *options)
{
    hf_error err;
    crowd = (struct crowd){.client = two};
    for (int i = 0; i < MANY; i++)
        assert_code(HF_OK, hf_lease_begin(two, name, options, let_go, NULL, &crowd.waits[i], &err),
                    &err);
}

static bool all_ended(void *ctx)
{
    (void)ctx;
    return crowd.had + crowd.failed == MANY;
}

static void test_many_wait_without_threads(void **state)
{
    (void)state;
    const char *name = bed_name("lease many");
    hf_lock *lock = bed_acquire(one, name, NULL);
    begin_many(name, NULL);
    assert_false(bed_until(200, all_ended, NULL));
    assert_int_equal(crowd.had + crowd.failed, 0);
    bed_release(lock);
    assert_true(bed_until(6 * BED_SOON, all_ended, NULL));
    assert_int_equal(crowd.had, MANY);
    assert_int_equal(crowd.together, 0);
    assert_free(one, name);
}

enum { IN_ORDER = 40 };

static struct served {
    int order[IN_ORDER];
    atomic_int begun, n;
} served;

static void note_turn(void *ctx, const hf_lease *lease, const hf_error *err)
{
    hf_error why;
    (void)err;
    served.order[served.begun++] = (int)(intptr_t)ctx;
    if (lease)
        hf_lease_release(two, lease->id, &why);
    served.n += lease != NULL;
}

static bool all_served(void *ctx)
{
    (void)ctx;
    return served.n == IN_ORDER;
}

/* On a machine that stalls, one may enter while the step of the one before it is still made. */
static void check_the_order(const char *name, const hf_lease_options *options)
{
    hf_lock *lock = bed_acquire(one, name, &options->lock);
    hf_lease_wait *wait;
    hf_error err;
    int overtaken = 0;
    served.begun = served.n = 0;
    for (intptr_t i = 0; i < IN_ORDER; i++)
        assert_code(HF_OK, hf_lease_begin(two, name, options, note_turn, (void *)i, &wait, &err),
                    &err);
    assert_false(bed_until(500, all_served, NULL));
    bed_release(lock);
    assert_true(bed_until(6 * BED_SOON, all_served, NULL));
    for (int i = 1; i < IN_ORDER; i++)
        overtaken += served.order[i] < served.order[i - 1];
    assert_in_range(overtaken, 0, IN_ORDER / 8);
    assert_free(one, name);
}

/* In the order of the calls, also where each stands in the store's queue by itself. */
static void test_waits_that_were_begun_come_in_order(void **state)
{
    (void)state;
    const hf_lease_options exclusive = {.ttl_ms = 60000};
    const hf_lease_options alone = {.ttl_ms = 60000, .lock = {.permits = 1, .limit = 1}};
    check_the_order(bed_name("lease order"), &exclusive);
    check_the_order(bed_name("lease order alone"), &alone);
}

static void test_their_time_is_over(void **state)
{
    (void)state;
    const char *name = bed_name("lease over");
    const hf_lease_options brief = {.lock.wait_ms = 300};
    hf_lock *lock = bed_acquire(one, name, NULL);
    begin_many(name, &brief);
    assert_true(bed_until(BED_SOON, all_ended, NULL));
    assert_int_equal(crowd.failed, MANY);
    assert_int_equal(crowd.last, HF_TIMEOUT);
    bed_wait_queued(one, name, 0);
    bed_release(lock);
    assert_free(one, name);
}

static void test_they_are_cancelled(void **state)
{
    (void)state;
    const char *name = bed_name("lease cancelled");
    hf_lock *lock = bed_acquire(one, name, NULL);
    begin_many(name, NULL);
    for (int i = 0; i < MANY; i++)
        hf_lease_cancel(crowd.waits[i]);
    assert_true(bed_until(BED_SOON, all_ended, NULL));
    assert_int_equal(crowd.failed, MANY);
    assert_int_equal(crowd.last, HF_CANCELLED);
    bed_wait_queued(one, name, 0);
    bed_release(lock);
    assert_free(one, name);
}

static void test_closing_ends_them(void **state)
{
    (void)state;
    const char *name = bed_name("lease closing");
    hf_lock *lock = bed_acquire(one, name, NULL);
    begin_many(name, NULL);
    hf_close(two);
    two = NULL;
    assert_int_equal(crowd.failed, MANY);
    assert_int_equal(crowd.last, HF_CLOSED);
    bed_wait_queued(one, name, 0);
    bed_release(lock);
}

int run_lease_cases(void)
{
    const struct bed_case cases[] = {
        CASE_IF(HF_CAN_QUEUE, test_any_client_renews_and_releases),
        CASE_IF(HF_CAN_QUEUE, test_it_outlives_who_took_it),
        CASE_IF(HF_CAN_QUEUE, test_unless_renewed_it_ends),
        CASE_IF(HF_CAN_QUEUE, test_a_lost_one_is_not_released),
        CASE_IF(HF_CAN_QUEUE, test_one_that_nobody_took_out_is_left_at_once),
        CASE_IF(HF_CAN_QUEUE, test_the_same_key_finds_it),
        CASE_IF(HF_CAN_QUEUE, test_an_id_with_another_name_ends_nothing),
        CASE_IF(HF_CAN_QUEUE, test_a_key_is_for_one_request),
        CASE_IF(HF_CAN_QUEUE, test_a_key_does_not_outlive_a_break),
        CASE_IF(HF_CAN_QUEUE, test_two_that_wait_with_one_key_have_one_lease),
        CASE_IF(HF_CAN_QUEUE | HF_CAN_NOTIFY, test_it_waits_in_line_and_keeps_others_waiting),
        CASE_IF(HF_CAN_QUEUE, test_what_is_broken_is_not_renewed),
        CASE_IF(HF_CAN_QUEUE, test_a_release_of_what_is_broken_says_so),
        CASE_IF(HF_CAN_QUEUE, test_shared_leases_stand_beside_each_other),
        CASE_IF(HF_CAN_QUEUE, test_names_of_any_bytes),
        CASE_IF(HF_CAN_QUEUE, test_what_is_no_lease),
        CASE_IF(HF_CAN_QUEUE, test_many_wait_without_threads),
        CASE_IF(HF_CAN_QUEUE, test_waits_that_were_begun_come_in_order),
        CASE_IF(HF_CAN_QUEUE, test_their_time_is_over),
        CASE_IF(HF_CAN_QUEUE, test_they_are_cancelled),
        CASE_IF(HF_CAN_QUEUE, test_closing_ends_them),
    };
    return bed.can & HF_CAN_QUEUE ? CASES(cases) : 0;
}
