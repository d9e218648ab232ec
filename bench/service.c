/* SPDX-License-Identifier: Apache-2.0 */
/* service.c: a crowd at one HTTP service; see service.h. */
#include "service.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "call.h"
#include "table.h"

#define TTL_MS 30000
#define RENEW_NS (TTL_MS / 3 * INT64_C(1000000))
#define RENEWERS 64 /* connections that take and renew the leases */
#define HEALTH_NS INT64_C(100000000)
#define LOOK_NS INT64_C(200000000) /* between two readings of /metrics */
#define WAIT_MOST_NS INT64_C(60000000000)
#define BATCH 500 /* connections that come at once, in */
#define BATCH_NS INT64_C(25000000)
#define SETTLE_NS INT64_C(2000000000)
#define ROOM 1024
#define METRICS_ROOM 131072
#define LEASE_MAX 256

/* ---- The service ---- */

typedef struct server {
    pid_t pid;
    FILE *out;
    int port;
} server;

/* Its limits are twice what comes, so that none is reached. */
static void become_service(const struct bench *bench, const service_load *load, int out)
{
    char uri[PLACE_URI_MAX], most[20];
    snprintf(uri, sizeof uri, "%s", bench->place.uri);
    snprintf(most, sizeof most, "%d", 2 * (load->waits + load->followers + RENEWERS));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, STDOUT_FILENO);
    execl(bench->command, "holdfast", "--store", uri, "serve", "--listen", "127.0.0.1:0",
          "--max-connections", most, "--max-waits", most, "--max-followers", most, (char *)NULL);
    perror(bench->command);
    _exit(127);
}

static void serve(const struct bench *bench, const service_load *load, server *out)
{
    int ends[2];
    char line[200];
    if (pipe(ends) || (out->pid = fork()) < 0)
        fail(EX_OSERR, "fork", "no more processes");
    if (!out->pid)
        become_service(bench, load, ends[1]);
    close(ends[1]);
    out->out = fdopen(ends[0], "r");
    const char *colon = out->out && fgets(line, sizeof line, out->out) ? strrchr(line, ':') : NULL;
    if (!colon)
        fail(EX_UNAVAILABLE, bench->command, "does not serve");
    out->port = atoi(colon + 1);
}

static void end_service(server *s)
{
    kill(s->pid, SIGTERM);
    waitpid(s->pid, NULL, 0);
    fclose(s->out);
}

static double resident_kib(const server *s)
{
    char path[64], line[200];
    double kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)s->pid);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmRSS: %lf", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return kib;
}

static double cpu_ms(const server *s)
{
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(s->pid, &clock) || clock_gettime(clock, &used))
        fail(EX_SOFTWARE, "the processor time", "of the service is not to be had");
    return (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6;
}

/* ---- Those who ask ---- */

/* How long each call took, in ms. */
typedef struct times {
    double *ms;
    size_t n, room;
} times;

typedef struct lease {
    char path[LEASE_MAX];
    int64_t due_ns;
} lease;

struct scene;

typedef struct renewer {
    call call;
    struct scene *scene;
    lease *lease;      /* that is renewed; NULL: one is taken, or nothing asked */
    bool is_releasing; /* that lease */
    int64_t due_ns;    /* of the last call about health */
} renewer;

typedef struct scene {
    const struct bench *bench;
    const service_load *load;
    calls calls;
    renewer renewers[RENEWERS], health;
    call metrics, *crowd; /* the waits; in the followers' process, these */
    int n_crowd;
    pid_t followers;       /* their process */
    lease *leases, **line; /* all; those that wait for their renewal, in a ring, the next first */
    int n_leases, n_asked, first, n_line;
    bool is_ending; /* they are released */
    double n_waits; /* as /metrics says */
    times renewals, healths;
    service_cost *cost;
} scene;

static void add_time(times *t, int64_t from_ns)
{
    if (t->n == t->room) {
        t->room = t->room ? 2 * t->room : 1024;
        t->ms = realloc(t->ms, t->room * sizeof *t->ms);
        if (!t->ms)
            fail(EX_OSERR, "memory", "is used up");
    }
    t->ms[t->n++] = (double)(now_ns() - from_ns) / 1e6;
}

/* Empties it. */
static spread take_times(times *t, double *p99)
{
    spread out = spread_of(t->ms, t->n);
    *p99 = t->n ? t->ms[(t->n - 1) * 99 / 100] : 0;
    t->n = 0;
    return out;
}

