/* SPDX-License-Identifier: Apache-2.0 */
/* screen.c: draws a whole screen with ncurses, for `holdfast watch`; a module of its own. */
#include "screen/screen.h"

#include <holdfast/holdfast.h>

#include <curses.h>
#include <stdlib.h>
#include <unistd.h>

#define ESCAPE_MS 25 /* a lone Esc counts as the key after this long */

static bool has_colours;

static void start_colours(void)
{
    const char *unwanted = getenv("NO_COLOR");
    has_colours = has_colors() && !(unwanted && *unwanted);
    if (!has_colours)
        return;
    start_color();
    use_default_colors();
    init_pair(LOOK_WAITS, COLOR_YELLOW, -1);
    init_pair(LOOK_ALARM, COLOR_RED, -1);
}

static bool screen_open(void)
{
    if (!newterm(NULL, stdout, stdin))
        return false;
    cbreak();
    noecho();
    curs_set(0);
    nodelay(stdscr, TRUE);
    keypad(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    start_colours();
    return true;
}

static void screen_close(void)
{
    endwin();
}

static void screen_size(int *lines, int *columns)
{
    getmaxyx(stdscr, *lines, *columns);
}

static void screen_clear(void)
{
    erase();
}

static attr_t attributes_of(screen_look look)
{
    static const attr_t plain[] = {[LOOK_PLAIN] = A_NORMAL,
                                   [LOOK_TITLE] = A_BOLD,
                                   [LOOK_HEAD] = A_REVERSE,
                                   [LOOK_WAITS] = A_NORMAL,
                                   [LOOK_ALARM] = A_BOLD};
    bool is_coloured = has_colours && (look == LOOK_WAITS || look == LOOK_ALARM);
    return plain[look] | (is_coloured ? (attr_t)COLOR_PAIR(look) : 0);
}

static void screen_put(int line, screen_look look, const char *text)
{
    attrset((int)attributes_of(look));
    mvaddstr(line, 0, text);
    attrset(A_NORMAL);
}

static void screen_show(void)
{
    refresh();
}

static int screen_key(void)
{
    static const struct {
        int curses, ours;
    } keys[] = {
        {ERR, KEY_NONE},          {KEY_BACKSPACE, KEY_ERASE}, {'\b', KEY_ERASE},
        {0x7f, KEY_ERASE},        {KEY_UP, KEY_LINE_UP},      {KEY_DOWN, KEY_LINE_DOWN},
        {KEY_PPAGE, KEY_PAGE_UP}, {KEY_NPAGE, KEY_PAGE_DOWN}, {KEY_HOME, KEY_TOP},
        {KEY_END, KEY_BOTTOM},    {KEY_RESIZE, KEY_RESIZED},
    };
    int key = getch();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i].curses == key)
            return keys[i].ours;
    return key > 0xff ? KEY_RESIZED : key; /* a key without a meaning here: draw anew */
}

__attribute__((visibility("default"))) extern const screen holdfast_screen;
const screen holdfast_screen = {HF_VERSION,   screen_open, screen_close, screen_size,
                                screen_clear, screen_put,  screen_show,  screen_key};
