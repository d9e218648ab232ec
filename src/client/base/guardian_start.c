/* SPDX-License-Identifier: Apache-2.0 */
/* guardian_start.c: starts a guardian as nobody's child; see guardian.h. Called by guardian.c.
 *
 * A program must not notice a child that it has not started: neither by SIGCHLD, nor in a wait()
 * for any child, nor as a zombie. So a helper starts the guardian and ends, and the guardian
 * becomes a child of process 1. The helper sends no signal when it ends, and only a wait for such
 * children finds it. It is a process that shares this one's memory until it ends, and this thread
 * stands still meanwhile: copying the memory of a large program would take longer than taking a
 * lock. */
#include "client/base/guardian.h"

#include "core/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ITS_FD 3
#define STACK_SIZE 65536

extern char **environ;

struct starting {
    const char *command;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int failed; /* errno, written by the helper */
};

/* In the helper. */
static int start_and_end(void *ctx)
{
    struct starting *s = ctx;
    char program[] = "holdfast", verb[] = "guardian", fd[] = "3";
    char *const words[] = {program, verb, fd, NULL};
    pid_t pid;
    s->failed = posix_spawnp(&pid, s->command, &s->files, &s->attributes, words, environ);
    return 0;
}

/* Only its end of the socket stays open; a mount, a terminal or a pipe of the program does not. */
static int prepare_files(posix_spawn_file_actions_t *files, int its_end)
{
    int failed = posix_spawn_file_actions_adddup2(files, its_end, ITS_FD);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && !failed; fd++)
        failed = posix_spawn_file_actions_addopen(files, fd, "/dev/null", O_RDWR, 0);
    if (!failed)
        failed = posix_spawn_file_actions_addclosefrom_np(files, ITS_FD + 1);
    return failed;
}

/* A session of its own, so that no terminal sends it signals; none of them blocked or ignored. */
static int prepare_signals(posix_spawnattr_t *attributes)
{
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    int failed = posix_spawnattr_setsigdefault(attributes, &all);
    if (!failed)
        failed = posix_spawnattr_setsigmask(attributes, &none);
    return failed
               ? failed
               : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF |
                                                          POSIX_SPAWN_SETSIGMASK);
}

static int run_helper(struct starting *s)
{
    char *stack = alloc_array(NULL, STACK_SIZE, 1);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* no handler of the program runs in the helper */
    pid_t helper = clone(start_and_end, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK, s);
    int failed = helper < 0 ? errno : 0;
    while (helper > 0 && waitpid(helper, NULL, (int)__WCLONE) < 0 && errno == EINTR)
        continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(stack);
    return failed ? failed : s->failed;
}

static int start(const char *command, int its_end)
{
    struct starting s = {.command = command};
    posix_spawn_file_actions_init(&s.files);
    posix_spawnattr_init(&s.attributes);
    int failed = prepare_files(&s.files, its_end);
    if (!failed)
        failed = prepare_signals(&s.attributes);
    if (!failed)
        failed = run_helper(&s);
    posix_spawnattr_destroy(&s.attributes);
    posix_spawn_file_actions_destroy(&s.files);
    return failed;
}

/* PATH is that of the user who has started a program with more rights than theirs, as a setuid one.
 */
static bool may_search(const char *command)
{
    return strchr(command, '/') || !getauxval(AT_SECURE);
}

int guardian_start(const char *command, int *fd)
{
    int ends[2];
    if (!may_search(command))
        return EPERM;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return errno;
    int failed = start(command, ends[1]);
    close(ends[1]);
    if (failed)
        close(ends[0]);
    else
        *fd = ends[0];
    return failed;
}
