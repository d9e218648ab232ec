/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c: a contender for the live tests, which start several at once. It takes turns at one
 * lock, over a counter in a file that nothing else protects, or (--script) does what its stdin
 * says; and says on stdout, one line of JSON per event, what it believed from when until when, so
 * that a checker can prove that no two believed at once what excludes each other. Times are
 * CLOCK_BOOTTIME in ns: the same for all processes of this machine. */
#include <fcntl.h>
#include <holdfast/holdfast.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS ((int64_t)1000000)
/* A careful program does not begin a write when so little of its lease is left. */
#define LEFT_TO_WRITE_MS 100
#define THREADS_MAX 64

typedef struct settings {
    const char *store, *id, *counter, *until;
    char name[600];
    const char *mode;
    hf_options client;
    hf_lock_options lock;
    int64_t turns, work_ms, pause_ms, n_threads;
    bool is_script, is_talkative;
} settings;

static settings given = {.id = "w", .mode = "exclusive", .work_ms = 2, .n_threads = 1};
static hf_client *client;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- Saying what happens ---- */

typedef struct line {
    char text[3000];
    size_t n;
} line;

static void put(line *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(line *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out->text + out->n, sizeof out->text - out->n, format, args);
    va_end(args);
    out->n += (size_t)n;
}

static void put_text(line *out, const char *key, const char *text)
{
    put(out, ",\"%s\":\"", key);
    for (; *text; text++) {
        if ((unsigned char)*text < ' ')
            put(out, "\\u%04x", (unsigned)*text);
        else
            put(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    }
    put(out, "\"");
}

static void put_number(line *out, const char *key, int64_t number)
{
    put(out, ",\"%s\":%" PRId64, key, number);
}

static line begin(const char *event)
{
    line out = {.n = 0};
    put(&out, "{\"event\":\"%s\"", event);
    put_number(&out, "at", now_ns());
    return out;
}

static void say(line *out)
{
    put(out, "}\n");
    if (write(STDOUT_FILENO, out->text, out->n) != (ssize_t)out->n)
        _exit(1); /* nobody listens any more */
}

static void put_error(line *out, hf_code code, const hf_error *err)
{
    put_text(out, "code", hf_code_name(code));
    put_text(out, "text", code ? err->text : "");
}

static void say_failed(const char *call, hf_code code, const hf_error *err)
{
    line out = begin("failed");
    put_text(&out, "call", call);
    put_error(&out, code, err);
    say(&out);
}

static void on_log(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx;
    fprintf(stderr, "%s %d %s\n", given.id, (int)level, text);
}

/* ---- Turns ---- */

typedef struct turn {
    int64_t asked, from, until; /* believed from .. until, and asked for before that */
    int64_t token;
    int64_t value; /* of the counter, as read; -1: not read */
    bool has_written, is_torn;
    char outcome[32];
    char text[512];
} turn;

static void say_turn(const turn *t, const char *actor)
{
    bool counts = given.lock.permits > 0;
    int64_t limit = counts ? given.lock.limit : HF_LIMIT_RW;
    int64_t permits = counts ? given.lock.permits : given.lock.mode == HF_SHARED ? 1 : HF_LIMIT_RW;
    line out = begin("turn");
    put_text(&out, "id", given.id);
    put_text(&out, "actor", actor);
    put_number(&out, "permits", permits);
    put_number(&out, "limit", limit);
    put_number(&out, "asked", t->asked);
    put_number(&out, "from", t->from);
    put_number(&out, "until", t->until);
    put_number(&out, "token", t->token);
    put_number(&out, "value", t->value);
    put(&out, ",\"wrote\":%s,\"torn\":%s", t->has_written ? "true" : "false",
        t->is_torn ? "true" : "false");
    put_text(&out, "outcome", t->outcome);
    put_text(&out, "text", t->text);
    say(&out);
}

static void set_outcome(turn *t, const char *outcome, const hf_error *err)
{
    snprintf(t->outcome, sizeof t->outcome, "%s", outcome);
    snprintf(t->text, sizeof t->text, "%s", err ? err->text : "");
}

/* Belief is what hf_lock_check() says: it was there at a moment not before this call began. */
static bool still_believes(hf_lock *lock, turn *t, int64_t *left_ms)
{
    hf_error err = {0};
    int64_t before = now_ns();
    if (hf_lock_check(lock, left_ms, &err)) {
        set_outcome(t, "lost", &err);
        return false;
    }
    t->until = before;
    return true;
}

static int64_t read_counter(void)
{
    char text[32] = "";
    int fd = open(given.counter, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    return n > 0 ? strtoll(text, NULL, 10) : -1;
}

static bool write_counter(int64_t value)
{
    int fd = open(given.counter, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && dprintf(fd, "%-20" PRId64 "\n", value) > 0;
    if (fd >= 0)
        close(fd);
    return written;
}

static void pause_ms(int64_t ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000 * NS_PER_MS)}, NULL);
}

