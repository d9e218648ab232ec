/* SPDX-License-Identifier: Apache-2.0 */
/* document.c: the calls for stores whose locks stand inside the user's documents: take one
 * document, or the first of many, and renew by hand. */
#include "client/hold/hold.h"
#include "client/wait/acquire.h"

#include "core/error.h"

static hf_code check_can(hf_client *client, hf_error *err)
{
    hf_code code = client_usable(client, err);
    if (code || client->store->ops->claim)
        return code;
    return error_set(err, HF_UNSUPPORTED,
                     "%s: protocol %s keeps its locks apart from documents: hfProtocol=document "
                     "(MongoDB) locks documents",
                     client->store->ops->scheme, client->store->protocol);
}

hf_code hf_document_acquire(hf_client *client, const char *id_json, const hf_lock_options *options,
                            hf_lock **out, hf_error *err)
{
    hf_code code = check_can(client, err);
    return code ? code : hf_lock_acquire(client, id_json, options, out, err);
}

hf_code hf_document_claim(hf_client *client, const char *filter_json, const char *sort_json,
                          const hf_lock_options *options, hf_lock **out, hf_error *err)
{
    const hf_claim claim = {.filter = filter_json, .sort = sort_json};
    hf_code code = check_can(client, err);
    return code ? code
                : acquire_run(client, "", &claim, options, acquire_caller_now(client), out, err);
}

/* ---- By hand ---- */

/* A lease that ended meanwhile never revives. */
static hf_code settle(hf_lock *lock, hf_mono sent, hf_code code, hf_error *err)
{
    hf_client *client = lock->client;
    int64_t left_ms;
    hf_error why;
    hf_code belief = belief_check_locked(lock, &left_ms, client_now(client), &why);
    if (code == HF_LOST && !belief)
        loss_begin_locked(lock, err, client_now(client));
    if (!code && belief && err)
        *err = why;
    if (!code && !belief)
        belief_refreshed_locked(lock, sent);
    return code ? code : belief;
}

static hf_code refresh(hf_lock *lock, hf_error *err)
{
    hf_client *client = lock->client;
    int64_t left_ms;
    pthread_mutex_lock(&client->mutex);
    hf_mono sent = client_now(client);
    hf_code code = belief_check_locked(lock, &left_ms, sent, err);
    pthread_mutex_unlock(&client->mutex);
    if (code)
        return code;
    code = client->store->ops->refresh(client->store, lock->name, lock->grant.ticket, err);
    MUTEX_SCOPE(&client->mutex);
    return settle(lock, sent, code, err);
}

hf_code hf_lock_refresh(hf_lock *lock, hf_error *err)
{
    hf_client *client = lock->client;
    hf_error mine;
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    if (client->store->ops->refresh)
        code = refresh(lock, err ? err : &mine);
    else
        code = error_set(err, HF_UNSUPPORTED,
                         "protocol %s renews all its locks itself: hfProtocol=document has "
                         "hf_lock_refresh()",
                         client->store->protocol);
    client_end(client);
    return code;
}
