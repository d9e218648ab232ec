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

/* The flags before the verb and after it are read: fills in what they left open. The parsers of
 * verbs do it themselves. */
void options_settle(settings *given);

/* The only word that a verb takes, which is a `what`; a second one ends the program. */
void options_take(const char **word, char *arg, const char *what, struct argp_state *state);

/* The URI of the store that was given, or of the default one, in new memory; NULL when that has no
 * place. */
char *options_uri(const settings *given);

/* The same; the default store's folders are made. NULL after a message. */
char *options_store(const settings *given);

/* Opens that store. more may be NULL.
 * Says on stderr what went wrong, and returns the exit status, 0 when it is well. */
int options_open(const settings *given, const hf_options *more, hf_client **out);

#endif
