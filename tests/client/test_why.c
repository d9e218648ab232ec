/* SPDX-License-Identifier: Apache-2.0 */
/* test_why.c: hf_why() follows the waits from a lock to its roots. The sessions are the test's: it
 * says what they hold and what their beats report. Run by ctest. */
#include "client/client_bed.h"

#include "core/id.h"
#include "core/waits.h"

static hf_client *client;
static faulty *f;

static void begin(const char *uri, const hf_options *options)
{
    f = faulty_open(uri, options, &client);
}

/* ---- Sessions p1, p2 ..., and their tickets ---- */

static hf_id session_of(int n)
{
    return (hf_id){{1, (uint8_t)(n >> 8), (uint8_t)n}};
}

static void begin_session(int n)
{
    hf_error err;
    hf_session self = {.id = session_of(n), .ttl_ms = 3600000, .pid = n};
    snprintf(self.app, sizeof self.app, "p%d", n);
    assert_int_equal(f->inner->ops->session_begin(f->inner, &self, &err), HF_OK);
}

static void begin_sessions(int n)
{
    for (int i = 1; i <= n; i++)
        begin_session(i);
}

/* Of a session, in a lock. */
static hf_id ticket_of(int n, const char *name)
{
    hf_id id = {{2, (uint8_t)(n >> 8), (uint8_t)n}};
    uint64_t hash = id_hash(ID_HASH, name, strlen(name));
    memcpy(id.bytes + 3, &hash, 8);
    return id;
}

static void enter(hf_id ticket, int n, const char *name, int32_t permits)
{
    hf_error err;
    hf_step_reply reply;
    hf_enter enter = {.entry = {.ticket = ticket,
                                .session = session_of(n),
                                .ttl_ms = 3600000,
                                .permits = permits},
                      .limit = HF_LIMIT_RW,
                      .queue_max = HF_QUEUE_MAX};
    hf_step step = {.enter = &enter};
    snprintf(enter.entry.why, sizeof enter.entry.why, "reason %d", n);
    assert_int_equal(f->inner->ops->step(f->inner, name, &step, NULL, &reply, &err), HF_OK);
}

/* Holds it, or waits if another does. */
static void take_as(int n, const char *name)
{
    enter(ticket_of(n, name), n, name, HF_LIMIT_RW);
}

static void share_as(int n, const char *name)
{
    enter(ticket_of(n, name), n, name, 1);
}

static void leave(int n, const char *name)
{
    hf_error err;
    hf_step_reply reply;
    hf_leave leave = {.ticket = ticket_of(n, name), .outcome = HF_OUTCOME_RELEASED};
    hf_step step = {.leaves = &leave, .n_leaves = 1};
    assert_int_equal(f->inner->ops->step(f->inner, name, &step, NULL, &reply, &err), HF_OK);
}

static waits_item item_of(int n, const char *name)
{
    waits_item item = {.ticket = ticket_of(n, name)};
    snprintf(item.name, sizeof item.name, "%s", name);
    return item;
}

static void add_report(char **text, int n, const char *holds, const char *waits_for)
{
    waits_item held = item_of(n, holds);
    const waits_entry entry = {.on = item_of(n, waits_for), .holds = &held, .n_holds = 1};
    assert_true(waits_write(text, &entry));
}

static void beat(int n, char *text)
{
    hf_error err;
    hf_session_state state;
    const hf_beat says = {.waits = text};
    hf_code code = f->inner->ops->session_beat(f->inner, session_of(n), &says, &state, &err);
    assert_int_equal(code, HF_OK);
    free(text);
}

/* Its next beat says that who holds the one waits for the other. */
static void report(int n, const char *holds, const char *waits_for)
{
    char *text = NULL;
    add_report(&text, n, holds, waits_for);
    beat(n, text);
}

static void wait_as(int n, const char *holds, const char *waits_for)
{
    take_as(n, waits_for);
    report(n, holds, waits_for);
}

/* It holds the lock already. */
static void wait_for_itself(int n, const char *name)
{
    char *text = NULL;
    waits_item held = item_of(n, name);
    waits_entry entry = {.on = item_of(n, name), .holds = &held, .n_holds = 1};
    entry.on.ticket = ticket_of(-n, name);
    enter(entry.on.ticket, n, name, HF_LIMIT_RW);
    assert_true(waits_write(&text, &entry));
    beat(n, text);
}

/* ---- What is told ---- */

static char told[4096];
static size_t n_told, most; /* most 0: all */
static size_t n_next[HF_WHY_UNKNOWN + 1];

