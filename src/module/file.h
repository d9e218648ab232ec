/* SPDX-License-Identifier: Apache-2.0 */
/* file.h: the files of the command's modules: where they are searched for, and which are trusted.
 */
#ifndef MODULE_FILE_H
#define MODULE_FILE_H

#include <stddef.h>

typedef struct module_file {
    const char *name;   /* "holdfast-mongo.so" */
    const char *symbol; /* a table, whose first member is `const char *version`: HF_VERSION */
    const char *part;   /* what it does for the command, and */
    const char *needs;  /* what else must be installed, in words */
} module_file;

/* Loads it for good; returns its table, or NULL, and why (in at most `size` bytes). */
const void *module_load(const module_file *wanted, char *why, size_t size);

#endif
