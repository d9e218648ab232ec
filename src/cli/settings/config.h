/* SPDX-License-Identifier: Apache-2.0 */
/* config.h: the settings that may also stand in the environment and in a file: their names, values,
 * and where each value comes from. */
#ifndef HOLDFAST_CLI_CONFIG_H
#define HOLDFAST_CLI_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Name in a file, variable, and the default in words. */
#define SETTING_TABLE(X)                                                                           \
    X(STORE, "store", "HOLDFAST_STORE", "sqlite:PATH, a file of this user's")                      \
    X(TTL, "ttl", "HOLDFAST_TTL", "10s, with MongoDB 40s")                                         \
    X(GRACE, "grace", "HOLDFAST_GRACE", "a quarter of the ttl, at most 5s")                        \
    X(WAIT, "wait", "HOLDFAST_WAIT", "for ever")                                                   \
    X(NAME_PREFIX, "name-prefix", "HOLDFAST_NAME_PREFIX", "none")                                  \
    X(ACCESS_LOG, "access-log", "HOLDFAST_ACCESS_LOG", "none")

typedef enum setting {
#define X(id, key, variable, standard) SETTING_##id,
    SETTING_TABLE(X)
#undef X
        N_SETTINGS
} setting;

/* A text, NULL where none was given; and where it comes from: "--ttl", "HOLDFAST_TTL", "PATH:3". */
typedef struct config_value {
    char *text, *from;
} config_value;

/* A store that a file names. */
typedef struct named_store {
    char *name, *from, *uri;
} named_store;

typedef struct config_file {
    char *path;
    int error; /* why it could not be opened; 0: it was read */
} config_file;

#define MOST_CONFIG_FILES 2

typedef struct config {
    config_value values[N_SETTINGS];
    named_store *stores; /* in byte order of their names */
    size_t n_stores;
    config_file files[MOST_CONFIG_FILES]; /* the one that counts more comes first */
    size_t n_files;
    const config_file *hidden; /* the first that is there and cannot be read; or NULL */
    bool hides_store;          /* there is one, and no other names a store, which is then `none` */
} config;

const char *config_key(setting which);
const char *config_standard(setting which);
const char *config_file_state(const config_file *f); /* "read", "not there", "not readable" */

/* Sets a setting from a flag; the last flag counts. As in all of these functions, an invalid value
 * ends the program with a message and STATUS_VALUE. */
void config_say(config *c, setting which, const char *flag, const char *text);

/* Fills in settings without a flag from the environment, the user's file and the system's, in this
 * order. If HOLDFAST_CONFIG names a file, that replaces both. */
void config_settle(config *c);

/* A setting's duration, or `standard` if it is not set. */
int64_t config_ms(const config *c, setting which, int64_t standard);

/* The file in which `serve` logs requests, "-" for standard error; NULL: none. */
const char *config_access_log(const config *c);

/* Two words in place of a store: this user's own file, and that there is no default. */
#define STORE_PRIVATE "private"
#define STORE_NONE "none"

/* The URI of the store that was given by name or by URI; NULL: none was given, or one of those
 * words. */
const char *config_store(const config *c);
/* "PATH:3", where that URI stands; NULL: in no file. */
const char *config_store_from(const config *c);
bool config_has_no_store(const config *c); /* there is no default, not even this user's file */

#endif
