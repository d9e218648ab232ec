/* SPDX-License-Identifier: Apache-2.0 */
/* lease_bed.h: what the tests of leases against a faulty store share. */
#ifndef TESTS_LEASE_BED_H
#define TESTS_LEASE_BED_H

#include "client/client_bed.h"

#include "core/id.h"
#include "support/inside.h"

static inline bool is_pass(faulty_call call, const void *arg)
{
    return call == FAULTY_STEP && ((const struct faulty_step *)arg)->step->pass != NULL;
}

/* Of a lease's session: no process keeps it. */
static inline bool is_lease_begin(faulty_call call, const void *arg)
{
    return call == FAULTY_BEGIN && ((const hf_session *)arg)->pid == 0;
}

static inline hf_code acquire(hf_client *client, const hf_lease_options *options, hf_lease *out)
{
    hf_error err;
    return hf_lease_acquire(client, "x", options, out, &err);
}

static inline hf_code release(hf_client *client, const hf_lease *lease)
{
    hf_error err;
    return hf_lease_release(client, lease->id, &err);
}

static inline lease_ids ids_of(const char *id)
{
    lease_ids ids;
    hf_error err;
    assert_int_equal(lease_id_read(id, &ids, &err), HF_OK);
    return ids;
}

/* As somebody does who knows that it is over. */
static inline void mark_dead(hf_store *store, hf_id session)
{
    hf_error err;
    assert_int_equal(store->ops->session_end(store, session, true, &err), HF_OK);
}

static inline void await_queued(hf_store *store, const char *name, size_t n)
{
    while (look_at(store, name).queued != n)
        pause_ms(1);
}

static inline void await_free(hf_store *store)
{
    struct seen seen;
    do {
        pause_ms(1);
        seen = look_at(store, "x");
    } while (seen.holders + seen.queued);
}

static inline void assert_held_by(hf_store *store, const hf_lease *lease)
{
    lease_ids ids = ids_of(lease->id);
    struct seen seen = look_at(store, "x");
    assert_int_equal(seen.holders, 1);
    assert_true(id_equal(seen.holder.ticket, ids.ticket));
    assert_int_equal(seen.holder.token, lease->token);
}

/* ---- A call in a thread of its own ---- */

typedef struct caller {
    hf_client *client;
    const char *name;
    hf_lease_options options;
    pthread_t thread;
    hf_lease lease;
    hf_code code;
    atomic_bool is_over;
} caller;

static inline void *call_acquire(void *arg)
{
    caller *c = arg;
    hf_error err;
    c->code = hf_lease_acquire(c->client, c->name, &c->options, &c->lease, &err);
    c->is_over = true;
    return NULL;
}

static inline void begin_call(caller *c, hf_client *client, const char *name,
                              hf_lease_options options)
{
    *c = (caller){.client = client, .name = name, .options = options};
    pthread_create(&c->thread, NULL, call_acquire, c);
}

static inline hf_code end_call(caller *c)
{
    pthread_join(c->thread, NULL);
    return c->code;
}

#endif
