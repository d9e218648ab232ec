/* SPDX-License-Identifier: Apache-2.0 */
/* unlock_all.c: hf_unlock_all() and hf_unlock_session(): what others have left locked. */
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
    BOUND_SCOPE(store, mono_add_ms(since, client->patience_ms), NULL);
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

static hf_code unlock_session(hf_client *client, hf_id lock_session, const char *name, int64_t *n,
                              hf_error *err)
{
    hf_store *store = client->store;
    hf_mono since = client_now(client);
    unsigned failures = 0;
    hf_code code;
    BOUND_SCOPE(store, mono_add_ms(since, client->patience_ms), NULL);
    do
        code = store->ops->unlock_session(store, lock_session, name, n, err);
    while (client_may_retry(client, NULL, code, &failures, since));
    return code;
}

static hf_code check_session(hf_client *client, const char *text, hf_id *out, hf_error *err)
{
    if (!text)
        return error_set(err, HF_INVALID, "which lock session? It has no id");
    return client_lock_session(client, text, out, err);
}

hf_code hf_unlock_session(hf_client *client, const char *lock_session, const char *name, int64_t *n,
                          hf_error *err)
{
    hf_error unwanted;
    hf_id id;
    char known_as[HF_NAME_MAX + 1];
    int64_t unlocked = 0;
    err = err ? err : &unwanted;
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    code = check_session(client, lock_session, &id, err);
    if (!code && name)
        code = client_name(client, name, known_as, err);
    if (!code)
        code = unlock_session(client, id, name ? known_as : NULL, &unlocked, err);
    client_end(client);
    if (n)
        *n = unlocked;
    return code;
}
