/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_config.c: the verb config: shows the settings in force, the named stores, and where each
 * comes from, without passwords. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/settings/options.h"
#include "cli/settings/secret.h"
#include "cli/terminal/table.h"
#include "show/json.h"
#include "show/text.h"
#include "verbs.h"

enum { KEY_STORES = 2000 };

typedef struct request {
    settings *given;
    bool names_only;
} request;

static const struct argp_option list[] = {
    {"stores", KEY_STORES, NULL, 0, "only the names of the stores that have one, a line each", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    request *req = state->input;
    (void)arg;
    options_inherit(key, state, req->given);
    if (key == KEY_STORES)
        req->names_only = true;
    if (key == ARGP_KEY_END && req->names_only && req->given->is_json)
        argp_error(state, "--stores and --json exclude each other");
    return key == KEY_STORES || key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
}

const struct argp config_argp = {
    list,
    parse,
    "",
    "Shows the settings that are in force, and where each one comes from: a flag, the environment, "
    "a file, or nowhere.",
    options_children,
    NULL,
    NULL};

/* ---- What is shown ---- */

/* In new memory, like the functions below. */
static char *shown_value(const settings *given, setting which)
{
    const config_value *said = &given->config.values[which];
    char *uri = which == SETTING_STORE ? options_uri(given) : NULL;
    char *out = uri                    ? secret_mask(uri)
                : said->text           ? text_copy(said->text)
                : which == SETTING_TTL ? text_print("%gs", (double)options_ttl_ms(given) / 1000)
                                       : text_copy(config_standard(which));
    free(uri);
    return out;
}

static const char *shown_from(const settings *given, setting which)
{
    const config_value *said = &given->config.values[which];
    return said->text ? said->from : "default";
}

/* ---- For people ---- */

static void add_row(table *rows, const char *first, char *second, const char *third)
{
    table_add(rows, text_copy(first));
    table_add(rows, second);
    table_add(rows, text_copy(third));
}

static void print_end(table *rows, bool is_last)
{
    table_print(rows);
    table_done(rows);
    if (!is_last)
        putchar('\n');
}

static void print_settings(const settings *given)
{
    static const char *const heads[] = {"SETTING", "VALUE", "FROM", NULL};
    table rows;
    table_init(&rows, heads);
    for (setting i = 0; i < N_SETTINGS; i++)
        add_row(&rows, config_key(i), shown_value(given, i), shown_from(given, i));
    print_end(&rows, false);
}

static void print_stores(const config *c)
{
    static const char *const heads[] = {"STORE", "URI", "FROM", NULL};
    table rows;
    if (!c->n_stores)
        return;
    table_init(&rows, heads);
    for (size_t i = 0; i < c->n_stores; i++)
        add_row(&rows, c->stores[i].name, secret_mask(c->stores[i].uri), c->stores[i].from);
    print_end(&rows, false);
}

static void print_files(const config *c)
{
    static const char *const heads[] = {"FILE", "STATE", NULL};
    table rows;
    table_init(&rows, heads);
    for (size_t i = 0; i < c->n_files; i++) {
        table_add(&rows, text_copy(c->files[i].path));
        table_add(&rows, text_copy(config_file_state(&c->files[i])));
    }
    print_end(&rows, true);
}

static void print_names(const config *c)
{
    for (size_t i = 0; i < c->n_stores; i++)
        puts(c->stores[i].name);
}

/* ---- For programs ---- */

static json_t *json_of_value(char *text, const char *from)
{
    json_t *out = json_object_new();
    json_put_text(out, "value", text);
    json_put_text(out, "from", from);
    free(text);
    return out;
}

static json_t *json_of_files(const config *c)
{
    json_t *out = json_array_new();
    for (size_t i = 0; i < c->n_files; i++) {
        json_t *file = json_object_new();
        json_put_text(file, "path", c->files[i].path);
        json_put_text(file, "state", config_file_state(&c->files[i]));
        json_append(out, file);
    }
    return out;
}

static void print_json(const settings *given)
{
    const config *c = &given->config;
    json_t *out = json_object_new(), *in_force = json_object_new(), *stores = json_object_new();
    for (setting i = 0; i < N_SETTINGS; i++)
        json_put(in_force, config_key(i),
                 json_of_value(shown_value(given, i), shown_from(given, i)));
    for (size_t i = 0; i < c->n_stores; i++)
        json_put(stores, c->stores[i].name,
                 json_of_value(secret_mask(c->stores[i].uri), c->stores[i].from));
    json_put(out, "settings", in_force);
    json_put(out, "stores", stores);
    json_put(out, "files", json_of_files(c));
    json_print(out);
    json_decref(out);
}

int cmd_config(settings *given, int argc, char **argv)
{
    request req = {.given = given};
    argp_parse(&config_argp, argc, argv, 0, NULL, &req);
    if (req.names_only) {
        print_names(&given->config);
    } else if (given->is_json) {
        print_json(given);
    } else {
        print_settings(given);
        print_stores(&given->config);
        print_files(&given->config);
    }
    return 0;
}
