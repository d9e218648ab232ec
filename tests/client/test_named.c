/* SPDX-License-Identifier: Apache-2.0 */
/* test_named.c: a store may keep a lock under another form of its name: every call that takes a
 * name uses that form; and what succeeds leaves no error behind. Run by ctest. */
#include "client/client_bed.h"

#include "core/error.h"

#include <ctype.h>

static hf_client *client;
static faulty *f;
static hf_store_ops with_forms;
static char seen[HF_NAME_MAX + 1];
static int n_seen;
static hf_error err; /* of the last call */

/* Small letters; and a name of '!' cannot be. */
static hf_code make_small(hf_store *store, const char *given, char name[HF_NAME_MAX + 1],
                          hf_error *why)
{
    (void)store;
    if (*given == '!')
        return error_set(why, HF_INVALID, "'!' is no name");
    size_t n = 0;
    for (; given[n]; n++)
        name[n] = (char)tolower(given[n]);
    name[n] = '\0';
    return HF_OK;
}

/* The names that come to the store. */
static hf_code note_names(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    const char *name = NULL;
    if (call == FAULTY_STEP)
        name = ((const struct faulty_step *)arg)->name;
    if (call == FAULTY_LOOK && ((const struct faulty_look *)arg)->n)
        name = ((const struct faulty_look *)arg)->names[0];
    if (!name)
        return HF_OK;
    snprintf(seen, sizeof seen, "%s", name);
    n_seen++;
    for (; *name; name++)
        assert_false(isupper(*name));
    return HF_OK;
}

static void begin(const char *uri)
{
    f = faulty_open(uri, NULL, &client);
    with_forms = *f->base.ops;
    with_forms.canonical = make_small;
    f->base.ops = &with_forms;
    f->before = note_names;
    n_seen = 0;
}

static void assert_was_named(const char *name)
{
    assert_true(n_seen > 0);
    assert_string_equal(seen, name);
    n_seen = 0;
}

/* What was in it before is no part of an answer. */
static void set_old_error(void)
{
    error_set(&err, HF_TIMEOUT, "of an earlier call");
}

#define ASSERT_CLEAN(call)                                                                         \
    do {                                                                                           \
        set_old_error();                                                                           \
        assert_int_equal(call, HF_OK);                                                             \
        assert_int_equal(err.code, HF_OK);                                                         \
        assert_string_equal(err.text, "");                                                         \
    } while (0)

static bool see_lock(void *ctx, const hf_lock_info *info)
{
    (void)ctx;
    assert_string_equal(info->name, "x");
    return false;
}

static bool see_leader(void *ctx, const hf_leader *leader)
{
    (void)ctx;
    assert_non_null(leader);
    return false;
}

static const hf_break_options breaking = {.reason = "why not"};

static void test_a_lock_is_known_by_the_store_s_form_of_its_name(void **state)
{
    (void)state;
    hf_lock *lock;
    hf_last last;
    begin("memory:forms");
    ASSERT_CLEAN(hf_lock_acquire(client, "X", NULL, &lock, &err));
    assert_was_named("x");
    assert_string_equal(hf_lock_name(lock), "x");
    ASSERT_CLEAN(hf_lock_check(lock, NULL, &err));
    ASSERT_CLEAN(hf_lock_feed(lock, &err));
    ASSERT_CLEAN(hf_show(client, "X", see_lock, NULL, &err));
    assert_was_named("x");
    ASSERT_CLEAN(hf_election_observe(client, "X", see_leader, NULL, NULL, &err));
    assert_was_named("x");
    ASSERT_CLEAN(hf_lock_previous(lock, &last, &err));
    ASSERT_CLEAN(hf_lock_downgrade(lock, &err));
    ASSERT_CLEAN(hf_lock_upgrade(lock, &err));
    ASSERT_CLEAN(hf_lock_release(lock, &err));
    hf_lock_close(lock);
    hf_close(client);
}

static void test_a_break_knows_the_store_s_form(void **state)
{
    (void)state;
    hf_lock *lock;
    begin("memory:break-forms");
    ASSERT_CLEAN(hf_lock_acquire(client, "X", NULL, &lock, &err));
    ASSERT_CLEAN(
        hf_break(client, "X", &(hf_break_options){.reason = "why not", .force = true}, &err));
    assert_was_named("x");
    hf_lock_close(lock);
    hf_close(client);
}

static void test_several_know_the_store_s_form(void **state)
{
    (void)state;
    const char *const names[] = {"B", "a"}, *const same[] = {"b", "B"};
    hf_lock *locks[2];
    begin("memory:all-forms");
    ASSERT_CLEAN(hf_lock_acquire_all(client, names, 2, NULL, locks, &err));
    assert_string_equal(hf_lock_name(locks[0]), "b");
    assert_string_equal(hf_lock_name(locks[1]), "a");
    hf_lock_close(locks[0]);
    hf_lock_close(locks[1]);
    assert_int_equal(hf_lock_acquire_all(client, same, 2, NULL, locks, &err), HF_INVALID);
    assert_non_null(strstr(err.text, "named twice"));
    hf_close(client);
}

