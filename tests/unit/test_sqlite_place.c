/* SPDX-License-Identifier: Apache-2.0 */
/* test_sqlite_place.c: where the embedded store takes itself to run, with other files in the place
 * of the machine's; open() comes here by the linker (--wrap). */
#include "unit.h"

#include "store/sqlite/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* What stands in each; NULL: there is none. */
static const char *boot, *machine, *dbus_machine, *offsets;

int __wrap_open(const char *path, int flags, ...);

static int open_with(const char *text)
{
    int fds[2];
    if (!text) {
        errno = ENOENT;
        return -1;
    }
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], text, strlen(text)), strlen(text));
    close(fds[1]);
    return fds[0];
}

int __wrap_open(const char *path, int flags, ...)
{
    assert_int_equal(flags & O_ACCMODE, O_RDONLY);
    if (strcmp(path, BOOT_ID) == 0)
        return open_with(boot);
    if (strcmp(path, "/etc/machine-id") == 0)
        return open_with(machine);
    if (strcmp(path, "/var/lib/dbus/machine-id") == 0)
        return open_with(dbus_machine);
    assert_string_equal(path, "/proc/self/timens_offsets");
    return open_with(offsets);
}

static int set_up(void **state)
{
    (void)state;
    boot = "boot\n";
    machine = "machine\n";
    dbus_machine = "dbus\n";
    offsets = "boottime 1 2\n";
    return 0;
}

static sqlite_place here(void)
{
    hf_error err;
    sqlite_place place;
    memset(&place, 'x', sizeof place);
    int before = dup(0);
    close(before);
    assert_int_equal(sqlite_place_here(&place, &err), HF_OK);
    int after = dup(0);
    close(after);
    assert_int_equal(after, before); /* none was left open */
    return place;
}

static void test_it_is_what_the_files_say(void **state)
{
    (void)state;
    sqlite_place place = here();
    assert_string_equal(place.boot, "boot");
    assert_string_equal(place.machine, "machine");
    assert_string_equal(place.clock, "boottime 1 2");
    boot = "other\nand more\n";
    assert_string_equal(here().boot, "other");
}

static void test_a_machine_may_have_its_id_elsewhere_or_none(void **state)
{
    (void)state;
    static const char *const none[] = {NULL, "", "\n", "uninitialized\n"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        machine = none[i];
        dbus_machine = "dbus\n";
        assert_string_equal(here().machine, "dbus");
        dbus_machine = NULL;
        assert_string_equal(here().machine, SQLITE_MACHINE_LOCAL);
        dbus_machine = "\n";
        assert_string_equal(here().machine, SQLITE_MACHINE_LOCAL);
    }
}

static void test_without_a_boot_there_is_no_store(void **state)
{
    (void)state;
    hf_error err;
    sqlite_place place;
    boot = NULL;
    assert_int_equal(sqlite_place_here(&place, &err), HF_UNUSABLE);
    assert_non_null(strstr(err.text, BOOT_ID));
    boot = "\n";
    assert_int_equal(sqlite_place_here(&place, &err), HF_UNUSABLE);
}

static void test_what_is_too_long_is_cut(void **state)
{
    (void)state;
    static char text[301];
    memset(text, 'a', sizeof text - 1);
    boot = machine = text;
    sqlite_place place = here();
    assert_int_equal(strlen(place.boot), sizeof place.boot - 1);
    assert_int_equal(strlen(place.machine), sizeof place.machine - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_it_is_what_the_files_say, set_up),
        cmocka_unit_test_setup(test_a_machine_may_have_its_id_elsewhere_or_none, set_up),
        cmocka_unit_test_setup(test_without_a_boot_there_is_no_store, set_up),
        cmocka_unit_test_setup(test_what_is_too_long_is_cut, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