static void name_lock(const scene *s, int i, char out[PLACE_NAME_MAX])
{
    char name[20];
    snprintf(name, sizeof name, "service-%d", i % s->load->leases);
    place_name(&s->bench->place, name, out);
}

/* ---- Leases ---- */

static void ask_next(renewer *r);

static void stand_in_line(scene *s, lease *l)
{
    l->due_ns += RENEW_NS;
    s->line[(s->first + s->n_line++) % s->load->leases] = l;
}

static void keep_lease(scene *s, const call *c)
{
    static const char key[] = "\"lease\":\"";
    const char *id = strstr(c->text, key);
    lease *l = &s->leases[s->n_leases++];
    if (!id)
        fail(EX_SOFTWARE, "the service", c->text);
    id += strlen(key);
    snprintf(l->path, sizeof l->path, "/v1/leases/%.*s", (int)strcspn(id, "\""), id);
    l->due_ns = now_ns();
    stand_in_line(s, l);
}

static void on_taken(renewer *r, int status)
{
    if (status != 201)
        fail(EX_SOFTWARE, "a lease was not granted", status ? r->call.text : "no answer");
    keep_lease(r->scene, &r->call);
}

/* Times count from when the renewal was due. */
static void on_renewed(scene *s, lease *l, int status)
{
    add_time(&s->renewals, l->due_ns);
    s->cost->lost += status == 410;
    s->cost->failed += status != 200 && status != 410;
    stand_in_line(s, l);
}

static void on_answer_for_lease(renewer *r, int status)
{
    scene *s = r->scene;
    if (r->is_releasing)
        s->cost->failed += status != 204;
    else
        on_renewed(s, r->lease, status);
    r->lease = NULL;
}

static void on_answer(call *c, int status);

/* The service cuts off who has not asked for long. */
static void connect_anew(renewer *r, call_fn *done)
{
    call_close(&r->call);
    call_open(&r->scene->calls, &r->call, ROOM, done, r);
}

static void on_answer(call *c, int status)
{
    renewer *r = c->ctx;
    bool is_answer = status || c->is_busy;
    if (is_answer && r->lease)
        on_answer_for_lease(r, status);
    else if (is_answer)
        on_taken(r, status);
    if (!status)
        connect_anew(r, on_answer);
    ask_next(r);
}

static void take(renewer *r)
{
    char name[PLACE_NAME_MAX], path[PLACE_NAME_MAX + 20], body[60];
    scene *s = r->scene;
    name_lock(s, s->n_asked++, name);
    snprintf(path, sizeof path, "/v1/locks/%s", name);
    snprintf(body, sizeof body, "{\"ttl_ms\":%d}", TTL_MS);
    call_send(&r->call, "POST", path, body);
}

static void renew_or_release(renewer *r)
{
    scene *s = r->scene;
    r->lease = s->line[s->first];
    s->first = (s->first + 1) % s->load->leases;
    s->n_line--;
    r->is_releasing = s->is_ending;
    call_send(&r->call, r->is_releasing ? "DELETE" : "PUT", r->lease->path, NULL);
}

static void ask_next(renewer *r)
{
    scene *s = r->scene;
    if (s->n_line && (s->is_ending || s->line[s->first]->due_ns <= now_ns()))
        renew_or_release(r);
    else if (s->n_asked < s->load->leases)
        take(r);
}

/* ---- Health, and the crowd ---- */

static void on_health(call *c, int status)
{
    renewer *r = c->ctx;
    add_time(&r->scene->healths, r->due_ns);
    r->scene->cost->failed += status != 200;
    if (!status)
        connect_anew(r, on_health);
}

static void on_metrics(call *c, int status)
{
    scene *s = c->ctx;
    const char *line = strstr(c->text, "\nholdfast_waits_open ");
    if (line)
        s->n_waits = atof(line + strlen("\nholdfast_waits_open "));
    if (status)
        return;
    call_close(c);
    call_open(&s->calls, c, METRICS_ROOM, on_metrics, s);
}

static void on_ended(call *c, int status)
{
    scene *s = c->ctx;
    (void)status;
    s->cost->ended++;
    call_close(c);
}

static void begin_wait(scene *s, int i)
{
    char name[PLACE_NAME_MAX], path[PLACE_NAME_MAX + 20];
    name_lock(s, i, name);
    snprintf(path, sizeof path, "/v1/locks/%s", name);
    call_open(&s->calls, &s->crowd[i], ROOM, on_ended, s);
    call_send(&s->crowd[i], "POST", path, "{\"wait_ms\":3600000}");
}

