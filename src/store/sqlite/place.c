/* SPDX-License-Identifier: Apache-2.0 */
/* place.c: finds out on which boot of which machine this process runs, and with which clock; the
 * store asks once, at opening. */
#include "core/error.h"
#include "store/sqlite/sqlite.h"

#include <errno.h>
#include <string.h>

/* Containers often have no machine id. SQLITE_MACHINE_LOCAL counts as the same machine as any: the
 * database is on a file system that one machine mounts at a time, or `doctor` calls it a danger. */
static void read_machine(char *out, size_t size)
{
    if (host_read_line("/etc/machine-id", out, size) && strcmp(out, "uninitialized") != 0)
        return;
    if (!host_read_line("/var/lib/dbus/machine-id", out, size))
        strcpy(out, SQLITE_MACHINE_LOCAL);
}

hf_code sqlite_place_here(sqlite_place *out, hf_error *err)
{
    if (!host_read_line(HOST_BOOT_ID, out->boot, sizeof out->boot))
        return error_set(err, HF_UNUSABLE,
                         HOST_BOOT_ID " cannot be read (%s): "
                                      "mount /proc; the embedded store needs it",
                         strerror(errno));
    read_machine(out->machine, sizeof out->machine);
    host_read_clock(out->clock);
    return HF_OK;
}
