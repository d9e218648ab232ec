/* SPDX-License-Identifier: Apache-2.0 */
/* test_document.c: the documents of protocol `queue`: what is written is read back, each field is
 * taken up to its bounds and no further, and what is wrong with a document is said. Documents stand
 * here as JSON, with ' for ". */
#include "unit.h"

#include "core/id.h"
#include "core/record.h"
#include "store/document.h"

#define TICKET "{'$oid':'000000010000000000000000'}"
#define SESSION "{'$oid':'000000020000000000000000'}"
#define DATE(ms) "{'$date':{'$numberLong':'" #ms "'}}"
#define LONG(n) "{'$numberLong':'" #n "'}"
#define DOUBLE(n) "{'$numberDouble':'" #n "'}"

static const char record_text[] =
    "{'_id':'name','limit':4,'token':90,"
    "'holders':[{'ticket':" TICKET ",'session':" SESSION ",'ttl_ms':10001,'actor':'main',"
    "'permits':3,'since':" DATE(11) ",'why':'work','token':80,'granted_at':" DATE(
        12) ","
            "'yields':true,'block':5,'holds':[]}],"
            "'queue':[{'ticket':" SESSION ",'session':" TICKET ",'ttl_ms':10002,'permits':2,"
            "'since':" DATE(13) ",'token':0}],"
                                "'notify':'news',"
                                "'last':{'outcome':'abandoned','session':" SESSION
                                ",'who':'one','token':70,'exit_status':6,"
                                "'period':100,'period_end':200,'reason':'late','at':" DATE(
                                    14) "},"
                                        "'done':{'who':'two','exit_status':7,'period':300,'period_"
                                        "end':400,'token':60,"
                                        "'at':" DATE(15) "}}";

static const char session_text[] =
    "{'_id':" SESSION ",'ttl_ms':10000,'app':'app','host':'host','pid':31,"
    "'started_at':" DATE(41) ",'beat':51,'dead':false,'left':61,"
                             "'asked':[{'ticket':" TICKET
                             ",'how':'break','by':'me','reason':'because'}]}";

static bson_t *parse(const char *text)
{
    bson_error_t error;
    char *json = strdup(text);
    for (char *at = json; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    bson_t *doc = bson_new_from_json((const uint8_t *)json, -1, &error);
    if (!doc)
        fail_msg("%s: %s", json, error.message);
    free(json);
    return doc;
}

/* The document of that text, with `to` in the place of `from`, which stands there once. */
static bson_t *parse_with(const char *text, const char *from, const char *to)
{
    char *changed;
    size_t size;
    const char *at = strstr(text, from);
    if (!at || strstr(at + 1, from))
        fail_msg("%s does not stand once in %s", from, text);
    FILE *out = open_memstream(&changed, &size);
    fprintf(out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(out);
    bson_t *doc = parse(changed);
    free(changed);
    return doc;
}

static hf_code read_record(const bson_t *doc, hf_error *err)
{
    hf_record record;
    hf_code code = document_to_record(doc, "locks", &record, err);
    if (!code)
        record_done(&record);
    return code;
}

static hf_code read_state(const bson_t *doc, hf_error *err)
{
    static hf_session_state state;
    return document_to_state(doc, "sessions", &state, err);
}

/* `wrong` is in the complaint; NULL: there is none. */
typedef struct change {
    const char *from, *to, *wrong;
} change;

static void check(const char *text, const change *one, hf_code (*read)(const bson_t *, hf_error *))
{
    hf_error err = {.code = HF_OK};
    bson_t *doc = parse_with(text, one->from, one->to);
    hf_code code = read(doc, &err);
    if (code != (one->wrong ? HF_SHAPE : HF_OK) || (code && !strstr(err.text, one->wrong)))
        fail_msg("%s in the place of %s: %s: %s", one->to, one->from, hf_code_name(code),
                 code ? err.text : "");
    bson_destroy(doc);
}

#define CHECK_ALL(text, changes, read)                                                             \
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes)[0]; i++)                              \
    check(text, &(changes)[i], read)

