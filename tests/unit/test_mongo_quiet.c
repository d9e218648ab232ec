/* SPDX-License-Identifier: Apache-2.0 */
/* test_mongo_quiet.c: what the MongoDB driver, which the library is linked with, prints: nothing
 * once a store was opened, nothing at all with MONGOC_DISABLE_SHM, and a program's own log handler
 * stays. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <holdfast/holdfast.h>
#include <mongoc/mongoc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int shm_open(const char *name, int flags, mode_t mode);

/* In the place of the C library's: where the driver gets none, for its counters, it says so. */
int shm_open(const char *name, int flags, mode_t mode)
{
    (void)name, (void)flags, (void)mode;
    errno = EACCES;
    return -1;
}

static void open_and_close(void)
{
    hf_client *client;
    hf_error err;
    assert_int_equal(hf_open("mongodb://127.0.0.1:1/app", NULL, &client, &err), HF_OK);
    hf_close(client);
}

static void test_opening_prints_nothing(void **state)
{
    (void)state;
    char said[200] = "";
    int kept = dup(STDERR_FILENO), pipes[2];
    assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
    dup2(pipes[1], STDERR_FILENO);
    open_and_close();
    dup2(kept, STDERR_FILENO);
    ssize_t n = read(pipes[0], said, sizeof said - 1);
    assert_string_equal(n > 0 ? said : "", "");
    close(kept);
    close(pipes[0]);
    close(pipes[1]);
}

/* This program once more: all that it prints from its very start on. */
static void read_all(const char *before, char *said, size_t size)
{
    char self[400], command[500];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    snprintf(command, sizeof command, "%s '%s' open 2>&1", before, self);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    said[fread(said, 1, size - 1, out)] = '\0';
    assert_int_equal(pclose(out), 0);
}

static void test_without_shared_memory_nothing_is_printed_at_all(void **state)
{
    (void)state;
    char said[400];
    read_all("MONGOC_DISABLE_SHM=1", said, sizeof said);
    assert_string_equal(said, "");
}

static int heard;

static void hear(mongoc_log_level_t level, const char *domain, const char *text, void *ctx)
{
    (void)level, (void)domain, (void)text, (void)ctx;
    heard++;
}

static void test_a_handler_that_the_program_sets_stays(void **state)
{
    (void)state;
    open_and_close();
    mongoc_log_set_handler(hear, NULL);
    open_and_close();
    mongoc_log(MONGOC_LOG_LEVEL_WARNING, "test", "said");
    assert_int_equal(heard, 1);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        open_and_close();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opening_prints_nothing),
        cmocka_unit_test(test_without_shared_memory_nothing_is_printed_at_all),
        cmocka_unit_test(test_a_handler_that_the_program_sets_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
