/* SPDX-License-Identifier: Apache-2.0 */
/* id.h: comparing and writing the ids of sessions and tickets. */
#ifndef CORE_ID_H
#define CORE_ID_H

#include <holdfast/store.h>

#define ID_TEXT_SIZE 25 /* 24 hexadecimal digits and the NUL */

bool id_equal(hf_id a, hf_id b);
bool id_is_zero(hf_id id);
void id_write(hf_id id, char text[ID_TEXT_SIZE]);
bool id_read(const char *text, hf_id *out); /* 24 digits; what follows is not looked at */

#endif
