/* SPDX-License-Identifier: Apache-2.0 */
/* json.h: the listings as JSON. */
#ifndef SHOW_JSON_H
#define SHOW_JSON_H

#include <holdfast/holdfast.h>
#include <jansson.h>

#include "show/changes.h"

/* New references; they end the program when memory is out. */
json_t *json_array_new(void);
json_t *json_object_new(void);
json_t *json_of_lock(const hf_lock_info *info);
json_t *json_of_session(const hf_session_info *info);
json_t *json_of_last(const hf_last *last);
json_t *json_of_change(const change *what);
json_t *json_of_finding(const hf_finding *finding);
json_t *json_of_holders(const hf_lock_info *info);
json_t *json_of_why(const char *name, json_t *links);         /* takes the reference */
bool json_add_why_link(void *links, const hf_why_link *link); /* to an array; for hf_why() */
/* {turns: [], missing: []}, and adds to it; the latter is for hf_history() with tells_missing. */
json_t *json_history_new(void);
bool json_add_turn(void *history, const hf_turn *turn);
json_t *json_of_leader(const char *name, const hf_leader *leader); /* NULL: nobody leads */

/* Puts value, whose reference it takes, at the end of an array, or into an object. */
void json_append(json_t *array, json_t *value);
void json_put(json_t *object, const char *key, json_t *value);
void json_put_text(json_t *object, const char *key, const char *text); /* repaired; NULL: "" */
void json_put_number(json_t *object, const char *key, int64_t number);
/* Of a lease; left out where the protocol has no tokens. */
void json_put_token(json_t *object, int64_t token);

/* As text in new memory, with these flags of Jansson's. Nothing in it changes how a terminal shows
 * it. */
char *json_text(const json_t *value, size_t flags);

/* Prints it on stdout as one line. */
void json_write(const json_t *value); /* without an end of line */
void json_print(const json_t *value);

#endif
