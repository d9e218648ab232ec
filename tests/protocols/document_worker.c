/* SPDX-License-Identifier: Apache-2.0 */
/* document_worker.c: what the tests of protocol `document` start several times: takes turns at one
 * document over a counter that nothing else protects, works off the documents of a collection, or
 * does what its stdin says. It uses the public library, and the driver for its work.
 *
 *     document_worker contend URI ID SECONDS FILE
 *     document_worker claim   URI FILTER SORT DATABASE COLLECTION
 *     document_worker script  URI TTL_MS
 */
#include <holdfast/holdfast.h>
#include <mongoc/mongoc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static hf_client *client;

static void check(hf_code code, const hf_error *err)
{
    if (!code)
        return;
    printf("%s %s\n", hf_code_name(code), err->text);
    exit(1);
}

static hf_client *open_client(const char *uri, int64_t ttl_ms)
{
    hf_client *out = NULL;
    hf_error err = {.code = HF_OK};
    const hf_options options = {.ttl_ms = ttl_ms};
    check(hf_open(uri, &options, &out, &err), &err);
    return out;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* ---- contend ---- */

static void raise_counter(const char *path)
{
    long value = 0;
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%ld", &value) != 1)
        abort();
    fclose(file);
    pause_ms(2);
    file = fopen(path, "w");
    if (!file)
        abort();
    fprintf(file, "%ld", value + 1);
    fclose(file);
}

/* One turn; whether it was had, and was still held when its work was done. */
static bool turn(const char *id, const char *path)
{
    hf_lock *lock;
    hf_error err;
    const hf_lock_options options = {.wait_ms = 5000};
    hf_code code = hf_document_acquire(client, id, &options, &lock, &err);
    if (code == HF_TIMEOUT)
        return false;
    check(code, &err);
    raise_counter(path);
    check(hf_lock_release(lock, &err), &err);
    hf_lock_close(lock);
    return true;
}

static void contend(char **words)
{
    double end = seconds() + atof(words[1]);
    long turns = 0;
    while (seconds() < end)
        turns += turn(words[0], words[2]);
    printf("%ld\n", turns);
}

/* ---- claim ---- */

static void do_job(mongoc_collection_t *jobs, const char *document)
{
    bson_error_t error;
    bson_iter_t id;
    bson_t *whole = bson_new_from_json((const uint8_t *)document, -1, &error);
    bson_t filter = BSON_INITIALIZER;
    bson_t *change = BCON_NEW("$set", "{", "done", BCON_BOOL(true), "}", "$inc", "{", "runs",
                              BCON_INT32(1), "}");
    if (!whole || !bson_iter_init_find(&id, whole, "_id"))
        abort();
    bson_append_iter(&filter, "_id", -1, &id);
    if (!mongoc_collection_update_one(jobs, &filter, change, NULL, NULL, &error))
        abort();
    bson_destroy(change);
    bson_destroy(&filter);
    bson_destroy(whole);
}

static bool claim_one(mongoc_collection_t *jobs, char **words)
{
    hf_lock *lock;
    hf_error err;
    const hf_lock_options options = {.wait_ms = HF_TRY};
    hf_code code = hf_document_claim(client, words[0], words[1], &options, &lock, &err);
    if (code == HF_NOT_FOUND)
        return false;
    check(code, &err);
    do_job(jobs, hf_lock_document(lock));
    printf("%s\n", hf_lock_name(lock));
    check(hf_lock_release(lock, &err), &err);
    hf_lock_close(lock);
    return true;
}

/* The library takes its own keys out of the URI; the driver is given the rest by the caller. */
static void claim(char **words)
{
    mongoc_client_t *driver = mongoc_client_new(getenv("DRIVER_URI"));
    mongoc_collection_t *jobs = mongoc_client_get_collection(driver, words[2], words[3]);
    while (claim_one(jobs, words))
        ;
    mongoc_collection_destroy(jobs);
    mongoc_client_destroy(driver);
}

/* ---- script ---- */

static hf_lock *held;

static void say(hf_code code, const hf_error *err, int64_t left_ms)
{
    if (code)
        printf("%s %s\n", hf_code_name(code), err->text);
    else
        printf("HF_OK %lld\n", (long long)left_ms);
}

static void lost(void *ctx, hf_lock *lock, const hf_error *err, int64_t left_ms)
{
    (void)ctx;
    (void)lock;
    printf("lost %lld %s\n", (long long)left_ms, err->text);
}

static void take(const char *how, const char *what)
{
    hf_error err;
    hf_lock_options options = {.on_lost = lost, .no_refresh = strchr(how, 'h') != NULL};
    if (strchr(how, 'x'))
        hf_lock_close(held);
    options.wait_ms = strchr(how, 'n') ? HF_TRY : 8000;
    hf_code code = strchr(how, 'c') ? hf_document_claim(client, what, NULL, &options, &held, &err)
                                    : hf_document_acquire(client, what, &options, &held, &err);
    if (code)
        say(code, &err, 0);
    else
        printf("HF_OK %lld %s\n", (long long)hf_lock_token(held), hf_lock_document(held));
}

static void drop(void)
{
    hf_error err;
    hf_code code = hf_lock_release(held, &err);
    hf_lock_close(held);
    held = NULL;
    say(code, &err, 0);
}

/* "take FLAGS WHAT" (h: by hand, n: no wait, c: a claim, x: close the last one before), "refresh",
 * "check", "release". */
static void obey(char *line)
{
    hf_error err = {.code = HF_OK};
    int64_t left_ms = 0;
    hf_code code;
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "take ", 5) == 0) {
        char *what = strchr(line + 5, ' ');
        *what++ = '\0';
        take(line + 5, what);
    } else if (strcmp(line, "refresh") == 0) {
        code = hf_lock_refresh(held, &err);
        say(code, &err, 0);
    } else if (strcmp(line, "check") == 0) {
        code = hf_lock_check(held, &left_ms, &err);
        say(code, &err, left_ms);
    } else if (strcmp(line, "release") == 0) {
        drop();
    }
}

static void script(void)
{
    char line[4096];
    while (fgets(line, sizeof line, stdin))
        obey(line);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 64;
    bool is_script = strcmp(argv[1], "script") == 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    mongoc_init();
    client = open_client(argv[2], is_script ? atoll(argv[3]) : 5000);
    if (is_script)
        script();
    else if (strcmp(argv[1], "contend") == 0)
        contend(argv + 3);
    else
        claim(argv + 3);
    hf_lock_close(held);
    hf_close(client);
    return 0;
}
