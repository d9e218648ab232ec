/* SPDX-License-Identifier: Apache-2.0 */
/* routes.c: the table of calls, and which of them a request means. */
#include "httpd/routes.h"

#include <stdlib.h>
#include <string.h>

#include "show/text.h"

#define NAME "{name}"
#define LEASE "{lease}"

static const route routes[] = {
    {"GET", "/v1/locks", "prefix cursor limit", ROLE_READ, PACE_STORE, answer_locks},
    {"GET", "/v1/locks/" NAME, "", ROLE_READ, PACE_STORE, answer_lock},
    {"POST", "/v1/locks/" NAME, "", ROLE_USE, PACE_WAIT, answer_acquire},
    {"PUT", "/v1/leases/" LEASE, "", ROLE_USE, PACE_STORE, answer_renew},
    {"DELETE", "/v1/leases/" LEASE, "", ROLE_USE, PACE_STORE, answer_release},
    {"DELETE", "/v1/locks/" NAME, "if_token reason", ROLE_ADMIN, PACE_SLOW, answer_break},
    {"GET", "/v1/sessions", "all cursor limit", ROLE_READ, PACE_STORE, answer_sessions},
    {"GET", "/v1/events", "prefix", ROLE_READ, PACE_AT_ONCE, answer_events},
    {"GET", "/metrics", "", ROLE_READ, PACE_AT_ONCE, answer_metrics},
    {"GET", "/healthz", "", ROLE_NONE, PACE_AT_ONCE, answer_alive},
    {"GET", "/readyz", "", ROLE_NONE, PACE_STORE, answer_ready},
    {"GET", "/openapi.json", "", ROLE_NONE, PACE_AT_ONCE, answer_file},
    {"GET", "/", "", ROLE_NONE, PACE_AT_ONCE, answer_file},
    {"GET", "/page.css", "", ROLE_NONE, PACE_AT_ONCE, answer_file},
    {"GET", "/page.js", "", ROLE_NONE, PACE_AT_ONCE, answer_file},
    {"GET", "/events.js", "", ROLE_NONE, PACE_AT_ONCE, answer_file},
    {"GET", "/card.js", "", ROLE_NONE, PACE_AT_ONCE, answer_file},
};
#define N_ROUTES (sizeof routes / sizeof routes[0])

_Static_assert(N_ROUTES < METRICS_ROUTES, "metrics.h counts fewer routes, and those that are none");

size_t routes_count(void)
{
    return N_ROUTES;
}

const route *route_at(size_t number)
{
    return number < N_ROUTES ? &routes[number] : NULL;
}

static bool is_path_of(const route *r, const char *path, const char **rest)
{
    const char *name = strchr(r->path, '{');
    size_t fixed = name ? (size_t)(name - r->path) : strlen(r->path);
    *rest = name && strlen(path) > fixed ? path + fixed : NULL;
    return strncmp(path, r->path, fixed) == 0 && (name ? *rest != NULL : !path[fixed]);
}

/* microhttpd leaves the body out of what answers HEAD. */
static bool is_method_of(const route *r, const char *method)
{
    return strcmp(method, r->method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(r->method, "GET") == 0);
}

size_t route_find(const char *method, const char *path, const char **rest, bool *is_path)
{
    *is_path = false;
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (!is_path_of(&routes[i], path, rest))
            continue;
        *is_path = true;
        if (is_method_of(&routes[i], method))
            return i;
    }
    *rest = NULL;
    return N_ROUTES;
}

char *route_methods(const char *path)
{
    char *all = text_copy("");
    for (size_t i = 0; i < N_ROUTES; i++) {
        const char *rest;
        if (!is_path_of(&routes[i], path, &rest))
            continue;
        char *more = text_print("%s%s%s", all, *all ? ", " : "", routes[i].method);
        free(all);
        all = more;
    }
    return all;
}
