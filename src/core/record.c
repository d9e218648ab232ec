/* SPDX-License-Identifier: Apache-2.0 */
/* record.c: decides what a step does to a lock's record: which entries leave, are granted, wait, or
 * get fewer or more permits. The pipeline in store/mongo/queue/pipeline.c must say exactly the
 * same; tests/differential compares. */
#include "core/record.h"

#include "core/alloc.h"
#include "core/id.h"
#include "core/notify.h"

#include <stdio.h>

void record_init(hf_record *record, const char *name)
{
    *record = (hf_record){.limit = 0};
    snprintf(record->name, sizeof record->name, "%s", name);
}

void record_done(hf_record *record)
{
    free(record->entries);
    free(record->notify);
    free(record->who);
    free(record->document);
    record->entries = NULL;
    record->notify = record->who = record->document = NULL;
    record->holders = record->queued = 0;
}

void record_copy(hf_record *to, const hf_record *from)
{
    *to = *from;
    to->entries = NULL;
    to->holders = to->queued = 0;
    for (size_t i = 0; i < from->holders + from->queued; i++)
        record_append(to, &from->entries[i], i < from->holders);
    to->notify = from->notify ? alloc_text(from->notify) : NULL;
    to->who = from->who ? alloc_text(from->who) : NULL;
    to->document = from->document ? alloc_text(from->document) : NULL;
}

void record_append(hf_record *record, const hf_entry *entry, bool as_holder)
{
    size_t n = record->holders + record->queued;
    if ((n & (n - 1)) == 0) /* grow at 0, 1, 2, 4, 8 ... */
        record->entries = alloc_array(record->entries, n ? 2 * n : 1, sizeof *record->entries);
    record->entries[n] = *entry;
    if (as_holder)
        record->holders++;
    else
        record->queued++;
}

void record_insert(hf_record *record, const hf_entry *entry)
{
    record_append(record, entry, false);
    hf_entry *at = &record->entries[record->holders + record->queued - 1];
    for (; at > &record->entries[record->holders] && at[-1].number > entry->number; at--)
        *at = at[-1];
    *at = *entry;
}

const hf_entry *record_find(const hf_record *record, hf_id ticket)
{
    for (size_t i = 0; i < record->holders + record->queued; i++)
        if (id_equal(record->entries[i].ticket, ticket))
            return &record->entries[i];
    return NULL;
}

bool record_is_listed(const hf_record *record, const hf_list_part *part)
{
    return strncmp(record->name, part->prefix, strlen(part->prefix)) == 0 &&
           strcmp(record->name, part->after) > 0 &&
           (!part->in_use || record->holders + record->queued > 0);
}

const char *record_first_listed(const hf_list_part *part)
{
    return strcmp(part->after, part->prefix) > 0 ? part->after : part->prefix;
}

size_t record_position(const hf_record *record, const hf_entry *entry)
{
    size_t at = (size_t)(entry - record->entries);
    return at < record->holders ? 0 : at - record->holders + 1;
}

static int64_t permits_held(const hf_record *record)
{
    int64_t sum = 0;
    for (size_t i = 0; i < record->holders; i++)
        sum += record->entries[i].permits;
    return sum;
}

static const hf_leave *leave_of(const hf_step *step, hf_id ticket)
{
    for (size_t i = 0; i < step->n_leaves; i++)
        if (id_equal(step->leaves[i].ticket, ticket))
            return &step->leaves[i];
    return NULL;
}

static const hf_death *death_of(const hf_step *step, hf_id session)
{
    for (size_t i = 0; i < step->n_deaths; i++)
        if (id_equal(step->deaths[i].session, session))
            return &step->deaths[i];
    return NULL;
}

/* Of those that are the entry's own. */
static int64_t last_token(const hf_entry *entry)
{
    return entry->token + (entry->block > 1 ? entry->block - 1 : 0);
}

