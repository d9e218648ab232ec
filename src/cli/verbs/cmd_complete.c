/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_complete.c: the verb complete, which the shells' completion calls: prints what can stand in
 * the place of the last word. A line is a word, a tab and an explanation. A line that begins with a
 * tab says how the shell should complete instead: files, or command. It prints nothing else, and
 * ends within a second. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/settings/options.h"
#include "cli/terminal/terminal.h"
#include "show/text.h"
#include "verbs.h"

#define MOST_NAMES 1000
#define MOST_SECONDS 1

/* The state after the words before the last one. */
typedef struct place {
    settings *given;
    const verb *table;
    const struct argp *before;       /* the parser of the words before a verb */
    const verb *verb;                /* NULL: not given yet */
    const struct argp_option *wants; /* the option whose argument comes next; NULL: none */
    bool has_lock_session;           /* --lock-session ID: then comes the name of a lock */
    bool is_quoted;                  /* after "--" */
    bool has_command;
} place;

static void offer(const char *prefix, const char *word, const char *candidate, const char *what)
{
    if (strncmp(candidate, word, strlen(word)) == 0)
        printf("%s%s\t%s\n", prefix, candidate, what);
}

/* ---- Options ---- */

static bool is_end(const struct argp_option *o)
{
    return !o || (!o->name && !o->key && !o->doc && !o->group);
}

/* Calls `each` for the parser's options until it returns true, and returns that option. */
typedef bool option_fn(const char *word, const struct argp_option *option);

static const struct argp_option *find(const struct argp *argp, const char *word, option_fn *each)
{
    for (const struct argp_option *o = argp->options; !is_end(o); o++)
        if (o->name && each(word, o))
            return o;
    const struct argp_option *found = NULL;
    for (const struct argp_child *c = argp->children; c && c->argp && !found; c++)
        found = find(c->argp, word, each);
    return found;
}

static bool is_short(const struct argp_option *o)
{
    return o->key > ' ' && o->key < 127;
}

static bool has_long_name(const char *word, const struct argp_option *o)
{
    size_t n = strcspn(word, "=");
    return strncmp(word, "--", 2) == 0 && strlen(o->name) == n - 2 &&
           strncmp(word + 2, o->name, n - 2) == 0;
}

/* The letter at the end of "-w" or "-qw". If a letter takes an argument, the rest of the word is
 * the argument. */
static bool ends_with_letter(const char *word, const struct argp_option *o)
{
    return word[0] == '-' && word[1] != '-' && word[1] && is_short(o) &&
           word[strlen(word) - 1] == o->key;
}

static bool is_meant(const char *word, const struct argp_option *o)
{
    return has_long_name(word, o) || ends_with_letter(word, o);
}

static bool offer_option(const char *word, const struct argp_option *o)
{
    char *name = text_print("--%s", o->name);
    char letter[] = {'-', (char)o->key, '\0'};
    offer("", word, name, o->doc);
    if (is_short(o))
        offer("", word, letter, o->doc);
    free(name);
    return false;
}

/* ---- What stands before ---- */

static void take_value(place *p, const char *value)
{
    if (strcmp(p->wants->name, config_key(SETTING_STORE)) == 0)
        config_say(&p->given->config, SETTING_STORE, "--store", value);
    p->has_lock_session |= strcmp(p->wants->name, "lock-session") == 0;
    p->wants = NULL;
}

static void take_option(place *p, const char *word)
{
    const struct argp *argp = p->verb ? p->verb->argp : p->before;
    const struct argp_option *o = argp ? find(argp, word, is_meant) : NULL;
    p->wants = o && o->arg ? o : NULL;
    if (p->wants && strncmp(word, "--", 2) == 0 && strchr(word, '='))
        take_value(p, strchr(word, '=') + 1);
}

static void take_word(place *p, const char *word)
{
    if (p->wants)
        take_value(p, word);
    else if (p->is_quoted)
        p->has_command = true;
    else if (strcmp(word, "--") == 0)
        p->is_quoted = true;
    else if (*word == '-')
        take_option(p, word);
    else if (!p->verb)
        p->verb = verb_named(p->table, word);
}

/* ---- What can come next ---- */

static void offer_stores(settings *given, const char *prefix, const char *word)
{
    static const char *const schemes[] = {"sqlite:", "memory:", "mongodb://", "mongodb+srv://"};
    config *c = &given->config;
    config_settle(c);
    for (size_t i = 0; i < c->n_stores; i++)
        offer(prefix, word, c->stores[i].name, "");
    offer(prefix, word, STORE_PRIVATE, "this user's own file");
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        offer(prefix, word, schemes[i], "");
}