/* Each follows some of the locks, as programs do. */
static void begin_follower(scene *s, int i)
{
    char name[PLACE_NAME_MAX], path[PLACE_NAME_MAX + 40];
    name_lock(s, i, name);
    snprintf(path, sizeof path, "/v1/events?in_use=1&prefix=%s", name);
    call_open(&s->calls, &s->crowd[i], ROOM, on_ended, s);
    call_send(&s->crowd[i], "GET", path, NULL);
}

/* In a process of their own: what they read would keep this one from renewing in time. */
static void follow(scene *s)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    calls_open(&s->calls, ntohs(s->calls.to.sin_port));
    for (int i = 0; i < s->load->followers; i++)
        begin_follower(s, i);
    for (;;)
        calls_serve(&s->calls, now_ns() + LOOK_NS);
}

static void bring_followers(scene *s)
{
    s->followers = fork();
    if (s->followers < 0)
        fail(EX_OSERR, "fork", "no more processes");
    if (!s->followers)
        follow(s);
}

/* ---- Its parts ---- */

static void open_connections(scene *s, int port)
{
    calls_open(&s->calls, port);
    for (int i = 0; i < RENEWERS; i++) {
        s->renewers[i].scene = s;
        call_open(&s->calls, &s->renewers[i].call, ROOM, on_answer, &s->renewers[i]);
    }
    s->health.scene = s;
    call_open(&s->calls, &s->health.call, ROOM, on_health, &s->health);
    call_open(&s->calls, &s->metrics, METRICS_ROOM, on_metrics, s);
}

static void ask_health(scene *s)
{
    renewer *r = &s->health;
    int64_t now = now_ns();
    if (r->call.fd < 0 || r->call.is_busy || now < r->due_ns + HEALTH_NS)
        return;
    r->due_ns = now;
    call_send(&r->call, "GET", "/healthz", NULL);
}

/* What is due meanwhile is asked for. */
static void go_on(scene *s, int64_t until_ns)
{
    while (now_ns() < until_ns) {
        for (int i = 0; i < RENEWERS; i++)
            if (s->renewers[i].call.fd >= 0 && !s->renewers[i].call.is_busy)
                ask_next(&s->renewers[i]);
        ask_health(s);
        calls_serve(&s->calls, now_ns() + 1000000);
    }
}

/* Until at least, or at most, so many wait. */
static void await_waits(scene *s, double least, double most)
{
    int64_t until = now_ns() + WAIT_MOST_NS;
    do {
        s->n_waits = -1;
        call_send(&s->metrics, "GET", "/metrics", NULL);
        go_on(s, now_ns() + LOOK_NS);
        while (s->metrics.is_busy && s->metrics.fd >= 0 && now_ns() < until)
            go_on(s, now_ns() + LOOK_NS);
    } while ((s->n_waits < least || s->n_waits > most) && now_ns() < until && s->metrics.fd >= 0);
}

/* Until there are so many. */
static void bring_all(scene *s, int n)
{
    while (s->n_crowd < n) {
        for (int i = 0; i < BATCH && s->n_crowd < n; i++)
            begin_wait(s, s->n_crowd++);
        go_on(s, now_ns() + BATCH_NS);
    }
}

static void bring_crowd(scene *s, const server *from)
{
    int64_t began = now_ns();
    double kib = resident_kib(from);
    bring_all(s, s->load->waits);
    await_waits(s, s->load->waits, s->load->waits);
    s->cost->arrived_s = (double)(now_ns() - began) / 1e9;
    s->cost->kib_per_wait = s->load->waits ? (resident_kib(from) - kib) / s->load->waits : 0;
    bring_followers(s);
    go_on(s, now_ns() + SETTLE_NS);
    s->cost->arriving_ms = take_times(&s->renewals, &s->cost->arriving_p99_ms);
    s->healths.n = 0;
}

static bool is_idle(const scene *s)
{
    int n = 0;
    while (n < RENEWERS && !s->renewers[n].call.is_busy)
        n++;
    return n == RENEWERS && !s->n_line;
}

/* Leaves no lease behind. */
static void send_home(scene *s)
{
    kill(s->followers, SIGKILL);
    waitpid(s->followers, NULL, 0);
    for (int i = 0; i < s->n_crowd; i++)
        if (s->crowd[i].fd >= 0)
            call_close(&s->crowd[i]);
    await_waits(s, 0, 0);
    s->is_ending = true;
    for (int64_t until = now_ns() + WAIT_MOST_NS; !is_idle(s) && now_ns() < until;)
        go_on(s, now_ns() + LOOK_NS);
}

