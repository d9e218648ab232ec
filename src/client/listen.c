/* SPDX-License-Identifier: Apache-2.0 */
/* listen.c: the listener: opened at the first wait, it hears which tickets were granted and wakes
 * whoever waits for them; it decides nothing: a notice has a token, or says "look" (L2). */
#include "client/client.h"

#include "core/backoff.h"
#include "core/id.h"

#include <stddef.h>
#include <string.h>

#define AWAIT_MS 1000
#define LINGER_MS 10000 /* goes on listening so long after the last wait */
#define REST_MS 500     /* hears no later than this what it did not expect */
#define RETRY_FIRST_MS 50
#define RETRY_MOST_MS 2000

static struct attempt *attempt_of(struct waiter *waiter)
{
    return (struct attempt *)((char *)waiter - offsetof(struct attempt, waiter));
}

static void tell_all_locked(hf_client *client, hf_stamp stamp, bool judges)
{
    for (struct waiter *waiter = client->waiters.first; waiter; waiter = waiter->next) {
        waiter_tell(waiter, stamp);
        waiter->judges_now |= judges;
        attempt_wake_locked(attempt_of(waiter));
    }
}

/* A ticket that nobody here knows can only come from an enter that was never answered (R8): the
 * suspects are looked at at once. */
static void granted_locked(hf_client *client, const hf_notice *notice)
{
    struct waiter *waiter = waiters_find(&client->waiters, notice->ticket);
    if (waiter) {
        waiter->token = notice->token;
        waiter->block = notice->block;
        waiter->rests_until = MONO_NEVER;
        waiter_tell(waiter, notice->stamp);
        attempt_wake_locked(attempt_of(waiter));
    } else if (client->session.n_suspects) {
        agenda_advance(&client->agenda, JOB_SUSPECTS, client_now(client));
        ticker_poke(client, TICK_UPKEEP);
    }
}

/* Holders verify at once (L3). */
static void verify_locked(hf_client *client, hf_stamp stamp)
{
    upkeep_verify_locked(client, NULL);
    tell_all_locked(client, stamp, false);
}

void listen_tell_locked(hf_client *client, const char *name, hf_stamp stamp)
{
    for (struct waiter *waiter = client->waiters.first; waiter; waiter = waiter->next) {
        struct attempt *attempt = attempt_of(waiter);
        if (!attempt->claim && strcmp(attempt->name, name) != 0)
            continue;
        waiter_tell(waiter, stamp);
        attempt_wake_locked(attempt);
    }
}

/* Our own grants are told of, too. */
static void changed_locked(hf_client *client, const hf_notice *notice)
{
    if (id_is_zero(notice->ticket))
        listen_tell_locked(client, notice->name, notice->stamp);
    if (!lock_find_locked(client, notice->ticket))
        upkeep_verify_locked(client, notice->name);
}

static void hear(void *ctx, const hf_notice *notice)
{
    hf_client *client = ctx;
    pthread_mutex_lock(&client->mutex);
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
            upkeep_verify_locked(client, NULL);
        tell_all_locked(client, notice->stamp, true);
        break;
    case HF_NOTICE_NAME:
        changed_locked(client, notice);
        break;
    case HF_NOTICE_VERIFY:
        verify_locked(client, notice->stamp);
        break;
    }
    pthread_mutex_unlock(&client->mutex);
}

bool listen_want_locked(hf_client *client, hf_stamp from)
{
    if (!(client->store->can & HF_CAN_NOTIFY))
        client->is_polling = true;
    if (client->is_polling)
        return true;
    bool is_earliest = !client->has_waited || from.value < client->listen_from.value;
    if (!client->has_awaited && is_earliest)
        client->listen_from = from;
    client->has_waited = true;
    client->listen_until = mono_add_ms(client_now(client), LINGER_MS);
    ticker_start(client, TICK_LISTEN, listen_tick);
    ticker_poke(client, TICK_LISTEN);
    return from.value >= client->listen_from.value;
}

static hf_mono failed(hf_client *client, hf_code code, const hf_error *err)
{
    hf_mono now = client_now(client), due = MONO_NEVER;
    pthread_mutex_lock(&client->mutex);
    if (code == HF_UNSUPPORTED) {
        client->is_polling = true;
        turns_recall_locked(client, NULL, (hf_stamp){0});
        tell_all_locked(client, (hf_stamp){0}, false);
    } else {
        due = mono_add_ms(now, backoff_ms(++client->listen_failures, RETRY_FIRST_MS, RETRY_MOST_MS,
                                          client_chance(client)));
    }
    pthread_mutex_unlock(&client->mutex);
    client_log(client, HF_LOG_INFO, "%s: %s",
               code == HF_UNSUPPORTED ? "no notices are to be had, polling instead"
                                      : "listening for notices failed, trying again",
               err->text);
    return due;
}

static bool wants_to_listen_locked(hf_client *client, hf_mono now)
{
    if (client->is_stopping || client->is_polling || client->session.state != SESSION_ALIVE)
        return false;
    bool holds = client->turns.yielding || (client->locks && client->store->can & HF_CAN_TELL_LOST);
    if (client->waiters.first || holds)
        client->listen_until = mono_add_ms(now, LINGER_MS);
    return !mono_reached(client->listen_until, now);
}

/* From when on news may come that somebody waits for. Until then it rests: a stream that is
 * listened to looks at each write of the server's, which is most of what a crowd's turns cost. */
static hf_mono expects_news_locked(const hf_client *client, hf_mono now)
{
    unsigned can = client->store->can;
    if (!(can & HF_CAN_QUEUE) || can & HF_CAN_SEE_CRASH || client->session.n_suspects ||
        turns_may_be_recalled_locked(client))
        return now;
    hf_mono at = MONO_NEVER;
    for (const struct waiter *waiter = client->waiters.first; waiter; waiter = waiter->next)
        at = mono_min(at, waiter->rests_until);
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
    pthread_mutex_lock(&client->mutex);
    client->listen_failures = 0;
    client->heard_at = now;
    pthread_mutex_unlock(&client->mutex);
    return now;
}

hf_mono listen_tick(hf_client *client, hf_mono now)
{
    pthread_mutex_lock(&client->mutex);
    bool wanted = wants_to_listen_locked(client, now);
    hf_mono expected = expects_news_locked(client, now);
    hf_mono due = mono_min(expected, mono_add_ms(client->heard_at, REST_MS));
    bool listens = wanted && mono_reached(due, now);
    hf_id session = client->session.self.id;
    hf_stamp from = client->listen_from;
    client->has_waited &= wanted;
    client->has_awaited = wanted && (client->has_awaited || (listens && client->has_waited));
    pthread_mutex_unlock(&client->mutex);
    if (!listens)
        return wanted ? due : MONO_NEVER;
    int64_t most_ms = client->store->await_ms ? client->store->await_ms : AWAIT_MS;
    return listen(client, session, from, mono_reached(expected, now) ? most_ms : 1);
}
