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

static bool is_path_of(const route *r, const char *path, const char **rest)
{
    const char *name = strchr(r->path, '{');
    size_t fixed = name ? (size_t)(name - r->path) : strlen(r->path);
    *rest = name && strlen(path) > fixed ? path + fixed : NULL;
    return strncmp(path, r->path, fixed) == 0 && (name ? *rest != NULL : !path[fixed]);
}

/* microhttpd omits the body of an answer to HEAD. */
static bool is_method_of(const route *r, const char *method)
{
    return strcmp(method, r->method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(r->method, "GET") == 0);
}

size_t route_find(const routes *in, const char *method, const char *path, const char **rest,
                  bool *is_path)
{
    *is_path = false;
    for (size_t i = 0; i < in->n; i++) {
        if (!is_path_of(&in->all[i], path, rest))
            continue;
        *is_path = true;
        if (is_method_of(&in->all[i], method))
            return i;
    }
    *rest = NULL;
    return in->n;
}

char *route_methods(const routes *in, const char *path)
{
    char *all = text_copy("");
    for (size_t i = 0; i < in->n; i++) {
        const char *rest;
        if (!is_path_of(&in->all[i], path, &rest))
            continue;
        char *more = text_print("%s%s%s", all, *all ? ", " : "", in->all[i].method);
        free(all);
        all = more;
    }
    return all;
}
