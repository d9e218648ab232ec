/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: reads the options that stand before or after any verb, and opens the store that they
 * name; every verb calls it. */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/terminal/terminal.h"
#include "folder.h"
#include "guardian.h"
#include "owner.h"
#include "secret.h"
#include "show/text.h"
#include "status.h"
#include "value.h"

#define STORE_FLAG "--store"
#define OWN_FILE "this user's own file"

enum { KEY_STORE = 1000, KEY_TTL, KEY_PREFIX, KEY_JSON };

static const struct argp_option list[] = {
    {NULL, 0, NULL, 0, "For every command:", 90},
    {"store", KEY_STORE, "STORE", 0,
     "its name in the file of settings, or sqlite:PATH, memory:, mongodb://... or "
     "mongodb+srv://..., or private: this user's own file",
     90},
    {"ttl", KEY_TTL, "D", 0,
     "how long the lease is: 1s to 1h, default 10s, with MongoDB 40s; each D is like 500ms, 10s, "
     "2m, "
     "1h or 1.5",
     90},
    {"name-prefix", KEY_PREFIX, "TEXT", 0,
     "put before the names in the store, so that programs share it without clashes", 90},
    {"json", KEY_JSON, NULL, 0, "listings in JSON", 90},
    {"verbose", 'v', NULL, 0, "say more", 90},
    {"quiet", 'q', NULL, 0, "say nothing but errors", 90},
    {NULL, 'h', NULL, OPTION_HIDDEN, NULL, 90},
    {NULL, 0, NULL, 0, NULL, 0},
};

void options_take(const char **word, char *arg, const char *what, struct argp_state *state)
{
    if (*word)
        argp_error(state, "give only one %s", what);
    *word = arg;
}

static void set_verbosity(settings *given, int key)
{
    if (key == 'q')
        given->verbosity = -1;
    else
        given->verbosity = given->verbosity > 0 ? 2 : 1;
    terminal_init(given->verbosity);
}