/* ---- Records ---- */

static void test_each_number_has_bounds(void **state)
{
    (void)state;
    static const change all[] = {
        {"'limit':4", "'limit':0", "field limit should be a whole number from 1 to 2147483647"},
        {"'limit':4", "'limit':1", NULL},
        {"'limit':4", "'limit':2147483647", NULL},
        {"'limit':4", "'limit':2147483648", "field limit "},
        {"'limit':4", "'limit':" DOUBLE(4.0), NULL},
        {"'limit':4", "'limit':" DOUBLE(4.5), "field limit "},
        {"'limit':4", "'limit':" DOUBLE(NaN), "field limit "},
        {"'limit':4", "'limit':'4'", "field limit "},
        {"'limit':4", "'limit':true", "field limit "},
        {"'limit':4", "'limit':null", "field limit "},
        {"'limit':4,", "", "field limit "},
        {"'token':90", "'token':-1", "field token should be a whole number from 0 to"},
        {"'token':90", "'token':0", NULL},
        {"'token':90", "'token':" LONG(9007199254740992), NULL},
        {"'token':90", "'token':" LONG(9007199254740993), "field token "},
        {"'token':90", "'token':" DOUBLE(9007199254740992), NULL},
        {"'token':90", "'token':" DOUBLE(9007199254740994), "field token "},
        {"'token':90", "'token':" DOUBLE(1e300), "field token "},
        {"'token':90", "'token':" DOUBLE(-1e300), "field token "},
        {"'token':90,", "", "field token "},
        {"'ttl_ms':10001", "'ttl_ms':0", "field holders.0.ttl_ms should be a whole number from 1"},
        {"'ttl_ms':10001", "'ttl_ms':1", NULL},
        {"'ttl_ms':10001,", "", "field holders.0.ttl_ms "},
        {"'ttl_ms':10002", "'ttl_ms':0", "field queue.0.ttl_ms "},
        {"'permits':3", "'permits':0", "field holders.0.permits "},
        {"'permits':3", "'permits':1", NULL},
        {"'permits':3,", "", "field holders.0.permits "},
        {"'token':80", "'token':-1", "field holders.0.token "},
        {"'token':80", "'token':" LONG(9007199254740992), NULL},
        {"'token':80", "'token':" LONG(9007199254740993), "field holders.0.token "},
        {"'token':80,", "", "field holders.0.token "},
        {"'block':5", "'block':-1", "field holders.0.block "},
        {"'block':5", "'block':0", NULL},
        {"'block':5,", "", NULL},
        {"'token':70", "'token':-1", "field last.token "},
        {"'token':70", "'token':0", NULL},
        {"'token':70,", "", "field last.token "},
        {"'exit_status':6", "'exit_status':-2147483648", NULL},
        {"'exit_status':6", "'exit_status':" LONG(-2147483649), "field last.exit_status "},
        {"'exit_status':6", "'exit_status':'6'", "field last.exit_status "},
        {"'exit_status':6", "'exit_status':null", NULL},
        {"'exit_status':6,", "", NULL},
        {"'exit_status':7", "'exit_status':-2147483648", NULL},
        {"'exit_status':7", "'exit_status':null", "field done.exit_status "},
        {"'exit_status':7,", "", "field done.exit_status "},
        {"'token':60", "'token':-1", "field done.token "},
        {"'token':60", "'token':0", NULL},
        {"'token':60,", "", "field done.token "},
    };
    CHECK_ALL(record_text, all, read_record);
}

