/* SPDX-License-Identifier: Apache-2.0 */
/* page.c: cuts a listing into parts. A part begins behind the last key of the part before. So
 * nothing that stays is missed or listed twice, whatever comes and goes meanwhile. */
#include "httpd/page.h"

#include <stdlib.h>
#include <string.h>

#include "httpd/parameter.h"
#include "show/json.h"
#include "show/text.h"

#define ITEMS_DEFAULT 100
#define ITEMS_MOST 1000

bool page_begin(page *p, request *req)
{
    int64_t room;
    if (!parameter_number(req, "limit", 1, ITEMS_MOST, ITEMS_DEFAULT, &room))
        return false;
    char *cursor = parameter_text(req, "cursor");
    *p = (page){
        .after = cursor ? cursor : text_copy(""), .room = (size_t)room, .items = json_array_new()};
    return true;
}

bool page_wants(page *p, const char *key)
{
    if (strcmp(key, p->after) <= 0)
        return false;
    p->has_more = p->room == 0;
    return !p->has_more;
}

void page_add(page *p, const char *key, json_t *item)
{
    json_append(p->items, item);
    p->room--;
    free(p->last);
    p->last = text_copy(key);
}

json_t *page_end(page *p, const char *name)
{
    json_t *out = json_object_new();
    json_put(out, name, json_incref(p->items));
    if (p->has_more)
        json_put_text(out, "next", p->last);
    else
        json_put(out, "next", json_null());
    page_done(p);
    return out;
}

void page_done(page *p)
{
    json_decref(p->items);
    free(p->after);
    free(p->last);
}
