/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: the options that stand before or after any verb, and the store that they name. */
#ifndef HOLDFAST_CLI_OPTIONS_H
#define HOLDFAST_CLI_OPTIONS_H

#include <argp.h>

#include <holdfast/holdfast.h>

#include "settings.h"

/* A child for every parser; its input is the settings. */
extern const struct argp options_argp;

/* The children of a verb's parser: the options above. Its parser calls options_inherit first. */
extern const struct argp_child options_children[];
void options_inherit(int key, struct argp_state *state, settings *given);

/* Called after the flags before and after the verb were read: fills in what they left open. The
 * parsers of verbs call it themselves. */
void options_settle(settings *given);

/* Takes a verb's only word, which is a `what`; a second word ends the program. */
void options_take(const char **word, char *arg, const char *what, struct argp_state *state);

/* The URI of the given or the default store, in new memory; NULL if there is no place for the
 * default store, or the settings say that there is none. */
char *options_uri(const settings *given);

/* The given or the default store for people, without passwords: its URI, behind its name in a file
 * of settings if it has one; and whether it is this user's own file. In new memory. */
char *options_store_shown(const settings *given);

/* Whether anybody said which store to use; if not, it is this user's own file. */
bool options_has_store(const settings *given);

/* The ttl of clients of that store: what was said, or the store's default. */
int64_t options_ttl_ms(const settings *given);

/* The same as options_uri(); the default store's folders are made, and a warning says that it is
 * used, unless that was asked for. NULL after a message. Ends the program if the settings say that
 * there is no default. */
char *options_store(const settings *given);

/* For hf_options.guardian: the store is opened with a guardian, where one is worth it. */
#define OPTIONS_GUARDIAN ""

/* Opens that store. more may be NULL. Call it while there is one thread. Returns the exit status:
 * 0, or after an error, which it prints, another. */
int options_open(const settings *given, const hf_options *more, hf_client **out);

#endif
