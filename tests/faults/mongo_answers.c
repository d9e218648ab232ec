/* SPDX-License-Identifier: Apache-2.0 */
/* mongo_answers.c: our calls to libmongoc come here by the linker (--wrap), and go no further. */
#include "faults/mongo_answers.h"

#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/mongo.h"

#define ANSWERS_MAX 64
#define SENT_MAX 256

typedef struct answer {
    const char *verb, *json;
    int64_t takes_ms;
    bool stays, is_used;
} answer;

typedef struct sent {
    char verb[32];
    char *json;
} sent;

static answers_fn told;

static struct {
    answer answers[ANSWERS_MAX];
    sent sent[SENT_MAX];
    char paused[200];
    int n_answers, n_sent;
    int64_t mono_ms;
    char log[4000];
} bed;

/* ---- Clocks and log ---- */

static hf_mono read_mono(void *ctx)
{
    (void)ctx;
    return at_ms(bed.mono_ms);
}

static hf_wall read_wall(void *ctx)
{
    (void)ctx;
    return (hf_wall){ANSWERS_WALL_MS};
}

static void fill(void *ctx, void *bytes, size_t n)
{
    (void)ctx;
    memset(bytes, 7, n);
}

static void keep_log(void *ctx, hf_log_level level, const char *text)
{
    (void)ctx, (void)level;
    size_t used = strlen(bed.log);
    snprintf(bed.log + used, sizeof bed.log - used, "%s\n", text);
}

const char *answers_log(void)
{
    return bed.log;
}

void answers_pass(int64_t ms)
{
    bed.mono_ms += ms;
}

/* ---- Memory ---- */

static atomic_long n_pieces; /* that the driver's library has given out, of BSON too */

static void *take_piece(size_t size)
{
    n_pieces++;
    return malloc(size);
}

static void *take_clean(size_t n, size_t size)
{
    n_pieces++;
    return calloc(n, size);
}

static void *change_piece(void *piece, size_t size)
{
    n_pieces += piece ? 0 : 1;
    return realloc(piece, size);
}

static void give_piece(void *piece)
{
    n_pieces -= piece ? 1 : 0;
    free(piece);
}

/* What a store takes it gives back by its end: see answers_close(). */
static void count_pieces(void)
{
    static const bson_mem_vtable_t counting = {
        .malloc = take_piece, .calloc = take_clean, .realloc = change_piece, .free = give_piece};
    bson_mem_set_vtable(&counting);
    mongoc_init();
}

/* ---- The store ---- */

static long n_before;

static void forget_all(void)
{
    for (int i = 0; i < bed.n_sent; i++)
        bson_free(bed.sent[i].json);
    memset(&bed, 0, sizeof bed);
    bed.mono_ms = 1000;
}

/* Nobody waits for it here. */
static void pass(void *ctx, int64_t ms)
{
    size_t used = strlen(bed.paused);
    (void)ctx;
    snprintf(bed.paused + used, sizeof bed.paused - used, "%lld ", (long long)ms);
    answers_pass(ms);
}

const char *answers_paused(void)
{
    return bed.paused;
}

mongo_store *answers_open(const char *keys)
{
    char uri[300];
    snprintf(uri, sizeof uri, "mongodb://a,b,c/app?replicaSet=rs0%s", keys);
    return answers_open_uri(uri);
}

mongo_store *answers_open_uri(const char *uri)
{
    static const hf_env env = {.mono = read_mono, .wall = read_wall, .random = fill, .pause = pass};
    static const hf_store_config config = {.ttl_ms = 6000, .env = &env, .log = keep_log};
    hf_store *store = NULL;
    hf_error err;
    int64_t patience_ms = 0;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, count_pieces);
    forget_all();
    n_before = n_pieces;
    if (mongo_open(uri, &config, &store, &patience_ms, &err))
        fail_msg("%s", err.text);
    atomic_store(&((mongo_store *)store)->topology, MONGO_SET);
    atomic_store(&((mongo_store *)store)->wire, 17);
    return (mongo_store *)store;
}

void answers_close(mongo_store *store)
{
    store->base.ops->close(&store->base);
    forget_all();
    if (n_pieces != n_before)
        fail_msg("%ld pieces of memory were not given back", n_pieces - n_before);
}

/* ---- Answers ---- */

