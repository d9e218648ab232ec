/* SPDX-License-Identifier: Apache-2.0 */
/* orders.h: actors whose calls to the store are made in every order: each is a coroutine that stops
 * before each call, and who goes on is chosen anew in each run, until all choices were made. */
#ifndef TESTS_ORDERS_ORDERS_H
#define TESTS_ORDERS_ORDERS_H

#include "support/faulty.h"
#include "support/inside.h"

#define ACTORS 4

typedef struct actor {
    void (*body)(struct actor *self);
    hf_client *client; /* without threads; its store stops the actor before each call */
    faulty *store;
    hf_lease lease;
    hf_error err;
    bool has_acquired, believes;
    bool is_releasing;
    bool is_done; /* its release, or its break, was acknowledged */
    bool is_over;
} actor;

typedef struct scene {
    const char *name;
    hf_lease_options options; /* all acquire with these */
    void (*bodies[ACTORS])(actor *self);
    void (*check)(const struct scene *played, const actor *actors, const hf_record *after);
    int loses_passes; /* of the first actor: so many have no answer; it has no patience */
} scene;

extern actor actors[ACTORS];
extern const scene *on_stage;

/* Runs the scene in every order, or, where there are more than `most`, in `most` random ones. */
void orders_run(const scene *played, unsigned long most);

void orders_fail(const char *what);
extern unsigned long orders_failures;

#endif
