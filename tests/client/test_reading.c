/* SPDX-License-Identifier: Apache-2.0 */
/* test_reading.c: calls that only read, while a store behind a network gives no answer: they ask
 * again until patience ends, and tell everything once. Run by ctest. */
#include "client/client_bed.h"

#define NAMES 3

static hf_client *client;
static faulty *store;
static hf_lock *locks[NAMES];
static hf_store_ops ops; /* of the store, with calls that fail below */
static int failures;     /* so many calls fail, each after the first that it gives, */
static int gives;        /* or after so many */
static int n_asked;
static char told[1000];

static hf_code give_none(hf_error *err)
{
    failures--;
    return hf_store_fail(err, HF_UNREACHABLE, "no answer");
}

typedef struct first {
    hf_record_fn each;
    hf_state_fn each_state;
    hf_turn_note_fn each_turn;
    void *ctx;
} first;

static int n_given;

static bool give_some(void *ctx, const hf_record *record)
{
    const first *f = ctx;
    return f->each(f->ctx, record) && ++n_given < gives;
}

static bool give_one_state(void *ctx, const hf_session_state *state)
{
    const first *f = ctx;
    f->each_state(f->ctx, state);
    return false;
}

static bool give_one_turn(void *ctx, const hf_turn_note *turn)
{
    const first *f = ctx;
    f->each_turn(f->ctx, turn);
    return false;
}

static hf_code list(hf_store *base, const hf_list_part *part, hf_record_fn each, void *ctx,
                    hf_error *err)
{
    hf_store *inner = store->inner;
    first f = {.each = each, .ctx = ctx};
    (void)base;
    n_asked++;
    n_given = 0;
    if (failures <= 0)
        return inner->ops->list(inner, part, each, ctx, err);
    inner->ops->list(inner, part, give_some, &f, NULL);
    return give_none(err);
}

static hf_code look(hf_store *base, const char *const *names, size_t n, hf_stamp after,
                    bool linearizable, hf_record_fn each, void *ctx, hf_error *err)
{
    hf_store *inner = store->inner;
    first f = {.each = each, .ctx = ctx};
    (void)base;
    n_asked++;
    if (failures <= 0)
        return inner->ops->look(inner, names, n, after, linearizable, each, ctx, err);
    inner->ops->look(inner, names, n, after, linearizable, give_some, &f, NULL);
    return give_none(err);
}

static hf_code list_sessions(hf_store *base, hf_state_fn each, void *ctx, hf_error *err)
{
    hf_store *inner = store->inner;
    first f = {.each_state = each, .ctx = ctx};
    (void)base;
    n_asked++;
    if (failures <= 0)
        return inner->ops->list_sessions(inner, each, ctx, err);
    inner->ops->list_sessions(inner, give_one_state, &f, NULL);
    return give_none(err);
}

static hf_code history(hf_store *base, const hf_history_part *part, hf_turn_note_fn each, void *ctx,
                       hf_error *err)
{
    hf_store *inner = store->inner;
    first f = {.each_turn = each, .ctx = ctx};
    (void)base;
    n_asked++;
    if (failures <= 0)
        return inner->ops->history(inner, part, each, ctx, err);
    inner->ops->history(inner, part, give_one_turn, &f, NULL);
    return give_none(err);
}

static hf_code examine(hf_store *base, hf_finding_fn each, void *ctx, hf_error *err)
{
    static const hf_finding finding = {.topic = "reach", .text = "well"};
    (void)base;
    n_asked++;
    if (failures > 0)
        return give_none(err);
    each(ctx, &finding);
    return HF_OK;
}

/* A client that holds x, y and z, and to whose store the way is long. */
static void begin(const hf_options *options)
{
    static const char *const names[NAMES] = {"x", "y", "z"};
    store = faulty_open_still("memory:", options, &client);
    for (size_t i = 0; i < NAMES; i++)
        assert_int_equal(hf_lock_acquire(client, names[i], NULL, &locks[i], NULL), HF_OK);
    ops = *store->base.ops;
    ops.list = list;
    ops.look = look;
    ops.list_sessions = list_sessions;
    ops.history = history;
    ops.doctor = examine;
    store->base.ops = &ops;
    store->base.is_remote = true;
    told[0] = '\0';
    n_asked = failures = gives = 0;
}

static void end(void)
{
    failures = 0;
    for (size_t i = 0; i < NAMES; i++) {
        assert_int_equal(hf_lock_release(locks[i], NULL), HF_OK);
        hf_lock_close(locks[i]);
    }
    hf_close(client);
}

static void tell(const char *what)
{
    strcat(told, what);
    strcat(told, " ");
}

static bool tell_lock(void *ctx, const hf_lock_info *info)
{
    (void)ctx;
    tell(info->name);
    return true;
}

static bool tell_session(void *ctx, const hf_session_info *info)
{
    (void)ctx;
    (void)info;
    tell("session");
    return true;
}

