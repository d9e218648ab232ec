/* SPDX-License-Identifier: Apache-2.0 */
/* files.c: the files that are kept in the program, and answers with them. */
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

static const struct file {
    const char *path, *type, *begin, *end;
} files[] = {
    {"/openapi.json", "application/json", openapi_begin, openapi_end},
};

void answer_file(request *req)
{
    const struct file *file = files;
    while (strcmp(file->path, req->route->path) != 0)
        file++;
    answer_bytes(req, file->type, file->begin, (size_t)(file->end - file->begin));
}
