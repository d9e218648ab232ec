/* SPDX-License-Identifier: Apache-2.0 */
/* board.h: all the locks as one look has found them, kept to be compared. */
#ifndef SHOW_BOARD_H
#define SHOW_BOARD_H

#include <holdfast/holdfast.h>

typedef struct board {
    int64_t at_ms; /* Unix time; 0: no look yet */
    size_t n;
    hf_lock_info *locks; /* in byte order of names; all in them is the board's */
} board;

/* Looks at all whose name begins with prefix. Whatever comes of it, board_done() frees it. */
hf_code board_look(board *out, hf_client *client, const char *prefix, hf_error *err);
void board_done(board *b);

/* When it got the lock, or came to wait. */
int64_t board_since(const hf_entry_info *entry);

#endif