static void close_connections(scene *s)
{
    for (int i = 0; i < RENEWERS; i++)
        call_close(&s->renewers[i].call);
    call_close(&s->health.call);
    if (s->metrics.fd >= 0)
        call_close(&s->metrics);
    calls_close(&s->calls);
}

/* From now on they are due one after the other, as if their clients had come at any time. */
static void spread_renewals(scene *s)
{
    int64_t now = now_ns();
    for (int i = 0; i < s->n_line; i++) {
        lease *l = s->line[(s->first + i) % s->load->leases];
        int64_t due_ns = now + RENEW_NS / s->n_line * i;
        l->due_ns = due_ns < l->due_ns ? due_ns : l->due_ns;
    }
    s->renewals.n = 0;
}

static void measure(scene *s, const server *from)
{
    service_cost *cost = s->cost;
    while (s->n_leases < s->load->leases)
        go_on(s, now_ns() + LOOK_NS);
    spread_renewals(s);
    bring_crowd(s, from);
    int64_t began = now_ns();
    double before = cpu_ms(from);
    go_on(s, began + s->load->seconds * INT64_C(1000000000));
    cost->cpu_ms_per_s = (cpu_ms(from) - before) / ((double)(now_ns() - began) / 1e9);
    cost->renewal_ms = take_times(&s->renewals, &cost->renewal_p99_ms);
    cost->health_ms = take_times(&s->healths, &cost->health_p99_ms);
}

/* Each connection takes a descriptor, here and there. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

void service_measure(const struct bench *bench, const service_load *load, service_cost *out)
{
    server service;
    scene s = {.bench = bench, .load = load, .cost = out};
    *out = (service_cost){.lost = 0};
    raise_limit();
    s.leases = calloc((size_t)load->leases, sizeof *s.leases);
    s.line = calloc((size_t)load->leases, sizeof *s.line);
    s.crowd = calloc((size_t)(load->waits + load->followers), sizeof *s.crowd);
    if (!s.leases || !s.line || !s.crowd)
        fail(EX_OSERR, "memory", "is used up");
    serve(bench, load, &service);
    open_connections(&s, service.port);
    measure(&s, &service);
    send_home(&s);
    close_connections(&s);
    end_service(&service);
    free(s.leases);
    free(s.line);
    free(s.crowd);
    free(s.renewals.ms);
    free(s.healths.ms);
}

/* ---- The table ---- */

/* The run with a tenth of them, and that with all. */
typedef struct growth {
    service_cost few, many;
} growth;

static series one(double value)
{
    return (series){.values = {value}, .n = 1};
}

static void print_one(double value, goal aim, const char *figure)
{
    series row = one(value);
    table_row(&row, aim, "%s", figure);
}

static void print_growth(double many, double few, const char *figure)
{
    series ours = one(many), tenth = one(few);
    table_ratio(&ours, &tenth, NO_GOAL, "%s, all / a tenth of them", figure);
}

static void print(const service_load *load, const growth *of)
{
    const service_cost *c = &of->many;
    series p99 = one(c->renewal_p99_ms);
    table_row(&p99, AT_MOST(100),
              "%d waits, %d leases, %d followers at one service: renewal, p99 ms", load->waits,
              load->leases, load->followers);
    print_one(c->renewal_ms.max, NO_GOAL, "the same, the longest");
    print_one(c->arriving_p99_ms, NO_GOAL, "the same while the waits and followers arrive, p99 ms");
    print_one(c->health_p99_ms, NO_GOAL, "/healthz, p99 ms");
    print_one(c->lost, AT_MOST(0), "leases that were lost");
    print_one(c->failed, AT_MOST(0), "renewals, and calls of /healthz, that failed");
    print_one(c->ended, AT_MOST(0), "waits that ended");
    print_one(c->arrived_s, NO_GOAL, "s until all wait");
    print_one(c->kib_per_wait, AT_MOST(40), "memory for each wait, KiB");
    print_growth(c->cpu_ms_per_s, of->few.cpu_ms_per_s, "processor time of the service, ms/s");
}

static service_load load_of(const struct bench *bench, int clients)
{
    return (service_load){
        .leases = clients, .waits = clients, .followers = clients / 10, .seconds = bench->crowd_s};
}

void measure_service(const struct bench *bench)
{
    growth of;
    service_load tenth = load_of(bench, bench->clients / 10), all = load_of(bench, bench->clients);
    if (!bench->command) {
        table_note("needs the command: start this as `holdfast bench`", "a crowd at one service");
        return;
    }
    service_measure(bench, &tenth, &of.few);
    service_measure(bench, &all, &of.many);
    print(&all, &of);
}
