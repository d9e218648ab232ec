/* SPDX-License-Identifier: Apache-2.0 */
/* duration.h: a length of time as people write it. */
#ifndef HOLDFAST_CLI_DURATION_H
#define HOLDFAST_CLI_DURATION_H

#include <stdint.h>

/* Reads "500ms", "10s", "2m", "1h", or seconds such as "1.5". Parts of a millisecond are rounded
 * up. Returns NULL, or what is wrong with it, as the end of a sentence. */
const char *duration_parse(const char *text, int64_t *out_ms);

#endif
