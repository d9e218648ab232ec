/* SPDX-License-Identifier: Apache-2.0 */
/* document.c: `holdfast run --document`: takes a user's document, or one after the other, and hands
 * it to the command; the verb run calls it. */
#include "document.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/terminal/terminal.h"
#include "show/json.h"
#include "show/text.h"

/* ---- The words ---- */

enum { KEY_DOCUMENT = 3000, KEY_ID, KEY_ELEMENT, KEY_FILTER, KEY_SORT, KEY_EACH };

static const struct argp_option list[] = {
    {NULL, 0, NULL, 0, "Instead of names, documents of your own in MongoDB:", 50},
    {"document", KEY_DOCUMENT, "COLLECTION", 0,
     "lock a document of this collection, and give it to the command as one line of JSON", 50},
    {"id", KEY_ID, "JSON", 0, "the one with this _id", 50},
    {"element", KEY_ELEMENT, "ARRAY.KEY[=JSON]", 0,
     "not the whole document, but an element of this array: with --id the one that has this KEY",
     50},
    {"filter", KEY_FILTER, "JSON", 0, "the first free one that matches; default: {}", 50},
    {"sort", KEY_SORT, "JSON", 0, "which one is the first; default: any", 50},
    {"each", KEY_EACH, NULL, 0, "one after the other, each once, until none matches", 50},
    {NULL, 0, NULL, 0, NULL, 0},
};

