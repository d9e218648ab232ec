/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c: gives a fuzzer's kept inputs to it, one after the other, where libFuzzer is not linked
 * in: replay FILE-OR-FOLDER... An input that fails ends the process, and was named before. */
#include "fuzz.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANGS_S 20 /* as long as an input may take; SIGALRM ends it */

static size_t played;

static int play(const char *name, const struct stat *info, int type, struct FTW *place)
{
    (void)place;
    if (type != FTW_F)
        return 0;
    size_t size = (size_t)info->st_size;
    uint8_t *data = malloc(size ? size : 1);
    FILE *file = fopen(name, "rb");
    MUST(data && file && fread(data, 1, size, file) == size);
    fclose(file);
    fprintf(stderr, "%s\n", name);
    alarm(HANGS_S);
    LLVMFuzzerTestOneInput(data, size);
    alarm(0);
    free(data);
    played++;
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (nftw(argv[i], play, 8, FTW_PHYS)) {
            perror(argv[i]);
            return 1;
        }
    printf("%zu inputs replayed\n", played);
    return played == 0;
}
