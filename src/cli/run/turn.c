/* SPDX-License-Identifier: Apache-2.0 */
/* turn.c: one turn under the locks: takes them, runs the command, gives them back; called by the
 * verbs run and elect. */
#include "turn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/settings/status.h"
#include "cli/terminal/terminal.h"
#include "document.h"
#include "granted.h"
#include "once.h"
#include "show/text.h"
#include "taking.h"
#include "watch.h"

extern char **environ;

/* ---- What the command gets ---- */

/* The variables for a command; inherited ones belong to another run. */
enum variable { HELD, NAME, TOKEN, PREVIOUS, PREVIOUS_STATUS, DOCUMENT_ID, N_VARIABLES };
static const char *const variables[N_VARIABLES] = {"HOLDFAST_HELD",
                                                   "HOLDFAST_NAME",
                                                   "HOLDFAST_TOKEN",
                                                   "HOLDFAST_PREVIOUS",
                                                   "HOLDFAST_PREVIOUS_STATUS",
                                                   "HOLDFAST_DOCUMENT_ID"};

static bool is_claim(const plan *p)
{
    return p->document && !p->document->id;
}

/* The library asks the store once. */
static hf_last previous_of(hf_lock *lock)
{
    hf_last before = {.who = ""};
    hf_lock_previous(lock, &before, NULL);
    return before;
}

static const char *outcome_text(hf_outcome outcome)
{
    return outcome == HF_OUTCOME_RELEASED    ? "released"
           : outcome == HF_OUTCOME_ABANDONED ? "abandoned"
                                             : "";
}

/* Of one lock; "": there is none. */
static char *value_of(enum variable which, hf_lock *lock)
{
    int64_t token = hf_lock_token(lock);
    hf_last before = {.who = ""};
    if (which == PREVIOUS || which == PREVIOUS_STATUS)
        before = previous_of(lock);
    if (which == TOKEN)
        return token ? text_print("%" PRId64, token) : text_copy("");
    if (which == PREVIOUS)
        return text_copy(outcome_text(before.outcome));
    if (which == PREVIOUS_STATUS)
        return before.has_exit_status ? text_print("%d", before.exit_status) : text_copy("");
    return text_copy(hf_lock_name(lock));
}

/* One line for each lock. */
static char *joined(enum variable which, const plan *p, hf_lock **locks)
{
    char *out = text_print("%s=", variables[which]);
    for (size_t i = 0; i < p->n_names; i++) {
        char *value = value_of(which, locks[i]);
        char *longer = text_print("%s%s%s", out, i ? "\n" : "", value);
        free(value);
        free(out);
        out = longer;
    }
    return out;
}

/* So that clients in the command know which locks stay held while they wait. */
static char *held(const char *variable, hf_client *client)
{
    size_t size = hf_client_held(client, NULL, 0) + 1;
    char *text = text_alloc(size);
    hf_client_held(client, text, size);
    char *out = text_print("%s=%s", variable, text);
    free(text);
    return out;
}

static bool is_variable(const char *entry)
{
    for (size_t i = 0; i < N_VARIABLES; i++) {
        size_t n = strlen(variables[i]);
        if (!strncmp(entry, variables[i], n) && entry[n] == '=')
            return true;
    }
    return false;
}

static size_t n_own(const plan *p)
{
    return p->document ? N_VARIABLES : DOCUMENT_ID;
}

/* This process's environment with the variables, which stand first. */
static char **environment_of(const plan *p, hf_client *client, hf_lock **locks)
{
    size_t n = 0, kept = n_own(p);
    while (environ && environ[n])
        n++;
    char **out = text_alloc((n + N_VARIABLES + 1) * sizeof *out);
    out[HELD] = held(variables[HELD], client);
    for (size_t i = NAME; i < kept; i++)
        out[i] = joined((enum variable)i, p, locks);
    for (size_t i = 0; i < n; i++)
        if (!is_variable(environ[i]))
            out[kept++] = environ[i];
    return out;
}

static void free_environment(const plan *p, char **environment)
{
    for (size_t i = 0; i < n_own(p); i++)
        free(environment[i]);
    free(environment);
}

/* ---- Running it ---- */

static void note_taken(const plan *p, hf_lock **locks)
{
    for (size_t i = 0; i < p->n_names; i++) {
        hf_last before = previous_of(locks[i]);
        granted_note(hf_lock_name(locks[i]), hf_lock_waited_ms(locks[i]), hf_lock_token(locks[i]),
                     &before);
    }
}

