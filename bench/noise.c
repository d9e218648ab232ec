/* SPDX-License-Identifier: Apache-2.0 */
/* noise.c: reads the kernel's count of busy processors; see noise.h. */
#include "noise.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"
#include "table.h"

#define WINDOW_MS 1000

typedef struct ticks {
    double all, idle;
} ticks;

static ticks ticks_now(void)
{
    double t[8] = {0};
    FILE *stat = fopen("/proc/stat", "r");
    if (stat && fscanf(stat, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3],
                       &t[4], &t[5], &t[6], &t[7]) != 8)
        t[3] = 0;
    if (stat)
        fclose(stat);
    return (ticks){t[0] + t[1] + t[2] + t[3] + t[4] + t[5] + t[6] + t[7], t[3] + t[4]};
}

void noise_rows(const char *when)
{
    series busy = {.n = 0}, load = {.n = 0};
    double average[1] = {0};
    ticks before = ticks_now();
    pause_ms(WINDOW_MS);
    ticks after = ticks_now();
    series_add(&busy, 100 - 100 * (after.idle - before.idle) / (after.all - before.all));
    table_row(&busy, NO_GOAL, "noise %s: %ld processors, %% busy with us idle", when,
              sysconf(_SC_NPROCESSORS_ONLN));
    if (getloadavg(average, 1) == 1) {
        series_add(&load, average[0]);
        table_row(&load, NO_GOAL, "noise %s: load average", when);
    }
}