static void test_a_period_ends_after_its_start(void **state)
{
    (void)state;
    static const change all[] = {
        {"'period':100", "'period':-1", "field last.period "},
        {"'period':100", "'period':0", NULL},
        {"'period':100", "'period':199", NULL},
        {"'period':100", "'period':200", "field last.period_end should be a whole number from 201"},
        {"'period':100", "'period':'100'", "field last.period "},
        {"'period':100", "'period':null", NULL},
        {"'period':100,", "", NULL},
        {"'period_end':200,", "", "field last.period_end "},
        {"'period_end':200", "'period_end':" LONG(9007199254740992), NULL},
        {"'period_end':200", "'period_end':" LONG(9007199254740993), "field last.period_end "},
        {"'period':300", "'period':400", "field done.period_end "},
        {"'period':100,'period_end':200",
         "'period':" LONG(9007199254740991) ",'period_end':" LONG(9007199254740992), NULL},
        {"'period':100,'period_end':200",
         "'period':" LONG(9007199254740992) ",'period_end':" LONG(9007199254740993),
         "field last.period "},
    };
    CHECK_ALL(record_text, all, read_record);
}

static void test_each_field_has_a_type(void **state)
{
    (void)state;
    static const change all[] = {
        {"'_id':'name'", "'_id':''", "field _id should be a name, not empty"},
        {"'_id':'name'", "'_id':'a\\u0000b'", "field _id should be a string of at most 512 bytes"},
        {"'_id':'name'", "'_id':7", "(its _id is of BSON type 16)"},
        {"'_id':'name'", "'_id':" TICKET, "ObjectId(\"000000010000000000000000\")"},
        {"'_id':'name',", "", "document without _id in collection locks"},
        {"'limit':4", "'limit':0", "document \"name\" in collection locks"},
        {"'ticket':" TICKET, "'ticket':1", "field holders.0.ticket should be an ObjectId"},
        {"'ticket':" TICKET ",", "", "field holders.0.ticket "},
        {"'session':" TICKET, "'session':1", "field queue.0.session should be an ObjectId"},
        {"'session':" TICKET ",", "", "field queue.0.session "},
        {"'actor':'main'", "'actor':1", "field holders.0.actor "},
        {"'actor':'main',", "", NULL},
        {"'why':'work'", "'why':null", "field holders.0.why "},
        {"'why':'work',", "", NULL},
        {"'since':" DATE(11), "'since':11", "field holders.0.since should be a date"},
        {"'since':" DATE(11) ",", "", "field holders.0.since should be a date"},
        {"'granted_at':" DATE(12), "'granted_at':12", "field holders.0.granted_at "},
        {"'granted_at':" DATE(12) ",", "", NULL},
        {"'yields':true", "'yields':1", "field holders.0.yields should be true or false"},
        {"'yields':true", "'yields':false", NULL},
        {"'yields':true,", "", NULL},
        {"'notify':'news'", "'notify':1", "field notify should be a string"},
        {"'notify':'news',", "", "field notify should be a string"},
        {"'notify':'news'", "'notify':''", NULL},
        {"'outcome':'abandoned'", "'outcome':'released'", NULL},
        {"'outcome':'abandoned'", "'outcome':''", "field last.outcome should be \"released\" or"},
        {"'outcome':'abandoned'", "'outcome':'lost'", "field last.outcome "},
        {"'outcome':'abandoned'", "'outcome':1", "field last.outcome should be a string"},
        {"'outcome':'abandoned',", "", "field last.outcome "},
        {"'outcome':'abandoned','session':" SESSION, "'outcome':'released','session':2",
         "field last.session "},
        {"'who':'one'", "'who':1", "field last.who "},
        {"'who':'one',", "", NULL},
        {"'reason':'late'", "'reason':1", "field last.reason "},
        {"'reason':'late',", "", NULL},
        {"'at':" DATE(14), "'at':14", "field last.at should be a date"},
        {"'reason':'late','at':" DATE(14), "'reason':'late'", "field last.at should be a date"},
        {"'who':'two'", "'who':1", "field done.who "},
        {"'who':'two',", "", NULL},
        {"'at':" DATE(15), "'at':15", "field done.at "},
    };
    CHECK_ALL(record_text, all, read_record);
}