static void add(const char *verb, const char *json, int64_t takes_ms, bool stays)
{
    assert_in_range(bed.n_answers, 0, ANSWERS_MAX - 1);
    bed.answers[bed.n_answers++] = (answer){verb, json, takes_ms, stays, false};
}

void answers_give(const char *verb, const char *json)
{
    add(verb, json, 0, false);
}

void answers_give_slowly(const char *verb, const char *json, int64_t takes_ms)
{
    add(verb, json, takes_ms, false);
}

void answers_give_always(const char *verb, const char *json)
{
    add(verb, json, 0, true);
}

static answer *next_answer(const char *verb)
{
    for (int i = 0; i < bed.n_answers; i++) {
        answer *each = &bed.answers[i];
        if (!each->is_used && strcmp(each->verb, verb) == 0) {
            each->is_used = !each->stays;
            return each;
        }
    }
    fail_msg("nobody expects %s: %s", verb, answers_last(verb));
    return NULL;
}

/* The keys of arrays are 0, 1 and so on, which JSON does not show. */
static void check_arrays(bson_iter_t *it, bool is_array)
{
    bson_iter_t inner;
    char key[16];
    for (int i = 0; bson_iter_next(it); i++) {
        snprintf(key, sizeof key, "%d", i);
        if (is_array)
            assert_string_equal(bson_iter_key(it), key);
        if ((BSON_ITER_HOLDS_DOCUMENT(it) || BSON_ITER_HOLDS_ARRAY(it)) &&
            bson_iter_recurse(it, &inner))
            check_arrays(&inner, BSON_ITER_HOLDS_ARRAY(it));
    }
}

static bool is_empty(const char *at)
{
    return strncmp(at, "{ }", 3) == 0 || strncmp(at, "[ ]", 3) == 0;
}

/* Later versions of libbson have one blank less in what is empty. */
char *answers_json(const bson_t *doc)
{
    char *json = bson_as_relaxed_extended_json(doc, NULL);
    assert_non_null(json);
    char *out = bson_malloc(2 * strlen(json) + 1), *to = out;
    for (const char *at = json; *at; at++) {
        *to++ = *at;
        if (is_empty(at))
            *to++ = ' ';
    }
    *to = '\0';
    bson_free(json);
    return out;
}

static const char *note_sent(const bson_t *command)
{
    bson_iter_t it;
    assert_in_range(bed.n_sent, 0, SENT_MAX - 1);
    sent *note = &bed.sent[bed.n_sent++];
    assert_true(bson_iter_init(&it, command) && bson_iter_next(&it));
    snprintf(note->verb, sizeof note->verb, "%s", bson_iter_key(&it));
    assert_true(bson_iter_init(&it, command));
    check_arrays(&it, false);
    note->json = answers_json(command);
    for (char *at = note->json; *at; at++)
        if (*at == '"')
            *at = '\'';
    return note->verb;
}

int answers_sent(const char *verb)
{
    int n = 0;
    for (int i = 0; i < bed.n_sent; i++)
        n += strcmp(bed.sent[i].verb, verb) == 0;
    return n;
}

const char *answers_last(const char *verb)
{
    for (int i = bed.n_sent; i > 0; i--)
        if (strcmp(bed.sent[i - 1].verb, verb) == 0)
            return bed.sent[i - 1].json;
    return "";
}

void answers_tell(answers_fn fn)
{
    told = fn;
}

/* The connections of beats have time-outs of their own. */
static void tell_of(mongoc_client_t *client, const char *database, const bson_t *command,
                    const bson_t *opts)
{
    char where[100];
    const mongoc_uri_t *uri = mongoc_client_get_uri(client);
    int patience_ms = mongoc_uri_get_option_as_int32(uri, MONGOC_URI_SOCKETTIMEOUTMS, 0);
    snprintf(where, sizeof where, "%s%s", database, patience_ms < 5000 ? " by beats" : "");
    if (told)
        told(where, command, opts && !bson_empty(opts) ? opts : NULL);
}

