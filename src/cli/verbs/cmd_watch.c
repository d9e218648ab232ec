/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_watch.c: the verb watch: shows the locks on a screen that updates itself, or prints events as
 * JSON. It looks repeatedly, because no notice reaches a client that only watches. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run/signals.h"
#include "cli/settings/options.h"
#include "cli/settings/status.h"
#include "cli/settings/value.h"
#include "cli/terminal/refresher.h"
#include "cli/terminal/terminal.h"
#include "cli/terminal/view.h"
#include "module/file.h"
#include "show/changes.h"
#include "show/json.h"
#include "show/text.h"
#include "verbs.h"

#define DEFAULT_INTERVAL_MS 1000
#define LEAST_INTERVAL_MS 50
#define MOST_INTERVAL_MS 3600000
#define PAGE 10
#define SILENT (-2)

enum { KEY_INTERVAL = 2000 };

typedef struct request {
    settings *given;
    const char *prefix;
    int64_t interval_ms;
} request;

static const struct argp_option list[] = {
    {"interval", KEY_INTERVAL, "D", 0, "how often to look: 50ms to 1h, default 1s", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static int64_t interval_of(const char *text)
{
    int64_t ms = value_duration("--interval", text);
    if (ms < LEAST_INTERVAL_MS || ms > MOST_INTERVAL_MS)
        value_refuse("--interval: %s is out of range: 50ms to 1h", text);
    return ms;
}

static void check_usage(const request *req, struct argp_state *state)
{
    const char *term = getenv("TERM");
    bool is_screen = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term;
    if (!is_screen && !req->given->is_json)
        argp_error(state, "there is no terminal to draw on: give --json for one event a line");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    request *req = state->input;
    options_inherit(key, state, req->given);
    switch (key) {
    case KEY_INTERVAL:
        req->interval_ms = interval_of(arg);
        return 0;
    case ARGP_KEY_ARG:
        options_take(&req->prefix, arg, "prefix", state);
        return 0;
    case ARGP_KEY_END:
        check_usage(req, state);
        return 0;
    default:
        return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
    }
}

const struct argp watch_argp = {
    list,
    parse,
    "[PREFIX]",
    "Shows the locks whose names begin with PREFIX, who holds them and who waits, and follows "
    "changes. With --json, prints one event per line.\v"
    "Keys: q quit, / filter, s sort (age, name, waiting), p pause, arrows and pages scroll.",
    options_children,
    NULL,
    NULL};

/* ---- Events ---- */

static void print_change(void *ctx, const change *what)
{
    (void)ctx;
    json_t *line = json_of_change(what);
    json_print(line);
    json_decref(line);
}

/* An unreachable store may come back; it is reported once. */
static bool goes_on(hf_code code, const hf_error *err, bool *is_away)
{
    if (code && !*is_away)
        terminal_error("%s", err->text);
    *is_away = code != HF_OK;
    return !code || err->retryable;
}

static hf_code print_events(const request *req, hf_client *client)
{
    board was = {0};
    board_pace pace = {0};
    hf_code code = HF_OK;
    for (bool is_away = false;;) {
        board now;
        hf_error err = {0};
        code = board_look_in_use(&now, &was, client, req->prefix, NULL, &err);
        if (!goes_on(code, &err, &is_away) || (code && !was.at_ms)) {
            board_done(&now);
            break;
        }
        int64_t pause_ms = board_pause_ms(&pace, code ? NULL : &now, req->interval_ms);
        if (!code)
            changes_tell(&was, &now, print_change, NULL);
        board_done(code ? &now : &was);
        was = code ? was : now;
        if (fflush(stdout))
            break;
        usleep((useconds_t)(pause_ms * 1000));
    }
    board_done(&was);
    return code;
}

/* ---- The screen ---- */

static void set_filter(view *v, char *text)
{
    free(v->filter);
    v->filter = text;
    v->first = 0;
}

/* Without its last character, of however many bytes. */
static void drop_last(view *v)
{
    size_t n = strlen(v->filter);
    while (n && ((unsigned char)v->filter[--n] & 0xc0) == 0x80) {
    }
    set_filter(v, text_print("%.*s", (int)n, v->filter));
}

static void type_key(view *v, int key)
{
    if (key == '\n' || key == '\r' || key == 27)
        v->is_typing = false;
    if (key == KEY_ERASE)
        drop_last(v);
    else if (key >= ' ' && key <= 0xff)
        set_filter(v, text_print("%s%c", v->filter, key));
}

static void scroll_to(view *v, int key)
{
    static const struct {
        int key;
        size_t up, down;
    } ways[] = {{KEY_LINE_UP, 1, 0},      {KEY_LINE_DOWN, 0, 1},  {KEY_PAGE_UP, PAGE, 0},
                {KEY_PAGE_DOWN, 0, PAGE}, {KEY_TOP, SIZE_MAX, 0}, {KEY_BOTTOM, 0, SIZE_MAX / 2}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (ways[i].key == key)
            v->first = (v->first > ways[i].up ? v->first - ways[i].up : 0) + ways[i].down;
}

/* False: enough. */
static bool heed(view *v, refresher *l, int key)
{
    if (key == 27) /* Esc, while the filter is typed, too */
        set_filter(v, text_copy(""));
    if (v->is_typing) {
        type_key(v, key);
        return true;
    }
    if (key == 's')
        v->order = (v->order + 1) % N_ORDERS;
    if (key == '/')
        v->is_typing = true;
    if (key == 'p' || key == ' ')
        refresher_pause(l, v->is_paused = !v->is_paused);
    scroll_to(v, key);
    return key != 'q';
}

static void take_look(view *v, refresher *l)
{
    board seen;
    hf_error wrong;
    if (!refresher_take(l, &seen, &wrong))
        return;
    free(v->wrong);
    v->wrong = text_copy(wrong.text);
    if (wrong.code)
        return;
    board_done(&v->board);
    v->board = seen;
}

/* A change of the window's size interrupts the wait, and counts as a key. */
static void follow(view *v, const screen *s, refresher *l, int ends)
{
    struct pollfd fds[] = {
        {STDIN_FILENO, POLLIN, 0}, {refresher_fd(l), POLLIN, 0}, {ends, POLLIN, 0}};
    while (!(fds[0].revents & (POLLHUP | POLLERR)) && !fds[2].revents) {
        view_draw(v, s);
        poll(fds, 3, -1);
        take_look(v, l);
        for (int key; (key = s->key());)
            if (!heed(v, l, key))
                return;
    }
}

static const screen *load_screen(void)
{
    static const module_file wanted = {SCREEN_FILE, SCREEN_SYMBOL, "the command's screen",
                                       "libncursesw 6"};
    char why[512];
    const screen *s = module_load(&wanted, why, sizeof why);
    if (!s)
        terminal_error("%s; or give --json", why);
    return s;
}

static void show_screen(const request *req, const screen *s, refresher *l, int ends)
{
    char *store = options_store_shown(req->given);
    view v = {.store = store, .filter = text_copy(""), .wrong = text_copy("")};
    follow(&v, s, l, ends);
    s->close();
    board_done(&v.board);
    free(v.wrong);
    free(v.filter);
    free(store);
}

/* The client is not closed: it has no session, and a look may be under way. */
static int draw(const request *req, hf_client *client)
{
    const screen *s = load_screen();
    signals ends;
    bool is_heard = signals_open_ends(&ends) == 0;
    refresher *l = s && is_heard ? refresher_start(client, req->prefix, req->interval_ms) : NULL;
    if (!l || !s->open()) {
        terminal_error("cannot draw on this terminal: give --json for one event a line");
        return STATUS_INTERNAL;
    }
    terminal_init(SILENT); /* warnings of the library would disturb the screen */
    show_screen(req, s, l, ends.fd);
    signals_follow(&ends);
    return 0;
}

int cmd_watch(settings *given, int argc, char **argv)
{
    hf_client *client = NULL;
    request req = {.given = given, .interval_ms = DEFAULT_INTERVAL_MS};
    argp_parse(&watch_argp, argc, argv, 0, NULL, &req);
    int status = options_open(given, NULL, &client);
    if (status || !given->is_json)
        return status ? status : draw(&req, client);
    hf_code code = print_events(&req, client);
    hf_close(client);
    return hf_code_exit(code);
}
