/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h: what a client of the campaign was told on its command line. */
#ifndef TORTURE_SETTINGS_H
#define TORTURE_SETTINGS_H

#include <holdfast/holdfast.h>
#include <stdbool.h>
#include <stdint.h>

#define THREADS_MAX 16
#define NAMES_MAX 16
#define SEM_LIMIT 3

typedef struct settings {
    const char *store, *data, *id, *history, *until;
    char *names[NAMES_MAX]; /* "sem..." are semaphores, the others read-write locks */
    size_t n_names;
    int64_t seed, turns, n_threads, hold_ms;
    int64_t work_ms; /* so often there is something to be done once; 0: never */
    hf_options client;
    bool is_unguarded, is_writer, stops_before_write;
} settings;

extern settings given; /* constant once it is read */

/* False: those are not the words. */
bool settings_read(int argc, char **argv);

#endif
