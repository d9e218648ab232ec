/* SPDX-License-Identifier: Apache-2.0 */
/* place.c: finds out on which boot of which machine this process runs, and with which clock; the
 * store asks once, at opening. */
#include "core/error.h"
#include "store/sqlite/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The first line of a small file; false when there is none. */
static bool read_line(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return out[0] != '\0';
}

/* Containers often have no machine id. SQLITE_MACHINE_LOCAL counts as the same machine as any: the
 * database is on a file system that one machine mounts at a time, or `doctor` calls it a danger. */
static void read_machine(char *out, size_t size)
{
    if (read_line("/etc/machine-id", out, size) && strcmp(out, "uninitialized") != 0)
        return;
    if (!read_line("/var/lib/dbus/machine-id", out, size))
        strcpy(out, SQLITE_MACHINE_LOCAL);
}

/* Kernels without time namespaces have one clock. */
static void read_clock(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/ns/time", out, size - 1);
    out[n > 0 ? n : 0] = '\0';
}

hf_code sqlite_place_here(sqlite_place *out, hf_error *err)
{
    if (!read_line("/proc/sys/kernel/random/boot_id", out->boot, sizeof out->boot))
        return error_set(err, HF_UNUSABLE,
                         "/proc/sys/kernel/random/boot_id cannot be read (%s): "
                         "mount /proc; the embedded store needs it",
                         strerror(errno));
    read_machine(out->machine, sizeof out->machine);
    read_clock(out->clock, sizeof out->clock);
    return HF_OK;
}