/* The small work: some time passes between the counter's reading and its writing. */
static bool work(hf_lock *lock, turn *t, int64_t *left_ms)
{
    int64_t end = now_ns() + given.work_ms * NS_PER_MS;
    bool believes = true;
    do {
        pause_ms(1);
        believes = still_believes(lock, t, left_ms);
    } while (believes && now_ns() < end);
    return believes;
}

static void use(hf_lock *lock, turn *t)
{
    bool is_exclusive = !given.lock.permits && given.lock.mode == HF_EXCLUSIVE;
    int64_t left_ms = 0;
    t->value = given.counter ? read_counter() : -1;
    if (!work(lock, t, &left_ms) || !given.counter || left_ms < LEFT_TO_WRITE_MS)
        return;
    if (is_exclusive)
        t->has_written = write_counter(t->value + 1);
    else
        t->is_torn = read_counter() != t->value && still_believes(lock, t, &left_ms);
}

static void give_back(hf_lock *lock, turn *t)
{
    hf_error err = {0};
    if (!*t->outcome) {
        int64_t before = now_ns();
        hf_code code = hf_lock_release(lock, &err);
        if (code != HF_LOST) /* belief ended when the leave was sent, not before this call */
            t->until = before;
        set_outcome(t, code ? hf_code_name(code) : "released", code ? &err : NULL);
    }
    hf_lock_close(lock);
}

static bool take_turn(const char *actor)
{
    hf_lock_options options = given.lock;
    turn t = {.asked = now_ns(), .value = -1};
    hf_lock *lock = NULL;
    hf_error err = {0};
    options.actor = actor;
    hf_code code = hf_lock_acquire(client, given.name, &options, &lock, &err);
    t.from = t.until = now_ns();
    if (code) {
        if (code != HF_HELD && code != HF_TIMEOUT)
            say_failed("acquire", code, &err);
        return false;
    }
    t.token = hf_lock_token(lock);
    use(lock, &t);
    give_back(lock, &t);
    say_turn(&t, actor);
    return true;
}

/* --until=FILE: turns go on until that file is there. */
static bool is_told_to_end(void)
{
    return given.until && !access(given.until, F_OK);
}

/* A refused try is made again a little later; it is no turn. */
static void *take_turns(void *ctx)
{
    int64_t done = 0, refused = 0;
    while ((!given.turns || done < given.turns) && !is_told_to_end()) {
        pause_ms(given.pause_ms);
        if (take_turn(ctx))
            done++;
        else if (++refused)
            pause_ms(5);
    }
    line out = begin("done");
    put_text(&out, "id", given.id);
    put_number(&out, "turns", done);
    put_number(&out, "refused", refused);
    say(&out);
    return NULL;
}

static void run_threads(void)
{
    static char actors[THREADS_MAX][16];
    pthread_t threads[THREADS_MAX];
    for (int64_t i = 0; i < given.n_threads; i++) {
        snprintf(actors[i], sizeof actors[i], "t%d", (int)i);
        if (pthread_create(&threads[i], NULL, take_turns, actors[i]))
            exit(70);
    }
    for (int64_t i = 0; i < given.n_threads; i++)
        pthread_join(threads[i], NULL);
}

/* ---- The script ---- */

static hf_lock *held;

static void on_lost(void *ctx, hf_lock *lock, const hf_error *err, int64_t left_ms)
{
    (void)ctx;
    line out = begin("told");
    put_number(&out, "token", hf_lock_token(lock));
    put_number(&out, "left_ms", left_ms);
    put_text(&out, "text", err->text);
    say(&out);
}

static void on_wait(void *ctx, const hf_wait_info *info)
{
    (void)ctx;
    line out = begin("waits");
    put_number(&out, "position", (int64_t)info->position);
    put_number(&out, "queued", (int64_t)info->queued);
    put_text(&out, "holder", info->holder);
    say(&out);
}

/* acquire [WAIT_MS [NAME]] */
static void do_acquire(const char *words)
{
    hf_lock_options options = given.lock;
    hf_error err = {0};
    sscanf(words, "%*s %" SCNd64 " %599s", &options.wait_ms, given.name);
    options.on_wait = on_wait;
    options.on_lost = on_lost;
    hf_code code = hf_lock_acquire(client, given.name, &options, &held, &err);
    line out = begin(code ? "refused" : "acquired");
    put_error(&out, code, &err);
    if (!code) {
        hf_last before;
        hf_lock_previous(held, &before, NULL);
        put_number(&out, "token", hf_lock_token(held));
        put_number(&out, "previous", before.outcome);
        put_number(&out, "previous_token", before.token);
    }
    say(&out);
}

