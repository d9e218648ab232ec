/* SPDX-License-Identifier: Apache-2.0 */
/* plot.c: writes the plot: both axes logarithmic, a line through the medians, a bar for each range;
 * in colours that are read on a light and on a dark page. See plot.h. */
#include "plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

#define WIDTH 640
#define HEIGHT 360
#define LEFT 60
#define RIGHT 110
#define TOP 40
#define BOTTOM 45

typedef struct frame {
    FILE *out;
    const int *waiters;
    double low, high; /* powers of ten, around all values */
} frame;

static double x_of(const frame *f, int i)
{
    double first = log2(f->waiters[0]), last = log2(f->waiters[PLOT_POINTS - 1]);
    return LEFT + (log2(f->waiters[i]) - first) / (last - first) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const frame *f, double ms)
{
    double part = (log10(ms) - log10(f->low)) / (log10(f->high) - log10(f->low));
    return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM);
}

static void begin(const frame *f, const char *title)
{
    fprintf(f->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n"
            "<style>\n"
            "text { font: 12px sans-serif; fill: #333 }\n"
            ".grid { stroke: #999; stroke-opacity: .35 }\n"
            ".line0 { stroke: #0b6bcb; fill: none; stroke-width: 2 }\n"
            ".line1 { stroke: #c4441c; fill: none; stroke-width: 2 }\n"
            "@media (prefers-color-scheme: dark) {\n"
            "text { fill: #ddd }\n"
            ".line0 { stroke: #6cb6ff }\n"
            ".line1 { stroke: #ff9468 }\n"
            "}\n"
            "</style>\n"
            "<title>%s</title>\n"
            "<text x=\"%d\" y=\"20\">%s</text>\n",
            WIDTH, HEIGHT, title, LEFT, title);
}

static void draw_grid(const frame *f)
{
    for (double ms = f->low; ms <= f->high * 1.01; ms *= 10)
        fprintf(f->out,
                "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g ms</text>\n",
                LEFT, y_of(f, ms), WIDTH - RIGHT, y_of(f, ms), LEFT - 6, y_of(f, ms) + 4, ms);
    for (int i = 0; i < PLOT_POINTS; i++)
        fprintf(f->out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x_of(f, i),
                HEIGHT - BOTTOM + 18, f->waiters[i]);
    fprintf(f->out,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">processes that want the lock"
            "</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8);
}

static void draw_line(const frame *f, const plot_line *line, size_t number)
{
    fprintf(f->out, "<polyline class=\"line%zu\" points=\"", number);
    for (int i = 0; i < PLOT_POINTS; i++)
        fprintf(f->out, "%.1f,%.1f ", x_of(f, i), y_of(f, series_spread(&line->at[i]).median));
    fprintf(f->out, "\"/>\n");
    for (int i = 0; i < PLOT_POINTS; i++) {
        spread s = series_spread(&line->at[i]);
        fprintf(f->out,
                "<path class=\"line%zu\" d=\"M%.1f %.1fV%.1f\"/>"
                "<circle class=\"line%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n",
                number, x_of(f, i), y_of(f, s.min), y_of(f, s.max), number, x_of(f, i),
                y_of(f, s.median));
    }
    fprintf(f->out, "<text x=\"%d\" y=\"%.1f\">%s</text>\n", WIDTH - RIGHT + 10,
            y_of(f, series_spread(&line->at[PLOT_POINTS - 1]).median) + 4, line->label);
}

static void fit(frame *f, const plot_line *lines, size_t n)
{
    double least = INFINITY, most = 0;
    for (size_t l = 0; l < n; l++)
        for (int i = 0; i < PLOT_POINTS; i++) {
            spread s = series_spread(&lines[l].at[i]);
            least = fmin(least, s.min);
            most = fmax(most, s.max);
        }
    f->low = pow(10, floor(log10(fmax(least, 0.001))));
    f->high = pow(10, ceil(log10(fmax(most, 0.002))));
}

void plot_write(const char *path, const char *title, const int waiters[PLOT_POINTS],
                const plot_line *lines, size_t n)
{
    frame f = {.out = fopen(path, "w"), .waiters = waiters};
    if (!f.out)
        fail(path, strerror(errno));
    fit(&f, lines, n);
    begin(&f, title);
    draw_grid(&f);
    for (size_t l = 0; l < n; l++)
        draw_line(&f, &lines[l], l);
    fprintf(f.out, "</svg>\n");
    if (fclose(f.out))
        fail(path, strerror(errno));
}
