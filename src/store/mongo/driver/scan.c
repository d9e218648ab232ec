/* SPDX-License-Identifier: Apache-2.0 */
/* scan.c: keeps what the members said that were all asked at once, and decides when enough has been
 * heard; connection.c tells it, stream.c asks it. A member that is silent delays nobody once the
 * primary has answered. */
#include "store/mongo/driver/scan.h"
#include "core/alloc.h"
#include "store/mongo/driver/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* For how long others are awaited after an answer that names no primary: at least this, and twice
 * as long as that answer took, because members may be as far away again. */
#define OTHERS_MS 500
/* From the beginning, if another member names the primary: four round trips to one far away. A
 * primary that hangs is still named until the others have noticed. */
#define NAMED_MS 3000

void mongo_scan_done(mongo_scan *scan)
{
    free(scan->of);
    scan->of = NULL;
    scan->n = 0;
}

void mongo_scan_begin(mongo_scan *scan, int64_t most_ms)
{
    mongo_scan_done(scan);
    *scan = (mongo_scan){.most_ms = most_ms,
                         .doubted = scan->doubted,
                         .wants_all = scan->wants_all,
                         .finds_set = scan->finds_set,
                         .set = scan->set};
}

static mongo_asked *find(const mongo_scan *scan, const char *host)
{
    for (size_t i = 0; i < scan->n; i++)
        if (strcmp(scan->of[i].host, host) == 0)
            return &scan->of[i];
    return NULL;
}

void mongo_scan_asks(mongo_scan *scan, const char *host, int64_t now_ms)
{
    if (!scan->n)
        scan->began_ms = now_ms;
    if (find(scan, host) || strlen(host) >= MONGO_HOST_SIZE)
        return;
    scan->of = alloc_array(scan->of, scan->n + 1, sizeof *scan->of);
    mongo_asked *asked = &scan->of[scan->n++];
    *asked = (mongo_asked){.said = MONGO_SILENT};
    strcpy(asked->host, host);
}

bool mongo_hello_takes_writes(const bson_t *hello)
{
    return mongo_true_at(hello, "isWritablePrimary") || mongo_true_at(hello, "ismaster");
}

static const char *what_it_is(const bson_t *hello)
{
    if (strstr(mongo_text_at(hello, "errmsg", ""), MONGO_WANTS_API))
        return "a server that says: the " MONGO_WANTS_API;
    if (!mongo_true_at(hello, "ok"))
        return "starting or ending";
    if (mongo_hello_takes_writes(hello))
        return bson_has_field(hello, "setName") ? "the primary" : "a server of its own";
    if (mongo_true_at(hello, "secondary"))
        return "a secondary";
    if (mongo_true_at(hello, "arbiterOnly"))
        return "an arbiter, which has no data";
    return bson_has_field(hello, "setName") ? "a member that is no primary" : "not a data server";
}

static bool names_host(const bson_t *hello, const char *host)
{
    bson_t hosts;
    bson_iter_t it;
    if (!mongo_view(hello, "hosts", &hosts) || !bson_iter_init(&it, &hosts))
        return false;
    while (bson_iter_next(&it))
        if (BSON_ITER_HOLDS_UTF8(&it) && strcasecmp(bson_iter_utf8(&it, NULL), host) == 0)
            return true;
    return false;
}

/* Of the set that is looked for, or of any where none is. */
static bool belongs(const mongo_scan *scan, const bson_t *hello)
{
    const char *set = mongo_text_at(hello, "setName", "");
    if (!scan->finds_set)
        return true;
    if (strcmp(mongo_text_at(hello, "msg", ""), "isdbgrid") == 0)
        return !scan->set;
    return *set && (!scan->set || strcmp(set, scan->set) == 0);
}

/* Whether the driver will take it. A member that its set calls by another name than the URI does is
 * asked once more under that name. */
static bool is_wanted(const mongo_scan *scan, const char *host, const bson_t *hello)
{
    return mongo_hello_takes_writes(hello) &&
           (!scan->finds_set || !bson_has_field(hello, "setName") || names_host(hello, host));
}

static bool is_doubted(const mongo_scan *scan, const char *host)
{
    return scan->doubted && strcmp(host, scan->doubted) == 0;
}

void mongo_scan_hears(mongo_scan *scan, const char *host, const bson_t *hello, int64_t now_ms)
{
    mongo_asked *asked = find(scan, host);
    const char *me = mongo_text_at(hello, "me", host),
               *primary = mongo_text_at(hello, "primary", "");
    if (asked) {
        asked->said = MONGO_ANSWERED;
        snprintf(asked->what, sizeof asked->what, "%s", what_it_is(hello));
    }
    if (!mongo_true_at(hello, "ok") || !belongs(scan, hello))
        return;
    scan->answered_ms = now_ms;
    scan->has_answer = true;
    if (is_wanted(scan, host, hello))
        scan->is_found |= !is_doubted(scan, me);
    else if (*primary && !is_doubted(scan, primary))
        scan->names_primary = true;
}

static void fails(mongo_scan *scan, const char *host, mongo_said how, const char *why)
{
    mongo_asked *asked = find(scan, host);
    if (!asked || asked->said != MONGO_SILENT)
        return;
    asked->said = how;
    snprintf(asked->what, sizeof asked->what, "%s", why);
}

void mongo_scan_misses(mongo_scan *scan, const char *host, const char *why)
{
    fails(scan, host, MONGO_FAILED, why);
}

void mongo_scan_distrusts(mongo_scan *scan, const char *host, const char *why)
{
    fails(scan, host, MONGO_UNTRUSTED, why);
}

bool mongo_scan_is_untrusted(const mongo_scan *scan)
{
    bool is_any = false;
    for (size_t i = 0; i < scan->n; i++) {
        if (scan->of[i].said == MONGO_ANSWERED)
            return false;
        is_any |= scan->of[i].said == MONGO_UNTRUSTED;
    }
    return is_any;
}

int64_t mongo_scan_ends_ms(const mongo_scan *scan)
{
    int64_t most_ms = scan->began_ms + scan->most_ms, took_ms, ends_ms;
    if (scan->is_found && !scan->wants_all)
        return scan->began_ms;
    if (!scan->has_answer)
        return most_ms;
    took_ms = scan->answered_ms - scan->began_ms;
    ends_ms = scan->answered_ms + (2 * took_ms > OTHERS_MS ? 2 * took_ms : OTHERS_MS);
    if (scan->names_primary && ends_ms < scan->began_ms + NAMED_MS)
        ends_ms = scan->began_ms + NAMED_MS;
    return ends_ms < most_ms ? ends_ms : most_ms;
}

bool mongo_scan_is_silent(const mongo_scan *scan, const char *host)
{
    const mongo_asked *asked = find(scan, host);
    return asked && asked->said == MONGO_SILENT;
}

int64_t mongo_scan_took_ms(const mongo_scan *scan)
{
    return mongo_scan_ends_ms(scan) - scan->began_ms;
}

void mongo_scan_tell(const mongo_scan *scan, int64_t now_ms, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < scan->n && used < size; i++) {
        const mongo_asked *asked = &scan->of[i];
        const char *joint = i ? ", " : "";
        int n = asked->said == MONGO_SILENT
                    ? snprintf(out + used, size - used, "%s%s is silent (%.1f s)", joint,
                               asked->host, (double)(now_ms - scan->began_ms) / 1000)
                    : snprintf(out + used, size - used,
                               asked->said == MONGO_ANSWERED ? "%s%s is %s" : "%s%s: %s", joint,
                               asked->host, asked->what);
        used += n > 0 ? (size_t)n : 0;
    }
}
