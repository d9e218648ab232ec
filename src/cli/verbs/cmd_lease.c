/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_lease.c: the verbs renew and release: what a script does with the lease that it acquired. */
#include <stdlib.h>

#include "cli/settings/options.h"
#include "cli/terminal/terminal.h"
#include "show/json.h"
#include "verbs.h"

typedef struct request {
    settings *given;
    const char *id;
} request;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    request *req = state->input;
    options_inherit(key, state, req->given);
    switch (key) {
    case ARGP_KEY_ARG:
        options_take(&req->id, arg, "lease", state);
        return 0;
    case ARGP_KEY_END:
        if (!req->id)
            req->id = getenv("HOLDFAST_LEASE");
        if (!req->id)
            argp_error(state, "which lease? Give its id, or set HOLDFAST_LEASE as acquire says");
        return 0;
    default:
        return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
    }
}

#define FROM                                                                                       \
    "Without LEASE: that of $HOLDFAST_LEASE, which other users cannot see, as they can words."

const struct argp renew_argp = {
    NULL,
    parse,
    "[LEASE]",
    "Renews a lease that `holdfast acquire` has made, for its whole ttl.\v" FROM
    " Exit status 76: it is lost; stop the work under it.",
    options_children,
    NULL,
    NULL};

const struct argp release_argp = {
    NULL,
    parse,
    "[LEASE]",
    "Releases a lease that `holdfast acquire` has made. Repeating it is harmless.\v" FROM
    " Exit status 76: it was lost before.",
    options_children,
    NULL,
    NULL};

typedef hf_code lease_fn(hf_client *client, const request *req, hf_error *err);

static int perform(settings *given, const struct argp *argp, int argc, char **argv, lease_fn *fn)
{
    request req = {.given = given};
    hf_client *client;
    hf_error err = {0};
    argp_parse(argp, argc, argv, 0, NULL, &req);
    int status = options_open(given, NULL, &client);
    if (status)
        return status;
    hf_code code = fn(client, &req, &err);
    if (code)
        terminal_error("%s", err.text);
    hf_close(client);
    return hf_code_exit(code);
}

static hf_code renew(hf_client *client, const request *req, hf_error *err)
{
    hf_lease lease;
    hf_code code = hf_lease_renew(client, req->id, &lease, err);
    if (code || !req->given->is_json)
        return code;
    json_t *out = json_object_new();
    json_put_token(out, lease.token);
    json_put_number(out, "expires_in_ms", lease.left_ms);
    json_print(out);
    json_decref(out);
    return HF_OK;
}

static hf_code release(hf_client *client, const request *req, hf_error *err)
{
    return hf_lease_release(client, req->id, err);
}

int cmd_renew(settings *given, int argc, char **argv)
{
    return perform(given, &renew_argp, argc, argv, renew);
}

int cmd_release(settings *given, int argc, char **argv)
{
    return perform(given, &release_argp, argc, argv, release);
}
