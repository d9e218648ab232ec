/* SPDX-License-Identifier: Apache-2.0 */
/* once.c: `holdfast run --once-per`: of all runs that are started in a period, one runs the
 * command; called by the verb run. */
#include "once.h"
#include "cli/settings/value.h"

#include <stdlib.h>
#include <string.h>

#include "cli/terminal/terminal.h"
#include "show/text.h"

#define HOUR_MS ((int64_t)3600 * 1000)
#define LEAST_PERIOD_MS 1000

enum { KEY_ONCE_PER = 6000, KEY_RETRY, KEY_SKIP_CODE };

static const struct argp_option list[] = {
    {NULL, 0, NULL, 0, "Once per period:", 40},
    {"once-per", KEY_ONCE_PER, "D", 0,
     "of all hosts that start it, one runs the command in each D, or: hourly, daily (UTC, by the "
     "store's clock)",
     40},
    {"retry", KEY_RETRY, NULL, 0, "if it has failed, run it again in the same period", 40},
    {"skip-code", KEY_SKIP_CODE, "CODE", 0, "the exit status if it has run already; default 0", 40},
    {NULL, 0, NULL, 0, NULL, 0},
};

static int64_t period_of(const char *text)
{
    if (!strcmp(text, "hourly"))
        return HOUR_MS;
    if (!strcmp(text, "daily"))
        return 24 * HOUR_MS;
    if (!strchr("0123456789-", *text) || !*text)
        value_refuse("--once-per: \"%s\" is no period: write hourly, daily, or a time such as 24h",
                     text);
    int64_t ms = value_duration("--once-per", text);
    if (ms < LEAST_PERIOD_MS)
        value_refuse("--once-per: %s is too short: at least 1s", text);
    return ms;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    once_words *w = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        w->skip_status = -1;
        return 0;
    case KEY_ONCE_PER:
        w->period_ms = period_of(arg);
        return 0;
    case KEY_RETRY:
        w->retries = true;
        return 0;
    case KEY_SKIP_CODE:
        w->skip_status = (int)value_number("--skip-code", arg, 0, 255);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp once_argp = {list, parse, NULL, NULL, NULL, NULL, NULL};

void once_check_usage(const once_words *w, size_t n_names, bool is_exclusive,
                      struct argp_state *state)
{
    if (!w->period_ms && (w->retries || w->skip_status >= 0))
        argp_error(state, "--retry and --skip-code belong to --once-per");
    if (!w->period_ms)
        return;
    if (n_names != 1)
        argp_error(state, "--once-per takes one name, which is the job's");
    if (!is_exclusive)
        argp_error(state, "what is done once per period is done by one: no -s, no --permits");
}

static void say_skipped(const char *name, const hf_done *run)
{
    char *when = text_when(run->at_ms);
    terminal_warn("\"%s\" has run in this period: by %s, until %s, with exit status %d", name,
                  run->who && *run->who ? run->who : "(unknown)", when, run->exit_status);
    free(when);
}

bool once_skips(const once_words *w, hf_lock *lock)
{
    hf_last previous;
    hf_error err;
    if (!hf_lock_has_run(lock) || hf_lock_previous(lock, &previous, &err) ||
        (w->retries && previous.done.exit_status))
        return false;
    say_skipped(hf_lock_name(lock), &previous.done);
    return true;
}
