/* SPDX-License-Identifier: Apache-2.0 */
/* config.c: decides the settings from flags, environment and files; options.c calls it when a
 * verb's words are read. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "ini.h"
#include "secret.h"
#include "show/text.h"
#include "value.h"

/* One file for every command of a host, wherever each was installed: commands that used different
 * stores would not exclude each other. */
#define SYSTEM_CONFIG "/etc/holdfast/config"
#define LEAST_TTL_MS 1000
#define MOST_TTL_MS 3600000
#define LOG_NONE "none"
/* Messages quote only these characters: the rest of a line may be a password. */
#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

static const struct {
    const char *key, *variable, *standard;
} settings_known[N_SETTINGS] = {
#define X(id, key, variable, standard) {key, variable, standard},
    SETTING_TABLE(X)};
#undef X

/* "store, ttl, " */
#define X(id, key, variable, standard) key ", "
#define KEYS SETTING_TABLE(X)

const char *config_key(setting which)
{
    return settings_known[which].key;
}

const char *config_standard(setting which)
{
    return settings_known[which].standard;
}

/* ---- Values ---- */

/* Ends the program if it cannot be that setting; `from` opens the message. */
static void check(setting which, const char *from, const char *text)
{
    if (which == SETTING_STORE || which == SETTING_NAME_PREFIX || which == SETTING_ACCESS_LOG)
        return;
    int64_t ms = value_duration(from, text);
    if (which == SETTING_TTL && (ms < LEAST_TTL_MS || ms > MOST_TTL_MS))
        value_refuse("%s: %s is out of range: 1s to 1h", from, text);
}

/* The first source that gives a value counts. */
static void offer(config_value *v, const char *from, const char *text)
{
    if (!v->text)
        *v = (config_value){text_copy(text), text_copy(from)};
}

void config_say(config *c, setting which, const char *flag, const char *text)
{
    config_value *v = &c->values[which];
    check(which, flag, text);
    free(v->text);
    free(v->from);
    *v = (config_value){0};
    offer(v, flag, text);
}

static void hear_environment(config *c)
{
    for (setting i = 0; i < N_SETTINGS; i++) {
        const char *variable = settings_known[i].variable, *text = getenv(variable);
        if (!text || !*text)
            continue;
        if (!c->values[i].text)
            check(i, variable, text);
        offer(&c->values[i], variable, text);
    }
}

/* ---- A file ---- */

typedef struct reading {
    config *config;
    bool is_open_to_others; /* they can read the file */
    const char *safe_mode;  /* what chmod gives to a file with a password */
} reading;

static bool is_name(const char *text)
{
    return *text && !text[strspn(text, NAME_LETTERS)];
}

static bool has_own_meaning(const char *name)
{
    return strcmp(name, STORE_PRIVATE) == 0 || strcmp(name, STORE_NONE) == 0;
}

static void check_uri(const reading *r, const ini_line *line)
{
    const char *uri = line->value;
    if (*uri == '"' || *uri == '\'')
        ini_refuse(line, "a value stands without quotes, not %s", uri);
    if (strncmp(uri, "sqlite:", 7) == 0 && uri[7] != '/')
        ini_refuse(line, "%s would be another file in each folder: give a path that begins with /",
                   uri);
    if (r->is_open_to_others && secret_is_in(uri))
        ini_refuse(line, "a password stands here, and others can read the file: chmod %s %s",
                   r->safe_mode, line->path);
}

static void check_path(const ini_line *line)
{
    bool is_word = strcmp(line->value, "-") == 0 || strcmp(line->value, LOG_NONE) == 0;
    if (!is_word && *line->value != '/')
        ini_refuse(line, "%s would be another file in each folder: give a path that begins with /",
                   line->value);
}

