/* SPDX-License-Identifier: Apache-2.0 */
/* caller.c: how an entry names the caller for whom its session waits; see caller.h. Used by the
 * client. */
#include "core/caller.h"

#include "core/id.h"
#include "core/utf8.h"

#include <stdio.h>
#include <string.h>

#define SIGN '@'

void caller_write(const char *name, const char *host, char actor[HF_ACTOR_MAX + 1])
{
    size_t taken = strlen(host) + 2; /* with two signs */
    size_t room = taken < HF_ACTOR_MAX ? HF_ACTOR_MAX - taken : 0;
    snprintf(actor, HF_ACTOR_MAX + 1, "@%.*s", (int)room, name);
    utf8_end_whole(actor);
    size_t length = strlen(actor);
    snprintf(actor + length, HF_ACTOR_MAX + 1 - length, "@%s", host);
    utf8_end_whole(actor);
}

const char *caller_of(const char *actor)
{
    return actor[0] == SIGN && strchr(actor + 1, SIGN) ? actor + 1 : NULL;
}

bool caller_is_same(const char *actor, const char *other)
{
    const char *host = caller_of(actor) ? strrchr(actor, SIGN) : NULL;
    return host ? strncmp(actor, other, (size_t)(host - actor) + 1) == 0
                : strcmp(actor, other) == 0;
}

const char *caller_own_actor(const char *actor)
{
    return caller_of(actor) ? "" : actor;
}

uint64_t caller_owner(const char *actor, uint64_t thread)
{
    const char *own = caller_own_actor(actor);
    return *own ? id_hash(ID_HASH, own, strlen(own)) : id_hash(ID_HASH, &thread, sizeof thread);
}
