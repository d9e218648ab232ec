/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h: the settings of every verb: the options before or after it; otherwise the environment
 * and files.
 *
 * This folder reads words and files. options.h has the flags and opens the store that they name.
 * config.h decides which source counts. Both read values with value.h. ini.h reads a file,
 * duration.h a length of time; folder.h finds the user's folders, secret.h hides passwords,
 * owner.h names the user, status.h has the exit statuses. It uses only terminal/. */
#ifndef HOLDFAST_CLI_SETTINGS_H
#define HOLDFAST_CLI_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

/* The options that every verb takes. */
typedef struct settings {
    bool is_verb;           /* the verb's own words are read, not those before it */
    config config;          /* all sources; the next one is the result */
    const char *store;      /* its URI; NULL: the default */
    const char *collection; /* of documents to be locked, in that store; NULL: locks */
    const char *element;    /* "lines.id": not they, but the elements of an array in them */
    const char *owner;      /* shown as the holder; NULL: the user and the program */
    bool is_json;
    int verbosity; /* -1: -q, 1: -v, 2: -vv */
} settings;

#endif
