/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: reads the options that stand before or after any verb, and opens the store that they
 * name; every verb calls it. */
#include "options.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "duration.h"
#include "show/text.h"
#include "terminal.h"

#define LEAST_TTL_MS 1000
#define MOST_TTL_MS 3600000

enum { KEY_STORE = 1000, KEY_TTL, KEY_JSON };

static const struct argp_option list[] = {
    {NULL, 0, NULL, 0, "For every command:", 90},
    {"store", KEY_STORE, "URI", 0, "sqlite:PATH, memory:, mongodb://... or mongodb+srv://...", 90},
    {"ttl", KEY_TTL, "D", 0,
     "how long the lease is: 1s to 1h, default 10s; each D is like 500ms, 10s, 2m, 1h or 1.5", 90},
    {"json", KEY_JSON, NULL, 0, "listings in JSON", 90},
    {"verbose", 'v', NULL, 0, "say more", 90},
    {"quiet", 'q', NULL, 0, "say nothing but errors", 90},
    {NULL, 0, NULL, 0, NULL, 0},
};

void options_bad_value(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = text_vprint(format, args);
    va_end(args);
    terminal_error("%s", text);
    exit(STATUS_VALUE);
}

int64_t options_duration(const char *option, const char *text)
{
    int64_t ms = 0;
    const char *wrong = duration_parse(text, &ms);
    if (wrong)
        options_bad_value("%s: \"%s\" %s", option, text, wrong);
    return ms;
}

int64_t options_number(const char *option, const char *text, int64_t least, int64_t most)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool is_number = strchr("-0123456789", *text) && *text && !*end && end != text;
    if (!is_number)
        options_bad_value("%s: \"%s\" is not a number", option, text);
    if (errno || value < least || value > most)
        options_bad_value("%s: %s is out of range: %lld to %lld", option, text, (long long)least,
                          (long long)most);
    return value;
}

static int64_t ttl_of(const char *text)
{
    int64_t ms = options_duration("--ttl", text);
    if (ms < LEAST_TTL_MS || ms > MOST_TTL_MS)
        options_bad_value("--ttl: %s is out of range: 1s to 1h", text);
    return ms;
}

static void set_verbosity(settings *given, int key)
{
    if (key == 'q')
        given->verbosity = -1;
    else
        given->verbosity = given->verbosity > 0 ? 2 : 1;
    terminal_init(given->verbosity);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    settings *given = state->input;
    switch (key) {
    case KEY_STORE:
        given->store = arg;
        return 0;
    case KEY_TTL:
        given->ttl_ms = ttl_of(arg);
        return 0;
    case KEY_JSON:
        given->is_json = true;
        return 0;
    case 'v':
    case 'q':
        set_verbosity(given, key);
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

/* $XDG_STATE_HOME/holdfast, or ~/.local/state/holdfast; NULL when nobody has a home. */
static char *state_folder(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/')
        return text_print("%s/holdfast", state);
    const struct passwd *me = home && *home == '/' ? NULL : getpwuid(getuid());
    home = me ? me->pw_dir : home;
    return home && *home == '/' ? text_print("%s/.local/state/holdfast", home) : NULL;
}

/* Makes a folder and those above it; 0, or errno. */
static int make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int failed = mkdir(path, 0700) && errno != EEXIST ? errno : 0;
        *slash = '/';
        if (failed && failed != EROFS && failed != EACCES)
            return failed; /* those two: what is below may be there all the same */
    }
    return mkdir(path, 0700) && errno != EEXIST ? errno : 0;
}

/* The URI of the default store, in new memory; NULL after a message. */
static char *default_store(void)
{
    char *folder = state_folder();
    int failed = folder ? make_folders(folder) : ENOENT;
    char *uri = failed ? NULL : text_print("sqlite:%s/locks.db", folder);
    if (failed)
        terminal_error("cannot make the folder %s for the default store: %s; name a store with "
                       "--store or HOLDFAST_STORE",
                       folder ? folder : "~/.local/state/holdfast", strerror(failed));
    free(folder);
    return uri;
}

char *options_store(const settings *given)
{
    const char *named = given->store ? given->store : getenv("HOLDFAST_STORE");
    return named && (*named || given->store) ? text_copy(named) : default_store();
}

/* The same database with protocol document; NULL after a message. Takes uri. */
static char *document_store(char *uri, const char *collection)
{
    char *out = NULL;
    if (strncmp(uri, "mongodb://", 10) == 0 || strncmp(uri, "mongodb+srv://", 14) == 0) {
        char *escaped = text_escape_uri(collection);
        out = text_print("%s%chfProtocol=document&hfCollection=%s", uri,
                         strchr(uri, '?') ? '&' : '?', escaped);
        free(escaped);
    } else {
        terminal_error("--document needs a MongoDB store: name it with --store or HOLDFAST_STORE, "
                       "like mongodb://HOST:PORT,HOST:PORT/DATABASE?replicaSet=NAME");
    }
    free(uri);
    return out;
}

int options_open(const settings *given, const hf_options *more, hf_client **out)
{
    hf_options options = more ? *more : (hf_options){0};
    hf_error err = {0};
    char *uri = options_store(given);
    if (uri && given->collection && !(uri = document_store(uri, given->collection)))
        return STATUS_VALUE;
    if (!uri)
        return STATUS_STORE;
    options.struct_size = sizeof options;
    options.ttl_ms = given->ttl_ms;
    options.log = terminal_log;
    hf_code code = hf_open(uri, &options, out, &err);
    if (code)
        terminal_error("%s", err.text);
    free(uri);
    return hf_code_exit(code);
}
