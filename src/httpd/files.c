/* SPDX-License-Identifier: Apache-2.0 */
/* files.c: the files that are built into the program, the page among them, and the answers with
 * them. */
#include <string.h>

#include "httpd/answer.h"
#include "httpd/routes.h"

/* Puts a file into the program, as name_begin to name_end; read when this is compiled. */
#define KEEP(name, path)                                                                           \
    extern const char name##_begin[], name##_end[];                                                \
    __asm__(".section .rodata\n"                                                                   \
            ".hidden " #name "_begin\n.hidden " #name "_end\n"                                     \
            ".global " #name "_begin\n" #name "_begin:\n.incbin \"" path "\"\n"                    \
            ".global " #name "_end\n" #name "_end:\n.byte 0\n.previous\n")

KEEP(openapi, "openapi.json");
KEEP(index_html, "page/index.html");
KEEP(page_css, "page/page.css");
KEEP(page_js, "page/page.js");
KEEP(events_js, "page/events.js");
KEEP(card_js, "page/card.js");
KEEP(one_js, "page/one.js");

/* The page loads nothing from elsewhere, and no text in a name or a reason is ever run. */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; "
                             "connect-src 'self'; img-src data:; base-uri 'none'; "
                             "form-action 'none'; frame-ancestors 'none'";

static const struct file {
    const char *path, *type, *begin, *end;
} files[] = {
    {"/openapi.json", "application/json", openapi_begin, openapi_end},
    {"/", "text/html; charset=utf-8", index_html_begin, index_html_end},
    {"/page.css", "text/css; charset=utf-8", page_css_begin, page_css_end},
    {"/page.js", "text/javascript; charset=utf-8", page_js_begin, page_js_end},
    {"/events.js", "text/javascript; charset=utf-8", events_js_begin, events_js_end},
    {"/card.js", "text/javascript; charset=utf-8", card_js_begin, card_js_end},
    {"/one.js", "text/javascript; charset=utf-8", one_js_begin, one_js_end},
};

void answer_file(request *req)
{
    const struct file *file = files;
    while (strcmp(file->path, req->route->path) != 0)
        file++;
    answer_bytes(req, file->type, file->begin, (size_t)(file->end - file->begin));
    answer_header(req, "Content-Security-Policy", policy);
    answer_header(req, "Referrer-Policy", "no-referrer");
}
