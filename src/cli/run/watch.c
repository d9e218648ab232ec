/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c: what run and elect do while their command runs: passes signals on, follows its stops,
 * and stops it in time when a lock is lost (rule R7). */
#include "watch.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "cli/terminal/terminal.h"
#include "clock.h"
#include "health.h"
#include "show/text.h"

#define GROUP_LOOK_MS 10

typedef struct watch {
    const plan *plan;
    hf_lock **locks;
    child *child;
    signals *signals;
    health health;
    struct pollfd *fds; /* the signals, then each lock */
    bool is_lost;
    bool is_killed;
    int64_t kill_at_ms; /* when it is lost: the time for SIGKILL */
    int64_t end_ms;     /* and the end of the lease */
} watch;

/* ---- A lost lock ---- */

static void kill_group(watch *w)
{
    w->is_killed = true;
    child_signal(w->child, SIGKILL);
}

/* SIGTERM at once; SIGKILL after the grace, or sooner if less of the lease is left. */
static void stop(watch *w, int64_t left_ms)
{
    int64_t now = clock_boot_ms(), most = left_ms - w->plan->margin_ms;
    int64_t grace = w->plan->grace_ms < most ? w->plan->grace_ms : most;
    w->is_lost = true;
    health_stop(&w->health);
    w->end_ms = now + left_ms;
    w->kill_at_ms = now + grace;
    if (grace <= 0) {
        kill_group(w);
        return;
    }
    child_signal(w->child, SIGTERM);
    child_signal(w->child, SIGCONT);
}

static void say_lost(const watch *w, const char *name, const hf_error *err)
{
    terminal_error(
        "lost the lock \"%s\": %s; %s", name, *err->text ? err->text : "its lease ran out",
        w->child->has_ended ? "the command has ended by itself" : "stopping the command");
}

/* Asks the clock, which shows a loss no later than the descriptors. */
static void look_at_locks(watch *w)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < w->plan->n_names && !w->is_lost; i++) {
        int64_t left = 0;
        hf_error err = {0};
        if (!hf_lock_check(w->locks[i], &left, &err))
            continue;
        say_lost(w, hf_lock_name(w->locks[i]), &err);
        least = left < least ? left : least;
    }
    if (least != INT64_MAX)
        stop(w, least);
}

static void kill_in_time(watch *w)
{
    if (w->is_lost && !w->is_killed && clock_boot_ms() >= w->kill_at_ms)
        kill_group(w);
}

/* The rest of the group has the grace, too. Nothing reports the end of a process that is not our
 * child, so this checks from time to time. */
static void clear_group(watch *w)
{
    while (child_has_group(w->child) && !(w->is_killed && clock_boot_ms() >= w->end_ms)) {
        kill_in_time(w);
        poll(NULL, 0, GROUP_LOOK_MS);
    }
}

/* ---- Signals and jobs ---- */

static void resume(watch *w)
{
    look_at_locks(w); /* it may have been stopped for longer than the lease */
    if (w->is_lost || w->child->has_ended)
        return;
    if (w->child->uses_terminal)
        child_give_terminal(w->child);
    child_signal(w->child, SIGCONT);
}

/* As under flock(1), a stopped command keeps its lock, however long: somebody should know.
 */
static void say_kept(const watch *w, int signal)
{
    terminal_warn("the command was stopped (SIG%s) and keeps \"%s\"%s until it ends: kill -CONT %d "
                  "resumes it",
                  sigabbrev_np(signal), w->plan->names[0], w->plan->n_names > 1 ? " and more" : "",
                  (int)w->child->pid);
}

/* The command was stopped as a job: then so is this, if there is a shell that can continue it. */
static void follow_stop(watch *w, int signal)
{
    bool wants_terminal = signal == SIGTTIN || signal == SIGTTOU;
    if (w->is_lost)
        return;
    if (!wants_terminal && signal != SIGTSTP) {
        say_kept(w, signal);
        return;
    }
    if (wants_terminal && child_give_terminal(w->child)) {
        child_signal(w->child, SIGCONT);
        return;
    }
    child_take_terminal(w->child);
    if (signals_stop_job())
        resume(w);
    else
        say_kept(w, signal);
}

static void look_at_child(watch *w)
{
    int stopped_by = child_look(w->child);
    if (stopped_by)
        follow_stop(w, stopped_by);
}

/* Such a signal may ask a command that leads for months to read its settings again. */
static bool asks_to_end(const watch *w, int signal)
{
    return w->plan->is_candidate ? signals_is_final(signal) : signals_is_end(signal);
}

static void heed(watch *w, int signal)
{
    if (asks_to_end(w, signal))
        w->child->asked_to_end = true;
    if (signal == SIGCHLD) {
        health_look(&w->health);
        look_at_child(w);
    } else if (signal == SIGCONT)
        resume(w);
    else if (!w->child->has_ended)
        child_signal(w->child, signal);
}

/* ---- The loop ---- */

static void fill_fds(watch *w)
{
    w->fds = text_alloc((w->plan->n_names + 1) * sizeof *w->fds);
    w->fds[0] = (struct pollfd){w->signals->fd, POLLIN, 0};
    for (size_t i = 0; i < w->plan->n_names; i++)
        w->fds[i + 1] = (struct pollfd){hf_lock_fd(w->locks[i]), POLLIN, 0};
}

/* The time of the next thing to do, if nothing happens before: the kill, or the next check. */
static int64_t due_ms(const watch *w)
{
    return w->is_lost && !w->is_killed ? w->kill_at_ms : w->health.due_ms;
}

/* A lost lock's descriptor stays readable, so it is no longer polled. */
static void await_event(watch *w)
{
    nfds_t n = w->is_lost ? 1 : (nfds_t)w->plan->n_names + 1;
    int64_t due = due_ms(w), left = due - clock_boot_ms();
    int most = left < INT_MAX ? (int)left : INT_MAX;
    poll(w->fds, n, due == INT64_MAX ? -1 : left > 0 ? most : 0);
}

static void follow(watch *w)
{
    while (!w->child->has_ended) {
        await_event(w);
        for (int signal; (signal = signals_next(w->signals));)
            heed(w, signal);
        look_at_locks(w);
        kill_in_time(w);
        health_tick(&w->health);
    }
}

bool watch_run(const plan *p, hf_lock **locks, child *c, char **environment, signals *events)
{
    watch w = {.plan = p, .locks = locks, .child = c, .signals = events};
    health_begin(&w.health, p->health, locks, p->n_names, environment, events);
    fill_fds(&w);
    follow(&w);
    health_end(&w.health);
    if (w.is_lost)
        clear_group(&w);
    child_take_terminal(c);
    if (w.is_lost)
        child_reset_terminal(c);
    free(w.fds);
    return w.is_lost;
}