static void test_each_part_has_a_type(void **state)
{
    (void)state;
    static const change all[] = {
        {"'holders':[{", "'holders':[1,{", "field holders.0. should be a document"},
        {"'queue':[{", "'queue':[[],{", "field queue.0. should be a document"},
        {"'holders':[{", "'h':[{", "field holders should be an array"},
        {"'queue':[{", "'q':[{", "field queue should be an array"},
        {"'holders':[{", "'holders':{},'h':[{", "field holders should be an array"},
        {"'queue':[{", "'queue':[],'q':[{", NULL},
        {"'last':{", "'last':1,'l':{", "field last should be a document"},
        {"'last':{", "'last':[],'l':{", "field last should be a document"},
        {"'last':{", "'last':null,'l':{", NULL},
        {"'last':{", "'l':{", NULL},
        {"'done':{", "'done':1,'d':{", "field done should be a document"},
        {"'done':{", "'done':null,'d':{", NULL},
        {"'done':{", "'d':{", NULL},
        {"{'_id':'name',", "{'x':1,'_id':'name','y':{},", NULL},
        {"'last':{'outcome'", "'last':{'z':1,'outcome'", NULL},
        {"'session':" SESSION ",'ttl_ms'", "'sessioo':1,'session':" SESSION ",'ttl_ms'", NULL},
        {"'session':" SESSION ",'ttl_ms'", "'sessiom':1,'session':" SESSION ",'ttl_ms'", NULL},
    };
    CHECK_ALL(record_text, all, read_record);
}

/* A text of so many bytes is taken, one more is not. */
static void check_length(const char *from, const char *field, size_t most,
                         hf_code (*read)(const bson_t *, hf_error *), const char *text)
{
    char to[700];
    for (size_t over = 0; over < 2; over++) {
        int at = snprintf(to, sizeof to, "'%s':'", field);
        memset(to + at, 'x', most + over);
        strcpy(to + at + most + over, "'");
        check(text, &(change){from, to, over ? "bytes without NUL" : NULL}, read);
    }
}

static void test_each_text_has_a_length(void **state)
{
    (void)state;
    check_length("'_id':'name'", "_id", HF_NAME_MAX, read_record, record_text);
    check_length("'actor':'main'", "actor", HF_ACTOR_MAX, read_record, record_text);
    check_length("'why':'work'", "why", HF_TEXT_MAX, read_record, record_text);
    check_length("'who':'one'", "who", HF_TEXT_MAX, read_record, record_text);
    check_length("'reason':'late'", "reason", HF_TEXT_MAX, read_record, record_text);
    check_length("'who':'two'", "who", HF_TEXT_MAX, read_record, record_text);
    check_length("'app':'app'", "app", HF_TEXT_MAX, read_state, session_text);
    check_length("'host':'host'", "host", HF_TEXT_MAX, read_state, session_text);
    check_length("'by':'me'", "by", HF_TEXT_MAX, read_state, session_text);
    check_length("'reason':'because'", "reason", HF_TEXT_MAX, read_state, session_text);
}

/* With n more that wait than record_text has. */
static bson_t *crowd_of(int n)
{
    char *list;
    size_t size;
    FILE *out = open_memstream(&list, &size);
    fputs("'queue':[", out);
    for (int i = 0; i < n; i++)
        fputs("{'ticket':" SESSION ",'session':" TICKET ",'ttl_ms':1,'permits':2,"
              "'since':" DATE(13) ",'token':0},",
              out);
    fputc('{', out);
    fclose(out);
    bson_t *doc = parse_with(record_text, "'queue':[{", list);
    free(list);
    return doc;
}

