/* report_svg.c: edits the SVG that gnuplot writes, so that it fits a page that is light or dark and answers the pointer.
 *
 *     title          of the figure, instead of "Gnuplot"
 *     colours        as #rrggbb, so that the dark rules of report_inks.c find them; a separate picture has these
 *     empty groups   left out, half of the text
 *     hints          a <title> on an invisible spot around each value, which browsers show under the pointer
 *     maps           with sharp cells, and a class on the scale of their colours
 *     symbols        bolder */
#include "report/report_internal.h"

#include <stdlib.h>
#include <string.h>

enum { COLORS_OF_SCALE = 16 }; /* a scale has more */

static int begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* out = one past the first `mark` at or after text; NULL if there is none. */
static const char *after(const char *text, const char *mark) {
    const char *at = text ? strstr(text, mark) : NULL;
    return at ? at + strlen(mark) : NULL;
}

/* -- colours -- */
static const char *put_color(gyre_report_buffer *out, const char *at) {
    long part[3];
    char *end = NULL;
    const char *next = at + strlen("rgb(");
    for (int i = 0; i < 3; i++) {
        part[i] = strtol(next, &end, 10) & 255;
        next = end + (*end != '\0');
    }
    gyre_report_printf(out, "#%02lx%02lx%02lx", (unsigned long)part[0], (unsigned long)part[1], (unsigned long)part[2]);
    return next;
}

/* Copies text up to end, with every rgb(r, g, b) as #rrggbb. */
static void put_recolored(gyre_report_buffer *out, const char *text, const char *end) {
    const char *copied = text;
    for (const char *at = strstr(text, "rgb("); at && at < end; at = strstr(copied, "rgb(")) {
        gyre_report_put_bytes(out, copied, (size_t)(at - copied));
        copied = put_color(out, at);
    }
    if (copied < end) gyre_report_put_bytes(out, copied, (size_t)(end - copied));
}

/* -- titles -- */
/* The legend's text, first in the curve's group, says more than gnuplot's "gnuplot_plot_3".  A picture without a legend has
 * hints instead.  out = the position after the title. */
static const char *put_curve_title(gyre_report_buffer *out, const char *title, int alone) {
    const char *group = strstr(title, "<g id="), *text = strstr(title, "<text>");
    const char *end = alone && text && (!group || text < group) ? strstr(text, "</text>") : NULL;
    if (end) {
        gyre_report_put(out, "<title>");
        gyre_report_put_bytes(out, text + strlen("<text>"), (size_t)(end - text) - strlen("<text>"));
        gyre_report_put(out, "</title>");
    }
    return after(title, "</title>");
}

static const char *put_title(gyre_report_buffer *out, const char *at, const gyre_report_canvas *canvas) {
    if (!begins(at, "<title>Gnuplot<")) return put_curve_title(out, at, canvas->alone);
    gyre_report_put(out, "<title>");
    gyre_report_put_html(out, canvas->title ? canvas->title : "figure");
    gyre_report_put(out, "</title>\n");
    if (canvas->alone) {
        gyre_report_put(out, "<style>@media screen and (prefers-color-scheme:dark){");
        gyre_report_put_dark_rules(out, "");
        gyre_report_put(out, "}</style>\n");
    }
    return after(at, "</title>");
}

/* -- hints -- */
static void put_hint(gyre_report_buffer *out, const gyre_report_canvas *canvas, int64_t map, int64_t series, int64_t point) {
    if (!canvas->hint) return;
    gyre_report_buffer text = {NULL, 0, 0, 0};
    canvas->hint(canvas->ctx, map, series, point, &text);
    gyre_report_put(out, "<title>");
    gyre_report_put_html(out, text.text);
    gyre_report_put(out, "</title>");
    out->failed |= text.failed;
    gyre_report_buffer_free(&text);
}

/* gnuplot draws a labelled point as a group that calls its own script.  out = the position after the group. */
static const char *put_spot(gyre_report_buffer *out, const char *group, const gyre_report_canvas *canvas) {
    const char *label = after(group, "showHypertext(evt,'"), *at = after(group, "translate("), *end = after(group, "</g>");
    if (!label || !at || !end || at > end) return after(group, ">");
    char *next = NULL;
    const int64_t series = strtoll(label, &next, 10), point = strtoll(next, NULL, 10);
    gyre_report_put(out, "<circle class='spot' r='9' stroke='none' fill='#000' fill-opacity='0' cx='");
    gyre_report_put_bytes(out, at, strcspn(at, ","));
    gyre_report_put(out, "' cy='");
    at += strcspn(at, ",") + 1;
    gyre_report_put_bytes(out, at, strcspn(at, ")"));
    gyre_report_put(out, "'>");
    put_hint(out, canvas, 0, series, point);
    gyre_report_put(out, "</circle>\n");
    return end;
}

/* out = a length in gnuplot's decimals, whose point strtod does not take in every locale. */
static double attribute(const char *tag, const char *name) {
    const char *value = after(tag, name);
    double digits = 0, scale = 1;
    for (int fraction = 0; value && ((*value >= '0' && *value <= '9') || *value == '.'); value++) {
        if (*value != '.') digits = 10 * digits + (*value - '0');
        if (*value != '.' && fraction) scale *= 10;
        fraction |= *value == '.';
    }
    return digits / scale;
}

