/* SPDX-License-Identifier: Apache-2.0 */
/* rights.c: decides whether a request may be served at all, by its host, path, access token and
 * parameters, before anything is done for it. */
#include "httpd/rights.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "httpd/address.h"
#include "httpd/answer.h"
#include "httpd/parameter.h"
#include "httpd/route.h"
#include "httpd/uri.h"
#include "show/text.h"

static const char *header(const request *req, const char *name)
{
    return MHD_lookup_connection_value(req->mhd, MHD_HEADER_KIND, name);
}

/* A web page can make its own name mean 127.0.0.1, and then call us from a browser here. So if no
 * access token is needed, the request must use one of our own names. */
static bool check_host(request *req)
{
    const httpd_config *config = &req->service->config;
    const char *host = header(req, MHD_HTTP_HEADER_HOST);
    if (config->token_file || config->serves_anybody || !host || address_is_here(host))
        return true;
    answer_problem(
        req, PROBLEM_HOST,
        "without access tokens only localhost, 127.0.0.1 and [::1] are served, not %.200s", host);
    return false;
}

/* What is left of the connection's memory after the head must have room for the head of the
 * answer: microhttpd would do what was asked for, and then send nothing. It keeps cookies twice. */
static bool check_head(request *req)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const char *cookies = header(req, MHD_HTTP_HEADER_COOKIE);
    int n = MHD_get_connection_values(
        req->mhd, MHD_HEADER_KIND | MHD_GET_ARGUMENT_KIND | MHD_COOKIE_KIND, NULL, NULL);
    size_t size = (info ? info->header_size : 0) + (cookies ? strlen(cookies) : 0);
    if (size <= HEAD_MOST && n <= FIELDS_MOST)
        return true;
    answer_problem(req, PROBLEM_HEAD,
                   "a request has at most %d bytes before its body, where cookies count twice, and "
                   "%d headers, parameters and cookies",
                   HEAD_MOST, FIELDS_MOST);
    return false;
}

/* What is wrong with the fields of a head, as far as microhttpd shows them. */
typedef struct fields {
    int n_lengths, n_hosts, n_authorizations;
    bool has_bad_text; /* a blank before the colon, a control character */
} fields;

/* Without control characters, and blanks other than these. */
static bool is_text(const char *text, const char *blanks)
{
    while (*text && *text != 0x7f && ((unsigned char)*text > ' ' || strchr(blanks, *text)))
        text++;
    return !*text;
}

static enum MHD_Result see_field(void *ctx, enum MHD_ValueKind kind, const char *key,
                                 const char *value)
{
    fields *seen = ctx;
    (void)kind;
    seen->n_lengths += strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    seen->n_hosts += strcasecmp(key, MHD_HTTP_HEADER_HOST) == 0;
    seen->n_authorizations += strcasecmp(key, MHD_HTTP_HEADER_AUTHORIZATION) == 0;
    if (!is_text(key, "") || (value && !is_text(value, " \t")))
        seen->has_bad_text = true;
    return MHD_YES;
}

/* NULL: nothing. A proxy before us may see the end of the body, the host or
 * the caller in another place than we do. */
static const char *wrong_with(const request *req, const fields *seen)
{
    const char *host = header(req, MHD_HTTP_HEADER_HOST);
    if (seen->n_lengths + (header(req, MHD_HTTP_HEADER_TRANSFER_ENCODING) ? 1 : 0) > 1)
        return "say once how long the body is: in one Content-Length, or chunked";
    if (seen->n_hosts > 1 || (host && !address_is_host(host)))
        return "give one Host, with a port from 0 to 65535 or none";
    if (seen->n_authorizations > 1)
        return "give one Authorization";
    return seen->has_bad_text ? "a header has a control character, or a blank before its colon"
                              : NULL;
}

static bool check_fields(request *req)
{
    fields seen = {0};
    MHD_get_connection_values(req->mhd, MHD_HEADER_KIND, see_field, &seen);
    const char *wrong = wrong_with(req, &seen);
    if (!wrong)
        return true;
    answer_code(req, HF_INVALID, "%s", wrong);
    answer_header(req, MHD_HTTP_HEADER_CONNECTION, "close");
    return false;
}

static bool check_path(request *req, const char *method, const char *path)
{
    const routes *all = req->service->routes;
    const char *rest;
    bool is_path;
    req->route_number = route_find(all, method, path, &rest, &is_path);
    req->route = route_at(all, req->route_number);
    if (req->route) {
        req->name = rest ? uri_decode(rest) : NULL;
        if (!rest || req->name)
            return true;
        answer_code(req, HF_INVALID,
                    "the path %.200s has a %% without two hexadecimal digits behind it, or %%00",
                    path);
    } else if (is_path) {
        char *methods = route_methods(all, path);
        answer_problem(req, PROBLEM_METHOD, "%.200s can be asked for with %s", path, methods);
        answer_header(req, MHD_HTTP_HEADER_ALLOW, methods);
        free(methods);
    } else {
        answer_problem(req, PROBLEM_NO_SUCH_PATH,
                       "there is nothing at %.200s; /openapi.json says what there is", path);
    }
    return false;
}

