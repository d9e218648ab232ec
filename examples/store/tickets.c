/* SPDX-License-Identifier: Apache-2.0 */
/* tickets.c: sells ten numbered tickets from a roll that other processes sell from, too. Its locks
 * are in a store that it brings along. tickets FOLDER FILE */
#include "lmdb_store.h"

#include <holdfast/holdfast.h>

#include <stdio.h>
#include <stdlib.h>

#define SELLS 10

static void die(const hf_error *err)
{
    fprintf(stderr, "tickets: %s\n", err->text);
    exit(1);
}

static int next_of(const char *path)
{
    int last = 0;
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%d", &last) != 1)
        last = 0;
    if (file)
        fclose(file);
    file = fopen(path, "w");
    if (!file)
        exit(1);
    fprintf(file, "%d\n", last + 1);
    fclose(file);
    return last + 1;
}

static void sell(hf_client *client, const char *path)
{
    hf_error err;
    hf_lock *roll;
    if (hf_lock_acquire(client, "roll", NULL, &roll, &err))
        die(&err);
    printf("%d\n", next_of(path));
    if (hf_lock_release(roll, &err))
        die(&err);
    hf_lock_close(roll);
}

int main(int argc, char **argv)
{
    char uri[4096];
    hf_error err;
    hf_client *client;
    if (argc != 3)
        return 64;
    snprintf(uri, sizeof uri, "lmdb:%s", argv[1]);
    if (lmdb_store_register(&err) || hf_open(uri, NULL, &client, &err))
        die(&err);
    for (int i = 0; i < SELLS; i++)
        sell(client, argv[2]);
    hf_close(client);
    return 0;
}
