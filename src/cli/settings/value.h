/* SPDX-License-Identifier: Apache-2.0 */
/* value.h: the value of an option or a setting; an invalid value ends the program with a message
 * and STATUS_VALUE. */
#ifndef HOLDFAST_CLI_VALUE_H
#define HOLDFAST_CLI_VALUE_H

#include <stdint.h>

int64_t value_duration(const char *option, const char *text);
int64_t value_number(const char *option, const char *text, int64_t least, int64_t most);

/* Ends the program with a message and STATUS_VALUE. */
void value_refuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
