/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_run.c: the verb run: takes locks, runs a command under them, and answers with its status. */
#include <stdlib.h>

#include "document.h"
#include "health.h"
#include "once.h"
#include "options.h"
#include "run.h"
#include "verbs.h"

/* ---- The words ---- */

enum { KEY_PERMITS = 2000, KEY_LIMIT, KEY_LOST_CODE };

static const struct argp_option list[] = {
    {"no-wait", 'n', NULL, 0, "give up at once if it is held", 0},
    {"wait", 'w', "D", 0, "give up after this long; default: never (protocol ttl: 10s)", 0},
    {"shared", 's', NULL, 0, "hold it together with others that share it", 0},
    {"exclusive", 'x', NULL, 0, "hold it alone; the default", 0},
    {"permits", KEY_PERMITS, "K", 0, "a semaphore: take K permits ...", 0},
    {"limit", KEY_LIMIT, "N", 0, "... of N", 0},
    {"conflict-exit-code", 'E', "CODE", 0, "the exit status if it was not acquired; default 75", 0},
    {"lost-code", KEY_LOST_CODE, "CODE", 0, "the exit status if a lock was lost; default 76", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

typedef struct words {
    plan plan;
    document_words document;
    once_words once;
    health_words health;
    bool has_try, has_wait, is_shared, is_exclusive;
} words;

static void check_usage(words *w, struct argp_state *state)
{
    bool is_exclusive = !w->is_shared && !w->plan.permits && !w->plan.limit;
    document_check_usage(&w->document, w->plan.n_names, is_exclusive, state);
    once_check_usage(&w->once, w->plan.n_names, is_exclusive, state);
    health_check_usage(&w->health, state);
    if (w->has_try && w->has_wait)
        argp_error(state, "-n and -w exclude each other");
    if (w->is_shared && w->is_exclusive)
        argp_error(state, "-s and -x exclude each other");
    if (!w->plan.permits != !w->plan.limit)
        argp_error(state, "--permits and --limit belong together");
    if (w->plan.permits && (w->is_shared || w->is_exclusive))
        argp_error(state, "a semaphore (--permits) is neither shared nor exclusive");
    if (!w->plan.n_names && !w->document.collection)
        argp_error(state, "which lock? Give its name before --");
    if (!w->plan.command)
        argp_error(state, "which command? Give it after --");
}

static error_t parse_rest(int key, struct argp_state *state)
{
    words *w = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[1] = &w->plan;
        state->child_inputs[2] = &w->document;
        state->child_inputs[3] = &w->once;
        state->child_inputs[4] = &w->health;
        return 0;
    case ARGP_KEY_END:
        check_usage(w, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_value(int key, char *arg, struct argp_state *state)
{
    plan *p = &((words *)state->input)->plan;
    switch (key) {
    case KEY_PERMITS:
        p->permits = (int32_t)options_number("--permits", arg, 1, HF_LIMIT_RW - 1);
        return 0;
    case KEY_LIMIT:
        p->limit = (int32_t)options_number("--limit", arg, 1, HF_LIMIT_RW - 1);
        return 0;
    case 'E':
        p->refused_status = (int)options_number("-E", arg, 0, 255);
        return 0;
    case KEY_LOST_CODE:
        p->lost_status = (int)options_number("--lost-code", arg, 0, 255);
        return 0;
    default:
        return parse_rest(key, state);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    words *w = state->input;
    options_inherit(key, state, w->plan.given);
    switch (key) {
    case 'n':
        w->has_try = true;
        w->plan.wait_ms = HF_TRY;
        return 0;
    case 'w':
        w->has_wait = true;
        w->plan.wait_ms = options_duration("-w", arg);
        w->plan.wait_ms = w->plan.wait_ms ? w->plan.wait_ms : HF_TRY;
        return 0;
    case 's':
        w->is_shared = true;
        w->plan.mode = HF_SHARED;
        return 0;
    case 'x':
        w->is_exclusive = true;
        return 0;
    default:
        return parse_value(key, arg, state);
    }
}

static const struct argp_child children[] = {{&options_argp, 0, NULL, 0},  {&plan_argp, 0, NULL, 0},
                                             {&document_argp, 0, NULL, 0}, {&once_argp, 0, NULL, 0},
                                             {&health_argp, 0, NULL, 0},   {NULL, 0, NULL, 0}};

const struct argp run_argp = {
    list,
    parse,
    "NAME... -- COMMAND [ARG...]\n--document COLLECTION -- COMMAND [ARG...]",
    "Runs a command while it holds the locks, and exits with the command's status.\v"
    "Exit status: the command's own, or 128 and the number of the signal that ended it; 75 not "
    "acquired (-E), 76 lost and the command stopped (--lost-code), 69 store, 64 usage, 65 bad name "
    "or value, 126 the command cannot be executed, 127 there is no such command. With --each: 0, "
    "or "
    "the first failing command's. With --once-per: 0 (--skip-code) if it has run already.",
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
}

/* What -n and -w left open. */
static void plan_wait(words *w)
{
    if (w->has_try || w->has_wait)
        return;
    int64_t ms = config_ms(&w->plan.given->config, SETTING_WAIT, -1);
    bool tries = w->document.is_each || ms == 0;
    w->plan.wait_ms = tries ? HF_TRY : ms < 0 ? HF_WAIT_DEFAULT : ms;
}

int cmd_run(settings *given, int argc, char **argv)
{
    words w = {.plan = {.given = given,
                        .wait_ms = HF_WAIT_DEFAULT,
                        .refused_status = STATUS_NOT_ACQUIRED,
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