static void test_a_record_has_no_more_entries_than_fit(void **state)
{
    (void)state;
    hf_error err;
    hf_record record;
    bson_t *doc = crowd_of(HF_ENTRIES_MAX - 2);
    assert_int_equal(document_to_record(doc, "locks", &record, &err), HF_OK);
    assert_int_equal(record.queued, HF_ENTRIES_MAX - 1);
    record_done(&record);
    bson_destroy(doc);
    doc = crowd_of(HF_ENTRIES_MAX - 1);
    assert_int_equal(read_record(doc, &err), HF_SHAPE);
    assert_non_null(strstr(err.text, "field queue.999. should be absent"));
    bson_destroy(doc);
}

static void assert_first_entry(const hf_entry *entry)
{
    assert_true(id_equal(entry->ticket, id_of(1)));
    assert_true(id_equal(entry->session, id_of(2)));
    assert_int_equal(entry->ttl_ms, 10001);
    assert_string_equal(entry->actor, "main");
    assert_int_equal(entry->permits, 3);
    assert_int_equal(entry->since.ms, 11);
    assert_string_equal(entry->why, "work");
    assert_int_equal(entry->token, 80);
    assert_int_equal(entry->granted_at.ms, 12);
    assert_true(entry->yields);
    assert_int_equal(entry->block, 5);
}

static void assert_second_entry(const hf_entry *entry)
{
    assert_true(id_equal(entry->ticket, id_of(2)));
    assert_int_equal(entry->ttl_ms, 10002);
    assert_string_equal(entry->actor, "");
    assert_string_equal(entry->why, "");
    assert_int_equal(entry->granted_at.ms, 0);
    assert_false(entry->yields);
    assert_int_equal(entry->block, 0);
}

static void assert_marks(const hf_last_mark *last)
{
    assert_int_equal(last->outcome, HF_OUTCOME_ABANDONED);
    assert_true(id_equal(last->session, id_of(2)));
    assert_string_equal(last->who, "one");
    assert_int_equal(last->token, 70);
    assert_true(last->has_exit_status);
    assert_int_equal(last->exit_status, 6);
    assert_int_equal(last->period.start.ms, 100);
    assert_int_equal(last->period.end.ms, 200);
    assert_string_equal(last->reason, "late");
    assert_int_equal(last->at.ms, 14);
    assert_true(last->done.is_known);
    assert_string_equal(last->done.who, "two");
    assert_int_equal(last->done.exit_status, 7);
    assert_int_equal(last->done.period.start.ms, 300);
    assert_int_equal(last->done.period.end.ms, 400);
    assert_int_equal(last->done.token, 60);
    assert_int_equal(last->done.at.ms, 15);
}

static void assert_whole(const bson_t *doc)
{
    hf_error err;
    hf_record record;
    assert_int_equal(document_to_record(doc, "locks", &record, &err), HF_OK);
    assert_true(record.exists);
    assert_string_equal(record.name, "name");
    assert_int_equal(record.limit, 4);
    assert_int_equal(record.token, 90);
    assert_int_equal(record.holders, 1);
    assert_int_equal(record.queued, 1);
    assert_first_entry(&record.entries[0]);
    assert_second_entry(&record.entries[1]);
    assert_string_equal(record.notify, "news");
    assert_marks(&record.last);
    record_done(&record);
}

static void test_what_is_written_is_read_back(void **state)
{
    (void)state;
    hf_error err;
    hf_record record;
    bson_t *doc = parse(record_text), again;
    assert_whole(doc);
    assert_int_equal(document_to_record(doc, "locks", &record, &err), HF_OK);
    document_of_record(&record, &again);
    assert_whole(&again);
    bson_destroy(&again);
    record_done(&record);
    bson_destroy(doc);
}

static void assert_fields(const bson_t *doc, const char *expected)
{
    bson_t *of = parse(expected);
    char *is = bson_as_canonical_extended_json(doc, NULL);
    char *should = bson_as_canonical_extended_json(of, NULL);
    assert_string_equal(is, should);
    bson_free(is);
    bson_free(should);
    bson_destroy(of);
}

