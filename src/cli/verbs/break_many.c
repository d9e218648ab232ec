/* SPDX-License-Identifier: Apache-2.0 */
/* break_many.c: shows all holders of a host, a session or a prefix, and takes their locks from
 * them; cmd_break.c calls it. Each break names the token that was shown, if the protocol has
 * tokens, so that nobody loses a lock who has it by now. */
#include "break_many.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/clock.h"
#include "cli/run/interrupt.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "show/json.h"
#include "show/text.h"

#define AT_ONCE 32 /* breaks: each may wait for a ttl */
#define ROUND_MS 250

typedef struct target {
    char *name, *session, *who, *why;
    int64_t token, since_ms; /* token 0: the protocol has none */
    json_t *holder;          /* an array of one, for --json */
    hf_code code;            /* HF_FULL: still to be broken */
    hf_error err;
} target;

typedef struct work {
    const settings *given;
    hf_client *client;
    const choice *which;
    hf_break_options how;
    target *targets;
    size_t n;
    atomic_size_t next; /* the one to be broken */
    int64_t ttl_ms;     /* the longest of their sessions; 0: not known yet */
} work;

/* ---- Which ---- */

/* who is "app@host:pid". */
static bool is_on_host(const char *who, const char *host)
{
    const char *at = strrchr(who, '@');
    size_t length = strlen(host);
    return at && strncmp(at + 1, host, length) == 0 && (at[1 + length] == ':' || !at[1 + length]);
}

static bool is_chosen(const choice *which, const hf_entry_info *holder)
{
    return (!which->host || is_on_host(holder->who, which->host)) &&
           (!which->session || strcmp(holder->session, which->session) == 0);
}

static void add(work *w, const hf_lock_info *info, const hf_entry_info *holder)
{
    const hf_lock_info alone = {.name = info->name, .n_holders = 1, .holders = holder};
    w->targets = text_wider(w->targets, w->n, sizeof *w->targets);
    w->targets[w->n++] = (target){.name = text_copy(info->name),
                                  .session = text_copy(holder->session),
                                  .who = text_holder(holder->who, holder->actor),
                                  .why = text_copy(holder->why),
                                  .token = holder->token,
                                  .since_ms = holder->since_ms,
                                  .holder = json_of_holders(&alone),
                                  .code = HF_FULL};
}

static bool add_chosen(void *ctx, const hf_lock_info *info)
{
    work *w = ctx;
    for (size_t i = 0; i < info->n_holders; i++)
        if (is_chosen(w->which, &info->holders[i]))
            add(w, info, &info->holders[i]);
    return true;
}

static hf_code find(work *w, hf_error *err)
{
    const hf_list_options options = {
        .struct_size = sizeof options, .prefix = w->which->prefix, .in_use = true};
    hf_code code = hf_list_locks(w->client, &options, add_chosen, w, err);
    if (!code && !w->n)
        snprintf(err->text, sizeof err->text, "no holder is of that choice (see holdfast list)");
    return code || w->n ? code : HF_NOT_FOUND;
}

/* ---- Showing ---- */

static void print_table(const work *w)
{
    static const char *const heads[] = {"LOCK", "HOLDER", "TOKEN", "SINCE", "WHY", NULL};
    table rows;
    table_init(&rows, heads);
    for (const target *t = w->targets; t < w->targets + w->n; t++) {
        table_add(&rows, text_copy(t->name));
        table_add(&rows, text_copy(t->who));
        table_add(&rows, t->token ? text_print("%" PRId64, t->token) : text_copy("-"));
        table_add(&rows, text_when(t->since_ms));
        table_add(&rows, text_copy(t->why));
    }
    table_print(&rows);
    table_done(&rows);
    fflush(stdout);
}

static bool is_done(const target *t)
{
    return !t->code || t->code == HF_NOT_FOUND; /* or it has left by itself */
}

static void print_json(const work *w)
{
    json_t *all = json_array_new();
    for (const target *t = w->targets; t < w->targets + w->n; t++) {
        json_t *one = json_object_new();
        json_put_text(one, "name", t->name);
        json_put(one, "forced", json_boolean(w->how.force));
        json_put(one, "asked", json_incref(t->holder));
        json_put(one, "done", json_boolean(w->which->is_sure && is_done(t)));
        json_append(all, one);
    }
    json_print(all);
    json_decref(all);
}

