/* SPDX-License-Identifier: Apache-2.0 */
/* test_host.c: how a host's clock is named, with other files in the place of the machine's; open()
 * and readlink() come here by the linker (--wrap). */
#include "unit.h"

#include "store/host.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* What stands in each; NULL: it cannot be read, for this reason. */
static const char *offsets, *ours, *of_children;
static int why;

int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_readlink(const char *path, char *out, size_t size);

int __wrap_open(const char *path, int flags, ...)
{
    int fds[2];
    assert_string_equal(path, "/proc/self/timens_offsets");
    assert_int_equal(flags, O_RDONLY | O_CLOEXEC);
    errno = why;
    if (!offsets)
        return -1;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], offsets, strlen(offsets)), strlen(offsets));
    close(fds[1]);
    return fds[0];
}

ssize_t __wrap_readlink(const char *path, char *out, size_t size)
{
    const char *link = strcmp(path, "/proc/self/ns/time") == 0 ? ours : of_children;
    errno = why;
    if (!link)
        return -1;
    if (link == of_children)
        assert_string_equal(path, "/proc/self/ns/time_for_children");
    size_t length = strlen(link) < size ? strlen(link) : size;
    memcpy(out, link, length);
    return (ssize_t)length;
}

static int set_up(void **state)
{
    (void)state;
    offsets = "monotonic           1         2\nboottime            3         4\n";
    ours = "time:[4026531834]";
    of_children = strdup(ours);
    why = EACCES;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free((char *)(uintptr_t)of_children);
    return 0;
}

static void assert_clock(const char *is)
{
    char out[HOST_CLOCK_SIZE];
    memset(out, 'x', sizeof out);
    int before = dup(0);
    close(before);
    host_read_clock(out);
    int after = dup(0);
    close(after);
    assert_string_equal(out, is);
    assert_int_equal(after, before); /* none was left open */
}

static void forget_children(void)
{
    free((char *)(uintptr_t)of_children);
    of_children = NULL;
}

/* The kernel gives the number of a namespace that ended to the next one, with another offset. */
static void test_a_number_that_is_used_again_names_another_clock(void **state)
{
    (void)state;
    assert_clock("boottime 3 4");
    offsets = "monotonic 1 2\nboottime 100000 4\n";
    assert_clock("boottime 100000 4");
}

static void test_namespaces_with_one_offset_have_one_clock(void **state)
{
    (void)state;
    ours = "time:[5]";
    forget_children();
    of_children = strdup(ours);
    assert_clock("boottime 3 4");
}

static void test_an_offset_may_be_before(void **state)
{
    (void)state;
    offsets = "monotonic 0 0\nboottime -9223372036 999999999\n";
    assert_clock("boottime -9223372036 999999999");
}

static void test_offsets_of_children_are_not_ours(void **state)
{
    (void)state;
    ours = "time:[5]";
    assert_clock("");
}

static void test_a_kernel_without_time_namespaces_has_one_clock(void **state)
{
    (void)state;
    forget_children();
    ours = offsets = NULL;
    why = ENOENT;
    assert_clock("boottime");
}

static void test_what_cannot_be_read_is_not_known(void **state)
{
    (void)state;
    static const char *const bad[] = {
        NULL, "", "boottime", "monotonic 1 2\n", "boottime 1\n", "boottime x y\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        offsets = bad[i];
        assert_clock("");
    }
    offsets = "monotonic 1 2\nboottime 3 4\n";
    assert_clock("boottime 3 4");
    forget_children();
    assert_clock("");
    ours = NULL;
    assert_clock("");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_number_that_is_used_again_names_another_clock),
        TEST(test_namespaces_with_one_offset_have_one_clock),
        TEST(test_an_offset_may_be_before),
        TEST(test_offsets_of_children_are_not_ours),
        TEST(test_a_kernel_without_time_namespaces_has_one_clock),
        TEST(test_what_cannot_be_read_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
