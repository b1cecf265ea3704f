/* plot_script.c: the parts that the scripts of all figures share. */
#include "tools/common/variants.h"
#include "tools/plot/plot.h"
#include "util/utf8.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Room in characters and fractions of the picture. */
static const double TITLE = 44, GAP_X = 86, GAP_Y = 74, MARGIN = 18, LINE = 15, LEADER = 22, CHARACTER = 8.5, SYMBOL_GAP = 8;

int plot_script_begin(plot_script *s) {
    *s = (plot_script){.width = 960, .height = 600};
    s->file = open_memstream(&s->text, &s->length);
    return s->file != NULL;
}

/* A name of a file may hold any bytes.  XML forbids some of them, and others reorder the text of the figure. */
static void put_quoted(plot_script *s, const char *text, char quote, const char *inner_quote) {
    fputc(quote, s->file);
    while (*text) {
        uint32_t code = 0;
        const int length = gyre_utf8_decode(text, strnlen(text, 4), &code);
        if (length <= 0 || code == 0xfffe || code == 0xffff)
            fputs("\xef\xbf\xbd", s->file);
        else if (code == '\t' || code == '\n' || gyre_utf8_is_control(code))
            fputc(' ', s->file);
        else if (*text == quote)
            fputs(inner_quote, s->file);
        else
            fwrite(text, 1, (size_t)length, s->file);
        text += length > 0 ? length : 1;
    }
    fputc(quote, s->file);
}

void plot_text(plot_script *s, const char *text) {
    put_quoted(s, text, '\'', "''");
}

void plot_script_start(plot_script *s, int width, int height, const char *title) {
    s->width = width;
    s->height = height;
    fputs("set border 3 linecolor rgb '#5f6368' linewidth 0.8\n"
          "set grid xtics ytics linetype 1 linecolor rgb '#e8eaed' linewidth 0.8\n"
          "set tics nomirror out scale 0.5,0.25 textcolor rgb '#3c4043'\n"
          "set format '%h'\nset datafile separator whitespace\n"
          "set style textbox opaque fillcolor rgb '#ffffff' noborder margins 0.3,0.2\n"
          "set key textcolor rgb '#202124' samplen 3 spacing 1.15 Left reverse\n"
          "set multiplot title ",
          s->file);
    plot_text(s, title);
    fputs(" font ',15' textcolor rgb '#202124' offset 0,-0.2\n", s->file);
}

void plot_box_begin(plot_script *s, plot_box b) {
    s->panel_height = (b.top - b.bottom) * s->height;
    s->panel_width = (b.right - b.left) * s->width;
    fprintf(s->file,
            "unset label\nunset key\nunset logscale\nset autoscale\nset xtics autofreq\nset ytics autofreq\n"
            "set xlabel ''\nset ylabel ''\nset title ''\nunset colorbox\nunset x2tics\nunset y2tics\nset x2label ''\n"
            "unset object\nunset arrow\nset lmargin at screen %.4f\nset rmargin at screen %.4f\n"
            "set bmargin at screen %.4f\nset tmargin at screen %.4f\n",
            b.left, b.right, b.bottom, b.top);
}

void plot_panel_title(plot_script *s, const char *text) {
    fputs("set title ", s->file);
    plot_text(s, text);
    fputs(" offset 0,-0.4 font ',13' textcolor rgb '#202124'\n", s->file);
}

void plot_label(plot_script *s, char axis, const char *text) {
    fprintf(s->file, "set %clabel ", axis);
    plot_text(s, text);
    fprintf(s->file, " textcolor rgb '#3c4043' font ',12' offset %s\n", axis == 'x' ? "0,0.4" : "0,0");
}

void plot_data(plot_script *s, const plot_table *t, const char *name, int64_t first, int64_t end) {
    fprintf(s->file, "$%s << EOD\n", name);
    for (int64_t r = first; r < end; r++)
        for (int c = 0; c < t->columns_count; c++) {
            const double value = plot_table_number(t, r, c);
            if (!t->columns[c].unit)
                put_quoted(s, plot_table_text(t, r, c), '"', "'"); /* no escape for a quote in every gnuplot */
            else if (isfinite(value))
                fprintf(s->file, "%.9g", value);
            else
                fputs("NaN", s->file);
            fputc(c + 1 < t->columns_count ? ' ' : '\n', s->file);
        }
    if (first >= end)
        for (int c = 0; c < t->columns_count; c++)
            fputs(c + 1 < t->columns_count ? "NaN " : "NaN\n", s->file);
    fputs("EOD\n", s->file);
}

