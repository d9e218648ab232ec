/* SPDX-License-Identifier: Apache-2.0 */
/* spec.h: a spec as read, and the players that take its steps. */
#ifndef TESTS_SPEC_H
#define TESTS_SPEC_H

#include "support/faulty.h"

#include <pthread.h>
#include <string.h>

#define SESSIONS 3
#define STEPS 12
#define ORDERS 64
#define LOCKS 4 /* held by one session */

struct step {
    char name[32];
    size_t session;
    char words[8][32];
    size_t n_words;
    char allowed[6][32];
    size_t n_allowed;
    char outcome[32];
};

struct session_spec {
    char name[32];
    int ttl_ms;
};

struct order {
    struct step *steps[STEPS];
    size_t n;
};

struct spec {
    struct session_spec sessions[SESSIONS];
    struct step steps[STEPS];
    struct order orders[ORDERS];
    size_t n_sessions, n_steps, n_orders;
};

struct held {
    char name[64];
    hf_lock *lock;
    int64_t token;
    int32_t permits, limit;
};

struct player {
    struct player *all; /* players[0] */
    char name[32];
    hf_client *client;
    faulty *store;
    hf_cancel *cancel;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct step *step; /* to be done, or being done */
    bool is_stuck;     /* its step has waited once already */
    bool is_over;
    struct held held[LOCKS];
    atomic_bool is_cut;
    atomic_bool
        keeps_back; /* the next downgrade, upgrade or pass: it gets no answer, and can land later */
    char kept_name[64];
    hf_change kept_change;
    hf_pass kept_pass;
    hf_enter kept_enter;
    hf_step kept; /* of these three */
    hf_lease lease;
    hf_id crowd; /* a session that has put many tickets into a queue */
    hf_id *tickets;
    size_t n_tickets;
};

void spec_fail(const char *what, const char *detail);

void players_open(struct player *players, const struct spec *spec, const char *uri);
void player_begin(struct player *player, struct step *step);
bool player_await(struct player *player, int64_t ms); /* whether it has nothing to do */
/* Nobody believes what excludes another's belief. */
void players_check(struct player *players);
/* Cuts short what still waits, and has all of them give up what they hold. */
void players_end(struct player *players);
/* Closes them, and looks whether anything is left behind. */
void players_close(struct player *players, const struct spec *spec, const char *uri);

#endif
