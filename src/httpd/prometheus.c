/* SPDX-License-Identifier: Apache-2.0 */
/* prometheus.c: answers GET /metrics with the service's counts in the form that Prometheus reads.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "httpd/answer.h"
#include "httpd/routes.h"
#include "show/text.h"

static void head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* 'method="GET",path="/v1/locks"'; without a route, both are missing. */
static char *labels_of(const routes *in, size_t number)
{
    const route *r = route_at(in, number);
    return text_print("method=\"%s\",path=\"%s\"", r ? r->method : "", r ? r->path : "");
}

static void tell_answers(FILE *out, const routes *in, metrics *m, size_t number)
{
    char *labels = labels_of(in, number);
    for (unsigned status = 0; status < METRICS_STATUSES; status++) {
        uint_fast64_t count = atomic_load(&m->answers[number][status]);
        if (count)
            fprintf(out, "holdfast_http_requests_total{%s,status=\"%u\"} %" PRIuFAST64 "\n", labels,
                    status, count);
    }
    free(labels);
}

/* labels: "" or "outcome=\"granted\"" */
static void tell_histogram(FILE *out, const char *name, const char *labels, histogram *h)
{
    uint_fast64_t count = 0;
    const char *comma = *labels ? "," : "";
    for (size_t i = 0; i < METRICS_BUCKETS; i++) {
        count += atomic_load(&h->buckets[i]);
        fprintf(out, "%s_bucket{%s%sle=\"%g\"} %" PRIuFAST64 "\n", name, labels, comma,
                (double)metrics_bounds_ms[i] / 1000, count);
    }
    count += atomic_load(&h->buckets[METRICS_BUCKETS]);
    fprintf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIuFAST64 "\n", name, labels, comma, count);
    fprintf(out, "%s_sum{%s} %g\n", name, labels, (double)atomic_load(&h->sum_us) / 1e6);
    fprintf(out, "%s_count{%s} %" PRIuFAST64 "\n", name, labels, count);
}

static void tell_requests(FILE *out, const routes *in, metrics *m)
{
    static const char total[] = "holdfast_http_requests_total",
                      seconds[] = "holdfast_http_request_seconds";
    head(out, total, "counter", "Requests that were answered.");
    for (size_t i = 0; i <= in->n; i++)
        tell_answers(out, in, m, i);
    head(out, seconds, "histogram", "From a request's first byte to its answer.");
    for (size_t i = 0; i <= in->n; i++) {
        char *labels = labels_of(in, i);
        tell_histogram(out, seconds, labels, &m->requests[i]);
        free(labels);
    }
}

static void tell_errors(FILE *out, metrics *m)
{
    static const char name[] = "holdfast_errors_total";
    head(out, name, "counter", "Requests that the library refused or failed, by error code.");
#define X(code, number, text, http, exit_status, retryable)                                        \
    if (code)                                                                                      \
        fprintf(out, "%s{code=\"" #code "\"} %" PRIuFAST64 "\n", name,                             \
                atomic_load(&m->errors[code]));
    HF_CODE_TABLE(X)
#undef X
}

static void tell_waits(FILE *out, metrics *m)
{
    static const char name[] = "holdfast_wait_seconds";
    head(out, name, "histogram", "From a request for a lock to its answer.");
    tell_histogram(out, name, "outcome=\"refused\"", &m->waits[false]);
    tell_histogram(out, name, "outcome=\"granted\"", &m->waits[true]);
}

static void tell_holds(FILE *out, metrics *m)
{
    static const char holds[] = "holdfast_hold_seconds",
                      margins[] = "holdfast_renew_margin_seconds";
    head(out, holds, "histogram", "From a grant to its release, where both were asked for here.");
    tell_histogram(out, holds, "", &m->holds);
    head(out, margins, "histogram",
         "What was left of a lease when it was renewed, as far as was seen here.");
    tell_histogram(out, margins, "", &m->margins);
}

static void tell_seen(FILE *out, metrics *m)
{
    static const char name[] = "holdfast_events_total";
    head(out, name, "counter",
         "Changes of all locks that were seen for /v1/events, or between readings of /metrics.");
    for (news kind = 0; kind < N_NEWS; kind++)
        fprintf(out, "%s{event=\"%s\"} %" PRIuFAST64 "\n", name, news_name(kind),
                atomic_load(&m->seen[kind]));
    head(out, "holdfast_looks_total", "counter", "How often all locks were listed for that.");
    fprintf(out, "holdfast_looks_total %" PRIuFAST64 "\n", atomic_load(&m->looks));
}

