/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.h: memory or abort. libbson, which every database store needs, ends the process when memory
 * is out. So do we: nobody could test the code paths that handle it. */
#ifndef CORE_ALLOC_H
#define CORE_ALLOC_H

#include <stdlib.h>
#include <string.h>

static inline void *alloc_array(void *old, size_t count, size_t size)
{
    if (size && count > (size_t)-1 / size)
        abort();
    size_t bytes = count * size;
    void *p = realloc(old, bytes > 0 ? bytes : 1);
    if (!p)
        abort();
    return p;
}

/* Room for one more than count, in an array that grows only so: its room doubles. */
static inline void *alloc_more(void *old, size_t count, size_t size)
{
    return count & (count - 1) ? old : alloc_array(old, count ? 2 * count : 1, size);
}

static inline void *alloc_zeroed(size_t size)
{
    void *p = calloc(1, size);
    if (!p)
        abort();
    return p;
}

static inline char *alloc_text(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(alloc_array(NULL, size, 1), text, size);
}

#endif
