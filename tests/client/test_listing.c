/* SPDX-License-Identifier: Apache-2.0 */
/* test_listing.c: a listing is read in parts, each with the sessions of its own locks, so that who
 * ends it early pays for what was shown. Run by ctest. */
#include "client/client_bed.h"

#include "support/inside.h"

#include <stdio.h>

#define LOCKS 1300 /* the first part, the next, and some more */

static atomic_size_t looked_at;

static hf_code count_sessions(faulty *f, faulty_call call, const void *arg)
{
    (void)arg;
    if (call == FAULTY_SESSIONS_LOOK)
        looked_at += f->n_sessions;
    return HF_OK;
}

/* Nobody waits; with it the hook is told of what is looked at. */
static hf_code hear_nothing(faulty *f, hf_id session, hf_stamp from, int64_t timeout_ms,
                            hf_notice_fn each, void *ctx, hf_error *err)
{
    (void)f, (void)session, (void)from, (void)timeout_ms, (void)each, (void)ctx, (void)err;
    return HF_OK;
}

/* Each lock is held by a session of its own; every tenth is free. */
static void fill(hf_store *store)
{
    char name[16];
    hf_error err;
    hf_step_reply reply;
    for (int i = 0; i < LOCKS; i++) {
        hf_session self = {.id = {{2, (uint8_t)(i >> 8), (uint8_t)i}}, .ttl_ms = 1000};
        hf_leave leave = {.ticket = {{1, (uint8_t)(i >> 8), (uint8_t)i}}};
        hf_step out = {.leaves = &leave, .n_leaves = 1};
        snprintf(name, sizeof name, "n%04d", i);
        assert_int_equal(store->ops->session_begin(store, &self, &err), HF_OK);
        hold_for(store, name, leave.ticket, &self);
        if (i % 10 == 0)
            assert_int_equal(store->ops->step(store, name, &out, NULL, &reply, &err), HF_OK);
    }
}

static hf_client *open_filled(const char *uri)
{
    hf_client *client;
    faulty *f = faulty_open(uri, NULL, &client);
    f->before = count_sessions;
    f->awaits = hear_nothing;
    fill(f->inner);
    looked_at = 0;
    return client;
}

struct shown {
    size_t n, most;
    char first[16], last[16];
};

static bool show(void *ctx, const hf_lock_info *info)
{
    struct shown *shown = ctx;
    assert_true(strcmp(shown->last, info->name) < 0);
    if (!shown->n++)
        snprintf(shown->first, sizeof shown->first, "%s", info->name);
    snprintf(shown->last, sizeof shown->last, "%s", info->name);
    return shown->n != shown->most;
}

static struct shown list(hf_client *client, const hf_list_options *options, size_t most)
{
    struct shown shown = {.most = most};
    hf_error err;
    assert_int_equal(hf_list_locks(client, options, show, &shown, &err), HF_OK);
    return shown;
}

static void test_a_page_costs_a_page(void **state)
{
    (void)state;
    hf_client *client = open_filled("memory:page");
    struct shown shown = list(client, NULL, 10);
    assert_int_equal(shown.n, 10);
    assert_int_equal(looked_at, 90); /* of a hundred locks */
    looked_at = 0;
    shown = list(client, &(hf_list_options){.limit = 10}, 0);
    assert_int_equal(shown.n, 10);
    assert_int_equal(looked_at, 9);
    shown = list(client, &(hf_list_options){.limit = 1, .after = "n0010"}, 0);
    assert_string_equal(shown.last, "n0011");
    assert_int_equal(looked_at, 10);
    shown = list(client, &(hf_list_options){.limit = LOCKS - 1}, 0);
    assert_int_equal(shown.n, LOCKS - 1);
    shown = list(client, &(hf_list_options){.limit = 10, .prefix = "n129", .in_use = true}, 0);
    assert_int_equal(shown.n, 9);
    hf_close(client);
}

static void test_all_parts_have_each_lock_once(void **state)
{
    (void)state;
    hf_client *client = open_filled("memory:parts");
    struct shown shown = list(client, NULL, 0);
    assert_int_equal(shown.n, LOCKS);
    assert_int_equal(looked_at, LOCKS / 10 * 9);
    shown = list(client, &(hf_list_options){.in_use = true}, 0);
    assert_int_equal(shown.n, LOCKS / 10 * 9);
    assert_string_equal(shown.first, "n0001");
    hf_close(client);
}