/* `abandoned` is overwritten only by a holder with a higher token (I6). */
static void remember(hf_record *record, const hf_last_mark *mark, const char *who,
                     const char *reason)
{
    if (record->last.outcome == HF_OUTCOME_ABANDONED && mark->token <= record->last.token)
        return;
    hf_done_mark done = record->last.done;
    record->last = *mark;
    record->last.done = done;
    snprintf(record->last.who, sizeof record->last.who, "%s", who);
    snprintf(record->last.reason, sizeof record->last.reason, "%s", reason);
}

/* Gives back the tokens that the holder did not use, if none was given since. */
static void give_back(hf_record *record, const hf_entry *holder, int64_t used)
{
    if (used >= holder->token && used <= record->token && last_token(holder) == record->token)
        record->token = used;
}

/* Work of a period that is not over yet stays, unless work of a period takes its place (I9). */
static void remember_done(hf_record *record, const hf_leave *leave, int64_t token, hf_dbtime now)
{
    hf_done_mark *done = &record->last.done;
    bool gives_way = leave->period.end.ms > 0 || done->period.end.ms <= now.ms;
    if (!leave->has_exit_status || leave->outcome != HF_OUTCOME_RELEASED || !gives_way)
        return;
    *done = (hf_done_mark){.is_known = true,
                           .exit_status = leave->exit_status,
                           .period = leave->period,
                           .token = token,
                           .at = now};
    snprintf(done->who, sizeof done->who, "%s", leave->who);
}

static void remember_leave(hf_record *record, const hf_entry *holder, const hf_leave *leave,
                           hf_dbtime now)
{
    if (!leave->told)
        return;
    int64_t token = leave->used_token > holder->token ? leave->used_token : holder->token;
    remember_done(record, leave, token, now);
    hf_last_mark mark = {.outcome = leave->outcome,
                         .session = holder->session,
                         .token = token,
                         .has_exit_status = leave->has_exit_status,
                         .exit_status = leave->exit_status,
                         .period = leave->period,
                         .at = now};
    remember(record, &mark, leave->who, leave->reason);
}

static void remember_death(hf_record *record, const hf_entry *holder, const hf_death *death,
                           hf_dbtime now)
{
    hf_last_mark mark = {.outcome = HF_OUTCOME_ABANDONED,
                         .session = holder->session,
                         .token = holder->token,
                         .at = now};
    remember(record, &mark, death->who, "");
}

static const hf_leave given_back = {.told = false};

/* The ID lease that a pass makes stands already: the tickets of other calls that make it are taken
 * out. */
static bool is_superfluous(const hf_record *record, const hf_pass *pass)
{
    return pass && record_find(record, pass->to) && !id_equal(pass->ticket, pass->to);
}

/* Takes out what leaves and what is dead, and remembers how the holders among them went. */
static bool edit(hf_record *record, const hf_step *step, hf_dbtime now)
{
    size_t n = record->holders + record->queued, kept = 0, kept_holders = 0;
    const hf_id *superfluous = is_superfluous(record, step->pass) ? &step->pass->ticket : NULL;
    for (size_t i = 0; i < n; i++) {
        const hf_entry *entry = &record->entries[i];
        const hf_leave *leave = leave_of(step, entry->ticket);
        const hf_death *death = leave ? NULL : death_of(step, entry->session);
        if (!leave && !death && superfluous && id_equal(entry->ticket, *superfluous))
            leave = &given_back;
        bool holds = i < record->holders;
        if (leave && holds) {
            remember_leave(record, entry, leave, now);
            give_back(record, entry, leave->used_token);
        }
        if (death && holds)
            remember_death(record, entry, death, now);
        if (leave || death)
            continue;
        record->entries[kept++] = *entry;
        kept_holders += holds;
    }
    record->holders = kept_holders;
    record->queued = kept - kept_holders;
    return kept < n;
}

/* Lowers a holder's permits; never raises them. */
static bool lower(hf_record *record, const hf_change *change)
{
    for (size_t i = 0; i < record->holders; i++) {
        hf_entry *holder = &record->entries[i];
        if (!id_equal(holder->ticket, change->ticket))
            continue;
        if (change->permits < 1 || change->permits >= holder->permits)
            return false;
        holder->permits = change->permits;
        return true;
    }
    return false;
}

