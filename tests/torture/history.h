/* SPDX-License-Identifier: Apache-2.0 */
/* history.h: what a client of the campaign says of itself, one line of JSON an event; read by
 * checker.py. Times are CLOCK_BOOTTIME in ns: the same for all processes of this machine. */
#ifndef TORTURE_HISTORY_H
#define TORTURE_HISTORY_H

#include <holdfast/holdfast.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct event {
    char text[2000];
    size_t n;
} event;

int64_t now_ns(void);

/* Appends to this file from now on; false when it cannot be opened. */
bool history_open(const char *path);

/* Begins an event, with the time; history_say() writes it, in one piece. Any thread. */
event history_event(const char *kind);
void history_number(event *event, const char *key, int64_t number);
void history_text(event *event, const char *key, const char *text);
void history_code(event *event, hf_code code, const hf_error *err);
void history_say(event *event);

#endif
