/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_elect.c: the verb elect: runs a command while this process leads, as run does under a lock,
 * and campaigns again after a loss; or prints who leads. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/health.h"
#include "cli/run/turn.h"
#include "cli/settings/options.h"
#include "cli/settings/status.h"
#include "cli/terminal/terminal.h"
#include "show/json.h"
#include "show/text.h"
#include "verbs.h"

#define PAUSE_MS 1000 /* when the store was not reached for as long as the library is patient */

enum { KEY_PRINT = 2000 };

static const struct argp_option list[] = {
    {"print", KEY_PRINT, NULL, 0, "a line each time that another leads, until a signal comes", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

#define NO_COMMAND "which command? Give it after --; or --print who leads"

typedef struct words {
    plan plan;
    health_words health;
    bool is_print;
} words;

static void check_usage(words *w, struct argp_state *state)
{
    const plan *p = &w->plan;
    if (!p->n_names)
        argp_error(state, "which election? Give its name%s", w->is_print ? "" : " before --");
    if (p->n_names > 1)
        argp_error(state, "give only one name");
    if (!w->is_print && !p->command)
        argp_error(state, NO_COMMAND);
    if (w->is_print && (p->command || p->why || p->given->owner || p->grace_ms >= 0))
        argp_error(state, "--print follows who leads: no command, no --why, --owner or --grace");
    if (w->is_print && (w->health.command || w->health.interval_ms || w->health.max_hold_ms))
        argp_error(state, "--print follows who leads: no --health-cmd and no --max-hold");
    health_check_usage(&w->health, state);
}

/* Also where it is shortened, or comes later. */
static bool has_print(const struct argp_state *state)
{
    for (int i = 1; i < state->argc; i++) {
        size_t n = strlen(state->argv[i]);
        if (n > 2 && strncmp(state->argv[i], "--print", n) == 0)
            return true;
    }
    return false;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    words *w = state->input;
    (void)arg;
    options_inherit(key, state, w->plan.given);
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[1] = &w->plan;
        state->child_inputs[2] = &w->health;
        return 0;
    case ARGP_KEY_ARG:
        if (!plan_has_dashes(state) && !has_print(state))
            argp_error(state, NO_COMMAND);
        return ARGP_ERR_UNKNOWN; /* it is the plan's */
    case ARGP_KEY_END:
        check_usage(w, state);
        return 0;
    case KEY_PRINT:
        w->is_print = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&options_argp, 0, NULL, 0}, {&plan_argp, 0, NULL, 0}, {&health_argp, 0, NULL, 0}, {0}};

const struct argp elect_argp = {
    list,
    parse,
    "NAME -- COMMAND [ARG...]\n--print NAME",
    "Campaigns, runs the command while it leads, and exits with the command's status.\v"
    "When leadership is lost, it stops the command in time and campaigns again. It ends when the "
    "command ends by itself. Exit status: as for run.",
    children,
    NULL,
    NULL};

/* ---- Campaigning ---- */

/* Candidates on standby survive an unreachable store, too. */
static bool goes_on(const turn *last)
{
    bool is_away = last->code == HF_UNREACHABLE || last->code == HF_UNKNOWN;
    return (last->is_lost && !last->is_over) || is_away;
}

/* A signal cuts the pause short; the next campaign handles it. */
static void pause_after(const turn *last, const signals *events)
{
    struct pollfd fd = {events->fd, POLLIN, 0};
    if (last->code)
        poll(&fd, 1, PAUSE_MS);
}

static int stand(plan *p, hf_client *client, signals *events)
{
    turn last = turn_run(p, client, events);
    while (goes_on(&last)) {
        terminal_warn("campaigning for \"%s\" again", p->names[0]);
        pause_after(&last, events);
        last = turn_run(p, client, events);
    }
    return last.status;
}

/* ---- Following ---- */

/* "cron@web1:4711 since 14:03:12, token 17: in Oslo" */
static char *line_of(const hf_leader *leader)
{
    char *when = leader->since_ms ? text_when(leader->since_ms) : text_copy("");
    char *token = text_token(leader->token);
    char *line = text_print("%s%s%s%s%s%s", leader->who, *when ? " since " : "", when, token,
                            *leader->value ? ": " : "", leader->value);
    char *shown = text_escape(line);
    free(line);
    free(token);
    free(when);
    return shown;
}

static bool print_line(void *ctx, const hf_leader *leader)
{
    char *line = leader ? line_of(leader) : text_copy("nobody");
    (void)ctx;
    puts(line);
    free(line);
    return !fflush(stdout);
}

static bool print_json(void *ctx, const hf_leader *leader)
{
    const plan *p = ctx;
    json_t *line = json_of_leader(p->names[0], leader);
    json_print(line);
    json_decref(line);
    return !fflush(stdout);
}

/* It has no session and nothing else to give up, so a signal may simply end it. */
static int follow(plan *p)
{
    hf_client *client = NULL;
    hf_error err = {0};
    int status = options_open(p->given, NULL, &client);
    if (status)
        return status;
    hf_code code = hf_election_observe(client, p->names[0],
                                       p->given->is_json ? print_json : print_line, p, NULL, &err);
    if (code)
        terminal_error("%s", err.text);
    hf_close(client);
    return hf_code_exit(code);
}

int cmd_elect(settings *given, int argc, char **argv)
{
    words w = {
        .plan = {.given = given,
                 .lock_args = {.wait_ms = HF_WAIT_FOREVER, .refused_status = STATUS_NOT_ACQUIRED},
                 .lost_status = STATUS_LOST,
                 .grace_ms = -1,
                 .is_candidate = true}};
    argp_parse(&elect_argp, argc, argv, ARGP_IN_ORDER, NULL, &w);
    w.plan.health = &w.health;
    plan_check(&w.plan);
    int status = w.is_print ? follow(&w.plan) : plan_run(&w.plan, stand);
    free(w.plan.names);
    return status;
}
