/* SPDX-License-Identifier: Apache-2.0 */
/* deadlock_cases.c: deadlocks are detected, and just one of the sessions gives up; on every
 * store with a queue; run by main.c. */
#include "conformance/bed.h"

#include "core/waits.h"

#define MOST 4
#define DEADLOCK_MS 200

/* A thread that takes one lock, waits for all others to have theirs, and takes a second one. */
typedef struct actor {
    pthread_t thread;
    hf_client *client;
    const char *first, *second;
    hf_lock_options how_first, how_second;
    pthread_barrier_t *all;
    hf_code code; /* of the second */
    hf_error err;
} actor;

static hf_client *clients[MOST];

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < MOST; i++) {
        hf_options options = {.ttl_ms = 2 * BED_TTL, .deadlock_ms = DEADLOCK_MS};
        hf_error err;
        assert_code(HF_OK, hf_open(bed.uri, &options, &clients[i], &err), &err);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < MOST; i++)
        hf_close(clients[i]);
    return 0;
}

static void *act(void *arg)
{
    actor *a = arg;
    hf_lock *first, *second = NULL;
    hf_error err;
    assert_code(HF_OK, hf_lock_acquire(a->client, a->first, &a->how_first, &first, &err), &err);
    pthread_barrier_wait(a->all);
    a->code = hf_lock_acquire(a->client, a->second, &a->how_second, &second, &a->err);
    hf_lock_close(second);
    hf_lock_close(first);
    return NULL;
}

/* Returns how many were told of a deadlock; all others must have had both. */
static int run(actor *actors, int n)
{
    pthread_barrier_t all;
    int victims = 0;
    pthread_barrier_init(&all, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        actors[i].all = &all;
        actors[i].how_second.wait_ms = BED_SOON;
        pthread_create(&actors[i].thread, NULL, act, &actors[i]);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(actors[i].thread, NULL);
        victims += actors[i].code == HF_DEADLOCK;
    }
    pthread_barrier_destroy(&all);
    for (int i = 0; i < n; i++)
        if (actors[i].code != HF_DEADLOCK)
            assert_code(HF_OK, actors[i].code, &actors[i].err);
    return victims;
}

static const char *text_of(const actor *actors, int n)
{
    for (int i = 0; i < n; i++)
        if (actors[i].code == HF_DEADLOCK)
            return actors[i].err.text;
    return "";
}

static void test_two_that_wait_for_each_other(void **state)
{
    (void)state;
    const char *a = bed_name("dl-a"), *b = bed_name("dl-b");
    actor actors[] = {{.client = clients[0], .first = a, .second = b},
                      {.client = clients[1], .first = b, .second = a}};
    assert_int_equal(run(actors, 2), 1);
    assert_contains(text_of(actors, 2), a); /* the whole circle */
    assert_contains(text_of(actors, 2), b);
    assert_contains(text_of(actors, 2), "held by");
}

static void test_a_circle_of_four_threads_in_two_processes(void **state)
{
    (void)state;
    const char *names[] = {bed_name("dl-1"), bed_name("dl-2"), bed_name("dl-3"), bed_name("dl-4")};
    actor actors[MOST] = {{.code = HF_OK}};
    for (int i = 0; i < MOST; i++) {
        actors[i].client = clients[i / 2];
        actors[i].first = names[i];
        actors[i].second = names[(i + 1) % MOST];
    }
    assert_int_equal(run(actors, MOST), 1);
    for (int i = 0; i < MOST; i++)
        assert_contains(text_of(actors, MOST), names[i]);
}

/* Each shares what the other wants for itself. */
static void test_two_readers_that_want_to_write(void **state)
{
    (void)state;
    const char *a = bed_name("dl-rw");
    actor actors[] = {{.client = clients[0], .first = a, .second = a},
                      {.client = clients[1], .first = a, .second = a}};
    actors[0].how_first.mode = actors[1].how_first.mode = HF_SHARED;
    int victims = run(actors, 2);
    assert_true(victims == 1 || victims == 2); /* the other one waits for what it holds itself */
}

static void test_who_waits_for_what_it_holds_itself(void **state)
{
    (void)state;
    const char *a = bed_name("dl-self");
    hf_error err;
    hf_lock *lock = bed_acquire(clients[0], a, NULL), *again;
    assert_code(HF_DEADLOCK, hf_lock_acquire(clients[0], a, NULL, &again, &err), &err);
    assert_contains(err.text, "itself");
    assert_code(HF_OK, hf_lock_check(lock, NULL, &err), &err); /* that it keeps */
    bed_release(lock);
}

/* A client of a process that the first one started and waits for. */
static hf_client *child_of(hf_client *parent)
{
    char held[2048];
    hf_options options = {.ttl_ms = 2 * BED_TTL, .deadlock_ms = DEADLOCK_MS};
    hf_client *child;
    hf_error err;
    assert_true(hf_client_held(parent, held, sizeof held) < sizeof held);
    setenv("HOLDFAST_HELD", held, 1);
    assert_code(HF_OK, hf_open(bed.uri, &options, &child, &err), &err);
    unsetenv("HOLDFAST_HELD");
    return child;
}