/* What is not known is not written. */
static void test_a_plain_record_is_short(void **state)
{
    (void)state;
    bson_t doc;
    hf_record record;
    record_init(&record, "plain");
    record.limit = 1;
    record.last = (hf_last_mark){.token = 3};
    document_of_record(&record, &doc);
    assert_fields(&doc, "{'_id':'plain','limit':1,'token':" LONG(0) ",'holders':[],'queue':[],"
                                                                    "'notify':''}");
    bson_destroy(&doc);
    record.last.outcome = HF_OUTCOME_RELEASED;
    document_of_record(&record, &doc);
    assert_fields(&doc, "{'_id':'plain','limit':1,'token':" LONG(
                            0) ",'holders':[],'queue':[],"
                               "'notify':'','last':{'outcome':'released',"
                               "'session':{'$oid':'000000000000000000000000'},'who':'',"
                               "'token':" LONG(3) ",'at':" DATE(0) "}}");
    bson_destroy(&doc);
    record_done(&record);
}

/* ---- Sessions ---- */

static void test_a_session_is_read(void **state)
{
    (void)state;
    hf_error err;
    static hf_session_state s;
    bson_t *doc = parse(session_text);
    assert_int_equal(document_to_state(doc, "sessions", &s, &err), HF_OK);
    assert_true(id_equal(s.session.id, id_of(2)));
    assert_int_equal(s.session.ttl_ms, 10000);
    assert_string_equal(s.session.app, "app");
    assert_string_equal(s.session.host, "host");
    assert_int_equal(s.session.pid, 31);
    assert_int_equal(s.session.started_at.ms, 41);
    assert_int_equal(s.beat, 51);
    assert_int_equal(s.lease_left_ms, 61);
    assert_int_equal(s.presence, HF_LIVE);
    assert_int_equal(s.n_asked, 1);
    assert_true(id_equal(s.asked[0].ticket, id_of(1)));
    assert_string_equal(s.asked[0].by, "me");
    assert_string_equal(s.asked[0].reason, "because");
    bson_destroy(doc);
    doc = parse_with(session_text, "'dead':false", "'dead':true");
    assert_int_equal(document_to_state(doc, "sessions", &s, &err), HF_OK);
    assert_int_equal(s.presence, HF_DEAD);
    bson_destroy(doc);
}

static void test_each_field_of_a_session_has_a_type(void **state)
{
    (void)state;
    static const change all[] = {
        {"'_id':" SESSION, "'_id':'s'", "field _id should be an ObjectId"},
        {"'ttl_ms':10000", "'ttl_ms':0", "field ttl_ms "},
        {"'ttl_ms':10000", "'ttl_ms':1", NULL},
        {"'ttl_ms':10000,", "", "field ttl_ms "},
        {"'app':'app'", "'app':1", "field app "},
        {"'app':'app',", "", NULL},
        {"'host':'host'", "'host':1", "field host "},
        {"'host':'host',", "", NULL},
        {"'pid':31", "'pid':'31'", "field pid "},
        {"'pid':31", "'pid':" LONG(-9223372036854775808), NULL},
        {"'pid':31,", "", NULL},
        {"'started_at':" DATE(41), "'started_at':41", "field started_at "},
        {"'started_at':" DATE(41) ",", "", NULL},
        {"'beat':51", "'beat':-1", "field beat "},
        {"'beat':51", "'beat':0", NULL},
        {"'beat':51,", "", "field beat "},
        {"'dead':false", "'dead':0", "field dead should be true or false"},
        {"'dead':false,", "", NULL},
        {"'left':61", "'left':'61'", "field left "},
        {"'left':61", "'left':-61", NULL},
        {"'left':61", "'left':" DOUBLE(-9007199254740992), NULL},
        {"'left':61", "'left':" DOUBLE(-9007199254740994), "field left "},
        {"'left':61,", "", NULL},
        {"'asked':[{", "'a':[{", NULL},
        {"'asked':[{", "'asked':{},'a':[{", "field asked should be an array"},
        {"'asked':[{", "'asked':[1,{", "field asked.0. should be a document"},
        {"'ticket':" TICKET, "'ticket':1", "field asked.0.ticket should be an ObjectId"},
        {"'by':'me'", "'by':1", "field asked.0.by "},
        {"'by':'me',", "", NULL},
        {"'reason':'because'", "'reason':1", "field asked.0.reason "},
        {",'reason':'because'", "", NULL},
    };
    CHECK_ALL(session_text, all, read_state);
}

