/* SPDX-License-Identifier: Apache-2.0 */
/* routes.c: the table of calls; httpd.c gives it to the service. */
#include "httpd/routes.h"

#include "httpd/metrics.h"

#define NAME "{name}"
#define LEASE "{lease}"

/* Clients take `.` and `..` out of a path, so each call of a lock has a second path, where the name
 * is a parameter. */
static const route table[] = {
    {"GET", "/v1/locks", "prefix in_use cursor limit", ROLE_READ, RUN_WORKER, answer_locks},
    {"GET", "/v1/why/" NAME, "", ROLE_READ, RUN_WORKER, answer_why},
    {"GET", "/v1/history", "since_ms limit", ROLE_READ, RUN_WORKER, answer_history},
    {"GET", "/v1/history/" NAME, "since_ms limit", ROLE_READ, RUN_WORKER, answer_history_of_one},
    {"GET", "/v1/locks/" NAME, "", ROLE_READ, RUN_WORKER, answer_lock},
    {"POST", "/v1/locks/" NAME, "", ROLE_USE, RUN_AFTER_WAIT, answer_acquire},
    {"PUT", "/v1/leases/" LEASE, "", ROLE_USE, RUN_URGENT_WORKER, answer_renew},
    {"DELETE", "/v1/leases/" LEASE, "", ROLE_USE, RUN_URGENT_WORKER, answer_release},
    {"DELETE", "/v1/locks/" NAME, "if_token reason", ROLE_ADMIN, RUN_SLOW_WORKER, answer_break},
    {"GET", "/v1/why/", "name", ROLE_READ, RUN_WORKER, answer_why},
    {"GET", "/v1/history/", "name since_ms limit", ROLE_READ, RUN_WORKER, answer_history_of_one},
    {"GET", "/v1/locks/", "name", ROLE_READ, RUN_WORKER, answer_lock},
    {"POST", "/v1/locks/", "name", ROLE_USE, RUN_AFTER_WAIT, answer_acquire},
    {"DELETE", "/v1/locks/", "name if_token reason", ROLE_ADMIN, RUN_SLOW_WORKER, answer_break},
    {"GET", "/v1/sessions", "all cursor limit", ROLE_READ, RUN_WORKER, answer_sessions},
    {"GET", "/v1/service", "", ROLE_READ, RUN_AT_ONCE, answer_service},
    {"GET", "/v1/events", "prefix in_use", ROLE_READ, RUN_AT_ONCE, answer_events},
    {"GET", "/metrics", "", ROLE_READ, RUN_AT_ONCE, answer_metrics},
    {"GET", "/healthz", "", ROLE_NONE, RUN_AT_ONCE, answer_alive},
    {"GET", "/readyz", "", ROLE_NONE, RUN_WORKER, answer_ready},
    {"GET", "/openapi.json", "", ROLE_NONE, RUN_AT_ONCE, answer_file},
    {"GET", "/", "", ROLE_NONE, RUN_AT_ONCE, answer_file},
    {"GET", "/page.css", "", ROLE_NONE, RUN_AT_ONCE, answer_file},
    {"GET", "/page.js", "", ROLE_NONE, RUN_AT_ONCE, answer_file},
    {"GET", "/events.js", "", ROLE_NONE, RUN_AT_ONCE, answer_file},
    {"GET", "/card.js", "", ROLE_NONE, RUN_AT_ONCE, answer_file},
    {"GET", "/one.js", "", ROLE_NONE, RUN_AT_ONCE, answer_file},
};
#define N_ROUTES (sizeof table / sizeof table[0])

_Static_assert(N_ROUTES < METRICS_ROUTES, "metrics.h counts fewer routes, and those that are none");

const routes routes_all = {table, N_ROUTES};