/* As far as the record knows: others may have left since. */
static bool has_ended(const hf_record *record, const hf_pass *pass)
{
    return record->last.outcome != HF_OUTCOME_NONE && id_equal(record->last.session, pass->session);
}

static bool may_pass(const hf_record *record, const hf_pass *pass)
{
    return pass && !has_ended(record, pass) && !record_find(record, pass->to);
}

/* No thread passes an ID lease on: it yields to nobody, and its block ends. */
static bool hand_over(hf_record *record, const hf_pass *pass, hf_dbtime now)
{
    for (size_t i = 0; i < record->holders; i++) {
        hf_entry *holder = &record->entries[i];
        if (!id_equal(holder->ticket, pass->ticket))
            continue;
        if (pass->before)
            remember_leave(record, holder, pass->before, now);
        holder->ticket = pass->to;
        holder->session = pass->session;
        holder->ttl_ms = pass->ttl_ms;
        holder->token = pass->token;
        holder->yields = false;
        holder->block = 0;
        snprintf(holder->why, sizeof holder->why, "%s", pass->why ? pass->why : "");
        snprintf(holder->actor, sizeof holder->actor, "%s", pass->actor ? pass->actor : "");
        return true;
    }
    return false;
}

static void note_grant(char *notify, const hf_entry *entry)
{
    notify_note note = {NOTE_GRANT, entry->session, entry->ticket, entry->token, entry->block};
    notify_append(notify, &note);
}

static void note_recall(char *notify, const hf_entry *holder, const hf_entry *asking)
{
    notify_note note = {NOTE_RECALL, .session = holder->session, .ticket = asking->ticket};
    if (holder->yields)
        notify_append(notify, &note);
}

/* Another session stands in the way of the head of the queue now: it is to watch that one (L1). */
static void note_look(char *notify, const hf_record *record)
{
    const hf_entry *head = &record->entries[record->holders];
    if (record->queued)
        notify_append(notify, &(notify_note){NOTE_LOOK, head->session, head->ticket, 0, 0});
}

static bool head_fits(const hf_record *record)
{
    return record->queued &&
           permits_held(record) + record->entries[record->holders].permits <= record->limit;
}

static int64_t next_token(const hf_record *record, int64_t floor)
{
    int64_t lowest = record->token < 1 ? floor : floor - RECORD_LAG;
    return record->token + 1 > lowest ? record->token + 1 : lowest;
}

/* How much of a block to give: the tokens below the floor, less one for each entry that still
 * waits, because all of them may be granted at once without a write in between. */
static int32_t kept_block(const hf_record *record, const hf_entry *entry, int64_t floor)
{
    int64_t staying = (int64_t)record->queued - 1;
    int64_t last = floor - staying;
    int64_t room = last > entry->token ? last - entry->token + 1 : 1;
    return entry->block <= room ? entry->block : (int32_t)room;
}

/* Folds over the queue from its head; stops at the first that does not fit (I3, I5). A recall
 * stands before its grant: if the grant were heard first, the threads of its client would pass
 * the lock on by hundreds of turns until they hear the recall. */
static bool grant(hf_record *record, hf_dbtime now, int64_t floor, char *notify)
{
    bool any = false;
    for (; head_fits(record); any = true) {
        hf_entry *entry = &record->entries[record->holders];
        entry->token = next_token(record, floor);
        entry->block = kept_block(record, entry, floor);
        entry->granted_at = now;
        record->token = last_token(entry);
        record->holders++;
        record->queued--;
        if (record->queued)
            note_recall(notify, entry, entry + 1);
        note_grant(notify, entry);
    }
    return any;
}

int64_t record_places(const hf_record *record, int32_t queue_max)
{
    int64_t bound = HF_ENTRIES_MAX - (int64_t)record->holders;
    if (queue_max < bound)
        bound = queue_max;
    return bound > (int64_t)record->queued ? bound - (int64_t)record->queued : 0;
}

int64_t record_called(const hf_record *record, int32_t queue_max)
{
    return record->reached + record_places(record, queue_max);
}

