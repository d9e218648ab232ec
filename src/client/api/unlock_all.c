/* SPDX-License-Identifier: Apache-2.0 */
/* unlock_all.c: hf_unlock_all(). */
#include "client/base/client.h"

#include "core/error.h"
#include "core/text.h"

static hf_code unlock_all(hf_client *client, const char *process, int64_t *n, hf_error *err)
{
    hf_store *store = client->store;
    hf_mono since = client_now(client);
    unsigned failures = 0;
    hf_code code = text_check("the process", process, HF_NAME_MAX, err);
    if (!code && (!process || !*process))
        code = error_set(err, HF_INVALID, "which process? It has no name");
    if (!code && !store->ops->unlock_all)
        code = error_set(err, HF_UNSUPPORTED,
                         "protocol %s has no processes that locks belong to: hfProtocol=sharding "
                         "has",
                         store->protocol);
    if (code)
        return code;
    do
        code = store->ops->unlock_all(store, process, n, err);
    while (client_may_retry(client, NULL, code, &failures, since));
    return code;
}

hf_code hf_unlock_all(hf_client *client, const char *process, int64_t *n, hf_error *err)
{
    hf_error unwanted;
    int64_t unlocked = 0;
    err = err ? err : &unwanted;
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    code = unlock_all(client, process, &unlocked, err);
    client_end(client);
    if (n)
        *n = unlocked;
    return code;
}
