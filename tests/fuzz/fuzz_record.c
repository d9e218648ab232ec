/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_record.c: any bytes are a record, a session, or are refused with a text that names the
 * document; what was read and is written again reads the same. The stores hand over what they
 * find when its length and its end are those of a document: so does this. */
#include "core/id.h"
#include "core/record.h"
#include "fuzz.h"
#include "store/document.h"

static bool is_same_entry(const hf_entry *a, const hf_entry *b)
{
    return id_equal(a->ticket, b->ticket) && id_equal(a->session, b->session) &&
           a->ttl_ms == b->ttl_ms && a->permits == b->permits && a->token == b->token &&
           a->since.ms == b->since.ms && a->granted_at.ms == b->granted_at.ms &&
           !strcmp(a->actor, b->actor) && !strcmp(a->why, b->why);
}

static bool is_same_last(const hf_last_mark *a, const hf_last_mark *b)
{
    if (a->outcome != b->outcome || a->outcome == HF_OUTCOME_NONE)
        return a->outcome == b->outcome;
    return id_equal(a->session, b->session) && a->token == b->token && a->at.ms == b->at.ms &&
           a->has_exit_status == b->has_exit_status &&
           (!a->has_exit_status || a->exit_status == b->exit_status) &&
           a->period.start.ms == b->period.start.ms && a->period.end.ms == b->period.end.ms &&
           !strcmp(a->who, b->who) && !strcmp(a->reason, b->reason);
}

static void must_be_same(const hf_record *a, const hf_record *b)
{
    MUST(!strcmp(a->name, b->name) && a->exists && b->exists);
    MUST(a->limit == b->limit && a->token == b->token);
    MUST(a->holders == b->holders && a->queued == b->queued);
    for (size_t i = 0; i < a->holders + a->queued; i++)
        MUST(is_same_entry(&a->entries[i], &b->entries[i]));
    MUST(!strcmp(a->notify ? a->notify : "", b->notify ? b->notify : ""));
    MUST(is_same_last(&a->last, &b->last));
}

static void must_be_refusal(hf_code code, const hf_error *err)
{
    MUST(code == HF_SHAPE && err->code == HF_SHAPE);
    MUST(strstr(err->text, "somewhere"));
    MUST(strstr(err->text, "should be") || strstr(err->text, "of a newer Holdfast"));
}

static void read_record(const bson_t *doc)
{
    hf_record record, again;
    hf_error err;
    bson_t written;
    hf_code code = document_to_record(doc, "somewhere", &record, &err);
    if (code) {
        must_be_refusal(code, &err);
        return;
    }
    document_of_record(&record, &written);
    MUST(document_to_record(&written, "somewhere", &again, &err) == HF_OK);
    must_be_same(&record, &again);
    bson_destroy(&written);
    record_done(&again);
    record_done(&record);
}

static void read_state(const bson_t *doc)
{
    static hf_session_state state, again;
    hf_error err;
    bson_t written;
    hf_code code = document_to_state(doc, "somewhere", &state, &err);
    if (code) {
        must_be_refusal(code, &err);
        return;
    }
    MUST(state.n_asked <= HF_ASKS_MAX && state.beat >= 0);
    document_of_session(&state.session, &written);
    BSON_APPEND_INT64(&written, "beat", state.beat);
    MUST(document_to_state(&written, "somewhere", &again, &err) == HF_OK);
    MUST(!memcmp(&again.session.id, &state.session.id, sizeof state.session.id));
    MUST(again.session.pid == state.session.pid && again.session.ttl_ms == state.session.ttl_ms);
    MUST(!strcmp(again.session.app, state.session.app));
    MUST(!strcmp(again.session.host, state.session.host));
    bson_destroy(&written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bson_t doc;
    if (!bson_init_static(&doc, data, size))
        return 0;
    read_record(&doc);
    read_state(&doc);
    return 0;
}
