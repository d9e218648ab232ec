/* SPDX-License-Identifier: Apache-2.0 */
/* bed.h: what the conformance cases stand on: the store under test, deadlines, a second client, a
 * thread that takes a lock, and a child process. */
#ifndef TESTS_CONFORMANCE_BED_H
#define TESTS_CONFORMANCE_BED_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

#include <holdfast/store.h>

#include "store/bson.h"
#include "support/idle.h"

#define BED_SOON 60000 /* ms: what should happen has happened by then, or hangs */

/* A short lease, but no shorter than what a busy machine with servers can keep. */
#define BED_TTL (bed.is_mongo ? 3000 : 1000)

/* ---- The store under test (set by main) ---- */

struct bed {
    char uri[1024];
    unsigned can; /* HF_CAN_...; HF_CAN_LAST with a queue, too */
    bool is_mongo;
    bool is_loaded;   /* the store is none of the library's */
    size_t name_most; /* bytes of a lock's name: HF_NAME_MAX, or what such a store has room for */
    bool expires; /* protocol sharding: a lock is overtaken an expiry after its owner's last ping */
    void (*on_command)(const char *verb, const bson_t *command); /* before it is sent; or NULL */
};

extern struct bed bed;

/* The store's URI for clients with that ttl. */
const char *bed_uri_for(int64_t ttl_ms, char out[sizeof bed.uri + 32]);

/* Loads a store from a shared object (path: with a slash); again, if a parent has. They exit when
 * that cannot be had. */
void plugin_load(const char *path);
void plugin_load_again(void);

/* Chooses URI and files for "memory:", "sqlite:" or "mongodb"; of a store that was loaded, `kind`
 * is the URI. Exits when that cannot be had. */
void bed_begin(const char *kind);
void bed_end(void);

/* The same URI in this process or in another one, see process_cases.c. */
void bed_use(const char *uri);

/* A lock's name that no other case has; valid until the 16th call after it. */
const char *bed_name(const char *stem);

int64_t bed_now_ms(void);  /* monotonic */
int64_t bed_wall_ms(void); /* since 1970 */

/* Waits up to ms until holds(ctx) says true, and says whether it did. */
bool bed_until(int64_t ms, bool (*holds)(void *ctx), void *ctx);

/* ---- Codes ---- */

/* Fails with the error's text when a call's code is not the expected one. */
#define assert_code(expected, call, err) bed_code(expected, call, err, #call, __FILE__, __LINE__)
void bed_code(hf_code expected, hf_code code, const hf_error *err, const char *call,
              const char *file, int line);

#define assert_contains(text, part) bed_contains(text, part, __FILE__, __LINE__)
void bed_contains(const char *text, const char *part, const char *file, int line);

/* ---- Stores ---- */

/* Of bed_store(). A beat is given a sixth of it, so that a slow machine may take 5 s. */
#define BED_STORE_TTL 30000

hf_store *bed_store(void);
hf_store *bed_store_at(const char *uri, int64_t ttl_ms);
hf_id bed_id(void);

/* Begins a session on the store. */
hf_id bed_session(hf_store *store, int32_t ttl_ms);

/* An entrant of that session, with a new ticket. */
hf_enter bed_enter(hf_id session, int32_t permits, int32_t limit);

/* One step; out is to be freed with record_done(). */
void bed_step(hf_store *store, const char *name, const hf_step *step, hf_record *out);
void bed_take(hf_store *store, const char *name, const hf_enter *enter, hf_record *out);
void bed_leave(hf_store *store, const char *name, hf_id ticket, hf_record *out);
void bed_look(hf_store *store, const char *name, hf_record *out);

/* ---- Clients ---- */

hf_client *bed_client(const char *app, int64_t ttl_ms);
hf_client *bed_client_of_tickets(const char *app, int64_t ttl_ms); /* no local turns */

/* Takes a lock; fails the case when it cannot be had. options may be NULL. */
hf_lock *bed_acquire(hf_client *client, const char *name, const hf_lock_options *options);
hf_code bed_try(hf_client *client, const char *name, hf_mode mode, hf_lock **out);
void bed_release(hf_lock *lock); /* and close */

/* A token is higher than an earlier one, where there are tokens. */
void bed_rises(int64_t before, int64_t token);

/* How long it takes at most until a lock is had whose holder, of a ttl of BED_TTL, has died; by
 * idle_ms(). */
