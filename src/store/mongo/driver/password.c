/* SPDX-License-Identifier: Apache-2.0 */
/* password.c: keeps a URI's password out of texts; called by uri.c. */
#include "store/mongo/driver/password.h"
#include "core/error.h"

#include <string.h>
#include <strings.h>

/* ---- What the driver quotes ---- */

/* The last of its quotation marks, of both kinds. */
static char *last_mark(char *message)
{
    char *last = message;
    for (char *at = message; (at = strpbrk(at, "\"'")); at++)
        last = at;
    return last;
}

/* The driver quotes text that it cannot read, which may be a password. Version 2 does so more than
 * once, and in marks of both kinds: nothing between the first and the last is shown. */
void mongo_password_hide(char *message)
{
    char *from = strpbrk(message, "\"'"), *to = last_mark(message);
    if (!from || from == to)
        return;
    *to = *from;
    memmove(from + 1, to, strlen(to) + 1);
}

/* ---- Signs that are not encoded ---- */

static bool has_between(const char *from, const char *end, char sign)
{
    return memchr(from, sign, (size_t)(end - from));
}

/* Options whose values are paths or names, which may have an @ and behind it a /. */
static bool may_have_any_sign(const char *item)
{
    static const char *const free_keys[] = {"tls", "ssl", "hf", "appname="};
    for (size_t i = 0; i < sizeof free_keys / sizeof *free_keys; i++)
        if (strncasecmp(item, free_keys[i], strlen(free_keys[i])) == 0)
            return true;
    return false;
}

/* An option whose @ ends a password that a ? has cut: what is before it is no key, or what is
 * behind it is a path. */
static bool ends_a_password(const char *item, size_t length)
{
    const char *end = item + length, *at = memchr(item, '@', length);
    if (!at || !has_between(item, at, '='))
        return at;
    return has_between(at, end, '/') && !may_have_any_sign(item);
}

static bool has_plain_sign(const char *text)
{
    const char *from = strstr(text, "://");
    if (!from)
        return false;
    from += 3;
    const char *hosts = from + strcspn(from, "/?"), *options = from + strcspn(from, "?");
    const char *at = memchr(from, '@', (size_t)(hosts - from));
    bool is_plain = has_between(hosts, options, '@') || (at && has_between(at + 1, hosts, '@'));
    while (!at && !is_plain && *options) {
        size_t length = strcspn(++options, "&");
        is_plain = ends_a_password(options, length);
        options += length;
    }
    return is_plain;
}

/* The driver would take a part of the password for hosts, a database or options, and texts would
 * show it. */
hf_code mongo_password_check(const char *text, hf_error *err)
{
    if (!has_plain_sign(text))
        return HF_OK;
    return error_set(err, HF_INVALID,
                     "the MongoDB URI cannot be read: its user or its password has a sign that "
                     "has another meaning there: %s",
                     MONGO_PASSWORD_SIGNS);
}
