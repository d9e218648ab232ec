/* SPDX-License-Identifier: Apache-2.0 */
/* caller.h: whom a session waits for. A service waits with its own session, so the entry of such a
 * wait names the caller in place of an actor: "@shop@10.0.0.7". */
#ifndef CORE_CALLER_H
#define CORE_CALLER_H

#include <holdfast/store.h>

/* A name that is too long is cut. */
void caller_write(const char *name, const char *host, char actor[HF_ACTOR_MAX + 1]);

/* "shop@10.0.0.7", within the actor; NULL: it names an actor of the session's own. */
const char *caller_of(const char *actor);

/* Whether both name the same: a caller may come from several hosts. */
bool caller_is_same(const char *actor, const char *other);

/* The actor, unless it names a caller: then "". Several requests of one caller are several owners,
 * each with a thread of its own. */
const char *caller_own_actor(const char *actor);
/* A hash that is the same for all of one actor's own, or, without one, for all of one thread. */
uint64_t caller_owner(const char *actor, uint64_t thread);

#endif
