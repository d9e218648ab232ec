/* SPDX-License-Identifier: Apache-2.0 */
/* noise.h: how busy the machine is while we do nothing: rows before and after the others. */
#ifndef BENCH_NOISE_H
#define BENCH_NOISE_H

void noise_rows(const char *when);

#endif
