/* SPDX-License-Identifier: Apache-2.0 */
/* recall.h: a part of "handover". */
#ifndef BENCH_RECALL_H
#define BENCH_RECALL_H

#include "bench.h"

struct raw;

void measure_recall(const struct bench *bench, struct raw *raw);

#endif
