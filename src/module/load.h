/* SPDX-License-Identifier: Apache-2.0 */
/* load.h: how the command gets at a part of it that is a file of its own. */
#ifndef MODULE_LOAD_H
#define MODULE_LOAD_H

#include <holdfast/holdfast.h>

typedef struct module_wanted {
    const char *file, *symbol; /* the file, and the one table that it shows */
    const char *what, *needs;  /* for messages: what it is for, and the package it needs */
} module_wanted;

/* Loads it, for good. The table begins with the version of the library, as a string: between two
 * versions nothing is agreed on. HF_UNUSABLE: *table is of no use. */
hf_code module_load(const module_wanted *wanted, const void **table, hf_error *err);

#endif
