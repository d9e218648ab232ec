/* SPDX-License-Identifier: Apache-2.0 */
/* process_cases.c: what is promised among processes that crash and stop, on stores that other
 * processes see; run by main.c. */
#include "conformance/bed.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static hf_client *mine;

/* What `mine` holds is to last on a busy machine. (With sharding the ttl is also the expiry of
 * others.) */
static int set_up(void **state)
{
    (void)state;
    mine = bed_client("mine", bed.is_mongo ? BED_TTL : 10000);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hf_close(mine);
    return 0;
}

/* A child that holds; returns its token. "keep": with a longer ttl. */
static int64_t start_holder(struct child *child, const char *verb, const char *name)
{
    char line[64];
    child_start(child, verb, name, "");
    child_read(child, line, sizeof line);
    return strtoll(line, NULL, 10);
}

static void test_four_processes_over_a_counter(void **state)
{
    (void)state;
    char path[] = "/tmp/holdfast-counter-XXXXXX";
    const char *name = bed_name("counter");
    struct child children[4];
    int n = -1, fd = mkstemp(path);
    assert_int_equal(write(fd, "0\n", 2), 2);
    close(fd);
    for (int i = 0; i < 4; i++)
        child_start(&children[i], "count", name, path);
    for (int i = 0; i < 4; i++)
        assert_int_equal(child_wait(&children[i]), 0);
    FILE *file = fopen(path, "r");
    assert_int_equal(fscanf(file, "%d", &n), 1);
    fclose(file);
    unlink(path);
    assert_int_equal(n, 4 * 25);
}

static void test_another_process_is_waited_for(void **state)
{
    (void)state;
    const char *name = bed_name("process");
    struct child child;
    static struct taker taker;
    hf_lock *lock = NULL;
    int64_t token = start_holder(&child, "hold", name);
    assert_int_equal(bed_try(mine, name, HF_EXCLUSIVE, &lock), HF_HELD);
    taker_start(&taker, mine, name, NULL);
    bed_wait_queued(mine, name, 1);
    assert_int_equal(child_wait(&child), 0); /* its input ends: it closes, and ends */
    taker_join(&taker);
    assert_code(HF_OK, taker.code, &taker.err);
    bed_rises(token, hf_lock_token(taker.lock));
    bed_previous(taker.lock, HF_OUTCOME_RELEASED, "child@", token);
    bed_release(taker.lock);
}

static void test_a_killed_holders_lock_is_had_within_its_ttl_and_a_second(void **state)
{
    (void)state;
    const char *name = bed_name("killed");
    struct child child;
    static struct taker taker;
    int64_t token = start_holder(&child, "hold", name);
    taker_start(&taker, mine, name, NULL);
    bed_wait_queued(mine, name, 1);
    int64_t killed = idle_ms();
    kill(child.pid, SIGKILL);
    taker_join(&taker);
    assert_true(WIFSIGNALED(child_wait(&child)));
    assert_code(HF_OK, taker.code, &taker.err);
    assert_in_range(taker.ended_idle_ms - killed, 0, bed_takeover_ms());
    bed_rises(token, hf_lock_token(taker.lock));
    bed_previous(taker.lock, HF_OUTCOME_ABANDONED, "child@", token);
    bed_release(taker.lock);
}

static void test_a_stopped_holder_has_lost_it_when_it_wakes(void **state)
{
    (void)state;
    const char *name = bed_name("stopped");
    char line[64];
    struct child child;
    int64_t token = start_holder(&child, "hold", name);
    child_say(&child, "check\n");
    child_read(&child, line, sizeof line);
    assert_string_equal(line, "HF_OK");
    child_stop(&child);
    child_say(&child, "check\n"); /* waits there for it: its very first call */
    hf_lock *lock = bed_acquire(mine, name, NULL);
    bed_rises(token, hf_lock_token(lock));
    kill(child.pid, SIGCONT);
    child_read(&child, line, sizeof line);
    assert_string_equal(line, "HF_LOST");
    assert_int_equal(hf_lock_check(lock, NULL, NULL), HF_OK);
    assert_int_equal(child_wait(&child), 0);
    assert_int_equal(hf_lock_check(lock, NULL, NULL), HF_OK); /* its close took nothing of ours */
    bed_release(lock);
}

static void test_a_stop_that_is_shorter_than_the_lease_costs_nothing(void **state)
{
    (void)state;
    const char *name = bed_name("paused");
    char line[64];
    struct child child;
    start_holder(&child, "keep", name);
    child_stop(&child);
    const hf_lock_options brief = {.wait_ms = 1000};
    hf_lock *lock = NULL;
    assert_int_equal(hf_lock_acquire(mine, name, &brief, &lock, NULL), HF_TIMEOUT);
    kill(child.pid, SIGCONT);
    child_say(&child, "check\n");
    child_read(&child, line, sizeof line);
    assert_string_equal(line, "HF_OK");
    assert_int_equal(child_wait(&child), 0);
}

int run_process_cases(void)
{
    const struct bed_case process_cases[] = {
        CASE_IF(HF_CAN_PROCESSES, test_four_processes_over_a_counter),
        CASE_IF(HF_CAN_PROCESSES, test_another_process_is_waited_for),
        CASE_IF(HF_CAN_PROCESSES | BED_MAKES,
                test_a_killed_holders_lock_is_had_within_its_ttl_and_a_second),
        CASE_IF(HF_CAN_PROCESSES | BED_MAKES, test_a_stopped_holder_has_lost_it_when_it_wakes),
        CASE_IF(HF_CAN_PROCESSES, test_a_stop_that_is_shorter_than_the_lease_costs_nothing),
    };
    return CASES(process_cases);
}
