/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_unlock_all.c: the verb unlock-all: unlocks what a process that is gone has left locked, or
 * what was taken with a lock session id. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/settings/options.h"
#include "cli/settings/status.h"
#include "cli/terminal/terminal.h"
#include "show/json.h"
#include "verbs.h"

typedef struct request {
    settings *given;
    const char *lock_session; /* NULL: all of a process */
    const char *name;         /* of the process; with a lock session, of a lock; NULL: all locks */
} request;

enum { KEY_LOCK_SESSION = 2000 };

static const struct argp_option list[] = {
    {"lock-session", KEY_LOCK_SESSION, "ID", 0,
     "what was taken with this lock session id: the lock NAME, or all", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    request *req = state->input;
    options_inherit(key, state, req->given);
    switch (key) {
    case KEY_LOCK_SESSION:
        req->lock_session = arg;
        return 0;
    case ARGP_KEY_ARG:
        options_take(&req->name, arg, req->lock_session ? "name" : "process", state);
        return 0;
    case ARGP_KEY_END:
        if (!req->name && !req->lock_session)
            argp_error(state, "which process? Give its name, as `holdfast sessions` shows it");
        return 0;
    default:
        return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
    }
}

const struct argp unlock_all_argp = {
    list,
    parse,
    "PROCESS\n--lock-session ID [NAME]",
    "Unlocks all locks of a process, or those of a lock session id (protocol sharding). Their "
    "holder must be gone: one that lives may go on believing until its next ping.",
    options_children,
    NULL,
    NULL};

/* A name that no process has unlocks nothing, either. */
static const char *advice_on(const request *req, int64_t n)
{
    return n || req->lock_session
               ? ""
               : " (names of processes are what `holdfast sessions` shows under PROGRAM)";
}

static void print_done(const request *req, int64_t n)
{
    const char *of = req->lock_session ? req->lock_session : req->name;
    if (!req->given->is_json) {
        printf("%" PRId64 " lock%s of \"%s\" unlocked%s\n", n, n == 1 ? "" : "s", of,
               advice_on(req, n));
        return;
    }
    json_t *out = json_object_new();
    json_put_text(out, req->lock_session ? "lock_session" : "process", of);
    json_put_number(out, "unlocked", n);
    json_print(out);
    json_decref(out);
}

static hf_code unlock(const request *req, hf_client *client, int64_t *n, hf_error *err)
{
    return req->lock_session ? hf_unlock_session(client, req->lock_session, req->name, n, err)
                             : hf_unlock_all(client, req->name, n, err);
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
    hf_code code = unlock(&req, client, &n, &err);
    if (code)
        terminal_error("%s", err.text);
    else
        print_done(&req, n);
    hf_close(client);
    return hf_code_exit(code);
}
