/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c: reads the words of a client of the campaign. */
#include "settings.h"

#include <stdlib.h>
#include <string.h>

settings given = {.id = "c", .n_threads = 1};

static void set_names(char *list)
{
    given.n_names = 0;
    for (char *name = strtok(list, ","); name && given.n_names < NAMES_MAX;
         name = strtok(NULL, ","))
        given.names[given.n_names++] = name;
}

static bool set_text(const char *key, const char *value)
{
    const struct {
        const char *key;
        const char **to;
    } texts[] = {{"store", &given.store}, {"data", &given.data},       {"id", &given.id},
                 {"until", &given.until}, {"history", &given.history}, {"app", &given.client.app}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(key, texts[i].key)) {
            *texts[i].to = value;
            return true;
        }
    return false;
}

static bool set_number(const char *key, const char *value)
{
    const struct {
        const char *key;
        int64_t *to;
    } numbers[] = {{"seed", &given.seed},
                   {"turns", &given.turns},
                   {"threads", &given.n_threads},
                   {"hold", &given.hold_ms},
                   {"work", &given.work_ms},
                   {"ttl", &given.client.ttl_ms},
                   {"notice", &given.client.stop_margin_ms},
                   {"patience", &given.client.patience_ms},
                   {"clock-trust", &given.client.clock_trust_ms}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(key, numbers[i].key)) {
            *numbers[i].to = strtoll(value, NULL, 10);
            return true;
        }
    return false;
}

static bool set_flag(const char *word)
{
    const struct {
        const char *word;
        bool *to;
    } flags[] = {{"--unguarded", &given.is_unguarded},
                 {"--writer", &given.is_writer},
                 {"--stop-before-write", &given.stops_before_write}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (!strcmp(word, flags[i].word)) {
            *flags[i].to = true;
            return true;
        }
    return false;
}

/* --KEY=VALUE, and the flags above. */
bool settings_read(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (set_flag(argv[i]))
            continue;
        if (strncmp(argv[i], "--", 2) || !value)
            return false;
        *value++ = '\0';
        if (!strcmp(argv[i] + 2, "locks"))
            set_names(value);
        else if (!set_text(argv[i] + 2, value) && !set_number(argv[i] + 2, value))
            return false;
    }
    return given.store && given.data && given.history && given.until && given.n_names &&
           given.client.ttl_ms && given.n_threads >= 1 && given.n_threads <= THREADS_MAX;
}
