/* SPDX-License-Identifier: Apache-2.0 */
/* log.h: messages for the program's log. */
#ifndef STORE_MONGO_DRIVER_LOG_H
#define STORE_MONGO_DRIVER_LOG_H

#include "store/mongo/driver/store.h"

void mongo_log(mongo_store *store, hf_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
