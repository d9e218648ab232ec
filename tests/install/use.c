/* SPDX-License-Identifier: Apache-2.0 */
/* A user's smallest program, in what C and C++ have in common: takes a lock and releases it. */
#include <holdfast/holdfast.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    hf_client *client;
    hf_lock *lock;
    hf_error err;
    int64_t left_ms;

    if (strcmp(hf_version(), HF_VERSION) != 0) {
        printf("compiled against %s, runs with %s\n", HF_VERSION, hf_version());
        return 1;
    }
    if (hf_open("memory:", NULL, &client, &err) ||
        hf_lock_acquire(client, "demo", NULL, &lock, &err) || hf_lock_check(lock, &left_ms, &err) ||
        hf_lock_release(lock, &err)) {
        printf("%s: %s\n", hf_code_name(err.code), err.text);
        return 1;
    }
    hf_lock_close(lock);
    hf_close(client);
    printf("holdfast %s: held and released\n", hf_version());
    return 0;
}