/* An end that is the end of a part, too. */
static void test_a_list_goes_on_behind_a_name(void **state)
{
    (void)state;
    hf_client *client = open_filled("memory:behind");
    struct shown shown = list(client, &(hf_list_options){.after = "n1199"}, 0);
    assert_int_equal(shown.n, 100);
    assert_string_equal(shown.first, "n1200");
    shown = list(client, &(hf_list_options){.prefix = "n01", .after = "n0149"}, 0);
    assert_int_equal(shown.n, 50);
    assert_string_equal(shown.last, "n0199");
    shown = list(client, &(hf_list_options){.prefix = "n01", .after = "n1"}, 0);
    assert_int_equal(shown.n, 0);
    hf_close(client);
}

#define SHARERS 700 /* of each of two locks: more than one look is for */

static void share(hf_store *store, const char *name, uint8_t number, int at)
{
    hf_error err;
    hf_step_reply reply;
    hf_session self = {.id = {{3, number, (uint8_t)(at >> 8), (uint8_t)at}}, .ttl_ms = 1000};
    hf_enter enter = {.entry = {.ticket = {{4, number, (uint8_t)(at >> 8), (uint8_t)at}},
                                .session = self.id,
                                .ttl_ms = 1000,
                                .permits = 1},
                      .limit = HF_LIMIT_RW,
                      .queue_max = HF_QUEUE_MAX};
    hf_step step = {.enter = &enter};
    snprintf(self.app, sizeof self.app, "%s-%d", name, at);
    assert_int_equal(store->ops->session_begin(store, &self, &err), HF_OK);
    assert_int_equal(store->ops->step(store, name, &step, NULL, &reply, &err), HF_OK);
}

static bool show_sharers(void *ctx, const hf_lock_info *info)
{
    size_t *n = ctx;
    for (size_t i = 0; i < info->n_holders; i++) {
        char who[40];
        snprintf(who, sizeof who, "%.9s-%zu@", info->name, i);
        assert_string_equal(info->holders[i].who, who);
    }
    *n += info->n_holders;
    return true;
}

static void test_all_who_share_locks_are_named(void **state)
{
    (void)state;
    hf_client *client;
    hf_error err;
    size_t n = 0;
    faulty *f = faulty_open("memory:sharers", NULL, &client);
    f->before = count_sessions;
    f->awaits = hear_nothing;
    for (int i = 0; i < SHARERS; i++) {
        share(f->inner, "one", 1, i);
        share(f->inner, "two", 2, i);
    }
    looked_at = 0;
    assert_int_equal(hf_list_locks(client, NULL, show_sharers, &n, &err), HF_OK);
    assert_int_equal(n, 2 * SHARERS);
    assert_int_equal(looked_at, 2 * SHARERS);
    assert_int_equal(f->calls[FAULTY_SESSIONS_LOOK], 2);
    hf_close(client);
}

static int warnings;

static void count_warnings(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx;
    assert_int_equal(level, HF_LOG_WARNING);
    assert_string_equal(text, "injected");
    warnings++;
}

static hf_code be_odd(faulty *f, faulty_call call, const void *arg)
{
    (void)f;
    (void)arg;
    return call == FAULTY_SESSIONS_LOOK ? HF_SHAPE : HF_OK;
}

static void test_a_session_that_cannot_be_read_is_warned_of_and_hides_nothing(void **state)
{
    (void)state;
    hf_client *client;
    const hf_options options = {.log = count_warnings};
    faulty *f = faulty_open("memory:odd-session", &options, &client);
    hf_lock *lock = take(client, "x");
    assert_int_equal(list(client, NULL, 0).n, 1);
    assert_int_equal(warnings, 0);
    f->after = be_odd;
    assert_int_equal(list(client, NULL, 0).n, 1);
    assert_int_equal(warnings, 1);
    f->after = (faulty_hook *)NULL;
    hf_lock_close(lock);
    hf_close(client);
}

static void test_what_is_no_text_is_refused(void **state)
{
    (void)state;
    hf_error err;
    struct shown shown = {0};
    hf_client *client = open_client("memory:odd", 1000);
    const hf_list_options prefix = {.prefix = "\xff"}, after = {.after = "\xff"};
    assert_int_equal(hf_list_locks(client, &prefix, show, &shown, &err), HF_INVALID);
    assert_int_equal(hf_list_locks(client, &after, show, &shown, &err), HF_INVALID);
    assert_non_null(strstr(err.text, "begins after"));
    hf_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_page_costs_a_page),
        cmocka_unit_test(test_all_parts_have_each_lock_once),
        cmocka_unit_test(test_a_list_goes_on_behind_a_name),
        cmocka_unit_test(test_all_who_share_locks_are_named),
        cmocka_unit_test(test_a_session_that_cannot_be_read_is_warned_of_and_hides_nothing),
        cmocka_unit_test(test_what_is_no_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
