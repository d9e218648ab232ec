/* SPDX-License-Identifier: Apache-2.0 */
/* log.c: passes a message to the client's log; called by every file of this folder. */
#include "store/sqlite/sqlite_internal.h"

#include <stdarg.h>
#include <stdio.h>

void sqlite_log(sqlite_store *store, hf_log_level level, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    store->config.log(store->config.log_ctx, level, text);
}
