/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c: the calls on leases. */
#include "client/lease/lease.h"

#include "client/base/client.h"

#include <stdio.h>

hf_code hf_lease_acquire(hf_client *client, const char *name, const hf_lease_options *options,
                         hf_lease *out, hf_error *err)
{
    static const hf_lease_options defaults = {0};
    hf_error unwanted;
    err = err ? err : &unwanted;
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    code = lease_acquire(client, name, options ? options : &defaults, out, err);
    client_end(client);
    return code;
}

/* The id may be that of *out. */
static void prepare(const char *id, hf_lease *out)
{
    hf_lease clean = {.previous.who = ""};
    snprintf(clean.id, sizeof clean.id, "%s", id);
    *out = clean;
}

hf_code hf_lease_renew(hf_client *client, const char *id, hf_lease *out, hf_error *err)
{
    hf_lease unwanted;
    lease_ids ids;
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    out = out ? out : &unwanted;
    code = lease_id_read(id, &ids, err);
    if (!code)
        prepare(id, out);
    if (!code)
        code = lease_renew(client, &ids, out, err);
    client_end(client);
    return code;
}

hf_code hf_lease_release(hf_client *client, const char *id, hf_error *err)
{
    lease_ids ids;
    hf_code code = client_begin(client, err);
    if (code)
        return code;
    code = lease_id_read(id, &ids, err);
    if (!code)
        code = lease_release(client, &ids, err);
    client_end(client);
    return code;
}

hf_code hf_lease_begin(hf_client *client, const char *name, const hf_lease_options *options,
                       hf_lease_fn done, void *ctx, hf_lease_wait **out, hf_error *err)
{
    hf_error unwanted;
    return lease_wait_begin(client, name, options, done, ctx, out, err ? err : &unwanted);
}

void hf_lease_cancel(hf_lease_wait *wait)
{
    lease_wait_cancel(wait);
}
