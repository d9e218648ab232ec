/* SPDX-License-Identifier: Apache-2.0 */
/* chosen.c: reads, once, which bug the environment's HOLDFAST_PLANT names; part of builds with
 * planted bugs only, in the library and in the command. A name that is none ends the program. */
#include "core/plant.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int chosen = -1;

static void choose(void)
{
#define X(bug, wrong) #bug,
    static const char *const names[] = {PLANT_TABLE(X)};
#undef X
    const char *name = getenv("HOLDFAST_PLANT");
    for (int i = 0; name && i < PLANT_COUNT; i++)
        if (strcmp(names[i], name) == 0)
            chosen = i;
    if (!name || chosen >= 0)
        return;
    fprintf(stderr, "HOLDFAST_PLANT: no bug is called \"%s\"\n", name);
    abort();
}

bool plant_is_chosen(plant bug)
{
    pthread_once(&once, choose);
    return (int)bug == chosen;
}
