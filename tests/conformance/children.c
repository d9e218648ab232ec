/* SPDX-License-Identifier: Apache-2.0 */
/* children.c: starts this program again as a child, and is what such a child does: a process of its
 * own that counts under a lock, or holds one; used by process_cases.c. */
#include "conformance/bed.h"
#include "support/faulty.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- In the parent ---- */

void child_start(struct child *child, const char *verb, const char *name, const char *arg)
{
    int to[2], from[2];
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    char *args[] = {"conformance", "child", (char *)verb, bed.uri, (char *)name, (char *)arg, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    assert_int_equal(posix_spawn(&child->pid, "/proc/self/exe", &actions, NULL, args, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    child->in = to[1];
    child->out = fdopen(from[0], "r");
}

void child_read(struct child *child, char *line, size_t size)
{
    if (!bed_readable(fileno(child->out), BED_SOON) || !fgets(line, (int)size, child->out)) {
        kill(child->pid, SIGKILL);
        fail_msg("the child process said nothing");
    }
    line[strcspn(line, "\n")] = '\0';
}

void child_say(struct child *child, const char *line)
{
    assert_int_equal(write(child->in, line, strlen(line)), strlen(line));
}

static bool has_stopped(void *ctx)
{
    struct child *child = ctx;
    int status;
    return waitpid(child->pid, &status, WNOHANG | WUNTRACED) == child->pid && WIFSTOPPED(status);
}

void child_stop(struct child *child)
{
    child_say(child, "stop\n");
    assert_true(bed_until(BED_SOON, has_stopped, child));
}

struct ended {
    pid_t pid;
    int status;
};

static bool has_ended(void *ctx)
{
    struct ended *ended = ctx;
    return waitpid(ended->pid, &ended->status, WNOHANG) == ended->pid;
}

int child_wait(struct child *child)
{
    struct ended ended = {child->pid, 0};
    close(child->in);
    if (!bed_until(BED_SOON, has_ended, &ended)) {
        kill(child->pid, SIGKILL);
        waitpid(child->pid, &ended.status, 0);
    }
    fclose(child->out);
    return ended.status;
}

/* ---- In the child ---- */

/* Adds one to the number in the file, in a way that loses updates unless others keep out. */
static void count_up(const char *path)
{
    int n = 0;
    FILE *file = fopen(path, "r+");
    if (!file || fscanf(file, "%d", &n) != 1)
        exit(1);
    poll(NULL, 0, 1);
    rewind(file);
    fprintf(file, "%d\n", n + 1);
    fclose(file);
}

static hf_lock *take_or_exit(hf_client *client, const char *name)
{
    hf_lock_options options = {.wait_ms = BED_SOON};
    hf_error err;
    hf_lock *lock;
    if (hf_lock_acquire(client, name, &options, &lock, &err) == HF_OK)
        return lock;
    fprintf(stderr, "child: %s: %s\n", hf_code_name(err.code), err.text);
    exit(2);
}

static int count(hf_client *client, const char *name, const char *path)
{
    for (int i = 0; i < 25; i++) {
        hf_lock *lock = take_or_exit(client, name);
        count_up(path);
        if (hf_lock_release(lock, NULL) != HF_OK)
            return 3;
        hf_lock_close(lock);
    }
    return 0;
}

/* A process that stops inside its store may keep the store's own lock from all others: this one
 * stops between two calls. */
static pthread_rwlock_t in_store = PTHREAD_RWLOCK_INITIALIZER;

static hf_code enter_store(faulty *f, faulty_call call, const void *arg)
{
    (void)f, (void)call, (void)arg;
    pthread_rwlock_rdlock(&in_store);
    return HF_OK;
}

static hf_code leave_store(faulty *f, faulty_call call, const void *arg)
{
    (void)f, (void)call, (void)arg;
    pthread_rwlock_unlock(&in_store);
    return HF_OK;
}

/* cmocka has a macro that is called stop. */
static void stop_here(void)
{
    pthread_rwlock_wrlock(&in_store);
    raise(SIGSTOP);
    pthread_rwlock_unlock(&in_store);
}

static hf_client *client_that_stops(const char *verb)
{
    const hf_options options = {.ttl_ms = strcmp(verb, "hold") == 0 ? BED_TTL : 10000,
                                .app = "child"};
    hf_client *client;
    char uri[sizeof bed.uri + 32];
    faulty *store = faulty_open(bed_uri_for(options.ttl_ms, uri), &options, &client);
    store->before = enter_store;
    store->after = leave_store;
    return client;
}

/* Holds; on each line of input says what hf_lock_check() says, or stops; ends with the input. */
static int hold(hf_client *client, const char *name)
{
    char line[64];
    hf_lock *lock = take_or_exit(client, name);
    printf("%lld\n", (long long)hf_lock_token(lock));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "stop\n") == 0) {
            stop_here();
            continue;
        }
        printf("%s\n", hf_code_name(hf_lock_check(lock, NULL, NULL)));
        fflush(stdout);
    }
    hf_lock_close(lock);
    return 0;
}

int child_main(char **args)
{
    const char *verb = args[0], *name = args[2], *arg = args[3];
    bed_use(args[1]);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* stopped it would keep the output of the tests open */
    alarm(10 * BED_SOON / 1000);
    bool counts = strcmp(verb, "count") == 0;
    hf_client *client = counts ? bed_client("child", 10000) : client_that_stops(verb);
    int status = counts ? count(client, name, arg) : hold(client, name);
    hf_close(client);
    return status;
}
