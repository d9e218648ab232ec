/* SPDX-License-Identifier: Apache-2.0 */
/* schemes.h: stores that programs have registered; open.c asks here. */
#ifndef STORE_SCHEMES_H
#define STORE_SCHEMES_H

#include <holdfast/store.h>

/* How to open a store of this URI, and the URI behind its scheme; NULL: nobody has registered its
 * scheme. Any thread. */
hf_store_open_fn schemes_find(const char *uri, const char **rest);

#endif
