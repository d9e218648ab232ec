/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c: the plan that the verbs run and elect share: reads and checks the words, and opens what
 * the plan needs. */
#include "plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/settings/options.h"
#include "cli/settings/owner.h"
#include "cli/settings/status.h"
#include "cli/settings/value.h"
#include "cli/terminal/terminal.h"
#include "core/run_margin.h"
#include "show/text.h"

#define MOST_NAME_BYTES 512
#define MOST_APP_BYTES 64

/* ---- The words ---- */

enum { KEY_WHY = 4000, KEY_GRACE, KEY_OWNER };

static const struct argp_option list[] = {
    {"why", KEY_WHY, "TEXT", 0, "shown to those who wait", 0},
    {"owner", KEY_OWNER, "TEXT", 0,
     "shown as the holder, with this host; default: the user and the command", 0},
    {"grace", KEY_GRACE, "D", 0,
     "from SIGTERM to SIGKILL when a lock is lost; default: a quarter of the ttl, at most 5s", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

bool plan_has_dashes(const struct argp_state *state)
{
    for (int i = 1; i < state->argc; i++)
        if (strcmp(state->argv[i], "--") == 0)
            return true;
    return false;
}

/* Before "--" a name, after it the command. */
static void take_word(plan *p, char *word, struct argp_state *state)
{
    if (state->quoted > 0 && state->next > state->quoted) {
        p->command = &state->argv[state->next - 1];
        state->next = state->argc;
    } else {
        p->names[p->n_names++] = word;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    plan *p = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        p->names = text_alloc((size_t)state->argc * sizeof *p->names);
        return 0;
    case ARGP_KEY_ARG:
        take_word(p, arg, state);
        return 0;
    case KEY_WHY:
        p->why = arg;
        return 0;
    case KEY_OWNER:
        p->given->owner = owner_read(arg);
        return 0;
    case KEY_GRACE:
        p->grace_ms = value_duration("--grace", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp plan_argp = {list, parse, NULL, NULL, NULL, NULL, NULL};

/* ---- Whether it can be done ---- */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The library reports it, too, but only when it comes to that name, perhaps hours later. */
static void check_name(const char *name)
{
    if (!*name)
        value_refuse("a lock's name must not be empty");
    if (strlen(name) > MOST_NAME_BYTES)
        value_refuse("the name \"%.32s...\" is too long: %zu bytes, at most %d are taken", name,
                     strlen(name), MOST_NAME_BYTES);
    if (!text_is_utf8(name))
        value_refuse("the name \"%s\" is not UTF-8", name);
}

static void check_names(const plan *p)
{
    if (p->document)
        return;
    qsort(p->names, p->n_names, sizeof *p->names, by_bytes);
    for (size_t i = 0; i < p->n_names; i++) {
        check_name(p->names[i]);
        if (i && !strcmp(p->names[i], p->names[i - 1]))
            value_refuse("the name \"%s\" is given twice", p->names[i]);
    }
}

/* Grace, kill and margin must fit into the stop margin before the lease ends (R7). */
static void check_grace(plan *p)
{
    int64_t ttl = options_ttl_ms(p->given);
    bool is_flag = p->grace_ms >= 0;
    const config *said = &p->given->config;
    p->margin_ms = run_kill_ms(ttl);
    if (!is_flag)
        p->grace_ms = config_ms(said, SETTING_GRACE, run_grace_ms(ttl));
    if (p->grace_ms + p->margin_ms > ttl / 2)
        value_refuse("%s: %" PRId64 "ms does not fit a ttl of %" PRId64
                     "ms, in which the command must have stopped: at most %" PRId64 "ms",
                     is_flag ? "--grace" : said->values[SETTING_GRACE].from, p->grace_ms, ttl,
                     ttl / 2 - p->margin_ms);
}

void plan_check(plan *p)
{
    check_names(p);
    check_grace(p);
}

/* ---- Carrying it out ---- */

/* Listings show the command's name instead of holdfast. */
static const char *app_of(const plan *p)
{
    const char *slash = strrchr(p->command[0], '/');
    const char *name = slash ? slash + 1 : p->command[0];
    bool is_fit = *name && strlen(name) <= MOST_APP_BYTES && text_is_utf8(name);
    return is_fit ? name : NULL;
}

int plan_run(plan *p, plan_fn *work)
{
    hf_client *client = NULL;
    hf_options options = {.stop_margin_ms = p->grace_ms + p->margin_ms,
                          .app = app_of(p),
                          .guardian = OPTIONS_GUARDIAN};
    signals events;
    int failed = signals_open(&events);
    if (failed) {
        terminal_error("cannot take signals as events: %s", strerror(failed));
        return STATUS_INTERNAL;
    }
    int status = options_open(p->given, &options, &client);
    if (!status)
        status = work(p, client, &events);
    hf_close(client);
    close(events.fd);
    return status;
}