static int failed_start(const plan *p, int number)
{
    terminal_error("cannot run \"%s\": %s", p->command[0], strerror(number));
    return number == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

static void run_command(const plan *p, hf_client *client, signals *events, hf_lock **locks,
                        turn *out)
{
    child started;
    char **environment = environment_of(p, client, locks);
    int input = p->document ? document_input(locks[0]) : -1;
    int keep_fd = hf_client_keep_fd(client);
    int failed = p->document && input < 0
                     ? EIO
                     : child_start(&started, p->command, environment, input, events);
    if (keep_fd >= 0)
        close(keep_fd);
    if (input >= 0)
        close(input);
    out->has_run = !failed;
    out->is_lost = failed ? false : watch_run(p, locks, &started, environment, events);
    free_environment(p, environment);
    out->is_over = failed || started.asked_to_end;
    out->status = failed ? failed_start(p, failed) : started.status;
    if (!p->document || input >= 0)
        child_done(&started);
}

/* With `queue` a lock ends with its holder's lease, even if its release failed. With other
 * protocols it stands until other programs consider it stale, or its owner dead: up to a quarter of
 * an hour. */
static bool outlives_its_lease(const hf_client *client)
{
    return strcmp(hf_client_protocol(client), "queue") != 0;
}

/* What run exits with in place of 0 if the release ended so. Without an answer it is still to be
 * sent: by hf_close(), or by the guardian after that. */
static int status_of_release(const hf_client *client, hf_code code)
{
    if (!code || code == HF_LOST)
        return 0;
    if (hf_code_retryable(code))
        return STATUS_UNSENT;
    return outlives_its_lease(client) ? STATUS_STORE : 0;
}

/* Releases a lost lock, too, now that the work has stopped. Once per period: if the command was not
 * run, sets no exit status, so that another may run it. Returns what to exit with if a lock may
 * stand although nobody works under it; else 0. */
static int release_all(const plan *p, const hf_client *client, hf_lock **locks, const turn *how)
{
    int status = 0;
    for (size_t i = 0; i < p->n_names; i++) {
        hf_error err = {0};
        if (how->has_run || !p->once)
            hf_lock_set_exit_status(locks[i], how->status);
        hf_code code = how->is_lost ? HF_OK : hf_lock_release(locks[i], &err);
        if (code)
            terminal_warn("\"%s\" was not released: %s", hf_lock_name(locks[i]), err.text);
        status = status ? status : status_of_release(client, code);
        hf_lock_close(locks[i]);
    }
    return status;
}

static int refused(const plan *p, hf_code code, int signal, const hf_error *err)
{
    bool has_none = code == HF_NOT_FOUND && is_claim(p);
    bool is_refusal = has_none || hf_code_exit(code) == STATUS_NOT_ACQUIRED;
    if (code == HF_CANCELLED && signal)
        return STATUS_SIGNAL + signal;
    if (is_refusal)
        terminal_warn("%s", err->text);
    else
        terminal_error("%s", err->text);
    return is_refusal ? p->lock_args.refused_status : hf_code_exit(code);
}

/* --each ends when no document is left. */
static bool is_the_end(const plan *p, hf_code code)
{
    return p->round && (code == HF_NOT_FOUND || code == HF_TIMEOUT);
}

static void run_taken(const plan *p, hf_client *client, signals *events, hf_lock **locks, turn *out)
{
    if (p->round && !document_is_new(p->round, p, locks[0])) {
        hf_lock_close(locks[0]);
        return;
    }
    if (p->once && once_skips(p->once, locks[0])) {
        release_all(p, client, locks, out);
        out->status = p->once->skip_status > 0 ? p->once->skip_status : 0;
        return;
    }
    note_taken(p, locks);
    run_command(p, client, events, locks, out);
    if (p->round && (out->status || out->is_lost))
        document_failed(p->round, p, locks[0]);
    int left = release_all(p, client, locks, out);
    out->status = out->status ? out->status : left;
    if (out->is_lost)
        out->status = p->lost_status;
}

turn turn_run(const plan *p, hf_client *client, signals *events)
{
    hf_lock **locks = text_alloc(p->n_names * sizeof *locks);
    hf_error err = {0};
    turn out = {0};
    int signal = 0;
    out.code = taking_run(p, client, events, locks, &signal, &err);
    if (!out.code)
        run_taken(p, client, events, locks, &out);
    else if (!is_the_end(p, out.code))
        out.status = refused(p, out.code, signal, &err);
    free(locks);
    return out;
}