void options_settle(settings *given)
{
    config *c = &given->config;
    config_settle(c);
    given->store = config_store(c);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    settings *given = state->input;
    switch (key) {
    case KEY_STORE:
        config_say(&given->config, SETTING_STORE, STORE_FLAG, arg);
        return 0;
    case KEY_TTL:
        config_say(&given->config, SETTING_TTL, "--ttl", arg);
        return 0;
    case KEY_PREFIX:
        config_say(&given->config, SETTING_NAME_PREFIX, "--name-prefix", arg);
        return 0;
    case KEY_JSON:
        given->is_json = true;
        return 0;
    case 'h':
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case 'v':
    case 'q':
        set_verbosity(given, key);
        return 0;
    case ARGP_KEY_END:
        if (given->is_verb)
            options_settle(given);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp options_argp = {list, parse, NULL, NULL, NULL, NULL, NULL};

const struct argp_child options_children[] = {{&options_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

void options_inherit(int key, struct argp_state *state, settings *given)
{
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = given;
}

char *options_uri(const settings *given)
{
    if (given->store)
        return text_copy(given->store);
    if (config_has_no_store(&given->config))
        return NULL;
    char *folder = folder_find("XDG_STATE_HOME", ".local/state");
    char *uri = folder ? text_print("sqlite:%s/locks.db", folder) : NULL;
    free(folder);
    return uri;
}

char *options_store_shown(const settings *given)
{
    const config_value *said = &given->config.values[SETTING_STORE];
    char *uri = options_uri(given), *shown = secret_mask(uri ? uri : "none");
    bool has_name = given->store && strcmp(said->text, given->store) != 0;
    char *out = has_name       ? text_print("%s (%s)", said->text, shown)
                : given->store ? text_copy(shown)
                               : text_print("%s (" OWN_FILE ")", shown);
    free(shown);
    free(uri);
    return out;
}

bool options_has_store(const settings *given)
{
    return given->config.values[SETTING_STORE].text != NULL;
}

/* Makes the folder of the default store if it is missing; false after a message. */
static bool make_default_folder(void)
{
    char *folder = folder_find("XDG_STATE_HOME", ".local/state");
    int failed = folder ? folder_make(folder) : ENOENT;
    if (failed)
        terminal_error("cannot make the folder %s for the default store: %s; name a store with "
                       "--store or HOLDFAST_STORE",
                       folder ? folder : "~/.local/state/holdfast", strerror(failed));
    free(folder);
    return !failed;
}

/* The user's own file excludes nobody else, which is seldom what is wanted from a lock. */
static void say_private(const char *uri)
{
    terminal_name_store(OWN_FILE);
    terminal_warn(
        "no store is named, so " OWN_FILE " is used, which excludes no other user "
        "and no other host: %s; name a store with --store, HOLDFAST_STORE or in a file of "
        "settings, or say --store " STORE_PRIVATE,
        uri);
}

/* The words of a command are for all users of its host to see. */
static void say_open_secret(const config_value *said)
{
    if (said->text && strcmp(said->from, STORE_FLAG) == 0 && secret_is_in(said->text))
        terminal_warn("a password in " STORE_FLAG " can be read by every user of this host, in the "
                      "list of processes: let HOLDFAST_STORE or a file of settings name the store");
}

static void refuse_no_store(const config *c)
{
    const config_file *hidden = c->hidden;
    if (c->hides_store)
        value_refuse("no store is named, and %s, which may name one, cannot be read: "
                     "%s; name a store with --store or HOLDFAST_STORE (" STORE_PRIVATE ": " OWN_FILE
                     "), or ask for the right to read that file",
                     hidden->path, strerror(hidden->error));
    value_refuse("%s says that no store is the default: name one with --store or HOLDFAST_STORE",
                 c->values[SETTING_STORE].from);
}

/* With another prefix the same names are other locks. */
static void say_hidden_prefix(const config *c)
{
    const char *store = c->values[SETTING_STORE].text;
    bool is_shared = store && strcmp(store, STORE_PRIVATE) != 0;
    if (c->hidden && is_shared && !c->values[SETTING_NAME_PREFIX].text)
        terminal_warn("%s cannot be read: %s; if it sets name-prefix, give the same one with "
                      "--name-prefix, else an empty one",
                      c->hidden->path, strerror(c->hidden->error));
}

char *options_store(const settings *given)
{
    const config_value *said = &given->config.values[SETTING_STORE];
    if (config_has_no_store(&given->config))
        refuse_no_store(&given->config);
    char *uri = given->store || make_default_folder() ? options_uri(given) : NULL;
    if (uri && secret_is_in(uri))
        secret_forbid_dumps();
    if (uri && !options_has_store(given))
        say_private(uri);
    say_open_secret(said);
    say_hidden_prefix(&given->config);
    return uri;
}

static bool is_mongo(const char *uri)
{
    return strncmp(uri, "mongodb://", 10) == 0 || strncmp(uri, "mongodb+srv://", 14) == 0;
}

/* The same database with protocol document; NULL: it is no MongoDB store. Takes uri. */
static char *document_uri(char *uri, const settings *given)
{
    char *out = NULL;
    if (is_mongo(uri)) {
        char *collection = text_escape_uri(given->collection);
        char *element = text_escape_uri(given->element ? given->element : "");
        out = text_print("%s%chfProtocol=document&hfCollection=%s%s%s", uri,
                         strchr(uri, '?') ? '&' : '?', collection,
                         given->element ? "&hfElement=" : "", element);
        free(collection);
        free(element);
    }
    free(uri);
    return out;
}

int64_t options_ttl_ms(const settings *given)
{
    int64_t said_ms = config_ms(&given->config, SETTING_TTL, 0);
    if (said_ms)
        return said_ms;
    char *uri = options_uri(given);
    if (uri && given->collection)
        uri = document_uri(uri, given);
    int64_t ms = hf_default_ttl_ms(uri);
    free(uri);
    return ms;
}

/* Without a store of MongoDB there is a message. Takes uri. */
static char *document_store(char *uri, const settings *given)
{
    char *out = document_uri(uri, given);
    if (!out)
        terminal_error("--document needs a MongoDB store: name it with --store or HOLDFAST_STORE, "
                       "like mongodb://HOST:PORT,HOST:PORT/DATABASE?replicaSet=NAME");
    return out;
}

/* Also without any options: it is no name prefix, or ttl. */
static bool is_uri_refused(const char *uri)
{
    hf_client *client;
    hf_code code = hf_open(uri, NULL, &client, NULL);
    if (!code)
        hf_close(client);
    return code == HF_INVALID;
}

static void say_not_opened(const settings *given, const char *uri, const hf_error *err)
{
    const char *from = config_store_from(&given->config);
    bool has_place = from && err->code == HF_INVALID && is_uri_refused(uri);
    terminal_error("%s%s%s", has_place ? from : "", has_place ? ": " : "", err->text);
}

int options_open(const settings *given, const hf_options *more, hf_client **out)
{
    hf_options options = more ? *more : (hf_options){0};
    hf_error err = {0};
    char *uri = options_store(given);
    if (uri && given->collection && !(uri = document_store(uri, given)))
        return STATUS_VALUE;
    if (!uri)
        return STATUS_STORE;
    options.struct_size = sizeof options;
    options.ttl_ms = config_ms(&given->config, SETTING_TTL, 0); /* the default is the library's */
    options.name_prefix = given->config.values[SETTING_NAME_PREFIX].text;
    options.log = terminal_log;
    char *app =
        given->owner ? text_copy(given->owner) : owner_of(options.app ? options.app : "holdfast");
    options.app = app;
    options.guardian = options.guardian && is_mongo(uri) ? guardian_fork() : NULL;
    hf_code code = hf_open(uri, &options, out, &err);
    if (code)
        say_not_opened(given, uri, &err);
    free(app);
    free(uri);
    return hf_code_exit(code);
}
