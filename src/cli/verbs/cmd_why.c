/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_why.c: the verb why: who holds a lock, what that holder waits for, and so on to the root. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/settings/options.h"
#include "cli/terminal/terminal.h"
#include "show/board.h"
#include "show/json.h"
#include "show/text.h"
#include "verbs.h"

#define COLUMNS 80
#define DEEPEST 10 /* levels that are indented */

typedef struct request {
    settings *given;
    const char *name;
} request;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    request *req = state->input;
    options_inherit(key, state, req->given);
    if (key == ARGP_KEY_END && !req->name)
        argp_error(state, "which lock? Give its name");
    if (key != ARGP_KEY_ARG)
        return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
    options_take(&req->name, arg, "name", state);
    return 0;
}

const struct argp why_argp = {NULL,
                              parse,
                              "NAME",
                              "Says why a lock is waited for: who holds it, what that holder waits "
                              "for itself, who holds that, and so on to the root.",
                              options_children,
                              NULL,
                              NULL};

/* ---- For people ---- */

/* One holder. A part that does not fit into the columns begins the next line, further to the right.
 */
typedef struct paragraph {
    size_t indent, used; /* columns */
} paragraph;

static void begin(paragraph *p, size_t depth)
{
    p->indent = 2 * (depth < DEEPEST ? depth : DEEPEST);
    p->used = p->indent;
    printf("%*s", (int)p->indent, "");
}

static void add(paragraph *p, char *part)
{
    char *shown = text_escape(part);
    size_t columns = text_columns(shown);
    bool is_first = p->used == p->indent;
    if (!is_first && p->used + 1 + columns > COLUMNS) {
        p->used = p->indent + 4;
        printf("\n%*s%s", (int)p->used, "", shown);
    } else {
        printf("%s%s", is_first ? "" : " ", shown);
        p->used += !is_first;
    }
    p->used += columns;
    free(shown);
    free(part);
}

static void add_holder(paragraph *p, const hf_entry_info *holder)
{
    int64_t since = board_since(holder);
    char *who = text_holder(*holder->who ? holder->who : "(session gone)", holder->actor);
    add(p, text_print("by %s", who));
    free(who);
    if (since) {
        char *age = text_duration(text_now_ms() - since);
        add(p, text_print("for %s", age));
        free(age);
    }
    if (*holder->why)
        add(p, text_print("(%s)", holder->why));
    if (holder->lease_left_ms < 0) {
        char *left = text_lease(holder->lease_left_ms);
        add(p, text_print("(lease %s)", left));
        free(left);
    }
}

static void add_end(paragraph *p, const hf_why_link *link)
{
    if (link->next == HF_WHY_ROOT)
        add(p, text_copy("<- the root"));
    if (link->next == HF_WHY_CYCLE)
        add(p, text_print("which waits for %s <- a cycle", link->waits_for));
    if (link->next == HF_WHY_TOLD)
        add(p, text_print("which waits for %s, as above", link->waits_for));
    if (link->next == HF_WHY_CUT)
        add(p, text_print("which waits for %s, not followed further", link->waits_for));
}

/* "deploy is held by ci@host1:4711 for 12m03s (migration)" and, one deeper,
 * "which waits for db, held by ops@host2:99 for 3h05m (restore) <- the root" */
static bool print_link(void *ctx, const hf_why_link *link)
{
    paragraph p;
    begin(&p, link->depth);
    if (link->depth)
        add(&p, text_print("which waits for %s,", link->name));
    else
        add(&p, text_print("%s is", link->name));
    add(&p, text_copy("held"));
    add_holder(&p, link->holder);
    add_end(&p, link);
    putchar('\n');
    *(bool *)ctx = true;
    return true;
}

static hf_code why_text(hf_client *client, const char *name, hf_error *err)
{
    bool is_held = false;
    hf_code code = hf_why(client, name, print_link, &is_held, err);
    if (code || is_held)
        return code;
    char *shown = text_escape(name);
    printf("%s is free\n", shown);
    free(shown);
    return HF_OK;
}

/* ---- As JSON ---- */

static hf_code why_json(hf_client *client, const char *name, hf_error *err)
{
    json_t *links = json_array_new();
    hf_code code = hf_why(client, name, json_add_why_link, links, err);
    json_t *out = json_of_why(name, links);
    if (!code)
        json_print(out);
    json_decref(out);
    return code;
}

int cmd_why(settings *given, int argc, char **argv)
{
    request req = {.given = given};
    hf_client *client = NULL;
    hf_error err = {0};
    argp_parse(&why_argp, argc, argv, 0, NULL, &req);
    int status = options_open(req.given, NULL, &client);
    if (status)
        return status;
    hf_code code = (given->is_json ? why_json : why_text)(client, req.name, &err);
    if (code)
        terminal_error("%s", err.text);
    hf_close(client);
    return hf_code_exit(code);
}