static void tell_gauge(FILE *out, const char *name, double value, const char *help)
{
    head(out, name, "gauge", help);
    fprintf(out, "%s %g\n", name, value);
}

/* Of all locks of the store, taken here or elsewhere. */
static void tell_locks(FILE *out, httpd *service)
{
    watcher_counts counts = watcher_count(&service->watcher);
    const census *c = &counts.of;
    if (counts.is_known || counts.is_troubled)
        tell_gauge(out, "holdfast_store_up", !counts.is_troubled,
                   "1: the last look at the store's locks was answered.");
    if (!counts.is_known)
        return;
    tell_gauge(out, "holdfast_locks_held", (double)c->totals.held, "Locks that somebody holds.");
    tell_gauge(out, "holdfast_locks_overdue", (double)c->totals.overdue,
               "Of them, those whose lease is over: the holder has died or is cut off.");
    tell_gauge(out, "holdfast_longest_overdue_seconds", (double)c->longest_overdue_ms / 1000,
               "How long the lease of a holder has been over at most.");
    tell_gauge(out, "holdfast_locks_waiting", (double)c->totals.waiting, "Places in all queues.");
    tell_gauge(out, "holdfast_oldest_hold_seconds", (double)c->oldest_hold_ms / 1000,
               "How long a lock has been held at most.");
    tell_gauge(out, "holdfast_longest_wait_seconds", (double)c->longest_wait_ms / 1000,
               "How long somebody has waited at most.");
    tell_gauge(out, "holdfast_look_seconds", (double)c->took_ms / 1000,
               "How long it took the store to list the locks that are in use.");
    tell_gauge(out, "holdfast_look_age_seconds", (double)counts.age_ms / 1000,
               "How old these counts are.");
}

static void tell_store(FILE *out, const httpd *service)
{
    static const char name[] = "holdfast_store_round_trips_total";
    head(out, name, "counter", "Requests sent to the database; 0 where it is a file.");
    fprintf(out, "%s %" PRIu64 "\n", name, hf_round_trips(service->config.client));
}

static void tell_refused(FILE *out, metrics *m)
{
    static const char name[] = "holdfast_http_refused_total",
                      *const kinds[] = {[PLACE_WAIT] = "wait", [PLACE_FOLLOWER] = "events"},
                      *const whose[] = {[TOO_MANY_OF_ONE] = "client", [TOO_MANY_OF_ALL] = "all"};
    head(out, name, "counter", "Requests refused because one client, or all, had too many.");
    for (place_kind kind = 0; kind < N_PLACE_KINDS; kind++)
        for (admission why = TOO_MANY_OF_ONE; why < N_REFUSALS; why++)
            fprintf(out, "%s{request=\"%s\",limit=\"%s\"} %" PRIuFAST64 "\n", name, kinds[kind],
                    whose[why], atomic_load(&m->refused[kind][why]));
}

static void tell_count(FILE *out, const char *name, size_t n, const char *help)
{
    head(out, name, "gauge", help);
    fprintf(out, "%s %zu\n", name, n);
}

static void tell_now(FILE *out, httpd *service)
{
    connection_counts counts = connections_count(&service->connections);
    tell_count(out, "holdfast_http_connections", counts.connections, "Connections that are open.");
    tell_count(out, "holdfast_http_requests_open", counts.requests,
               "Requests that are being served.");
    tell_count(out, "holdfast_waits_open", waits_count(&service->waits),
               "Requests that wait for a lock.");
    tell_count(out, "holdfast_followers_open", watcher_count_followers(&service->watcher),
               "Event streams.");
    head(out, "holdfast_http_connections_cut_total", "counter",
         "Connections whose clients were waited for, and that made room for others.");
    fprintf(out, "holdfast_http_connections_cut_total %" PRIu64 "\n", counts.cut);
}

void answer_metrics(request *req)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        text_no_memory();
    tell_requests(out, req->service->routes, &req->service->metrics);
    tell_errors(out, &req->service->metrics);
    tell_waits(out, &req->service->metrics);
    tell_holds(out, &req->service->metrics);
    tell_seen(out, &req->service->metrics);
    tell_locks(out, req->service);
    tell_store(out, req->service);
    tell_refused(out, &req->service->metrics);
    tell_now(out, req->service);
    fclose(out);
    answer_text(req, "text/plain; version=0.0.4", text);
}
