/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_history.c: the verb history: who had a lock lately, for how long, and how that ended. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/settings/options.h"
#include "cli/settings/value.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "show/board.h"
#include "show/json.h"
#include "show/text.h"
#include "verbs.h"

#define TURNS_DEFAULT 50
#define TURNS_MOST 10000

typedef struct request {
    settings *given;
    const char *name; /* NULL: of all locks */
    int64_t since_ms, limit;
    bool is_full;
} request;

enum { KEY_SINCE = 2000 };

static const struct argp_option list[] = {
    {"full", 'l', NULL, 0, "do not cut what is wider than the terminal", 0},
    {"number", 'n', "N", 0, "at most so many turns that have ended; 50 if it is not said", 0},
    {"since", KEY_SINCE, "D", 0, "only turns that ended within that time, such as 2h", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    request *req = state->input;
    options_inherit(key, state, req->given);
    if (key == KEY_SINCE)
        req->since_ms = text_now_ms() - value_duration("--since", arg);
    else if (key == 'n')
        req->limit = value_number("--number", arg, 1, TURNS_MOST);
    else if (key == 'l')
        req->is_full = true;
    else if (key == ARGP_KEY_ARG)
        options_take(&req->name, arg, "name", state);
    else
        return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
    return 0;
}

const struct argp history_argp = {
    list,
    parse,
    "[NAME]",
    "Shows who had a lock lately, for how long, and how that ended: the newest turn first, and on "
    "top who has it now. Without a name: the turns of all locks that have ended.",
    options_children,
    NULL,
    NULL};

static hf_code read_turns(hf_client *client, const request *req, hf_turn_fn each, void *ctx,
                          hf_error *err)
{
    const hf_history_options options = {.struct_size = sizeof options,
                                        .since_ms = req->since_ms > 0 ? req->since_ms : 0,
                                        .limit = (size_t)req->limit,
                                        .tells_missing = true};
    return hf_history(client, req->name, &options, each, ctx, err);
}

/* Of the lock that was named; one of which there is no record has none. */
static hf_code read_holders(hf_client *client, const request *req, hf_lock_info_fn each, void *ctx,
                            hf_error *err)
{
    hf_code code = req->name ? hf_show(client, req->name, each, ctx, err) : HF_OK;
    return code == HF_NOT_FOUND ? HF_OK : code;
}

/* ---- For people ---- */

typedef struct listing {
    const request *req;
    table rows;
    size_t columns; /* of the terminal; 0: there is none */
    size_t n;
} listing;

static char *holder_of(const char *who, const char *actor)
{
    return text_holder(*who ? who : "(unknown)", actor);
}

static void add_times(table *rows, int64_t from_ms, int64_t to_ms)
{
    int64_t held_ms = to_ms - from_ms;
    table_add(rows, text_when(from_ms ? from_ms : to_ms));
    table_add(rows, from_ms ? text_duration(held_ms > 0 ? held_ms : 0) : text_copy("-"));
}

static char *token_of(int64_t token)
{
    return token ? text_print("%" PRId64, token) : text_copy("-");
}

/* Of a holder: one that has lost the lock may have an ended turn in the list, too. */
static char *state_of(const hf_entry_info *holder)
{
    if (holder->lease_left_ms >= 0)
        return text_copy("held now");
    char *over = text_lease(holder->lease_left_ms), *out = text_print("lease %s", over);
    free(over);
    return out;
}

static bool add_holders(void *ctx, const hf_lock_info *info)
{
    listing *l = ctx;
    for (size_t i = 0; i < info->n_holders; i++) {
        const hf_entry_info *holder = &info->holders[i];
        add_times(&l->rows, board_since(holder), text_now_ms());
        table_add(&l->rows, holder_of(holder->who, holder->actor));
        table_add(&l->rows, token_of(holder->token));
        table_add(&l->rows, state_of(holder));
        table_add(&l->rows, text_copy(holder->why));
        l->n++;
    }
    return true;
}

/* "released, exit status 3", "lost: it was not fed for 5s", "released; 30 more before it", "30
 * turns are missing" */
static char *end_of(const hf_turn *turn)
{
    static const char *const ends[] = {[HF_TURN_RELEASED] = "released",
                                       [HF_TURN_LOST] = "lost",
                                       [HF_TURN_BROKEN] = "broken",
                                       [HF_TURN_ABANDONED] = "abandoned"};
    if (turn->end == HF_TURN_MISSING)
        return text_print("%" PRId64 " turns of any locks are missing", turn->more);
    const char *end = strncmp(turn->reason, "broken", 6) == 0 ? "" : ends[turn->end];
    char *status =
        turn->has_exit_status ? text_print(", exit status %d", turn->exit_status) : text_copy("");
    char *more =
        turn->more ? text_print("; %" PRId64 " more before it", turn->more) : text_copy("");
    char *out = text_print("%s%s%s%s%s", end, status, *turn->reason && *end ? ": " : "",
                           turn->reason, more);
    free(more);
    free(status);
    return out;
}

static bool add_turn(void *ctx, const hf_turn *turn)
{
    listing *l = ctx;
    add_times(&l->rows, turn->granted_ms, turn->ended_ms);
    if (!l->req->name)
        table_add(&l->rows, text_copy(turn->name));
    table_add(&l->rows, holder_of(turn->who, turn->actor));
    table_add(&l->rows, token_of(turn->token));
    table_add(&l->rows, end_of(turn));
    table_add(&l->rows, text_copy(turn->why));
    l->n++;
    return true;
}

static void say_none(const request *req)
{
    char *store = options_store_shown(req->given);
    char *of = req->name ? text_print(" of \"%s\"", req->name) : text_copy("");
    terminal_warn("no turn%s is known in %s", of, store);
    free(of);
    free(store);
}

static void begin(listing *l)
{
    static const char *const heads[] = {"WHEN",         "HELD FOR", "HOLDER", "TOKEN",
                                        "HOW IT ENDED", "WHY",      NULL};
    static const char *const all_heads[] = {"WHEN",  "HELD FOR",     "NAME", "HOLDER",
                                            "TOKEN", "HOW IT ENDED", "WHY",  NULL};
    static const table_cut cuts[] = {CUT_NOTHING, CUT_NOTHING, CUT_MIDDLE,
                                     CUT_ALL,     CUT_MIDDLE,  CUT_END};
    static const table_cut all_cuts[] = {CUT_NOTHING, CUT_NOTHING, CUT_MIDDLE, CUT_MIDDLE,
                                         CUT_ALL,     CUT_MIDDLE,  CUT_END};
    bool is_of_one = l->req->name != NULL;
    table_init(&l->rows, is_of_one ? heads : all_heads);
    if (!l->req->is_full)
        table_fit(&l->rows, l->columns, is_of_one ? cuts : all_cuts);
}

static hf_code history_table(hf_client *client, const request *req, hf_error *err)
{
    listing l = {.req = req, .columns = terminal_columns(STDOUT_FILENO)};
    begin(&l);
    hf_code code = read_holders(client, req, add_holders, &l, err);
    if (!code)
        code = read_turns(client, req, add_turn, &l, err);
    if (!code && !l.n && l.columns)
        say_none(req);
    else if (!code)
        table_print(&l.rows);
    table_done(&l.rows);
    return code;
}

/* ---- As JSON ---- */

static bool put_holders(void *ctx, const hf_lock_info *info)
{
    json_put(ctx, "holders", json_of_holders(info));
    return true;
}

static hf_code history_json(hf_client *client, const request *req, hf_error *err)
{
    json_t *out = json_history_new();
    json_put(out, "holders", json_array_new());
    hf_code code = read_holders(client, req, put_holders, out, err);
    if (!code)
        code = read_turns(client, req, json_add_turn, out, err);
    if (!code)
        json_print(out);
    json_decref(out);
    return code;
}

int cmd_history(settings *given, int argc, char **argv)
{
    request req = {.given = given, .limit = TURNS_DEFAULT};
    hf_client *client = NULL;
    hf_error err = {0};
    argp_parse(&history_argp, argc, argv, 0, NULL, &req);
    int status = options_open(req.given, NULL, &client);
    if (status)
        return status;
    hf_code code = (given->is_json ? history_json : history_table)(client, &req, &err);
    if (code)
        terminal_error("%s", err.text);
    hf_close(client);
    return hf_code_exit(code);
}
