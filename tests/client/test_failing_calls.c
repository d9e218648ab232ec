/* SPDX-License-Identifier: Apache-2.0 */
/* test_failing_calls.c: each call of the store that a call of the client makes fails once, one
 * further each run, until none is left: the client says so, or goes on where it can, and what it
 * says is true of the store. Time stands still but for the client's own pauses. */
#include "client/client_bed.h"

#include "core/id.h"
#include "support/inside.h"

static const hf_lease_options keyed = {.key = "order 4711", .ttl_ms = 5000};
static const hf_lease_options unkeyed = {.ttl_ms = 5000};

/* What a run has, and what is failed in it. */
typedef struct bed {
    faulty *f;
    hf_client *client;
    hf_lock *lock;
    hf_lease lease;
    int nth, n;
    bool is_armed, is_late;
    hf_code code;
} bed;

typedef struct operation {
    const char *what;
    void (*prepare)(bed *b); /* NULL: nothing */
    hf_code (*run)(bed *b, hf_error *err);
    bool (*is_done)(const struct seen *seen); /* NULL: it changes nothing */
    bool leaves_nothing;                      /* a failure does, once the lock is closed */
    const char *refused, *late;               /* what comes of each call: see outcomes() */
} operation;

static hf_code fail_nth(faulty *f, faulty_call call, const void *arg)
{
    bed *b = f->ctx;
    (void)call, (void)arg;
    return b->is_armed && !b->is_late && ++b->n == b->nth ? b->code : HF_OK;
}

static hf_code fail_nth_late(faulty *f, faulty_call call, const void *arg)
{
    bed *b = f->ctx;
    (void)call, (void)arg;
    return b->is_armed && b->is_late && ++b->n == b->nth ? b->code : HF_OK;
}

/* ---- The operations ---- */

static hf_code acquire(bed *b, hf_error *err)
{
    return hf_lock_acquire(b->client, "x", NULL, &b->lock, err);
}

static hf_code release(bed *b, hf_error *err)
{
    return hf_lock_release(b->lock, err);
}

static hf_code acquire_all(bed *b, hf_error *err)
{
    const char *names[] = {"x", "y"};
    hf_lock *locks[2];
    hf_code code = hf_lock_acquire_all(b->client, names, 2, NULL, locks, err);
    for (int i = 0; i < 2 && !code; i++)
        hf_lock_close(locks[i]);
    return code;
}

static hf_code previous(bed *b, hf_error *err)
{
    hf_last last;
    return hf_lock_previous(b->lock, &last, err);
}

static hf_code downgrade(bed *b, hf_error *err)
{
    return hf_lock_downgrade(b->lock, err);
}

static hf_code upgrade(bed *b, hf_error *err)
{
    return hf_lock_upgrade(b->lock, err);
}

static hf_code acquire_lease(bed *b, hf_error *err)
{
    return hf_lease_acquire(b->client, "x", &unkeyed, &b->lease, err);
}

static hf_code acquire_keyed(bed *b, hf_error *err)
{
    return hf_lease_acquire(b->client, "x", &keyed, &b->lease, err);
}

static hf_code renew_lease(bed *b, hf_error *err)
{
    return hf_lease_renew(b->client, b->lease.id, NULL, err);
}

static hf_code release_lease(bed *b, hf_error *err)
{
    return hf_lease_release(b->client, b->lease.id, err);
}

static hf_code force(bed *b, hf_error *err)
{
    const hf_break_options options = {.reason = "because", .force = true};
    return hf_break(b->client, "x", &options, err);
}

static bool see_info(void *ctx, const hf_lock_info *info)
{
    (void)ctx;
    return info->name[0] != '\0';
}

static hf_code show(bed *b, hf_error *err)
{
    return hf_show(b->client, "x", see_info, NULL, err);
}

/* ---- What stands before ---- */

static void must(hf_code code, const hf_error *err)
{
    if (code)
        fail_msg("%s", err->text);
}

static void hold(bed *b)
{
    hf_error err;
    must(acquire(b, &err), &err);
}

static void share(bed *b)
{
    hf_error err;
    const hf_lock_options shared = {.mode = HF_SHARED};
    must(hf_lock_acquire(b->client, "x", &shared, &b->lock, &err), &err);
}

static void lease(bed *b)
{
    hf_error err;
    must(acquire_lease(b, &err), &err);
}

static void lease_keyed(bed *b)
{
    hf_error err;
    must(acquire_keyed(b, &err), &err);
}

static void stand_there(bed *b)
{
    enter_as(b->f->inner, "x", begin_dead(b->f->inner, 1, 60000), 2);
}

/* ---- What stands after ---- */

