/* SPDX-License-Identifier: Apache-2.0 */
/* places.c: shares the connections out, when the service starts; see places.h. */
#include "httpd/places.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "httpd/answer.h"
#include "show/text.h"

#define FILES_BESIDES 256 /* the store's, and others of this process */

/* Each connection takes a file descriptor. Where few are to be had, they share equally with the
 * rest. */
static rlim_t connections_within(rlim_t files)
{
    return files > 2 * FILES_BESIDES ? files - FILES_BESIDES : files / 2;
}

/* Raises the limit up to this number, or as far as it may, and returns what it is then. */
static rlim_t raise_limit(rlim_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return wanted;
    rlim_t had = limit.rlim_cur;
    if (had >= wanted)
        return had;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) ? had : limit.rlim_cur;
}

static void warn(const httpd_config *config, size_t fits, rlim_t files)
{
    char *line =
        text_print("--max-connections is %d, but %zu are served: this process may open %zu "
                   "files (ulimit -n)",
                   config->max_connections, fits, (size_t)files);
    config->log(config->log_ctx, HF_LOG_WARNING, line);
    free(line);
}

static size_t find_connections(const httpd_config *config)
{
    size_t asked = (size_t)config->max_connections;
    rlim_t files = raise_limit((rlim_t)asked + FILES_BESIDES);
    rlim_t fits = connections_within(files);
    if (fits >= asked)
        return asked;
    size_t least = fits ? (size_t)fits : 1;
    warn(config, least, files);
    return least;
}

static size_t at_least_one(size_t n)
{
    return n ? n : 1;
}

/* An eighth is left for all that is short. */
places places_find(const httpd_config *config)
{
    places p = {.connections = find_connections(config)};
    p.of_all[PLACE_WAIT] = at_least_one(p.connections * 3 / 4);
    p.of_all[PLACE_FOLLOWER] = at_least_one(p.connections / 8);
    p.of_one[PLACE_WAIT] = (size_t)config->max_waits;
    p.of_one[PLACE_FOLLOWER] = (size_t)config->max_followers;
    return p;
}

static void refuse_one(request *req, place_kind kind, size_t most)
{
    if (kind == PLACE_WAIT)
        answer_problem(req, PROBLEM_TOO_MANY,
                       "%zu requests of yours wait already: repeat it when one of them has ended, "
                       "or let the service take more (--max-waits)",
                       most);
    else
        answer_problem(req, PROBLEM_TOO_MANY,
                       "%zu event streams of yours are open already: close one, or let the "
                       "service take more (--max-followers)",
                       most);
}

static void refuse_all(request *req, place_kind kind, size_t most)
{
    answer_problem(req, PROBLEM_FULL,
                   "%zu %s already, which is all that this service takes: ask another one, or this "
                   "one later, or let it take more (--max-connections)",
                   most, kind == PLACE_WAIT ? "requests for locks are open" : "clients follow");
}

void places_refuse(request *req, place_kind kind, admission why)
{
    const places *p = &req->service->places;
    if (why == ENDING) {
        answer_closed(req);
        return;
    }
    metrics_refused(&req->service->metrics, kind, why);
    if (why == TOO_MANY_OF_ONE)
        refuse_one(req, kind, p->of_one[kind]);
    else
        refuse_all(req, kind, p->of_all[kind]);
    answer_header(req, MHD_HTTP_HEADER_CONNECTION, "close");
}
