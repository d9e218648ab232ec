/* SPDX-License-Identifier: Apache-2.0 */
/* screen.h: the terminal as a whole screen; what the command and its module holdfast-screen.so
 * agree on. ncurses takes long to load, and only one verb needs it. */
#ifndef SCREEN_SCREEN_H
#define SCREEN_SCREEN_H

#include <stdbool.h>

#define SCREEN_FILE "holdfast-screen.so"
#define SCREEN_SYMBOL "holdfast_screen"

/* How a line looks. Without colours they still differ, except the last two. */
typedef enum screen_look { LOOK_PLAIN, LOOK_TITLE, LOOK_HEAD, LOOK_WAITS, LOOK_ALARM } screen_look;

/* Keys that are no character; the others are the bytes of their UTF-8. */
enum {
    KEY_NONE = 0,
    KEY_ERASE = 0x100, /* backspace */
    KEY_LINE_UP,
    KEY_LINE_DOWN,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_TOP,
    KEY_BOTTOM,
    KEY_RESIZED,
};

typedef struct screen {
    const char *version; /* HF_VERSION */
    bool (*open)(void);  /* false: the terminal cannot do it */
    void (*close)(void); /* the terminal is as it was */
    void (*size)(int *lines, int *columns);
    void (*clear)(void);
    void (*put)(int line, screen_look look, const char *text); /* text fits the columns */
    void (*show)(void);                                        /* shows what was put since clear */
    int (*key)(void);                                          /* waits for nothing */
} screen;

#endif
