/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.c: reads the file of access tokens, and finds a token's role and name, for each request.
 */
#include "httpd/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "httpd/fail.h"
#include "httpd/private.h"
#include "show/text.h"

#define NAME_MOST 127
#define TOKEN_LEAST 16
#define TOKEN_SIZE 256 /* padded with zeros, so that all comparisons are equally long */

typedef struct token {
    unsigned char text[TOKEN_SIZE + 1];
    caller caller;
    char name[NAME_MOST + 1];
    struct token *next;
} token;

struct tokens {
    token *first;
};

static const char *const names[] = {
    [ROLE_NONE] = "none", [ROLE_READ] = "read", [ROLE_USE] = "use", [ROLE_ADMIN] = "admin"};

const char *role_name(role r)
{
    return names[r];
}

static role role_of(const char *name)
{
    for (role r = ROLE_READ; r <= ROLE_ADMIN; r++)
        if (strcmp(names[r], name) == 0)
            return r;
    return ROLE_NONE;
}

/* What stands behind the token: columns may be aligned by blanks. */
static char *read_name(char *rest)
{
    char *name = rest + strspn(rest, " \t"), *end = name + strlen(name);
    while (end > name && strchr(" \t", end[-1]))
        end--;
    *end = '\0';
    return name;
}

/* What is wrong with a line, as the end of a sentence; NULL: nothing. */
static const char *read_line(char *line, tokens *t)
{
    char *rest = NULL, *end = line + strcspn(line, "\r\n");
    *end = '\0';
    const char *first = strtok_r(line, " \t", &rest);
    if (!first || *first == '#')
        return NULL;
    const char *text = strtok_r(NULL, " \t", &rest);
    size_t length = text ? strlen(text) : 0;
    if (!role_of(first))
        return "does not begin with read, use or admin";
    if (length < TOKEN_LEAST || length > TOKEN_SIZE)
        return "has no access token of 16 to 256 characters";
    if (tokens_find(t, text).role)
        return "has an access token that an earlier line has, too";
    const char *name = rest ? read_name(rest) : "";
    if (strlen(name) > NAME_MOST)
        return "has a name of more than 127 bytes";
    token *new = text_alloc(sizeof *new);
    memcpy(new->text, text, length);
    snprintf(new->name, sizeof new->name, "%s", name);
    new->caller = (caller){role_of(first), new->name, (const char *)new->text};
    new->next = t->first;
    t->first = new;
    return NULL;
}

static hf_code read_lines(FILE *file, const char *path, tokens *t, hf_error *err)
{
    char *line = NULL;
    size_t size = 0;
    const char *wrong = NULL;
    int number = 0;
    for (; !wrong && getline(&line, &size, file) >= 0; number++)
        wrong = read_line(line, t);
    free(line);
    if (wrong)
        return fail(err, HF_INVALID, "%.200s: line %d %s", path, number, wrong);
    return t->first ? HF_OK : fail(err, HF_INVALID, "%.200s: there is no access token in it", path);
}

hf_code tokens_read(const char *path, tokens **out, hf_error *err)
{
    FILE *file;
    hf_code code = private_open("--token-file", path, &file, err);
    if (code)
        return code;
    tokens *t = text_alloc(sizeof *t);
    code = read_lines(file, path, t, err);
    fclose(file);
    if (code)
        tokens_free(t);
    else
        *out = t;
    return code;
}

void tokens_free(tokens *t)
{
    while (t && t->first) {
        token *next = t->first->next;
        free(t->first);
        t->first = next;
    }
    free(t);
}

static bool is_equal(const unsigned char *a, const unsigned char *b)
{
    volatile unsigned char differs = 0;
    for (size_t i = 0; i < TOKEN_SIZE; i++)
        differs |= a[i] ^ b[i];
    return !differs;
}

caller tokens_find(const tokens *t, const char *text)
{
    unsigned char asked[TOKEN_SIZE] = {0};
    caller found = {ROLE_NONE, "", ""};
    size_t length = strlen(text);
    memcpy(asked, text, length < TOKEN_SIZE ? length : TOKEN_SIZE);
    for (const token *each = t->first; each; each = each->next)
        if (is_equal(asked, each->text) && length <= TOKEN_SIZE)
            found = each->caller;
    return found;
}
