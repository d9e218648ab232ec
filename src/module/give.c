/* SPDX-License-Identifier: Apache-2.0 */
/* give.c: the only export of the module holdfast-mongo.so: its version and the MongoDB store;
 * load.c looks it up. */
#include "module/module.h"
#include "store/mongo/mongo.h"

extern const module holdfast_module;
const module holdfast_module = {HF_VERSION, mongo_start, mongo_open, mongo_default_ttl_ms};
