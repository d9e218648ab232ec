/* SPDX-License-Identifier: Apache-2.0 */
/* records.c: remembers the locks' records, sorted by name, and has core/record.c change them;
 * memory.c lists its functions. */
#include "store/memory/memory_internal.h"

#include "core/alloc.h"
#include "core/lease.h"
#include "core/period.h"
#include "core/record.h"
#include "core/text.h"

#include <stdio.h>

#define LIST_RECORDS 200 /* of a listing that are copied at once */
#define PRUNE_MS ((int64_t)3 * 86400000)
#define LEFT_MS 3600000 /* what waiters take out sooner is left to them */

/* Where the record of that name is, or belongs. */
static size_t place_of(const struct memory *memory, const char *name)
{
    size_t low = 0, high = memory->n_records;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(memory->records[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static hf_record *find_record(const struct memory *memory, const char *name)
{
    size_t at = place_of(memory, name);
    bool is_there = at < memory->n_records && strcmp(memory->records[at]->name, name) == 0;
    return is_there ? memory->records[at] : NULL;
}

static hf_record *add_record(struct memory *memory, const char *name)
{
    size_t at = place_of(memory, name), n = memory->n_records++;
    memory->records = alloc_more(memory->records, n, sizeof *memory->records);
    memmove(&memory->records[at + 1], &memory->records[at], (n - at) * sizeof *memory->records);
    memory->records[at] = alloc_zeroed(sizeof(hf_record));
    record_init(memory->records[at], name);
    return memory->records[at];
}

void memory_free_record(hf_record *record)
{
    record_done(record);
    free(record);
}

/* Copies a record, or one that does not exist. */
static void read_record(const struct memory *memory, const char *name, hf_record *out)
{
    const hf_record *record = find_record(memory, name);
    if (record)
        record_copy(out, record);
    else
        record_init(out, name);
}

static int64_t floor_of(const struct memory *memory, hf_dbtime now)
{
    int64_t floor = record_floor_of(now), least = memory->used_token + 1 + RECORD_LAG;
    return floor > least ? floor : least;
}

/* Whether it changed anything. */
static bool apply(struct memory *memory, hf_record *record, const hf_step *step, hf_dbtime now)
{
    const char *news;
    notify_note note;
    int64_t floor = step->floor ? *step->floor : floor_of(memory, now);
    if (!record_step_telling(record, step, now, floor, &news))
        return false;
    memory->version++;
    while (notify_next(&news, &note))
        memory_publish(memory, record->name, &note);
    return true;
}

hf_code memory_step(hf_store *base, const char *name, const hf_step *step, hf_record *out,
                    hf_step_reply *reply, hf_error *err)
{
    (void)err;
    hf_dbtime now = step->now ? *step->now : memory_time((struct memory_store *)base);
    struct memory *memory = memory_lock(base);
    hf_record *record = find_record(memory, name);
    if (!record && record_makes(step))
        record = add_record(memory, name);
    bool changed = record && apply(memory, record, step, now);
    if (out)
        read_record(memory, name, out);
    *reply = (hf_step_reply){.stamp = {memory->version}, .confirmed = changed || step->enter};
    memory_unlock(memory);
    return HF_OK;
}

/* With no lock held; frees them. False: no more are wanted. */
static bool give_all(hf_record *records, size_t n, hf_record_fn each, void *ctx)
{
    bool more = true;
    for (size_t i = 0; i < n; i++) {
        more = more && each(ctx, &records[i]);
        record_done(&records[i]);
    }
    free(records);
    return more;
}

hf_code memory_look(hf_store *base, const char *const *names, size_t n, hf_stamp after,
                    bool linearizable, hf_record_fn each, void *ctx, hf_error *err)
{
    (void)after; /* there is one copy, and it is the newest */
    (void)linearizable;
    (void)err;
    hf_record *records = alloc_array(NULL, n, sizeof *records);
    struct memory *memory = memory_lock(base);
    for (size_t i = 0; i < n; i++)
        read_record(memory, names[i], &records[i]);
    memory_unlock(memory);
    give_all(records, n, each, ctx);
    return HF_OK;
}

/* Copies the next records of a listing; returns how many. The part then begins behind the last. */
static size_t copy_some(struct memory *memory, hf_list_part *part, char after[HF_NAME_MAX + 1],
                        hf_record *out, size_t most)
{
    size_t n = 0, length = strlen(part->prefix);
    for (size_t i = place_of(memory, record_first_listed(part)); i < memory->n_records; i++) {
        const hf_record *record = memory->records[i];
        if (n == most || strncmp(record->name, part->prefix, length) > 0)
            break;
        if (record_is_listed(record, part))
            record_copy(&out[n++], record);
    }
    if (n)
        snprintf(after, HF_NAME_MAX + 1, "%s", out[n - 1].name);
    part->after = n ? after : part->after;
    return n;
}

hf_code memory_list(hf_store *base, const hf_list_part *part, hf_record_fn each, void *ctx,
                    hf_error *err)
{
    (void)err;
    char after[HF_NAME_MAX + 1];
    hf_list_part rest = *part;
    size_t left = part->limit ? part->limit : SIZE_MAX, n, most;
    bool goes_on = true;
    for (; goes_on && left; left -= n) {
        most = left < LIST_RECORDS ? left : LIST_RECORDS;
        hf_record *records = alloc_array(NULL, most, sizeof *records);
        struct memory *memory = memory_lock(base);
        n = copy_some(memory, &rest, after, records, most);
        memory_unlock(memory);
        goes_on = give_all(records, n, each, ctx) && n == most;
    }
    return HF_OK;
}

static bool is_prunable(const hf_record *record, hf_dbtime now)
{
    return record->holders + record->queued == 0 && record->last.at.ms < now.ms - PRUNE_MS &&
           period_is_over(&record->last, now) &&
           record->token < record_floor_of((hf_dbtime){now.ms - PRUNE_MS});
}

void memory_prune(struct memory *memory, hf_dbtime now)
{
    size_t kept = 0;
    for (size_t i = 0; i < memory->n_records; i++) {
        hf_record *record = memory->records[i];
        if (!is_prunable(record, now)) {
            memory->records[kept++] = record;
            continue;
        }
        if (record->token > memory->used_token)
            memory->used_token = record->token;
        memory_free_record(record);
    }
    memory->n_records = kept;
}

static size_t find_deaths(const struct memory *memory, const hf_record *record, hf_mono now,
                          hf_death *deaths)
{
    size_t n = 0;
    for (size_t i = 0; i < record->holders + record->queued; i++) {
        const struct presence *presence = memory_find_session(memory, record->entries[i].session);
        if (!presence || presence->state.presence != HF_DEAD ||
            -mono_ms_until(presence->expires, now) <= LEFT_MS)
            continue;
        deaths[n] = (hf_death){.session = record->entries[i].session};
        text_who(&presence->state.session, deaths[n++].who);
    }
    return n;
}

void memory_take_dead_out(struct memory *memory, hf_mono now, hf_dbtime date)
{
    for (size_t i = 0; i < memory->n_records; i++) {
        hf_record *record = memory->records[i];
        hf_death *deaths = alloc_array(NULL, record->holders + record->queued, sizeof *deaths);
        hf_step step = {.deaths = deaths, .n_deaths = find_deaths(memory, record, now, deaths)};
        if (step.n_deaths)
            apply(memory, record, &step, date);
        free(deaths);
    }
}
