/* SPDX-License-Identifier: Apache-2.0 */
/* host.c: finds out what identifies this host's CLOCK_BOOTTIME; called by the stores at opening.
 *
 * Within a boot, time namespaces differ by an offset, which is constant once a process is in one.
 * The clock is named by that offset, not by the namespace's inode number, which the kernel gives to
 * another namespace when the first has ended (time_namespaces(7)). */
#include "store/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAMESPACE "/proc/self/ns/time"
#define NAMESPACE_OF_CHILDREN "/proc/self/ns/time_for_children"

static size_t read_file(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

bool host_read_line(const char *path, char *out, size_t size)
{
    read_file(path, out, size);
    out[strcspn(out, "\n")] = '\0';
    return out[0] != '\0';
}

static bool read_link(const char *path, char *out, size_t size)
{
    ssize_t n = readlink(path, out, size - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* The kernel shows the offsets of the namespace that children will be in. After unshare(2) that is
 * another one than this process's. */
static bool are_offsets_ours(const char *ours)
{
    char of_children[64];
    return read_link(NAMESPACE_OF_CHILDREN, of_children, sizeof of_children) &&
           strcmp(ours, of_children) == 0;
}

void host_read_clock(char out[HOST_CLOCK_SIZE])
{
    char ours[64], text[256];
    long long seconds, nanoseconds;
    out[0] = '\0';
    if (!read_link(NAMESPACE, ours, sizeof ours)) {
        if (errno == ENOENT) /* a kernel without time namespaces has one clock */
            strcpy(out, "boottime");
        return;
    }
    if (!are_offsets_ours(ours))
        return;
    read_file("/proc/self/timens_offsets", text, sizeof text);
    const char *line = strstr(text, "boottime");
    if (line && sscanf(line, "boottime %lld %lld", &seconds, &nanoseconds) == 2)
        snprintf(out, HOST_CLOCK_SIZE, "boottime %lld %lld", seconds, nanoseconds);
}
