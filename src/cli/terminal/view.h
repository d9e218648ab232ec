/* SPDX-License-Identifier: Apache-2.0 */
/* view.h: the screen of `holdfast watch`. */
#ifndef HOLDFAST_CLI_VIEW_H
#define HOLDFAST_CLI_VIEW_H

#include "screen/screen.h"
#include "show/board.h"

typedef enum view_order { BY_AGE, BY_NAME, BY_WAITING, N_ORDERS } view_order;

typedef struct view {
    const char *store; /* as it may be shown */
    view_order order;
    char *filter;   /* what name, who or why must contain; "": anything */
    bool is_typing; /* the filter */
    bool is_paused;
    size_t first; /* line of those that do not fit the screen */
    board board;
    char *wrong; /* why the last look failed; "": it did not */
} view;

void view_draw(view *v, const screen *s);

#endif