static void put_length(gyre_report_buffer *out, const char *name, double value) {
    char number[64];
    gyre_report_format_number(number, 'f', 2, value);
    gyre_report_printf(out, " %s='%s'", name, number);
}

/* A rectangle with a hint over each part of a map. */
static void put_cells(gyre_report_buffer *out, const char *image, int64_t map, const gyre_report_canvas *canvas) {
    const double left = attribute(image, " x='"), top = attribute(image, " y='");
    const double width = attribute(image, " width='"), height = attribute(image, " height='");
    int64_t columns = 0, rows = 0;
    canvas->hint_grid(canvas->ctx, map, &columns, &rows);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++) {
            gyre_report_put(out, "<rect class='spot' stroke='none' fill='#000' fill-opacity='0'");
            put_length(out, "x", left + width * (double)column / (double)columns);
            put_length(out, "y", top + height * (double)(rows - 1 - row) / (double)rows);
            put_length(out, "width", width / (double)columns);
            put_length(out, "height", height / (double)rows);
            gyre_report_put(out, ">");
            put_hint(out, canvas, map, row, column);
            gyre_report_put(out, "</rect>\n");
        }
}

/* -- the rest -- */
/* gnuplot draws hollow symbols with hairlines.  out = the rest of the tag, still to be copied. */
static const char *put_thicker_symbol(gyre_report_buffer *out, const char *tag, const char *end) {
    static const char width[] = " stroke-width='";
    const char *at = strstr(tag, width);
    if (!at || at >= end) return tag;
    gyre_report_put_bytes(out, tag, (size_t)(at - tag));
    gyre_report_put(out, " stroke-width='0.36'");
    at += strlen(width);
    return at + strcspn(at, "'") + 1;
}

static int is_symbol(const char *tag) {
    return begins(tag + strcspn(tag, " >"), " id='gpPt");
}

/* out = the position after a group without content; NULL if it has some. */
static const char *skip_empty_group(const char *at) {
    if (!begins(at, "<g fill=\"none\"")) return NULL;
    const char *inside = after(at, ">");
    if (!inside) return NULL;
    inside += strspn(inside, " \t\n");
    return begins(inside, "</g>") ? inside + strlen("</g>") : NULL;
}

/* Maps have areas of one colour for cells without a value, and the scale, in groups of their own.  Figures drawn by a script
 * have other areas too, of few polygons each. */
static int is_colorbox(const char *at, const gyre_report_canvas *canvas) {
    if (!begins(at, "<g stroke='none' shape-rendering='crispEdges'>")) return 0;
    if (canvas->hint_grid) return !begins(at + strcspn(at, "\n") + 1, "\t\t<polygon fill = 'rgb(189, 193, 198)'");
    const char *end = strstr(at, "</g>");
    int polygons = 0;
    for (const char *p = strstr(at, "<polygon"); p && end && p < end && polygons < COLORS_OF_SCALE;
         p = strstr(p + 1, "<polygon"))
        polygons++;
    return polygons == COLORS_OF_SCALE;
}

/* Writes the replacement of the tag at `at`, which ends before `next`.  out = where to continue. */
static const char *put_edited(gyre_report_buffer *out, const char *at, const char *next, int64_t *maps,
                              const gyre_report_canvas *canvas) {
    static const char image[] = "<image ", group[] = "<g ";
    const char *empty = skip_empty_group(at);
    if (empty) return empty + strspn(empty, " \t\n");
    if (begins(at, "<title>") && strstr(at, "</title>")) return put_title(out, at, canvas);
    if (canvas->hint && begins(at, "<g onmousemove=")) return put_spot(out, at, canvas);
    if (begins(at, image)) {
        gyre_report_put(out, "<image style='image-rendering:pixelated' ");
        gyre_report_put_bytes(out, at + strlen(image), (size_t)(next - at) - strlen(image));
        if (canvas->hint_grid) put_cells(out, at, *maps, canvas);
        ++*maps;
        return next;
    }
    if (is_colorbox(at, canvas)) {
        gyre_report_put(out, "<g class='colorbox' ");
        at += strlen(group);
    }
    if (is_symbol(at)) at = put_thicker_symbol(out, at, next);
    put_recolored(out, at, next);
    return next;
}

void gyre_report_put_svg(gyre_report_buffer *out, const char *svg, const gyre_report_canvas *canvas) {
    const char *at = strstr(svg, "<svg"), *end = strstr(svg, "</svg>");
    int64_t maps = 0;
    gyre_report_put(out, "<svg role=\"img\"");
    at += strlen("<svg");
    while (at < end) {
        const char *next = at + 1 + strcspn(at + 1, "<");
        at = put_edited(out, at, next < end ? next : end, &maps, canvas);
        if (!at) break; /* a title or group that does not end: what follows is not gnuplot's */
    }
    gyre_report_put(out, "</svg>\n");
}
