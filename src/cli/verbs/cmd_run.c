/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_run.c: the verb run: takes locks, runs a command under them, and exits with its status. */
#include <stdlib.h>

#include "cli/run/document.h"
#include "cli/run/health.h"
#include "cli/run/once.h"
#include "cli/run/turn.h"
#include "cli/settings/options.h"
#include "cli/settings/status.h"
#include "cli/settings/value.h"
#include "verbs.h"

/* ---- The words ---- */

enum { KEY_LOST_CODE = 2000, KEY_LOCK_SESSION };

static const struct argp_option list[] = {
    {"lost-code", KEY_LOST_CODE, "CODE", 0, "the exit status if a lock was lost; default 76", 0},
    {"lock-session", KEY_LOCK_SESSION, "ID", 0,
     "protocol sharding: take over at once what this lock session id holds; 24 lower-case "
     "hexadecimal digits",
     0},
    {NULL, 0, NULL, 0, NULL, 0},
};

#define NO_COMMAND "which command? Give it after --"

typedef struct words {
    plan plan;
    document_words document;
    once_words once;
    health_words health;
} words;

static void check_usage(words *w, struct argp_state *state)
{
    bool is_alone = lock_args_is_alone(&w->plan.lock_args);
    document_check_usage(&w->document, w->plan.n_names, is_alone, state);
    once_check_usage(&w->once, w->plan.n_names, is_alone, state);
    health_check_usage(&w->health, state);
    if (!w->plan.n_names && !w->document.collection)
        argp_error(state, "which lock? Give its name before --");
    if (!w->plan.command)
        argp_error(state, NO_COMMAND);
}

static void give_inputs(words *w, struct argp_state *state)
{
    state->child_inputs[1] = &w->plan;
    state->child_inputs[2] = &w->plan.lock_args;
    state->child_inputs[3] = &w->document;
    state->child_inputs[4] = &w->once;
    state->child_inputs[5] = &w->health;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    words *w = state->input;
    options_inherit(key, state, w->plan.given);
    switch (key) {
    case ARGP_KEY_INIT:
        give_inputs(w, state);
        return 0;
    case ARGP_KEY_ARG:
        if (!plan_has_dashes(state))
            argp_error(state, NO_COMMAND);
        return ARGP_ERR_UNKNOWN; /* it is the plan's */
    case KEY_LOST_CODE:
        w->plan.lost_status = (int)value_number("--lost-code", arg, 0, 255);
        return 0;
    case KEY_LOCK_SESSION:
        w->plan.lock_session = arg;
        return 0;
    case ARGP_KEY_END:
        check_usage(w, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&options_argp, 0, NULL, 0},
                                             {&plan_argp, 0, NULL, 0},
                                             {&lock_args_argp, 0, NULL, 0},
                                             {&document_argp, 0, NULL, 0},
                                             {&once_argp, 0, NULL, 0},
                                             {&health_argp, 0, NULL, 0},
                                             {NULL, 0, NULL, 0}};

const struct argp run_argp = {
    list,
    parse,
    "NAME... -- COMMAND [ARG...]\n--document COLLECTION -- COMMAND [ARG...]",
    "Runs a command while it holds the locks, and exits with the command's status.\v"
    "Exit status: the command's own, or 128 and the number of the signal that ended it; 75 not "
    "acquired (-E), 76 lost and the command stopped (--lost-code), 79 the command succeeded, but "
    "its release got no answer yet, 69 store, 64 usage, 65 bad name or value, 126 the command "
    "cannot be executed, 127 there is no such command. With --each: 0, or the first failing "
    "command's. With --once-per: 0 (--skip-code) if it has run already.",
    children,
    NULL,
    NULL};

static int run_once(plan *p, hf_client *client, signals *events)
{
    return turn_run(p, client, events).status;
}

/* One document after the other; the first status that is not 0. */
static int run_each(plan *p, hf_client *client, signals *events)
{
    document_round round = {0};
    int first = 0;
    turn each;
    p->round = &round;
    do {
        each = turn_run(p, client, events);
        first = first ? first : each.status;
    } while (!each.code && !each.is_over);
    document_round_done(&round);
    return first;
}

static void plan_document(words *w)
{
    plan *p = &w->plan;
    p->document = &w->document;
    p->n_names = 1; /* which has none yet */
    p->given->collection = w->document.collection;
    p->given->element = w->document.element;
}

/* Of each that is free now. */
static void plan_wait(words *w)
{
    lock_args *args = &w->plan.lock_args;
    lock_args_settle(args, w->plan.given);
    if (w->document.is_each && !args->has_wait)
        args->wait_ms = HF_TRY;
}

int cmd_run(settings *given, int argc, char **argv)
{
    words w = {.plan = {.given = given,
                        .lock_args = LOCK_ARGS_DEFAULT,
                        .lost_status = STATUS_LOST,
                        .grace_ms = -1}};
    argp_parse(&run_argp, argc, argv, ARGP_IN_ORDER, NULL, &w);
    if (w.document.collection)
        plan_document(&w);
    plan_wait(&w);
    w.plan.health = &w.health;
    if (w.once.period_ms)
        w.plan.once = &w.once;
    plan_check(&w.plan);
    int status = plan_run(&w.plan, w.document.is_each ? run_each : run_once);
    free(w.plan.names);
    return status;
}