static void test_what_the_parent_holds(void **state)
{
    (void)state;
    const char *name = bed_name("dl-parent");
    hf_lock *lock = bed_acquire(clients[0], name, NULL), *again;
    hf_client *child = child_of(clients[0]);
    hf_error err;
    assert_code(HF_DEADLOCK, hf_lock_acquire(child, name, NULL, &again, &err), &err);
    assert_contains(err.text, "held by what started it");
    hf_close(child);
    bed_release(lock);
}

/* A process that wants a lock, and gives back its parent's, who holds until it has ended. */
typedef struct heir {
    pthread_t thread;
    hf_client *client;
    const char *wanted;
    hf_lock *parents;
    hf_code code;
    hf_error err;
} heir;

static void *live(void *arg)
{
    heir *h = arg;
    hf_lock *lock = NULL;
    hf_lock_options patient = {.wait_ms = BED_SOON};
    h->code = hf_lock_acquire(h->client, h->wanted, &patient, &lock, &h->err);
    hf_lock_close(lock);
    bed_release(h->parents);
    return NULL;
}

/* What each parent holds, the other's grandchild wants. */
static void test_two_through_their_children(void **state)
{
    (void)state;
    const char *names[] = {bed_name("dl-heir-a"), bed_name("dl-heir-b")};
    hf_client *children[2];
    heir heirs[2];
    for (int i = 0; i < 2; i++) {
        heirs[i] =
            (heir){.parents = bed_acquire(clients[i], names[i], NULL), .wanted = names[1 - i]};
        children[i] = child_of(clients[i]);
        heirs[i].client = child_of(children[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&heirs[i].thread, NULL, live, &heirs[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(heirs[i].thread, NULL);
    assert_int_equal((heirs[0].code == HF_DEADLOCK) + (heirs[1].code == HF_DEADLOCK), 1);
    const heir *victim = &heirs[heirs[0].code == HF_DEADLOCK ? 0 : 1];
    assert_contains(victim->err.text, "held by what started");
    assert_code(HF_OK, heirs[heirs[0].code == HF_DEADLOCK ? 1 : 0].code, &heirs[0].err);
    for (int i = 0; i < 2; i++) {
        hf_close(heirs[i].client);
        hf_close(children[i]);
    }
}

/* The system gives a thread's pthread_t to another when it has ended; what it took may live on. */
static void test_a_thread_that_has_ended_is_not_taken_for_another(void **state)
{
    (void)state;
    static struct taker first, second;
    const char *name = bed_name("heirless");
    const hf_lock_options brief = {.wait_ms = 3 * DEADLOCK_MS};
    taker_start(&first, clients[0], name, NULL);
    taker_join(&first);
    assert_code(HF_OK, first.code, &first.err);
    taker_start(&second, clients[0], name, &brief);
    taker_join(&second);
    assert_code(HF_TIMEOUT, second.code, &second.err);
    bed_release(first.lock);
}

static hf_lock_options permits(int32_t n, int32_t limit)
{
    return (hf_lock_options){.permits = n, .limit = limit};
}

/* Two of three permits each way: both semaphores are too full for the other. */
static void test_two_semaphores(void **state)
{
    (void)state;
    const char *a = bed_name("dl-sem-a"), *b = bed_name("dl-sem-b");
    actor actors[] = {{.client = clients[0], .first = a, .second = b},
                      {.client = clients[1], .first = b, .second = a}};
    for (int i = 0; i < 2; i++)
        actors[i].how_first = actors[i].how_second = permits(2, 3);
    assert_int_equal(run(actors, 2), 1);
}

static void *release_later(void *lock)
{
    struct timespec pause = {.tv_nsec = 8 * DEADLOCK_MS % 1000 * 1000000,
                             .tv_sec = 8 * DEADLOCK_MS / 1000};
    nanosleep(&pause, NULL);
    bed_release(lock);
    return NULL;
}

/* One permit comes back from a holder that waits for nothing. */
static void test_no_deadlock_where_another_holder_goes_on(void **state)
{
    (void)state;
    const char *a = bed_name("dl-free-a"), *b = bed_name("dl-free-b");
    actor actors[] = {{.client = clients[0], .first = a, .second = b},
                      {.client = clients[1], .first = b, .second = a}};
    hf_lock_options one = permits(1, 2);
    pthread_t thread;
    hf_lock *third = bed_acquire(clients[2], b, &one);
    for (int i = 0; i < 2; i++)
        actors[i].how_first = actors[i].how_second = permits(1, 2);
    actors[1].how_second = permits(2, 2);
    pthread_create(&thread, NULL, release_later, third);
    assert_int_equal(run(actors, 2), 0);
    pthread_join(thread, NULL);
}

static bool find_deadlock(void *ctx, const hf_finding *finding)
{
    bool is = strcmp(finding->topic, "deadlock") == 0;
    if (is)
        snprintf(ctx, 512, "%s", finding->text);
    return !is;
}

/* A session that waits for what it holds, says so, and does nothing about it. */
static void test_the_doctor_lists_circles(void **state)
{
    (void)state;
    const char *name = bed_name("dl-doctor");
    char text[512] = "", *waits = NULL;
    hf_error err;
    hf_session_state after;
    hf_store *store = bed_store();
    hf_id session = bed_session(store, 10000);
    hf_enter holds = bed_enter(session, HF_LIMIT_RW, HF_LIMIT_RW), wants = holds;
    wants.entry.ticket = bed_id();
    waits_item held = {.ticket = holds.entry.ticket};
    waits_entry wait = {.on = {.ticket = wants.entry.ticket}, .holds = &held, .n_holds = 1};
    snprintf(wait.on.name, sizeof wait.on.name, "%s", name);
    snprintf(held.name, sizeof held.name, "%s", name);
    bed_take(store, name, &holds, NULL);
    bed_take(store, name, &wants, NULL);
    assert_true(waits_write(&waits, &wait));
    hf_beat says = {.waits = waits, .seen = 1};
    assert_code(HF_OK, store->ops->session_beat(store, session, &says, &after, &err), &err);
    assert_code(HF_OK, hf_doctor(clients[3], find_deadlock, text, &err), &err);
    assert_contains(text, name);
    assert_contains(text, "itself");
    text[0] = '\0';
    assert_code(HF_OK, store->ops->session_beat(store, session, &(hf_beat){0}, &after, &err), &err);
    assert_code(HF_OK, hf_doctor(clients[3], find_deadlock, text, &err), &err);
    assert_string_equal(text, ""); /* it says nothing more */
    free(waits);
    bed_leave(store, name, wants.entry.ticket, NULL);
    bed_leave(store, name, holds.entry.ticket, NULL);
    assert_code(HF_OK, store->ops->session_end(store, session, false, &err), &err);
    store->ops->close(store);
}

/* What hf_why() tells of a lock: the links, and the reason of the last one's holder. */
typedef struct chain {
    hf_client *client;
    const char *name;
    char links[600], why[300];
    hf_why_next next;
} chain;

static bool note_link(void *ctx, const hf_why_link *link)
{
    chain *c = ctx;
    size_t used = strlen(c->links);
    snprintf(c->links + used, sizeof c->links - used, "%zu %s > %s;", link->depth, link->name,
             link->waits_for ? link->waits_for : "-");
    snprintf(c->why, sizeof c->why, "%s", link->holder->why);
    c->next = link->next;
    return true;
}

static bool has_two_links(void *ctx)
{
    chain *c = ctx;
    hf_error err;
    c->links[0] = '\0';
    assert_code(HF_OK, hf_why(c->client, c->name, note_link, c, &err), &err);
    return strchr(c->links, ';') != strrchr(c->links, ';');
}

static void test_why_follows_a_wait_to_its_root(void **state)
{
    (void)state;
    char wanted[600];
    pthread_barrier_t alone;
    const char *a = bed_name("why-a"), *b = bed_name("why-b");
    hf_lock *root = bed_acquire(clients[1], b, &(hf_lock_options){.why = "restore"});
    actor waiter = {.client = clients[0], .first = a, .second = b, .all = &alone};
    waiter.how_second.wait_ms = BED_SOON;
    pthread_barrier_init(&alone, NULL, 1);
    pthread_create(&waiter.thread, NULL, act, &waiter);
    bed_wait_queued(clients[2], b, 1);
    chain c = {.client = clients[2], .name = a};
    bed_until(BED_SOON, has_two_links, &c);
    bed_release(root);
    pthread_join(waiter.thread, NULL);
    pthread_barrier_destroy(&alone);
    snprintf(wanted, sizeof wanted, "0 %s > %s;1 %s > -;", a, b, b);
    assert_string_equal(c.links, wanted);
    assert_string_equal(c.why, "restore");
    assert_int_equal(c.next, HF_WHY_ROOT);
    assert_code(HF_OK, waiter.code, &waiter.err);
}

int run_deadlock_cases(void)
{
    const unsigned needed = BED_TELLS_WAITS | HF_CAN_SHARE;
    const struct bed_case deadlock_cases[] = {
        CASE_IF(needed, test_two_that_wait_for_each_other),
        CASE_IF(needed, test_a_circle_of_four_threads_in_two_processes),
        CASE_IF(needed, test_two_readers_that_want_to_write),
        CASE_IF(needed, test_who_waits_for_what_it_holds_itself),
        CASE_IF(needed, test_what_the_parent_holds),
        CASE_IF(needed, test_two_through_their_children),
        CASE_IF(needed, test_a_thread_that_has_ended_is_not_taken_for_another),
        CASE_IF(needed, test_two_semaphores),
        CASE_IF(needed, test_no_deadlock_where_another_holder_goes_on),
        CASE_IF(needed, test_the_doctor_lists_circles),
        CASE_IF(needed, test_why_follows_a_wait_to_its_root),
    };
    return CASES(deadlock_cases);
}
