/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.c: renews a lease in the background, as long as it is wanted. */
#include "keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/settings/options.h"
#include "clock.h"
#include "interrupt.h"

#define RETRY_MOST_MS 500

/* The guardian of the client that took the lease ends about now, and nobody asks how. */
static void disown_children(void)
{
    signal(SIGCHLD, SIG_IGN);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

/* It stays in its folder: the store's path, or a file that the URI names, may begin there. */
void keeper_detach(void)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    setsid();
    disown_children();
    for (int fd = 0; fd < 3 && nowhere >= 0; fd++)
        dup2(nowhere, fd);
}

typedef struct times {
    int64_t renew_at, lease_end, end;
} times;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns whether it is still wanted. A signal may have come before poll() is called. */
static bool wait_until(const keeper *k, const times *t)
{
    struct pollfd fds[] = {{k->pid_fd, POLLIN, 0}, {interrupt_fd(), POLLIN, 0}};
    int64_t ms = least(t->renew_at, t->end) - clock_boot_ms();
    int n = poll(fds, 2, ms > 60000 ? 60000 : ms > 0 ? (int)ms : 0);
    return n <= 0 && !interrupt_signal() && clock_boot_ms() < t->end;
}

/* Then a lease of 40 s outlives an outage of 25 s that begins just before a renewal. */
static int64_t next_renewal(const hf_lease *lease, int64_t sent)
{
    return sent + lease->ttl_ms / 4;
}

/* Returns whether the lease still stands, as far as is known. */
static bool renew(hf_client *client, const hf_lease *lease, times *t)
{
    hf_lease now;
    int64_t sent = clock_boot_ms();
    hf_code code = hf_lease_renew(client, lease->id, &now, NULL);
    if (!code) {
        t->lease_end = sent + now.left_ms;
        t->renew_at = next_renewal(lease, sent);
        return true;
    }
    t->renew_at = clock_boot_ms() + least(lease->ttl_ms / 20, RETRY_MOST_MS);
    return code != HF_LOST && clock_boot_ms() < t->lease_end;
}

void keeper_run(const keeper *k, const hf_lease *lease)
{
    hf_client *client;
    int64_t now = clock_boot_ms();
    times t = {.renew_at = next_renewal(lease, now),
               .lease_end = now + lease->left_ms,
               .end = k->for_ms ? now + k->for_ms : INT64_MAX};
    bool is_there = true;
    if (options_open(k->given, NULL, &client))
        return;
    while (is_there && wait_until(k, &t))
        if (clock_boot_ms() >= t.renew_at)
            is_there = renew(client, lease, &t);
    if (is_there)
        hf_lease_release(client, lease->id, NULL);
    hf_close(client);
}