static bool tell(void *ctx, const hf_why_link *link)
{
    static const char *const names[] = {"root", "follows", "cycle", "told", "cut", "unknown"};
    size_t used = strlen(told);
    char who[32];
    (void)ctx;
    snprintf(who, sizeof who, "%s", link->holder->who);
    *strchr(who, '@') = '\0';
    snprintf(told + used, sizeof told - used, "%zu %s %s > %s %s\n", link->depth, link->name, who,
             link->waits_for ? link->waits_for : "-", names[link->next]);
    n_next[link->next]++;
    return ++n_told != most;
}

static hf_code why(const char *name)
{
    hf_error err;
    told[0] = '\0';
    n_told = 0;
    memset(n_next, 0, sizeof n_next);
    for (int i = 0; i < FAULTY_CALLS; i++)
        f->calls[i] = 0;
    hf_code code = hf_why(client, name, tell, NULL, &err);
    assert_int_equal(code, code ? err.code : HF_OK);
    return code;
}

static void assert_why(const char *name, const char *wanted)
{
    assert_int_equal(why(name), HF_OK);
    assert_string_equal(told, wanted);
}

/* One of each for a level, however many hold; the reports at once. */
static void assert_reads(int looks, int waits)
{
    assert_int_equal(f->calls[FAULTY_LOOK], looks);
    assert_int_equal(f->calls[FAULTY_WAITS], waits);
    assert_int_equal(f->calls[FAULTY_SESSIONS_LOOK], 1);
}

/* ---- Chains ---- */

static void make_chain(void)
{
    begin_sessions(3);
    take_as(1, "x");
    take_as(2, "y");
    take_as(3, "z");
    wait_as(1, "x", "y");
    wait_as(2, "y", "z");
}

static void test_a_chain_ends_at_its_root(void **state)
{
    (void)state;
    begin("memory:why-chain", NULL);
    make_chain();
    assert_why("x", "0 x p1 > y follows\n1 y p2 > z follows\n2 z p3 > - root\n");
    assert_reads(3, 1);
    assert_why("z", "0 z p3 > - root\n");
    assert_reads(1, 1);
    hf_close(client);
}

static bool check_holder(void *ctx, const hf_why_link *link)
{
    int64_t *token = ctx;
    const hf_entry_info *holder = link->holder;
    assert_string_equal(link->name, "x");
    assert_string_equal(holder->who, "p1@:1");
    assert_string_equal(holder->why, "reason 1");
    assert_string_equal(holder->session, "010001000000000000000000");
    assert_true(holder->since_ms > 0 && holder->granted_ms > 0 && holder->lease_left_ms > 0);
    assert_int_equal(holder->permits, HF_LIMIT_RW);
    assert_int_equal(holder->position, 0);
    *token = holder->token;
    return false;
}

static void test_what_a_link_says_of_the_holder(void **state)
{
    (void)state;
    hf_error err;
    int64_t token = 0;
    begin("memory:why-holder", NULL);
    make_chain();
    assert_int_equal(hf_why(client, "x", check_holder, &token, &err), HF_OK);
    assert_int_equal(token, look_at(f->inner, "x").holder.token);
    hf_close(client);
}

static void test_it_ends_when_the_callback_says_so(void **state)
{
    (void)state;
    begin("memory:why-early", NULL);
    make_chain();
    most = 2;
    assert_why("x", "0 x p1 > y follows\n1 y p2 > z follows\n");
    most = 0;
    hf_close(client);
}

static void test_several_holders_make_a_tree(void **state)
{
    (void)state;
    begin("memory:why-tree", NULL);
    begin_sessions(5);
    for (int i = 1; i <= 3; i++)
        share_as(i, "x");
    take_as(4, "y");
    take_as(5, "z");
    wait_as(1, "x", "y");
    wait_as(3, "x", "y");
    wait_as(4, "y", "z");
    assert_why("x", "0 x p1 > y follows\n"
                    "1 y p4 > z follows\n"
                    "2 z p5 > - root\n"
                    "0 x p2 > - root\n"
                    "0 x p3 > y told\n");
    assert_reads(3, 1);
    hf_close(client);
}

static void test_a_cycle_is_cut_off(void **state)
{
    (void)state;
    begin("memory:why-cycle", NULL);
    begin_sessions(3);
    take_as(1, "x");
    take_as(2, "y");
    take_as(3, "z");
    wait_as(1, "x", "y");
    wait_as(2, "y", "x");
    wait_for_itself(3, "z");
    assert_why("x", "0 x p1 > y follows\n1 y p2 > x cycle\n");
    assert_reads(2, 1);
    assert_why("z", "0 z p3 > z cycle\n");
    hf_close(client);
}

