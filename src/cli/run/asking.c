/* SPDX-License-Identifier: Apache-2.0 */
/* asking.c: reads the words that say how a lock is asked for. */
#include "asking.h"

#include "cli/settings/value.h"

enum { KEY_PERMITS = 5000, KEY_LIMIT };

static const struct argp_option list[] = {
    {"no-wait", 'n', NULL, 0, "give up at once if it is held", 0},
    {"wait", 'w', "D", 0, "give up after this long; default: never (protocol ttl: 10s)", 0},
    {"shared", 's', NULL, 0, "hold it together with others that share it", 0},
    {"exclusive", 'x', NULL, 0, "hold it alone; the default", 0},
    {"permits", KEY_PERMITS, "K", 0, "a semaphore: take K permits ...", 0},
    {"limit", KEY_LIMIT, "N", 0, "... of N", 0},
    {"conflict-exit-code", 'E', "CODE", 0, "the exit status if it was not acquired; default 75", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static void check_usage(const asking *a, struct argp_state *state)
{
    if (a->has_try && a->has_wait)
        argp_error(state, "-n and -w exclude each other");
    if (a->is_shared && a->is_exclusive)
        argp_error(state, "-s and -x exclude each other");
    if (!a->permits != !a->limit)
        argp_error(state, "--permits and --limit belong together");
    if (a->permits && (a->is_shared || a->is_exclusive))
        argp_error(state, "a semaphore (--permits) is neither shared nor exclusive");
}

static error_t parse_value(int key, char *arg, struct argp_state *state)
{
    asking *a = state->input;
    switch (key) {
    case KEY_PERMITS:
        a->permits = (int32_t)value_number("--permits", arg, 1, HF_LIMIT_RW - 1);
        return 0;
    case KEY_LIMIT:
        a->limit = (int32_t)value_number("--limit", arg, 1, HF_LIMIT_RW - 1);
        return 0;
    case 'E':
        a->refused_status = (int)value_number("-E", arg, 0, 255);
        return 0;
    case ARGP_KEY_END:
        check_usage(a, state);
        return 0;
    default:
        return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    asking *a = state->input;
    switch (key) {
    case 'n':
        a->has_try = true;
        a->wait_ms = HF_TRY;
        return 0;
    case 'w':
        a->has_wait = true;
        a->wait_ms = value_duration("-w", arg);
        a->wait_ms = a->wait_ms ? a->wait_ms : HF_TRY;
        return 0;
    case 's':
        a->is_shared = true;
        a->mode = HF_SHARED;
        return 0;
    case 'x':
        a->is_exclusive = true;
        return 0;
    default:
        return parse_value(key, arg, state);
    }
}

const struct argp asking_argp = {list, parse, NULL, NULL, NULL, NULL, NULL};

bool asking_is_alone(const asking *a)
{
    return !a->is_shared && !a->permits && !a->limit;
}

void asking_settle(asking *a, const settings *given)
{
    if (a->has_try || a->has_wait)
        return;
    int64_t ms = config_ms(&given->config, SETTING_WAIT, -1);
    a->wait_ms = ms == 0 ? HF_TRY : ms < 0 ? HF_WAIT_DEFAULT : ms;
}
