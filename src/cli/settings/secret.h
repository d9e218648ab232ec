/* SPDX-License-Identifier: Apache-2.0 */
/* secret.h: the parts of a store's URI that only its owner may see. */
#ifndef HOLDFAST_CLI_SECRET_H
#define HOLDFAST_CLI_SECRET_H

#include <stdbool.h>

/* A copy in which *** stands for the password, and for those in the URI's options. */
char *secret_mask(const char *uri);

bool secret_is_in(const char *uri);

/* From now on this process leaves no core dump. A program that it starts may. */
void secret_forbid_dumps(void);

#endif
