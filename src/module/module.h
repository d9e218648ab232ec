/* SPDX-License-Identifier: Apache-2.0 */
/* module.h: what the command and its module holdfast-mongo.so, the MongoDB store, agree on. */
#ifndef MODULE_MODULE_H
#define MODULE_MODULE_H

#include <holdfast/store.h>

#define MODULE_FILE "holdfast-mongo.so"
#define MODULE_SYMBOL "holdfast_module"

typedef struct module {
    const char *version; /* HF_VERSION */
    void (*start)(void); /* mongo_start() */
    hf_code (*open)(const char *uri, const hf_store_config *config, hf_store **out,
                    int64_t *patience_ms, hf_error *err); /* mongo_open() */
    int64_t (*default_ttl_ms)(const char *uri);           /* mongo_default_ttl_ms() */
} module;

#endif
