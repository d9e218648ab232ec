/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_sessions.c: the verb sessions: lists the processes that have a session in the store. */
#include <inttypes.h>

#include "cli/settings/options.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "show/json.h"
#include "show/text.h"
#include "verbs.h"

typedef struct request {
    settings *given;
    bool shows_all;
    void *rows; /* a table, or a JSON array */
} request;

static const struct argp_option list[] = {
    {"all", 'a', NULL, 0, "those that have ended, too", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    request *req = state->input;
    (void)arg;
    options_inherit(key, state, req->given);
    if (key == 'a')
        req->shows_all = true;
    return key == 'a' || key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
}

const struct argp sessions_argp = {
    list,
    parse,
    NULL,
    "Lists the sessions: the processes that hold locks or wait for them.",
    options_children,
    NULL,
    NULL};

static const char *state_of(const hf_session_info *info)
{
    if (info->dead)
        return "ended";
    return info->lease_left_ms < 0 ? "overdue" : "alive";
}

static bool add_row(void *ctx, const hf_session_info *info)
{
    const request *req = ctx;
    table *rows = req->rows;
    if (info->dead && !req->shows_all)
        return true;
    table_add(rows, text_copy(info->session));
    table_add(rows, text_copy(info->app));
    table_add(rows, text_copy(info->host));
    table_add(rows, text_print("%" PRId64, info->pid));
    table_add(rows, info->started_ms ? text_when(info->started_ms) : text_copy("-"));
    table_add(rows, text_lease(info->ttl_ms));
    table_add(rows, info->dead ? text_copy("-") : text_lease(info->lease_left_ms));
    table_add(rows, text_copy(state_of(info)));
    return true;
}

static hf_code print_table(request *req, hf_client *client, hf_error *err)
{
    static const char *const heads[] = {"SESSION", "PROGRAM", "HOST",  "PID", "SINCE",
                                        "TTL",     "LEASE",   "STATE", NULL};
    table rows;
    table_init(&rows, heads);
    req->rows = &rows;
    hf_code code = hf_sessions(client, add_row, req, err);
    if (!code)
        table_print(&rows);
    table_done(&rows);
    return code;
}

static bool append_session(void *ctx, const hf_session_info *info)
{
    const request *req = ctx;
    if (!info->dead || req->shows_all)
        json_append(req->rows, json_of_session(info));
    return true;
}

static hf_code print_json(request *req, hf_client *client, hf_error *err)
{
    json_t *array = json_array_new();
    req->rows = array;
    hf_code code = hf_sessions(client, append_session, req, err);
    if (!code)
        json_print(array);
    json_decref(array);
    return code;
}

int cmd_sessions(settings *given, int argc, char **argv)
{
    hf_client *client = NULL;
    hf_error err = {0};
    request req = {.given = given};
    argp_parse(&sessions_argp, argc, argv, 0, NULL, &req);
    int status = options_open(given, NULL, &client);
    if (status)
        return status;
    hf_code code =
        given->is_json ? print_json(&req, client, &err) : print_table(&req, client, &err);
    if (code)
        terminal_error("%s", err.text);
    hf_close(client);
    return hf_code_exit(code);
}
