/* SPDX-License-Identifier: Apache-2.0 */
/* spec.c: runs a spec on a store: each session is a client with a thread of its own; the steps are
 * taken in each order that keeps the sessions' own (as PostgreSQL's isolation tester does), or in
 * those named. `spec STORE FILE...`; STORE as for the conformance suite.
 *
 *     session NAME [ttl MS]
 *     step NAME WORDS...        acquire LOCK [shared | permits K N] [try | wait MS]
 *                               release LOCK, break LOCK, cancel SESSION, cut, heal [SESSION],
 * pause MS, crowd LOCK N, disperse LOCK allow STEP OUTCOME...     how it may end: ok, timeout,
 * held, lost, ... permutation STEP...       only these orders
 *
 * A step that is not done in a moment waits, and others go on. After every step nobody may believe
 * what excludes another's belief, and tokens must have risen; in the end nothing is left behind. */
#include "spec/spec.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define MOMENT_MS 40
#define PATIENCE_MS 8000

static unsigned failures, orders;
static const char *file_name;
static char order_text[256];

void spec_fail(const char *what, const char *detail)
{
    printf("%s: order%s: %s: %s\n", file_name, order_text, what, detail);
    failures++;
}

/* ---- Reading ---- */

static struct step *find_step(struct spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->n_steps; i++)
        if (strcmp(spec->steps[i].name, name) == 0)
            return &spec->steps[i];
    fprintf(stderr, "%s: no step %s\n", file_name, name);
    exit(2);
}

static void read_order(struct spec *spec)
{
    struct order *order = &spec->orders[spec->n_orders++];
    for (char *word; (word = strtok(NULL, " \n"));)
        order->steps[order->n++] = find_step(spec, word);
}

static void read_allow(struct spec *spec)
{
    struct step *step = find_step(spec, strtok(NULL, " \n"));
    for (char *word; (word = strtok(NULL, " \n"));)
        snprintf(step->allowed[step->n_allowed++], sizeof step->allowed[0], "%s", word);
}

static void read_session(struct spec *spec)
{
    struct session_spec *session = &spec->sessions[spec->n_sessions++];
    snprintf(session->name, sizeof session->name, "%s", strtok(NULL, " \n"));
    char *word = strtok(NULL, " \n");
    session->ttl_ms = word ? atoi(strtok(NULL, " \n")) : 10000;
}

static void read_step(struct spec *spec)
{
    struct step *step = &spec->steps[spec->n_steps++];
    step->session = spec->n_sessions - 1;
    snprintf(step->name, sizeof step->name, "%s", strtok(NULL, " \n"));
    for (char *word; (word = strtok(NULL, " \n"));)
        snprintf(step->words[step->n_words++], sizeof step->words[0], "%s", word);
}

static void read_line(struct spec *spec, char *line)
{
    char *word = strtok(line, " \n");
    if (!word || word[0] == '#')
        return;
    if (strcmp(word, "session") == 0)
        read_session(spec);
    else if (strcmp(word, "step") == 0)
        read_step(spec);
    else if (strcmp(word, "allow") == 0)
        read_allow(spec);
    else if (strcmp(word, "permutation") == 0)
        read_order(spec);
    else {
        fprintf(stderr, "%s: what is %s?\n", file_name, word);
        exit(2);
    }
}

static void read_spec(struct spec *spec)
{
    char line[512];
    FILE *file = fopen(file_name, "r");
    if (!file) {
        perror(file_name);
        exit(2);
    }
    *spec = (struct spec){.n_steps = 0};
    while (fgets(line, sizeof line, file))
        read_line(spec, line);
    fclose(file);
}

/* ---- One order ---- */

static void check_outcome(const struct step *step)
{
    for (size_t i = 0; i < step->n_allowed; i++)
        if (strcmp(step->allowed[i], step->outcome) == 0)
            return;
    if (step->n_allowed)
        spec_fail(step->name, step->outcome);
}

/* False: the session is still busy with what waits for a later step. */
static bool take(struct player *players, struct step *step)
{
    struct player *player = &players[step->session];
    if (!player_await(player, player->is_stuck ? MOMENT_MS : PATIENCE_MS))
        return false;
    player_begin(player, step);
    player_await(player, MOMENT_MS);
    players_check(players);
    return true;
}

static void run_order(const struct spec *spec, const char *uri, const struct order *order)
{
    struct player players[SESSIONS];
    size_t used = 0;
    order_text[0] = '\0';
    for (size_t i = 0; i < order->n; i++)
        used += (size_t)snprintf(order_text + used, sizeof order_text - used, " %s",
                                 order->steps[i]->name);
    players_open(players, spec, uri);
    bool goes_on = true;
    for (size_t i = 0; i < order->n && goes_on; i++)
        goes_on = take(players, order->steps[i]);
    players_end(players);
    for (size_t i = 0; i < order->n && goes_on; i++)
        check_outcome(order->steps[i]);
    players_close(players, spec, uri);
    orders++;
}

/* All orders that keep each session's own. */
static void permute(struct spec *spec, const char *uri, struct order *so_far)
{
    if (so_far->n == spec->n_steps) {
        run_order(spec, uri, so_far);
        return;
    }
    size_t next[SESSIONS];
    for (size_t s = 0; s < spec->n_sessions; s++) {
        next[s] = spec->n_steps;
        for (size_t i = spec->n_steps; i-- > 0;) {
            bool taken = false;
            for (size_t j = 0; j < so_far->n; j++)
                taken |= so_far->steps[j] == &spec->steps[i];
            if (spec->steps[i].session == s && !taken)
                next[s] = i;
        }
    }
    for (size_t s = 0; s < spec->n_sessions; s++) {
        if (next[s] == spec->n_steps)
            continue;
        so_far->steps[so_far->n++] = &spec->steps[next[s]];
        permute(spec, uri, so_far);
        so_far->n--;
    }
}

static void run_spec(const char *path, const char *uri)
{
    static struct spec spec;
    unsigned before = orders;
    file_name = path;
    read_spec(&spec);
    if (!spec.n_orders)
        permute(&spec, uri, &(struct order){.n = 0});
    for (size_t i = 0; i < spec.n_orders; i++)
        run_order(&spec, uri, &spec.orders[i]);
    printf("%s: %u orders\n", path, orders - before);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: spec URI FILE...\n");
        return 64;
    }
    for (int i = 2; i < argc; i++)
        run_spec(argv[i], argv[1]);
    printf("%u orders, %u failures\n", orders, failures);
    return failures > 0;
}