static void offer_value(const place *p, const struct argp_option *o, const char *prefix,
                        const char *word)
{
    if (strcmp(o->name, config_key(SETTING_STORE)) == 0)
        offer_stores(p->given, prefix, word);
    else if (strcmp(o->arg, "FILE") == 0)
        puts("\tfiles");
}

/* "--store=pr" */
static void offer_after_sign(const place *p, const struct argp *argp, const char *word)
{
    const struct argp_option *o = find(argp, word, has_long_name);
    const char *value = strchr(word, '=') + 1;
    char *prefix = text_print("%.*s", (int)(value - word), word);
    if (o && o->arg)
        offer_value(p, o, prefix, value);
    free(prefix);
}

static void offer_options(const place *p, const char *word)
{
    const struct argp *argp = p->verb ? p->verb->argp : p->before;
    if (argp && strchr(word, '='))
        offer_after_sign(p, argp, word);
    else if (argp)
        find(argp, word, offer_option);
    offer("", word, "--help", "say how it is used");
    offer("", word, "--version", "say which version it is");
}

static void offer_verbs(const verb *table, const char *word)
{
    for (const verb *v = table; v->name; v++)
        if (v->help)
            offer("", word, v->name, v->help);
}

typedef struct names {
    const char *word;
    size_t left;
} names;

/* Leaves out a name that cannot be typed as it is shown. */
static bool offer_name(names *n, const char *name, const char *what)
{
    char *shown = text_escape(name);
    if (strcmp(shown, name) == 0)
        offer("", n->word, shown, what);
    free(shown);
    return --n->left > 0;
}

static bool offer_lock(void *ctx, const hf_lock_info *info)
{
    return offer_name(ctx, info->name, info->n_holders ? info->holders[0].who : "free");
}

static bool offer_process(void *ctx, const hf_session_info *info)
{
    return info->dead || offer_name(ctx, info->app, info->host);
}

static void list_locks(hf_client *client, names *n)
{
    const hf_list_options part = {
        .struct_size = sizeof part, .prefix = n->word, .limit = n->left, .asks_once = true};
    hf_list_locks(client, &part, offer_lock, n, NULL);
}

static void list_processes(hf_client *client, names *n)
{
    if (strcmp(hf_client_protocol(client), "sharding") == 0) /* no other names processes */
        hf_sessions(client, offer_process, n, NULL);
}

/* Does not make a default store for this. */
static void offer_names(settings *given, const char *word, void (*list)(hf_client *, names *))
{
    names n = {word, MOST_NAMES};
    hf_client *client = NULL;
    options_settle(given);
    terminal_init(-1);
    char *uri = options_uri(given);
    bool is_there = given->store || (uri && access(strchr(uri, ':') + 1, R_OK) == 0);
    if (is_there && !options_open(given, NULL, &client))
        list(client, &n);
    hf_close(client);
    free(uri);
}

static bool takes(const place *p, const char *what)
{
    return p->verb->argp && p->verb->argp->args_doc && strstr(p->verb->argp->args_doc, what);
}

static void offer_words(const place *p, const char *word)
{
    if (!p->verb || takes(p, "VERB"))
        offer_verbs(p->table, word);
    else if (p->is_quoted && takes(p, "-- COMMAND"))
        puts("\tcommand");
    else if (takes(p, "PROCESS") && !p->has_lock_session)
        offer_names(p->given, word, list_processes);
    else if (takes(p, "NAME") || takes(p, "PREFIX"))
        offer_names(p->given, word, list_locks);
}

/* ---- The verb ---- */

static void on_alarm(int signal)
{
    (void)signal;
    _exit(0);
}

static void be_silent_and_brief(void)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct sigaction action = {.sa_handler = on_alarm};
    if (nowhere >= 0)
        dup2(nowhere, STDERR_FILENO);
    sigaction(SIGALRM, &action, NULL);
    alarm(MOST_SECONDS);
}

int cmd_complete(const verb *table, const struct argp *before, settings *given, int argc,
                 char **argv)
{
    place p = {.given = given, .table = table, .before = before};
    be_silent_and_brief();
    for (int i = 1; i < argc - 1; i++)
        take_word(&p, argv[i]);
    const char *word = argc > 1 ? argv[argc - 1] : "";
    if (p.wants)
        offer_value(&p, p.wants, "", word);
    else if (*word == '-' && !p.is_quoted)
        offer_options(&p, word);
    else
        offer_words(&p, word);
    return 0;
}