static void test_one_that_waits_for_two_comes_twice(void **state)
{
    (void)state;
    char *text = NULL;
    begin("memory:why-two", NULL);
    begin_sessions(3);
    take_as(1, "x");
    take_as(2, "y");
    take_as(3, "z");
    take_as(1, "y");
    take_as(1, "z");
    add_report(&text, 1, "x", "y");
    add_report(&text, 1, "x", "z");
    beat(1, text);
    assert_why("x", "0 x p1 > y follows\n1 y p2 > - root\n"
                    "0 x p1 > z follows\n1 z p3 > - root\n");
    hf_close(client);
}

/* p2 was started by p1, which waits for it with x in its hands. */
static void test_it_goes_on_through_a_nested_process(void **state)
{
    (void)state;
    waits_item inherited = {.ticket = ticket_of(1, "x"), .name = "x"};
    const waits_entry entry = {.on = item_of(2, "y"), .holds = &inherited, .n_holds = 1};
    char *text = NULL;
    begin("memory:why-nested", NULL);
    begin_sessions(3);
    take_as(1, "x");
    take_as(3, "y");
    take_as(2, "y");
    assert_why("x", "0 x p1 > - root\n");
    assert_true(waits_write(&text, &entry));
    beat(2, text);
    assert_why("x", "0 x p1 > y follows\n1 y p3 > - root\n");
    leave(1, "x"); /* it lost it, and its child does not know */
    assert_why("x", "");
    hf_close(client);
}

/* ---- What a report does not prove ---- */

static void test_another_thread_of_the_session_is_not_the_holder(void **state)
{
    (void)state;
    begin("memory:why-threads", NULL);
    begin_sessions(2);
    take_as(1, "x");
    take_as(1, "y");
    take_as(2, "z");
    wait_as(1, "y", "z");
    assert_why("x", "0 x p1 > - root\n");
    assert_why("y", "0 y p1 > z follows\n1 z p2 > - root\n");
    hf_close(client);
}

static void test_a_wait_that_is_over_is_none(void **state)
{
    (void)state;
    begin("memory:why-over", NULL);
    make_chain();
    leave(1, "y");
    assert_why("x", "0 x p1 > - root\n");
    take_as(1, "y");
    leave(2, "y"); /* it is granted */
    assert_why("x", "0 x p1 > - root\n");
    hf_close(client);
}

static void test_without_reports_there_are_just_the_holders(void **state)
{
    (void)state;
    hf_store_ops none;
    begin("memory:why-none", NULL);
    make_chain();
    none = *f->base.ops;
    none.waits = NULL;
    f->base.ops = &none;
    assert_why("x", "0 x p1 > - unknown\n");
    assert_reads(1, 0);
    hf_close(client);
    begin("memory:why-no-queue", NULL);
    make_chain();
    faulty_end_queue(f);
    assert_why("x", "0 x p1 > - unknown\n");
    assert_reads(1, 0);
    hf_close(client);
}

/* ---- Bounds ---- */

#define LEVELS 32

static void test_a_chain_without_end_is_cut(void **state)
{
    (void)state;
    char name[8], next[8];
    begin("memory:why-long", NULL);
    begin_sessions(LEVELS + 3);
    for (int i = 1; i <= LEVELS + 3; i++) {
        snprintf(name, sizeof name, "n%d", i);
        take_as(i, name);
    }
    for (int i = 1; i < LEVELS + 3; i++) {
        snprintf(name, sizeof name, "n%d", i);
        snprintf(next, sizeof next, "n%d", i + 1);
        wait_as(i, name, next);
    }
    assert_int_equal(why("n1"), HF_OK);
    assert_int_equal(n_told, LEVELS);
    assert_non_null(strstr(told, "\n31 n32 p32 > n33 cut\n"));
    assert_reads(LEVELS, 1);
    hf_close(client);
}

#define WIDE 120 /* more than the 100 locks that are read */

static void test_a_wide_tree_is_cut(void **state)
{
    (void)state;
    char name[8];
    begin("memory:why-wide", NULL);
    begin_sessions(WIDE + 1);
    for (int i = 1; i <= WIDE; i++)
        share_as(i, "x");
    for (int i = 1; i <= WIDE; i++) {
        snprintf(name, sizeof name, "n%d", i);
        take_as(WIDE + 1, name);
        wait_as(i, "x", name);
    }
    assert_int_equal(why("x"), HF_OK);
    assert_int_equal(n_next[HF_WHY_FOLLOWS], 99);
    assert_int_equal(n_next[HF_WHY_ROOT], 99);
    assert_int_equal(n_next[HF_WHY_CUT], WIDE - 99);
    assert_reads(2, 1);
    hf_close(client);
}

