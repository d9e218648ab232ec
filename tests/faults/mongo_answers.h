/* SPDX-License-Identifier: Apache-2.0 */
/* mongo_answers.h: a mongo store without a server: a test says what each command is answered, and
 * how long that takes, and sees what was sent. The clocks are the test's. */
#ifndef TESTS_FAULTS_MONGO_ANSWERS_H
#define TESTS_FAULTS_MONGO_ANSWERS_H

#include "store/mongo/document/document.h"
#include "store/mongo/driver/command.h"
#include "store/mongo/driver/path.h"
#include "store/mongo/driver/reply.h"
#include "store/mongo/driver/server.h"
#include "store/mongo/driver/store.h"
#include "store/mongo/driver/text.h"
#include "store/mongo/queue/batcher.h"
#include "store/mongo/queue/queue.h"
#include "store/mongo/queue/session.h"
#include "store/mongo/queue/sessions.h"
#include "store/mongo/queue/state.h"
#include "store/mongo/queue/sweep.h"
#include "store/mongo/queue/vouch.h"
#include "store/mongo/shared/held.h"
#include "store/mongo/shared/id_text.h"
#include "store/mongo/shared/list.h"
#include "store/mongo/shared/look.h"
#include "store/mongo/shared/plain.h"
#include "store/mongo/shared/protocol.h"
#include "store/mongo/shared/watch.h"
#include "store/mongo/ttl/ttl.h"
#include "unit/unit.h"

/* Opens it: a replica set of a, b and c; keys: "", or "&hfProtocol=ttl". No answer is left over. */
mongo_store *answers_open(const char *keys);
/* The same of any URI. */
mongo_store *answers_open_uri(const char *uri);
void answers_close(mongo_store *store);

/* The next command of that verb that has no answer yet is answered so: {'ok': 1, ...}, or
 * {'ok': 0, 'code': 13}; NULL: by a network error. A command without an answer fails the test. What
 * is read by a cursor is answered {'ok': 1, 'docs': [...]}, to the verb "list". */
void answers_give(const char *verb, const char *json);
void answers_give_slowly(const char *verb, const char *json, int64_t takes_ms);
/* The same answer each time from now on. */
void answers_give_always(const char *verb, const char *json);

/* What was sent: how many, and the last one of that verb as JSON with single quotes. */
int answers_sent(const char *verb);
const char *answers_last(const char *verb);

/* A document as JSON, the same in each version of libbson; bson_free() it. */
char *answers_json(const bson_t *doc);

/* Tells of each command from now on; NULL: does not. where: "app", "app by beats", "app.locks
 * primary" of a cursor. opts: NULL if there are none. */
typedef void (*answers_fn)(const char *where, const bson_t *command, const bson_t *opts);
void answers_tell(answers_fn fn);

/* What the store has logged, one line each. */
const char *answers_log(void);

/* The wall clock stands still at this time; the monotonic one goes on by what answers take. */
#define ANSWERS_WALL_MS 1700000000000
void answers_pass(int64_t ms);

/* The pauses that the store has made, each in ms and followed by a space. */
const char *answers_paused(void);

#endif
