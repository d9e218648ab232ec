/* SPDX-License-Identifier: Apache-2.0 */
/* early.c: keeps libmongoc, which sets itself up before main(), from leaving a file in /dev/shm for
 * each process that is killed, and from warning on stderr when it meets such a file again. */
#include <stddef.h>

/* Nothing can be added to the environment as early as this, so one entry stands aside meanwhile. */
static char setting[] = "MONGOC_DISABLE_SHM=1";
static char **place;
static char *stands_aside;

/* The sanitizers are not ready yet. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void
before_libraries(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    if (!environment[0])
        return;
    place = environment;
    stands_aside = environment[0];
    environment[0] = setting;
}

typedef void early_fn(int argc, char **argv, char **environment);
__attribute__((section(".preinit_array"), used)) static early_fn *const first = before_libraries;

__attribute__((constructor)) static void after_libraries(void)
{
    if (place)
        *place = stands_aside;
}
