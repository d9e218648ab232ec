/* SPDX-License-Identifier: Apache-2.0 */
/* work.c: what each operation makes the server do. Counted by the server around a batch of them,
 * less what it counts in as long a time without: so it holds what others do only by chance. Each
 * command is one round trip of its sender. */
#include <stdio.h>

#include "bench.h"
#include "server.h"
#include "turns.h"

#define BATCH 50
#define LINGERING 10000
#define CLIENTS 5
#define BEAT_TTL_MS 1500
#define BEATS 6
#define SETTLE_MS 200 /* what goes on in the background counts, too */

struct bed {
    const struct place *place;
    hf_client *client;
    hf_lock *locks[BATCH];
    hf_lease leases[BATCH];
};

/* ---- Operations; each does a batch ---- */

static void acquire(struct bed *b)
{
    char name[32];
    for (int i = 0; i < BATCH; i++) {
        snprintf(name, sizeof name, "work-%d", i);
        b->locks[i] = client_acquire(b->client, b->place, name);
    }
}

static void downgrade(struct bed *b)
{
    hf_error err;
    for (int i = 0; i < BATCH; i++)
        must(hf_lock_downgrade(b->locks[i], &err), &err);
}

static void release(struct bed *b)
{
    hf_error err;
    for (int i = 0; i < BATCH; i++) {
        must(hf_lock_release(b->locks[i], &err), &err);
        hf_lock_close(b->locks[i]);
    }
}

static void close_and_acquire(struct bed *b)
{
    for (int i = 0; i < BATCH; i++)
        hf_lock_close(client_acquire(b->client, b->place, "work-closed"));
    pause_ms(SETTLE_MS);
}

static void linger(struct bed *b)
{
    char name[PLACE_NAME_MAX];
    hf_error err;
    hf_lock *lock;
    hf_lock_options options = {.linger_ms = 60000};
    place_name(b->place, "work-lingering", name);
    for (int i = 0; i < LINGERING; i++) {
        must(hf_lock_acquire(b->client, name, &options, &lock, &err), &err);
        must(hf_lock_release(lock, &err), &err);
        hf_lock_close(lock);
    }
}

static void acquire_leases(struct bed *b)
{
    char name[32], full[PLACE_NAME_MAX];
    hf_error err;
    const hf_lease_options options = {.struct_size = sizeof options};
    for (int i = 0; i < BATCH; i++) {
        snprintf(name, sizeof name, "lease-%d", i);
        place_name(b->place, name, full);
        must(hf_lease_acquire(b->client, full, &options, &b->leases[i], &err), &err);
    }
}

static void renew_leases(struct bed *b)
{
    hf_lease now;
    hf_error err;
    for (int i = 0; i < BATCH; i++)
        must(hf_lease_renew(b->client, b->leases[i].id, &now, &err), &err);
}

static void release_leases(struct bed *b)
{
    hf_error err;
    for (int i = 0; i < BATCH; i++)
        must(hf_lease_release(b->client, b->leases[i].id, &err), &err);
}

/* Each lock is that client's first; ended in another batch. */
static hf_client *clients[CLIENTS];

static void acquire_first(struct bed *b)
{
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_open(b->place, 0);
        b->locks[i] = client_acquire(clients[i], b->place, i % 2 ? "work-odd" : "work-even");
        hf_lock_close(b->locks[i]);
        hf_close(clients[i]);
    }
}

static void beat(struct bed *b)
{
    (void)b;
    pause_ms(BEATS * BEAT_TTL_MS / 3);
}

/* ---- Counting ---- */

struct stretch {
    counts before, after;
};

static struct stretch count(struct server *server, struct bed *b, void (*operation)(struct bed *))
{
    struct stretch out = {.before = server_count(server)};
    operation(b);
    out.after = server_count(server);
    return out;
}