static void do_check(void)
{
    hf_error err = {0};
    int64_t left_ms = 0;
    hf_code code = hf_lock_check(held, &left_ms, &err);
    line out = begin("check");
    put_error(&out, code, &err);
    put_number(&out, "left_ms", left_ms);
    say(&out);
}

/* poll MS: waits for the lock's descriptor to say that it is lost. */
static void do_poll(const char *words)
{
    int ms = 0;
    sscanf(words, "%*s %d", &ms);
    struct pollfd fd = {hf_lock_fd(held), POLLIN, 0};
    int n = poll(&fd, 1, ms);
    line out = begin("poll");
    put_number(&out, "readable", n);
    say(&out);
}

static void do_release(void)
{
    hf_error err = {0};
    int64_t before = now_ns();
    hf_code code = hf_lock_release(held, &err);
    line out = begin("release");
    put_error(&out, code, &err);
    put_number(&out, "took_ms", (now_ns() - before) / NS_PER_MS);
    say(&out);
    hf_lock_close(held);
    held = NULL;
}

static void do_close(void)
{
    int64_t before = now_ns();
    hf_close(client);
    client = NULL;
    line out = begin("close");
    put_number(&out, "took_ms", (now_ns() - before) / NS_PER_MS);
    say(&out);
}

static bool is_word(const char *words, const char *verb)
{
    size_t n = strlen(verb);
    return !strncmp(words, verb, n) && strchr(" \n", words[n]);
}

static void obey(const char *words)
{
    if (is_word(words, "acquire"))
        do_acquire(words);
    else if (is_word(words, "check"))
        do_check();
    else if (is_word(words, "poll"))
        do_poll(words);
    else if (is_word(words, "release"))
        do_release();
    else if (is_word(words, "close"))
        do_close();
    else
        exit(64);
}

static void run_script(void)
{
    char words[1000];
    line out = begin("ready");
    say(&out);
    while (fgets(words, sizeof words, stdin))
        obey(words);
    hf_lock_close(held);
}

/* ---- The words ---- */

static void set_mode(const char *mode)
{
    given.mode = mode;
    given.lock.mode = strcmp(mode, "shared") ? HF_EXCLUSIVE : HF_SHARED;
    if (!strcmp(mode, "try"))
        given.lock.wait_ms = HF_TRY;
}

static bool set_number(const char *name, int64_t number)
{
    const struct {
        const char *name;
        int64_t *to;
    } numbers[] = {
        {"ttl", &given.client.ttl_ms},
        {"notice", &given.client.stop_margin_ms},
        {"patience", &given.client.patience_ms},
        {"clock-trust", &given.client.clock_trust_ms},
        {"turns", &given.turns},
        {"work", &given.work_ms},
        {"pause", &given.pause_ms},
        {"threads", &given.n_threads},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!strcmp(name, numbers[i].name)) {
            *numbers[i].to = number;
            return true;
        }
    return false;
}

static void set(const char *name, char *value)
{
    if (!strcmp(name, "store"))
        given.store = value;
    else if (!strcmp(name, "name"))
        snprintf(given.name, sizeof given.name, "%s", value);
    else if (!strcmp(name, "id"))
        given.id = given.client.app = value;
    else if (!strcmp(name, "counter"))
        given.counter = value;
    else if (!strcmp(name, "until"))
        given.until = value;
    else if (!strcmp(name, "mode"))
        set_mode(value);
    else if (!strcmp(name, "why"))
        given.lock.why = value;
    else if (!strcmp(name, "permits"))
        given.lock.permits = atoi(value);
    else if (!strcmp(name, "limit"))
        given.lock.limit = atoi(value);
    else if (!strcmp(name, "guardian"))
        given.client.guardian = value;
    else if (!strcmp(name, "local-turns"))
        given.client.local_turns = atoi(value);
    else if (!set_number(name, strtoll(value, NULL, 10)))
        exit(64);
}

/* --KEY=VALUE for all, but --script and --talk. */
static void read_words(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!strcmp(argv[i], "--script"))
            given.is_script = true;
        else if (!strcmp(argv[i], "--talk"))
            given.is_talkative = true;
        else if (strncmp(argv[i], "--", 2) || !value)
            exit(64);
        else {
            *value = '\0';
            set(argv[i] + 2, value + 1);
        }
    }
    if (!given.store || !(given.turns || given.until || given.is_script) || given.n_threads < 1 ||
        given.n_threads > THREADS_MAX)
        exit(64);
}

int main(int argc, char **argv)
{
    hf_error err = {0};
    read_words(argc, argv);
    given.client.struct_size = sizeof given.client;
    given.lock.struct_size = sizeof given.lock;
    given.client.log = given.is_talkative ? on_log : NULL;
    hf_code code = hf_open(given.store, &given.client, &client, &err);
    if (code) {
        say_failed("open", code, &err);
        return hf_code_exit(code);
    }
    if (given.is_script)
        run_script();
    else
        run_threads();
    if (client)
        do_close();
    return 0;
}