/* Numbers up to `reached` had a place; the next ones have those that are free. */
bool record_has_place(const hf_record *record, const hf_enter *enter)
{
    int64_t places = record_places(record, enter->queue_max);
    if (places == 0 || enter->number > record->given)
        return false;
    if (!enter->number)
        return record->given == record->reached;
    return enter->number <= record_called(record, enter->queue_max);
}

static void insert_entrant(hf_record *record, const hf_enter *enter, hf_dbtime since,
                           int64_t number)
{
    hf_entry entry = enter->entry;
    entry.token = 0;
    entry.number = number;
    entry.since = since;
    entry.granted_at = (hf_dbtime){0};
    record_insert(record, &entry);
}

static bool head_would_fit(const hf_record *record, const hf_enter *enter)
{
    return !record->queued && permits_held(record) + enter->entry.permits <= enter->limit;
}

/* An entrant without a number needs none if it is granted at once. */
static int64_t number_of(hf_record *record, const hf_enter *enter)
{
    int64_t number = enter->number;
    if (!number && !head_would_fit(record, enter))
        number = ++record->given;
    if (number > record->reached)
        record->reached = number;
    return number;
}

/* A try may pass those outside if it finds the lock quite free: they may all be dead, and it cannot
 * wait to see. */
static bool may_try(const hf_record *record, const hf_enter *enter)
{
    bool is_free = record->holders + record->queued == 0;
    return head_would_fit(record, enter) && record_places(record, enter->queue_max) > 0 &&
           (is_free || record->given == record->reached);
}

/* Passes over as many numbers as there are places; over half of all, if the lock stands free. */
static bool skip(hf_record *record, const hf_enter *enter)
{
    int64_t outside = record->given - record->reached, half = (outside + 1) / 2;
    int64_t passed = record_places(record, enter->queue_max);
    if (!enter->number || !enter->skips || enter->reached != record->reached || passed == 0)
        return false;
    if (record->holders + record->queued == 0 && passed < half)
        passed = half;
    record->reached += passed < outside ? passed : outside;
    return outside > 0;
}

/* It goes on standing behind all that have lower numbers, also those that are outside: how far the
 * record has reached does not change. */
static bool stands_by_number(const hf_record *record, const hf_enter *enter)
{
    return enter->wants_number && enter->is_nested && record->queued > 0 &&
           record_places(record, 2 * enter->queue_max) > 0;
}

bool record_sets_limit(const hf_enter *enter)
{
    return enter->sets_limit && enter->limit < HF_LIMIT_RW &&
           enter->entry.permits <= enter->limit && id_is_zero(enter->replaces);
}

/* Not below what one that waits wants, or it would stand before the others for ever. */
static bool may_set_limit(const hf_record *record, const hf_enter *enter)
{
    bool may = record_sets_limit(enter) && record->exists && record->limit < HF_LIMIT_RW;
    for (size_t i = 0; i < record->queued && may; i++)
        may = record->entries[record->holders + i].permits <= enter->limit;
    return may;
}

/* Before the entrant is judged, so that those who wait come first. A repeat sets nothing. Where the
 * one that wanted more is granted by this very step, the next enter sets it (RECORD_GONE). */
static bool set_limit(hf_record *record, const hf_enter *enter)
{
    if (record->limit == enter->limit || record_find(record, enter->entry.ticket) ||
        !may_set_limit(record, enter))
        return false;
    record->limit = enter->limit;
    return true;
}

/* Judges the entrant against the entries that are left, and lets it in or gives it a number. A lock
 * that nobody holds or waits for takes the entrant's limit. */
static bool admit(hf_record *record, const hf_enter *enter, hf_dbtime now)
{
    if (record_find(record, enter->entry.ticket) || enter->entry.permits > enter->limit)
        return false;
    bool is_free = record->holders + record->queued == 0;
    if (!is_free && record->limit != enter->limit)
        return false;
    bool has_skipped = skip(record, enter);
    bool may = enter->try_only ? may_try(record, enter) : record_has_place(record, enter);
    if (may && is_free)
        record->limit = enter->limit;
    bool stands = !may && stands_by_number(record, enter);
    if (may)
        insert_entrant(record, enter, now, number_of(record, enter));
    else
        record->given += enter->wants_number;
    if (stands)
        insert_entrant(record, enter, now, record->given);
    return may || enter->wants_number || has_skipped;
}