static struct stretch count_idle(struct server *server, const struct stretch *as)
{
    struct stretch out = {.before = server_count(server)};
    pause_ms((as->after.ns - as->before.ns) / 1000000 + 1);
    out.after = server_count(server);
    return out;
}

static void add(struct server *server, struct bed *b, void (*operation)(struct bed *), double n,
                struct costs *out)
{
    struct stretch busy = count(server, b, operation);
    struct stretch idle = count_idle(server, &busy);
    server_add_less(server, &busy.before, &busy.after, &idle.before, &idle.after, n, out);
}

/* ---- The table ---- */

struct figures {
    struct costs first, acquire, downgrade, release, closed, lingering, beat, handover;
    struct costs lease, renewal, lease_release;
};

static void count_locks(struct server *server, struct bed *b, struct figures *out)
{
    add(server, b, acquire, BATCH, &out->acquire);
    add(server, b, downgrade, BATCH, &out->downgrade);
    add(server, b, release, BATCH, &out->release);
    add(server, b, close_and_acquire, BATCH, &out->closed);
    add(server, b, linger, LINGERING, &out->lingering);
    add(server, b, acquire_leases, BATCH, &out->lease);
    add(server, b, renew_leases, BATCH, &out->renewal);
    add(server, b, release_leases, BATCH, &out->lease_release);
}

/* Nobody else has a session meanwhile, and the idle time must have no beats. */
static void count_beats(struct server *server, const struct bench *bench, struct costs *out)
{
    struct bed b = {.place = &bench->place, .client = client_open(&bench->place, BEAT_TTL_MS)};
    hf_lock *held = client_acquire(b.client, b.place, "work-beat");
    pause_ms(SETTLE_MS);
    struct stretch busy = count(server, &b, beat);
    hf_lock_close(held);
    hf_close(b.client);
    struct stretch idle = count_idle(server, &busy);
    server_add_less(server, &busy.before, &busy.after, &idle.before, &idle.after, BEATS, out);
}

static void run_once(const struct bench *bench, struct server *server, struct figures *out)
{
    struct bed b = {.place = &bench->place};
    add(server, &b, acquire_first, CLIENTS, &out->first);
    b.client = client_open(&bench->place, 60000);
    hf_lock_close(client_acquire(b.client, b.place, "work-warm"));
    hf_lock_close(client_acquire(b.client, b.place, "work-lingering"));
    pause_ms(SEASON_MS);
    count_locks(server, &b, out);
    hf_close(b.client);
    count_beats(server, bench, &out->beat);
    turns_measure(bench, "turns", 2, 2000, server, &out->handover);
}

static void print(const struct server *server, const char *why, const struct figures *f)
{
    server_rows(server, why, &f->first, NO_GOAL, "a client's first acquire, its release and end");
    server_rows(server, why, &f->acquire, NO_GOAL, "acquire of a free lock");
    server_rows(server, why, &f->release, NO_GOAL, "release, awaited");
    server_rows(server, why, &f->closed, NO_GOAL, "close, and acquire again");
    server_rows(server, why, &f->handover, NO_GOAL, "hand-over between 2 processes");
    server_rows(server, why, &f->downgrade, NO_GOAL, "downgrade");
    server_rows(server, why, &f->beat, NO_GOAL, "heartbeat of a client with a lock");
    server_rows(server, why, &f->lingering, NO_GOAL, "acquire and release, lingering");
    server_rows(server, why, &f->lease, NO_GOAL, "acquire of an ID lease");
    server_rows(server, why, &f->renewal, NO_GOAL, "renewal of an ID lease");
    server_rows(server, why, &f->lease_release, NO_GOAL, "release of an ID lease");
}

void measure_work(const struct bench *bench)
{
    static struct figures figures;
    const char *why;
    struct server *server = server_open(&bench->place, &why);
    for (int run = 0; server && run < bench->runs; run++)
        run_once(bench, server, &figures);
    print(server, why, &figures);
    server_close(server);
}
