/* SPDX-License-Identifier: Apache-2.0 */
/* leaks.c: ends a test program that gave back all it should, and only that. The linker leads its
 * calls to here; what is still there when it ends, of memory and of descriptors, is an error. */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_malloc(size_t size);
void __real_free(void *old);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void __wrap_free(void *old);

static atomic_long n_blocks;
static pid_t began_as;
static int n_descriptors;

static void *made(void *block)
{
    if (block)
        atomic_fetch_add(&n_blocks, 1);
    return block;
}

void *__wrap_malloc(size_t size)
{
    return made(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return made(__real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    return old ? __real_realloc(old, size) : made(__real_malloc(size));
}

void __wrap_free(void *old)
{
    if (old)
        atomic_fetch_sub(&n_blocks, 1);
    __real_free(old);
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
    fprintf(stderr, "%ld blocks of memory and %d descriptors were not given back\n", blocks,
            descriptors);
    fflush(NULL);
    _exit(1);
}

static void __attribute__((constructor)) begin(void)
{
    began_as = getpid();
    n_descriptors = count_descriptors();
    atexit(check);
}
