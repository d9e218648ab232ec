/* SPDX-License-Identifier: Apache-2.0 */
/* json.c: writes the listings as JSON; called by the verbs that take --json, and by the service. */
#include "show/json.h"

#include <stdio.h>
#include <stdlib.h>

#include "show/text.h"

static json_t *need(json_t *value)
{
    if (!value)
        text_no_memory();
    return value;
}

json_t *json_array_new(void)
{
    return need(json_array());
}

json_t *json_object_new(void)
{
    return need(json_object());
}

void json_append(json_t *array, json_t *value)
{
    need(json_array_append_new(array, value) ? NULL : array);
}

void json_put(json_t *object, const char *key, json_t *value)
{
    need(json_object_set_new(object, key, need(value)) ? NULL : object);
}

/* A store can contain bytes that are not UTF-8; JSON cannot. */
void json_put_text(json_t *object, const char *key, const char *text)
{
    char *whole = text_repair(text ? text : "");
    json_put(object, key, json_string(whole));
    free(whole);
}

void json_put_number(json_t *object, const char *key, int64_t number)
{
    json_put(object, key, json_integer((json_int_t)number));
}

void json_put_token(json_t *object, int64_t token)
{
    if (token)
        json_put_number(object, "token", token);
}

/* A moment, null when it is not known. */
static void put_time(json_t *object, const char *key, int64_t unix_ms)
{
    char *text = text_iso(unix_ms);
    json_put(object, key, unix_ms ? json_string(text) : json_null());
    free(text);
}

static void put_lease(json_t *object, int64_t left_ms)
{
    json_put(object, "lease_left_ms", left_ms ? json_integer((json_int_t)left_ms) : json_null());
}

static json_t *of_entry(const hf_entry_info *entry)
{
    json_t *out = json_object_new();
    json_put_text(out, "session", entry->session);
    json_put_text(out, "who", entry->who);
    json_put_text(out, "why", entry->why);
    json_put_number(out, "token", entry->token);
    json_put_number(out, "permits", entry->permits);
    put_time(out, "since", board_since(entry));
    put_lease(out, entry->lease_left_ms);
    if (entry->position)
        json_put_number(out, "position", (int64_t)entry->position);
    return out;
}

static json_t *of_entries(const hf_entry_info *entries, size_t n)
{
    json_t *out = json_array_new();
    for (size_t i = 0; i < n; i++)
        json_append(out, of_entry(&entries[i]));
    return out;
}

static json_t *of_done(const hf_done *done)
{
    if (!done->who)
        return json_null();
    json_t *out = json_object_new();
    json_put_text(out, "who", done->who);
    json_put_number(out, "token", done->token);
    json_put_number(out, "exit_status", done->exit_status);
    put_time(out, "period", done->period_start_ms);
    put_time(out, "period_end", done->period_end_ms);
    put_time(out, "at", done->at_ms);
    return out;
}

json_t *json_of_last(const hf_last *last)
{
    static const char *const names[] = {
        [HF_OUTCOME_NONE] = "none",
        [HF_OUTCOME_RELEASED] = "released",
        [HF_OUTCOME_ABANDONED] = "abandoned",
    };
    json_t *out = json_object_new();
    json_put_text(out, "outcome", names[last->outcome]);
    json_put_text(out, "who", last->who);
    json_put_number(out, "token", last->token);
    json_put(out, "exit_status",
             last->has_exit_status ? json_integer(last->exit_status) : json_null());
    put_time(out, "period", last->period_start_ms);
    put_time(out, "period_end", last->period_end_ms);
    json_put_text(out, "reason", last->reason);
    put_time(out, "at", last->at_ms);
    json_put(out, "done", of_done(&last->done));
    return out;
}

json_t *json_of_holders(const hf_lock_info *info)
{
    return of_entries(info->holders, info->n_holders);
}

json_t *json_of_lock(const hf_lock_info *info)
{
    json_t *out = json_object_new();
    json_put_text(out, "name", info->name);
    json_put_number(out, "limit", info->limit);
    json_put_number(out, "token", info->token);
    json_put(out, "holders", json_of_holders(info));
    json_put(out, "queue", of_entries(info->queue, info->n_queue));
    json_put_number(out, "outside", (int64_t)info->n_outside);
    json_put(out, "last", json_of_last(&info->last));
    return out;
}

static json_t *of_turn(const hf_turn *turn)
{
    static const char *const ends[] = {[HF_TURN_RELEASED] = "released",
                                       [HF_TURN_LOST] = "lost",
                                       [HF_TURN_BROKEN] = "broken",
                                       [HF_TURN_ABANDONED] = "abandoned"};
    json_t *out = json_object_new();
    json_put_text(out, "name", turn->name);
    json_put_text(out, "session", turn->session);
    json_put_text(out, "who", turn->who);
    json_put_text(out, "actor", turn->actor);
    json_put_text(out, "why", turn->why);
    json_put_number(out, "token", turn->token);
    json_put_number(out, "permits", turn->permits);
    json_put_number(out, "limit", turn->limit);
    put_time(out, "granted", turn->granted_ms);
    put_time(out, "ended", turn->ended_ms);
    json_put_text(out, "end", ends[turn->end]);
    json_put_text(out, "reason", turn->reason);
    json_put(out, "exit_status",
             turn->has_exit_status ? json_integer(turn->exit_status) : json_null());
    json_put_number(out, "more", turn->more);
    return out;
}

