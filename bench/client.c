/* SPDX-License-Identifier: Apache-2.0 */
/* client.c: a client of the store that is measured, and a lock of the benchmark's own; see bench.h.
 */
#include "bench.h"

#include <string.h>

#include "table.h"

hf_client *client_open(const struct place *place, int64_t ttl_ms)
{
    hf_client *client;
    hf_error err;
    hf_options options = {.ttl_ms = ttl_ms, .app = place->prefix};
    must(hf_open(place->uri, &options, &client, &err), &err);
    return client;
}

static bool add_notices(void *ctx, const hf_finding *finding)
{
    (void)ctx;
    if (strcmp(finding->topic, "notices") == 0)
        table_note(finding->text, "notices");
    return true;
}

void client_notices_rows(const struct place *place)
{
    hf_client *client = client_open(place, 0);
    hf_doctor(client, add_notices, NULL, NULL);
    hf_close(client);
}

hf_lock *client_acquire(hf_client *client, const struct place *place, const char *name)
{
    char full[PLACE_NAME_MAX];
    hf_lock *lock;
    hf_error err;
    place_name(place, name, full);
    must(hf_lock_acquire(client, full, NULL, &lock, &err), &err);
    return lock;
}
