/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h: the reference store, in this process's memory; store/open.c opens it. */
#ifndef STORE_MEMORY_H
#define STORE_MEMORY_H

#include <holdfast/store.h>

/* name "": a store of its own. Otherwise all opens of that name in this process share one store,
 * which the last close frees. */
hf_code memory_open(const char *name, const hf_store_config *config, hf_store **out, hf_error *err);

#endif
