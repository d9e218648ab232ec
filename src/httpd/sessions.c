/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c: answers with the list of sessions in the store. */
#include <stdlib.h>
#include <string.h>

#include "httpd/answer.h"
#include "httpd/page.h"
#include "httpd/parameter.h"
#include "httpd/routes.h"
#include "show/json.h"
#include "show/text.h"

/* Reads all sessions, because a store gives them in its own order. */
typedef struct sessions {
    json_t **all;
    size_t n;
    bool has_dead; /* those too */
} sessions;

static bool keep(void *ctx, const hf_session_info *info)
{
    sessions *s = ctx;
    if (info->dead && !s->has_dead)
        return true;
    s->all = text_wider(s->all, s->n, sizeof *s->all);
    s->all[s->n++] = json_of_session(info);
    return true;
}

static const char *id_of(const json_t *session)
{
    return json_string_value(json_object_get(session, "session"));
}

static int compare(const void *a, const void *b)
{
    return strcmp(id_of(*(json_t *const *)a), id_of(*(json_t *const *)b));
}

static void sort_into(page *p, sessions *s)
{
    if (s->n)
        qsort(s->all, s->n, sizeof(json_t *), compare);
    for (size_t i = 0; i < s->n && !p->has_more; i++)
        if (page_wants(p, id_of(s->all[i])))
            page_add(p, id_of(s->all[i]), json_incref(s->all[i]));
}

static void done(sessions *s)
{
    for (size_t i = 0; i < s->n; i++)
        json_decref(s->all[i]);
    free(s->all);
}

void answer_sessions(request *req)
{
    page p;
    hf_error err = {0};
    int64_t all;
    if (!parameter_number(req, "all", 0, 1, 0, &all) || !page_begin(&p, req))
        return;
    sessions s = {.has_dead = all != 0};
    if (hf_sessions(req->service->config.client, keep, &s, &err)) {
        answer_error(req, &err);
        page_done(&p);
    } else {
        sort_into(&p, &s);
        answer_json(req, MHD_HTTP_OK, page_end(&p, "sessions"));
    }
    done(&s);
}
