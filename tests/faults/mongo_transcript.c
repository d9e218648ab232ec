/* SPDX-License-Identifier: Apache-2.0 */
/* mongo_transcript.c: documents are written with one field a line where they are long. Of a
 * pipeline's text, which stands in the sources and is judged by tests/differential, only its hash
 * is written: it shows that another one is sent. */
#include "faults/mongo_transcript.h"
#include "core/id.h"

#define WIDTH 100
#define COMMANDS_MAX 100
#define LONG_TEXT 600 /* bytes of an expression that is written by its hash */

static FILE *transcript; /* in memory that the store's answers do not count */
static char *whole;
static size_t length;

/* ---- Documents ---- */

/* The value as JSON on one line; bson_free() it. */
static char *flat(const bson_iter_t *it)
{
    static const char before[] = "{ \"\" : ";
    bson_t doc = BSON_INITIALIZER;
    bson_append_iter(&doc, "", 0, it);
    char *json = answers_json(&doc);
    bson_destroy(&doc);
    json[strlen(json) - 2] = '\0';
    memmove(json, json + sizeof before - 1, strlen(json + sizeof before - 1) + 1);
    return json;
}

static void write_fields(bson_iter_t *it, size_t indent, bool has_keys);

static void write_value(const bson_iter_t *it, size_t indent)
{
    bson_iter_t inner;
    char *json = flat(it);
    bool is_list = BSON_ITER_HOLDS_ARRAY(it);
    bool is_text = strcmp(bson_iter_key(it), "in") == 0 && strlen(json) > LONG_TEXT;
    bool is_plain = !is_list && !BSON_ITER_HOLDS_DOCUMENT(it);
    if (is_text) {
        fprintf(transcript, "(%zu bytes, %016llx)", strlen(json),
                (unsigned long long)id_hash(ID_HASH, json, strlen(json)));
    } else if (is_plain || indent + strlen(bson_iter_key(it)) + strlen(json) < WIDTH) {
        fputs(json, transcript);
    } else {
        assert_true(bson_iter_recurse(it, &inner));
        fputs(is_list ? "[\n" : "{\n", transcript);
        write_fields(&inner, indent + 2, !is_list);
        fprintf(transcript, "%*s%s", (int)indent, "", is_list ? "]" : "}");
    }
    bson_free(json);
}

static void write_fields(bson_iter_t *it, size_t indent, bool has_keys)
{
    while (bson_iter_next(it)) {
        fprintf(transcript, "%*s", (int)indent, "");
        if (has_keys)
            fprintf(transcript, "\"%s\" : ", bson_iter_key(it));
        write_value(it, indent);
        fputs("\n", transcript);
    }
}

static void write_document(const bson_t *doc)
{
    bson_iter_t it;
    assert_true(bson_iter_init(&it, doc));
    write_fields(&it, 4, true);
}

/* ---- Commands, each with a number ---- */

static uint64_t known[COMMANDS_MAX];
static int n_known;

/* That of the first one which was the same. */
static int number_of(const bson_t *command)
{
    const uint8_t *data = bson_get_data(command);
    uint32_t size; /* a document begins with it; the bson_t of a cursor's may not be aligned */
    memcpy(&size, data, sizeof size);
    uint64_t hash = id_hash(ID_HASH, data, BSON_UINT32_FROM_LE(size));
    int i = 0;
    while (i < n_known && known[i] != hash)
        i++;
    assert_in_range(i, 0, COMMANDS_MAX - 1);
    known[i] = hash;
    return i;
}

static void note_command(const char *where, const bson_t *command, const bson_t *opts)
{
    int number = number_of(command);
    bool is_new = number == n_known;
    fprintf(transcript, "%s #%d%s\n", where, number, is_new ? "" : " again");
    if (is_new)
        write_document(command);
    n_known += is_new;
    if (opts) {
        fprintf(transcript, "  with\n");
        write_document(opts);
    }
}

/* ---- What calls give back ---- */