/* Who may open a Unix socket may open the store itself. But any program here can reach a port, and
 * without an access token nobody could say who it was that broke a lock. */
static caller find_caller(const request *req)
{
    static const char scheme[] = "Bearer ";
    const char *given = header(req, MHD_HTTP_HEADER_AUTHORIZATION);
    const peer *user = req->connection->peer;
    if (!req->service->tokens && user)
        return (caller){ROLE_ADMIN, user->name, user->id};
    if (!req->service->tokens)
        return (caller){req->service->config.serves_anybody ? ROLE_ADMIN : ROLE_USE, "", ""};
    if (!given || strncasecmp(given, scheme, sizeof scheme - 1) != 0)
        return (caller){ROLE_NONE, "", ""};
    return tokens_find(req->service->tokens, given + sizeof scheme - 1);
}

/* A browser says where the page is from that asks. One from elsewhere could see whether an element
 * with our address loads, and so which locks there are. A link to our page may be followed. */
static bool check_site(request *req)
{
    const char *site = header(req, "Sec-Fetch-Site"), *mode = header(req, "Sec-Fetch-Mode");
    bool is_link = mode && strcmp(mode, "navigate") == 0 && strcmp(req->route->path, "/") == 0;
    if (!site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0 || is_link)
        return true;
    answer_problem(req, PROBLEM_FORBIDDEN, "pages of other sites are not served");
    return false;
}

static bool check_role(request *req)
{
    const char *wanted = role_name(req->route->role);
    if (req->caller.role >= req->route->role)
        return true;
    if (req->caller.role == ROLE_NONE)
        answer_problem(req, PROBLEM_UNAUTHORIZED, "%s that allows to %s: %s",
                       header(req, MHD_HTTP_HEADER_AUTHORIZATION)
                           ? "the access token in Authorization is unknown; give one"
                           : "give an access token",
                       wanted, "Authorization: Bearer TOKEN");
    else if (!req->service->tokens)
        answer_problem(req, PROBLEM_FORBIDDEN,
                       "this service has no access tokens, and the call requires one for %s: start "
                       "it with --token-file, or with --listen unix:PATH for users of its machine",
                       wanted);
    else
        answer_problem(req, PROBLEM_FORBIDDEN,
                       "this access token allows to %s; the call requires one for %s",
                       role_name(req->caller.role), wanted);
    return false;
}

static bool check_writing(request *req)
{
    if (!req->service->config.is_read_only || strcmp(req->route->method, "GET") == 0)
        return true;
    answer_problem(req, PROBLEM_FORBIDDEN, "this service was started with --read-only");
    return false;
}

/* A page from elsewhere can send any other content type without a preflight. */
static bool check_type(request *req)
{
    static const char json[] = "application/json";
    const char *type = header(req, MHD_HTTP_HEADER_CONTENT_TYPE);
    if (strcmp(req->route->method, "POST") != 0 ||
        (type && strncasecmp(type, json, sizeof json - 1) == 0))
        return true;
    answer_problem(req, PROBLEM_NOT_JSON,
                   "give the header Content-Type: %s, also with an empty body", json);
    return false;
}

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (n == length && strncmp(at, word, n) == 0)
            return true;
        at += n;
    }
    return false;
}

static enum MHD_Result check_parameter(void *ctx, enum MHD_ValueKind kind, const char *key,
                                       const char *value)
{
    request *req = ctx;
    char *decoded = uri_decode(value ? value : "");
    (void)kind;
    if (!has_word(req->route->keys, key))
        answer_code(req, HF_INVALID, "there is no parameter %.100s; there are: %s", key,
                    *req->route->keys ? req->route->keys : "none");
    else if (!decoded)
        answer_code(req, HF_INVALID,
                    "%s=%.200s has a %% without two hexadecimal digits behind it, or %%00", key,
                    value);
    free(decoded);
    return req->status ? MHD_NO : MHD_YES;
}

static bool check_parameters(request *req)
{
    MHD_get_connection_values(req->mhd, MHD_GET_ARGUMENT_KIND, check_parameter, req);
    return !req->status;
}

/* Where the name of the lock is a parameter. */
static void find_name(request *req)
{
    if (!has_word(req->route->keys, "name"))
        return;
    req->name = parameter_text(req, "name");
    if (!req->name || !*req->name)
        answer_code(req, HF_INVALID, "say which lock: %s?name=NAME", req->route->path);
}

void rights_check(request *req, const char *method, const char *path)
{
    req->caller = find_caller(req);
    if (atomic_load(&req->service->is_stopping))
        answer_closed(req);
    else if (check_head(req) && check_fields(req) && check_host(req) &&
             check_path(req, method, path) && check_site(req) && check_writing(req) &&
             check_role(req) && check_type(req) && check_parameters(req))
        find_name(req);
}