int64_t bed_takeover_ms(void);

/* How the holder before this one left, where that is remembered (where there is a queue). */
hf_last bed_last(hf_lock *lock); /* hf_lock_previous(), which must not fail */
void bed_previous(hf_lock *lock, hf_outcome outcome, const char *who, int64_t token);

/* How many wait, by hf_show(); 0 for a lock that does not exist. */
size_t bed_queued(hf_client *client, const char *name);
/* Where there is no queue to be seen: a little later. */
void bed_wait_queued(hf_client *client, const char *name, size_t n);

bool bed_readable(int fd, int64_t ms);

/* A thread that takes a lock. Make it static: a case that fails leaves the thread behind. */
struct taker {
    hf_client *client;
    const char *name;
    hf_lock_options options;
    pthread_t thread;
    hf_code code;
    hf_error err;
    hf_lock *lock;
    int64_t ended_idle_ms;
};

void taker_start(struct taker *taker, hf_client *client, const char *name,
                 const hf_lock_options *options);
void taker_join(struct taker *taker);

/* A thread that breaks a lock; client, name and options are set before. Static, as a taker is. */
struct breaker {
    pthread_t thread;
    hf_client *client;
    const char *name;
    hf_break_options options;
    hf_code code;
    hf_error err;
    int64_t ended_idle_ms;
};

void breaker_start(struct breaker *breaker);
void breaker_join(struct breaker *breaker); /* the break must have succeeded */

/* ---- Child processes ---- */

struct child {
    pid_t pid;
    int in;    /* what is written here the child reads from its standard input */
    FILE *out; /* its standard output */
};

/* Runs this program as `child VERB URI NAME ARG`; see children.c. */
void child_start(struct child *child, const char *verb, const char *name, const char *arg);
void child_read(struct child *child, char *line, size_t size); /* fails after BED_SOON */
void child_say(struct child *child, const char *line);
void child_stop(struct child *child); /* one that holds, until SIGCONT */
int child_wait(struct child *child);  /* its wait status; kills it after BED_SOON */

/* What main() does when it is a child. */
int child_main(char **args);

/* ---- The cases ---- */

/* Each returns how many of its cases failed. */
int run_step_cases(void);
int run_session_cases(void);
int run_client_cases(void);
int run_period_cases(void);
int run_dog_cases(void);
int run_change_cases(void);
int run_deadlock_cases(void);
int run_together_cases(void);
int run_lease_cases(void);
int run_history_cases(void);
int run_plain_lease_cases(void); /* only without HF_CAN_QUEUE */
int run_wait_cases(void);
int run_lost_cases(void);
int run_ttl_cases(void);
int run_document_cases(void); /* with hfTokenField=fence */
int run_process_cases(void);  /* only with HF_CAN_PROCESSES */
int run_mongo_cases(void);    /* only on MongoDB, as the wire cases */
int run_wire_cases(void);
int run_batch_cases(void);
int run_sharding_cases(void); /* only in protocol sharding */

void mongo_drop(const char *uri);      /* the database that the URI names */
void mongo_sweep_all(hf_store *store); /* as if none had been for an hour, to its end */
void mongo_set_expiry(hf_id session, int64_t days_ago); /* of its lease, by hand */
void mongo_let_be_old(hf_id session);                   /* one that is marked */
/* A document to be locked: protocol document makes none. */
void mongo_place(const char *uri, const char *name);

/* A store that makes what it locks, and for as long as its client's ttl says: all but protocol
 * document, whose records are the user's, and stale after a time of their own. */
#define BED_MAKES (1u << 31)
/* Its sessions say of which program they are, and their ttl. */
#define BED_CAN_SAY_WHO (1u << 16)
/* Its sessions say what they wait for. */
#define BED_TELLS_WAITS (1u << 17)

/* A case, and what a store must be able to for it: HF_CAN_..., BED_... */
struct bed_case {
    unsigned needs;
    struct CMUnitTest test;
};

#define CASE_IF(needs, test)                                                                       \
    {                                                                                              \
        needs, cmocka_unit_test_setup_teardown(test, set_up, tear_down)                            \
    }
#define CASE(test) CASE_IF(0, test)

/* Runs those that are for this store and says of the others what it has not; how many failed. */
#define CASES(cases) bed_run(#cases, cases, sizeof cases / sizeof *cases)
int bed_run(const char *group, const struct bed_case *cases, size_t n);

#endif