/* ---- Breaking ---- */

static void *break_each(void *arg)
{
    work *w = arg;
    for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n;) {
        target *t = &w->targets[i];
        hf_break_options how = w->how;
        how.if_token = t->token;
        if (t->code == HF_FULL)
            t->code = hf_break(w->client, t->name, &how, &t->err);
    }
    return NULL;
}

/* This thread breaks what no other could be started for. Returns how many are left. */
static size_t break_round(work *w)
{
    pthread_t threads[AT_ONCE];
    size_t n = 0, most = w->n < AT_ONCE ? w->n : AT_ONCE, left = 0;
    atomic_store(&w->next, 0);
    while (n + 1 < most && pthread_create(&threads[n], NULL, break_each, w) == 0)
        n++;
    break_each(w);
    while (n)
        pthread_join(threads[--n], NULL);
    for (size_t i = 0; i < w->n; i++)
        left += w->targets[i].code == HF_FULL;
    return left;
}

static bool see_ttl(void *ctx, const hf_session_info *info)
{
    work *w = ctx;
    for (size_t i = 0; i < w->n; i++)
        if (info->ttl_ms > w->ttl_ms && strcmp(w->targets[i].session, info->session) == 0)
            w->ttl_ms = info->ttl_ms;
    return true;
}

/* A session can be asked for some of its locks at a time, and each of its beats answers. One that
 * has not answered for a ttl is dead. */
static void break_all(work *w)
{
    struct pollfd interrupted = {.fd = interrupt_fd(), .events = POLLIN};
    int64_t moved_at = clock_boot_ms();
    size_t left, before = w->n;
    while ((left = break_round(w)) > 0) {
        if (left < before)
            moved_at = clock_boot_ms();
        if (!w->ttl_ms && hf_sessions(w->client, see_ttl, w, NULL))
            return;
        if (clock_boot_ms() - moved_at > w->ttl_ms)
            return;
        before = left;
        poll(&interrupted, 1, ROUND_MS);
    }
}

/* The first that failed, or HF_OK. */
static hf_code tell_ends(const work *w)
{
    hf_code first = HF_OK;
    for (const target *t = w->targets; t < w->targets + w->n; t++) {
        if (is_done(t))
            continue;
        first = first ? first : t->code;
        if (t->code == HF_CANCELLED)
            terminal_warn("not waiting any longer; %s is still asked to leave \"%s\"", t->who,
                          t->name);
        else
            terminal_error("%s", t->err.text);
    }
    return first;
}

static hf_code take(work *w, hf_error *err)
{
    hf_code code = interrupt_begin(&w->how.cancel, err);
    if (code)
        return code;
    w->how.struct_size = sizeof w->how;
    break_all(w);
    if (w->how.force)
        terminal_warn("taken by force: for up to a ttl the old holders may still believe that they "
                      "hold them, and only fencing tokens protect");
    return tell_ends(w);
}

static hf_code show_and_take(work *w, hf_error *err)
{
    bool is_table = !w->given->is_json && w->given->verbosity >= 0;
    hf_code code = find(w, err);
    if (code)
        return code;
    if (is_table)
        print_table(w);
    if (!w->which->is_sure)
        terminal_warn("nothing was taken: add --yes to take these locks from them");
    else
        code = take(w, err);
    if (w->given->is_json)
        print_json(w);
    return code;
}

static void forget(work *w)
{
    for (target *t = w->targets; t < w->targets + w->n; t++) {
        free(t->name);
        free(t->session);
        free(t->who);
        free(t->why);
        json_decref(t->holder);
    }
    free(w->targets);
}

int break_many(const settings *given, hf_client *client, const choice *which,
               const hf_break_options *how)
{
    work w = {.given = given, .client = client, .which = which, .how = *how};
    hf_error err = {0};
    hf_code code = show_and_take(&w, &err);
    if (code && *err.text)
        terminal_error("%s", err.text);
    forget(&w);
    return interrupt_status(code);
}
