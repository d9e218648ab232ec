/* SPDX-License-Identifier: Apache-2.0 */
/* route.c: finds the call that a request means; rights.c and request.c ask. */
#include "httpd/route.h"

#include <stdlib.h>
#include <string.h>

#include "show/text.h"

const route *route_at(const routes *in, size_t number)
{
    return number < in->n ? &in->all[number] : NULL;
}

/* Where {...} begins, and what must follow it. NULL: the route has none. */
static const char *begin_of_name(const route *r)
{
    return strchr(r->path, '{');
}

static const char *tail_of(const route *r)
{
    return strchr(r->path, '}') + 1;
}

static bool ends_with(const char *text, const char *tail)
{
    size_t length = strlen(text), n = strlen(tail);
    return length > n && strcmp(text + length - n, tail) == 0;
}

static bool is_path_of(const route *r, const char *path)
{
    const char *name = begin_of_name(r);
    if (!name)
        return strcmp(path, r->path) == 0;
    size_t fixed = (size_t)(name - r->path);
    return strncmp(path, r->path, fixed) == 0 && ends_with(path + fixed, tail_of(r));
}

char *route_rest(const route *r, const char *path)
{
    const char *name = begin_of_name(r);
    if (!name)
        return NULL;
    char *rest = text_copy(path + (name - r->path));
    rest[strlen(rest) - strlen(tail_of(r))] = '\0';
    return rest;
}

/* microhttpd omits the body of an answer to HEAD. */
static bool is_method_of(const route *r, const char *method)
{
    return strcmp(method, r->method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(r->method, "GET") == 0);
}

/* Where a path fits several routes, the text of the first one's path decides which they are. */
static const char *path_for(const routes *in, const char *path)
{
    for (size_t i = 0; i < in->n; i++)
        if (is_path_of(&in->all[i], path))
            return in->all[i].path;
    return NULL;
}

size_t route_find(const routes *in, const char *method, const char *path, bool *is_path)
{
    const char *found = path_for(in, path);
    *is_path = found != NULL;
    for (size_t i = 0; i < in->n && found; i++)
        if (strcmp(in->all[i].path, found) == 0 && is_method_of(&in->all[i], method))
            return i;
    return in->n;
}

char *route_methods(const routes *in, const char *path)
{
    char *all = text_copy("");
    const char *found = path_for(in, path);
    for (size_t i = 0; i < in->n && found; i++) {
        if (strcmp(in->all[i].path, found) != 0)
            continue;
        char *more = text_print("%s%s%s", all, *all ? ", " : "", in->all[i].method);
        free(all);
        all = more;
    }
    return all;
}