void transcript_say(const char *format, ...)
{
    char text[2000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(transcript, "%s\n", text);
}

void transcript_code(hf_code code, const hf_error *err)
{
    transcript_say("-> %s%s%s", hf_code_name(code), code ? ": " : "", code ? err->text : "");
    if (code)
        assert_int_equal(err->code, code);
}

static const char *text_of(hf_id id)
{
    static char texts[4][ID_TEXT_SIZE];
    static int next;
    char *text = texts[next++ % 4];
    id_write(id, text);
    text[8] = '\0';
    return text;
}

static void write_entry(const char *what, const hf_entry *entry)
{
    transcript_say("     %s %s of %s, ttl %d, permits %d, token %lld, since %lld, granted at %lld, "
                   "block %d%s, why \"%s\", actor \"%s\"",
                   what, text_of(entry->ticket), text_of(entry->session), entry->ttl_ms,
                   entry->permits, (long long)entry->token, (long long)entry->since.ms,
                   (long long)entry->granted_at.ms, entry->block, entry->yields ? ", yields" : "",
                   entry->why, entry->actor);
}

void transcript_record(const hf_record *record)
{
    transcript_say("   \"%s\"%s: limit %d, token %lld, %zu holders, %zu queued, notify \"%s\", who "
                   "\"%s\", left %lld",
                   record->name, record->exists ? "" : ", which is not there", record->limit,
                   (long long)record->token, record->holders, record->queued,
                   record->notify ? record->notify : "", record->who ? record->who : "",
                   (long long)record->lease_left_ms);
    for (size_t i = 0; i < record->holders + record->queued; i++)
        write_entry(i < record->holders ? "holds:" : "waits:", &record->entries[i]);
    if (record->document)
        transcript_say("     %s", record->document);
}

void transcript_reply(const hf_step_reply *reply)
{
    transcript_say("   %s, again in %lld, stamp %lld.%d",
                   reply->confirmed ? "confirmed" : "not confirmed", (long long)reply->again_ms,
                   (long long)(reply->stamp.value >> 32), (int)(uint32_t)reply->stamp.value);
    if (reply->is_out)
        transcript_say("   it certainly has not entered");
    const hf_overtaken *overtaken = &reply->overtaken;
    if (!id_is_zero(overtaken->entry.ticket))
        transcript_say("   overtaken: %s of \"%s\", why \"%s\", granted %lld",
                       text_of(overtaken->entry.ticket), overtaken->who, overtaken->entry.why,
                       (long long)overtaken->entry.granted_at.ms);
}

void transcript_state(const hf_session_state *state)
{
    static const char *const presences[] = {"missing", "live", "dead"};
    const hf_session *session = &state->session;
    transcript_say("   session %s is %s%s%s: beat %lld, left %lld, ttl %d, pid %lld, started %lld, "
                   "app \"%s\", host \"%s\"",
                   text_of(session->id), presences[state->presence], state->is_gone ? ", gone" : "",
                   state->misses ? ", misses some" : "", (long long)state->beat,
                   (long long)state->lease_left_ms, session->ttl_ms, (long long)session->pid,
                   (long long)session->started_at.ms, session->app, session->host);
    for (size_t i = 0; i < state->n_asked; i++)
        transcript_say("     asked for %s by \"%s\": \"%s\"", text_of(state->asked[i].ticket),
                       state->asked[i].by, state->asked[i].reason);
}

/* ---- The file ---- */

void transcript_begin(void)
{
    transcript = open_memstream(&whole, &length);
    assert_non_null(transcript);
    n_known = 0;
    answers_tell(note_command);
}

static void write_file(const char *path)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(whole, file);
    assert_int_equal(fclose(file), 0);
}

static char *read_file(const char *path)
{
    static char text[1 << 18];
    FILE *file = fopen(path, "re");
    if (!file)
        fail_msg("%s is missing: HOLDFAST_TEST_WRITE=1 writes it", path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* Fails with the first line that differs. */
static void compare(const char *path, const char *expected, const char *is)
{
    int line = 1;
    const char *begin[2] = {expected, is};
    for (; *expected && *expected == *is; expected++, is++)
        if (*expected == '\n') {
            line++;
            begin[0] = expected + 1;
            begin[1] = is + 1;
        }
    if (*expected != *is)
        fail_msg("%s:%d\nexpected: %.*s\n      is: %.*s", path, line, (int)strcspn(begin[0], "\n"),
                 begin[0], (int)strcspn(begin[1], "\n"), begin[1]);
}

void transcript_end(const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s.txt", GOLDEN_SENT, name);
    answers_tell(NULL);
    assert_int_equal(fclose(transcript), 0);
    if (getenv("HOLDFAST_TEST_WRITE"))
        write_file(path);
    else
        compare(path, read_file(path), whole);
    free(whole);
}
