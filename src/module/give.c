/* SPDX-License-Identifier: Apache-2.0 */
/* give.c: the one thing that the module holdfast-mongo.so shows: its version and the MongoDB store;
 * mongo.c looks it up. */
#include "module/module.h"
#include "store/mongo/mongo.h"

extern const module holdfast_module;
const module holdfast_module = {HF_VERSION, mongo_open};