plot_box plot_grid(const plot_script *s, int index, int count, int columns) {
    const int rows = (count + columns - 1) / columns, row = index / columns, column = index % columns;
    const double w = (s->width - MARGIN) / columns, h = (s->height - TITLE) / rows;
    return (plot_box){(column * w + GAP_X) / s->width, ((column + 1) * w - GAP_X * 0.1) / s->width,
                      1 - (TITLE + (row + 1) * h - GAP_Y * 0.72) / s->height,
                      1 - (TITLE + row * h + GAP_Y * 0.34) / s->height};
}

/* -- looks -- */
const char *plot_color(gyre_report_look look) {
    return gyre_report_color((int)look.color);
}

const char *plot_look(gyre_report_look look, char out[PLOT_LOOK]) {
    const gyre_report_style style = gyre_report_look_style(look);
    const int solid = !*style.dash;
    snprintf(out, PLOT_LOOK, "linecolor rgb '%s' dashtype %s%s%s pointtype %d", style.color, solid ? "solid" : "(",
             style.dash, solid ? "" : ")", style.shape);
    return out;
}

gyre_report_look plot_look_of(const plot_table *t, int64_t row, int column, int i) {
    const gyre_report_look look = subject_look(plot_table_text(t, row, column));
    return look.color ? look : gyre_report_look_at(i);
}

void plot_put_lines(plot_script *s, const plot_table *t, const plot_lines *l) {
    char look[PLOT_LOOK];
    fputs("plot ", s->file);
    for (plot_group g = {0}; plot_group_next(t, l->column, &g);) {
        const gyre_report_look of =
            l->by_order ? gyre_report_look_at(g.index) : plot_look_of(t, g.first, l->column, g.index);
        if (g.index) fputs(", ", s->file);
        if (l->band)
            fprintf(s->file,
                    "$all every ::%lld::%lld using %s with filledcurves fillstyle transparent solid 0.13 noborder "
                    "linecolor rgb '%s' notitle, ",
                    (long long)g.first, (long long)g.end - 1, l->band, plot_color(of));
        fprintf(
            s->file, "$all every ::%lld::%lld using %s with linespoints %s linewidth %.1f pointsize %.2f pointinterval %d ",
            (long long)g.first, (long long)g.end - 1, l->using, plot_look(of, look), l->width, l->point_size, l->interval);
        fputs("title ", s->file);
        plot_text(s, g.name);
    }
    fputc('\n', s->file);
}

static int characters(const char *text) {
    int count = 0;
    for (; *text; text++)
        count += (*text & 0xc0) != 0x80; /* of UTF-8 the first byte of each */
    return count;
}

/* A label where it found room, and a leader to it from the end of its line: dotted, grey and off the axes, so that it does
 * not continue the line. */
static void put_end_label(plot_script *s, const plot_end *end, double at) {
    const double leader = fmin(LEADER / s->panel_width, 0.08), gap = leader / 5;
    fprintf(s->file,
            "set arrow from graph %.4f, graph %.4f to graph %.4f, graph %.4f nohead linewidth 0.7 linecolor rgb '#9aa0a6' "
            "dashtype (2,4)\n",
            1 + gap, end->at, 1 + leader - gap, at);
    fputs("set label ", s->file);
    plot_text(s, end->text);
    /* The text is dark: the lighter colours cannot be read as text. */
    fprintf(s->file, " at graph %.4f, graph %.4f left textcolor rgb '#202124'\n", 1 + leader, at);
    /* The symbol is behind the name: before it, it would look like a point of the line. */
    if (end->look.color)
        fprintf(s->file, "set label '' at graph %.4f, graph %.4f point pointtype %d pointsize 0.8 linecolor rgb '%s'\n",
                1 + leader + (SYMBOL_GAP + CHARACTER * (double)characters(end->text)) / s->panel_width, at,
                gyre_report_look_style(end->look).shape, plot_color(end->look));
}