static bool answer_command(const bson_t *command, bson_t *reply, bson_error_t *error)
{
    const answer *given = next_answer(note_sent(command));
    bed.mono_ms += given->takes_ms;
    bson_init(reply);
    if (!given->json) {
        bson_set_error(error, MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_SOCKET, "the line is dead");
        return false;
    }
    bson_t *said = pipeline_json(given->json);
    bson_concat(reply, said);
    bson_destroy(said);
    if (mongo_int_at(reply, "ok", 0) == 1)
        return true;
    bson_set_error(error, MONGOC_ERROR_SERVER, (uint32_t)mongo_int_at(reply, "code", 0), "%s",
                   mongo_text_at(reply, "errmsg", "refused"));
    return false;
}

/* ---- Our calls ---- */

bool __wrap_mongoc_client_command_simple(mongoc_client_t *client, const char *database,
                                         const bson_t *command, const mongoc_read_prefs_t *prefs,
                                         bson_t *reply, bson_error_t *error);
bool __wrap_mongoc_client_command_with_opts(mongoc_client_t *client, const char *database,
                                            const bson_t *command, const mongoc_read_prefs_t *prefs,
                                            const bson_t *opts, bson_t *reply, bson_error_t *error);
bool __wrap_mongoc_client_command_simple_with_server_id(mongoc_client_t *client,
                                                        const char *database, const bson_t *command,
                                                        const mongoc_read_prefs_t *prefs,
                                                        uint32_t server, bson_t *reply,
                                                        bson_error_t *error);
mongoc_client_session_t *__wrap_mongoc_client_start_session(mongoc_client_t *client,
                                                            const mongoc_session_opt_t *opts,
                                                            bson_error_t *error);
bool __wrap_mongoc_client_session_append(const mongoc_client_session_t *session, bson_t *opts,
                                         bson_error_t *error);
void __wrap_mongoc_client_session_destroy(mongoc_client_session_t *session);

bool __wrap_mongoc_client_command_simple(mongoc_client_t *client, const char *database,
                                         const bson_t *command, const mongoc_read_prefs_t *prefs,
                                         bson_t *reply, bson_error_t *error)
{
    (void)prefs;
    tell_of(client, database, command, NULL);
    return answer_command(command, reply, error);
}

bool __wrap_mongoc_client_command_with_opts(mongoc_client_t *client, const char *database,
                                            const bson_t *command, const mongoc_read_prefs_t *prefs,
                                            const bson_t *opts, bson_t *reply, bson_error_t *error)
{
    (void)prefs;
    tell_of(client, database, command, opts);
    return answer_command(command, reply, error);
}

bool __wrap_mongoc_client_command_simple_with_server_id(mongoc_client_t *client,
                                                        const char *database, const bson_t *command,
                                                        const mongoc_read_prefs_t *prefs,
                                                        uint32_t server, bson_t *reply,
                                                        bson_error_t *error)
{
    (void)prefs, (void)server;
    tell_of(client, database, command, NULL);
    return answer_command(command, reply, error);
}

/* A session that is only carried about. */
static char session;

mongoc_client_session_t *__wrap_mongoc_client_start_session(mongoc_client_t *client,
                                                            const mongoc_session_opt_t *opts,
                                                            bson_error_t *error)
{
    (void)client, (void)opts, (void)error;
    n_pieces++; /* it is to be ended, and once */
    return (mongoc_client_session_t *)&session;
}

bool __wrap_mongoc_client_session_append(const mongoc_client_session_t *of, bson_t *opts,
                                         bson_error_t *error)
{
    (void)error;
    assert_ptr_equal(of, &session);
    return BSON_APPEND_UTF8(opts, "session", "that of the listener");
}

void __wrap_mongoc_client_session_destroy(mongoc_client_session_t *of)
{
    assert_ptr_equal(of, &session);
    n_pieces--;
}

/* ---- The members that the doctor asks for their clocks ---- */

mongoc_server_description_t **
__wrap_mongoc_client_get_server_descriptions(const mongoc_client_t *client, size_t *n);
void __wrap_mongoc_server_descriptions_destroy_all(mongoc_server_description_t **all, size_t n);
uint32_t __wrap_mongoc_server_description_id(const mongoc_server_description_t *server);
mongoc_host_list_t *__wrap_mongoc_server_description_host(const mongoc_server_description_t *of);

static mongoc_host_list_t hosts[] = {
    {.host_and_port = "a:27017"}, {.host_and_port = "b:27017"}, {.host_and_port = "c:27017"}};

