/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h: what every verb of the command shares: its settings, its exit statuses, the verbs. */
#ifndef HOLDFAST_CLI_SETTINGS_H
#define HOLDFAST_CLI_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast/holdfast.h>

#include "config.h"

/* Those of the library's failures come from its own table, hf_code_exit(). */
enum {
    STATUS_USAGE = 64,
    STATUS_VALUE = 65,
    STATUS_STORE = 69,
    STATUS_INTERNAL = 70,
    STATUS_OUTPUT = 74,
    STATUS_NOT_ACQUIRED = 75,
    STATUS_LOST = 76,
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNAL = 128, /* and the signal's number */
};

#define DEFAULT_TTL_MS 10000

/* The options that every verb takes. */
typedef struct settings {
    bool is_verb;      /* the verb's own words are read, not those before it */
    config config;     /* what was said where; the next two are what came of it */
    const char *store; /* its URI; NULL: the default */
    int64_t ttl_ms;
    const char *collection; /* of documents to be locked, in that store; NULL: locks */
    bool is_json;
    int verbosity; /* -1: -q, 1: -v, 2: -vv */
} settings;

/* A verb gets its own words, argv[0] being "holdfast verb", and returns the exit status. */
typedef int verb_fn(settings *given, int argc, char **argv);

verb_fn cmd_run, cmd_acquire, cmd_renew, cmd_release, cmd_elect, cmd_list, cmd_show, cmd_sessions,
    cmd_break, cmd_doctor, cmd_bench, cmd_config, cmd_complete, cmd_watch, cmd_serve;

#endif
