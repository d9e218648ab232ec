/* SPDX-License-Identifier: Apache-2.0 */
/* ancestor.c: tells of waits for a lock that the command which started this one holds; run and
 * acquire call it. See ancestor.h. */
#include "ancestor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/terminal/terminal.h"

/* The two variables have a line for each lock, in the same order. The token that belongs to this
 * name; 0: there is none. */
static int64_t inherited_token(const char *name)
{
    const char *names = getenv("HOLDFAST_NAME"), *tokens = getenv("HOLDFAST_TOKEN");
    size_t length = strlen(name);
    while (names && tokens) {
        size_t n = strcspn(names, "\n");
        if (n == length && strncmp(names, name, n) == 0)
            return strtoll(tokens, NULL, 10);
        names = strchr(names, '\n');
        tokens = strchr(tokens, '\n');
        names += names != NULL;
        tokens += tokens != NULL;
    }
    return 0;
}

typedef struct search {
    int64_t token;
    bool is_in_the_way, is_shared;
} search;

/* Two that share are not in each other's way, and a semaphore may have permits left. */
static bool look(void *ctx, const hf_lock_info *info)
{
    search *s = ctx;
    for (size_t i = 0; i < info->n_holders; i++)
        if (info->holders[i].token == s->token)
            s->is_in_the_way = !s->is_shared || info->holders[i].permits == info->limit;
    return false;
}

void ancestor_warn(hf_client *client, const lock_args *args, const char *name)
{
    search s = {.token = inherited_token(name),
                .is_shared = args->mode == HF_SHARED || args->permits};
    if (!s.token || args->wait_ms == HF_TRY || hf_show(client, name, look, &s, NULL))
        return;
    if (s.is_in_the_way)
        terminal_warn("\"%s\" is already held where this command was started (token %" PRId64
                      "), and is not to be had before that is released or over",
                      name, s.token);
}
