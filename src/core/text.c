/* SPDX-License-Identifier: Apache-2.0 */
/* text.c: decides what may be a name or a text, which the client asks before anything is sent, and
 * writes the texts that records keep for people. */
#include "core/text.h"

#include "core/error.h"
#include "core/utf8.h"

#include <stdio.h>

#include <string.h>

hf_code text_check_name(const char *name, hf_error *err)
{
    if (!name || !name[0])
        return error_set(err, HF_INVALID, "the lock's name is empty: give 1 to %d bytes",
                         HF_NAME_MAX);
    return text_check("the lock's name", name, HF_NAME_MAX, err);
}

hf_code text_check(const char *what, const char *text, size_t max, hf_error *err)
{
    if (!text)
        return HF_OK;
    if (strlen(text) > max)
        return error_set(err, HF_INVALID,
                         "%s is %zu bytes long: at most %zu are allowed (%.40s...)", what,
                         strlen(text), max, utf8_is_valid(text) ? text : "");
    if (!utf8_is_valid(text))
        return error_set(err, HF_INVALID, "%s is not valid UTF-8", what);
    return HF_OK;
}

void text_broken(char out[HF_TEXT_MAX + 1], const hf_ask *ask)
{
    char whole[2 * HF_TEXT_MAX + 20] = "";
    if (ask->by[0])
        snprintf(whole, sizeof whole, "broken by %s: %s", ask->by, ask->reason);
    memcpy(out, whole, HF_TEXT_MAX);
    out[HF_TEXT_MAX] = '\0';
    utf8_end_whole(out);
}

void text_who(const hf_session *session, char out[HF_TEXT_MAX + 1])
{
    size_t n = (size_t)snprintf(out, HF_TEXT_MAX + 1, "%.100s@%.100s", session->app, session->host);
    if (session->pid)
        snprintf(out + n, HF_TEXT_MAX + 1 - n, ":%lld", (long long)session->pid);
}
