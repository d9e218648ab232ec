/* SPDX-License-Identifier: Apache-2.0 */
/* init.h: this program as the first process of a container. */
#ifndef CLI_INIT_H
#define CLI_INIT_H

/* Called first, before there are threads. If this is process 1, the program goes on in a child, and
 * process 1 ends with its status. */
void init_tend(void);

#endif
