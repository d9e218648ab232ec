/* SPDX-License-Identifier: Apache-2.0 */
/* sound.h: which replies the driver is given. libmongoc 1.23 believes what a server sends: some
 * that no server sends end the process in it, or make it read what it was not sent. */
#ifndef STORE_MONGO_DRIVER_SOUND_H
#define STORE_MONGO_DRIVER_SOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MONGO_OP_MSG 2013

/* A number as messages have it. */
uint32_t mongo_number_in(const uint8_t at[4]);

/* Whether the driver survives this answer. `rest`: the message without the length that it begins
 * with. is_command: to what was sent as an OP_MSG; else to the first hello of a connection. */
bool mongo_reply_is_sound(const uint8_t *rest, size_t size, bool is_command);

#endif
