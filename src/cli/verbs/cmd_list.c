/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_list.c: the verbs list and show: the holders and waiters of locks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/settings/options.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "show/board.h"
#include "show/json.h"
#include "show/text.h"
#include "verbs.h"

typedef struct request {
    settings *given;
    const char *name; /* the prefix, or the lock */
    const char *lock_session;
    bool names_only, all, is_full;
} request;

enum { KEY_NAMES = 2000, KEY_LOCK_SESSION };

#define ROWS_AT_ONCE 1000 /* so that a list of very many locks needs no more memory */

static const struct argp_option list[] = {
    {"all", 'a', NULL, 0, "also those that nobody holds or waits for", 0},
    {"full", 'l', NULL, 0, "do not cut what is wider than the terminal", 0},
    {"names", KEY_NAMES, NULL, 0, "only their names, a line each", 0},
    {"lock-session", KEY_LOCK_SESSION, "ID", 0,
     "protocol sharding: only those that were last taken with this lock session id", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    request *req = state->input;
    options_inherit(key, state, req->given);
    if (key != ARGP_KEY_ARG)
        return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
    options_take(&req->name, arg, "name", state);
    return 0;
}

static error_t parse_list(int key, char *arg, struct argp_state *state)
{
    request *req = state->input;
    if (key == ARGP_KEY_END && req->names_only && req->given->is_json)
        argp_error(state, "--names and --json exclude each other");
    if (key == KEY_LOCK_SESSION)
        req->lock_session = arg;
    else if (key != KEY_NAMES && key != 'a' && key != 'l')
        return parse(key, arg, state);
    req->names_only |= key == KEY_NAMES;
    req->is_full |= key == 'l';
    req->all |= key == 'a';
    return 0;
}

static error_t parse_show(int key, char *arg, struct argp_state *state)
{
    request *req = state->input;
    if (key == ARGP_KEY_END && !req->name)
        argp_error(state, "which lock? Give its name");
    return parse(key, arg, state);
}

const struct argp list_argp = {list,
                               parse_list,
                               "[PREFIX]",
                               "Lists the locks that are in use and whose name begins with PREFIX: "
                               "who holds them, who waits. A "
                               "lock with just that name is listed even if nobody uses it.",
                               options_children,
                               NULL,
                               NULL};

const struct argp show_argp = {
    NULL,
    parse_show,
    "NAME",
    "Shows one lock: its holders, its queue, and how it was left before.",
    options_children,
    NULL,
    NULL};

/* ---- list ---- */

/* "-", "exclusive", "shared", "2 of 3" */
static char *use_of(const hf_lock_info *info)
{
    int64_t used = 0;
    for (size_t i = 0; i < info->n_holders; i++)
        used += info->holders[i].permits;
    if (used == 0)
        return text_copy("-");
    if (info->limit == HF_LIMIT_RW)
        return text_copy(used == HF_LIMIT_RW ? "exclusive" : "shared");
    return text_print("%" PRId64 " of %" PRId32, used, info->limit);
}

static const char *who_of(const hf_entry_info *entry)
{
    return *entry->who ? entry->who : "(session gone)";
}

/* Of several holders one is shown: the one whose lease has been over for longest, else the first.
 * NULL: nobody holds it. */
static const hf_entry_info *shown_of(const hf_lock_info *info)
{
    const hf_entry_info *shown = info->n_holders ? &info->holders[0] : NULL;
    for (size_t i = 0; i < info->n_holders; i++) {
        int64_t left_ms = info->holders[i].lease_left_ms;
        if (left_ms < 0 && left_ms < shown->lease_left_ms)
            shown = &info->holders[i];
    }
    return shown;
}

static char *holder_of(const hf_lock_info *info, const hf_entry_info *shown)
{
    static const char *const left[] = {[HF_OUTCOME_NONE] = "-",
                                       [HF_OUTCOME_RELEASED] = "- (released)",
                                       [HF_OUTCOME_ABANDONED] = "- (abandoned)"};
    if (!shown)
        return text_copy(left[info->last.outcome]);
    if (info->n_holders == 1)
        return text_copy(who_of(shown));
    return text_print("%s and %zu more", who_of(shown), info->n_holders - 1);
}

static void add_row(table *rows, const hf_lock_info *info)
{
    const hf_entry_info *shown = shown_of(info);
    int64_t token = shown && shown->token ? shown->token : info->token;
    table_add(rows, text_copy(info->name));
    table_add(rows, use_of(info));
    table_add(rows, holder_of(info, shown));
    table_add(rows, shown && board_since(shown) ? text_when(board_since(shown)) : text_copy("-"));
    table_add(rows, shown ? text_lease(shown->lease_left_ms) : text_copy("-"));
    table_add(rows, text_print("%zu", info->n_queue + info->n_outside));
    table_add(rows, token ? text_print("%" PRId64, token) : text_copy("-"));
    table_add(rows, text_copy(shown ? shown->why : ""));
}

typedef struct listing {
    const request *req;
    table rows;
    size_t columns; /* of the terminal; 0: there is none */
    totals totals;
} listing;

/* People may look at another store than they think. */
static void print_store(const listing *l)
{
    char *store = options_store_shown(l->req->given);
    char *line = text_print("store: %s", store), *shown = text_escape(line);
    char *cut = l->req->is_full ? text_copy(shown) : text_shorten_middle(shown, l->columns);
    puts(cut);
    free(cut);
    free(shown);
    free(line);
    free(store);
}

/* In place of a table without rows. */
static void say_none(const request *req)
{
    char *store = options_store_shown(req->given);
    char *begin =
        req->name ? text_print(" whose name begins with \"%s\"", req->name) : text_copy("");
    if (req->all)
        terminal_warn("there is no lock%s in %s", begin, store);
    else
        terminal_warn("no lock%s is held or waited for in %s", begin, store);
    free(begin);
    free(store);
}

/* As the page and the screen of `watch` count them. */
static void print_totals(const listing *l)
{
    char *counts = board_totals(&l->totals);
    puts(counts);
    free(counts);
}

static void print_rows(listing *l)
{
    bool is_first = !l->rows.has_begun, is_empty = l->rows.n_cells == l->rows.n_columns;
    if (l->columns && is_first && is_empty) {
        say_none(l->req);
        return;
    }
    if (l->columns && is_first)
        print_store(l);
    table_print(&l->rows);
}

static bool print_row(void *ctx, const hf_lock_info *info)
{
    listing *l = ctx;
    add_row(&l->rows, info);
    if (board_is_overdue(info) && terminal_has_colours(STDOUT_FILENO))
        table_mark(&l->rows);
    board_count(&l->totals, info);
    if (l->rows.n_cells >= ROWS_AT_ONCE * l->rows.n_columns)
        print_rows(l);
    return true;
}

/* Gives the lock that has just this name. */
typedef struct exact {
    const char *name;
    hf_lock_info_fn each;
    void *ctx;
} exact;

static bool give_exact(void *ctx, const hf_lock_info *info)
{
    const exact *e = ctx;
    return strcmp(info->name, e->name) == 0 && e->each(e->ctx, info);
}

/* A lock that was asked for by its whole name is shown even if nobody uses it. It comes first, as
 * its name is the first that begins so. */
static hf_code list_exact(hf_client *client, const request *req, hf_lock_info_fn each, void *ctx,
                          hf_error *err)
{
    exact e = {req->name, each, ctx};
    const hf_list_options part = {.struct_size = sizeof part,
                                  .prefix = req->name,
                                  .limit = 1,
                                  .lock_session = req->lock_session};
    return hf_list_locks(client, &part, give_exact, &e, err);
}

static hf_code list_locks(hf_client *client, const request *req, hf_lock_info_fn each, void *ctx,
                          hf_error *err)
{
    bool is_exact = !req->all && req->name && *req->name;
    const hf_list_options part = {.struct_size = sizeof part,
                                  .prefix = req->name,
                                  .after = is_exact ? req->name : NULL,
                                  .in_use = !req->all,
                                  .lock_session = req->lock_session};
    hf_code code = is_exact ? list_exact(client, req, each, ctx, err) : HF_OK;
    return code ? code : hf_list_locks(client, &part, each, ctx, err);
}

static hf_code list_table(hf_client *client, const request *req, hf_error *err)
{
    static const char *const heads[] = {"NAME",    "USE",   "HELD BY", "SINCE", "LEASE",
                                        "WAITING", "TOKEN", "WHY",     NULL};
    static const table_cut cuts[] = {CUT_MIDDLE,  CUT_NOTHING, CUT_MIDDLE, CUT_NOTHING,
                                     CUT_NOTHING, CUT_NOTHING, CUT_ALL,    CUT_END};
    listing l = {.req = req, .columns = terminal_columns(STDOUT_FILENO)};
    table_init(&l.rows, heads);
    if (!req->is_full)
        table_fit(&l.rows, l.columns, cuts);
    hf_code code = list_locks(client, req, print_row, &l, err);
    if (!code)
        print_rows(&l);
    if (!code && l.columns && l.totals.overdue)
        print_totals(&l);
    table_done(&l.rows);
    return code;
}

/* Prints them as they come, so that nobody waits for the last of very many. */
static bool print_item(void *ctx, const hf_lock_info *info)
{
    const char **before = ctx;
    json_t *lock = json_of_lock(info);
    fputs(*before, stdout);
    json_write(lock);
    json_decref(lock);
    *before = ",";
    return true;
}

static hf_code list_json(hf_client *client, const request *req, hf_error *err)
{
    const char *before = "[";
    hf_code code = list_locks(client, req, print_item, &before, err);
    if (!code)
        puts(*before == '[' ? "[]" : "]");
    return code;
}

static bool print_name(void *ctx, const hf_lock_info *info)
{
    (void)ctx;
    char *shown = text_escape(info->name);
    puts(shown);
    free(shown);
    return true;
}

static hf_code list_names(hf_client *client, const request *req, hf_error *err)
{
    return list_locks(client, req, print_name, NULL, err);
}

/* ---- show ---- */

static void print_line(const char *head, const char *text)
{
    char *shown = text_escape(text);
    printf("%-9s%s\n", head, shown);
    free(shown);
}

static char *permits_of(const hf_lock_info *info, const hf_entry_info *entry)
{
    if (info->limit != HF_LIMIT_RW)
        return text_print("%" PRId32 " of %" PRId32, entry->permits, info->limit);
    return text_copy(entry->permits == HF_LIMIT_RW ? "exclusive" : "shared");
}

/* ", since 14:03:12 (2m10s)"; "" if it is not known, as with locks of other programs. */
static char *since_of(const hf_entry_info *entry)
{
    int64_t ms = board_since(entry);
    if (!ms)
        return text_copy("");
    char *since = text_when(ms), *age = text_duration(text_now_ms() - ms);
    char *line = text_print(", since %s (%s)", since, age);
    free(age);
    free(since);
    return line;
}

/* "holder   cron@web1:4711, exclusive, since 14:03:12 (2m10s), lease 8s, token 17: nightly" */
static void print_entry(const char *head, const hf_lock_info *info, const hf_entry_info *entry)
{
    char *permits = permits_of(info, entry);
    char *since = since_of(entry);
    char *left = text_lease(entry->lease_left_ms);
    char *token = text_token(entry->token);
    char *place = entry->position ? text_print("%zu. ", entry->position) : text_copy("");
    char *who = text_holder(who_of(entry), entry->actor);
    char *line = text_print("%s%s, %s%s, lease %s%s, session %s%s%s", place, who, permits, since,
                            left, token, entry->session, *entry->why ? ": " : "", entry->why);
    print_line(head, line);
    free(line);
    free(who);
    free(place);
    free(token);
    free(left);
    free(since);
    free(permits);
}

/* ", period 2026-01-02 00:00:00 to 2026-01-03 00:00:00" */
static char *period_of(int64_t start_ms, int64_t end_ms)
{
    if (!end_ms)
        return text_copy("");
    char *start = text_when(start_ms), *end = text_when(end_ms);
    char *out = text_print(", period %s to %s", start, end);
    free(end);
    free(start);
    return out;
}

static const char *known(const char *who)
{
    return *who ? who : "(unknown)";
}

static void print_last(const hf_last *last)
{
    if (last->outcome == HF_OUTCOME_NONE)
        return;
    char *when = text_when(last->at_ms);
    char *status =
        last->has_exit_status ? text_print(", exit status %d", last->exit_status) : text_copy("");
    char *period = period_of(last->period_start_ms, last->period_end_ms);
    char *token = text_token(last->token);
    char *line = text_print(
        "%s by %s at %s%s%s%s%s%s", last->outcome == HF_OUTCOME_RELEASED ? "released" : "abandoned",
        known(last->who), when, token, status, period, *last->reason ? ": " : "", last->reason);
    print_line("last", line);
    free(line);
    free(token);
    free(period);
    free(status);
    free(when);
}

/* Whether the last holder was the one that finished its work; tokens are 0 where there are none. */
static bool is_done_by_last(const hf_last *last)
{
    return last->token ? last->done.token == last->token : last->done.at_ms == last->at_ms;
}

/* Where the last holder has not said it. */
static void print_done(const hf_last *last)
{
    const hf_done *done = &last->done;
    if (!done->who || is_done_by_last(last))
        return;
    char *token = text_token(done->token);
    char *when = text_when(done->at_ms);
    char *period = period_of(done->period_start_ms, done->period_end_ms);
    char *line = text_print("by %s at %s%s, exit status %d%s", known(done->who), when, token,
                            done->exit_status, period);
    print_line("done", line);
    free(line);
    free(token);
    free(period);
    free(when);
}

/* The protocols of other programs know no shared locks. */
static char *limit_of(const hf_client *client, const hf_lock_info *info)
{
    if (info->limit != HF_LIMIT_RW)
        return text_print("%" PRId32 " permits", info->limit);
    return text_copy(strcmp(hf_client_protocol(client), "queue") == 0
                         ? "none: one exclusive holder, or any number of shared ones"
                         : "one holder");
}

static bool print_lock(void *client, const hf_lock_info *info)
{
    char *token = info->token ? text_print("%" PRId64, info->token) : text_copy("none given");
    char *limit = limit_of(client, info);
    print_line("name", info->name);
    print_line("limit", limit);
    print_line("token", token);
    for (size_t i = 0; i < info->n_holders; i++)
        print_entry("holder", info, &info->holders[i]);
    for (size_t i = 0; i < info->n_queue; i++)
        print_entry("waiting", info, &info->queue[i]);
    if (info->n_outside) {
        char *more = text_print("%zu more, at most: some may have given up", info->n_outside);
        print_line("waiting", more);
        free(more);
    }
    print_last(&info->last);
    print_done(&info->last);
    free(limit);
    free(token);
    return true;
}

static hf_code show_text(hf_client *client, const request *req, hf_error *err)
{
    return hf_show(client, req->name, print_lock, client, err);
}

static bool print_json(void *ctx, const hf_lock_info *info)
{
    (void)ctx;
    json_t *lock = json_of_lock(info);
    json_print(lock);
    json_decref(lock);
    return true;
}

static hf_code show_json(hf_client *client, const request *req, hf_error *err)
{
    return hf_show(client, req->name, print_json, NULL, err);
}

/* ---- both ---- */

typedef hf_code print_fn(hf_client *client, const request *req, hf_error *err);

static int answer(const request *req, print_fn *print)
{
    hf_client *client = NULL;
    hf_error err = {0};
    int status = options_open(req->given, NULL, &client);
    if (status)
        return status;
    hf_code code = print(client, req, &err);
    if (code)
        terminal_error("%s", err.text);
    hf_close(client);
    return hf_code_exit(code);
}

int cmd_list(settings *given, int argc, char **argv)
{
    request req = {.given = given};
    argp_parse(&list_argp, argc, argv, 0, NULL, &req);
    return answer(&req, req.names_only ? list_names : given->is_json ? list_json : list_table);
}

int cmd_show(settings *given, int argc, char **argv)
{
    request req = {.given = given};
    argp_parse(&show_argp, argc, argv, 0, NULL, &req);
    return answer(&req, given->is_json ? show_json : show_text);
}
