/* SPDX-License-Identifier: Apache-2.0 */
/* id.h: comparing and writing the ids of sessions and tickets. */
#ifndef CORE_ID_H
#define CORE_ID_H

#include <holdfast/store.h>

#define ID_TEXT_SIZE 25 /* 24 hexadecimal digits and the NUL */

bool id_equal(hf_id a, hf_id b);
bool id_is_zero(hf_id id);
void id_write(hf_id id, char text[ID_TEXT_SIZE]);
/* FNV-1a over bytes, for things without an id of their own. Begin with ID_HASH; several calls may
 * follow each other. */
#define ID_HASH UINT64_C(0xcbf29ce484222325)
uint64_t id_hash(uint64_t hash, const void *bytes, size_t n);
hf_id id_of_hash(uint64_t hash); /* the same on every processor */
/* Writes a byte as two hexadecimal digits; returns the place behind them. */
char *id_write_byte(char *to, uint8_t byte);
int id_read_byte(const char *from);               /* -1: no two such digits, of lower case */
bool id_read(const char *text, hf_id *out);       /* 24 digits; what follows is not looked at */
bool id_read_whole(const char *text, hf_id *out); /* 24 digits, not all 0, and nothing else */

#endif
