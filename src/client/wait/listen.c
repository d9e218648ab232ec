/* SPDX-License-Identifier: Apache-2.0 */
/* listen.c: the listener: starts at the first wait, receives notices of grants, and wakes the
 * waiters. It decides nothing: a notice has a token, or says "look" (L2). */
#include "client/wait/listen.h"

#include "client/hold/hold.h"

#include "core/id.h"

#include <string.h>

#define AWAIT_MS 1000
#define REST_MS 500 /* receives an unexpected notice no later than this */

static void tell_all_locked(hf_client *client, hf_stamp stamp, bool judges)
{
    for (struct waiter *waiter = client->hold->waiters.first; waiter; waiter = waiter->next) {
        waiter_tell(waiter, stamp);
        waiter->judges_now |= judges;
        lock_request_wake_locked(lock_request_of(waiter));
    }
}

static void take_token(struct waiter *waiter, const hf_notice *notice)
{
    waiter->token = notice->token;
    waiter->block = notice->block;
    waiter->quiet_until = MONO_NEVER;
}

/* A ticket that nobody here knows can only come from an enter that was never answered (R8). So
 * upkeep looks at the suspects at once. */
static void granted_locked(hf_client *client, const hf_notice *notice)
{
    struct waiter *waiter = waiters_find(&client->hold->waiters, notice->ticket);
    if (waiter) {
        if (notice->token)
            take_token(waiter, notice);
        waiter_tell(waiter, notice->stamp);
        lock_request_wake_locked(lock_request_of(waiter));
    } else if (client->session.n_suspects) {
        agenda_advance(&client->hold->agenda, JOB_SUSPECTS, client_now(client));
        ticker_poke(client, TICK_UPKEEP);
    }
}

/* Holders verify at once (L3). */
static void verify_locked(hf_client *client, hf_stamp stamp)
{
    verify_now_locked(client, NULL);
    tell_all_locked(client, stamp, false);
}

void listen_tell_locked(hf_client *client, const char *name, hf_stamp stamp)
{
    for (struct waiter *waiter = client->hold->waiters.first; waiter; waiter = waiter->next) {
        struct lock_request *request = lock_request_of(waiter);
        if (!request->claim && strcmp(request->name, name) != 0)
            continue;
        waiter_tell(waiter, stamp);
        lock_request_wake_locked(request);
    }
}

/* Notices tell of our own grants, too. */
static void changed_locked(hf_client *client, const hf_notice *notice)
{
    if (id_is_zero(notice->ticket))
        listen_tell_locked(client, notice->name, notice->stamp);
    if (!lock_find_locked(client, notice->ticket))
        verify_now_locked(client, notice->name);
}

static void heard_locked(hf_client *client, const hf_notice *notice)
{
    switch (notice->kind) {
    case HF_NOTICE_GRANT:
        granted_locked(client, notice);
        break;
    case HF_NOTICE_RECALL:
        turns_recall_locked(client, notice->name, notice->stamp);
        break;
    case HF_NOTICE_LOOK:
        turns_recall_locked(client, NULL, notice->stamp);
        if (client->store->can & HF_CAN_TELL_LOST)
            verify_now_locked(client, NULL);
        tell_all_locked(client, notice->stamp, true);
        break;
    case HF_NOTICE_NAME:
        changed_locked(client, notice);
        break;
    case HF_NOTICE_VERIFY:
        verify_locked(client, notice->stamp);
        break;
    }
}

static void hear(void *ctx, const hf_notice *notice)
{
    hf_client *client = ctx;
    MUTEX_SCOPE(&client->mutex);
    if (client->hold->listener.heeds)
        listener_tell_heeding_locked(client);
    else
        heard_locked(client, notice);
}

static hf_mono failed(hf_client *client, hf_code code, const hf_error *err)
{
    hf_mono due = MONO_NEVER;
    pthread_mutex_lock(&client->mutex);
    if (code == HF_UNSUPPORTED) {
        listener_poll_locked(client);
        turns_recall_locked(client, NULL, (hf_stamp){0});
        tell_all_locked(client, (hf_stamp){0}, false);
    } else {
        due = listener_failed_locked(client);
    }
    pthread_mutex_unlock(&client->mutex);
    client_log(client, HF_LOG_INFO, "%s: %s",
               code == HF_UNSUPPORTED ? "there are no notices, polling instead"
                                      : "listening for notices failed, trying again",
               err->text);
    return due;
}

/* From when on a notice may come that somebody waits for. Until then the listener rests: a stream
 * that is read looks at every write of the server, which is most of the cost of a crowd's turns. */
static hf_mono expects_news_locked(const hf_client *client, hf_mono now)
{
    unsigned can = client->store->can;
    if (!(can & HF_CAN_QUEUE) || can & HF_CAN_SEE_CRASH || client->session.n_suspects ||
        client->hold->listener.heeds || turns_may_be_recalled_locked(client))
        return now;
    hf_mono at = MONO_NEVER;
    for (const struct waiter *waiter = client->hold->waiters.first; waiter; waiter = waiter->next)
        at = mono_min(at, waiter->quiet_until);
    return at;
}

static hf_mono listen(hf_client *client, hf_id session, hf_stamp from, int64_t await_ms)
{
    hf_error err;
    hf_code code =
        client->store->ops->await(client->store, session, from, await_ms, hear, client, &err);
    if (code)
        return failed(client, code, &err);
    hf_mono now = client_now(client);
    listener_heard(client, now);
    return now;
}

hf_mono listen_tick(hf_client *client, hf_mono now)
{
    pthread_mutex_lock(&client->mutex);
    bool wanted = listener_is_wanted_locked(client, now);
    hf_mono expected = expects_news_locked(client, now);
    hf_mono due = mono_min(expected, mono_add_ms(client->hold->listener.heard_at, REST_MS));
    bool listens = wanted && mono_reached(due, now);
    hf_id session = listener_session_locked(client);
    hf_stamp from = client->hold->listener.heeds ? (hf_stamp){0} : client->hold->listener.from;
    listener_listens_locked(client, wanted, listens);
    pthread_mutex_unlock(&client->mutex);
    if (!listens)
        return wanted ? due : MONO_NEVER;
    int64_t most_ms = client->store->await_ms ? client->store->await_ms : AWAIT_MS;
    return listen(client, session, from, mono_reached(expected, now) ? most_ms : 1);
}
