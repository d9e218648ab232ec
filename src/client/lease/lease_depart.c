/* SPDX-License-Identifier: Apache-2.0 */
/* lease_depart.c: sends the releases of ID leases that got no answer (lease_kept.h) until the store
 * has answered, in a thread of its own, and once more when the client is closed. */
#include "client/lease/lease_kept.h"

#include "client/base/client.h"

#include "core/error.h"

static hf_code send(hf_client *client, const lease_ids *ids, lease_farewell *of)
{
    hf_error err;
    hf_code code = lease_release_again(client, ids, of, &err);
    if (code && code != HF_LOST && code != HF_HELD && !error_is_no_answer(code))
        client_log(client, HF_LOG_WARNING, "the release of a lease is given up: %s", err.text);
    return code;
}

hf_mono lease_depart_tick(hf_client *client, hf_mono now)
{
    struct departing *one;
    lease_farewell of;
    while ((one = lease_kept_take(client, now, &of))) {
        hf_code code = send(client, &one->ids, &of);
        lease_kept_settle(client, one, &of, code);
        now = client_now(client);
    }
    return lease_kept_due(client);
}

void lease_depart_close(hf_client *client, bool store_answers)
{
    struct departing *one;
    size_t n_left = 0;
    while (store_answers && (one = lease_kept_first(client))) {
        hf_code code = send(client, &one->ids, &one->of);
        store_answers = !error_is_no_answer(code);
        n_left += !store_answers || code == HF_HELD;
        lease_kept_drop(client, one);
    }
    n_left += lease_kept_free(client);
    if (n_left) /* their callers were told so */
        client_log(client, HF_LOG_INFO,
                   "%zu releases of leases were not acknowledged: their locks are free when the "
                   "leases are over",
                   n_left);
}
