/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_unlock_all.c: the verb unlock-all: unlocks what a process that is gone has left locked. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/settings/options.h"
#include "cli/settings/status.h"
#include "cli/terminal/terminal.h"
#include "show/json.h"
#include "verbs.h"

typedef struct request {
    settings *given;
    const char *process;
} request;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    request *req = state->input;
    options_inherit(key, state, req->given);
    switch (key) {
    case ARGP_KEY_ARG:
        options_take(&req->process, arg, "process", state);
        return 0;
    case ARGP_KEY_END:
        if (!req->process)
            argp_error(state, "which process? Give its name, as `holdfast sessions` shows it");
        return 0;
    default:
        return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
    }
}

const struct argp unlock_all_argp = {
    NULL,
    parse,
    "PROCESS",
    "Unlocks all locks of a process (protocol sharding). The process must be gone: one that lives "
    "goes on believing until its next ping.",
    options_children,
    NULL,
    NULL};

static void print_done(const request *req, int64_t n)
{
    if (!req->given->is_json) {
        printf("%" PRId64 " lock%s of \"%s\" unlocked\n", n, n == 1 ? "" : "s", req->process);
        return;
    }
    json_t *out = json_object_new();
    json_put_text(out, "process", req->process);
    json_put_number(out, "unlocked", n);
    json_print(out);
    json_decref(out);
}

int cmd_unlock_all(settings *given, int argc, char **argv)
{
    request req = {.given = given};
    hf_client *client = NULL;
    hf_error err = {0};
    int64_t n;
    argp_parse(&unlock_all_argp, argc, argv, 0, NULL, &req);
    int status = options_open(given, NULL, &client);
    if (status)
        return status;
    hf_code code = hf_unlock_all(client, req.process, &n, &err);
    if (code)
        terminal_error("%s", err.text);
    else
        print_done(&req, n);
    hf_close(client);
    return hf_code_exit(code);
}
