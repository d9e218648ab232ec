/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c: a strict heap for a test program: the linker leads its calls to here. What is still
 * there when the program ends, of memory and of descriptors, is an error, and so is a write behind
 * a block. What was not written yet, what lies behind a block and what was freed holds no zeros. */
#include <dirent.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define TAIL 64
#define FILL 0xa5 /* as a number, a pointer or a truth: a wrong one */

void *__real_malloc(size_t size);
void __real_free(void *old);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *old);

/* Stands before each block. */
typedef union header {
    size_t size;
    max_align_t alignment;
} header;

static atomic_long n_blocks;
static pid_t began_as;
static int n_descriptors;

static void stop(const char *what)
{
    fprintf(stderr, "the heap: %s\n", what);
    abort();
}

static header *header_of(void *block)
{
    return (header *)block - 1;
}

static void check_tail(void *block)
{
    const unsigned char *tail = (unsigned char *)block + header_of(block)->size;
    for (size_t i = 0; i < TAIL; i++)
        if (tail[i] != FILL)
            stop("a write behind the end of a block, or a second free()");
}

void *__wrap_malloc(size_t size)
{
    header *h = __real_malloc(sizeof *h + size + TAIL);
    if (!h)
        return NULL;
    h->size = size;
    atomic_fetch_add(&n_blocks, 1);
    return memset(h + 1, FILL, size + TAIL);
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *block = __wrap_malloc(n * size);
    return block ? memset(block, 0, n * size) : NULL;
}

/* It always moves, so that a pointer to the old place shows. */
void *__wrap_realloc(void *old, size_t size)
{
    void *block = __wrap_malloc(size);
    if (block && old)
        memcpy(block, old, header_of(old)->size < size ? header_of(old)->size : size);
    if (block)
        __wrap_free(old);
    return block;
}

void __wrap_free(void *old)
{
    if (!old)
        return;
    check_tail(old);
    atomic_fetch_sub(&n_blocks, 1);
    memset(old, FILL, header_of(old)->size);
    memset((unsigned char *)old + header_of(old)->size, ~FILL, TAIL);
    __real_free(header_of(old));
}

static int count_descriptors(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* A child that the test forked has what its parent had. */
static void check(void)
{
    long blocks = atomic_load(&n_blocks);
    int descriptors = count_descriptors() - n_descriptors;
    if (getpid() != began_as || (!blocks && !descriptors))
        return;
    fprintf(stderr, "the heap: %ld blocks of memory and %d descriptors were not given back\n",
            blocks, descriptors);
    fflush(NULL);
    _exit(1);
}

static void __attribute__((constructor)) begin(void)
{
    began_as = getpid();
    n_descriptors = count_descriptors();
    atexit(check);
}
