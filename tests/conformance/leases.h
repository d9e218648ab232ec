/* SPDX-License-Identifier: Apache-2.0 */
/* leases.h: what the cases of ID leases share, with and without sessions. */
#ifndef TESTS_CONFORMANCE_LEASES_H
#define TESTS_CONFORMANCE_LEASES_H

#include "conformance/two_clients.h"

static void take(hf_client *client, const char *name, const hf_lease_options *options,
                 hf_lease *out)
{
    hf_error err;
    assert_code(HF_OK, hf_lease_acquire(client, name, options, out, &err), &err);
    assert_true(out->left_ms > 0);
    assert_true(out->left_ms < out->ttl_ms);
}

static void release(hf_client *client, const hf_lease *lease)
{
    hf_error err;
    assert_code(HF_OK, hf_lease_release(client, lease->id, &err), &err);
}

static void assert_held(hf_client *client, const char *name)
{
    hf_lock *lock;
    assert_int_equal(bed_try(client, name, HF_EXCLUSIVE, &lock), HF_HELD);
}

static void assert_free(hf_client *client, const char *name)
{
    hf_lock *lock;
    assert_int_equal(bed_try(client, name, HF_EXCLUSIVE, &lock), HF_OK);
    bed_release(lock);
}

#endif
