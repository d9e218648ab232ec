/* SPDX-License-Identifier: Apache-2.0 */
/* listener.c: remembers whether notices are wanted, and from when on; see listener.h. */
#include "client/hold/hold.h"

#include "core/backoff.h"
#include "core/id.h"

#define LINGER_MS 10000 /* goes on listening for this long after the last wait */
#define RETRY_FIRST_MS 50
#define RETRY_MOST_MS 1000

void listener_begin_locked(hf_client *client)
{
    struct listener *listener = &client->hold->listener;
    listener->has_waited = listener->has_awaited = false;
    if (listener->heeds)
        listener_tell_heeding_locked(client);
}

static bool start_locked(hf_client *client)
{
    struct listener *listener = &client->hold->listener;
    listener->is_polling |= ticker_start_locked(client, TICK_LISTEN, NULL) != HF_OK;
    if (!listener->is_polling)
        ticker_poke(client, TICK_LISTEN);
    return !listener->is_polling;
}

bool listener_want_locked(hf_client *client, hf_stamp from)
{
    struct listener *listener = &client->hold->listener;
    if (!(client->store->can & HF_CAN_NOTIFY))
        listener->is_polling = true;
    if (listener->is_polling)
        return true;
    bool is_earliest = !listener->has_waited || from.value < listener->from.value;
    if (!listener->has_awaited && is_earliest)
        listener->from = from;
    listener->has_waited = true;
    listener->until = mono_add_ms(client_now(client), LINGER_MS);
    return !start_locked(client) || from.value >= listener->from.value;
}

bool listener_heed_locked(struct lock_request *request, hf_id head)
{
    hf_client *client = request->client;
    struct listener *listener = &client->hold->listener;
    bool is_free = !listener->heeds || listener->heeds == request;
    if (client->session.state != SESSION_NONE || client->store->ops->called ||
        !(client->store->can & HF_CAN_NOTIFY) || listener->is_polling || !is_free)
        return false;
    listener->heeds = request;
    listener->head = head;
    return start_locked(client);
}

void listener_unheed_locked(const struct lock_request *request)
{
    struct listener *listener = &request->client->hold->listener;
    if (listener->heeds == request)
        listener->heeds = NULL;
}

void listener_tell_heeding_locked(hf_client *client)
{
    struct lock_request *request = client->hold->listener.heeds;
    client->hold->listener.heeds = NULL;
    waiter_tell(&request->waiter, (hf_stamp){0});
    lock_request_wake_locked(request);
}

hf_id listener_session_locked(const hf_client *client)
{
    const struct listener *listener = &client->hold->listener;
    if (client->session.state == SESSION_ALIVE)
        return client->session.self.id;
    return listener->heeds ? listener->head : (hf_id){{0}};
}

bool listener_is_wanted_locked(hf_client *client, hf_mono now)
{
    const struct hold *hold = client->hold;
    struct listener *listener = &client->hold->listener;
    if (client->tickers.is_stopping || listener->is_polling ||
        id_is_zero(listener_session_locked(client)))
        return false;
    if (listener->heeds)
        return true;
    bool holds = hold->turns.yielding || (hold->locks && client->store->can & HF_CAN_TELL_LOST);
    if (hold->waiters.first || holds)
        listener->until = mono_add_ms(now, LINGER_MS);
    return !mono_reached(listener->until, now);
}

void listener_listens_locked(hf_client *client, bool is_wanted, bool listens)
{
    struct listener *listener = &client->hold->listener;
    listener->has_waited &= is_wanted;
    listener->has_awaited = is_wanted && (listener->has_awaited ||
                                          (listens && (listener->has_waited || listener->heeds)));
}

void listener_heard(hf_client *client, hf_mono now)
{
    struct listener *listener = &client->hold->listener;
    MUTEX_SCOPE(&client->mutex);
    listener->failures = 0;
    listener->heard_at = now;
}

hf_mono listener_failed_locked(hf_client *client)
{
    struct listener *listener = &client->hold->listener;
    return mono_add_ms(client_now(client), backoff_ms(++listener->failures, RETRY_FIRST_MS,
                                                      RETRY_MOST_MS, client_chance(client)));
}

void listener_poll_locked(hf_client *client)
{
    client->hold->listener.is_polling = true;
}