static void test_a_lease_knows_the_store_s_form(void **state)
{
    (void)state;
    hf_lease lease, renewed;
    begin("memory:lease-forms");
    hf_lease_options options = {.key = "k"};
    ASSERT_CLEAN(hf_lease_acquire(client, "X", &options, &lease, &err));
    assert_was_named("x");
    ASSERT_CLEAN(hf_lease_renew(client, lease.id, &renewed, &err));
    ASSERT_CLEAN(hf_lease_release(client, lease.id, &err));
    hf_close(client);
}

/* Nothing is sent for it. */
static void test_what_has_no_form_is_no_name(void **state)
{
    (void)state;
    const char *const names[] = {"a", "!"};
    hf_lock *locks[2];
    hf_lease lease;
    begin("memory:no-form");
    assert_int_equal(hf_lock_acquire(client, "!", NULL, locks, &err), HF_INVALID);
    assert_int_equal(hf_lock_acquire_all(client, names, 2, NULL, locks, &err), HF_INVALID);
    assert_int_equal(hf_show(client, "!", see_lock, NULL, &err), HF_INVALID);
    assert_int_equal(hf_break(client, "!", &breaking, &err), HF_INVALID);
    assert_int_equal(hf_election_observe(client, "!", see_leader, NULL, NULL, &err), HF_INVALID);
    assert_int_equal(hf_lease_acquire(client, "!", NULL, &lease, &err), HF_INVALID);
    assert_string_equal(err.text, "'!' is no name");
    assert_int_equal(n_seen, 0);
    hf_close(client);
}

static bool see_nobody(void *ctx, const hf_leader *leader)
{
    (void)ctx;
    assert_null(leader);
    return false;
}

/* That there is no such lock is no error there. */
static void test_who_observes_nothing_is_told_of_no_error(void **state)
{
    (void)state;
    begin("memory:nothing");
    ASSERT_CLEAN(hf_election_observe(client, "none", see_nobody, NULL, NULL, &err));
    hf_close(client);
}

static void test_a_store_may_have_no_descriptor_for_its_session(void **state)
{
    (void)state;
    hf_lock *lock;
    assert_int_equal(hf_client_keep_fd(NULL), -1);
    begin("memory:no-keeper");
    assert_int_equal(hf_client_keep_fd(client), -1);
    ASSERT_CLEAN(hf_lock_acquire(client, "x", NULL, &lock, &err));
    assert_int_equal(hf_client_keep_fd(client), -1);
    hf_lock_close(lock);
    hf_close(client);
}

static void test_a_store_without_sessions_may_have_no_leases(void **state)
{
    (void)state;
    hf_lease lease;
    begin("memory:no-leases");
    client->store->can &= ~(unsigned)HF_CAN_QUEUE;
    assert_int_equal(hf_lease_acquire(client, "x", NULL, &lease, &err), HF_UNSUPPORTED);
    assert_non_null(strstr(err.text, "hfProtocol=queue"));
    hf_close(client);
}

static void test_a_store_that_takes_no_prefix_stays_its_callers(void **state)
{
    (void)state;
    hf_client *beside = NULL;
    begin("memory:no-prefix");
    const hf_options shop = {.name_prefix = "shop/"};
    assert_int_equal(hf_open_on(&f->base, &shop, &beside, &err), HF_INVALID);
    assert_null(beside);
    assert_int_equal(hf_show(client, "x", see_lock, NULL, &err), HF_NOT_FOUND);
    hf_close(client);
}

static void test_opening_leaves_no_error_behind(void **state)
{
    (void)state;
    hf_cancel *cancel;
    ASSERT_CLEAN(hf_open("memory:opens", NULL, &client, &err));
    hf_store *store = client->store;
    hf_client *beside;
    ASSERT_CLEAN(hf_open_on(store, NULL, &beside, &err));
    free(beside->name_prefix);
    free(beside->hold);
    free(beside);
    hf_close(client);
    assert_int_equal(hf_cancel_new(&cancel, NULL), HF_OK);
    hf_cancel_free(cancel);
    hf_cancel_free(NULL);
    hf_lock_close(NULL);
    hf_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lock_is_known_by_the_store_s_form_of_its_name),
        cmocka_unit_test(test_a_break_knows_the_store_s_form),
        cmocka_unit_test(test_several_know_the_store_s_form),
        cmocka_unit_test(test_a_lease_knows_the_store_s_form),
        cmocka_unit_test(test_what_has_no_form_is_no_name),
        cmocka_unit_test(test_who_observes_nothing_is_told_of_no_error),
        cmocka_unit_test(test_a_store_may_have_no_descriptor_for_its_session),
        cmocka_unit_test(test_a_store_without_sessions_may_have_no_leases),
        cmocka_unit_test(test_a_store_that_takes_no_prefix_stays_its_callers),
        cmocka_unit_test(test_opening_leaves_no_error_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
