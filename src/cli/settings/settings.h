/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h: what every verb is told: the options that stand before or after it, and what
 * environment and files say where they are silent.
 *
 * This room reads words and files: options.h has the flags and opens the store that they name,
 * config.h decides what counts; both read values by value.h. ini.h reads a file, duration.h a
 * length of time; folder.h finds the user's folders, secret.h hides passwords, status.h has the
 * exit statuses. It stands on terminal/ alone. */
#ifndef HOLDFAST_CLI_SETTINGS_H
#define HOLDFAST_CLI_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

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

#endif