/* lines.id=7 */
static void read_element(const char *arg, document_words *w)
{
    size_t n = strcspn(arg, "=");
    w->element = text_print("%.*s", (int)n, arg);
    w->key = arg[n] ? arg + n + 1 : NULL;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    document_words *w = state->input;
    switch (key) {
    case KEY_DOCUMENT:
        w->collection = arg;
        return 0;
    case KEY_ID:
        w->id = arg;
        return 0;
    case KEY_ELEMENT:
        read_element(arg, w);
        return 0;
    case KEY_FILTER:
        w->filter = arg;
        return 0;
    case KEY_SORT:
        w->sort = arg;
        return 0;
    case KEY_EACH:
        w->is_each = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp document_argp = {list, parse, NULL, NULL, NULL, NULL, NULL};

void document_check_usage(const document_words *w, size_t n_names, bool is_exclusive,
                          struct argp_state *state)
{
    if (!w->collection && (w->id || w->element || w->filter || w->sort || w->is_each))
        argp_error(state, "--id, --element, --filter, --sort and --each belong to --document");
    if (!w->collection)
        return;
    if (n_names)
        argp_error(state, "--document takes a document instead of names");
    if (!is_exclusive)
        argp_error(state, "a document is held by one at a time: no -s, no --permits");
    if (w->id && (w->filter || w->sort || w->is_each))
        argp_error(state, "--id says which document it is: no --filter, --sort or --each");
    if (w->id && w->element && !w->key)
        argp_error(state, "--id with --element says which element it is: --element %s=JSON",
                   w->element);
    if (!w->id && w->key)
        argp_error(state,
                   "--element %s=%s says which element it is, but not of which document: "
                   "give --id, too, or claim any with --element %s and --filter",
                   w->element, w->key, w->element);
}

/* ---- Taking it ---- */

/* JSON as it is; any other text as a string. */
static json_t *value_of(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    return value ? value : json_string(text);
}

/* The name of the document's lock, or of the element's: ["A17",7]; in new memory. */
static char *name_of(const document_words *w)
{
    if (!w->element)
        return text_copy(w->id);
    json_t *both = json_pack("[oo]", value_of(w->id), value_of(w->key));
    char *name = json_dumps(both, JSON_COMPACT);
    json_decref(both);
    return name ? name : text_copy("");
}

static hf_code take_named(const document_words *w, hf_client *client,
                          const hf_lock_options *options, hf_lock **out, hf_error *err)
{
    char *name = name_of(w);
    hf_code code = hf_document_acquire(client, name, options, out, err);
    free(name);
    return code;
}

hf_code document_take(const plan *p, hf_client *client, const hf_lock_options *options,
                      hf_lock **out, hf_error *err)
{
    const document_words *w = p->document;
    const document_round *round = p->round;
    if (w->id)
        return take_named(w, client, options, out, err);
    const char *filter = round && round->filter ? round->filter : w->filter;
    return hf_document_claim(client, filter, w->sort, options, out, err);
}

/* ---- Handing it over ---- */

static bool write_line(int fd, const char *text)
{
    const char end[] = "\n";
    size_t left = strlen(text);
    while (left) {
        ssize_t n = write(fd, text, left);
        if (n < 0)
            return false;
        text += n;
        left -= (size_t)n;
    }
    return write(fd, end, 1) == 1 && lseek(fd, 0, SEEK_SET) == 0;
}

int document_input(const hf_lock *lock)
{
    const char *document = hf_lock_document(lock);
    int fd = memfd_create("document", MFD_CLOEXEC);
    if (fd >= 0 && write_line(fd, document ? document : "null"))
        return fd;
    terminal_error("cannot hand the document over: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* ---- --each ---- */

/* To a query: the value at a path of one or two steps. */
static void add_equal(json_t *query, const json_t *whole, const char *path)
{
    const char *dot = strchr(path, '.');
    char *first = text_print("%.*s", (int)strcspn(path, "."), path);
    json_t *value = json_object_get(whole, first);
    value = dot ? json_object_get(value, dot + 1) : value;
    json_object_set_new(query, path, value ? json_incref(value) : json_null());
    free(first);
}

/* A query for it, as JSON in new memory. */
static char *query_of(const plan *p, const hf_lock *lock)
{
    const char *document = hf_lock_document(lock);
    json_t *whole = document ? json_loads(document, JSON_ALLOW_NUL, NULL) : NULL;
    json_t *query = json_object();
    add_equal(query, whole, "_id");
    if (p->document->element)
        add_equal(query, whole, p->document->element);
    char *text = json_dumps(query, JSON_COMPACT);
    json_decref(query);
    json_decref(whole);
    return text ? text : text_copy("{}");
}

static char *joined_queries(const document_round *round)
{
    char *all = text_copy("");
    for (size_t i = 0; i < round->n; i++) {
        if (!round->is_out[i])
            continue;
        char *longer = text_print("%s%s%s", all, *all ? "," : "", round->had[i]);
        free(all);
        all = longer;
    }
    return all;
}

static void leave_out(document_round *round, const plan *p, size_t i)
{
    const char *filter = p->document->filter;
    round->is_out[i] = true;
    char *queries = joined_queries(round);
    free(round->filter);
    round->filter = text_print("{\"$and\":[%s,{\"$nor\":[%s]}]}", filter ? filter : "{}", queries);
    free(queries);
}

static size_t find(const document_round *round, const char *query)
{
    size_t i = 0;
    while (i < round->n && strcmp(round->had[i], query))
        i++;
    return i;
}

static void add(document_round *round, char *query)
{
    size_t n = round->n + 1;
    char **had = text_alloc(n * sizeof *had);
    bool *is_out = text_alloc(n * sizeof *is_out);
    for (size_t i = 0; i < round->n; i++) {
        had[i] = round->had[i];
        is_out[i] = round->is_out[i];
    }
    had[round->n] = query;
    is_out[round->n] = false;
    free(round->had);
    free(round->is_out);
    *round = (document_round){had, is_out, n, round->filter};
}

bool document_is_new(document_round *round, const plan *p, const hf_lock *lock)
{
    char *query = query_of(p, lock);
    size_t i = find(round, query);
    if (i == round->n) {
        add(round, query);
        return true;
    }
    free(query);
    leave_out(round, p, i);
    return false;
}

void document_failed(document_round *round, const plan *p, const hf_lock *lock)
{
    char *query = query_of(p, lock);
    size_t i = find(round, query);
    if (i < round->n)
        leave_out(round, p, i);
    free(query);
}

void document_round_done(document_round *round)
{
    for (size_t i = 0; i < round->n; i++)
        free(round->had[i]);
    free(round->had);
    free(round->is_out);
    free(round->filter);
}
