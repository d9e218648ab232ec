/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor.c: the verb doctor: checks what the locks depend on; fails if safety is in danger.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/settings/options.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "show/json.h"
#include "show/text.h"
#include "verbs.h"

typedef struct report {
    const settings *given;
    table *rows;   /* for people, or */
    json_t *array; /* for programs */
    bool has_danger;
} report;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    options_inherit(key, state, state->input);
    return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
}

const struct argp doctor_argp = {
    NULL,
    parse,
    "",
    "Checks what the locks depend on: store, server, notices, write concern, latency, clocks. "
    "Exits with 1 if something endangers safety, or if a lock is held whose lease is over.",
    options_children,
    NULL,
    NULL};

static bool add_finding(void *ctx, const hf_finding *finding)
{
    report *rep = ctx;
    rep->has_danger = rep->has_danger || finding->is_danger;
    if (rep->array) {
        json_append(rep->array, json_of_finding(finding));
        return true;
    }
    table_add(rep->rows, text_copy(finding->is_danger    ? "DANGER"
                                   : finding->wants_care ? "LOOK"
                                                         : "ok"));
    table_add(rep->rows, text_copy(finding->topic));
    table_add(rep->rows, text_copy(finding->text));
    return true;
}

/* Which store it is: if nobody has said it, perhaps not the one that was meant. */
static void add_store(report *rep)
{
    bool is_said = options_has_store(rep->given);
    char *store = options_store_shown(rep->given);
    char *text = text_print("%s%s", store,
                            is_said ? ""
                                    : ": no store is named, and this one excludes no other user "
                                      "and no other host");
    add_finding(rep, &(hf_finding){.topic = "store", .text = text, .wants_care = !is_said});
    free(text);
    free(store);
}

static hf_code print_table(hf_client *client, report *rep, hf_error *err)
{
    static const char *const heads[] = {"STATE", "TOPIC", "FINDING", NULL};
    table rows;
    table_init(&rows, heads);
    rep->rows = &rows;
    add_store(rep);
    size_t own = rows.n_cells;
    hf_code code = hf_doctor(client, add_finding, rep, err);
    if (!code || rows.n_cells > own) /* what was found before an error, too */
        table_print(&rows);
    table_done(&rows);
    return code;
}

static hf_code print_json(hf_client *client, report *rep, hf_error *err)
{
    rep->array = json_array_new();
    add_store(rep);
    hf_code code = hf_doctor(client, add_finding, rep, err);
    if (!code)
        json_print(rep->array);
    json_decref(rep->array);
    return code;
}

int cmd_doctor(settings *given, int argc, char **argv)
{
    hf_client *client = NULL;
    hf_error err = {0};
    report rep = {.given = given};
    argp_parse(&doctor_argp, argc, argv, 0, NULL, given);
    int status = options_open(given, NULL, &client);
    if (status)
        return status;
    hf_code code =
        given->is_json ? print_json(client, &rep, &err) : print_table(client, &rep, &err);
    if (code)
        terminal_error("%s", err.text);
    hf_close(client);
    return code ? hf_code_exit(code) : rep.has_danger;
}
