/* SPDX-License-Identifier: Apache-2.0 */
/* routes.c: the table of calls; httpd.c gives it to the service. */
#include "httpd/routes.h"

#include "httpd/metrics.h"

#define NAME "{name}"
#define LEASE "{lease}"

static const route table[] = {
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
#define N_ROUTES (sizeof table / sizeof table[0])

_Static_assert(N_ROUTES < METRICS_ROUTES, "metrics.h counts fewer routes, and those that are none");

const routes routes_all = {table, N_ROUTES};