/* Twice in one file is an error; another file may name the same key. */
static void check_once(const ini_line *line, const char *from)
{
    size_t n = strlen(line->path);
    if (from && strncmp(from, line->path, n) == 0 && from[n] == ':')
        ini_refuse(line, "%s stands here a second time, after %s", line->key, from);
}

static void hear_setting(reading *r, const ini_line *line, const char *from)
{
    for (setting i = 0; i < N_SETTINGS; i++) {
        if (strcmp(line->key, settings_known[i].key) != 0)
            continue;
        config_value *v = &r->config->values[i];
        check_once(line, v->from);
        check(i, from, line->value);
        if (i == SETTING_STORE && !is_name(line->value))
            check_uri(r, line);
        if (i == SETTING_ACCESS_LOG)
            check_path(line);
        offer(v, from, line->value);
        return;
    }
    ini_refuse(line, "there is no setting \"%.*s\"; known are " KEYS "and the section [stores]",
               (int)strspn(line->key, NAME_LETTERS), line->key);
}

static void hear_store(reading *r, const ini_line *line, const char *from)
{
    config *c = r->config;
    size_t i = 0;
    if (!is_name(line->key))
        ini_refuse(line, "a store's name has letters, digits, _ and -, and nothing else");
    if (has_own_meaning(line->key))
        ini_refuse(line, "no store can be called %s: store = %s has a meaning of its own",
                   line->key, line->key);
    if (is_name(line->value))
        ini_refuse(line, "\"%s\" is not a URI: a name stands for a URI, not for another name",
                   line->value);
    check_uri(r, line);
    while (i < c->n_stores && strcmp(c->stores[i].name, line->key) < 0)
        i++;
    if (i < c->n_stores && strcmp(c->stores[i].name, line->key) == 0) {
        check_once(line, c->stores[i].from);
        return;
    }
    c->stores = text_wider(c->stores, c->n_stores, sizeof *c->stores);
    memmove(&c->stores[i + 1], &c->stores[i], (c->n_stores++ - i) * sizeof *c->stores);
    c->stores[i] = (named_store){text_copy(line->key), text_copy(from), text_copy(line->value)};
}

static void hear_line(void *ctx, const ini_line *line)
{
    char *from = text_print("%s:%d", line->path, line->number);
    if (!*line->value)
        ini_refuse(line, "%s has no value", line->key);
    if (!*line->section)
        hear_setting(ctx, line, from);
    else if (strcmp(line->section, "stores") == 0)
        hear_store(ctx, line, from);
    else
        ini_refuse(line, "there is no section [%s], only [stores]", line->section);
    free(from);
}

/* Whether systemd has given the file to this service. Only the service's user can read it, by an
 * ACL, which shows as a right of the group. */
static bool is_credential(const char *path)
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    size_t n = folder ? strlen(folder) : 0;
    return n && strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* The group of the system's file may read a password there. */
static void hear_open_file(config *c, FILE *file, const char *path)
{
    struct stat info;
    bool has_group = strcmp(path, SYSTEM_CONFIG) == 0 || is_credential(path);
    if (fstat(fileno(file), &info) || S_ISDIR(info.st_mode))
        value_refuse("%s is no file of settings", path);
    reading r = {c, info.st_mode & (has_group ? S_IROTH : S_IRGRP | S_IROTH),
                 has_group ? "640" : "600"};
    ini_read(file, path, hear_line, &r);
    fclose(file);
}

/* What became of the file. Takes path. */
static config_file *hear_file(config *c, char *path)
{
    config_file *f = &c->files[c->n_files++];
    FILE *file = fopen(path, "re");
    *f = (config_file){.path = path, .error = file ? 0 : errno};
    if (file)
        hear_open_file(c, file, path);
    return f;
}

/* Of one that could not be opened. A link that points nowhere is there. */
static bool is_there(const config_file *f)
{
    struct stat info;
    return (f->error != ENOENT && f->error != ENOTDIR) || !lstat(f->path, &info);
}

