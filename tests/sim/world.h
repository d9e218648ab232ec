/* SPDX-License-Identifier: Apache-2.0 */
/* world.h: the simulated world: nodes with clocks of their own, the server and the network between,
 * and what must be true after every slice. */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "core/record.h"
#include "sim/fiber.h"
#include "support/inside.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define NODES 6 /* the last one only looks whether all is free in the end */
#define WORKERS 3
#define CHILDREN                                                                                   \
    (2 * WORKERS)           /* before: each worker may hold a second lock, WORKERS further on      \
                             */
#define SLOTS (3 * WORKERS) /* from there on: children of other nodes' workers */
#define PLAIN_NAMES 3       /* what workers and users of leases contend for */
#define SEMAPHORE 2         /* of 3; the others are read-write locks */
enum { NAME_X = PLAIN_NAMES, NAME_Y, NAME_JOB, NAME_FED, NAME_LEAD, NAMES };
#define ERRANDS 4

/* What the network does to a node's next beat that lands, when it lies in ambush. */
typedef enum ambush {
    NO_AMBUSH,
    BEAT_LATE_THERE,  /* it lands as late as it may and still be answered in time */
    ANSWER_LATE_BACK, /* its answer takes as long as it may, then the node is cut off */
} ambush;

/* One thread of a node that takes locks. */
typedef struct worker {
    struct node *node;
    fiber *fiber;
    struct attempt *attempt; /* while it tries */
    bool is_woken;
    hf_lock *lock; /* while it holds */
    int name;
    int32_t limit;
    int64_t trying_since;
    bool was_stuck; /* in a deadlock, at some time of this attempt */
    /* A child: a process that the one of another worker has started and waits for. */
    const struct worker *parent; /* NULL: it is none, or runs by itself */
    bool is_child;               /* its fiber runs, also when its parent is gone */
    waits_item held;             /* the parent's lock, and: */
    waits_items inherited;
} worker;

/* One of the other things that a node does with locks: errands.c. */
typedef struct errand {
    struct node *node;
    int kind;
    int64_t token;     /* of the lock that it had last */
    hf_lock *locks[2]; /* while it holds them */
    int names[2];
} errand;

typedef struct node {
    int number;
    bool is_dead;
    int64_t stopped_until; /* SIGSTOP, or a machine that sleeps */
    int64_t cut_until;     /* from the server */
    int64_t clock_offset_ns, drift_ppm;
    int64_t delay_ns; /* most, one way, besides the weather's */
    ambush ambush;
    hf_env env;
    hf_client *client;
    worker workers[SLOTS];
    errand errands[ERRANDS];
    fiber *listener;   /* while it awaits notices */
    fiber *idle;       /* its first that idles: fiber.c's */
    struct node *next; /* of those that live, or of the dead */
} node;

/* How bad this world is; all chances are in a thousand, per call. */
typedef struct weather {
    int refuses, loses_request, loses_reply, lands_late;
    int64_t delay_ns; /* most, one way */
    int loses_notice; /* without a word, in calm weather, too */
} weather;

typedef struct world {
    uint64_t seed, random;
    char uri[40];
    hf_store *server; /* the observer's own */
    int64_t server_offset_ns;
    int64_t cluster_time;
    uint64_t version; /* of the records, after the last step */
    int64_t down_until;
    int64_t drops_until; /* the record of what nobody holds */
    int32_t places;      /* in a queue; with few of them, workers wait outside with numbers */
    weather weather;
    int64_t ttl_ms;
    int64_t drift_most_ppm;
    bool has_outages; /* and nothing else that could cost a lock */
    bool has_long_outages;
    bool is_narrow;   /* few places in queues */
    bool is_draining; /* workers end what they do, and begin nothing */
    bool verbose;
    node *nodes; /* those that live, newest first */
    node *dead;
    unsigned settled, grants, leases, breaks, forced, losses, crashes, late, downgrades, upgrades,
        victims, together;
    unsigned violations;
} world;

extern world sim;
extern const hf_env sim_server_env; /* its wall clock jumps */

/* The second, and how many changes were made in it. It stands, but for those, while a clock that
 * was ahead is waited for. */
int64_t sim_cluster_time(void);

uint64_t sim_random(void);
int64_t sim_below(int64_t n); /* 0 .. n-1 */
bool sim_chance(int in_a_thousand);
const char *sim_name(int name);

/* A rule was broken: says which, with the seed. */
void sim_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* node.c */
node *node_start(int number);
void node_crash(node *node);
node *node_guardian(void); /* a process that has a client, and nothing else; nobody crashes it */
int64_t node_clock_ns(const node *node);             /* its own, now */
int64_t node_true_ns(const node *node, hf_mono due); /* when its clock will show that */
void node_free_all(void);
hf_code node_take(node *node, int name,
                  int64_t wait_ms); /* for the observer: takes, and releases */

/* leases.c */
void leases_begin(void);
void leases_done(void);
/* Fills in permits and limit of a semaphore (node.c). */
void sim_count(hf_lock_options *options);
/* What users believe they hold of each lock, and its limit. */
void leases_add(int64_t sum[NAMES], int32_t limit[NAMES]);
bool leases_believe(hf_id ticket); /* a user does, in that lease */

/* guardians.c */
void guardians_start(const node *dead); /* that of a node that has just crashed */
void guardians_done(void);

/* breaks.c */
void breaks_begin(void);
void breaks_start(node *n);                  /* which breaks locks from now on */
void breaks_asked(const hf_ask *ask);        /* it has come to the store */
void breaks_took_out(const hf_leave *leave); /* of a ticket that held */
void breaks_passed(const hf_pass *pass);
void breaks_stands(const hf_record *after);
/* It was taken out by force: its holder may still believe, or be stopping, beside others. */
bool breaks_excuse(hf_id ticket);
void breaks_believed(int name, hf_id ticket); /* a belief in it begins */
void breaks_check(void);                      /* after every slice */

/* beliefs.c */
bool beliefs_of_worker(const worker *w); /* it believes in its lock */
bool beliefs_in(hf_id ticket);           /* anybody believes in it, or is being stopped */
void beliefs_check(void);                /* after every slice */

/* turns.c */
void turns_begin(void);
/* What its worker was told when it released it. */
void turns_ended(const node *n, int name, int64_t token, bool is_lost);
void turns_check(void); /* in the end: whether the store's history has it, and says so */

/* outages.c */
void outages_begin(void);
void outages_run(void *end_ns); /* until then */
void outages_check(void);       /* after every slice */

/* errands.c */
void errands_begin(void);
void errands_start(node *n);

/* network.c: a store before the memory store, with a network in between. */
hf_store *network_open(node *node);

/* rules.c */
void rules_begin(void);
void rules_check_beliefs(void); /* after every slice */
void rules_check_step(const char *name, const hf_step *step, const hf_record *after);
void rules_believed(const worker *worker); /* has just taken its lock */
void rules_errand_had(int name, const hf_lock *lock);
void rules_lease_had(int name, hf_id ticket, int64_t token, int32_t permits, bool was_there);
void rules_victim(const worker *worker); /* was told that it is in a deadlock */
void rules_unanswered(hf_id ticket);     /* its enter may still land */
/* Its leave was acknowledged. upgrade: what may have taken its place, or may still do so; or 0. */
void rules_left(const char *name, hf_id ticket, hf_id upgrade);
void rules_check_orphans(int64_t since_ns); /* now and then; when it was called before */
void rules_check_rest(void);                /* when all should be free */

#endif
