/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_break.c: the verb break: takes a lock, or many, from its holders, and prints what that means.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "break_many.h"
#include "cli/run/interrupt.h"
#include "cli/settings/options.h"
#include "cli/settings/value.h"
#include "cli/terminal/terminal.h"
#include "show/json.h"
#include "show/text.h"
#include "verbs.h"

enum { KEY_IF_TOKEN = 2000, KEY_FORCE, KEY_REASON, KEY_HOST, KEY_SESSION, KEY_PREFIX, KEY_YES };

typedef struct request {
    settings *given;
    const char *name; /* NULL: many are chosen by their holders */
    choice which;
    hf_break_options how;
    json_t *holders; /* the holders that lose it, for --json */
    bool can_ask;    /* the store can ask them to leave */
    bool has_token;  /* the lock has fencing tokens */
} request;

static const struct argp_option list[] = {
    {"if-token", KEY_IF_TOKEN, "N", 0, "only from the holder that has this token", 0},
    {"force", KEY_FORCE, NULL, 0, "at once: two may then believe for up to a ttl", 0},
    {"reason", KEY_REASON, "TEXT", 0, "told to the holder; needed", 0},
    {"host", KEY_HOST, "HOST", 0, "all locks that programs of this host hold", 0},
    {"session", KEY_SESSION, "ID", 0, "all locks that this session holds", 0},
    {"prefix", KEY_PREFIX, "PREFIX", 0, "only locks whose names begin so", 0},
    {"yes", KEY_YES, NULL, 0, "with these three: take the locks, do not only show them", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static bool is_many(const choice *which)
{
    return which->host || which->session || which->prefix;
}

static void check_all(const request *req, struct argp_state *state)
{
    bool many = is_many(&req->which);
    if (!req->name && !many)
        argp_error(state, "which lock? Give its name");
    if (many && (req->name || req->how.if_token))
        argp_error(state, "--host, --session and --prefix exclude a name and --if-token");
    if (!many && req->which.is_sure)
        argp_error(state, "--yes is for --host, --session and --prefix");
    if (!req->how.reason && (!many || req->which.is_sure))
        argp_error(state, "why? Give --reason TEXT: the holder sees it");
}

/* An empty one, as from a variable of a shell that is not set, would choose all. */
static const char *chosen(const char *option, const char *arg)
{
    if (!*arg)
        value_refuse("%s: which? It is empty", option);
    return arg;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    request *req = state->input;
    options_inherit(key, state, req->given);
    switch (key) {
    case KEY_IF_TOKEN:
        req->how.if_token = value_number("--if-token", arg, 1, INT64_C(1) << 53);
        return 0;
    case KEY_FORCE:
        req->how.force = true;
        return 0;
    case KEY_REASON:
        if (!*arg)
            value_refuse("--reason: say why, the holder sees it");
        req->how.reason = arg;
        return 0;
    case KEY_HOST:
        req->which.host = chosen("--host", arg);
        return 0;
    case KEY_SESSION:
        req->which.session = chosen("--session", arg);
        return 0;
    case KEY_PREFIX:
        req->which.prefix = chosen("--prefix", arg);
        return 0;
    case KEY_YES:
        req->which.is_sure = true;
        return 0;
    case ARGP_KEY_ARG:
        options_take(&req->name, arg, "name", state);
        return 0;
    case ARGP_KEY_END:
        check_all(req, state);
        return 0;
    default:
        return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
    }
}

const struct argp break_argp = {list,
                                parse,
                                "NAME\n[--host HOST] [--session ID] [--prefix PREFIX] [--yes]",
                                "Takes a lock from its holders: asks them to leave, and waits "
                                "until they have left or can no longer believe that they hold it.",
                                options_children,
                                NULL,
                                NULL};

/* Text for the user, on stdout unless JSON goes there, or -q is given. */
static void tell(const request *req, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(const request *req, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *raw = text_vprint(format, args);
    va_end(args);
    char *shown = text_escape(raw);
    if (!req->given->is_json && req->given->verbosity >= 0) {
        printf("%s\n", shown);
        fflush(stdout);
    }
    free(shown);
    free(raw);
}

static void tell_holder(const request *req, const hf_entry_info *holder)
{
    const char *who = *holder->who ? holder->who : "(session gone)";
    if (req->how.if_token && req->how.if_token != holder->token)
        return;
    char *token = text_token(holder->token);
    if (req->how.force)
        tell(req, "\"%s\": taking it from %s%s, at once", req->name, who, token);
    else
        tell(req, "\"%s\": asking %s%s, to leave; waiting for it", req->name, who, token);
    free(token);
}

/* Where holders cannot be asked, nobody is told that they are. */
static bool tell_holders(void *ctx, const hf_lock_info *info)
{
    request *req = ctx;
    req->has_token = info->token != 0;
    for (size_t i = 0; i < info->n_holders && (req->can_ask || req->how.force); i++)
        tell_holder(req, &info->holders[i]);
    if (req->given->is_json)
        req->holders = json_of_holders(info);
    return true;
}

static hf_code break_it(request *req, hf_client *client, hf_error *err)
{
    hf_code code = interrupt_begin(&req->how.cancel, err);
    if (code)
        return code;
    req->can_ask = strcmp(hf_client_protocol(client), "queue") == 0;
    code = hf_show(client, req->name, tell_holders, req, err);
    req->how.struct_size = sizeof req->how;
    return code ? code : hf_break(client, req->name, &req->how, err);
}

static void print_done(request *req)
{
    if (req->given->is_json) {
        json_t *out = json_object();
        json_put(out, "name", json_string(req->name));
        json_put(out, "forced", json_boolean(req->how.force));
        json_put(out, "asked", json_incref(req->holders));
        json_print(out);
        json_decref(out);
    }
    tell(req, "\"%s\": done", req->name);
    if (req->how.force)
        terminal_warn("\"%s\" was taken by force: for up to a ttl the old holder may still believe "
                      "that it holds it, and %s",
                      req->name,
                      req->has_token ? "only the fencing token protects"
                                     : "no token protects what it still writes");
}

/* The cancel stays: a signal may still fire it. */
static int break_one(request *req, hf_client *client)
{
    hf_error err = {0};
    hf_code code = break_it(req, client, &err);
    if (code == HF_CANCELLED)
        terminal_warn("not waiting any longer; the holder of \"%s\" is still asked to leave",
                      req->name);
    else if (code)
        terminal_error("%s", err.text);
    else
        print_done(req);
    json_decref(req->holders);
    return interrupt_status(code);
}

int cmd_break(settings *given, int argc, char **argv)
{
    request req = {.given = given};
    hf_client *client = NULL;
    argp_parse(&break_argp, argc, argv, 0, NULL, &req);
    int status = options_open(given, NULL, &client);
    if (status)
        return status;
    status = req.name ? break_one(&req, client) : break_many(given, client, &req.which, &req.how);
    hf_close(client);
    return status;
}