#define SHARERS 101 /* of each of ten locks: more than one call asks for by id */

static void test_every_one_of_very_many_holders_is_known(void **state)
{
    (void)state;
    char name[8];
    begin("memory:why-many", NULL);
    begin_sessions(10 * SHARERS);
    for (int i = 0; i < 10 * SHARERS; i++) {
        snprintf(name, sizeof name, "n%d", i / SHARERS);
        share_as(i + 1, name);
    }
    for (int i = 1; i < 10; i++) {
        snprintf(name, sizeof name, "n%d", i);
        wait_as(i, "n0", name);
    }
    assert_int_equal(why("n0"), HF_OK);
    assert_int_equal(n_next[HF_WHY_FOLLOWS], 9);
    assert_int_equal(n_next[HF_WHY_ROOT], 10 * SHARERS - 9);
    assert_int_equal(f->calls[FAULTY_LOOK], 2);
    assert_int_equal(f->calls[FAULTY_WAITS], 1);
    hf_close(client);
}

/* ---- Names and errors ---- */

static void test_a_free_lock_has_no_links(void **state)
{
    (void)state;
    char long_name[HF_NAME_MAX + 2];
    begin("memory:why-free", NULL);
    begin_sessions(1);
    take_as(1, "x");
    leave(1, "x");
    assert_why("x", "");
    assert_int_equal(why("nix"), HF_NOT_FOUND);
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(why(long_name), HF_INVALID);
    assert_int_equal(why(""), HF_INVALID);
    hf_close(client);
}

static void test_the_prefix_is_taken_off(void **state)
{
    (void)state;
    const hf_options options = {.name_prefix = "team/"};
    begin("memory:why-prefix", &options);
    begin_sessions(3);
    take_as(1, "team/x");
    take_as(2, "team/y");
    take_as(3, "others/z");
    wait_as(1, "team/x", "team/y");
    wait_as(2, "team/y", "others/z");
    assert_why("x", "0 x p1 > y follows\n1 y p2 > others/z follows\n2 others/z p3 > - root\n");
    assert_int_equal(why("team/x"), HF_NOT_FOUND);
    hf_close(client);
}

static faulty_call failing;

static hf_code fail_one(faulty *of, faulty_call call, const void *arg)
{
    (void)of;
    (void)arg;
    return call == failing ? HF_UNREACHABLE : HF_OK;
}

static void test_a_read_that_fails_tells_nothing(void **state)
{
    (void)state;
    static const faulty_call reads[] = {FAULTY_LOOK, FAULTY_WAITS, FAULTY_SESSIONS_LOOK};
    begin("memory:why-fails", NULL);
    make_chain();
    f->before = fail_one;
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        failing = reads[i];
        assert_int_equal(why("x"), HF_UNREACHABLE);
        assert_int_equal(n_told, 0);
    }
    hf_close(client);
}

int main(void)
{
    const struct CMUnitTest why_tests[] = {
        cmocka_unit_test(test_a_chain_ends_at_its_root),
        cmocka_unit_test(test_what_a_link_says_of_the_holder),
        cmocka_unit_test(test_it_ends_when_the_callback_says_so),
        cmocka_unit_test(test_several_holders_make_a_tree),
        cmocka_unit_test(test_a_cycle_is_cut_off),
        cmocka_unit_test(test_one_that_waits_for_two_comes_twice),
        cmocka_unit_test(test_it_goes_on_through_a_nested_process),
        cmocka_unit_test(test_another_thread_of_the_session_is_not_the_holder),
        cmocka_unit_test(test_a_wait_that_is_over_is_none),
        cmocka_unit_test(test_without_reports_there_are_just_the_holders),
        cmocka_unit_test(test_a_chain_without_end_is_cut),
        cmocka_unit_test(test_a_wide_tree_is_cut),
        cmocka_unit_test(test_every_one_of_very_many_holders_is_known),
        cmocka_unit_test(test_a_free_lock_has_no_links),
        cmocka_unit_test(test_the_prefix_is_taken_off),
        cmocka_unit_test(test_a_read_that_fails_tells_nothing),
    };
    return cmocka_run_group_tests(why_tests, NULL, NULL);
}
