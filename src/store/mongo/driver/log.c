/* SPDX-License-Identifier: Apache-2.0 */
/* log.c: writes a message to the program's log. */
#include "store/mongo/driver/log.h"

#include <stdarg.h>
#include <stdio.h>

void mongo_log(mongo_store *store, hf_log_level level, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    store->config.log(store->config.log_ctx, level, text);
}
