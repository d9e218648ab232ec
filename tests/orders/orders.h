/* SPDX-License-Identifier: Apache-2.0 */
/* orders.h: actors whose calls to the store are made in every order: each is a coroutine that stops
 * before each call, and in each run another order of their turns is chosen, until there was one of
 * each kind (search.h). Time passes when all wait; if a scene allows it, also when some could go
 * on, as if their calls took long. */
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
    hf_code answer; /* to its request for the lease */
    bool asks;      /* for the lease */
    bool has_acquired, believes;
    bool holds; /* the lock, for itself alone */
    bool is_releasing;
    bool is_done;   /* its release, or its break, was acknowledged */
    int64_t broken; /* by its break: what was granted with that token, or before */
    bool heeds_cancel;
    bool is_over;
} actor;

/* What goes wrong with calls of the first actor. */
typedef enum orders_loss {
    LOSS_NONE,
    LOSS_OF_PASS_ANSWER,   /* the pass landed */
    LOSS_OF_INSERT_ANSWER, /* the insert of the lease's session landed */
    LOSS_OF_INSERT,        /* it did not */
    LOSS_LATE_PASS,        /* it lands in the turn of `deliver` */
    LOSS_LATE_INSERT,
} orders_loss;

typedef struct scene {
    const char *name;
    hf_lease_options options; /* all acquire with these */
    void (*bodies[ACTORS])(actor *self);
    void (*check)(const struct scene *played, const actor *actors, const hf_record *after);
    hf_code may_be_told; /* a request for the lease, in place of the lease */
    int early;           /* so often may time pass when somebody could go on */
    orders_loss loss;
    int losses;      /* so many calls */
    int patience_ms; /* of all; 0: the default */
    bool is_large;   /* more orders than can be run each time: random ones */
} scene;

extern actor actors[ACTORS];
extern const scene *on_stage;
extern hf_cancel *orders_cancel; /* of this run */

/* Runs the scene in every order, equivalent ones only once; or in random ones if it is large, or
 * has not ended after `most` runs. most 0: the default. */
void orders_run(const scene *played, unsigned long most);

/* Runs it in an order that was printed, and prints its calls. */
void orders_show(const scene *played, const char *order);

/* What an actor's turn touches, beside time and the store. */
typedef enum thing {
    THING_TIME,
    THING_RECORD,
    THING_BELIEF, /* what the actors note about themselves */
    THING_CANCEL,
    THING_MAIL, /* a request that lands late */
    THINGS      /* sessions begin here */
} thing;
void orders_read(thing of);
void orders_wrote(thing of);

/* The body of an actor: a late request lands. */
void orders_deliver(actor *self);

void orders_fail(const char *what);
extern unsigned long orders_failures;

#endif