static void test_a_newer_format_is_named(void **state)
{
    (void)state;
    static const change of_record[] = {
        {"'notify':'news'", "'notify':{},'format':2",
         "\"name\" in collection locks has format 2, of a newer Holdfast; this one knows format 1 "
         "and left it alone: upgrade"},
        {"'notify':'news'", "'notify':{},'format':1", "field notify "},
        {"'notify':'news'", "'notify':'news','format':2", NULL},
    };
    static const change of_session[] = {
        {"'beat':51", "'beat':{},'format':" LONG(3), "in collection sessions has format 3"},
        {"'beat':51", "'beat':{},'format':'3'", "field beat "},
    };
    CHECK_ALL(record_text, of_record, read_record);
    CHECK_ALL(session_text, of_session, read_state);
}

static void test_asks_beyond_those_that_fit_are_not_read(void **state)
{
    (void)state;
    hf_error err;
    static hf_session_state s;
    char list[4000] = "'asked':[";
    for (int i = 0; i < HF_ASKS_MAX; i++)
        strcat(list, "{'ticket':" SESSION "},");
    strcat(list, "{");
    bson_t *doc = parse_with(session_text, "'asked':[{", list);
    s.misses = true;
    assert_int_equal(document_to_state(doc, "sessions", &s, &err), HF_OK);
    assert_int_equal(s.n_asked, HF_ASKS_MAX);
    assert_false(s.misses);
    bson_destroy(doc);
}

static void test_sessions_and_asks_are_written(void **state)
{
    (void)state;
    bson_t doc;
    static const hf_session session = {.id = {{0, 0, 0, 2}},
                                       .ttl_ms = 10,
                                       .pid = 31,
                                       .started_at = {41},
                                       .app = "app",
                                       .host = "host"};
    static const hf_ask ask = {.ticket = {{0, 0, 0, 1}}, .by = "me", .reason = "because"};
    document_of_session(&session, &doc);
    assert_fields(&doc, "{'_id':" SESSION ",'ttl_ms':10,'app':'app','host':'host',"
                        "'pid':" LONG(31) ",'started_at':" DATE(41) "}");
    bson_destroy(&doc);
    document_of_ask(&ask, &doc);
    assert_fields(&doc, "{'ticket':" TICKET ",'how':'break','by':'me','reason':'because'}");
    bson_destroy(&doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_number_has_bounds),
        cmocka_unit_test(test_a_period_ends_after_its_start),
        cmocka_unit_test(test_each_field_has_a_type),
        cmocka_unit_test(test_each_part_has_a_type),
        cmocka_unit_test(test_each_text_has_a_length),
        cmocka_unit_test(test_a_record_has_no_more_entries_than_fit),
        cmocka_unit_test(test_what_is_written_is_read_back),
        cmocka_unit_test(test_a_plain_record_is_short),
        cmocka_unit_test(test_a_session_is_read),
        cmocka_unit_test(test_each_field_of_a_session_has_a_type),
        cmocka_unit_test(test_a_newer_format_is_named),
        cmocka_unit_test(test_asks_beyond_those_that_fit_are_not_read),
        cmocka_unit_test(test_sessions_and_asks_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