static bool fits_instead(const hf_record *record, const hf_entry *of, const hf_enter *enter)
{
    return permits_held(record) - of->permits + enter->entry.permits <= record->limit;
}

/* An upgrade: the entrant takes that holder's place if it fits once the holder is gone, and passes
 * nobody (I3). It has entered when that holder has, and so is known by a break. The grant that
 * follows gives it a token. Otherwise nothing changes and the holder stays. */
static bool replace(hf_record *record, const hf_enter *enter)
{
    size_t at = 0;
    while (at < record->holders && !id_equal(record->entries[at].ticket, enter->replaces))
        at++;
    if (at == record->holders || record_find(record, enter->entry.ticket) ||
        record->limit != enter->limit || record->queued ||
        !fits_instead(record, &record->entries[at], enter))
        return false;
    hf_dbtime since = record->entries[at].since;
    record->holders--;
    memmove(&record->entries[at], &record->entries[at + 1],
            (record->holders + record->queued - at) * sizeof *record->entries);
    insert_entrant(record, enter, since, 0);
    return true;
}

/* An entry that comes to the head of the queue recalls the holders that yield. */
static void recall(const hf_record *record, const hf_enter *enter, char *notify)
{
    const hf_entry *head = &record->entries[record->holders];
    if (record->queued != 1 || !id_equal(head->ticket, enter->entry.ticket))
        return;
    for (size_t i = 0; i < record->holders; i++)
        note_recall(notify, &record->entries[i], head);
}

bool record_makes(const hf_step *step)
{
    return step->enter && id_is_zero(step->enter->replaces) && !step->enter->number;
}

/* Whether it is in. */
static bool let_in(hf_record *record, const hf_step *step, hf_dbtime now)
{
    bool is_upgrade = !id_is_zero(step->enter->replaces);
    return is_upgrade ? replace(record, step->enter) : admit(record, step->enter, now);
}

bool record_step_telling(hf_record *record, const hf_step *step, hf_dbtime now, int64_t floor,
                         const char **news)
{
    size_t most = 2 * record->queued + record->holders + 3;
    char *notify = alloc_array(NULL, most, NOTE_SIZE);
    notify[0] = '\0';
    bool passes = may_pass(record, step->pass);
    bool changed = edit(record, step, now);
    changed |= step->change && lower(record, step->change);
    bool has_passed = passes && hand_over(record, step->pass, now);
    changed |= has_passed;
    changed |= step->enter && set_limit(record, step->enter);
    changed |= grant(record, now, floor, notify);
    if (has_passed)
        note_look(notify, record);
    if (step->enter) {
        if (!record->exists && record_makes(step)) {
            record->limit = step->enter->limit;
            changed = record->exists = true;
        }
        bool is_new = let_in(record, step, now);
        grant(record, now, floor, notify);
        if (is_new)
            recall(record, step->enter, notify);
        changed |= is_new;
    }
    *news = notify[0] ? notify : NULL;
    free(*news ? record->notify : notify);
    if (*news)
        record->notify = notify;
    return changed;
}

bool record_step(hf_record *record, const hf_step *step, hf_dbtime now, int64_t floor)
{
    const char *news;
    return record_step_telling(record, step, now, floor, &news);
}

record_verdict record_judge(const hf_record *record, const hf_enter *enter)
{
    const hf_entry *entry = record_find(record, enter->entry.ticket);
    if (entry)
        return record_position(record, entry) ? RECORD_WAITS : RECORD_HOLDS;
    bool is_free = record->holders + record->queued == 0;
    if (!is_free && record->limit != enter->limit && !may_set_limit(record, enter))
        return RECORD_LIMIT;
    if (enter->try_only)
        return is_free ? RECORD_GONE : RECORD_HELD;
    return record_has_place(record, enter) ? RECORD_GONE : RECORD_BUSY;
}

int64_t record_floor_of(hf_dbtime now)
{
    return now.ms / 1000 * RECORD_LAG + now.ms % 1000 * RECORD_LAG / 1000;
}