static json_t *of_missing(const hf_turn *turn)
{
    json_t *out = json_object_new();
    json_put_number(out, "turns", turn->more);
    json_put_text(out, "who", turn->who);
    put_time(out, "from", turn->granted_ms);
    put_time(out, "to", turn->ended_ms);
    return out;
}

json_t *json_history_new(void)
{
    json_t *out = json_object_new();
    json_put(out, "turns", json_array_new());
    json_put(out, "missing", json_array_new());
    return out;
}

bool json_add_turn(void *history, const hf_turn *turn)
{
    if (turn->end == HF_TURN_MISSING)
        json_append(json_object_get(history, "missing"), of_missing(turn));
    else
        json_append(json_object_get(history, "turns"), of_turn(turn));
    return true;
}

/* 0 where it is not known since when. */
static int64_t time_since(int64_t since_ms, int64_t at_ms)
{
    return since_ms && at_ms > since_ms ? at_ms - since_ms : 0;
}

json_t *json_of_change(const change *what)
{
    const hf_entry_info *entry = &what->entry;
    bool has_status = what->last && what->last->has_exit_status;
    int64_t since = what->kind == CHANGE_GRANT ? entry->since_ms : board_since(entry);
    json_t *out = json_object_new();
    put_time(out, "at", what->at_ms);
    json_put_text(out, "event", change_name(what->kind));
    json_put_text(out, "name", what->name);
    json_put_text(out, "who", entry->who);
    json_put_text(out, "session", entry->session);
    json_put_text(out, "why", entry->why);
    json_put_number(out, "token", entry->token);
    json_put_number(out, "permits", entry->permits);
    json_put_number(out, "for_ms", time_since(since, what->at_ms));
    json_put(out, "exit_status", has_status ? json_integer(what->last->exit_status) : json_null());
    json_put_text(out, "reason", what->last ? what->last->reason : "");
    json_put(out, "was_there", json_boolean(what->was_there));
    return out;
}

json_t *json_of_session(const hf_session_info *info)
{
    json_t *out = json_object_new();
    json_put_text(out, "session", info->session);
    json_put_text(out, "app", info->app);
    json_put_text(out, "host", info->host);
    json_put_number(out, "pid", info->pid);
    put_time(out, "started", info->started_ms);
    json_put_number(out, "ttl_ms", info->ttl_ms);
    put_lease(out, info->lease_left_ms);
    json_put(out, "dead", json_boolean(info->dead));
    return out;
}

json_t *json_of_finding(const hf_finding *finding)
{
    json_t *out = json_object_new();
    json_put_text(out, "topic", finding->topic);
    json_put_text(out, "text", finding->text);
    json_put(out, "is_danger", json_boolean(finding->is_danger));
    json_put(out, "wants_care", json_boolean(finding->wants_care));
    return out;
}

json_t *json_of_leader(const char *name, const hf_leader *leader)
{
    json_t *out = json_object_new(), *now = leader ? json_object_new() : json_null();
    if (leader) {
        json_put_text(now, "session", leader->session);
        json_put_text(now, "who", leader->who);
        json_put_text(now, "why", leader->value);
        json_put_number(now, "token", leader->token);
        put_time(now, "since", leader->since_ms);
    }
    json_put_text(out, "name", name);
    json_put(out, "leader", now);
    return out;
}

bool json_add_why_link(void *links, const hf_why_link *link)
{
    static const char *const names[] = {
        [HF_WHY_ROOT] = "root", [HF_WHY_FOLLOWS] = "follows", [HF_WHY_CYCLE] = "cycle",
        [HF_WHY_TOLD] = "told", [HF_WHY_CUT] = "cut",         [HF_WHY_UNKNOWN] = "unknown",
    };
    json_t *out = json_object_new();
    json_put_text(out, "name", link->name);
    json_put_number(out, "depth", (int64_t)link->depth);
    json_put(out, "holder", of_entry(link->holder));
    json_put_text(out, "actor", link->holder->actor);
    json_put(out, "waits_for", json_null());
    if (link->waits_for)
        json_put_text(out, "waits_for", link->waits_for);
    json_put_text(out, "next", names[link->next]);
    json_append(links, out);
    return true;
}

json_t *json_of_why(const char *name, json_t *links)
{
    json_t *out = json_object_new();
    json_put_text(out, "name", name);
    json_put(out, "links", links);
    return out;
}

char *json_text(const json_t *value, size_t flags)
{
    char *text = json_dumps(value, flags);
    if (!text)
        text_no_memory();
    return text_escape_json(text);
}

/* main() looks at stdout's error flag when the verb has ended. */
void json_write(const json_t *value)
{
    char *text = json_text(value, JSON_COMPACT);
    fputs(text, stdout);
    free(text);
}

void json_print(const json_t *value)
{
    json_write(value);
    putchar('\n');
}
