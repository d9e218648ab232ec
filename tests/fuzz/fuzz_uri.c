/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_uri.c: any text is a URI of a store or is refused, and a refusal does not tell the password.
 * Nothing is sent: an open mongo store has not connected yet. sqlite: is left to fuzz_sqlite.c. */
#include "fuzz.h"
#include "store/mongo/driver/uri.h"

static void log_nothing(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx, (void)level, (void)text;
}

static hf_mono at_zero(void *ctx)
{
    (void)ctx;
    return (hf_mono){0};
}

static hf_wall wall_zero(void *ctx)
{
    (void)ctx;
    return (hf_wall){0};
}

static void no_chance(void *ctx, void *bytes, size_t n)
{
    (void)ctx;
    memset(bytes, 7, n);
}

static const hf_env env = {.mono = at_zero, .wall = wall_zero, .random = no_chance};

static void read_mongo(const char *text)
{
    mongo_uri uri;
    hf_error err = {.code = HF_OK};
    hf_code code = mongo_uri_read(text, &uri, &err);
    if (code) {
        MUST(code == HF_INVALID || code == HF_UNSUPPORTED);
        MUST(err.code == code && err.text[0]);
        return;
    }
    MUST(uri.driver && uri.hosts && uri.database[0] && uri.collection[0]);
    mongo_uri_done(&uri);
}

static void open_store(const char *text)
{
    hf_store *store = NULL;
    int64_t patience_ms = -1;
    hf_store_config config = {.ttl_ms = 10000, .env = &env, .log = log_nothing};
    hf_error err = {.code = HF_OK};
    hf_code code = hf_store_open(text, &config, &store, &patience_ms, &err);
    if (code) {
        MUST(!store && err.code == code && err.text[0]);
        return;
    }
    MUST(store);
    store->ops->close(store);
}

/* Refusals leave out what is not UTF-8, so the text may have it in parts. */
static bool says(const char *text, const char *end)
{
    size_t n = 0;
    for (; *text && end[n]; text++)
        if ((unsigned char)*text < 0x80)
            n = *text == end[n] ? n + 1 : *text == end[0];
    return !end[n];
}

/* A password of a form that occurs nowhere else must not be in any refusal. */
static void seek_password(const char *text)
{
    static const char secret[] = "Zq9xSecret";
    hf_store *store = NULL;
    int64_t patience_ms;
    hf_store_config config = {.ttl_ms = 10000, .env = &env, .log = log_nothing};
    hf_error err;
    if (says(text, "Secret"))
        return;
    size_t room = strlen(text) + 64;
    char *whole = malloc(room);
    MUST(whole);
    snprintf(whole, room, "mongodb://user:%s@%s", secret, text);
    if (hf_store_open(whole, &config, &store, &patience_ms, &err))
        MUST(!strstr(err.text, secret));
    else
        store->ops->close(store);
    free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    read_mongo(text);
    if (strncmp(text, "sqlite:", 7) != 0)
        open_store(text);
    seek_password(text);
    free(text);
    return 0;
}
