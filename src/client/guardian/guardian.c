/* SPDX-License-Identifier: Apache-2.0 */
/* guardian.c: the life of a guardian: it listens to its client, and when that has ended, gives back
 * what it has left; called by the command's verb `guardian`. It opens the store, and so loads the
 * driver and connects, only when there is something to give back. */
#include "client/guardian/settle.h"
#include "client/guardian/watch.h"

#include "client/base/client.h"

#include "core/backoff.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* For how long it tries if the store does not answer. What a crash has left, others take out when
 * the lease is over; a minute more spares them the watching. A leave says with which status the
 * work ended, so it is worth more: without it, work of a period is done again. But no process
 * should stay for days. */
#define AFTER_DEATH_MS 60000
#define LEAVES_MS 3600000
#define PAUSE_FIRST_MS 20
#define PAUSE_MOST_MS 1000     /* while the store does not answer */
#define PAUSE_REFUSED_MS 30000 /* when it refuses */

enum { SETTLED = 0, GAVE_UP = 1, NO_SOCKET = 64 };

/* ---- By itself ---- */

/* It ends by itself. What asks a whole group of processes to end (a terminal, a service manager,
 * the end of a login) wants it to give the locks back first. */
static void ignore_signals(void)
{
    static const int asking[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof asking / sizeof *asking; i++)
        signal(asking[i], SIG_IGN);
}

static bool is_socket(int fd)
{
    int type;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

/* ---- Settling ---- */

/* The process lives, and may hold what it held. What it left, it left for good. */
static void keep_leaves(struct estate *estate)
{
    while (estate->n_sessions)
        estate_drop_session(estate, estate->sessions[0]);
    while (estate->n_tickets) /* of sessions of which it was not told, because there was no room */
        estate_drop_ticket(estate, estate->n_tickets - 1);
}

static hf_code open_client(const struct estate *estate, hf_client **out, hf_error *err)
{
    const hf_options options = {
        .struct_size = sizeof options, .ttl_ms = estate->self.ttl_ms, .app = estate->self.app};
    return *out ? HF_OK : hf_open(estate->uri, &options, out, err);
}

static hf_code settle_once(hf_client **client, struct estate *estate, hf_error *err)
{
    hf_code code = open_client(estate, client, err);
    return code ? code : settle(*client, estate, err);
}

static int64_t pause_ms(hf_code code, unsigned failures)
{
    uint64_t chance;
    env_linux.random(env_linux.ctx, &chance, sizeof chance);
    if (!hf_code_retryable(code))
        return PAUSE_REFUSED_MS;
    return backoff_ms(failures, PAUSE_FIRST_MS, PAUSE_MOST_MS, chance);
}

static hf_mono end_of_tries(const struct estate *estate)
{
    int64_t ms = estate->n_leaves ? LEAVES_MS : estate->self.ttl_ms + AFTER_DEATH_MS;
    return mono_add_ms(env_linux.mono(env_linux.ctx), ms);
}

/* HF_INVALID: the URI names a store that only the client's program knows. */
static bool goes_on(hf_code code, hf_mono until)
{
    return code && code != HF_INVALID && !mono_reached(until, env_linux.mono(env_linux.ctx));
}

static int settle_all(struct estate *estate)
{
    hf_client *client = NULL;
    hf_error err = {.code = HF_OK};
    const hf_mono until = end_of_tries(estate);
    hf_code code = settle_once(&client, estate, &err);
    for (unsigned n = 1; goes_on(code, until); n++) {
        env_linux.pause(env_linux.ctx, pause_ms(code, n));
        code = settle_once(&client, estate, &err);
    }
    hf_close(client);
    return code ? GAVE_UP : SETTLED;
}

int hf_guardian(int fd)
{
    struct estate estate = {.uri = NULL};
    if (!is_socket(fd))
        return NO_SOCKET;
    prctl(PR_SET_NAME, "hf-guardian"); /* not "exe", after /proc/self/exe */
    ignore_signals();
    watch_end end = watch_client(fd, &estate);
    if (end == WATCH_LEFT)
        keep_leaves(&estate);
    int status = estate_is_empty(&estate) ? SETTLED : settle_all(&estate);
    estate_done(&estate);
    return status;
}
