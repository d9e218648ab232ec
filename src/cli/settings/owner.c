/* SPDX-License-Identifier: Apache-2.0 */
/* owner.c: names the user and the program; the verbs call it through options.c. See owner.h. */
#include "owner.h"

#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "show/text.h"
#include "value.h"

#define MOST_BYTES 100 /* of the library's `app` */

/* Not from the environment, which sudo and cron leave as it was or empty. */
char *owner_of(const char *program)
{
    const struct passwd *me = getpwuid(getuid());
    bool fits =
        me && strlen(me->pw_name) + 1 + strlen(program) <= MOST_BYTES && text_is_utf8(me->pw_name);
    return fits ? text_print("%s/%s", me->pw_name, program) : text_copy(program);
}

const char *owner_read(const char *text)
{
    if (!*text || strlen(text) > MOST_BYTES || !text_is_utf8(text))
        value_refuse("--owner %.100s: a text of 1 to %d bytes of UTF-8", text, MOST_BYTES);
    return text;
}