mongoc_server_description_t **
__wrap_mongoc_client_get_server_descriptions(const mongoc_client_t *client, size_t *n)
{
    static mongoc_server_description_t *all[3];
    (void)client;
    n_pieces++; /* the list is one, too */
    *n = sizeof hosts / sizeof *hosts;
    for (size_t i = 0; i < *n; i++)
        all[i] = (mongoc_server_description_t *)(void *)&hosts[i];
    return all;
}

void __wrap_mongoc_server_descriptions_destroy_all(mongoc_server_description_t **all, size_t n)
{
    (void)all;
    assert_int_equal(n, sizeof hosts / sizeof *hosts);
    n_pieces--;
}

uint32_t __wrap_mongoc_server_description_id(const mongoc_server_description_t *server)
{
    return (uint32_t)((const mongoc_host_list_t *)(const void *)server - hosts);
}

mongoc_host_list_t *__wrap_mongoc_server_description_host(const mongoc_server_description_t *of)
{
    return &hosts[__wrap_mongoc_server_description_id(of)];
}

/* ---- Cursors: the answer to "list" has all documents of one ---- */

mongoc_cursor_t *__wrap_mongoc_collection_find_with_opts(mongoc_collection_t *collection,
                                                         const bson_t *filter, const bson_t *opts,
                                                         const mongoc_read_prefs_t *prefs);
mongoc_cursor_t *__wrap_mongoc_collection_aggregate(mongoc_collection_t *collection,
                                                    mongoc_query_flags_t flags,
                                                    const bson_t *pipeline, const bson_t *opts,
                                                    const mongoc_read_prefs_t *prefs);
bool __wrap_mongoc_cursor_next(mongoc_cursor_t *cursor, const bson_t **doc);
bool __wrap_mongoc_cursor_error_document(mongoc_cursor_t *cursor, bson_error_t *error,
                                         const bson_t **reply);
void __wrap_mongoc_cursor_destroy(mongoc_cursor_t *cursor);

static struct {
    bson_t reply, batch, doc;
    bson_iter_t it;
    bson_error_t error;
    bool is_well, has_batch;
} listed;

static mongoc_cursor_t *list(mongoc_collection_t *collection, const bson_t *filter,
                             const bson_t *opts, const mongoc_read_prefs_t *prefs)
{
    bson_t command = BSON_INITIALIZER;
    char where[100];
    BSON_APPEND_DOCUMENT(&command, "list", filter);
    snprintf(where, sizeof where, "%s%s", mongoc_collection_get_name(collection),
             mongoc_read_prefs_get_mode(prefs) == MONGOC_READ_PRIMARY ? ", primary" : "");
    if (told)
        told(where, &command, opts);
    listed.is_well = answer_command(&command, &listed.reply, &listed.error);
    listed.has_batch = mongo_view(&listed.reply, "docs", &listed.batch) &&
                       bson_iter_init(&listed.it, &listed.batch);
    bson_destroy(&command);
    return (mongoc_cursor_t *)(void *)&listed;
}

mongoc_cursor_t *__wrap_mongoc_collection_find_with_opts(mongoc_collection_t *collection,
                                                         const bson_t *filter, const bson_t *opts,
                                                         const mongoc_read_prefs_t *prefs)
{
    return list(collection, filter, opts, prefs);
}

mongoc_cursor_t *__wrap_mongoc_collection_aggregate(mongoc_collection_t *collection,
                                                    mongoc_query_flags_t flags,
                                                    const bson_t *pipeline, const bson_t *opts,
                                                    const mongoc_read_prefs_t *prefs)
{
    (void)flags;
    return list(collection, pipeline, opts, prefs);
}

bool __wrap_mongoc_cursor_next(mongoc_cursor_t *cursor, const bson_t **doc)
{
    assert_ptr_equal(cursor, &listed);
    *doc = &listed.doc;
    return listed.has_batch && mongo_next(&listed.it, &listed.doc);
}

bool __wrap_mongoc_cursor_error_document(mongoc_cursor_t *cursor, bson_error_t *error,
                                         const bson_t **reply)
{
    assert_ptr_equal(cursor, &listed);
    *error = listed.error;
    *reply = &listed.reply;
    return !listed.is_well;
}

void __wrap_mongoc_cursor_destroy(mongoc_cursor_t *cursor)
{
    assert_ptr_equal(cursor, &listed);
    bson_destroy(&listed.reply);
}