static bool tell_finding(void *ctx, const hf_finding *finding)
{
    (void)ctx;
    tell(finding->topic);
    return true;
}

static bool tell_link(void *ctx, const hf_why_link *link)
{
    (void)ctx;
    tell(link->name);
    return true;
}

/* Each part of the list that comes before an error is told once. */
static void test_a_list_goes_on_where_it_was_interrupted(void **state)
{
    (void)state;
    begin(NULL);
    failures = 4;
    assert_int_equal(hf_list(client, NULL, tell_lock, NULL, NULL), HF_OK);
    assert_string_equal(told, "x y z ");
    told[0] = '\0';
    failures = 4;
    const hf_list_options two = {.struct_size = sizeof two, .limit = 2};
    assert_int_equal(hf_list_locks(client, &two, tell_lock, NULL, NULL), HF_OK);
    assert_string_equal(told, "x y ");
    end();
}

#define MANY 250 /* more than what is told at once */

static bool tell_number(void *ctx, const hf_lock_info *info)
{
    int *n = ctx;
    char name[8];
    snprintf(name, sizeof name, "m%03d", (*n)++);
    assert_string_equal(info->name, name);
    return true;
}

static void test_a_long_list_tells_nothing_twice(void **state)
{
    (void)state;
    hf_lock *lock;
    char name[8];
    int n = 0;
    begin(NULL);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "m%03d", i);
        assert_int_equal(hf_lock_acquire(client, name, NULL, &lock, NULL), HF_OK);
        assert_int_equal(hf_lock_release(lock, NULL), HF_OK);
        hf_lock_close(lock);
    }
    failures = 3;
    gives = 120;
    assert_int_equal(hf_list(client, "m", tell_number, &n, NULL), HF_OK);
    assert_int_equal(n, MANY);
    n = 0;
    failures = 1;
    const hf_list_options part = {.struct_size = sizeof part, .prefix = "m", .limit = 120};
    assert_int_equal(hf_list_locks(client, &part, tell_number, &n, NULL), HF_OK);
    assert_int_equal(n, 120);
    end();
}

static void test_all_that_only_read_ask_again(void **state)
{
    (void)state;
    begin(NULL);
    failures = 2;
    assert_int_equal(hf_show(client, "y", tell_lock, NULL, NULL), HF_OK);
    failures = 2;
    assert_int_equal(hf_why(client, "z", tell_link, NULL, NULL), HF_OK);
    failures = 2;
    assert_int_equal(hf_sessions(client, tell_session, NULL, NULL), HF_OK);
    failures = 2;
    assert_int_equal(hf_doctor(client, tell_finding, NULL, NULL), HF_OK);
    failures = 2;
    assert_int_equal(hf_history(client, NULL, NULL, NULL, NULL, NULL), HF_OK);
    assert_string_equal(told, "y z session reach ");
    assert_int_equal(failures, 0);
    end();
}

static void test_they_give_up_when_patience_ends(void **state)
{
    (void)state;
    hf_error err;
    begin(&(hf_options){.struct_size = sizeof(hf_options), .call_patience_ms = 2000});
    failures = 1000;
    int64_t before_ms = store->passed_ms;
    assert_int_equal(hf_list(client, NULL, tell_lock, NULL, &err), HF_UNREACHABLE);
    assert_in_range(store->passed_ms - before_ms, 2000, 2600);
    assert_non_null(strstr(err.text, "no answer"));
    end();
}

static void test_who_asks_again_itself_is_told_at_once(void **state)
{
    (void)state;
    const hf_list_options once = {.struct_size = sizeof once, .asks_once = true};
    begin(NULL);
    failures = 1;
    assert_int_equal(hf_list_locks(client, &once, tell_lock, NULL, NULL), HF_UNREACHABLE);
    assert_int_equal(n_asked, 1);
    store->base.is_remote = false; /* it has waited already */
    failures = 1;
    assert_int_equal(hf_list(client, NULL, tell_lock, NULL, NULL), HF_UNREACHABLE);
    assert_int_equal(n_asked, 2);
    end();
}

static void test_other_errors_are_told_at_once(void **state)
{
    (void)state;
    begin(NULL);
    assert_int_equal(hf_show(client, "nothing", tell_lock, NULL, NULL), HF_NOT_FOUND);
    assert_int_equal(n_asked, 1);
    assert_int_equal(hf_show(client, "", tell_lock, NULL, NULL), HF_INVALID);
    assert_int_equal(n_asked, 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_goes_on_where_it_was_interrupted),
        cmocka_unit_test(test_a_long_list_tells_nothing_twice),
        cmocka_unit_test(test_all_that_only_read_ask_again),
        cmocka_unit_test(test_they_give_up_when_patience_ends),
        cmocka_unit_test(test_who_asks_again_itself_is_told_at_once),
        cmocka_unit_test(test_other_errors_are_told_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
