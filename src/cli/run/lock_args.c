/* SPDX-License-Identifier: Apache-2.0 */
/* lock_args.c: reads the options for a lock. */
#include "lock_args.h"

#include "cli/settings/value.h"

enum { KEY_PERMITS = 5000, KEY_LIMIT, KEY_SET_LIMIT };

static const struct argp_option list[] = {
    {"no-wait", 'n', NULL, 0, "give up at once if it is held", 0},
    {"wait", 'w', "D", 0,
     "give up after this long; default: never (protocol ttl: 10s, sharding: 20s), or the setting "
     "wait",
     0},
    {"shared", 's', NULL, 0, "hold it together with others that share it", 0},
    {"exclusive", 'x', NULL, 0, "hold it alone; the default", 0},
    {"permits", KEY_PERMITS, "K", 0, "a semaphore: take K permits ...", 0},
    {"limit", KEY_LIMIT, "N", 0, "... of N", 0},
    {"set-limit", KEY_SET_LIMIT, NULL, 0,
     "N holds from now on, also where the semaphore is in use with another limit", 0},
    {"conflict-exit-code", 'E', "CODE", 0, "the exit status if it was not acquired; default 75", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static void check_usage(const lock_args *args, struct argp_state *state)
{
    if (args->has_try && args->has_wait)
        argp_error(state, "-n and -w exclude each other");
    if (args->is_shared && args->is_exclusive)
        argp_error(state, "-s and -x exclude each other");
    if (!args->permits != !args->limit)
        argp_error(state, "--permits and --limit belong together");
    if (args->sets_limit && !args->limit)
        argp_error(state, "--set-limit goes with --permits and --limit");
    if (args->permits && (args->is_shared || args->is_exclusive))
        argp_error(state, "a semaphore (--permits) is neither shared nor exclusive");
}

static error_t parse_value(int key, char *arg, struct argp_state *state)
{
    lock_args *args = state->input;
    switch (key) {
    case KEY_PERMITS:
        args->permits = (int32_t)value_number("--permits", arg, 1, HF_LIMIT_RW - 1);
        return 0;
    case KEY_LIMIT:
        args->limit = (int32_t)value_number("--limit", arg, 1, HF_LIMIT_RW - 1);
        return 0;
    case KEY_SET_LIMIT:
        args->sets_limit = true;
        return 0;
    case 'E':
        args->refused_status = (int)value_number("-E", arg, args->least_status, 255);
        return 0;
    case ARGP_KEY_END:
        check_usage(args, state);
        return 0;
    default:
        return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    lock_args *args = state->input;
    switch (key) {
    case 'n':
        args->has_try = true;
        args->wait_ms = HF_TRY;
        return 0;
    case 'w':
        args->has_wait = true;
        args->wait_ms = value_duration("-w", arg);
        args->wait_ms = args->wait_ms ? args->wait_ms : HF_TRY;
        return 0;
    case 's':
        args->is_shared = true;
        args->mode = HF_SHARED;
        return 0;
    case 'x':
        args->is_exclusive = true;
        return 0;
    default:
        return parse_value(key, arg, state);
    }
}

const struct argp lock_args_argp = {list, parse, NULL, NULL, NULL, NULL, NULL};

bool lock_args_is_alone(const lock_args *args)
{
    return !args->is_shared && !args->permits && !args->limit;
}

void lock_args_settle(lock_args *args, const settings *given)
{
    if (args->has_try || args->has_wait)
        return;
    int64_t ms = config_ms(&given->config, SETTING_WAIT, -1);
    args->wait_ms = ms == 0 ? HF_TRY : ms < 0 ? HF_WAIT_DEFAULT : ms;
}
