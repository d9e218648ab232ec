/* SPDX-License-Identifier: Apache-2.0 */
/* server.c: reads serverStatus and counts documents of the oplog; see server.h. */
#include "server.h"

#include <mongoc/mongoc.h>

#include "bench.h"

struct server {
    mongoc_client_t *client;
    mongoc_collection_t *oplog; /* NULL: it may not be read, or there is none */
    char namespaces[PLACE_NAME_MAX + 4];
};

static int64_t number_at(const bson_t *doc, const char *path)
{
    bson_iter_t it, found;
    if (!bson_iter_init(&it, doc) || !bson_iter_find_descendant(&it, path, &found))
        return 0;
    return bson_iter_as_int64(&found);
}

static double commands_in(const bson_t *status, const char *const *names)
{
    int64_t sum = 0;
    char path[80];
    for (; *names; names++) {
        snprintf(path, sizeof path, "metrics.commands.%s.total", *names);
        sum += number_at(status, path);
    }
    return (double)sum;
}

static double cpu_ms_in(const bson_t *status)
{
    return (double)(number_at(status, "extra_info.user_time_us") +
                    number_at(status, "extra_info.system_time_us")) /
           1e3;
}

/* Of all servers but the primary. */
static double others_ms(struct server *from, const bson_t *command)
{
    size_t n;
    double sum = 0;
    mongoc_read_prefs_t *any = mongoc_read_prefs_new(MONGOC_READ_NEAREST);
    mongoc_server_description_t **all = mongoc_client_get_server_descriptions(from->client, &n);
    for (size_t i = 0; i < n; i++) {
        bson_t reply;
        if (strcmp(mongoc_server_description_type(all[i]), "RSSecondary") != 0)
            continue;
        if (mongoc_client_command_simple_with_server_id(from->client, "admin", command, any,
                                                        mongoc_server_description_id(all[i]),
                                                        &reply, NULL))
            sum += cpu_ms_in(&reply);
        bson_destroy(&reply);
    }
    mongoc_server_descriptions_destroy_all(all, n);
    mongoc_read_prefs_destroy(any);
    return sum;
}

static bool read_status(struct server *from, counts *out, bson_error_t *error)
{
    static const char *const writes[] = {"findAndModify", "update", "insert", "delete", NULL};
    static const char *const reads[] = {"find", "aggregate", NULL};
    bson_t reply, *command = BCON_NEW("serverStatus", BCON_INT32(1));
    bson_iter_t time;
    bool is_well =
        mongoc_client_command_simple(from->client, "admin", command, NULL, &reply, error);
    *out = (counts){.ns = now_ns()};
    out->writes = commands_in(&reply, writes);
    out->reads = commands_in(&reply, reads);
    out->primary_ms = cpu_ms_in(&reply);
    out->connections = (double)number_at(&reply, "connections.current");
    out->resident_mib = (double)number_at(&reply, "mem.resident");
    if (bson_iter_init_find(&time, &reply, "operationTime") && BSON_ITER_HOLDS_TIMESTAMP(&time))
        bson_iter_timestamp(&time, &out->seconds, &out->increment);
    bson_destroy(&reply);
    bson_destroy(command);
    return is_well;
}

counts server_count(struct server *from)
{
    counts now;
    bson_error_t error;
    bson_t *command = BCON_NEW("serverStatus", BCON_INT32(1));
    if (!read_status(from, &now, &error))
        fail(EX_UNAVAILABLE, "serverStatus", error.message);
    now.others_ms = others_ms(from, command);
    bson_destroy(command);
    return now;
}

/* What went into the oplog between two moments; false: it may not be read. */
static bool oplog_between(struct server *from, const counts *before, const counts *after,
                          double *entries, double *bytes)
{
    const bson_t *found;
    bson_t *pipeline =
        BCON_NEW("pipeline", "[", "{", "$match", "{", "ts", "{", "$gt",
                 BCON_TIMESTAMP((int32_t)before->seconds, (int32_t)before->increment), "$lte",
                 BCON_TIMESTAMP((int32_t)after->seconds, (int32_t)after->increment), "}", "ns",
                 BCON_REGEX(from->namespaces, ""), "}", "}", "{", "$group", "{", "_id", BCON_NULL,
                 "n", "{", "$sum", BCON_INT32(1), "}", "bytes", "{", "$sum", "{", "$bsonSize",
                 BCON_UTF8("$$ROOT"), "}", "}", "}", "}", "]");
    mongoc_cursor_t *cursor =
        mongoc_collection_aggregate(from->oplog, MONGOC_QUERY_NONE, pipeline, NULL, NULL);
    *entries = *bytes = 0;
    if (mongoc_cursor_next(cursor, &found)) {
        *entries = (double)number_at(found, "n");
        *bytes = (double)number_at(found, "bytes");
    }
    bool is_read = !mongoc_cursor_error(cursor, NULL);
    mongoc_cursor_destroy(cursor);
    bson_destroy(pipeline);
    return is_read;
}