const char *config_file_state(const config_file *f)
{
    return !f->error ? "read" : is_there(f) ? "not readable" : "not there";
}

static void refuse_file(const config_file *f)
{
    value_refuse("the settings in %s cannot be read: %s", f->path, strerror(f->error));
}

/* ---- All of them ---- */

/* Which store a file names that cannot be read, nobody can know, and must not take another one
 * instead. Only some users may be able to read the system's file; that of the user may lie in a
 * folder of another one, as where a container keeps HOME. */
static void pass_over_hidden(config *c, const config_file *f)
{
    if (!f->error || !is_there(f))
        return;
    if (!c->hidden)
        c->hidden = f;
    if (c->values[SETTING_STORE].text)
        return;
    c->hides_store = true;
    char *from = text_print("%s, not readable", f->path);
    offer(&c->values[SETTING_STORE], from, STORE_NONE);
    free(from);
}

static void hear_users_file(config *c)
{
    char *folder = folder_find("XDG_CONFIG_HOME", ".config");
    if (folder)
        pass_over_hidden(c, hear_file(c, text_print("%s/config", folder)));
    free(folder);
}

void config_settle(config *c)
{
    const char *named = getenv("HOLDFAST_CONFIG");
    hear_environment(c);
    if (!named || !*named) {
        hear_users_file(c);
        pass_over_hidden(c, hear_file(c, text_copy(SYSTEM_CONFIG)));
        return;
    }
    const config_file *f = hear_file(c, text_copy(named));
    if (f->error)
        refuse_file(f);
}

int64_t config_ms(const config *c, setting which, int64_t standard)
{
    const config_value *v = &c->values[which];
    return v->text ? value_duration(v->from, v->text) : standard;
}

const char *config_access_log(const config *c)
{
    const char *text = c->values[SETTING_ACCESS_LOG].text;
    return text && strcmp(text, LOG_NONE) != 0 ? text : NULL;
}

/* Takes text. */
static char *longer(char *text, const char *between, const char *more)
{
    char *out = text_print("%s%s%s", text, between, more);
    free(text);
    return out;
}

/* "prod, test", or that there are none, and which file cannot be read; in new memory. */
static char *names_of(const config *c)
{
    char *all = text_copy(c->n_stores ? "there are " : "no file of settings names one");
    for (size_t i = 0; i < c->n_stores; i++)
        all = longer(all, i ? ", " : "", c->stores[i].name);
    for (size_t i = 0; i < c->n_files; i++)
        if (c->files[i].error && is_there(&c->files[i]))
            all = longer(longer(all, "; ", c->files[i].path), "", " cannot be read");
    return all;
}

/* NULL: no file gives a store this name. */
static const named_store *find_store(const config *c, const char *name)
{
    for (size_t i = 0; i < c->n_stores; i++)
        if (strcmp(name, c->stores[i].name) == 0)
            return &c->stores[i];
    return NULL;
}

const char *config_store_from(const config *c)
{
    const config_value *said = &c->values[SETTING_STORE];
    const named_store *named = said->text ? find_store(c, said->text) : NULL;
    const char *from = named ? named->from : said->from;
    return from && strchr(from, ':') ? from : NULL;
}

/* A name has no colon, a URI has one. Anything else is for hf_open() to refuse. */
const char *config_store(const config *c)
{
    const config_value *said = &c->values[SETTING_STORE];
    if (!said->text || !is_name(said->text))
        return said->text;
    const named_store *named = find_store(c, said->text);
    if (named)
        return named->uri;
    if (has_own_meaning(said->text))
        return NULL;
    value_refuse("%s: there is no store \"%s\": %s; or give a URI, like sqlite:%s", said->from,
                 said->text, names_of(c), said->text);
}

bool config_has_no_store(const config *c)
{
    const config_value *said = &c->values[SETTING_STORE];
    return said->text && strcmp(said->text, STORE_NONE) == 0;
}