void plot_end_labels(plot_script *s, plot_end *ends, int count) {
    const double apart = fmax(0.062, LINE / s->panel_height);
    for (int i = 1; i < count; i++) /* from low to high */
        for (int k = i; k > 0 && ends[k].at < ends[k - 1].at; k--) {
            const plot_end held = ends[k];
            ends[k] = ends[k - 1];
            ends[k - 1] = held;
        }
    double last = -1, at[PLOT_ENDS];
    for (int i = 0; i < count; i++)
        last = at[i] = fmax(ends[i].at, last + apart);
    /* Those pushed past the top move down again. */
    for (int i = count - 1; i >= 0; i--)
        at[i] = fmin(at[i], 1 - apart * (count - 1 - i));
    for (int i = 0; i < count; i++)
        put_end_label(s, &ends[i], at[i]);
}

void plot_ticks_of_two(plot_script *s, char axis, double low, double high) {
    static const char *const suffix[] = {"", "k", "M", "G", "T"};
    const int first = (int)floor(log2(low)), last = (int)ceil(log2(high)), step = (last - first) / 8 + 1;
    fprintf(s->file, "set logscale %c 2\nset %ctics (", axis, axis);
    for (int e = first, n = 0; e <= last; e++) {
        const int power = e > 0 ? e / 10 < 4 ? e / 10 : 4 : 0;
        if (e % step) continue;
        fprintf(s->file, "%s'%.6g%s' %.17g", n++ ? ", " : "", ldexp(1, e - 10 * power), suffix[power], ldexp(1, e));
    }
    fputs(")\n", s->file);
}

/* A power of ten, to three digits: a config may state any base. */
static void put_power(plot_script *s, int e) {
    static const char *const raised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
    char digits[16];
    snprintf(digits, sizeof digits, "%d", abs(e));
    fprintf(s->file, "'10%s", e < 0 ? "⁻" : "");
    for (const char *d = digits; *d; d++)
        fputs(raised[*d - '0'], s->file);
    fprintf(s->file, "' %.17g", pow(10, e));
}

void plot_ticks_of_ten(plot_script *s, char axis, double low, double high) {
    const int first = (int)floor(log10(low)), last = (int)ceil(log10(high)), step = (last - first) / 8 + 1;
    fprintf(s->file, "set logscale %c 10\nset %ctics (", axis, axis);
    for (int e = first, n = 0; e <= last; e++) {
        if (e % step) continue;
        if (n++) fputs(", ", s->file);
        if (e >= -2 && e <= 4)
            fprintf(s->file, "'%.6g' %.17g", pow(10, e), pow(10, e));
        else
            put_power(s, e);
    }
    fputs(")\n", s->file);
}

void plot_ticks_of_tokens(plot_script *s, double high) {
    double step = 1;
    while (high / step > 5)
        step *= 2;
    fputs("set xtics (", s->file);
    for (int i = 0; i * step <= high * 1.0001; i++) {
        const double at = i * step, k = at >= 1048576 ? 1048576 : at >= 1024 ? 1024 : 1;
        fprintf(s->file, "%s'%.4g%s' %.17g", i ? ", " : "", at / k, k > 1024 ? "M" : k > 1 ? "k" : "", at);
    }
    fputs(")\n", s->file);
}

const char *plot_image(double cells) {
    static const double few = 4096;
    return cells <= few ? "with image pixels" : "with image";
}

/* -- writing -- */
int plot_script_write(const plot_script *s, const char *title, gyre_report_format format, FILE *file) {
    gyre_report_script script = GYRE_REPORT_SCRIPT_INIT;
    gyre_error err = {0, ""};
    char *picture = NULL;
    size_t bytes = 0;
    script.title = title;
    script.text = s->text;
    script.width = s->width;
    script.height = s->height;
    script.format = format;
    if (gyre_report_script_draw(&script, &picture, &bytes, &err)) return cli_fail_error(&err);
    errno = 0;
    const size_t written = fwrite(picture, 1, bytes, file);
    const int code = errno;
    const char *name = cli_output_name(file);
    gyre_report_free(picture);
    return written == bytes ? 0 : cli_fail("%s: %s (writing the result)", name ? name : "figure", strerror(code));
}
