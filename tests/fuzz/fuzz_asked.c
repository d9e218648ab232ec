/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_asked.c: any target and any body of a request are read, or refused with a text. The input's
 * first line is the target, what follows is the body. fuzz_http.c does the same over a connection,
 * with all that comes behind it, slowly. */
#include "fuzz.h"

#include <httpd/asked.h>
#include <httpd/routes.h>
#include <httpd/uri.h>

static hf_client *client;

static void start(void)
{
    hf_error err;
    MUST(!hf_open("memory:", NULL, &client, &err));
}

static void check(hf_code code, const hf_error *err)
{
    MUST(code != HF_INTERNAL && code != HF_UNKNOWN);
    MUST(code == HF_OK || (err->code == code && *err->text));
}

static void read_body(const char *body, size_t size)
{
    asked a;
    hf_error err;
    hf_code code = asked_read(&a, body, size, &err);
    check(code, &err);
    MUST(code || a.options.lock.wait_ms);
    asked_done(&a);
}

/* What stands in a path in the place of a lease is one, or refused. */
static void read_lease(const char *name)
{
    hf_error err;
    hf_code code = hf_lease_renew(client, name, NULL, &err);
    check(code, &err);
    MUST(code);
}

static char *read_target(const char *target)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "BREW"};
    char *name = NULL;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const char *rest;
        bool is_path;
        size_t number = route_find(&routes_all, methods[i], target, &rest, &is_path);
        MUST(number <= routes_all.n && (number == routes_all.n || is_path));
        if (rest && !name)
            name = uri_decode(rest);
    }
    free(route_methods(&routes_all, target));
    return name;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!client)
        start();
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    size_t length = end ? (size_t)(end - data) : size;
    char *target = fuzz_text(data, length);
    char *name = read_target(target);
    read_body(end ? (const char *)end + 1 : "", end ? size - length - 1 : 0);
    if (name)
        read_lease(name);
    free(name);
    free(target);
    return 0;
}