struct server *server_open(const struct place *place, const char **why)
{
    bson_error_t error;
    counts now;
    double entries, bytes;
    *why = "it has no server that counts";
    if (place->kind != PLACE_MONGO)
        return NULL;
    struct server *out = bson_malloc0(sizeof *out);
    out->client = mongoc_client_new(place->driver_uri);
    out->oplog = mongoc_client_get_collection(out->client, "local", "oplog.rs");
    snprintf(out->namespaces, sizeof out->namespaces, "^%s[.]", place->database);
    if (!read_status(out, &now, &error)) {
        *why = "needs the right to serverStatus (role clusterMonitor)";
        server_close(out);
        return NULL;
    }
    if (!now.seconds || !oplog_between(out, &now, &now, &entries, &bytes)) {
        mongoc_collection_destroy(out->oplog);
        out->oplog = NULL;
    }
    return out;
}

void server_close(struct server *from)
{
    if (!from)
        return;
    mongoc_collection_destroy(from->oplog);
    mongoc_client_destroy(from->client);
    bson_free(from);
}

/* ---- Costs ---- */

typedef struct sums {
    double s, writes, reads, entries, bytes, primary_ms, others_ms;
} sums;

static sums between(struct server *from, const counts *before, const counts *after)
{
    sums out = {.s = (double)(after->ns - before->ns) / 1e9,
                .writes = after->writes - before->writes,
                .reads = after->reads - before->reads,
                .primary_ms = after->primary_ms - before->primary_ms,
                .others_ms = after->others_ms - before->others_ms};
    if (from->oplog)
        oplog_between(from, before, after, &out.entries, &out.bytes);
    return out;
}

static void add(const struct server *from, const sums *of, double n, struct costs *out)
{
    series_add(&out->writes, of->writes / n);
    series_add(&out->reads, of->reads / n);
    series_add(&out->primary_ms, of->primary_ms / n);
    series_add(&out->others_ms, of->others_ms / n);
    if (!from->oplog)
        return;
    series_add(&out->entries, of->entries / n);
    series_add(&out->bytes, of->bytes / n);
}

void server_add(struct server *from, const counts *before, const counts *after, double n,
                struct costs *out)
{
    sums all = between(from, before, after);
    add(from, &all, n, out);
}

void server_add_less(struct server *from, const counts *before, const counts *after,
                     const counts *idle_before, const counts *idle_after, double n,
                     struct costs *out)
{
    sums all = between(from, before, after), idle = between(from, idle_before, idle_after);
    double part = all.s / idle.s;
    all.writes -= idle.writes * part;
    all.reads -= idle.reads * part;
    all.entries -= idle.entries * part;
    all.bytes -= idle.bytes * part;
    all.primary_ms -= idle.primary_ms * part;
    all.others_ms -= idle.others_ms * part;
    add(from, &all, n, out);
}

void server_rows(const struct server *from, const char *why, const struct costs *of, goal aim,
                 const char *what)
{
    if (!from) {
        table_note(why, "%s: commands and oplog entries", what);
        return;
    }
    table_row(&of->writes, aim, "%s: write commands", what);
    table_row(&of->reads, NO_GOAL, "%s: read commands", what);
    table_row(&of->primary_ms, NO_GOAL, "%s: ms of the primary", what);
    table_row(&of->others_ms, NO_GOAL, "%s: ms of the other servers", what);
    if (!from->oplog) {
        table_note("needs a replica set and the right to read local.oplog.rs", "%s: oplog entries",
                   what);
        return;
    }
    table_row(&of->entries, NO_GOAL, "%s: oplog entries", what);
    table_row(&of->bytes, NO_GOAL, "%s: oplog bytes", what);
}