static bool is_held(const struct seen *seen)
{
    return seen->holders == 1 && seen->queued == 0;
}

static bool is_free(const struct seen *seen)
{
    return seen->holders == 0 && seen->queued == 0;
}

static bool is_shared(const struct seen *seen)
{
    return is_held(seen) && seen->holder.permits == 1;
}

static bool is_exclusive(const struct seen *seen)
{
    return is_held(seen) && seen->holder.permits == HF_LIMIT_RW;
}

/* ---- Sweeping ---- */

static void open_bed(bed *b, const operation *op)
{
    static int number;
    char uri[60];
    snprintf(uri, sizeof uri, "memory:failing-%d", number++);
    b->f = faulty_open_still(uri, NULL, &b->client);
    b->f->ctx = b;
    b->f->before = fail_nth;
    b->f->after = fail_nth_late;
    if (op->prepare)
        op->prepare(b);
}

/* What could not be given back at once is given back later. */
static struct seen give_back(bed *b)
{
    hf_lock_close(b->lock);
    faulty_pass(b->f, b->client->ttl_ms / 3 + 1);
    release_tick(b->client, client_now(b->client));
    return look_at(b->f->inner, "x");
}

/* What it said is true; a failure is worded. */
static hf_code run_once(const operation *op, bed *b)
{
    hf_error err = {.code = HF_OK};
    open_bed(b, op);
    b->is_armed = true;
    hf_code code = op->run(b, &err);
    b->is_armed = false;
    struct seen seen = look_at(b->f->inner, "x");
    if (!code && op->is_done && !op->is_done(&seen))
        fail_msg("%s, call %d: not done", op->what, b->nth);
    if (code && (err.code != code || !err.text[0]))
        fail_msg("%s, call %d: %s is said as \"%s\"", op->what, b->nth, hf_code_name(code),
                 err.text);
    seen = give_back(b);
    if (code && op->leaves_nothing && !is_free(&seen))
        fail_msg("%s, call %d: something stays", op->what, b->nth);
    hf_close(b->client);
    return code;
}

/* One letter for each call that was failed: F: the operation failed with that code; '.': it went
 * well; '?': it failed with another one. */
static void outcomes(const operation *op, hf_code given, bool is_late, char out[64])
{
    size_t used = 0;
    for (int nth = 1; used < 63; nth++) {
        bed b = {.nth = nth, .code = given, .is_late = is_late};
        hf_code code = run_once(op, &b);
        if (b.n < nth)
            break;
        out[used++] = !code ? '.' : code == given ? 'F' : '?';
    }
    out[used] = '\0';
}

static const operation operations[] = {
    {"acquire", NULL, acquire, is_held, true, "FF", ".."},
    {"release", hold, release, is_free, true, "F", "."},
    {"acquire all", NULL, acquire_all, NULL, true, "FFF", "..."},
    {"previous", hold, previous, is_held, true, "", ""},
    {"downgrade", hold, downgrade, is_shared, true, "F", "."},
    {"upgrade", share, upgrade, is_exclusive, true, "F", "."},
    {"lease", NULL, acquire_lease, is_held, true, "FFFF", "...."},
    {"lease with a key", NULL, acquire_keyed, is_held, true, "FFFFF", "....."},
    {"the same key again", lease_keyed, acquire_keyed, is_held, false, "FFFF", "...."},
    {"renewal", lease, renew_lease, is_held, false, "FF", ".."},
    /* that its session ends is no part of it */
    {"release of a lease", lease, release_lease, is_free, false, "FF.", "..."},
    {"release of one with a key", lease_keyed, release_lease, is_free, false, "FFF.", "...."},
    /* with force, the look at the holder's session and the ask to it may fail */
    {"break", stand_there, force, is_free, false, "F..FF", "....."},
    {"show", stand_there, show, NULL, false, "FF", "FF"},
};

static void check(const operation *op, hf_code given, bool is_late, const char *expected)
{
    char came[64];
    outcomes(op, given, is_late, came);
    if (strcmp(came, expected) != 0)
        fail_msg("%s, %s: %s instead of %s", op->what, hf_code_name(given), came, expected);
}

#define EACH(op)                                                                                   \
    const operation *op = operations;                                                              \
    op < operations + sizeof operations / sizeof *operations;                                      \
    op++

static void test_what_is_refused_is_said(void **state)
{
    (void)state;
    for (EACH(op))
        check(op, HF_DENIED, false, op->refused);
}

static void test_answers_that_are_lost_are_made_up_for(void **state)
{
    (void)state;
    for (EACH(op))
        check(op, HF_UNKNOWN, true, op->late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_refused_is_said),
        cmocka_unit_test(test_answers_that_are_lost_are_made_up_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
