/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c: finds the secrets in a store's URI. Called by config.c, which refuses a file that
 * others can read with secrets in it, and wherever a URI is shown. In doubt, more counts as a
 * secret. */
#include "secret.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>

#include "show/text.h"

#define MASK "***"

/* Replaces `size` bytes at `at` by the mask; takes uri. */
static char *hide(char *uri, size_t at, size_t size)
{
    char *out = text_print("%.*s" MASK "%s", (int)at, uri, uri + at + size);
    free(uri);
    return out;
}

/* The character before the password: the colon behind the user's name. Behind a scheme that is
 * mistyped (mongo://u:x@h, mongodb:/u:x@h, u:x@h) all may be the password. NULL: there is none. */
static const char *colon_of(const char *uri)
{
    const char *first = strchr(uri, ':');
    bool is_known = strncmp(uri, "mongodb://", 10) == 0 || strncmp(uri, "mongodb+srv://", 14) == 0;
    if (is_known)
        return strchr(first + 3, ':');
    return first ? first + strspn(first + 1, "/") : NULL;
}

/* Up to the last @. */
static char *hide_password(char *uri)
{
    const char *colon = colon_of(uri), *end = strrchr(uri, '@');
    if (!colon || !end || end < colon)
        return uri;
    return hide(uri, (size_t)(colon + 1 - uri), (size_t)(end - colon - 1));
}

/* tlsCertificateKeyFilePassword and its like; the properties can hold a session token. */
static bool is_secret_key(const char *key, size_t size)
{
    static const char *const ends[] = {"password", "authmechanismproperties"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t n = strlen(ends[i]);
        if (size >= n && strncasecmp(key + size - n, ends[i], n) == 0)
            return true;
    }
    return false;
}

static char *hide_options(char *uri)
{
    size_t at = strcspn(uri, "?");
    while (uri[at]) {
        size_t key = at + 1, sign = key + strcspn(uri + key, "=&");
        if (uri[sign] == '=' && is_secret_key(uri + key, sign - key))
            uri = hide(uri, sign + 1, strcspn(uri + sign + 1, "&"));
        at = key + strcspn(uri + key, "&");
    }
    return uri;
}

char *secret_mask(const char *uri)
{
    bool is_path = strncmp(uri, "sqlite:", 7) == 0 || strncmp(uri, "memory:", 7) == 0;
    return is_path ? text_copy(uri) : hide_options(hide_password(text_copy(uri)));
}

bool secret_is_in(const char *uri)
{
    char *masked = secret_mask(uri);
    bool differs = strcmp(masked, uri) != 0;
    free(masked);
    return differs;
}

void secret_forbid_dumps(void)
{
    prctl(PR_SET_DUMPABLE, 0);
}
